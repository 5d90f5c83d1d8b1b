/* SPDX-License-Identifier: MIT */
/*
 * What a person, a proof or an explicit request decides about an operation. Every verb is answered:
 * DONE when its write is durable, NOT_APPLIED when the state does not allow it (any more), so that
 * the second of two deciders learns that his decision did not count.
 */
#include "core/policy.h"
#include "core/step.h"
#include "core/words.h"

static void not_applied(struct hx_step *step)
{
    hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_NOT_APPLIED);
}

/* Commits op->next on behalf of somebody who does not hold the fence, and answers when it is
 * durable. */
static void commit_verb(struct hx_step *step, enum hx_write write)
{
    hx_step_raise_fence(step);
    step->op->has_verb = true;
    hx_step_persist(step, write, HX_PHASE_WRITING);
}

static void move_and_commit(struct hx_step *step, enum hx_op_state to, enum hx_reason reason)
{
    (void)hx_step_begin(step);
    hx_op_move(step, to, reason);
    commit_verb(step, HX_WRITE_UPDATE);
}

/* Every attempt that may have acted is now known not to have. */
static void refuse_all_attempts(struct hx_record *record)
{
    if (record->attempt.state == HX_ATTEMPT_OPEN || record->attempt.state == HX_ATTEMPT_ASKED)
        record->attempt.state = HX_ATTEMPT_REFUSED;
    uint32_t refused = (uint32_t)record->earlier.refused + record->earlier.open;
    refused += record->earlier.asked;
    record->earlier.refused = (uint16_t)(refused < UINT16_MAX ? refused : UINT16_MAX);
    record->earlier.open = 0;
    record->earlier.asked = 0;
}

static void on_absence(struct hx_step *step, enum hx_reason reason, bool may_retry)
{
    const struct hx_contract *contract = &step->op->durable.contract;
    struct hx_record *next = hx_step_begin(step);
    refuse_all_attempts(next);
    /* A row of a restored copy may lack the approval that it was waiting for. */
    bool runs_again = may_retry && contract->retries_after_proof && hx_has_attempts_left(next) &&
                      next->reason != HX_REASON_RESTORED_COPY;
    hx_op_move(step, runs_again ? HX_OP_READY : HX_OP_FAILED, reason);
    commit_verb(step, HX_WRITE_UPDATE);
}

/* A decision about what had happened says nothing of an attempt that was made since. */
static bool is_about_present(const struct hx_step *step)
{
    return step->event->seen_attempt == 0 ||
           step->event->seen_attempt == step->op->durable.attempt.number;
}

/* What a gateway of our kind made of the one request that was ever sent has ended there, so nothing
 * that is under way can change it. Of several it may have got only the last; and a restored copy
 * does not know how many there were. */
static bool is_receivers_proof(const struct hx_step *step)
{
    const struct hx_record *record = &step->op->durable;
    return step->event->is_receivers_word && record->attempt.state == HX_ATTEMPT_OPEN &&
           hx_nothing_sent_before(record) && record->reason != HX_REASON_RESTORED_COPY;
}

static void on_absence_proved(struct hx_step *step)
{
    struct hx_op *op = step->op;
    const struct hx_event *event = step->event;
    bool is_proved = is_receivers_proof(step) ||
                     hx_absence_is_provable(&op->durable, &event->facts, &event->now);
    if (!is_about_present(step) || op->durable.state != HX_OP_UNKNOWN ||
        op->durable.is_superseded || !is_proved) {
        not_applied(step);
        return;
    }
    on_absence(step, HX_REASON_ABSENCE_PROVED, true);
}

static void on_resolve_absent(struct hx_step *step)
{
    struct hx_op *op = step->op;
    /* A successor that waits to run says nothing about the one before it, which its key stands for
     * too: "failed" would be told of both. */
    bool is_first = hx_id_is_nil(&op->durable.predecessor);
    if (op->durable.state == HX_OP_READY && is_first) {
        move_and_commit(step, HX_OP_FAILED, HX_REASON_RESOLVED_BY_PERSON);
        return;
    }
    bool is_believable =
        step->event->is_forced ||
        hx_absence_is_provable(&op->durable, &step->event->facts, &step->event->now);
    if (!is_about_present(step) || op->durable.state != HX_OP_UNKNOWN ||
        op->durable.is_superseded || !is_believable) {
        not_applied(step);
        return;
    }
    on_absence(step, HX_REASON_RESOLVED_BY_PERSON, false);
}

