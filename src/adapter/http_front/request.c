/* SPDX-License-Identifier: MIT */
/*
 * The way of a request to its session, and what it does there.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"

#define REFUSAL(name, http_status, words)                                                          \
    static const struct refusal name = {                                                           \
        .status = (http_status), .code = -32000, .sentence = (words)}

REFUSAL(refusal_revision, 400,
        "Bad request: unsupported protocol version (supported: 2025-11-25, 2025-06-18, "
        "2025-03-26, 2024-11-05)");
REFUSAL(refusal_session_missing, 400,
        "Bad request: Mcp-Session-Id is required, and only initialize goes without it");
REFUSAL(refusal_event_id, 400, "Bad request: Last-Event-ID is none of this server");
REFUSAL(refusal_second_get, 409, "Conflict: only one GET stream is allowed for a session");
REFUSAL(refusal_memory, 503, "There is no memory for this message now; nothing was sent");
static const struct refusal refusal_parse = {
    .status = 400, .code = -32700, .sentence = "Parse error: the body is no JSON-RPC message"};

/* --- to its session --- */

static void begin_session(struct front *front, struct stream *stream)
{
    const struct refusal *refusal = NULL;
    struct hx_http_front_event *event;
    struct session *session;
    struct hx_rpc_msg msg;

    if (!front_read(front, hx_buf_span(&stream->request->body), &msg))
        refusal = &refusal_memory;
    else if (msg.kind == HX_RPC_INVALID)
        refusal = &refusal_parse;
    else if (msg.kind != HX_RPC_REQUEST || hx_mcp_method_parse(msg.method) != HX_MCP_INITIALIZE)
        refusal = &refusal_session_missing;
    session =
        refusal == NULL ? session_begin(front, &stream->caller, stream->endpoint, &refusal) : NULL;
    if (session == NULL) {
        refuse_stream(front, stream, refusal);
        return;
    }
    event = hx_new(struct hx_http_front_event);
    hx_list_init(&event->node);
    event->type = HX_HTTP_FRONT_SESSION_NEW;
    event->downstream = &session->downstream;
    event->session = session->digest;
    event->endpoint = stream->endpoint;
    event->caller = stream->caller;
    hx_list_append(front->options.front_inbox, &event->node);
    stream->is_initialize = true;
    request_enter(session, stream);
}

static bool was_over(const struct front *front, const struct hx_digest *digest)
{
    for (uint32_t i = 0; i < OVER_COUNT; i++) {
        if (hx_digest_eq(&front->over[i], digest))
            return true;
    }
    return false;
}

/* Our ids have one form; nobody needs to be asked after others. */
static bool is_id(struct hx_span id)
{
    uint8_t bytes[RANDOM_BYTES];

    return hx_hex_decode(id, bytes, sizeof bytes);
}

static const struct refusal *check_revision(const struct front *front, struct stream *stream)
{
    struct hx_span name = hx_web_request_find(stream->request, "MCP-Protocol-Version");

    (void)front;
    if (hx_span_is_absent(name))
        return NULL;
    stream->revision = hx_mcp_revision_parse(name);
    return stream->revision != HX_MCP_UNKNOWN && hx_mcp_facts(stream->revision)->has_handshake
               ? NULL
               : &refusal_revision;
}

void request_go_on(struct front *front, struct stream *stream)
{
    struct hx_span id = hx_web_request_find(stream->request, "Mcp-Session-Id");
    const struct refusal *refusal = NULL;
    struct session *session;
    struct hx_digest digest;

    if (hx_span_is_absent(id) && stream->kind == STREAM_POST) {
        /* Its own words say what it speaks. */
        begin_session(front, stream);
        return;
    }
    if (hx_span_is_absent(id))
        refusal = &refusal_session_missing;
    else if (!is_id(id))
        refusal = &refusal_no_session;
    else
        refusal = check_revision(front, stream);
    if (refusal != NULL) {
        refuse_stream(front, stream, refusal);
        return;
    }
    hx_hasher_begin(front->hasher);
    hx_hasher_add(front->hasher, id);
    digest = hx_hasher_end(front->hasher);
    session = session_find(front, &digest);
    if (session != NULL && session->is_closed)
        refuse_stream(front, stream, &refusal_drain);
    else if (session != NULL && !session->is_over &&
             session_is_of(session, &stream->caller, stream->endpoint))
        request_enter(session, stream);
    else if (session != NULL || was_over(front, &digest))
        refuse_stream(front, stream, &refusal_no_session);
    else
        session_ask(front, &digest, stream);
}

