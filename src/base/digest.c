/* SPDX-License-Identifier: MIT */
#include "base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/alloc.h"
#include "base/assert.h"

struct hx_hasher {
    EVP_MD *md;
    EVP_MD_CTX *ctx;
};

struct hx_hasher *hx_hasher_new(void)
{
    struct hx_hasher *hasher = hx_new(struct hx_hasher);
    hasher->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    hasher->ctx = EVP_MD_CTX_new();
    hx_assert(hasher->md != NULL);
    hx_assert(hasher->ctx != NULL);
    return hasher;
}

struct hx_hasher *hx_hasher_free(struct hx_hasher *hasher)
{
    if (hasher != NULL) {
        EVP_MD_CTX_free(hasher->ctx);
        EVP_MD_free(hasher->md);
    }
    return hx_free(hasher);
}

void hx_hasher_begin(struct hx_hasher *hasher)
{
    int is_done = EVP_DigestInit_ex2(hasher->ctx, hasher->md, NULL);
    hx_assert(is_done == 1);
}

void hx_hasher_add(struct hx_hasher *hasher, struct hx_span bytes)
{
    int is_done = EVP_DigestUpdate(hasher->ctx, bytes.ptr, bytes.len);
    hx_assert(is_done == 1);
}

void hx_hasher_add_field(struct hx_hasher *hasher, struct hx_span bytes)
{
    uint64_t len = hx_span_is_absent(bytes) ? UINT64_MAX : bytes.len;
    char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (char)(len >> (56 - 8 * i));
    hx_hasher_add(hasher, hx_span(prefix, sizeof(prefix)));
    hx_hasher_add(hasher, bytes);
}

struct hx_digest hx_hasher_end(struct hx_hasher *hasher)
{
    struct hx_digest digest;
    int is_done = EVP_DigestFinal_ex(hasher->ctx, digest.bytes, NULL);
    hx_assert(is_done == 1);
    return digest;
}

bool hx_digest_eq(const struct hx_digest *a, const struct hx_digest *b)
{
    return memcmp(a->bytes, b->bytes, HX_DIGEST_SIZE) == 0;
}

unsigned hx_digest_eq_secret(const struct hx_digest *a, const struct hx_digest *b)
{
    /* Of the library, and not inlined, so no compiler makes an early exit of it. It gives an or of
     * bytes, 0 to 255, which the shift turns into 1 for 0 and 0 for all others. */
    unsigned difference = (unsigned)CRYPTO_memcmp(a->bytes, b->bytes, HX_DIGEST_SIZE);
    return (difference - 1) >> (sizeof(difference) * 8 - 1);
}

void hx_hex_encode(const uint8_t *bytes, size_t len, char *ret_hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        ret_hex[2 * i] = digits[bytes[i] >> 4];
        ret_hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_hex[2 * len] = '\0';
}

void hx_digest_hex(const struct hx_digest *digest, char *ret_text)
{
    hx_hex_encode(digest->bytes, HX_DIGEST_SIZE, ret_text);
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

bool hx_hex_decode(struct hx_span hex, uint8_t *ret_bytes, size_t len)
{
    if (hex.len != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(hex.ptr[2 * i]);
        int low = hex_value(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
