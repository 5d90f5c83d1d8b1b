/* SPDX-License-Identifier: MIT */
#include "json/number.h"

#include "json/scan.h"

static struct hx_span digits_take(struct hx_span *text)
{
    size_t len = 0;
    while (len < text->len && hx_json_is_digit((unsigned char)text->ptr[len]))
        len++;
    struct hx_span digits = hx_span(text->ptr, len);
    *text = hx_span(text->ptr + len, text->len - len);
    return digits;
}

static size_t zeros_before(struct hx_span digits)
{
    size_t count = 0;
    while (count < digits.len && digits.ptr[count] == '0')
        count++;
    return count;
}

static size_t zeros_behind(struct hx_span digits)
{
    size_t count = 0;
    while (count < digits.len && digits.ptr[digits.len - 1 - count] == '0')
        count++;
    return count;
}

static struct hx_span drop_front(struct hx_span span, size_t count)
{
    return hx_span(span.ptr + count, span.len - count);
}

/* More digits than this overflow an int64_t, and no text is long enough to bring such an exponent
 * back into the range by the place of its point. */
enum { EXPONENT_DIGITS_MAX = 18 };

static bool exponent_parse(struct hx_span text, int64_t *ret_exponent)
{
    *ret_exponent = 0;
    if (text.len == 0)
        return true;
    text = drop_front(text, 1); /* e */
    bool is_negative = text.ptr[0] == '-';
    if (is_negative || text.ptr[0] == '+')
        text = drop_front(text, 1);
    text = drop_front(text, zeros_before(text));
    if (text.len > EXPONENT_DIGITS_MAX)
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++)
        value = value * 10 + (text.ptr[i] - '0');
    *ret_exponent = is_negative ? -value : value;
    return true;
}

bool hx_json_decimal_parse(struct hx_span raw, struct hx_json_decimal *ret_decimal)
{
    struct hx_json_decimal decimal = {.is_negative = raw.ptr[0] == '-'};
    if (decimal.is_negative)
        raw = drop_front(raw, 1);
    decimal.whole = digits_take(&raw);
    decimal.fraction = hx_span(raw.ptr, 0);
    if (raw.len > 0 && raw.ptr[0] == '.') {
        raw = drop_front(raw, 1);
        decimal.fraction = digits_take(&raw);
    }

    /* Zeros in front move the point; zeros behind mean nothing. */
    size_t zeros = zeros_before(decimal.whole);
    decimal.whole = drop_front(decimal.whole, zeros);
    int64_t point = (int64_t)decimal.whole.len;
    if (decimal.whole.len == 0) {
        zeros = zeros_before(decimal.fraction);
        decimal.fraction = drop_front(decimal.fraction, zeros);
        point = -(int64_t)zeros;
    }
    decimal.fraction.len -= zeros_behind(decimal.fraction);
    if (decimal.fraction.len == 0)
        decimal.whole.len -= zeros_behind(decimal.whole);

    if (hx_json_decimal_digits(&decimal) == 0) {
        *ret_decimal =
            (struct hx_json_decimal){.whole = hx_span(raw.ptr, 0), .fraction = hx_span(raw.ptr, 0)};
        return true;
    }
    int64_t exponent;
    if (!exponent_parse(raw, &exponent))
        return false;
    decimal.point = point + exponent; /* far from overflow: 10^18 and a text below 2^32 bytes */
    if (decimal.point - 1 > HX_JSON_EXPONENT_MAX || decimal.point - 1 < -HX_JSON_EXPONENT_MAX)
        return false;
    *ret_decimal = decimal;
    return true;
}
