/* SPDX-License-Identifier: MIT */
#include "base/mac.h"

#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/assert.h"
#include "base/fault.h"

struct hx_digest hx_mac(struct hx_span key, const struct hx_span *parts, size_t count)
{
    static const char nothing[1];
    struct hx_digest mac;
    size_t len = 0;
    char hash[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", hash, 0),
                                 OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
    const char *secret = key.len > 0 ? key.ptr : nothing;
    int rc = EVP_MAC_init(context, (const unsigned char *)secret, key.len, params);
    for (size_t i = 0; i < count && rc == 1; i++)
        rc = EVP_MAC_update(context, (const unsigned char *)parts[i].ptr, parts[i].len);
    if (rc == 1)
        rc = EVP_MAC_final(context, mac.bytes, &len, sizeof(mac.bytes));
    hx_assert(rc == 1 && len == sizeof(mac.bytes)); /* only memory can be short */
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(hmac);
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
