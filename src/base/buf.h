/* SPDX-License-Identifier: MIT */
/*
 * A growing byte buffer with a maximum. Appending past the maximum or past memory fails and leaves
 * what was there; a failed buffer remembers it, so a run of appends may be checked once at the end
 * with hx_buf_ok().
 */
#ifndef HX_BASE_BUF_H
#define HX_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/span.h"

struct hx_buf {
    char *data; /* owned; NULL while empty */
    size_t len;
    size_t capacity;
    size_t len_max;
    bool is_failed;
    bool is_refused; /* failed for want of memory, and not at the maximum */
};

void hx_buf_init(struct hx_buf *buf, size_t len_max);
void hx_buf_fini(struct hx_buf *buf);
/* Forgets the content and a failure; keeps the memory. */
void hx_buf_reset(struct hx_buf *buf);
/* 0, or HX_E_LIMIT / HX_E_NOMEM. */
int hx_buf_reserve(struct hx_buf *buf, size_t extra);
int hx_buf_append(struct hx_buf *buf, const void *bytes, size_t len);
int hx_buf_append_span(struct hx_buf *buf, struct hx_span span);
int hx_buf_append_cstr(struct hx_buf *buf, const char *text);
int hx_buf_append_char(struct hx_buf *buf, char byte);
int hx_buf_printf(struct hx_buf *buf, const char *format, ...) HX_PRINTF(2, 3);
/* Drops `count` bytes from the front. */
void hx_buf_consume(struct hx_buf *buf, size_t count);

static inline bool hx_buf_ok(const struct hx_buf *buf)
{
    return !buf->is_failed;
}

/* Valid until the next append. */
static inline struct hx_span hx_buf_span(const struct hx_buf *buf)
{
    return hx_span(buf->data ? buf->data : "", buf->len);
}

#endif
