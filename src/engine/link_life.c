/* SPDX-License-Identifier: MIT */
/*
 * A link from its making to its end: whose it is, who shares it, when nobody needs it any more.
 */
#include "engine/internal.h"

/* So that a client that comes and goes with every call does not start a process for each. */
static void on_linger(struct hx_timer *timer)
{
    struct hx_link *link = hx_container_of(timer, struct hx_link, linger);
    link->is_leaving = hx_list_is_empty(&link->sessions);
    hx_link_stir(link);
}

struct hx_link *hx_link_new(struct hx_server *server)
{
    struct hx_gateway *gateway = server->gateway;
    hx_assert(!server->is_retired);
    struct hx_upstream *upstream = server->options.make_upstream(server->options.context);
    if (upstream == NULL)
        return NULL;
    struct hx_link *link = hx_new(struct hx_link);
    link->gateway = gateway;
    link->server = server;
    link->upstream = upstream;
    upstream->owner = link;
    hx_list_init(&link->stir_node);
    hx_list_init(&link->works);
    hx_list_init(&link->sessions);
    hx_buf_init(&link->share, 4096);
    hx_buf_init(&link->welcome, gateway->options.message_max);
    link->linger.fire = on_linger;
    hx_list_init(&link->route_list);
    hx_list_init(&link->waiting_requests);
    hx_list_init(&link->waiting_notices);
    hx_list_init(&link->waiting_calls);
    hx_map_init(&link->routes, gateway->map_secret);
    hx_map_init(&link->hints, gateway->map_secret);
    hx_hello_init(&link->hello, gateway->options.message_max);
    hx_buf_init(&link->last_stderr, 16 * 1024);
    link->next_id = 1;
    hx_link_set_timers(link);
    link->is_remote = hx_link_has_exchanges(link);
    hx_list_append(&gateway->links, &link->node);
    return link;
}

void hx_link_free(struct hx_link *link)
{
    hx_link_fail_waiting(link);
    hx_list_for_each_safe (node, &link->works) {
        /* It is given another one when it next needs one. */
        struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        hx_list_unlink(node);
        work->link = NULL;
        hx_work_renew_rules(work);
    }
    hx_asks_of_server_gone(link);
    hx_list_for_each_safe (node, &link->waiting_notices)
        hx_notice_free(hx_container_of(node, struct hx_notice, node));
    hx_list_for_each_safe (node, &link->route_list) {
        /* To listen here may be all that kept it in memory. */
        struct hx_route_end end = hx_route_take(hx_container_of(node, struct hx_route, node));
        if (end.work != NULL) {
            hx_work_renew_rules(end.work);
            hx_work_look_again_later(end.work);
        }
    }
    hx_timer_disarm(&link->gateway->timers, &link->restart);
    hx_timer_disarm(&link->gateway->timers, &link->stuck);
    hx_timer_disarm(&link->gateway->timers, &link->start_limit);
    hx_timer_disarm(&link->gateway->timers, &link->linger);
    hx_tools_forget_hints(link);
    hx_map_fini(&link->hints);
    hx_map_fini(&link->routes);
    hx_hello_fini(&link->hello);
    hx_buf_fini(&link->last_stderr);
    hx_buf_fini(&link->share);
    hx_buf_fini(&link->welcome);
    hx_list_unlink(&link->node);
    hx_list_unlink(&link->stir_node);
    if (link->server->house == link)
        link->server->house = NULL;
    if (link->server->listener == link)
        link->server->listener = NULL;
    link->server->options.free_upstream(link->server->options.context, link->upstream);
    hx_free(link);
}

struct hx_link *hx_link_shared(struct hx_server *server, struct hx_span share)
{
    hx_list_for_each (node, &server->gateway->links) {
        struct hx_link *link = hx_container_of(node, struct hx_link, node);
        if (link->server == server && !link->is_leaving && link->share.len > 0 &&
            hx_span_eq(hx_buf_span(&link->share), share))
            return link;
    }
    struct hx_link *link = hx_link_new(server);
    if (link == NULL)
        return NULL;
    (void)hx_buf_append_span(&link->share, share);
    hx_hello_make(&link->hello);
    link->must_greet = true;
    return link;
}

