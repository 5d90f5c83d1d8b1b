/* SPDX-License-Identifier: MIT */
/*
 * Settings: their texts and limits, which rule wins, and what is refused at start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/number.h"
#include "app/options.h"
#include "app/settings.h"
#include "app/settings_show.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int parse(struct hx_settings *settings, struct hx_complaint *complaint, int *used, int argc,
                 const char *const *words)
{
    char *argv[16] = {NULL};
    assert_true(argc < 16);
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    complaint->text[0] = '\0';
    hx_settings_init(settings);
    return hx_options_parse(argc, argv, settings, used, complaint);
}

#define PARSE(settings, complaint, used, ...)                                                      \
    parse((settings), (complaint), (used),                                                         \
          (int)COUNT_OF(((const char *const[]){"run", __VA_ARGS__})),                              \
          (const char *const[]){"run", __VA_ARGS__})

static struct hx_tool_settings tool_of(const struct hx_settings *settings, const char *name)
{
    return hx_settings_for_tool(settings, hx_span_cstr(name));
}

/* A number is taken with its unit and only inside the range that can be meant. */
static void durations_and_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"500ms", 500},    {"30s", 30000}, {"15m", 900000}, {"2h", 7200000},
                {"7d", 604800000}, {"0", 0},       {"0s", 0},       {"007s", 7000}};
    static const char *const bad[] = {"",
                                      "5",
                                      "s",
                                      "-1s",
                                      "1.5s",
                                      "1 s",
                                      "1S",
                                      "1mm",
                                      "1s1ms",
                                      "0x1s",
                                      "inf",
                                      "none",
                                      "+1s",
                                      "99999999999999999999s",
                                      "9223372036854775807d"};
    int64_t value;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(hx_duration_parse(hx_span_cstr(good[i].text), &value));
        assert_int_equal(value, good[i].ms);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (hx_duration_parse(hx_span_cstr(bad[i]), &value))
            fail_msg("'%s' was taken for a duration", bad[i]);
    }
    assert_true(hx_size_parse(HX_SPAN_LIT("64KiB"), &value));
    assert_int_equal(value, 65536);
    assert_true(hx_size_parse(HX_SPAN_LIT("4096"), &value));
    assert_int_equal(value, 4096);
    assert_true(hx_size_parse(HX_SPAN_LIT("2GiB"), &value));
    assert_int_equal(value, INT64_C(2) << 30);
    assert_false(hx_size_parse(HX_SPAN_LIT("64KB"), &value));
    assert_false(hx_size_parse(HX_SPAN_LIT("64kib"), &value));
}

static void numbers_print_as_they_are_read(void **state)
{
    static const char *const texts[] = {"500ms", "90s", "15m", "36h", "7d", "1s"};
    char text[HX_NUMBER_TEXT_SIZE];
    int64_t value;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_true(hx_duration_parse(hx_span_cstr(texts[i]), &value));
        hx_duration_format(value, text);
        assert_string_equal(text, texts[i]);
    }
    hx_duration_format(0, text);
    assert_string_equal(text, "0ms");
    hx_size_format(65536, text);
    assert_string_equal(text, "64KiB");
    hx_size_format(1500, text);
    assert_string_equal(text, "1500");
}

/* Without any option the contract of a tool is the core's own default. */
static void defaults_are_those_of_the_core(void **state)
{
    struct hx_settings settings;
    char ours_text[1024];
    struct hx_buf ours;
    struct hx_buf core;
    (void)state;
    hx_settings_init(&settings);
    struct hx_tool_settings tool = tool_of(&settings, "charge");
    struct hx_contract contract = hx_tool_settings_contract(&tool);
    struct hx_contract expected = hx_contract_default();
    hx_buf_init(&ours, sizeof(ours_text));
    hx_buf_init(&core, sizeof(ours_text));
    hx_contract_format(&contract, &ours);
    hx_contract_format(&expected, &core);
    assert_int_equal(hx_buf_append_char(&ours, '\0'), 0);
    assert_int_equal(hx_buf_append_char(&core, '\0'), 0);
    assert_string_equal(ours.data, core.data);
    assert_null(settings.ledger);
    assert_null(settings.name);
    assert_int_equal(settings.hints, HX_CHOICE_hints_READ_ONLY);
    assert_int_equal(settings.stall_timeout, 30000);
    assert_int_equal(settings.stuck_timeout, 60000);
    assert_int_equal(settings.drain_max, 4);
    assert_int_equal(tool.result_max, 64 << 20);
    assert_false(settings.allow_new_privs);
    assert_false(settings.log_arguments);
    assert_true(tool.replay_note);
    hx_buf_fini(&ours);
    hx_buf_fini(&core);
    hx_settings_fini(&settings);
}

