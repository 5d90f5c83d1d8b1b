/* SPDX-License-Identifier: MIT */
/*
 * The canonical form under arbitrary JSON.
 *
 *  - It is a fixed point: canon(canon(x)) = canon(x), and it is JSON that the reader accepts.
 *  - Spelled otherwise (white space, order of members, escapes, numbers with another exponent), the
 *    same value has the same fingerprint.
 */
#include "base/digest.h"
#include "tests/fuzz/fuzz.h"
#include "json/canon.h"
#include "json/fingerprint.h"
#include "json/number.h"
#include "json/text.h"

static void append_sink(void *context, struct hx_span bytes)
{
    hx_assert(hx_buf_append_span(context, bytes) == 0);
}

static void put_space(struct hx_buf *out, struct fuzz_dice *dice)
{
    while (fuzz_roll(dice, 4) == 0)
        (void)hx_buf_append_char(out, " \t\r\n"[fuzz_roll(dice, 4)]);
}

/* The same string with some characters escaped. */
static void put_string(struct hx_buf *out, struct fuzz_dice *dice, struct hx_span content)
{
    struct hx_json_chars chars = hx_json_chars(content);
    (void)hx_buf_append_char(out, '"');
    for (int32_t code = hx_json_chars_next(&chars); code >= 0; code = hx_json_chars_next(&chars)) {
        char bytes[4];
        if (code > 0xFFFF && fuzz_roll(dice, 2)) {
            (void)hx_buf_printf(out, "\\u%04X\\u%04x", 0xD800u + (((unsigned)code - 0x10000) >> 10),
                                0xDC00u + ((unsigned)code & 0x3FF));
        } else if (code <= 0xFFFF &&
                   (code < 0x20 || code == '"' || code == '\\' || fuzz_roll(dice, 4) == 0)) {
            (void)hx_buf_printf(out, "\\u%04x", (unsigned)code);
        } else {
            (void)hx_buf_append(out, bytes, hx_json_utf8_encode(code, bytes));
        }
    }
    (void)hx_buf_append_char(out, '"');
}

/* The same number by its digits, as 0.DDD with an exponent, with zeros added. */
static void put_number(struct hx_buf *out, struct fuzz_dice *dice, struct hx_span raw)
{
    struct hx_json_decimal decimal;
    if (!hx_json_decimal_parse(raw, &decimal) || fuzz_roll(dice, 3) == 0 ||
        decimal.point > 900000000000000 || decimal.point < -900000000000000) {
        (void)hx_buf_append_span(out, raw);
        return;
    }
    if (decimal.is_negative)
        (void)hx_buf_append_char(out, '-');
    (void)hx_buf_append_cstr(out, fuzz_roll(dice, 2) ? "0.0" : "0.00");
    size_t zeros = out->data[out->len - 2] == '0' ? 2 : 1;
    (void)hx_buf_append_span(out, decimal.whole);
    (void)hx_buf_append_span(out, decimal.fraction);
    (void)hx_buf_printf(out, "%s%+lld", fuzz_roll(dice, 2) ? "00e" : "E",
                        (long long)decimal.point + (long long)zeros);
}

static void put_value(struct hx_buf *out, struct fuzz_dice *dice, const struct hx_json_tape *tape,
                      uint32_t index);

/* Members from the last to the first. */
static void put_members(struct hx_buf *out, struct fuzz_dice *dice, const struct hx_json_tape *tape,
                        uint32_t name, uint32_t object)
{
    uint32_t next = hx_json_next(tape, object, name);
    if (next != HX_JSON_NONE) {
        put_members(out, dice, tape, next, object);
        (void)hx_buf_append_char(out, ',');
    }
    put_space(out, dice);
    put_string(out, dice, hx_json_content(tape, name));
    put_space(out, dice);
    (void)hx_buf_append_char(out, ':');
    put_value(out, dice, tape, name + 1);
}

