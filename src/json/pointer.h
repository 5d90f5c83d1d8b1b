/* SPDX-License-Identifier: MIT */
/*
 * JSON pointers (RFC 6901) on a tape. They come from configuration, so a bad one is refused there,
 * with hx_json_pointer_is_valid; the lookup treats it as pointing nowhere.
 */
#ifndef HX_JSON_POINTER_H
#define HX_JSON_POINTER_H

#include <stdbool.h>

#include "json/tape.h"

/* Empty, or starts with a slash and has no ~ but in ~0 and ~1. */
bool hx_json_pointer_is_valid(struct hx_span pointer);

/* Index of the value that `pointer` names below `root` (of a member: the value, not the name), or
 * HX_JSON_NONE. Of duplicate names the first counts. What lies in an opaque container is not found.
 */
uint32_t hx_json_pointer_find(const struct hx_json_tape *tape, uint32_t root,
                              struct hx_span pointer);

/* Takes the first reference token off `pointer` ("/a~1b/c": *ret_raw = "a~1b", rest "/c"). False at
 * the end. */
bool hx_json_pointer_next(struct hx_span *pointer, struct hx_span *ret_raw);
/* Does a name (content between its quotes, escapes untouched) equal a raw reference token? */
bool hx_json_pointer_token_eq(struct hx_span raw_token, struct hx_span name_content);

#endif
