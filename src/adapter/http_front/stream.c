/* SPDX-License-Identifier: MIT */
/*
 * The life of one stream: its states are drawn in internal.h. What is kept for a client that comes
 * back is in replay.c.
 */
#include <stdio.h>

#include "adapter/http_front/internal.h"
#include "base/alloc.h"
#include "wire/sse.h"

struct stream *stream_new(struct front *front, uint64_t exchange, enum stream_kind kind)
{
    struct stream *stream = hx_new(struct stream);

    hx_list_init(&stream->node);
    hx_list_init(&stream->due);
    hx_list_init(&stream->events);
    stream->kind = kind;
    stream->number = exchange;
    stream->web = exchange;
    hx_map_insert(&front->streams, &stream->by_number, number_key(&stream->number));
    hx_map_insert(&front->webs, &stream->by_web, number_key(&stream->web));
    front->counts.streams++;
    return stream;
}

struct stream *stream_find(struct front *front, uint64_t number)
{
    struct hx_map_node *node = hx_map_find(&front->streams, number_key(&number));

    return node != NULL ? hx_container_of(node, struct stream, by_number) : NULL;
}

static void leave_web(struct front *front, struct stream *stream)
{
    /* Its session was in use until now, however long ago it was asked. */
    if (stream->web != 0 && stream->session != NULL)
        stream->session->last_seen = front_now(front);
    hx_map_remove(&front->webs, &stream->by_web);
    stream->web = 0;
}

void stream_attach(struct front *front, struct stream *stream, uint64_t exchange)
{
    leave_web(front, stream);
    stream->web = exchange;
    hx_map_insert(&front->webs, &stream->by_web, number_key(&stream->web));
}

void stream_free(struct front *front, struct stream *stream)
{
    while (!hx_list_is_empty(&stream->events))
        replay_drop_first(stream);
    if (stream->session != NULL && stream->session->get == stream)
        stream->session->get = NULL;
    leave_web(front, stream);
    hx_map_remove(&front->streams, &stream->by_number);
    hx_list_unlink(&stream->node);
    hx_list_unlink(&stream->due);
    stream->request = hx_web_request_free(stream->request);
    hx_free(stream->origin);
    hx_free(stream);
    front->counts.streams--;
}

/* --- names --- */

void stream_name(const struct front *front, const struct stream *stream, char *ret_name)
{
    (void)snprintf(ret_name, STREAM_NAME_SIZE, "%c%s-%llx", stream->kind == STREAM_GET ? 'g' : 'p',
                   front->process, (unsigned long long)stream->number);
}

bool stream_may_name(const struct stream *stream)
{
    switch (stream->kind) {
    case STREAM_GET:
        return true;
    case STREAM_POST:
        return !stream->is_initialize && (!stream->is_named || stream->is_kept);
    case STREAM_RESUME:
        /* The client has an id that the ledger knows. A new one would be worse until that is
         * known, too. */
        return stream->is_kept;
    case STREAM_DELETE:
        break;
    }
    return false;
}

static bool parse_number(struct hx_span text, unsigned base, uint64_t *ret_value)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;

    if (text.len == 0 || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char *at = memchr(digits, text.ptr[i], base);
        if (at == NULL)
            return false;
        value = value * base + (uint64_t)(at - digits);
    }
    *ret_value = value;
    return true;
}

bool stream_parse_id(const struct front *front, struct hx_span id, struct stream_at *ret_at)
{
    size_t process_len = 2 * (size_t)PROCESS_BYTES;
    const char *dot = memchr(id.ptr, '.', id.len);
    struct hx_span process;
    uint8_t bytes[PROCESS_BYTES];

    if (dot == NULL || (size_t)(dot - id.ptr) < process_len + 3 || id.ptr[process_len + 1] != '-' ||
        (*id.ptr != 'p' && *id.ptr != 'g'))
        return false;
    ret_at->name = hx_span(id.ptr, (size_t)(dot - id.ptr));
    ret_at->is_get = *id.ptr == 'g';
    process = hx_span(id.ptr + 1, process_len);
    if (!hx_hex_decode(process, bytes, sizeof bytes) ||
        !parse_number(hx_span(id.ptr + process_len + 2, ret_at->name.len - process_len - 2), 16,
                      &ret_at->number) ||
        !parse_number(hx_span(dot + 1, id.len - ret_at->name.len - 1), 10, &ret_at->event))
        return false;
    if (!hx_span_eq_cstr(process, front->process))
        ret_at->number = 0;
    return true;
}

