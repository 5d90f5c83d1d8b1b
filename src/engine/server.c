/* SPDX-License-Identifier: MIT */
/*
 * A tool server by its name: the operator's rules for it, and the link that serves what no session
 * asks for.
 */
#include "engine/internal.h"

struct hx_server *hx_server_new(struct hx_gateway *gateway, const struct hx_server_options *options)
{
    struct hx_server *server = hx_new(struct hx_server);
    server->gateway = gateway;
    server->options = *options;
    hx_map_init(&server->tools, gateway->map_secret);
    hx_list_append(&gateway->servers, &server->node);
    return server;
}

struct hx_server *hx_server_free(struct hx_server *server)
{
    struct hx_map_node *at = NULL;
    while ((at = hx_map_next(&server->tools, NULL)) != NULL) {
        struct hx_tool *tool = hx_container_of(at, struct hx_tool, node);
        hx_map_remove(&server->tools, at);
        hx_free(tool->name);
        hx_free(tool);
    }
    hx_map_fini(&server->tools);
    hx_list_unlink(&server->node);
    return hx_free(server);
}

void hx_server_missed(struct hx_server *server)
{
    server->is_missed = true;
    server->missed = server->gateway->now.mono;
}

/* Nobody but a caller tries a server. So a failure counts for a while only: who sends no callers to
 * a gateway that is not ready would otherwise never send any again. */
struct hx_server_health hx_server_health(const struct hx_server *server)
{
    const int64_t counts_ms = 30 * 1000;
    int64_t age_ms = hx_mono_since_ms(server->gateway->now.mono, server->missed);
    return (struct hx_server_health){.is_unreachable = server->is_missed && age_ms < counts_ms,
                                     .noise = server->noise};
}

/* For what is nobody's; a gateway has one always. */
static struct hx_server *first_in_use(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->servers) {
        struct hx_server *server = hx_container_of(node, struct hx_server, node);
        if (!server->is_retired)
            return server;
    }
    return hx_container_of(hx_list_first(&gateway->servers), struct hx_server, node);
}

struct hx_server *hx_server_named(struct hx_gateway *gateway, struct hx_span name)
{
    hx_list_for_each (node, &gateway->servers) {
        struct hx_server *server = hx_container_of(node, struct hx_server, node);
        if (!server->is_retired && hx_span_eq(server->options.name, name))
            return server;
    }
    return NULL;
}

struct hx_server *hx_server_find(struct hx_gateway *gateway, struct hx_span name)
{
    struct hx_server *server = hx_server_named(gateway, name);
    return server != NULL ? server : first_in_use(gateway);
}

void hx_server_retire(struct hx_server *server)
{
    struct hx_gateway *gateway = server->gateway;
    hx_assert(server->house == NULL);
    server->is_retired = true;
    gateway->retired_count++;
    hx_list_for_each (node, &gateway->links) {
        struct hx_link *link = hx_container_of(node, struct hx_link, node);
        if (link->server != server)
            continue;
        link->is_leaving |= hx_list_is_empty(&link->sessions);
        hx_link_stir(link);
    }
    hx_list_for_each (node, &gateway->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, node);
        if (work->link == NULL && work->route == NULL)
            hx_work_renew_rules(work);
    }
}

static bool is_spoken_of(const struct hx_gateway *gateway, const struct hx_server *server)
{
    hx_list_for_each (node, &gateway->links) {
        if (hx_container_of(node, struct hx_link, node)->server == server)
            return true;
    }
    hx_list_for_each (node, &gateway->over) {
        if (hx_container_of(node, struct hx_session, node)->options.server == server)
            return true;
    }
    hx_list_for_each (node, &gateway->works) {
        if (hx_container_of(node, struct hx_work, node)->tool->server == server)
            return true;
    }
    return false;
}

void hx_servers_finish(struct hx_gateway *gateway)
{
    if (gateway->retired_count == 0)
        return;
    hx_list_for_each_safe (node, &gateway->servers) {
        struct hx_server *server = hx_container_of(node, struct hx_server, node);
        if (!server->is_retired || is_spoken_of(gateway, server))
            continue;
        struct hx_server_options options = server->options;
        hx_server_free(server);
        gateway->retired_count--;
        if (options.over != NULL)
            options.over(options.context);
    }
}
