/* SPDX-License-Identifier: MIT */
/*
 * Identifiers of 16 random bytes, laid out as UUIDv7 so that they sort by time and so that a ledger
 * index stays append-only. Their text form is the 36-byte UUID.
 */
#ifndef HX_BASE_ID_H
#define HX_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/time.h"

#define HX_ID_SIZE 16
#define HX_ID_TEXT_SIZE 37 /* with NUL */

struct hx_id {
    uint8_t bytes[HX_ID_SIZE];
};

/* Builds a UUIDv7 from wall time and 10 random bytes. */
struct hx_id hx_id_make(struct hx_wall wall, const uint8_t random[10]);
bool hx_id_eq(const struct hx_id *a, const struct hx_id *b);
bool hx_id_is_nil(const struct hx_id *id);
/* `ret_text` has HX_ID_TEXT_SIZE bytes. */
void hx_id_format(const struct hx_id *id, char *ret_text);
/* Accepts the 36-byte form in either letter case. */
bool hx_id_parse(struct hx_span text, struct hx_id *ret_id);
/* True when `id` is a version 7 UUID; then *ret_wall is the time inside it. */
bool hx_id_time(const struct hx_id *id, struct hx_wall *ret_wall);

#endif
