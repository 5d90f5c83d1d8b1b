/* SPDX-License-Identifier: MIT */
/*
 * What the server says: answers to our requests, requests and notifications of its own, and noise.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/crash.h"
#include "wire/skim.h"

/* The request went to a server that is gone, or could not be started at all. */
void hx_upstream_failed_request(struct hx_gateway *gateway, struct hx_request *request)
{
    struct hx_link *link = &gateway->link;
    struct hx_buf text;
    hx_buf_init(&text, 32 * 1024);
    /* Only what was never sent, or harms nobody twice, may be called safe to repeat. */
    bool is_safe = !request->was_sent || request->may_resend;
    (void)hx_buf_append_cstr(&text, !request->was_sent ? "The tool server is not running."
                                    : is_safe
                                        ? "The tool server ended before it answered."
                                        : "The tool server ended before it answered; what was "
                                          "asked of it may have happened.");
    hx_link_write_end(link, &text);
    hx_reply_error(gateway, request, 1502, hx_buf_span(&text),
                   is_safe
                       ? HX_SPAN_LIT("{\"code\":\"UPSTREAM_UNAVAILABLE\",\"retry_safe\":true}")
                       : HX_SPAN_LIT("{\"code\":\"UPSTREAM_UNAVAILABLE\",\"retry_safe\":false}"));
    hx_buf_fini(&text);
}

/* Our own ids are positive integers written plainly; anything else was never ours. */
static struct hx_route *find_route(struct hx_gateway *gateway, const struct hx_rpc_id *id)
{
    uint64_t value = 0;
    if (id->type != HX_RPC_ID_INTEGER || id->raw.len == 0 || id->raw.len > 19)
        return NULL;
    for (size_t i = 0; i < id->raw.len; i++) {
        if (id->raw.ptr[i] < '0' || id->raw.ptr[i] > '9')
            return NULL;
        value = value * 10 + (uint64_t)(id->raw.ptr[i] - '0');
    }
    return hx_route_find(gateway, value);
}

static void learn_server(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_initialize_result result;
    if (hx_mcp_initialize_result_read(&gateway->scratch, msg->result, &gateway->part_limits,
                                      &gateway->arena, &result) < 0)
        return;
    gateway->era = hx_mcp_facts(result.revision);
}

static int rewrite_answer(struct hx_gateway *gateway, const struct hx_request *request,
                          const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    if (msg->kind == HX_RPC_RESULT && request->kind == HX_REQUEST_INITIALIZE) {
        learn_server(gateway, msg);
        return hx_rewrite_initialize_result(&gateway->rewrite, msg->raw, request->raw_id,
                                            HX_SPAN_NONE, line);
    }
    if (msg->kind == HX_RPC_RESULT && request->kind == HX_REQUEST_TOOLS_LIST) {
        hx_tools_learn(gateway, msg->result);
        struct hx_rewrite_tools change = {request->raw_id, hx_tools_want_key, gateway};
        return hx_rewrite_tools_result(&gateway->rewrite, msg->raw, &change, line);
    }
    return hx_rewrite_id(msg, request->raw_id, line);
}

static void answer_request(struct hx_gateway *gateway, struct hx_route *route,
                           const struct hx_rpc_msg *msg)
{
    struct hx_request *request = route->request;
    hx_route_free(gateway, route);
    if (request == NULL)
        return; /* its client gave it up */
    if (request->kind == HX_REQUEST_INITIALIZE)
        hx_link_handshake_answered(gateway);
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max + (size_t)64 * 1024);
    int rc = rewrite_answer(gateway, request, msg, &line);
    if (rc > 0) {
        hx_buf_reset(&line);
        rc = hx_rewrite_id(msg, request->raw_id, &line);
    }
    if (rc != 0) {
        hx_buf_fini(&line);
        hx_reply_error(gateway, request, -32603,
                       HX_SPAN_LIT("The server's answer is too large to pass on."), HX_SPAN_NONE);
        return;
    }
    hx_reply_line(gateway, request, &line, NULL);
}

