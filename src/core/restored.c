/* SPDX-License-Identifier: MIT */
#include "core/restored.h"

#include "base/assert.h"

static bool is_cautious(const struct hx_gap *gap)
{
    return gap->until.ms != 0 && gap->age_ms < HX_GAP_CAUTION_MS;
}

bool hx_gap_covers_key(const struct hx_gap *gap, struct hx_key_time time)
{
    /* A key made long before the copy may have been used for the first time after it, or its first
     * call was still on its way: so every key that could be there and is not. Clocks of clients are
     * not ours. */
    const int64_t margin_ms = 5 * 60 * 1000;
    if (!is_cautious(gap))
        return false;
    if (time.first_sent.ms == 0)
        return true;
    return time.first_sent.ms <= gap->to.ms + margin_ms;
}

bool hx_gap_covers_successor(const struct hx_gap *gap, struct hx_wall created)
{
    return is_cautious(gap) && created.ms <= gap->to.ms;
}

bool hx_restored_doubt(struct hx_record *record, const struct hx_now *now)
{
    if (hx_op_state_is_final(record->state) || record->is_superseded)
        return false;
    hx_assert(hx_op_may_become(record->state, HX_OP_UNKNOWN));
    record->state = HX_OP_UNKNOWN;
    record->reason = HX_REASON_RESTORED_COPY;
    record->outcome = (struct hx_outcome){0}; /* a question may have been answered since */
    record->settled = *now; /* proofs of absence count from here: whatever was sent, was before */
    record->updated = *now;
    record->fence++;
    return true;
}

bool hx_gap_covers_keyless(const struct hx_gap *gap, const struct hx_contract *contract)
{
    return gap->until.ms != 0 && gap->age_ms < contract->repeat_window_ms;
}
