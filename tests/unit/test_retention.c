/* SPDX-License-Identifier: MIT */
/*
 * What time may take of a row: never what is open or unknown, and nothing ahead of the low-
 * water mark.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/retention.h"

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)
#define NOW_MS (1000 * DAY_MS)

static const char *const fates[] = {"stay", "cool", "lose its payload", "be a tombstone", "go"};

static void each_row_has_its_fate(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    struct hx_contract long_window = contract; /* of the failed ones */
    long_window.repeat_window_ms = 5 * DAY_MS;
    static const struct {
        const char *says;
        enum hx_op_state op;
        bool is_timed, is_hot, is_disputed, is_told, has_payload;
        int64_t age_ms, newest_ms;
        enum hx_row_fate fate;
    } rows[] = {
        {"a fresh result", HX_OP_SUCCEEDED, 0, 1, 0, 0, 1, 0, NOW_MS, HX_ROW_STAY},
        {"no equal call means it after a day", HX_OP_SUCCEEDED, 0, 1, 0, 0, 1, 2 * DAY_MS,
         NOW_MS - 2 * DAY_MS, HX_ROW_COOL},
        {"cool already", HX_OP_SUCCEEDED, 0, 0, 0, 0, 1, 2 * DAY_MS, NOW_MS - 2 * DAY_MS,
         HX_ROW_STAY},
        {"its caller was told to come back", HX_OP_SUCCEEDED, 0, 1, 0, 1, 1, 2 * DAY_MS,
         NOW_MS - 2 * DAY_MS, HX_ROW_STAY},
        {"a week", HX_OP_SUCCEEDED, 0, 0, 0, 0, 1, 8 * DAY_MS, NOW_MS - 8 * DAY_MS,
         HX_ROW_LOSE_PAYLOAD},
        {"a week, and nothing left to lose", HX_OP_SUCCEEDED, 0, 0, 0, 0, 0, 8 * DAY_MS,
         NOW_MS - 8 * DAY_MS, HX_ROW_STAY},
        {"a week, and only a way to be met left to lose", HX_OP_SUCCEEDED, 0, 1, 0, 0, 0,
         8 * DAY_MS, NOW_MS - 8 * DAY_MS, HX_ROW_LOSE_PAYLOAD},
        {"a window longer than a day is not over", HX_OP_FAILED, 0, 1, 0, 0, 1, 2 * DAY_MS,
         NOW_MS - 2 * DAY_MS, HX_ROW_STAY},
        {"a month, the key has no time", HX_OP_SUCCEEDED, 0, 0, 0, 0, 0, 31 * DAY_MS,
         NOW_MS - 31 * DAY_MS, HX_ROW_TOMBSTONE},
        {"a month, the key tells its time", HX_OP_SUCCEEDED, 1, 0, 0, 0, 0, 31 * DAY_MS,
         NOW_MS - 31 * DAY_MS, HX_ROW_GO},
        {"a month, and its key is of tomorrow", HX_OP_SUCCEEDED, 1, 0, 0, 0, 0, 31 * DAY_MS,
         NOW_MS + DAY_MS, HX_ROW_STAY},
        {"a month, and its key is of today", HX_OP_FAILED, 0, 0, 0, 0, 0, 31 * DAY_MS,
         NOW_MS - DAY_MS, HX_ROW_STAY},
        {"the wall clock jumped, no time passed", HX_OP_SUCCEEDED, 1, 0, 0, 0, 1, 0,
         NOW_MS - 900 * DAY_MS, HX_ROW_STAY},
        {"failed goes like the rest", HX_OP_FAILED, 1, 0, 0, 0, 0, 31 * DAY_MS,
         NOW_MS - 31 * DAY_MS, HX_ROW_GO},
        {"a cancel", HX_OP_CANCELLED, 0, 0, 0, 0, 0, 31 * DAY_MS, NOW_MS - 31 * DAY_MS,
         HX_ROW_TOMBSTONE},
        {"a tombstone", HX_OP_EXPIRED, 0, 0, 0, 0, 0, 399 * DAY_MS, NOW_MS - 399 * DAY_MS,
         HX_ROW_STAY},
        {"an old tombstone", HX_OP_EXPIRED, 0, 0, 0, 0, 0, 401 * DAY_MS, NOW_MS - 401 * DAY_MS,
         HX_ROW_GO},
        {"unknown", HX_OP_UNKNOWN, 1, 1, 0, 0, 1, 900 * DAY_MS, 0, HX_ROW_STAY},
        {"running", HX_OP_RUNNING, 1, 1, 0, 0, 1, 900 * DAY_MS, 0, HX_ROW_STAY},
        {"ready", HX_OP_READY, 1, 1, 0, 0, 1, 900 * DAY_MS, 0, HX_ROW_STAY},
        {"waiting for a person", HX_OP_AWAITING_APPROVAL, 1, 1, 0, 0, 1, 900 * DAY_MS, 0,
         HX_ROW_STAY},
        {"waiting for an answer", HX_OP_INPUT_REQUIRED, 1, 1, 0, 0, 1, 900 * DAY_MS, 0,
         HX_ROW_STAY},
        {"disputed", HX_OP_SUCCEEDED, 1, 1, 1, 0, 1, 900 * DAY_MS, 0, HX_ROW_STAY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_old_row row = {.state = rows[i].op,
                                 .contract = rows[i].op == HX_OP_FAILED ? &long_window : &contract,
                                 .is_key_timed = rows[i].is_timed,
                                 .is_hot = rows[i].is_hot,
                                 .is_disputed = rows[i].is_disputed,
                                 .is_told_pending = rows[i].is_told,
                                 .has_payload = rows[i].has_payload,
                                 .age_ms = rows[i].age_ms,
                                 .newest = {rows[i].newest_ms}};
        enum hx_row_fate fate = hx_retention_fate(&row, (struct hx_wall){NOW_MS});
        if (fate != rows[i].fate)
            fail_msg("%s: must %s, would %s", rows[i].says, fates[rows[i].fate], fates[fate]);
    }
}

