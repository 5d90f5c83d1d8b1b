/* SPDX-License-Identifier: MIT */
/*
 * The life of one operation: the step function.
 *
 * An operation is a tool call that must not happen twice. A retry finds the same operation by its
 * key or as its twin, so every promise made to a client is decided here and in the four files
 * beside this one (write.c, attempt.c, verb.c, answer.c). They do no I/O and read no clock.
 *
 *   INV-2   No byte leaves before its intent is durable: SEND is emitted only when the mark of a
 *           durable claim has come back.
 *   INV-3   Nothing is answered before it is durable: answers are built from `durable`, which
 *           changes only on STORED, SPOOLED and STALE.
 *   INV-4   A final state never changes except to expired: hx_op_move() knows no other move.
 *   INV-7   Fences rise: every write of somebody who does not hold the present fence raises it.
 *   INV-12  Unknown is left only by evidence, proof, a re-send under the same effect key, or a
 *           person.
 *
 * While a commit is in flight the operation is in the phase WRITING, MARKING or SETTLING and takes
 * no other decision: what arrives is deferred. That costs a caller at most one commit and keeps the
 * number of cases countable.
 */
#include "core/op.h"

#include "core/policy.h"
#include "core/retention.h"
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
    /* INV-22: a clock that jumped makes nobody look in the past, or in a loop without rest. */
    hx_assert(delay_ms > 0);
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

bool hx_op_is_writing(const struct hx_op *op)
{
    return op->phase == HX_PHASE_WRITING || op->phase == HX_PHASE_MARKING ||
           op->phase == HX_PHASE_SETTLING;
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
    if (step->event->is_from_gap) {
        /* It may have been sent before the ledger lost the memory of it. */
        struct hx_record *next = hx_step_begin(step);
        hx_op_move(step, HX_OP_UNKNOWN, HX_REASON_RESTORED_COPY);
        next->fence = 1;
        hx_step_persist(step, HX_WRITE_INSERT, HX_PHASE_WRITING);
    } else if (step->event->needs_approval || op->durable.contract.approval == HX_APPROVAL_ALWAYS) {
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

/* What somebody has asked to cancel is sent again for a caller, and not by itself. */
static bool may_resend_now(const struct hx_step *step)
{
    const struct hx_op *op = step->op;
    bool is_wanted = op->waiters > 0 || !op->durable.is_cancel_requested;
    return is_wanted && hx_may_send_again(&op->durable, &step->event->facts, &step->event->now);
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
        if (!hx_step_end_unanswered(step))
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
        if (hx_is_unanswered(&op->durable, &step->event->now)) {
            hx_step_do(step, HX_DO_JOIN);
            (void)hx_step_end_unanswered(step);
            return;
        }
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
        /* Only one write is ever in flight: a poll in the meantime must not begin another. */
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
        if (op->waiters > 0 || (hx_runs_alone(&op->durable) && step->event->facts.is_same_target))
            hx_step_run_when_due(step);
        return;
    case HX_OP_UNKNOWN:
        if (op->durable.is_superseded)
            hx_step_do(step, HX_DO_FOLLOW);
        else if (may_resend_now(step))
            resend_unknown(step);
        else if (op->waiters > 0)
            hx_step_do(step, HX_DO_ASK_PERSON);
        return;
    case HX_OP_AWAITING_APPROVAL:
        (void)hx_step_end_unanswered(step);
        return;
    case HX_OP_INPUT_REQUIRED:
        if (step->event->facts.hands == HX_HANDS_DEAD &&
            op->durable.attempt.state == HX_ATTEMPT_OPEN)
            hx_step_become_unknown(step, HX_REASON_OWNER_DIED);
        else if (!hx_step_end_unanswered(step))
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
    else if (op->durable.state == HX_OP_READY &&
             (op->start_tries > 0 || step->event->is_upstream_down))
        answer = HX_ANSWER_UPSTREAM_UNAVAILABLE;
    hx_step_answer(step, HX_DO_ANSWER_CALLER, answer);
}

/* Evidence is kept by whoever brings it; here it only moves the states that are open to it. */
void hx_step_evidence(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (hx_op_is_writing(op)) {
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
        /* Words of our own making never contradict a result: both say that it happened. */
        if (op->durable.outcome.is_reconstructed || outcome->is_reconstructed ||
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
        hx_step_evidence(step);
}

static void on_retention(struct hx_step *step)
{
    struct hx_op *op = step->op;
    bool may_fade = op->phase == HX_PHASE_IDLE && op->durable.state != HX_OP_EXPIRED &&
                    hx_retention_may_fade(op->durable.state, op->durable.is_disputed);
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
        hx_step_stored(step);
        return;
    case HX_EV_STALE:
        hx_step_stale(step);
        return;
    case HX_EV_STORE_FAILED:
        hx_step_store_failed(step);
        return;
    case HX_EV_SPOOLED:
        hx_step_spooled(step);
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
        hx_step_evidence(step);
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
        if (hx_op_is_writing(op))
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

/* INV-17: how an answer fares, and who waits for one, moves nothing. */
static void check_delivery_only_answers(const struct hx_op *op, enum hx_op_phase phase_before,
                                        const struct hx_effects *effects)
{
    hx_assert(op->phase == phase_before);
    for (unsigned i = 0; i < effects->count; i++)
        hx_assert(effects->items[i].type == HX_DO_ANSWER_CALLER);
}

/* INV-20: what stands in the ledger is never written a second time: a step that begins a write
 * changes the row, so that the same step on the new row finds nothing more to do. */
static void check_write_changes(const struct hx_op *op, const struct hx_effects *effects)
{
    const struct hx_record *next = &op->next;
    const struct hx_record *durable = &op->durable;
    for (unsigned i = 0; i < effects->count; i++) {
        if (effects->items[i].type == HX_DO_PERSIST)
            hx_assert(next->state != durable->state || next->fence > durable->fence);
    }
}

void hx_op_step(struct hx_op *op, const struct hx_event *event, struct hx_effects *ret_effects)
{
    hx_check(op, HX_OP_MAGIC);
    hx_op_check(op);
    ret_effects->count = 0;
    enum hx_op_phase phase_before = op->phase;
    struct hx_step step = {op, event, ret_effects};
    dispatch(&step);
    hx_op_check(op);
    hx_op_check_answers(op, ret_effects);
    check_write_changes(op, ret_effects);
    if (event->type == HX_EV_WAITER_LEFT || event->type == HX_EV_WAIT_OVER)
        check_delivery_only_answers(op, phase_before, ret_effects);
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
