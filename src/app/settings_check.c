/* SPDX-License-Identifier: MIT */
/*
 * Combinations of settings that are refused at start.
 *
 * Each check is about one resolved tool: the values for all tools, or those with one rule's on top.
 * A rule is judged with the other rules that match its pattern as a name, which is exact for exact
 * names and the best that can be said of a pattern before the tools are known.
 */
#include <stdio.h>
#include <string.h>

#include "app/admin_token.h"
#include "app/number.h"
#include "app/settings.h"
#include "json/reader.h"

/* Δ while nothing is declared, for the horizon only. */
#define DEFAULT_IN_FLIGHT_MS 300000

static bool is_resendable(const struct hx_tool_settings *tool)
{
    return tool->class == HX_CHOICE_class_IDEMPOTENT || tool->class == HX_CHOICE_class_KEYED;
}

static int check_resend(const struct hx_tool_settings *tool, const char *who,
                        const struct hx_tool_settings *said, struct hx_complaint *complaint)
{
    const char *class = hx_choice_text(tool->class);
    if (hx_tool_settings_declares(said, HX_SETTING_attempts) && said->attempts > 1 &&
        !is_resendable(tool) && tool->no_effect_errors.count == 0)
        return hx_complain(
            complaint,
            "%s: attempts=%lld asks to send a call again, but its class is %s: a call that timed "
            "out "
            "may have acted, and sending it again could make it happen twice. Declare "
            "class=idempotent, or class=keyed with effect_key=..., if that is true of the tool; "
            "list "
            "no_effect_errors if its errors prove that nothing happened; else leave attempts out",
            who, (long long)said->attempts, class);
    if (tool->reorder_safe && !is_resendable(tool))
        return hx_complain(
            complaint,
            "%s: reorder_safe speaks of sending again, but a tool of class %s is never "
            "sent again; declare class=idempotent or leave reorder_safe out",
            who, class);
    return 0;
}

static bool is_object(const char *text)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    bool is_good = hx_json_read(&tape, hx_span_cstr(text), &limits) == 0 &&
                   hx_json_is(&tape, 0, HX_JSON_OBJECT);
    hx_json_tape_fini(&tape);
    return is_good;
}

static int check_probe(const struct hx_tool_settings *tool, const char *who,
                       struct hx_complaint *complaint)
{
    struct hx_probe_condition condition;
    if (tool->probe == NULL && tool->class == HX_CHOICE_class_PROBEABLE)
        return hx_complain(complaint,
                           "%s: class=probeable needs probe, the name of the read-only tool that "
                           "can tell whether a call happened, and probe_match",
                           who);
    if (tool->probe == NULL && (tool->probe_match != NULL || tool->probe_arguments != NULL))
        return hx_complain(complaint,
                           "%s: probe_match and probe_arguments speak of a probe, and "
                           "none is named; name the tool with probe=...",
                           who);
    if (tool->probe == NULL)
        return 0;
    if (strncmp(who, "tool '", 6) == 0 && strncmp(who + 6, tool->probe, strlen(tool->probe)) == 0 &&
        strcmp(who + 6 + strlen(tool->probe), "'") == 0)
        return hx_complain(complaint,
                           "%s: probe names the tool itself, which would act again to find out "
                           "whether it did; name a tool that only reads",
                           who);
    if (tool->probe_match == NULL ||
        !hx_probe_condition_parse(hx_span_cstr(tool->probe_match), &condition))
        return hx_complain(complaint,
                           "%s: probe needs probe_match, which says when it has found the call: "
                           "'value /structuredContent/status == paid', 'count "
                           "/structuredContent/orders >= 1' or 'text ${effect_key}'; a value that "
                           "begins with a quote is a whole JSON string",
                           who);
    if (tool->probe_arguments != NULL && !is_object(tool->probe_arguments))
        return hx_complain(
            complaint,
            "%s: probe_arguments is no JSON object; places stand in quotes, whatever "
            "becomes of them: {\"reference\": \"${/order/id}\"}",
            who);
    return 0;
}

