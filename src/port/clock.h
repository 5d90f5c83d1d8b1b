/* SPDX-License-Identifier: MIT */
/*
 * Where time comes from. The loop reads it once per turn and hands the reading down; nothing below
 * engine reads a clock.
 */
#ifndef HX_PORT_CLOCK_H
#define HX_PORT_CLOCK_H

#include "base/time.h"

struct hx_clock {
    struct hx_now (*now)(struct hx_clock *clock);
};

static inline struct hx_now hx_clock_now(struct hx_clock *clock)
{
    return clock->now(clock);
}

#endif
