/* SPDX-License-Identifier: MIT */
/*
 * Histories of one operation that once broke a promise, or could. Each is the shortest one known;
 * the matrix has the single steps, the enumeration all histories of a small model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/recover.h"
#include "core/restored.h"
#include "kit/ops.h"

static struct hx_op op;
static struct hx_effects effects;

static const struct hx_facts our_facts = {
    .hands = HX_HANDS_MINE, .is_epoch_current = true, .is_same_target = true};
static const struct hx_facts dead_facts = {.hands = HX_HANDS_DEAD,
                                           .is_sender_gone = true,
                                           .is_epoch_current = true,
                                           .is_same_target = true};

static struct hx_event event_of(enum hx_event_type type)
{
    return (struct hx_event){.type = type,
                             .now = kit_now(1, 60 * 1000),
                             .facts = our_facts,
                             .mint = {kit_id(1), kit_id(4), kit_id(5), "child 1"},
                             .reason = HX_REASON_TRANSPORT_LOST,
                             .outcome = kit_outcome("done")};
}

static void give(struct hx_event event)
{
    hx_op_step(&op, &event, &effects);
}

static void step(enum hx_event_type type)
{
    give(event_of(type));
}

static bool did(enum hx_effect_type type)
{
    for (unsigned i = 0; i < effects.count; i++) {
        if (effects.items[i].type == type)
            return true;
    }
    return false;
}

/* The answer of the first effect of this type; COUNT when there is none. */
static enum hx_answer answered(enum hx_effect_type type)
{
    for (unsigned i = 0; i < effects.count; i++) {
        if (effects.items[i].type == type)
            return effects.items[i].answer;
    }
    return HX_ANSWER_COUNT;
}

static void begin(enum hx_tool_class tool_class)
{
    struct hx_contract contract = kit_contract(tool_class);
    struct hx_record record = kit_record(&contract);
    hx_op_init_absent(&op, &record);
}

static void call(void)
{
    step(HX_EV_CALL);
    assert_true(did(HX_DO_JOIN));
    op.waiters++;
}

/* A call whose bytes are out. */
static void begin_sent(enum hx_tool_class tool_class)
{
    begin(tool_class);
    call();
    step(HX_EV_STORED);
    assert_true(did(HX_DO_MARK));
    step(HX_EV_STORED);
    assert_true(did(HX_DO_SEND));
    step(HX_EV_FIRST_BYTE);
    assert_int_equal(op.phase, HX_PHASE_AWAITING);
}

static void begin_unknown(enum hx_tool_class tool_class)
{
    begin_sent(tool_class);
    struct hx_event lost = event_of(HX_EV_LOST);
    lost.facts.is_same_target = false; /* so that no tool is sent again */
    give(lost);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_UNKNOWN);
}

static void first_call_runs_once_and_is_answered_when_durable(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REPLY);
    assert_true(did(HX_DO_PERSIST));
    assert_false(did(HX_DO_ANSWER_ALL));
    step(HX_EV_STORED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME);
    op.waiters = 0;
    step(HX_EV_CALL);
    assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_OUTCOME);
    assert_false(did(HX_DO_PERSIST));
}

static void outcome_that_met_a_changed_row_is_evidence(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    struct hx_record fresh = op.durable;
    fresh.state = HX_OP_UNKNOWN;
    fresh.fence++;
    step(HX_EV_REPLY);
    struct hx_event stale = event_of(HX_EV_STALE);
    stale.fresh = &fresh;
    give(stale);
    assert_int_equal(op.next.state, HX_OP_SUCCEEDED);
    assert_int_equal(op.next.fence, fresh.fence + 1);
    assert_true(did(HX_DO_PERSIST));
    step(HX_EV_STORED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME);
}

static void poll_while_an_outcome_is_written_begins_no_second_write(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REPLY);
    step(HX_EV_LOOK);
    assert_false(did(HX_DO_PERSIST));
    step(HX_EV_STORE_FAILED);
    assert_true(did(HX_DO_SPOOL));
    step(HX_EV_LOOK);
    assert_true(did(HX_DO_PERSIST));
    step(HX_EV_LOOK);
    assert_false(did(HX_DO_PERSIST));
}

static void row_gone_under_a_sent_call_is_not_run_anew(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_LOST);
    step(HX_EV_STALE);
    assert_false(did(HX_DO_FOLLOW));
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME_UNKNOWN);
}

