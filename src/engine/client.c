/* SPDX-License-Identifier: MIT */
/*
 * What the client says: requests, notifications, answers to our own requests, and the ways it
 * leaves.
 *
 * A guarded tools/call goes to intake; everything else is passed on with an id of our own. A cancel
 * detaches the one request that it names.
 */
#include "engine/internal.h"

#include <stdio.h>

static void take_message(struct hx_gateway *gateway, struct hx_buf *line, struct hx_batch *batch);

/* A read-only call took too long. Nothing can have changed, so this is a plain error. */
static void on_limit(struct hx_timer *timer)
{
    struct hx_request *request = hx_container_of(timer, struct hx_request, limit);
    hx_reply_error(request->gateway, request, -32603,
                   HX_SPAN_LIT("The tool did not answer within its timeout. It only reads, so it "
                               "may be called again."),
                   HX_SPAN_LIT("{\"code\":\"TIMEOUT\",\"retry_safe\":true}"));
}

/* The message's bytes stay where they are: the buffer changes hands, so slices of it stay good. */
static struct hx_request *new_request(struct hx_gateway *gateway, enum hx_request_kind kind,
                                      const struct hx_rpc_msg *msg, struct hx_buf *line,
                                      struct hx_batch *batch)
{
    struct hx_request *request = hx_new(struct hx_request);
    request->kind = kind;
    request->message = *line;
    hx_buf_init(line, line->len_max);
    request->raw_id = msg->id.raw;
    request->batch = batch;
    if (batch != NULL)
        batch->open_count++;
    request->gateway = gateway;
    request->limit.fire = on_limit;
    hx_list_init(&request->wait_node);
    hx_buf_init(&request->id_key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(&msg->id, &request->id_key);
    hx_list_append(&gateway->requests, &request->node);
    hx_map_insert(&gateway->requests_by_id, &request->by_id, hx_buf_span(&request->id_key));
    gateway->request_count++;
    gateway->request_bytes += request->message.len;
    return request;
}

void hx_request_free(struct hx_gateway *gateway, struct hx_request *request)
{
    hx_assert(request->call == NULL);
    hx_timer_disarm(&gateway->timers, &request->limit);
    hx_list_unlink(&request->node);
    hx_list_unlink(&request->wait_node);
    hx_map_remove(&gateway->requests_by_id, &request->by_id);
    gateway->request_count--;
    gateway->request_bytes -= request->message.len;
    if (request->route != NULL) {
        /* A late answer finds a route without a request, and is dropped. */
        request->route->request = NULL;
        request->route->kind = HX_ROUTE_QUIET;
    }
    struct hx_batch *batch = request->batch;
    hx_buf_fini(&request->message);
    hx_buf_fini(&request->id_key);
    hx_free(request);
    if (batch != NULL) {
        batch->open_count--;
        hx_batch_release(gateway, batch);
    }
}

struct hx_request *hx_request_find(struct hx_gateway *gateway, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&gateway->requests_by_id, hx_buf_span(&key));
    hx_buf_fini(&key);
    return node ? hx_container_of(node, struct hx_request, by_id) : NULL;
}

static void answer_ping(struct hx_gateway *gateway, struct hx_request *request)
{
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_rewrite_build_result(&line, request->raw_id, HX_SPAN_LIT("{}")) < 0)
        hx_buf_reset(&line); /* an empty line is not sent */
    hx_reply_line(gateway, request, &line, NULL);
}

static void keep(struct hx_buf *kept, struct hx_span bytes)
{
    hx_buf_reset(kept);
    (void)hx_buf_append_span(kept, bytes);
}

static void remember_initialize(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    keep(&gateway->initialize_message, msg->raw);
    hx_arena_reset(&gateway->client_arena);
    gateway->has_client = hx_mcp_initialize_read(
                              &gateway->scratch, hx_arena_dup(&gateway->client_arena, msg->params),
                              &gateway->part_limits, &gateway->client_arena, &gateway->client) == 0;
    if (gateway->has_client)
        gateway->era = hx_mcp_facts(gateway->client.revision);
}

