/* SPDX-License-Identifier: MIT */
/*
 * How attempts begin and end, and what their ends mean for the operation.
 *
 * An attempt is one dispatch. It ends `confirmed` by an outcome, `refused` by a listed error that
 * proves nothing happened, `dead` when not one byte left; everything else leaves it `open`, which
 * means that it may have acted. An operation may be given back (`ready`) or called `failed` only if
 * all its attempts are dead or refused.
 */
#include "core/policy.h"
#include "core/step.h"
#include "core/words.h"

/* A count that is full stays so: at zero nothing would be left that may have acted. */
static void count(uint16_t *number)
{
    *number = (uint16_t)(*number + (*number < UINT16_MAX));
}

/* Moves the present attempt into the counts, so that a new one can take its place. */
static void archive_attempt(struct hx_record *record)
{
    switch (record->attempt.state) {
    case HX_ATTEMPT_OPEN:
        /* Unmarked and yet open: its mark may be lost. The horizon then counts from its claim. */
        if (record->first_mark.wall.ms == 0)
            record->first_mark = record->attempt.claimed_at;
        count(&record->earlier.open);
        return;
    case HX_ATTEMPT_ASKED:
        count(&record->earlier.asked);
        return;
    case HX_ATTEMPT_CONFIRMED:
        count(&record->earlier.confirmed);
        return;
    case HX_ATTEMPT_REFUSED:
        count(&record->earlier.refused);
        return;
    case HX_ATTEMPT_NONE:
    case HX_ATTEMPT_DEAD:
        return;
    }
    hx_assert(!"attempt state");
}

/* A dead attempt was no send, so it uses up none of the allowed ones. */
static void bury_attempt(struct hx_record *record)
{
    hx_assert(record->attempt.state == HX_ATTEMPT_OPEN);
    hx_assert(record->sends > 0);
    record->attempt.state = HX_ATTEMPT_DEAD;
    record->sends--;
}

/* Takes op->next on to a new attempt of ours. */
static void begin_attempt(struct hx_step *step, enum hx_reason reason)
{
    struct hx_record *next = &step->op->next;
    const struct hx_event *event = step->event;
    archive_attempt(next);
    next->attempt = (struct hx_attempt){
        .number = next->attempt.number + 1,
        .state = HX_ATTEMPT_OPEN,
        .claimed_at = event->now,
    };
    if (event->mint.transport != NULL) {
        size_t len = strnlen(event->mint.transport, HX_TRANSPORT_NAME_MAX - 1);
        memcpy(next->attempt.transport, event->mint.transport, len);
    }
    next->sends++;
    hx_assert(next->sends <= next->contract.attempts_max); /* INV-24: no operation runs for ever */
    /* INV-21: what always wants approval runs approved, or not at all. */
    hx_assert(next->contract.approval != HX_APPROVAL_ALWAYS || next->is_approved);
    next->owner = event->mint.owner;
    next->owner_boot = event->now.boot;
    next->not_before = (struct hx_now){0};
    hx_op_move(step, HX_OP_RUNNING, reason);
}

