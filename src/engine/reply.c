/* SPDX-License-Identifier: MIT */
/*
 * Lines to the client: single answers, elements of a batch, errors in our own name.
 */
#include "engine/internal.h"

#include <stdio.h>

/* A line that could not be written whole is none: the client must not read half of one. */
static bool is_whole(struct hx_gateway *gateway, const struct hx_buf *line)
{
    if (hx_buf_ok(line) && line->len > 0)
        return true;
    hx_tell(gateway, HX_TELL_ERROR, "answer_dropped", "reason=memory");
    return false;
}

void hx_send_client(struct hx_gateway *gateway, struct hx_buf *line, uint64_t tag)
{
    struct hx_downstream *client = gateway->ports.downstream;
    if (gateway->is_client_gone || !is_whole(gateway, line)) {
        hx_buf_fini(line);
        hx_delivery_fate(gateway, tag, HX_PEER_NOT_SENT);
        return;
    }
    client->ops->send(client, line, &(struct hx_sending){.tag = tag});
    hx_buf_fini(line);
}

static void answer_free(struct hx_gateway *gateway, struct hx_batch_answer *answer)
{
    if (answer->note != NULL)
        answer->note->batch_answer = NULL;
    hx_list_unlink(&answer->node);
    hx_map_remove(&gateway->batch_answers, &answer->by_id);
    hx_buf_fini(&answer->id_key);
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
static void send_batch(struct hx_gateway *gateway, struct hx_batch *batch)
{
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
    hx_send_client(gateway, &line, tag);
}

void hx_batch_release(struct hx_gateway *gateway, struct hx_batch *batch)
{
    if (batch->open_count > 0 || !batch->is_complete)
        return;
    if (!hx_list_is_empty(&batch->answers))
        send_batch(gateway, batch);
    hx_list_for_each_safe (node, &batch->answers)
        answer_free(gateway, hx_container_of(node, struct hx_batch_answer, node));
    hx_free(batch);
}

/* `request` is NULL for what is no request. */
static void add_to_batch(struct hx_gateway *gateway, struct hx_batch *batch,
                         const struct hx_request *request, struct hx_buf *line,
                         struct hx_delivery_note *note)
{
    if (!is_whole(gateway, line)) {
        hx_buf_fini(line);
        if (note != NULL)
            hx_delivery_take_back(gateway, note);
        return;
    }
    struct hx_batch_answer *answer = hx_new(struct hx_batch_answer);
    answer->line = *line;
    hx_buf_init(line, line->len_max);
    hx_buf_init(&answer->id_key, HX_RPC_ID_MAX + 16);
    answer->note = note;
    if (note != NULL)
        note->batch_answer = answer;
    hx_list_append(&batch->answers, &answer->node);
    if (request == NULL)
        return;
    (void)hx_buf_append_span(&answer->id_key, hx_buf_span(&request->id_key));
    hx_map_insert(&gateway->batch_answers, &answer->by_id, hx_buf_span(&answer->id_key));
}

bool hx_batch_withdraw(struct hx_gateway *gateway, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&gateway->batch_answers, hx_buf_span(&key));
    hx_buf_fini(&key);
    if (node != NULL)
        answer_free(gateway, hx_container_of(node, struct hx_batch_answer, by_id));
    return node != NULL;
}

void hx_reply_line(struct hx_gateway *gateway, struct hx_request *request, struct hx_buf *line,
                   struct hx_delivery_note *note)
{
    if (request->batch != NULL)
        add_to_batch(gateway, request->batch, request, line, note);
    else
        hx_send_client(gateway, line, note ? note->tag : gateway->next_tag++);
    hx_request_free(gateway, request);
}

void hx_reply_error(struct hx_gateway *gateway, struct hx_request *request, int64_t code,
                    struct hx_span message, struct hx_span data)
{
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    if (hx_rewrite_build_error(&line, request->raw_id, gateway->era->may_omit_error_id, code,
                               message, data) < 0)
        hx_buf_reset(&line); /* an empty line is not sent */
    hx_reply_line(gateway, request, &line, NULL);
}

void hx_reply_invalid(struct hx_gateway *gateway, struct hx_batch *batch,
                      const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    char text[512];
    bool has_detail = msg->fault == HX_RPC_PARSE_ERROR && msg->fault_detail != NULL;
    snprintf(text, sizeof(text), "%s%s%s", hx_rpc_fault_text(msg->fault), has_detail ? ": " : "",
             has_detail ? msg->fault_detail : "");
    struct hx_span id = msg->id.type == HX_RPC_ID_INTEGER || msg->id.type == HX_RPC_ID_STRING
                            ? msg->id.raw
                            : HX_SPAN_NONE;
    if (hx_rewrite_build_error(&line, id, gateway->era->may_omit_error_id,
                               hx_rpc_fault_code(msg->fault), hx_span_cstr(text), HX_SPAN_NONE) < 0)
        hx_buf_reset(&line);
    if (batch != NULL)
        add_to_batch(gateway, batch, NULL, &line, NULL);
    else
        hx_send_client(gateway, &line, gateway->next_tag++);
}
