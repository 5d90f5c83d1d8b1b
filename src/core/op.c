/* SPDX-License-Identifier: MIT */
/*
 * The life of one operation: the step function.
 *
 * An operation is a tool call that must not happen twice. A retry finds the same operation by its
 * key or as its twin, so every promise made to a client is decided here and in the three files
 * beside this one (attempt.c, verb.c, answer.c). They do no I/O and read no clock.
 *
 *   INV-2   No byte leaves before its intent is durable: SEND is emitted only when the mark of a
 * durable claim has come back. INV-3   Nothing is answered before it is durable: answers are built
 * from `durable`, which changes only on STORED, SPOOLED and STALE. INV-4   A final state never
 * changes except to expired: hx_op_move() knows no other move. INV-7   Fences rise: every write of
 * somebody who does not hold the present fence raises it. INV-12  Unknown is left only by evidence,
 * proof, a re-send under the same effect key, or a person.
 *
 * While a commit is in flight the operation is in the phase WRITING, MARKING or SETTLING and takes
 * no other decision: what arrives is deferred. That costs a caller at most one commit and keeps the
 * number of cases countable.
 */
#include "core/op.h"

#include "core/policy.h"
#include "core/step.h"
#include "core/words.h"

void hx_step_do(struct hx_step *step, enum hx_effect_type type)
{
    hx_assert(step->effects->count < HX_EFFECTS_MAX);
    step->effects->items[step->effects->count++] = (struct hx_effect){.type = type};
}

void hx_step_answer(struct hx_step *step, enum hx_effect_type type, enum hx_answer answer)
{
    hx_step_do(step, type);
    step->effects->items[step->effects->count - 1].answer = answer;
}

void hx_step_count(struct hx_step *step, enum hx_counter counter)
{
    hx_step_do(step, HX_DO_COUNT);
    step->effects->items[step->effects->count - 1].counter = counter;
}

void hx_step_look_later(struct hx_step *step, int64_t delay_ms)
{
    hx_step_do(step, HX_DO_LOOK_LATER);
    step->effects->items[step->effects->count - 1].delay_ms = delay_ms;
}

struct hx_record *hx_step_begin(struct hx_step *step)
{
    step->op->next = step->op->durable;
    step->op->next.updated = step->event->now;
    return &step->op->next;
}

void hx_op_move(struct hx_step *step, enum hx_op_state to, enum hx_reason reason)
{
    struct hx_record *next = &step->op->next;
    hx_assert(hx_op_move_is_allowed(next->state, to));
    next->state = to;
    next->reason = reason;
    if (to == HX_OP_UNKNOWN || hx_op_state_is_final(to))
        next->settled = step->event->now;
    if (to == HX_OP_UNKNOWN)
        next->outcome = (struct hx_outcome){0}; /* the question of an earlier round is none */
}

void hx_step_persist(struct hx_step *step, enum hx_write write, enum hx_op_phase phase)
{
    struct hx_op *op = step->op;
    op->write = write;
    op->expected_fence = op->durable.fence;
    op->is_retry_due = false;
    op->phase = phase;
    hx_step_do(step, HX_DO_PERSIST);
}

void hx_step_raise_fence(struct hx_step *step)
{
    step->op->next.fence = step->op->durable.fence + 1;
}

static bool has_attempt_in_hand(const struct hx_op *op)
{
    return op->phase == HX_PHASE_SENDING || op->phase == HX_PHASE_AWAITING;
}

static bool is_write_in_flight(const struct hx_op *op)
{
    return op->phase == HX_PHASE_WRITING || op->phase == HX_PHASE_MARKING ||
           op->phase == HX_PHASE_SETTLING;
}

/* A ready operation for which somebody waits here: begin the next attempt, now or when it is due.
 */
static void run_when_due(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!hx_has_attempts_left(&op->durable)) {
        hx_step_answer(step, HX_DO_ANSWER_ALL, HX_ANSWER_BUSY);
        return;
    }
    if (hx_is_due(&op->durable, &step->event->now)) {
        hx_step_claim(step, HX_REASON_CLAIMED);
        return;
    }
    int64_t wait_ms = op->durable.not_before.mono.ms - step->event->now.mono.ms;
    if (wait_ms > op->durable.contract.join_wait_ms)
        hx_step_answer(step, HX_DO_ANSWER_ALL, HX_ANSWER_BUSY);
    else
        hx_step_look_later(step, wait_ms);
}

