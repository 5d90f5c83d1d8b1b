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

/* All are looked at, so that one change shows all it did. */
static void check_refusals(const struct refusal *refusals, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        struct hx_config config;
        struct hx_complaint complaint;
        int rc = load(&config, hx_span_cstr(refusals[i].text), &complaint);
        const char *wanted = refusals[i].complaint;
        if (rc != 1 || strncmp(complaint.text, wanted, strlen(wanted)) != 0) {
            print_error("%s\n  gave %d '%s'\n  not  1 '%s'\n", refusals[i].text, rc, complaint.text,
                        wanted);
            wrong++;
        }
        if (strstr(complaint.text, "SECRET") || strstr(complaint.text, "hpx_S"))
            fail_msg("a secret is in '%s'", complaint.text);
        hx_config_fini(&config);
    }
    if (wrong > 0)
        fail_msg("%zu of %zu refusals are not as they should be", wrong, count);
}

/* Everything that can be said, once. */
static const char whole_file[] =
    "listen: [\"127.0.0.1:0\", '[::1]:81', unix:/run/h.sock]\n"
    "tls: {cert_file: /c.pem, key_file: /k.pem}\n"
    "allowed_origins: https://a.example\n"
    "allowed_hosts: [a.example, b.example]\n"
    "log_level: debug\n"
    "ledger: /var/lib/hapax\n"
    "limits:\n"
    "  session_idle: 5m\n"
    "  body_max: 1MiB\n"
    "tokens:\n"
    "  alice: {sha256: " HASH ", tenant: acme, principal: al, servers: [git], metrics: on}\n"
    "  bob: {sha256: 'sha256:" OTHER_HASH "'}\n"
    "metrics: open\n"
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
    "    affinity: principal\n";

static void a_whole_file(void **state)
{
    struct hx_config config;
    (void)state;
    load_good(&config, whole_file);
    assert_int_equal(config.listen_count, 3);
    assert_string_equal(config.listens[0].host, "127.0.0.1");
    assert_int_equal(config.listens[0].port, 0);
    assert_string_equal(config.listens[1].host, "::1");
    assert_int_equal(config.listens[1].port, 81);
    assert_string_equal(config.listens[2].path, "/run/h.sock");
    for (size_t i = 0; i < 3; i++)
        assert_true(config.listens[i].is_loopback);
    assert_string_equal(config.tls_cert_file, "/c.pem");
    assert_string_equal(config.tls_key_file, "/k.pem");
    assert_int_equal(config.allowed_origins.count, 1);
    assert_int_equal(config.allowed_hosts.count, 2);
    assert_true(hx_span_eq_cstr(config.allowed_hosts.items[1], "b.example"));
    assert_int_equal(config.global.log_level, HX_CHOICE_log_level_DEBUG);
    assert_string_equal(config.global.ledger, "/var/lib/hapax");
    assert_int_equal(config.limits.session_idle, 300000);
    assert_int_equal(config.limits.body_max, 1 << 20);
    assert_int_equal(config.limits.connections, 4096);
    assert_int_equal(config.metrics, HX_METRICS_OPEN);
    assert_true(config.tokens[0].may_read_metrics);
    assert_false(config.tokens[1].may_read_metrics);
    assert_null(config.warnings);
    hx_config_fini(&config);
}

