/* SPDX-License-Identifier: MIT */
/*
 * The only door to malloc.
 *
 * Memory whose size a peer chooses (buffers, arenas) comes from hx_alloc and may be refused: that
 * is a refusal of one message. Small fixed objects come from hx_new, which ends the process when
 * memory is gone: nothing useful can be done without them, and every promise is durable already.
 */
#ifndef HX_BASE_ALLOC_H
#define HX_BASE_ALLOC_H

#include <stddef.h>

#include "base/assert.h"
#include "base/span.h"

/* Returns NULL when refused. A size of 0 is a mistake. */
void *hx_alloc(size_t size) HX_MUST_CHECK;
/* Like realloc; on refusal returns NULL and `memory` stays valid. */
void *hx_realloc(void *memory, size_t size) HX_MUST_CHECK;
/* Zeroed; never returns NULL. */
void *hx_new_bytes(size_t size);
#define hx_new(type) ((type *)hx_new_bytes(sizeof(type)))
/* NUL-terminated copies; never return NULL. */
char *hx_strdup(const char *text);
char *hx_span_strdup(struct hx_span span);
/* Gives free pages back to the system. Looks at the whole heap: not for every turn. */
void hx_memory_trim(void);
/* Accepts NULL; returns NULL so that `p = hx_free(p)` reads well. */
void *hx_free(void *memory);

/* Test seam: the n-th call from now (1 = next) to a *fallible* allocation is refused; 0 turns it
 * off. */
void hx_alloc_fail_at(unsigned long countdown);

#endif