/* --- into it --- */

void request_deliver(struct stream *stream)
{
    struct hx_web_request *request = stream->request;
    struct hx_peer_event *event = front_tell(stream->session, HX_PEER_MESSAGE);
    struct hx_span key = hx_web_request_find(request, "Idempotency-Key");

    event->exchange = stream->number;
    hx_http_join_lines(&request->body);
    buf_take(&event->line, &request->body);
    event->key_count = hx_web_request_count(request, "Idempotency-Key");
    /* Without memory for it, the key must not seem to be absent. */
    if (event->key_count > 0 && hx_buf_append_span(&event->key, key) < 0)
        event->key_count = 2;
    stream->request = hx_web_request_free(request);
    stream_wait(stream);
}

/* True when the GET of before has gone. */
static bool make_way(struct front *front, struct session *session)
{
    struct stream *before = session->get;

    if (before == NULL)
        return true;
    if (before->web != 0 && front->web->ops->is_alive(front->web, before->web))
        return false;
    stream_expire(front, before);
    return true;
}

static void listen(struct session *session, struct stream *stream)
{
    struct front *front = session->front;

    if (!make_way(front, session)) {
        refuse_stream(front, stream, &refusal_second_get);
        return;
    }
    stream->request = hx_web_request_free(stream->request);
    session->get = stream;
    stream_begin(stream);
}

static void ask_engine(struct session *session, struct stream *stream, struct hx_span name)
{
    struct hx_peer_event *event = front_tell(session, HX_PEER_RESUME);

    session->front->counts.resumes_asked++;
    event->exchange = stream->number;
    (void)hx_buf_append_span(&event->line, name); /* short of memory: a name that nobody knows */
    stream->kind = STREAM_RESUME;
    stream->takes_json = false;
    stream->request = hx_web_request_free(stream->request);
    stream_wait(stream);
}

static void take_up(struct session *session, struct stream *stream, struct hx_span last_id)
{
    struct front *front = session->front;
    struct stream_at at;
    struct stream *known;

    if (!stream_parse_id(front, last_id, &at)) {
        refuse_stream(front, stream, &refusal_event_id);
        return;
    }
    known = stream_find(front, at.number);
    if (known != NULL && known != stream && known->session == session && known->is_told_id) {
        uint64_t exchange = stream->web;
        front->counts.resumed++;
        hx_free(known->origin);
        known->origin = stream->origin;
        stream->origin = NULL;
        stream_free(front, stream);
        stream_resume(known, exchange, at.event);
    } else if (at.is_get) {
        /* What was on it is gone, or was of another process: it goes on with what comes. */
        listen(session, stream);
    } else {
        ask_engine(session, stream, at.name);
    }
}

void request_enter(struct session *session, struct stream *stream)
{
    struct front *front = session->front;
    struct hx_span last_id;

    session->last_seen = front_now(front);
    stream->session = session;
    hx_list_append(&session->streams, &stream->node);
    if (stream->revision == HX_MCP_UNKNOWN)
        stream->revision =
            session->revision != HX_MCP_UNKNOWN ? session->revision : HX_MCP_2025_03_26;
    switch (stream->kind) {
    case STREAM_POST:
        if (session->is_held)
            stream->state = STREAM_HELD;
        else
            request_deliver(stream);
        break;
    case STREAM_GET:
        last_id = hx_web_request_find(stream->request, "Last-Event-ID");
        if (last_id.len > 0)
            take_up(session, stream, last_id);
        else
            listen(session, stream);
        break;
    case STREAM_DELETE:
        /* Answered when the engine is done with the session: the ledger knows it then. */
        stream->request = hx_web_request_free(stream->request);
        session_end(session);
        break;
    case STREAM_RESUME:
        hx_assert(false);
    }
}
