/* SPDX-License-Identifier: MIT */
/*
 * A binary heap; see the header.
 */
#include "loop/timer_heap.h"

#include "base/alloc.h"

static void place(struct hx_timer_heap *heap, size_t index, struct hx_loop_timer *timer)
{
    heap->timers[index] = timer;
    timer->index = index;
}

static void sift_up(struct hx_timer_heap *heap, size_t index, struct hx_loop_timer *timer)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (heap->timers[parent]->deadline.ms <= timer->deadline.ms)
            break;
        place(heap, index, heap->timers[parent]);
        index = parent;
    }
    place(heap, index, timer);
}

static void sift_down(struct hx_timer_heap *heap, size_t index, struct hx_loop_timer *timer)
{
    for (;;) {
        size_t child = index * 2 + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->timers[child + 1]->deadline.ms < heap->timers[child]->deadline.ms)
            child++;
        if (timer->deadline.ms <= heap->timers[child]->deadline.ms)
            break;
        place(heap, index, heap->timers[child]);
        index = child;
    }
    place(heap, index, timer);
}

void hx_timer_heap_fini(struct hx_timer_heap *heap)
{
    hx_assert(heap->count == 0);
    heap->timers = hx_free(heap->timers);
}

void hx_timer_heap_add(struct hx_timer_heap *heap, struct hx_loop_timer *timer)
{
    hx_assert(timer->index == HX_TIMER_UNSET);
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity == 0 ? 16 : heap->capacity * 2;
        struct hx_loop_timer **grown = hx_new_bytes(capacity * sizeof *grown);
        if (heap->count > 0)
            memcpy(grown, heap->timers, heap->count * sizeof *grown);
        hx_free(heap->timers);
        heap->timers = grown;
        heap->capacity = capacity;
    }
    sift_up(heap, heap->count++, timer);
}

void hx_timer_heap_remove(struct hx_timer_heap *heap, struct hx_loop_timer *timer)
{
    size_t index = timer->index;
    struct hx_loop_timer *last;

    hx_assert(index < heap->count);
    hx_assert(heap->timers[index] == timer);
    timer->index = HX_TIMER_UNSET;
    last = heap->timers[--heap->count];
    if (last == timer)
        return;
    /* The last one takes the hole; it may have to move either way. */
    if (index > 0 && heap->timers[(index - 1) / 2]->deadline.ms > last->deadline.ms)
        sift_up(heap, index, last);
    else
        sift_down(heap, index, last);
}

struct hx_loop_timer *hx_timer_heap_first(const struct hx_timer_heap *heap)
{
    return heap->count > 0 ? heap->timers[0] : NULL;
}
