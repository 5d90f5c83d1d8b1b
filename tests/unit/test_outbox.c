/* SPDX-License-Identifier: MIT */
/*
 * Which transitions are announced, and when an event is tried again. The table below is written out
 * by hand: every allowed move, and what it must make known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/op.h"
#include "core/outbox.h"

#define N HX_OUTBOX_NOTHING

/* [from][to]; only allowed moves are looked at. */
static const enum hx_outbox_kind expected[HX_OP_STATE_COUNT][HX_OP_STATE_COUNT] = {
    [HX_OP_ABSENT] = {[HX_OP_AWAITING_APPROVAL] = HX_OUTBOX_AWAITING_APPROVAL,
                      [HX_OP_CANCELLED] = HX_OUTBOX_CANCELLED,
                      [HX_OP_UNKNOWN] = HX_OUTBOX_UNKNOWN,
                      [HX_OP_RUNNING] = N,
                      [HX_OP_READY] = N},
    [HX_OP_AWAITING_APPROVAL] = {[HX_OP_READY] = HX_OUTBOX_APPROVED,
                                 [HX_OP_UNKNOWN] = HX_OUTBOX_UNKNOWN,
                                 [HX_OP_CANCELLED] = HX_OUTBOX_CANCELLED},
    [HX_OP_READY] = {[HX_OP_RUNNING] = N,
                     [HX_OP_CANCELLED] = HX_OUTBOX_CANCELLED,
                     [HX_OP_FAILED] = HX_OUTBOX_FAILED,
                     [HX_OP_UNKNOWN] = HX_OUTBOX_UNKNOWN,
                     [HX_OP_SUCCEEDED] = HX_OUTBOX_SUCCEEDED},
    [HX_OP_RUNNING] = {[HX_OP_RUNNING] = N,
                       [HX_OP_READY] = N,
                       [HX_OP_INPUT_REQUIRED] = HX_OUTBOX_INPUT_REQUIRED,
                       [HX_OP_SUCCEEDED] = HX_OUTBOX_SUCCEEDED,
                       [HX_OP_FAILED] = HX_OUTBOX_FAILED,
                       [HX_OP_UNKNOWN] = HX_OUTBOX_UNKNOWN,
                       [HX_OP_CANCELLED] = HX_OUTBOX_CANCELLED},
    [HX_OP_INPUT_REQUIRED] = {[HX_OP_RUNNING] = N,
                              [HX_OP_SUCCEEDED] = HX_OUTBOX_SUCCEEDED,
                              [HX_OP_UNKNOWN] = HX_OUTBOX_UNKNOWN,
                              [HX_OP_EXPIRED] = HX_OUTBOX_EXPIRED},
    [HX_OP_UNKNOWN] = {[HX_OP_RUNNING] = N,
                       [HX_OP_READY] = HX_OUTBOX_ABSENT,
                       [HX_OP_SUCCEEDED] = HX_OUTBOX_SUCCEEDED,
                       [HX_OP_FAILED] = HX_OUTBOX_FAILED},
    [HX_OP_SUCCEEDED] = {[HX_OP_EXPIRED] = HX_OUTBOX_EXPIRED},
    [HX_OP_FAILED] = {[HX_OP_EXPIRED] = HX_OUTBOX_EXPIRED},
    [HX_OP_CANCELLED] = {[HX_OP_EXPIRED] = HX_OUTBOX_EXPIRED},
};

static void each_move_is_announced_as_its_table_says(void **state)
{
    (void)state;
    unsigned looked = 0;
    for (int from = 0; from < HX_OP_STATE_COUNT; from++) {
        for (int to = 0; to < HX_OP_STATE_COUNT; to++) {
            if (!hx_op_may_become((enum hx_op_state)from, (enum hx_op_state)to) || from == to)
                continue;
            struct hx_outbox_view before = {.state = (enum hx_op_state)from};
            struct hx_outbox_view after = {.state = (enum hx_op_state)to};
            enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX] = {0};
            unsigned count = hx_outbox_kinds(&before, &after, kinds);
            enum hx_outbox_kind kind = count > 0 ? kinds[0] : HX_OUTBOX_NOTHING;
            if (kind != expected[from][to])
                print_error("%s -> %s: %s, and should be %s\n",
                            hx_op_state_name((enum hx_op_state)from),
                            hx_op_state_name((enum hx_op_state)to), hx_outbox_kind_name(kind),
                            hx_outbox_kind_name(expected[from][to]));
            assert_int_equal(kind, expected[from][to]);
            assert_true(count <= 1);
            looked++;
        }
    }
    assert_true(looked > 25);
}

static void what_retention_takes_is_not_announced(void **state)
{
    (void)state;
    enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX];
    struct hx_outbox_view before = {.state = HX_OP_SUCCEEDED};
    struct hx_outbox_view after = {.state = HX_OP_EXPIRED, .reason = HX_REASON_RETENTION};
    assert_int_equal(hx_outbox_kinds(&before, &after, kinds), 0);
}