static void on_resolve_happened(struct hx_step *step)
{
    struct hx_op *op = step->op;
    bool is_open_question =
        op->durable.state == HX_OP_UNKNOWN || op->durable.state == HX_OP_INPUT_REQUIRED;
    if (!is_open_question || op->durable.is_superseded) {
        not_applied(step);
        return;
    }
    struct hx_record *next = hx_step_begin(step);
    next->outcome = step->event->outcome;
    if (next->attempt.state == HX_ATTEMPT_OPEN || next->attempt.state == HX_ATTEMPT_ASKED)
        next->attempt.state = HX_ATTEMPT_CONFIRMED;
    hx_op_move(step, HX_OP_SUCCEEDED, HX_REASON_RESOLVED_BY_PERSON);
    commit_verb(step, HX_WRITE_UPDATE);
}

/* Whoever decides to do it again has not approved it: what needed a person needs one again,
 * also when the settings of the one who decides say nothing of it. */
static bool needs_approval_again(const struct hx_event *event, const struct hx_record *old)
{
    bool was_waiting_perhaps =
        old->reason == HX_REASON_RESTORED_COPY && old->contract.approval == HX_APPROVAL_WHEN;
    return event->needs_approval || old->is_approved || was_waiting_perhaps ||
           old->contract.approval == HX_APPROVAL_ALWAYS;
}

/* The next generation of the same key: its own effect key, its own approval, its own attempts. */
static void make_successor(struct hx_step *step)
{
    const struct hx_event *event = step->event;
    struct hx_op *op = step->op;
    struct hx_record *old = &op->durable;
    op->successor = (struct hx_record){
        .id = event->mint.id,
        .tenant = old->tenant,
        .principal = old->principal,
        .server = old->server,
        .tool = old->tool,
        .key = old->key,
        .key_source = old->key_source,
        .generation = old->generation + 1,
        .identity = old->identity,
        .twin = old->twin,
        .fingerprint = old->fingerprint,
        .effect_key = event->mint.effect_key,
        .first_sent = old->first_sent,
        .created = event->now,
        .updated = event->now,
        .arguments = old->arguments,
        .contract = old->contract,
        .state = needs_approval_again(event, old) ? HX_OP_AWAITING_APPROVAL : HX_OP_READY,
        .reason = HX_REASON_SUCCESSOR,
        .fence = 1,
        .predecessor = old->id,
    };
    if (event->type == HX_EV_RETRY && event->is_from_gap) {
        /* The same retry may have made one, and run it, after the copy was taken. */
        op->successor.state = HX_OP_UNKNOWN;
        op->successor.reason = HX_REASON_RESTORED_COPY;
        op->successor.settled = event->now;
    }
    op->next.successor = event->mint.id;
    hx_assert(hx_record_flaw(&op->successor) == NULL);
    hx_assert(!op->successor.is_approved); /* INV-21: one approval, at most one effect */
    hx_assert(!hx_id_eq(&op->successor.effect_key, &old->effect_key));
}

static void on_resolve_again(struct hx_step *step)
{
    struct hx_op *op = step->op;
    if (!is_about_present(step) || op->durable.state != HX_OP_UNKNOWN ||
        op->durable.is_superseded) {
        not_applied(step);
        return;
    }
    /* The old one stays unknown: what became of it is still not known. */
    struct hx_record *next = hx_step_begin(step);
    next->is_superseded = true;
    next->reason = HX_REASON_SUPERSEDED;
    make_successor(step);
    op->must_follow = true;
    commit_verb(step, HX_WRITE_SUCCESSOR);
}

static void on_retry(struct hx_step *step)
{
    struct hx_op *op = step->op;
    const struct hx_record *record = &op->durable;
    if (op->phase != HX_PHASE_IDLE) {
        hx_step_do(step, HX_DO_JOIN);
        return;
    }
    if (!hx_id_is_nil(&record->successor)) {
        hx_step_do(step, HX_DO_FOLLOW);
        return;
    }
    bool is_error_of_idempotent = record->state == HX_OP_SUCCEEDED && record->outcome.is_error &&
                                  record->contract.tool_class == HX_CLASS_IDEMPOTENT;
    bool may_succeed = (record->state == HX_OP_FAILED || record->state == HX_OP_CANCELLED ||
                        is_error_of_idempotent) &&
                       !record->is_tombstone;
    if (!may_succeed) {
        struct hx_event call = *step->event;
        call.type = HX_EV_CALL;
        struct hx_step as_call = {op, &call, step->effects};
        hx_step_call(&as_call);
        return;
    }
    (void)hx_step_begin(step);
    make_successor(step);
    hx_step_raise_fence(step);
    op->must_follow = true;
    hx_step_do(step, HX_DO_JOIN);
    hx_step_persist(step, HX_WRITE_SUCCESSOR, HX_PHASE_WRITING);
}

static void cancel_in_doubt(struct hx_step *step)
{
    hx_step_do(step, HX_DO_CANCEL_UPSTREAM);
    hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_CANCEL_IN_DOUBT);
}

