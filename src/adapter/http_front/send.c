/* SPDX-License-Identifier: MIT */
/*
 * The engine's side: the operations of a downstream.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"
#include "wire/skim.h"

/* The exchange as the engine knows it: it has the message, and it is not answered. */
static struct stream *open_stream(struct session *session, uint64_t exchange)
{
    struct stream *stream = exchange != 0 ? stream_find(session->front, exchange) : NULL;

    if (stream == NULL || stream->session != session || stream->is_answered ||
        (stream->kind != STREAM_POST && stream->kind != STREAM_RESUME) ||
        stream->state == STREAM_HELD)
        return NULL;
    return stream;
}

/* --- asides --- */

static bool may_carry(const struct stream *stream)
{
    return stream->kind != STREAM_GET && stream->takes_events && !stream->is_initialize &&
           !stream->is_answered &&
           (stream->state == STREAM_WAITING || stream->state == STREAM_STREAMING);
}

/* Where a message goes that belongs to no open exchange; NULL = it has to wait. */
static struct stream *stream_for_any(const struct session *session)
{
    struct stream *silent = NULL;

    if (session->get != NULL && session->get->web != 0)
        return session->get;
    hx_list_for_each (node, &session->streams) {
        struct stream *stream = hx_container_of(node, struct stream, node);
        if (!may_carry(stream))
            continue;
        if (stream->state == STREAM_STREAMING)
            return stream;
        if (silent == NULL)
            silent = stream;
    }
    return silent;
}

static void send_aside(struct session *session, struct hx_buf *line,
                       const struct hx_sending *sending)
{
    struct stream *stream = open_stream(session, sending->exchange);

    /* One whose client is away waits with its stream. */
    if (stream == NULL || (!may_carry(stream) && stream->state != STREAM_AWAY))
        stream = stream_for_any(session);
    if (stream != NULL)
        stream_send(stream, line, sending->tag, false);
    else
        queue_add(session, line, sending->tag);
}

/* --- answers --- */

/* Does an answer hold a result, that cannot be read for want of memory, or of tokens? */
static bool is_result(struct hx_span line)
{
    struct hx_skim skim;

    hx_skim_begin(&skim);
    hx_skim_add(&skim, line);
    struct hx_skim_result seen = hx_skim_end(&skim);
    return seen.is_object && seen.has_result;
}

/* The handshake is over: what was agreed on, or that there is no session. A revision that could not
 * be read the client says with each request. */
static bool has_begun(struct session *session, const struct hx_buf *line)
{
    struct front *front = session->front;
    struct hx_mcp_initialize_result result = {0};
    struct hx_json_tape tape;
    struct hx_rpc_msg msg;

    (void)front_read(front, hx_buf_span(line), &msg);
    if (msg.kind == HX_RPC_INVALID)
        return is_result(hx_buf_span(line));
    if (msg.kind != HX_RPC_RESULT)
        return false;
    hx_json_tape_init(&tape);
    if (hx_mcp_initialize_result_read(&tape, msg.result, &front->limits, &front->arena, &result) ==
        0)
        session->revision = result.revision;
    hx_json_tape_fini(&tape);
    return true;
}

static void send_answer(struct session *session, struct stream *stream, struct hx_buf *line,
                        const struct hx_sending *sending)
{
    bool is_fault = sending->kind == HX_SENDING_FAULT;
    bool is_initialize = stream->is_initialize;
    bool has_session = !is_initialize || (!is_fault && has_begun(session, line));

    if (!has_session)
        session_forget_id(session);
    if (stream->state == STREAM_WAITING && (is_fault || stream->takes_json))
        stream_answer_json(stream, is_fault ? 400 : 200, line, sending->tag);
    else
        stream_send(stream, line, sending->tag, true);
    if (is_initialize)
        session_forget_id(session);
    if (!has_session)
        session_end(session);
}

