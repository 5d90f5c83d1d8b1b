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
static void send_request(struct hx_link *link, struct hx_request *request)
{
    struct hx_buf line;
    char id[24];
    struct hx_rpc_msg msg;
    if (request->kind == HX_REQUEST_INITIALIZE && link->share.len > 0) {
        hx_link_answer_initialize(link, request);
        return;
    }
    if (hx_rpc_read(&link->gateway->tape, hx_buf_span(&request->message), &link->gateway->limits,
                    &link->gateway->arena, &msg) < 0) {
        hx_reply_no_memory(request);
        return;
    }
    if (msg.kind != HX_RPC_REQUEST) {
        hx_upstream_failed_request(link, request);
        return;
    }
    struct hx_route *route = hx_route_new(link, HX_ROUTE_REQUEST);
    hx_route_id_text(route, id);
    hx_buf_init(&line, link->gateway->options.message_max + 64);
    if (hx_rewrite_id(&msg, hx_span_cstr(id), &line) != 0) {
        hx_buf_fini(&line);
        hx_route_free(route);
        hx_reply_no_memory(request);
        return;
    }
    route->request = request;
    request->route = route;
    request->was_sent = true;
    if (request->kind == HX_REQUEST_INITIALIZE)
        hx_link_limit_handshake(link);
    if (request->limit_ms > 0)
        hx_timer_arm(&link->gateway->timers, &request->limit,
                     hx_mono_after(link->gateway->now.mono, request->limit_ms));
    hx_link_send(link, &line, route->id);
    hx_buf_fini(&line);
}

void hx_link_forward(struct hx_link *link, struct hx_request *request)
{
    /* The first process is greeted by the client itself, so nothing waits for a greeting there;
     * what comes before it has started waits in its queue. */
    if (hx_link_want(link)) {
        send_request(link, request);
        return;
    }
    if (hx_link_is_closing(link)) {
        hx_upstream_failed_request(link, request);
        return;
    }
    hx_list_append(&link->waiting_requests, &request->wait_node);
}

/* A notification speaks to the process that is there. Only before the first one is up does it wait;
 * what a restarted process must know is told to it in the greeting. */
void hx_link_notify(struct hx_link *link, struct hx_span line)
{
    enum { NOTICES_MAX = 1024 };
    bool is_first_start = link->generation <= 1 && link->state == HX_LINK_STARTING;
    struct hx_buf copy;
    if (link->state != HX_LINK_READY && !is_first_start)
        return;
    hx_buf_init(&copy, link->gateway->options.message_max);
    if (hx_buf_append_span(&copy, line) < 0 || link->notice_count >= NOTICES_MAX) {
        hx_buf_fini(&copy);
        return;
    }
    if (!is_first_start) {
        hx_link_send(link, &copy, 0);
        hx_buf_fini(&copy);
        return;
    }
    struct hx_notice *notice = hx_new(struct hx_notice);
    notice->line = copy;
    hx_list_append(&link->waiting_notices, &notice->node);
    link->notice_count++;
}

void hx_link_release_waiting(struct hx_link *link)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&link->waiting_requests)) != NULL)
        send_request(link, hx_container_of(node, struct hx_request, wait_node));
    while ((node = hx_list_first(&link->waiting_notices)) != NULL) {
        struct hx_notice *notice = hx_container_of(node, struct hx_notice, node);
        hx_link_send(link, &notice->line, 0);
        hx_notice_free(notice);
    }
    while ((node = hx_list_take_first(&link->waiting_calls)) != NULL)
        hx_intake_upstream_ready(hx_container_of(node, struct hx_call, node));
    hx_list_for_each_safe (work_node, &link->works)
        hx_work_upstream_ready(hx_container_of(work_node, struct hx_work, link_node));
}

void hx_link_fail_waiting(struct hx_link *link)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&link->waiting_requests)) != NULL)
        hx_upstream_failed_request(link, hx_container_of(node, struct hx_request, wait_node));
    while ((node = hx_list_take_first(&link->waiting_calls)) != NULL)
        hx_intake_upstream_failed(hx_container_of(node, struct hx_call, node));
    hx_list_for_each_safe (work_node, &link->works)
        hx_work_upstream_failed(hx_container_of(work_node, struct hx_work, link_node));
}
