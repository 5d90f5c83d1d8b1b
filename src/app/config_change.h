/* SPDX-License-Identifier: MIT */
/*
 * Two configurations beside each other, for a process that reads its own again: what it cannot
 * change while it runs, and which upstreams are others now.
 */
#ifndef HX_APP_CONFIG_CHANGE_H
#define HX_APP_CONFIG_CHANGE_H

#include "app/config.h"

/* What differs and holds for the life of a process: "ledger", "limits: sessions", "listen" ... A
 * text for ever; NULL when there is nothing. */
const char *hx_config_fixed_change(const struct hx_config *before, const struct hx_config *after);

/* Nothing that a connection or a rule is made of differs. What stands in files that they name is
 * not looked at. */
bool hx_config_upstream_is_same(const struct hx_config_upstream *a,
                                const struct hx_config_upstream *b);

#endif
