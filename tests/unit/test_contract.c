/* SPDX-License-Identifier: MIT */
/* The stored text form of a tool's contract, and the names in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/contract.h"
#include "kit/ops.h"

static struct hx_contract through_text(const struct hx_contract *contract)
{
    struct hx_buf text;
    hx_buf_init(&text, 4096);
    hx_contract_format(contract, &text);
    assert_true(hx_buf_ok(&text));
    struct hx_contract back = hx_contract_parse(hx_buf_span(&text));
    hx_buf_fini(&text);
    return back;
}

static void assert_same(const struct hx_contract *a, const struct hx_contract *b)
{
    struct hx_buf text[2];
    for (int i = 0; i < 2; i++) {
        hx_buf_init(&text[i], 4096);
        hx_contract_format(i == 0 ? a : b, &text[i]);
        hx_buf_append_char(&text[i], '\0');
    }
    assert_string_equal(text[0].data, text[1].data);
    hx_buf_fini(&text[0]);
    hx_buf_fini(&text[1]);
}

static void defaults_are_those_of_the_documentation(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    assert_int_equal(contract.tool_class, HX_CLASS_OPAQUE);
    assert_int_equal(contract.repeat, HX_REPEAT_LOST);
    assert_int_equal(contract.fresh_key, HX_FRESH_KEY_WARN);
    assert_int_equal(contract.cancel_upstream, HX_CANCEL_UPSTREAM_USER);
    assert_int_equal(contract.attempts_max, 5);
    assert_int_equal(contract.timeout_ms, 0);
    assert_int_equal(contract.orphan_timeout_ms, 15 * 60 * 1000);
    assert_int_equal(contract.join_wait_ms, 45 * 1000);
    assert_int_equal(contract.repeat_window_ms, 15 * 60 * 1000);
    assert_int_equal(contract.overlap_ms, 500);
    assert_int_equal(contract.dedupe_horizon_ms, HX_UNDECLARED_MS);
    assert_int_equal(contract.in_flight_bound_ms, HX_UNDECLARED_MS);
    struct hx_contract empty = hx_contract_parse(HX_SPAN_LIT(""));
    assert_same(&contract, &empty);
}

static void every_field_comes_back(void **state)
{
    (void)state;
    struct hx_contract contract = {HX_CLASS_KEYED,
                                   HX_REPEAT_ASK,
                                   HX_FRESH_KEY_REFUSE,
                                   HX_CANCEL_UPSTREAM_ALWAYS,
                                   HX_APPROVAL_WHEN,
                                   true,
                                   true,
                                   true,
                                   7,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   8,
                                   9,
                                   10,
                                   11,
                                   12,
                                   72057594037927935};
    struct hx_contract back = through_text(&contract);
    assert_same(&contract, &back);
    assert_int_equal(back.tool_class, HX_CLASS_KEYED);
    assert_int_equal(back.row_retention_ms, 12);
    assert_int_equal(back.target, 72057594037927935); /* the greatest of seven bytes */
    assert_true(back.retries_after_proof);
}

static void equal_contracts_are_equal_in_their_members(void **state)
{
    struct hx_contract one, other;
    (void)state;
    one = hx_contract_default();
    other = through_text(&one);
    assert_true(hx_contract_eq(&one, &other));
    other.row_retention_ms++;
    assert_false(hx_contract_eq(&one, &other));
    other = one;
    other.tool_class = HX_CLASS_KEYED;
    assert_false(hx_contract_eq(&one, &other));
}

static void what_is_not_understood_takes_the_default(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_parse(HX_SPAN_LIT(
        "tool_class=magic repeat repeat=window bogus=1 timeout_ms=1+ payload_retention_ms= "
        "idle_timeout_ms=12x "
        "overlap_ms=- join_wait_ms=-2 repeat_window_ms=1234567890123456789 attempts_max=-1 "
        "attempts_max=4294967296 is_reorder_safe=maybe in_flight_bound_ms=-1  has_probe=yes"));
    struct hx_contract expected = hx_contract_default();
    expected.repeat = HX_REPEAT_WINDOW;
    expected.has_probe = true;
    assert_same(&contract, &expected);
}

static void names_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i <= HX_CLASS_READ_ONLY; i++) {
        enum hx_tool_class back;
        const char *name = hx_tool_class_name((enum hx_tool_class)i);
        assert_true(hx_tool_class_parse(hx_span_cstr(name), &back));
        assert_int_equal(back, i);
    }
    for (int i = 0; i <= HX_REPEAT_SEPARATE; i++) {
        enum hx_repeat back;
        const char *name = hx_repeat_name((enum hx_repeat)i);
        assert_true(hx_repeat_parse(hx_span_cstr(name), &back));
        assert_int_equal(back, i);
    }
    enum hx_tool_class tool_class;
    enum hx_repeat repeat;
    assert_false(hx_tool_class_parse(HX_SPAN_LIT("Opaque"), &tool_class));
    assert_false(hx_repeat_parse(HX_SPAN_LIT(""), &repeat));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_documentation),
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(equal_contracts_are_equal_in_their_members),
        cmocka_unit_test(what_is_not_understood_takes_the_default),
        cmocka_unit_test(names_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
