/* SPDX-License-Identifier: MIT */
/*
 * Lines to the client: single answers, elements of a batch, errors in our own name.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "wire/rewrite.h"
#include "json/text.h"

enum { RECEIPTS_MAX = 1024 };

static void send(struct merge *merge, struct hx_buf *line, const struct hx_sending *sending)
{
    merge->outer->ops->send(merge->outer, line, sending);
    hx_buf_fini(line);
}

void exchange_settle(struct merge *merge, uint64_t exchange, enum hx_settling settling)
{
    if (exchange != 0 && !merge->is_gone && merge->has_exchanges)
        merge->outer->ops->settle(merge->outer, exchange, settling);
}

void reply_aside(struct merge *merge, struct hx_buf *line, uint64_t exchange, uint64_t tag)
{
    send(merge, line,
         &(struct hx_sending){.tag = tag, .exchange = exchange, .kind = HX_SENDING_ASIDE});
}

void reply_notice(struct merge *merge, const char *method)
{
    struct hx_buf line;

    if (merge->is_gone)
        return;
    hx_buf_init(&line, 512);
    if (hx_rewrite_build_request(&line, HX_SPAN_NONE, hx_span_cstr(method), HX_SPAN_NONE) == 0)
        reply_aside(merge, &line, 0, 0);
    hx_buf_fini(&line);
}

/* --- batches --- */

static void answer_free(struct batch_answer *answer)
{
    hx_list_unlink(&answer->node);
    hx_buf_fini(&answer->id_key);
    hx_buf_fini(&answer->line);
    hx_free(answer);
}

void receipt_free(struct merge *merge, struct receipt *receipt)
{
    struct hx_list *node;

    while ((node = hx_list_first(&receipt->answers)) != NULL)
        answer_free(hx_container_of(node, struct batch_answer, node));
    hx_list_unlink(&receipt->node);
    hx_map_remove(&merge->receipts_by_number, &receipt->by_number);
    merge->receipt_count--;
    hx_free(receipt);
}

void receipt_fate(struct merge *merge, uint64_t number, enum hx_peer_event_type fate)
{
    struct hx_map_node *node =
        hx_map_find(&merge->receipts_by_number, hx_span((const char *)&number, sizeof number));

    if (node == NULL)
        return;
    struct receipt *receipt = hx_container_of(node, struct receipt, by_number);
    receipt->has_fate = true;
    hx_list_for_each (at, &receipt->answers) {
        struct batch_answer *answer = hx_container_of(at, struct batch_answer, node);
        if (answer->leg != NULL)
            leg_tell_fate(answer->leg, answer->tag, fate);
    }
}

/* An array may be taken back long after it was written, so its receipt is kept, within bounds. */
static struct receipt *receipt_new(struct merge *merge)
{
    struct receipt *receipt = hx_new(struct receipt);
    struct hx_list *oldest;

    receipt->number = ++merge->next_number;
    hx_list_init(&receipt->answers);
    hx_list_append(&merge->receipts, &receipt->node);
    hx_map_insert(&merge->receipts_by_number, &receipt->by_number,
                  hx_span((const char *)&receipt->number, sizeof receipt->number));
    merge->receipt_count++;
    while (merge->receipt_count > RECEIPTS_MAX &&
           (oldest = hx_list_first(&merge->receipts)) != NULL &&
           hx_container_of(oldest, struct receipt, node)->has_fate)
        receipt_free(merge, hx_container_of(oldest, struct receipt, node));
    return receipt;
}

/* Whoever asked is owed a word. For this one there is room always, and it leaves open what became
 * of the request. */
static void say_too_much(struct merge *merge, struct hx_span id, struct hx_buf *line)
{
    hx_buf_fini(line);
    hx_buf_init(line, HX_ALLOC_SMALL_MAX / 2);
    if (hx_rewrite_build_error(line, id, merge->era->may_omit_error_id, HX_RPC_INTERNAL_ERROR,
                               HX_SPAN_LIT("There is no memory for this answer, or it is longer "
                                           "than a message may be. What was asked for may have "
                                           "happened."),
                               HX_SPAN_LIT("{\"code\":\"NO_MEMORY\",\"retry_safe\":false}")) < 0)
        hx_buf_reset(line);
}

