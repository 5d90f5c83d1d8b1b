/* SPDX-License-Identifier: MIT */
#include "op_cells.h"

#include "kit/ops.h"

const struct dimension_info cell_dimensions[D_COUNT] = {
#define INFO_OF(NAME, text, ...) [D_##NAME] = {text, {__VA_ARGS__}},
    DIMENSIONS(INFO_OF)
#undef INFO_OF
};

unsigned cell_value_count(enum dimension dimension)
{
    unsigned count = 0;
    while (count < VALUES_MAX && cell_dimensions[dimension].values[count] != NULL)
        count++;
    return count;
}

/* --- which guards matter where -------------------------------------------------------------- */

static const dimension_set resend_set =
    D_BIT(LEFT) | D_BIT(TARGET) | D_BIT(TOOL) | D_BIT(SENDER_GONE);
static const dimension_set unsent_set = D_BIT(MARKED) | D_BIT(EPOCH) | D_BIT(MARK_DURABLE);

static dimension_set judge_set(void)
{
    return D_BIT(HANDS) | D_BIT(EARLIER) | D_BIT(WAITERS) | D_BIT(APPROVED) | unsent_set |
           resend_set;
}

static dimension_set call_set(enum hx_op_state state)
{
    switch (state) {
    case HX_OP_ABSENT:
        return D_BIT(NEEDS_APPROVAL) | D_BIT(FROM_GAP);
    case HX_OP_READY:
        return D_BIT(DUE) | D_BIT(LEFT) | D_BIT(ATTEMPT) | D_BIT(EARLIER);
    case HX_OP_RUNNING:
        return judge_set();
    case HX_OP_AWAITING_APPROVAL:
        return D_BIT(ASKED_FOR);
    case HX_OP_INPUT_REQUIRED:
        return D_BIT(ROUND) | D_BIT(LEFT) | D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(ASKED_FOR);
    case HX_OP_UNKNOWN:
        return D_BIT(SUPERSEDED) | D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(MARKED) |
               D_BIT(RESTORED) | resend_set;
    case HX_OP_SUCCEEDED:
        return D_BIT(GONE);
    default:
        return 0;
    }
}

static dimension_set look_set(enum hx_op_state state)
{
    switch (state) {
    case HX_OP_READY:
        return call_set(state) | D_BIT(WAITERS) | D_BIT(APPROVED) | D_BIT(TARGET) |
               D_BIT(FOR_CALLER);
    case HX_OP_INPUT_REQUIRED:
        return D_BIT(HANDS) | D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(ASKED_FOR);
    case HX_OP_UNKNOWN:
        return call_set(state) | D_BIT(WAITERS);
    default:
        return call_set(state) & ~D_BIT(NEEDS_APPROVAL);
    }
}

static dimension_set evidence_set(enum hx_op_state state)
{
    switch (state) {
    case HX_OP_RUNNING:
        return D_BIT(HANDS);
    case HX_OP_READY:
        return D_BIT(MARKED) | D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(DISPUTED);
    case HX_OP_UNKNOWN:
        return D_BIT(SUPERSEDED) | D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(DISPUTED);
    case HX_OP_INPUT_REQUIRED:
        return D_BIT(ATTEMPT) | D_BIT(EARLIER);
    case HX_OP_SUCCEEDED:
        return D_BIT(OUTCOME) | D_BIT(RECONSTRUCTED) | D_BIT(DISPUTED);
    default:
        return D_BIT(DISPUTED);
    }
}

