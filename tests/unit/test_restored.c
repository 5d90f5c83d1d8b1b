/* SPDX-License-Identifier: MIT */
/*
 * A ledger put back from an older copy must not take absence for proof.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/restored.h"

#define MINUTE_MS (INT64_C(60) * 1000)
#define HOUR_MS (60 * MINUTE_MS)

static const struct hx_gap gap = {{100 * HOUR_MS}, {110 * HOUR_MS}, {800 * HOUR_MS}};

static void a_key_from_the_gap_is_covered(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int64_t key_ms; /* 0 = it has no time */
        int64_t now_ms;
        bool is_covered;
    } rows[] = {
        {"a key of the gap", 105 * HOUR_MS, 111 * HOUR_MS, true},
        {"a key without a time", 0, 111 * HOUR_MS, true},
        {"a key made before the copy, and used since", 90 * HOUR_MS, 111 * HOUR_MS, true},
        {"a key made just before the copy, by another clock", 100 * HOUR_MS - MINUTE_MS,
         111 * HOUR_MS, true},
        {"a key made since", 111 * HOUR_MS, 112 * HOUR_MS, false},
        {"the caution is over", 105 * HOUR_MS, 800 * HOUR_MS, false},
        {"the caution is over for keys without a time", 0, 800 * HOUR_MS, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_key_time time = {.first_sent = {rows[i].key_ms}};
        if (hx_gap_covers_key(&gap, time, (struct hx_wall){rows[i].now_ms}) != rows[i].is_covered)
            fail_msg("%s", rows[i].says);
    }
}

static void keyless_calls_are_covered_for_a_window(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    struct hx_gap never = {0};
    struct hx_wall soon = {110 * HOUR_MS + contract.repeat_window_ms - 1};
    struct hx_wall late = {110 * HOUR_MS + contract.repeat_window_ms};
    assert_true(hx_gap_covers_keyless(&gap, &contract, soon));
    assert_false(hx_gap_covers_keyless(&gap, &contract, late));
    assert_false(hx_gap_covers_keyless(&never, &contract, soon));
    assert_false(hx_gap_covers_key(&never, (struct hx_key_time){0}, soon));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_from_the_gap_is_covered),
        cmocka_unit_test(keyless_calls_are_covered_for_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