static void options_in_every_spelling(void **state)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    int used;
    (void)state;
    int rc = PARSE(&settings, &complaint, &used, "--name", "billing", "--repeat=window",
                   "--repeat_window", "5m", "--no-replay-note", "--issued-keys-only", "--ignore",
                   "/trace_id,/at", "--", "server", "--name", "x");
    assert_string_equal(complaint.text, "");
    assert_int_equal(rc, 0);
    assert_int_equal(used, 11);
    assert_string_equal(settings.name, "billing");
    assert_int_equal(settings.tool.repeat, HX_CHOICE_repeat_WINDOW);
    assert_int_equal(settings.tool.repeat_window, 300000);
    assert_false(settings.tool.replay_note);
    assert_true(settings.tool.issued_keys_only);
    assert_int_equal(settings.tool.ignore.count, 2);
    assert_string_equal(settings.tool.ignore.items[1].ptr, "/at");
    assert_true(hx_tool_settings_declares(&settings.tool, HX_SETTING_repeat));
    assert_false(hx_tool_settings_declares(&settings.tool, HX_SETTING_class));
    hx_settings_fini(&settings);

    /* The first word that is no option begins the server's command, dashes or not. */
    rc = PARSE(&settings, &complaint, &used, "--timeout", "90s", "server", "--timeout", "x");
    assert_int_equal(rc, 0);
    assert_int_equal(used, 3);
    assert_int_equal(settings.tool.timeout, 90000);
    hx_settings_fini(&settings);

    assert_int_equal(PARSE(&settings, &complaint, &used, "--help"), HX_OPTIONS_HELP);
    hx_settings_fini(&settings);
}

/* Said again they are added; only none takes them back. */
static void names_add_up(void **state)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    struct hx_buf shown;
    int used;
    (void)state;
    int rc = PARSE(&settings, &complaint, &used, "--redact", "x", "--redact", "none", "--redact",
                   "password, api_key", "--redact=card number", "s");
    assert_string_equal(complaint.text, "");
    assert_int_equal(rc, 0);
    assert_int_equal(settings.redact.count, 3);
    hx_buf_init(&shown, 1000);
    hx_value_format(hx_setting_row(HX_SETTING_redact), &settings.redact, &shown);
    assert_int_equal(hx_buf_append_char(&shown, '\0'), 0);
    assert_string_equal(shown.data, "password,api_key,card number");
    for (int i = 3; i < HX_SETTING_NAMES_MAX; i++)
        assert_int_equal(
            hx_settings_set(&settings, HX_SPAN_LIT("redact"), HX_SPAN_LIT("a"), &complaint), 0);
    rc = hx_settings_set(&settings, HX_SPAN_LIT("redact"), HX_SPAN_LIT("a"), &complaint);
    assert_int_equal(rc, 1);
    assert_non_null(strstr(complaint.text, "64 are the most"));
    assert_int_equal(settings.redact.count, HX_SETTING_NAMES_MAX);
    hx_buf_fini(&shown);
    hx_settings_fini(&settings);
}