static dimension_set verb_set(enum hx_op_state state, enum hx_event_type event)
{
    switch (event) {
    case HX_EV_ABSENCE_PROVED:
        return D_BIT(SUPERSEDED) | D_BIT(MARKED) | D_BIT(SENDER_GONE) | D_BIT(DELTA) |
               D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(RETRIES) | D_BIT(LEFT) | D_BIT(SEEN) |
               D_BIT(RESTORED) | D_BIT(RECEIVERS_WORD);
    case HX_EV_RESOLVE_ABSENT:
        return D_BIT(SUPERSEDED) | D_BIT(MARKED) | D_BIT(SENDER_GONE) | D_BIT(DELTA) |
               D_BIT(ATTEMPT) | D_BIT(EARLIER) | D_BIT(FORCED) | D_BIT(SEEN);
    case HX_EV_RESOLVE_HAPPENED:
        return D_BIT(SUPERSEDED) | D_BIT(ATTEMPT) | D_BIT(EARLIER);
    case HX_EV_RESOLVE_AGAIN:
        return D_BIT(SUPERSEDED) | D_BIT(NEEDS_APPROVAL) | D_BIT(APPROVED) | D_BIT(SEEN) |
               D_BIT(ATTEMPT) | D_BIT(EARLIER);
    case HX_EV_RETRY:
        return call_set(state) | D_BIT(SUCCESSOR) | D_BIT(IS_ERROR) | D_BIT(TOOL) |
               D_BIT(TOMBSTONE) | D_BIT(NEEDS_APPROVAL) | D_BIT(APPROVED) | D_BIT(FROM_GAP);
    case HX_EV_CANCEL:
        return D_BIT(OPERATOR) | D_BIT(GONE) | (state == HX_OP_ABSENT ? D_BIT(FROM_GAP) : 0) |
               (state == HX_OP_RUNNING ? unsent_set | D_BIT(EARLIER) : 0);
    case HX_EV_APPROVE:
        return state == HX_OP_AWAITING_APPROVAL ? D_BIT(ASKED_FOR) : 0;
    case HX_EV_HUMAN_DUE:
        return D_BIT(SUPERSEDED) | D_BIT(NEEDS_HUMAN);
    default:
        return 0;
    }
}

static dimension_set idle_set(const struct cell *cell)
{
    switch (cell->event) {
    case HX_EV_CALL:
        return call_set(cell->state);
    case HX_EV_LOOK:
        return look_set(cell->state);
    case HX_EV_WAIT_OVER:
        return D_BIT(GONE) | D_BIT(STARTS);
    case HX_EV_REPLY:
    case HX_EV_EVIDENCE:
        return evidence_set(cell->state);
    case HX_EV_RETENTION:
        return D_BIT(DISPUTED);
    default:
        return verb_set(cell->state, cell->event);
    }
}

static dimension_set in_hand_set(const struct cell *cell)
{
    switch (cell->event) {
    case HX_EV_NOT_SENT:
        return D_BIT(EARLIER);
    case HX_EV_REFUSED_FINAL:
        return D_BIT(EARLIER);
    case HX_EV_REFUSED_TRANSIENT:
        return D_BIT(EARLIER) | resend_set;
    case HX_EV_LOST:
        return resend_set;
    default:
        return 0;
    }
}

dimension_set cell_dimensions_of(const struct cell *cell)
{
    switch (cell->phase) {
    case HX_PHASE_IDLE:
        return idle_set(cell);
    case HX_PHASE_SENDING:
    case HX_PHASE_AWAITING:
        return in_hand_set(cell);
    case HX_PHASE_WRITING:
    case HX_PHASE_MARKING:
    case HX_PHASE_SETTLING:
    case HX_PHASE_COUNT:
        break;
    }
    switch (cell->event) {
    case HX_EV_STORED:
        return D_BIT(WRITE) | D_BIT(FOLLOW) | D_BIT(VERB) | D_BIT(WAITERS) | D_BIT(APPROVED) |
               D_BIT(FOR_CALLER) | D_BIT(EARLIER) | D_BIT(DUE) | D_BIT(LEFT) | D_BIT(STARTS) |
               D_BIT(START_AGE) | D_BIT(SUPERSEDED) | D_BIT(GONE) | D_BIT(ATTEMPT);
    case HX_EV_STALE:
        return D_BIT(WRITE) | D_BIT(FRESH) | D_BIT(FOLLOW) | D_BIT(VERB) | D_BIT(HANDS) |
               D_BIT(OUTCOME) | D_BIT(MARKED) | D_BIT(EARLIER) | D_BIT(ATTEMPT);
    case HX_EV_STORE_FAILED:
        return D_BIT(WRITE) | D_BIT(FOLLOW) | D_BIT(VERB) | D_BIT(MARKED) | D_BIT(EARLIER) |
               D_BIT(ATTEMPT) | D_BIT(SPOOLED);
    case HX_EV_WAIT_OVER:
        return D_BIT(WRITE) | D_BIT(SPOOLED) | D_BIT(GONE) | D_BIT(STARTS);
    case HX_EV_CALL:
    case HX_EV_SPOOLED:
        return D_BIT(WRITE) | D_BIT(SPOOLED) | D_BIT(GONE);
    case HX_EV_LOOK:
        return cell->phase == HX_PHASE_SETTLING ? D_BIT(WRITE) | D_BIT(RETRY_DUE) : 0;
    default:
        return 0;
    }
}

