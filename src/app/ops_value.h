/* SPDX-License-Identifier: MIT */
/*
 * What the options of `hapax ops` take: states, times, numbers. Each returns 0, or 1 with a
 * complaint that tells what would be possible.
 */
#ifndef HX_APP_OPS_VALUE_H
#define HX_APP_OPS_VALUE_H

#include "app/settings.h"
#include "base/time.h"

/* "unknown,running"; "open" is every state that is not final. Adds bits (1 << enum hx_op_state). */
int hx_ops_parse_states(const char *text, uint32_t *ret_states,
                        struct hx_complaint *complaint) HX_MUST_CHECK;
int hx_ops_parse_duration(const char *name, const char *text, int64_t *ret_ms,
                          struct hx_complaint *complaint) HX_MUST_CHECK;
/* A moment with its zone, or a time ago. */
int hx_ops_parse_moment(const char *name, const char *text, struct hx_wall now,
                        struct hx_wall *ret_wall, struct hx_complaint *complaint) HX_MUST_CHECK;
int hx_ops_parse_limit(const char *text, int64_t *ret_limit,
                       struct hx_complaint *complaint) HX_MUST_CHECK;
int hx_ops_parse_key_scope(const char *text, bool *ret_is_principal,
                           struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