static bool matches_pattern(const char *pattern, struct hx_span text)
{
    /* `*` stands for any run of bytes. Small patterns, so plain backtracking will do. */
    size_t at = 0, star_at = 0;
    const char *star = NULL;
    while (at < text.len) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = at;
        } else if (*pattern == '?' || *pattern == text.ptr[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* Does the operator's list say that this answer proves that nothing happened? */
static const struct hx_no_effect_rule *find_no_effect(const struct hx_tool *tool, bool has_code,
                                                      int64_t code, struct hx_span text)
{
    for (size_t i = 0; i < tool->rules.no_effect_count; i++) {
        const struct hx_no_effect_rule *rule = &tool->rules.no_effect[i];
        if (rule->is_code ? has_code && rule->code == code : matches_pattern(rule->pattern, text))
            return rule;
    }
    return NULL;
}

static struct hx_outcome make_outcome(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                                      bool is_error, uint64_t result_max)
{
    struct hx_span bytes = msg->kind == HX_RPC_RESULT ? msg->result : msg->error;
    struct hx_outcome outcome = {
        .kind = msg->kind == HX_RPC_RESULT ? HX_OUTCOME_RESULT : HX_OUTCOME_ERROR,
        .is_error = is_error,
        .size = bytes.len,
        .bytes = bytes,
    };
    hx_hasher_begin(gateway->hasher);
    hx_hasher_add(gateway->hasher, bytes);
    outcome.digest = hx_hasher_end(gateway->hasher);
    outcome.place = bytes.len > result_max             ? HX_OUTCOME_GONE
                    : bytes.len <= HX_STORE_INLINE_MAX ? HX_OUTCOME_INLINE
                                                       : HX_OUTCOME_BLOB;
    return outcome;
}

/* "-32042": the client must open a URL first and then make the very same call again. It is no
 * outcome, and storing it would replay it for ever: the callers get it, the operation goes back to
 * ready. */
static void url_wanted(struct hx_work *work, const struct hx_rpc_msg *msg)
{
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        hx_call_answer_error(call, msg->error);
    }
    struct hx_event event = hx_work_make_event(work, HX_EV_REFUSED_TRANSIENT);
    hx_work_step(work, &event, NULL);
}

static void answer_work(struct hx_gateway *gateway, struct hx_route *route,
                        const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    enum { URL_ELICITATION_REQUIRED = -32042 };
    struct hx_work *work = route->work;
    hx_route_free(gateway, route);
    if (work == NULL)
        return;
    struct hx_mcp_error error = {0};
    struct hx_mcp_call_result result = {0};
    struct hx_span text = msg->result;
    if (msg->kind == HX_RPC_ERROR) {
        if (hx_mcp_error_read(&gateway->tape, msg, &gateway->arena, &error) < 0)
            error.has_code = false;
        text = error.message.state == HX_MCP_TEXT_GIVEN ? error.message.text : msg->error;
    } else {
        result = hx_mcp_call_result_read(&gateway->tape, msg);
    }
    bool is_error = msg->kind == HX_RPC_ERROR || result.is_error;
    if (msg->kind == HX_RPC_ERROR && work->is_cancel_forwarded) {
        /* What a server answers to a call that was cancelled says nothing about what it did. */
        hx_work_lost(work, HX_REASON_CANCEL_UNANSWERED, false);
        return;
    }
    if (error.has_code && error.code == URL_ELICITATION_REQUIRED && hx_work_has_attempt(work)) {
        url_wanted(work, msg);
        return;
    }
    if (result.is_task) {
        /* Accepted is not done. Until task handles are followed, that is all we know. */
        hx_work_lost(work, HX_REASON_UNREADABLE_REPLY, false);
        return;
    }
    const struct hx_no_effect_rule *rule =
        is_error ? find_no_effect(work->tool, error.has_code, error.code, text) : NULL;
    struct hx_event event = hx_work_make_event(work, HX_EV_REPLY);
    if (rule != NULL)
        event.type = rule->is_transient ? HX_EV_REFUSED_TRANSIENT : HX_EV_REFUSED_FINAL;
    if (rule != NULL && rule->is_transient)
        event.not_before_ms = HX_REFUSED_WAIT_MS;
    event.outcome = make_outcome(gateway, msg, is_error, work->tool->rules.result_max);
    event.reason = HX_REASON_ANSWERED;
    /* The outcome's bytes are in this line, so the work keeps it; and keeps the ones before, since
     * a second attempt may answer while the first one's answer is what the ledger is being told. */
    struct hx_reply *reply = hx_new(struct hx_reply);
    reply->line = *line;
    hx_list_append(&work->replies, &reply->node);
    HX_CRASH_POINT("reply-not-stored");
    hx_buf_init(line, line->len_max);
    hx_work_step(work, &event, NULL);
}

static void take_answer(struct hx_gateway *gateway, const struct hx_rpc_msg *msg,
                        struct hx_buf *line)
{
    struct hx_route *route = find_route(gateway, &msg->id);
    if (route == NULL) {
        hx_tell(gateway, HX_TELL_WARN, "answer_to_nothing", "len=%zu", msg->raw.len);
        return;
    }
    switch (route->kind) {
    case HX_ROUTE_REQUEST:
        answer_request(gateway, route, msg);
        return;
    case HX_ROUTE_WORK:
        answer_work(gateway, route, msg, line);
        return;
    case HX_ROUTE_HANDSHAKE:
        hx_route_free(gateway, route);
        hx_link_greeted(gateway, msg->kind == HX_RPC_RESULT);
        return;
    case HX_ROUTE_QUIET:
        hx_route_free(gateway, route);
        return;
    }
}

/* Each waiter that asked for progress gets it under its own token. */
static void fan_out_progress(struct hx_gateway *gateway, struct hx_work *work,
                             const struct hx_rpc_msg *msg)
{
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (hx_span_is_absent(call->progress_token))
            continue;
        struct hx_buf line;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_rewrite_progress(&gateway->rewrite, msg->raw, call->progress_token, &line) == 0)
            hx_send_client(gateway, &line, gateway->next_tag++);
        hx_buf_fini(&line);
    }
}

