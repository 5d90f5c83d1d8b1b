/* SPDX-License-Identifier: MIT */
/*
 * The configuration of `hapax serve`: what is read, and every refusal with its line and column.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/config.h"
#include "base/alloc.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define OTHER_HASH "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
#define GIT "upstreams:\n  git: {command: git-mcp}\n" /* two lines */

static int load(struct hx_config *config, struct hx_span text, struct hx_complaint *complaint)
{
    complaint->text[0] = '\0';
    hx_config_init(config);
    int rc = hx_config_parse(config, "f", text, complaint);
    return rc == 0 ? hx_config_check(config, complaint) : rc;
}

static void load_good(struct hx_config *config, const char *text)
{
    struct hx_complaint complaint;
    if (load(config, hx_span_cstr(text), &complaint) != 0)
        fail_msg("refused: %s\n%s", complaint.text, text);
}

struct refusal {
    const char *text;
    const char *complaint; /* how it begins */
};

static void check_refusals(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hx_config config;
        struct hx_complaint complaint;
        int rc = load(&config, hx_span_cstr(refusals[i].text), &complaint);
        if (rc != 1 ||
            strncmp(complaint.text, refusals[i].complaint, strlen(refusals[i].complaint)) != 0)
            fail_msg("%s\n  gave %d '%s'\n  not  1 '%s'", refusals[i].text, rc, complaint.text,
                     refusals[i].complaint);
        if (strstr(complaint.text, "SECRET") || strstr(complaint.text, "hpx_S"))
            fail_msg("a secret is in '%s'", complaint.text);
        hx_config_fini(&config);
    }
}

/* Everything that can be said, once, and where it ends up. */
static void a_whole_file(void **state)
{
    struct hx_config config;
    (void)state;
    load_good(&config, "listen: [\"127.0.0.1:0\", '[::1]:81', unix:/run/h.sock]\n"
                       "tls: {cert_file: /c.pem, key_file: /k.pem}\n"
                       "allowed_origins: https://a.example\n"
                       "allowed_hosts: [a.example, b.example]\n"
                       "log_level: debug\n"
                       "ledger: /var/lib/hapax\n"
                       "limits:\n"
                       "  session_idle: 5m\n"
                       "  body_max: 1MiB\n"
                       "tokens:\n"
                       "  alice: {sha256: " HASH ", tenant: acme, principal: al, servers: [git]}\n"
                       "  bob: {sha256: 'sha256:" OTHER_HASH "'}\n"
                       "defaults:\n"
                       "  affinity: shared\n"
                       "  hints: trust\n"
                       "  row_retention: 60d\n"
                       "  tools:\n"
                       "    get_*: {class: read_only}\n"
                       "upstreams:\n"
                       "  git:\n"
                       "    command: npx\n"
                       "    args: [-y, '']\n"
                       "    env: {A: '1', B: ''}\n"
                       "    cwd: /srv\n"
                       "    prefix: g.\n"
                       "    hints: ignore\n"
                       "    timeout: 90s\n"
                       "    tools:\n"
                       "      get_rich: {class: opaque}\n"
                       "      charge:\n"
                       "        class: keyed\n"
                       "        effect_key: _meta:k\n"
                       "        ignore: [/a, /b/c]\n"
                       "        no_effect_errors: [-32001, 'transient:*busy*']\n"
                       "  crm:\n"
                       "    url: https://crm.example/mcp\n"
                       "    headers: {X-A: b}\n"
                       "    affinity: principal\n");
}

/* Names that are not known, each with the one that was meant. */
static void unknown_names(void **state)
{
    static const struct refusal refusals[] = {
        {GIT "listn: 1\n",
         "f:3:1: there is no 'listn' in the configuration; did you mean 'listen'?"},
        {"upstreams:\n  git:\n    comand: x\n",
         "f:3:5: there is no 'comand' in an upstream; did you mean 'command'?"},
        {"upstreams:\n  git:\n    command: x\n    row-retention: 9d\n",
         "f:4:5: there is no 'row-retention' in an upstream; did you mean 'row_retention'?"},
    };
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file),
        cmocka_unit_test(unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