/* Reading these twice harms nobody, so they survive one restart of the server. */
static bool is_safe_to_resend(enum hx_mcp_method method, struct hx_span name)
{
    if (method == HX_MCP_TOOLS_LIST || method == HX_MCP_SET_LEVEL ||
        method == HX_MCP_RESOURCES_SUBSCRIBE)
        return true;
    static const char *const safe[] = {"prompts/list",   "prompts/get",
                                       "resources/list", "resources/templates/list",
                                       "resources/read", "completion/complete"};
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
        if (hx_span_eq_cstr(name, safe[i]))
            return true;
    }
    return false;
}

static void remember_subscription(struct hx_gateway *gateway, struct hx_span message)
{
    enum { SUBSCRIPTIONS_MAX = 1024 };
    unsigned count = 0;
    hx_list_for_each (node, &gateway->subscriptions)
        count++;
    if (count >= SUBSCRIPTIONS_MAX)
        return;
    struct hx_subscription *subscription = hx_new(struct hx_subscription);
    hx_buf_init(&subscription->message, gateway->options.message_max);
    (void)hx_buf_append_span(&subscription->message, message);
    hx_list_append(&gateway->subscriptions, &subscription->node);
}

/* An equal call under an id that is still open is the transport's repeat of the first, since a
 * client never uses an id twice in a session. Intake looks for ids that were just answered. */
static bool is_transport_repeat(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                                struct hx_tool *tool, const struct hx_mcp_call *call)
{
    struct hx_request *open = hx_request_find(gateway, &msg->id);
    if (open == NULL || open->call == NULL || open->call->tool != tool)
        return false;
    return hx_span_eq(open->call->arguments, call->arguments);
}

static void take_call(struct hx_gateway *gateway, const struct hx_rpc_msg *msg, struct hx_buf *line,
                      struct hx_batch *batch)
{
    struct hx_mcp_call call;
    if (hx_mcp_call_read(&gateway->tape, msg, &gateway->arena, &call) < 0 ||
        call.name.state != HX_MCP_TEXT_GIVEN) {
        /* It names no tool, so no rule could be found for it, and a careless server might run
         * something. */
        struct hx_request *request = new_request(gateway, HX_REQUEST_PASS, msg, line, batch);
        hx_reply_error(
            gateway, request, -32602,
            HX_SPAN_LIT("Refused, nothing was sent: tools/call needs params with the name "
                        "of a tool."),
            HX_SPAN_LIT("{\"retry_safe\":true}"));
        return;
    }
    struct hx_tool *tool = hx_tool_get(gateway, call.name.text);
    if (hx_tool_class_of(gateway, tool) == HX_CLASS_READ_ONLY) {
        struct hx_request *request = new_request(gateway, HX_REQUEST_PASS, msg, line, batch);
        request->may_resend = true;
        request->limit_ms = tool->rules.contract.timeout_ms;
        hx_link_forward(gateway, request);
        return;
    }
    if (is_transport_repeat(gateway, msg, tool, &call)) {
        hx_tell(gateway, HX_TELL_INFO, "transport_repeat", "tool=%s", tool->name);
        return;
    }
    struct hx_request *request = new_request(gateway, HX_REQUEST_CALL, msg, line, batch);
    hx_intake(gateway, request, &call, tool);
}

static void take_request(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                         struct hx_buf *line, struct hx_batch *batch)
{
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);
    bool is_full = gateway->request_count >= gateway->options.requests_max ||
                   (gateway->request_count > 0 &&
                    gateway->request_bytes + line->len > gateway->options.request_bytes_max);
    if (is_full) {
        struct hx_request *request = new_request(gateway, HX_REQUEST_PASS, msg, line, batch);
        hx_reply_error(gateway, request, 1503,
                       HX_SPAN_LIT("Too many requests are open; nothing was sent. Wait for answers "
                                   "and repeat this one."),
                       HX_SPAN_NONE);
        return;
    }
    if (method == HX_MCP_TOOLS_CALL) {
        take_call(gateway, msg, line, batch);
        return;
    }
    enum hx_request_kind kind = HX_REQUEST_PASS;
    if (method == HX_MCP_INITIALIZE) {
        kind = HX_REQUEST_INITIALIZE;
        remember_initialize(gateway, msg);
    } else if (method == HX_MCP_TOOLS_LIST) {
        kind = HX_REQUEST_TOOLS_LIST;
    } else if (method == HX_MCP_SET_LEVEL) {
        keep(&gateway->level_message, msg->raw);
    } else if (method == HX_MCP_RESOURCES_SUBSCRIBE) {
        remember_subscription(gateway, msg->raw);
    }
    bool may_resend = is_safe_to_resend(method, msg->method);
    struct hx_request *request = new_request(gateway, kind, msg, line, batch);
    request->may_resend = may_resend;
    if (method == HX_MCP_PING)
        answer_ping(gateway, request);
    else
        hx_link_forward(gateway, request);
}

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
static void forward_cancel(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                           const struct hx_route *route)
{
    struct hx_buf line;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_rewrite_cancelled(&gateway->rewrite, msg->raw, hx_span_cstr(id), &line) == 0)
        hx_link_send(gateway, &line, 0);
    hx_buf_fini(&line);
}

