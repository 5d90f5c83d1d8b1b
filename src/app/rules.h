/* SPDX-License-Identifier: MIT */
/*
 * The operator's settings in the form the engine works with.
 */
#ifndef HX_APP_RULES_H
#define HX_APP_RULES_H

#include "app/settings.h"
#include "engine/rules.h"

/* Fills *ret_rules for `tool`; texts and lists are borrowed from `settings`. Servers list tools
 * without end, so nothing is made for one. */
void hx_rules_for_tool(const struct hx_settings *settings, struct hx_span tool,
                       struct hx_tool_rules *ret_rules);

#endif
