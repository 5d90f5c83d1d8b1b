/* SPDX-License-Identifier: MIT */
#include "base/span.h"

static unsigned char ascii_lower(unsigned char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte + ('a' - 'A')) : byte;
}

bool hx_span_eq_nocase(struct hx_span a, struct hx_span b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (ascii_lower((unsigned char)a.ptr[i]) != ascii_lower((unsigned char)b.ptr[i]))
            return false;
    }
    return true;
}

bool hx_span_contains(struct hx_span haystack, struct hx_span needle)
{
    return needle.len == 0 || (haystack.len >= needle.len &&
                               memmem(haystack.ptr, haystack.len, needle.ptr, needle.len) != NULL);
}

bool hx_span_contains_nocase(struct hx_span haystack, struct hx_span needle)
{
    if (needle.len == 0)
        return true;
    for (size_t at = 0; at + needle.len <= haystack.len; at++) {
        if (hx_span_eq_nocase(hx_span(haystack.ptr + at, needle.len), needle))
            return true;
    }
    return false;
}
