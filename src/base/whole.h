/* SPDX-License-Identifier: MIT */
/*
 * Whole numbers as text: decimal digits and nothing else, so no sign, no blank and no locale.
 */
#ifndef HX_BASE_WHOLE_H
#define HX_BASE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* The digits that `text` begins with; something else may follow them. False when there are none, or
 * when the number exceeds INT64_MAX. */
bool hx_whole_parse_front(struct hx_span text, size_t *ret_used, int64_t *ret_number);

/* The same, where nothing may follow them. */
bool hx_whole_parse(struct hx_span text, int64_t *ret_number);

#endif
