/* SPDX-License-Identifier: MIT */
/*
 * The only door to malloc.
 *
 * Memory whose size a peer chooses (buffers, arenas) comes from hx_alloc and may be refused: that
 * is a refusal of one message. What is small, whoever asks for it, ends the process when there is
 * none: not even an error could be told then, and every promise is durable already.
 *
 * In somebody else's process nothing ends for want of memory: see hx_alloc_be_guest.
 */
#ifndef HX_BASE_ALLOC_H
#define HX_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/span.h"

/* Up to here a size counts as small. An answer of our own, an event, a resume point and a name have
 * room in it, and a message that only says a little; so none of them is ever refused. */
enum { HX_ALLOC_SMALL_MAX = 32 * 1024 };

/* Returns NULL when refused, which is only what is not small. A size of 0 is a mistake. */
void *hx_alloc(size_t size) HX_MUST_CHECK;
/* Like realloc; on refusal returns NULL and `memory` stays valid. */
void *hx_realloc(void *memory, size_t size) HX_MUST_CHECK;
/* Zeroed; never returns NULL. */
void *hx_new_bytes(size_t size);
#define hx_new(type) ((type *)hx_new_bytes(sizeof(type)))
/* The same with the first `len` bytes of `memory`, which it takes. */
void *hx_renew_bytes(void *memory, size_t len, size_t size);
/* NUL-terminated copies; never return NULL. */
char *hx_strdup(const char *text);
char *hx_span_strdup(struct hx_span span);
/* Gives free pages back to the system. Looks at the whole heap: not for every turn. */
void hx_memory_trim(void);
/* Accepts NULL; returns NULL so that `p = hx_free(p)` reads well. */
void *hx_free(void *memory);

/* For a library in a process that is not ours: hx_alloc and hx_realloc are refused small sizes too,
 * and hx_new takes from what was put by. Only when that is used up as well it ends the process.
 * False: there is nothing to put by. To be called before each piece of work, and at the end of all
 * of it hx_alloc_guest_over. */
bool hx_alloc_be_guest(void) HX_MUST_CHECK;
void hx_alloc_guest_over(void);

/* Test seam: as for a guest, with nothing put by. */
void hx_alloc_refuse_small(void);
/* Test seam: the n-th call from now (1 = next) to hx_alloc or hx_realloc is refused, whatever its
 * size; 0 turns it off. */
void hx_alloc_fail_at(unsigned long countdown);
/* The same, counting only what is not small. */
void hx_alloc_fail_large_at(unsigned long countdown);
/* How many are left of that count; 0: it has happened, or is off. */
unsigned long hx_alloc_fail_left(void);

#endif
