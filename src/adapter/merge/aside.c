/* SPDX-License-Identifier: MIT */
/*
 * What servers say that is no answer: questions to the client, whose answers must find back, and
 * notifications. Both go on as they are, but that a log message names its server.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"
#include "wire/rewrite.h"
#include "wire/skim.h"
#include "json/text.h"

enum { ASKS_MAX = 1024 }; /* per leg; no engine leaves more of them open */

/* --- questions --- */

void ask_free(struct ask *ask)
{
    hx_list_unlink(&ask->node);
    hx_map_remove(&ask->leg->merge->asks, &ask->by_id);
    ask->leg->ask_count--;
    hx_buf_fini(&ask->id_key);
    hx_buf_fini(&ask->token);
    hx_free(ask);
}

struct ask *ask_find(struct merge *merge, const struct hx_rpc_id *id)
{
    struct hx_buf key;

    if (id->type != HX_RPC_ID_INTEGER && id->type != HX_RPC_ID_STRING)
        return NULL;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&merge->asks, hx_buf_span(&key));
    hx_buf_fini(&key);
    return node != NULL ? hx_container_of(node, struct ask, by_id) : NULL;
}

struct ask *ask_find_token(struct merge *merge, const struct hx_rpc_id *token)
{
    struct ask *found = NULL;
    struct hx_buf key;

    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(token, &key);
    for (size_t i = 0; i < merge->leg_count && found == NULL; i++) {
        hx_list_for_each (node, &merge->legs[i].asks) {
            struct ask *ask = hx_container_of(node, struct ask, node);
            if (ask->token.len > 0 && hx_span_eq(hx_buf_span(&ask->token), hx_buf_span(&key)))
                found = ask; /* two servers may use one token: the newest question has it */
        }
    }
    hx_buf_fini(&key);
    return found;
}

/* An answer in the client's name to a question of the leg's server. */
static void leg_refuse(struct leg *leg, struct hx_span raw_id, const char *reason)
{
    struct hx_buf line;

    hx_buf_init(&line, leg->merge->options.message_max_bytes);
    if (hx_rewrite_build_error(&line, raw_id, false, HX_RPC_INTERNAL_ERROR, hx_span_cstr(reason),
                               HX_SPAN_NONE) == 0)
        leg_message(leg, &line, 0);
    hx_buf_fini(&line);
}

