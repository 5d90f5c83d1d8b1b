/* SPDX-License-Identifier: MIT */
/*
 * Memory that dies together: the parse products and copies of one request. Nothing is freed singly.
 */
#ifndef HX_BASE_ARENA_H
#define HX_BASE_ARENA_H

#include <stddef.h>

#include "base/assert.h"
#include "base/span.h"

struct hx_arena_block;

struct hx_arena {
    struct hx_arena_block *block; /* newest first */
    size_t used;                  /* bytes handed out in all */
    size_t used_max;
    size_t block_min;
};

void hx_arena_init(struct hx_arena *arena, size_t used_max);
/* In blocks as small as what is asked for: for a few texts that live long. */
void hx_arena_init_small(struct hx_arena *arena, size_t used_max);
void hx_arena_fini(struct hx_arena *arena);
/* Keeps the newest block for reuse. */
void hx_arena_reset(struct hx_arena *arena);
/* Aligned for any type, not zeroed; NULL when the maximum or memory is exhausted. */
void *hx_arena_alloc(struct hx_arena *arena, size_t size) HX_MUST_CHECK;
/* Copies `span` with a NUL behind it; an absent span when exhausted. */
struct hx_span hx_arena_dup(struct hx_arena *arena, struct hx_span span) HX_MUST_CHECK;

#endif
