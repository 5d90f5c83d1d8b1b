/* SPDX-License-Identifier: MIT */
/*
 * Lines to the client: single answers, elements of a batch, errors in our own name.
 */
#include "engine/internal.h"

#include <stdio.h>

void hx_send_client(struct hx_gateway *gateway, struct hx_buf *line, uint64_t tag)
{
    struct hx_downstream *client = gateway->ports.downstream;
    if (gateway->is_client_gone) {
        hx_buf_fini(line);
        hx_delivery_fate(gateway, tag, HX_PEER_NOT_SENT);
        return;
    }
    client->ops->send(client, line, tag);
    hx_buf_fini(line);
}

/* A batch leaves as one array under one tag; the fate of each answer in it is the array's. */
static void send_batch(struct hx_gateway *gateway, struct hx_batch *batch)
{
    (void)hx_buf_append_char(&batch->answers, ']');
    uint64_t tag = gateway->next_tag++;
    hx_list_for_each_safe (node, &batch->deliveries) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        hx_list_unlink(node);
        hx_list_append(&gateway->deliveries, &note->node);
        hx_map_remove(&gateway->deliveries_by_tag, &note->by_tag);
        note->tag = tag;
        memcpy(note->tag_key, &tag, sizeof(note->tag_key));
        hx_map_insert(&gateway->deliveries_by_tag, &note->by_tag,
                      hx_span(note->tag_key, sizeof(note->tag_key)));
    }
    hx_send_client(gateway, &batch->answers, tag);
}

void hx_batch_release(struct hx_gateway *gateway, struct hx_batch *batch)
{
    if (batch->open_count > 0 || !batch->is_complete)
        return;
    if (batch->answers.len > 0 && hx_buf_ok(&batch->answers))
        send_batch(gateway, batch);
    hx_buf_fini(&batch->answers);
    hx_free(batch);
}

static void add_to_batch(struct hx_batch *batch, struct hx_buf *line, struct hx_delivery_note *note)
{
    (void)hx_buf_append_char(&batch->answers, batch->answers.len == 0 ? '[' : ',');
    (void)hx_buf_append_span(&batch->answers, hx_buf_span(line));
    hx_buf_fini(line);
    if (note != NULL) {
        hx_list_unlink(&note->node);
        hx_list_append(&batch->deliveries, &note->node);
    }
}

void hx_reply_line(struct hx_gateway *gateway, struct hx_request *request, struct hx_buf *line,
                   struct hx_delivery_note *note)
{
    if (request->batch != NULL)
        add_to_batch(request->batch, line, note);
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
        hx_tell(gateway, HX_TELL_ERROR, "answer_dropped", "reason=memory");
    hx_reply_line(gateway, request, &line, NULL);
}

void hx_reply_invalid(struct hx_gateway *gateway, struct hx_batch *batch,
                      const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    char text[512];
    snprintf(text, sizeof(text), "%s%s%s", hx_rpc_fault_text(msg->fault),
             msg->fault_detail ? " " : "", msg->fault_detail ? msg->fault_detail : "");
    struct hx_span id = msg->id.type == HX_RPC_ID_INTEGER || msg->id.type == HX_RPC_ID_STRING
                            ? msg->id.raw
                            : HX_SPAN_NONE;
    if (hx_rewrite_build_error(&line, id, gateway->era->may_omit_error_id,
                               hx_rpc_fault_code(msg->fault), hx_span_cstr(text), HX_SPAN_NONE) < 0)
        hx_tell(gateway, HX_TELL_ERROR, "answer_dropped", "reason=memory");
    if (batch != NULL)
        add_to_batch(batch, &line, NULL);
    else
        hx_send_client(gateway, &line, gateway->next_tag++);
}
