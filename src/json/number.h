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

/* Of a number written with one digit before the point, d.ddd x 10^exponent; to either side. */
#define HX_JSON_EXPONENT_MAX 999999999999999

/* value = ± 0.DDD... x 10^point; the digits are whole.ptr[...] then fraction.ptr[...], with no zero
 * at either end. Zero has no digits. */
struct hx_json_decimal {
    bool is_negative;
    struct hx_span whole;
    struct hx_span fraction;
    int64_t point;
};

/* `raw` is a number that the reader accepted; borrowed. False when it is not zero and its exponent,
 * as said above, is beyond HX_JSON_EXPONENT_MAX. That is a property of the value: of two spellings
 * of one number both are refused or none. */
bool hx_json_decimal_parse(struct hx_span raw, struct hx_json_decimal *ret_decimal);

static inline size_t hx_json_decimal_digits(const struct hx_json_decimal *decimal)
{
    return decimal->whole.len + decimal->fraction.len;
}

#endif
