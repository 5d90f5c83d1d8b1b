/* SPDX-License-Identifier: MIT */
/*
 * What the present state answers to anybody who asks, and the drawing and facts of the states in
 * code.
 */
#include "core/op.h"
#include "core/step.h"

enum hx_answer hx_op_current_answer(const struct hx_record *record)
{
    switch (record->state) {
    case HX_OP_ABSENT:
    case HX_OP_READY:
    case HX_OP_RUNNING:
        return HX_ANSWER_BUSY;
    case HX_OP_AWAITING_APPROVAL:
        return HX_ANSWER_APPROVAL_REQUIRED;
    case HX_OP_INPUT_REQUIRED:
        return HX_ANSWER_INPUT_REQUIRED;
    case HX_OP_SUCCEEDED:
        return record->outcome.place == HX_OUTCOME_GONE ? HX_ANSWER_RESULT_UNAVAILABLE
                                                        : HX_ANSWER_OUTCOME;
    case HX_OP_FAILED:
        return HX_ANSWER_FAILED;
    case HX_OP_UNKNOWN:
        return HX_ANSWER_OUTCOME_UNKNOWN;
    case HX_OP_CANCELLED:
        return HX_ANSWER_CANCELLED;
    case HX_OP_EXPIRED:
        return HX_ANSWER_KEY_EXPIRED;
    case HX_OP_STATE_COUNT:
        break;
    }
    hx_assert(!"state");
    return HX_ANSWER_COUNT;
}

bool hx_op_move_is_allowed(enum hx_op_state from, enum hx_op_state to)
{
    static const struct {
        enum hx_op_state from, to;
    } moves[] = {
#define HX_OP_MOVE(FROM, TO, why) {HX_OP_##FROM, HX_OP_##TO},
#include "core/op.def"
    };
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        if (moves[i].from == from && moves[i].to == to)
            return true;
    }
    return false;
}

bool hx_op_may_become(enum hx_op_state from, enum hx_op_state to)
{
    return from == to || hx_op_move_is_allowed(from, to);
}

bool hx_op_is_possible(enum hx_op_state state, enum hx_op_phase phase)
{
    switch (phase) {
    case HX_PHASE_IDLE:
    case HX_PHASE_WRITING:
        return true;
    case HX_PHASE_MARKING:
    case HX_PHASE_SENDING:
    case HX_PHASE_AWAITING:
    case HX_PHASE_SETTLING:
        return state == HX_OP_RUNNING;
    case HX_PHASE_COUNT:
        break;
    }
    return false;
}

/* What never changes once a row exists (INV-9, INV-13). */
static void check_immutable(const struct hx_record *before, const struct hx_record *after)
{
    hx_assert(hx_id_eq(&before->id, &after->id));
    hx_assert(hx_digest_eq(&before->identity, &after->identity));
    hx_assert(hx_digest_eq(&before->fingerprint, &after->fingerprint));
    /* INV-10: a row stays with the tenant, the principal and the name that it was made for. */
    hx_assert(hx_span_eq(before->tenant, after->tenant));
    hx_assert(hx_span_eq(before->principal, after->principal));
    hx_assert(hx_span_eq(before->server, after->server));
    hx_assert(hx_span_eq(before->tool, after->tool));
    hx_assert(hx_digest_eq(&before->twin, &after->twin));
    hx_assert(hx_id_eq(&before->effect_key, &after->effect_key));
    hx_assert(before->first_sent.ms == after->first_sent.ms);
    hx_assert(before->generation == after->generation);
}

/* INV-11: what is replayed is what was answered first. The bytes may go, never become others. */
static void check_outcome_stays(const struct hx_record *before, const struct hx_record *after)
{
    if (before->state != HX_OP_SUCCEEDED || after->state != HX_OP_SUCCEEDED)
        return;
    hx_assert(before->outcome.kind == after->outcome.kind);
    hx_assert(before->outcome.is_error == after->outcome.is_error);
    hx_assert(before->outcome.size == after->outcome.size);
    hx_assert(hx_digest_eq(&before->outcome.digest, &after->outcome.digest));
}

