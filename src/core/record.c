/* SPDX-License-Identifier: MIT */
#include "core/record.h"

static const char *const state_names[] = {
#define HX_OP_STATE(NAME, text, is_final, facts) [HX_OP_##NAME] = text,
#include "core/op.def"
};

static const bool state_is_final[] = {
#define HX_OP_STATE(NAME, text, is_final, facts) [HX_OP_##NAME] = is_final,
#include "core/op.def"
};

static const char *const attempt_names[] = {
    [HX_ATTEMPT_NONE] = "none",       [HX_ATTEMPT_OPEN] = "open",
    [HX_ATTEMPT_ASKED] = "asked",     [HX_ATTEMPT_CONFIRMED] = "confirmed",
    [HX_ATTEMPT_REFUSED] = "refused", [HX_ATTEMPT_DEAD] = "dead",
};

static const char *const reason_names[] = {
    [HX_REASON_NONE] = "none",
    [HX_REASON_CLAIMED] = "claimed",
    [HX_REASON_TAKEN_OVER] = "taken_over",
    [HX_REASON_SENT_AGAIN] = "sent_again",
    [HX_REASON_ANSWERED] = "answered",
    [HX_REASON_REFUSED_BY_TOOL] = "refused_by_tool",
    [HX_REASON_NOT_SENT] = "not_sent",
    [HX_REASON_NO_WAITER_LEFT] = "no_waiter_left",
    [HX_REASON_TRANSPORT_LOST] = "transport_lost",
    [HX_REASON_TIMED_OUT] = "timed_out",
    [HX_REASON_CANCEL_UNANSWERED] = "cancel_unanswered",
    [HX_REASON_UNREADABLE_REPLY] = "unreadable_reply",
    [HX_REASON_OWNER_DIED] = "owner_died",
    [HX_REASON_DRAIN_STOPPED] = "drain_stopped",
    [HX_REASON_CANCELLED_BY_CALLER] = "cancelled_by_caller",
    [HX_REASON_CANCELLED_BY_OPERATOR] = "cancelled_by_operator",
    [HX_REASON_APPROVED] = "approved",
    [HX_REASON_DENIED] = "denied",
    [HX_REASON_APPROVAL_EXPIRED] = "approval_expired",
    [HX_REASON_EVIDENCE] = "evidence",
    [HX_REASON_ABSENCE_PROVED] = "absence_proved",
    [HX_REASON_RESOLVED_BY_PERSON] = "resolved_by_person",
    [HX_REASON_SUPERSEDED] = "superseded",
    [HX_REASON_SUCCESSOR] = "successor",
    [HX_REASON_RESTORED_COPY] = "restored_copy",
    [HX_REASON_ROUND_EXPIRED] = "round_expired",
    [HX_REASON_RETENTION] = "retention",
    [HX_REASON_INNER_UNKNOWN] = "inner_unknown",
};

static const char *const delivery_names[] = {"not_ready", "pending", "sent", "lost",
                                             "acknowledged"};
static const char *const effect_names[] = {"none", "intended", "confirmed", "absent"};
static const char *const key_source_names[] = {"none",   "_meta",        "params",
                                               "header", "key_argument", "inject_key"};

_Static_assert(sizeof(reason_names) / sizeof(reason_names[0]) == HX_REASON_COUNT, "reason unnamed");

const char *hx_op_state_name(enum hx_op_state state)
{
    return state_names[state];
}

bool hx_op_state_parse(struct hx_span text, enum hx_op_state *ret_state)
{
    for (int i = 0; i < HX_OP_STATE_COUNT; i++) {
        if (hx_span_eq_cstr(text, state_names[i])) {
            *ret_state = (enum hx_op_state)i;
            return true;
        }
    }
    return false;
}

bool hx_op_state_is_final(enum hx_op_state state)
{
    return state_is_final[state];
}

const char *hx_attempt_state_name(enum hx_attempt_state state)
{
    return attempt_names[state];
}

const char *hx_reason_name(enum hx_reason reason)
{
    return reason_names[reason];
}

const char *hx_delivery_name(enum hx_delivery delivery)
{
    return delivery_names[delivery];
}

const char *hx_effect_state_name(enum hx_effect_state effect)
{
    return effect_names[effect];
}

const char *hx_key_source_name(enum hx_key_source source)
{
    return key_source_names[source];
}

enum hx_effect_state hx_record_effect(const struct hx_record *record)
{
    const struct hx_attempt *attempt = &record->attempt;
    bool may_have_acted = attempt->state == HX_ATTEMPT_OPEN || attempt->state == HX_ATTEMPT_ASKED ||
                          record->earlier.open > 0 || record->earlier.asked > 0;
    if (attempt->state == HX_ATTEMPT_CONFIRMED || record->earlier.confirmed > 0 ||
        record->state == HX_OP_SUCCEEDED)
        return HX_EFFECT_CONFIRMED;
    if (record->state == HX_OP_FAILED)
        return HX_EFFECT_ABSENT;
    if (may_have_acted || record->state == HX_OP_UNKNOWN)
        return HX_EFFECT_INTENDED;
    if (attempt->state == HX_ATTEMPT_REFUSED || record->earlier.refused > 0)
        return HX_EFFECT_ABSENT;
    return HX_EFFECT_NONE;
}

enum hx_delivery hx_record_delivery(const struct hx_record *record)
{
    if (record->is_acknowledged)
        return HX_DELIVERY_ACKNOWLEDGED;
    if (!hx_op_state_is_final(record->state))
        return HX_DELIVERY_NOT_READY;
    if (record->sent_count > 0)
        return HX_DELIVERY_SENT;
    return record->lost_count > 0 ? HX_DELIVERY_LOST : HX_DELIVERY_PENDING;
}

