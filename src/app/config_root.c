/* SPDX-License-Identifier: MIT */
/*
 * A configuration by its root: either ours, or what editors keep under `mcpServers`.
 */
#include "app/config_reader.h"

#include <string.h>

static int read_listens(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_text_list unused;
    (void)target;
    int rc = hx_read_texts(reader, value, "listen", &unused);
    bool is_one = value->kind == HX_NODE_TEXT;
    for (const struct hx_node *at = is_one ? value : value->first; rc == 0 && at; at = at->next) {
        rc = hx_config_add_listen(reader->config, at->text, at->mark, reader->tree.file,
                                  reader->tree.complaint);
        if (is_one)
            break;
    }
    return rc;
}

static int read_cert_file(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_text(reader, value, "cert_file", &reader->config->tls_cert_file);
}

static int read_key_file(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_text(reader, value, "key_file", &reader->config->tls_key_file);
}

static int read_tls(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    static const struct hx_member members[] = {{"cert_file", read_cert_file},
                                               {"key_file", read_key_file}};
    static const struct hx_section tls = {.what = "tls", .members = members, .count = 2};
    int rc = hx_read_section(reader, &tls, value, target, NULL);
    struct hx_config *config = reader->config;
    if (rc == 0 && (!config->tls_cert_file || !config->tls_key_file))
        rc = hx_tree_refuse(&reader->tree, value->name_mark,
                            "tls needs both cert_file and key_file, PEM files each");
    return rc;
}

static int read_origins(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_texts(reader, value, "allowed_origins", &reader->config->allowed_origins);
}

static int read_hosts(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_texts(reader, value, "allowed_hosts", &reader->config->allowed_hosts);
}

static int read_anonymous(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_flag(reader, value, "allow_anonymous", &reader->config->allow_anonymous);
}

static int read_metrics(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    static const char *const words[] = {"tokens", "open", "off"};
    const char *text;
    (void)target;
    int rc = hx_read_text(reader, value, "metrics", &text);
    if (rc != 0)
        return rc;
    for (int i = 0; i <= HX_METRICS_OFF; i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        reader->config->metrics = (enum hx_metrics_access)i;
        return 0;
    }
    return hx_tree_refuse(&reader->tree, value->mark,
                          "metrics: '%.*s' is not possible; choose tokens (those that say "
                          "metrics: on), open, off",
                          HX_SPAN_FMT(hx_node_shown(value->text)));
}

static int read_tokens(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_tokens(reader, value);
}

static int read_limits(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    (void)target;
    return hx_read_limits(reader, value);
}

static int read_upstreams(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    return hx_read_upstreams(reader, value, hx_node_member(target, "defaults"));
}

static const struct hx_member members[] = {
    {"listen", read_listens},
    {"tls", read_tls},
    {"allowed_origins", read_origins},
    {"allowed_hosts", read_hosts},
    {"allow_anonymous", read_anonymous},
    {"metrics", read_metrics},
    {"tokens", read_tokens},
    {"limits", read_limits},
    {"defaults", NULL}, /* read into each upstream, before its own */
    {"upstreams", read_upstreams},
};
static const struct hx_section the_file = {.what = "the configuration",
                                           .members = members,
                                           .count = sizeof(members) / sizeof(members[0]),
                                           .scopes = HX_SCOPE_BIT(HX_SCOPE_GLOBAL)};

int hx_config_parse(struct hx_config *config, const char *file, struct hx_span text,
                    struct hx_complaint *complaint)
{
    struct hx_node *root;
    struct hx_span own_file = hx_arena_dup(&config->arena, hx_span_cstr(file));
    if (hx_span_is_absent(own_file))
        return hx_complain(complaint, "there is not enough memory");
    struct hx_reader reader = {
        .config = config,
        .tree = {.file = own_file.ptr, .arena = &config->arena, .complaint = complaint}};
    config->file = own_file.ptr;
    int rc = hx_tree_read(&reader.tree, text, &root);
    if (rc != 0)
        return rc;
    if (!root)
        return hx_tree_refuse(&reader.tree, (struct hx_mark){0, 0},
                              "there is nothing in this file");
    rc = hx_read_kind(&reader, root, HX_NODE_MAP, "a configuration");
    if (rc == 0 && hx_node_member(root, "mcpServers"))
        return hx_read_editor_file(&reader, root);
    /* `root` is only read; a target is a plain pointer. */
    return rc == 0 ? hx_read_section(&reader, &the_file, root, root, &config->global) : rc;
}