/* INV-6: a success that is durable, or safe in the spool, is told as such or not at all. DONE and
 * NOT_APPLIED tell of a verb, LEDGER_UNAVAILABLE of this request alone. */
static bool may_be_told_of_success(enum hx_answer answer)
{
    return answer == HX_ANSWER_OUTCOME || answer == HX_ANSWER_RESULT_UNAVAILABLE ||
           answer == HX_ANSWER_DONE || answer == HX_ANSWER_NOT_APPLIED ||
           answer == HX_ANSWER_LEDGER_UNAVAILABLE;
}

void hx_op_check_answers(const struct hx_op *op, const struct hx_effects *effects)
{
    if (hx_op_answered_record(op)->state != HX_OP_SUCCEEDED)
        return;
    for (unsigned i = 0; i < effects->count; i++) {
        const struct hx_effect *effect = &effects->items[i];
        if (effect->type == HX_DO_ANSWER_CALLER || effect->type == HX_DO_ANSWER_ALL)
            hx_assert(may_be_told_of_success(effect->answer));
    }
}

static void check_write(const struct hx_op *op)
{
    const struct hx_record *next = &op->next;
    hx_assert(hx_record_flaw(next) == NULL);
    check_immutable(&op->durable, next);
    check_outcome_stays(&op->durable, next);
    /* INV-7: whoever writes holds the fence or raises it. */
    hx_assert(next->fence >= op->durable.fence);
    hx_assert(hx_op_may_become(op->durable.state, next->state));
    /* INV-5: what was not proved not to have happened is not called failed. INV-3: success is an
     * outcome. Both are facts of the states, which hx_record_flaw() checks; so is INV-8. */
}

void hx_op_check(const struct hx_op *op)
{
    hx_assert(hx_op_is_possible(op->durable.state, op->phase));
    if (op->durable.state != HX_OP_ABSENT)
        hx_assert(hx_record_flaw(&op->durable) == NULL);
    switch (op->phase) {
    case HX_PHASE_IDLE:
        hx_assert(op->write == HX_WRITE_NONE);
        return;
    case HX_PHASE_WRITING:
    case HX_PHASE_SETTLING:
        hx_assert(op->write != HX_WRITE_NONE);
        check_write(op);
        return;
    case HX_PHASE_MARKING:
        hx_assert(!op->durable.attempt.is_marked);
        hx_assert(op->next.attempt.is_marked);
        return;
    case HX_PHASE_SENDING:
    case HX_PHASE_AWAITING:
        /* INV-2: bytes may leave only behind a durable claim and a written mark. */
        hx_assert(op->durable.attempt.is_marked);
        return;
    case HX_PHASE_COUNT:
        break;
    }
    hx_assert(!"phase");
}

static const char *const phase_names[] = {
#define HX_OP_PHASE(NAME, text, doc) text,
#include "core/op.def"
};
static const char *const event_names[] = {
#define HX_OP_EVENT(NAME, text, doc) text,
#include "core/op.def"
};
static const char *const effect_names[] = {
#define HX_OP_EFFECT(NAME, text, doc) text,
#include "core/op.def"
};
static const char *const answer_names[] = {
#define HX_OP_ANSWER(NAME, text) text,
#include "core/op.def"
};
static const char *const counter_names[] = {
#define HX_OP_COUNTER(NAME, text) text,
#include "core/op.def"
};

const char *hx_op_phase_name(enum hx_op_phase phase)
{
    return phase_names[phase];
}

const char *hx_event_name(enum hx_event_type type)
{
    return event_names[type];
}

const char *hx_effect_name(enum hx_effect_type type)
{
    return effect_names[type];
}

const char *hx_answer_name(enum hx_answer answer)
{
    return answer_names[answer];
}

bool hx_answer_parse(struct hx_span text, enum hx_answer *ret_answer)
{
    for (int i = 0; i < HX_ANSWER_COUNT; i++) {
        if (hx_span_eq_cstr(text, answer_names[i])) {
            *ret_answer = (enum hx_answer)i;
            return true;
        }
    }
    return false;
}

const char *hx_counter_name(enum hx_counter counter)
{
    return counter_names[counter];
}