/* What somebody takes for a pointer or a pattern would hide nothing. */
static void what_is_no_name_of_a_member(void **state)
{
    static const struct {
        const char *option, *value, *said;
    } cases[] = {
        {"--redact", "/password", "none is a pointer"},
        {"--redact", "a,*key*", "'*key*' is not possible"},
        {"--redact", "", "'' is not possible"},
        {"--redact", "a,,b", "'' is not possible"},
        {"--redact", "_", "'_' is not possible"},
        {"--tool", "pay: redact=a", "holds for the whole server"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_settings settings;
        struct hx_complaint complaint;
        int used;
        assert_int_equal(PARSE(&settings, &complaint, &used, cases[i].option, cases[i].value, "s"),
                         1);
        if (strstr(complaint.text, cases[i].said) == NULL)
            fail_msg("%s %s: %s", cases[i].option, cases[i].value, complaint.text);
        hx_settings_fini(&settings);
    }
}

static void typed_values(void **state)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    int used;
    (void)state;
    int rc = PARSE(&settings, &complaint, &used, "--tool",
                   "charge: class=keyed effect_key=_meta:x/key no_effect_errors=\"-32001, "
                   "transient:*rate limit*\" approval='when: /amount >= 100'",
                   "--tool", "pay: class=keyed effect_key=sep3182", "s");
    assert_string_equal(complaint.text, "");
    assert_int_equal(rc, 0);
    struct hx_tool_settings charge = tool_of(&settings, "charge");
    assert_int_equal(charge.effect_key.kind, HX_KEY_PLACE_META);
    assert_string_equal(charge.effect_key.text, "x/key");
    assert_int_equal(charge.no_effect_errors.count, 2);
    assert_true(charge.no_effect_errors.items[0].is_code);
    assert_int_equal(charge.no_effect_errors.items[0].code, -32001);
    assert_true(charge.no_effect_errors.items[1].is_transient);
    assert_string_equal(charge.no_effect_errors.items[1].pattern, "*rate limit*");
    assert_int_equal(charge.approval.kind, HX_APPROVAL_WHEN);
    assert_int_equal(charge.approval.comparison, HX_CMP_GE);
    assert_string_equal(charge.approval.pointer, "/amount");
    assert_string_equal(charge.approval.value, "100");
    assert_int_equal(hx_tool_settings_contract(&charge).tool_class, HX_CLASS_KEYED);
    assert_int_equal(tool_of(&settings, "pay").effect_key.kind, HX_KEY_PLACE_SEP3182);
    hx_settings_fini(&settings);
}

/* Exact beats the longer literal beginning, that beats the shorter, and settings merge one by one.
 */
static void the_most_specific_rule_wins(void **state)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    int used;
    (void)state;
    int rc = PARSE(&settings, &complaint, &used, "--join-wait", "1s", "--tool",
                   "get_user: join_wait=5s", "--tool", "get_*: join_wait=4s overlap=4s", "--tool",
                   "*: join_wait=2s overlap=2s attempts=1", "--tool", "g*: join_wait=3s", "s");
    assert_string_equal(complaint.text, "");
    assert_int_equal(rc, 0);
    static const struct {
        const char *tool;
        int64_t join_wait;
        int64_t overlap;
    } rows[] = {{"get_user", 5000, 4000}, {"get_x", 4000, 4000}, {"get_", 4000, 4000},
                {"give", 3000, 2000},     {"x", 2000, 2000},     {"", 2000, 2000}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hx_tool_settings tool = tool_of(&settings, rows[i].tool);
        assert_int_equal(tool.join_wait, rows[i].join_wait);
        assert_int_equal(tool.overlap, rows[i].overlap);
        assert_int_equal(tool.attempts, 1);
    }
    hx_settings_fini(&settings);

    rc = PARSE(&settings, &complaint, &used, "--tool", "a*: overlap=1s", "--tool", "a?: overlap=2s",
               "s");
    assert_int_equal(rc, 0);
    assert_int_equal(tool_of(&settings, "ab").overlap, 2000); /* equally specific: the later */
    assert_int_equal(tool_of(&settings, "abc").overlap, 1000);
    hx_settings_fini(&settings);
}

