/* SPDX-License-Identifier: MIT */
/*
 * The upstreams and tokens of a configuration, as what the engine and the front know them by.
 *
 * A configuration can be followed by another. Numbers of endpoints and holders of tokens are made
 * once and stay, because sessions that are open name them; an upstream that is as it was stays as
 * it is, with its processes.
 */
#include <stdio.h>
#include <string.h>

#include "app/config_change.h"
#include "app/rules.h"
#include "app/serve_state.h"
#include "app/server_name.h"
#include "base/alloc.h"

/* ---- what the engine asks of a server ---- */

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    struct served *served = context;
    hx_rules_for_tool(&served->upstream->settings, tool, ret_rules);
}

static bool is_predecessor_draining(void *context)
{
    (void)context; /* one process serves; an older one has its own sessions */
    return false;
}

static void relay(void *context, struct hx_span text)
{
    const struct served *served = context;
    fprintf(stderr, "[%s] %.*s\n", served->upstream->name, HX_SPAN_FMT(text));
}

static struct hx_upstream *make_upstream(void *context)
{
    struct served *served = context;
    return hx_upstream_make(served->serve->loop, &served->serve->upstream_inbox, &served->place);
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    const struct served *served = context;
    hx_upstream_release(&served->place, upstream);
}

static void over(void *context)
{
    struct served *served = context;
    hx_list_unlink(&served->node);
    serve_config_release(served->source);
    hx_free(served);
}

static uint32_t endpoint_of(struct serve *serve, const char *name)
{
    size_t i = 0;
    while (i < serve->endpoint_count && strcmp(serve->endpoints[i].name, name) != 0)
        i++;
    if (i == serve->endpoint_count) {
        struct serve_endpoint *more = hx_new_bytes((i + 1) * sizeof(*more));
        if (i > 0)
            memcpy(more, serve->endpoints, i * sizeof(*more));
        more[i].name = hx_strdup(name);
        hx_free(serve->endpoints);
        serve->endpoints = more;
        serve->endpoint_count++;
    }
    return (uint32_t)i;
}

static struct served *begin_server(struct serve *serve, struct serve_config *source,
                                   const struct hx_config_upstream *upstream)
{
    struct hx_server_options options =
        hx_upstream_server_options(&upstream->settings, upstream->name);
    struct served *served = hx_new(struct served);
    source->users++;
    served->serve = serve;
    served->source = source;
    served->upstream = upstream;
    served->endpoint = endpoint_of(serve, upstream->name);
    hx_list_append(&serve->all_served, &served->node);
    served->place = (struct hx_upstream_place){
        .command = upstream->command,
        .env = upstream->env,
        .cwd = upstream->cwd,
        .url = upstream->url,
        .headers = upstream->headers,
        .transport_dir = serve->home.has_ledger ? serve->home.transport_dir : NULL,
        .settings = &upstream->settings,
    };
    options.is_remote = upstream->url != NULL;
    options.target = hx_server_target(upstream->command, upstream->cwd, upstream->url);
    options.rules_for = rules_for;
    options.is_predecessor_draining = is_predecessor_draining;
    options.relay = relay;
    options.make_upstream = make_upstream;
    options.free_upstream = free_upstream;
    options.over = over;
    options.context = served;
    served->server = hx_server_new(serve->gateway, &options);
    return served;
}

/* ---- one configuration after another ---- */

/* Whoever holds the same token for the same principal is the same one, also when it was withdrawn
 * in between. */
static struct serve_holder *holder_of(struct serve *serve, const struct hx_config_token *token)
{
    hx_list_for_each (node, &serve->holders) {
        struct serve_holder *holder = hx_container_of(node, struct serve_holder, node);
        if (hx_digest_eq(&holder->hash, &token->hash) &&
            strcmp(holder->tenant, token->tenant) == 0 &&
            strcmp(holder->principal, token->principal) == 0)
            return holder;
    }
    struct serve_holder *holder = hx_new(struct serve_holder);
    holder->hash = token->hash;
    holder->tenant = hx_strdup(token->tenant);
    holder->principal = hx_strdup(token->principal);
    hx_list_append(&serve->holders, &holder->node);
    return holder;
}

static void take_tokens(struct serve *serve, const struct hx_config *config)
{
    hx_list_for_each (node, &serve->holders)
        hx_container_of(node, struct serve_holder, node)->token = NULL;
    hx_free(serve->holder_of);
    serve->holder_of = hx_new_bytes((config->token_count + 1) * sizeof(struct serve_holder *));
    for (size_t i = 0; i < config->token_count; i++) {
        serve->holder_of[i] = holder_of(serve, &config->tokens[i]);
        serve->holder_of[i]->token = &config->tokens[i];
    }
}

static struct served *same_as_before(struct serve *serve, const struct hx_config_upstream *upstream)
{
    for (size_t i = 0; i < serve->endpoint_count; i++) {
        struct served *served = serve->endpoints[i].served;
        if (served != NULL && hx_config_upstream_is_same(served->upstream, upstream))
            return served;
    }
    return NULL;
}

static bool is_kept(struct served *const *now, size_t count, const struct served *served)
{
    for (size_t i = 0; i < count; i++)
        if (now[i] == served)
            return true;
    return false;
}

/* The new ones first: what the old ones leave undone is theirs. */
static void take_upstreams(struct serve *serve, struct serve_config *source)
{
    const struct hx_config *config = source->config;
    struct served **now = hx_new_bytes(config->upstream_count * sizeof(struct served *));
    for (size_t i = 0; i < config->upstream_count; i++) {
        now[i] = same_as_before(serve, &config->upstreams[i]);
        if (now[i] == NULL)
            now[i] = begin_server(serve, source, &config->upstreams[i]);
    }
    for (size_t i = 0; i < serve->endpoint_count; i++) {
        struct served *served = serve->endpoints[i].served;
        serve->endpoints[i].served = NULL;
        if (served == NULL || is_kept(now, config->upstream_count, served))
            continue;
        served->is_retired = true;
        hx_server_retire(served->server);
    }
    for (size_t i = 0; i < config->upstream_count; i++)
        serve->endpoints[now[i]->endpoint].served = now[i];
    hx_free(serve->served);
    serve->served = now;
}

void serve_take_config(struct serve *serve, struct serve_config *source)
{
    struct serve_config *before = serve->source;
    source->users++;
    take_tokens(serve, source->config);
    take_upstreams(serve, source);
    serve->source = source;
    serve->config = source->config;
    serve_config_release(before);
}

struct serve_config *serve_config_release(struct serve_config *source)
{
    if (--source->users > 0)
        return NULL;
    hx_config_fini(&source->own);
    return hx_free(source);
}

void serve_free_upstreams(struct serve *serve)
{
    hx_list_for_each_safe (node, &serve->all_served)
        over(hx_container_of(node, struct served, node));
    for (size_t i = 0; i < serve->endpoint_count; i++)
        hx_free(serve->endpoints[i].name);
    hx_list_for_each_safe (node, &serve->holders) {
        struct serve_holder *holder = hx_container_of(node, struct serve_holder, node);
        hx_list_unlink(node);
        hx_free(holder->tenant);
        hx_free(holder->principal);
        hx_free(holder);
    }
    hx_free(serve->endpoints);
    hx_free(serve->served);
    hx_free(serve->holder_of);
    serve_config_release(serve->source);
}