static void ledger_unavailable_is_not_told_after_a_byte_left(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_KEYED);
    step(HX_EV_LOST);
    assert_int_equal(op.next.reason, HX_REASON_SENT_AGAIN);
    step(HX_EV_STORED);
    assert_int_equal(op.phase, HX_PHASE_MARKING);
    step(HX_EV_STORE_FAILED); /* the second attempt sent nothing, but the first did */
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME_UNKNOWN);

    begin_unknown(HX_CLASS_OPAQUE);
    step(HX_EV_HUMAN_DUE);
    step(HX_EV_STORE_FAILED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME_UNKNOWN);
}

/* The error that kept the mark out of the ledger also ended the epoch of the claim, so that no look
 * for a mark proves anything; but we know that we did not send. */
static void what_could_not_be_marked_is_given_back(void **state)
{
    (void)state;
    for (int waiters = 0; waiters < 2; waiters++) {
        begin(HX_CLASS_OPAQUE);
        call();
        step(HX_EV_STORED);
        assert_int_equal(op.phase, HX_PHASE_MARKING);
        step(HX_EV_STORE_FAILED);
        assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_LEDGER_UNAVAILABLE);
        op.waiters = (uint32_t)waiters;
        struct hx_event look = event_of(HX_EV_LOOK);
        look.facts = (struct hx_facts){.hands = HX_HANDS_MINE};
        give(look);
        assert_int_equal(op.next.state, waiters ? HX_OP_RUNNING : HX_OP_READY);
        assert_false(op.requires_unmarked);
    }
}

/* A takeover that the ledger refused leaves us knowing no more than before. */
static void what_others_left_unmarked_is_looked_at_again(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, 8, kit_now(1, 2000));
    hx_op_init_loaded(&op, &record);
    struct hx_event look = event_of(HX_EV_LOOK);
    look.facts = dead_facts;
    for (int i = 0; i < 2; i++) {
        give(look);
        assert_true(did(HX_DO_PERSIST));
        assert_true(op.requires_unmarked);
        step(HX_EV_STORE_FAILED);
        look.facts.hands = i == 0 ? HX_HANDS_MINE : HX_HANDS_DEAD;
    }
}

static void ladder_sends_a_keyed_tool_again(void **state)
{
    (void)state;
    begin_unknown(HX_CLASS_KEYED);
    op.waiters = 0;
    step(HX_EV_LOOK);
    assert_int_equal(op.next.state, HX_OP_RUNNING);
    assert_int_equal(op.next.reason, HX_REASON_SENT_AGAIN);
    assert_int_equal(op.next.earlier.open, 1);

    begin_unknown(HX_CLASS_OPAQUE);
    step(HX_EV_LOOK);
    assert_false(did(HX_DO_PERSIST));
}

/* Zero would say that no earlier attempt may have acted. */
static void counts_of_attempts_do_not_wrap(void **state)
{
    (void)state;
    begin_unknown(HX_CLASS_KEYED);
    op.waiters = 0;
    op.durable.earlier.open = UINT16_MAX;
    step(HX_EV_LOOK);
    assert_int_equal(op.next.reason, HX_REASON_SENT_AGAIN);
    assert_int_equal(op.next.earlier.open, UINT16_MAX);

    begin_unknown(HX_CLASS_OPAQUE);
    op.durable.earlier.open = UINT16_MAX;
    op.durable.earlier.refused = 1;
    struct hx_event absent = event_of(HX_EV_RESOLVE_ABSENT);
    absent.is_forced = true;
    give(absent);
    assert_int_equal(op.next.earlier.refused, UINT16_MAX);
}

static void evidence_about_a_superseded_operation_alarms(void **state)
{
    (void)state;
    begin_unknown(HX_CLASS_OPAQUE);
    step(HX_EV_RESOLVE_AGAIN);
    step(HX_EV_STORED);
    assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_DONE);
    assert_true(did(HX_DO_FOLLOW));
    op.waiters = 0;
    step(HX_EV_REPLY);
    assert_true(did(HX_DO_ALARM));
    assert_int_equal(op.next.state, HX_OP_UNKNOWN);
    assert_true(op.next.is_disputed);
    step(HX_EV_STORED);
    assert_false(did(HX_DO_LADDER));
    step(HX_EV_RESOLVE_HAPPENED);
    assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_NOT_APPLIED);
}

