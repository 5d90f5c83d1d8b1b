/* SPDX-License-Identifier: MIT */
/*
 * Event streams (text/event-stream), both ways.
 *
 * The reader does what the WHATWG algorithm does, on bytes, and is fed in any pieces: lines end in
 * CR, LF or CRLF, mixed; a comment or an unknown field is nothing; several data lines are joined
 * with LF; an id lasts until another comes, also when its event had no data; a byte order mark at
 * the start is skipped; what stands at the end without an empty line is no event. An event comes
 * out with the first byte of its empty line: it never waits for the LF behind a CR.
 *
 * An event whose data are over `data_max` is not held: as with lines, they go through a skimmer and
 * a hasher, and an oversize event comes out.
 *
 *     while (hx_sse_next(&reader, &input, &event))
 *         ... event ...
 */
#ifndef HX_WIRE_SSE_H
#define HX_WIRE_SSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/span.h"
#include "wire/skim.h"

enum {
    HX_SSE_ID_MAX = 1024,  /* a longer id is ignored, and so is its resumption */
    HX_SSE_TYPE_MAX = 256, /* a longer type is "" */
    HX_SSE_FIELD_MAX = 8
};

struct hx_sse_event {
    struct hx_span data; /* OVERSIZE: the raw top-level "id" member, or absent */
    struct hx_span type; /* "" = message */
    struct hx_span id;   /* the last id so far; "" = none */
    uint64_t size;       /* of the data */
    bool is_oversize;
    struct hx_digest digest;    /* oversize, and only with a hasher: over the data */
    struct hx_skim_result skim; /* oversize */
};

struct hx_sse_reader {
    size_t data_max;
    struct hx_hasher *hasher; /* borrowed; NULL = no digest */
    struct hx_buf data;
    struct hx_buf type;
    struct hx_buf id_coming; /* of the line being read */
    struct hx_buf id;
    struct hx_skim *skim; /* owned; made when first needed */
    uint64_t size;        /* of the data of the event being read */
    int64_t retry_ms;     /* the last retry field; -1 = none */
    int64_t retry_coming_ms;
    char field[HX_SSE_FIELD_MAX];
    uint8_t field_len;
    uint8_t kind;
    uint8_t place; /* in the line */
    uint8_t bom;   /* bytes of it seen; 3 = past it */
    bool was_cr;
    bool has_data;
    bool is_oversize;
    bool is_value_bad; /* of the id or retry being read */
    bool is_taken;     /* the last event was handed out and is to be forgotten */
};

void hx_sse_reader_init(struct hx_sse_reader *reader, size_t data_max, struct hx_hasher *hasher);
void hx_sse_reader_fini(struct hx_sse_reader *reader);

/* Takes the next event off the front of `input`. True: *ret_event is set, valid until the next
 * call; call again. False: `input` is used up. Cannot fail: data for which there is no memory are
 * treated as oversize. */
bool hx_sse_next(struct hx_sse_reader *reader, struct hx_span *input,
                 struct hx_sse_event *ret_event);
/* What to send as Last-Event-ID: "" = nothing. Valid until the next call. */
struct hx_span hx_sse_last_id(const struct hx_sse_reader *reader);

/* What a writer may say; absent spans and a negative retry are left out. */
struct hx_sse_fields {
    struct hx_span id;   /* no CR, LF or NUL: asserted, ids are ours */
    struct hx_span type; /* no CR or LF */
    struct hx_span data; /* present, maybe empty: a data line. A line end in it, of any of the three
                            kinds, starts another data line and is read as LF. */
    int64_t retry_ms;
};

/* Appends one event. */
void hx_sse_write_event(struct hx_buf *out, const struct hx_sse_fields *fields);
/* Appends a comment, which no reader sees: a sign of life. */
#define HX_SSE_COMMENT HX_SPAN_LIT(":\n\n")

#endif
