/* SPDX-License-Identifier: MIT */
#include "app/audit_options.h"

#include <string.h>

#include "app/config.h"
#include "app/number.h"
#include "json/reader.h"

#define PLACE_UNIQUE HX_SPAN_LIT("{unique}")
#define PLACE_NUMBER HX_SPAN_LIT("{number}")

enum { TIMEOUT_DEFAULT_MS = 30000, SETTLE_DEFAULT_MS = 1000, ARGUMENTS_MAX = 1 << 20 };

static const char example[] = "For example:\n"
                              "  hapax audit --tool charge --args '{\"amount\": 5, \"note\": "
                              "\"{unique}\"}' --count 'wc -l < charges' -- ./server";

#define TAKE_TEXT(name, field, words)                                                              \
    static int name(void *context, struct hx_span value, struct hx_complaint *complaint)           \
    {                                                                                              \
        if (value.len == 0)                                                                        \
            return hx_complain(complaint, words);                                                  \
        ((struct hx_audit_options *)context)->field = value.ptr;                                   \
        return 0;                                                                                  \
    }
#define TAKE_FLAG(name, field)                                                                     \
    static int name(void *context, struct hx_span value, struct hx_complaint *complaint)           \
    {                                                                                              \
        (void)complaint;                                                                           \
        ((struct hx_audit_options *)context)->field = hx_span_eq_cstr(value, "on");                \
        return 0;                                                                                  \
    }
#define TAKE_TIME(name, field, option)                                                             \
    static int name(void *context, struct hx_span value, struct hx_complaint *complaint)           \
    {                                                                                              \
        if (hx_duration_parse(value, &((struct hx_audit_options *)context)->field))                \
            return 0;                                                                              \
        return hx_complain(complaint,                                                              \
                           option ": '%.40s' is no time; write a number with ms, s, m "            \
                                  "or h",                                                          \
                           value.ptr);                                                             \
    }
#define TAKE_MANY(name, field, field_count, option)                                                \
    static int name(void *context, struct hx_span value, struct hx_complaint *complaint)           \
    {                                                                                              \
        struct hx_audit_options *options = context;                                                \
        if (options->field_count == HX_AUDIT_CHOSEN_MAX)                                           \
            return hx_complain(complaint, option " was said too often");                           \
        options->field[options->field_count++] = value.ptr;                                        \
        return 0;                                                                                  \
    }

TAKE_TEXT(take_tool, tool, "--tool needs the name of a tool")
TAKE_TEXT(take_args, arguments, "--args needs the arguments of the tool, as one object of JSON")
TAKE_TEXT(take_count, count, "--count needs a command that prints a number")
TAKE_FLAG(take_json, is_json)
TAKE_FLAG(take_yes, is_yes)
TAKE_FLAG(take_strict, is_strict)
TAKE_FLAG(take_idempotent, is_idempotent)
TAKE_FLAG(take_list, is_list)
TAKE_TIME(take_timeout, timeout_ms, "--timeout")
TAKE_TIME(take_settle, settle_ms, "--settle")
TAKE_MANY(take_only, only, only_count, "--only")
TAKE_MANY(take_skip, skipped, skipped_count, "--skip")

/* The same words as for a gateway's effect_key, but the key is a caller's. */
static int take_key(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct hx_audit_options *options = context;
    struct hx_complaint inner;
    if (hx_settings_set(&options->given, HX_SPAN_LIT("effect_key"), value, &inner) != 0) {
        const char *rest = strchr(inner.text, ':');
        return hx_complain(complaint, "--key%s", rest ? rest : "");
    }
    hx_setting_set_remove(&options->given.tool.declared, HX_SETTING_effect_key);
    options->key = options->given.tool.effect_key;
    options->is_key_given = true;
    if (options->key.kind == HX_KEY_PLACE_POINTER && strpbrk(options->key.text + 1, "/~") != NULL)
        return hx_complain(complaint, "--key: an argument that takes a key must stand at the top "
                                      "of the arguments, like /idempotency_key");
    return 0;
}

static const struct hx_extra_option extras[] = {
    {"tool", false, take_tool},       {"args", false, take_args},
    {"count", false, take_count},     {"key", false, take_key},
    {"only", false, take_only},       {"skip", false, take_skip},
    {"timeout", false, take_timeout}, {"settle", false, take_settle},
    {"json", true, take_json},        {"yes", true, take_yes},
    {"strict", true, take_strict},    {"idempotent", true, take_idempotent},
    {"list", true, take_list},
};

/* ---- the template ---- */

void hx_audit_fill(const char *arguments, const char *unique, uint64_t number, struct hx_buf *out)
{
    struct hx_span rest = hx_span_cstr(arguments);
    while (rest.len > 0) {
        size_t used = 1;
        if (hx_span_starts_with(rest, PLACE_UNIQUE)) {
            hx_buf_append_cstr(out, unique);
            used = PLACE_UNIQUE.len;
        } else if (hx_span_starts_with(rest, PLACE_NUMBER)) {
            hx_buf_printf(out, "%llu", (unsigned long long)number);
            used = PLACE_NUMBER.len;
        } else {
            hx_buf_append_char(out, rest.ptr[0]);
        }
        rest = hx_span(rest.ptr + used, rest.len - used);
    }
}