/* --- building ------------------------------------------------------------------------------- */

struct build {
    const struct cell *cell;
    const unsigned char *value;
    struct hx_now now;
};

static struct hx_contract build_contract(const struct build *build)
{
    static const enum hx_tool_class classes[] = {
        HX_CLASS_OPAQUE, HX_CLASS_PROBEABLE, HX_CLASS_IDEMPOTENT, HX_CLASS_IDEMPOTENT,
        HX_CLASS_KEYED,  HX_CLASS_KEYED,     HX_CLASS_KEYED};
    unsigned tool = build->value[D_TOOL];
    struct hx_contract contract = kit_contract(classes[tool]);
    contract.is_reorder_safe = tool == 3;
    if (tool == 5)
        contract.dedupe_horizon_ms = 1;
    else if (tool == 6)
        contract.dedupe_horizon_ms = HX_UNDECLARED_MS;
    if (build->value[D_DELTA] == 0)
        contract.in_flight_bound_ms = HX_UNDECLARED_MS;
    contract.retries_after_proof = build->value[D_RETRIES];
    return contract;
}

static enum hx_attempt_state natural_attempt(enum hx_op_state state)
{
    switch (state) {
    case HX_OP_RUNNING:
    case HX_OP_UNKNOWN:
        return HX_ATTEMPT_OPEN;
    case HX_OP_INPUT_REQUIRED:
        return HX_ATTEMPT_ASKED;
    case HX_OP_SUCCEEDED:
        return HX_ATTEMPT_CONFIRMED;
    case HX_OP_FAILED:
        return HX_ATTEMPT_REFUSED;
    case HX_OP_READY:
        return HX_ATTEMPT_DEAD;
    default:
        return HX_ATTEMPT_NONE;
    }
}

/* False when the explicit value is the natural one, which has its own line already. */
static bool build_attempt(const struct build *build, struct hx_record *record, struct hx_now past)
{
    static const enum hx_attempt_state states[] = {HX_ATTEMPT_NONE,    HX_ATTEMPT_NONE,
                                                   HX_ATTEMPT_OPEN,    HX_ATTEMPT_ASKED,
                                                   HX_ATTEMPT_REFUSED, HX_ATTEMPT_DEAD};
    enum hx_attempt_state attempt = natural_attempt(record->state);
    if (build->value[D_ATTEMPT] > 0) {
        if (attempt == states[build->value[D_ATTEMPT]])
            return false;
        attempt = states[build->value[D_ATTEMPT]];
    }
    bool is_in_hand = build->cell->phase == HX_PHASE_SENDING ||
                      build->cell->phase == HX_PHASE_AWAITING ||
                      build->cell->phase == HX_PHASE_SETTLING;
    if (attempt != HX_ATTEMPT_NONE) {
        enum hx_op_state state = record->state;
        kit_claim(record, 1, past);
        record->state = state;
        record->attempt.state = attempt;
        bool was_answered = attempt == HX_ATTEMPT_ASKED || attempt == HX_ATTEMPT_REFUSED ||
                            attempt == HX_ATTEMPT_CONFIRMED;
        if (is_in_hand || was_answered || build->value[D_MARKED])
            kit_mark(record, past);
    }
    static const uint16_t one = 1;
    record->earlier.open = build->value[D_EARLIER] == 1 ? one : 0;
    record->earlier.asked = build->value[D_EARLIER] == 2 ? one : 0;
    record->earlier.refused = build->value[D_EARLIER] == 3 ? one : 0;
    if (build->value[D_EARLIER] > 0) {
        record->first_mark = past;
        record->sends++;
        record->attempt.number += record->attempt.number > 0;
    }
    bool is_restored = attempt == HX_ATTEMPT_NONE && record->state == HX_OP_UNKNOWN;
    if (build->value[D_RESTORED] && (is_restored || record->state != HX_OP_UNKNOWN))
        return false;
    if (build->value[D_RESTORED] || is_restored)
        record->reason = HX_REASON_RESTORED_COPY;
    return attempt != HX_ATTEMPT_NONE || build->value[D_EARLIER] == 0;
}

