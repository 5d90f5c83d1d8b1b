/* SPDX-License-Identifier: MIT */
/*
 * `upstreams:` of the configuration: servers by their names.
 */
#include "app/config_reader.h"

#include <string.h>

/* Nothing is expanded. Whoever writes ${X} as other programs read it should learn it from us and
 * not from a server that got the letters. */
static void warn_of_variable(struct hx_reader *reader, const struct hx_node *value,
                             const char *where)
{
    if (value->kind == HX_NODE_TEXT && strstr(value->text.ptr, "${"))
        hx_config_warn(reader->config, value->mark,
                       "%s: '${...}' is passed on as it stands, no variable is put in its place; a "
                       "secret for HTTP belongs into headers_file",
                       where);
}

static void warn_of_variables(struct hx_reader *reader, const struct hx_node *list,
                              const char *where)
{
    for (const struct hx_node *item = list->first; item; item = item->next)
        warn_of_variable(reader, item, where);
}

static int read_command_word(struct hx_reader *reader, const struct hx_node *value,
                             const char **ret_word)
{
    int rc = hx_read_text(reader, value, "command", ret_word);
    if (rc == 0 && strchr(*ret_word, ' ') && (*ret_word)[0] != '/')
        hx_config_warn(reader->config, value->mark,
                       "command: a program whose name has spaces is started; arguments stand in "
                       "args, each as its own text");
    return rc;
}

/* command and args together are argv. */
static int read_argv(struct hx_reader *reader, const struct hx_node *command,
                     const struct hx_node *args, char *const **ret_argv)
{
    const char *word;
    size_t count = 0;
    int rc = read_command_word(reader, command, &word);
    if (rc == 0 && args && args->kind != HX_NODE_NOTHING)
        rc = hx_read_kind(reader, args, HX_NODE_LIST, "args");
    if (rc != 0)
        return rc;
    size_t capacity = 2 + (args ? args->count : 0);
    const char **argv = hx_reader_alloc(reader, capacity * sizeof(*argv));
    if (!argv)
        return 1;
    argv[count++] = word;
    for (const struct hx_node *at = args ? args->first : NULL; at; at = at->next) {
        /* An argument may be empty, hold newlines, and be a secret. */
        if (at->kind != HX_NODE_TEXT)
            return hx_tree_refuse(&reader->tree, at->mark, "every entry of args must be a text");
        argv[count++] = at->text.ptr;
    }
    /* exec wants char *const[] and changes nothing. */
    memcpy(ret_argv, &argv, sizeof(argv));
    return 0;
}

bool hx_is_url(const char *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";
    size_t len = strspn(word, letters);
    return len > 0 && strncmp(word + len, "://", 3) == 0;
}

const char *hx_url_refusal(const char *url)
{
    const char *scheme_end = strstr(url, "://");
    const char *host = scheme_end ? scheme_end + 3 : url;
    size_t host_len = strcspn(host, "/?#");
    bool is_http = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    if (!is_http || host_len == 0 || strchr(url, ' '))
        return "url must begin with http:// or https://, name a host and have no spaces";
    if (memchr(host, '@', host_len))
        return "url must not hold a user name or password; put the header for it into a file and "
               "name that by headers_file";
    return NULL;
}

static int read_url(struct hx_reader *reader, const struct hx_node *value, const char **ret_url)
{
    const char *url;
    int rc = hx_read_text(reader, value, "url", &url);
    if (rc != 0)
        return rc;
    const char *refusal = hx_url_refusal(url);
    if (refusal)
        return hx_tree_refuse(&reader->tree, value->mark, "%s", refusal);
    warn_of_variable(reader, value, "url");
    *ret_url = url;
    return 0;
}

/* Where it goes: exactly one of command and url, and only what belongs to it. */
int hx_read_command(struct hx_reader *reader, const struct hx_node *entry,
                    struct hx_config_upstream *upstream)
{
    const struct hx_node *command = hx_node_member(entry, "command");
    const struct hx_node *url = hx_node_member(entry, "url");
    static const char *const of_command[] = {"args", "env", "cwd"};
    int rc = 0;
    if (!command && !url)
        return hx_tree_refuse(&reader->tree, entry->name_mark,
                              "the upstream '%s' has neither a command nor a url", upstream->name);
    if (command && url)
        return hx_tree_refuse(&reader->tree, url->name_mark,
                              "the upstream '%s' has both a command and a url; keep one",
                              upstream->name);
    for (size_t i = 0; i < 3 && url; i++) {
        const struct hx_node *member = hx_node_member(entry, of_command[i]);
        if (member)
            return hx_tree_refuse(&reader->tree, member->name_mark,
                                  "%s belongs to a command, but '%s' has a url", of_command[i],
                                  upstream->name);
    }
    const struct hx_node *headers = hx_node_member(entry, "headers");
    const struct hx_node *args = hx_node_member(entry, "args");
    const struct hx_node *env = hx_node_member(entry, "env");
    const struct hx_node *cwd = hx_node_member(entry, "cwd");
    if (command && headers)
        return hx_tree_refuse(&reader->tree, headers->name_mark,
                              "headers belong to a url, but '%s' has a command", upstream->name);
    if (command)
        rc = read_argv(reader, command, args, &upstream->command);
    if (rc == 0 && args)
        warn_of_variables(reader, args, "args");
    if (rc == 0 && env && env->kind != HX_NODE_NOTHING) {
        rc = hx_read_pairs(reader, env, "env", "=", &upstream->env);
        warn_of_variables(reader, env, "env");
    }
    if (rc == 0 && cwd)
        rc = hx_read_text(reader, cwd, "cwd", &upstream->cwd);
    if (rc == 0 && url)
        rc = read_url(reader, url, &upstream->url);
    if (rc == 0 && headers && headers->kind != HX_NODE_NOTHING) {
        rc = hx_read_pairs(reader, headers, "headers", ": ", &upstream->headers);
        warn_of_variables(reader, headers, "headers");
    }
    return rc;
}

