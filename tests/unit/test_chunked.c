/* SPDX-License-Identifier: MIT */
/* A body in chunks is taken exactly, whatever the pieces, and what follows it is left alone. */
#include "tests/kit/text_kit.h"
#include "wire/chunked.h"

/* Reads in pieces of `piece` bytes (0 = all at once). Returns END, BAD or MORE. */
static int run(struct hx_span bytes, size_t piece, struct hx_buf *body, size_t *ret_rest)
{
    struct hx_chunked chunked = {0};
    int rc = HX_CHUNKED_MORE;

    hx_buf_reset(body);
    for (size_t at = 0; at < bytes.len && rc == HX_CHUNKED_MORE;) {
        size_t len = piece > 0 && piece < bytes.len - at ? piece : bytes.len - at;
        struct hx_span copy = kit_exact(hx_span(bytes.ptr + at, len));
        struct hx_span input = copy;
        struct hx_span data;
        while ((rc = hx_chunked_next(&chunked, &input, &data)) == 0) {
            assert_true(data.len > 0);
            assert_int_equal(hx_buf_append_span(body, data), 0);
        }
        at += len - input.len;
        if (rc == HX_CHUNKED_MORE)
            assert_int_equal(input.len, 0);
        kit_free(copy);
        *ret_rest = bytes.len - at;
    }
    return rc;
}

static void check(struct hx_span bytes, int expected, const char *expected_body, size_t rest)
{
    struct hx_buf body;

    hx_buf_init(&body, 1 << 16);
    for (size_t piece = 0; piece <= bytes.len; piece++) {
        size_t left = 0;
        int rc = run(bytes, piece, &body, &left);
        if (rc != expected)
            fail_msg("%.*s in pieces of %zu: expected %d, was %d", HX_SPAN_FMT(bytes), piece,
                     expected, rc);
        if (rc == HX_CHUNKED_END) {
            assert_span_equal(hx_buf_span(&body), expected_body);
            assert_int_equal(left, rest);
        }
    }
    hx_buf_fini(&body);
}

static void good_bodies_are_read(void **state)
{
    (void)state;
    check(HX_SPAN_LIT("0\r\n\r\n"), HX_CHUNKED_END, "", 0);
    check(HX_SPAN_LIT("5\r\nhello\r\n0\r\n\r\nGET /"), HX_CHUNKED_END, "hello", 5);
    check(HX_SPAN_LIT("a\r\n0123456789\r\nA\r\nabcdefghij\r\n000\r\n\r\n"), HX_CHUNKED_END,
          "0123456789abcdefghij", 0);
    check(HX_SPAN_LIT("3;name\r\nabc\r\n1;a=b;c=\"d\"\r\nd\r\n0;x\r\n\r\n!"), HX_CHUNKED_END,
          "abcd", 1);
    check(HX_SPAN_LIT("1\r\na\r\n0\r\nContent-Length: 5\r\nX:\r\n\r\n"), HX_CHUNKED_END, "a", 0);
    check(HX_SPAN_LIT("000000000000001\r\na\r\n0\r\n\r\n"), HX_CHUNKED_END, "a", 0);
    check(HX_SPAN_LIT("2\r\n\r\n\r\n0\r\n\r\n"), HX_CHUNKED_END, "\r\n", 0);
}

static void bad_bodies_are_refused(void **state)
{
    static const char *const bad[] = {
        "0xe\r\n",
        "+5\r\n",
        "-1\r\n",
        " 5\r\n",
        "5 \r\n",
        "5\t;a\r\n",
        "\r\n",
        ";a\r\n",
        "g\r\n",
        "5;\r\nhello",
        "5; a\r\nhello",
        "5\nhello",
        "5\r\rhello",
        "1\r\nab\r\n",
        "1\r\na\n0",
        "1\r\na\r0",
        "1\r\na0",
        "0\r\n\n",
        "0\r\n\rx",
        "0\r\nX a\r\n\r\n",
        "0\r\n X: a\r\n",
        "0\r\n: a\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\nX: a\n",
        "0\r\nX: \x01\r\n",
        "1;a\x01\r\na",
        "1;a\nb\r\na",
        "0000000000000001\r\na",
        "fffffffffffffffff",
        "0\r\nX : a\r\n\r",
        "0\r\nX: a\r\r",
        "5;\"\r\nhello",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check(hx_span_cstr(bad[i]), HX_CHUNKED_BAD, NULL, 0);
}

static void unfinished_bodies_want_more(void **state)
{
    static const char text[] = "5;a\r\nhello\r\n0\r\nX: y\r\n\r\n";

    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++)
        check(hx_span(text, len), HX_CHUNKED_MORE, NULL, 0);
}

static void what_is_dropped_is_bounded(void **state)
{
    struct hx_buf text;
    struct hx_buf body;
    size_t rest = 0;

    (void)state;
    hx_buf_init(&text, 1 << 16);
    hx_buf_init(&body, 1 << 16);
    /* Extensions of many chunks count together; so do trailers. */
    for (size_t i = 0; i < HX_CHUNKED_SIDE_BYTES_MAX / 4; i++)
        (void)hx_buf_append_cstr(&text, "1;abcd\r\nx\r\n");
    assert_int_equal(run(hx_buf_span(&text), 0, &body, &rest), HX_CHUNKED_MORE);
    (void)hx_buf_append_cstr(&text, "0\r\nX: a\r\n\r\n");
    assert_int_equal(run(hx_buf_span(&text), 0, &body, &rest), HX_CHUNKED_BAD);
    hx_buf_fini(&text);
    hx_buf_fini(&body);
}

static void what_is_written_is_read_back(void **state)
{
    static const uint64_t sizes[] = {1, 9, 10, 15, 16, 255, 4096, 65535};
    char prefix[HX_CHUNKED_PREFIX_MAX];
    struct hx_buf out;
    struct hx_buf body;
    size_t rest;
    size_t total = 0;

    (void)state;
    hx_buf_init(&out, 1 << 20);
    hx_buf_init(&body, 1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)hx_buf_append(&out, prefix, hx_chunked_prefix(sizes[i], prefix));
        for (uint64_t k = 0; k < sizes[i]; k++)
            (void)hx_buf_append_char(&out, 'x');
        (void)hx_buf_append_span(&out, HX_CHUNKED_SUFFIX);
        total += sizes[i];
    }
    (void)hx_buf_append_span(&out, HX_CHUNKED_LAST);
    assert_int_equal(run(hx_buf_span(&out), 0, &body, &rest), HX_CHUNKED_END);
    assert_int_equal(body.len, total);
    assert_int_equal(rest, 0);
    assert_int_equal(hx_chunked_prefix(UINT64_MAX, prefix), HX_CHUNKED_PREFIX_MAX);
    assert_memory_equal(prefix, "ffffffffffffffff\r\n", HX_CHUNKED_PREFIX_MAX);
    hx_buf_fini(&out);
    hx_buf_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_bodies_are_read),
        cmocka_unit_test(bad_bodies_are_refused),
        cmocka_unit_test(unfinished_bodies_want_more),
        cmocka_unit_test(what_is_dropped_is_bounded),
        cmocka_unit_test(what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
