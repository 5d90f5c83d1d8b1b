/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a reply into messages, whether they come as one body or as events. Nothing is judged
 * here; see outcome.h for that.
 *
 * What the engine gets is one line. JSON may be spread over several, in a body or over the data
 * lines of an event: the line ends in it are white space, and become blanks.
 */
#include "adapter/http_client/client.h"
#include "base/alloc.h"

enum { BUF_KEPT_BYTES = 64 * 1024 };

static struct hx_hasher *hasher_of(struct hx_http_exchange *exchange)
{
    /* One for each, as several may be in the middle of something too long. */
    if (exchange->hasher == NULL)
        exchange->hasher = hx_hasher_new();
    return exchange->hasher;
}

void hx_http_reply_end(struct hx_http_exchange *exchange)
{
    if (exchange->has_stream)
        hx_sse_reader_fini(&exchange->stream);
    exchange->has_stream = false;
    if (exchange->reply.capacity > BUF_KEPT_BYTES)
        hx_buf_fini(&exchange->reply);
    exchange->skim = hx_free(exchange->skim);
}

void hx_http_reply_begin(struct hx_http_exchange *exchange)
{
    hx_http_reply_end(exchange);
    exchange->reply.len_max = exchange->client->options.message_max_bytes;
    hx_buf_reset(&exchange->reply);
    hx_buf_reset(&exchange->refusal);
    exchange->reply_size = 0;
    exchange->is_oversize = false;
    exchange->has_head = false;
    exchange->has_end = exchange->hides_body = false;
    exchange->has_event = false;
    exchange->status = 0;
    exchange->format = HX_HTTP_BODY;
}

struct hx_span hx_http_reply_excerpt(const struct hx_http_exchange *exchange)
{
    struct hx_span reply = hx_buf_span(&exchange->reply);

    if (reply.len > HX_HTTP_EXCERPT_MAX)
        reply.len = HX_HTTP_EXCERPT_MAX;
    return reply;
}

/* --- messages --- */

static struct hx_span trim(struct hx_span text)
{
    static const struct hx_span mark = HX_SPAN_INIT("\xef\xbb\xbf");

    if (hx_span_starts_with(text, mark))
        text = hx_span(text.ptr + mark.len, text.len - mark.len);
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]) != NULL && text.ptr[0] != '\0')
        text = hx_span(text.ptr + 1, text.len - 1);
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]) != NULL &&
           text.ptr[text.len - 1] != '\0')
        text.len--;
    return text;
}

static void make_one_line(struct hx_buf *line)
{
    for (size_t i = 0; i < line->len; i++) {
        if (line->data[i] == '\n' || line->data[i] == '\r')
            line->data[i] = ' ';
    }
}

static bool is_its_id(const struct hx_http_exchange *exchange, const struct hx_rpc_id *id)
{
    struct hx_rpc_id own = hx_rpc_id_parse(hx_buf_span(&exchange->id));

    return exchange->purpose == HX_HTTP_REQUEST && exchange->id.len > 0 && hx_rpc_id_eq(&own, id);
}

static bool is_its_answer(const struct hx_http_exchange *exchange, const struct hx_rpc_msg *msg)
{
    return (msg->kind == HX_RPC_RESULT || msg->kind == HX_RPC_ERROR) &&
           is_its_id(exchange, &msg->id);
}

/* A text that no reader accepts may still be the answer: then it came, and what it says is lost. */
static bool is_its_ruin(const struct hx_http_exchange *exchange, struct hx_span text)
{
    struct hx_skim skim;
    struct hx_skim_result seen;
    struct hx_rpc_id id;

    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    seen = hx_skim_end(&skim);
    if (!seen.is_object || !seen.has_id || seen.has_method)
        return false;
    id = hx_rpc_id_parse(hx_skim_id(&skim));
    return is_its_id(exchange, &id);
}