/* Tokens that we minted read "hx-SECRET-ID" with the id of the route. */
static struct hx_route *route_of_token(struct hx_gateway *gateway, const struct hx_rpc_id *token)
{
    char prefix[32];
    int len = snprintf(prefix, sizeof(prefix), "\"hx-%s-", gateway->token_secret);
    if (token->type != HX_RPC_ID_STRING ||
        !hx_span_starts_with(token->raw, hx_span(prefix, (size_t)len)))
        return NULL;
    struct hx_rpc_id id = {.type = HX_RPC_ID_INTEGER,
                           .raw = hx_span(token->raw.ptr + len, token->raw.len - (size_t)len - 1)};
    return find_route(gateway, &id);
}

/* Also a token of an earlier gateway, which minted them under another secret. */
static bool is_our_token(const struct hx_rpc_id *token)
{
    return token->type == HX_RPC_ID_STRING && hx_span_starts_with(token->raw, HX_SPAN_LIT("\"hx-"));
}

static void pass_to_client(struct hx_gateway *gateway, struct hx_span raw)
{
    struct hx_buf line;
    if (gateway->is_client_gone)
        return;
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_buf_append_span(&line, raw) == 0)
        hx_send_client(gateway, &line, gateway->next_tag++);
    hx_buf_fini(&line);
}

static void take_progress(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_rpc_id token = hx_mcp_progress_token(&gateway->tape, msg);
    struct hx_route *route = route_of_token(gateway, &token);
    if (route != NULL && route->kind == HX_ROUTE_WORK && route->work != NULL) {
        hx_work_heard(route->work);
        fan_out_progress(gateway, route->work, msg);
    } else if (!is_our_token(&token)) {
        pass_to_client(gateway, msg->raw);
    }
}

