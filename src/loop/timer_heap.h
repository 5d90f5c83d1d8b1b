/* SPDX-License-Identifier: MIT */
/*
 * The deadlines of a loop: a binary heap of timers, earliest first, each of which knows its place
 * so that it can be taken out.
 */
#ifndef HX_LOOP_TIMER_HEAP_H
#define HX_LOOP_TIMER_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

#define HX_TIMER_UNSET SIZE_MAX

struct hx_loop;

struct hx_loop_timer {
    struct hx_loop *loop;
    struct hx_mono deadline;
    size_t index;        /* in the heap, or HX_TIMER_UNSET */
    struct hx_list node; /* among those due in this turn */
    void (*due)(void *arg);
    void *arg;
};

struct hx_timer_heap {
    struct hx_loop_timer **timers; /* borrowed */
    size_t count;
    size_t capacity;
};

void hx_timer_heap_fini(struct hx_timer_heap *heap);
void hx_timer_heap_add(struct hx_timer_heap *heap, struct hx_loop_timer *timer);
void hx_timer_heap_remove(struct hx_timer_heap *heap, struct hx_loop_timer *timer);
/* The earliest, or NULL. */
struct hx_loop_timer *hx_timer_heap_first(const struct hx_timer_heap *heap);

#endif
