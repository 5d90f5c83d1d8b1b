/* SPDX-License-Identifier: MIT */
/* The command line of `hapax call`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/call_options.h"

enum { WORDS_MAX = 16 };

static int parse(const char *const *given, struct hx_call_options *options,
                 struct hx_complaint *complaint)
{
    static char storage[WORDS_MAX + 1][128];
    static char *argv[WORDS_MAX + 2];
    int argc = 0;
    snprintf(storage[0], sizeof(storage[0]), "call");
    argv[argc++] = storage[0];
    for (; given[argc - 1] != NULL; argc++) {
        snprintf(storage[argc], sizeof(storage[argc]), "%s", given[argc - 1]);
        argv[argc] = storage[argc];
    }
    argv[argc] = NULL;
    hx_call_options_init(options);
    return hx_call_options_parse(argc, argv, options, complaint);
}

static void options_stand_anywhere_before_the_command(void **state)
{
    (void)state;
    static const char *const lines[][WORDS_MAX] = {
        {"--key", "k", "--json", "charge", "{}", "--", "srv", "--json", "x", NULL},
        {"charge", "{}", "--json", "--key=k", "--", "srv", "--json", "x", NULL},
        {"charge", "--json", "{}", "--key", "k", "--", "srv", "--json", "x", NULL},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct hx_call_options options;
        struct hx_complaint complaint = {.text = ""};
        assert_int_equal(parse(lines[i], &options, &complaint), 0);
        assert_string_equal(options.tool, "charge");
        assert_string_equal(options.json, "{}");
        assert_string_equal(options.key, "k");
        assert_true(options.is_json);
        assert_string_equal(options.command[0], "srv");
        assert_string_equal(options.command[1], "--json");
        assert_ptr_equal(options.settings, &options.given);
        hx_call_options_fini(&options);
    }
}

static void a_url_comes_first_and_a_dash_is_standard_input(void **state)
{
    (void)state;
    static const char *const line[] = {"--class", "idempotent", "https://h/mcp", "t", "-", NULL};
    struct hx_call_options options;
    struct hx_complaint complaint = {.text = ""};
    assert_int_equal(parse(line, &options, &complaint), 0);
    assert_string_equal(options.url, "https://h/mcp");
    assert_string_equal(options.tool, "t");
    assert_string_equal(options.json, "-");
    assert_int_equal(options.json_at, 5);
    assert_int_equal(options.wait_ms, HX_CALL_WAIT_DEFAULT_MS);
    assert_false(options.is_wait_given);
    hx_call_options_fini(&options);
}

static void open_calls_are_named_by_key_alone(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        int rc;
        enum hx_call_action action;
    } cases[] = {
        {{"--resume", NULL}, 0, HX_CALL_RESUME},
        {{"--resume", "k", "--wait", "none", NULL}, 0, HX_CALL_RESUME},
        {{"--resume", "--all", NULL}, 0, HX_CALL_RESUME_ALL},
        {{"--give-up", "k", NULL}, 0, HX_CALL_GIVE_UP},
        {{"--give-up", NULL}, 1, HX_CALL_GIVE_UP},
        {{"--resume", "k", "--all", NULL}, 1, HX_CALL_RESUME},
        {{"--resume", "k", "t", "s", NULL}, 0, HX_CALL_RESUME},
        {{"--resume", "--key", "-k", "t", "s", NULL}, 0, HX_CALL_RESUME},
        {{"--give-up", "k", "t", NULL}, 0, HX_CALL_GIVE_UP},
        {{"--resume", "k", "t", "s", "more", NULL}, 1, HX_CALL_RESUME},
        {{"--resume", "--key", "k", "t", "s", "more", NULL}, 1, HX_CALL_RESUME},
        {{"--resume", "k", "--", "srv", NULL}, 1, HX_CALL_RESUME},
        {{"--all", "t", "--", "srv", NULL}, 1, HX_CALL_NEW},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_call_options options;
        struct hx_complaint complaint = {.text = ""};
        int rc = parse(cases[i].words, &options, &complaint);
        if (rc != cases[i].rc)
            fail_msg("line %zu: got %d (%s), wanted %d", i, rc, complaint.text, cases[i].rc);
        if (rc == 0)
            assert_int_equal(options.action, cases[i].action);
        hx_call_options_fini(&options);
    }
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        const char *says;
    } cases[] = {
        {{NULL}, "neither a target"},
        {{"t", "{}", "--", NULL}, "no command"},
        {{"t", "{}", "more", "--", "srv", NULL}, "one word too many"},
        {{"http://u@h/", "t", NULL}, "user name"},
        {{"https://h/mcp", NULL}, "no tool"},
        {{"--config", "f", "https://h/mcp", "t", NULL}, "two targets"},
        {{"--config", "f", "t", "--", "srv", NULL}, "two targets"},
        {{"--wait", "soon", "t", "--", "srv", NULL}, "--wait"},
        {{"--key", "null", "t", "--", "srv", NULL}, "--key"},
        {{"--class", "idempotent", "--config", "f", "n", "t", NULL}, "stands in its file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_call_options options;
        struct hx_complaint complaint = {.text = ""};
        assert_int_equal(parse(cases[i].words, &options, &complaint), 1);
        if (strstr(complaint.text, cases[i].says) == NULL)
            fail_msg("line %zu: \"%s\" does not say \"%s\"", i, complaint.text, cases[i].says);
        hx_call_options_fini(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_anywhere_before_the_command),
        cmocka_unit_test(a_url_comes_first_and_a_dash_is_standard_input),
        cmocka_unit_test(open_calls_are_named_by_key_alone),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("call_options", tests, NULL, NULL);
}
