/* SPDX-License-Identifier: MIT */
/*
 * What an operator may set, and how per-tool rules override it.
 *
 * The rows of tables/config.def become two plain structs: what holds for the process and its
 * server, and what holds for a tool. A value is set by name and text, the same way from the command
 * line and from a file, so both refuse the same things with the same words. A setting that
 * contradicts another is refused at start: a gateway that quietly ignored "send again on timeout"
 * for a tool that charges cards would be worse than none.
 */
#ifndef HX_APP_SETTINGS_H
#define HX_APP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/span.h"
#include "core/contract.h"
#include "engine/rules.h"
#include "json/compare.h"

/* A DURATION, COUNT or SIZE that is not set. */
#define HX_SETTING_NONE INT64_C(-1)

/* Every value of every CHOICE row; each belongs to exactly one setting. */
enum hx_choice {
#define HX_CHOICE(field, name, text, help) HX_CHOICE_##field##_##name,
#include "tables/config.def"
    HX_CHOICE_COUNT
};

enum hx_setting_id {
#define HX_SETTING(field, type, scope, initial, min, max, help) HX_SETTING_##field,
#include "tables/config.def"
    HX_SETTING_COUNT
};
enum { HX_SETTING_SET_WORDS = 2 };
_Static_assert(HX_SETTING_COUNT <= 64 * HX_SETTING_SET_WORDS, "a set has no place for a setting");

/* A set of settings. */
struct hx_setting_set {
    uint64_t words[HX_SETTING_SET_WORDS];
};

static inline bool hx_setting_set_has(const struct hx_setting_set *set, enum hx_setting_id id)
{
    return (set->words[id / 64] >> (id % 64) & 1) != 0;
}

static inline void hx_setting_set_add(struct hx_setting_set *set, enum hx_setting_id id)
{
    set->words[id / 64] |= UINT64_C(1) << (id % 64);
}

static inline void hx_setting_set_remove(struct hx_setting_set *set, enum hx_setting_id id)
{
    set->words[id / 64] &= ~(UINT64_C(1) << (id % 64));
}

static inline bool hx_setting_set_is_empty(const struct hx_setting_set *set)
{
    return (set->words[0] | set->words[1]) == 0;
}

enum hx_setting_type {
    HX_SETTING_TEXT,
    HX_SETTING_FLAG,
    HX_SETTING_CHOICE,
    HX_SETTING_DURATION,
    HX_SETTING_COUNT_OF,
    HX_SETTING_SIZE,
    HX_SETTING_POINTER,
    HX_SETTING_POINTERS,
    HX_SETTING_NAMES,
    HX_SETTING_KEY_PLACE,
    HX_SETTING_ERRORS,
    HX_SETTING_APPROVAL
};

enum hx_setting_scope { HX_SCOPE_GLOBAL, HX_SCOPE_SERVER, HX_SCOPE_TOOL };

/* Of one NAMES setting. */
enum { HX_SETTING_NAMES_MAX = 64 };

struct hx_text_list {
    struct hx_span *items; /* each with a NUL behind it */
    size_t count;
};

/* Where the effect key of a keyed tool goes. */
enum hx_key_place_kind {
    HX_KEY_PLACE_NONE,
    HX_KEY_PLACE_POINTER, /* text = JSON pointer into the arguments */
    HX_KEY_PLACE_META,    /* text = member of params._meta */
    HX_KEY_PLACE_SEP3182, /* params.idempotencyKey */
    HX_KEY_PLACE_HEADER   /* text = name of a header of the POST */
};

struct hx_key_place {
    enum hx_key_place_kind kind;
    const char *text;
};

struct hx_no_effect_errors {
    struct hx_no_effect_rule *items; /* as the engine reads them */
    size_t count;
};

/* "==" and so on. */
const char *hx_comparison_text(enum hx_comparison comparison);

struct hx_approval_rule {
    enum hx_approval kind;
    enum hx_comparison comparison; /* the rest only for WHEN */
    const char *pointer;
    const char *value; /* JSON text */
};

#define HX_C_TEXT const char *
#define HX_C_FLAG bool
#define HX_C_CHOICE enum hx_choice
#define HX_C_DURATION int64_t
#define HX_C_COUNT int64_t
#define HX_C_SIZE int64_t
#define HX_C_POINTER const char *
#define HX_C_POINTERS struct hx_text_list
#define HX_C_NAMES struct hx_text_list
#define HX_C_KEY_PLACE struct hx_key_place
#define HX_C_ERRORS struct hx_no_effect_errors
#define HX_C_APPROVAL struct hx_approval_rule

/* What holds for one tool. `declared` has everything that the operator said
 * himself, so that a server's own annotation can be told from his word. */
struct hx_tool_settings {
    struct hx_setting_set declared;
#define HX_FIELD_GLOBAL(member)
#define HX_FIELD_SERVER(member)
#define HX_FIELD_TOOL(member) member;
#define HX_SETTING(field, type, scope, initial, min, max, help) HX_FIELD_##scope(HX_C_##type field)
#include "tables/config.def"
#undef HX_FIELD_GLOBAL
#undef HX_FIELD_SERVER
#undef HX_FIELD_TOOL
};

/* Where something stands in a file: counted from 1, in characters; 0 = not in a file. */
struct hx_mark {
    int line;
    int column;
};

/* One --tool rule. */
struct hx_tool_rule {
    struct hx_tool_rule *next; /* weakest first */
    const char *pattern;
    struct hx_mark mark; /* where it stands in a file */
    bool is_exact;
    size_t prefix_len; /* literal bytes before the first * or ? */
    struct hx_tool_settings values;
};

