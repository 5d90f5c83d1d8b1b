/* SPDX-License-Identifier: MIT */
/*
 * Our own handshake with a server that was started again or has forgotten its session.
 */
#include "engine/internal.h"

/* A restarted process knows nothing of the client: the handshake of the first one is played
 * again. */
void hx_link_greet(struct hx_gateway *gateway)
{
    struct hx_rpc_msg msg;
    struct hx_buf line;
    char id[24];
    if (hx_rpc_read(&gateway->tape, hx_buf_span(&gateway->initialize_message), &gateway->limits,
                    &gateway->arena, &msg) < 0 ||
        msg.kind != HX_RPC_REQUEST) {
        hx_link_become_ready(gateway);
        return;
    }
    struct hx_route *route = hx_route_new(gateway, HX_ROUTE_HANDSHAKE);
    gateway->link.state = HX_LINK_GREETING;
    hx_link_limit_handshake(gateway);
    hx_route_id_text(route, id);
    hx_buf_init(&line, gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) == 0)
        hx_link_send(gateway, &line, route->id);
    hx_buf_fini(&line);
}

static void send_copy(struct hx_gateway *gateway, const struct hx_buf *message)
{
    struct hx_buf line;
    if (message->len == 0)
        return;
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_buf_append_span(&line, hx_buf_span(message)) == 0)
        hx_link_send(gateway, &line, 0);
    hx_buf_fini(&line);
}

/* A request whose answer nobody needs. */
static void send_quiet(struct hx_gateway *gateway, const struct hx_buf *message)
{
    struct hx_rpc_msg msg;
    struct hx_buf line;
    char id[24];
    if (message->len == 0 || hx_rpc_read(&gateway->tape, hx_buf_span(message), &gateway->limits,
                                         &gateway->arena, &msg) < 0)
        return;
    struct hx_route *route = hx_route_new(gateway, HX_ROUTE_QUIET);
    hx_route_id_text(route, id);
    hx_buf_init(&line, gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) == 0)
        hx_link_send(gateway, &line, 0);
    hx_buf_fini(&line);
}

void hx_link_greeted(struct hx_gateway *gateway, bool is_welcome)
{
    hx_link_handshake_answered(gateway);
    if (!is_welcome) {
        hx_tell(gateway, HX_TELL_WARN, "greeting_refused", "generation=%u",
                gateway->link.generation);
        gateway->ports.upstream->ops->stop(gateway->ports.upstream);
        return;
    }
    send_copy(gateway, &gateway->initialized_message);
    send_quiet(gateway, &gateway->level_message);
    hx_list_for_each (node, &gateway->subscriptions)
        send_quiet(gateway, &hx_container_of(node, struct hx_subscription, node)->message);
    hx_link_become_ready(gateway);
}