static int check_key(const struct hx_tool_settings *tool, const char *who,
                     struct hx_complaint *complaint)
{
    const char *class = hx_choice_text(tool->class);
    bool is_keyed = tool->class == HX_CHOICE_class_KEYED;
    if (is_keyed && tool->effect_key.kind == HX_KEY_PLACE_NONE)
        return hx_complain(
            complaint,
            "%s: class=keyed needs effect_key, the place where the tool takes its key: "
            "effect_key=/idempotency_key, effect_key=_meta:name, effect_key=header:Name or "
            "effect_key=sep3182",
            who);
    if (!is_keyed && tool->effect_key.kind != HX_KEY_PLACE_NONE)
        return hx_complain(
            complaint,
            "%s: effect_key is given, but its class is %s; declare class=keyed if the "
            "tool recognises a repeat by that key, else leave effect_key out",
            who, class);
    if (!is_keyed && tool->dedupe_horizon != HX_SETTING_NONE)
        return hx_complain(
            complaint,
            "%s: dedupe_horizon is the time that a keyed tool remembers keys, but its "
            "class is %s; declare class=keyed with effect_key=..., or leave "
            "dedupe_horizon out",
            who, class);
    if (tool->inject_key && strchr(tool->inject_key + 1, '/'))
        return hx_complain(
            complaint,
            "%s: inject_key=%s lies inside another argument, whose schema is not ours "
            "to change; name a field of its own, such as inject_key=/idempotency_key",
            who, tool->inject_key);
    if (tool->key_argument && tool->inject_key && strcmp(tool->key_argument, tool->inject_key) == 0)
        return hx_complain(
            complaint,
            "%s: key_argument and inject_key are both %s; key_argument names a field "
            "that the tool has, inject_key one that it must not have. Keep one of them",
            who, tool->key_argument);
    return 0;
}

static int check_times(const struct hx_tool_settings *tool, const char *who,
                       struct hx_complaint *complaint)
{
    char one[HX_NUMBER_TEXT_SIZE];
    char two[HX_NUMBER_TEXT_SIZE];
    if (tool->idle_timeout != HX_SETTING_NONE && tool->timeout != HX_SETTING_NONE &&
        tool->idle_timeout > tool->timeout) {
        hx_duration_format(tool->idle_timeout, one);
        hx_duration_format(tool->timeout, two);
        return hx_complain(
            complaint,
            "%s: idle_timeout=%s is longer than timeout=%s and could never end a call; "
            "make it shorter or leave it out",
            who, one, two);
    }
    if (tool->row_retention < tool->retention)
        return hx_complain(
            complaint,
            "%s: row_retention is shorter than retention, but a result cannot outlive "
            "the knowledge of its call; raise row_retention",
            who);
    if (tool->visibility_lag != HX_SETTING_NONE && tool->in_flight_bound == HX_SETTING_NONE)
        return hx_complain(
            complaint,
            "%s: visibility_lag says nothing without in_flight_bound, the longest time "
            "a sent call can take to act; give both or neither",
            who);
    if (tool->dedupe_horizon == HX_SETTING_NONE)
        return 0;
    int64_t wait = tool->timeout != HX_SETTING_NONE ? tool->timeout : tool->orphan_timeout;
    int64_t bound =
        tool->in_flight_bound != HX_SETTING_NONE ? tool->in_flight_bound : DEFAULT_IN_FLIGHT_MS;
    if (tool->dedupe_horizon <= wait + bound) {
        hx_duration_format(tool->dedupe_horizon, one);
        hx_duration_format(wait + bound, two);
        return hx_complain(
            complaint,
            "%s: dedupe_horizon=%s is too short: a call sent again must be over inside "
            "it, and %s plus in_flight_bound make %s. Lower those, or leave "
            "dedupe_horizon out (then the tool is never sent a call again)",
            who, one, tool->timeout != HX_SETTING_NONE ? "timeout" : "orphan_timeout", two);
    }
    return 0;
}