static void upstreams_and_their_settings(void **state)
{
    struct hx_config config;
    (void)state;
    load_good(&config, whole_file);
    assert_int_equal(config.upstream_count, 2);
    const struct hx_config_upstream *git = hx_config_upstream(&config, HX_SPAN_LIT("git"));
    const struct hx_config_upstream *crm = hx_config_upstream(&config, HX_SPAN_LIT("crm"));
    assert_non_null(git);
    assert_non_null(crm);
    assert_null(hx_config_upstream(&config, HX_SPAN_LIT("gi")));
    assert_string_equal(git->command[0], "npx");
    assert_string_equal(git->command[1], "-y");
    assert_string_equal(git->command[2], "");
    assert_null(git->command[3]);
    assert_string_equal(git->env[0], "A=1");
    assert_string_equal(git->env[1], "B=");
    assert_null(git->env[2]);
    assert_string_equal(git->cwd, "/srv");
    assert_string_equal(git->prefix, "g.");
    assert_string_equal(crm->prefix, "crm_");
    assert_null(crm->command);
    assert_string_equal(crm->url, "https://crm.example/mcp");
    assert_string_equal(crm->headers[0], "X-A: b");
    assert_null(crm->headers[1]);
    assert_int_equal(git->affinity, HX_AFFINITY_SHARED); /* from defaults */
    assert_int_equal(crm->affinity, HX_AFFINITY_PRINCIPAL);
    assert_string_equal(git->settings.name, "git");
    assert_int_equal(git->settings.hints, HX_CHOICE_hints_IGNORE);
    assert_int_equal(crm->settings.hints, HX_CHOICE_hints_TRUST);
    struct hx_tool_settings charge = hx_settings_for_tool(&git->settings, HX_SPAN_LIT("charge"));
    assert_int_equal(charge.class, HX_CHOICE_class_KEYED);
    assert_int_equal(charge.effect_key.kind, HX_KEY_PLACE_META);
    assert_string_equal(charge.effect_key.text, "k");
    assert_int_equal(charge.timeout, 90000);
    assert_int_equal(charge.row_retention, INT64_C(60) * 86400000);
    assert_int_equal(charge.ignore.count, 2);
    assert_int_equal(charge.no_effect_errors.count, 2);
    assert_true(charge.no_effect_errors.items[1].is_transient);
    /* An upstream's exact name is stronger than the pattern of all. */
    struct hx_tool_settings rich = hx_settings_for_tool(&git->settings, HX_SPAN_LIT("get_rich"));
    struct hx_tool_settings other = hx_settings_for_tool(&crm->settings, HX_SPAN_LIT("get_rich"));
    assert_int_equal(rich.class, HX_CHOICE_class_OPAQUE);
    assert_int_equal(other.class, HX_CHOICE_class_READ_ONLY);
    hx_config_fini(&config);
}

/* The rows of the limits are those of the HTTP server, with its own values as defaults. */
static void limits_are_those_of_the_server(void **state)
{
    struct hx_limits limits;
    (void)state;
    hx_limits_init(&limits);
    struct hx_http_server_options ours = hx_limits_http_server(&limits);
    struct hx_http_server_options theirs = hx_http_server_defaults();
#define HX_LIMIT_HTTP(field, type, option, initial, min, max, help)                                \
    assert_int_equal(ours.option, theirs.option);                                                  \
    assert_true((int64_t)(__typeof__(ours.option))(max) == (max)); /* it fits */
#include "tables/limits.def"
    /* None is forgotten: what is not covered is padding. */
    size_t covered = 0;
#define HX_LIMIT_HTTP(field, type, option, initial, min, max, help) covered += sizeof(ours.option);
#include "tables/limits.def"
    assert_int_equal(sizeof(ours) - covered, 8); /* behind each of the two counts */
}

