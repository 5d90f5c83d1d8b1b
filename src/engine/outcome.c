/* SPDX-License-Identifier: MIT */
/*
 * What the tool answered, made into an outcome that the core can judge: a result, an error, a proof
 * that nothing happened, or something that says nothing.
 */
#include "engine/internal.h"

#include "base/crash.h"

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

static struct hx_outcome make_outcome(struct hx_gateway *gateway, enum hx_outcome_kind kind,
                                      struct hx_span bytes, bool is_error, uint64_t result_max)
{
    struct hx_outcome outcome = {
        .kind = kind,
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
    event.is_for_caller = true;
    hx_work_step(work, &event, NULL);
}

/* The outcome's bytes are in this line, so the work keeps it; and keeps the ones before, since a
 * second attempt may answer while the first one's answer is what the ledger is being told. */
static void keep_line(struct hx_work *work, struct hx_buf *line)
{
    struct hx_reply *reply = hx_new(struct hx_reply);
    reply->line = *line;
    hx_list_append(&work->replies, &reply->node);
    hx_buf_init(line, line->len_max);
}

void hx_outcome_evidence(struct hx_work *work, struct hx_span bytes, bool is_error,
                         struct hx_buf *line)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_EVIDENCE);
    event.outcome = make_outcome(work->gateway, is_error ? HX_OUTCOME_ERROR : HX_OUTCOME_RESULT,
                                 bytes, is_error, work->tool->rules.result_max);
    keep_line(work, line);
    hx_probe_end(work);
    work->search = HX_SEARCH_OVER;
    hx_work_step(work, &event, NULL);
}

void hx_outcome_gone(struct hx_work *work)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_EVIDENCE);
    event.outcome =
        make_outcome(work->gateway, HX_OUTCOME_RESULT, HX_SPAN_LIT(""), false, HX_STORE_INLINE_MAX);
    event.outcome.place = HX_OUTCOME_GONE;
    event.outcome.bytes = HX_SPAN_NONE;
    event.outcome.is_reconstructed = true; /* should it come after all, it contradicts nothing */
    hx_probe_end(work);
    work->search = HX_SEARCH_OVER;
    hx_work_step(work, &event, NULL);
}

/* Also of a stream that was taken up: then the search has brought something, and is over. */
static void take_reply(struct hx_work *work, const struct hx_event *event)
{
    bool was_searched = hx_ladder_has_route(work);
    hx_work_step(work, event, NULL);
    if (was_searched)
        hx_ladder_over(work);
}

void hx_outcome_reconstructed(struct hx_work *work, struct hx_buf *result)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_EVIDENCE);
    event.outcome = make_outcome(work->gateway, HX_OUTCOME_RESULT, hx_buf_span(result), false,
                                 work->tool->rules.result_max);
    event.outcome.is_reconstructed = true;
    keep_line(work, result);
    hx_work_step(work, &event, NULL);
}

void hx_outcome_take(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_link *link = route->link;
    uint64_t request = route->id;
    struct hx_work *work = hx_route_take(route).work;
    if (work == NULL)
        return;
    struct hx_mcp_call_result result = {0};
    if (msg->kind == HX_RPC_RESULT)
        result = hx_mcp_call_result_read(&link->gateway->tape, msg);
    if (!result.is_task || !hx_task_accepted(work, link, result.task, request))
        hx_outcome_answer(work, msg, line);
}

/* What a server says of the key it was sent (SEP-3182): that another request under it is under way,
 * or that it does not know what became of it. It is no word of the tool's. */
static bool is_about_its_key(const struct hx_work *work, const struct hx_mcp_error *error)
{
    return work->op.durable.contract.tool_class == HX_CLASS_KEYED &&
           work->tool->rules.is_effect_key_param && error->data_type.state == HX_MCP_TEXT_GIVEN &&
           hx_span_starts_with(error->data_type.text, HX_SPAN_LIT("idempotency_"));
}

