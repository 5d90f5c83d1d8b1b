/* SPDX-License-Identifier: MIT */
/*
 * What the client says: requests, notifications, and answers to servers.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "wire/skim.h"

/* One body, which may hold several messages under one header. */
struct words {
    struct batch *batch;
    struct hx_span key;
    uint32_t key_count;
};

static void take_message(struct merge *merge, struct hx_buf *line, const struct words *words);

/* There is no memory to read it. What it was still tells who waits for something. */
static void take_unread(struct merge *merge, struct hx_span text, const struct words *words)
{
    struct hx_skim skim;
    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    struct hx_skim_result seen = hx_skim_end(&skim);
    struct hx_span raw_id = seen.has_id ? hx_skim_id(&skim) : HX_SPAN_NONE;
    struct hx_rpc_id id = hx_rpc_id_parse(raw_id);
    struct ask *ask = seen.has_id && !seen.has_method ? ask_find(merge, &id) : NULL;

    if (ask != NULL)
        ask_lose(ask, raw_id);
    else if (!seen.is_object || (seen.has_id && seen.has_method))
        reply_unread(merge, words->batch, raw_id);
}

static void keep(struct hx_buf *kept, struct hx_span bytes)
{
    hx_buf_reset(kept);
    (void)hx_buf_append_span(kept, bytes);
}

static bool is_full(const struct merge *merge, size_t more_bytes)
{
    return merge->request_count >= merge->options.requests_max ||
           (merge->kept_bytes > 0 &&
            merge->kept_bytes + more_bytes > merge->options.request_bytes_max);
}

static void take_request(struct merge *merge, const struct hx_rpc_msg *msg, struct hx_buf *line,
                         const struct words *words)
{
    bool was_full = is_full(merge, line->len);
    struct request *request = request_new(merge, REQUEST_ONE, msg);

    request->batch = words->batch;
    if (words->batch != NULL) {
        request->exchange = words->batch->exchange;
        words->batch->open_count++;
    }
    request_keep(request, line);
    if (words->key_count > 0)
        keep(&request->key, words->key);
    request->key_count = words->key_count;
    if (was_full)
        reply_error(request, MERGE_LEDGER_UNAVAILABLE,
                    HX_SPAN_LIT("Too many requests are open; nothing was sent. Wait for answers "
                                "and repeat this one."),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false")));
    else
        route_request(request, msg);
}

/* --- notifications --- */

static void tell_legs(struct merge *merge, struct hx_span raw)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        /* The one that shakes hands still is told what matters when it has. */
        if (leg->state != LEG_GREETED && leg->state != LEG_UNFITTING)
            leg_message_copy(leg, raw);
    }
}

/* The client had given up when the answer was on its way. Another server's answer under that id is
 * not meant. */
static void cancel_answered(struct merge *merge, const struct hx_rpc_msg *msg,
                            const struct hx_rpc_id *id)
{
    struct leg *leg = NULL;

    (void)batch_withdraw(merge, id);
    if (request_was_answered(merge, id, &leg)) {
        if (leg != NULL)
            leg_cancel(leg, msg->raw, id->raw);
        return;
    }
    /* Whose it was only the legs know. */
    for (size_t i = 0; i < merge->leg_count; i++)
        leg_cancel(&merge->legs[i], msg->raw, id->raw);
}

static void take_cancel(struct merge *merge, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_cancelled cancelled;

    if (hx_mcp_cancelled_read(&merge->tape, msg, &merge->arena, &cancelled) < 0)
        cancelled.reason.state = HX_MCP_TEXT_BAD; /* too long to read: it is one all the same */
    if (cancelled.request_id.type == HX_RPC_ID_NONE)
        return;
    struct request *request = request_find(merge, &cancelled.request_id);
    if (request == NULL) {
        cancel_answered(merge, msg, &cancelled.request_id);
        return;
    }
    if (request->kind == REQUEST_INITIALIZE)
        return; /* must not be cancelled */
    if (hx_map_find_next(&request->by_id) != NULL)
        return; /* it means one of several, and nobody can say which: see the engine's own */
    struct hx_list *ticket = hx_list_first(&request->tickets);
    if (request->kind == REQUEST_ONE && ticket != NULL) {
        /* Its leg knows whether the server is told, and settles the exchange. */
        leg_cancel(hx_container_of(ticket, struct ticket, node)->leg, msg->raw,
                   cancelled.request_id.raw);
        return;
    }
    if (request->batch == NULL)
        exchange_settle(merge, request->exchange, HX_SETTLING_TAKEN);
    request_leave(request);
}

/* A server that asked for progress with its question is the only one that waits for it. */
static void take_progress(struct merge *merge, const struct hx_rpc_msg *msg)
{
    struct hx_rpc_id token = hx_mcp_progress_token(&merge->tape, msg);
    struct ask *ask = token.type != HX_RPC_ID_NONE ? ask_find_token(merge, &token) : NULL;

    if (ask != NULL)
        leg_message_copy(ask->leg, msg->raw);
}

static void take_notification(struct merge *merge, const struct hx_rpc_msg *msg)
{
    switch (hx_mcp_method_parse(msg->method)) {
    case HX_MCP_CANCELLED:
        take_cancel(merge, msg);
        return;
    case HX_MCP_PROGRESS:
        take_progress(merge, msg);
        return;
    case HX_MCP_INITIALIZED:
        keep(&merge->initialized, msg->raw);
        tell_legs(merge, msg->raw);
        return;
    default:
        tell_legs(merge, msg->raw);
    }
}