static void op_send(struct hx_downstream *downstream, struct hx_buf *line,
                    const struct hx_sending *sending)
{
    struct session *session = session_of(downstream);
    struct stream *stream;

    if (session->is_over || session->is_closed) {
        tell_not_sent(session, sending->tag);
    } else if (sending->kind == HX_SENDING_ASIDE) {
        send_aside(session, line, sending);
    } else {
        stream = open_stream(session, sending->exchange);
        if (stream != NULL)
            send_answer(session, stream, line, sending);
        else
            tell_not_sent(session, sending->tag);
    }
    hx_buf_fini(line);
}

static void op_settle(struct hx_downstream *downstream, uint64_t exchange,
                      enum hx_settling settling)
{
    static const struct refusal no_stream = {
        .status = 400,
        .code = -32000,
        .sentence = "This stream cannot be taken up again: nothing is known of it"};
    struct session *session = session_of(downstream);
    struct front *front = session->front;
    struct stream *stream = open_stream(session, exchange);

    if (stream == NULL)
        return;
    if (stream->state == STREAM_WAITING && settling == HX_SETTLING_TAKEN)
        answer_empty(front, stream->web, 202, stream->origin);
    else if (stream->state == STREAM_WAITING)
        refuse(front, stream->web,
               settling == HX_SETTLING_UNREAD ? &refusal_no_session : &no_stream, HX_SPAN_NONE,
               stream->origin);
    else if (stream->state == STREAM_STREAMING)
        front->web->ops->stream_end(front->web, stream->web);
    stream_free(front, stream);
}

/* --- looking --- */

static uint64_t op_queued_bytes(struct hx_downstream *downstream)
{
    struct session *session = session_of(downstream);
    struct front *front = session->front;
    uint64_t bytes = 0;

    hx_list_for_each (node, &session->streams) {
        const struct stream *stream = hx_container_of(node, struct stream, node);
        if (stream->state == STREAM_STREAMING)
            bytes += front->web->ops->queued_bytes(front->web, stream->web);
    }
    return bytes;
}

static bool op_is_reader_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    struct session *session = session_of(downstream);
    struct hx_web *web = session->front->web;
    const struct stream *stream =
        exchange == 0 ? stream_for_any(session) : open_stream(session, exchange);
    /* An answer that is being written has its reader still. */
    uint64_t at = stream != NULL ? stream->web : sending_web(session, exchange);

    return at != 0 && web->ops->is_alive(web, at);
}

static void op_hold(struct hx_downstream *downstream, bool is_held)
{
    struct session *session = session_of(downstream);

    session->is_held = is_held;
    if (is_held)
        return;
    hx_list_for_each (node, &session->streams) {
        struct stream *stream = hx_container_of(node, struct stream, node);
        if (stream->state == STREAM_HELD)
            request_deliver(stream);
    }
}

static void op_close(struct hx_downstream *downstream)
{
    session_close(session_of(downstream));
}

static struct hx_span op_stream_name(struct hx_downstream *downstream, uint64_t exchange)
{
    struct session *session = session_of(downstream);
    struct front *front = session->front;
    struct stream *stream = open_stream(session, exchange);

    if (stream == NULL || !stream->takes_events || stream->is_initialize)
        return HX_SPAN_NONE;
    stream->is_named = true;
    stream_name(front, stream, front->name);
    return hx_span_cstr(front->name);
}

static void op_stream_kept(struct hx_downstream *downstream, uint64_t exchange)
{
    struct stream *stream = open_stream(session_of(downstream), exchange);

    if (stream != NULL)
        stream_kept(stream);
}

const struct hx_downstream_ops send_ops = {
    .send = op_send,
    .queued_bytes = op_queued_bytes,
    .is_reader_alive = op_is_reader_alive,
    .hold = op_hold,
    .close = op_close,
    .settle = op_settle,
    .stream_name = op_stream_name,
    .stream_kept = op_stream_kept,
};
