/* SPDX-License-Identifier: MIT */
/*
 * Requests of ours to the client: what the server wants to ask it (sampling, elicitation, roots).
 * Our own questions to a person are in ask_person.c.
 */
#include "engine/internal.h"

#include <stdio.h>

static const char no_client[] = "The client that made this call is gone.";
static const char too_many_asks[] =
    "Too many requests of this server wait for the client's answer. Ask again later.";
static const char cannot_be_passed[] = "This request cannot be passed to the client: it is longer "
                                       "than the limit for one message, or there is no memory.";
static const char no_way[] =
    "The client that made this call cannot be asked: it has no stream open "
    "on which a request could reach it.";
static const char answer_is_lost[] =
    "The client has answered, and there is no memory to pass that on.";

struct hx_ask *hx_ask_new(struct hx_session *session, enum hx_ask_kind kind)
{
    struct hx_ask *ask = hx_new(struct hx_ask);
    ask->session = session;
    ask->kind = kind;
    snprintf(ask->id_text, sizeof(ask->id_text), "\"hx-%s-%llu\"", session->ask_secret,
             (unsigned long long)session->next_ask++);
    hx_buf_init(&ask->id_key, HX_RPC_ID_MAX + 16);
    hx_buf_init(&ask->raw_id, HX_RPC_ID_MAX + 16);
    struct hx_rpc_id id = hx_rpc_id_parse(hx_span_cstr(ask->id_text));
    hx_rpc_id_key(&id, &ask->id_key);
    hx_list_append(&session->asks, &ask->node);
    hx_map_insert(&session->asks_by_id, &ask->by_id, hx_buf_span(&ask->id_key));
    return ask;
}

void hx_ask_withdraw(struct hx_ask *ask)
{
    struct hx_session *session = ask->session;
    if (ask->kind == HX_ASK_SERVER)
        ask->link->server_asks--;
    if (ask->work != NULL)
        ask->work->ask = NULL;
    if (ask->call != NULL)
        ask->call->ask = NULL;
    hx_list_unlink(&ask->node);
    hx_map_remove(&session->asks_by_id, &ask->by_id);
    hx_buf_fini(&ask->id_key);
    hx_buf_fini(&ask->raw_id);
    hx_free(ask);
}

struct hx_ask *hx_ask_find(struct hx_session *session, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&session->asks_by_id, hx_buf_span(&key));
    hx_buf_fini(&key);
    return node ? hx_container_of(node, struct hx_ask, by_id) : NULL;
}

struct hx_ask *hx_ask_find_server(struct hx_link *link, const struct hx_rpc_id *server_id)
{
    hx_list_for_each (at, &link->gateway->sessions) {
        struct hx_session *session = hx_container_of(at, struct hx_session, node);
        hx_list_for_each (node, &session->asks) {
            struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
            struct hx_rpc_id id = hx_rpc_id_parse(hx_buf_span(&ask->raw_id));
            if (ask->kind == HX_ASK_SERVER && ask->link == link && hx_rpc_id_eq(&id, server_id))
                return ask;
        }
    }
    return NULL;
}

void hx_link_refuse_server(struct hx_link *link, struct hx_span raw_id, const char *reason)
{
    struct hx_buf line;
    hx_buf_init(&line, link->gateway->options.message_max);
    if (hx_rewrite_build_error(&line, raw_id, false, HX_RPC_INTERNAL_ERROR, hx_span_cstr(reason),
                               HX_SPAN_NONE) == 0)
        hx_link_send(link, &line, 0);
    hx_buf_fini(&line);
}

/* The process that asked is the one that is there. */
static bool is_asker_there(const struct hx_ask *ask)
{
    return ask->kind == HX_ASK_SERVER && ask->generation == ask->link->generation;
}

void hx_ask_refuse(struct hx_ask *ask, const char *reason)
{
    if (is_asker_there(ask))
        hx_link_refuse_server(ask->link, hx_buf_span(&ask->raw_id), reason);
    hx_ask_withdraw(ask);
}

