/* SPDX-License-Identifier: MIT */
/*
 * What the client says: requests, notifications, answers to our own requests, and the ways it
 * leaves.
 *
 * A guarded tools/call goes to intake; everything else is passed on with an id of our own.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "wire/skim.h"

static void take_message(struct hx_session *session, struct hx_buf *line, struct hx_batch *batch);

static void answer_ping(struct hx_request *request)
{
    struct hx_buf line;
    hx_buf_init(&line, request->session->gateway->options.message_max);
    if (hx_rewrite_build_result(&line, request->raw_id, HX_SPAN_LIT("{}")) < 0)
        hx_buf_reset(&line); /* an empty line is not sent */
    hx_reply_line(request, &line, NULL);
}

static int keep(struct hx_buf *kept, struct hx_span bytes)
{
    hx_buf_reset(kept);
    return hx_buf_append_span(kept, bytes);
}

/* What cannot be kept cannot be played again to a server that is started anew, which would then
 * serve without a greeting. */
static int remember_initialize(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    int rc = 0;
    if (session->link->share.len == 0)
        rc = keep(&session->link->hello.initialize, msg->raw);
    hx_session_learn_client(session, msg->params);
    return rc;
}

/* What is harmless survives one restart of the server, but for what is said to that one process. */
static bool may_be_resent(enum hx_mcp_method method, struct hx_span name)
{
    bool is_of_process = method == HX_MCP_INITIALIZE || method == HX_MCP_TASKS_GET ||
                         method == HX_MCP_TASKS_RESULT || method == HX_MCP_TASKS_LIST ||
                         hx_span_eq_cstr(name, "resources/unsubscribe");
    return hx_mcp_is_harmless(method, name) && !is_of_process;
}

static bool says_no_key(const struct hx_session *session, const struct hx_mcp_call *call)
{
    const struct hx_peer_event *taken = session->taken;
    return call->meta_key.state == HX_MCP_TEXT_ABSENT &&
           call->param_key.state == HX_MCP_TEXT_ABSENT && (taken == NULL || taken->key_count == 0);
}

/* An equal call under an id that is still open is the transport's repeat of the first, since a
 * client never uses an id twice in a session. Intake looks for ids that were just answered. A call
 * with a key says itself which one it is. */
static struct hx_request *find_transport_repeat(struct hx_session *session,
                                                const struct hx_rpc_msg *msg, struct hx_tool *tool,
                                                const struct hx_mcp_call *call)
{
    if (!says_no_key(session, call))
        return NULL;
    for (struct hx_request *open = hx_request_find(session, &msg->id); open != NULL;
         open = hx_request_find_next(open)) {
        if (open->call != NULL && open->call->tool == tool &&
            open->call->wanted.key_source == HX_KEY_NONE &&
            hx_span_eq(open->call->arguments, call->arguments))
            return open;
    }
    return NULL;
}

/* The answer goes to whoever asked last: nobody repeats a request while he still hears. */
static void take_transport_repeat(struct hx_session *session, struct hx_request *open)
{
    hx_tell(session->gateway, HX_TELL_INFO, "transport_repeat", "tool=%s", open->call->tool->name);
    if (session->taking == 0)
        return;
    uint64_t before = open->exchange;
    open->exchange = session->taking;
    session->taking = 0;
    hx_intake_name_stream(open->call);
    hx_exchange_settle(session, before);
}

