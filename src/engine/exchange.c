/* SPDX-License-Identifier: MIT */
/*
 * Ends of exchanges that only a transport with exchanges (HTTP) knows: a request that was refused
 * before it was dispatched, an answer that will not come, a session that the server has forgotten.
 *
 * A refusal proves that nothing ran, so the operation goes back to ready. A lost answer proves
 * nothing.
 */
#include "engine/internal.h"

#include <stdio.h>

enum {
    STATUS_UNAUTHORIZED = 401,
    STATUS_FORBIDDEN = 403,
    STATUS_NOT_FOUND = 404,
    STATUS_TOO_MANY = 429
};

bool hx_link_has_exchanges(const struct hx_link *link)
{
    return link->upstream->ops->drop != NULL;
}

static void keep_reason(struct hx_link *link, const struct hx_peer_event *event)
{
    link->http_status = event->status;
    hx_buf_reset(&link->last_stderr);
    (void)hx_buf_append_span(&link->last_stderr, hx_buf_span(&event->line));
}

/* One more time for what is harmless to ask twice, or was proved not to have been looked at. */
static void ask_again(struct hx_link *link, struct hx_request *request)
{
    request->was_resent = true;
    hx_link_forward(link, request);
}

static void greeting_failed(struct hx_link *link)
{
    /* The generation is over before it began; the next one is not started at once. */
    hx_link_unreachable(link);
}

/* It was for the search of a lost outcome, not for an attempt. A stream that was taken up has a
 * route of the attempt's kind. */
static bool is_search(const struct hx_route_end *end)
{
    return end->work != NULL && (end->kind == HX_ROUTE_QUERY || end->kind == HX_ROUTE_PROBE ||
                                 hx_ladder_has_route(end->work));
}

static void search_failed(const struct hx_route_end *end)
{
    if (end->kind == HX_ROUTE_PROBE)
        hx_probe_failed(end->work);
    else
        hx_ladder_over(end->work);
}

void hx_exchange_not_sent(struct hx_link *link, const struct hx_peer_event *event)
{
    struct hx_route *route = hx_route_find(link, event->tag);
    keep_reason(link, event);
    if (route == NULL)
        return;
    struct hx_route_end end = hx_route_take(route);
    if (end.kind == HX_ROUTE_HANDSHAKE)
        greeting_failed(link);
    else if (is_search(&end))
        search_failed(&end);
    else if (end.work != NULL && end.work->has_polled) {
        hx_work_lost(end.work, HX_REASON_TRANSPORT_LOST, true); /* an earlier one had left */
        hx_link_want_for_waiting(link);
    } else if (end.work != NULL)
        hx_work_event(end.work, HX_EV_NOT_SENT);
    else if (end.request != NULL) {
        end.request->was_sent = false;
        hx_upstream_failed_request(link, end.request);
    }
}

void hx_exchange_answer_lost(struct hx_link *link, const struct hx_peer_event *event)
{
    struct hx_route *route = hx_route_find(link, event->tag);
    keep_reason(link, event);
    if (route == NULL)
        return;
    struct hx_route_end end = hx_route_take(route);
    bool is_unreadable = event->loss == HX_PEER_LOSS_UNREADABLE;
    /* The transport has tried by itself to take the stream up, as long as there was one. */
    if (end.work != NULL && end.kind != HX_ROUTE_TASK && !hx_ladder_is_climbed(end.work) &&
        event->loss != HX_PEER_LOSS_STOPPED)
        end.work->search = HX_SEARCH_OVER;
    if (end.kind == HX_ROUTE_HANDSHAKE)
        greeting_failed(link);
    else if (end.work != NULL) {
        hx_route_lost(&end, is_unreadable ? HX_REASON_UNREADABLE_REPLY : HX_REASON_TRANSPORT_LOST,
                      true);
        hx_link_want_for_waiting(link); /* who is sent again waits for a server; nobody else may */
    } else if (end.request != NULL && end.request->may_resend && !end.request->was_resent)
        ask_again(link, end.request);
    else if (end.request != NULL)
        hx_upstream_failed_request(link, end.request);
}

/* What the caller is told when the server wants other credentials or another kind of request:
 * nothing ran, and repeating it as it is would be refused again. */
static void refuse_callers(struct hx_work *work, const struct hx_peer_event *event)
{
    char detail[160];
    snprintf(detail, sizeof(detail),
             "It refused the request with HTTP status %d before running it.", event->status);
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        hx_call_refuse(call, HX_ANSWER_UPSTREAM_UNAVAILABLE, detail);
    }
}

static void work_rejected(struct hx_work *work, const struct hx_peer_event *event)
{
    if (work->has_polled) {
        /* Only this question was refused; what the first one began goes on. */
        hx_work_lost(work, HX_REASON_TRANSPORT_LOST, true);
        return;
    }
    bool may_go_on = event->status == STATUS_NOT_FOUND || event->status == STATUS_TOO_MANY;
    /* Of an earlier attempt that was sent nobody knows; the core says what that means. */
    if (!may_go_on && hx_nothing_sent_before(&work->op.durable))
        refuse_callers(work, event);
    struct hx_event refused = hx_work_make_event(work, HX_EV_REFUSED_TRANSIENT);
    refused.is_for_caller = !may_go_on;
    if (event->status == STATUS_TOO_MANY)
        refused.not_before_ms =
            event->retry_after_ms > 0 ? event->retry_after_ms : HX_REFUSED_WAIT_MS;
    hx_work_step(work, &refused, NULL);
}

void hx_exchange_rejected(struct hx_link *link, const struct hx_peer_event *event)
{
    struct hx_route *route = hx_route_find(link, event->tag);
    keep_reason(link, event);
    if (route == NULL)
        return;
    struct hx_route_end end = hx_route_take(route);
    bool is_session_lost = event->status == STATUS_NOT_FOUND;
    if (end.kind == HX_ROUTE_HANDSHAKE)
        greeting_failed(link);
    else if (is_search(&end))
        search_failed(&end);
    else if (end.work != NULL) {
        work_rejected(end.work, event);
        hx_link_want_for_waiting(link);
    } else if (end.request != NULL && is_session_lost && !end.request->was_resent &&
               event->generation != link->generation) {
        /* A late word about an earlier session: the new one may be there already. */
        ask_again(link, end.request);
    } else if (end.request != NULL && is_session_lost && !end.request->was_resent) {
        /* Sent again when the new session is there. */
        end.request->was_resent = true;
        hx_list_append(&link->waiting_requests, &end.request->wait_node);
    } else if (end.request != NULL) {
        hx_upstream_failed_request(link, end.request);
    }
}
