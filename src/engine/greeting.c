/* SPDX-License-Identifier: MIT */
/*
 * Our own handshake with a server that was started again or has forgotten its session.
 */
#include "engine/internal.h"

/* A restarted process knows nothing of the client: the handshake of the first one is played
 * again. */
void hx_link_greet(struct hx_link *link)
{
    struct hx_rpc_msg msg;
    struct hx_buf line;
    char id[24];
    if (hx_rpc_read(&link->gateway->tape, hx_buf_span(&link->hello.initialize),
                    &link->gateway->limits, &link->gateway->arena, &msg) < 0 ||
        msg.kind != HX_RPC_REQUEST) {
        hx_link_become_ready(link);
        return;
    }
    struct hx_route *route = hx_route_new(link, HX_ROUTE_HANDSHAKE);
    link->state = HX_LINK_GREETING;
    hx_link_limit_handshake(link);
    hx_route_id_text(route, id);
    hx_buf_init(&line, link->gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) == 0)
        hx_link_send(link, &line, route->id);
    hx_buf_fini(&line);
}

static void send_copy(struct hx_link *link, const struct hx_buf *message)
{
    struct hx_buf line;
    if (message->len == 0)
        return;
    hx_buf_init(&line, link->gateway->options.message_max);
    if (hx_buf_append_span(&line, hx_buf_span(message)) == 0)
        hx_link_send(link, &line, 0);
    hx_buf_fini(&line);
}

/* A request whose answer nobody needs. */
static void send_quiet(struct hx_link *link, const struct hx_buf *message)
{
    struct hx_rpc_msg msg;
    struct hx_buf line;
    char id[24];
    if (message->len == 0 || hx_rpc_read(&link->gateway->tape, hx_buf_span(message),
                                         &link->gateway->limits, &link->gateway->arena, &msg) < 0)
        return;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_QUIET);
    hx_route_id_text(route, id);
    hx_buf_init(&line, link->gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) == 0)
        hx_link_send(link, &line, 0);
    hx_buf_fini(&line);
}

void hx_link_greeted(struct hx_link *link, bool is_welcome)
{
    hx_link_handshake_answered(link);
    if (!is_welcome) {
        hx_tell(link->gateway, HX_TELL_WARN, "greeting_refused", "generation=%u", link->generation);
        link->upstream->ops->stop(link->upstream);
        return;
    }
    send_copy(link, &link->hello.initialized);
    send_quiet(link, &link->hello.level);
    hx_list_for_each (node, &link->hello.subscriptions)
        send_quiet(link, &hx_container_of(node, struct hx_subscription, node)->message);
    hx_link_become_ready(link);
}
