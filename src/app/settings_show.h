/* SPDX-License-Identifier: MIT */
/*
 * The settings as they are in force, in the words by which they are set.
 */
#ifndef HX_APP_SETTINGS_SHOW_H
#define HX_APP_SETTINGS_SHOW_H

#include <stdio.h>

#include "app/settings.h"
#include "base/buf.h"

/* Appends the text that would set `slot`, a field of the type of `row`, to what it is. */
void hx_value_format(const struct hx_setting_row *row, const void *slot, struct hx_buf *ret_text);

/* One line for each setting: "name = value", with what it is for all tools first and then what is
 * different for the tools of each rule. A value that nobody set is marked as default. */
void hx_settings_show(const struct hx_settings *settings, FILE *out);

#endif