/* A stream that was taken up from an earlier process goes on with the ids of that one, under which
 * this one may have asked something else. So of the answers on it only its own is told. */
static bool is_of_another(const struct hx_http_exchange *exchange, bool is_response, bool is_answer)
{
    bool is_taken_up =
        exchange->purpose == HX_HTTP_REQUEST && exchange->is_get && exchange->handed_out == 0;

    return is_taken_up && is_response && !is_answer;
}

static void answered(struct hx_http_exchange *exchange)
{
    if (!exchange->is_initialize)
        hx_http_session_works(exchange->session);
    hx_http_exchange_settle(exchange);
}

/* `owned` holds nothing but the message, or is NULL; it may be taken. */
static void deliver(struct hx_http_exchange *exchange, const struct hx_rpc_msg *msg,
                    struct hx_buf *owned)
{
    bool is_answer = !exchange->is_settled && is_its_answer(exchange, msg);
    bool is_response = msg->kind == HX_RPC_RESULT || msg->kind == HX_RPC_ERROR;
    struct hx_peer_event *event;

    if (is_of_another(exchange, is_response, is_answer))
        return;
    if (is_answer && exchange->is_initialize && msg->kind == HX_RPC_RESULT) {
        struct hx_span result = msg->result;
        hx_http_session_agree(exchange->session, exchange->client, result);
    }
    event = hx_http_exchange_tell(exchange, HX_PEER_MESSAGE);
    event->is_answer = is_answer;
    if (owned != NULL) {
        hx_buf_fini(&event->line);
        event->line = *owned;
        hx_buf_init(owned, owned->len_max);
    } else if (hx_buf_append_span(&event->line, msg->raw) != 0) {
        hx_peer_event_free(event); /* no memory: what it said is lost */
        if (is_answer)
            hx_http_exchange_lose(exchange, HX_PEER_LOSS_UNREADABLE, HX_SPAN_LIT("no memory"));
        return;
    }
    make_one_line(&event->line);
    if (is_answer)
        answered(exchange);
}

static bool read_message(struct hx_http_client *client, struct hx_span text,
                         struct hx_rpc_msg *ret_msg)
{
    hx_arena_reset(&client->arena);
    return hx_rpc_read(&client->tape, text, &client->limits, &client->arena, ret_msg) == 0;
}

static bool may_batch(const struct hx_http_exchange *exchange)
{
    return exchange->session->facts->may_batch;
}

/* Copies where the elements are, since delivering one reads others onto the tape. */
static size_t split(struct hx_http_client *client, const struct hx_rpc_msg *batch,
                    struct hx_span elements[HX_RPC_ELEMENTS_MAX])
{
    size_t at_element = 0;

    hx_assert(hx_json_at(&client->tape, batch->root)->count <= HX_RPC_ELEMENTS_MAX);
    hx_json_for_each(at, &client->tape, batch->root) elements[at_element++] =
        hx_json_raw(&client->tape, at);
    return at_element;
}

static void deliver_text(struct hx_http_exchange *exchange, struct hx_span text,
                         struct hx_buf *owned)
{
    struct hx_http_client *client = exchange->client;
    struct hx_span elements[HX_RPC_ELEMENTS_MAX];
    struct hx_rpc_msg msg;
    size_t count;

    if (!read_message(client, text, &msg)) {
        if (exchange->purpose == HX_HTTP_REQUEST && !exchange->is_settled)
            hx_http_exchange_lose(exchange, HX_PEER_LOSS_UNREADABLE, HX_SPAN_LIT("no memory"));
        return;
    }
    if (msg.kind == HX_RPC_INVALID) {
        msg.raw = text;
        if (!exchange->is_settled && is_its_ruin(exchange, text)) {
            hx_http_exchange_lose(exchange, HX_PEER_LOSS_UNREADABLE, HX_SPAN_LIT(""));
            return;
        }
    }
    if (msg.kind != HX_RPC_BATCH || !may_batch(exchange)) {
        deliver(exchange, &msg, owned); /* noise too: the engine counts and shows it */
        return;
    }
    count = split(client, &msg, elements);
    for (size_t i = 0; i < count; i++) {
        if (!read_message(client, elements[i], &msg))
            break;
        if (msg.kind == HX_RPC_INVALID)
            msg.raw = elements[i];
        deliver(exchange, &msg, NULL);
    }
}

