/* SPDX-License-Identifier: MIT */
/*
 * Whose word proves that nothing happened, though no time has passed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kit/ops.h"

static struct hx_record lost_once(void)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    record.state = HX_OP_UNKNOWN;
    record.reason = HX_REASON_TRANSPORT_LOST;
    record.fence = record.sends = record.attempt.number = 1;
    record.attempt.state = HX_ATTEMPT_OPEN;
    return record;
}

/* The state that is written for it; UNKNOWN: the proof is refused. */
static enum hx_op_state state_after(const struct hx_record *record, bool is_receivers_word)
{
    struct hx_op op;
    struct hx_effects effects;
    struct hx_event proved = {.type = HX_EV_ABSENCE_PROVED,
                              .now = kit_now(1, 60 * 1000),
                              .facts = {.hands = HX_HANDS_MINE},
                              .seen_attempt = 1,
                              .is_receivers_word = is_receivers_word};
    hx_op_init_loaded(&op, record);
    hx_op_step(&op, &proved, &effects);
    assert_int_equal(effects.items[0].type,
                     op.phase == HX_PHASE_IDLE ? HX_DO_ANSWER_CALLER : HX_DO_PERSIST);
    return op.phase == HX_PHASE_IDLE ? op.durable.state : op.next.state;
}

static void who_got_the_only_request_proves_what_became_of_it(void **state)
{
    (void)state;
    struct hx_record record = lost_once();
    assert_int_equal(state_after(&record, false), HX_OP_UNKNOWN);
    assert_int_equal(state_after(&record, true), HX_OP_FAILED);
}

static void of_several_requests_it_may_have_got_only_the_last(void **state)
{
    (void)state;
    struct hx_record record = lost_once();
    record.earlier.open = 1;
    assert_int_equal(state_after(&record, true), HX_OP_UNKNOWN);
}

static void a_restored_copy_does_not_know_of_all_requests(void **state)
{
    (void)state;
    struct hx_record record = lost_once();
    record.reason = HX_REASON_RESTORED_COPY;
    assert_int_equal(state_after(&record, true), HX_OP_UNKNOWN);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_got_the_only_request_proves_what_became_of_it),
        cmocka_unit_test(of_several_requests_it_may_have_got_only_the_last),
        cmocka_unit_test(a_restored_copy_does_not_know_of_all_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
