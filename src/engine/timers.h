/* SPDX-License-Identifier: MIT */
/*
 * Deadlines on the monotonic clock, in a binary heap. A timer lives inside its owner; arming an
 * armed timer moves it. Nothing here reads a clock: the gateway says what time it is.
 */
#ifndef HX_ENGINE_TIMERS_H
#define HX_ENGINE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/time.h"

struct hx_timer {
    struct hx_mono due;
    size_t place; /* 1-based place in the heap; 0 = not armed */
    void (*fire)(struct hx_timer *timer);
};

struct hx_timers {
    struct hx_timer **heap; /* owned */
    size_t count;
    size_t capacity;
};

void hx_timers_init(struct hx_timers *timers);
void hx_timers_fini(struct hx_timers *timers);
void hx_timer_arm(struct hx_timers *timers, struct hx_timer *timer, struct hx_mono due);
/* Arms it for `due` unless it is armed for something earlier. */
void hx_timer_arm_sooner(struct hx_timers *timers, struct hx_timer *timer, struct hx_mono due);
/* Harmless for a timer that is not armed. */
void hx_timer_disarm(struct hx_timers *timers, struct hx_timer *timer);
static inline bool hx_timer_is_armed(const struct hx_timer *timer)
{
    return timer->place != 0;
}
/* Fires, in order, all that are due; a timer is disarmed before it fires and may be armed again. */
void hx_timers_run(struct hx_timers *timers, struct hx_mono now);
/* Milliseconds until the next one, 0 when it is due, -1 when there is none. */
int64_t hx_timers_wait_ms(const struct hx_timers *timers, struct hx_mono now);

#endif
