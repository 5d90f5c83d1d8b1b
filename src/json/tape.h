/* SPDX-License-Identifier: MIT */
/*
 * A JSON text as a tape of byte offsets. Nothing is copied out of the text and nothing in it
 * changes: whoever passes a message on passes on its bytes, so that numbers, escapes and member
 * order survive.
 *
 * Tokens stand in the order of the text. A container is followed by its children; in an object each
 * child is a NAME token and, right behind it, the member's value. `next` is the index after the
 * whole subtree, so that siblings are reached without looking at what is between.
 *
 *   {"a":[1,2],"b":3}   0 OBJECT next=7 count=2
 *                       1 NAME a   2 ARRAY next=5 count=2   3 NUMBER   4 NUMBER   5 NAME b   6
 * NUMBER
 *
 * A tape borrows its text: it is valid as long as the text is. The tape's own memory is reused by
 * each read. Text offsets are 32 bits; the reader refuses longer texts.
 */
#ifndef HX_JSON_TAPE_H
#define HX_JSON_TAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"

#define HX_JSON_NONE UINT32_MAX /* no such token */

enum hx_json_type {
    HX_JSON_NULL,
    HX_JSON_FALSE,
    HX_JSON_TRUE,
    HX_JSON_NUMBER,
    HX_JSON_STRING,
    HX_JSON_ARRAY,
    HX_JSON_OBJECT,
    HX_JSON_NAME
};

enum hx_json_flag {
    HX_JSON_HAS_ESCAPES = 1,        /* string, name: a backslash is in it */
    HX_JSON_HAS_LONE_SURROGATE = 2, /* string, name: no UTF-8 exists for what it says */
    HX_JSON_HAS_DUPLICATES = 4,     /* object: two members of one name (escapes resolved) */
    HX_JSON_IS_OPAQUE = 8           /* container: has children, and they are not on the tape */
};

struct hx_json_token {
    uint32_t offset; /* of the first byte of its raw text; strings and names include their quotes */
    uint32_t len;
    uint32_t next;  /* index after the subtree; of a NAME: its value */
    uint32_t count; /* members or elements, also of an opaque container */
    uint8_t type;   /* enum hx_json_type */
    uint8_t flags;  /* enum hx_json_flag */
};

struct hx_json_tape {
    struct hx_json_token *tokens;
    uint32_t count;
    uint32_t capacity;
    struct hx_span text;
    bool has_duplicates;      /* in any recorded object */
    bool has_lone_surrogates; /* anywhere, recorded or not */
    size_t error_offset;      /* after a refused read: where, and in a few words why */
    const char *error_reason;
    uint32_t *order; /* scratch for finding duplicates in large objects */
    uint32_t order_capacity;
};

void hx_json_tape_init(struct hx_json_tape *tape);
void hx_json_tape_fini(struct hx_json_tape *tape);
/* Gives memory back if the tape has grown beyond `tokens_kept`; what was read is gone then. */
void hx_json_tape_trim(struct hx_json_tape *tape, uint32_t tokens_kept);

static inline const struct hx_json_token *hx_json_at(const struct hx_json_tape *tape,
                                                     uint32_t index)
{
    hx_assert(index < tape->count);
    return &tape->tokens[index];
}

/* HX_JSON_NONE is of no type, so a lookup's answer can be tested directly. */
static inline bool hx_json_is(const struct hx_json_tape *tape, uint32_t index,
                              enum hx_json_type type)
{
    return index != HX_JSON_NONE && hx_json_at(tape, index)->type == type;
}

/* The bytes of a value as they stand in the text; absent for HX_JSON_NONE. */
struct hx_span hx_json_raw(const struct hx_json_tape *tape, uint32_t index);
/* Between the quotes of a string or name, escapes untouched. */
struct hx_span hx_json_content(const struct hx_json_tape *tape, uint32_t index);

/* Index of the *value* of the first member called `name`, or HX_JSON_NONE; also for HX_JSON_NONE,
 * for what is no object and for an opaque one, so that lookups chain. The name stands at the index
 * before. */
uint32_t hx_json_member(const struct hx_json_tape *tape, uint32_t object, struct hx_span name);
/* As hx_json_member, and HX_JSON_NONE unless the value is of `type`. */
uint32_t hx_json_member_of(const struct hx_json_tape *tape, uint32_t object, struct hx_span name,
                           enum hx_json_type type);

/* Iteration over children: of an object the NAME tokens (the value is at + 1), of an array the
 * elements. HX_JSON_NONE at the end, at once for scalars and opaque containers. */
uint32_t hx_json_first(const struct hx_json_tape *tape, uint32_t container);
uint32_t hx_json_next(const struct hx_json_tape *tape, uint32_t container, uint32_t child);
#define hx_json_for_each(at, tape, container)                                                      \
    for (uint32_t at = hx_json_first((tape), (container)); at != HX_JSON_NONE;                     \
         at = hx_json_next((tape), (container), at))

/* True when `index` is a string or name that says `text` (UTF-8). */
bool hx_json_is_text(const struct hx_json_tape *tape, uint32_t index, struct hx_span text);
/* What a string or name says: see hx_json_text_decode for outcomes and ownership. */
int hx_json_string(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                   struct hx_span *ret_text) HX_MUST_CHECK;
/* True when `index` is a number written as an integer and inside int64; 1.0 and 1e3 are not. */
bool hx_json_int64(const struct hx_json_tape *tape, uint32_t index, int64_t *ret_value);
/* True when `index` is true or false. */
bool hx_json_bool(const struct hx_json_tape *tape, uint32_t index, bool *ret_value);

/* Sorts `count` NAME indexes into the order of UTF-16 code units, in place, n log n at worst.
 * Returns whether two of them say the same. */
bool hx_json_names_sort(const struct hx_json_tape *tape, uint32_t *names, uint32_t count);

#endif