static void a_raised_flag_is_an_event_behind_that_of_the_state(void **state)
{
    (void)state;
    enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX];
    struct hx_outbox_view unknown = {.state = HX_OP_UNKNOWN};
    struct hx_outbox_view asked = unknown;
    asked.needs_human = true;
    assert_int_equal(hx_outbox_kinds(&unknown, &asked, kinds), 1);
    assert_int_equal(kinds[0], HX_OUTBOX_NEEDS_HUMAN);
    assert_int_equal(hx_outbox_kinds(&asked, &asked, kinds), 0);
    struct hx_outbox_view again = asked;
    again.is_superseded = true;
    assert_int_equal(hx_outbox_kinds(&asked, &again, kinds), 1);
    assert_int_equal(kinds[0], HX_OUTBOX_RESOLVED);
    struct hx_outbox_view ready = {.state = HX_OP_READY};
    struct hx_outbox_view disputed = {.state = HX_OP_SUCCEEDED, .is_disputed = true};
    assert_int_equal(hx_outbox_kinds(&ready, &disputed, kinds), 2);
    assert_int_equal(kinds[0], HX_OUTBOX_SUCCEEDED);
    assert_int_equal(kinds[1], HX_OUTBOX_DISPUTED);
}

static void every_kind_can_arise_and_has_a_name_of_its_own(void **state)
{
    (void)state;
    bool is_met[HX_OUTBOX_KIND_COUNT] = {
        [HX_OUTBOX_NOTHING] = true,
        [HX_OUTBOX_NEEDS_HUMAN] = true,
        [HX_OUTBOX_RESOLVED] = true,
        [HX_OUTBOX_DISPUTED] = true,
    };
    for (int from = 0; from < HX_OP_STATE_COUNT; from++)
        for (int to = 0; to < HX_OP_STATE_COUNT; to++)
            is_met[expected[from][to]] = true;
    for (int a = 0; a < HX_OUTBOX_KIND_COUNT; a++) {
        assert_true(is_met[a]);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(hx_outbox_kind_name((enum hx_outbox_kind)a),
                                    hx_outbox_kind_name((enum hx_outbox_kind)b));
    }
    for (int a = 0; a < HX_OUTBOX_PLACE_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(hx_outbox_place_name((enum hx_outbox_place)a),
                                    hx_outbox_place_name((enum hx_outbox_place)b));
}

static void waits_double_up_to_a_bound_and_are_spread(void **state)
{
    (void)state;
    const int64_t base_ms = 1000, max_ms = 60000;
    for (uint32_t tries = 1; tries <= HX_OUTBOX_TRIES_MAX; tries++) {
        int64_t bound_ms = tries > 6 ? max_ms : base_ms << (tries - 1);
        int64_t least = INT64_MAX, most = 0;
        for (uint64_t i = 0; i < 500; i++) {
            int64_t wait_ms =
                hx_outbox_wait_ms(tries, base_ms, max_ms, -1, i * 0x9e3779b97f4a7c15U);
            least = wait_ms < least ? wait_ms : least;
            most = wait_ms > most ? wait_ms : most;
        }
        assert_true(least > 0);
        assert_true(most <= bound_ms);
        /* Full jitter: they lie all over what is allowed. */
        assert_true(least < bound_ms / 10);
        assert_true(most > bound_ms * 9 / 10);
    }
}

static void what_the_receiver_asks_for_is_kept_within_a_day(void **state)
{
    (void)state;
    for (uint64_t random = 0; random < 100; random++) {
        assert_int_equal(hx_outbox_wait_ms(1, 1000, 60000, 90000, random), 90000);
        assert_true(hx_outbox_wait_ms(9, 1000, 60000, 500, random * 977) >= 500);
    }
    assert_int_equal(hx_outbox_wait_ms(1, 1000, 60000, INT64_MAX, 5), HX_OUTBOX_WAIT_MAX_MS);
    assert_int_equal(hx_outbox_wait_ms(1, 0, 0, -1, 5), 1); /* never in a loop without rest */
    assert_true(hx_outbox_wait_ms(20, INT64_MAX / 2, INT64_MAX, -1, 1234567) > 0);
}

/* A flag that was up already, and one that falls, are no news. */
static void a_flag_is_told_when_it_rises(void **state)
{
    struct hx_record low = {.state = HX_OP_UNKNOWN};
    struct hx_record high = {
        .state = HX_OP_UNKNOWN, .needs_human = true, .is_superseded = true, .is_disputed = true};
    struct hx_outbox_view before = hx_outbox_view_of(&low), after = hx_outbox_view_of(&high);
    enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX];
    (void)state;
    assert_int_equal(hx_outbox_kinds(&before, &after, kinds), 3);
    assert_int_equal(hx_outbox_kinds(&after, &after, kinds), 0);
    assert_int_equal(hx_outbox_kinds(&after, &before, kinds), 0);
}

static void it_is_parked_after_twenty_tries(void **state)
{
    (void)state;
    assert_false(hx_outbox_is_used_up(0));
    assert_false(hx_outbox_is_used_up(19));
    assert_true(hx_outbox_is_used_up(20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_move_is_announced_as_its_table_says),
        cmocka_unit_test(what_retention_takes_is_not_announced),
        cmocka_unit_test(a_raised_flag_is_an_event_behind_that_of_the_state),
        cmocka_unit_test(every_kind_can_arise_and_has_a_name_of_its_own),
        cmocka_unit_test(waits_double_up_to_a_bound_and_are_spread),
        cmocka_unit_test(what_the_receiver_asks_for_is_kept_within_a_day),
        cmocka_unit_test(a_flag_is_told_when_it_rises),
        cmocka_unit_test(it_is_parked_after_twenty_tries),
    };
    return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