static int read_affinity(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_upstream *upstream = target;
    const char *text;
    int rc = hx_read_text(reader, value, "affinity", &text);
    if (rc != 0)
        return rc;
    for (int i = 0; i <= HX_AFFINITY_SHARED; i++) {
        if (strcmp(text, hx_affinity_text((enum hx_affinity)i)) != 0)
            continue;
        upstream->affinity = (enum hx_affinity)i;
        return 0;
    }
    return hx_tree_refuse(&reader->tree, value->mark,
                          "affinity: '%.*s' is not possible; choose session, principal, shared",
                          HX_SPAN_FMT(hx_node_shown(value->text)));
}

static int read_prefix(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_upstream *upstream = target;
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    int rc = hx_read_kind(reader, value, HX_NODE_TEXT, "prefix");
    if (rc != 0)
        return rc;
    if (value->text.len > HX_UPSTREAM_NAME_MAX ||
        strspn(value->text.ptr, allowed) != value->text.len)
        return hx_tree_refuse(&reader->tree, value->mark,
                              "prefix: '%.*s' is not possible; give at most %d of the characters "
                              "that names of tools have: letters, digits, _ . -",
                              HX_SPAN_FMT(hx_node_shown(value->text)), HX_UPSTREAM_NAME_MAX);
    upstream->prefix = value->text.ptr;
    return 0;
}

static int read_tools(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_upstream *upstream = target;
    return hx_read_tools(reader, value, &upstream->settings);
}

static int refuse_name(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    const struct hx_config_upstream *upstream = target;
    return hx_tree_refuse(&reader->tree, value->name_mark,
                          "name: an upstream's name is what it stands under, here '%s'",
                          upstream->name);
}

static const struct hx_member members[] = {
    {"command", NULL},
    {"args", NULL},
    {"env", NULL},
    {"cwd", NULL},
    {"url", NULL},
    {"headers", NULL},
    {"affinity", read_affinity},
    {"prefix", read_prefix},
    {"tools", read_tools},
    {"name", refuse_name},
};
static const struct hx_section an_upstream = {.what = "an upstream",
                                              .members = members,
                                              .count = sizeof(members) / sizeof(members[0]),
                                              .scopes = HX_SCOPE_BIT(HX_SCOPE_SERVER) |
                                                        HX_SCOPE_BIT(HX_SCOPE_TOOL)};

static int refuse_default_name(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_tree_refuse(&reader->tree, value->name_mark,
                          "name: upstreams have a name each, the one they stand under");
}

static const struct hx_member default_members[] = {
    {"affinity", read_affinity}, {"tools", read_tools}, {"name", refuse_default_name}};
static const struct hx_section the_defaults = {
    .what = "defaults",
    .members = default_members,
    .count = sizeof(default_members) / sizeof(default_members[0]),
    .scopes = HX_SCOPE_BIT(HX_SCOPE_SERVER) | HX_SCOPE_BIT(HX_SCOPE_TOOL)};

static int read_upstream(struct hx_reader *reader, const struct hx_node *entry,
                         const struct hx_node *defaults)
{
    int rc = 0;
    if (!hx_upstream_name_is_good(entry->name))
        return hx_tree_refuse(
            &reader->tree, entry->name_mark,
            "'%.*s' is no name for an upstream; give 1 to %d of a-z, 0-9, _ and -",
            HX_SPAN_FMT(hx_node_shown(entry->name)), HX_UPSTREAM_NAME_MAX);
    rc = hx_read_kind(reader, entry, HX_NODE_MAP, "an upstream");
    if (rc != 0)
        return rc;
    struct hx_config_upstream *upstream =
        hx_config_add_upstream(reader->config, entry->name, entry->name_mark);
    if (!upstream)
        return hx_tree_refuse(&reader->tree, entry->name_mark, "there are too many upstreams");
    if (defaults)
        rc = hx_read_section(reader, &the_defaults, defaults, upstream, &upstream->settings);
    if (rc == 0)
        rc = hx_read_section(reader, &an_upstream, entry, upstream, &upstream->settings);
    if (rc == 0)
        rc = hx_read_command(reader, entry, upstream);
    return rc;
}

int hx_read_upstreams(struct hx_reader *reader, const struct hx_node *value,
                      const struct hx_node *defaults)
{
    if (value->kind == HX_NODE_NOTHING)
        return 0;
    int rc = hx_read_kind(reader, value, HX_NODE_MAP, "upstreams");
    for (const struct hx_node *entry = value->first; rc == 0 && entry; entry = entry->next)
        rc = read_upstream(reader, entry, defaults);
    return rc;
}