static void globs(void **state)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool is_match;
    } rows[] = {
        {"*", "", true},         {"*", "x", true},        {"a*b", "ab", true},
        {"a*b", "axxb", true},   {"a*b", "axxbc", false}, {"a*b*c", "abbc", true},
        {"a*b*c", "acb", false}, {"?", "", false},        {"?", "x", true},
        {"a?c", "abc", true},    {"abc", "abc", true},    {"abc", "ab", false},
        {"", "", true},          {"", "x", false},        {"*a", "aaab", false},
        {"**a", "aaa", true},    {"a", "a*", false},      {"*.get", "x.get", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (hx_glob_match(rows[i].pattern, hx_span_cstr(rows[i].text)) != rows[i].is_match)
            fail_msg("'%s' against '%s': expected %d", rows[i].pattern, rows[i].text,
                     rows[i].is_match);
    }
    /* A byte that ends C strings is a byte like any other in a tool's name. */
    assert_false(hx_glob_match("a", hx_span("a\0", 2)));
    assert_true(hx_glob_match("a?", hx_span("a\0", 2)));
}

struct refusal {
    const char *words[4];
    const char *says[3];
};

static void is_refused(const struct refusal *refusal)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    const char *words[6] = {"run"};
    int argc = 1;
    int used;
    for (size_t j = 0; j < 4 && refusal->words[j]; j++)
        words[argc++] = refusal->words[j];
    int rc = parse(&settings, &complaint, &used, argc, words);
    const char *value = argc > 2 ? words[2] : "";
    if (rc != 1)
        fail_msg("'%s %s' was accepted", words[1], value);
    for (size_t j = 0; j < 3 && refusal->says[j]; j++)
        if (!strstr(complaint.text, refusal->says[j]))
            fail_msg("'%s %s' was refused with: %s\nwithout: %s", words[1], value, complaint.text,
                     refusal->says[j]);
    hx_settings_fini(&settings);
}