struct hx_link *hx_link_listener(struct hx_server *server)
{
    if (server->house != NULL)
        return server->house;
    if (server->listener == NULL)
        server->listener = hx_link_new(server);
    return server->listener;
}

struct hx_session *hx_link_session(const struct hx_link *link)
{
    struct hx_list *first = hx_list_first(&link->sessions);
    if (first == NULL || link->share.len > 0)
        return NULL;
    return hx_container_of(first, struct hx_session, link_node);
}

void hx_link_join(struct hx_link *link, struct hx_session *session)
{
    session->link = link;
    hx_list_append(&link->sessions, &session->link_node);
    hx_timer_disarm(&link->gateway->timers, &link->linger);
}

void hx_link_linger(struct hx_link *link)
{
    const int64_t linger_ms = 60 * 1000;
    if (link->share.len > 0 && hx_list_is_empty(&link->sessions))
        hx_timer_arm(&link->gateway->timers, &link->linger,
                     hx_mono_after(link->gateway->now.mono, linger_ms));
}

void hx_link_part(struct hx_session *session)
{
    struct hx_link *link = session->link;
    hx_list_unlink(&session->link_node);
    session->link = NULL;
    if (!hx_list_is_empty(&link->sessions))
        return;
    hx_link_linger(link);
    link->is_leaving = link->share.len == 0 || link->server->is_retired;
    hx_link_stir(link);
}

void hx_link_stir(struct hx_link *link)
{
    if (link != NULL && hx_list_is_empty(&link->stir_node))
        hx_list_append(&link->gateway->stirred, &link->stir_node);
}

bool hx_link_is_silent(const struct hx_link *link)
{
    if (link->state != HX_LINK_DOWN)
        return false;
    /* A server that forgot its session may still answer what is in flight in it. */
    hx_list_for_each (node, &link->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        if (hx_work_has_attempt(work) && work->route != NULL)
            return false;
    }
    return true;
}

bool hx_link_is_closing(const struct hx_link *link)
{
    return link->gateway->is_draining || link->is_leaving;
}

/* Has everything that its client or its operations wait for come to an end? */
static bool has_open(const struct hx_link *link)
{
    hx_list_for_each (node, &link->sessions) {
        const struct hx_session *session = hx_container_of(node, struct hx_session, link_node);
        if (session->request_count > 0 && !session->is_gone)
            return true;
    }
    hx_list_for_each (node, &link->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        if (work->op.phase != HX_PHASE_IDLE || work->is_send_waiting)
            return true;
    }
    return false;
}

/* Is somebody here still to hear what it answers? A handshake has its own limit. */
static bool is_awaited(const struct hx_link *link)
{
    hx_list_for_each (node, &link->route_list) {
        const struct hx_route *route = hx_container_of(node, struct hx_route, node);
        if (route->request != NULL || route->work != NULL || route->kind == HX_ROUTE_HANDSHAKE)
            return true;
    }
    return false;
}

void hx_link_finish_when_idle(struct hx_link *link)
{
    const struct hx_session *session = hx_link_session(link);
    bool is_heard_out = link == link->server->listener && hx_list_is_empty(&link->works) &&
                        hx_list_is_empty(&link->route_list);
    if (is_heard_out) {
        link->server->listener = NULL;
        link->is_leaving = true;
    }
    bool is_over = session != NULL && session->is_input_over;
    bool must_end = hx_link_is_closing(link) || is_over;
    if (must_end && link->state != HX_LINK_STOPPING && link->state != HX_LINK_DOWN &&
        !has_open(link))
        hx_link_stop(link);
    if (link->is_input_closed && !is_awaited(link))
        hx_link_stop(link); /* whoever waits for it is sent to the next one */
}

/* Exchanges live and die with their process, so it is our own name that tells whether they are
 * gone. */
const char *hx_link_transport(struct hx_gateway *gateway, const struct hx_link *link)
{
    if (link == NULL)
        return "";
    if (!link->is_remote)
        return link->upstream->ops->transport_name(link->upstream);
    struct hx_id self = gateway->ports.store->ops->owner(gateway->ports.store);
    hx_id_format(&self, gateway->self_text);
    return gateway->self_text;
}