struct hx_digest hx_record_identity(struct hx_hasher *hasher, const struct hx_record *record,
                                    bool is_principal_scoped)
{
    hx_hasher_begin(hasher);
    hx_hasher_add_field(hasher, HX_SPAN_LIT("hapax identity 1"));
    hx_hasher_add_field(hasher, record->tenant);
    hx_hasher_add_field(hasher, is_principal_scoped ? record->principal : HX_SPAN_NONE);
    hx_hasher_add_field(hasher, record->server);
    hx_hasher_add_field(hasher, record->tool);
    /* Keyless and keyed names live in separate spaces: no caller can guess his way into one. */
    hx_hasher_add_field(hasher, record->key_source == HX_KEY_NONE ? HX_SPAN_LIT("internal")
                                                                  : HX_SPAN_LIT("caller"));
    hx_hasher_add_field(hasher, record->key);
    return hx_hasher_end(hasher);
}

struct hx_digest hx_record_twin(struct hx_hasher *hasher, const struct hx_record *record)
{
    hx_hasher_begin(hasher);
    hx_hasher_add_field(hasher, HX_SPAN_LIT("hapax twin 1"));
    hx_hasher_add_field(hasher, record->tenant);
    hx_hasher_add_field(hasher, record->principal);
    hx_hasher_add_field(hasher, record->server);
    hx_hasher_add_field(hasher, record->tool);
    hx_hasher_add_field(hasher, hx_span((const char *)record->fingerprint.bytes, HX_DIGEST_SIZE));
    return hx_hasher_end(hasher);
}

static const char *attempt_flaw(const struct hx_record *record)
{
    const struct hx_attempt *attempt = &record->attempt;
    if (attempt->state == HX_ATTEMPT_NONE && attempt->number != 0)
        return "an attempt has a number but no state";
    if (attempt->state != HX_ATTEMPT_NONE && attempt->number == 0)
        return "an attempt has a state but no number";
    if (attempt->is_marked && attempt->marked_at.wall.ms == 0)
        return "a marked attempt has no mark time";
    if (attempt->is_marked && record->first_mark.wall.ms == 0)
        return "an attempt is marked but the first mark is not known";
    return NULL;
}

/* A ready operation runs by itself, a running one does: neither may lack what its contract
 * wants. */
static const char *permission_flaw(const struct hx_record *record)
{
    if (record->state != HX_OP_READY && record->state != HX_OP_RUNNING)
        return NULL;
    if (record->contract.approval == HX_APPROVAL_ALWAYS && !record->is_approved)
        return "its contract wants approval and there is none"; /* INV-21 */
    if (record->sends > record->contract.attempts_max)
        return "it was sent more often than its contract allows"; /* INV-24 */
    return NULL;
}

static const char *state_flaw(const struct hx_record *record)
{
    enum hx_attempt_state attempt = record->attempt.state;
    bool has_open_work = record->earlier.open > 0 || record->earlier.asked > 0;
    bool may_have_acted = attempt == HX_ATTEMPT_OPEN || attempt == HX_ATTEMPT_ASKED ||
                          attempt == HX_ATTEMPT_CONFIRMED || has_open_work ||
                          record->earlier.confirmed > 0;
    switch (record->state) {
    case HX_OP_ABSENT:
        return "an absent operation has a row";
    case HX_OP_AWAITING_APPROVAL:
        return attempt != HX_ATTEMPT_NONE ? "something was sent before its approval" : NULL;
    case HX_OP_READY:
        return may_have_acted ? "a ready operation has an attempt that may have acted" : NULL;
    case HX_OP_RUNNING:
        if (attempt != HX_ATTEMPT_OPEN)
            return "a running operation has no open attempt";
        if (record->sends == 0)
            return "a running operation was never sent";
        return hx_id_is_nil(&record->owner) ? "a running operation has no owner" : NULL;
    case HX_OP_INPUT_REQUIRED:
        return attempt != HX_ATTEMPT_ASKED && record->earlier.asked == 0
                   ? "input is required but no attempt asked for it"
                   : NULL;
    case HX_OP_SUCCEEDED:
        return record->outcome.kind == HX_OUTCOME_NONE ? "it succeeded without an outcome" : NULL;
    case HX_OP_FAILED:
        if (may_have_acted)
            return "it failed, yet an attempt may have acted";
        return record->outcome.kind == HX_OUTCOME_RESULT ? "it failed, yet there is a result"
                                                         : NULL;
    case HX_OP_UNKNOWN:
        if (attempt != HX_ATTEMPT_OPEN && attempt != HX_ATTEMPT_ASKED && !has_open_work &&
            record->reason != HX_REASON_RESTORED_COPY && !record->is_superseded)
            return "unknown, yet no attempt may have acted";
        return NULL;
    case HX_OP_CANCELLED:
        return may_have_acted ? "cancelled, yet an attempt may have acted" : NULL;
    case HX_OP_EXPIRED:
        return NULL;
    case HX_OP_STATE_COUNT:
        break;
    }
    return "no such state";
}

const char *hx_record_flaw(const struct hx_record *record)
{
    if (hx_id_is_nil(&record->id))
        return "the operation has no id";
    if (hx_id_is_nil(&record->effect_key) && !record->is_tombstone)
        return "the operation has no effect key";
    if (record->fence == 0)
        return "the fence is zero";
    if (record->generation == 0 && !hx_id_is_nil(&record->predecessor))
        return "the first generation has a predecessor";
    const char *flaw = attempt_flaw(record);
    if (flaw == NULL)
        flaw = permission_flaw(record);
    return flaw != NULL ? flaw : state_flaw(record);
}
