/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

/* So often hx_new can be refused in one piece of work; of threads there are several. */
enum { SPARES = 16, SPARE_SIZE = 4096 };

static _Atomic unsigned long fail_countdown;
static _Atomic size_t fail_above;
static _Atomic bool is_guest;
static void *_Atomic spares[SPARES];

static bool is_refused(size_t size)
{
    unsigned long left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (left == 0 || size <= atomic_load_explicit(&fail_above, memory_order_relaxed))
        return false;
    atomic_store_explicit(&fail_countdown, left - 1, memory_order_relaxed);
    return left == 1;
}

void hx_alloc_fail_at(unsigned long countdown)
{
    atomic_store_explicit(&fail_above, 0, memory_order_relaxed);
    atomic_store_explicit(&fail_countdown, countdown, memory_order_relaxed);
}

void hx_alloc_fail_large_at(unsigned long countdown)
{
    atomic_store_explicit(&fail_above, HX_ALLOC_SMALL_MAX, memory_order_relaxed);
    atomic_store_explicit(&fail_countdown, countdown, memory_order_relaxed);
}

unsigned long hx_alloc_fail_left(void)
{
    return atomic_load_explicit(&fail_countdown, memory_order_relaxed);
}

/* ---- in somebody else's process ---- */

void hx_alloc_refuse_small(void)
{
    atomic_store(&is_guest, true);
}

bool hx_alloc_be_guest(void)
{
    atomic_store(&is_guest, true);
    for (int i = 0; i < SPARES; i++) {
        void *none = NULL;
        if (atomic_load(&spares[i]) != NULL)
            continue;
        void *spare = malloc(SPARE_SIZE);
        if (spare == NULL)
            return false;
        if (!atomic_compare_exchange_strong(&spares[i], &none, spare))
            free(spare); /* another thread was faster */
    }
    return true;
}

void hx_alloc_guest_over(void)
{
    for (int i = 0; i < SPARES; i++)
        free(atomic_exchange(&spares[i], NULL));
}

/* Gives something back to the system, so that it has some. */
static bool give_spare(void)
{
    for (int i = 0; i < SPARES; i++) {
        void *spare = atomic_exchange(&spares[i], NULL);
        free(spare);
        if (spare != NULL)
            return true;
    }
    return false;
}

/* ---- the doors ---- */

static void *judged(void *memory, size_t size)
{
    if (size <= HX_ALLOC_SMALL_MAX && !atomic_load_explicit(&is_guest, memory_order_relaxed))
        hx_assert(memory != NULL);
    return memory;
}

void *hx_alloc(size_t size)
{
    hx_assert(size > 0);
    return is_refused(size) ? NULL : judged(malloc(size), size);
}

void *hx_realloc(void *memory, size_t size)
{
    hx_assert(size > 0);
    return is_refused(size) ? NULL : judged(realloc(memory, size), size);
}

void *hx_new_bytes(size_t size)
{
    void *memory = calloc(1, size);
    while (memory == NULL && give_spare())
        memory = calloc(1, size);
    hx_assert(memory != NULL);
    return memory;
}

void *hx_renew_bytes(void *memory, size_t len, size_t size)
{
    void *longer = hx_new_bytes(size);
    hx_assert(len <= size);
    if (len > 0)
        memcpy(longer, memory, len);
    free(memory);
    return longer;
}

char *hx_strdup(const char *text)
{
    return hx_span_strdup(hx_span_cstr(text));
}

char *hx_span_strdup(struct hx_span span)
{
    char *copy = hx_new_bytes(span.len + 1);
    if (span.len > 0)
        memcpy(copy, span.ptr, span.len);
    return copy;
}

void *hx_free(void *memory)
{
    free(memory);
    return NULL;
}

void hx_memory_trim(void)
{
    (void)malloc_trim(0); /* that there was nothing to give is no failure */
}