static void deliver_oversize(struct hx_http_exchange *exchange, const struct hx_skim_result *seen,
                             struct hx_span raw_id, uint64_t size, const struct hx_digest *digest)
{
    struct hx_rpc_id id = seen->has_id ? hx_rpc_id_parse(raw_id) : (struct hx_rpc_id){0};
    bool is_answer = !exchange->is_settled && seen->is_object && seen->has_id &&
                     !seen->has_method && is_its_id(exchange, &id);
    struct hx_peer_event *event;

    if (is_of_another(exchange, !seen->has_method, is_answer))
        return;
    event = hx_http_exchange_tell(exchange, HX_PEER_OVERSIZE);
    event->size = size;
    event->is_refused = size <= exchange->client->options.message_max_bytes;
    event->has_method = seen->has_method;
    event->has_result = seen->has_result;
    event->has_error = seen->has_error;
    event->is_answer = is_answer;
    hx_digest_hex(digest, event->digest_hex);
    (void)hx_buf_append_span(&event->line, raw_id); /* short of memory: without its id */
    if (is_answer)
        answered(exchange);
}

/* --- one body --- */

static void skim_body(struct hx_http_exchange *exchange, struct hx_span bytes)
{
    hx_skim_add(exchange->skim, bytes);
    hx_hasher_add(exchange->hasher, bytes);
}

static void body_add(struct hx_http_exchange *exchange, struct hx_span bytes)
{
    exchange->reply_size += bytes.len;
    if (!exchange->is_oversize && hx_buf_append_span(&exchange->reply, bytes) == 0)
        return;
    if (!exchange->is_oversize) {
        exchange->is_oversize = true;
        exchange->skim = hx_new(struct hx_skim);
        hx_skim_begin(exchange->skim);
        hx_hasher_begin(hasher_of(exchange));
        skim_body(exchange, hx_buf_span(&exchange->reply));
        exchange->reply.is_failed = false;
        if (exchange->reply.len > HX_HTTP_EXCERPT_MAX)
            exchange->reply.len = HX_HTTP_EXCERPT_MAX;
    }
    skim_body(exchange, bytes);
}

static enum hx_http_content content_of_oversize(const struct hx_http_exchange *exchange)
{
    struct hx_skim_result seen = hx_skim_end(exchange->skim);
    struct hx_rpc_id id;

    if (!seen.is_object)
        return HX_HTTP_RUIN;
    if (!seen.has_id || seen.has_method)
        return HX_HTTP_OTHERS;
    id = hx_rpc_id_parse(hx_skim_id(exchange->skim));
    if (!is_its_id(exchange, &id))
        return HX_HTTP_OTHERS;
    return seen.has_result ? HX_HTTP_ITS_RESULT : HX_HTTP_ITS_ERROR;
}

/* An object that is no message, and answers something all the same. */
static bool is_ruined_answer(struct hx_span text)
{
    struct hx_skim skim;
    struct hx_skim_result seen;

    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    seen = hx_skim_end(&skim);
    return seen.is_object && seen.has_id && !hx_span_eq_cstr(hx_skim_id(&skim), "null") &&
           (seen.has_result || seen.has_error);
}

/* In a coding that we do not undo, in events where a body was due, behind a prefix, in another
 * character set: who answers so has not refused the request unread. */
