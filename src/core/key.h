/* SPDX-License-Identifier: MIT */
/*
 * The caller's key: what a well-formed one is, how old it is, and whether it is too old to be
 * known.
 */
#ifndef HX_CORE_KEY_H
#define HX_CORE_KEY_H

#include "base/id.h"
#include "base/span.h"
#include "base/time.h"

enum { HX_KEY_LEN_MAX = 255 };

/* NULL when `key` is acceptable, else one sentence that says what is wrong with it. */
const char *hx_key_flaw(struct hx_span key);

/* A key that was handed out by us looks so: the prefix, an id that holds its time, a hyphen and a
 * tag in hex. Whether it really was, only the holder of the secret can say (engine/issue.c). */
#define HX_KEY_ISSUED_PREFIX "hxk-"
struct hx_key_issued {
    struct hx_id id;
    struct hx_span id_text;
    struct hx_span tag;
};
bool hx_key_issued(struct hx_span key, struct hx_key_issued *ret_parts);

struct hx_key_time {
    struct hx_wall first_sent; /* the older of the two sources; 0 = the key has no time */
    bool is_in_key;            /* a UUIDv7, and what we hand out, carries its time itself */
};

/* `first_sent` is the caller's own statement (0 = none). */
struct hx_key_time hx_key_time(struct hx_span key, struct hx_wall first_sent);

enum hx_key_age { HX_KEY_AGE_GOOD, HX_KEY_AGE_EXPIRED, HX_KEY_AGE_FUTURE };

/* Judges a key that the ledger does not know. More than five minutes ahead of our clock: FUTURE.
 * Older than the low-water mark: EXPIRED. A key without a time is good. */
enum hx_key_age hx_key_age(struct hx_key_time time, struct hx_wall now, struct hx_wall low_water);

#endif