/* The person who says "do it again" may be the one who may not approve, and his settings may
 * say nothing of approval: what was approved once is asked for once more. */
static void done_again_it_wants_an_approval_of_its_own(void **state)
{
    (void)state;
    static const enum hx_approval wanted[] = {HX_APPROVAL_ALWAYS, HX_APPROVAL_WHEN};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        begin(HX_CLASS_OPAQUE);
        op.durable.contract.approval = wanted[i];
        struct hx_event first = event_of(HX_EV_CALL);
        first.needs_approval = wanted[i] == HX_APPROVAL_WHEN;
        give(first);
        step(HX_EV_STORED);
        assert_int_equal(op.durable.state, HX_OP_AWAITING_APPROVAL);
        step(HX_EV_APPROVE);
        op.waiters = 1;
        step(HX_EV_STORED);
        step(HX_EV_STORED);
        step(HX_EV_STORED);
        assert_int_equal(op.phase, HX_PHASE_SENDING);
        step(HX_EV_FIRST_BYTE);
        step(HX_EV_LOST);
        step(HX_EV_STORED);
        assert_int_equal(op.durable.state, HX_OP_UNKNOWN);
        step(HX_EV_RESOLVE_AGAIN);
        assert_int_equal(op.successor.state, HX_OP_AWAITING_APPROVAL);
        assert_false(op.successor.is_approved);
    }
    /* What a restored ledger does not remember was approved by nobody that it knows. */
    begin(HX_CLASS_OPAQUE);
    op.durable.contract.approval = HX_APPROVAL_ALWAYS;
    struct hx_event from_gap = event_of(HX_EV_CALL);
    from_gap.is_from_gap = true;
    give(from_gap);
    step(HX_EV_STORED);
    step(HX_EV_RESOLVE_AGAIN);
    assert_int_equal(op.successor.state, HX_OP_AWAITING_APPROVAL);
}

/* What was answered once is answered for ever; that something else came later is told to people. */
static void a_contradiction_leaves_the_answer_as_it_was(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REPLY);
    step(HX_EV_STORED);
    struct hx_digest first = op.durable.outcome.digest;
    struct hx_event late = event_of(HX_EV_EVIDENCE);
    late.outcome = kit_outcome("another");
    give(late);
    assert_true(did(HX_DO_ALARM));
    step(HX_EV_STORED);
    assert_true(op.durable.is_disputed);
    assert_true(hx_digest_eq(&op.durable.outcome.digest, &first));
    step(HX_EV_CALL);
    assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_OUTCOME);
}

/* A person says that it happened, and the tool's own result says so too. */
static void words_of_our_own_making_contradict_no_result(void **state)
{
    (void)state;
    for (int is_first = 0; is_first < 2; is_first++) {
        begin_sent(HX_CLASS_OPAQUE);
        step(HX_EV_REPLY);
        step(HX_EV_STORED);
        op.durable.outcome.is_reconstructed = is_first;
        struct hx_event late = event_of(HX_EV_EVIDENCE);
        late.outcome = kit_outcome("another");
        late.outcome.is_reconstructed = !is_first;
        give(late);
        assert_false(did(HX_DO_ALARM));
        assert_int_equal(op.phase, HX_PHASE_IDLE);
        assert_false(op.durable.is_disputed);
    }
}

/* What came of it is known, whatever an earlier attempt may have done: nobody is told "unknown". */
static void ledger_errors_make_no_success_unknown(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_IDEMPOTENT);
    op.durable.earlier.open = 1;
    struct hx_event reply = event_of(HX_EV_REPLY);
    reply.outcome.is_error = true;
    give(reply);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_SUCCEEDED);
    step(HX_EV_RETRY);
    assert_int_equal(op.write, HX_WRITE_SUCCESSOR);
    step(HX_EV_STORE_FAILED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_LEDGER_UNAVAILABLE);
}

static void key_of_a_restored_copy_may_be_done_again_by_a_person_only(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    struct hx_record record = kit_record(&contract);
    record.state = HX_OP_UNKNOWN;
    record.reason = HX_REASON_RESTORED_COPY;
    record.fence = 1;
    record.settled = kit_now(1, 1000);
    hx_op_init_loaded(&op, &record);
    assert_int_equal(hx_record_effect(&record), HX_EFFECT_INTENDED);
    call();
    assert_false(did(HX_DO_PERSIST));
    step(HX_EV_RESOLVE_AGAIN);
    step(HX_EV_STORED);
    assert_true(did(HX_DO_FOLLOW));
}