static void cancel_running(struct hx_step *step)
{
    struct hx_op *op = step->op;
    bool is_unsent =
        op->phase == HX_PHASE_IDLE && hx_nothing_sent(&op->durable, &step->event->facts);
    if (!is_unsent) {
        cancel_in_doubt(step);
        return;
    }
    /* The owner may be about to mark. The store decides who was first: if a mark is found no row
     * changes, and this verb comes in again and is answered "in doubt". */
    struct hx_record *next = hx_step_begin(step);
    next->attempt.state = HX_ATTEMPT_DEAD;
    next->sends--;
    hx_op_move(step, HX_OP_CANCELLED,
               step->event->is_by_operator ? HX_REASON_CANCELLED_BY_OPERATOR
                                           : HX_REASON_CANCELLED_BY_CALLER);
    op->requires_unmarked = true;
    commit_verb(step, HX_WRITE_UPDATE);
}

static void on_cancel(struct hx_step *step)
{
    struct hx_op *op = step->op;
    enum hx_reason reason = step->event->is_by_operator ? HX_REASON_CANCELLED_BY_OPERATOR
                                                        : HX_REASON_CANCELLED_BY_CALLER;
    switch (op->durable.state) {
    case HX_OP_ABSENT: {
        /* A restored copy of the ledger lacks what its key may have begun. */
        if (step->event->is_from_gap) {
            hx_step_answer(step, HX_DO_ANSWER_CALLER, HX_ANSWER_CANCEL_IN_DOUBT);
            return;
        }
        /* A tombstone: the original may still be on its way, and must find that it is cancelled. */
        struct hx_record *next = hx_step_begin(step);
        next->is_tombstone = true;
        hx_op_move(step, HX_OP_CANCELLED, reason);
        commit_verb(step, HX_WRITE_INSERT);
        return;
    }
    case HX_OP_AWAITING_APPROVAL:
    case HX_OP_READY:
        move_and_commit(step, HX_OP_CANCELLED, reason);
        return;
    case HX_OP_RUNNING:
        cancel_running(step);
        return;
    case HX_OP_INPUT_REQUIRED:
    case HX_OP_UNKNOWN:
        cancel_in_doubt(step);
        return;
    case HX_OP_SUCCEEDED:
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

bool hx_step_end_unanswered(struct hx_step *step)
{
    const struct hx_record *record = &step->op->durable;
    if (!hx_is_unanswered(record, &step->event->now))
        return false;
    (void)hx_step_begin(step);
    if (record->state == HX_OP_AWAITING_APPROVAL)
        hx_op_move(step, HX_OP_CANCELLED, HX_REASON_APPROVAL_EXPIRED);
    else
        hx_op_move(step, HX_OP_EXPIRED, HX_REASON_ROUND_EXPIRED);
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
    return true;
}

static void on_approve(struct hx_step *step)
{
    if (step->op->durable.state != HX_OP_AWAITING_APPROVAL) {
        not_applied(step);
        return;
    }
    if (hx_step_end_unanswered(step)) {
        step->op->has_verb = true; /* which came too late, and is told so then */
        return;
    }
    hx_step_begin(step)->is_approved = true;
    hx_op_move(step, HX_OP_READY, HX_REASON_APPROVED);
    commit_verb(step, HX_WRITE_UPDATE);
}

static void on_deny(struct hx_step *step)
{
    if (step->op->durable.state != HX_OP_AWAITING_APPROVAL)
        not_applied(step);
    else
        move_and_commit(step, HX_OP_CANCELLED, step->event->reason);
}

static void on_human_due(struct hx_step *step)
{
    struct hx_op *op = step->op;
    bool is_due = op->durable.state == HX_OP_UNKNOWN && !op->durable.is_superseded &&
                  !op->durable.needs_human;
    if (!is_due)
        return;
    hx_step_begin(step)->needs_human = true;
    hx_step_raise_fence(step);
    hx_step_persist(step, HX_WRITE_UPDATE, HX_PHASE_WRITING);
}

void hx_step_verb(struct hx_step *step)
{
    switch (step->event->type) {
    case HX_EV_ABSENCE_PROVED:
        on_absence_proved(step);
        return;
    case HX_EV_APPROVE:
        on_approve(step);
        return;
    case HX_EV_DENY:
        on_deny(step);
        return;
    case HX_EV_RESOLVE_HAPPENED:
        on_resolve_happened(step);
        return;
    case HX_EV_RESOLVE_ABSENT:
        on_resolve_absent(step);
        return;
    case HX_EV_RESOLVE_AGAIN:
        on_resolve_again(step);
        return;
    case HX_EV_RETRY:
        on_retry(step);
        return;
    case HX_EV_CANCEL:
        on_cancel(step);
        return;
    case HX_EV_HUMAN_DUE:
        on_human_due(step);
        return;
    default:
        hx_assert(!"not a verb");
    }
}
