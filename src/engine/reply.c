/* SPDX-License-Identifier: MIT */
/*
 * Lines to the client: single answers, elements of a batch, errors in our own name.
 */
#include "engine/internal.h"

#include <stdio.h>

/* What an answer says that is owed and cannot be written: nothing of what became of the request. */
#define UNKNOWN_DATA                                                                               \
    "{\"code\":\"OUTCOME_UNKNOWN\",\"type\":\"idempotency_outcome_unknown\",\"retry_safe\":false," \
    "\"" HX_MCP_META_OPERATION "\":{\"code\":\"OUTCOME_UNKNOWN\",\"replayed\":false,"              \
    "\"joined\":false,\"new_key_allowed\":false}}"
#define UNSENT_DATA HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false")
#define NO_ANSWER_DATA HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")
#define REFUSED_DATA HX_MCP_OWN_ERROR("REQUEST_INVALID", "true", "true")

/* A line that could not be written whole is none: the client must not read half of one. */
static bool is_whole(const struct hx_buf *line)
{
    return hx_buf_ok(line) && line->len > 0;
}

static void tell_unwritten(struct hx_gateway *gateway, const char *event, const struct hx_buf *line)
{
    hx_tell(gateway, HX_TELL_ERROR, event, "reason=%s", line->is_refused ? "memory" : "size");
}

/* Takes the line. One that could not be written whole is not sent. */
static bool send_line(struct hx_session *session, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_downstream *client = session->options.downstream;
    if (session->is_gone || !is_whole(line)) {
        if (!session->is_gone)
            tell_unwritten(gateway, "message_dropped", line);
        hx_buf_fini(line);
        hx_delivery_fate(gateway, sending->tag, HX_PEER_NOT_SENT);
        return false;
    }
    client->ops->send(client, line, sending);
    hx_buf_fini(line);
    hx_link_stir(session->link);
    return true;
}

#define UNWRITTEN "There is no memory for this answer, or it is longer than a message may be."

/* Whoever asked is owed a word. For this one there is room always, and it leaves open what became
 * of a request that may have done something: the ledger knows, of what is guarded. A gateway before
 * us must not take it for the tool's own error, so it has a code of ours. */
static void say_too_much(const struct hx_session *session, struct hx_span id, bool is_harmless,
                         struct hx_buf *line)
{
    enum hx_answer answer = is_harmless ? HX_ANSWER_NO_ANSWER : HX_ANSWER_OUTCOME_UNKNOWN;
    struct hx_span text =
        is_harmless ? HX_SPAN_LIT(UNWRITTEN)
                    : HX_SPAN_LIT(UNWRITTEN " What was asked for may or may not have happened.");
    hx_buf_fini(line);
    hx_buf_init(line, HX_ALLOC_SMALL_MAX / 2);
    if (hx_rewrite_build_error(
            line, id, session->era->may_omit_error_id, hx_answer_code(answer), text,
            is_harmless ? HX_SPAN_LIT(NO_ANSWER_DATA) : HX_SPAN_LIT(UNKNOWN_DATA)) < 0)
        hx_buf_reset(line);
}

/* An array that cannot be written: each of those who asked hears of it under his id. */
static void say_too_much_of_each(const struct hx_session *session, const struct hx_batch *batch,
                                 struct hx_buf *line)
{
    struct hx_buf one;
    hx_buf_fini(line);
    hx_buf_init(line, session->gateway->options.message_max);
    hx_buf_init(&one, 0);
    hx_list_for_each (node, &batch->answers) {
        const struct hx_batch_answer *answer = hx_container_of(node, struct hx_batch_answer, node);
        if (answer->raw_id.len == 0)
            continue; /* nobody can tell which of his messages it was about */
        say_too_much(session, hx_buf_span(&answer->raw_id), answer->is_harmless, &one);
        (void)hx_buf_append_char(line, line->len == 0 ? '[' : ',');
        (void)hx_buf_append_span(line, hx_buf_span(&one));
    }
    hx_buf_fini(&one);
    (void)hx_buf_append_char(line, line->len == 0 ? '[' : ']');
    if (!hx_buf_ok(line) || line->len == 1)
        say_too_much(session, HX_SPAN_NONE, false, line);
}

bool hx_send_aside(struct hx_session *session, struct hx_buf *line, uint64_t exchange)
{
    const struct hx_sending sending = {
        .tag = session->gateway->next_tag++, .exchange = exchange, .kind = HX_SENDING_ASIDE};
    return send_line(session, line, &sending);
}

bool hx_send_ask(struct hx_ask *ask, struct hx_buf *line, uint64_t exchange)
{
    ask->tag = ask->session->gateway->next_tag;
    return hx_send_aside(ask->session, line, exchange);
}