/* A retry may have made a successor in the gap, and run it; the copy does not know. */
static void successor_from_a_gap_is_unknown(void **state)
{
    (void)state;
    for (int is_from_gap = 0; is_from_gap < 2; is_from_gap++) {
        begin_sent(HX_CLASS_OPAQUE);
        step(HX_EV_REFUSED_FINAL);
        step(HX_EV_STORED);
        assert_int_equal(op.durable.state, HX_OP_FAILED);
        struct hx_event retry = event_of(HX_EV_RETRY);
        retry.is_from_gap = is_from_gap;
        give(retry);
        assert_int_equal(op.write, HX_WRITE_SUCCESSOR);
        assert_int_equal(op.successor.state, is_from_gap ? HX_OP_UNKNOWN : HX_OP_READY);
        assert_int_equal(op.successor.reason,
                         is_from_gap ? HX_REASON_RESTORED_COPY : HX_REASON_SUCCESSOR);
        step(HX_EV_STORED);
        assert_true(did(HX_DO_FOLLOW));
    }
}

/* It may have waited for an approval that the copy does not remember the want of. */
static void row_of_a_restored_copy_never_runs_by_itself(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_PROBEABLE);
    contract.approval = HX_APPROVAL_WHEN;
    contract.retries_after_proof = true;
    contract.in_flight_bound_ms = 1000;
    struct hx_record record = kit_record(&contract);
    record.state = HX_OP_AWAITING_APPROVAL;
    record.fence = 1;
    struct hx_now recovered = kit_now(1, 1000);
    assert_true(hx_restored_doubt(&record, &recovered));
    hx_op_init_loaded(&op, &record);
    struct hx_event proved = event_of(HX_EV_ABSENCE_PROVED);
    proved.facts.is_sender_gone = true;
    proved.now = kit_now(1, 1500);
    give(proved);
    assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_NOT_APPLIED);
    proved.now = kit_now(1, 100 * 1000);
    give(proved);
    assert_int_equal(op.next.state, HX_OP_FAILED);
    hx_op_init_loaded(&op, &record);
    step(HX_EV_RESOLVE_AGAIN);
    assert_int_equal(op.successor.state, HX_OP_AWAITING_APPROVAL);
}

static void late_outcome_of_a_ready_operation_stops_it_from_running_again(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    op.waiters = 0;
    step(HX_EV_REFUSED_TRANSIENT);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_READY);
    assert_int_equal(op.phase, HX_PHASE_IDLE);
    step(HX_EV_EVIDENCE);
    assert_true(did(HX_DO_ALARM));
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_SUCCEEDED);
    assert_true(op.durable.is_disputed);
}

/* It is no outcome, and only the caller brings the next try: it uses up none of ours, and nothing
 * is sent again by itself, not even where the contract would allow it. */
static void what_only_the_caller_can_mend_uses_up_no_attempt(void **state)
{
    (void)state;
    struct hx_event refused = event_of(HX_EV_REFUSED_TRANSIENT);
    refused.is_for_caller = true;
    begin_sent(HX_CLASS_OPAQUE);
    op.waiters = 0;
    give(refused);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_READY);
    assert_int_equal(op.durable.sends, 0);

    begin_sent(HX_CLASS_OPAQUE);
    op.durable.is_approved = true;
    give(refused);
    op.waiters = 0;
    step(HX_EV_STORED); /* it waits for its caller, approved as it is */
    assert_int_equal(op.phase, HX_PHASE_IDLE);
    step(HX_EV_LOOK);
    assert_int_equal(op.phase, HX_PHASE_IDLE);
    step(HX_EV_CALL);
    assert_int_equal(op.next.attempt.number, 2);
    assert_int_equal(op.next.sends, 1);
    assert_true(op.next.is_approved);

    begin_sent(HX_CLASS_IDEMPOTENT);
    struct hx_event lost = event_of(HX_EV_LOST);
    lost.facts.is_sender_gone = true;
    give(lost);
    step(HX_EV_STORED);
    step(HX_EV_STORED);
    step(HX_EV_FIRST_BYTE);
    assert_int_equal(op.durable.attempt.number, 2);
    refused.facts.is_sender_gone = true;
    give(refused);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_UNKNOWN);
    assert_int_equal(op.durable.sends, 1);
}