/* It was refused with what only its caller can mend, which used up no attempt. */
static void build_for_caller(const struct build *build, struct hx_record *record)
{
    if (build->value[D_FOR_CALLER] && record->state == HX_OP_READY)
        record->earlier.refused = (uint16_t)(record->sends + 1);
}

static bool build_record(const struct build *build, struct hx_record *ret_record)
{
    const unsigned char *value = build->value;
    enum hx_op_state state = build->cell->state;
    struct hx_contract contract = build_contract(build);
    *ret_record = kit_record(&contract);
    ret_record->state = state;
    ret_record->fence = state == HX_OP_ABSENT ? 0 : 6;
    struct hx_now past = build->now;
    int64_t age_ms = value[D_DELTA] == 2 ? 10 * 60 * 1000 : 1000;
    past.mono.ms -= age_ms;
    past.wall.ms -= age_ms;
    if (!build_attempt(build, ret_record, past))
        return false;
    if (state == HX_OP_SUCCEEDED || state == HX_OP_EXPIRED)
        ret_record->outcome = kit_outcome("first");
    ret_record->outcome.is_error = value[D_IS_ERROR];
    ret_record->outcome.is_reconstructed = value[D_RECONSTRUCTED];
    ret_record->outcome.place = value[D_GONE] ? HX_OUTCOME_GONE : HX_OUTCOME_INLINE;
    if (state == HX_OP_UNKNOWN || hx_op_state_is_final(state))
        ret_record->settled = past;
    ret_record->created = ret_record->updated = past;
    if (value[D_ASKED_FOR])
        ret_record->updated.mono.ms -= 24 * 60 * 60 * 1000;
    if (value[D_DUE] > 0 && state == HX_OP_READY) {
        ret_record->not_before = build->now;
        ret_record->not_before.mono.ms += value[D_DUE] == 1 ? 10 * 1000 : 100 * 1000;
    }
    if (value[D_LEFT] == 1 && state != HX_OP_ABSENT)
        ret_record->sends = ret_record->contract.attempts_max;
    build_for_caller(build, ret_record);
    bool may_be_approved = state != HX_OP_ABSENT && state != HX_OP_AWAITING_APPROVAL;
    ret_record->is_approved = may_be_approved && value[D_APPROVED];
    ret_record->is_disputed = value[D_DISPUTED];
    ret_record->needs_human = value[D_NEEDS_HUMAN];
    ret_record->is_superseded = value[D_SUPERSEDED] && state == HX_OP_UNKNOWN;
    ret_record->is_tombstone = value[D_TOMBSTONE] && state == HX_OP_CANCELLED;
    if (value[D_SUCCESSOR] || ret_record->is_superseded)
        ret_record->successor = kit_id(9);
    if (state == HX_OP_ABSENT)
        return ret_record->attempt.state == HX_ATTEMPT_NONE && value[D_EARLIER] == 0;
    return hx_record_flaw(ret_record) == NULL;
}