static void take_call(struct hx_session *session, const struct hx_rpc_msg *msg, struct hx_buf *line,
                      struct hx_batch *batch)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_mcp_call call;
    if (hx_mcp_call_read(&gateway->tape, msg, &gateway->arena, &call) < 0) {
        hx_reply_unread(session, batch, msg->id.raw);
        return;
    }
    if (call.name.state != HX_MCP_TEXT_GIVEN) {
        /* It names no tool, so no rule could be found for it, and a careless server might run
         * something. */
        struct hx_request *request = hx_request_new(session, HX_REQUEST_PASS, msg, line, batch);
        hx_reply_refused(
            request, HX_RPC_INVALID_PARAMS,
            "Refused, nothing was sent: tools/call needs params with the name of a tool.");
        return;
    }
    if (hx_own_tool_take(session, msg, &call, line, batch))
        return;
    struct hx_tool *tool = hx_tool_called(session->link->server, call.name.text);
    if (tool == NULL) {
        hx_reply_refused(hx_request_new(session, HX_REQUEST_PASS, msg, line, batch),
                         HX_RPC_INVALID_PARAMS,
                         "Refused, nothing was sent: this tool is not one that the server lists, "
                         "and too many others have been named, or its name is too long or holds a "
                         "zero byte. List the tools and call one of them.");
        return;
    }
    if (hx_tool_class_of(session->link, tool) == HX_CLASS_READ_ONLY) {
        struct hx_request *request = hx_request_new(session, HX_REQUEST_PASS, msg, line, batch);
        request->is_harmless = request->may_resend = true;
        request->limit_ms = tool->rules.contract.timeout_ms;
        hx_link_forward(session->link, request);
        return;
    }
    struct hx_request *open = find_transport_repeat(session, msg, tool, &call);
    if (open != NULL && open->batch == NULL && batch == NULL) {
        take_transport_repeat(session, open);
        return;
    }
    /* The answer of an array stays in it: whoever waits elsewhere gets one of his own. */
    hx_intake(hx_request_new(session, HX_REQUEST_CALL, msg, line, batch), &call, tool,
              open != NULL ? open->call : NULL);
}

static bool is_full(const struct hx_session *session, size_t more_bytes)
{
    const struct hx_gateway_options *options = &session->gateway->options;
    return session->request_count >= options->requests_max ||
           (session->request_count > 0 &&
            session->request_bytes + more_bytes > options->request_bytes_max);
}

static void take_request(struct hx_session *session, const struct hx_rpc_msg *msg,
                         struct hx_buf *line, struct hx_batch *batch)
{
    struct hx_hello *hello = &session->link->hello;
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);
    if (is_full(session, line->len)) {
        struct hx_request *request = hx_request_new(session, HX_REQUEST_PASS, msg, line, batch);
        hx_reply_unsent(request,
                        HX_SPAN_LIT("Too many requests are open; nothing was sent. Wait for "
                                    "answers and repeat this one."));
        return;
    }
    if (method == HX_MCP_TOOLS_CALL) {
        take_call(session, msg, line, batch);
        return;
    }
    if (hx_operations_is_method(method)) {
        struct hx_span params = msg->params;
        hx_operations_take(hx_request_new(session, HX_REQUEST_PASS, msg, line, batch), method,
                           params);
        return;
    }
    if (method == HX_MCP_INITIALIZE && batch != NULL) {
        hx_reply_refused(hx_request_new(session, HX_REQUEST_PASS, msg, line, batch),
                         HX_RPC_INVALID_REQUEST,
                         "initialize must not stand in a batch; nothing was sent.");
        return;
    }
    enum hx_request_kind kind = HX_REQUEST_PASS;
    if (method == HX_MCP_INITIALIZE) {
        kind = HX_REQUEST_INITIALIZE;
        if (remember_initialize(session, msg) < 0) {
            hx_reply_unread(session, batch, msg->id.raw);
            return;
        }
    } else if (method == HX_MCP_TOOLS_LIST) {
        kind = HX_REQUEST_TOOLS_LIST;
    } else if (method == HX_MCP_SET_LEVEL) {
        (void)keep(&hello->level, msg->raw); /* a server that is started anew says more, or less */
    } else if (method == HX_MCP_RESOURCES_SUBSCRIBE) {
        hx_hello_subscribe(hello, msg->raw);
    }
    bool may_resend = may_be_resent(method, msg->method);
    struct hx_request *request = hx_request_new(session, kind, msg, line, batch);
    request->may_resend = may_resend;
    if (method == HX_MCP_PING)
        answer_ping(request);
    else
        hx_link_forward(session->link, request);
}

