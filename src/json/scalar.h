/* SPDX-License-Identifier: MIT */
/*
 * Strings, numbers and words: the parts of JSON that need no memory. Used by the reader.
 */
#ifndef HX_JSON_SCALAR_H
#define HX_JSON_SCALAR_H

#include <stdint.h>

#include "base/assert.h"
#include "base/span.h"

struct hx_json_cursor {
    const unsigned char *at;
    const unsigned char *end;
    const char *reason; /* after a refusal; `at` is then where */
};

/* All stand on the first byte of what they scan, and afterwards behind its last. 0, or
 * HX_JSON_BAD_SYNTAX or HX_JSON_BAD_UTF8. */

/* *ret_flags: HX_JSON_HAS_ESCAPES, HX_JSON_HAS_LONE_SURROGATE. */
int hx_json_scan_string(struct hx_json_cursor *cursor, uint8_t *ret_flags) HX_MUST_CHECK;
int hx_json_scan_number(struct hx_json_cursor *cursor) HX_MUST_CHECK;
int hx_json_scan_word(struct hx_json_cursor *cursor, struct hx_span word) HX_MUST_CHECK;

#endif
