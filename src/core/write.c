/* SPDX-License-Identifier: MIT */
/*
 * How a write ends: durable, overtaken by somebody else, not done, or safe in the spool; and what
 * the operation does next. Whatever an operation was about to do waits for this file.
 */
#include "core/policy.h"
#include "core/step.h"
#include "core/words.h"

/* A ready operation for which somebody waits here: begins the next attempt, now or when due. */
void hx_step_run_when_due(struct hx_step *step)
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

/* Every caller may have left while the claim was being written. Nothing was sent, so it need not
 * run; but a person's approval asks for a run, and an earlier attempt may have acted already. */
static bool is_run_wanted(const struct hx_op *op)
{
    return op->waiters > 0 || op->durable.is_approved || !hx_nothing_sent_before(&op->durable);
}

/* Marked: now the bytes may leave. */
static void send_marked(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!is_run_wanted(op)) {
        /* Marked, but we are the only ones who could have sent and we did not. */
        hx_step_close_unsent(step, HX_REASON_NO_WAITER_LEFT);
        return;
    }
    op->phase = HX_PHASE_SENDING;
    hx_step_do(step, HX_DO_SEND);
}

static void on_claim_stored(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (step->event->is_marked) {
        /* The store did it right after the claim, which saves one way to it and back. */
        op->durable.attempt.is_marked = true;
        op->durable.attempt.marked_at = step->event->marked_at;
        if (op->durable.first_mark.wall.ms == 0)
            op->durable.first_mark = step->event->marked_at;
        send_marked(step);
        return;
    }
    if (!is_run_wanted(op)) {
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
    step->op->durable = step->op->next;
    send_marked(step);
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
        bool was_late = op->durable.reason == HX_REASON_APPROVAL_EXPIRED;
        hx_step_answer(step, HX_DO_ANSWER_CALLER,
                       was_late ? HX_ANSWER_NOT_APPLIED : HX_ANSWER_DONE);
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
        if (op->waiters == 0 && !hx_runs_alone(&op->durable))
            return;
        if (op->start_tries > 0)
            run_after_failed_start(step);
        else
            hx_step_run_when_due(step);
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

void hx_step_stored(struct hx_step *step)
{
    if (step->op->phase == HX_PHASE_MARKING)
        on_mark_stored(step);
    else if (hx_op_is_writing(step->op))
        on_written(step);
}

/* Some attempt may have acted on behalf of those who wait now, and what came of it is not known. */
static bool may_have_acted(const struct hx_record *record)
{
    if (hx_op_state_is_final(record->state))
        return false;
    bool is_open = record->attempt.state == HX_ATTEMPT_OPEN;
    return record->earlier.open > 0 ||
           (is_open && (record->attempt.is_marked || record->state == HX_OP_UNKNOWN));
}

/* "It did not happen" and "do it again" were said before another attempt was made, and must not be
 * taken for a word about that one. A cancel is judged anew; an outcome stays true. */
static bool is_verb_outdated(const struct hx_op *op, const struct hx_record *fresh)
{
    bool is_about_past = op->write == HX_WRITE_SUCCESSOR || op->next.state == HX_OP_FAILED ||
                         op->next.state == HX_OP_READY;
    return is_about_past && (fresh == NULL || fresh->attempt.number != op->durable.attempt.number);
}

/* Somebody else changed the row first. What we wanted is void; the row as it is now decides. But an
 * outcome that we hold stays true: it is handed in again as evidence. */
void hx_step_stale(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!hx_op_is_writing(op))
        return;
    bool was_insert = op->durable.state == HX_OP_ABSENT;
    bool was_retry = op->must_follow && !op->has_verb;
    bool has_outcome = op->phase != HX_PHASE_MARKING && !op->has_verb &&
                       op->durable.state != HX_OP_SUCCEEDED && op->next.state == HX_OP_SUCCEEDED;
    bool is_outdated = is_verb_outdated(op, step->event->fresh);
    hx_step_count(step, HX_COUNTER_STALE_WRITE);
    op->phase = HX_PHASE_IDLE;
    op->write = HX_WRITE_NONE;
    op->requires_unmarked = false;
    op->is_spooled = false;
    op->must_follow = false;
    if (op->has_verb) {
        op->has_verb = false;
        if (is_outdated)
            hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_NOT_APPLIED);
        else
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
        hx_step_evidence(&as_evidence);
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

void hx_step_store_failed(struct hx_step *step)
{
    const int64_t retry_ms = 1000;
    struct hx_op *op = step->op;
    if (!hx_op_is_writing(op))
        return;
    hx_step_count(step, op->durable.state == HX_OP_RUNNING ? HX_COUNTER_LEDGER_ERROR_AFTER
                                                           : HX_COUNTER_LEDGER_ERROR_BEFORE);
    if (op->phase == HX_PHASE_SETTLING) {
        on_settle_failed(step);
        return;
    }
    if (op->phase == HX_PHASE_MARKING)
        op->unsent_fence = op->durable.fence;
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

void hx_step_spooled(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (op->phase != HX_PHASE_SETTLING || op->is_spooled)
        return;
    op->is_spooled = true;
    hx_step_answer(step, HX_DO_ANSWER_ALL, hx_op_current_answer(&op->next));
}