static int check_arguments(const char *arguments, struct hx_complaint *complaint)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    struct hx_buf filled;
    struct hx_buf other;
    hx_json_tape_init(&tape);
    hx_buf_init(&filled, ARGUMENTS_MAX);
    hx_buf_init(&other, ARGUMENTS_MAX);
    hx_audit_fill(arguments, "a", 1, &filled);
    hx_audit_fill(arguments, "b", 2, &other);
    int rc = 0;
    if (!hx_buf_ok(&filled) || hx_json_read(&tape, hx_buf_span(&filled), &limits) != 0 ||
        !hx_json_is(&tape, 0, HX_JSON_OBJECT) || filled.data[0] != '{')
        rc = hx_complain(complaint,
                         "--args must be one object of JSON when its places are filled. "
                         "%s",
                         example);
    else if (hx_span_eq(hx_buf_span(&filled), hx_buf_span(&other)))
        rc = hx_complain(complaint,
                         "--args has no place for what makes each trial's call its own, so calls "
                         "of two trials would be taken for one. Write {unique} inside a text, or "
                         "{number} where a number stands. %s",
                         example);
    hx_json_tape_fini(&tape);
    hx_buf_fini(&filled);
    hx_buf_fini(&other);
    return rc;
}

/* ---- words ---- */

static bool is_of_the_way(enum hx_setting_id id)
{
    static const enum hx_setting_id allowed[] = {
        HX_SETTING_headers_file, HX_SETTING_ca_file, HX_SETTING_cert_file,
        HX_SETTING_key_file,     HX_SETTING_proxy,   HX_SETTING_connect_timeout};
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        if (allowed[i] == id)
            return true;
    return false;
}

static int refuse_settings_of_gateways(const struct hx_settings *given,
                                       struct hx_complaint *complaint)
{
    char option[HX_OPTION_NAME_SIZE];
    for (int i = 0; i < HX_SETTING_COUNT; i++) {
        enum hx_setting_id id = (enum hx_setting_id)i;
        if (is_of_the_way(id) || (!hx_setting_set_has(&given->declared, id) &&
                                  !hx_setting_set_has(&given->tool.declared, id)))
            continue;
        hx_option_name(hx_setting_row(id)->name, option);
        return hx_complain(complaint,
                           "%s is an option of a gateway, and audit is none. To audit a gateway, "
                           "name it behind '--', like 'hapax run %s ... -- ./server'",
                           option, option);
    }
    return 0;
}

static int take_target(int argc, char **argv, int used, struct hx_audit_options *options,
                       struct hx_complaint *complaint)
{
    bool has_command = used > 1 && strcmp(argv[used - 1], "--") == 0;
    if (has_command && used == argc)
        return hx_complain(complaint, "behind '--' there is no command");
    if (has_command) {
        options->command = argv + used;
        return hx_settings_check_headers(&options->given, complaint);
    }
    if (used == argc)
        return hx_complain(complaint, "there is no server to audit. %s", example);
    if (!hx_is_url(argv[used]))
        return hx_complain(complaint,
                           "'%.80s' is no URL; a server's own command stands behind "
                           "'--'. %s",
                           argv[used], example);
    const char *refusal = hx_url_refusal(argv[used]);
    if (refusal != NULL)
        return hx_complain(complaint, "%s", refusal);
    if (used + 1 < argc)
        return hx_complain(complaint,
                           "'%.80s' behind the URL is one word too many; options stand "
                           "before it",
                           argv[used + 1]);
    options->url = argv[used];
    return 0;
}

static int check(const struct hx_audit_options *options, struct hx_complaint *complaint)
{
    if (options->tool == NULL)
        return hx_complain(complaint, "there is no tool to call: --tool NAME. %s", example);
    if (options->arguments == NULL)
        return hx_complain(complaint, "there are no arguments for the tool: --args JSON. %s",
                           example);
    if (options->count == NULL)
        return hx_complain(complaint,
                           "without --count nobody could see how often the tool acts, and nothing "
                           "could be shown; give a command that prints a number which one more "
                           "effect raises by one. %s",
                           example);
    int rc = refuse_settings_of_gateways(&options->given, complaint);
    return rc != 0 ? rc : check_arguments(options->arguments, complaint);
}

void hx_audit_options_init(struct hx_audit_options *options)
{
    *options =
        (struct hx_audit_options){.timeout_ms = TIMEOUT_DEFAULT_MS, .settle_ms = SETTLE_DEFAULT_MS};
    hx_settings_init(&options->given);
}

void hx_audit_options_fini(struct hx_audit_options *options)
{
    hx_settings_fini(&options->given);
}

int hx_audit_options_parse(int argc, char **argv, struct hx_audit_options *options,
                           struct hx_complaint *complaint)
{
    const struct hx_option_words words = {.command = "audit",
                                          .extras = extras,
                                          .extra_count = sizeof(extras) / sizeof(extras[0]),
                                          .context = options};
    int used = argc;
    int rc = hx_options_read(argc, argv, &words, &options->given, &used, complaint);
    if (rc != 0 || options->is_list)
        return rc;
    rc = check(options, complaint);
    return rc != 0 ? rc : take_target(argc, argv, used, options, complaint);
}
