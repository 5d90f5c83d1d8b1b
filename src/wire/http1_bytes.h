/* SPDX-License-Identifier: MIT */
/*
 * Which bytes may stand where in a head. One table, a bit for each place.
 */
#ifndef HX_WIRE_HTTP1_BYTES_H
#define HX_WIRE_HTTP1_BYTES_H

#include <stdint.h>

enum {
    HX_HTTP1_TOKEN = 1,  /* method, header name: RFC 9110 tchar */
    HX_HTTP1_VALUE = 2,  /* header value: HTAB, SP, visible, and bytes of 0x80 and above */
    HX_HTTP1_TARGET = 4, /* path */
    HX_HTTP1_QUERY = 8,
    HX_HTTP1_HOST = 16, /* name or address with port */
    HX_HTTP1_DIGIT = 32
};

extern const uint8_t hx_http1_bytes[256];

static inline int hx_http1_is(char byte, unsigned kind)
{
    return (hx_http1_bytes[(unsigned char)byte] & kind) != 0;
}

#endif
