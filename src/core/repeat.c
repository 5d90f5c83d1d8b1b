/* SPDX-License-Identifier: MIT */
/*
 * Recognising a repeat that carries no key.
 *
 * Two deliberate equal calls look exactly like a call and its retry, so the default believes only
 * evidence: that the first answer was lost, or that its caller has silently waited long enough on
 * the same connection to have given up. Everything weaker than that is a new operation.
 *
 * The equal one may have a key: what stands between a client and us may have dropped it from the
 * repeat. Its key goes on naming it, whoever else was told of it.
 */
#include "core/repeat.h"

#include "core/words.h"

static bool is_open(const struct hx_record *record)
{
    switch (record->state) {
    case HX_OP_RUNNING:
    case HX_OP_READY:
    case HX_OP_AWAITING_APPROVAL:
    case HX_OP_INPUT_REQUIRED:
    case HX_OP_UNKNOWN:
        return !record->is_superseded;
    case HX_OP_ABSENT:
    case HX_OP_SUCCEEDED:
    case HX_OP_FAILED:
    case HX_OP_CANCELLED:
    case HX_OP_EXPIRED:
    case HX_OP_STATE_COUNT:
        break;
    }
    return false;
}

static bool is_keyless(const struct hx_record *record)
{
    return record->key_source == HX_KEY_NONE;
}

static bool is_finished(const struct hx_record *record)
{
    return hx_op_state_is_final(record->state) && record->state != HX_OP_EXPIRED;
}

/* "Across boots the wall clock, and a repeat window starts again once at most and never beyond 24 h
 * of wall time after the outcome." How many boots lie between is not known, so it starts again at
 * each: to take it for used up could run the call twice (docs/decisions/0007). */
static bool is_inside_window(const struct hx_record *record, const struct hx_now *now)
{
    const int64_t day_ms = 24 * 60 * 60 * 1000;
    int64_t window_ms = record->contract.repeat_window_ms;
    if (hx_boot_eq(&record->settled.boot, &now->boot))
        return !hx_has_elapsed(&record->settled, now, window_ms, HX_ACROSS_COUNTS_AS_OVER);
    /* A wall clock set back must not make a retry a new operation, so a negative age is young. */
    int64_t wall_ms = now->wall.ms - record->settled.wall.ms;
    return wall_ms < day_ms && now->mono.ms < window_ms;
}

static bool is_undelivered(const struct hx_record *record)
{
    enum hx_delivery delivery = hx_record_delivery(record);
    return delivery == HX_DELIVERY_PENDING || delivery == HX_DELIVERY_LOST;
}

/* Its caller was told to come back: he may do so for as long as there is something to give him. */
static bool is_owed(const struct hx_record *record)
{
    return record->is_told_pending && record->outcome.place != HX_OUTCOME_GONE;
}

static bool has_lost_answer(const struct hx_twin *twin, const struct hx_now *now)
{
    const struct hx_record *record = twin->record;
    if (twin->has_live_waiter)
        return false;
    if (is_open(record))
        return true;
    return is_finished(record) && is_undelivered(record) &&
           (is_owed(record) || is_inside_window(record, now));
}

static bool has_silent_waiter(const struct hx_twin *twin, const struct hx_contract *contract)
{
    return is_open(twin->record) && twin->has_live_waiter && twin->is_waiter_on_same_line &&
           twin->waiter_waited_ms >= contract->overlap_ms;
}

static struct hx_repeat_decision decide_lost(const struct hx_contract *contract,
                                             const struct hx_twin *twins, unsigned count,
                                             const struct hx_now *now)
{
    for (unsigned i = 0; i < count; i++) {
        if (has_lost_answer(&twins[i], now))
            return (struct hx_repeat_decision){HX_REPEAT_ADOPT, i};
    }
    for (unsigned i = 0; i < count; i++) {
        if (has_silent_waiter(&twins[i], contract))
            return (struct hx_repeat_decision){HX_REPEAT_ADOPT, i};
    }
    return (struct hx_repeat_decision){HX_REPEAT_NEW, 0};
}

/* The newest equal operation that the window still covers; an open one is covered however old it
 * is. */
