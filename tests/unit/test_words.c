/* SPDX-License-Identifier: MIT */
/* The words of the contract that carry safety: elapsed, age, unsent, nothing sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/words.h"
#include "kit/ops.h"

static void elapsed_is_the_monotonic_clock_within_a_boot(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        unsigned since_boot, now_boot;
        int64_t since_ms, now_ms, span_ms;
        enum hx_across_boots across;
        bool is_over;
    } cases[] = {
        {"not yet", 1, 1, 1000, 1999, 1000, HX_ACROSS_COUNTS_AS_OVER, false},
        {"just now", 1, 1, 1000, 2000, 1000, HX_ACROSS_COUNTS_AS_OVER, true},
        {"a span of nothing is over", 1, 1, 1000, 1000, 0, HX_ACROSS_STARTS_AGAIN, true},
        {"a moment to come is not", 1, 1, 2000, 1000, 0, HX_ACROSS_STARTS_AGAIN, false},
        {"another boot: a horizon is over", 1, 2, 1000, 1001, 1 << 30, HX_ACROSS_COUNTS_AS_OVER,
         true},
        {"another boot: a bound starts again", 1, 2, 1000, 1 << 30, 1, HX_ACROSS_STARTS_AGAIN,
         false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_now since = kit_now(cases[i].since_boot, cases[i].since_ms);
        struct hx_now now = kit_now(cases[i].now_boot, cases[i].now_ms);
        now.wall.ms = -5; /* the wall clock has no say */
        if (hx_has_elapsed(&since, &now, cases[i].span_ms, cases[i].across) != cases[i].is_over)
            fail_msg("%s", cases[i].says);
    }
}

static void age_counts_at_most_a_day_for_a_gap_between_boots(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        unsigned since_boot, now_boot;
        int64_t mono_ms, wall_gap_ms, age_ms;
    } cases[] = {
        {"within a boot the monotonic clock counts", 1, 1, 5000, 99, 5000},
        {"and never less than nothing", 1, 1, -5000, 99, 0},
        {"across boots the wall clock counts", 1, 2, 60000, 7000, 7000},
        {"set back, it counts as nothing", 1, 2, 60000, -7000, 0},
        {"a gap is a day at most", 1, 2, 60000, 40LL * 86400000, 86400000 + 60000},
        {"a monotonic clock before its boot adds nothing", 1, 2, -1, 40LL * 86400000, 86400000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_now since = kit_now(cases[i].since_boot, 0);
        struct hx_now now = kit_now(cases[i].now_boot, cases[i].mono_ms);
        now.wall.ms = since.wall.ms + cases[i].wall_gap_ms;
        int64_t age_ms = hx_age_ms(&since, &now);
        if (age_ms != cases[i].age_ms)
            fail_msg("%s: %lld, not %lld", cases[i].says, (long long)age_ms,
                     (long long)cases[i].age_ms);
    }
}

static void only_what_waits_for_a_person_is_unanswered_after_a_day(void **state)
{
    (void)state;
    const struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    const int64_t day_ms = 86400000;
    for (int i = 0; i < HX_OP_STATE_COUNT; i++) {
        struct hx_record record = kit_record(&contract);
        record.state = (enum hx_op_state)i;
        record.updated = kit_now(1, 5000);
        struct hx_now before = kit_now(1, 5000 + day_ms - 1), after = kit_now(1, 5000 + day_ms);
        bool is_waiting = i == HX_OP_AWAITING_APPROVAL || i == HX_OP_INPUT_REQUIRED;
        before.wall.ms += 40 * day_ms; /* within a boot the wall clock has no say */
        if (hx_is_unanswered(&record, &before) || hx_is_unanswered(&record, &after) != is_waiting)
            fail_msg("%s", hx_op_state_name(record.state));
    }
}

static void attempt_is_unsent_only_where_the_missing_mark_proves_it(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        enum hx_attempt_state attempt;
        bool is_marked, is_epoch_current, is_mark_durable, is_unsent;
    } cases[] = {
        {"there was no attempt", HX_ATTEMPT_NONE, false, false, false, true},
        {"it is dead, whatever its mark", HX_ATTEMPT_DEAD, true, false, false, true},
        {"the tool refused it", HX_ATTEMPT_REFUSED, true, false, false, true},
        {"unmarked, same epoch", HX_ATTEMPT_OPEN, false, true, false, true},
        {"unmarked, marks are synced", HX_ATTEMPT_OPEN, false, false, true, true},
        {"unmarked, but the host crashed", HX_ATTEMPT_OPEN, false, false, false, false},
        {"marked", HX_ATTEMPT_OPEN, true, true, true, false},
        {"asked", HX_ATTEMPT_ASKED, true, true, true, false},
        {"confirmed", HX_ATTEMPT_CONFIRMED, true, true, true, false},
    };
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_record record = kit_record(&contract);
        kit_claim(&record, 1, kit_now(1, 1));
        record.attempt.state = cases[i].attempt;
        if (cases[i].is_marked)
            kit_mark(&record, kit_now(1, 2));
        struct hx_facts facts = {.is_epoch_current = cases[i].is_epoch_current,
                                 .is_mark_durable = cases[i].is_mark_durable};
        if (hx_attempt_is_unsent(&record, &facts) != cases[i].is_unsent)
            fail_msg("%s", cases[i].says);
        if (hx_nothing_sent(&record, &facts) != cases[i].is_unsent)
            fail_msg("%s, and there was no other attempt", cases[i].says);
    }
}

static void nothing_sent_needs_every_earlier_attempt_dead_or_refused(void **state)
{
    (void)state;
    static const struct {
        struct hx_attempt_counts earlier;
        bool is_nothing;
    } cases[] = {
        {{0, 0, 0, 0}, true},  {{0, 0, 0, 3}, true},  {{1, 0, 0, 0}, false},
        {{0, 1, 0, 0}, false}, {{0, 0, 1, 0}, false},
    };
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_facts facts = {.is_epoch_current = true};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_record record = kit_record(&contract);
        kit_claim(&record, 1, kit_now(1, 1));
        record.earlier = cases[i].earlier;
        assert_int_equal(hx_nothing_sent(&record, &facts), cases[i].is_nothing);
        assert_int_equal(hx_nothing_sent_before(&record), cases[i].is_nothing);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elapsed_is_the_monotonic_clock_within_a_boot),
        cmocka_unit_test(age_counts_at_most_a_day_for_a_gap_between_boots),
        cmocka_unit_test(only_what_waits_for_a_person_is_unanswered_after_a_day),
        cmocka_unit_test(attempt_is_unsent_only_where_the_missing_mark_proves_it),
        cmocka_unit_test(nothing_sent_needs_every_earlier_attempt_dead_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