static void second_of_two_retries_follows_the_winner(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REFUSED_FINAL);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_FAILED);
    struct hx_record fresh = op.durable;
    fresh.successor = kit_id(77);
    fresh.fence++;
    step(HX_EV_RETRY);
    assert_true(did(HX_DO_PERSIST));
    struct hx_event stale = event_of(HX_EV_STALE);
    stale.fresh = &fresh;
    give(stale);
    assert_true(did(HX_DO_FOLLOW));
}

static void failed_starts_are_counted_only_while_nothing_starts(void **state)
{
    (void)state;
    begin(HX_CLASS_OPAQUE);
    call();
    for (int i = 0; i < 2; i++) {
        step(HX_EV_STORED);
        step(HX_EV_STORED);
        step(HX_EV_NOT_SENT);
        step(HX_EV_STORED);
        assert_true(did(HX_DO_LOOK_LATER));
        step(HX_EV_LOOK);
    }
    assert_int_equal(op.durable.sends, 0);
    step(HX_EV_STORED);
    step(HX_EV_STORED);
    step(HX_EV_FIRST_BYTE);
    step(HX_EV_REFUSED_TRANSIENT);
    step(HX_EV_STORED);
    assert_false(did(HX_DO_ANSWER_ALL)); /* it was reached: no UPSTREAM_UNAVAILABLE */
}

static void who_waits_for_a_server_that_is_down_is_told_so(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REFUSED_TRANSIENT);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_READY);
    struct hx_event over = event_of(HX_EV_WAIT_OVER);
    give(over);
    assert_int_equal(effects.items[0].answer, HX_ANSWER_BUSY);
    over.is_upstream_down = true;
    give(over);
    assert_int_equal(effects.items[0].answer, HX_ANSWER_UPSTREAM_UNAVAILABLE);
}

static void mark_may_come_with_the_claim(void **state)
{
    (void)state;
    begin(HX_CLASS_OPAQUE);
    call();
    struct hx_event stored = event_of(HX_EV_STORED);
    stored.is_marked = true;
    stored.marked_at = stored.now;
    give(stored);
    assert_true(did(HX_DO_SEND));
    assert_true(op.durable.attempt.is_marked);
    struct hx_now first_mark = op.durable.first_mark;
    assert_int_equal(first_mark.wall.ms, stored.now.wall.ms);

    /* A second attempt has a mark of its own; the first one stays the first. */
    step(HX_EV_REFUSED_TRANSIENT);
    step(HX_EV_STORED);
    stored.marked_at.wall.ms = first_mark.wall.ms + 1000;
    give(stored);
    assert_int_equal(op.durable.attempt.marked_at.wall.ms, first_mark.wall.ms + 1000);
    assert_int_equal(op.durable.first_mark.wall.ms, first_mark.wall.ms);
}

/* "It did not happen" is said of what was sent, and a successor was not sent yet. */
static void absence_is_not_said_of_a_waiting_successor(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_REFUSED_TRANSIENT);
    step(HX_EV_STORED);
    struct hx_record successor = op.durable;
    successor.generation = 1;
    successor.predecessor = kit_id(78);
    hx_op_init_loaded(&op, &successor);
    step(HX_EV_RESOLVE_ABSENT);
    assert_int_equal(op.durable.state, HX_OP_READY);
    assert_int_equal(effects.items[0].answer, HX_ANSWER_NOT_APPLIED);
}

static void third_failed_start_is_told_and_nothing_loops(void **state)
{
    (void)state;
    begin(HX_CLASS_OPAQUE);
    struct hx_event first = event_of(HX_EV_CALL);
    first.needs_approval = true;
    give(first);
    step(HX_EV_STORED);
    step(HX_EV_APPROVE);
    step(HX_EV_STORED); /* nobody waits, but a person wants it run */
    assert_int_equal(op.next.state, HX_OP_RUNNING);
    for (int i = 0; i < 3; i++) {
        step(HX_EV_STORED);
        step(HX_EV_STORED);
        step(HX_EV_NOT_SENT);
        step(HX_EV_STORED);
        assert_int_equal(op.durable.state, HX_OP_READY);
        assert_int_equal(op.phase, HX_PHASE_IDLE);
        assert_true(i == 2 ? did(HX_DO_ANSWER_ALL) : did(HX_DO_LOOK_LATER));
        step(HX_EV_LOOK);
    }
}

