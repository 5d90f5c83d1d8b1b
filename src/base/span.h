/* SPDX-License-Identifier: MIT */
/*
 * A borrowed run of bytes. Spans never own what they point at and are not NUL-terminated; whoever
 * hands one out says how long it lives. Bytes from outside travel as spans so that they can be
 * passed on untouched.
 */
#ifndef HX_BASE_SPAN_H
#define HX_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct hx_span {
    const char *ptr;
    size_t len;
};

#define HX_SPAN_LIT(literal) ((struct hx_span){(literal), sizeof(literal) - 1})
/* The same as an initializer of something static, where a compound literal is not allowed. */
#define HX_SPAN_INIT(literal)                                                                      \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define HX_SPAN_NONE ((struct hx_span){NULL, 0})
/* For printf: "%.*s" with HX_SPAN_FMT(span). */
#define HX_SPAN_FMT(span) (int)(span).len, (span).ptr

static inline struct hx_span hx_span(const char *ptr, size_t len)
{
    return (struct hx_span){ptr, len};
}

/* Borrows `text`; NULL gives the absent span. */
static inline struct hx_span hx_span_cstr(const char *text)
{
    return (struct hx_span){text, text ? strlen(text) : 0};
}

/* An absent span (no pointer) differs from an empty one (pointer, no bytes). */
static inline bool hx_span_is_absent(struct hx_span span)
{
    return span.ptr == NULL;
}

static inline bool hx_span_eq(struct hx_span a, struct hx_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool hx_span_eq_cstr(struct hx_span span, const char *text)
{
    return hx_span_eq(span, hx_span_cstr(text));
}

static inline bool hx_span_starts_with(struct hx_span span, struct hx_span prefix)
{
    return span.len >= prefix.len &&
           (prefix.len == 0 || memcmp(span.ptr, prefix.ptr, prefix.len) == 0);
}

/* ASCII only, so it never depends on a locale. */
bool hx_span_eq_nocase(struct hx_span a, struct hx_span b);
bool hx_span_contains(struct hx_span haystack, struct hx_span needle);
bool hx_span_contains_nocase(struct hx_span haystack, struct hx_span needle);

#endif
