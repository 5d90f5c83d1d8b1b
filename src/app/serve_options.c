/* SPDX-License-Identifier: MIT */
#include "app/serve_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/settings_show.h"

enum { WORDS_MAX = 64, VALUE_MAX = 65536 };

struct words {
    const char *items[WORDS_MAX]; /* borrowed from argv */
    size_t count;
};

struct serve_options {
    const char *config_path;
    struct words listens;
    struct words hosts;
    struct words origins;
    bool allow_anonymous;
};

/* Values come out of argv, so each has its NUL. */
static int add_word(struct words *words, struct hx_span value, const char *option,
                    struct hx_complaint *complaint)
{
    if (value.len == 0)
        return hx_complain(complaint, "%s needs a value", option);
    if (words->count == WORDS_MAX)
        return hx_complain(complaint, "%s may be given at most %d times", option, WORDS_MAX);
    words->items[words->count++] = value.ptr;
    return 0;
}

static int take_config(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct serve_options *options = context;
    if (value.len == 0)
        return hx_complain(complaint, "--config needs the name of a file");
    if (options->config_path)
        return hx_complain(complaint, "--config is given twice; a configuration is one file");
    options->config_path = value.ptr;
    return 0;
}

static int take_listen(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct serve_options *options = context;
    return add_word(&options->listens, value, "--listen", complaint);
}

static int take_host(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct serve_options *options = context;
    return add_word(&options->hosts, value, "--allowed-host", complaint);
}

static int take_origin(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct serve_options *options = context;
    return add_word(&options->origins, value, "--allowed-origin", complaint);
}

static int take_anonymous(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    struct serve_options *options = context;
    if (!hx_span_eq_cstr(value, "on"))
        return hx_complain(complaint, "--allow-anonymous takes no value");
    options->allow_anonymous = true;
    return 0;
}

static const struct hx_extra_option extras[] = {
    {"config", false, take_config},
    {"listen", false, take_listen},
    {"allowed_host", false, take_host},
    {"allowed_origin", false, take_origin},
    {"allow_anonymous", true, take_anonymous},
};

/* Puts what the command line says of the process over what the file says. */
static int copy_global(const struct hx_settings *given, struct hx_config *config,
                       struct hx_complaint *complaint)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        struct hx_buf text;
        if (row->scope != HX_SCOPE_GLOBAL ||
            !hx_setting_set_has(&given->declared, (enum hx_setting_id)i))
            continue;
        hx_buf_init(&text, VALUE_MAX);
        hx_value_format(row, (const char *)given + row->offset, &text);
        rc = hx_settings_set(&config->global, hx_span_cstr(row->name), hx_buf_span(&text),
                             complaint);
        hx_buf_fini(&text);
    }
    return rc;
}

static int append(struct hx_config *config, const struct words *words, struct hx_text_list *list,
                  struct hx_complaint *complaint)
{
    if (words->count == 0)
        return 0;
    size_t count = list->count + words->count;
    struct hx_span *items = hx_arena_alloc(&config->arena, count * sizeof(*items));
    if (!items)
        return hx_complain(complaint, "there is not enough memory");
    for (size_t i = 0; i < list->count; i++)
        items[i] = list->items[i];
    for (size_t i = 0; i < words->count; i++)
        items[list->count + i] = hx_span_cstr(words->items[i]);
    *list = (struct hx_text_list){items, count};
    return 0;
}

static int read_file(const struct serve_options *options, const struct hx_settings *given,
                     struct hx_config *config, struct hx_complaint *complaint)
{
    const char *path = options->config_path ? options->config_path : HX_CONFIG_FILE_DEFAULT;
    if (!options->config_path && access(path, F_OK) != 0 && errno == ENOENT)
        return hx_complain(complaint, "there is no " HX_CONFIG_FILE_DEFAULT
                                      " here, and neither --config nor a "
                                      "server is named. For one server without a file:\n"
                                      "  hapax serve -- npx -y @example/server");
    if (hx_options_refuse_beside_file(given, path, complaint) != 0)
        return 1;
    return hx_config_read(config, path, complaint);
}

/* Takes `given`, whatever comes of it. */
static int make_upstream(char **words, struct hx_settings *given, struct hx_config *config,
                         struct hx_complaint *complaint)
{
    struct hx_span name =
        given->name ? hx_span_cstr(given->name) : HX_SPAN_LIT(HX_SERVE_NAME_DEFAULT);
    if (!hx_upstream_name_is_good(name))
        return hx_complain(complaint,
                           "--name: '%.100s' is not possible; it is a part of the address, so give "
                           "1 to %d of a-z, 0-9, _ and -",
                           name.ptr, HX_UPSTREAM_NAME_MAX);
    struct hx_config_upstream *upstream =
        hx_config_add_upstream(config, name, (struct hx_mark){0, 0});
    if (!upstream)
        return hx_complain(complaint, "there is not enough memory");
    const char *own_name = upstream->name;
    upstream->prefix = ""; /* nobody can join it, so its names may stay as they are */
    hx_settings_fini(&upstream->settings);
    upstream->settings = *given;
    upstream->settings.name = own_name;
    hx_settings_init(given);
    if (!hx_is_url(words[0])) {
        upstream->command = words;
        return 0;
    }
    if (words[1])
        return hx_complain(complaint, "nothing may follow the URL, but '%.100s' does", words[1]);
    const char *refusal = hx_url_refusal(words[0]);
    if (refusal)
        return hx_complain(complaint, "%s", refusal);
    upstream->url = words[0];
    return 0;
}

static int apply(const struct serve_options *options, struct hx_config *config,
                 struct hx_complaint *complaint)
{
    struct hx_complaint inner;
    if (options->listens.count > 0)
        config->listen_count = 0; /* those of the file are replaced */
    for (size_t i = 0; i < options->listens.count; i++)
        if (hx_config_add_listen(config, hx_span_cstr(options->listens.items[i]),
                                 (struct hx_mark){0, 0}, NULL, &inner) != 0)
            return hx_complain(complaint, "--%s", inner.text);
    config->allow_anonymous = config->allow_anonymous || options->allow_anonymous;
    int rc = append(config, &options->hosts, &config->allowed_hosts, complaint);
    if (rc == 0)
        rc = append(config, &options->origins, &config->allowed_origins, complaint);
    return rc == 0 ? hx_config_check(config, complaint) : rc;
}

int hx_serve_options_parse(int argc, char **argv, struct hx_config *config,
                           struct hx_complaint *complaint)
{
    struct serve_options options = {0};
    const struct hx_option_words words = {.command = "serve",
                                          .extras = extras,
                                          .extra_count = sizeof(extras) / sizeof(extras[0]),
                                          .context = &options};
    struct hx_settings given;
    int used = argc;
    hx_settings_init(&given);
    int rc = hx_options_read(argc, argv, &words, &given, &used, complaint);
    if (rc == 0 && used < argc && options.config_path)
        rc = hx_complain(complaint,
                         "the servers stand in %.300s, so '%.100s' cannot be given too; drop "
                         "--config or write it below 'upstreams'",
                         options.config_path, argv[used]);
    if (rc == 0 && used == argc)
        rc = read_file(&options, &given, config, complaint);
    if (rc == 0)
        rc = copy_global(&given, config, complaint);
    if (rc == 0 && used < argc)
        rc = make_upstream(argv + used, &given, config, complaint);
    hx_settings_fini(&given);
    return rc == 0 ? apply(&options, config, complaint) : rc;
}
