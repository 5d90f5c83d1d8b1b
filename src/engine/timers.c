/* SPDX-License-Identifier: MIT */
#include "engine/timers.h"

#include "base/alloc.h"

void hx_timers_init(struct hx_timers *timers)
{
    *timers = (struct hx_timers){0};
}

void hx_timers_fini(struct hx_timers *timers)
{
    if (timers == NULL)
        return;
    hx_free(timers->heap);
    *timers = (struct hx_timers){0};
}

static void put(struct hx_timers *timers, size_t place, struct hx_timer *timer)
{
    timers->heap[place - 1] = timer;
    timer->place = place;
}

static bool is_before(const struct hx_timer *a, const struct hx_timer *b)
{
    return a->due.ms < b->due.ms;
}

static void sift_up(struct hx_timers *timers, size_t place)
{
    struct hx_timer *timer = timers->heap[place - 1];
    while (place > 1 && is_before(timer, timers->heap[place / 2 - 1])) {
        put(timers, place, timers->heap[place / 2 - 1]);
        place /= 2;
    }
    put(timers, place, timer);
}

static void sift_down(struct hx_timers *timers, size_t place)
{
    struct hx_timer *timer = timers->heap[place - 1];
    for (;;) {
        size_t child = 2 * place;
        if (child > timers->count)
            break;
        if (child < timers->count && is_before(timers->heap[child], timers->heap[child - 1]))
            child++;
        if (!is_before(timers->heap[child - 1], timer))
            break;
        put(timers, place, timers->heap[child - 1]);
        place = child;
    }
    put(timers, place, timer);
}

void hx_timer_disarm(struct hx_timers *timers, struct hx_timer *timer)
{
    if (timer->place == 0)
        return;
    size_t place = timer->place;
    hx_assert(timers->heap[place - 1] == timer);
    struct hx_timer *last = timers->heap[--timers->count];
    timer->place = 0;
    if (last == timer)
        return;
    put(timers, place, last);
    sift_up(timers, place);
    sift_down(timers, last->place);
}

void hx_timer_arm(struct hx_timers *timers, struct hx_timer *timer, struct hx_mono due)
{
    hx_assert(timer->fire != NULL);
    hx_timer_disarm(timers, timer);
    if (timers->count == timers->capacity) {
        size_t capacity = timers->capacity ? 2 * timers->capacity : 64;
        struct hx_timer **heap = hx_new_bytes(capacity * sizeof(*heap));
        if (timers->count > 0)
            memcpy(heap, timers->heap, timers->count * sizeof(*heap));
        hx_free(timers->heap);
        timers->heap = heap;
        timers->capacity = capacity;
    }
    timer->due = due;
    put(timers, ++timers->count, timer);
    sift_up(timers, timer->place);
}

void hx_timer_arm_sooner(struct hx_timers *timers, struct hx_timer *timer, struct hx_mono due)
{
    if (timer->place == 0 || due.ms < timer->due.ms)
        hx_timer_arm(timers, timer, due);
}

void hx_timers_run(struct hx_timers *timers, struct hx_mono now)
{
    while (timers->count > 0 && hx_mono_reached(now, timers->heap[0]->due)) {
        struct hx_timer *timer = timers->heap[0];
        hx_timer_disarm(timers, timer);
        timer->fire(timer);
    }
}

int64_t hx_timers_wait_ms(const struct hx_timers *timers, struct hx_mono now)
{
    if (timers->count == 0)
        return -1;
    int64_t wait_ms = hx_mono_since_ms(timers->heap[0]->due, now);
    return wait_ms > 0 ? wait_ms : 0;
}