struct hx_settings {
    struct hx_arena arena; /* owns every text below */
    struct hx_setting_set declared;
#define HX_FIELD_GLOBAL(member) member;
#define HX_FIELD_SERVER(member) member;
#define HX_FIELD_TOOL(member)
#define HX_SETTING(field, type, scope, initial, min, max, help) HX_FIELD_##scope(HX_C_##type field)
#include "tables/config.def"
#undef HX_FIELD_GLOBAL
#undef HX_FIELD_SERVER
#undef HX_FIELD_TOOL
    struct hx_tool_settings tool; /* for tools without a rule */
    struct hx_tool_rule *rules;   /* weakest first */
};

/* One row of the table. */
struct hx_setting_row {
    const char *name; /* with underscores */
    enum hx_setting_type type;
    enum hx_setting_scope scope;
    const char *initial;
    int64_t min;
    int64_t max;
    const char *help;
    size_t offset; /* into hx_tool_settings for TOOL, else into hx_settings */
};

/* What was wrong and what to do, for a person. */
struct hx_complaint {
    char text[1024];
    struct hx_mark mark; /* of the rule that a check is about */
};

/* What ends a sentence that has no end yet: ".", or nothing behind a question and behind a line
 * that is a command to be copied. */
const char *hx_sentence_end(const char *text);
/* Writes the sentence and returns 1. */
int hx_complain(struct hx_complaint *complaint, const char *format, ...) HX_PRINTF(2, 3);

const struct hx_setting_row *hx_setting_row(enum hx_setting_id id);
/* NULL when there is none. Accepts dashes for underscores. */
const struct hx_setting_row *hx_setting_find(struct hx_span name);
/* Whether `name` is a word by which other gateways are told to send calls again, such as "retries".
 */
bool hx_setting_is_retry_word(struct hx_span name);
/* The text of a choice, and the setting it belongs to. */
const char *hx_choice_text(enum hx_choice choice);
const char *hx_choice_help(enum hx_choice choice);
enum hx_setting_id hx_choice_setting(enum hx_choice choice);

/* Everything at its default. */
void hx_settings_init(struct hx_settings *settings);
void hx_settings_fini(struct hx_settings *settings);

/* The three below return 0, or 1 with a complaint (nothing was changed). Texts are copied. */
int hx_settings_set(struct hx_settings *settings, struct hx_span name, struct hx_span value,
                    struct hx_complaint *complaint) HX_MUST_CHECK;
/* `rule` is "PATTERN: name=value name=value"; values with spaces stand in quotes. */
int hx_settings_add_rule(struct hx_settings *settings, struct hx_span rule,
                         struct hx_complaint *complaint) HX_MUST_CHECK;
/* The same in steps, for a reader that knows where each value stands. A rule that is not added is
 * forgotten with the settings; NULL when there is no more room. */
struct hx_tool_rule *hx_settings_rule_new(struct hx_settings *settings, struct hx_span pattern);
int hx_settings_rule_set(struct hx_settings *settings, struct hx_tool_rule *rule,
                         struct hx_span name, struct hx_span value,
                         struct hx_complaint *complaint) HX_MUST_CHECK;
void hx_settings_rule_add(struct hx_settings *settings, struct hx_tool_rule *rule);
/* Refuses combinations that would break a promise or could never do what they say. */
int hx_settings_check(const struct hx_settings *settings,
                      struct hx_complaint *complaint) HX_MUST_CHECK;

/* The same of what holds for the process: its outbox. */
int hx_settings_check_outbox(const struct hx_settings *settings,
                             struct hx_complaint *complaint) HX_MUST_CHECK;
/* Whether others on the way could read the events. */
bool hx_settings_is_outbox_in_clear(const struct hx_settings *settings);

/* What cannot be of a server that is a program: it has no headers and no transport to choose. */
int hx_settings_check_headers(const struct hx_settings *settings,
                              struct hx_complaint *complaint) HX_MUST_CHECK;

/* What holds for `tool`: the values for all tools, overridden setting by setting by each rule that
 * matches, weakest first. An exact name is stronger than any pattern, a pattern with a longer
 * literal beginning is stronger than one with a shorter, and of two equal ones the later. Borrows
 * from `settings`. */
struct hx_tool_settings hx_settings_for_tool(const struct hx_settings *settings,
                                             struct hx_span tool);

static inline bool hx_tool_settings_declares(const struct hx_tool_settings *tool,
                                             enum hx_setting_id id)
{
    return hx_setting_set_has(&tool->declared, id);
}

/* How a probe's answer is held against the call. */
enum hx_probe_kind { HX_PROBE_KIND_VALUE, HX_PROBE_KIND_COUNT, HX_PROBE_KIND_TEXT };

struct hx_probe_condition {
    enum hx_probe_kind kind;
    struct hx_span pointer;
    enum hx_comparison comparison;
    struct hx_span value; /* may hold places */
};

/* Reads the text of probe_match; borrows from it. False when it is none. */
bool hx_probe_condition_parse(struct hx_span text, struct hx_probe_condition *ret_condition);

/* What the core is told about a tool with these settings. The class is the operator's; whoever
 * reads the server's annotations looks at hx_tool_settings_declares(tool, HX_SETTING_class) first.
 */
struct hx_contract hx_tool_settings_contract(const struct hx_tool_settings *tool);

/* `*` stands for any run of bytes, `?` for one byte. */
bool hx_glob_match(const char *pattern, struct hx_span text);

#endif
