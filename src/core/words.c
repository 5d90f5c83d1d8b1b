/* SPDX-License-Identifier: MIT */
#include "core/words.h"

bool hx_has_elapsed(const struct hx_now *since, const struct hx_now *now, int64_t span_ms,
                    enum hx_across_boots across)
{
    if (!hx_boot_eq(&since->boot, &now->boot))
        return across == HX_ACROSS_COUNTS_AS_OVER;
    return hx_mono_since_ms(now->mono, since->mono) >= span_ms;
}

int64_t hx_age_ms(const struct hx_now *since, const struct hx_now *now)
{
    const int64_t day_ms = 24 * 60 * 60 * 1000;
    if (hx_boot_eq(&since->boot, &now->boot)) {
        int64_t age_ms = hx_mono_since_ms(now->mono, since->mono);
        return age_ms > 0 ? age_ms : 0;
    }
    /* A gap between boots: the wall clock may have jumped either way in it. */
    int64_t gap_ms = now->wall.ms - since->wall.ms;
    if (gap_ms < 0)
        return 0;
    int64_t bound_ms = day_ms + (now->mono.ms > 0 ? now->mono.ms : 0);
    return gap_ms < bound_ms ? gap_ms : bound_ms; /* INV-22: by a day at most, however it jumped */
}

bool hx_runs_alone(const struct hx_record *record)
{
    uint32_t refused =
        (uint32_t)record->earlier.refused + (record->attempt.state == HX_ATTEMPT_REFUSED);
    return record->is_approved && refused <= record->sends;
}

bool hx_is_unanswered(const struct hx_record *record, const struct hx_now *now)
{
    const int64_t patience_ms = 24 * 60 * 60 * 1000;
    /* An approval is waited for from the beginning, and nothing else is written meanwhile; a round
     * begins with the write that notes its question. */
    bool is_waiting =
        record->state == HX_OP_AWAITING_APPROVAL || record->state == HX_OP_INPUT_REQUIRED;
    return is_waiting && hx_age_ms(&record->updated, now) >= patience_ms;
}

bool hx_attempt_is_unsent(const struct hx_record *record, const struct hx_facts *facts)
{
    switch (record->attempt.state) {
    case HX_ATTEMPT_NONE:
    case HX_ATTEMPT_DEAD:
    case HX_ATTEMPT_REFUSED:
        return true;
    case HX_ATTEMPT_OPEN:
        return !record->attempt.is_marked && (facts->is_epoch_current || facts->is_mark_durable);
    case HX_ATTEMPT_ASKED:
    case HX_ATTEMPT_CONFIRMED:
        return false;
    }
    hx_assert(!"attempt state");
    return false;
}

bool hx_nothing_sent_before(const struct hx_record *record)
{
    return record->earlier.open == 0 && record->earlier.asked == 0 &&
           record->earlier.confirmed == 0;
}

bool hx_nothing_sent(const struct hx_record *record, const struct hx_facts *facts)
{
    return hx_attempt_is_unsent(record, facts) && hx_nothing_sent_before(record);
}