/* --- what waits for a person, and how long --- */

static const int64_t day_ms = 24 * 60 * 60 * 1000;

static void step_later(enum hx_event_type type, int64_t ms)
{
    struct hx_event event = event_of(type);
    event.now.mono.ms += ms;
    event.now.wall.ms += ms;
    give(event);
}

static void begin_waiting(enum hx_op_state state)
{
    if (state == HX_OP_INPUT_REQUIRED) {
        begin_sent(HX_CLASS_OPAQUE);
        step(HX_EV_INPUT_WANTED);
    } else {
        begin(HX_CLASS_OPAQUE);
        struct hx_event first = event_of(HX_EV_CALL);
        first.needs_approval = true;
        give(first);
    }
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, state);
    op.waiters = 0;
}

static void what_nobody_approves_in_a_day_never_runs(void **state)
{
    (void)state;
    static const enum hx_event_type comes[] = {HX_EV_LOOK, HX_EV_CALL, HX_EV_RETRY, HX_EV_APPROVE};
    for (size_t i = 0; i < sizeof(comes) / sizeof(comes[0]); i++) {
        begin_waiting(HX_OP_AWAITING_APPROVAL);
        step_later(comes[i], day_ms);
        assert_int_equal(op.next.state, HX_OP_CANCELLED);
        assert_int_equal(op.next.reason, HX_REASON_APPROVAL_EXPIRED);
        step_later(HX_EV_STORED, day_ms);
        assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_CANCELLED);
        assert_int_equal(answered(HX_DO_ANSWER_CALLER),
                         comes[i] == HX_EV_APPROVE ? HX_ANSWER_NOT_APPLIED : HX_ANSWER_COUNT);
    }
    begin_waiting(HX_OP_AWAITING_APPROVAL);
    step_later(HX_EV_LOOK, day_ms - 1);
    assert_int_equal(effects.count, 0);
    step_later(HX_EV_APPROVE, day_ms - 1);
    assert_int_equal(op.next.state, HX_OP_READY);
}

static void a_question_that_nobody_answers_in_a_day_ends(void **state)
{
    (void)state;
    static const enum hx_event_type comes[] = {HX_EV_LOOK, HX_EV_CALL};
    for (size_t i = 0; i < sizeof(comes) / sizeof(comes[0]); i++) {
        begin_waiting(HX_OP_INPUT_REQUIRED);
        step_later(comes[i], day_ms - 1);
        assert_int_equal(op.phase, HX_PHASE_IDLE);
        step_later(comes[i], day_ms);
        assert_int_equal(op.next.state, HX_OP_EXPIRED);
        assert_int_equal(op.next.reason, HX_REASON_ROUND_EXPIRED);
        step_later(HX_EV_STORED, day_ms);
        assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_KEY_EXPIRED);
    }
}

static void question_is_answered_again_and_forgotten_when_unknown(void **state)
{
    (void)state;
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_INPUT_WANTED);
    step(HX_EV_STORED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_INPUT_REQUIRED);
    assert_true(hx_span_eq_cstr(op.durable.outcome.bytes, "done"));
    struct hx_event next = event_of(HX_EV_CALL);
    next.round = HX_ROUND_CONTINUES;
    give(next);
    step(HX_EV_STORED);
    step(HX_EV_STORED);
    step(HX_EV_LOST);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_UNKNOWN);
    struct hx_event absent = event_of(HX_EV_RESOLVE_ABSENT);
    absent.is_forced = true;
    give(absent);
    step(HX_EV_STORED);
    assert_int_equal(op.durable.state, HX_OP_FAILED);
}

static void takeover_and_cancel_lose_against_a_mark(void **state)
{
    (void)state;
    static const enum hx_event_type movers[] = {HX_EV_CALL, HX_EV_CANCEL};
    for (int i = 0; i < 2; i++) {
        struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
        struct hx_record record = kit_record(&contract);
        kit_claim(&record, 8, kit_now(1, 2000));
        hx_op_init_loaded(&op, &record);
        struct hx_event event = event_of(movers[i]);
        event.facts = dead_facts;
        give(event);
        assert_true(op.requires_unmarked);
        assert_int_equal(op.next.fence, record.fence + 1);
        kit_mark(&record, kit_now(1, 2100));
        struct hx_event stale = event_of(HX_EV_STALE);
        stale.fresh = &record;
        give(stale);
        assert_int_equal(op.durable.state, HX_OP_RUNNING);
        assert_true(did(movers[i] == HX_EV_CALL ? HX_DO_WATCH : HX_DO_DEFER));
        event.type = movers[i] == HX_EV_CALL ? HX_EV_LOOK : movers[i];
        give(event);
        if (movers[i] == HX_EV_CALL)
            assert_int_equal(op.next.state, HX_OP_UNKNOWN);
        else
            assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_CANCEL_IN_DOUBT);
    }
}