void hx_exchange_settle(struct hx_session *session, uint64_t exchange)
{
    struct hx_downstream *client = session->options.downstream;
    if (exchange != 0 && !session->is_gone)
        client->ops->settle(client, exchange, HX_SETTLING_TAKEN);
}

static void answer_free(struct hx_session *session, struct hx_batch_answer *answer)
{
    if (answer->note != NULL)
        answer->note->batch_answer = NULL;
    hx_list_unlink(&answer->node);
    hx_map_remove(&session->batch_answers, &answer->by_id);
    session->gateway->batch_answer_count--;
    hx_buf_fini(&answer->id_key);
    hx_buf_fini(&answer->raw_id);
    hx_buf_fini(&answer->line);
    hx_free(answer);
}

/* The fate of each answer of a batch is the fate of the array, so they share its tag. */
static void share_tag(struct hx_gateway *gateway, struct hx_delivery_note *note, uint64_t tag)
{
    hx_map_remove(&gateway->deliveries_by_tag, &note->by_tag);
    note->tag = tag;
    memcpy(note->tag_key, &tag, sizeof(note->tag_key));
    hx_map_insert(&gateway->deliveries_by_tag, &note->by_tag,
                  hx_span(note->tag_key, sizeof(note->tag_key)));
}

/* A batch leaves as one array. What was cancelled in the meantime is not in it. */
static void send_batch(struct hx_session *session, struct hx_batch *batch)
{
    struct hx_gateway *gateway = session->gateway;
    size_t size = 2;
    hx_list_for_each (node, &batch->answers)
        size += hx_container_of(node, struct hx_batch_answer, node)->line.len + 1;
    uint64_t tag = gateway->next_tag++;
    struct hx_buf line;
    hx_buf_init(&line, size);
    hx_list_for_each (node, &batch->answers) {
        struct hx_batch_answer *answer = hx_container_of(node, struct hx_batch_answer, node);
        (void)hx_buf_append_char(&line, line.len == 0 ? '[' : ',');
        (void)hx_buf_append_span(&line, hx_buf_span(&answer->line));
        if (answer->note != NULL)
            share_tag(gateway, answer->note, tag);
    }
    (void)hx_buf_append_char(&line, ']'); /* the buffer remembers a failure */
    if (!is_whole(&line)) {
        tell_unwritten(gateway, "answer_replaced", &line);
        /* Who asks again for one of them is given it. */
        hx_delivery_fate(gateway, tag, HX_PEER_NOT_SENT);
        say_too_much_of_each(session, batch, &line);
        tag = gateway->next_tag++;
    }
    (void)send_line(session, &line, &(struct hx_sending){.tag = tag, .exchange = batch->exchange});
}

void hx_batch_release(struct hx_session *session, struct hx_batch *batch)
{
    if (batch->open_count > 0 || !batch->is_complete)
        return;
    if (!hx_list_is_empty(&batch->answers))
        send_batch(session, batch);
    else if (session->taking != batch->exchange)
        hx_exchange_settle(session, batch->exchange); /* all that it asked was cancelled */
    hx_list_for_each_safe (node, &batch->answers)
        answer_free(session, hx_container_of(node, struct hx_batch_answer, node));
    hx_free(batch);
}

/* `request` is NULL for what is no request. */
static void add_to_batch(struct hx_session *session, struct hx_batch *batch,
                         const struct hx_request *request, struct hx_buf *line,
                         struct hx_delivery_note *note)
{
    struct hx_gateway *gateway = session->gateway;
    session->taking = 0;
    if (!is_whole(line)) {
        tell_unwritten(gateway, "message_dropped", line);
        hx_buf_fini(line);
        if (note != NULL)
            hx_delivery_take_back(gateway, note);
        return;
    }
    struct hx_batch_answer *answer = hx_new(struct hx_batch_answer);
    answer->line = *line;
    hx_buf_init(line, line->len_max);
    hx_buf_init(&answer->id_key, HX_RPC_ID_MAX + 16);
    hx_buf_init(&answer->raw_id, HX_RPC_ID_MAX);
    answer->note = note;
    if (note != NULL)
        note->batch_answer = answer;
    hx_list_append(&batch->answers, &answer->node);
    gateway->batch_answer_count++;
    if (request == NULL)
        return;
    answer->is_harmless = request->is_harmless;
    (void)hx_buf_append_span(&answer->id_key, hx_buf_span(&request->id_key));
    (void)hx_buf_append_span(&answer->raw_id, request->raw_id);
    hx_map_insert(&session->batch_answers, &answer->by_id, hx_buf_span(&answer->id_key));
}

bool hx_batch_withdraw(struct hx_session *session, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&session->batch_answers, hx_buf_span(&key));
    hx_buf_fini(&key);
    if (node != NULL)
        answer_free(session, hx_container_of(node, struct hx_batch_answer, by_id));
    return node != NULL;
}

