/* SPDX-License-Identifier: MIT */
#include "app/call_options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "app/number.h"
#include "core/key.h"

enum { POSITIONALS_MAX = 4 }; /* one more than any form has, to name it in the complaint */

struct words {
    struct hx_call_options *options;
    char *items[POSITIONALS_MAX];
    int places[POSITIONALS_MAX];
    int count;
    bool is_all;
    bool is_show;
};

static int take_config(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct hx_call_options *options = ((struct words *)context)->options;
    if (value.len == 0)
        return hx_complain(complaint, "--config needs the name of a file");
    options->config_path = value.ptr;
    return 0;
}

static int take_key(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct hx_call_options *options = ((struct words *)context)->options;
    const char *flaw = hx_key_flaw(value);
    if (flaw != NULL)
        return hx_complain(complaint, "--key: %s", flaw);
    options->key = value.ptr;
    return 0;
}

static int take_wait(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct hx_call_options *options = ((struct words *)context)->options;
    options->is_wait_given = true;
    if (hx_span_eq_cstr(value, "none")) {
        options->wait_ms = -1;
        return 0;
    }
    if (!hx_duration_parse(value, &options->wait_ms))
        return hx_complain(complaint,
                           "--wait: '%.40s' is no time; write a number with ms, s, m, h or d, or "
                           "none",
                           value.ptr);
    return 0;
}

static int take_json(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    (void)complaint;
    ((struct words *)context)->options->is_json = hx_span_eq_cstr(value, "on");
    return 0;
}

static int take_resume(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    if (!hx_span_eq_cstr(value, "on"))
        return hx_complain(complaint, "write the key behind a blank: --resume %.255s", value.ptr);
    ((struct words *)context)->options->action = HX_CALL_RESUME;
    return 0;
}

static int take_give_up(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    if (!hx_span_eq_cstr(value, "on"))
        return hx_complain(complaint, "write the key behind a blank: --give-up %.255s", value.ptr);
    ((struct words *)context)->options->action = HX_CALL_GIVE_UP;
    return 0;
}

static int take_all(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    (void)complaint;
    ((struct words *)context)->is_all = hx_span_eq_cstr(value, "on");
    return 0;
}

static int take_show(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    (void)complaint;
    ((struct words *)context)->is_show = hx_span_eq_cstr(value, "on");
    return 0;
}

static const struct hx_extra_option extras[] = {
    {"config", false, take_config}, {"key", false, take_key},
    {"wait", false, take_wait},     {"json", true, take_json},
    {"resume", true, take_resume},  {"give_up", true, take_give_up},
    {"all", true, take_all},        {"show_settings", true, take_show},
};

/* Options and other words in any order, up to "--" or the end. *ret_used: where the command
 * stands. */
static int read_words(int argc, char **argv, struct words *words, int *ret_used,
                      struct hx_complaint *complaint)
{
    const struct hx_option_words table = {.command = "call",
                                          .extras = extras,
                                          .extra_count = sizeof(extras) / sizeof(extras[0]),
                                          .context = words};
    int at = 1;
    while (at < argc) {
        int used = 0;
        int rc = hx_options_read(argc - at + 1, argv + at - 1, &table, &words->options->given,
                                 &used, complaint);
        if (rc != 0)
            return rc;
        at += used - 1;
        if (used > 1 && strcmp(argv[at - 1], "--") == 0)
            break;
        if (at == argc)
            break;
        if (words->count == POSITIONALS_MAX)
            return hx_complain(complaint,
                               "'%.80s' is one word too many; write the arguments of the tool as "
                               "one word of JSON, in quotes",
                               argv[at]);
        words->places[words->count] = at;
        words->items[words->count++] = argv[at++];
    }
    *ret_used = at;
    return 0;
}

/* ---- the target ---- */

static int use_url(struct hx_call_options *options, const char *url, struct hx_complaint *complaint)
{
    const char *refusal = hx_url_refusal(url);
    if (refusal != NULL)
        return hx_complain(complaint, "%s", refusal);
    options->url = url;
    options->settings = &options->given;
    return hx_settings_check(options->settings, complaint);
}

static int use_name(struct hx_call_options *options, const char *name,
                    struct hx_complaint *complaint)
{
    const char *path = options->config_path ? options->config_path : HX_CONFIG_FILE_DEFAULT;
    if (!options->config_path && access(path, F_OK) != 0 && errno == ENOENT)
        return hx_complain(complaint,
                           "'%.80s' is no URL, and there is neither --config nor a file " //
                           HX_CONFIG_FILE_DEFAULT " here that could name it. A server's own "
                           "command stands behind '--':\n"
                           "  hapax call TOOL JSON -- npx -y @example/server",
                           name);
    int rc = hx_options_refuse_beside_file(&options->given, path, complaint);
    if (rc == 0)
        rc = hx_config_read(&options->config, path, complaint);
    if (rc != 0)
        return rc;
    const struct hx_config_upstream *upstream =
        hx_config_upstream(&options->config, hx_span_cstr(name));
    if (upstream == NULL)
        return hx_complain(complaint, "there is no server '%.80s' in %.300s", name, path);
    options->name = upstream->name;
    options->command = upstream->command;
    options->env = upstream->env;
    options->cwd = upstream->cwd;
    options->url = upstream->url;
    options->headers = upstream->headers;
    options->settings = &upstream->settings;
    return 0;
}