static bool may_hide_an_answer(const struct hx_http_exchange *exchange, struct hx_span text)
{
    return exchange->hides_body || hx_span_contains(text, hx_span("", 1)) ||
           hx_span_contains_nocase(text, HX_SPAN_LIT("jsonrpc"));
}

/* What a server says of a request before it runs it need be no JSON-RPC. But this may be more. */
static bool may_be_its_answer(const struct hx_http_exchange *exchange, const struct hx_rpc_msg *msg,
                              struct hx_span text)
{
    bool is_text = msg->fault == HX_RPC_PARSE_ERROR || msg->fault == HX_RPC_NOT_MESSAGE;

    if (is_text && may_hide_an_answer(exchange, text))
        return true;
    switch (msg->fault) {
    case HX_RPC_BAD_UTF8:
    case HX_RPC_BAD_ID:
        return true;
    case HX_RPC_PARSE_ERROR:
    case HX_RPC_OVER_LIMIT:
    case HX_RPC_DUPLICATE_NAME:
        return text.len > 0 && (text.ptr[0] == '{' || text.ptr[0] == '[');
    case HX_RPC_FAULT_NONE:
    case HX_RPC_EMPTY:
    case HX_RPC_NOT_MESSAGE:
    case HX_RPC_BATCH_EMPTY:
    case HX_RPC_BATCH_NESTED:
    case HX_RPC_BAD_VERSION:
    case HX_RPC_NULL_ID:
    case HX_RPC_BAD_METHOD:
    case HX_RPC_BAD_PARAMS:
    case HX_RPC_BAD_ERROR:
    case HX_RPC_BOTH:
    case HX_RPC_NEITHER:
        break;
    }
    return msg->kind == HX_RPC_BATCH || is_its_id(exchange, &msg->id) || is_ruined_answer(text);
}

static enum hx_http_content content_of(const struct hx_http_exchange *exchange,
                                       const struct hx_rpc_msg *msg, struct hx_span text)
{
    if (msg->kind == HX_RPC_INVALID || msg->kind == HX_RPC_BATCH)
        return may_be_its_answer(exchange, msg, text) ? HX_HTTP_RUIN : HX_HTTP_NOT_RPC;
    if (is_its_answer(exchange, msg))
        return msg->kind == HX_RPC_RESULT ? HX_HTTP_ITS_RESULT : HX_HTTP_ITS_ERROR;
    if (msg->kind == HX_RPC_ERROR && msg->id.type <= HX_RPC_ID_NULL)
        return HX_HTTP_NAMELESS;
    return HX_HTTP_OTHERS;
}

static enum hx_http_content content_of_batch(struct hx_http_exchange *exchange,
                                             const struct hx_rpc_msg *batch)
{
    const struct hx_json_tape *tape = &exchange->client->tape;
    enum hx_http_content best = HX_HTTP_NOT_RPC;

    hx_json_for_each(at, tape, batch->root)
    {
        struct hx_rpc_msg msg;
        enum hx_http_content content;

        if (hx_rpc_classify(tape, at, &exchange->client->arena, &msg) != 0)
            return HX_HTTP_RUIN; /* no memory */
        content = content_of(exchange, &msg, hx_json_raw(tape, at));
        best = content > best ? content : best;
    }
    return best;
}

enum hx_http_content hx_http_reply_content(struct hx_http_exchange *exchange)
{
    struct hx_span text = trim(hx_buf_span(&exchange->reply));
    struct hx_rpc_msg msg;

    if (exchange->is_oversize)
        return content_of_oversize(exchange);
    if (text.len == 0)
        return HX_HTTP_EMPTY;
    if (!read_message(exchange->client, text, &msg))
        return HX_HTTP_RUIN; /* no memory */
    if (msg.kind == HX_RPC_BATCH && may_batch(exchange))
        return content_of_batch(exchange, &msg);
    return content_of(exchange, &msg, text);
}

