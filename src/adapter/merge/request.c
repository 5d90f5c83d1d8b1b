/* SPDX-License-Identifier: MIT */
/*
 * Requests that are not answered yet, and the tickets by which legs answer them.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "wire/rewrite.h"

static struct request *new_request(struct merge *merge, enum request_kind kind)
{
    struct request *request = hx_new(struct request);

    request->merge = merge;
    request->kind = kind;
    hx_list_init(&request->wait_node);
    hx_list_init(&request->tickets);
    hx_buf_init(&request->id_key, HX_RPC_ID_MAX + 16);
    hx_buf_init(&request->raw_id, HX_RPC_ID_MAX);
    hx_buf_init(&request->message, merge->options.message_max_bytes);
    hx_buf_init(&request->key, HX_RPC_ID_MAX);
    hx_buf_init(&request->error, merge->options.message_max_bytes);
    hx_list_append(&merge->requests, &request->node);
    return request;
}

struct request *request_new(struct merge *merge, enum request_kind kind,
                            const struct hx_rpc_msg *msg)
{
    struct request *request = new_request(merge, kind);

    (void)hx_buf_append_span(&request->raw_id, msg->id.raw); /* no longer than HX_RPC_ID_MAX */
    hx_rpc_id_key(&msg->id, &request->id_key);
    hx_map_insert(&merge->requests_by_id, &request->by_id, hx_buf_span(&request->id_key));
    request->exchange = merge->taking;
    merge->taking = 0;
    merge->request_count++;
    return request;
}

struct request *request_new_own(struct merge *merge, enum request_kind kind)
{
    struct request *request = new_request(merge, kind);

    request->is_own = true;
    return request;
}

/* Takes the line. */
void request_keep(struct request *request, struct hx_buf *line)
{
    size_t len_max = line->len_max;

    request->message = *line;
    request->merge->kept_bytes += line->len;
    hx_buf_init(line, len_max);
}

void request_replace(struct request *request, struct hx_buf *line)
{
    request->merge->kept_bytes -= request->message.len;
    hx_buf_fini(&request->message);
    request_keep(request, line);
}

/* What it kept is needed no more. */
static void drop_message(struct request *request)
{
    if (!request->is_own)
        request->merge->kept_bytes -= request->message.len;
    hx_buf_fini(&request->message);
}

void request_free(struct request *request)
{
    struct merge *merge = request->merge;
    struct batch *batch = request->batch;
    struct hx_list *node;

    while ((node = hx_list_first(&request->tickets)) != NULL)
        ticket_free(hx_container_of(node, struct ticket, node));
    if (merge->greeting == request)
        merge->greeting = NULL;
    list_free_parts(request);
    hx_list_unlink(&request->node);
    hx_list_unlink(&request->wait_node);
    hx_map_remove(&merge->requests_by_id, &request->by_id);
    if (!request->is_own)
        merge->request_count--;
    drop_message(request);
    hx_buf_fini(&request->id_key);
    hx_buf_fini(&request->raw_id);
    hx_buf_fini(&request->key);
    hx_buf_fini(&request->error);
    hx_free(request);
    if (batch != NULL) {
        batch->open_count--;
        batch_release(merge, batch);
    }
}

void request_leave(struct request *request)
{
    hx_list_for_each (node, &request->tickets) {
        struct ticket *ticket = hx_container_of(node, struct ticket, node);
        struct hx_peer_event *event = leg_tell(ticket->leg, HX_PEER_EXCHANGE_GONE);
        if (event != NULL)
            event->exchange = ticket->number;
    }
    request_free(request);
}

struct request *request_find(struct merge *merge, const struct hx_rpc_id *id)
{
    struct hx_buf key;

    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&merge->requests_by_id, hx_buf_span(&key));
    hx_buf_fini(&key);
    return node != NULL ? hx_container_of(node, struct request, by_id) : NULL;
}

static uint64_t hash_of(const struct merge *merge, struct hx_span id_key)
{
    return hx_siphash(merge->requests_by_id.secret, id_key);
}

