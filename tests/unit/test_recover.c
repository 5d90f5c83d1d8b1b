/* SPDX-License-Identifier: MIT */
/* The recovery ladder: which rungs, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/recover.h"
#include "kit/ops.h"

static struct hx_record unknown_record(struct hx_contract contract)
{
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, 1, kit_now(1, 0));
    kit_mark(&record, kit_now(1, 0));
    record.state = HX_OP_UNKNOWN;
    record.settled = kit_now(1, 1000);
    return record;
}

static void rungs_are_those_the_contract_allows(void **state)
{
    (void)state;
    const struct hx_facts facts = {.is_sender_gone = true, .is_same_target = true};
    const struct hx_now now = kit_now(1, 2000);
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    contract.has_probe = true;
    struct hx_record record = unknown_record(contract);
    struct hx_rungs rungs = hx_recover_rungs(&record, &facts, &now, true);
    for (int rung = 0; rung < HX_RUNG_COUNT; rung++)
        assert_true(rungs.is_allowed[rung]);

    record.sends = contract.attempts_max; /* used up: all but sending again */
    rungs = hx_recover_rungs(&record, &facts, &now, true);
    assert_false(rungs.is_allowed[HX_RUNG_RESEND]);
    assert_true(rungs.is_allowed[HX_RUNG_PROBE]);

    record = unknown_record(kit_contract(HX_CLASS_OPAQUE));
    rungs = hx_recover_rungs(&record, &facts, &now, false);
    assert_true(rungs.is_allowed[HX_RUNG_EVIDENCE]);
    assert_false(rungs.is_allowed[HX_RUNG_HANDLE]);
    assert_false(rungs.is_allowed[HX_RUNG_RESEND]);
    assert_false(rungs.is_allowed[HX_RUNG_PROBE]);
    assert_true(rungs.is_allowed[HX_RUNG_PERSON]);

    record.is_superseded = true;
    rungs = hx_recover_rungs(&record, &facts, &now, true);
    assert_false(rungs.is_allowed[HX_RUNG_EVIDENCE]);
    record.is_superseded = false;
    record.state = HX_OP_RUNNING;
    rungs = hx_recover_rungs(&record, &facts, &now, true);
    assert_false(rungs.is_allowed[HX_RUNG_EVIDENCE]);
}

/* Whatever becomes of the sender and the target: that is asked when it is looked at. */
static void some_may_be_sent_again_alone(void **state)
{
    (void)state;
    const struct hx_now now = kit_now(1, 2000), late = kit_now(1, (int64_t)400 * 24 * 3600 * 1000);
    struct hx_record record = unknown_record(kit_contract(HX_CLASS_KEYED));
    assert_true(hx_recover_may_send_alone(&record, &now));
    assert_false(hx_recover_may_send_alone(&record, &late));
    assert_int_equal(hx_recover_looks_done(&record), 0);
    record.sends = 3;
    assert_int_equal(hx_recover_looks_done(&record), 2);
    record.sends = 0;
    assert_int_equal(hx_recover_looks_done(&record), 0);
    record.is_cancel_requested = true;
    assert_false(hx_recover_may_send_alone(&record, &now));
    record = unknown_record(kit_contract(HX_CLASS_IDEMPOTENT));
    assert_true(hx_recover_may_send_alone(&record, &now));
    record.sends = record.contract.attempts_max;
    assert_false(hx_recover_may_send_alone(&record, &now));
    record = unknown_record(kit_contract(HX_CLASS_OPAQUE));
    assert_false(hx_recover_may_send_alone(&record, &now));
}

