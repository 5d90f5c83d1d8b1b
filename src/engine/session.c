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

struct hx_session *hx_session_new(struct hx_gateway *gateway,
                                  const struct hx_session_options *options)
{
    enum { ARENA_MAX = 64 << 20 };
    struct hx_link *link = hx_link_new(options->server);
    if (link == NULL)
        return NULL;
    struct hx_session *session = hx_new(struct hx_session);
    session->magic = HX_SESSION_MAGIC;
    session->gateway = gateway;
    session->options = *options;
    session->link = link;
    link->session = session;
    if (gateway->options.ends_with_client)
        options->server->house = link;
    options->downstream->owner = session;
    hx_map_init(&session->requests_by_id, gateway->map_secret);
    hx_map_init(&session->asks_by_id, gateway->map_secret);
    hx_map_init(&session->batch_answers, gateway->map_secret);
    hx_map_init(&session->answered, gateway->map_secret);
    hx_list_init(&session->requests);
    hx_list_init(&session->asks);
    hx_arena_init(&session->client_arena, ARENA_MAX);
    session->era = hx_mcp_facts(HX_MCP_UNKNOWN);
    session->input_limit.fire = on_input_limit;
    hx_mint_secret(gateway, session->ask_secret);
    hx_list_append(&gateway->sessions, &session->node);
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
    session->link->session = NULL;
    session->link->is_leaving = true;
    hx_link_stir(session->link);
    session->link = NULL;
    hx_list_unlink(&session->node);
    hx_list_append(&session->gateway->over, &session->node);
}

void hx_session_free(struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_downstream *downstream = session->options.downstream;
    hx_check(session, HX_SESSION_MAGIC);
    hx_list_unlink(&session->node);
    hx_map_fini(&session->requests_by_id);
    hx_map_fini(&session->asks_by_id);
    hx_map_fini(&session->batch_answers);
    hx_map_fini(&session->answered);
    hx_arena_fini(&session->client_arena);
    session->magic = 0;
    hx_free(session);
    downstream->owner = NULL;
    if (gateway->options.session_over != NULL)
        gateway->options.session_over(gateway->options.context, downstream);
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