/* A call that comes again after its row is gone would run again. */
static int check_retention(const struct hx_tool_settings *tool, const char *who,
                           struct hx_complaint *complaint)
{
    char one[HX_NUMBER_TEXT_SIZE];
    char two[HX_NUMBER_TEXT_SIZE];
    bool is_window = tool->retry_horizon < tool->repeat_window;
    int64_t horizon = is_window ? tool->repeat_window : tool->retry_horizon;
    if (tool->row_retention >= 4 * horizon)
        return 0;
    hx_duration_format(tool->row_retention, one);
    hx_duration_format(horizon, two);
    return hx_complain(
        complaint,
        "%s: row_retention=%s is less than four times %s=%s: a call that is repeated "
        "late would not be recognised and could happen twice. Raise row_retention",
        who, one, is_window ? "repeat_window" : "retry_horizon", two);
}

static int check_tool(const struct hx_tool_settings *tool, const char *who,
                      const struct hx_tool_settings *said, struct hx_complaint *complaint)
{
    int rc = check_resend(tool, who, said, complaint);
    if (rc == 0)
        rc = check_key(tool, who, complaint);
    if (rc == 0)
        rc = check_probe(tool, who, complaint);
    if (rc == 0)
        rc = check_times(tool, who, complaint);
    if (rc == 0)
        rc = check_retention(tool, who, complaint);
    if (rc == 0 && tool->class == HX_CHOICE_class_READ_ONLY &&
        tool->approval.kind != HX_APPROVAL_NEVER)
        rc = hx_complain(
            complaint,
            "%s: a tool of class read_only passes through without the ledger, so nobody "
            "can be asked for approval; drop one of the two",
            who);
    return rc;
}

int hx_settings_check_headers(const struct hx_settings *settings, struct hx_complaint *complaint)
{
    const struct hx_key_place *place = &settings->tool.effect_key;
    struct hx_mark mark = {0, 0};
    complaint->mark = mark;
    if (settings->transport != HX_CHOICE_transport_HTTP)
        return hx_complain(complaint,
                           "transport=%s is for a server at a URL, and this one is a "
                           "program; leave it out",
                           hx_choice_text(settings->transport));
    for (const struct hx_tool_rule *rule = settings->rules;
         rule && place->kind != HX_KEY_PLACE_HEADER; rule = rule->next) {
        place = &rule->values.effect_key;
        mark = rule->mark;
    }
    if (place->kind != HX_KEY_PLACE_HEADER)
        return 0;
    (void)hx_complain(complaint,
                      "effect_key=header:%s is for a server over HTTP, and this one is a program; "
                      "name a place in the request: /pointer, _meta:name or sep3182",
                      place->text);
    complaint->mark = mark;
    return 1;
}

int hx_settings_check(const struct hx_settings *settings, struct hx_complaint *complaint)
{
    /* `attempts` for all tools is only a bound for those whose rules allow a second send. */
    struct hx_tool_settings said = settings->tool;
    if (!hx_tool_settings_declares(&said, HX_SETTING_class))
        hx_setting_set_remove(&said.declared, HX_SETTING_attempts);
    int rc = check_tool(&settings->tool, "for all tools", &said, complaint);
    for (const struct hx_tool_rule *rule = settings->rules; rc == 0 && rule; rule = rule->next) {
        char who[200];
        struct hx_tool_settings tool = hx_settings_for_tool(settings, hx_span_cstr(rule->pattern));
        snprintf(who, sizeof(who), "tool '%.150s'", rule->pattern);
        rc = check_tool(&tool, who, &rule->values, complaint);
        if (rc != 0)
            complaint->mark = rule->mark;
    }
    if (rc == 0 && settings->stuck_timeout < settings->stall_timeout)
        rc = hx_complain(complaint, "stuck_timeout is shorter than stall_timeout; a server must be "
                                    "found stalled before it is restarted. Raise stuck_timeout");
    if (rc == 0)
        rc = hx_settings_check_admin(settings, complaint);
    return rc == 0 ? hx_settings_check_outbox(settings, complaint) : rc;
}
