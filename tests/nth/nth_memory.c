/* SPDX-License-Identifier: MIT */
/* The allocations. What the C library and the dynamic loader need for themselves is left alone when
 * it is asked for before we are there. */
#include "nth.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CALLER __builtin_return_address(0)

static char early[1 << 14];
static size_t early_used;
static _Thread_local bool is_resolving;

/* dlsym() may allocate before we know by what. */
static void *early_bytes(size_t size)
{
    size_t start = (early_used + 15) & ~(size_t)15;
    if (size > sizeof(early) - start)
        __builtin_trap();
    early_used = start + size;
    return early + start;
}

static void *resolve(const char *name)
{
    is_resolving = true;
    void *function = nth_next(name);
    is_resolving = false;
    return function;
}

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (next == NULL) {
        if (is_resolving)
            return early_bytes(size);
        next = (void *(*)(size_t))(uintptr_t)resolve("malloc");
    }
    return nth_fault(NTH_MEMORY, "malloc", CALLER, "ENOMEM") != 0 ? refuse() : next(size);
}

void *calloc(size_t count, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (next == NULL) {
        if (is_resolving)
            return memset(early_bytes(count * size), 0, count * size);
        next = (void *(*)(size_t, size_t))(uintptr_t)resolve("calloc");
    }
    return nth_fault(NTH_MEMORY, "calloc", CALLER, "ENOMEM") != 0 ? refuse() : next(count, size);
}

void *realloc(void *memory, size_t size)
{
    static void *(*next)(void *, size_t);
    if (next == NULL)
        next = (void *(*)(void *, size_t))(uintptr_t)resolve("realloc");
    return nth_fault(NTH_MEMORY, "realloc", CALLER, "ENOMEM") != 0 ? refuse() : next(memory, size);
}