/* The same line as the sweep's, so that an answer does not tell when a sweep was. */
static void a_result_is_over_when_the_sweep_may_take_it(void **state)
{
    (void)state;
    struct hx_record record = {.state = HX_OP_SUCCEEDED, .contract = hx_contract_default()};
    record.contract.payload_retention_ms = 2000;
    assert_false(hx_retention_is_payload_over(&record, 2000));
    assert_true(hx_retention_is_payload_over(&record, 2001));
    record.is_disputed = true;
    assert_false(hx_retention_is_payload_over(&record, 2001));
    record.is_disputed = false;
    record.state = HX_OP_UNKNOWN;
    assert_false(hx_retention_is_payload_over(&record, 2001));
}

/* Or its key would mean the older one again. */
static void a_successor_answers_for_its_key_as_long_as_the_one_before_it(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    struct hx_wall now = {NOW_MS};
    struct hx_old_row row = {.state = HX_OP_SUCCEEDED,
                             .contract = &contract,
                             .is_key_timed = true,
                             .age_ms = 40 * DAY_MS,
                             .newest = {NOW_MS - 40 * DAY_MS}};
    assert_int_equal(hx_retention_fate(&row, now), HX_ROW_GO);
    row.is_named = true;
    assert_int_equal(hx_retention_fate(&row, now), HX_ROW_TOMBSTONE);
    row.state = HX_OP_EXPIRED;
    row.age_ms = 401 * DAY_MS;
    assert_int_equal(hx_retention_fate(&row, now), HX_ROW_STAY);
    row.is_named = false;
    assert_int_equal(hx_retention_fate(&row, now), HX_ROW_GO);
}

static void nothing_goes_ahead_of_the_mark(void **state)
{
    (void)state;
    struct hx_contract contract = hx_contract_default();
    struct hx_old_row row = {.state = HX_OP_SUCCEEDED,
                             .contract = &contract,
                             .is_key_timed = true,
                             .age_ms = 40 * DAY_MS,
                             .newest = {NOW_MS - 40 * DAY_MS}};
    struct hx_wall now = {NOW_MS};
    struct hx_wall mark = hx_retention_low_water(&row);
    assert_int_equal(hx_retention_fate_behind(&row, now, mark), HX_ROW_GO);
    mark.ms--;
    assert_int_equal(hx_retention_fate_behind(&row, now, mark), HX_ROW_STAY);
    row.is_key_timed = false;
    assert_int_equal(hx_retention_fate_behind(&row, now, mark), HX_ROW_STAY);
    /* What keeps the key known needs no mark. */
    row.has_payload = true;
    row.age_ms = 8 * DAY_MS;
    assert_int_equal(hx_retention_fate_behind(&row, now, (struct hx_wall){0}), HX_ROW_LOSE_PAYLOAD);
}

/* A key that was once sent with an older time of its own may be repeated without it. */
static void the_time_inside_the_key_counts(void **state)
{
    (void)state;
    /* 2024-01-01T00:04:00.000Z */
    struct hx_span key = HX_SPAN_LIT("018cc256-8b00-7000-8000-000000000000");
    struct hx_id id;
    struct hx_wall inside;
    assert_true(hx_id_parse(key, &id));
    assert_true(hx_id_time(&id, &inside));
    struct hx_wall before = {inside.ms - 1000}, after = {inside.ms + 1000};
    assert_int_equal(hx_retention_newest(key, before, before).ms, inside.ms);
    assert_int_equal(hx_retention_newest(key, before, after).ms, after.ms);
    assert_int_equal(hx_retention_newest(key, after, before).ms, after.ms);
    assert_int_equal(hx_retention_newest(HX_SPAN_LIT("order-7"), before, after).ms, after.ms);
    /* A UUID that tells no time. */
    struct hx_span random = HX_SPAN_LIT("9b2f7c1e-3a4d-4c5b-8f6e-1a2b3c4d5e6f");
    assert_int_equal(hx_retention_newest(random, before, after).ms, after.ms);
    assert_false(hx_retention_is_key_timed(HX_KEY_META, random));
    assert_true(hx_retention_is_key_timed(HX_KEY_META, key));
    assert_true(hx_retention_is_key_timed(HX_KEY_NONE, HX_SPAN_LIT("x")));
    assert_false(hx_retention_is_key_timed(HX_KEY_META, HX_SPAN_LIT("order-7")));
}

/* A store writes the tombstone by itself: that move is one of the table, from each state that
 * fades. */
static void what_fades_may_become_expired(void **state)
{
    (void)state;
    for (int op = HX_OP_ABSENT; op < HX_OP_STATE_COUNT; op++) {
        enum hx_op_state from = (enum hx_op_state)op;
        assert_false(hx_retention_may_fade(from, true));
        if (hx_retention_may_fade(from, false))
            assert_true(hx_op_may_become(from, HX_OP_EXPIRED));
        if (!hx_op_state_is_final(from))
            assert_false(hx_retention_may_fade(from, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_its_fate),
        cmocka_unit_test(a_result_is_over_when_the_sweep_may_take_it),
        cmocka_unit_test(a_successor_answers_for_its_key_as_long_as_the_one_before_it),
        cmocka_unit_test(nothing_goes_ahead_of_the_mark),
        cmocka_unit_test(the_time_inside_the_key_counts),
        cmocka_unit_test(what_fades_may_become_expired),
    };
    return cmocka_run_group_tests_name("retention", tests, NULL, NULL);
}