static void cancel_call(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                        struct hx_request *request, bool is_timeout)
{
    struct hx_call *call = request->call;
    struct hx_work *work = call->work;
    enum hx_cancel_upstream policy = call->tool->rules.contract.cancel_upstream;
    bool is_forwarded =
        policy == HX_CANCEL_UPSTREAM_ALWAYS || (policy == HX_CANCEL_UPSTREAM_USER && !is_timeout);
    hx_tell(gateway, HX_TELL_INFO, "cancelled_by_client", "tool=%s timeout=%d", call->tool->name,
            is_timeout);
    request->call = NULL;
    call->request = NULL;
    hx_call_forget(call);
    hx_request_free(gateway, request);
    bool is_last = work != NULL && hx_list_is_empty(&work->calls);
    if (!is_forwarded || !is_last || !hx_work_has_attempt(work) || work->route == NULL)
        return;
    forward_cancel(gateway, msg, work->route);
    work->is_cancel_forwarded = true;
    hx_timer_arm(&gateway->timers, &work->cancel,
                 hx_mono_after(gateway->now.mono, work->tool->rules.cancel_timeout_ms));
}

static void take_cancel(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_cancelled cancelled;
    if (hx_mcp_cancelled_read(&gateway->tape, msg, &gateway->arena, &cancelled) < 0 ||
        cancelled.request_id.type == HX_RPC_ID_NONE)
        return;
    struct hx_request *request = hx_request_find(gateway, &cancelled.request_id);
    if (request == NULL) {
        /* The client had given up when our answer was on its way. */
        struct hx_delivery_note *note = hx_delivery_find(gateway, &cancelled.request_id);
        if (note != NULL)
            hx_delivery_take_back(gateway, note);
        (void)hx_batch_withdraw(gateway, &cancelled.request_id);
        return;
    }
    if (request->kind == HX_REQUEST_INITIALIZE)
        return; /* must not be cancelled */
    if (request->call != NULL) {
        cancel_call(gateway, msg, request, is_timeout_reason(&cancelled.reason));
        return;
    }
    if (request->route != NULL)
        forward_cancel(gateway, msg, request->route);
    hx_request_free(gateway, request);
}

static void take_notification(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);
    if (method == HX_MCP_CANCELLED) {
        take_cancel(gateway, msg);
        return;
    }
    if (method == HX_MCP_INITIALIZED)
        keep(&gateway->initialized_message, msg->raw);
    hx_link_notify(gateway, msg->raw);
}

static void take_response(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_ask *ask = hx_ask_find(gateway, &msg->id);
    if (ask == NULL) {
        hx_tell(gateway, HX_TELL_DEBUG, "client_answer_unknown", "len=%zu", msg->raw.len);
        return;
    }
    hx_ask_answered(gateway, ask, msg);
}

static void take_batch(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    if (!gateway->era->may_batch) {
        struct hx_rpc_msg refused = *msg;
        refused.fault = HX_RPC_NOT_MESSAGE;
        hx_reply_invalid(gateway, NULL, &refused);
        return;
    }
    struct hx_batch *batch = hx_new(struct hx_batch);
    hx_list_init(&batch->answers);
    /* Taking an element in uses the tape again, so the slices are noted first. */
    uint32_t count = hx_json_at(&gateway->tape, msg->root)->count;
    struct hx_span *elements = hx_arena_alloc(&gateway->arena, count * sizeof(*elements));
    uint32_t at_element = 0;
    if (elements != NULL) {
        hx_json_for_each(at, &gateway->tape, msg->root) elements[at_element++] =
            hx_json_raw(&gateway->tape, at);
    }
    for (uint32_t i = 0; i < at_element; i++) {
        struct hx_buf line;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_buf_append_span(&line, elements[i]) == 0)
            take_message(gateway, &line, batch);
        hx_buf_fini(&line);
    }
    batch->is_complete = true;
    hx_batch_release(gateway, batch);
}