void hx_ask_for_server(struct hx_link *link, const struct hx_rpc_msg *msg)
{
    enum { ASKS_MAX = 1024 };
    const struct hx_request *about = hx_link_about(link);
    struct hx_session *session = about != NULL ? about->session : hx_link_session(link);
    struct hx_buf line;
    bool is_gone = session == NULL || session->is_gone;
    if (is_gone || session->asks_by_id.count >= ASKS_MAX) {
        hx_link_refuse_server(link, msg->id.raw, is_gone ? no_client : too_many_asks);
        return;
    }
    struct hx_ask *ask = hx_ask_new(session, HX_ASK_SERVER);
    link->server_asks++;
    ask->link = link;
    ask->generation = link->generation;
    int rc = hx_buf_append_span(&ask->raw_id, msg->id.raw);
    hx_buf_init(&line, link->gateway->options.message_max + 64);
    if (rc == 0)
        rc = hx_rewrite_id(msg, hx_span_cstr(ask->id_text), &line);
    if (rc != 0 || !hx_send_ask(ask, &line, about != NULL ? about->exchange : 0)) {
        hx_link_refuse_server(link, msg->id.raw, cannot_be_passed);
        hx_ask_withdraw(ask);
    }
    hx_buf_fini(&line);
}

bool hx_ask_unsent(struct hx_session *session, uint64_t tag)
{
    static const struct hx_rpc_msg no_answer = {.kind = HX_RPC_ERROR};
    hx_list_for_each_safe (node, &session->asks) {
        struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
        if (ask->tag != tag)
            continue;
        if (ask->kind == HX_ASK_SERVER)
            hx_ask_refuse(ask, no_way);
        else
            hx_person_answered(ask, &no_answer);
        return true;
    }
    return false;
}

/* Who was asked about it has left. The question may be all that kept it in memory, or others wait
 * for what was to be answered. */
static void ask_others(struct hx_work *work)
{
    enum hx_op_state state = work->op.durable.state;
    bool is_open = work->op.phase == HX_PHASE_IDLE &&
                   (state == HX_OP_UNKNOWN || state == HX_OP_AWAITING_APPROVAL);
    hx_work_look_again_later(work);
    if (is_open && !hx_list_is_empty(&work->calls) && !work->gateway->is_draining)
        hx_work_ask_person(work);
}

void hx_asks_of_client_gone(struct hx_session *session)
{
    hx_list_for_each_safe (node, &session->asks) {
        struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
        struct hx_work *work = ask->work;
        struct hx_call *call = ask->call;
        if (is_asker_there(ask) && ask->link->state == HX_LINK_READY)
            hx_link_refuse_server(ask->link, hx_buf_span(&ask->raw_id), no_client);
        hx_ask_withdraw(ask);
        if (work != NULL)
            ask_others(work);
        if (call != NULL)
            hx_intake_is_not_meant(call);
    }
}

void hx_asks_of_server_gone(struct hx_link *link)
{
    hx_list_for_each (at, &link->gateway->sessions) {
        struct hx_session *session = hx_container_of(at, struct hx_session, node);
        hx_list_for_each_safe (node, &session->asks) {
            struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
            if (ask->kind == HX_ASK_SERVER && ask->link == link)
                hx_ask_withdraw(ask);
        }
    }
}

static void answer_server(struct hx_ask *ask, const struct hx_rpc_msg *msg)
{
    struct hx_link *link = ask->link;
    struct hx_buf line;
    bool is_there =
        is_asker_there(ask) && (link->state == HX_LINK_READY || link->state == HX_LINK_GREETING);
    hx_buf_init(&line, link->gateway->options.message_max + HX_RPC_ID_MAX);
    if (is_there && hx_rewrite_id(msg, hx_buf_span(&ask->raw_id), &line) == 0)
        hx_link_send(link, &line, 0);
    else if (is_there)
        hx_link_refuse_server(link, hx_buf_span(&ask->raw_id), answer_is_lost);
    hx_buf_fini(&line);
    hx_ask_withdraw(ask);
}

void hx_ask_answered(struct hx_ask *ask, const struct hx_rpc_msg *msg)
{
    if (ask->kind == HX_ASK_SERVER)
        answer_server(ask, msg);
    else
        hx_person_answered(ask, msg);
}
