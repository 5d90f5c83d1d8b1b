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

struct hx_server *hx_server_find(struct hx_gateway *gateway, struct hx_span name)
{
    hx_list_for_each (node, &gateway->servers) {
        struct hx_server *server = hx_container_of(node, struct hx_server, node);
        if (hx_span_eq(server->options.name, name))
            return server;
    }
    return hx_container_of(hx_list_first(&gateway->servers), struct hx_server, node);
}