/* What is being written, in the phases where something is. */
static bool build_next(const struct build *build, enum hx_op_state to, struct hx_op *op)
{
    struct hx_record *next = &op->next;
    *next = op->durable;
    bool is_same = to == op->durable.state && to != HX_OP_RUNNING;
    if (!is_same && !hx_op_move_is_allowed(op->durable.state, to))
        return false;
    if (is_same && (to == HX_OP_EXPIRED || to == HX_OP_INPUT_REQUIRED))
        return false;
    if (to == HX_OP_RUNNING) {
        next->earlier.open += next->attempt.state == HX_ATTEMPT_OPEN;
        next->earlier.asked += next->attempt.state == HX_ATTEMPT_ASKED;
        next->earlier.refused += next->attempt.state == HX_ATTEMPT_REFUSED;
        kit_claim(next, 1, build->now);
        if (next->sends > next->contract.attempts_max)
            next->sends = next->contract.attempts_max; /* the last one that it allows */
    } else if (!is_same) {
        bool may_have_acted =
            next->attempt.state == HX_ATTEMPT_OPEN || next->attempt.state == HX_ATTEMPT_ASKED;
        if (may_have_acted && (to == HX_OP_READY || to == HX_OP_CANCELLED))
            next->attempt.state = HX_ATTEMPT_DEAD;
        else if (may_have_acted && to == HX_OP_FAILED)
            next->attempt.state = HX_ATTEMPT_REFUSED;
        else if (may_have_acted && to == HX_OP_INPUT_REQUIRED)
            next->attempt.state = HX_ATTEMPT_ASKED;
        if (to == HX_OP_SUCCEEDED)
            next->outcome = kit_outcome("second");
        if (to == HX_OP_UNKNOWN && next->attempt.state == HX_ATTEMPT_NONE)
            next->reason = HX_REASON_RESTORED_COPY;
        next->is_tombstone = op->durable.state == HX_OP_ABSENT && to == HX_OP_CANCELLED;
        next->outcome.place = build->value[D_GONE] ? HX_OUTCOME_GONE : HX_OUTCOME_INLINE;
        next->fence++;
        next->state = to;
    }
    if (build->value[D_DUE] > 0 && to == HX_OP_READY) {
        next->not_before = build->now;
        next->not_before.mono.ms += build->value[D_DUE] == 1 ? 10 * 1000 : 100 * 1000;
    }
    op->write = op->durable.state == HX_OP_ABSENT ? HX_WRITE_INSERT
                : op->must_follow                 ? HX_WRITE_SUCCESSOR
                                                  : HX_WRITE_UPDATE;
    bool may_follow = is_same && (hx_op_state_is_final(to) || to == HX_OP_UNKNOWN);
    if (op->must_follow && !may_follow)
        return false;
    return hx_record_flaw(next) == NULL;
}

/* The verb was an approval that found its time over. */
static bool build_verb(const struct build *build, struct hx_op *op)
{
    build_for_caller(build, &op->next);
    if (build->value[D_VERB] < 2)
        return true;
    op->next.reason = HX_REASON_APPROVAL_EXPIRED;
    return op->durable.state == HX_OP_AWAITING_APPROVAL && op->next.state == HX_OP_CANCELLED;
}

static bool build_phase(const struct build *build, struct hx_op *op)
{
    if (build->cell->phase == HX_PHASE_MARKING) {
        op->next = op->durable;
        op->expected_fence = op->durable.fence;
        kit_mark(&op->next, build->now);
        return !op->durable.attempt.is_marked;
    }
    if (build->cell->phase != HX_PHASE_WRITING && build->cell->phase != HX_PHASE_SETTLING)
        return true;
    op->must_follow = build->value[D_FOLLOW];
    op->has_verb = build->value[D_VERB] > 0 && build->cell->phase == HX_PHASE_WRITING;
    bool is_settling = build->cell->phase == HX_PHASE_SETTLING;
    op->is_spooled = is_settling && build->value[D_SPOOLED];
    op->is_retry_due = is_settling && build->value[D_RETRY_DUE];
    int natural = is_settling ? HX_OP_SUCCEEDED : -1;
    for (int to = 0; natural < 0 && to < HX_OP_STATE_COUNT; to++) {
        if (build_next(build, (enum hx_op_state)to, op))
            natural = to;
    }
    if (natural < 0)
        return false;
    if (build->value[D_WRITE] == 0)
        return build_next(build, (enum hx_op_state)natural, op) && build_verb(build, op);
    int to = build->value[D_WRITE] - 1;
    if (to == natural || (is_settling && to != HX_OP_INPUT_REQUIRED))
        return false;
    return build_next(build, (enum hx_op_state)to, op) && build_verb(build, op);
}