static void take_notification(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);
    if (method == HX_MCP_CANCELLED) {
        hx_client_cancel(session, msg);
        return;
    }
    bool is_shared = session->link->share.len > 0;
    if (method == HX_MCP_INITIALIZED && !is_shared)
        (void)keep(&session->link->hello.initialized, msg->raw); /* it is short */
    /* The handshake of a shared link is ours, and it promised no roots. */
    if (!is_shared || (method != HX_MCP_INITIALIZED && method != HX_MCP_ROOTS_LIST_CHANGED))
        hx_link_notify(session->link, msg->raw);
}

static void take_response(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    struct hx_ask *ask = hx_ask_find(session, &msg->id);
    if (ask == NULL) {
        hx_tell(session->gateway, HX_TELL_DEBUG, "client_answer_unknown", "len=%zu", msg->raw.len);
        return;
    }
    hx_ask_answered(ask, msg);
}

/* There is no memory to read it. What it was still tells who waits for something. */
static void take_unread(struct hx_session *session, struct hx_span text, struct hx_batch *batch)
{
    struct hx_skim skim;
    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    struct hx_skim_result seen = hx_skim_end(&skim);
    struct hx_span id = seen.has_id ? hx_skim_id(&skim) : HX_SPAN_NONE;
    hx_tell(session->gateway, HX_TELL_ERROR, "message_unread", "reason=memory len=%zu", text.len);
    if (!seen.has_method && (seen.has_result || seen.has_error)) {
        struct hx_rpc_id answered = hx_rpc_id_parse(id);
        struct hx_ask *ask = seen.has_id ? hx_ask_find(session, &answered) : NULL;
        if (ask != NULL)
            hx_ask_refuse(ask, "There is no memory for the client's answer.");
        return;
    }
    if (!seen.is_object || seen.has_id)
        hx_reply_unread(session, batch, id);
}

static void take_batch(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = session->gateway;
    if (!session->era->may_batch) {
        struct hx_rpc_msg refused = *msg;
        refused.fault = HX_RPC_NOT_MESSAGE;
        hx_reply_invalid(session, NULL, &refused);
        return;
    }
    struct hx_batch *batch = hx_new(struct hx_batch);
    hx_list_init(&batch->answers);
    batch->exchange = session->taking;
    /* Taking an element in uses the tape again, so the slices are noted first. */
    struct hx_span elements[HX_RPC_ELEMENTS_MAX];
    uint32_t at_element = 0;
    hx_assert(hx_json_at(&gateway->tape, msg->root)->count <= HX_RPC_ELEMENTS_MAX);
    hx_json_for_each(at, &gateway->tape, msg->root) elements[at_element++] =
        hx_json_raw(&gateway->tape, at);
    for (uint32_t i = 0; i < at_element; i++) {
        struct hx_buf line;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_buf_append_span(&line, elements[i]) == 0)
            take_message(session, &line, batch);
        else
            take_unread(session, elements[i], batch);
        hx_buf_fini(&line);
    }
    batch->is_complete = true;
    hx_batch_release(session, batch);
}

static void take_message(struct hx_session *session, struct hx_buf *line, struct hx_batch *batch)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&gateway->tape, hx_buf_span(line), &gateway->limits, &gateway->arena, &msg) <
        0) {
        take_unread(session, hx_buf_span(line), batch);
        return;
    }
    switch (msg.kind) {
    case HX_RPC_REQUEST:
        take_request(session, &msg, line, batch);
        return;
    case HX_RPC_NOTIFICATION:
        take_notification(session, &msg);
        return;
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_response(session, &msg);
        return;
    case HX_RPC_BATCH:
        take_batch(session, &msg);
        return;
    case HX_RPC_INVALID:
        if (msg.fault != HX_RPC_EMPTY || session->taking != 0)
            hx_reply_invalid(session, batch, &msg);
        return;
    }
}

/* What came held no request: nobody waits for an answer to it. */
static void settle_rest(struct hx_session *session)
{
    hx_exchange_settle(session, session->taking);
    session->taking = 0;
}

