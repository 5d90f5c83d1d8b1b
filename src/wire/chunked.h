/* SPDX-License-Identifier: MIT */
/*
 * Bodies in chunks, both ways.
 *
 * The reader takes exactly the grammar: 1 to 15 hex digits, CR LF after the size and after the
 * data, nothing between digits and ";". Extensions and trailers mean nothing to us; they are
 * checked, bounded over the whole body and dropped, so that no peer can hide bytes in them for
 * ever, and no trailer can become a header.
 *
 *     while ((rc = hx_chunked_next(&chunked, &input, &data)) == 0)
 *         ... data ...
 */
#ifndef HX_WIRE_CHUNKED_H
#define HX_WIRE_CHUNKED_H

#include <stdint.h>

#include "base/assert.h"
#include "base/span.h"

enum { HX_CHUNKED_SIDE_BYTES_MAX = 8192, HX_CHUNKED_PREFIX_MAX = 18 };

/* Starts zeroed. */
struct hx_chunked {
    uint8_t state;
    uint8_t digits;
    uint16_t side_bytes; /* of extensions and trailers so far */
    uint64_t left;       /* of the present chunk */
};

enum {
    HX_CHUNKED_MORE = 1, /* `input` is used up */
    HX_CHUNKED_END = 2,  /* the body is over; `input` holds what follows it */
    HX_CHUNKED_BAD = 3   /* no body can be made of this */
};

/* Takes from the front of `input`. 0: *ret_data is the next run of the body, not empty, a part of
 * the input; call again. Else one of the above; after END and BAD there is no next call. */
int hx_chunked_next(struct hx_chunked *chunked, struct hx_span *input,
                    struct hx_span *ret_data) HX_MUST_CHECK;

/* Writes what goes before a chunk of `size` bytes (not 0: that would end the body) and returns its
 * length. Behind the chunk goes "\r\n". */
size_t hx_chunked_prefix(uint64_t size, char ret_text[HX_CHUNKED_PREFIX_MAX]);
#define HX_CHUNKED_SUFFIX HX_SPAN_LIT("\r\n")
#define HX_CHUNKED_LAST HX_SPAN_LIT("0\r\n\r\n")

#endif