/* Names that are not known, each with the one that was meant, and names in the wrong place. */
static void names(void **state)
{
    static const struct refusal refusals[] = {
        {GIT "listn: 1\n",
         "f:3:1: there is no 'listn' in the configuration; did you mean 'listen'?"},
        {GIT "colour: blue\n", "f:3:1: there is no 'colour' in the configuration"},
        {"upstreams:\n  git:\n    comand: x\n",
         "f:3:5: there is no 'comand' in an upstream; did you mean 'command'?"},
        {"upstreams:\n  git:\n    command: x\n    row-retention: 9d\n",
         "f:4:5: row_retention is written with underscores in a file"},
        {"upstreams:\n  git: {command: x, log_level: info}\n",
         "f:2:21: log_level holds for the whole process; write it at the top of the file, not in "
         "an upstream"},
        {GIT "hints: trust\n", "f:3:1: hints holds for a whole upstream; write it there or under "
                               "'defaults', not in the configuration"},
        {GIT "timeout: 5s\n", "f:3:1: timeout holds for tools; write it into an upstream, its "
                              "'tools' or 'defaults', not in the configuration"},
        {"upstreams:\n  git: {command: x, tools: {a: {hints: trust}}}\n",
         "f:2:33: hints holds for a whole upstream; write it there or under 'defaults', not in the "
         "settings of tools"},
        {"upstreams:\n  git: {command: x, tools: {a: {clas: opaque}}}\n",
         "f:2:33: there is no 'clas' in the settings of tools; did you mean 'class'?"},
        {"upstreams:\n  git: {command: x, max_retries: 3}\n",
         "f:2:21: there is no setting 'max_retries': a call that timed out may have acted"},
        {"upstreams:\n  git: {command: x, name: y}\n",
         "f:2:21: name: an upstream's name is what it stands under, here 'git'"},
        {"defaults: {name: y}\n" GIT, "f:1:12: name: upstreams have a name each"},
        {"defaults: {command: y}\n" GIT, "f:1:12: there is no 'command' in defaults"},
        {GIT "limits: {conections: 3}\n",
         "f:3:10: there is no 'conections' in limits; did you mean 'connections'?"},
        {GIT "tls: {cert: 3}\n", "f:3:7: there is no 'cert' in tls; did you mean 'cert_file'?"},
        {GIT "tokens:\n  a: {sha265: x}\n",
         "f:4:7: there is no 'sha265' in a token; did you mean 'sha256'?"},
        {"upstreams:\n  Git: {command: x}\n", "f:2:3: 'Git' is no name for an upstream; give 1 to "
                                              "64 of a-z, 0-9, _ and -"},
        {"upstreams:\n  git: {command: x}\n  git: {command: y}\n",
         "f:3:3: 'git' stands here a second time; the first is in line 2"},
        {"upstreams:\n  git:\n    command: x\n    timeout: 5s\n    command: y\n",
         "f:5:5: 'command' stands here a second time; the first is in line 3"},
        {"{\"upstreams\": {\"a\": {\"command\": \"x\",\n  \"\\u0063ommand\": \"y\"}}}",
         "f:2:3: 'command' stands here a second time; the first is in line 1"},
    };
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
}

/* Values, each at its own place and not at its name's. */
static void values(void **state)
{
    static const struct refusal refusals[] = {
        {"upstreams:\n  git:\n    command: x\n    timeout: 5\n",
         "f:4:14: timeout: '5' is not possible; give a duration with its unit"},
        {"upstreams:\n  git:\n    command: x\n    timeout:\n",
         "f:4:13: timeout has no value; leave it out, or write none"},
        {"upstreams:\n  git:\n    command: x\n    attempts: null\n",
         "f:4:15: attempts has no value; leave it out for the default"},
        {"upstreams:\n  git:\n    command: x\n    timeout: [5s]\n",
         "f:4:14: timeout must be a text, but a list stands here"},
        {"upstreams:\n  git: {command: x, class: {a: b}}\n",
         "f:2:28: class must be a text, but a mapping (name: value) stands here"},
        {"upstreams:\n  git: {command: x, class: oppaque}\n",
         "f:2:28: class: 'oppaque' is not possible; choose opaque, idempotent, keyed, probeable, "
         "read_only (did you mean opaque?)"},
        {"upstreams:\n  git: {command: x, ignore: [/a, 'b']}\n",
         "f:2:29: ignore: 'b' is not possible"},
        {"upstreams:\n  git: {command: x, ignore: [/a, '/b,/c']}\n",
         "f:2:34: an entry must not hold a comma"},
        {"upstreams:\n  git: {command: x, tools: {a: {attempts: 1000}}}\n",
         "f:2:43: the rule for 'a': attempts: '1000' is not possible; give a whole number from 1 "
         "to 100"},
        {"upstreams:\n  git: {command: x, tools: {a: }}\n", "f:2:32: 'a' sets nothing"},
        {"upstreams:\n  git: {command: x, tools: {'a b': {class: opaque}}}\n",
         "f:2:29: a tool's name, or a pattern of them"},
        {"upstreams:\n  git: {command: x, tools: [a]}\n",
         "f:2:28: tools must be a mapping (name: value), but a list stands here"},
        {"upstreams:\n  git: {command: x, affinity: all}\n",
         "f:2:31: affinity: 'all' is not possible; choose session, principal, shared"},
        {"upstreams:\n  git: {command: x, prefix: 'a b'}\n",
         "f:2:29: prefix: 'a b' is not possible"},
        {"upstreams:\n  git: npx\n",
         "f:2:8: an upstream must be a mapping (name: value), but a text stands here"},
        {"upstreams: [git]\n", "f:1:12: upstreams must be a mapping"},
        {"log_level: loud\n" GIT, "f:1:12: log_level: 'loud' is not possible; choose error, warn"},
        {"limits: {connections: 0}\n" GIT,
         "f:1:23: connections: '0' is not possible; give a whole number from 1 to 1000000"},
        {"limits: {body_max: 1}\n" GIT, "f:1:20: body_max: '1' is not possible; give a size"},
        {"limits: {session_idle: 60}\n" GIT,
         "f:1:24: session_idle: '60' is not possible; give a duration with its unit"},
        {"limits: {connections: }\n" GIT, "f:1:23: connections must be a text, but nothing"},
        {"tls: {cert_file: /c.pem}\n" GIT, "f:1:1: tls needs both cert_file and key_file"},
        {"tls: {cert_file: '', key_file: k}\n" GIT,
         "f:1:18: cert_file must be a text that is not empty"},
        {"allow_anonymous: maybe\n" GIT,
         "f:1:18: allow_anonymous: 'maybe' is not possible; say on or off"},
        {"allowed_hosts: {a: b}\n" GIT,
         "f:1:16: allowed_hosts must be a text or a list of texts, but a mapping"},
        {"allowed_hosts: [a, [b]]\n" GIT, "f:1:20: allowed_hosts must be a text, but a list"},
    };
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
}