void hx_http_reply_deliver(struct hx_http_exchange *exchange)
{
    struct hx_span text = trim(hx_buf_span(&exchange->reply));

    if (exchange->is_oversize) {
        struct hx_skim_result seen = hx_skim_end(exchange->skim);
        struct hx_digest digest = hx_hasher_end(exchange->hasher);
        deliver_oversize(exchange, &seen, hx_skim_id(exchange->skim), exchange->reply_size,
                         &digest);
        return;
    }
    if (text.len == 0)
        return;
    /* In place, so that a long answer is not held twice. */
    hx_buf_consume(&exchange->reply, (size_t)(text.ptr - exchange->reply.data));
    exchange->reply.len = text.len;
    deliver_text(exchange, hx_buf_span(&exchange->reply), &exchange->reply);
}

/* --- a stream --- */

static void take_event_id(struct hx_http_exchange *exchange, struct hx_span id)
{
    if (id.len == 0 || hx_span_eq(id, hx_buf_span(&exchange->event_id)))
        return;
    hx_buf_reset(&exchange->event_id);
    /* One that cannot be sent back is none: the stream cannot be taken up behind it. */
    if (hx_http_event_id_is_good(id))
        (void)hx_buf_append_span(&exchange->event_id, id);
    exchange->is_point_due = exchange->event_id.len > 0;
}

bool hx_http_reply_answers(const struct hx_http_exchange *exchange,
                           const struct hx_sse_event *event)
{
    struct hx_skim skim;
    struct hx_skim_result seen = event->skim;
    struct hx_span raw_id = event->data;
    struct hx_rpc_id id;

    if (!event->is_oversize) {
        hx_skim_begin(&skim);
        hx_skim_add(&skim, event->data);
        seen = hx_skim_end(&skim);
        raw_id = hx_skim_id(&skim);
    }
    if (!seen.is_object || !seen.has_id || seen.has_method)
        return false;
    id = hx_rpc_id_parse(raw_id);
    return is_its_id(exchange, &id);
}

void hx_http_reply_event(struct hx_http_exchange *exchange, const struct hx_sse_event *event)
{
    if (event->type.len > 0 && !hx_span_eq_cstr(event->type, "message"))
        return;
    if (event->is_oversize)
        deliver_oversize(exchange, &event->skim, event->data, event->size, &event->digest);
    else if (trim(event->data).len > 0) /* else it is there for its id */
        deliver_text(exchange, trim(event->data), NULL);
}

static void take_event(struct hx_http_exchange *exchange, const struct hx_sse_event *event)
{
    take_event_id(exchange, event->id);
    exchange->has_event = true;
    if (!hx_http_apart_take(exchange, event))
        hx_http_reply_event(exchange, event);
}

static void tell_resume_point(struct hx_http_exchange *exchange)
{
    struct hx_peer_event *event;

    exchange->is_point_due = false;
    if (exchange->is_settled || exchange->purpose != HX_HTTP_REQUEST || exchange->is_initialize)
        return;
    event = hx_http_exchange_tell(exchange, HX_PEER_RESUME_POINT);
    hx_http_resume_write(exchange, &event->line);
}

static void stream_add(struct hx_http_exchange *exchange, struct hx_span bytes)
{
    struct hx_sse_event event;

    if (!exchange->has_stream)
        hx_sse_reader_init(&exchange->stream, exchange->client->options.message_max_bytes,
                           hasher_of(exchange));
    exchange->has_stream = true;
    while (hx_sse_next(&exchange->stream, &bytes, &event))
        take_event(exchange, &event);
    if (exchange->stream.retry_ms >= 0)
        exchange->retry_ms = exchange->stream.retry_ms;
    if (exchange->is_point_due)
        tell_resume_point(exchange);
}

void hx_http_reply_add(struct hx_http_exchange *exchange, struct hx_span bytes)
{
    if (exchange->format == HX_HTTP_STREAM)
        stream_add(exchange, bytes);
    else
        body_add(exchange, bytes);
}
