/* SPDX-License-Identifier: MIT */
/*
 * The canonical form: two JSON values that mean the same have the same canonical bytes.
 *
 * RFC 8785 with one difference. Members are sorted by the UTF-16 code units of their names, strings
 * get the fewest escapes, no white space. Numbers keep their exact decimal value: RFC 8785 reads
 * them as doubles, under which 9007199254740993 and 9007199254740992 are one number, and two
 * transfers would share a fingerprint. Each value has one text: its significant digits without
 * zeros at either end, laid out as ECMAScript lays out a double with those digits:
 *
 *   1  1.0  1e0  10e-1   ->  1                -0  0.0  0e9 ->  0
 *   1e21                 ->  1e+21            1e400        ->  1e+400
 *   0.0000001            ->  1e-7             9007199254740993 stays
 *
 * So whenever a double prints the digits that were written, the text is that of RFC 8785. Digits
 * are never expanded beyond 21 places, whatever the exponent.
 *
 * The bytes go to a sink piece by piece. No Unicode folding. Changing any of this changes
 * HX_CANON_VERSION, which is stored with every fingerprint.
 */
#ifndef HX_JSON_CANON_H
#define HX_JSON_CANON_H

#include <stddef.h>

#include "json/tape.h"

#define HX_CANON_VERSION 1

enum hx_canon_outcome {
    HX_CANON_DUPLICATE_NAME = 1,
    HX_CANON_LONE_SURROGATE,
    HX_CANON_NUMBER_RANGE, /* beyond HX_JSON_EXPONENT_MAX of json/number.h */
    HX_CANON_OPAQUE        /* the tape does not hold the whole value */
};

typedef void hx_canon_sink(void *context, struct hx_span bytes);

/* Scratch memory, reused from value to value. */
struct hx_canon_frame;
struct hx_canon {
    struct hx_canon_frame *frames;
    uint32_t frame_capacity;
    uint32_t *order;
    uint32_t order_count;
    uint32_t order_capacity;
};

void hx_canon_init(struct hx_canon *canon);
void hx_canon_fini(struct hx_canon *canon);

/* Values to leave out, as JSON pointers below the value. The gap of an array element closes. */
struct hx_canon_ignore {
    const struct hx_span *pointers;
    size_t count; /* at most HX_CANON_IGNORE_MAX */
};
#define HX_CANON_IGNORE_MAX 64

/*
 * Streams the canonical form of the value at `index`. 0; HX_E_NOMEM; an enum hx_canon_outcome, when
 * the sink may have seen some bytes and *ret_offset (unless NULL) is where in the text the cause
 * is. `ignore` may be NULL.
 */
int hx_canon_write(struct hx_canon *canon, const struct hx_json_tape *tape, uint32_t index,
                   const struct hx_canon_ignore *ignore, hx_canon_sink *sink, void *context,
                   size_t *ret_offset) HX_MUST_CHECK;

#endif
