/* SPDX-License-Identifier: MIT */
/*
 * One client from its coming to its end. What it began outlives it.
 */
#include "engine/internal.h"

/* The client has closed its end and still waits; so long that it is told what is known by now. */
static void on_input_limit(struct hx_timer *timer)
{
    struct hx_session *session = hx_container_of(timer, struct hx_session, input_limit);
    hx_list_for_each_safe (node, &session->link->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        if (hx_work_has_attempt(work))
            hx_work_lost(work, HX_REASON_TIMED_OUT, false);
    }
    hx_list_for_each_safe (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        if (request->call == NULL)
            hx_upstream_failed_request(session->link, request);
    }
}

void hx_session_learn_client(struct hx_session *session, struct hx_span params)
{
    struct hx_gateway *gateway = session->gateway;
    hx_arena_reset(&session->client_arena);
    session->has_client = hx_mcp_initialize_read(
                              &gateway->scratch, hx_arena_dup(&session->client_arena, params),
                              &gateway->part_limits, &session->client_arena, &session->client) == 0;
    if (session->has_client)
        session->era = hx_mcp_facts(session->client.revision);
}

/* What an earlier process knew of it. The server is greeted in its client's words when it is
 * needed; until then nothing is started. */
static void restore(struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_span initialize = session->options.initialize;
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&gateway->tape, initialize, &gateway->limits, &gateway->arena, &msg) == 0)
        hx_session_learn_client(session, msg.params);
    session->era = hx_mcp_facts(hx_mcp_revision_parse(session->options.revision));
    session->is_kept = true;
    session->touched = gateway->now.wall;
    if (session->link->share.len == 0) {
        hx_hello_restore(&session->link->hello, initialize);
        session->link->must_greet = true;
    }
    session->options.initialize = session->options.revision = HX_SPAN_NONE; /* borrowed till now */
}

struct hx_session *hx_session_new(struct hx_gateway *gateway,
                                  const struct hx_session_options *options)
{
    enum { ARENA_MAX = 64 << 20 };
    bool is_shared = !hx_span_is_absent(options->share);
    struct hx_link *link =
        is_shared ? hx_link_shared(options->server, options->share) : hx_link_new(options->server);
    if (link == NULL)
        return NULL;
    struct hx_session *session = hx_new(struct hx_session);
    session->magic = HX_SESSION_MAGIC;
    session->gateway = gateway;
    session->options = *options;
    hx_link_join(link, session);
    if (gateway->options.ends_with_client)
        options->server->house = link;
    options->downstream->owner = session;
    hx_map_init(&session->requests_by_id, gateway->map_secret);
    hx_map_init(&session->asks_by_id, gateway->map_secret);
    hx_map_init(&session->batch_answers, gateway->map_secret);
    hx_map_init(&session->answered, gateway->map_secret);
    hx_list_init(&session->requests);
    hx_list_init(&session->asks);
    hx_arena_init_small(&session->client_arena, ARENA_MAX);
    hx_buf_init(&session->early, HX_RPC_ID_MAX * 16);
    session->era = hx_mcp_facts(HX_MCP_UNKNOWN);
    session->input_limit.fire = on_input_limit;
    hx_mint_secret(gateway, session->ask_secret);
    hx_list_append(&gateway->sessions, &session->node);
    if (!hx_span_is_absent(options->initialize))
        restore(session);
    else
        (void)hx_link_want(link);
    return session;
}

void hx_session_gone(struct hx_session *session)
{
    if (session->is_gone)
        return;
    session->is_gone = true;
    hx_list_for_each_safe (node, &session->requests)
        hx_request_leave(hx_container_of(node, struct hx_request, node));
    hx_asks_of_client_gone(session);
}

void hx_session_end(struct hx_session *session)
{
    hx_check(session, HX_SESSION_MAGIC);
    if (session->link == NULL)
        return;
    hx_session_gone(session);
    hx_delivery_session_over(session);
    hx_timer_disarm(&session->gateway->timers, &session->input_limit);
    hx_store_forget_session(session);
    hx_link_part(session);
    hx_list_unlink(&session->node);
    hx_list_append(&session->gateway->over, &session->node);
}

void hx_session_free(struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_downstream *downstream = session->options.downstream;
    bool is_ended = session->is_ended;
    hx_check(session, HX_SESSION_MAGIC);
    hx_delivery_session_freed(session);
    hx_list_unlink(&session->node);
    hx_map_fini(&session->requests_by_id);
    hx_map_fini(&session->asks_by_id);
    hx_map_fini(&session->batch_answers);
    hx_map_fini(&session->answered);
    hx_arena_fini(&session->client_arena);
    hx_buf_fini(&session->early);
    session->magic = 0;
    hx_free(session);
    downstream->owner = NULL;
    if (gateway->options.session_over != NULL)
        gateway->options.session_over(gateway->options.context, downstream, is_ended);
}

bool hx_session_hears(const struct hx_session *session, uint64_t exchange)
{
    if (session == NULL || session->is_gone)
        return false;
    struct hx_downstream *client = session->options.downstream;
    return client->ops->is_reader_alive(client, exchange);
}

bool hx_session_had_server(const struct hx_session *session)
{
    return session->link->has_spoken || session->link->hello.initialize.len == 0;
}
