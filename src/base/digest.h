/* SPDX-License-Identifier: MIT */
/*
 * SHA-256. One hasher belongs to one thread and is made once: looking the algorithm up per call is
 * the slow path of OpenSSL 3.
 */
#ifndef HX_BASE_DIGEST_H
#define HX_BASE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define HX_DIGEST_SIZE 32
#define HX_DIGEST_HEX_SIZE 65 /* with NUL */

struct hx_digest {
    uint8_t bytes[HX_DIGEST_SIZE];
};

struct hx_hasher;

/* Never returns NULL. */
struct hx_hasher *hx_hasher_new(void);
struct hx_hasher *hx_hasher_free(struct hx_hasher *hasher);
void hx_hasher_begin(struct hx_hasher *hasher);
void hx_hasher_add(struct hx_hasher *hasher, struct hx_span bytes);
/* Adds the length (8 bytes, big endian) and then the bytes, so that fields cannot run together. An
 * absent span counts as length 2^64-1. */
void hx_hasher_add_field(struct hx_hasher *hasher, struct hx_span bytes);
struct hx_digest hx_hasher_end(struct hx_hasher *hasher);

bool hx_digest_eq(const struct hx_digest *a, const struct hx_digest *b);
/* The same in a time that tells nothing of where they differ; 1 or 0, to be used without a branch.
 */
unsigned hx_digest_eq_secret(const struct hx_digest *a, const struct hx_digest *b);
/* Lower-case hex into HX_DIGEST_HEX_SIZE bytes. */
void hx_digest_hex(const struct hx_digest *digest, char *ret_text);
/* `hex` gets 2*len+1 bytes. */
void hx_hex_encode(const uint8_t *bytes, size_t len, char *ret_hex);
/* False unless `hex` is exactly 2*len hex digits. */
bool hx_hex_decode(struct hx_span hex, uint8_t *ret_bytes, size_t len);

#endif
