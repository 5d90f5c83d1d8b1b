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
#include "kit/ops.h"

#define MINUTE_MS (INT64_C(60) * 1000)
#define HOUR_MS (60 * MINUTE_MS)

/* `age_ms` after it was taken into use again. */
static struct hx_gap gap_of_age(int64_t age_ms)
{
    return (struct hx_gap){{100 * HOUR_MS}, {110 * HOUR_MS}, {830 * HOUR_MS}, age_ms};
}

static void a_key_from_the_gap_is_covered(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int64_t key_ms; /* 0 = it has no time */
        int64_t age_ms;
        bool is_covered;
    } rows[] = {
        {"a key of the gap", 105 * HOUR_MS, 1 * HOUR_MS, true},
        {"a key without a time", 0, 1 * HOUR_MS, true},
        {"a key made before the copy, and used since", 90 * HOUR_MS, 1 * HOUR_MS, true},
        {"a key made just before the copy, by another clock", 100 * HOUR_MS - MINUTE_MS,
         1 * HOUR_MS, true},
        {"a key made since", 111 * HOUR_MS, 2 * HOUR_MS, false},
        {"the caution is over", 105 * HOUR_MS, HX_GAP_CAUTION_MS, false},
        {"the caution is over for keys without a time", 0, HX_GAP_CAUTION_MS, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_key_time time = {.first_sent = {rows[i].key_ms}};
        struct hx_gap gap = gap_of_age(rows[i].age_ms);
        if (hx_gap_covers_key(&gap, time) != rows[i].is_covered)
            fail_msg("%s", rows[i].says);
    }
}

static void keyless_calls_are_covered_for_a_window(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    struct hx_gap never = {0};
    struct hx_gap soon = gap_of_age(contract.repeat_window_ms - 1);
    struct hx_gap late = gap_of_age(contract.repeat_window_ms);
    assert_true(hx_gap_covers_keyless(&soon, &contract));
    assert_false(hx_gap_covers_keyless(&late, &contract));
    assert_false(hx_gap_covers_keyless(&never, &contract));
    assert_false(hx_gap_covers_key(&never, (struct hx_key_time){0}));
}

static void a_successor_of_a_row_of_the_copy_is_covered(void **state)
{
    (void)state;
    struct hx_gap never = {0};
    struct hx_gap soon = gap_of_age(HOUR_MS), late = gap_of_age(HX_GAP_CAUTION_MS);
    assert_true(hx_gap_covers_successor(&soon, (struct hx_wall){90 * HOUR_MS}));
    assert_true(hx_gap_covers_successor(&soon, soon.to));
    assert_false(hx_gap_covers_successor(&soon, (struct hx_wall){soon.to.ms + 1}));
    assert_false(hx_gap_covers_successor(&late, (struct hx_wall){90 * HOUR_MS}));
    assert_false(hx_gap_covers_successor(&never, (struct hx_wall){0}));
}

/* As sound as a row of that state is. */
static struct hx_record row_of(enum hx_op_state state)
{
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    struct hx_record record = kit_record(&contract);
    if (state == HX_OP_RUNNING || state == HX_OP_INPUT_REQUIRED)
        kit_claim(&record, 8, kit_now(1, 1000));
    if (state == HX_OP_INPUT_REQUIRED)
        record.attempt.state = HX_ATTEMPT_ASKED;
    if (state == HX_OP_SUCCEEDED || state == HX_OP_INPUT_REQUIRED)
        record.outcome = kit_outcome("{}");
    record.reason = HX_REASON_CLAIMED;
    record.is_superseded = state == HX_OP_UNKNOWN;
    record.state = state;
    record.fence = 3;
    return record;
}

static void only_final_rows_of_the_copy_are_believed(void **state)
{
    (void)state;
    struct hx_now now = kit_now(2, 500);
    for (int i = HX_OP_ABSENT + 1; i < HX_OP_STATE_COUNT; i++) {
        struct hx_record before = row_of((enum hx_op_state)i);
        struct hx_record record = before;
        assert_null(hx_record_flaw(&record));
        if (hx_op_state_is_final(before.state) || before.is_superseded) {
            assert_false(hx_restored_doubt(&record, &now));
            assert_memory_equal(&record, &before, sizeof(record));
            continue;
        }
        assert_true(hx_restored_doubt(&record, &now));
        assert_null(hx_record_flaw(&record));
        assert_int_equal(record.state, HX_OP_UNKNOWN);
        assert_int_equal(record.reason, HX_REASON_RESTORED_COPY);
        assert_int_equal(record.outcome.kind, HX_OUTCOME_NONE);
        assert_int_equal(record.fence, before.fence + 1);
        assert_int_equal(record.settled.mono.ms, now.mono.ms);
        assert_memory_equal(&record.attempt, &before.attempt, sizeof(record.attempt));
    }
    /* What was unknown already may have been sent again since. */
    struct hx_record unknown = row_of(HX_OP_RUNNING);
    unknown.state = HX_OP_UNKNOWN;
    assert_true(hx_restored_doubt(&unknown, &now));
    assert_int_equal(unknown.reason, HX_REASON_RESTORED_COPY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_from_the_gap_is_covered),
        cmocka_unit_test(keyless_calls_are_covered_for_a_window),
        cmocka_unit_test(a_successor_of_a_row_of_the_copy_is_covered),
        cmocka_unit_test(only_final_rows_of_the_copy_are_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
