/* SPDX-License-Identifier: MIT */
/*
 * What the ledger keeps of sessions over HTTP, so that a restart loses none: that they exist, which
 * operation answers on which stream. The rules about operations are not touched by any of it.
 */
#include "engine/internal.h"

static bool is_kept_at_all(const struct hx_session *session)
{
    static const struct hx_digest none;
    return !hx_digest_eq(&session->options.key, &none);
}

/* ---- sessions ---- */

/* The id goes to the client with this answer, so the session must stand in the ledger first. */
void hx_session_keep(struct hx_request *request, struct hx_buf *line)
{
    struct hx_session *session = request->session;
    struct hx_gateway *gateway = session->gateway;
    if (!is_kept_at_all(session)) {
        hx_reply_line(request, line, NULL);
        return;
    }
    struct hx_store_request *put = hx_store_make(gateway, HX_STORE_SESSION_PUT);
    struct hx_span initialize = hx_arena_dup(&put->arena, hx_buf_span(&request->message));
    if (hx_span_is_absent(initialize)) {
        /* Without its client's words no later process could go on with it. */
        hx_store_drop(put);
        hx_tell(gateway, HX_TELL_WARN, "session_not_kept", "error=\"no memory\"");
        hx_reply_line(request, line, NULL);
        return;
    }
    put->session = (struct hx_store_session){
        .key = session->options.key,
        .tenant = session->options.tenant,
        .principal = session->options.principal,
        .endpoint = session->options.endpoint,
        .revision = session->era->name,
        .initialize = initialize,
        .created = gateway->now.wall,
        .last_seen = gateway->now.wall,
    };
    hx_buf_fini(&request->kept_line);
    request->kept_line = *line;
    hx_buf_init(line, line->len_max);
    hx_store_submit_kept(session, request->exchange, put);
}

/* A session that could not be kept is one all the same: a restart will lose it, and its client
 * begins anew then. */
static void session_put(struct hx_session *session, const struct hx_store_request *done)
{
    session->is_kept = done->result == HX_STORE_DONE;
    session->touched = session->gateway->now.wall;
    if (!session->is_kept)
        hx_tell(session->gateway, HX_TELL_WARN, "session_not_kept", "error=\"%s\"", done->error);
    hx_list_for_each_safe (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        if (request->kept_line.len == 0)
            continue;
        struct hx_buf line = request->kept_line;
        hx_buf_init(&request->kept_line, line.len_max);
        hx_reply_line(request, &line, NULL);
    }
}

void hx_session_touch(struct hx_session *session)
{
    const int64_t every_ms = 10 * 60 * 1000;
    struct hx_gateway *gateway = session->gateway;
    if (!session->is_kept || gateway->now.wall.ms - session->touched.ms < every_ms)
        return;
    session->touched = gateway->now.wall;
    struct hx_store_request *touch = hx_store_make(gateway, HX_STORE_SESSION_TOUCH);
    touch->session.key = session->options.key;
    touch->session.last_seen = gateway->now.wall;
    hx_store_submit_quiet(gateway, touch);
}

void hx_session_forget_kept(struct hx_session *session)
{
    session->is_ended = !session->is_kept;
    if (session->is_ended)
        return;
    session->is_kept = false;
    session->is_ending = true;
    struct hx_store_request *end = hx_store_make(session->gateway, HX_STORE_SESSION_END);
    end->session.key = session->options.key;
    hx_store_submit_end(session, end);
}

void hx_session_forgotten(struct hx_session *session, struct hx_store_request *done)
{
    session->is_ending = false;
    session->is_ended = done->result != HX_STORE_NOT_DONE;
    if (!session->is_ended)
        hx_tell(session->gateway, HX_TELL_WARN, "session_not_ended", "error=\"%s\"", done->error);
    hx_store_request_free(done);
}

void hx_gateway_find_session(struct hx_gateway *gateway, const struct hx_digest *key,
                             hx_session_found *found, void *context, uint64_t ticket)
{
    struct hx_store_request *get = hx_store_make(gateway, HX_STORE_SESSION_GET);
    get->session.key = *key;
    hx_store_submit_find_session(gateway, get, found, context, ticket);
}

