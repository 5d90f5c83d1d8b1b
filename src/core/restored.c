/* SPDX-License-Identifier: MIT */
#include "core/restored.h"

bool hx_gap_covers_key(const struct hx_gap *gap, struct hx_key_time time, struct hx_wall now)
{
    /* A key made long before the copy may have been used for the first time after it, or its first
     * call was still on its way: so every key that could be there and is not. Clocks of clients are
     * not ours. */
    const int64_t margin_ms = 5 * 60 * 1000;
    if (gap->until.ms == 0 || now.ms >= gap->until.ms)
        return false;
    if (time.first_sent.ms == 0)
        return true;
    return time.first_sent.ms <= gap->to.ms + margin_ms;
}

bool hx_gap_covers_keyless(const struct hx_gap *gap, const struct hx_contract *contract,
                           struct hx_wall now)
{
    return gap->until.ms != 0 && now.ms - gap->to.ms < contract->repeat_window_ms;
}
