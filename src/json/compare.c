/* SPDX-License-Identifier: MIT */
#include "json/compare.h"

#include <string.h>

#include "json/number.h"
#include "json/scalar.h"
#include "json/scan.h"
#include "json/text.h"

/* What an operator wrote, as far as it can be compared. */
struct wanted {
    enum hx_json_type type; /* STRING, NUMBER, TRUE, FALSE or NULL */
    struct hx_span text;    /* of a string the content between its quotes */
    bool is_comparable;     /* numbers, and strings that can be read in one way only */
};

static size_t count_digits(struct hx_span text, size_t from)
{
    size_t count = 0;
    while (from + count < text.len && text.ptr[from + count] >= '0' &&
           text.ptr[from + count] <= '9')
        count++;
    return count;
}

/* As the grammar of JSON has it. */
static bool is_number(struct hx_span text)
{
    size_t at = text.len > 0 && text.ptr[0] == '-' ? 1 : 0;
    size_t digits = count_digits(text, at);
    if (digits == 0 || (digits > 1 && text.ptr[at] == '0'))
        return false;
    at += digits;
    if (at < text.len && text.ptr[at] == '.') {
        digits = count_digits(text, at + 1);
        if (digits == 0)
            return false;
        at += 1 + digits;
    }
    if (at < text.len && (text.ptr[at] == 'e' || text.ptr[at] == 'E')) {
        at++;
        if (at < text.len && (text.ptr[at] == '+' || text.ptr[at] == '-'))
            at++;
        digits = count_digits(text, at);
        if (digits == 0)
            return false;
        at += digits;
    }
    return at == text.len;
}

