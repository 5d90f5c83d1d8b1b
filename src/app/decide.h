/* SPDX-License-Identifier: MIT */
/*
 * A person's decision, carried out while he waits: engine/decide.h says how.
 */
#ifndef HX_APP_DECIDE_H
#define HX_APP_DECIDE_H

#include "engine/decide.h"

/* There is no such operation. */
#define HX_DECIDE_ABSENT 1

/* Decides about the row `id`. 0 with a verdict, to be ended with hx_verdict_fini(), or
 * HX_DECIDE_ABSENT. */
int hx_decide(const struct hx_decider *decider, const struct hx_id *id,
              const struct hx_decision *decision, struct hx_verdict *ret_verdict) HX_MUST_CHECK;

/* Cancels what `wanted` names; see struct hx_decision_target. */
int hx_decide_cancel(const struct hx_decider *decider, const struct hx_record *wanted,
                     const struct hx_decision *decision,
                     struct hx_verdict *ret_verdict) HX_MUST_CHECK;

#endif
