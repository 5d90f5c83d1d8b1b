/* SPDX-License-Identifier: MIT */
#include "base/mac.h"

#include <string.h>

#include "base/fault.h"

enum { BLOCK_SIZE = 64 };

struct hx_digest hx_mac(struct hx_span key, const struct hx_span *parts, size_t count)
{
    char pad[BLOCK_SIZE] = {0};
    struct hx_hasher *hasher = hx_hasher_new();
    if (key.len > BLOCK_SIZE) {
        hx_hasher_begin(hasher);
        hx_hasher_add(hasher, key);
        struct hx_digest short_key = hx_hasher_end(hasher);
        memcpy(pad, short_key.bytes, sizeof(short_key.bytes));
    } else if (key.len > 0) {
        memcpy(pad, key.ptr, key.len);
    }
    for (int i = 0; i < BLOCK_SIZE; i++)
        pad[i] ^= 0x36;
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span(pad, sizeof(pad)));
    for (size_t i = 0; i < count; i++)
        hx_hasher_add(hasher, parts[i]);
    struct hx_digest inner = hx_hasher_end(hasher);
    for (int i = 0; i < BLOCK_SIZE; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span(pad, sizeof(pad)));
    hx_hasher_add(hasher, hx_span((const char *)inner.bytes, sizeof(inner.bytes)));
    struct hx_digest mac = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    return mac;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hx_base64_encode(struct hx_span bytes, struct hx_buf *out)
{
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        unsigned group = (unsigned)(unsigned char)bytes.ptr[i] << 16;
        if (left > 1)
            group |= (unsigned)(unsigned char)bytes.ptr[i + 1] << 8;
        if (left > 2)
            group |= (unsigned)(unsigned char)bytes.ptr[i + 2];
        char four[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63],
                        alphabet[group >> 6 & 63], alphabet[group & 63]};
        if (left < 3)
            four[3] = '=';
        if (left < 2)
            four[2] = '=';
        int rc = hx_buf_append(out, four, sizeof(four));
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

static int value_of(char letter)
{
    const char *at = letter != '\0' ? strchr(alphabet, letter) : NULL;
    return at != NULL ? (int)(at - alphabet) : -1;
}

int hx_base64_decode(struct hx_span text, struct hx_buf *out)
{
    if (text.len % 4 != 0)
        return 1;
    for (size_t i = 0; i < text.len; i += 4) {
        const char *four = text.ptr + i;
        bool is_last = i + 4 == text.len;
        size_t padding = is_last && four[3] == '=' ? (four[2] == '=' ? 2 : 1) : 0;
        unsigned group = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k + padding < 4 ? value_of(four[k]) : 0;
            if (value < 0)
                return 1;
            group = group << 6 | (unsigned)value;
        }
        char three[3] = {(char)(group >> 16), (char)(group >> 8), (char)group};
        int rc = hx_buf_append(out, three, 3 - padding);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}
