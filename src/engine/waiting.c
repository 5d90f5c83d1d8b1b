/* SPDX-License-Identifier: MIT */
/*
 * What waits for the server to be there: requests, notifications before the first start, new
 * calls, and operations whose next attempt is due.
 */
#include "engine/internal.h"

void hx_notice_free(struct hx_notice *notice)
{
    hx_list_unlink(&notice->node);
    hx_buf_fini(&notice->line);
    hx_free(notice);
}

/* Sends one pass-through request under an id of ours. */
static void send_request(struct hx_gateway *gateway, struct hx_request *request)
{
    struct hx_buf line;
    char id[24];
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&gateway->tape, hx_buf_span(&request->message), &gateway->limits,
                    &gateway->arena, &msg) < 0 ||
        msg.kind != HX_RPC_REQUEST) {
        hx_upstream_failed_request(gateway, request);
        return;
    }
    struct hx_route *route = hx_route_new(gateway, HX_ROUTE_REQUEST);
    route->request = request;
    request->route = route;
    request->was_sent = true;
    if (request->kind == HX_REQUEST_INITIALIZE)
        hx_link_limit_handshake(gateway);
    if (request->limit_ms > 0)
        hx_timer_arm(&gateway->timers, &request->limit,
                     hx_mono_after(gateway->now.mono, request->limit_ms));
    hx_route_id_text(route, id);
    hx_buf_init(&line, gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) == 0)
        hx_link_send(gateway, &line, route->id);
    hx_buf_fini(&line);
}

void hx_link_forward(struct hx_gateway *gateway, struct hx_request *request)
{
    struct hx_link *link = &gateway->link;
    /* The first process is greeted by the client itself, so nothing waits for a greeting there;
     * what comes before it has started waits in its queue. */
    if (hx_link_want(gateway)) {
        send_request(gateway, request);
        return;
    }
    if (gateway->is_draining) {
        hx_upstream_failed_request(gateway, request);
        return;
    }
    hx_list_append(&link->waiting_requests, &request->wait_node);
}

/* A notification speaks to the process that is there. Only before the first one is up does it wait;
 * what a restarted process must know is told to it in the greeting. */
void hx_link_notify(struct hx_gateway *gateway, struct hx_span line)
{
    enum { NOTICES_MAX = 1024 };
    struct hx_link *link = &gateway->link;
    bool is_first_start = link->generation <= 1 && link->state == HX_LINK_STARTING;
    struct hx_buf copy;
    if (link->state != HX_LINK_READY && !is_first_start)
        return;
    hx_buf_init(&copy, gateway->options.message_max);
    if (hx_buf_append_span(&copy, line) < 0 || link->notice_count >= NOTICES_MAX) {
        hx_buf_fini(&copy);
        return;
    }
    if (!is_first_start) {
        hx_link_send(gateway, &copy, 0);
        hx_buf_fini(&copy);
        return;
    }
    struct hx_notice *notice = hx_new(struct hx_notice);
    notice->line = copy;
    hx_list_append(&link->waiting_notices, &notice->node);
    link->notice_count++;
}

void hx_link_release_waiting(struct hx_gateway *gateway)
{
    struct hx_link *link = &gateway->link;
    struct hx_list *node;
    while ((node = hx_list_take_first(&link->waiting_requests)) != NULL)
        send_request(gateway, hx_container_of(node, struct hx_request, wait_node));
    while ((node = hx_list_first(&link->waiting_notices)) != NULL) {
        struct hx_notice *notice = hx_container_of(node, struct hx_notice, node);
        hx_link_send(gateway, &notice->line, 0);
        hx_notice_free(notice);
    }
    while ((node = hx_list_take_first(&link->waiting_calls)) != NULL)
        hx_intake_upstream_ready(hx_container_of(node, struct hx_call, node));
    hx_list_for_each_safe (work_node, &gateway->works)
        hx_work_upstream_ready(hx_container_of(work_node, struct hx_work, node));
}

void hx_link_fail_waiting(struct hx_gateway *gateway)
{
    struct hx_link *link = &gateway->link;
    struct hx_list *node;
    while ((node = hx_list_take_first(&link->waiting_requests)) != NULL)
        hx_upstream_failed_request(gateway, hx_container_of(node, struct hx_request, wait_node));
    while ((node = hx_list_take_first(&link->waiting_calls)) != NULL)
        hx_intake_upstream_failed(hx_container_of(node, struct hx_call, node));
    hx_list_for_each_safe (work_node, &gateway->works)
        hx_work_upstream_failed(hx_container_of(work_node, struct hx_work, node));
}