/* --- beginning --- */

void stream_wait(struct stream *stream)
{
    struct front *front = stream->session->front;

    stream->state = STREAM_WAITING;
    /* The answer to initialize tells the session's id in its head, which therefore has to wait. */
    if (!stream->takes_events || stream->is_initialize)
        return;
    stream->due_at = hx_mono_after(front_now(front), front->options.stream_after_ms);
    hx_list_append(&front->waiting, &stream->due);
    front_wake_at(front, stream->due_at);
}

/* The head of an event stream. */
void stream_open(struct stream *stream)
{
    struct session *session = stream->session;
    struct front *front = session->front;
    struct hx_web_header headers[4 + CORS_HEADERS] = {
        {HX_SPAN_LIT("Content-Type"), HX_SPAN_LIT("text/event-stream")},
        {HX_SPAN_LIT("Cache-Control"), HX_SPAN_LIT("no-cache, no-transform")},
        {HX_SPAN_LIT("X-Accel-Buffering"), HX_SPAN_LIT("no")}};
    struct hx_web_answer answer = {.status = 200, .headers = headers, .header_count = 3};

    if (stream->is_initialize && session->id != NULL)
        headers[answer.header_count++] =
            (struct hx_web_header){HX_SPAN_LIT("Mcp-Session-Id"), hx_span_cstr(session->id)};
    answer.header_count += cors_headers(stream->origin, headers + answer.header_count);
    hx_list_unlink(&stream->due);
    stream->state = STREAM_STREAMING;
    front->web->ops->stream_begin(front->web, stream->web, &answer);
}

/* An event without data, from which a client has an id before there is anything to lose. Older
 * clients take an event without data for a broken message. */
void stream_prime(struct stream *stream)
{
    struct front *front = stream->session->front;
    struct hx_buf bytes;
    char name[STREAM_NAME_SIZE];

    if (stream->revision < HX_MCP_2025_11_25 || stream->event_count > 0 ||
        stream->state != STREAM_STREAMING || !stream_may_name(stream))
        return;
    stream_name(front, stream, name);
    hx_buf_init(&bytes, EVENT_OVERHEAD);
    (void)hx_buf_printf(&bytes, "id: %s.0\nretry: %lld\ndata: \n\n", name,
                        (long long)front->options.retry_ms);
    if (hx_buf_ok(&bytes)) {
        stream->event_count = 1;
        stream->is_told_id = stream->is_told_retry = true;
        front->web->ops->stream_event(front->web, stream->web, &bytes, 0);
    }
    hx_buf_fini(&bytes);
}

void stream_begin(struct stream *stream)
{
    stream_open(stream);
    stream_prime(stream);
    if (!stream->is_initialize)
        queue_flush(stream->session, stream);
}

void stream_begin_due(struct front *front, struct hx_mono now)
{
    struct hx_list *node;

    while ((node = hx_list_first(&front->waiting)) != NULL) {
        struct stream *stream = hx_container_of(node, struct stream, due);
        if (!hx_mono_reached(now, stream->due_at)) {
            front_wake_at(front, stream->due_at);
            return;
        }
        stream_begin(stream);
    }
}

void stream_kept(struct stream *stream)
{
    stream->is_kept = true;
    stream_prime(stream);
}

/* --- messages --- */

/* One event, as it leaves. */
static void make_bytes(struct stream *stream, struct hx_buf *line, bool has_id, struct hx_buf *out)
{
    struct front *front = stream->session->front;
    struct hx_sse_fields fields = {
        .type = HX_SPAN_LIT("message"), .data = hx_buf_span(line), .retry_ms = -1};
    char id[STREAM_NAME_SIZE + 24];

    if (has_id) {
        char name[STREAM_NAME_SIZE];
        stream_name(front, stream, name);
        (void)snprintf(id, sizeof id, "%s.%llu", name, (unsigned long long)stream->event_count);
        fields.id = hx_span_cstr(id);
        if (!stream->is_told_retry)
            fields.retry_ms = front->options.retry_ms;
        stream->is_told_retry = true;
    }
    hx_buf_init(out, BODY_MAX);
    /* One allocation, of about what is needed. */
    (void)hx_buf_reserve(out, line->len + EVENT_OVERHEAD);
    hx_sse_write_event(out, &fields);
    hx_buf_fini(line);
}