/* It would be compared as something else. */
static void what_can_be_read_in_two_ways_is_compared_with_nothing(void **state)
{
    static const struct refusal rows[] = {
        {{"--approval", "when: /path == \"C:\\dir\""}, {"--approval", "JSON string"}},
        {{"--approval", "when: /path == \"\\\""}, {"--approval", "JSON string"}},
        {{"--approval", "when: /path == \"\\u12\""}, {"--approval", "JSON string"}},
        {{"--approval", "when: /path == \"a"}, {"--approval", "JSON string"}},
        {{"--approval", "when: /path == \"a\" b"}, {"--approval", "JSON string"}},
        {{"--approval", "when: /path == \xC3"}, {"--approval", "UTF-8"}},
        {{"--tool", "pay: probe=find probe_match='value /path == \"C:\\dir\"'"},
         {"'pay'", "probe_match", "JSON string"}},
        {{"--tool", "pay: probe=find probe_match='value /path == \"\\u\"'"},
         {"'pay'", "probe_match", "JSON string"}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        is_refused(&rows[i]);
}

/* Every refusal says which setting, what was given, and what to do. */
static void refusals(void **state)
{
    static const struct refusal rows[] = {
        {{"--repat", "lost"}, {"--repat", "did you mean '--repeat'"}},
        {{"--qqqqqq"}, {"--qqqqqq", "hapax run --help"}},
        {{"-n", "x"}, {"'-n'", "two dashes"}},
        {{"--timeout"}, {"--timeout needs a value"}},
        {{"--timeout", "90"}, {"--timeout", "'90'", "30s"}},
        {{"--timeout", "99d"}, {"--timeout", "'99d'", "from 100ms to 30d, or none"}},
        {{"--repeat-window", "none"}, {"--repeat-window", "'none'"}},
        {{"--repeat-window", "25h"}, {"'25h'", "from 1s to 1d"}},
        {{"--class", "idempotnt"}, {"--class", "'idempotnt'", "did you mean idempotent?"}},
        {{"--attempts", "0"}, {"--attempts", "'0'", "from 1 to 100"}},
        {{"--attempts", "2x"}, {"--attempts", "'2x'"}},
        {{"--result-max", "1TB"}, {"--result-max", "'1TB'", "64MiB"}},
        {{"--key-argument", "key"}, {"--key-argument", "'key'", "JSON pointer"}},
        {{"--key-argument", "/a~2"}, {"--key-argument", "'/a~2'"}},
        {{"--ignore", "/a,b"}, {"--ignore", "'b'"}},
        {{"--effect-key", "key"}, {"--effect-key", "'key'", "sep3182"}},
        {{"--no-effect-errors", "*"}, {"--no-effect-errors", "'*'", "some text"}},
        {{"--approval", "when: amount > 1"}, {"--approval", "when: /amount > 100"}},
        {{"--reorder-safe=maybe"}, {"--reorder-safe", "'maybe'", "on or off"}},
        {{"--name", ""}, {"--name", "''"}},
        {{"--name", "a\nb"}, {"--name"}},
        {{"--tool", "charge"}, {"'charge'", "PATTERN: name=value"}},
        {{"--tool", "charge:"}, {"'charge'", "sets nothing"}},
        {{"--tool", "charge: timeout"}, {"'charge'", "'timeout'", "name=value"}},
        {{"--tool", "charge: timeout=90"}, {"'charge'", "timeout", "'90'"}},
        {{"--tool", "charge: timeot=9s"}, {"'timeot'", "'charge'", "'timeout'"}},
        {{"--tool", "charge: approval='never"}, {"'charge'", "closing '"}},
        {{"--tool", "charge: timeout=1s timeout=2s"}, {"timeout", "twice", "'charge'"}},
        {{"--tool", "charge: ledger=/x"}, {"ledger", "'charge'", "whole server"}},
        /* Asking for a second send of what may not be sent twice (field case 27). */
        {{"--retries", "3"}, {"'retries'", "may have acted", "idempotent"}},
        {{"--tool", "charge: retry_on_timeout=on"}, {"'charge'", "may have acted", "idempotent"}},
        {{"--tool", "charge: attempts=3 timeout=9s"}, {"'charge'", "attempts=3", "opaque"}},
        {{"--class", "opaque", "--attempts", "3"}, {"for all tools", "attempts=3", "opaque"}},
        {{"--tool", "charge: reorder_safe=on"}, {"'charge'", "reorder_safe", "opaque"}},
        {{"--tool", "charge: dedupe_horizon=1d"}, {"'charge'", "dedupe_horizon", "class=keyed"}},
        {{"--tool", "charge: class=keyed"}, {"'charge'", "effect_key"}},
        {{"--tool", "charge: effect_key=/k"}, {"'charge'", "effect_key", "class=keyed"}},
        {{"--tool", "charge: class=keyed effect_key=/k dedupe_horizon=20m"},
         {"dedupe_horizon=20m", "orphan_timeout", "20m"}},
        {{"--key-argument", "/k", "--inject-key", "/k"}, {"key_argument", "inject_key", "/k"}},
        {{"--inject-key", "/a/b"}, {"inject_key=/a/b", "/idempotency_key"}},
        {{"--timeout", "5s", "--idle-timeout", "6s"}, {"idle_timeout=6s", "timeout=5s"}},
        {{"--visibility-lag", "5s"}, {"visibility_lag", "in_flight_bound"}},
        {{"--tool", "pay: probe=pay probe_match='text x'"}, {"'pay'", "tool itself", "only reads"}},
        {{"--tool", "pay: probe=find probe_match='text x' probe_arguments='{\"n\": ${/n}}'"},
         {"'pay'", "probe_arguments", "in quotes"}},
        {{"--retention", "40d"}, {"row_retention", "retention"}},
        {{"--stall-timeout", "90s"}, {"stuck_timeout", "stall_timeout"}},
        {{"--outbox-url", "ftp://hooks.example/"}, {"outbox_url must begin with http"}},
        {{"--outbox-url", "https://ann:pw@hooks.example/"}, {"outbox_url", "headers_file"}},
        {{"--outbox-secret-file", "secret"}, {"outbox_secret_file", "outbox_url"}},
        {{"--outbox-wait", "5s"}, {"outbox_wait", "outbox_url"}},
        {{"--outbox-url", "https://hooks.example/", "--outbox-wait=2m", "--outbox-wait-max=1m"},
         {"outbox_wait=2m", "outbox_wait_max=1m"}},
        {{"--tool", "get: class=read_only approval=always"}, {"'get'", "read_only", "approval"}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        is_refused(&rows[i]);
}

/* What a careful operator would write must pass. */
static void sensible_settings_pass(void **state)
{
    static const char *const rules[] = {
        "set_status: class=idempotent attempts=3 timeout=90s",
        /* One text on two lines: clang wants the parentheses. */
        ("charge: class=keyed effect_key=/idempotency_key key_argument=/idempotency_key "
         "dedupe_horizon=24h"),
        "mail: attempts=3 no_effect_errors=transient:-32050",
        "list:files: class=read_only",
        "get_*: class=read_only",
        "order: in_flight_bound=30s visibility_lag=5s approval=always",
        "copy: approval='when: /path == \"C:\\\\dir\"'",
        "move: approval='when: /path == \"a \\u00e9 \\\"b\"'",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct hx_settings settings;
        struct hx_complaint complaint;
        int used;
        int rc = PARSE(&settings, &complaint, &used, "--attempts", "7", "--tool", rules[i]);
        assert_string_equal(complaint.text, "");
        assert_int_equal(rc, 0);
        hx_settings_fini(&settings);
    }
}

/* What is shown sets the same again, for values of every type. */
static void what_is_shown_can_be_set(void **state)
{
    static const struct {
        const char *name;
        const char *text;
    } rows[] = {
        {"name", "billing"},
        {"reorder_safe", "on"},
        {"class", "read_only"},
        {"timeout", "90s"},
        {"timeout", "none"},
        {"attempts", "3"},
        {"result_max", "1536KiB"},
        {"key_argument", "/a~1b/c"},
        {"ignore", "/a,/b"},
        {"ignore", "none"},
        {"effect_key", "/k"},
        {"effect_key", "_meta:x/y"},
        {"effect_key", "sep3182"},
        {"effect_key", "header:Idempotency-Key"},
        {"effect_key", "none"},
        {"approval", "always"},
        {"approval", "when: /a/b >= \"x y\""},
        {"log_level", "debug"},
        {"no_effect_errors", "-32001,transient:*slow down*,409"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hx_settings settings;
        struct hx_complaint complaint = {.text = ""};
        struct hx_buf text;
        hx_settings_init(&settings);
        int rc = hx_settings_set(&settings, hx_span_cstr(rows[i].name), hx_span_cstr(rows[i].text),
                                 &complaint);
        assert_string_equal(complaint.text, "");
        assert_int_equal(rc, 0);
        const struct hx_setting_row *row = hx_setting_find(hx_span_cstr(rows[i].name));
        const char *owner =
            row->scope == HX_SCOPE_TOOL ? (const char *)&settings.tool : (const char *)&settings;
        hx_buf_init(&text, 256);
        hx_value_format(row, owner + row->offset, &text);
        assert_int_equal(hx_buf_append_char(&text, '\0'), 0);
        assert_string_equal(text.data, rows[i].text);
        hx_buf_fini(&text);
        hx_settings_fini(&settings);
    }
}

static void shows_defaults_and_rules(void **state)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    char shown[8192];
    int used;
    (void)state;
    int rc = PARSE(&settings, &complaint, &used, "--show-settings", "--timeout", "90s", "--tool",
                   "get_*: timeout=5s");
    assert_int_equal(rc, HX_OPTIONS_SHOW);
    FILE *out = fmemopen(shown, sizeof(shown), "w");
    assert_non_null(out);
    hx_settings_show(&settings, out);
    fclose(out);
    assert_non_null(strstr(shown, "timeout              = 90s\n"));
    assert_non_null(strstr(shown, "join_wait            = 45s  (default)\n"));
    assert_non_null(strstr(shown, "\ntools 'get_*'\ntimeout              = 5s\n"));
    hx_settings_fini(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_and_sizes),
        cmocka_unit_test(numbers_print_as_they_are_read),
        cmocka_unit_test(defaults_are_those_of_the_core),
        cmocka_unit_test(options_in_every_spelling),
        cmocka_unit_test(names_add_up),
        cmocka_unit_test(what_is_no_name_of_a_member),
        cmocka_unit_test(typed_values),
        cmocka_unit_test(the_most_specific_rule_wins),
        cmocka_unit_test(globs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_compared_with_nothing),
        cmocka_unit_test(sensible_settings_pass),
        cmocka_unit_test(what_is_shown_can_be_set),
        cmocka_unit_test(shows_defaults_and_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
