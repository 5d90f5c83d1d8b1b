/* SPDX-License-Identifier: MIT */
/*
 * What a careful operator would want to be told when the settings are held against the server's own
 * words. Nothing is guessed from a tool's name.
 */
#include <string.h>

#include "app/contact.h"
#include "json/reader.h"

static const struct hx_contact_tool *find_tool(const struct hx_contact *contact, const char *name)
{
    for (const struct hx_contact_tool *tool = contact->tools; tool; tool = tool->next) {
        if (strcmp(tool->name, name) == 0)
            return tool;
    }
    return NULL;
}

/* Where the strongest rule for a tool stands, else the upstream. */
static struct hx_mark place_of(const struct hx_contact *contact, const char *tool)
{
    struct hx_mark mark = contact->upstream->mark;
    for (const struct hx_tool_rule *rule = contact->upstream->settings.rules; rule;
         rule = rule->next) {
        if (hx_glob_match(rule->pattern, hx_span_cstr(tool)))
            mark = rule->mark;
    }
    return mark;
}

static void warn_of_idle_rules(struct hx_config *config, const struct hx_contact *contact)
{
    for (const struct hx_tool_rule *rule = contact->upstream->settings.rules; rule;
         rule = rule->next) {
        bool is_used = false;
        for (const struct hx_contact_tool *tool = contact->tools; tool && !is_used;
             tool = tool->next)
            is_used = hx_glob_match(rule->pattern, hx_span_cstr(tool->name));
        if (!is_used)
            hx_config_warn(config, rule->mark,
                           "upstream '%s': the server lists no tool that '%.100s' speaks of",
                           contact->upstream->name, rule->pattern);
    }
}

static bool is_covered(const struct hx_contact_tool *tool)
{
    return tool->class != HX_CLASS_OPAQUE || hx_tool_settings_is_covered(&tool->settings);
}

static void warn_of_writer(struct hx_config *config, const struct hx_contact *contact,
                           const struct hx_contact_tool *tool)
{
    hx_config_warn(config, place_of(contact, tool->name),
                   "upstream '%s': nothing says what may be done with a lost answer of '%.100s', "
                   "and the server %s. Give it a class (idempotent, keyed with effect_key, "
                   "probeable with probe, or opaque for: never send again) or a place for a key "
                   "(inject_key); if it only reads, class: read_only",
                   contact->upstream->name, tool->name,
                   tool->read_only == HX_MCP_HINT_FALSE  ? "says that it writes"
                   : tool->read_only == HX_MCP_HINT_TRUE ? "is not believed (hints: ignore)"
                                                         : "does not say that it only reads");
}

enum presence { PRESENCE_NOT_SAID, PRESENCE_THERE, PRESENCE_MISSING };

/* Whether the schema has the property that the first step of `pointer` names. */
static enum presence look_up(struct hx_span schema, const char *pointer)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    enum presence presence = PRESENCE_NOT_SAID;
    struct hx_span step = hx_span_cstr(pointer + 1);
    step.len = strcspn(step.ptr, "/");
    /* An escaped step is not worth reading for a warning. */
    if (hx_span_is_absent(schema) || memchr(step.ptr, '~', step.len) != NULL)
        return presence;
    hx_json_tape_init(&tape);
    if (hx_json_read(&tape, schema, &limits) == 0) {
        uint32_t properties =
            hx_json_member_of(&tape, 0, HX_SPAN_LIT("properties"), HX_JSON_OBJECT);
        if (properties != HX_JSON_NONE)
            presence = hx_json_member(&tape, properties, step) != HX_JSON_NONE ? PRESENCE_THERE
                                                                               : PRESENCE_MISSING;
    }
    hx_json_tape_fini(&tape);
    return presence;
}

static void warn_of_argument(struct hx_config *config, const struct hx_contact *contact,
                             const struct hx_contact_tool *tool, const char *setting,
                             const char *pointer)
{
    if (look_up(tool->input_schema, pointer) == PRESENCE_MISSING)
        hx_config_warn(config, place_of(contact, tool->name),
                       "upstream '%s': %s is %.100s, and '%.100s' has no such argument",
                       contact->upstream->name, setting, pointer, tool->name);
}

static void warn_of_key_places(struct hx_config *config, const struct hx_contact *contact,
                               const struct hx_contact_tool *tool)
{
    const struct hx_tool_settings *settings = &tool->settings;
    if (settings->effect_key.kind == HX_KEY_PLACE_POINTER)
        warn_of_argument(config, contact, tool, "effect_key", settings->effect_key.text);
    if (settings->key_argument != NULL)
        warn_of_argument(config, contact, tool, "key_argument", settings->key_argument);
    if (settings->effect_key.kind == HX_KEY_PLACE_SEP3182 && !contact->has_idempotency)
        hx_config_warn(config, place_of(contact, tool->name),
                       "upstream '%s': effect_key of '%.100s' is sep3182, and the server does not "
                       "say that it takes params.idempotencyKey (tools.idempotency)",
                       contact->upstream->name, tool->name);
    bool is_taken = settings->inject_key != NULL && tool->class != HX_CLASS_READ_ONLY &&
                    look_up(tool->input_schema, settings->inject_key) == PRESENCE_THERE;
    if (is_taken)
        hx_config_warn(config, place_of(contact, tool->name),
                       "upstream '%s': inject_key is %.100s, and '%.100s' has such an argument of "
                       "its own, which stays as it is; key_argument reads the key from it",
                       contact->upstream->name, settings->inject_key, tool->name);
}

static void warn_of_probe(struct hx_config *config, const struct hx_contact *contact,
                          const struct hx_contact_tool *tool)
{
    const char *name = tool->settings.probe;
    const struct hx_contact_tool *probe = name != NULL ? find_tool(contact, name) : NULL;
    if (name == NULL || (probe != NULL && probe->class == HX_CLASS_READ_ONLY))
        return;
    hx_config_warn(config, place_of(contact, tool->name),
                   "upstream '%s': the probe of '%.100s' is '%.100s', which %s",
                   contact->upstream->name, tool->name, name,
                   probe == NULL
                       ? "the server does not list"
                       : "the server does not call read-only; if it is, class: read_only");
}

void hx_contact_advise(struct hx_config *config, const struct hx_contact *contact)
{
    warn_of_idle_rules(config, contact);
    for (const struct hx_contact_tool *tool = contact->tools; tool; tool = tool->next) {
        if (find_tool(contact, tool->name) != tool) {
            hx_config_warn(config, contact->upstream->mark,
                           "upstream '%s': the server lists '%.100s' twice",
                           contact->upstream->name, tool->name);
            continue;
        }
        if (!is_covered(tool))
            warn_of_writer(config, contact, tool);
        warn_of_key_places(config, contact, tool);
        warn_of_probe(config, contact, tool);
    }
}
