/* SPDX-License-Identifier: MIT */
/* The command line of `hapax audit`, and what is put into the template of the arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/audit_options.h"

enum { WORDS_MAX = 24 };

#define TARGET "--tool", "charge", "--args", "{\"note\":\"{unique}\"}", "--count", "echo 1"

static int parse(const char *const *given, struct hx_audit_options *options,
                 struct hx_complaint *complaint)
{
    static char storage[WORDS_MAX + 1][128];
    static char *argv[WORDS_MAX + 2];
    int argc = 0;
    snprintf(storage[0], sizeof(storage[0]), "audit");
    argv[argc++] = storage[0];
    for (; given[argc - 1] != NULL; argc++) {
        snprintf(storage[argc], sizeof(storage[argc]), "%s", given[argc - 1]);
        argv[argc] = storage[argc];
    }
    argv[argc] = NULL;
    hx_audit_options_init(options);
    return hx_audit_options_parse(argc, argv, options, complaint);
}

static void a_command_or_a_url(void **state)
{
    (void)state;
    static const char *const command[] = {TARGET,      "--key", "/order", "--settle", "2s",
                                          "--timeout", "5s",    "--only", "cancel",   "--yes",
                                          "--",        "srv",   "--tool", NULL};
    static const char *const url[] = {TARGET,      "--key=header:Idempotency-Key",
                                      "--skip",    "early",
                                      "--ca-file", "ca.pem",
                                      "--json",    "https://h/mcp",
                                      NULL};
    struct hx_audit_options options;
    struct hx_complaint complaint = {.text = ""};
    assert_int_equal(parse(command, &options, &complaint), 0);
    assert_string_equal(options.tool, "charge");
    assert_string_equal(options.count, "echo 1");
    assert_string_equal(options.command[0], "srv");
    assert_string_equal(options.command[1], "--tool"); /* the server's own */
    assert_int_equal(options.key.kind, HX_KEY_PLACE_POINTER);
    assert_string_equal(options.key.text, "/order");
    assert_int_equal(options.settle_ms, 2000);
    assert_int_equal(options.timeout_ms, 5000);
    assert_int_equal(options.only_count, 1);
    assert_true(options.is_yes);
    assert_null(options.url);
    hx_audit_options_fini(&options);
    assert_int_equal(parse(url, &options, &complaint), 0);
    assert_string_equal(options.url, "https://h/mcp");
    assert_null(options.command);
    assert_int_equal(options.key.kind, HX_KEY_PLACE_HEADER);
    assert_int_equal(options.skipped_count, 1);
    assert_string_equal(options.given.ca_file, "ca.pem");
    assert_true(options.is_json);
    assert_false(options.is_yes);
    hx_audit_options_fini(&options);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        const char *says;
    } rows[] = {
        {{"--args", "{}", "--count", "x", "--", "s", NULL}, "--tool NAME"},
        {{"--tool", "t", "--count", "x", "--", "s", NULL}, "--args JSON"},
        {{"--tool", "t", "--args", "{\"a\":{number}}", "--", "s", NULL}, "without --count"},
        {{"--tool", "t", "--args", "{\"a\":1}", "--count", "x", "--", "s", NULL}, "{unique}"},
        {{"--tool", "t", "--args", "{\"a\":{unique}}", "--count", "x", "--", "s", NULL},
         "one object"},
        {{"--tool", "t", "--args", "[\"{unique}\"]", "--count", "x", "--", "s", NULL},
         "one object"},
        {{TARGET, NULL}, "no server"},
        {{TARGET, "--", NULL}, "no command"},
        {{TARGET, "./server", NULL}, "behind '--'"},
        {{TARGET, "https://h/mcp", "--json", NULL}, "one word too many"},
        {{TARGET, "--repeat", "window", "--", "s", NULL}, "an option of a gateway"},
        {{TARGET, "--ledger", "l", "--", "s", NULL}, "an option of a gateway"},
        {{TARGET, "--key", "order", "--", "s", NULL}, "--key"},
        {{TARGET, "--key", "/a/b", "--", "s", NULL}, "at the top"},
        {{TARGET, "--key", "header:Key", "--", "s", NULL}, "header"},
        {{TARGET, "--settle", "2", "--", "s", NULL}, "--settle"},
        {{TARGET, "--tol", "x", "--", "s", NULL}, "did you mean '--tool'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_audit_options options;
        struct hx_complaint complaint = {.text = ""};
        int rc = parse(rows[i].words, &options, &complaint);
        if (rc != 1 || strstr(complaint.text, rows[i].says) == NULL)
            fail_msg("row %zu: %d, '%s' does not say '%s'", i, rc, complaint.text, rows[i].says);
        hx_audit_options_fini(&options);
    }
}

static void fills_every_place(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        const char *filled;
    } rows[] = {
        {"{\"a\":\"{unique}\"}", "{\"a\":\"u-1\"}"},
        {"{\"a\":\"x{unique}{unique}y\",\"n\":{number}}", "{\"a\":\"xu-1u-1y\",\"n\":42}"},
        {"{unique", "{unique"},
        {"{\"{number}\":{}}", "{\"42\":{}}"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_buf out;
        hx_buf_init(&out, 1024);
        hx_audit_fill(rows[i].arguments, "u-1", 42, &out);
        hx_buf_append_char(&out, '\0');
        assert_string_equal(out.data, rows[i].filled);
        hx_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_or_a_url),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(fills_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