static void take_notification(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    switch (hx_mcp_method_parse(msg->method)) {
    case HX_MCP_PROGRESS:
        take_progress(gateway, msg);
        return;
    case HX_MCP_CANCELLED: {
        struct hx_mcp_cancelled cancelled;
        if (hx_mcp_cancelled_read(&gateway->tape, msg, &gateway->arena, &cancelled) < 0)
            return;
        struct hx_ask *ask = hx_ask_find_server(gateway, &cancelled.request_id);
        struct hx_buf line;
        if (ask == NULL)
            return;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_rewrite_cancelled(&gateway->rewrite, msg->raw, hx_span_cstr(ask->id_text), &line) ==
            0)
            hx_send_client(gateway, &line, gateway->next_tag++);
        hx_buf_fini(&line);
        hx_ask_withdraw(gateway, ask);
        return;
    }
    case HX_MCP_TOOLS_LIST_CHANGED:
        /* Until the client lists them again, every tool may write. */
        hx_tools_forget_hints(gateway);
        pass_to_client(gateway, msg->raw);
        return;
    default:
        pass_to_client(gateway, msg->raw);
    }
}

static void take_request(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    if (hx_mcp_method_parse(msg->method) == HX_MCP_PING) {
        struct hx_buf line;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_rewrite_build_result(&line, msg->id.raw, HX_SPAN_LIT("{}")) == 0)
            hx_link_send(gateway, &line, 0);
        hx_buf_fini(&line);
        return;
    }
    hx_ask_for_server(gateway, msg);
}

/* The first line that is no message is shown, so that somebody can find where it comes from; after
 * that they are counted. */
static void tell_noise(struct hx_gateway *gateway, struct hx_span line)
{
    char shown[81];
    size_t len = line.len < sizeof(shown) - 1 ? line.len : sizeof(shown) - 1;
    for (size_t i = 0; i < len; i++) {
        bool is_plain =
            line.ptr[i] >= ' ' && line.ptr[i] < 0x7f && line.ptr[i] != '"' && line.ptr[i] != '\\';
        shown[i] = is_plain ? line.ptr[i] : '?';
    }
    shown[len] = '\0';
    /* The torn half of a result is noise too, and results do not belong in a log. */
    bool looks_like_json = line.len > 0 && (line.ptr[0] == '{' || line.ptr[0] == '[');
    if (gateway->link.noise_count == 1)
        hx_tell(gateway, HX_TELL_WARN, "server_noise", "server=\"%.*s\" len=%zu line=\"%s\"",
                HX_SPAN_FMT(gateway->options.server), line.len, looks_like_json ? "{...}" : shown);
}

/* An unreadable answer still tells whose it was: the tool has answered, and what it said is
 * lost. */
static void take_unreadable(struct hx_gateway *gateway, struct hx_span line)
{
    struct hx_skim skim;
    hx_skim_begin(&skim);
    hx_skim_add(&skim, line);
    struct hx_skim_result seen = hx_skim_end(&skim);
    struct hx_rpc_id id = seen.has_id ? hx_rpc_id_parse(hx_skim_id(&skim)) : (struct hx_rpc_id){0};
    struct hx_route *route = seen.is_object && !seen.has_method ? find_route(gateway, &id) : NULL;
    if (route == NULL) {
        gateway->link.noise_count++;
        tell_noise(gateway, line);
        return;
    }
    hx_tell(gateway, HX_TELL_WARN, "unreadable_answer", "len=%zu", line.len);
    struct hx_request *request = route->request;
    struct hx_work *work = route->work;
    hx_route_free(gateway, route);
    if (work != NULL)
        hx_work_lost(work, HX_REASON_UNREADABLE_REPLY, false);
    else if (request != NULL)
        hx_reply_error(gateway, request, -32603,
                       HX_SPAN_LIT("The server's answer is not valid UTF-8 JSON, so it cannot be "
                                   "passed on."),
                       HX_SPAN_NONE);
}

