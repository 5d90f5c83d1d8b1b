/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax serve`, and that the example file is what it says it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/serve_options.h"

static const char *example; /* from our command line */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int parse(struct hx_config *config, struct hx_complaint *complaint, const char *const *words)
{
    static char *argv[24];
    int argc = 0;
    argv[argc++] = (char *)(uintptr_t) "serve";
    while (*words)
        argv[argc++] = (char *)(uintptr_t)*words++;
    argv[argc] = NULL;
    assert_true(argc < 24);
    complaint->text[0] = '\0';
    hx_config_init(config);
    return hx_serve_options_parse(argc, argv, config, complaint);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void parse_good(struct hx_config *config, const char *const *words)
{
    struct hx_complaint complaint;
    int rc = parse(config, &complaint, words);
    if (rc != 0)
        fail_msg("%d %s", rc, complaint.text);
}

static void one_command(void **state)
{
    struct hx_config config;
    (void)state;
    parse_good(&config, WORDS("--name", "billing", "--timeout=90s", "--tool",
                              "get_*: class=read_only", "--ledger", "/l", "--listen", "81",
                              "--listen=unix:/s", "--allowed-host", "h", "--", "npx", "--listen"));
    assert_int_equal(config.upstream_count, 1);
    const struct hx_config_upstream *upstream = &config.upstreams[0];
    assert_string_equal(upstream->name, "billing");
    assert_string_equal(upstream->settings.name, "billing");
    assert_string_equal(upstream->prefix, "");
    assert_string_equal(upstream->command[0], "npx");
    assert_string_equal(upstream->command[1], "--listen");
    assert_null(upstream->command[2]);
    assert_int_equal(upstream->settings.tool.timeout, 90000);
    assert_int_equal(hx_settings_for_tool(&upstream->settings, HX_SPAN_LIT("get_x")).class,
                     HX_CHOICE_class_READ_ONLY);
    assert_string_equal(config.global.ledger, "/l");
    assert_int_equal(config.listen_count, 2);
    assert_int_equal(config.listens[0].port, 81);
    assert_string_equal(config.listens[1].path, "/s");
    assert_int_equal(config.allowed_hosts.count, 1);
    assert_null(config.file);
    hx_config_fini(&config);
}

static void one_url(void **state)
{
    struct hx_config config;
    (void)state;
    parse_good(&config, WORDS("https://x/mcp"));
    assert_string_equal(config.upstreams[0].name, HX_SERVE_NAME_DEFAULT);
    assert_string_equal(config.upstreams[0].url, "https://x/mcp");
    assert_null(config.upstreams[0].command);
    assert_int_equal(config.listen_count, 1);
    assert_string_equal(config.listens[0].text, HX_LISTEN_DEFAULT);
    assert_int_equal(config.listens[0].port, 7332);
    assert_int_equal(config.token_count, 0);
    hx_config_fini(&config);
}

static void refused(void **state)
{
    static const struct {
        const char *words[8];
        const char *complaint;
    } refusals[] = {
        {{"--lisen", "80", "--", "x"}, "there is no option '--lisen'; did you mean '--listen'?"},
        {{"--listen", "nowhere", "--", "x"}, "--listen: 'nowhere' is not possible; give HOST:PORT"},
        {{"--listen", "0.0.0.0:80", "--", "x"}, "listen: 0.0.0.0:80 can be reached from other"},
        {{"--listen"}, "--listen needs a value"},
        {{"--listen", "", "--", "x"}, "--listen needs a value"},
        {{"--name", "My Server", "--", "x"}, "--name: 'My Server' is not possible"},
        {{"--config", "f", "--", "x"}, "the servers stand in f, so 'x' cannot be given too"},
        {{"--config", "f", "--config", "g"}, "--config is given twice"},
        {{"--config", "f", "--timeout", "5s"},
         "--timeout: what holds for a server stands in its file; write timeout into f"},
        {{"--config", "f", "--tool", "a: class=opaque"},
         "--tool: what holds for a server stands in its file"},
        {{"--config", "/nowhere/f"}, "/nowhere/f: No such file or directory"},
        {{"--config", "/"}, "/: this is no regular file"},
        {{"https://x/mcp", "y"}, "nothing may follow the URL, but 'y' does"},
        {{"https://u:p@x/mcp"}, "url must not hold a user name or password"},
        {{"--timeout", "5", "--", "x"}, "--timeout: '5' is not possible"},
        {{"--attempts", "3", "--class", "opaque", "--", "x"}, "for all tools: attempts=3 asks"},
        {{"--allow-anonymous=no", "--", "x"}, "--allow-anonymous takes no value"},
        {{"-c", "f"}, "'-c' is no option"},
        {{"--max-retries", "3", "--", "x"}, "there is no setting 'max-retries'"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        struct hx_config config;
        struct hx_complaint complaint;
        int rc = parse(&config, &complaint, refusals[i].words);
        if (rc != 1 ||
            strncmp(complaint.text, refusals[i].complaint, strlen(refusals[i].complaint)) != 0)
            fail_msg("gave %d '%s'\n  not 1 '%s'", rc, complaint.text, refusals[i].complaint);
        hx_config_fini(&config);
    }
}

static void beyond_loopback(void **state)
{
    struct hx_config config;
    (void)state;
    parse_good(&config, WORDS("--listen", "0.0.0.0:80", "--allow-anonymous", "--", "x"));
    assert_true(config.allow_anonymous);
    assert_false(config.listens[0].is_loopback);
    hx_config_fini(&config);
}

static void help_is_asked(void **state)
{
    struct hx_config config;
    struct hx_complaint complaint;
    (void)state;
    assert_int_equal(parse(&config, &complaint, WORDS("--name", "a", "--help")), HX_OPTIONS_HELP);
    hx_config_fini(&config);
}

/* The example is good without a warning; the command line is above it where it may be. */
static void the_example(void **state)
{
    struct hx_config config;
    (void)state;
    parse_good(&config, WORDS("--config", example));
    assert_null(config.warnings);
    assert_int_equal(config.upstream_count, 2);
    assert_int_equal(config.token_count, 2);
    assert_int_equal(config.listen_count, 2);
    assert_string_equal(config.global.ledger, "/var/lib/hapax");
    hx_config_advise(&config);
    assert_null(config.warnings);
    hx_config_fini(&config);
    parse_good(&config, WORDS("--config", example, "--ledger", "/l", "--listen", "127.0.0.1:0"));
    assert_string_equal(config.global.ledger, "/l");
    assert_int_equal(config.global.log_level, HX_CHOICE_log_level_INFO);
    assert_int_equal(config.listen_count, 1);
    hx_config_fini(&config);
}

/* Without a word the file in the working directory is read, and missed with an example. */
static void the_default_file(void **state)
{
    char directory[] = "/tmp/hapax-test-serve-XXXXXX";
    char before[4096];
    struct hx_config config;
    struct hx_complaint complaint;
    (void)state;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(parse(&config, &complaint, (const char *const[]){NULL}), 1);
    assert_non_null(strstr(complaint.text, "there is no hapax.yaml here"));
    hx_config_fini(&config);
    FILE *file = fopen(HX_CONFIG_FILE_DEFAULT, "we");
    assert_non_null(file);
    fputs("upstreams: {a: {command: x}}\n", file);
    fclose(file);
    int rc = parse(&config, &complaint, (const char *const[]){NULL});
    unlink(HX_CONFIG_FILE_DEFAULT);
    assert_int_equal(chdir(before), 0);
    rmdir(directory);
    assert_int_equal(rc, 0);
    assert_string_equal(config.upstreams[0].name, "a");
    assert_string_equal(config.file, HX_CONFIG_FILE_DEFAULT);
    hx_config_fini(&config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_command),      cmocka_unit_test(one_url),
        cmocka_unit_test(refused),          cmocka_unit_test(beyond_loopback),
        cmocka_unit_test(help_is_asked),    cmocka_unit_test(the_example),
        cmocka_unit_test(the_default_file),
    };
    if (argc < 2)
        return 2;
    example = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