static void where_upstreams_go(void **state)
{
    static const struct refusal refusals[] = {
        {"log_level: info\n", "f: there is no upstream; name one below 'upstreams'"},
        {"upstreams:\n", "f: there is no upstream"},
        {"upstreams: {git: {}}\n", "f:1:13: the upstream 'git' has neither a command nor a url"},
        {"upstreams:\n  git: {command: x, url: https://x}\n",
         "f:2:21: the upstream 'git' has both a command and a url; keep one"},
        {"upstreams:\n  git: {url: https://x, cwd: /}\n",
         "f:2:25: cwd belongs to a command, but 'git' has a url"},
        {"upstreams:\n  git: {command: x, headers: {A: SECRET}}\n",
         "f:2:21: headers belong to a url, but 'git' has a command"},
        {"upstreams:\n  git: {url: ftp://x}\n", "f:2:14: url must begin with http:// or https://"},
        {"upstreams:\n  git: {url: 'https://'}\n", "f:2:14: url must begin with"},
        {"upstreams:\n  git: {url: 'https://u:SECRET@x/mcp'}\n",
         "f:2:14: url must not hold a user name or password"},
        {"upstreams:\n  git: {command: [a]}\n", "f:2:18: command must be a text, but a list"},
        {"upstreams:\n  git: {command: x, args: -y}\n",
         "f:2:27: args must be a list, but a text stands here"},
        {"upstreams:\n  git: {command: x, args: [[SECRET]]}\n",
         "f:2:28: every entry of args must be a text"},
        {"upstreams:\n  git: {command: x, env: [A=SECRET]}\n",
         "f:2:26: env must be a mapping (name: value), but a list stands here"},
        {"upstreams:\n  git: {command: x, env: {A=SECRET: b}}\n",
         "f:2:27: env: this name must not be empty nor have control bytes or '='"},
        {"upstreams:\n  git: {command: x, env: {A: [SECRET]}}\n",
         "f:2:30: env: 'A' must have a text as value"},
        {"upstreams:\n  git: {url: https://x, headers: {A: \"SECRET\\nB: c\"}}\n",
         "f:2:38: headers: the value of 'A' has control bytes"},
        {"upstreams:\n  a: {command: x}\n  a_b: {command: y}\n",
         "f:3:3: at /mcp the names of 'a' begin with 'a_' and those of 'a_b' with 'a_b_', so a "
         "tool of both could have one name"},
        {"upstreams:\n  a_b: {command: x}\n  a: {command: y}\n",
         "f:3:3: at /mcp the names of 'a' begin with 'a_' and those of 'a_b' with 'a_b_'"},
        {"upstreams:\n  b: {command: x, prefix: ''}\n  a: {command: y}\n",
         "f:3:3: at /mcp the names of 'b' begin with '' and those of 'a' with 'a_'"},
        {"upstreams:\n  a: {command: x, prefix: z}\n  b: {command: y, prefix: z}\n",
         "f:3:3: at /mcp the names of 'a' begin with 'z' and those of 'b' with 'z'"},
    };
    struct hx_config config;
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
    load_good(&config, "upstreams:\n  a: {command: x}\n  ab: {command: y}\n");
    hx_config_fini(&config);
    load_good(&config, "upstreams: {a: {command: x, prefix: ''}}");
    hx_config_fini(&config);
}

