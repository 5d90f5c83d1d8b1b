/* SPDX-License-Identifier: MIT */
/*
 * What must hold of a configuration as a whole.
 */
#include "app/admin_token.h"
#include "app/config.h"

#include <string.h>

static int check_listens(struct hx_config *config, const struct hx_tree *tree)
{
    bool is_closed = config->token_count > 0;
    for (size_t i = 0; i < config->listen_count; i++) {
        const struct hx_config_listen *listen = &config->listens[i];
        if (listen->is_loopback)
            continue;
        if (!is_closed && !config->allow_anonymous)
            return hx_tree_refuse(tree, listen->mark,
                                  "listen: %s can be reached from other machines, and without "
                                  "tokens everybody there may call every tool. Make a token "
                                  "('hapax token'), listen on 127.0.0.1, or say allow_anonymous if "
                                  "something before it lets only the right ones in",
                                  listen->text);
        if (is_closed && !config->tls_cert_file)
            hx_config_warn(config, listen->mark,
                           "listen: %s has no TLS, so tokens cross the network in the clear; give "
                           "tls, or put something before it that has",
                           listen->text);
    }
    return 0;
}

/* At the merged endpoint "a_" + "b_c" and "a_b_" + "c" would be one name. */
static int check_prefixes(const struct hx_config *config, const struct hx_tree *tree)
{
    for (size_t i = 0; i < config->upstream_count; i++) {
        for (size_t j = 0; j < config->upstream_count; j++) {
            const struct hx_config_upstream *a = &config->upstreams[i];
            const struct hx_config_upstream *b = &config->upstreams[j];
            if (i == j || !hx_span_starts_with(hx_span_cstr(b->prefix), hx_span_cstr(a->prefix)))
                continue;
            return hx_tree_refuse(
                tree, (j > i ? b : a)->mark,
                "at /mcp the names of '%s' begin with '%s' and those of '%s' with "
                "'%s', so a tool of both could have one name. Give one of them "
                "another name or prefix",
                a->name, a->prefix, b->name, b->prefix);
        }
    }
    return 0;
}

static int check_tokens(const struct hx_config *config, const struct hx_tree *tree)
{
    for (size_t i = 0; i < config->token_count; i++) {
        const struct hx_config_token *token = &config->tokens[i];
        for (size_t k = 0; k < token->servers.count; k++)
            if (!hx_config_upstream(config, token->servers.items[k]))
                return hx_tree_refuse(tree, token->mark,
                                      "the token '%s' is for the upstream '%.*s', which there is "
                                      "not",
                                      token->name,
                                      HX_SPAN_FMT(hx_node_shown(token->servers.items[k])));
    }
    return 0;
}

int hx_config_check(struct hx_config *config, struct hx_complaint *complaint)
{
    struct hx_tree tree = {.file = config->file, .complaint = complaint};
    struct hx_mark nowhere = {0, 0};
    struct hx_complaint inner;
    if (config->upstream_count == 0)
        return hx_tree_refuse(&tree, nowhere, "there is no upstream; name one below 'upstreams'");
    if (config->listen_count == 0 &&
        hx_config_add_listen(config, HX_SPAN_LIT(HX_LISTEN_DEFAULT), nowhere, NULL, complaint) != 0)
        return 1;
    int rc = check_listens(config, &tree);
    if (rc == 0)
        rc = check_prefixes(config, &tree);
    if (rc == 0)
        rc = check_tokens(config, &tree);
    if (rc == 0 && hx_settings_check_outbox(&config->global, &inner) != 0)
        rc = config->file ? hx_tree_refuse(&tree, nowhere, "%s", inner.text)
                          : hx_complain(complaint, "%s", inner.text);
    if (rc == 0 && hx_settings_check_admin(&config->global, &inner) != 0)
        rc = config->file ? hx_tree_refuse(&tree, nowhere, "%s", inner.text)
                          : hx_complain(complaint, "%s", inner.text);
    for (size_t i = 0; rc == 0 && i < config->upstream_count; i++) {
        const struct hx_config_upstream *upstream = &config->upstreams[i];
        if (hx_settings_check(&upstream->settings, &inner) != 0 ||
            (!upstream->url && hx_settings_check_headers(&upstream->settings, &inner) != 0))
            rc = config->file ? hx_tree_refuse(&tree, inner.mark.line ? inner.mark : upstream->mark,
                                               "upstream '%s': %s", upstream->name, inner.text)
                              : hx_complain(complaint, "%s", inner.text);
    }
    return rc;
}