static void send_batch(struct merge *merge, struct batch *batch)
{
    struct receipt *receipt = receipt_new(merge);
    struct hx_buf line;
    size_t size = 2;

    hx_list_for_each (node, &batch->answers)
        size += hx_container_of(node, struct batch_answer, node)->line.len + 1;
    hx_buf_init(&line, size);
    hx_list_for_each (node, &batch->answers) {
        struct batch_answer *answer = hx_container_of(node, struct batch_answer, node);
        (void)hx_buf_append_char(&line, line.len == 0 ? '[' : ',');
        (void)hx_buf_append_span(&line, hx_buf_span(&answer->line));
        hx_buf_fini(&answer->line);
    }
    (void)hx_buf_append_char(&line, ']'); /* the buffer remembers a failure */
    hx_list_splice(&receipt->answers, &batch->answers);
    if (hx_buf_ok(&line)) {
        send(merge, &line,
             &(struct hx_sending){.tag = receipt->number << 16, .exchange = batch->exchange});
        return;
    }
    receipt_fate(merge, receipt->number, HX_PEER_NOT_SENT);
    say_too_much(merge, HX_SPAN_NONE, &line);
    send(merge, &line, &(struct hx_sending){.exchange = batch->exchange});
}

static void drop_answers(struct batch *batch)
{
    hx_list_for_each_safe (node, &batch->answers) {
        struct batch_answer *answer = hx_container_of(node, struct batch_answer, node);
        if (answer->leg != NULL)
            leg_tell_fate(answer->leg, answer->tag, HX_PEER_NOT_SENT);
        answer_free(answer);
    }
}

void batch_release(struct merge *merge, struct batch *batch)
{
    if (batch->open_count > 0 || !batch->is_complete)
        return;
    hx_list_unlink(&batch->node);
    if (merge->is_gone || batch->is_abandoned)
        drop_answers(batch);
    else if (!hx_list_is_empty(&batch->answers))
        send_batch(merge, batch);
    else if (merge->taking != batch->exchange)
        exchange_settle(merge, batch->exchange, HX_SETTLING_TAKEN); /* all was cancelled */
    hx_free(batch);
}

/* Nobody waits for any of it. */
void batch_abandon(struct merge *merge, struct batch *batch)
{
    batch->is_abandoned = true;
    batch->is_complete = false; /* so that it lives until we are through */
    hx_list_for_each_safe (node, &merge->requests) {
        struct request *request = hx_container_of(node, struct request, node);
        if (request->batch == batch && merge->is_gone)
            request_free(request);
        else if (request->batch == batch)
            request_leave(request);
    }
    batch->is_complete = true;
    batch_release(merge, batch);
}

static void add_to_batch(struct merge *merge, struct batch *batch, const struct hx_buf *id_key,
                         struct hx_buf *line, struct leg *leg, uint64_t tag)
{
    struct batch_answer *answer = hx_new(struct batch_answer);

    merge->taking = 0;
    answer->line = *line;
    hx_buf_init(line, answer->line.len_max);
    answer->leg = leg;
    answer->tag = tag;
    hx_buf_init(&answer->id_key, HX_RPC_ID_MAX + 16);
    if (id_key != NULL)
        (void)hx_buf_append_span(&answer->id_key, hx_buf_span(id_key));
    hx_list_append(&batch->answers, &answer->node);
}

bool batch_withdraw(struct merge *merge, const struct hx_rpc_id *id)
{
    struct batch_answer *found = NULL;
    struct hx_buf key;

    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    hx_list_for_each (node, &merge->batches) {
        struct batch *batch = hx_container_of(node, struct batch, node);
        hx_list_for_each (at, &batch->answers) {
            struct batch_answer *answer = hx_container_of(at, struct batch_answer, node);
            if (hx_span_eq(hx_buf_span(&answer->id_key), hx_buf_span(&key)))
                found = answer;
        }
    }
    hx_buf_fini(&key);
    if (found == NULL)
        return false;
    if (found->leg != NULL)
        leg_tell_fate(found->leg, found->tag, HX_PEER_NOT_SENT);
    answer_free(found);
    return true;
}

/* --- answers --- */

void reply_line(struct request *request, struct hx_buf *line, struct leg *leg, uint64_t tag)
{
    struct merge *merge = request->merge;
    bool is_whole = hx_buf_ok(line) && line->len > 0;

    if (!is_whole && !merge->is_gone) {
        /* The client must not read half of a line. */
        if (leg != NULL)
            leg_tell_fate(leg, tag, HX_PEER_NOT_SENT);
        leg = NULL;
        tag = 0;
        say_too_much(merge, hx_buf_span(&request->raw_id), line);
    }
    if (merge->is_gone) {
        if (leg != NULL)
            leg_tell_fate(leg, tag, HX_PEER_NOT_SENT);
    } else if (request->batch != NULL) {
        add_to_batch(merge, request->batch, &request->id_key, line, leg, tag);
    } else {
        send(merge, line,
             &(struct hx_sending){.tag = outer_tag(leg, tag), .exchange = request->exchange});
    }
    hx_buf_fini(line);
    request_free(request);
}

