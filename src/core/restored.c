/* SPDX-License-Identifier: MIT */
#include "core/restored.h"

bool hx_gap_covers_key(const struct hx_gap *gap, struct hx_key_time time, struct hx_wall now)
{
    /* Clocks of clients are not ours: a key made just before the copy may have been used after
     * it. */
    const int64_t margin_ms = 5 * 60 * 1000;
    if (gap->until.ms == 0 || now.ms >= gap->until.ms)
        return false;
    if (time.first_sent.ms == 0)
        return true;
    return time.first_sent.ms >= gap->from.ms - margin_ms &&
           time.first_sent.ms <= gap->to.ms + margin_ms;
}

bool hx_gap_covers_keyless(const struct hx_gap *gap, const struct hx_contract *contract,
                           struct hx_wall now)
{
    return gap->until.ms != 0 && now.ms - gap->to.ms < contract->repeat_window_ms;
}
