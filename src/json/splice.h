/* SPDX-License-Identifier: MIT */
/*
 * Edits a JSON text and leaves every byte alone that no edit names. Edits are collected against a
 * tape and written out in one go as slices of the old text with new text between them.
 *
 * Edits speak of members and elements, not of bytes, so commas come out right however they combine:
 * removing the first, last or only member, removing all and adding one, adding two to an empty
 * object. White space around what stays is kept; an edit inside a value that another edit removes
 * or replaces is void. New parents (`_meta`) are made on the way.
 *
 * Names are given as UTF-8, new values as JSON text; both are borrowed until the emit.
 */
#ifndef HX_JSON_SPLICE_H
#define HX_JSON_SPLICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "json/tape.h"

enum hx_splice_outcome {
    HX_SPLICE_NOT_OBJECT = 1 /* on the path is no object, or an opaque one: nothing was noted */
};

struct hx_splice_edit;

struct hx_splice {
    const struct hx_json_tape *tape; /* borrowed */
    struct hx_arena *arena;          /* borrowed; holds the edits */
    struct hx_splice_edit *edits;    /* newest first */
};

void hx_splice_init(struct hx_splice *splice, const struct hx_json_tape *tape,
                    struct hx_arena *arena);

/* These note an edit in constant time. 0 or HX_E_NOMEM. */

/* Replaces a value; of two replacements the later counts. */
int hx_splice_replace(struct hx_splice *splice, uint32_t value, struct hx_span json) HX_MUST_CHECK;
/* Removes the member of `object` whose value is `value`, with its name and one comma. */
int hx_splice_remove(struct hx_splice *splice, uint32_t object, uint32_t value) HX_MUST_CHECK;
/* Adds a member at the end; the caller knows that there is none of that name. */
int hx_splice_add(struct hx_splice *splice, uint32_t object, struct hx_span name,
                  struct hx_span json) HX_MUST_CHECK;
/* Adds an element at the end. The array may be opaque. */
int hx_splice_append(struct hx_splice *splice, uint32_t array, struct hx_span json) HX_MUST_CHECK;

/* These look at the members on the path and at the edits so far. */

/* Sets the member at `path` below `object`: replaces its value (of duplicates the first), or adds
 * it with all parents that are missing. A parent that is null counts as missing, a member that an
 * earlier edit removed keeps its place. 0, HX_E_NOMEM, HX_SPLICE_NOT_OBJECT. */
int hx_splice_set(struct hx_splice *splice, uint32_t object, const struct hx_span *path,
                  size_t path_count, struct hx_span json) HX_MUST_CHECK;
/* Removes the member at `path`, with all duplicates of its last name. With `prune`, parents below
 * `object` that this leaves empty go too. Absent is fine. 0 or HX_E_NOMEM. */
int hx_splice_unset(struct hx_splice *splice, uint32_t object, const struct hx_span *path,
                    size_t path_count, bool prune) HX_MUST_CHECK;

/* Appends the edited text; the splice is used up. 0, HX_E_NOMEM, or HX_E_LIMIT from the buffer. */
int hx_splice_emit(struct hx_splice *splice, struct hx_buf *out) HX_MUST_CHECK;

#endif