void hx_outcome_answer(struct hx_work *work, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_gateway *gateway = work->gateway;
    enum { URL_ELICITATION_REQUIRED = -32042 };
    struct hx_mcp_error error = {0};
    struct hx_mcp_call_result result = {0};
    struct hx_span text = msg->result;
    bool is_unread = false;
    if (msg->kind == HX_RPC_ERROR) {
        is_unread = hx_mcp_error_read(&gateway->tape, msg, &gateway->arena, &error) < 0;
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
    if (is_unread) {
        /* What it says may prove that nothing happened. */
        hx_work_lost(work, HX_REASON_UNREADABLE_REPLY, false);
        return;
    }
    if (error.has_code && error.code == URL_ELICITATION_REQUIRED && hx_work_has_attempt(work)) {
        url_wanted(work, msg);
        return;
    }
    if (result.is_task) {
        /* Accepted is not done, and nobody can follow it. */
        hx_work_lost(work, HX_REASON_UNREADABLE_REPLY, false);
        return;
    }
    struct hx_outcome outcome = msg->kind == HX_RPC_RESULT
                                    ? make_outcome(gateway, HX_OUTCOME_RESULT, msg->result,
                                                   is_error, work->tool->rules.result_max)
                                    : make_outcome(gateway, HX_OUTCOME_ERROR, msg->error, is_error,
                                                   work->tool->rules.result_max);
    if (hx_inner_take(work, &result, &error, &outcome))
        return;
    if (is_about_its_key(work, &error)) {
        hx_work_lost(work, HX_REASON_INNER_UNKNOWN, false);
        return;
    }
    const struct hx_no_effect_rule *rule =
        is_error ? find_no_effect(work->tool, error.has_code, error.code, text) : NULL;
    struct hx_event event = hx_work_make_event(work, HX_EV_REPLY);
    if (rule != NULL)
        event.type = rule->is_transient ? HX_EV_REFUSED_TRANSIENT : HX_EV_REFUSED_FINAL;
    if (rule != NULL && rule->is_transient)
        event.not_before_ms = HX_REFUSED_WAIT_MS;
    event.outcome = outcome;
    event.reason = HX_REASON_ANSWERED;
    keep_line(work, line);
    HX_CRASH_POINT("reply-not-stored");
    take_reply(work, &event);
}

/* Of an attempt behind which another one was sent. That something happened is evidence, whenever it
 * is said; an error says something of that attempt alone. */
void hx_outcome_late(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_gateway *gateway = route->link->gateway;
    struct hx_work *work = hx_work_find(gateway, &route->operation);
    hx_route_free(route);
    if (work == NULL || msg->kind != HX_RPC_RESULT)
        return;
    struct hx_mcp_call_result result = hx_mcp_call_result_read(&gateway->tape, msg);
    if (result.is_error || result.is_task || !hx_span_is_absent(result.code))
        return;
    hx_outcome_evidence(work, msg->result, false, line);
}

/* As of what can be held (route_of_answer in upstream.c). A request of the server's own may carry
 * the same id as one of ours. */
static struct hx_route *route_of_oversize(struct hx_link *link, const struct hx_peer_event *event)
{
    struct hx_rpc_id id = hx_rpc_id_parse(hx_buf_span(&event->line));
    if (event->has_method)
        return NULL;
    return hx_link_has_exchanges(link) && event->is_answer ? hx_route_find(link, event->tag)
                                                           : hx_route_find_rpc(link, &id);
}

/* Too long to hold. A guarded call has its outcome all the same: a result says that it happened.
 * An error may say the opposite, and so may what would have been read, had there been memory; and
 * what is neither says nothing. */
void hx_outcome_oversize(struct hx_link *link, struct hx_peer_event *event)
{
    struct hx_route *route = route_of_oversize(link, event);
    hx_tell(link->gateway, HX_TELL_WARN, "answer_too_large", "size=%llu",
            (unsigned long long)event->size);
    if (route == NULL)
        return;
    struct hx_route_end end = hx_route_take(route);
    bool is_about_it = end.kind == HX_ROUTE_PROBE || end.kind == HX_ROUTE_QUERY ||
                       (end.kind == HX_ROUTE_TASK && end.work != NULL &&
                        !hx_task_is_outcome(end.work, event->has_error));
    bool is_unread = event->is_refused || event->has_result == event->has_error ||
                     (event->has_error && end.kind == HX_ROUTE_WORK);
    if (end.work != NULL && (is_about_it || is_unread)) {
        /* Or it answers a question about the call, and is no answer of the call's. */
        hx_route_lost(&end, HX_REASON_UNREADABLE_REPLY, false);
    } else if (end.work != NULL) {
        struct hx_event reply = hx_work_make_event(end.work, HX_EV_REPLY);
        reply.outcome =
            (struct hx_outcome){.kind = event->has_error ? HX_OUTCOME_ERROR : HX_OUTCOME_RESULT,
                                .place = HX_OUTCOME_GONE,
                                .size = event->size};
        (void)hx_hex_decode(hx_span_cstr(event->digest_hex), reply.outcome.digest.bytes,
                            HX_DIGEST_SIZE);
        reply.reason = HX_REASON_ANSWERED;
        take_reply(end.work, &reply);
    } else if (end.request != NULL) {
        hx_upstream_unread(link, end.request,
                           "The server's answer is larger than message_max allows, or "
                           "than there is memory for.");
    }
}

struct hx_outcome hx_outcome_confirmed(struct hx_gateway *gateway)
{
    struct hx_span bytes = HX_SPAN_LIT("{\"content\":[{\"type\":\"text\",\"text\":\"A person "
                                       "confirmed that this call happened. Its "
                                       "own result was lost.\"}]}");
    struct hx_outcome outcome = {
        .kind = HX_OUTCOME_RESULT, .is_reconstructed = true, .size = bytes.len, .bytes = bytes};
    hx_hasher_begin(gateway->hasher);
    hx_hasher_add(gateway->hasher, bytes);
    outcome.digest = hx_hasher_end(gateway->hasher);
    return outcome;
}
