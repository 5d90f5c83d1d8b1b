/* SPDX-License-Identifier: MIT */
/*
 * A client takes one of its requests back. The request is detached, and its id is answered no more.
 *
 * What a tool was asked to do is not undone by that. Whether the server hears of it is for the
 * tool's contract to say; by default it does when a person meant it, and not when a client's time
 * was over, since that client asks again and wants the outcome. A cancel that comes after our
 * answer tells that the answer was not wanted: its delivery is taken back.
 */
#include "engine/internal.h"

/* Clients name a timeout in the reason; a person's Esc has another one or none. */
static bool is_timeout_reason(const struct hx_mcp_text *reason)
{
    static const char *const words[] = {"timed out", "timeout", "time out", "deadline"};
    if (reason->state != HX_MCP_TEXT_GIVEN)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (hx_span_contains_nocase(reason->text, hx_span_cstr(words[i])))
            return true;
    }
    return false;
}

/* Passes a cancel on under our own id of the request. */
static void forward_cancel(struct hx_session *session, const struct hx_rpc_msg *msg,
                           const struct hx_route *route)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_buf line;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_rewrite_cancelled(&gateway->rewrite, msg->raw, hx_span_cstr(id), &line) == 0)
        hx_link_send(route->link, &line, 0);
    else
        hx_link_send_cancel(route, "cancelled");
    hx_buf_fini(&line);
}

static void cancel_call(struct hx_session *session, const struct hx_rpc_msg *msg,
                        struct hx_request *request, bool is_timeout)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_call *call = request->call;
    struct hx_work *work = call->work;
    enum hx_cancel_upstream policy = call->tool->rules.contract.cancel_upstream;
    bool is_forwarded =
        policy == HX_CANCEL_UPSTREAM_ALWAYS || (policy == HX_CANCEL_UPSTREAM_USER && !is_timeout);
    hx_tell(gateway, HX_TELL_INFO, "cancelled_by_client", "tool=%s timeout=%d", call->tool->name,
            is_timeout);
    hx_request_leave(request);
    bool is_last = work != NULL && hx_list_is_empty(&work->calls);
    if (!is_forwarded || !is_last || !hx_work_has_attempt(work))
        return;
    bool is_task = hx_task_cancel(work);
    if (!is_task && work->route == NULL)
        return;
    if (!is_task)
        forward_cancel(session, msg, work->route);
    work->is_cancel_forwarded = true;
    hx_timer_arm(&gateway->timers, &work->cancel,
                 hx_mono_after(gateway->now.mono, work->tool->rules.cancel_timeout_ms));
}

void hx_client_cancel(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_mcp_cancelled cancelled;
    if (hx_mcp_cancelled_read(&gateway->tape, msg, &gateway->arena, &cancelled) < 0)
        cancelled.reason.state = HX_MCP_TEXT_BAD; /* too long to read: it is one all the same */
    if (cancelled.request_id.type == HX_RPC_ID_NONE)
        return;
    struct hx_request *request = hx_request_find(session, &cancelled.request_id);
    if (request == NULL) {
        /* The client had given up when our answer was on its way. */
        struct hx_delivery_note *note = hx_delivery_find(session, &cancelled.request_id);
        if (note != NULL)
            hx_delivery_take_back(gateway, note);
        (void)hx_batch_withdraw(session, &cancelled.request_id);
        hx_stream_cancelled(session, &cancelled.request_id);
        hx_stream_give_up(session, cancelled.request_id.raw);
        return;
    }
    if (request->kind == HX_REQUEST_INITIALIZE)
        return; /* must not be cancelled */
    if (hx_request_find_next(request) != NULL) {
        /* It means one of several, and nobody can say which: an answer too many harms less than
         * one that never comes. */
        hx_tell(gateway, HX_TELL_INFO, "cancel_is_ambiguous", "len=%zu", msg->raw.len);
        return;
    }
    if (request->batch == NULL)
        hx_exchange_settle(session, request->exchange);
    hx_stream_give_up(session, request->raw_id);
    if (request->call != NULL) {
        cancel_call(session, msg, request, is_timeout_reason(&cancelled.reason));
        return;
    }
    if (request->route != NULL)
        forward_cancel(session, msg, request->route);
    hx_request_free(request);
}