static void take_message(struct hx_gateway *gateway, struct hx_buf *line, struct hx_batch *batch)
{
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&gateway->tape, hx_buf_span(line), &gateway->limits, &gateway->arena, &msg) <
        0) {
        hx_tell(gateway, HX_TELL_ERROR, "message_dropped", "reason=memory len=%zu", line->len);
        return;
    }
    switch (msg.kind) {
    case HX_RPC_REQUEST:
        take_request(gateway, &msg, line, batch);
        return;
    case HX_RPC_NOTIFICATION:
        take_notification(gateway, &msg);
        return;
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_response(gateway, &msg);
        return;
    case HX_RPC_BATCH:
        take_batch(gateway, &msg);
        return;
    case HX_RPC_INVALID:
        if (msg.fault != HX_RPC_EMPTY)
            hx_reply_invalid(gateway, batch, &msg);
        return;
    }
}

static void take_oversize(struct hx_gateway *gateway, const struct hx_peer_event *event)
{
    char text[160];
    snprintf(text, sizeof(text),
             "The message has %llu bytes, more than message_max allows; nothing was sent.",
             (unsigned long long)event->size);
    if (!event->has_method && (event->has_result || event->has_error)) {
        /* An answer to a question of the server's: it cannot be passed on, and must not hang. */
        struct hx_rpc_id answered = hx_rpc_id_parse(hx_buf_span(&event->line));
        struct hx_ask *ask = hx_ask_find(gateway, &answered);
        if (ask != NULL)
            hx_ask_refuse(gateway, ask, "The client's answer is larger than message_max allows.");
        return;
    }
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    struct hx_span id = event->line.len > 0 ? hx_buf_span(&event->line) : HX_SPAN_NONE;
    if (hx_rewrite_build_error(&line, id, gateway->era->may_omit_error_id, -32600,
                               hx_span_cstr(text), HX_SPAN_NONE) == 0)
        hx_send_client(gateway, &line, gateway->next_tag++);
    hx_buf_fini(&line);
}

/* The client cannot be answered any more: every waiter leaves, work in hand goes on. */
void hx_client_gone(struct hx_gateway *gateway)
{
    if (gateway->is_client_gone)
        return;
    gateway->is_client_gone = true;
    hx_list_for_each_safe (node, &gateway->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        struct hx_call *call = request->call;
        if (call != NULL) {
            request->call = NULL;
            call->request = NULL;
            hx_call_forget(call);
        }
        hx_request_free(gateway, request);
    }
    hx_asks_of_server_gone(gateway, true);
}

void hx_client_event(struct hx_gateway *gateway, struct hx_peer_event *event)
{
    switch (event->type) {
    case HX_PEER_MESSAGE:
        if (!gateway->is_client_gone && !gateway->is_draining)
            take_message(gateway, &event->line, NULL);
        return;
    case HX_PEER_OVERSIZE:
        if (!gateway->is_client_gone)
            take_oversize(gateway, event);
        return;
    case HX_PEER_WRITTEN:
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
    case HX_PEER_TAKEN_BACK:
        hx_delivery_fate(gateway, event->tag, event->type);
        return;
    case HX_PEER_END_OF_INPUT:
        /* Answers in flight are still written, but not waited for without an end. */
        gateway->is_input_over = true;
        hx_timer_arm(&gateway->timers, &gateway->input_limit,
                     hx_mono_after(gateway->now.mono, gateway->options.orphan_timeout_ms));
        return;
    case HX_PEER_READER_GONE:
        hx_gateway_drain(gateway);
        return;
    case HX_PEER_FRONT_GONE:
        hx_delivery_front_gone(gateway);
        hx_gateway_drain(gateway);
        return;
    case HX_PEER_ENDED:
    case HX_PEER_EXCHANGE_GONE:
    case HX_PEER_RESUME:
    case HX_PEER_FIRST_BYTE:
    case HX_PEER_STARTED:
    case HX_PEER_STALLED:
    case HX_PEER_CLOSED:
    case HX_PEER_STDERR:
    case HX_PEER_ANSWER_LOST:
    case HX_PEER_REJECTED:
    case HX_PEER_SESSION_LOST:
    case HX_PEER_RESUME_POINT:
        return;
    }
}