void reply_error(struct request *request, int64_t code, struct hx_span text, struct hx_span data)
{
    struct hx_buf line;

    hx_buf_init(&line, request->merge->options.message_max_bytes);
    if (hx_rewrite_build_error(&line, hx_buf_span(&request->raw_id),
                               request->merge->era->may_omit_error_id, code, text, data) < 0)
        hx_buf_reset(&line); /* reply_line says so in fewer words */
    reply_line(request, &line, NULL, 0);
}

void reply_result(struct request *request, struct hx_span result)
{
    struct hx_buf line;

    hx_buf_init(&line, request->merge->options.message_max_bytes + HX_RPC_ID_MAX);
    if (hx_rewrite_build_result(&line, hx_buf_span(&request->raw_id), result) < 0)
        hx_buf_reset(&line);
    reply_line(request, &line, NULL, 0);
}

void reply_unknown(struct request *request, struct hx_span text)
{
    static const struct hx_span envelope =
        HX_SPAN_INIT("{\"code\":\"OUTCOME_UNKNOWN\",\"replayed\":false,\"joined\":false,"
                     "\"new_key_allowed\":false}");
    struct hx_buf result;

    hx_buf_init(&result, 4096);
    if (request->has_param_key) {
        (void)hx_buf_printf(
            &result,
            "{\"code\":\"OUTCOME_UNKNOWN\",\"type\":\"idempotency_outcome_unknown\","
            "\"retry_safe\":true,\"dev.hapax/operation\":%.*s}",
            HX_SPAN_FMT(envelope));
        reply_error(request, HX_RPC_INTERNAL_ERROR, text, hx_buf_span(&result));
    } else {
        (void)hx_buf_append_cstr(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
        hx_json_text_quote(&result, text);
        (void)hx_buf_printf(&result,
                            "}],\"isError\":true,\"_meta\":{\"dev.hapax/operation\":%.*s}}",
                            HX_SPAN_FMT(envelope));
        reply_result(request, hx_buf_span(&result));
    }
    hx_buf_fini(&result);
}

static void send_fault(struct merge *merge, struct hx_buf *line)
{
    if (line->len > 0)
        send(merge, line,
             &(struct hx_sending){.exchange = merge->taking, .kind = HX_SENDING_FAULT});
    hx_buf_fini(line);
    merge->taking = 0;
}

static void write_fault(struct merge *merge, struct hx_buf *line, struct hx_span id, int64_t code,
                        const char *text)
{
    hx_buf_init(line, merge->options.message_max_bytes);
    if (hx_rewrite_build_error(line, id, merge->era->may_omit_error_id, code, hx_span_cstr(text),
                               HX_SPAN_NONE) < 0)
        hx_buf_reset(line);
}

void reply_fault(struct merge *merge, struct hx_span id, int64_t code, const char *text)
{
    struct hx_buf line;

    write_fault(merge, &line, id, code, text);
    send_fault(merge, &line);
}

void reply_invalid(struct merge *merge, struct batch *batch, const struct hx_rpc_msg *msg)
{
    bool has_detail = msg->fault == HX_RPC_PARSE_ERROR && msg->fault_detail != NULL;
    bool has_id = msg->id.type == HX_RPC_ID_INTEGER || msg->id.type == HX_RPC_ID_STRING;
    struct hx_buf line;
    char text[512];

    snprintf(text, sizeof(text), "%s%s%s", hx_rpc_fault_text(msg->fault), has_detail ? ": " : "",
             has_detail ? msg->fault_detail : "");
    write_fault(merge, &line, has_id ? msg->id.raw : HX_SPAN_NONE, hx_rpc_fault_code(msg->fault),
                text);
    if (batch == NULL)
        send_fault(merge, &line);
    else if (line.len > 0)
        add_to_batch(merge, batch, NULL, &line, NULL, 0);
    hx_buf_fini(&line);
}

void reply_unread(struct merge *merge, struct batch *batch, struct hx_span id)
{
    struct hx_buf line;

    write_fault(merge, &line, id, HX_RPC_INTERNAL_ERROR,
                "There is no memory for this message; nothing was sent.");
    if (batch == NULL)
        send_fault(merge, &line);
    else
        add_to_batch(merge, batch, NULL, &line, NULL, 0);
    hx_buf_fini(&line);
}
