/* SPDX-License-Identifier: MIT */
/*
 * Bodies in chunks under arbitrary bytes: however they are cut, the same body, verdict and rest
 * come out; and a body that was accepted, written by us, is read as the same.
 */
#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "wire/chunked.h"

/* Appends the body and returns the verdict; `dice` NULL feeds all at once. */
static int run(struct hx_span bytes, struct fuzz_dice *dice, uint32_t piece_max,
               struct hx_buf *body, size_t *ret_rest)
{
    struct hx_chunked chunked = {0};
    int rc = HX_CHUNKED_MORE;
    size_t at = 0;

    while (rc == HX_CHUNKED_MORE && at < bytes.len) {
        size_t len = bytes.len - at;
        if (dice != NULL) {
            size_t piece = 1 + fuzz_roll(dice, piece_max);
            len = piece < len ? piece : len;
        }
        struct hx_span input = hx_span(bytes.ptr + at, len);
        struct hx_span data;
        while ((rc = hx_chunked_next(&chunked, &input, &data)) == 0) {
            hx_assert(data.len > 0);
            hx_assert(hx_buf_append_span(body, data) == 0);
        }
        hx_assert(rc != HX_CHUNKED_MORE || input.len == 0);
        at += len - input.len;
    }
    *ret_rest = bytes.len - at;
    return rc;
}

static void write_again(struct hx_span body, struct fuzz_dice *dice, struct hx_buf *out)
{
    while (body.len > 0) {
        char prefix[HX_CHUNKED_PREFIX_MAX];
        size_t len = 1 + fuzz_roll(dice, 50);
        len = len < body.len ? len : body.len;
        (void)hx_buf_append(out, prefix, hx_chunked_prefix(len, prefix));
        (void)hx_buf_append(out, body.ptr, len);
        (void)hx_buf_append_span(out, HX_CHUNKED_SUFFIX);
        body = hx_span(body.ptr + len, body.len - len);
    }
    (void)hx_buf_append_span(out, HX_CHUNKED_LAST);
    hx_assert(hx_buf_ok(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span bytes = hx_span((const char *)data, size);
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct hx_buf whole;
    struct hx_buf other;
    struct hx_buf out;
    size_t rest;
    size_t other_rest;

    hx_buf_init(&whole, 1 << 24);
    hx_buf_init(&other, 1 << 24);
    hx_buf_init(&out, 1 << 26);
    int rc = run(bytes, NULL, 0, &whole, &rest);
    static const uint32_t pieces_max[] = {1, 3, 100};
    for (size_t i = 0; i < 3; i++) {
        hx_buf_reset(&other);
        hx_assert(run(bytes, &dice, pieces_max[i], &other, &other_rest) == rc);
        hx_assert(hx_span_eq(hx_buf_span(&whole), hx_buf_span(&other)));
        hx_assert(rest == other_rest);
    }
    if (rc == HX_CHUNKED_END) {
        write_again(hx_buf_span(&whole), &dice, &out);
        hx_buf_reset(&other);
        hx_assert(run(hx_buf_span(&out), &dice, 7, &other, &other_rest) == HX_CHUNKED_END);
        hx_assert(other_rest == 0);
        hx_assert(hx_span_eq(hx_buf_span(&whole), hx_buf_span(&other)));
    }
    hx_buf_fini(&whole);
    hx_buf_fini(&other);
    hx_buf_fini(&out);
    return 0;
}