/* Three tries within two seconds, then the callers are told; the operation stays ready. */
static void run_after_failed_start(struct hx_step *step)
{
    const uint32_t tries_max = 3;
    const int64_t tries_span_ms = 2000;
    const int64_t retry_ms = 100;
    struct hx_op *op = step->op;
    bool is_over =
        op->start_tries >= tries_max || hx_has_elapsed(&op->start_tried_at, &step->event->now,
                                                       tries_span_ms, HX_ACROSS_COUNTS_AS_OVER);
    if (is_over) {
        op->start_tries = 0;
        hx_step_answer(step, HX_DO_ANSWER_ALL, HX_ANSWER_UPSTREAM_UNAVAILABLE);
    } else {
        hx_step_look_later(step, retry_ms);
    }
}

static void on_claim_stored(struct hx_step *step)
{
    struct hx_op *op = step->op;
    /* Every caller left while the claim was being written. Nothing was sent, so it need not run;
     * but a person's approval asks for a run, and an earlier attempt may have acted already. */
    bool is_wanted =
        op->waiters > 0 || op->durable.is_approved || !hx_nothing_sent_before(&op->durable);
    if (!is_wanted) {
        hx_step_close_unsent(step, HX_REASON_NO_WAITER_LEFT);
        return;
    }
    struct hx_record *next = hx_step_begin(step);
    next->attempt.is_marked = true;
    next->attempt.marked_at = step->event->now;
    if (next->first_mark.wall.ms == 0)
        next->first_mark = step->event->now;
    op->write = HX_WRITE_NONE;
    op->expected_fence = op->durable.fence;
    op->phase = HX_PHASE_MARKING;
    hx_step_do(step, HX_DO_MARK);
}

static void on_mark_stored(struct hx_step *step)
{
    struct hx_op *op = step->op;
    op->durable = op->next;
    bool is_wanted =
        op->waiters > 0 || op->durable.is_approved || !hx_nothing_sent_before(&op->durable);
    if (!is_wanted) {
        /* Marked, but we are the only ones who could have sent and we did not. */
        hx_step_close_unsent(step, HX_REASON_NO_WAITER_LEFT);
        return;
    }
    op->phase = HX_PHASE_SENDING;
    hx_step_do(step, HX_DO_SEND);
}

static void on_written(struct hx_step *step)
{
    struct hx_op *op = step->op;
    op->durable = op->next;
    op->phase = HX_PHASE_IDLE;
    op->write = HX_WRITE_NONE;
    op->is_spooled = false;
    op->requires_unmarked = false;
    if (op->has_verb) {
        op->has_verb = false;
        hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_DONE);
    }
    if (op->must_follow) {
        op->must_follow = false;
        hx_step_do(step, HX_DO_FOLLOW);
        return;
    }
    switch (op->durable.state) {
    case HX_OP_RUNNING:
        on_claim_stored(step);
        return;
    case HX_OP_READY:
        if (op->waiters == 0 && !op->durable.is_approved)
            return;
        if (op->start_tries > 0)
            run_after_failed_start(step);
        else
            run_when_due(step);
        return;
    case HX_OP_UNKNOWN:
        if (op->durable.is_superseded) {
            hx_step_do(step, HX_DO_FOLLOW);
            return;
        }
        hx_step_do(step, HX_DO_LADDER);
        hx_step_do(step, HX_DO_ASK_PERSON);
        return;
    case HX_OP_AWAITING_APPROVAL:
        hx_step_do(step, HX_DO_ASK_PERSON);
        return;
    case HX_OP_INPUT_REQUIRED:
    case HX_OP_SUCCEEDED:
    case HX_OP_FAILED:
    case HX_OP_CANCELLED:
    case HX_OP_EXPIRED:
        hx_step_answer(step, HX_DO_ANSWER_ALL, hx_op_current_answer(&op->durable));
        return;
    case HX_OP_ABSENT:
    case HX_OP_STATE_COUNT:
        break;
    }
    hx_assert(!"a stored operation has a state");
}