static void put_value(struct hx_buf *out, struct fuzz_dice *dice, const struct hx_json_tape *tape,
                      uint32_t index)
{
    uint32_t first = hx_json_first(tape, index);
    put_space(out, dice);
    if (hx_json_is(tape, index, HX_JSON_OBJECT)) {
        (void)hx_buf_append_char(out, '{');
        if (first != HX_JSON_NONE)
            put_members(out, dice, tape, first, index);
        put_space(out, dice);
        (void)hx_buf_append_char(out, '}');
    } else if (hx_json_is(tape, index, HX_JSON_ARRAY)) {
        (void)hx_buf_append_char(out, '[');
        hx_json_for_each(element, tape, index)
        {
            if (element != first)
                (void)hx_buf_append_char(out, ',');
            put_value(out, dice, tape, element);
        }
        (void)hx_buf_append_char(out, ']');
    } else if (hx_json_is(tape, index, HX_JSON_STRING)) {
        put_string(out, dice, hx_json_content(tape, index));
    } else if (hx_json_is(tape, index, HX_JSON_NUMBER)) {
        put_number(out, dice, hx_json_raw(tape, index));
    } else {
        (void)hx_buf_append_span(out, hx_json_raw(tape, index));
    }
    put_space(out, dice);
}

static void check_fixed_point(struct hx_canon *canon, const struct hx_buf *once)
{
    struct hx_json_tape tape;
    struct hx_buf twice;
    struct hx_json_limits limits = fuzz_limits;
    limits.text_max *= 8;
    hx_json_tape_init(&tape);
    hx_buf_init(&twice, 8 << 20);
    hx_assert(hx_json_read(&tape, hx_buf_span(once), &limits) == 0);
    hx_assert(hx_canon_write(canon, &tape, 0, NULL, append_sink, &twice, NULL) == 0);
    hx_assert(hx_span_eq(hx_buf_span(once), hx_buf_span(&twice)));
    hx_buf_fini(&twice);
    hx_json_tape_fini(&tape);
}

static void check_spellings(const struct hx_json_tape *tape, struct fuzz_dice dice,
                            const struct hx_buf *once)
{
    struct hx_fingerprinter fingerprinter;
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_json_limits limits = fuzz_limits;
    struct hx_digest plain;
    struct hx_digest other;
    struct hx_buf spelled;
    limits.text_max *= 64;
    hx_fingerprinter_init(&fingerprinter);
    hx_buf_init(&spelled, limits.text_max);
    hx_assert(hx_fingerprint(&fingerprinter, tape->text, &limits, NULL, &plain, NULL) == 0);
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_buf_span(once));
    other = hx_hasher_end(hasher);
    hx_assert(hx_digest_eq(&plain, &other));
    for (int i = 0; i < 3; i++) {
        hx_buf_reset(&spelled);
        put_value(&spelled, &dice, tape, 0);
        hx_assert(hx_buf_ok(&spelled));
        hx_assert(hx_fingerprint(&fingerprinter, hx_buf_span(&spelled), &limits, NULL, &other,
                                 NULL) == 0);
        hx_assert(hx_digest_eq(&plain, &other));
    }
    hx_buf_fini(&spelled);
    hx_hasher_free(hasher);
    hx_fingerprinter_fini(&fingerprinter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_json_tape tape;
    struct hx_canon canon;
    struct hx_buf once;
    if (size > 1 << 16)
        return 0;
    hx_json_tape_init(&tape);
    hx_canon_init(&canon);
    hx_buf_init(&once, 8 << 20);
    if (hx_json_read(&tape, hx_span((const char *)data, size), &fuzz_limits) == 0) {
        size_t offset = 0;
        int rc = hx_canon_write(&canon, &tape, 0, NULL, append_sink, &once, &offset);
        hx_assert(rc >= 0);
        hx_assert(offset <= size);
        if (tape.has_duplicates || tape.has_lone_surrogates)
            hx_assert(rc > 0);
        if (rc == 0) {
            check_fixed_point(&canon, &once);
            check_spellings(&tape, fuzz_dice(data, size), &once);
        }
    }
    hx_buf_fini(&once);
    hx_canon_fini(&canon);
    hx_json_tape_fini(&tape);
    return 0;
}
