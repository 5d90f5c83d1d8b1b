/* SPDX-License-Identifier: MIT */
/*
 * From the text of a setting to its value. Every refusal names the setting, what was given and what
 * is allowed.
 */
#ifndef HX_APP_VALUE_H
#define HX_APP_VALUE_H

#include "app/settings.h"

/* Reads `text` as the type of `row` into `slot`, which is the field itself. 0, or 1 with a
 * complaint; then *slot is as before. Texts are copied into `arena`. */
int hx_value_parse(const struct hx_setting_row *row, struct hx_span text, struct hx_arena *arena,
                   void *slot, struct hx_complaint *complaint) HX_MUST_CHECK;
/* The size of a field of this type. */
size_t hx_value_size(enum hx_setting_type type);

#endif
