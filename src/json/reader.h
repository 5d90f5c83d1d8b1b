/* SPDX-License-Identifier: MIT */
/*
 * The strict JSON reader (RFC 8259): one pass over one text, onto a tape.
 *
 * Refused: trailing bytes, NaN and friends, leading zeros, raw control characters, bytes that are
 * not UTF-8, a byte order mark, anything over a limit. Not refused but noted, because peers do send
 * them and unguarded traffic passes untouched: duplicate member names and lone surrogate escapes.
 *
 * Values deeper than `record_depth_max` are checked like all others but leave no token, so that a
 * result of 60 MB costs a handful. The root has depth 1. Duplicate names are looked for in recorded
 * objects only: whoever decides by the content of an object has recorded it. In the same way an
 * array of more than `elements_max` elements gives up their tokens and becomes opaque.
 */
#ifndef HX_JSON_READER_H
#define HX_JSON_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/span.h"
#include "json/tape.h"

#define HX_JSON_DEPTH_LIMIT 1024

enum hx_json_outcome {
    HX_JSON_BAD_SYNTAX = 1,
    HX_JSON_BAD_UTF8,
    HX_JSON_TOO_DEEP,
    HX_JSON_TOO_MANY, /* tokens */
    HX_JSON_TOO_LONG
};

struct hx_json_limits {
    uint32_t depth_max;        /* at most HX_JSON_DEPTH_LIMIT */
    uint32_t record_depth_max; /* 0 = record all */
    uint32_t elements_max;     /* of an array that is recorded; 0 = any number */
    uint32_t tokens_max;
    size_t text_max;
};

#define HX_JSON_LIMITS_DEFAULT                                                                     \
    ((struct hx_json_limits){.depth_max = 128,                                                     \
                             .record_depth_max = 0,                                                \
                             .tokens_max = 4u << 20,                                               \
                             .text_max = (size_t)256 << 20})

/*
 * 0: the tape holds the text, token 0 is the root. HX_E_NOMEM. Any enum hx_json_outcome: the text
 * is refused, tape->error_offset and tape->error_reason say where and why, and the tape is empty.
 */
int hx_json_read(struct hx_json_tape *tape, struct hx_span text,
                 const struct hx_json_limits *limits) HX_MUST_CHECK;

#endif
