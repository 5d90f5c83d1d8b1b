/* SPDX-License-Identifier: MIT */
#include "app/rules.h"

#include "base/assert.h"

static enum hx_task_use task_use(const struct hx_tool_settings *values)
{
    if (values->tasks == HX_CHOICE_tasks_NEVER)
        return HX_TASK_USE_NEVER;
    return values->tasks == HX_CHOICE_tasks_OFFERED ? HX_TASK_USE_OFFERED : HX_TASK_USE_REQUIRED;
}

static void set_effect_key(const struct hx_key_place *place, struct hx_tool_rules *rules)
{
    switch (place->kind) {
    case HX_KEY_PLACE_NONE:
        return;
    case HX_KEY_PLACE_POINTER:
        rules->effect_key_argument = hx_span_cstr(place->text);
        return;
    case HX_KEY_PLACE_META:
        rules->effect_key_meta = hx_span_cstr(place->text);
        return;
    case HX_KEY_PLACE_SEP3182:
        rules->is_effect_key_param = true;
        return;
    case HX_KEY_PLACE_HEADER:
        rules->effect_key_header = hx_span_cstr(place->text);
        return;
    }
}

static void set_probe(const struct hx_tool_settings *values, struct hx_tool_rules *rules)
{
    static const enum hx_probe_match matches[] = {HX_PROBE_VALUE, HX_PROBE_COUNT, HX_PROBE_TEXT};
    struct hx_probe_condition condition;
    if (values->probe == NULL)
        return;
    bool is_read = hx_probe_condition_parse(hx_span_cstr(values->probe_match), &condition);
    hx_assert(is_read); /* settings_check.c */
    rules->probe = (struct hx_probe){
        .tool = hx_span_cstr(values->probe),
        .arguments =
            values->probe_arguments ? hx_span_cstr(values->probe_arguments) : HX_SPAN_LIT("{}"),
        .match = matches[condition.kind],
        .pointer = condition.pointer,
        .comparison = condition.comparison,
        .value = condition.value,
        .result = hx_span_cstr(values->probe_result),
    };
}

void hx_rules_for_tool(const struct hx_settings *settings, struct hx_span tool,
                       struct hx_tool_rules *ret_rules)
{
    struct hx_tool_settings values = hx_settings_for_tool(settings, tool);
    struct hx_tool_rules rules = {
        .contract = hx_tool_settings_contract(&values),
        .is_class_declared = hx_tool_settings_declares(&values, HX_SETTING_class),
        .has_replay_note = values.replay_note,
        .has_stored_arguments = values.store_arguments,
        .has_issued_keys_only = values.issued_keys_only,
        .key_argument = hx_span_cstr(values.key_argument),
        .inject_key = hx_span_cstr(values.inject_key),
        .result_max = (uint64_t)values.result_max,
        .cancel_timeout_ms = values.cancel_timeout,
        .task_use = task_use(&values),
        .no_effect = values.no_effect_errors.items,
        .no_effect_count = values.no_effect_errors.count,
        .ignore = {values.ignore.items, values.ignore.count},
    };
    set_effect_key(&values.effect_key, &rules);
    set_probe(&values, &rules);
    if (values.approval.kind == HX_APPROVAL_WHEN) {
        rules.approval_pointer = hx_span_cstr(values.approval.pointer);
        rules.approval_comparison = values.approval.comparison;
        rules.approval_value = hx_span_cstr(values.approval.value);
    }
    *ret_rules = rules;
}
