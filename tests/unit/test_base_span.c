/* SPDX-License-Identifier: MIT */
/* Borrowed bytes: equality, beginnings, ASCII without case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/span.h"

static void absent_differs_from_empty(void **state)
{
    (void)state;
    assert_true(hx_span_is_absent(HX_SPAN_NONE));
    assert_false(hx_span_is_absent(HX_SPAN_LIT("")));
    assert_true(hx_span_is_absent(hx_span_cstr(NULL)));
    assert_true(hx_span_eq(HX_SPAN_NONE, HX_SPAN_LIT("")));
}

static void equality_is_of_bytes(void **state)
{
    (void)state;
    assert_true(hx_span_eq_cstr(hx_span("abcd", 3), "abc"));
    assert_false(hx_span_eq_cstr(HX_SPAN_LIT("abc"), "abd"));
    assert_false(hx_span_eq(HX_SPAN_LIT("a\0b"), HX_SPAN_LIT("a\0c")));
    assert_true(hx_span_starts_with(HX_SPAN_LIT("abc"), HX_SPAN_LIT("ab")));
    assert_true(hx_span_starts_with(HX_SPAN_LIT("abc"), HX_SPAN_LIT("")));
    assert_false(hx_span_starts_with(HX_SPAN_LIT("a"), HX_SPAN_LIT("ab")));
    assert_false(hx_span_starts_with(HX_SPAN_LIT("bab"), HX_SPAN_LIT("ab")));
}

static void case_is_ignored_in_ascii_only(void **state)
{
    (void)state;
    assert_true(hx_span_eq_nocase(HX_SPAN_LIT("aZ[@`{"), HX_SPAN_LIT("Az[@`{")));
    assert_false(hx_span_eq_nocase(HX_SPAN_LIT("@"), HX_SPAN_LIT("`")));
    assert_false(hx_span_eq_nocase(HX_SPAN_LIT("\xc3\xa9"), HX_SPAN_LIT("\xc3\x89")));
    assert_false(hx_span_eq_nocase(HX_SPAN_LIT("ab"), HX_SPAN_LIT("abc")));
    assert_true(hx_span_contains_nocase(HX_SPAN_LIT("xxABc"), HX_SPAN_LIT("abC")));
    assert_true(hx_span_contains_nocase(HX_SPAN_LIT("x"), HX_SPAN_LIT("")));
    assert_false(hx_span_contains_nocase(HX_SPAN_LIT("ab"), HX_SPAN_LIT("abc")));
    assert_false(hx_span_contains_nocase(HX_SPAN_LIT("abab"), HX_SPAN_LIT("bb")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_differs_from_empty),
        cmocka_unit_test(equality_is_of_bytes),
        cmocka_unit_test(case_is_ignored_in_ascii_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
