/* SPDX-License-Identifier: MIT */
#include "app/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/nearest.h"
#include "app/value.h"

/* All texts of one command line or file; far above any sane configuration. */
#define SETTINGS_BYTES_MAX (1024 * 1024)

#define TYPE_TEXT HX_SETTING_TEXT
#define TYPE_FLAG HX_SETTING_FLAG
#define TYPE_CHOICE HX_SETTING_CHOICE
#define TYPE_DURATION HX_SETTING_DURATION
#define TYPE_COUNT HX_SETTING_COUNT_OF
#define TYPE_SIZE HX_SETTING_SIZE
#define TYPE_POINTER HX_SETTING_POINTER
#define TYPE_POINTERS HX_SETTING_POINTERS
#define TYPE_NAMES HX_SETTING_NAMES
#define TYPE_KEY_PLACE HX_SETTING_KEY_PLACE
#define TYPE_ERRORS HX_SETTING_ERRORS
#define TYPE_APPROVAL HX_SETTING_APPROVAL
#define OWNER_GLOBAL struct hx_settings
#define OWNER_SERVER struct hx_settings
#define OWNER_TOOL struct hx_tool_settings

static const struct hx_setting_row rows[HX_SETTING_COUNT] = {
#define HX_SETTING(field, type, scope, initial, min, max, help)                                    \
    {#field,                                                                                       \
     TYPE_##type,                                                                                  \
     HX_SCOPE_##scope,                                                                             \
     initial,                                                                                      \
     min,                                                                                          \
     max,                                                                                          \
     help,                                                                                         \
     offsetof(OWNER_##scope, field)},
#include "tables/config.def"
};

static const struct {
    enum hx_setting_id setting;
    const char *text;
    const char *help;
} choices[HX_CHOICE_COUNT] = {
#define HX_CHOICE(field, name, text, help) {HX_SETTING_##field, text, help},
#include "tables/config.def"
};

const char *hx_sentence_end(const char *text)
{
    const char *line = strrchr(text, '\n');
    size_t len = strlen(text);
    bool is_command = line != NULL && strncmp(line + 1, "  ", 2) == 0;
    return is_command || (len > 0 && strchr(".?", text[len - 1]) != NULL) ? "" : ".";
}

int hx_complain(struct hx_complaint *complaint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(complaint->text, sizeof(complaint->text), format, args);
    va_end(args);
    complaint->mark = (struct hx_mark){0, 0};
    return 1;
}

const struct hx_setting_row *hx_setting_row(enum hx_setting_id id)
{
    hx_assert(id < HX_SETTING_COUNT);
    return &rows[id];
}

const struct hx_setting_row *hx_setting_find(struct hx_span name)
{
    for (size_t i = 0; i < HX_SETTING_COUNT; i++)
        if (hx_name_eq(name, rows[i].name))
            return &rows[i];
    return NULL;
}

const char *hx_choice_text(enum hx_choice choice)
{
    hx_assert(choice < HX_CHOICE_COUNT);
    return choices[choice].text;
}

const char *hx_choice_help(enum hx_choice choice)
{
    hx_assert(choice < HX_CHOICE_COUNT);
    return choices[choice].help;
}

enum hx_setting_id hx_choice_setting(enum hx_choice choice)
{
    hx_assert(choice < HX_CHOICE_COUNT);
    return choices[choice].setting;
}

static void *slot_of(struct hx_settings *settings, struct hx_tool_settings *tool,
                     const struct hx_setting_row *row)
{
    char *owner = row->scope == HX_SCOPE_TOOL ? (char *)tool : (char *)settings;
    return owner + row->offset;
}

void hx_settings_init(struct hx_settings *settings)
{
    struct hx_complaint complaint;
    memset(settings, 0, sizeof(*settings));
    hx_arena_init(&settings->arena, SETTINGS_BYTES_MAX);
    for (size_t i = 0; i < HX_SETTING_COUNT; i++) {
        /* The table is ours: a default that its own row refuses is our mistake. */
        int rc = hx_value_parse(&rows[i], hx_span_cstr(rows[i].initial), &settings->arena,
                                slot_of(settings, &settings->tool, &rows[i]), &complaint);
        hx_assert(rc == 0);
    }
}

void hx_settings_fini(struct hx_settings *settings)
{
    if (settings)
        hx_arena_fini(&settings->arena);
}

bool hx_setting_is_retry_word(struct hx_span name)
{
    static const char *const words[] = {
        "retry",  "retries",          "max_retries", "retry_count", "retry_on_timeout",
        "resend", "resend_on_timeout"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (hx_name_eq(name, words[i]))
            return true;
    return false;
}

/* `where` is "" or " in the rule for 'x'". */
static int refuse_unknown(struct hx_span name, const char *where, struct hx_complaint *complaint)
{
    const char *names[HX_SETTING_COUNT];
    for (size_t i = 0; i < HX_SETTING_COUNT; i++)
        names[i] = rows[i].name;
    if (hx_setting_is_retry_word(name))
        return hx_complain(
            complaint,
            "there is no setting '%.*s'%s: a call that timed out may have acted, so it is sent "
            "again "
            "only where the tool's class allows it. Declare class=idempotent, or class=keyed with "
            "effect_key=..., if that is true of the tool; attempts=N then bounds the sends",
            HX_SPAN_FMT(name), where);
    const char *near = hx_nearest(name, names, HX_SETTING_COUNT);
    if (near)
        return hx_complain(complaint, "there is no setting '%.*s'%s; did you mean '%s'?",
                           HX_SPAN_FMT(name), where, near);
    return hx_complain(complaint,
                       "there is no setting '%.*s'%s; 'hapax run --help' lists all of them",
                       HX_SPAN_FMT(name), where);
}

int hx_settings_set(struct hx_settings *settings, struct hx_span name, struct hx_span value,
                    struct hx_complaint *complaint)
{
    const struct hx_setting_row *row = hx_setting_find(name);
    if (!row)
        return refuse_unknown(name, "", complaint);
    int rc = hx_value_parse(row, value, &settings->arena, slot_of(settings, &settings->tool, row),
                            complaint);
    if (rc != 0)
        return rc;
    enum hx_setting_id id = (enum hx_setting_id)(row - rows);
    if (row->scope == HX_SCOPE_TOOL)
        hx_setting_set_add(&settings->tool.declared, id);
    else
        hx_setting_set_add(&settings->declared, id);
    return 0;
}

/* --- rules ---------------------------------------------------------------------------------------
 */

bool hx_glob_match(const char *pattern, struct hx_span text)
{
    size_t at = 0;
    const char *star = NULL;
    size_t star_at = 0;
    /* On a mismatch the latest star takes one byte more; no earlier star need be tried again. */
    while (at < text.len) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = at;
        } else if (*pattern == '?' || (*pattern != '\0' && *pattern == text.ptr[at])) {
            pattern++;
            at++;
        } else if (star) {
            pattern = star + 1;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static void skip_spaces(struct hx_span *rest)
{
    while (rest->len > 0 && (rest->ptr[0] == ' ' || rest->ptr[0] == '\t'))
        *rest = hx_span(rest->ptr + 1, rest->len - 1);
}

/* Takes "name=value" off *rest; quotes around a value keep its spaces. */
static int next_assignment(struct hx_span *rest, const char *pattern, struct hx_span *ret_name,
                           struct hx_span *ret_value, struct hx_complaint *complaint)
{
    size_t name_end = 0;
    while (name_end < rest->len && rest->ptr[name_end] != '=' && rest->ptr[name_end] != ' ')
        name_end++;
    if (name_end == 0 || name_end == rest->len || rest->ptr[name_end] != '=')
        return hx_complain(complaint,
                           "the rule for '%s' has '%.*s' where a setting must stand; write "
                           "name=value, such as class=idempotent timeout=90s",
                           pattern, (int)(name_end > 0 ? name_end : 1), rest->ptr);
    *ret_name = hx_span(rest->ptr, name_end);
    *rest = hx_span(rest->ptr + name_end + 1, rest->len - name_end - 1);
    char quote =
        rest->len > 0 && (rest->ptr[0] == '"' || rest->ptr[0] == '\'') ? rest->ptr[0] : ' ';
    if (quote != ' ')
        *rest = hx_span(rest->ptr + 1, rest->len - 1);
    size_t end = 0;
    while (end < rest->len && rest->ptr[end] != quote)
        end++;
    if (quote != ' ' && end == rest->len)
        return hx_complain(complaint, "the rule for '%s' has no closing %c behind %.*s=", pattern,
                           quote, HX_SPAN_FMT(*ret_name));
    *ret_value = hx_span(rest->ptr, end);
    size_t skip = end < rest->len ? end + 1 : end;
    *rest = hx_span(rest->ptr + skip, rest->len - skip);
    return 0;
}

struct hx_tool_rule *hx_settings_rule_new(struct hx_settings *settings, struct hx_span text)
{
    struct hx_tool_rule *rule = hx_arena_alloc(&settings->arena, sizeof(*rule));
    struct hx_span pattern = hx_arena_dup(&settings->arena, text);
    if (!rule || hx_span_is_absent(pattern))
        return NULL;
    memset(rule, 0, sizeof(*rule));
    rule->pattern = pattern.ptr;
    rule->prefix_len = strcspn(rule->pattern, "*?");
    rule->is_exact = rule->prefix_len == pattern.len;
    return rule;
}

int hx_settings_rule_set(struct hx_settings *settings, struct hx_tool_rule *rule,
                         struct hx_span name, struct hx_span value, struct hx_complaint *complaint)
{
    struct hx_complaint inner;
    char where[160];
    const struct hx_setting_row *row = hx_setting_find(name);
    snprintf(where, sizeof(where), " in the rule for '%.100s'", rule->pattern);
    if (!row)
        return refuse_unknown(name, where, complaint);
    if (row->scope != HX_SCOPE_TOOL)
        return hx_complain(complaint,
                           "%s%s: this holds for the whole server; give it as an option of its own",
                           row->name, where);
    enum hx_setting_id id = (enum hx_setting_id)(row - rows);
    if (hx_setting_set_has(&rule->values.declared, id))
        return hx_complain(complaint, "%s stands twice%s", row->name, where);
    int rc =
        hx_value_parse(row, value, &settings->arena, slot_of(settings, &rule->values, row), &inner);
    if (rc != 0)
        return hx_complain(complaint, "the rule for '%.100s': %s", rule->pattern, inner.text);
    hx_setting_set_add(&rule->values.declared, id);
    return 0;
}

/* Whether `a` yields to `b`, which was given later. */
static bool is_weaker(const struct hx_tool_rule *a, const struct hx_tool_rule *b)
{
    if (a->is_exact != b->is_exact)
        return !a->is_exact;
    return a->prefix_len <= b->prefix_len;
}

void hx_settings_rule_add(struct hx_settings *settings, struct hx_tool_rule *rule)
{
    struct hx_tool_rule **link = &settings->rules;
    while (*link && is_weaker(*link, rule))
        link = &(*link)->next;
    rule->next = *link;
    *link = rule;
}

int hx_settings_add_rule(struct hx_settings *settings, struct hx_span text,
                         struct hx_complaint *complaint)
{
    /* The first colon with nothing or a space behind it ends the pattern; tool names hold colons.
     */
    size_t colon = 0;
    while (colon < text.len &&
           !(text.ptr[colon] == ':' && (colon + 1 == text.len || text.ptr[colon + 1] == ' ')))
        colon++;
    if (colon == 0 || colon == text.len)
        return hx_complain(complaint,
                           "--tool '%.*s' is not a rule; write 'PATTERN: name=value ...', such as "
                           "--tool 'get_*: class=read_only'",
                           (int)(text.len < 100 ? text.len : 100), text.ptr);
    struct hx_tool_rule *rule = hx_settings_rule_new(settings, hx_span(text.ptr, colon));
    if (!rule)
        return hx_complain(complaint, "the settings are too long");

    struct hx_span rest = hx_span(text.ptr + colon + 1, text.len - colon - 1);
    for (skip_spaces(&rest); rest.len > 0; skip_spaces(&rest)) {
        struct hx_span name;
        struct hx_span value;
        int rc = next_assignment(&rest, rule->pattern, &name, &value, complaint);
        if (rc == 0)
            rc = hx_settings_rule_set(settings, rule, name, value, complaint);
        if (rc != 0)
            return rc;
    }
    if (hx_setting_set_is_empty(&rule->values.declared))
        return hx_complain(complaint, "the rule for '%s' sets nothing; write '%s: name=value'",
                           rule->pattern, rule->pattern);
    hx_settings_rule_add(settings, rule);
    return 0;
}

static void override(struct hx_tool_settings *target, const struct hx_tool_settings *source)
{
    for (size_t i = 0; i < HX_SETTING_COUNT; i++) {
        if (!hx_setting_set_has(&source->declared, (enum hx_setting_id)i))
            continue;
        hx_assert(rows[i].scope == HX_SCOPE_TOOL);
        memcpy((char *)target + rows[i].offset, (const char *)source + rows[i].offset,
               hx_value_size(rows[i].type));
    }
    for (size_t i = 0; i < HX_SETTING_SET_WORDS; i++)
        target->declared.words[i] |= source->declared.words[i];
}

struct hx_tool_settings hx_settings_for_tool(const struct hx_settings *settings,
                                             struct hx_span tool)
{
    struct hx_tool_settings resolved = settings->tool;
    for (const struct hx_tool_rule *rule = settings->rules; rule; rule = rule->next)
        if (hx_glob_match(rule->pattern, tool))
            override(&resolved, &rule->values);
    return resolved;
}

/* --- the core's view -----------------------------------------------------------------------------
 */

#define SAME_PLACE(field, first, name, core, core_first)                                           \
    _Static_assert((int)HX_CHOICE_##field##_##name - (int)HX_CHOICE_##field##_##first ==           \
                       (int)core - (int)core_first,                                                \
                   "the choices of " #field " stand in another order than in core/contract.h")
SAME_PLACE(class, OPAQUE, IDEMPOTENT, HX_CLASS_IDEMPOTENT, HX_CLASS_OPAQUE);
SAME_PLACE(class, OPAQUE, KEYED, HX_CLASS_KEYED, HX_CLASS_OPAQUE);
SAME_PLACE(class, OPAQUE, PROBEABLE, HX_CLASS_PROBEABLE, HX_CLASS_OPAQUE);
SAME_PLACE(class, OPAQUE, READ_ONLY, HX_CLASS_READ_ONLY, HX_CLASS_OPAQUE);
SAME_PLACE(repeat, LOST, WINDOW, HX_REPEAT_WINDOW, HX_REPEAT_LOST);
SAME_PLACE(repeat, LOST, ASK, HX_REPEAT_ASK, HX_REPEAT_LOST);
SAME_PLACE(repeat, LOST, REQUIRE_KEY, HX_REPEAT_REQUIRE_KEY, HX_REPEAT_LOST);
SAME_PLACE(repeat, LOST, SEPARATE, HX_REPEAT_SEPARATE, HX_REPEAT_LOST);
SAME_PLACE(fresh_key, WARN, ASK, HX_FRESH_KEY_ASK, HX_FRESH_KEY_WARN);
SAME_PLACE(fresh_key, WARN, REFUSE, HX_FRESH_KEY_REFUSE, HX_FRESH_KEY_WARN);
SAME_PLACE(cancel_upstream, USER, NEVER, HX_CANCEL_UPSTREAM_NEVER, HX_CANCEL_UPSTREAM_USER);
SAME_PLACE(cancel_upstream, USER, ALWAYS, HX_CANCEL_UPSTREAM_ALWAYS, HX_CANCEL_UPSTREAM_USER);
_Static_assert(HX_SETTING_NONE == HX_UNDECLARED_MS, "an undeclared duration has one value");

static int64_t ms_or_zero(int64_t ms)
{
    return ms == HX_SETTING_NONE ? 0 : ms;
}

struct hx_contract hx_tool_settings_contract(const struct hx_tool_settings *tool)
{
    struct hx_contract contract = hx_contract_default();
    contract.tool_class = (enum hx_tool_class)(tool->class - HX_CHOICE_class_OPAQUE);
    contract.repeat = (enum hx_repeat)(tool->repeat - HX_CHOICE_repeat_LOST);
    contract.fresh_key = (enum hx_fresh_key)(tool->fresh_key - HX_CHOICE_fresh_key_WARN);
    contract.cancel_upstream =
        (enum hx_cancel_upstream)(tool->cancel_upstream - HX_CHOICE_cancel_upstream_USER);
    contract.approval = tool->approval.kind;
    contract.is_reorder_safe = tool->reorder_safe;
    contract.has_probe = tool->probe != NULL;
    contract.retries_after_proof = tool->retry_after_proof;
    contract.attempts_max = (uint32_t)tool->attempts;
    contract.timeout_ms = ms_or_zero(tool->timeout);
    contract.idle_timeout_ms = ms_or_zero(tool->idle_timeout);
    contract.orphan_timeout_ms = tool->orphan_timeout;
    contract.join_wait_ms = tool->join_wait;
    contract.repeat_window_ms = tool->repeat_window;
    contract.overlap_ms = tool->overlap;
    contract.dedupe_horizon_ms = tool->dedupe_horizon;
    contract.in_flight_bound_ms = tool->in_flight_bound;
    contract.visibility_lag_ms = ms_or_zero(tool->visibility_lag);
    contract.payload_retention_ms = tool->retention;
    contract.row_retention_ms = tool->row_retention;
    return contract;
}
