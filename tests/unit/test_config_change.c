/* SPDX-License-Identifier: MIT */
/*
 * What a configuration that is read again may change. Each pair of texts differs in one thing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/config_change.h"

#define UPSTREAM(lines) "upstreams:\n  bank:\n" lines
#define BANK UPSTREAM("    command: bank\n")

struct pair {
    struct hx_config before;
    struct hx_config after;
};

static void load(struct hx_config *config, const char *text)
{
    struct hx_complaint complaint;
    hx_config_init(config);
    if (hx_config_parse(config, "f", hx_span_cstr(text), &complaint) != 0 ||
        hx_config_check(config, &complaint) != 0)
        fail_msg("refused: %s\n%s", complaint.text, text);
}

static void load_pair(struct pair *pair, const char *before, const char *after)
{
    load(&pair->before, before);
    load(&pair->after, after);
}

static void forget(struct pair *pair)
{
    hx_config_fini(&pair->before);
    hx_config_fini(&pair->after);
}

static void what_holds_for_the_life_of_a_process(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *after;
        const char *name; /* NULL: it may change */
    } rows[] = {
        {BANK, BANK, NULL},
        {BANK, BANK "log_level: debug\n", "log_level"},
        {BANK, BANK "ledger: /var/lib/x\n", "ledger"},
        {BANK "redact: [a, b]\n", BANK "redact: [b, c]\n", NULL},
        {BANK, BANK "limits:\n  sessions: 7\n", "sessions"},
        {BANK, BANK "listen: 127.0.0.1:9\n", "listen"},
        {BANK "listen: [127.0.0.1:9, 127.0.0.1:8]\n", BANK "listen: 127.0.0.1:9\n", "listen"},
        {BANK, BANK "tls: {cert_file: a, key_file: b}\n", "tls"},
        {BANK "tls: {cert_file: a, key_file: b}\n", BANK "tls: {cert_file: c, key_file: d}\n",
         NULL},
        {BANK, BANK "allowed_origins: [https://a.example]\n", "allowed_origins"},
        {BANK, BANK "allowed_hosts: [a.example]\n", "allowed_hosts"},
        {BANK, BANK "metrics: open\n", NULL},
        {BANK, UPSTREAM("    command: bank\n    message_max: 128MiB\n"),
         "a message_max or orphan_timeout above all that there were"},
        {BANK, UPSTREAM("    command: bank\n    message_max: 1MiB\n"), NULL},
        {UPSTREAM("    command: bank\n    message_max: 128MiB\n"),
         UPSTREAM("    command: bank\n    message_max: 127MiB\n"), NULL},
        {UPSTREAM("    command: bank\n    orphan_timeout: 1s\n"),
         UPSTREAM("    command: bank\n    orphan_timeout: 2s\n"),
         "a message_max or orphan_timeout above all that there were"},
        {BANK, BANK "  mail:\n    command: mail\n", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pair pair;
        load_pair(&pair, rows[i].before, rows[i].after);
        const char *name = hx_config_fixed_change(&pair.before, &pair.after);
        if ((name == NULL) != (rows[i].name == NULL) ||
            (name != NULL && strcmp(name, rows[i].name) != 0))
            fail_msg("row %zu: %s, not %s", i, name ? name : "-",
                     rows[i].name ? rows[i].name : "-");
        forget(&pair);
    }
}

static void which_upstream_is_another_one(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *after;
        bool is_same;
    } rows[] = {
        {"    command: bank\n", "    command: bank\n", true},
        {"    command: bank\n    args: [a, b]\n", "    command: bank\n    args: [a, b]\n", true},
        {"    command: bank\n    args: [a, b]\n", "    command: bank\n    args: [a]\n", false},
        {"    command: bank\n    args: [a]\n", "    command: bank\n    args: [a, b]\n", false},
        {"    command: bank\n", "    command: bank2\n", false},
        {"    command: bank\n", "    url: http://127.0.0.1/mcp\n", false},
        {"    url: http://127.0.0.1/mcp\n", "    url: http://127.0.0.1/mcp2\n", false},
        {"    command: bank\n", "    command: bank\n    env: {A: b}\n", false},
        {"    command: bank\n    env: {A: b}\n", "    command: bank\n    env: {A: c}\n", false},
        {"    command: bank\n", "    command: bank\n    cwd: /\n", false},
        {"    command: bank\n", "    command: bank\n    affinity: shared\n", false},
        {"    command: bank\n", "    command: bank\n    prefix: b_\n", false},
        {"    url: http://127.0.0.1/mcp\n    headers: {X: a}\n",
         "    url: http://127.0.0.1/mcp\n    headers: {X: b}\n", false},
        {"    command: bank\n", "    command: bank\n    timeout: 7s\n", false},
        /* What is said is another thing than what is only so. */
        {"    command: bank\n", "    command: bank\n    class: opaque\n", false},
        {"    command: bank\n    tools:\n      a: {class: opaque}\n",
         "    command: bank\n    tools:\n      a: {class: opaque}\n", true},
        {"    command: bank\n    tools:\n      a: {class: opaque}\n",
         "    command: bank\n    tools:\n      a: {class: idempotent}\n", false},
        {"    command: bank\n    tools:\n      a: {class: opaque}\n",
         "    command: bank\n    tools:\n      b: {class: opaque}\n", false},
        {"    command: bank\n", "    command: bank\n    tools:\n      a: {class: opaque}\n", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pair pair;
        char before[512], after[512];
        snprintf(before, sizeof(before), UPSTREAM("%s"), rows[i].before);
        snprintf(after, sizeof(after), UPSTREAM("%s"), rows[i].after);
        load_pair(&pair, before, after);
        if (hx_config_upstream_is_same(&pair.before.upstreams[0], &pair.after.upstreams[0]) !=
            rows[i].is_same)
            fail_msg("row %zu: %s%s", i, rows[i].before, rows[i].after);
        forget(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_for_the_life_of_a_process),
        cmocka_unit_test(which_upstream_is_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