static void on_stored(struct hx_step *step)
{
    if (step->op->phase == HX_PHASE_MARKING)
        on_mark_stored(step);
    else if (is_write_in_flight(step->op))
        on_written(step);
}

/* Some attempt may have acted on behalf of those who wait now. */
static bool may_have_acted(const struct hx_record *record)
{
    bool is_open = record->attempt.state == HX_ATTEMPT_OPEN;
    return record->earlier.open > 0 ||
           (is_open && (record->attempt.is_marked || record->state == HX_OP_UNKNOWN));
}

static void on_evidence(struct hx_step *step);

/* Somebody else changed the row first. What we wanted is void; the row as it is now decides. But an
 * outcome that we hold stays true: it is handed in again as evidence. */
static void on_stale(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!is_write_in_flight(op))
        return;
    bool was_insert = op->durable.state == HX_OP_ABSENT;
    bool was_retry = op->must_follow && !op->has_verb;
    bool has_outcome = op->phase != HX_PHASE_MARKING && !op->has_verb &&
                       op->durable.state != HX_OP_SUCCEEDED && op->next.state == HX_OP_SUCCEEDED;
    hx_step_count(step, HX_COUNTER_STALE_WRITE);
    op->phase = HX_PHASE_IDLE;
    op->write = HX_WRITE_NONE;
    op->requires_unmarked = false;
    op->is_spooled = false;
    op->must_follow = false;
    if (op->has_verb) {
        op->has_verb = false;
        hx_step_do(step, HX_DO_DEFER);
    }
    if (step->event->fresh == NULL && may_have_acted(&op->durable)) {
        /* No row like this one ever goes. Taken in again, its callers would run it anew. */
        hx_step_answer(step, HX_DO_ANSWER_ALL, HX_ANSWER_OUTCOME_UNKNOWN);
        return;
    }
    if (was_insert || step->event->fresh == NULL) {
        /* The row that took our place may carry other arguments, or the row is gone: the conflict
         * check comes first again for every caller. */
        hx_step_do(step, HX_DO_FOLLOW);
        return;
    }
    op->durable = *step->event->fresh;
    if (has_outcome) {
        struct hx_event evidence = *step->event;
        evidence.type = HX_EV_EVIDENCE;
        evidence.outcome = op->next.outcome;
        struct hx_step as_evidence = {op, &evidence, step->effects};
        on_evidence(&as_evidence);
    }
    /* Where somebody else made the successor, the callers mean that one. */
    if (op->phase == HX_PHASE_IDLE)
        hx_step_do(step, was_retry ? HX_DO_FOLLOW : HX_DO_WATCH);
}

/* The outcome is here and the ledger does not take it. It goes into the synced spool, and the
 * commit is tried again for as long as we live. */
static void on_settle_failed(struct hx_step *step)
{
    const int64_t retry_ms = 1000;
    step->op->is_retry_due = true;
    if (!step->op->is_spooled)
        hx_step_do(step, HX_DO_SPOOL);
    hx_step_look_later(step, retry_ms);
}

static void on_store_failed(struct hx_step *step)
{
    const int64_t retry_ms = 1000;
    struct hx_op *op = step->op;
    if (!is_write_in_flight(op))
        return;
    hx_step_count(step, op->durable.state == HX_OP_RUNNING ? HX_COUNTER_LEDGER_ERROR_AFTER
                                                           : HX_COUNTER_LEDGER_ERROR_BEFORE);
    if (op->phase == HX_PHASE_SETTLING) {
        on_settle_failed(step);
        return;
    }
    op->phase = HX_PHASE_IDLE;
    op->write = HX_WRITE_NONE;
    op->requires_unmarked = false;
    op->must_follow = false;
    if (op->has_verb) {
        op->has_verb = false;
        hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_LEDGER_UNAVAILABLE);
    }
    /* "Unavailable" says that this request sent nothing. Where an attempt may have acted for one of
     * those who wait that would be a lie, so there the honest word is unknown. */
    hx_step_answer(step, HX_DO_ANSWER_ALL,
                   may_have_acted(&op->durable) ? HX_ANSWER_OUTCOME_UNKNOWN
                                                : HX_ANSWER_LEDGER_UNAVAILABLE);
    if (op->durable.state == HX_OP_RUNNING)
        hx_step_look_later(step, retry_ms);
}