/* ---- streams ---- */

void hx_intake_name_stream(struct hx_call *call)
{
    const int64_t slow_ms = 200;
    struct hx_gateway *gateway = call->gateway;
    struct hx_downstream *client = call->session->options.downstream;
    call->stream = HX_SPAN_NONE;
    if (call->request->exchange == 0 || call->request->batch != NULL || !call->session->is_kept)
        return;
    struct hx_span name = client->ops->stream_name(client, call->request->exchange);
    if (hx_span_is_absent(name))
        return;
    call->stream = hx_arena_dup(&call->arena, name);
    hx_timer_arm(&gateway->timers, &call->slow, hx_mono_after(gateway->now.mono, slow_ms));
}

void hx_stream_keep(struct hx_call *call)
{
    const struct hx_work *work = call->work;
    if (hx_span_is_absent(call->stream) || work == NULL || !call->session->is_kept)
        return;
    struct hx_store_request *put = hx_store_make(call->gateway, HX_STORE_STREAM_PUT);
    put->stream = (struct hx_store_stream){
        .session = call->session->options.key,
        .name = hx_arena_dup(&put->arena, call->stream),
        .request_id = hx_arena_dup(&put->arena, call->request->raw_id),
        .op = work->op.durable.id,
    };
    hx_store_submit_kept(call->session, call->request->exchange, put);
}

static void no_stream(struct hx_session *session, uint64_t exchange)
{
    struct hx_downstream *client = session->options.downstream;
    client->ops->settle(client, exchange, HX_SETTLING_NO_STREAM);
}

void hx_stream_resume(struct hx_session *session, uint64_t exchange, struct hx_span name)
{
    if (!session->is_kept || name.len > HX_STORE_STREAM_NAME_MAX) {
        no_stream(session, exchange);
        return;
    }
    struct hx_store_request *get = hx_store_make(session->gateway, HX_STORE_STREAM_GET);
    get->stream.session = session->options.key;
    get->stream.name = hx_arena_dup(&get->arena, name);
    session->resumes_open++;
    hx_store_submit_kept(session, exchange, get);
}

/* Whose request it is only the ledger knows; a cancel that comes before it has said so would find
 * nobody, and the client would be sent what it does not want any more. */
void hx_stream_cancelled(struct hx_session *session, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    if (session->resumes_open == 0)
        return;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    size_t len = key.len;
    /* Both or nothing: a length without its text would be read past the end. */
    if (session->early.len + sizeof(len) + len <= session->early.len_max &&
        hx_buf_reserve(&session->early, sizeof(len) + len) == 0) {
        (void)hx_buf_append(&session->early, &len, sizeof(len));
        (void)hx_buf_append_span(&session->early, hx_buf_span(&key));
    }
    hx_buf_fini(&key);
}

/* It would come back for the answer under an id that it took back: to be answered there is nothing
 * that it reads, and would count as delivered. */
void hx_stream_give_up(struct hx_session *session, struct hx_span raw_id)
{
    if (!session->is_kept)
        return;
    struct hx_store_request *end = hx_store_make(session->gateway, HX_STORE_STREAM_END);
    end->stream.session = session->options.key;
    end->stream.request_id = hx_arena_dup(&end->arena, raw_id);
    hx_store_submit_kept(session, 0, end);
}

/* Until the ledger takes it, no stream of the session is taken up; its repeats find the outcome. */
static void given_up(struct hx_session *session, const struct hx_store_request *done)
{
    if (done->result != HX_STORE_NOT_DONE)
        return;
    session->has_stream_given_up = true;
    struct hx_store_request *again = hx_store_make(session->gateway, HX_STORE_STREAM_END);
    again->stream.session = done->stream.session;
    again->stream.request_id = hx_arena_dup(&again->arena, done->stream.request_id);
    hx_store_submit_quiet(session->gateway, again);
}

