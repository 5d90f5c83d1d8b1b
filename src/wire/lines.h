/* SPDX-License-Identifier: MIT */
/*
 * Lines out of bytes, for stdio. Feed whatever a read gave, take items until there are none; how
 * the bytes were cut into reads makes no difference.
 *
 *  - A line ends with "\n". One "\r" before it belongs to the ending and is dropped: JSON can
 *    neither start nor end with anything that this would hurt, and we write "\n" ourselves.
 *  - A line over `line_max` is never held. Its bytes go through a skimmer that finds the raw
 *    top-level "id" wherever it stands, and through a hasher; then an OVERSIZE item comes out.
 *  - "Content-Length: n" means that the peer speaks the framing of language servers, which
 *    nothing on this side can understand; that gets its own kind so that the error can say so.
 */
#ifndef HX_WIRE_LINES_H
#define HX_WIRE_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/span.h"
#include "wire/skim.h"

enum hx_line_kind {
    HX_LINE_TEXT,     /* `text` is one line, maybe empty, UTF-8 not checked */
    HX_LINE_OVERSIZE, /* `text` is the raw "id" member or absent; `skim`, `size`, `digest` hold */
    HX_LINE_HEADER    /* `text` is a "Content-Length:" line */
};

struct hx_line {
    enum hx_line_kind kind;
    struct hx_span text; /* valid until the next call on the splitter and as long as the input */
    uint64_t size;       /* bytes of the line without its ending */
    bool is_terminated;  /* false only for what was left at the end of the input */
    struct hx_digest digest; /* OVERSIZE, and only with a hasher: SHA-256 over the line's bytes */
    struct hx_skim_result skim; /* OVERSIZE: what kind of message it was */
};

struct hx_lines {
    struct hx_buf partial; /* the start of a line whose end has not come */
    size_t line_max;
    struct hx_hasher *hasher; /* borrowed; NULL = no digest */
    struct hx_skim skim;
    uint64_t skipped; /* bytes of the oversize line so far */
    bool is_skipping;
    bool has_held_cr; /* skipping: a "\r" that may be part of the ending */
    bool is_taken;    /* `partial` was handed out and is to be dropped */
};

void hx_lines_init(struct hx_lines *lines, size_t line_max, struct hx_hasher *hasher);
void hx_lines_fini(struct hx_lines *lines);

/* Takes the next line off the front of `input`. True: *ret_line is set; call again. False: `input`
 * is used up and more is needed. Cannot fail: a line whose start could not be kept for want of
 * memory is treated as oversize, and nothing else is harmed. */
bool hx_lines_next(struct hx_lines *lines, struct hx_span *input, struct hx_line *ret_line);
/* A TEXT or HEADER line that its receiver has no memory for, seen as oversize: who waits for it is
 * found by its id. The rest of `line` is as it was. */
void hx_lines_refuse(struct hx_lines *lines, struct hx_line *line);
/* At the end of the input: what stood there without a newline, if anything. */
bool hx_lines_end(struct hx_lines *lines, struct hx_line *ret_line);

#endif