static void on_spooled(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (op->phase != HX_PHASE_SETTLING || op->is_spooled)
        return;
    op->is_spooled = true;
    hx_step_answer(step, HX_DO_ANSWER_ALL, hx_op_current_answer(&op->next));
}

static void call_while_busy(struct hx_step *step)
{
    if (step->op->phase == HX_PHASE_WRITING) {
        hx_step_do(step, HX_DO_DEFER);
    } else if (step->op->phase == HX_PHASE_SETTLING && step->op->is_spooled) {
        hx_step_answer(step, HX_DO_ANSWER_CALLER, hx_op_current_answer(&step->op->next));
    } else {
        hx_step_count(step, HX_COUNTER_JOINED);
        hx_step_do(step, HX_DO_JOIN);
    }
}

static void call_absent(struct hx_step *step)
{
    struct hx_op *op = step->op;
    hx_step_do(step, HX_DO_JOIN);
    if (step->event->needs_approval) {
        struct hx_record *next = hx_step_begin(step);
        hx_op_move(step, HX_OP_AWAITING_APPROVAL, HX_REASON_NONE);
        next->fence = 1;
        hx_step_persist(step, HX_WRITE_INSERT, HX_PHASE_WRITING);
    } else {
        hx_step_claim(step, HX_REASON_CLAIMED);
    }
    hx_assert(op->phase == HX_PHASE_WRITING);
}

static void call_ready(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!hx_is_due(&op->durable, &step->event->now) || !hx_has_attempts_left(&op->durable)) {
        hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_BUSY);
        return;
    }
    op->start_tries = 0;
    hx_step_do(step, HX_DO_JOIN);
    hx_step_claim(step, HX_REASON_CLAIMED);
}

/* The third rung of the ladder: the contract allows the same effect key again. */
static void resend_unknown(struct hx_step *step)
{
    hx_step_count(step, HX_COUNTER_RESEND);
    hx_step_claim(step, HX_REASON_SENT_AGAIN);
}

static void call_unknown(struct hx_step *step)
{
    hx_step_do(step, HX_DO_JOIN);
    if (hx_may_send_again(&step->op->durable, &step->event->facts, &step->event->now)) {
        resend_unknown(step);
        return;
    }
    hx_step_do(step, HX_DO_LADDER);
    hx_step_do(step, HX_DO_ASK_PERSON);
}

void hx_step_call(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (op->phase != HX_PHASE_IDLE) {
        call_while_busy(step);
        return;
    }
    if (op->durable.is_superseded) {
        hx_step_do(step, HX_DO_FOLLOW);
        return;
    }
    switch (op->durable.state) {
    case HX_OP_ABSENT:
        call_absent(step);
        return;
    case HX_OP_AWAITING_APPROVAL:
        hx_step_do(step, HX_DO_JOIN);
        hx_step_do(step, HX_DO_ASK_PERSON);
        return;
    case HX_OP_READY:
        call_ready(step);
        return;
    case HX_OP_RUNNING:
        hx_step_do(step, HX_DO_JOIN);
        hx_step_judge_running(step);
        return;
    case HX_OP_INPUT_REQUIRED:
        if (step->event->round == HX_ROUND_CONTINUES && hx_has_attempts_left(&op->durable)) {
            hx_step_do(step, HX_DO_JOIN);
            hx_step_claim(step, HX_REASON_CLAIMED);
            return;
        }
        hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_INPUT_REQUIRED);
        return;
    case HX_OP_UNKNOWN:
        call_unknown(step);
        return;
    case HX_OP_SUCCEEDED:
        hx_step_count(step, HX_COUNTER_REPLAYED);
        hx_step_answer(step, HX_DO_ANSWER_CALLER, hx_op_current_answer(&op->durable));
        return;
    case HX_OP_FAILED:
    case HX_OP_CANCELLED:
    case HX_OP_EXPIRED:
        hx_step_answer(step, HX_DO_ANSWER_CALLER, hx_op_current_answer(&op->durable));
        return;
    case HX_OP_STATE_COUNT:
        break;
    }
    hx_assert(!"state");
}

