/* SPDX-License-Identifier: MIT */
/*
 * The outcome of a call as a person tells it, in the shape in which tools answer.
 */
#ifndef HX_APP_OPS_OUTCOME_H
#define HX_APP_OPS_OUTCOME_H

#include "base/arena.h"
#include "core/record.h"

/* Makes the outcome out of `given`: a tool result with its `content`, as it is; any other JSON
 * value as the text of one; an absent one as the statement that it happened. The bytes are in
 * `arena`. NULL, or what is wrong with it. */
const char *hx_ops_outcome(struct hx_span given, struct hx_arena *arena,
                           struct hx_outcome *ret_outcome);

#endif
