/* SPDX-License-Identifier: MIT */
#include "app/decide.h"

#include "app/store_call.h"

static int decide(const struct hx_decider *decider, const struct hx_decision_target *target,
                  const struct hx_decision *decision, struct hx_verdict *ret_verdict)
{
    struct hx_deciding *deciding = hx_deciding_new(decider, target, decision, ret_verdict);
    struct hx_store_request *request;
    while ((request = hx_deciding_next(deciding)) != NULL) {
        if (hx_store_call(decider->store, request) == 0)
            hx_deciding_take(deciding, request);
        else
            hx_deciding_give_up(deciding, "the ledger did not answer within a minute");
    }
    hx_deciding_free(deciding);
    if (!ret_verdict->is_absent)
        return 0;
    hx_verdict_fini(ret_verdict);
    return HX_DECIDE_ABSENT;
}

int hx_decide(const struct hx_decider *decider, const struct hx_id *id,
              const struct hx_decision *decision, struct hx_verdict *ret_verdict)
{
    struct hx_decision_target target = {.id = *id};
    return decide(decider, &target, decision, ret_verdict);
}

int hx_decide_cancel(const struct hx_decider *decider, const struct hx_record *wanted,
                     const struct hx_decision *decision, struct hx_verdict *ret_verdict)
{
    struct hx_decision_target target = {.wanted = wanted};
    return decide(decider, &target, decision, ret_verdict);
}
