/* SPDX-License-Identifier: MIT */
/*
 * Requests of ours to the client: what the server wants to ask it (sampling, elicitation, roots),
 * and our own question to a person about an outcome that is unknown.
 */
#include "engine/internal.h"

#include <stdio.h>

static const char no_client[] = "The client that made this call is gone.";
static const char too_many_asks[] =
    "Too many requests of this server wait for the client's answer. Ask again later.";
static const char cannot_be_passed[] = "This request cannot be passed to the client: it is longer "
                                       "than the limit for one message.";

static struct hx_ask *new_ask(struct hx_session *session, enum hx_ask_kind kind)
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

/* Nobody is left to answer the server: it is told so at once, so that it can finish its work. */
static void refuse_server(struct hx_link *link, struct hx_span raw_id, const char *reason)
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
        refuse_server(ask->link, hx_buf_span(&ask->raw_id), reason);
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
        refuse_server(link, msg->id.raw, is_gone ? no_client : too_many_asks);
        return;
    }
    struct hx_ask *ask = new_ask(session, HX_ASK_SERVER);
    link->server_asks++;
    ask->link = link;
    ask->generation = link->generation;
    (void)hx_buf_append_span(&ask->raw_id, msg->id.raw);
    hx_buf_init(&line, link->gateway->options.message_max + 64);
    if (hx_rewrite_id(msg, hx_span_cstr(ask->id_text), &line) == 0) {
        hx_send_aside(session, &line, about != NULL ? about->exchange : 0);
    } else {
        refuse_server(link, msg->id.raw, cannot_be_passed);
        hx_ask_withdraw(ask);
    }
    hx_buf_fini(&line);
}

/* Who was asked about it has left. The question may be all that kept it in memory, or others wait
 * for what was to be answered. */
static void ask_others(struct hx_work *work)
{
    bool is_open = work->op.phase == HX_PHASE_IDLE && work->op.durable.state == HX_OP_UNKNOWN;
    hx_work_look_again_later(work);
    if (is_open && !hx_list_is_empty(&work->calls) && !work->gateway->is_draining)
        hx_work_ask_person(work);
}