static bool was_cancelled(const struct hx_session *session, const struct hx_request *request)
{
    const struct hx_span early = hx_buf_span(&session->early);
    const char *at = early.ptr;
    const char *const end = at + early.len;
    size_t len;
    for (; at < end; at += len) {
        memcpy(&len, at, sizeof(len));
        at += sizeof(len);
        if (hx_span_eq(hx_span(at, len), hx_buf_span(&request->id_key)))
            return true;
    }
    return false;
}

static void resume_looked_up(struct hx_session *session)
{
    if (--session->resumes_open == 0)
        hx_buf_reset(&session->early);
}

/* A request under the id that the client gave it, whose text is not known: the operation has it. */
static void await_operation(struct hx_session *session, uint64_t exchange,
                            const struct hx_store_stream *stream)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_rpc_msg msg;
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"method\":\"tools/call\","
                        "\"params\":{}}",
                        HX_SPAN_FMT(stream->request_id));
    session->taking = exchange;
    if (hx_rpc_read(&gateway->tape, hx_buf_span(&line), &gateway->limits, &gateway->arena, &msg) !=
            0 ||
        msg.kind != HX_RPC_REQUEST) {
        session->taking = 0;
        no_stream(session, exchange);
    } else {
        struct hx_request *request = hx_request_new(session, HX_REQUEST_CALL, &msg, &line, NULL);
        if (was_cancelled(session, request)) {
            hx_request_free(request);
            hx_exchange_settle(session, exchange);
            hx_buf_fini(&line);
            return;
        }
        struct hx_store_request *find = hx_store_make(gateway, HX_STORE_FIND);
        find->find_id = true;
        find->record.id = stream->op;
        hx_store_submit_kept(session, exchange, find);
    }
    hx_buf_fini(&line);
}

static struct hx_request *request_on(struct hx_session *session, uint64_t exchange)
{
    hx_list_for_each (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        if (request->exchange == exchange && request->call == NULL)
            return request;
    }
    return NULL;
}

bool hx_session_may_have(const struct hx_session *session, const struct hx_record *record)
{
    return hx_span_eq(record->tenant, session->options.tenant) &&
           hx_span_eq(record->principal, session->options.principal) &&
           hx_span_eq(record->server, session->options.server->options.name);
}

static void operation_found(struct hx_session *session, uint64_t exchange,
                            const struct hx_store_request *done)
{
    struct hx_request *request = request_on(session, exchange);
    if (request == NULL)
        return; /* its client has left again */
    const struct hx_record *record = done->record_count > 0 ? &done->records[0].record : NULL;
    bool is_good = done->result == HX_STORE_DONE && record != NULL &&
                   hx_is_row_sound(session->gateway, record) &&
                   hx_session_may_have(session, record);
    if (is_good) {
        hx_intake_resume(request, record);
        return;
    }
    hx_request_free(request);
    no_stream(session, exchange);
}

void hx_kept_done(struct hx_session *session, uint64_t exchange, struct hx_store_request *done)
{
    struct hx_downstream *client = session->options.downstream;
    bool is_in_vain =
        session->is_gone && done->kind != HX_STORE_SESSION_PUT && done->kind != HX_STORE_STREAM_END;
    if (is_in_vain) {
        /* Its client has left; nothing is begun for it any more. */
    } else if (done->kind == HX_STORE_SESSION_PUT) {
        session_put(session, done);
    } else if (done->kind == HX_STORE_STREAM_PUT) {
        if (done->result == HX_STORE_DONE)
            client->ops->stream_kept(client, exchange);
    } else if (done->kind == HX_STORE_STREAM_END) {
        given_up(session, done);
    } else if (done->kind == HX_STORE_STREAM_GET) {
        if (done->result == HX_STORE_DONE && !session->has_stream_given_up)
            await_operation(session, exchange, &done->stream);
        else
            no_stream(session, exchange);
    } else {
        operation_found(session, exchange, done);
    }
    if (done->kind == HX_STORE_STREAM_GET)
        resume_looked_up(session);
    hx_store_request_free(done);
}