static bool is_sent_by_a_look(bool is_cancelled, unsigned waiters)
{
    struct hx_record record = unknown_record(kit_contract(HX_CLASS_IDEMPOTENT));
    struct hx_event look = {.type = HX_EV_LOOK,
                            .now = kit_now(1, 9000),
                            .facts = {.is_sender_gone = true, .is_same_target = true},
                            .mint = {kit_id(1), kit_id(4), kit_id(5), "child 1"}};
    struct hx_op op;
    struct hx_effects effects;
    record.is_cancel_requested = is_cancelled;
    hx_op_init_loaded(&op, &record);
    op.waiters = waiters;
    hx_op_step(&op, &look, &effects);
    return op.phase == HX_PHASE_WRITING && op.next.state == HX_OP_RUNNING;
}

/* By itself no more; who waits wants it still. */
static void what_is_to_be_cancelled_is_sent_again_for_a_caller(void **state)
{
    (void)state;
    assert_true(is_sent_by_a_look(false, 0));
    assert_true(is_sent_by_a_look(false, 1));
    assert_false(is_sent_by_a_look(true, 0));
    assert_true(is_sent_by_a_look(true, 1));
}

static void looks_become_rarer(void **state)
{
    (void)state;
    static const int64_t delays_s[] = {5, 15, 45, 120, 300, 600, 600, 600};
    for (unsigned i = 0; i < sizeof(delays_s) / sizeof(delays_s[0]); i++)
        assert_int_equal(hx_recover_delay_ms(i), delays_s[i] * 1000);
    assert_int_equal(hx_recover_delay_ms(4000000000u), 600000);
}

static void person_is_needed_after_a_quarter_of_an_hour(void **state)
{
    (void)state;
    struct hx_record record = unknown_record(kit_contract(HX_CLASS_OPAQUE));
    struct hx_now early = kit_now(1, 1000 + 15 * 60 * 1000 - 1),
                  due = kit_now(1, 1000 + 15 * 60 * 1000);
    assert_false(hx_recover_needs_human(&record, &early));
    assert_true(hx_recover_needs_human(&record, &due));
    record.is_superseded = true;
    assert_false(hx_recover_needs_human(&record, &due));
    record.is_superseded = false;
    record.state = HX_OP_SUCCEEDED;
    assert_false(hx_recover_needs_human(&record, &due));
}

static void negatives_count_when_absence_can_be_proved_and_ten_seconds_apart(void **state)
{
    (void)state;
    struct hx_negatives negatives = {0};
    const struct {
        int64_t at_ms;
        bool is_provable;
        unsigned count;
        bool is_enough;
    } steps[] = {
        {1000, false, 0, false}, {2000, true, 1, false},  {11999, true, 1, false},
        {12000, true, 2, false}, {12001, true, 2, false}, {30000, false, 2, false},
        {40000, true, 3, true},  {60000, true, 4, true},
    };
    assert_int_equal(hx_recover_probe_delay_ms(2, &negatives), 45000);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct hx_mono now = kit_now(1, steps[i].at_ms).mono;
        bool is_enough = hx_recover_add_negative(&negatives, steps[i].is_provable, now);
        assert_int_equal(negatives.count, steps[i].count);
        assert_int_equal(is_enough, steps[i].is_enough);
    }
    assert_int_equal(hx_recover_probe_delay_ms(0, &negatives), 5000);
    assert_int_equal(hx_recover_probe_delay_ms(5, &negatives), 10000);
}

static void rungs_have_names(void **state)
{
    (void)state;
    assert_string_equal(hx_rung_name(HX_RUNG_EVIDENCE), "evidence");
    assert_string_equal(hx_rung_name(HX_RUNG_PERSON), "person");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_are_those_the_contract_allows),
        cmocka_unit_test(some_may_be_sent_again_alone),
        cmocka_unit_test(what_is_to_be_cancelled_is_sent_again_for_a_caller),
        cmocka_unit_test(looks_become_rarer),
        cmocka_unit_test(person_is_needed_after_a_quarter_of_an_hour),
        cmocka_unit_test(negatives_count_when_absence_can_be_proved_and_ten_seconds_apart),
        cmocka_unit_test(rungs_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
