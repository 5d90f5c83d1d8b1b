/* SPDX-License-Identifier: MIT */
#include "core/recover.h"

#include "core/policy.h"
#include "core/words.h"

struct hx_rungs hx_recover_rungs(const struct hx_record *record, const struct hx_facts *facts,
                                 const struct hx_now *now, bool has_handle)
{
    struct hx_rungs rungs = {0};
    if (record->state != HX_OP_UNKNOWN || record->is_superseded)
        return rungs;
    rungs.is_allowed[HX_RUNG_EVIDENCE] = true;
    rungs.is_allowed[HX_RUNG_HANDLE] = has_handle;
    rungs.is_allowed[HX_RUNG_RESEND] = hx_may_send_again(record, facts, now);
    rungs.is_allowed[HX_RUNG_PROBE] = record->contract.has_probe;
    rungs.is_allowed[HX_RUNG_PERSON] = true;
    return rungs;
}

int64_t hx_recover_delay_ms(unsigned tries)
{
    static const int64_t delays_ms[] = {5000, 15000, 45000, 120000, 300000, 600000};
    const unsigned last = sizeof(delays_ms) / sizeof(delays_ms[0]) - 1;
    return delays_ms[tries < last ? tries : last];
}

bool hx_recover_may_send_alone(const struct hx_record *record, const struct hx_now *now)
{
    const struct hx_facts hopeful = {.is_sender_gone = true, .is_same_target = true};
    struct hx_rungs rungs = hx_recover_rungs(record, &hopeful, now, false);
    return rungs.is_allowed[HX_RUNG_RESEND] && !record->is_cancel_requested;
}

unsigned hx_recover_looks_done(const struct hx_record *record)
{
    return record->sends > 0 ? record->sends - 1 : 0;
}

bool hx_recover_add_negative(struct hx_negatives *negatives, bool is_provable, struct hx_mono now)
{
    bool is_apart =
        negatives->count == 0 || hx_mono_since_ms(now, negatives->last) >= HX_NEGATIVES_APART_MS;
    if (!is_provable || !is_apart)
        return false;
    negatives->count++;
    negatives->last = now;
    return negatives->count >= HX_NEGATIVES_NEEDED;
}

int64_t hx_recover_probe_delay_ms(unsigned tries, const struct hx_negatives *negatives)
{
    int64_t delay_ms = hx_recover_delay_ms(tries);
    bool is_counting = negatives->count > 0;
    return is_counting && delay_ms > HX_NEGATIVES_APART_MS ? HX_NEGATIVES_APART_MS : delay_ms;
}

bool hx_recover_needs_human(const struct hx_record *record, const struct hx_now *now)
{
    const int64_t patience_ms = 15 * 60 * 1000;
    return record->state == HX_OP_UNKNOWN && !record->is_superseded &&
           hx_age_ms(&record->settled, now) >= patience_ms;
}

const char *hx_rung_name(enum hx_rung rung)
{
    static const char *const names[] = {"evidence", "handle", "resend", "probe", "person"};
    return names[rung];
}