/* The answer was its last event. May free the stream. */
void stream_finish(struct stream *stream)
{
    struct front *front = stream->session->front;

    stream->is_answered = true;
    if (stream->state == STREAM_STREAMING) {
        front->web->ops->stream_end(front->web, stream->web);
        leave_web(front, stream);
    }
    if (hx_list_is_empty(&stream->events) || front->is_draining) {
        stream_free(front, stream);
        return;
    }
    stream->state = STREAM_ENDED;
    hx_list_unlink(&stream->node);
    hx_list_append(&stream->session->over, &stream->node);
    replay_keep_until(stream);
}

void stream_send(struct stream *stream, struct hx_buf *line, uint64_t tag, bool is_answer)
{
    struct session *session = stream->session;
    struct front *front = session->front;
    struct sending *sending;
    struct event *event;
    struct hx_buf bytes;
    bool has_id;

    if (stream->state == STREAM_WAITING)
        stream_begin(stream);
    has_id = stream_may_name(stream);
    make_bytes(stream, line, has_id, &bytes);
    event = has_id && hx_buf_ok(&bytes) ? replay_add(stream, &bytes) : NULL;
    if (!hx_buf_ok(&bytes) || (stream->web == 0 && event == NULL)) {
        tell_not_sent(session, tag);
    } else {
        sending = sending_new(stream, tag, event);
        if (stream->web != 0) {
            stream->is_told_id |= has_id;
            front->web->ops->stream_event(front->web, stream->web, &bytes,
                                          sending_web_tag(sending, stream->web));
        }
    }
    hx_buf_fini(&bytes);
    if (!is_answer)
        return;
    /* Who comes back for what has no answer here would come back for ever: the engine is asked. */
    while (event == NULL && !hx_list_is_empty(&stream->events))
        replay_drop_first(stream);
    stream_finish(stream);
}

void stream_answer_json(struct stream *stream, uint32_t status, struct hx_buf *line, uint64_t tag)
{
    struct session *session = stream->session;
    struct front *front = session->front;
    struct hx_web_header headers[2 + CORS_HEADERS] = {
        {HX_SPAN_LIT("Content-Type"), HX_SPAN_LIT("application/json")}};
    struct hx_web_answer answer = {.status = status, .headers = headers, .header_count = 1};

    if (stream->is_initialize && session->id != NULL)
        headers[answer.header_count++] =
            (struct hx_web_header){HX_SPAN_LIT("Mcp-Session-Id"), hx_span_cstr(session->id)};
    answer.header_count += cors_headers(stream->origin, headers + answer.header_count);
    front->web->ops->answer(front->web, stream->web, &answer, line,
                            sending_web_tag(sending_new(stream, tag, NULL), stream->web));
    stream_free(front, stream);
}

/* --- the client's end --- */

static bool is_exchange(const struct stream *stream)
{
    return (stream->kind == STREAM_POST || stream->kind == STREAM_RESUME) && !stream->is_answered &&
           (stream->state == STREAM_WAITING || stream->state == STREAM_STREAMING ||
            stream->state == STREAM_AWAY);
}

void stream_expire(struct front *front, struct stream *stream)
{
    struct session *session = stream->session;
    bool is_gone = is_exchange(stream);
    bool is_initialize = stream->is_initialize;
    uint64_t number = stream->number;

    stream_free(front, stream);
    if (!is_gone)
        return;
    front_tell(session, HX_PEER_EXCHANGE_GONE)->exchange = number;
    /* Nobody will ever know its id. */
    if (is_initialize)
        session_end(session);
}

static void away(struct stream *stream)
{
    stream->state = STREAM_AWAY;
    replay_keep_until(stream);
}

void stream_left(struct front *front, struct stream *stream)
{
    leave_web(front, stream);
    if (stream->state == STREAM_STREAMING && stream->is_told_id && !front->is_draining)
        away(stream);
    else
        stream_expire(front, stream);
}

void stream_part(struct stream *stream)
{
    struct front *front = stream->session->front;

    hx_assert(stream->state == STREAM_STREAMING);
    front->web->ops->stream_end(front->web, stream->web);
    stream_left(front, stream);
}