static void take_response(struct merge *merge, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct ask *ask = ask_find(merge, &msg->id);

    if (ask == NULL)
        return;
    leg_message(ask->leg, line, 0);
    ask_free(ask);
}

/* --- batches --- */

/* Several guarded calls in one body cannot share a key: they are told that it came more than
 * once. */
static void count_calls(struct merge *merge, const struct hx_rpc_msg *msg, struct words *words)
{
    uint32_t calls = 0;

    hx_json_for_each(at, &merge->tape, msg->root)
    {
        uint32_t method = hx_json_member(&merge->tape, at, HX_SPAN_LIT("method"));
        calls += hx_json_is(&merge->tape, method, HX_JSON_STRING) &&
                 hx_json_is_text(&merge->tape, method, HX_SPAN_LIT("tools/call"));
    }
    if (words->key_count > 0 && calls > 1)
        words->key_count++;
}

static void take_batch(struct merge *merge, const struct hx_rpc_msg *msg, const struct words *body)
{
    struct words words = *body;

    if (!merge->era->may_batch) {
        struct hx_rpc_msg refused = *msg;
        refused.fault = HX_RPC_NOT_MESSAGE;
        reply_invalid(merge, NULL, &refused);
        return;
    }
    if ((hx_json_at(&merge->tape, msg->root)->flags & HX_JSON_IS_OPAQUE) != 0) {
        reply_fault(merge, HX_SPAN_NONE, HX_RPC_INVALID_REQUEST,
                    "There are too many messages in this batch; nothing was sent.");
        return;
    }
    count_calls(merge, msg, &words);
    struct batch *batch = words.batch = hx_new(struct batch);
    hx_list_init(&batch->answers);
    hx_list_append(&merge->batches, &batch->node);
    batch->exchange = merge->taking;
    /* Taking an element in uses the tape again, so the slices are noted first. */
    struct hx_span elements[HX_RPC_ELEMENTS_MAX];
    uint32_t element_count = 0;
    hx_assert(hx_json_at(&merge->tape, msg->root)->count <= HX_RPC_ELEMENTS_MAX);
    hx_json_for_each(at, &merge->tape, msg->root) elements[element_count++] =
        hx_json_raw(&merge->tape, at);
    for (uint32_t i = 0; i < element_count; i++) {
        struct hx_buf line;
        hx_buf_init(&line, merge->options.message_max_bytes);
        if (hx_buf_append_span(&line, elements[i]) == 0)
            take_message(merge, &line, &words);
        else
            take_unread(merge, elements[i], &words);
        hx_buf_fini(&line);
    }
    batch->is_complete = true;
    batch_release(merge, batch);
}

/* --- all of it --- */

static void take_message(struct merge *merge, struct hx_buf *line, const struct words *words)
{
    struct hx_rpc_msg msg;

    if (merge_read(merge, hx_buf_span(line), &msg) < 0) {
        take_unread(merge, hx_buf_span(line), words);
        return;
    }
    switch (msg.kind) {
    case HX_RPC_REQUEST:
        take_request(merge, &msg, line, words);
        return;
    case HX_RPC_NOTIFICATION:
        take_notification(merge, &msg);
        return;
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_response(merge, &msg, line);
        return;
    case HX_RPC_BATCH:
        take_batch(merge, &msg, words);
        return;
    case HX_RPC_INVALID:
        if (msg.fault != HX_RPC_EMPTY || merge->taking != 0)
            reply_invalid(merge, words->batch, &msg);
        return;
    }
}

/* What came held no request: nobody waits for an answer to it. */
static void settle_rest(struct merge *merge)
{
    exchange_settle(merge, merge->taking, HX_SETTLING_TAKEN);
    merge->taking = 0;
}

void client_message(struct merge *merge, struct hx_peer_event *event)
{
    const struct words words = {.key = hx_buf_span(&event->key), .key_count = event->key_count};

    merge->taking = event->exchange;
    take_message(merge, &event->line, &words);
    settle_rest(merge);
}

void client_oversize(struct merge *merge, const struct hx_peer_event *event)
{
    struct hx_span raw_id = event->line.len > 0 ? hx_buf_span(&event->line) : HX_SPAN_NONE;
    struct hx_rpc_id id = hx_rpc_id_parse(hx_buf_span(&event->line));
    char text[160];

    merge->taking = event->exchange;
    if (event->has_method || !(event->has_result || event->has_error)) {
        snprintf(text, sizeof(text),
                 "The message has %llu bytes, more than message_max allows or than there is memory "
                 "for; nothing was sent.",
                 (unsigned long long)event->size);
        reply_fault(merge, raw_id, HX_RPC_INVALID_REQUEST, text);
        return;
    }
    /* An answer to a server: it cannot be passed on, and the server must not wait for ever. */
    struct ask *ask = event->line.len > 0 ? ask_find(merge, &id) : NULL;
    struct hx_peer_event *told = ask != NULL ? leg_tell(ask->leg, HX_PEER_OVERSIZE) : NULL;
    if (told != NULL) {
        told->size = event->size;
        told->has_result = event->has_result;
        told->has_error = event->has_error;
        (void)hx_buf_append_span(&told->line, hx_buf_span(&event->line));
    }
    if (ask != NULL)
        ask_free(ask);
    settle_rest(merge);
}
