/* SPDX-License-Identifier: MIT */
/*
 * Our own handshake with a server that was started again or has forgotten its session.
 */
#include "engine/internal.h"

/* Nothing is asked of a server that was not greeted: the next one may be, when there is memory. */
static void end_ungreeted(struct hx_link *link)
{
    hx_tell(link->gateway, HX_TELL_ERROR, "greeting_unread", "reason=memory generation=%u",
            link->generation);
    hx_link_end(link, false);
}

/* A restarted process knows nothing of the client: the handshake of the first one is played
 * again. */
void hx_link_greet(struct hx_link *link)
{
    struct hx_rpc_msg msg;
    struct hx_buf line;
    char id[24];
    if (hx_rpc_read(&link->gateway->tape, hx_buf_span(&link->hello.initialize),
                    &link->gateway->limits, &link->gateway->arena, &msg) < 0) {
        end_ungreeted(link);
        return;
    }
    if (msg.kind != HX_RPC_REQUEST) {
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
    else
        end_ungreeted(link);
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
        hx_link_send(link, &line, route->id);
    hx_route_quiet(route);
    hx_buf_fini(&line);
}

static int keep_welcome(struct hx_link *link, const struct hx_rpc_msg *answer)
{
    hx_buf_reset(&link->welcome);
    return link->share.len > 0 ? hx_buf_append_span(&link->welcome, answer->raw) : 0;
}

void hx_link_greeted(struct hx_link *link, const struct hx_rpc_msg *answer)
{
    hx_link_handshake_answered(link);
    if (answer->kind != HX_RPC_RESULT) {
        hx_tell(link->gateway, HX_TELL_WARN, "greeting_refused", "generation=%u", link->generation);
        hx_link_end(link, false);
        return;
    }
    struct hx_mcp_initialize_result result;
    if (hx_link_learn_server(link, answer, &result) < 0 || keep_welcome(link, answer) < 0) {
        end_ungreeted(link);
        return;
    }
    send_copy(link, &link->hello.initialized);
    send_quiet(link, &link->hello.level);
    hx_list_for_each (node, &link->hello.subscriptions)
        send_quiet(link, &hx_container_of(node, struct hx_subscription, node)->message);
    hx_link_become_ready(link);
}

/* The older of two revisions: what both sides can speak. */
static struct hx_span common_revision(const struct hx_session *session, struct hx_span servers)
{
    enum hx_mcp_revision theirs = hx_mcp_revision_parse(servers);
    enum hx_mcp_revision ours = session->has_client ? session->client.revision : HX_MCP_UNKNOWN;
    bool is_older = ours != HX_MCP_UNKNOWN && theirs != HX_MCP_UNKNOWN && ours < theirs;
    return is_older ? hx_mcp_facts(ours)->name : HX_SPAN_NONE;
}

void hx_link_answer_initialize(struct hx_link *link, struct hx_request *request)
{
    struct hx_gateway *gateway = link->gateway;
    struct hx_session *session = request->session;
    struct hx_mcp_initialize_result result;
    struct hx_rpc_msg welcome;
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max + (size_t)64 * 1024);
    int rc = hx_rpc_read(&gateway->tape, hx_buf_span(&link->welcome), &gateway->limits,
                         &gateway->arena, &welcome);
    if (rc == 0 && welcome.kind == HX_RPC_RESULT)
        rc = hx_mcp_initialize_result_read(&gateway->scratch, welcome.result, &gateway->part_limits,
                                           &gateway->arena, &result);
    else if (rc == 0)
        rc = HX_E_SYNTAX;
    bool is_good = rc == 0;
    struct hx_span revision =
        is_good ? common_revision(session, hx_mcp_facts(result.revision)->name) : HX_SPAN_NONE;
    const struct hx_rewrite_initialize change = {.id = request->raw_id,
                                                 .operations_extension =
                                                     HX_SPAN_LIT(HX_OPERATIONS_EXTENSION),
                                                 .revision = revision};
    if (is_good)
        rc = hx_rewrite_initialize_result(&gateway->rewrite, welcome.raw, &change, &line);
    if (rc != 0) {
        hx_buf_fini(&line);
        if (rc == HX_E_NOMEM)
            hx_reply_no_memory(request);
        else
            hx_reply_no_answer(request, "The server's answer is too large to pass on.");
        return;
    }
    session->era = hx_mcp_facts(hx_span_is_absent(revision) ? result.revision
                                                            : hx_mcp_revision_parse(revision));
    hx_session_keep(request, &line);
}
