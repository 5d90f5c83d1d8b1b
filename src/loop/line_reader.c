/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "loop/line_reader.h"

static void emit(struct hx_line_reader *reader)
{
    size_t len_max = reader->line.len_max;

    if (reader->skipped_bytes > 0) {
        reader->got_oversize(reader->arg, reader->skipped_bytes);
    } else {
        reader->got_line(reader->arg, &reader->line);
        if (reader->line.data == NULL)
            hx_buf_init(&reader->line, len_max);
    }
    reader->skipped_bytes = 0;
    hx_buf_reset(&reader->line);
}

static void add(struct hx_line_reader *reader, const char *bytes, size_t len)
{
    if (reader->skipped_bytes == 0 && (len == 0 || hx_buf_append(&reader->line, bytes, len) == 0))
        return;
    reader->skipped_bytes += reader->line.len + len;
    hx_buf_reset(&reader->line);
}

void hx_line_reader_feed(struct hx_line_reader *reader, const char *bytes, size_t len)
{
    const char *end = bytes + len;

    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        if (newline == NULL) {
            add(reader, bytes, (size_t)(end - bytes));
            return;
        }
        add(reader, bytes, (size_t)(newline - bytes));
        emit(reader);
        bytes = newline + 1;
    }
}

void hx_line_reader_end(struct hx_line_reader *reader)
{
    if (reader->line.len > 0 || reader->skipped_bytes > 0)
        emit(reader);
}