void request_remember(const struct request *request, struct leg *leg)
{
    struct merge *merge = request->merge;

    if (request->is_own)
        return;
    merge->answered[merge->answered_count++ % ANSWERED_MAX] =
        (struct answered){.id = hash_of(merge, hx_buf_span(&request->id_key)), .leg = leg};
}

bool request_was_answered(const struct merge *merge, const struct hx_rpc_id *id,
                          struct leg **ret_leg)
{
    struct hx_buf key;

    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    uint64_t hash = hash_of(merge, hx_buf_span(&key));
    hx_buf_fini(&key);
    for (uint32_t back = 1; back <= ANSWERED_MAX && back <= merge->answered_count; back++) {
        const struct answered *at = &merge->answered[(merge->answered_count - back) % ANSWERED_MAX];
        if (at->id != hash)
            continue;
        *ret_leg = at->leg;
        return true;
    }
    return false;
}

/* --- tickets --- */

struct ticket *ticket_new(struct request *request, struct leg *leg)
{
    struct merge *merge = request->merge;
    struct ticket *ticket = hx_new(struct ticket);

    ticket->number = ++merge->next_number;
    ticket->leg = leg;
    ticket->request = request;
    hx_list_append(&request->tickets, &ticket->node);
    hx_map_insert(&merge->tickets, &ticket->by_number,
                  hx_span((const char *)&ticket->number, sizeof ticket->number));
    return ticket;
}

struct ticket *ticket_find(struct merge *merge, uint64_t number)
{
    struct hx_map_node *node =
        hx_map_find(&merge->tickets, hx_span((const char *)&number, sizeof number));

    return node != NULL ? hx_container_of(node, struct ticket, by_number) : NULL;
}

void ticket_free(struct ticket *ticket)
{
    hx_list_unlink(&ticket->node);
    hx_map_remove(&ticket->request->merge->tickets, &ticket->by_number);
    hx_free(ticket);
}

/* --- sending --- */

void request_send(struct request *request, struct leg *leg)
{
    struct ticket *ticket = ticket_new(request, leg);
    struct hx_peer_event *event = leg_tell(leg, HX_PEER_MESSAGE);

    if (event == NULL) {
        ticket_unread(ticket);
        return;
    }
    event->exchange = ticket->number;
    request->merge->kept_bytes -= request->is_own ? 0 : request->message.len;
    event->line = request->message;
    hx_buf_init(&request->message, event->line.len_max);
    event->key = request->key;
    event->key_count = request->key_count;
    hx_buf_init(&request->key, HX_RPC_ID_MAX);
}

bool request_send_copy(struct request *request, struct leg *leg)
{
    struct hx_buf line;

    hx_buf_init(&line, request->message.len_max);
    bool is_copied = hx_buf_append_span(&line, hx_buf_span(&request->message)) == 0;
    if (is_copied)
        leg_message(leg, &line, ticket_new(request, leg)->number);
    hx_buf_fini(&line);
    return is_copied;
}