void hx_step_claim(struct hx_step *step, enum hx_reason reason)
{
    bool is_new = step->op->durable.state == HX_OP_ABSENT;
    (void)hx_step_begin(step);
    begin_attempt(step, reason);
    hx_step_raise_fence(step);
    hx_step_persist(step, is_new ? HX_WRITE_INSERT : HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

/* The state of an operation whose present attempt has just turned out never to have left. */
static void give_back(struct hx_step *step, enum hx_reason reason)
{
    struct hx_record *next = &step->op->next;
    if (next->earlier.open > 0)
        hx_op_move(step, HX_OP_UNKNOWN, reason);
    else if (next->earlier.asked > 0)
        hx_op_move(step, HX_OP_INPUT_REQUIRED, reason);
    else
        hx_op_move(step, HX_OP_READY, reason);
}

void hx_step_close_unsent(struct hx_step *step, enum hx_reason reason)
{
    /* Whoever must look for a mark did not hold the attempt. */
    if (!step->op->requires_unmarked)
        step->op->unsent_fence = step->op->durable.fence;
    bury_attempt(hx_step_begin(step));
    give_back(step, reason);
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

void hx_step_settle(struct hx_step *step, enum hx_reason reason)
{
    struct hx_op *op = step->op;
    bool is_owner = op->phase == HX_PHASE_SENDING || op->phase == HX_PHASE_AWAITING;
    struct hx_record *next = hx_step_begin(step);
    next->outcome = step->event->outcome;
    if (next->attempt.state == HX_ATTEMPT_OPEN || next->attempt.state == HX_ATTEMPT_ASKED)
        next->attempt.state = HX_ATTEMPT_CONFIRMED;
    hx_op_move(step, HX_OP_SUCCEEDED, reason);
    if (is_owner) {
        hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_SETTLING);
        return;
    }
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

void hx_step_become_unknown(struct hx_step *step, enum hx_reason reason)
{
    (void)hx_step_begin(step);
    hx_op_move(step, HX_OP_UNKNOWN, reason);
    hx_step_raise_fence(step);
    hx_step_count(step, HX_COUNTER_BECAME_UNKNOWN);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

/* Same operation, same effect key, one more attempt; the one before stays open. */
static void send_again(struct hx_step *step)
{
    hx_step_count(step, HX_COUNTER_RESEND);
    hx_step_claim(step, HX_REASON_SENT_AGAIN);
}

static void on_not_sent(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (op->start_tries == 0)
        op->start_tried_at = step->event->now;
    op->start_tries++;
    hx_step_close_unsent(step, HX_REASON_NOT_SENT);
}

/* A listed error proved that this attempt did nothing; what the earlier ones did decides the
 * rest. */
static void on_refused(struct hx_step *step)
{
    struct hx_op *op = step->op;
    op->start_tries = 0; /* it did start */
    bool is_transient = step->event->type == HX_EV_REFUSED_TRANSIENT;
    bool is_for_caller = step->event->is_for_caller;
    struct hx_record *next = hx_step_begin(step);
    next->attempt.state = HX_ATTEMPT_REFUSED;
    if (is_for_caller)
        next->sends--; /* no outcome, and only he brings the next one: INV-24 holds without it */
    if (!hx_nothing_sent_before(next)) {
        if (is_transient && !is_for_caller &&
            hx_may_send_again(next, &step->event->facts, &step->event->now)) {
            begin_attempt(step, HX_REASON_SENT_AGAIN);
            hx_step_count(step, HX_COUNTER_RESEND);
        } else {
            hx_op_move(step, HX_OP_UNKNOWN, HX_REASON_REFUSED_BY_TOOL);
            hx_step_count(step, HX_COUNTER_BECAME_UNKNOWN);
        }
    } else if (is_transient && hx_has_attempts_left(next)) {
        hx_op_move(step, HX_OP_READY, HX_REASON_REFUSED_BY_TOOL);
        next->not_before = step->event->now;
        next->not_before.mono.ms += step->event->not_before_ms;
        next->not_before.wall.ms += step->event->not_before_ms;
    } else {
        hx_op_move(step, HX_OP_FAILED, HX_REASON_REFUSED_BY_TOOL);
    }
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
    hx_assert(op->next.attempt.state != HX_ATTEMPT_OPEN || op->next.state == HX_OP_RUNNING);
}

static void on_input_wanted(struct hx_step *step)
{
    struct hx_record *next = hx_step_begin(step);
    next->attempt.state = HX_ATTEMPT_ASKED;
    next->outcome = step->event->outcome; /* the question, for whoever asks again */
    hx_op_move(step, HX_OP_INPUT_REQUIRED, HX_REASON_NONE);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_SETTLING);
}

void hx_step_attempt_ended(struct hx_step *step)
{
    struct hx_op *op = step->op;
    switch (step->event->type) {
    case HX_EV_NOT_SENT:
        /* Once a byte was seen to leave, "not sent" contradicts it: believe the byte. */
        if (op->phase == HX_PHASE_SENDING)
            on_not_sent(step);
        return;
    case HX_EV_REPLY:
        hx_step_settle(step, HX_REASON_ANSWERED);
        return;
    case HX_EV_REFUSED_FINAL:
    case HX_EV_REFUSED_TRANSIENT:
        on_refused(step);
        return;
    case HX_EV_INPUT_WANTED:
        on_input_wanted(step);
        return;
    case HX_EV_LOST:
        if (hx_may_send_again(&op->durable, &step->event->facts, &step->event->now))
            send_again(step);
        else
            hx_step_become_unknown(step, step->event->reason);
        return;
    default:
        hx_assert(!"not the end of an attempt");
    }
}

/* The owner is dead and the present attempt left not one byte. */
/* Left behind by a ledger that failed us before the first byte: nobody else could have sent it, so
 * neither its mark nor an epoch that the same failure ended says anything. */
static bool is_known_unsent(const struct hx_op *op, const struct hx_facts *facts)
{
    return facts->hands == HX_HANDS_MINE && op->unsent_fence == op->durable.fence &&
           op->durable.attempt.state == HX_ATTEMPT_OPEN;
}

static void take_over_unsent(struct hx_step *step)
{
    struct hx_op *op = step->op;
    const struct hx_facts *facts = &step->event->facts;
    bool is_wanted = op->waiters > 0 || step->event->type == HX_EV_CALL ||
                     (op->durable.is_approved && facts->is_same_target);
    op->requires_unmarked = !is_known_unsent(op, facts);
    if (!is_wanted || !hx_nothing_sent_before(&op->durable)) {
        hx_step_close_unsent(step, HX_REASON_OWNER_DIED);
        return;
    }
    hx_step_count(step, HX_COUNTER_TAKEOVER);
    bury_attempt(hx_step_begin(step));
    begin_attempt(step, HX_REASON_TAKEN_OVER);
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

void hx_step_judge_running(struct hx_step *step)
{
    struct hx_op *op = step->op;
    const struct hx_facts *facts = &step->event->facts;
    hx_assert(op->durable.state == HX_OP_RUNNING);
    /* "Nobody" is no fact about a running operation, only a fact that was not filled in. */
    if (facts->hands == HX_HANDS_ALIVE || facts->hands == HX_HANDS_ELSEWHERE ||
        facts->hands == HX_HANDS_NOBODY) {
        hx_step_do(step, HX_DO_WATCH);
        return;
    }
    /* Dead, lapsed on another host, or ours and left behind by a ledger failure. */
    if (is_known_unsent(op, facts) || hx_attempt_is_unsent(&op->durable, facts)) {
        take_over_unsent(step);
        return;
    }
    bool is_wanted = op->waiters > 0 || step->event->type == HX_EV_CALL;
    if (is_wanted && hx_may_send_again(&op->durable, facts, &step->event->now)) {
        hx_step_count(step, HX_COUNTER_TAKEOVER);
        send_again(step);
        return;
    }
    hx_step_become_unknown(step, HX_REASON_OWNER_DIED);
}
