/* SPDX-License-Identifier: MIT */
/*
 * A request of the client from its coming to its answer.
 */
#include "engine/internal.h"

/* A read-only call took too long. Nothing can have changed, so this is a plain error. */
static void on_limit(struct hx_timer *timer)
{
    struct hx_request *request = hx_container_of(timer, struct hx_request, limit);
    hx_reply_no_answer(
        request,
        "The tool did not answer within its timeout. It only reads, so it may be called again.");
}

/* The message's bytes stay where they are: the buffer changes hands, so slices of it stay good. */
struct hx_request *hx_request_new(struct hx_session *session, enum hx_request_kind kind,
                                  const struct hx_rpc_msg *msg, struct hx_buf *line,
                                  struct hx_batch *batch)
{
    struct hx_request *request = hx_new(struct hx_request);
    request->kind = kind;
    request->message = *line;
    hx_buf_init(line, line->len_max);
    request->raw_id = msg->id.raw;
    request->is_harmless = hx_mcp_is_harmless(hx_mcp_method_parse(msg->method), msg->method);
    request->batch = batch;
    if (batch != NULL)
        batch->open_count++;
    request->session = session;
    request->exchange = batch != NULL ? batch->exchange : session->taking;
    session->taking = 0;
    request->limit.fire = on_limit;
    hx_list_init(&request->wait_node);
    hx_buf_init(&request->kept_line, session->gateway->options.message_max + (size_t)64 * 1024);
    hx_buf_init(&request->id_key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(&msg->id, &request->id_key);
    hx_list_append(&session->requests, &request->node);
    hx_map_insert(&session->requests_by_id, &request->by_id, hx_buf_span(&request->id_key));
    session->request_count++;
    session->request_bytes += request->message.len;
    return request;
}

void hx_request_free(struct hx_request *request)
{
    struct hx_session *session = request->session;
    hx_assert(request->call == NULL);
    hx_timer_disarm(&session->gateway->timers, &request->limit);
    hx_list_unlink(&request->node);
    hx_list_unlink(&request->wait_node);
    hx_map_remove(&session->requests_by_id, &request->by_id);
    session->request_count--;
    session->request_bytes -= request->message.len;
    if (request->route != NULL) {
        /* A late answer finds a route without a request, and is dropped. */
        request->route->request = NULL;
        hx_route_quiet(request->route);
    }
    struct hx_batch *batch = request->batch;
    hx_buf_fini(&request->message);
    hx_buf_fini(&request->id_key);
    hx_buf_fini(&request->kept_line);
    hx_store_forget_request(request);
    request->found = hx_store_request_free(request->found);
    hx_listing_free(request->listing);
    if (request->verb != NULL)
        hx_verb_forget(request->verb);
    hx_free(request);
    hx_link_stir(session->link);
    if (batch != NULL) {
        batch->open_count--;
        hx_batch_release(session, batch);
    }
}

void hx_request_leave(struct hx_request *request)
{
    struct hx_call *call = request->call;
    if (call != NULL) {
        request->call = NULL;
        call->request = NULL;
        hx_call_forget(call);
    }
    hx_request_free(request);
}

struct hx_request *hx_request_find(struct hx_session *session, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&session->requests_by_id, hx_buf_span(&key));
    hx_buf_fini(&key);
    return node ? hx_container_of(node, struct hx_request, by_id) : NULL;
}

struct hx_request *hx_request_find_next(const struct hx_request *request)
{
    struct hx_map_node *node = hx_map_find_next(&request->by_id);
    return node ? hx_container_of(node, struct hx_request, by_id) : NULL;
}