static void on_look(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (op->phase == HX_PHASE_SETTLING) {
        /* Only one write is ever in flight: a poll that comes while it is must not begin another. */
        if (op->is_retry_due)
            hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_SETTLING);
        return;
    }
    if (op->phase != HX_PHASE_IDLE)
        return;
    switch (op->durable.state) {
    case HX_OP_RUNNING:
        hx_step_judge_running(step);
        return;
    case HX_OP_READY:
        if (op->waiters > 0 || op->durable.is_approved)
            run_when_due(step);
        return;
    case HX_OP_UNKNOWN:
        if (op->durable.is_superseded)
            hx_step_do(step, HX_DO_FOLLOW);
        else if (hx_may_send_again(&op->durable, &step->event->facts, &step->event->now))
            resend_unknown(step);
        else if (op->waiters > 0)
            hx_step_do(step, HX_DO_ASK_PERSON);
        return;
    case HX_OP_AWAITING_APPROVAL:
        return;
    case HX_OP_INPUT_REQUIRED:
        if (step->event->facts.hands == HX_HANDS_DEAD &&
            op->durable.attempt.state == HX_ATTEMPT_OPEN)
            hx_step_become_unknown(step, HX_REASON_OWNER_DIED);
        else
            hx_step_answer(step, HX_DO_ANSWER_ALL, HX_ANSWER_INPUT_REQUIRED);
        return;
    case HX_OP_SUCCEEDED:
    case HX_OP_FAILED:
    case HX_OP_CANCELLED:
    case HX_OP_EXPIRED:
        hx_step_answer(step, HX_DO_ANSWER_ALL, hx_op_current_answer(&op->durable));
        return;
    case HX_OP_ABSENT:
        return;
    case HX_OP_STATE_COUNT:
        break;
    }
    hx_assert(!"state");
}

static void on_wait_over(struct hx_step *step)
{
    struct hx_op *op = step->op;
    enum hx_answer answer = hx_op_current_answer(&op->durable);
    if (op->phase == HX_PHASE_SETTLING)
        answer = op->is_spooled ? hx_op_current_answer(&op->next) : HX_ANSWER_OUTCOME_UNKNOWN;
    else if (op->durable.state == HX_OP_READY && op->start_tries > 0)
        answer = HX_ANSWER_UPSTREAM_UNAVAILABLE;
    hx_step_answer(step, HX_DO_ANSWER_CALLER, answer);
}

/* Evidence is kept by whoever brings it; here it only moves the states that are open to it. */
static void on_evidence(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (is_write_in_flight(op)) {
        hx_step_do(step, HX_DO_DEFER);
        return;
    }
    const struct hx_outcome *outcome = &step->event->outcome;
    switch (op->durable.state) {
    case HX_OP_RUNNING:
        if (has_attempt_in_hand(op) || step->event->facts.hands == HX_HANDS_DEAD ||
            step->event->facts.hands == HX_HANDS_MINE)
            hx_step_settle(step, HX_REASON_EVIDENCE);
        return;
    case HX_OP_UNKNOWN:
        if (op->durable.is_superseded)
            break; /* it was done again, and now it turns out that it had happened */
        hx_step_settle(step, HX_REASON_EVIDENCE);
        return;
    case HX_OP_INPUT_REQUIRED:
        hx_step_settle(step, HX_REASON_EVIDENCE);
        return;
    case HX_OP_READY:
        if (op->durable.first_mark.wall.ms == 0)
            break;
        /* It was sent once and then proved, wrongly, not to have acted. It must not run again. */
        hx_step_settle(step, HX_REASON_EVIDENCE);
        op->next.is_disputed = true;
        hx_step_count(step, HX_COUNTER_DISPUTED);
        hx_step_do(step, HX_DO_ALARM);
        return;
    case HX_OP_SUCCEEDED:
        if (op->durable.outcome.is_reconstructed ||
            hx_digest_eq(&op->durable.outcome.digest, &outcome->digest))
            return;
        break;
    case HX_OP_AWAITING_APPROVAL:
    case HX_OP_FAILED:
    case HX_OP_CANCELLED:
        break;
    case HX_OP_ABSENT:
    case HX_OP_EXPIRED:
        return;
    case HX_OP_STATE_COUNT:
        hx_assert(!"state");
    }
    /* It contradicts what we hold for certain. The state stands, people are told. */
    if (!op->durable.is_disputed) {
        hx_step_begin(step)->is_disputed = true;
        hx_step_raise_fence(step);
        hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
    }
    hx_step_count(step, HX_COUNTER_DISPUTED);
    hx_step_do(step, HX_DO_ALARM);
}