static struct hx_repeat_decision decide_window(const struct hx_contract *contract,
                                               const struct hx_twin *twins, unsigned count,
                                               const struct hx_now *now)
{
    for (unsigned i = count; i-- > 0;) {
        const struct hx_record *record = twins[i].record;
        if (is_open(record))
            return (struct hx_repeat_decision){HX_REPEAT_ADOPT, i};
        if (record->state != HX_OP_SUCCEEDED)
            continue;
        bool is_repeat =
            is_inside_window(record, now) || (is_undelivered(record) && is_owed(record));
        if (!is_repeat)
            continue;
        bool is_asked = contract->repeat == HX_REPEAT_ASK && !is_undelivered(record);
        return (struct hx_repeat_decision){is_asked ? HX_REPEAT_SUSPECT : HX_REPEAT_ADOPT, i};
    }
    return (struct hx_repeat_decision){HX_REPEAT_NEW, 0};
}

/* INV-23: whoever is joined sent the same, as the same principal of the same tenant. */
static void check_twins(const struct hx_twin *twins, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        const struct hx_record *first = twins[0].record;
        const struct hx_record *record = twins[i].record;
        hx_assert(hx_digest_eq(&first->fingerprint, &record->fingerprint));
        hx_assert(hx_span_eq(first->principal, record->principal));
        hx_assert(hx_span_eq(first->tenant, record->tenant));
    }
}

struct hx_repeat_decision hx_repeat_decide(const struct hx_contract *contract,
                                           const struct hx_twin *twins, unsigned count,
                                           const struct hx_now *now)
{
    check_twins(twins, count);
    switch (contract->repeat) {
    case HX_REPEAT_LOST:
        return decide_lost(contract, twins, count, now);
    case HX_REPEAT_WINDOW:
    case HX_REPEAT_ASK:
        return decide_window(contract, twins, count, now);
    case HX_REPEAT_REQUIRE_KEY:
        return (struct hx_repeat_decision){HX_REPEAT_NEEDS_KEY, 0};
    case HX_REPEAT_SEPARATE:
        return (struct hx_repeat_decision){HX_REPEAT_NEW, 0};
    }
    hx_assert(!"repeat");
    return (struct hx_repeat_decision){HX_REPEAT_NEEDS_KEY, 0};
}

/* Unknown, or running with nobody waiting: a new key for the same arguments is probably a retry
 * whose key was made anew. */
static bool is_unresolved(const struct hx_twin *twin)
{
    const struct hx_record *record = twin->record;
    if (record->is_superseded)
        return false;
    return record->state == HX_OP_UNKNOWN ||
           (record->state == HX_OP_RUNNING && !twin->has_live_waiter);
}

struct hx_repeat_decision hx_repeat_decide_fresh_key(const struct hx_contract *contract,
                                                     const struct hx_twin *twins, unsigned count,
                                                     const struct hx_now *now)
{
    check_twins(twins, count);
    /* A client that retries with a key what it first sent without one. A twin that has just
     * finished is taken too while its answer is lost: whether it ends before or after this look
     * must not decide between one effect and two (docs/decisions/0006). */
    for (unsigned i = 0; i < count; i++) {
        bool is_retried = is_unresolved(&twins[i]) || has_lost_answer(&twins[i], now);
        if (is_keyless(twins[i].record) && is_retried)
            return (struct hx_repeat_decision){HX_REPEAT_ADOPT, i};
    }
    for (unsigned i = 0; i < count; i++) {
        if (!is_unresolved(&twins[i]))
            continue;
        switch (contract->fresh_key) {
        case HX_FRESH_KEY_WARN:
            return (struct hx_repeat_decision){HX_REPEAT_FRESH_WARN, i};
        case HX_FRESH_KEY_ASK:
            return (struct hx_repeat_decision){HX_REPEAT_FRESH_ASK, i};
        case HX_FRESH_KEY_REFUSE:
            return (struct hx_repeat_decision){HX_REPEAT_FRESH_REFUSE, i};
        }
    }
    return (struct hx_repeat_decision){HX_REPEAT_NEW, 0};
}

bool hx_repeat_is_cold(const struct hx_record *record, const struct hx_now *now)
{
    if (is_open(record))
        return false;
    if (record->state == HX_OP_UNKNOWN || record->state == HX_OP_EXPIRED)
        return true; /* superseded, or too old */
    bool is_lost_only = record->contract.repeat == HX_REPEAT_LOST ||
                        record->contract.repeat == HX_REPEAT_REQUIRE_KEY ||
                        record->contract.repeat == HX_REPEAT_SEPARATE;
    if (is_undelivered(record) && is_owed(record))
        return false;
    if (!is_inside_window(record, now))
        return true;
    return is_lost_only && !is_undelivered(record);
}
