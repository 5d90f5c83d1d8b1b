/* SPDX-License-Identifier: MIT */
/* Whole numbers as text: digits only, all of them, and never beyond what a number holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/whole.h"

static void digits_are_a_number(void **state)
{
    int64_t number = -1;
    (void)state;
    assert_true(hx_whole_parse(HX_SPAN_LIT("0"), &number));
    assert_int_equal(number, 0);
    assert_true(hx_whole_parse(HX_SPAN_LIT("0042"), &number));
    assert_int_equal(number, 42);
    assert_true(hx_whole_parse(HX_SPAN_LIT("9223372036854775807"), &number));
    assert_true(number == INT64_MAX);
}

static void anything_else_is_none(void **state)
{
    static const char *const texts[] = {"",    "-1",  "+1", " 1",   "1 ",
                                        "1.0", "1e1", "1x", "0x10", "9223372036854775808"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t number = 7;
        if (hx_whole_parse(hx_span_cstr(texts[i]), &number))
            fail_msg("'%s' was read as %lld", texts[i], (long long)number);
        assert_int_equal(number, 7);
    }
    int64_t number = 7;
    assert_false(hx_whole_parse(HX_SPAN_NONE, &number));
    assert_int_equal(number, 7);
}

static void a_front_ends_where_the_digits_end(void **state)
{
    size_t used = 0;
    int64_t number = 0;
    (void)state;
    assert_true(hx_whole_parse_front(HX_SPAN_LIT("15m"), &used, &number));
    assert_int_equal(used, 2);
    assert_int_equal(number, 15);
    /* The span ends there, whatever lies behind it. */
    assert_true(hx_whole_parse_front(hx_span("1234", 2), &used, &number));
    assert_int_equal(used, 2);
    assert_int_equal(number, 12);
    assert_false(hx_whole_parse_front(HX_SPAN_LIT("m15"), &used, &number));
    assert_false(hx_whole_parse_front(HX_SPAN_LIT("9223372036854775808m"), &used, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_a_number),
        cmocka_unit_test(anything_else_is_none),
        cmocka_unit_test(a_front_ends_where_the_digits_end),
    };
    return cmocka_run_group_tests_name("base_whole", tests, NULL, NULL);
}