static void facts_that_were_not_filled_in_touch_nobodys_work(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, 8, kit_now(1, 2000));
    hx_op_init_loaded(&op, &record);
    struct hx_event look = event_of(HX_EV_LOOK);
    look.facts = (struct hx_facts){0};
    give(look);
    assert_true(did(HX_DO_WATCH));
    assert_false(did(HX_DO_PERSIST));
}

static void delivery_changes_no_step(void **state)
{
    (void)state;
    for (int delivered = 0; delivered < 2; delivered++) {
        begin_unknown(HX_CLASS_OPAQUE);
        op.durable.sent_count = delivered ? 3 : 0;
        op.durable.lost_count = delivered ? 0 : 3;
        op.durable.is_acknowledged = delivered;
        op.waiters = 0;
        step(HX_EV_CALL);
        assert_true(did(HX_DO_LADDER));
        assert_int_equal(op.durable.state, HX_OP_UNKNOWN);
        step(HX_EV_EVIDENCE);
        assert_int_equal(op.next.state, HX_OP_SUCCEEDED);
    }
}

static void names_are_those_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(hx_op_phase_name(HX_PHASE_MARKING), "marking");
    assert_string_equal(hx_event_name(HX_EV_RETENTION), "retention");
    assert_string_equal(hx_effect_name(HX_DO_FOLLOW), "follow");
    assert_string_equal(hx_answer_name(HX_ANSWER_KEY_CONFLICT), "KEY_CONFLICT");
    assert_string_equal(hx_counter_name(HX_COUNTER_JOINED), "joined");
}

static void spooled_outcome_is_the_answered_record(void **state)
{
    (void)state;
    begin(HX_CLASS_OPAQUE);
    struct hx_event first = event_of(HX_EV_CALL);
    first.mint.transport = NULL; /* this upstream has no name for it */
    give(first);
    assert_string_equal(op.next.attempt.transport, "");
    begin_sent(HX_CLASS_OPAQUE);
    assert_string_equal(op.durable.attempt.transport, "child 1");
    assert_ptr_equal(hx_op_answered_record(&op), &op.durable);
    step(HX_EV_REPLY);
    assert_ptr_equal(hx_op_answered_record(&op), &op.durable);
    step(HX_EV_STORE_FAILED);
    step(HX_EV_SPOOLED);
    assert_int_equal(answered(HX_DO_ANSWER_ALL), HX_ANSWER_OUTCOME);
    assert_ptr_equal(hx_op_answered_record(&op), &op.next);
}

static void lapsed_lease_says_nothing_of_the_tool(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, 8, kit_now(1, 2000));
    kit_mark(&record, kit_now(1, 2100));
    hx_op_init_loaded(&op, &record);
    struct hx_event event = event_of(HX_EV_CALL);
    event.facts = (struct hx_facts){.hands = HX_HANDS_ELSEWHERE_LAPSED, .is_same_target = true};
    give(event);
    assert_int_equal(op.next.state, HX_OP_UNKNOWN);
    assert_int_equal(op.next.fence, record.fence + 1);
    event.facts.hands = HX_HANDS_ELSEWHERE;
    hx_op_init_loaded(&op, &record);
    give(event);
    assert_true(did(HX_DO_WATCH));
    assert_false(did(HX_DO_PERSIST));
}

static void retention_takes_only_what_is_settled(void **state)
{
    (void)state;
    begin_unknown(HX_CLASS_OPAQUE);
    op.waiters = 0;
    step(HX_EV_RETENTION);
    assert_false(did(HX_DO_PERSIST));
    begin_sent(HX_CLASS_OPAQUE);
    step(HX_EV_RETENTION);
    assert_false(did(HX_DO_PERSIST));
    step(HX_EV_REPLY);
    step(HX_EV_STORED);
    op.durable.is_disputed = true;
    step(HX_EV_RETENTION);
    assert_false(did(HX_DO_PERSIST));
    op.durable.is_disputed = false;
    step(HX_EV_RETENTION);
    assert_int_equal(op.next.state, HX_OP_EXPIRED);
    step(HX_EV_STORED);
    step(HX_EV_RETENTION);
    assert_false(did(HX_DO_PERSIST));
}