static void build_fresh(const struct build *build, const struct hx_record *durable,
                        struct hx_event *event, struct hx_record *fresh)
{
    static const enum hx_op_state states[] = {HX_OP_ABSENT,    HX_OP_RUNNING,   HX_OP_UNKNOWN,
                                              HX_OP_SUCCEEDED, HX_OP_SUCCEEDED, HX_OP_FAILED};
    unsigned row = build->value[D_FRESH];
    if (row == 0)
        return;
    struct hx_contract contract = build_contract(build);
    *fresh = kit_record(&contract);
    fresh->fence = durable->fence + 5;
    kit_claim(fresh, 2, build->now);
    kit_mark(fresh, build->now);
    fresh->state = states[row];
    if (fresh->state == HX_OP_SUCCEEDED) {
        fresh->attempt.state = HX_ATTEMPT_CONFIRMED;
        fresh->outcome = kit_outcome(build->value[D_OUTCOME] ? "second" : "third");
        if (row == 4)
            fresh->successor = kit_id(9);
    } else if (fresh->state == HX_OP_FAILED) {
        fresh->attempt.state = HX_ATTEMPT_REFUSED;
    }
    event->fresh = fresh;
}

bool cell_build(const struct cell *cell, const unsigned char assignment[D_COUNT],
                struct hx_op *ret_op, struct hx_event *ret_event, struct hx_record *fresh)
{
    const unsigned char *value = assignment;
    struct build build = {cell, value, kit_now(2, 60 * 60 * 1000)};
    *ret_op = (struct hx_op){.magic = HX_OP_MAGIC, .phase = cell->phase};
    if (!build_record(&build, &ret_op->durable) || !build_phase(&build, ret_op))
        return false;
    ret_op->waiters = value[D_WAITERS];
    static const unsigned char starts[] = {0, 1, 3};
    ret_op->start_tries = starts[value[D_STARTS]];
    ret_op->start_tried_at = build.now;
    ret_op->start_tried_at.mono.ms -= value[D_START_AGE] ? 2000 : 500;
    *ret_event = (struct hx_event){
        .type = cell->event,
        .now = build.now,
        .facts = {.hands = (enum hx_hands)value[D_HANDS],
                  .is_sender_gone = value[D_SENDER_GONE],
                  .is_epoch_current = value[D_EPOCH],
                  .is_mark_durable = value[D_MARK_DURABLE],
                  .is_same_target = value[D_TARGET] == 0},
        .mint = {kit_id(3), kit_id(4), kit_id(5), "child 1"},
        .is_from_gap = value[D_FROM_GAP],
        .needs_approval = value[D_NEEDS_APPROVAL],
        .is_forced = value[D_FORCED],
        .is_receivers_word = value[D_RECEIVERS_WORD],
        .is_by_operator = value[D_OPERATOR],
        .round = (enum hx_round)value[D_ROUND],
        .reason = cell->event == HX_EV_DENY ? HX_REASON_DENIED : HX_REASON_TRANSPORT_LOST,
        .outcome = kit_outcome(value[D_OUTCOME] ? "first" : "other"),
        .not_before_ms = 3000,
        .seen_attempt = value[D_SEEN] == 0   ? 0
                        : value[D_SEEN] == 1 ? ret_op->durable.attempt.number
                                             : ret_op->durable.attempt.number + 1,
    };
    build_fresh(&build, &ret_op->durable, ret_event, fresh);
    return true;
}