static void on_attempt_event(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (has_attempt_in_hand(op)) {
        hx_step_attempt_ended(step);
        return;
    }
    /* A late reply of an attempt that we had given up is evidence like any other. */
    if (step->event->type == HX_EV_REPLY)
        on_evidence(step);
}

static void on_retention(struct hx_step *step)
{
    struct hx_op *op = step->op;
    bool may_fade = op->phase == HX_PHASE_IDLE && hx_op_state_is_final(op->durable.state) &&
                    op->durable.state != HX_OP_EXPIRED && !op->durable.is_disputed;
    if (!may_fade)
        return;
    (void)hx_step_begin(step);
    hx_op_move(step, HX_OP_EXPIRED, HX_REASON_RETENTION);
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

static void dispatch(struct hx_step *step)
{
    struct hx_op *op = step->op;
    switch (step->event->type) {
    case HX_EV_CALL:
        hx_step_call(step);
        return;
    case HX_EV_LOOK:
        on_look(step);
        return;
    case HX_EV_WAIT_OVER:
        on_wait_over(step);
        return;
    case HX_EV_WAITER_LEFT:
        /* That waiter only. Work not yet begun is given back when the write in flight has ended. */
        return;
    case HX_EV_STORED:
        on_stored(step);
        return;
    case HX_EV_STALE:
        on_stale(step);
        return;
    case HX_EV_STORE_FAILED:
        on_store_failed(step);
        return;
    case HX_EV_SPOOLED:
        on_spooled(step);
        return;
    case HX_EV_FIRST_BYTE:
        if (op->phase == HX_PHASE_SENDING) {
            op->phase = HX_PHASE_AWAITING;
            op->start_tries = 0;
        }
        return;
    case HX_EV_NOT_SENT:
    case HX_EV_REPLY:
    case HX_EV_REFUSED_FINAL:
    case HX_EV_REFUSED_TRANSIENT:
    case HX_EV_INPUT_WANTED:
    case HX_EV_LOST:
        on_attempt_event(step);
        return;
    case HX_EV_EVIDENCE:
        on_evidence(step);
        return;
    case HX_EV_ABSENCE_PROVED:
    case HX_EV_APPROVE:
    case HX_EV_DENY:
    case HX_EV_RESOLVE_HAPPENED:
    case HX_EV_RESOLVE_ABSENT:
    case HX_EV_RESOLVE_AGAIN:
    case HX_EV_RETRY:
    case HX_EV_CANCEL:
    case HX_EV_HUMAN_DUE:
    case HX_EV_ROUND_EXPIRED:
        if (is_write_in_flight(op))
            hx_step_do(step, HX_DO_DEFER);
        else
            hx_step_verb(step);
        return;
    case HX_EV_RETENTION:
        on_retention(step);
        return;
    case HX_EV_COUNT:
        break;
    }
    hx_assert(!"event");
}

void hx_op_step(struct hx_op *op, const struct hx_event *event, struct hx_effects *ret_effects)
{
    hx_check(op, HX_OP_MAGIC);
    hx_op_check(op);
    ret_effects->count = 0;
    struct hx_step step = {op, event, ret_effects};
    dispatch(&step);
    hx_op_check(op);
}

const struct hx_record *hx_op_answered_record(const struct hx_op *op)
{
    return op->phase == HX_PHASE_SETTLING && op->is_spooled ? &op->next : &op->durable;
}

void hx_op_init_absent(struct hx_op *op, const struct hx_record *record)
{
    hx_assert(record->state == HX_OP_ABSENT);
    *op = (struct hx_op){.magic = HX_OP_MAGIC, .durable = *record};
}

void hx_op_init_loaded(struct hx_op *op, const struct hx_record *record)
{
    hx_assert(record->state != HX_OP_ABSENT);
    *op = (struct hx_op){.magic = HX_OP_MAGIC, .durable = *record};
}