static void decision_overtaken_by_another_attempt_is_not_applied(void **state)
{
    (void)state;
    static const enum hx_event_type decisions[] = {HX_EV_RESOLVE_ABSENT, HX_EV_RESOLVE_AGAIN};
    for (int i = 0; i < 2; i++) {
        begin_unknown(HX_CLASS_KEYED);
        struct hx_event decision = event_of(decisions[i]);
        decision.is_forced = true;
        decision.seen_attempt = op.durable.attempt.number + 1;
        give(decision);
        assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_NOT_APPLIED);
        decision.seen_attempt = op.durable.attempt.number;
        give(decision);
        assert_true(did(HX_DO_PERSIST));
        struct hx_record fresh = op.durable; /* sent again by another, and unknown again */
        fresh.fence += 3;
        fresh.attempt.number++;
        fresh.earlier.open++;
        struct hx_event stale = event_of(HX_EV_STALE);
        stale.fresh = &fresh;
        give(stale);
        assert_int_equal(answered(HX_DO_ANSWER_CALLER), HX_ANSWER_NOT_APPLIED);
        assert_false(did(HX_DO_DEFER));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_call_runs_once_and_is_answered_when_durable),
        cmocka_unit_test(outcome_that_met_a_changed_row_is_evidence),
        cmocka_unit_test(poll_while_an_outcome_is_written_begins_no_second_write),
        cmocka_unit_test(row_gone_under_a_sent_call_is_not_run_anew),
        cmocka_unit_test(ledger_unavailable_is_not_told_after_a_byte_left),
        cmocka_unit_test(what_could_not_be_marked_is_given_back),
        cmocka_unit_test(what_others_left_unmarked_is_looked_at_again),
        cmocka_unit_test(ladder_sends_a_keyed_tool_again),
        cmocka_unit_test(counts_of_attempts_do_not_wrap),
        cmocka_unit_test(evidence_about_a_superseded_operation_alarms),
        cmocka_unit_test(done_again_it_wants_an_approval_of_its_own),
        cmocka_unit_test(a_contradiction_leaves_the_answer_as_it_was),
        cmocka_unit_test(words_of_our_own_making_contradict_no_result),
        cmocka_unit_test(ledger_errors_make_no_success_unknown),
        cmocka_unit_test(key_of_a_restored_copy_may_be_done_again_by_a_person_only),
        cmocka_unit_test(successor_from_a_gap_is_unknown),
        cmocka_unit_test(row_of_a_restored_copy_never_runs_by_itself),
        cmocka_unit_test(late_outcome_of_a_ready_operation_stops_it_from_running_again),
        cmocka_unit_test(what_only_the_caller_can_mend_uses_up_no_attempt),
        cmocka_unit_test(second_of_two_retries_follows_the_winner),
        cmocka_unit_test(failed_starts_are_counted_only_while_nothing_starts),
        cmocka_unit_test(who_waits_for_a_server_that_is_down_is_told_so),
        cmocka_unit_test(mark_may_come_with_the_claim),
        cmocka_unit_test(absence_is_not_said_of_a_waiting_successor),
        cmocka_unit_test(third_failed_start_is_told_and_nothing_loops),
        cmocka_unit_test(what_nobody_approves_in_a_day_never_runs),
        cmocka_unit_test(a_question_that_nobody_answers_in_a_day_ends),
        cmocka_unit_test(question_is_answered_again_and_forgotten_when_unknown),
        cmocka_unit_test(takeover_and_cancel_lose_against_a_mark),
        cmocka_unit_test(facts_that_were_not_filled_in_touch_nobodys_work),
        cmocka_unit_test(delivery_changes_no_step),
        cmocka_unit_test(lapsed_lease_says_nothing_of_the_tool),
        cmocka_unit_test(retention_takes_only_what_is_settled),
        cmocka_unit_test(decision_overtaken_by_another_attempt_is_not_applied),
        cmocka_unit_test(names_are_those_of_the_table),
        cmocka_unit_test(spooled_outcome_is_the_answered_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
