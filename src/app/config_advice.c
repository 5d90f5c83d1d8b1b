/* SPDX-License-Identifier: MIT */
/*
 * What a careful operator would want to be told of a configuration that is good.
 *
 * No server is started for it, so nothing is said of tools that no rule names: they may all be
 * readers.
 */
#include "app/config.h"

#include <string.h>

bool hx_tool_settings_is_covered(const struct hx_tool_settings *tool)
{
    return hx_tool_settings_declares(tool, HX_SETTING_class) || tool->key_argument ||
           tool->inject_key || tool->repeat == HX_CHOICE_repeat_REQUIRE_KEY;
}

static const struct hx_tool_rule *covered_rule(const struct hx_settings *settings)
{
    for (const struct hx_tool_rule *rule = settings->rules; rule; rule = rule->next) {
        struct hx_tool_settings tool = hx_settings_for_tool(settings, hx_span_cstr(rule->pattern));
        if (tool.class == HX_CHOICE_class_KEYED)
            return rule;
    }
    return NULL;
}

void hx_config_advise_upstream(struct hx_config *config, const struct hx_config_upstream *upstream)
{
    const struct hx_tool_rule *sibling = covered_rule(&upstream->settings);
    for (const struct hx_tool_rule *rule = upstream->settings.rules; rule; rule = rule->next) {
        struct hx_tool_settings tool =
            hx_settings_for_tool(&upstream->settings, hx_span_cstr(rule->pattern));
        if (hx_tool_settings_is_covered(&tool))
            continue;
        hx_config_warn(config, rule->mark,
                       "upstream '%s': nothing says what may be done with a lost answer of "
                       "'%.100s'%s%.100s%s. If it writes, give it a class (idempotent, keyed "
                       "with effect_key, or opaque for: never send again) or a place for a key "
                       "(inject_key); if it only reads, class: read_only",
                       upstream->name, rule->pattern, sibling ? ", while '" : "",
                       sibling ? sibling->pattern : "", sibling ? "' takes a key" : "");
    }
}

void hx_config_advise_outbox(struct hx_config *config)
{
    const struct hx_settings *global = &config->global;
    const struct hx_mark nowhere = {0, 0};
    if (global->outbox_url == NULL)
        return;
    if (global->outbox_secret_file == NULL)
        hx_config_warn(config, nowhere,
                       "outbox_url: events are not signed, so the receiver cannot tell ours from "
                       "anybody's. Give outbox_secret_file");
    if (hx_settings_is_outbox_in_clear(global))
        hx_config_warn(config, nowhere,
                       "outbox_url: events leave this machine in the clear; use https");
}

void hx_config_advise(struct hx_config *config)
{
    hx_config_advise_outbox(config);
    for (size_t i = 0; i < config->upstream_count; i++)
        hx_config_advise_upstream(config, &config->upstreams[i]);
}
