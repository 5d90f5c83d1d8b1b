/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdalign.h>

#include "base/alloc.h"

enum { BLOCK_SIZE_MIN = 4096, BLOCK_SIZE_SMALL = 64 };

struct hx_arena_block {
    struct hx_arena_block *older;
    size_t size;
    size_t used;
    alignas(max_align_t) char bytes[];
};

void hx_arena_init(struct hx_arena *arena, size_t used_max)
{
    *arena = (struct hx_arena){.used_max = used_max, .block_min = BLOCK_SIZE_MIN};
}

void hx_arena_init_small(struct hx_arena *arena, size_t used_max)
{
    *arena = (struct hx_arena){.used_max = used_max, .block_min = BLOCK_SIZE_SMALL};
}

static void free_older(struct hx_arena_block *block)
{
    while (block != NULL) {
        struct hx_arena_block *older = block->older;
        hx_free(block);
        block = older;
    }
}

void hx_arena_fini(struct hx_arena *arena)
{
    if (arena == NULL)
        return;
    free_older(arena->block);
    *arena = (struct hx_arena){.used_max = arena->used_max, .block_min = arena->block_min};
}

void hx_arena_reset(struct hx_arena *arena)
{
    if (arena->block != NULL) {
        free_older(arena->block->older);
        arena->block->older = NULL;
        arena->block->used = 0;
    }
    arena->used = 0;
}

void *hx_arena_alloc(struct hx_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > arena->used_max || arena->used_max - size < align)
        return NULL;
    size = (size + align - 1) / align * align;
    if (arena->used > arena->used_max - size)
        return NULL;
    struct hx_arena_block *block = arena->block;
    if (block == NULL || block->size - block->used < size) {
        size_t block_size = size > arena->block_min ? size : arena->block_min;
        block = hx_alloc(sizeof(*block) + block_size);
        if (block == NULL)
            return NULL;
        *block = (struct hx_arena_block){.older = arena->block, .size = block_size};
        arena->block = block;
    }
    void *memory = block->bytes + block->used;
    block->used += size;
    arena->used += size;
    return memory;
}

struct hx_span hx_arena_dup(struct hx_arena *arena, struct hx_span span)
{
    char *copy = hx_arena_alloc(arena, span.len + 1);
    if (copy == NULL)
        return HX_SPAN_NONE;
    if (span.len > 0)
        memcpy(copy, span.ptr, span.len);
    copy[span.len] = '\0';
    return hx_span(copy, span.len);
}