/* What contradicts itself or a promise, at the upstream that says it. */
static void promises(void **state)
{
    static const struct refusal refusals[] = {
        {"upstreams:\n  git:\n    command: x\n    tools:\n      pay: {class: keyed}\n",
         "f:5:7: upstream 'git': tool 'pay': class=keyed needs effect_key"},
        {"upstreams:\n  git: {command: x, attempts: 3, class: opaque}\n",
         "f:2:3: upstream 'git': for all tools: attempts=3 asks to send a call again"},
        {"upstreams:\n  git: {command: x, row_retention: 8d, retry_horizon: 3d}\n",
         "f:2:3: upstream 'git': for all tools: row_retention=8d is less than four times "
         "retry_horizon=3d"},
        {"upstreams:\n  git: {command: x, retention: 1h, row_retention: 3h, repeat_window: 1h}\n",
         "f:2:3: upstream 'git': for all tools: row_retention=3h is less than four times "
         "repeat_window=1h"},
        {"defaults: {stuck_timeout: 1s}\nupstreams:\n  git: {command: x}\n",
         "f:3:3: upstream 'git': stuck_timeout is shorter than stall_timeout"},
    };
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
}

static void who_may_come(void **state)
{
    static const struct refusal refusals[] = {
        {GIT "listen: 0.0.0.0:80\n",
         "f:3:9: listen: 0.0.0.0:80 can be reached from other machines, and without tokens"},
        {GIT "listen: ['[::]:80']\n", "f:3:10: listen: [::]:80 can be reached"},
        {GIT "listen: localhost:x\n", "f:3:9: listen: 'localhost:x' is not possible; give HOST"},
        {GIT "listen: tools.example:80\n", "f:3:9: listen: 'tools.example:80' is not possible"},
        {GIT "listen: 127.0.0.1:65536\n", "f:3:9: listen: '127.0.0.1:65536' is not possible"},
        {GIT "listen: '::1:80'\n", "f:3:9: listen: '::1:80' is not possible"},
        {GIT "listen: 'unix:'\n", "f:3:9: listen: 'unix:' is not possible"},
        {GIT "listen: [80, 127.0.0.1:80]\n", "f:3:14: listen: '127.0.0.1:80' stands twice"},
        {GIT "listen: {a: b}\n", "f:3:9: listen must be a text or a list of texts"},
        {GIT "tokens:\n  a: {}\n", "f:4:3: this token has neither sha256 nor token_file"},
        {GIT "tokens:\n  a: {sha256: " HASH ", token_file: x}\n",
         "f:4:81: a token has either sha256 or token_file"},
        {GIT "tokens:\n  a: {sha256: abc}\n", "f:4:15: sha256 must be 64 hex digits"},
        {GIT "tokens:\n  a: {sha256: hpx_SECRET}\n", "f:4:15: sha256: this is a token itself"},
        {GIT "tokens:\n  hpx_SECRET: {sha256: " HASH "}\n",
         "f:4:3: a token stands here in the place of its name"},
        {GIT "tokens:\n  a: hpx_SECRET\n", "f:4:6: a token must be a mapping"},
        {GIT "tokens:\n  a: {sha256: " HASH ", hpx_SECRET: x}\n",
         "f:4:81: there is no 'hpx_...' in a token"},
        {GIT "tokens:\n  a: {sha256: " HASH "}\n  b: {sha256: " HASH "}\n",
         "f:5:3: this is the token of line 4 once more"},
        {GIT "tokens:\n  a: {sha256: " HASH ", metrics: maybe}\n", "f:4:90: metrics"},
        {GIT "metrics: public\n", "f:3:10: metrics: 'public' is not possible; choose tokens"},
        {GIT "metrics: [open]\n", "f:3:10: metrics"},
        {GIT "tokens:\n  a: {sha256: " HASH ", servers: [gti]}\n",
         "f:4:3: the token 'a' is for the upstream 'gti', which there is not"},
        {GIT "tokens:\n  a: {sha256: " HASH ", tenant: 'a b'}\n",
         "f:4:89: tenant must have at most 128 bytes and no spaces"},
        {GIT "tokens:\n  a: {token_file: /nowhere/hapax}\n",
         "f:4:19: token_file: '/nowhere/hapax': No such file or directory"},
        {GIT "tokens:\n  a: {token_file: /dev/null}\n",
         "f:4:19: token_file: '/dev/null' does not hold one token"},
    };
    struct hx_config config;
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
    load_good(&config, GIT "listen: 0.0.0.0:80\nallow_anonymous: yes\n");
    assert_null(config.warnings);
    hx_config_fini(&config);
    load_good(&config, GIT "listen: 0.0.0.0:80\ntokens: {a: {sha256: " HASH "}}\n");
    assert_non_null(config.warnings);
    assert_non_null(strstr(config.warnings->text, "f:3:9: listen: 0.0.0.0:80 has no TLS"));
    hx_config_fini(&config);
    load_good(&config, GIT);
    assert_int_equal(config.listen_count, 1);
    assert_string_equal(config.listens[0].text, HX_LISTEN_DEFAULT);
    hx_config_fini(&config);
}