static bool is_utf8(struct hx_span text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    const unsigned char *end = at + text.len;
    while (at < end) {
        unsigned len = hx_json_utf8_len(at, end);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

static bool is_whole_string(struct hx_span text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    struct hx_json_cursor cursor = {.at = at, .end = at + text.len};
    uint8_t flags;
    return hx_json_scan_string(&cursor, &flags) == 0 && cursor.at == cursor.end;
}

bool hx_json_wanted_is_good(struct hx_span wanted)
{
    bool is_quoted = wanted.len > 0 && wanted.ptr[0] == '"';
    return is_quoted ? is_whole_string(wanted) : is_utf8(wanted);
}

static struct wanted read_wanted(struct hx_span text)
{
    /* A bad escape would be read as another text, or beyond the end of this one. */
    if (!hx_json_wanted_is_good(text))
        return (struct wanted){.type = HX_JSON_STRING, .is_comparable = false};
    if (text.len > 0 && text.ptr[0] == '"')
        return (struct wanted){.type = HX_JSON_STRING,
                               .text = hx_span(text.ptr + 1, text.len - 2),
                               .is_comparable = true};
    if (hx_span_eq_cstr(text, "true"))
        return (struct wanted){.type = HX_JSON_TRUE};
    if (hx_span_eq_cstr(text, "false"))
        return (struct wanted){.type = HX_JSON_FALSE};
    if (hx_span_eq_cstr(text, "null"))
        return (struct wanted){.type = HX_JSON_NULL};
    if (is_number(text))
        return (struct wanted){.type = HX_JSON_NUMBER, .text = text, .is_comparable = true};
    /* A backslash outside of quotes would be read as an escape. */
    bool is_plain = text.len == 0 || memchr(text.ptr, '\\', text.len) == NULL;
    return (struct wanted){.type = HX_JSON_STRING, .text = text, .is_comparable = is_plain};
}

static char digit_at(const struct hx_json_decimal *decimal, size_t at)
{
    if (at < decimal->whole.len)
        return decimal->whole.ptr[at];
    at -= decimal->whole.len;
    return at < decimal->fraction.len ? decimal->fraction.ptr[at] : '0';
}

/* By absolute value: < 0, 0, > 0. */
static int compare_magnitude(const struct hx_json_decimal *a, const struct hx_json_decimal *b)
{
    size_t a_digits = hx_json_decimal_digits(a), b_digits = hx_json_decimal_digits(b);
    if (a_digits == 0 || b_digits == 0)
        return (a_digits > 0) - (b_digits > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    size_t digits = a_digits > b_digits ? a_digits : b_digits;
    for (size_t i = 0; i < digits; i++) {
        char left = digit_at(a, i), right = digit_at(b, i);
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

static bool compare_numbers(struct hx_span left, struct hx_span right, int *ret_order)
{
    struct hx_json_decimal a, b;
    if (!hx_json_decimal_parse(left, &a) || !hx_json_decimal_parse(right, &b))
        return false;
    bool is_a_below = a.is_negative && hx_json_decimal_digits(&a) > 0;
    bool is_b_below = b.is_negative && hx_json_decimal_digits(&b) > 0;
    int magnitude = compare_magnitude(&a, &b);
    if (is_a_below != is_b_below)
        *ret_order = is_a_below ? -1 : 1;
    else
        *ret_order = is_a_below ? -magnitude : magnitude;
    return true;
}

/* The order of the two, where they have one. */
static bool find_order(const struct hx_json_tape *tape, uint32_t index, const struct wanted *wanted,
                       int *ret_order)
{
    if (wanted->type == HX_JSON_NUMBER && hx_json_is(tape, index, HX_JSON_NUMBER))
        return compare_numbers(hx_json_raw(tape, index), wanted->text, ret_order);
    if (wanted->type == HX_JSON_STRING && wanted->is_comparable &&
        hx_json_is(tape, index, HX_JSON_STRING)) {
        *ret_order = hx_json_text_compare(hx_json_content(tape, index), wanted->text);
        return true;
    }
    return false;
}

/* Equal or not? What is missing, or null, is like nothing else; but 100 and "100" may well mean the
 * same to who wrote them. */
static bool is_comparable_with(const struct hx_json_tape *tape, uint32_t index,
                               const struct wanted *wanted)
{
    if (index == HX_JSON_NONE || wanted->type == HX_JSON_NULL ||
        hx_json_is(tape, index, HX_JSON_NULL))
        return true;
    bool is_boolean =
        hx_json_is(tape, index, HX_JSON_TRUE) || hx_json_is(tape, index, HX_JSON_FALSE);
    return is_boolean && (wanted->type == HX_JSON_TRUE || wanted->type == HX_JSON_FALSE);
}

static enum hx_holds verdict(bool is_so)
{
    return is_so ? HX_HOLDS_YES : HX_HOLDS_NO;
}

enum hx_holds hx_json_holds(const struct hx_json_tape *tape, uint32_t index,
                            enum hx_comparison comparison, struct hx_span wanted_text)
{
    struct wanted wanted = read_wanted(wanted_text);
    int order = 0;
    bool is_ordered = find_order(tape, index, &wanted, &order);
    bool is_scalar_word = wanted.type != HX_JSON_NUMBER && wanted.type != HX_JSON_STRING;
    bool is_equal =
        is_ordered ? order == 0 : is_scalar_word && hx_json_is(tape, index, wanted.type);
    bool is_comparable = is_ordered || is_comparable_with(tape, index, &wanted);
    switch (comparison) {
    case HX_CMP_EQ:
        return is_comparable ? verdict(is_equal) : HX_HOLDS_CANNOT_SAY;
    case HX_CMP_NE:
        return is_comparable ? verdict(!is_equal) : HX_HOLDS_CANNOT_SAY;
    case HX_CMP_LT:
        return is_ordered ? verdict(order < 0) : HX_HOLDS_CANNOT_SAY;
    case HX_CMP_LE:
        return is_ordered ? verdict(order <= 0) : HX_HOLDS_CANNOT_SAY;
    case HX_CMP_GT:
        return is_ordered ? verdict(order > 0) : HX_HOLDS_CANNOT_SAY;
    case HX_CMP_GE:
        return is_ordered ? verdict(order >= 0) : HX_HOLDS_CANNOT_SAY;
    }
    return HX_HOLDS_CANNOT_SAY;
}
