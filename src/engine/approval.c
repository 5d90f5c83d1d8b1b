/* SPDX-License-Identifier: MIT */
/*
 * Does this call need a person's word? Where the arguments cannot be compared as the operator
 * meant, they do: a guard that cannot see stays shut.
 */
#include "engine/internal.h"

#include "json/pointer.h"

static bool is_so(struct hx_gateway *gateway, const struct hx_tool_rules *rules,
                  struct hx_span arguments)
{
    struct hx_json_tape *tape = &gateway->scratch;
    if (hx_span_is_absent(arguments))
        return hx_json_holds(tape, HX_JSON_NONE, rules->approval_comparison,
                             rules->approval_value) != HX_HOLDS_NO;
    if (hx_json_read(tape, arguments, &gateway->part_limits) != 0 || tape->has_duplicates)
        return true;
    uint32_t at = hx_json_pointer_find(tape, 0, rules->approval_pointer);
    return hx_json_holds(tape, at, rules->approval_comparison, rules->approval_value) !=
           HX_HOLDS_NO;
}

bool hx_needs_approval(struct hx_gateway *gateway, const struct hx_tool *tool,
                       struct hx_span arguments)
{
    switch (tool->rules.contract.approval) {
    case HX_APPROVAL_NEVER:
        return false;
    case HX_APPROVAL_ALWAYS:
        return true;
    case HX_APPROVAL_WHEN:
        break;
    }
    return is_so(gateway, &tool->rules, arguments);
}

bool hx_work_needs_approval(struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    bool is_conditional = work->tool->rules.contract.approval == HX_APPROVAL_WHEN;
    /* What is not kept cannot be judged again. It was judged when it came. */
    if (is_conditional && hx_span_is_absent(record->arguments) &&
        !work->tool->rules.has_stored_arguments)
        return true;
    return hx_needs_approval(work->gateway, work->tool, record->arguments);
}