static void take_one(struct hx_gateway *gateway, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    switch (msg->kind) {
    case HX_RPC_REQUEST:
        take_request(gateway, msg);
        return;
    case HX_RPC_NOTIFICATION:
        take_notification(gateway, msg);
        return;
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_answer(gateway, msg, line);
        return;
    case HX_RPC_BATCH:
        return;
    case HX_RPC_INVALID:
        if (msg->fault != HX_RPC_EMPTY)
            take_unreadable(gateway, msg->raw);
        return;
    }
}

/* Only 2025-03-26 has batches. An answer that a server puts into an array all the same is taken:
 * its caller waits for it. */
static void take_batch(struct hx_gateway *gateway, const struct hx_rpc_msg *batch)
{
    uint32_t count = hx_json_at(&gateway->tape, batch->root)->count;
    struct hx_span *elements = hx_arena_alloc(&gateway->arena, count * sizeof(*elements));
    uint32_t at_element = 0;
    if (elements == NULL) {
        gateway->link.noise_count++;
        return;
    }
    hx_json_for_each(at, &gateway->tape, batch->root) elements[at_element++] =
        hx_json_raw(&gateway->tape, at);
    for (uint32_t i = 0; i < at_element; i++) {
        struct hx_buf line;
        struct hx_rpc_msg msg;
        hx_buf_init(&line, gateway->options.message_max);
        if (hx_buf_append_span(&line, elements[i]) == 0 &&
            hx_rpc_read(&gateway->tape, hx_buf_span(&line), &gateway->limits, &gateway->arena,
                        &msg) == 0)
            take_one(gateway, &msg, &line);
        hx_buf_fini(&line);
    }
}

void hx_upstream_message(struct hx_gateway *gateway, struct hx_peer_event *event)
{
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&gateway->tape, hx_buf_span(&event->line), &gateway->limits, &gateway->arena,
                    &msg) < 0) {
        hx_tell(gateway, HX_TELL_ERROR, "answer_dropped", "reason=memory len=%zu", event->line.len);
        return;
    }
    if (msg.kind == HX_RPC_INVALID)
        msg.raw = hx_buf_span(&event->line);
    else
        gateway->link.has_spoken = true;
    if (msg.kind == HX_RPC_BATCH)
        take_batch(gateway, &msg);
    else
        take_one(gateway, &msg, &event->line);
}

/* Too long to hold. A guarded call has its outcome all the same: it happened. */
void hx_upstream_oversize(struct hx_gateway *gateway, struct hx_peer_event *event)
{
    struct hx_rpc_id id = hx_rpc_id_parse(hx_buf_span(&event->line));
    /* A request of the server's own may carry the same id as one of ours. */
    struct hx_route *route = event->has_method ? NULL : find_route(gateway, &id);
    hx_tell(gateway, HX_TELL_WARN, "answer_too_large", "size=%llu",
            (unsigned long long)event->size);
    if (route == NULL)
        return;
    struct hx_request *request = route->request;
    struct hx_work *work = route->work;
    hx_route_free(gateway, route);
    if (work != NULL) {
        struct hx_event reply = hx_work_make_event(work, HX_EV_REPLY);
        reply.outcome =
            (struct hx_outcome){.kind = event->has_error ? HX_OUTCOME_ERROR : HX_OUTCOME_RESULT,
                                .place = HX_OUTCOME_GONE,
                                .size = event->size};
        (void)hx_hex_decode(hx_span_cstr(event->digest_hex), reply.outcome.digest.bytes,
                            HX_DIGEST_SIZE);
        reply.reason = HX_REASON_ANSWERED;
        hx_work_step(work, &reply, NULL);
    } else if (request != NULL) {
        hx_reply_error(gateway, request, -32603,
                       HX_SPAN_LIT("The server's answer is larger than message_max allows."),
                       HX_SPAN_NONE);
    }
}
