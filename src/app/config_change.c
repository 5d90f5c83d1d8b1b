/* SPDX-License-Identifier: MIT */
#include "app/config_change.h"

#include <string.h>

#include "app/settings_show.h"

enum { VALUE_MAX = 64 * 1024 };

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same_strings(const char *const *a, const char *const *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    size_t i = 0;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

static bool is_same_list(const struct hx_text_list *a, const struct hx_text_list *b)
{
    bool is_same = a->count == b->count;
    for (size_t i = 0; is_same && i < a->count; i++)
        is_same = hx_span_eq(a->items[i], b->items[i]);
    return is_same;
}

static bool is_same_value(const struct hx_setting_row *row, const void *a, const void *b)
{
    struct hx_buf one, other;
    hx_buf_init(&one, VALUE_MAX);
    hx_buf_init(&other, VALUE_MAX);
    hx_value_format(row, (const char *)a + row->offset, &one);
    hx_value_format(row, (const char *)b + row->offset, &other);
    bool is_same =
        hx_buf_ok(&one) && hx_buf_ok(&other) && hx_span_eq(hx_buf_span(&one), hx_buf_span(&other));
    hx_buf_fini(&one);
    hx_buf_fini(&other);
    return is_same;
}

/* What is to be hidden is only added to, so that it can be at any time. */
static const char *changed_global(const struct hx_settings *before, const struct hx_settings *after)
{
    for (int i = 0; i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        if (row->scope == HX_SCOPE_GLOBAL && i != HX_SETTING_redact &&
            !is_same_value(row, before, after))
            return row->name;
    }
    return NULL;
}

static const char *changed_limit(const struct hx_limits *before, const struct hx_limits *after)
{
    for (int i = 0; i < HX_LIMIT_COUNT; i++) {
        const struct hx_setting_row *row = hx_limit_row((enum hx_limit_id)i);
        if (!is_same_value(row, before, after))
            return row->name;
    }
    return NULL;
}

static bool is_same_listens(const struct hx_config *a, const struct hx_config *b)
{
    bool is_same = a->listen_count == b->listen_count;
    for (size_t i = 0; is_same && i < a->listen_count; i++)
        is_same = strcmp(a->listens[i].text, b->listens[i].text) == 0;
    return is_same;
}

/* Buffers and clocks were made for the most demanding upstream that there was. */
static bool asks_for_more(const struct hx_config *before, const struct hx_config *after)
{
    int64_t message_max = before->limits.body_max, orphan_timeout = 0;
    for (size_t i = 0; i < before->upstream_count; i++) {
        const struct hx_settings *settings = &before->upstreams[i].settings;
        if (settings->message_max > message_max)
            message_max = settings->message_max;
        if (settings->tool.orphan_timeout > orphan_timeout)
            orphan_timeout = settings->tool.orphan_timeout;
    }
    for (size_t i = 0; i < after->upstream_count; i++) {
        const struct hx_settings *settings = &after->upstreams[i].settings;
        if (settings->message_max > message_max || settings->tool.orphan_timeout > orphan_timeout)
            return true;
    }
    return false;
}

const char *hx_config_fixed_change(const struct hx_config *before, const struct hx_config *after)
{
    const char *name = changed_global(&before->global, &after->global);
    if (name == NULL)
        name = changed_limit(&before->limits, &after->limits);
    if (name != NULL)
        return name;
    if (!is_same_listens(before, after))
        return "listen";
    if ((before->tls_cert_file == NULL) != (after->tls_cert_file == NULL))
        return "tls";
    if (!is_same_list(&before->allowed_origins, &after->allowed_origins))
        return "allowed_origins";
    if (!is_same_list(&before->allowed_hosts, &after->allowed_hosts))
        return "allowed_hosts";
    if (asks_for_more(before, after))
        return "a message_max or orphan_timeout above all that there were";
    return NULL;
}

static bool is_same_said(const struct hx_setting_set *a, const struct hx_setting_set *b)
{
    for (int i = 0; i < HX_SETTING_SET_WORDS; i++)
        if (a->words[i] != b->words[i])
            return false;
    return true;
}

static bool is_same_tool(const struct hx_tool_settings *a, const struct hx_tool_settings *b)
{
    bool is_same = is_same_said(&a->declared, &b->declared);
    for (int i = 0; is_same && i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        is_same = row->scope != HX_SCOPE_TOOL || is_same_value(row, a, b);
    }
    return is_same;
}

/* The order of the rules says which one is the stronger. */
static bool is_same_settings(const struct hx_settings *a, const struct hx_settings *b)
{
    bool is_same = is_same_said(&a->declared, &b->declared) && is_same_tool(&a->tool, &b->tool);
    for (int i = 0; is_same && i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        is_same = row->scope == HX_SCOPE_TOOL || is_same_value(row, a, b);
    }
    const struct hx_tool_rule *one = a->rules, *other = b->rules;
    while (is_same && one != NULL && other != NULL) {
        is_same =
            strcmp(one->pattern, other->pattern) == 0 && is_same_tool(&one->values, &other->values);
        one = one->next;
        other = other->next;
    }
    return is_same && one == other;
}

bool hx_config_upstream_is_same(const struct hx_config_upstream *a,
                                const struct hx_config_upstream *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->prefix, b->prefix) == 0 &&
           a->affinity == b->affinity && is_same_text(a->url, b->url) &&
           is_same_text(a->cwd, b->cwd) && is_same_strings(a->env, b->env) &&
           is_same_strings(a->headers, b->headers) &&
           is_same_strings((const char *const *)a->command, (const char *const *)b->command) &&
           is_same_settings(&a->settings, &b->settings);
}
