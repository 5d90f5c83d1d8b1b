/* SPDX-License-Identifier: MIT */
/*
 * JSON numbers by their exact decimal value. No conversion to a machine number ever happens here,
 * so nothing is rounded and no exponent can make anything grow.
 */
#ifndef HX_JSON_NUMBER_H
#define HX_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define HX_JSON_EXPONENT_DIGITS_MAX 15

/* value = ± 0.DDD... x 10^point; the digits are whole.ptr[...] then fraction.ptr[...], with no zero
 * at either end. Zero has no digits. */
struct hx_json_decimal {
    bool is_negative;
    struct hx_span whole;
    struct hx_span fraction;
    int64_t point;
};

/* `raw` is a number that the reader accepted; borrowed. False when its exponent has more than
 * HX_JSON_EXPONENT_DIGITS_MAX digits and it is not zero. */
bool hx_json_decimal_parse(struct hx_span raw, struct hx_json_decimal *ret_decimal);

static inline size_t hx_json_decimal_digits(const struct hx_json_decimal *decimal)
{
    return decimal->whole.len + decimal->fraction.len;
}

#endif