void hx_asks_of_client_gone(struct hx_session *session)
{
    hx_list_for_each_safe (node, &session->asks) {
        struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
        struct hx_work *work = ask->work;
        if (is_asker_there(ask) && ask->link->state == HX_LINK_READY)
            refuse_server(ask->link, hx_buf_span(&ask->raw_id), no_client);
        hx_ask_withdraw(ask);
        if (work != NULL)
            ask_others(work);
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

static void write_question(struct hx_buf *line, const struct hx_ask *ask,
                           const struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    struct hx_buf text;
    char id[HX_ID_TEXT_SIZE], when[HX_TIME_TEXT_SIZE];
    hx_id_format(&record->id, id);
    hx_wall_format(record->attempt.marked_at.wall, when);
    hx_buf_init(&text, 8192);
    (void)hx_buf_printf(
        &text,
        "The call of the tool \"%.*s\" was sent at %s and no answer came back, so it "
        "may or may not have happened (operation %s). What do you know?",
        HX_SPAN_FMT(record->tool), when, id);
    struct hx_json_writer writer;
    hx_json_writer_init(&writer, line);
    (void)hx_buf_append_cstr(line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_cstr(line, ask->id_text);
    (void)hx_buf_append_cstr(line, ",\"method\":\"elicitation/create\",\"params\":{\"message\":");
    hx_json_put_string(&writer, hx_buf_span(&text));
    (void)hx_buf_append_cstr(
        line, ",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":"
              "\"string\",\"title\":\"What happened\",\"enum\":[\"happened\",\"again\",\"leave\"],"
              "\"enumNames\":[\"It happened\",\"It did not happen: do it again\","
              "\"Leave it open\"]}},\"required\":[\"decision\"]}}}");
    hx_buf_fini(&text);
}

static bool can_ask(const struct hx_session *session)
{
    return session->has_client && session->client.can_elicit_form && !session->is_gone &&
           session->era->has_elicitation;
}

/* The first of those who wait whose client can ask a person; NULL = none can. */
static struct hx_call *find_asker(struct hx_work *work)
{
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (can_ask(call->session))
            return call;
    }
    return NULL;
}

bool hx_ask_outcome(struct hx_work *work)
{
    const int64_t answer_wait_ms = 15 * 60 * 1000;
    struct hx_gateway *gateway = work->gateway;
    struct hx_call *asker = work->was_asked ? NULL : find_asker(work);
    if (work->ask == NULL && asker == NULL)
        return false;
    /* A person may be away for long, and may answer even then. His client's call ends before. */
    hx_list_for_each (node, &work->calls)
        hx_timer_arm_sooner(&gateway->timers, &hx_container_of(node, struct hx_call, node)->wait,
                            hx_mono_after(gateway->now.mono, answer_wait_ms));
    if (work->ask != NULL)
        return true;
    struct hx_ask *ask = new_ask(asker->session, HX_ASK_OUTCOME);
    ask->work = work;
    ask->seen_attempt = work->op.durable.attempt.number;
    work->ask = ask;
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    write_question(&line, ask, work);
    hx_send_aside(asker->session, &line, asker->request->exchange);
    return true;
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
    hx_buf_fini(&line);
    hx_ask_withdraw(ask);
}

/* The word in result.content.decision of an accepted form; absent for everything else. */
static struct hx_span decision_of(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_json_tape *tape = &gateway->scratch;
    struct hx_span decision;
    if (msg->kind != HX_RPC_RESULT || hx_json_read(tape, msg->result, &gateway->part_limits) != 0)
        return HX_SPAN_NONE;
    uint32_t action = hx_json_member(tape, 0, HX_SPAN_LIT("action"));
    uint32_t content = hx_json_member(tape, 0, HX_SPAN_LIT("content"));
    uint32_t value = hx_json_member(tape, content, HX_SPAN_LIT("decision"));
    if (action == HX_JSON_NONE || !hx_json_is_text(tape, action, HX_SPAN_LIT("accept")) ||
        !hx_json_is(tape, value, HX_JSON_STRING) ||
        hx_json_string(tape, value, &gateway->arena, &decision) != 0)
        return HX_SPAN_NONE;
    return decision;
}

static void decide_happened(struct hx_work *work)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_RESOLVE_HAPPENED);
    event.outcome = hx_outcome_confirmed(work->gateway);
    hx_work_step(work, &event, NULL);
}

static void note_decision(struct hx_work *work, struct hx_span decision)
{
    struct hx_buf note;
    char when[HX_TIME_TEXT_SIZE];
    hx_wall_format(work->gateway->now.wall, when);
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    (void)hx_buf_printf(&note,
                        "{\"at\":\"%s\",\"what\":\"decision\",\"who\":\"caller, by elicitation\","
                        "\"decision\":\"%.*s\"}",
                        when, HX_SPAN_FMT(decision));
    if (hx_buf_ok(&note))
        hx_store_note(work->gateway, &work->op.durable.id, hx_buf_span(&note));
    hx_buf_fini(&note);
}

void hx_ask_answered(struct hx_ask *ask, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = ask->session->gateway;
    struct hx_work *work = ask->work;
    if (ask->kind == HX_ASK_SERVER) {
        answer_server(ask, msg);
        return;
    }
    struct hx_span decision = decision_of(gateway, msg);
    uint32_t seen_attempt = ask->seen_attempt;
    hx_ask_withdraw(ask);
    if (work == NULL)
        return;
    work->was_asked = true;
    if (hx_span_eq_cstr(decision, "happened")) {
        note_decision(work, decision);
        decide_happened(work);
    } else if (hx_span_eq_cstr(decision, "again")) {
        note_decision(work, decision);
        struct hx_event event = hx_work_make_event(work, HX_EV_RESOLVE_AGAIN);
        event.seen_attempt = seen_attempt;
        hx_work_step(work, &event, NULL);
    } else {
        hx_work_look_again_later(work); /* the question may be all that kept it in memory */
        /* Left open: whoever waits is told that it is unknown. */
        hx_list_for_each_safe (node, &work->calls) {
            struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
            hx_work_step(work, &event, hx_container_of(node, struct hx_call, node));
        }
    }
}