/* Some may have been asked: that does no harm twice. */
static void say_no_memory(struct request *request)
{
    reply_error(request, MERGE_UPSTREAM_UNAVAILABLE,
                HX_SPAN_LIT("There is no memory to ask all servers that this concerns. Repeat it "
                            "as it is."),
                HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
}

/* --- one leg after another --- */

static bool may_have_it(const struct request *request, const struct leg *leg)
{
    switch (request->wants) {
    case WANTS_RESOURCE:
        return leg_takes_part(leg) && leg->has_list[LIST_RESOURCES];
    case WANTS_COMPLETION:
        return leg_takes_part(leg) && leg->has_completions;
    case WANTS_OPERATION:
        return true;
    }
    return false;
}

/* "There is no such operation" is for all of them to say. */
static void nobody_has_operation(struct request *request)
{
    struct hx_buf text;

    hx_buf_init(&text, 512);
    (void)hx_buf_printf(&text,
                        "The server \"%.*s\" cannot be asked in this session, and nobody else here "
                        "has such an operation: it may be that server's.",
                        HX_SPAN_FMT(request->unasked->name));
    reply_error(request, MERGE_LEDGER_UNAVAILABLE, hx_buf_span(&text),
                HX_SPAN_LIT(HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false")));
    hx_buf_fini(&text);
}

void request_try_next(struct request *request)
{
    struct merge *merge = request->merge;

    while (request->at_leg < merge->leg_count) {
        struct leg *leg = &merge->legs[request->at_leg++];
        if (!may_have_it(request, leg))
            continue;
        if (!leg_may_be_sent_to(leg)) {
            request->unasked = leg;
            continue;
        }
        if (!request_send_copy(request, leg)) {
            say_no_memory(request);
            return;
        }
        if (!hx_list_is_empty(&request->tickets))
            return;
    }
    if (request->wants == WANTS_OPERATION && request->unasked != NULL) {
        nobody_has_operation(request);
    } else if (request->error.len > 0) {
        struct hx_buf line = request->error;
        hx_buf_init(&request->error, line.len_max);
        reply_line(request, &line, NULL, 0);
    } else {
        reply_error(request, MERGE_NOT_FOUND, HX_SPAN_LIT("No server here has this resource."),
                    HX_SPAN_NONE);
    }
}

static void keep_error(struct request *request, struct hx_buf *line)
{
    if (request->error.len > 0 || line->len == 0)
        return;
    hx_buf_fini(&request->error);
    request->error = *line;
    hx_buf_init(line, request->error.len_max);
}

/* True when the answer holds a result; *ret_is_final: nobody else need be asked. */
static bool is_result(const struct request *request, const struct hx_buf *line, bool *ret_is_final)
{
    struct merge *merge = request->merge;
    struct hx_rpc_msg msg = {.kind = HX_RPC_INVALID};
    int rc = merge_read(merge, hx_buf_span(line), &msg);

    *ret_is_final = rc == 0 && msg.kind == HX_RPC_RESULT;
    if (*ret_is_final)
        return true;
    if (request->wants == WANTS_OPERATION) {
        uint32_t data = rc == 0 && msg.kind == HX_RPC_ERROR
                            ? hx_json_member(&merge->tape, msg.error_token, HX_SPAN_LIT("data"))
                            : HX_JSON_NONE;
        *ret_is_final =
            !hx_json_is_text(&merge->tape, hx_json_member(&merge->tape, data, HX_SPAN_LIT("code")),
                             HX_SPAN_LIT("NOT_FOUND"));
    }
    return false;
}

/* --- several legs at once --- */

static void all_finish(struct request *request)
{
    if (request->is_own) {
        request_free(request);
    } else if (request->is_short) {
        say_no_memory(request);
    } else if (request->has_result) {
        reply_result(request, HX_SPAN_LIT("{}"));
    } else if (request->error.len > 0) {
        struct hx_buf line = request->error;
        hx_buf_init(&request->error, line.len_max);
        reply_line(request, &line, NULL, 0);
    } else {
        reply_error(request, MERGE_UPSTREAM_UNAVAILABLE,
                    HX_SPAN_LIT("No server that this concerns can be reached."), HX_SPAN_NONE);
    }
}

void request_send_all(struct request *request, bool (*is_asked)(const struct leg *leg))
{
    struct merge *merge = request->merge;

    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        if (leg_takes_part(leg) && is_asked(leg))
            request->is_short |= !request_send_copy(request, leg);
    }
    if (hx_list_is_empty(&request->tickets))
        all_finish(request);
}

/* --- answers --- */

/* The leg has done its part; what it said need not go anywhere. */
static void take_word(struct ticket *ticket, struct hx_buf *line, uint64_t tag)
{
    struct request *request = ticket->request;
    struct leg *leg = ticket->leg;
    bool is_final;
    bool has_result = is_result(request, line, &is_final);

    if (request->kind == REQUEST_TRY && is_final) {
        reply_line(request, line, leg, tag);
        return;
    }
    leg_tell_fate(leg, tag, HX_PEER_WRITTEN);
    if (has_result)
        request->has_result = true;
    else
        keep_error(request, line);
    ticket_free(ticket);
    if (request->kind == REQUEST_TRY)
        request_try_next(request);
    else if (hx_list_is_empty(&request->tickets))
        all_finish(request);
}

void request_answered(struct ticket *ticket, struct hx_buf *line, uint64_t tag)
{
    struct request *request = ticket->request;

    switch (request->kind) {
    case REQUEST_ONE:
        reply_line(request, line, ticket->leg, tag);
        return;
    case REQUEST_RESUME:
        resume_answered(ticket, line, tag);
        return;
    case REQUEST_TRY:
    case REQUEST_ALL:
        take_word(ticket, line, tag);
        return;
    case REQUEST_INITIALIZE:
        leg_tell_fate(ticket->leg, tag, HX_PEER_WRITTEN);
        greet_answered(ticket, line);
        return;
    case REQUEST_LIST:
        leg_tell_fate(ticket->leg, tag, HX_PEER_WRITTEN);
        list_answered(ticket, line);
        return;
    }
}

/* The leg owes an answer that will not come. Only of what never went to its server, or harms nobody
 * twice, may be said that it is safe to ask again. */
static void one_lost(struct request *request, const struct leg *leg, bool was_read)
{
    enum request_risk risk = was_read ? request->risk : RISK_NONE;
    struct hx_buf text;

    hx_buf_init(&text, 1024);
    (void)hx_buf_printf(&text, "The session with the server \"%.*s\" is over",
                        HX_SPAN_FMT(leg->name));
    if (risk == RISK_CALL)
        (void)hx_buf_append_cstr(
            &text, ", and this call may have been sent to it: it may or may not have happened. Do "
                   "not call again under a new key and do not report it as failed. Repeat exactly "
                   "the same call in a new session, with the same key if you sent one, to learn "
                   "what came of it.");
    else if (risk == RISK_UNKNOWN)
        (void)hx_buf_append_cstr(&text, ", and this request may have been sent to it: what it asks "
                                        "may have happened.");
    else
        (void)hx_buf_printf(&text, "; %s in a new session.",
                            was_read ? "this request may be repeated"
                                     : "nothing was sent. Repeat the request");
    if (risk == RISK_CALL)
        reply_unknown(request, hx_buf_span(&text));
    else if (risk == RISK_UNKNOWN)
        reply_error(request, HX_RPC_INTERNAL_ERROR, hx_buf_span(&text),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")));
    else
        reply_error(request, MERGE_UPSTREAM_UNAVAILABLE, hx_buf_span(&text),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
    hx_buf_fini(&text);
}

static void ticket_ended(struct ticket *ticket, bool was_read)
{
    struct request *request = ticket->request;
    const struct leg *leg = ticket->leg;

    switch (request->kind) {
    case REQUEST_INITIALIZE:
        greet_lost(ticket);
        return;
    case REQUEST_LIST:
        list_lost(ticket);
        return;
    case REQUEST_ONE:
    case REQUEST_TRY:
    case REQUEST_ALL:
    case REQUEST_RESUME:
        break;
    }
    ticket_free(ticket);
    if (request->kind == REQUEST_ONE)
        one_lost(request, leg, was_read);
    else if (request->kind == REQUEST_TRY) {
        request->unasked = leg;
        request_try_next(request);
    } else if (!hx_list_is_empty(&request->tickets))
        return;
    else if (request->kind == REQUEST_ALL)
        all_finish(request);
    else
        resume_unknown(request);
}

void ticket_lost(struct ticket *ticket)
{
    ticket_ended(ticket, true);
}

void ticket_unread(struct ticket *ticket)
{
    ticket_ended(ticket, false);
}

void ticket_settled(struct ticket *ticket)
{
    struct request *request = ticket->request;

    if (request->kind != REQUEST_ONE) {
        ticket_lost(ticket);
        return;
    }
    /* It was cancelled, or its answer goes to a repeat of it. */
    if (request->batch == NULL)
        exchange_settle(request->merge, request->exchange, HX_SETTLING_TAKEN);
    request_free(request);
}