static int use_call(struct words *words, int first, struct hx_complaint *complaint)
{
    struct hx_call_options *options = words->options;
    if (words->count <= first)
        return hx_complain(complaint, "there is no tool to call. For example:\n"
                                      "  hapax call charge '{\"amount\": 3}' -- ./server\n"
                                      "  hapax call https://crm.example/mcp charge '{}'");
    options->tool = words->items[first];
    if (options->tool[0] == '\0')
        return hx_complain(complaint, "the name of the tool is empty");
    if (words->count > first + 1) {
        options->json = words->items[first + 1];
        options->json_at = words->places[first + 1];
    }
    if (words->count > first + 2)
        return hx_complain(complaint,
                           "'%.80s' is one word too many; write the arguments of the tool as one "
                           "word of JSON, in quotes",
                           words->items[first + 2]);
    return 0;
}

static int use_new(int argc, char **argv, struct words *words, int used,
                   struct hx_complaint *complaint)
{
    struct hx_call_options *options = words->options;
    bool has_command = used > 1 && strcmp(argv[used - 1], "--") == 0;
    int rc = 0;
    if (words->is_all)
        return hx_complain(complaint, "--all stands beside --resume only");
    if (has_command && used == argc)
        return hx_complain(complaint, "behind '--' there is no command");
    if (has_command && options->config_path)
        return hx_complain(complaint, "--config and a command behind '--' are two targets");
    if (has_command) {
        options->command = argv + used;
        options->settings = &options->given;
        rc = hx_settings_check(options->settings, complaint);
        return rc == 0 ? use_call(words, 0, complaint) : rc;
    }
    if (words->count == 0)
        return hx_complain(complaint, "there is neither a target nor a tool. For example:\n"
                                      "  hapax call charge '{\"amount\": 3}' -- ./server\n"
                                      "  hapax call https://crm.example/mcp charge '{}'");
    if (hx_is_url(words->items[0]) && options->config_path)
        return hx_complain(complaint, "--config and a URL are two targets");
    rc = use_call(words, 1, complaint);
    if (rc != 0)
        return rc;
    return hx_is_url(words->items[0]) ? use_url(options, words->items[0], complaint)
                                      : use_name(options, words->items[0], complaint);
}

/* --resume and --give-up: their words are a key, a tool and a server. */
static int use_open(struct words *words, int argc, int used, struct hx_complaint *complaint)
{
    struct hx_call_options *options = words->options;
    bool is_resume = options->action == HX_CALL_RESUME;
    int at = 0;
    if (options->key == NULL && at < words->count)
        options->key = words->items[at++];
    if (at < words->count)
        options->tool = words->items[at++];
    if (at < words->count)
        options->server = words->items[at++];
    if (used < argc || words->count > at || options->config_path != NULL)
        return hx_complain(complaint,
                           "beside %s only a key, a tool and a server can stand; the target was "
                           "kept with the call",
                           is_resume ? "--resume" : "--give-up");
    if (words->is_all && (options->key != NULL || !is_resume))
        return hx_complain(complaint, "--all stands beside --resume only, without a key");
    if (words->is_all)
        options->action = HX_CALL_RESUME_ALL;
    if (!is_resume && options->key == NULL)
        return hx_complain(complaint, "--give-up needs the key of the call");
    options->settings = &options->given;
    return hx_settings_check(options->settings, complaint);
}

void hx_call_options_init(struct hx_call_options *options)
{
    *options = (struct hx_call_options){.action = HX_CALL_NEW, .wait_ms = HX_CALL_WAIT_DEFAULT_MS};
    hx_settings_init(&options->given);
    hx_config_init(&options->config);
}

void hx_call_options_fini(struct hx_call_options *options)
{
    hx_config_fini(&options->config);
    hx_settings_fini(&options->given);
}

int hx_call_options_parse(int argc, char **argv, struct hx_call_options *options,
                          struct hx_complaint *complaint)
{
    struct words words = {.options = options};
    int used = argc;
    int rc = read_words(argc, argv, &words, &used, complaint);
    if (rc != 0)
        return rc;
    if (words.is_show)
        return HX_OPTIONS_SHOW;
    if (options->given.outbox_url != NULL)
        return hx_complain(complaint, "--outbox-url: 'hapax call' announces nothing; the outbox is "
                                      "for hapax run and hapax serve");
    return options->action == HX_CALL_NEW ? use_new(argc, argv, &words, used, complaint)
                                          : use_open(&words, argc, used, complaint);
}
