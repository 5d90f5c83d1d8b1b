/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"

void hx_buf_init(struct hx_buf *buf, size_t len_max)
{
    *buf = (struct hx_buf){.len_max = len_max};
}

void hx_buf_fini(struct hx_buf *buf)
{
    if (buf == NULL)
        return;
    hx_free(buf->data);
    *buf = (struct hx_buf){.len_max = buf->len_max};
}

void hx_buf_reset(struct hx_buf *buf)
{
    buf->len = 0;
    buf->is_failed = false;
    buf->is_refused = false;
}

static int fail(struct hx_buf *buf, bool is_refused)
{
    if (!buf->is_failed)
        buf->is_refused = is_refused;
    buf->is_failed = true;
    return buf->is_refused ? HX_E_NOMEM : HX_E_LIMIT;
}

/* There is always room for one byte more, so that vsnprintf can end its text. */
int hx_buf_reserve(struct hx_buf *buf, size_t extra)
{
    if (buf->len > buf->len_max || extra > buf->len_max - buf->len) {
        (void)fail(buf, false);
        return HX_RAISE(HX_E_LIMIT, "buffer limit of %zu bytes", buf->len_max);
    }
    if (extra < buf->capacity - buf->len)
        return 0;
    size_t wanted = buf->capacity ? buf->capacity : 256;
    while (wanted <= buf->len + extra)
        wanted *= 2;
    char *data = hx_realloc(buf->data, wanted);
    if (data == NULL) {
        (void)fail(buf, true);
        return HX_RAISE(HX_E_NOMEM, "buffer of %zu bytes", wanted);
    }
    buf->data = data;
    buf->capacity = wanted;
    return 0;
}

int hx_buf_append(struct hx_buf *buf, const void *bytes, size_t len)
{
    if (buf->is_failed)
        return fail(buf, false);
    if (len == 0)
        return 0;
    int rc = hx_buf_reserve(buf, len);
    if (rc < 0)
        return HX_TRACE(rc);
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    return 0;
}

int hx_buf_append_span(struct hx_buf *buf, struct hx_span span)
{
    return hx_buf_append(buf, span.ptr, span.len);
}

int hx_buf_append_cstr(struct hx_buf *buf, const char *text)
{
    return hx_buf_append(buf, text, strlen(text));
}

int hx_buf_append_char(struct hx_buf *buf, char byte)
{
    return hx_buf_append(buf, &byte, 1);
}

int hx_buf_printf(struct hx_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int needed = vsnprintf(NULL, 0, format, args);
    va_end(args);
    hx_assert(needed >= 0);
    if (buf->is_failed)
        return fail(buf, false);
    int rc = hx_buf_reserve(buf, (size_t)needed);
    if (rc < 0)
        return HX_TRACE(rc);
    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)needed + 1, format, args);
    va_end(args);
    buf->len += (size_t)needed;
    return 0;
}

void hx_buf_consume(struct hx_buf *buf, size_t count)
{
    hx_assert(count <= buf->len);
    if (count == 0)
        return;
    memmove(buf->data, buf->data + count, buf->len - count);
    buf->len -= count;
}
