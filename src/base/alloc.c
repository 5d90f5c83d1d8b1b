/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic unsigned long fail_countdown;

static bool is_refused(void)
{
    unsigned long left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (left == 0)
        return false;
    atomic_store_explicit(&fail_countdown, left - 1, memory_order_relaxed);
    return left == 1;
}

void hx_alloc_fail_at(unsigned long countdown)
{
    atomic_store_explicit(&fail_countdown, countdown, memory_order_relaxed);
}

void *hx_alloc(size_t size)
{
    hx_assert(size > 0);
    return is_refused() ? NULL : malloc(size);
}

void *hx_realloc(void *memory, size_t size)
{
    hx_assert(size > 0);
    return is_refused() ? NULL : realloc(memory, size);
}

void *hx_new_bytes(size_t size)
{
    void *memory = calloc(1, size);
    hx_assert(memory != NULL);
    return memory;
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