/* Which addresses only this machine reaches. */
static void loopback(void **state)
{
    static const struct {
        const char *address;
        bool is_loopback;
    } rows[] = {
        {"127.0.0.1:1", true},
        {"127.255.0.9:1", true},
        {"126.255.255.255:1", false},
        {"128.0.0.1:1", false},
        {"10.0.0.1:1", false},
        {"192.168.0.1:1", false},
        {"0.0.0.0:1", false},
        {"[::1]:1", true},
        {"[::]:1", false},
        {"[fe80::1]:1", false},
        {"[::2]:1", false},
        {"[::ffff:127.0.0.1]:1", true},
        {"[::ffff:8.8.8.8]:1", false},
        {"localhost:1", true},
        {"7332", true},
        {"unix:/s", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hx_config config;
        struct hx_complaint complaint;
        hx_config_init(&config);
        int rc = hx_config_add_listen(&config, hx_span_cstr(rows[i].address),
                                      (struct hx_mark){0, 0}, NULL, &complaint);
        if (rc != 0 || config.listens[0].is_loopback != rows[i].is_loopback)
            fail_msg("%s: %d, loopback %d", rows[i].address, rc,
                     rc == 0 && config.listens[0].is_loopback);
        hx_config_fini(&config);
    }
}

/* What YAML and JSON would allow, and files that are none. */
static void texts(void **state)
{
    static const struct refusal refusals[] = {
        {"", "f: there is nothing in this file"},
        {"# nothing\n", "f: there is nothing in this file"},
        {"- a\n", "f:1:1: a configuration must be a mapping"},
        {"a: b\n c: d\n", "f:2:3: this is not YAML: mapping values are not allowed"},
        {"a: [b\n", "f:2:1: this is not YAML: did not find expected ',' or ']'"},
        {"a: \"b\n", "f:2:1: this is not YAML: found unexpected end of stream"},
        {"\ta: b\n", "f:1:1: this is not YAML: found character that cannot start any token"},
        {"a: \"\\z\"\n", "f:1:5: this is not YAML: found unknown escape character"},
        {"a: &x [1]\nb: *x\n", "f:1:4: anchors (&name) are not read"},
        {"a: *x\n", "f:1:4: aliases (*name) are not read"},
        {"a: !!str x\n", "f:1:4: tags (!name) are not read"},
        {"<<: {a: b}\n", "f:1:1: '<<' is not read"},
        {"? [a]\n: b\n", "f:1:3: a name must stand here"},
        {"a: b\n---\nc: d\n", "f:2:1: a second document begins here"},
        {"a: \"\\0\"\n", "f:1:4: a text must not hold the character NUL"},
        {"{\"a\": \"\\u0000\"}", "f:1:7: a text must not hold the character NUL"},
        {"{\"a\": \"\\ud800\"}", "f:1:7: this text holds half of a surrogate pair"},
        {"[[[[[[[[[[[[[[[[[[[", "f:1:17: nothing in a configuration is nested so deeply"},
        {"{a: b}", "f:1:2: this is not JSON, and a file that begins with { must be: "},
        {"{\"a\": 1,\n \"b\": 2,}", "f:2:9: this is not JSON"},
        {"a: b\xff\n", "f:1:5: this byte is not UTF-8"},
        {"\xc3\xa9: \xc0\xaf\n", "f:1:4: this byte is not UTF-8"},
        {"a: b\x01\n", "f:1:5: this is not YAML: control characters are not allowed"},
    };
    struct hx_config config;
    struct hx_complaint complaint;
    (void)state;
    check_refusals(refusals, COUNT_OF(refusals));
    assert_int_equal(load(&config, hx_span("a: b\n\0c", 7), &complaint), 1);
    assert_string_equal(complaint.text, "f:2:1: this is the byte NUL, which no text file holds");
    hx_config_fini(&config);
    load_good(&config, "\xef\xbb\xbf" GIT); /* what some editors put in front */
    hx_config_fini(&config);
}

/* Small files that would become large, and large ones. */
static void sizes(void **state)
{
    static const char bomb[] = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
    struct hx_config config;
    struct hx_complaint complaint;
    (void)state;
    assert_int_equal(load(&config, hx_span_cstr(bomb), &complaint), 1);
    assert_non_null(strstr(complaint.text, "f:1:4: anchors (&name) are not read"));
    hx_config_fini(&config);

    size_t size = HX_CONFIG_BYTES_MAX + 1;
    char *large = hx_new_bytes(size);
    memset(large, ' ', size);
    memcpy(large, GIT, sizeof(GIT) - 1);
    large[sizeof(GIT) - 2] = '\n';
    large[sizeof(GIT) - 1] = '#';
    assert_int_equal(load(&config, hx_span(large, size - 1), &complaint), 0);
    hx_config_fini(&config);
    assert_int_equal(load(&config, hx_span(large, size), &complaint), 1);
    assert_string_equal(complaint.text, "f: the file is larger than 1 MiB, the most that is read");
    hx_config_fini(&config);

    /* Many entries: told, and not slowly. */
    for (size_t i = 0; i + 2 <= size - 1; i += 2)
        memcpy(large + i, i == 0 ? "[[" : "1,", 2);
    assert_int_equal(load(&config, hx_span(large, size - 1), &complaint), 1);
    assert_non_null(strstr(complaint.text, "more than 2000 entries stand here"));
    hx_config_fini(&config);
    hx_free(large);
}

/* The file of an editor, as it is: what is ours is read, what is the editor's is mentioned. */
static void an_editors_file(void **state)
{
    static const char text[] = "{\n"
                               " \"mcpServers\": {\n"
                               "  \"My Server\": {\"command\": \"npx\", \"args\": [\"-y\", "
                               "\"a\\/b\"], \"autoApprove\": []},\n"
                               "  \"crm\": {\"type\": \"sse\", \"url\": \"https://x/mcp\", "
                               "\"headers\": {\"A\": \"b\"}},\n"
                               "  \"old\": {\"command\": \"y\", \"disabled\": true}\n"
                               " },\n"
                               " \"theme\": \"\\ud83d\\ude00\"\n"
                               "}\n";
    static const char *const warnings[] = {
        "f:7:2: 'theme' is passed over",
        "f:3:3: the server 'My Server' is the upstream 'my-server'",
        "f:3:59: 'autoApprove' of the server 'my-server' is passed over",
        "f:5:39: the server 'old' is switched off here",
    };
    static const struct refusal refusals[] = {
        {"{\"mcpServers\": {\"a\": {\"type\": \"sse\", \"command\": \"x\"}}}",
         "f:1:31: a server of type 'sse' needs a url"},
        {"{\"mcpServers\": {\"a\": {\"type\": \"ws\", \"url\": \"https://x\"}}}",
         "f:1:31: type: 'ws' is not possible"},
        {"{\"mcpServers\": {\"a\": {\"type\": \"stdio\", \"url\": \"https://x\"}}}",
         "f:1:31: a server of type 'stdio' needs a command"},
        {"{\"mcpServers\": {\"a\": {\"args\": []}}}",
         "f:1:17: the upstream 'a' has neither a command nor a url"},
        {"{\"mcpServers\": {\"A\": {\"command\": \"x\"},\n \"a\": {\"command\": \"x\"}}}",
         "f:2:2: 'a' becomes the upstream 'a', and so does the name in line 1"},
        {"{\"mcpServers\": {}}", "f: there is no upstream"},
        {"{\"mcpServers\": []}", "f:1:16: mcpServers must be a mapping"},
    };
    struct hx_config config;
    (void)state;
    load_good(&config, text);
    assert_int_equal(config.upstream_count, 2);
    assert_string_equal(config.upstreams[0].name, "my-server");
    assert_string_equal(config.upstreams[0].command[2], "a/b");
    assert_string_equal(config.upstreams[1].headers[0], "A: b");
    assert_int_equal(config.upstreams[1].settings.transport, HX_CHOICE_transport_SSE);
    const struct hx_config_warning *warning = config.warnings;
    for (size_t i = 0; i < COUNT_OF(warnings); i++, warning = warning->next) {
        assert_non_null(warning);
        assert_string_equal(warning->text, warnings[i]);
    }
    assert_null(warning);
    hx_config_fini(&config);
    check_refusals(refusals, COUNT_OF(refusals));
}

/* Whatever allocation is refused, the file is refused with a sentence, and nothing is lost. */
static void without_memory(void **state)
{
    unsigned long refused = 0;
    (void)state;
    for (unsigned long n = 1;; n++) {
        struct hx_config config;
        struct hx_complaint complaint;
        hx_config_init(&config);
        hx_alloc_fail_at(n);
        int rc = hx_config_parse(&config, "f", hx_span_cstr(whole_file), &complaint);
        hx_alloc_fail_at(0);
        hx_config_fini(&config);
        if (rc == 0)
            break;
        assert_int_equal(rc, 1);
        assert_true(strlen(complaint.text) > 10);
        refused++;
        assert_true(refused < 10000);
    }
    assert_true(refused > 3);
}

static size_t warning_count(const struct hx_config *config)
{
    size_t count = 0;
    for (const struct hx_config_warning *at = config->warnings; at; at = at->next)
        count++;
    return count;
}

/* One tool forgot what its siblings have (field case 11); and ${X} is not what it is elsewhere. */
static void advice(void **state)
{
    struct hx_config config;
    (void)state;
    load_good(&config, "upstreams:\n"
                       "  bank:\n"
                       "    command: bank-mcp\n"
                       "    args: ['${HOME}/x']\n"
                       "    tools:\n"
                       "      pay: {class: keyed, effect_key: /key}\n"
                       "      withdraw: {timeout: 90s}\n"
                       "      post: {inject_key: /key}\n"
                       "      mail: {class: opaque}\n"
                       "      get_*: {class: read_only}\n"
                       "      fetch: {repeat: require_key}\n");
    hx_config_advise(&config);
    assert_int_equal(warning_count(&config), 2);
    assert_non_null(strstr(config.warnings->text, "f:4:12: args: '${...}' is passed on"));
    assert_non_null(strstr(config.warnings->next->text,
                           "f:7:7: upstream 'bank': nothing says what may be done with a lost "
                           "answer of 'withdraw', while 'pay' takes a key"));
    hx_config_fini(&config);
    load_good(&config,
              "upstreams: {bank: {command: x, class: opaque, tools: {a: {timeout: 1s}}}}\n");
    hx_config_advise(&config);
    assert_int_equal(warning_count(&config), 0);
    hx_config_fini(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file),
        cmocka_unit_test(upstreams_and_their_settings),
        cmocka_unit_test(limits_are_those_of_the_server),
        cmocka_unit_test(names),
        cmocka_unit_test(values),
        cmocka_unit_test(where_upstreams_go),
        cmocka_unit_test(promises),
        cmocka_unit_test(who_may_come),
        cmocka_unit_test(loopback),
        cmocka_unit_test(texts),
        cmocka_unit_test(sizes),
        cmocka_unit_test(an_editors_file),
        cmocka_unit_test(advice),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
