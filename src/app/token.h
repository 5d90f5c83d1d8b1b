/* SPDX-License-Identifier: MIT */
/*
 * Bearer tokens: what one looks like, and its hash, which is all that is kept of it.
 *
 * Ours have 256 random bits, so a plain SHA-256 is enough: there is nothing to guess.
 */
#ifndef HX_APP_TOKEN_H
#define HX_APP_TOKEN_H

#include <stdbool.h>

#include "base/digest.h"
#include "base/span.h"
#include "port/rand.h"

#define HX_TOKEN_PREFIX "hpx_"
#define HX_TOKEN_SIZE 48 /* "hpx_", 43 of base64url, NUL */
/* Of one that somebody else made: below it, it can be guessed. */
#define HX_TOKEN_LEN_MIN 20
#define HX_TOKEN_LEN_MAX 1024

void hx_token_make(struct hx_rand *rand, char ret_token[HX_TOKEN_SIZE]);
struct hx_digest hx_token_hash(struct hx_hasher *hasher, struct hx_span token);
/* Without the newline, carriage return and blanks around it. */
struct hx_span hx_token_trim(struct hx_span text);
/* Whether it can stand in an Authorization header and is not too short. */
bool hx_token_is_good(struct hx_span token);

#endif
