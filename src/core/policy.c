/* SPDX-License-Identifier: MIT */
/*
 * What the tool's contract allows after something is unknown: the only file that turns "it may have
 * happened" into a decision to do anything again.
 *
 *   INV-14  Re-sends stay inside the declared horizon, on the same target, under the same effect
 *           key.
 */
#include "core/policy.h"

#include "core/words.h"

bool hx_has_attempts_left(const struct hx_record *record)
{
    return record->sends < record->contract.attempts_max;
}

static int64_t attempt_length_ms(const struct hx_contract *contract)
{
    return contract->timeout_ms > 0 ? contract->timeout_ms : contract->orphan_timeout_ms;
}

/* The horizon counts from the first mark. A mark that a host crash may have taken with it was not
 * written before its claim, so there the claim stands in for it: earlier, and thus careful. */
static const struct hx_now *first_possible_mark(const struct hx_record *record)
{
    if (record->first_mark.wall.ms == 0 && record->attempt.state == HX_ATTEMPT_OPEN)
        return &record->attempt.claimed_at;
    return &record->first_mark;
}

bool hx_is_inside_horizon(const struct hx_record *record, const struct hx_now *now)
{
    /* Semantics section 6: for the horizon alone, an undeclared in-flight bound counts as 300 s. */
    const int64_t in_flight_default_ms = 300 * 1000;
    const struct hx_contract *contract = &record->contract;
    if (contract->dedupe_horizon_ms == HX_UNDECLARED_MS)
        return false;
    const struct hx_now *first_mark = first_possible_mark(record);
    if (first_mark->wall.ms == 0)
        return true; /* nothing was ever sent */
    int64_t in_flight_ms = contract->in_flight_bound_ms == HX_UNDECLARED_MS
                               ? in_flight_default_ms
                               : contract->in_flight_bound_ms;
    int64_t margin_ms = attempt_length_ms(contract) + in_flight_ms;
    return !hx_has_elapsed(first_mark, now, contract->dedupe_horizon_ms - margin_ms,
                           HX_ACROSS_COUNTS_AS_OVER);
}

bool hx_is_resend_declared(const struct hx_contract *contract)
{
    return contract->tool_class == HX_CLASS_IDEMPOTENT || contract->tool_class == HX_CLASS_KEYED;
}

bool hx_may_send_again(const struct hx_record *record, const struct hx_facts *facts,
                       const struct hx_now *now)
{
    const struct hx_contract *contract = &record->contract;
    bool is_recognised = hx_is_resend_declared(contract) || facts->recognises_key;
    if (!is_recognised || !hx_has_attempts_left(record) || !facts->is_same_target)
        return false;
    /* In a restored ledger nobody knows how often it was sent, when first, or even whether under
     * this effect key: a key from the gap had another. */
    if (record->reason == HX_REASON_RESTORED_COPY)
        return false;
    if (record->earlier.confirmed > 0 || record->attempt.state == HX_ATTEMPT_CONFIRMED)
        return false;
    /* Semantics section 9: the same bytes under the same key, to a peer that knows keys. How long
     * it knows them is its own to say: it answers "expired" to one that it may have forgotten. */
    if (facts->recognises_key)
        return true;
    /* Before an idempotent tool is sent the same again, the old transport must be closed, or the
     * two could land in the wrong order. */
    bool is_order_safe = facts->is_sender_gone || contract->is_reorder_safe;
    if (contract->tool_class == HX_CLASS_IDEMPOTENT)
        return is_order_safe;
    return hx_is_inside_horizon(record, now);
}

bool hx_is_due(const struct hx_record *record, const struct hx_now *now)
{
    if (record->not_before.wall.ms == 0)
        return true;
    return hx_has_elapsed(&record->not_before, now, 0, HX_ACROSS_COUNTS_AS_OVER);
}

bool hx_absence_is_provable(const struct hx_record *record, const struct hx_facts *facts,
                            const struct hx_now *now)
{
    const struct hx_contract *contract = &record->contract;
    if (contract->in_flight_bound_ms == HX_UNDECLARED_MS || !facts->is_sender_gone)
        return false;
    /* From the last mark; but a sender that was paused between its mark and its first byte sends
     * much later, and a mark may be lost. So it counts again from the moment at which the outcome
     * was called unknown: every byte left before that. */
    int64_t bound_ms = contract->in_flight_bound_ms + contract->visibility_lag_ms;
    if (record->settled.wall.ms == 0)
        return false;
    if (record->attempt.is_marked &&
        !hx_has_elapsed(&record->attempt.marked_at, now, bound_ms, HX_ACROSS_STARTS_AGAIN))
        return false;
    return hx_has_elapsed(&record->settled, now, bound_ms, HX_ACROSS_STARTS_AGAIN);
}

static enum hx_inner verdict_of_ours(const struct hx_inner_word *word, enum hx_inner_before before)
{
    switch (word->code) {
    case HX_ANSWER_BUSY:
    case HX_ANSWER_APPROVAL_REQUIRED:
    case HX_ANSWER_INPUT_REQUIRED:
    case HX_ANSWER_CANCEL_IN_DOUBT:
        return HX_INNER_POLL;
    case HX_ANSWER_OUTCOME_UNKNOWN:
    case HX_ANSWER_KEY_EXPIRED:
    case HX_ANSWER_KEY_CONFLICT:
    case HX_ANSWER_NO_ANSWER: /* it may take for a reader what we do not */
        return HX_INNER_UNKNOWN;
    case HX_ANSWER_FAILED:
    case HX_ANSWER_CANCELLED:
        return HX_INNER_REFUSED;
    case HX_ANSWER_KEY_INVALID:
    case HX_ANSWER_KEY_REQUIRED:
    case HX_ANSWER_REPEAT_SUSPECTED:
    case HX_ANSWER_REQUEST_INVALID:
        return before == HX_INNER_THIS_ATTEMPT ? HX_INNER_UNKNOWN : HX_INNER_REFUSED;
    case HX_ANSWER_UPSTREAM_UNAVAILABLE:
    case HX_ANSWER_LEDGER_UNAVAILABLE:
        if (word->is_said_unsafe)
            return HX_INNER_UNKNOWN; /* its connection to the tool was lost behind the request */
        return before == HX_INNER_NOTHING ? HX_INNER_UNAVAILABLE : HX_INNER_POLL;
    case HX_ANSWER_RESULT_UNAVAILABLE:
        return HX_INNER_GONE;
    case HX_ANSWER_OUTCOME:
    case HX_ANSWER_DONE:
    case HX_ANSWER_NOT_APPLIED:
    case HX_ANSWER_COUNT:
        return HX_INNER_OUTCOME;
    }
    return HX_INNER_OUTCOME;
}

enum hx_inner hx_inner_verdict(const struct hx_inner_word *word, enum hx_inner_before before)
{
    enum hx_inner verdict = verdict_of_ours(word, before);
    /* A tool that acted and failed then, or a gateway that does not mark its words: the one behind
     * knows which, and can be asked. */
    return verdict == HX_INNER_OUTCOME || word->is_marked ? verdict : HX_INNER_UNKNOWN;
}