static void take_oversize(struct hx_session *session, const struct hx_peer_event *event)
{
    char text[160];
    snprintf(
        text, sizeof(text),
        "The message has %llu bytes, more than message_max allows or than there is memory for; "
        "nothing was sent.",
        (unsigned long long)event->size);
    if (!event->has_method && (event->has_result || event->has_error)) {
        /* An answer to a question of the server's: it cannot be passed on, and must not hang. */
        struct hx_rpc_id answered = hx_rpc_id_parse(hx_buf_span(&event->line));
        struct hx_ask *ask = hx_ask_find(session, &answered);
        if (ask != NULL)
            hx_ask_refuse(ask,
                          "The client's answer is larger than message_max allows, or than there "
                          "is memory for.");
        return;
    }
    struct hx_span id = event->line.len > 0 ? hx_buf_span(&event->line) : HX_SPAN_NONE;
    hx_reply_fault(session, id, HX_RPC_INVALID_REQUEST, text);
}

/* In these revisions a client that goes away takes nothing back: whoever waited on that exchange
 * waits no more, and what he began goes on. */
static void exchange_gone(struct hx_session *session, uint64_t exchange)
{
    hx_list_for_each_safe (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        if (request->exchange != exchange)
            continue;
        /* What sent it may send it again by itself: under this id it is the same call. */
        const struct hx_work *work = request->call != NULL ? request->call->work : NULL;
        if (work != NULL && work->op.durable.state != HX_OP_ABSENT)
            hx_delivery_remember(request->call, &work->op.durable);
        hx_request_leave(request);
    }
}

static void client_left(struct hx_session *session)
{
    if (session->gateway->options.ends_with_client)
        hx_gateway_drain(session->gateway);
    else
        hx_session_end(session);
}

static void input_over(struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    /* Answers in flight are still written, but not waited for without an end. */
    session->is_input_over = true;
    hx_asks_of_client_gone(session); /* no answer of his can come any more */
    hx_timer_arm(&gateway->timers, &session->input_limit,
                 hx_mono_after(gateway->now.mono, gateway->options.orphan_timeout_ms));
}

/* Of a session that began when we had begun to end. Its sender must not wait for an answer. */
static void leave_unread(struct hx_session *session, uint64_t exchange)
{
    struct hx_downstream *client = session->options.downstream;
    if (exchange != 0 && !session->is_gone)
        client->ops->settle(client, exchange, HX_SETTLING_UNREAD);
}

void hx_client_event(struct hx_session *session, struct hx_peer_event *event)
{
    hx_check(session, HX_SESSION_MAGIC);
    hx_link_stir(session->link);
    switch (event->type) {
    case HX_PEER_MESSAGE:
        hx_session_touch(session);
        if (session->gateway->is_draining) {
            leave_unread(session, event->exchange);
            return;
        }
        session->taking = event->exchange;
        session->taken = event;
        if (!session->is_gone)
            take_message(session, &event->line, NULL);
        session->taken = NULL;
        settle_rest(session);
        return;
    case HX_PEER_OVERSIZE:
        session->taking = event->exchange;
        if (!session->is_gone)
            take_oversize(session, event);
        settle_rest(session);
        return;
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
        if (!hx_ask_unsent(session, event->tag))
            hx_delivery_fate(session->gateway, event->tag, event->type);
        return;
    case HX_PEER_WRITTEN:
    case HX_PEER_TAKEN_BACK:
        hx_delivery_fate(session->gateway, event->tag, event->type);
        return;
    case HX_PEER_END_OF_INPUT:
        input_over(session);
        return;
    case HX_PEER_READER_GONE:
        client_left(session);
        return;
    case HX_PEER_ENDED:
        hx_session_forget_kept(session);
        client_left(session);
        return;
    case HX_PEER_FRONT_GONE:
        hx_delivery_front_gone(session);
        client_left(session);
        return;
    case HX_PEER_EXCHANGE_GONE:
        exchange_gone(session, event->exchange);
        return;
    case HX_PEER_RESUME:
        hx_session_touch(session);
        hx_stream_resume(session, event->exchange, hx_buf_span(&event->line));
        return;
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
