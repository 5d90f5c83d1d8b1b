/* SPDX-License-Identifier: MIT */
/*
 * HMAC-SHA256 by the vectors of RFC 4231, base64 by those of RFC 4648.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mac.h"

static void assert_mac(const char *key, size_t key_len, const char *data, size_t data_len,
                       const char *expected)
{
    char hex[HX_DIGEST_HEX_SIZE];
    /* In one piece and in two. */
    struct hx_span whole = hx_span(data, data_len);
    struct hx_digest mac = hx_mac(hx_span(key, key_len), &whole, 1);
    hx_digest_hex(&mac, hex);
    assert_string_equal(hex, expected);
    struct hx_span parts[] = {hx_span(data, data_len / 3),
                              hx_span(data + data_len / 3, data_len - data_len / 3)};
    mac = hx_mac(hx_span(key, key_len), parts, 2);
    hx_digest_hex(&mac, hex);
    assert_string_equal(hex, expected);
}

static void macs_are_those_of_the_rfc(void **state)
{
    (void)state;
    char key[131], data[50];
    memset(key, 0x0b, 20);
    assert_mac(key, 20, "Hi There", 8,
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_mac("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    assert_mac(key, 20, data, 50,
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    assert_mac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void base64_goes_both_ways(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct hx_buf out;
        hx_buf_init(&out, 64);
        assert_int_equal(hx_base64_encode(hx_span_cstr(pairs[i][0]), &out), 0);
        assert_true(hx_span_eq_cstr(hx_buf_span(&out), pairs[i][1]));
        hx_buf_reset(&out);
        assert_int_equal(hx_base64_decode(hx_span_cstr(pairs[i][1]), &out), 0);
        assert_true(hx_span_eq_cstr(hx_buf_span(&out), pairs[i][0]));
        hx_buf_fini(&out);
    }
    static const char bytes[] = {'\xfb', '\xff', '\xbf'};
    struct hx_buf out;
    hx_buf_init(&out, 64);
    assert_int_equal(hx_base64_encode(hx_span(bytes, 3), &out), 0);
    assert_true(hx_span_eq_cstr(hx_buf_span(&out), "+/+/"));
    hx_buf_fini(&out);
}

static void what_is_no_base64_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"Z",    "Zg",       "Zg=",      "=g==", "Zg=a",
                                        "Z===", "Zm9v!A==", "Zg==Zg==", "Zm 9"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hx_buf out;
        hx_buf_init(&out, 64);
        assert_int_equal(hx_base64_decode(hx_span_cstr(texts[i]), &out), 1);
        hx_buf_fini(&out);
    }
}

static void what_has_no_room_is_said(void **state)
{
    (void)state;
    struct hx_buf out;
    hx_buf_init(&out, 4);
    assert_true(hx_base64_encode(HX_SPAN_LIT("foobar"), &out) < 0);
    hx_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macs_are_those_of_the_rfc),
        cmocka_unit_test(base64_goes_both_ways),
        cmocka_unit_test(what_is_no_base64_is_refused),
        cmocka_unit_test(what_has_no_room_is_said),
    };
    return cmocka_run_group_tests_name("base mac", tests, NULL, NULL);
}
