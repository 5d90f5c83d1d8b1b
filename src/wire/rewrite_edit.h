/* SPDX-License-Identifier: MIT */
/*
 * What the rewrite files share: reading a message onto the scratch memory, noting edits, writing
 * out.
 */
#ifndef HX_WIRE_REWRITE_EDIT_H
#define HX_WIRE_REWRITE_EDIT_H

#include "wire/rewrite.h"
#include "json/splice.h"

/* Reads `text` for editing; the root must be an object. 0, HX_E_NOMEM, HX_REWRITE_BAD_TEXT. */
int hx_rewrite_begin(struct hx_rewrite *rewrite, struct hx_span text, uint32_t record_depth_max,
                     struct hx_splice *ret_splice) HX_MUST_CHECK;
/* Writes out, or leaves `out` as it was. `rc` is what the edits said so far; returns what a
 * function of rewrite.h returns. */
int hx_rewrite_end(struct hx_rewrite *rewrite, struct hx_splice *splice, int rc,
                   struct hx_buf *out) HX_MUST_CHECK;
/* Makes `out` what it was at length `len`, and usable again. */
void hx_rewrite_take_back(struct hx_buf *out, size_t len);
/* Sets root.`path` to raw `json`, unless that is absent. As hx_splice_set. */
int hx_rewrite_set(struct hx_splice *splice, const struct hx_span *path, size_t count,
                   struct hx_span json) HX_MUST_CHECK;
int hx_rewrite_set_id(struct hx_splice *splice, struct hx_span id) HX_MUST_CHECK;
/* {"jsonrpc":"2.0","id":ID without the closing brace; a failure is remembered by `out`. */
void hx_rewrite_put_head(struct hx_buf *out, struct hx_span id);

#endif