static void ask_new(struct leg *leg, const struct hx_rpc_msg *msg)
{
    struct merge *merge = leg->merge;
    struct ask *ask = hx_new(struct ask);
    uint32_t meta = hx_json_member(&merge->tape, msg->params_token, HX_SPAN_LIT("_meta"));
    struct hx_rpc_id token = hx_rpc_id_at(
        &merge->tape, hx_json_member(&merge->tape, meta, HX_SPAN_LIT("progressToken")));

    /* The engine forgets questions of a server that ended without a word to us. */
    if (leg->ask_count >= ASKS_MAX)
        ask_free(hx_container_of(hx_list_first(&leg->asks), struct ask, node));
    ask->leg = leg;
    hx_buf_init(&ask->id_key, HX_RPC_ID_MAX + 16);
    hx_buf_init(&ask->token, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(&msg->id, &ask->id_key);
    if (token.type == HX_RPC_ID_INTEGER || token.type == HX_RPC_ID_STRING)
        hx_rpc_id_key(&token, &ask->token);
    hx_list_append(&leg->asks, &ask->node);
    hx_map_insert(&merge->asks, &ask->by_id, hx_buf_span(&ask->id_key));
    leg->ask_count++;
}

void ask_lose(struct ask *ask, struct hx_span raw_id)
{
    leg_refuse(ask->leg, raw_id, "There is no memory for the client's answer.");
    ask_free(ask);
}

/* --- notifications --- */

static const char *const list_changed[LIST_KINDS] = {
    [LIST_TOOLS] = "notifications/tools/list_changed",
    [LIST_PROMPTS] = "notifications/prompts/list_changed",
    [LIST_RESOURCES] = "notifications/resources/list_changed",
};

void leg_tell_changed(const struct leg *leg)
{
    struct merge *merge = leg->merge;

    if (merge->initialized.len == 0)
        return; /* the client has not asked for anything yet */
    for (int kind = 0; kind < LIST_KINDS; kind++) {
        if (list_changed[kind] != NULL && leg->has_list[kind] && merge->told[kind])
            reply_notice(merge, list_changed[kind]);
    }
}

/* What was learned stays in use until it is learned anew: a URI seldom moves to another server. */
static void note_change(struct leg *leg, struct hx_span method)
{
    for (int kind = 0; kind < LIST_KINDS; kind++) {
        if (list_changed[kind] != NULL && hx_span_eq_cstr(method, list_changed[kind])) {
            leg->is_learned[kind] = false;
            if (kind == LIST_RESOURCES)
                leg->is_learned[LIST_TEMPLATES] = false;
        }
    }
}

static void insert(struct hx_buf *line, size_t at, struct hx_span text)
{
    struct hx_buf out;

    hx_buf_init(&out, line->len_max + text.len);
    (void)hx_buf_append(&out, line->data, at);
    (void)hx_buf_append_span(&out, text);
    (void)hx_buf_append(&out, line->data + at, line->len - at);
    if (hx_buf_ok(&out)) {
        hx_buf_fini(line);
        *line = out;
    } else {
        hx_buf_fini(&out);
    }
}

/* "logger":"db" of the server "files" becomes "files/db"; without one, it is "files". */
static void name_logger(struct leg *leg, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    const struct hx_json_tape *tape = &leg->merge->tape;
    uint32_t logger = hx_json_member(tape, msg->params_token, HX_SPAN_LIT("logger"));
    struct hx_buf text;

    if (!hx_json_is(tape, msg->params_token, HX_JSON_OBJECT))
        return;
    hx_buf_init(&text, 8 * leg->name.len + 64);
    if (logger == HX_JSON_NONE) {
        (void)hx_buf_append_cstr(&text, "\"logger\":");
        hx_json_text_quote(&text, leg->name);
        if (hx_json_at(tape, msg->params_token)->count > 0)
            (void)hx_buf_append_char(&text, ',');
        insert(line, (size_t)(msg->params.ptr - line->data) + 1, hx_buf_span(&text));
    } else if (hx_json_is(tape, logger, HX_JSON_STRING)) {
        size_t at = (size_t)(hx_json_content(tape, logger).ptr - line->data);
        hx_json_text_quote(&text, leg->name);
        text.len--; /* its last quote gives way */
        (void)hx_buf_append_char(&text, '/');
        insert(line, at, hx_span(text.data + 1, text.len - 1));
    }
    hx_buf_fini(&text);
}

static void forget_ask(struct leg *leg, const struct hx_rpc_msg *msg)
{
    struct merge *merge = leg->merge;
    struct hx_mcp_cancelled cancelled;

    if (hx_mcp_cancelled_read(&merge->tape, msg, &merge->arena, &cancelled) < 0)
        cancelled.reason.state = HX_MCP_TEXT_BAD; /* it is a cancel all the same */
    struct ask *ask = ask_find(merge, &cancelled.request_id);
    if (ask != NULL && ask->leg == leg)
        ask_free(ask);
}

static void take_notification(struct leg *leg, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    enum hx_mcp_method method = hx_mcp_method_parse(msg->method);

    if (method == HX_MCP_LOG_MESSAGE)
        name_logger(leg, msg, line);
    else if (method == HX_MCP_CANCELLED)
        forget_ask(leg, msg);
    else
        note_change(leg, msg->method);
}

/* The question's answer could not find back, so the client is not asked. False: it is none. */
static bool refuse_unread(struct leg *leg, struct hx_span text)
{
    struct hx_skim skim;

    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    struct hx_skim_result seen = hx_skim_end(&skim);
    if (!seen.has_id || !seen.has_method)
        return false;
    leg_refuse(leg, hx_skim_id(&skim), "There is no memory for this request.");
    return true;
}

void aside_take(struct leg *leg, struct hx_buf *line, const struct hx_sending *sending)
{
    struct merge *merge = leg->merge;
    struct ticket *ticket = sending->exchange != 0 ? ticket_find(merge, sending->exchange) : NULL;
    uint64_t exchange = ticket != NULL && ticket->leg == leg ? ticket->request->exchange : 0;
    struct hx_rpc_msg msg;

    if (merge_read(merge, hx_buf_span(line), &msg) < 0) {
        if (refuse_unread(leg, hx_buf_span(line))) {
            leg_tell_fate(leg, sending->tag, HX_PEER_NOT_SENT);
            return;
        }
    } else if (msg.kind == HX_RPC_REQUEST) {
        ask_new(leg, &msg);
    } else if (msg.kind == HX_RPC_NOTIFICATION) {
        take_notification(leg, &msg, line);
    }
    reply_aside(merge, line, exchange, outer_tag(leg, sending->tag));
}
