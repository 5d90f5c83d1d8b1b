/* SPDX-License-Identifier: MIT */
/*
 * Splits a byte stream into lines. A stand-in until wire/lines is there.
 */
#ifndef HX_LOOP_LINE_READER_H
#define HX_LOOP_LINE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct hx_line_reader {
    struct hx_buf line;
    uint64_t skipped_bytes;                           /* of an over-long line; 0 = none */
    void (*got_line)(void *arg, struct hx_buf *line); /* may take the content */
    void (*got_oversize)(void *arg, uint64_t size);
    void *arg;
};

void hx_line_reader_feed(struct hx_line_reader *reader, const char *bytes, size_t len);
void hx_line_reader_end(struct hx_line_reader *reader);

#endif
