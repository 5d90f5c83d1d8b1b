/* SPDX-License-Identifier: MIT */
/*
 * What the server says: answers to our requests, requests and notifications of its own, and noise.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "wire/skim.h"

/* The request went to a server that is gone, or could not be started at all. */
void hx_upstream_failed_request(struct hx_link *link, struct hx_request *request)
{
    struct hx_buf text;
    hx_buf_init(&text, 32 * 1024);
    /* Only what was never sent, or harms nobody twice, may be called safe to repeat. */
    bool is_safe = !request->was_sent || request->is_harmless;
    (void)hx_buf_append_cstr(&text, !request->was_sent ? "The tool server is not running."
                                    : is_safe
                                        ? "The tool server ended before it answered."
                                        : "The tool server ended before it answered; what was "
                                          "asked of it may have happened.");
    hx_link_write_end(link, &text);
    /* "Unavailable" says of itself that nothing was sent: a gateway before us, or a script, would
     * take its word for a tool that it does not call read-only. */
    if (request->was_sent && request->is_harmless && request->kind == HX_REQUEST_PASS)
        hx_reply_error(request, hx_answer_code(HX_ANSWER_NO_ANSWER), hx_buf_span(&text),
                       HX_SPAN_LIT(HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")));
    else
        hx_reply_error(
            request,
            hx_answer_code(is_safe ? HX_ANSWER_UPSTREAM_UNAVAILABLE : HX_ANSWER_OUTCOME_UNKNOWN),
            hx_buf_span(&text),
            is_safe ? HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false"))
                    : HX_SPAN_LIT(HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")));
    hx_buf_fini(&text);
}

void hx_upstream_unread(struct hx_link *link, struct hx_request *request, const char *why)
{
    if (request->kind == HX_REQUEST_INITIALIZE)
        hx_link_handshake_answered(link);
    hx_reply_no_answer(request, why);
}

int hx_link_learn_server(struct hx_link *link, const struct hx_rpc_msg *msg,
                         struct hx_mcp_initialize_result *ret_result)
{
    struct hx_gateway *gateway = link->gateway;
    int rc = hx_mcp_initialize_result_read(&gateway->scratch, msg->result, &gateway->part_limits,
                                           &gateway->arena, ret_result);
    if (rc < 0)
        return HX_TRACE(rc);
    link->has_operations = ret_result->has_operations_extension;
    link->has_task_calls =
        ret_result->has_task_calls && hx_mcp_facts(ret_result->revision)->has_core_tasks;
    return 0;
}

static int learn_server(struct hx_session *session, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_initialize_result result;
    int rc = hx_link_learn_server(session->link, msg, &result);
    if (rc == 0)
        session->era = hx_mcp_facts(result.revision);
    return HX_TRACE(rc);
}

static int rewrite_answer(struct hx_link *link, const struct hx_request *request,
                          const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    if (msg->kind == HX_RPC_RESULT && request->kind == HX_REQUEST_INITIALIZE) {
        int rc = learn_server(request->session, msg);
        if (rc < 0)
            return HX_TRACE(rc);
        const struct hx_rewrite_initialize change = {
            .id = request->raw_id, .operations_extension = HX_SPAN_LIT(HX_OPERATIONS_EXTENSION)};
        return hx_rewrite_initialize_result(&link->gateway->rewrite, msg->raw, &change, line);
    }
    if (msg->kind == HX_RPC_RESULT && request->kind == HX_REQUEST_TOOLS_LIST) {
        hx_tools_learn(link, msg->result);
        struct hx_rewrite_own_tool own[HX_OWN_TOOLS_MAX];
        struct hx_rewrite_tools change = {request->raw_id, hx_tools_want_key, link, own,
                                          hx_own_tools(link->server, own)};
        return hx_rewrite_tools_result(&link->gateway->rewrite, msg->raw, &change, line);
    }
    return hx_rewrite_id(msg, request->raw_id, line);
}

static void answer_request(struct hx_link *link, struct hx_route *route,
                           const struct hx_rpc_msg *msg)
{
    struct hx_request *request = hx_route_take(route).request;
    if (request == NULL)
        return; /* its client gave it up */
    if (request->kind == HX_REQUEST_INITIALIZE)
        hx_link_handshake_answered(link);
    struct hx_buf line;
    hx_buf_init(&line, link->gateway->options.message_max + (size_t)64 * 1024);
    int rc = rewrite_answer(link, request, msg, &line);
    if (rc > 0) {
        hx_buf_reset(&line);
        rc = hx_rewrite_id(msg, request->raw_id, &line);
    }
    if (rc != 0) {
        hx_buf_fini(&line);
        hx_reply_no_answer(request, rc == HX_E_NOMEM
                                        ? "There is no memory to pass the server's answer on."
                                        : "The server's answer is too large to pass on.");
        return;
    }
    if (request->kind == HX_REQUEST_INITIALIZE && msg->kind == HX_RPC_RESULT)
        hx_session_keep(request, &line);
    else
        hx_reply_line(request, &line, NULL);
}

/* An exchange says itself whose answer came on it; a stream that was taken up from an earlier
 * process carries the id that this one used. */
static struct hx_route *route_of_answer(struct hx_link *link, const struct hx_rpc_msg *msg)
{
    return link->has_answer ? hx_route_find(link, link->speaking)
                            : hx_route_find_rpc(link, &msg->id);
}

static void take_answer(struct hx_link *link, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_route *route = route_of_answer(link, msg);
    if (route == NULL) {
        hx_tell(link->gateway, HX_TELL_WARN, "answer_to_nothing", "len=%zu", msg->raw.len);
        return;
    }
    switch (route->kind) {
    case HX_ROUTE_REQUEST:
        answer_request(link, route, msg);
        return;
    case HX_ROUTE_WORK:
        hx_outcome_take(route, msg, line);
        return;
    case HX_ROUTE_LATE:
        hx_outcome_late(route, msg, line);
        return;
    case HX_ROUTE_QUERY:
        hx_inner_answered(route, msg, line);
        return;
    case HX_ROUTE_PROBE:
        hx_probe_answered(route, msg);
        return;
    case HX_ROUTE_TASK:
        hx_task_answered(route, msg, line);
        return;
    case HX_ROUTE_HANDSHAKE:
        hx_route_free(route);
        hx_link_greeted(link, msg);
        return;
    case HX_ROUTE_QUIET:
        hx_route_free(route);
        return;
    }
}

/* Each waiter that asked for progress gets it under its own token. */
static void fan_out_progress(struct hx_work *work, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = work->gateway;
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (hx_span_is_absent(call->progress_token))
            continue;
        struct hx_buf line;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_rewrite_progress(&gateway->rewrite, msg->raw, call->progress_token, &line) == 0)
            (void)hx_send_aside(call->session, &line, call->request->exchange);
        hx_buf_fini(&line);
    }
}

/* Tokens that we minted read "hx-SECRET-ID" with the id of the route. A task's outlives its route.
 */
static struct hx_work *work_of_token(struct hx_link *link, const struct hx_rpc_id *token)
{
    char prefix[32];
    int len = snprintf(prefix, sizeof(prefix), "\"hx-%s-", link->gateway->token_secret);
    if (token->type != HX_RPC_ID_STRING ||
        !hx_span_starts_with(token->raw, hx_span(prefix, (size_t)len)))
        return NULL;
    struct hx_rpc_id id = {.type = HX_RPC_ID_INTEGER,
                           .raw = hx_span(token->raw.ptr + len, token->raw.len - (size_t)len - 1)};
    const struct hx_route *route = hx_route_find_rpc(link, &id);
    if (route != NULL)
        return route->kind == HX_ROUTE_WORK ? route->work : NULL;
    return hx_task_find(link, id.raw);
}

/* Also a token of an earlier gateway, which minted them under another secret. */
static bool is_our_token(const struct hx_rpc_id *token)
{
    return token->type == HX_RPC_ID_STRING && hx_span_starts_with(token->raw, HX_SPAN_LIT("\"hx-"));
}

/* What the server says of some call must not go to another principal than the one who made it. */
static bool is_of_one_principal(const struct hx_link *link)
{
    const struct hx_session *one = NULL;
    hx_list_for_each (node, &link->sessions) {
        const struct hx_session *session = hx_container_of(node, struct hx_session, link_node);
        if (one != NULL && (!hx_span_eq(one->options.tenant, session->options.tenant) ||
                            !hx_span_eq(one->options.principal, session->options.principal)))
            return false;
        one = session;
    }
    return true;
}

/* `about`: the request that it belongs to; NULL: it is for everybody who speaks over this link. */
static void pass_to_client(struct hx_link *link, struct hx_span raw, const struct hx_request *about)
{
    hx_list_for_each (node, &link->sessions) {
        struct hx_session *session = hx_container_of(node, struct hx_session, link_node);
        struct hx_buf line;
        if (session->is_gone || (about != NULL && about->session != session))
            continue;
        hx_buf_init(&line, link->gateway->options.message_max);
        if (hx_buf_append_span(&line, raw) == 0)
            (void)hx_send_aside(session, &line, about != NULL ? about->exchange : 0);
        hx_buf_fini(&line);
    }
}

/* It speaks of a call: where it cannot be told whose, and they are strangers, nobody gets it. */
static void pass_to_caller(struct hx_link *link, struct hx_span raw)
{
    const struct hx_request *about = hx_link_about(link);
    if (about != NULL || is_of_one_principal(link))
        pass_to_client(link, raw, about);
}

static void take_progress(struct hx_link *link, const struct hx_rpc_msg *msg)
{
    struct hx_rpc_id token = hx_mcp_progress_token(&link->gateway->tape, msg);
    struct hx_work *work = work_of_token(link, &token);
    if (work != NULL) {
        hx_work_heard(work);
        fan_out_progress(work, msg);
    } else if (!is_our_token(&token)) {
        pass_to_caller(link, msg->raw);
    }
}

static void take_notification(struct hx_link *link, const struct hx_rpc_msg *msg)
{
    switch (hx_mcp_method_parse(msg->method)) {
    case HX_MCP_PROGRESS:
        take_progress(link, msg);
        return;
    case HX_MCP_CANCELLED: {
        struct hx_mcp_cancelled cancelled;
        if (hx_mcp_cancelled_read(&link->gateway->tape, msg, &link->gateway->arena, &cancelled) < 0)
            cancelled.reason.state = HX_MCP_TEXT_BAD; /* it is a cancel all the same */
        struct hx_ask *ask = hx_ask_find_server(link, &cancelled.request_id);
        struct hx_buf line;
        if (ask == NULL)
            return;
        hx_buf_init(&line, link->gateway->options.message_max);
        if (hx_rewrite_cancelled(&link->gateway->rewrite, msg->raw, hx_span_cstr(ask->id_text),
                                 &line) == 0)
            (void)hx_send_aside(ask->session, &line, 0);
        hx_buf_fini(&line);
        hx_ask_withdraw(ask);
        return;
    }
    case HX_MCP_TOOLS_LIST_CHANGED:
        /* Until the client lists them again, every tool may write. */
        hx_tools_forget_hints(link);
        pass_to_client(link, msg->raw, NULL);
        return;
    case HX_MCP_LOG_MESSAGE:
        pass_to_caller(link, msg->raw);
        return;
    default:
        pass_to_client(link, msg->raw, NULL);
    }
}

/* The first line that is no message is shown, so that somebody can find where it comes from; after
 * that they are counted. */
static void tell_noise(struct hx_link *link, struct hx_span line)
{
    char shown[81];
    struct hx_buf redacted;
    if (link->noise_count != 1)
        return;
    hx_buf_init(&redacted, SIZE_MAX / 2);
    struct hx_span said = hx_redact_shown(link->gateway->options.redact, line, &redacted);
    size_t len = said.len < sizeof(shown) - 1 ? said.len : sizeof(shown) - 1;
    for (size_t i = 0; i < len; i++) {
        bool is_plain =
            said.ptr[i] >= ' ' && said.ptr[i] < 0x7f && said.ptr[i] != '"' && said.ptr[i] != '\\';
        shown[i] = is_plain ? said.ptr[i] : '?';
    }
    shown[len] = '\0';
    /* The torn half of a result is noise too, and results do not belong in a log. */
    bool looks_like_json = line.len > 0 && (line.ptr[0] == '{' || line.ptr[0] == '[');
    hx_tell(link->gateway, HX_TELL_WARN, "server_noise", "server=\"%.*s\" len=%zu line=\"%s\"",
            HX_SPAN_FMT(link->server->options.name), line.len, looks_like_json ? "{...}" : shown);
    hx_buf_fini(&redacted);
}

/* What only clients ask. A program that is no server may write back what it reads; clients are not
 * asked that, and an answer would come back as one to our own request of that id. */
static bool is_echo(enum hx_mcp_method method)
{
    return method == HX_MCP_INITIALIZE || method == HX_MCP_TOOLS_CALL;
}

static void take_request(struct hx_link *link, const struct hx_rpc_msg *msg)
{
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);
    if (is_echo(method)) {
        link->noise_count++;
        tell_noise(link, msg->raw);
        return;
    }
    if (method == HX_MCP_PING) {
        struct hx_buf line;
        hx_buf_init(&line, link->gateway->options.message_max);
        if (hx_rewrite_build_result(&line, msg->id.raw, HX_SPAN_LIT("{}")) == 0)
            hx_link_send(link, &line, 0);
        hx_buf_fini(&line);
        return;
    }
    hx_ask_for_server(link, msg);
}

static const char not_json[] = "The server's answer is not valid UTF-8 JSON, so it cannot be "
                               "passed on.";
static const char no_memory[] = "There is no memory for the server's answer.";

static struct hx_route *route_of_unreadable(struct hx_link *link, const struct hx_skim_result *seen,
                                            const struct hx_rpc_id *id)
{
    if (seen->has_method)
        return NULL;
    if (link->has_answer)
        return hx_route_find(link, link->speaking);
    return seen->is_object ? hx_route_find_rpc(link, id) : NULL;
}

/* An unreadable answer still tells whose it was: the tool has answered, and what it said is lost.
 * `why` is said of that. */
static void take_unreadable(struct hx_link *link, struct hx_span line, const char *why)
{
    struct hx_skim skim;
    hx_skim_begin(&skim);
    hx_skim_add(&skim, line);
    struct hx_skim_result seen = hx_skim_end(&skim);
    struct hx_rpc_id id = seen.has_id ? hx_rpc_id_parse(hx_skim_id(&skim)) : (struct hx_rpc_id){0};
    struct hx_route *route = route_of_unreadable(link, &seen, &id);
    if (why == no_memory && seen.has_method && seen.has_id) {
        hx_link_refuse_server(link, id.raw, "There is no memory for this request.");
        return;
    }
    if (route == NULL) {
        link->noise_count++;
        link->server->noise++;
        tell_noise(link, line);
        return;
    }
    hx_tell(link->gateway, HX_TELL_WARN, "unreadable_answer", "len=%zu", line.len);
    struct hx_route_end end = hx_route_take(route);
    if (end.work != NULL)
        hx_route_lost(&end, HX_REASON_UNREADABLE_REPLY, false);
    else if (end.request != NULL)
        hx_upstream_unread(link, end.request, why);
}

static void take_one(struct hx_link *link, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    switch (msg->kind) {
    case HX_RPC_REQUEST:
        take_request(link, msg);
        return;
    case HX_RPC_NOTIFICATION:
        take_notification(link, msg);
        return;
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_answer(link, msg, line);
        return;
    case HX_RPC_BATCH:
        return;
    case HX_RPC_INVALID:
        if (msg->fault != HX_RPC_EMPTY)
            take_unreadable(link, msg->raw, not_json);
        return;
    }
}

/* Only 2025-03-26 has batches. An answer that a server puts into an array all the same is taken:
 * its caller waits for it. */
static void take_batch(struct hx_link *link, const struct hx_rpc_msg *batch)
{
    struct hx_span elements[HX_RPC_ELEMENTS_MAX];
    uint32_t at_element = 0;
    hx_assert(hx_json_at(&link->gateway->tape, batch->root)->count <= HX_RPC_ELEMENTS_MAX);
    hx_json_for_each(at, &link->gateway->tape, batch->root) elements[at_element++] =
        hx_json_raw(&link->gateway->tape, at);
    for (uint32_t i = 0; i < at_element; i++) {
        struct hx_buf line;
        struct hx_rpc_msg msg;
        hx_buf_init(&line, link->gateway->options.message_max);
        if (hx_buf_append_span(&line, elements[i]) == 0 &&
            hx_rpc_read(&link->gateway->tape, hx_buf_span(&line), &link->gateway->limits,
                        &link->gateway->arena, &msg) == 0)
            take_one(link, &msg, &line);
        else
            take_unreadable(link, elements[i], no_memory);
        hx_buf_fini(&line);
    }
}

void hx_upstream_message(struct hx_link *link, struct hx_peer_event *event)
{
    struct hx_rpc_msg msg;
    link->speaking = hx_link_has_exchanges(link) ? event->tag : 0;
    link->has_answer = link->speaking != 0 && event->is_answer;
    if (hx_rpc_read(&link->gateway->tape, hx_buf_span(&event->line), &link->gateway->limits,
                    &link->gateway->arena, &msg) < 0) {
        hx_tell(link->gateway, HX_TELL_ERROR, "answer_unread", "reason=memory len=%zu",
                event->line.len);
        take_unreadable(link, hx_buf_span(&event->line), no_memory);
        return;
    }
    if (msg.kind == HX_RPC_INVALID)
        msg.raw = hx_buf_span(&event->line);
    else
        link->has_spoken = true;
    if (msg.kind == HX_RPC_BATCH)
        take_batch(link, &msg);
    else
        take_one(link, &msg, &event->line);
}