void hx_reply_line(struct hx_request *request, struct hx_buf *line, struct hx_delivery_note *note)
{
    struct hx_session *session = request->session;
    if (!session->is_gone && !is_whole(line)) {
        tell_unwritten(session->gateway, "answer_replaced", line);
        if (note != NULL)
            hx_delivery_take_back(session->gateway, note);
        note = NULL;
        say_too_much(session, request->raw_id, request->is_harmless, line);
    }
    const struct hx_sending sending = {.tag = note ? note->tag : session->gateway->next_tag++,
                                       .exchange = request->exchange};
    if (request->batch != NULL)
        add_to_batch(session, request->batch, request, line, note);
    else
        (void)send_line(session, line, &sending);
    hx_request_free(request);
}

void hx_reply_error(struct hx_request *request, int64_t code, struct hx_span message,
                    struct hx_span data)
{
    struct hx_session *session = request->session;
    struct hx_buf line;
    hx_buf_init(&line, session->gateway->options.message_max);
    if (hx_rewrite_build_error(&line, request->raw_id, session->era->may_omit_error_id, code,
                               message, data) < 0)
        hx_buf_reset(&line); /* hx_reply_line says so in fewer words */
    hx_reply_line(request, &line, NULL);
}

static void write_fault(struct hx_session *session, struct hx_buf *line, struct hx_span id,
                        int64_t code, const char *text)
{
    hx_buf_init(line, session->gateway->options.message_max);
    if (hx_rewrite_build_error(line, id, session->era->may_omit_error_id, code, hx_span_cstr(text),
                               HX_SPAN_LIT(REFUSED_DATA)) < 0)
        hx_buf_reset(line);
}

static void send_fault(struct hx_session *session, struct hx_buf *line)
{
    const struct hx_sending sending = {
        .tag = session->gateway->next_tag++, .exchange = session->taking, .kind = HX_SENDING_FAULT};
    session->taking = 0;
    (void)send_line(session, line, &sending);
}

void hx_reply_fault(struct hx_session *session, struct hx_span id, int64_t code, const char *text)
{
    struct hx_buf line;
    write_fault(session, &line, id, code, text);
    send_fault(session, &line);
}

void hx_reply_invalid(struct hx_session *session, struct hx_batch *batch,
                      const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    char text[512];
    bool has_detail = msg->fault == HX_RPC_PARSE_ERROR && msg->fault_detail != NULL;
    snprintf(text, sizeof(text), "%s%s%s", hx_rpc_fault_text(msg->fault), has_detail ? ": " : "",
             has_detail ? msg->fault_detail : "");
    struct hx_span id = msg->id.type == HX_RPC_ID_INTEGER || msg->id.type == HX_RPC_ID_STRING
                            ? msg->id.raw
                            : HX_SPAN_NONE;
    write_fault(session, &line, id, hx_rpc_fault_code(msg->fault), text);
    if (batch != NULL)
        add_to_batch(session, batch, NULL, &line, NULL);
    else
        send_fault(session, &line);
}

void hx_reply_unread(struct hx_session *session, struct hx_batch *batch, struct hx_span id)
{
    struct hx_buf line;
    hx_buf_init(&line, session->gateway->options.message_max);
    if (hx_rewrite_build_error(&line, id, session->era->may_omit_error_id,
                               hx_answer_code(HX_ANSWER_LEDGER_UNAVAILABLE),
                               HX_SPAN_LIT("There is no memory for this message; nothing was sent. "
                                           "Repeat it as it is."),
                               HX_SPAN_LIT(UNSENT_DATA)) < 0)
        hx_buf_reset(&line);
    if (batch != NULL)
        add_to_batch(session, batch, NULL, &line, NULL);
    else
        send_fault(session, &line);
}

void hx_reply_unsent(struct hx_request *request, struct hx_span message)
{
    hx_reply_error(request, hx_answer_code(HX_ANSWER_LEDGER_UNAVAILABLE), message,
                   HX_SPAN_LIT(UNSENT_DATA));
}

void hx_reply_refused(struct hx_request *request, int64_t code, const char *text)
{
    hx_reply_error(request, code, hx_span_cstr(text), HX_SPAN_LIT(REFUSED_DATA));
}

void hx_reply_no_answer(struct hx_request *request, const char *why)
{
    bool is_harmless = request->is_harmless;
    hx_reply_error(
        request, hx_answer_code(is_harmless ? HX_ANSWER_NO_ANSWER : HX_ANSWER_OUTCOME_UNKNOWN),
        hx_span_cstr(why),
        is_harmless ? HX_SPAN_LIT(NO_ANSWER_DATA)
                    : HX_SPAN_LIT(HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")));
}

void hx_reply_no_memory(struct hx_request *request)
{
    hx_reply_error(request, hx_answer_code(HX_ANSWER_UPSTREAM_UNAVAILABLE),
                   HX_SPAN_LIT("There is no memory to pass this request on; nothing was sent."),
                   HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
}
