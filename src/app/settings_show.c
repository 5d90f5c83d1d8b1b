/* SPDX-License-Identifier: MIT */
#include "app/settings_show.h"

#include <inttypes.h>
#include <string.h>

#include "app/number.h"

#define VALUE_BYTES_MAX 65536

static void format_number(const struct hx_setting_row *row, int64_t value, struct hx_buf *ret_text)
{
    char text[HX_NUMBER_TEXT_SIZE];
    if (row->type == HX_SETTING_DURATION)
        hx_duration_format(value, text);
    else if (row->type == HX_SETTING_SIZE)
        hx_size_format(value, text);
    else
        snprintf(text, sizeof(text), "%" PRId64, value);
    (void)hx_buf_append_cstr(ret_text, text); /* the buffer remembers a failure; so do all below */
}

static void format_text(const char *value, struct hx_buf *ret_text)
{
    (void)hx_buf_append_cstr(ret_text, value ? value : "none");
}

static void format_list(const struct hx_text_list *list, struct hx_buf *ret_text)
{
    for (size_t i = 0; i < list->count; i++)
        (void)hx_buf_printf(ret_text, "%s%.*s", i > 0 ? "," : "", HX_SPAN_FMT(list->items[i]));
    if (list->count == 0)
        format_text(NULL, ret_text);
}

static void format_key_place(const struct hx_key_place *place, struct hx_buf *ret_text)
{
    if (place->kind == HX_KEY_PLACE_META)
        (void)hx_buf_append_cstr(ret_text, "_meta:");
    else if (place->kind == HX_KEY_PLACE_HEADER)
        (void)hx_buf_append_cstr(ret_text, "header:");
    format_text(place->text, ret_text);
}

static void format_errors(const struct hx_no_effect_errors *errors, struct hx_buf *ret_text)
{
    for (size_t i = 0; i < errors->count; i++) {
        const struct hx_no_effect_rule *error = &errors->items[i];
        (void)hx_buf_printf(ret_text, "%s%s", i > 0 ? "," : "",
                            error->is_transient ? "transient:" : "");
        if (error->is_code)
            (void)hx_buf_printf(ret_text, "%" PRId64, error->code);
        else
            format_text(error->pattern, ret_text);
    }
    if (errors->count == 0)
        format_text(NULL, ret_text);
}

static void format_approval(const struct hx_approval_rule *rule, struct hx_buf *ret_text)
{
    if (rule->kind == HX_APPROVAL_WHEN)
        (void)hx_buf_printf(ret_text, "when: %s %s %s", rule->pointer,
                            hx_comparison_text(rule->comparison), rule->value);
    else
        format_text(rule->kind == HX_APPROVAL_ALWAYS ? "always" : "never", ret_text);
}

void hx_value_format(const struct hx_setting_row *row, const void *slot, struct hx_buf *ret_text)
{
    switch (row->type) {
    case HX_SETTING_TEXT:
    case HX_SETTING_POINTER:
        format_text(*(const char *const *)slot, ret_text);
        return;
    case HX_SETTING_FLAG:
        format_text(*(const bool *)slot ? "on" : "off", ret_text);
        return;
    case HX_SETTING_CHOICE:
        format_text(hx_choice_text(*(const enum hx_choice *)slot), ret_text);
        return;
    case HX_SETTING_DURATION:
    case HX_SETTING_COUNT_OF:
    case HX_SETTING_SIZE:
        format_number(row, *(const int64_t *)slot, ret_text);
        return;
    case HX_SETTING_POINTERS:
    case HX_SETTING_NAMES:
        format_list(slot, ret_text);
        return;
    case HX_SETTING_KEY_PLACE:
        format_key_place(slot, ret_text);
        return;
    case HX_SETTING_ERRORS:
        format_errors(slot, ret_text);
        return;
    case HX_SETTING_APPROVAL:
        format_approval(slot, ret_text);
        return;
    }
}

static void show_setting(const struct hx_setting_row *row, const void *owner, const char *mark,
                         FILE *out)
{
    struct hx_buf text;
    hx_buf_init(&text, VALUE_BYTES_MAX);
    hx_value_format(row, (const char *)owner + row->offset, &text);
    fprintf(out, "%-20s = %.*s%s\n", row->name, HX_SPAN_FMT(hx_buf_span(&text)), mark);
    hx_buf_fini(&text);
}

/* Whether this rule or a weaker one that holds for the same tools says the setting. */
static bool is_from_a_rule(const struct hx_settings *settings, const struct hx_tool_rule *last,
                           int setting)
{
    for (const struct hx_tool_rule *rule = settings->rules; rule; rule = rule->next)
        if ((rule == last || hx_glob_match(rule->pattern, hx_span_cstr(last->pattern))) &&
            hx_setting_set_has(&rule->values.declared, (enum hx_setting_id)setting))
            return true;
    return false;
}

void hx_settings_show(const struct hx_settings *settings, FILE *out)
{
    for (int i = 0; i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        bool is_tool = row->scope == HX_SCOPE_TOOL;
        const struct hx_setting_set *declared =
            is_tool ? &settings->tool.declared : &settings->declared;
        const void *owner = is_tool ? (const void *)&settings->tool : (const void *)settings;
        show_setting(row, owner,
                     hx_setting_set_has(declared, (enum hx_setting_id)i) ? "" : "  (default)", out);
    }
    for (const struct hx_tool_rule *rule = settings->rules; rule; rule = rule->next) {
        struct hx_tool_settings tool = hx_settings_for_tool(settings, hx_span_cstr(rule->pattern));
        fprintf(out, "\ntools '%s'\n", rule->pattern);
        for (int i = 0; i < HX_SETTING_COUNT; i++)
            if (is_from_a_rule(settings, rule, i))
                show_setting(hx_setting_row((enum hx_setting_id)i), &tool, "", out);
    }
}
