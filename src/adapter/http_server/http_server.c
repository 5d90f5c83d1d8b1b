/* SPDX-License-Identifier: MIT */
#include "adapter/http_server/http_server.h"

#include "adapter/http_server/internal.h"
#include "base/alloc.h"

struct hx_http_server_options hx_http_server_defaults(void)
{
    struct hx_http1_limits limits = hx_http1_limits_defaults();

    return (struct hx_http_server_options){
        .connections_max = 4096,
        .head_max_bytes = limits.head_max_bytes,
        .headers_max = limits.headers_max,
        .target_max_bytes = limits.target_max_bytes,
        .message_max_bytes = 64 << 20,
        .bodies_max_bytes = 256 << 20,
        .queue_max_bytes = 8 << 20,
        .answers_max_bytes = 256 << 20,
        .head_timeout_ms = 10000,
        .body_timeout_ms = 30000,
        .rate_min_bytes = 16384,
        .idle_timeout_ms = 75000,
        .write_timeout_ms = 30000,
        .stream_ping_ms = 15000,
        .linger_timeout_ms = 2000,
        .taken_back_within_ms = 5000,
    };
}

static void drive_again(void *arg)
{
    struct server *server = arg;
    struct hx_list now;

    hx_list_init(&now);
    hx_list_splice(&now, &server->again);
    for (struct hx_list *node; (node = hx_list_take_first(&now)) != NULL;)
        conn_drive(hx_container_of(node, struct conn, again));
    server_reap(server);
}

struct hx_web *hx_http_server_new(struct hx_loop *loop, struct hx_list *inbox,
                                  const struct hx_http_server_options *options)
{
    struct server *server = hx_new(struct server);

    hx_assert(options->connections_max > 0);
    hx_assert(options->connections_max < 1u << SLOT_BITS);
    hx_assert(options->rate_min_bytes > 0);
    server->web = (struct hx_web){.ops = &answer_ops, .inbox = inbox};
    server->loop = loop;
    server->options = *options;
    server->limits = (struct hx_http1_limits){.head_max_bytes = options->head_max_bytes,
                                              .target_max_bytes = options->target_max_bytes,
                                              .headers_max = options->headers_max};
    hx_list_init(&server->listeners);
    hx_list_init(&server->conns);
    hx_list_init(&server->idle);
    hx_list_init(&server->again);
    hx_list_init(&server->dead);
    server->again_timer = hx_loop_timer_new(loop, drive_again, server);
    server->slots = hx_new_bytes(options->connections_max * sizeof(struct conn *));
    server->free_slots = hx_new_bytes(options->connections_max * sizeof(uint32_t));
    for (uint32_t slot = options->connections_max; slot > 0; slot--)
        server->free_slots[server->free_slot_count++] = slot - 1;
    server->headers = hx_new_bytes(options->headers_max * sizeof(struct hx_http1_header));
    server->scratch = hx_new_bytes(SCRATCH_BYTES);
    return &server->web;
}

struct hx_web *hx_http_server_free(struct hx_web *web)
{
    struct server *server;

    if (web == NULL)
        return NULL;
    server = hx_container_of(web, struct server, web);
    listeners_close(server);
    hx_list_for_each_safe (node, &server->conns)
        conn_free(hx_container_of(node, struct conn, node));
    hx_list_for_each_safe (node, &server->dead)
        conn_free(hx_container_of(node, struct conn, node));
    hx_loop_timer_free(server->again_timer);
    hx_loop_timer_free(server->accept_timer);
    hx_tls_server_free(server->tls);
    hx_free(server->slots);
    hx_free(server->free_slots);
    hx_free(server->headers);
    hx_free(server->scratch);
    hx_free(server);
    return NULL;
}

struct hx_web_event *server_event(struct server *server, enum hx_web_event_type type)
{
    struct hx_web_event *event = hx_web_event_new(type);

    hx_list_append(server->web.inbox, &event->node);
    return event;
}

void server_reap(struct server *server)
{
    struct hx_list *node;
    bool has_room = !hx_list_is_empty(&server->dead);

    while ((node = hx_list_first(&server->dead)) != NULL)
        conn_free(hx_container_of(node, struct conn, node));
    if (has_room)
        listeners_update(server);
    if (server->is_draining && server->conn_count == 0 && !server->is_drained_told) {
        server->is_drained_told = true;
        server_event(server, HX_WEB_DRAINED);
    }
}

uint32_t hx_http_server_connection_count(struct hx_web *web)
{
    return hx_container_of(web, struct server, web)->conn_count;
}
