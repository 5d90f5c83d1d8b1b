/* SPDX-License-Identifier: MIT */
/*
 * From answers to bytes, with a fate for each that is tagged.
 */
#include "adapter/http_server/internal.h"
#include "base/alloc.h"

enum { HEAD_MAX = 64 * 1024 };

static struct server *server_of(struct hx_web *web)
{
    return hx_container_of(web, struct server, web);
}

static struct conn *find(struct server *server, uint64_t exchange)
{
    uint64_t slot = exchange & ((1u << SLOT_BITS) - 1);
    struct conn *conn = slot < server->options.connections_max ? server->slots[slot] : NULL;

    return conn != NULL && exchange != 0 && conn->exchange == exchange ? conn : NULL;
}

/* --- fates --- */

static void tell(struct server *server, enum hx_web_event_type type, uint64_t tag)
{
    if (tag != 0)
        server_event(server, type)->tag = tag;
}

void answer_fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate)
{
    struct conn *conn = arg;
    struct server *server = conn->server;

    switch (fate) {
    case HX_OUTGOING_FIRST_BYTE:
        break;
    case HX_OUTGOING_WRITTEN:
        tell(server, HX_WEB_WRITTEN, tag);
        conn->is_ahead = conn_has_input(conn);
        if (tag != 0)
            hx_web_receipts_add(&conn->receipts, tag, conn->out.written_bytes,
                                hx_loop_now(server->loop));
        break;
    case HX_OUTGOING_NOT_SENT:
        tell(server, HX_WEB_NOT_SENT, tag);
        break;
    case HX_OUTGOING_CUT:
        tell(server, HX_WEB_CUT, tag);
        break;
    }
}

/* While the kernel takes no more. Each byte that is taken puts the deadline off; but a whole answer
 * must be read at a tolerable rate, or one byte now and then would hold it for ever. */
static void blocked(struct conn *conn, bool has_progress)
{
    const struct hx_http_server_options *options = &conn->server->options;
    struct hx_mono now = hx_loop_now(conn->server->loop);
    int64_t after_ms = options->write_timeout_ms;

    if (conn->state == CONN_FLUSHING) {
        if (conn->flush_end.ms == 0)
            conn->flush_end = hx_mono_after(
                now, after_ms + (int64_t)(conn->out.queued_bytes * 1000 / options->rate_min_bytes));
        if (hx_mono_since_ms(conn->flush_end, now) < after_ms)
            after_ms = hx_mono_since_ms(conn->flush_end, now);
    }
    if (!conn->is_blocked || has_progress)
        conn_deadline(conn, after_ms > 0 ? after_ms : 0);
    conn->is_blocked = true;
}

void answer_write(struct conn *conn)
{
    const struct hx_http_server_options *options = &conn->server->options;
    uint64_t before = conn->out.written_bytes;
    int rc = hx_outgoing_write(&conn->out, conn->fd);

    if (rc == HX_OUTGOING_BROKEN) {
        conn_gone(conn, HX_WEB_GONE_RESET);
    } else if (rc == HX_OUTGOING_BLOCKED) {
        if (conn->state != CONN_BODY)
            blocked(conn, conn->out.written_bytes != before);
    } else {
        conn->is_blocked = false;
        if (conn->state == CONN_FLUSHING)
            conn_next_request(conn);
        else if (conn->state == CONN_STREAMING)
            conn_deadline(conn, options->stream_ping_ms > 0 ? options->stream_ping_ms : -1);
    }
}

/* --- heads --- */

static void write_headers(struct conn *conn, struct hx_buf *out, uint32_t status,
                          const struct hx_web_header *headers, uint32_t header_count)
{
    hx_http1_write_status(out, status);
    for (uint32_t i = 0; i < header_count; i++)
        hx_http1_write_header(out, headers[i].name, headers[i].value);
    if (!conn->is_keep_alive)
        (void)hx_buf_append_cstr(out, "Connection: close\r\n");
    else if (conn->is_minor_0)
        (void)hx_buf_append_cstr(out, "Connection: keep-alive\r\n");
}

static void write_whole(struct conn *conn, const struct hx_web_answer *answer, struct hx_buf *body,
                        uint64_t tag)
{
    struct hx_buf head;

    hx_buf_init(&head, HEAD_MAX);
    write_headers(conn, &head, answer->status, answer->headers, answer->header_count);
    if (!hx_http1_has_no_body(answer->status))
        (void)hx_buf_printf(&head, "Content-Length: %zu\r\n", body != NULL ? body->len : (size_t)0);
    (void)hx_buf_append_cstr(&head, "\r\n");
    if (body != NULL && (conn->is_head_only || hx_http1_has_no_body(answer->status)))
        hx_buf_fini(body);
    if (!hx_buf_ok(&head)) {
        /* Without memory for some hundred bytes nobody can be told anything. */
        tell(conn->server, HX_WEB_NOT_SENT, tag);
        conn->state = CONN_FLUSHING; /* the fate says it; no CLIENT_GONE */
        hx_buf_fini(&head);
        if (body != NULL)
            hx_buf_fini(body);
        conn_gone(conn, HX_WEB_GONE_OURS);
        return;
    }
    hx_outgoing_add_parts(&conn->out, &head, body, hx_span("", 0), tag);
    conn->state = CONN_FLUSHING;
    answer_write(conn);
}

void answer_refuse(struct conn *conn, uint32_t status, const char *sentence)
{
    static const struct hx_web_header headers[] = {
        {HX_SPAN_INIT("Content-Type"), HX_SPAN_INIT("text/plain; charset=utf-8")}};
    struct hx_web_answer answer = {.status = status, .headers = headers, .header_count = 1};
    struct hx_buf body;

    hx_buf_init(&body, HEAD_MAX);
    (void)hx_buf_printf(&body, "%s\n", sentence);
    conn->is_keep_alive = false;
    hx_list_unlink(&conn->idle);
    intake_drop(conn);
    write_whole(conn, &answer, &body, 0);
    hx_buf_fini(&body);
}

void answer_continue(struct conn *conn)
{
    hx_outgoing_add_parts(&conn->out, NULL, NULL, HX_SPAN_LIT("HTTP/1.1 100 Continue\r\n\r\n"), 0);
    answer_write(conn);
}

void answer_ping(struct conn *conn)
{
    /* A comment of an event stream, as one chunk or as it is. */
    struct hx_span ping =
        conn->is_chunked_out ? HX_SPAN_LIT("3\r\n:\n\n\r\n") : HX_SPAN_LIT(":\n\n");

    if (conn->is_head_only) {
        conn_deadline(conn, -1);
        return;
    }
    hx_outgoing_add_parts(&conn->out, NULL, NULL, ping, 0);
    answer_write(conn);
}

/* --- all answers together --- */

/* Who has made no progress for the longest time, which is who is cut off first anyway. */
static struct conn *slowest(const struct server *server, uint64_t *ret_queued, uint32_t *ret_count)
{
    struct conn *found = NULL;

    *ret_queued = *ret_count = 0;
    hx_list_for_each (node, &server->conns) {
        struct conn *conn = hx_container_of(node, struct conn, node);
        if (conn->out.queued_bytes == 0)
            continue;
        *ret_queued += conn->out.queued_bytes;
        ++*ret_count;
        if (found == NULL || conn->deadline.ms < found->deadline.ms)
            found = conn;
    }
    return found;
}

/* Clients that read nothing must not fill the memory of all. What is cut off has its fate, so its
 * repeat is answered. A single answer is bounded by what a message may be. */
static void bound_answers(struct server *server)
{
    uint64_t queued;
    uint32_t count;
    struct conn *conn = slowest(server, &queued, &count);

    while (queued > server->options.answers_max_bytes && count > 1) {
        conn_gone(conn, HX_WEB_GONE_SLOW);
        conn = slowest(server, &queued, &count);
    }
}

/* --- the port --- */

static void op_answer(struct hx_web *web, uint64_t exchange, const struct hx_web_answer *answer,
                      struct hx_buf *body, uint64_t tag)
{
    struct server *server = server_of(web);
    struct conn *conn = find(server, exchange);

    if (conn == NULL || conn->state == CONN_FLUSHING) {
        tell(server, HX_WEB_NOT_SENT, tag);
        if (body != NULL)
            hx_buf_fini(body);
        return;
    }
    hx_assert(conn->state == CONN_WAITING);
    if (answer->close || server->is_draining)
        conn->is_keep_alive = false;
    write_whole(conn, answer, body, tag);
    if (conn->out.queued_bytes > 0)
        bound_answers(server);
    if (conn->state != CONN_CLOSED)
        conn_drive(conn);
    server_reap(server);
}

static void op_stream_begin(struct hx_web *web, uint64_t exchange,
                            const struct hx_web_answer *answer)
{
    struct server *server = server_of(web);
    struct conn *conn = find(server, exchange);
    struct hx_buf head;

    if (conn == NULL)
        return;
    hx_assert(conn->state == CONN_WAITING);
    /* HTTP/1.0 knows no chunks: there the end of the connection is the end of the answer. */
    conn->is_chunked_out = !conn->is_minor_0;
    if (answer->close || server->is_draining || conn->is_minor_0)
        conn->is_keep_alive = false;
    hx_buf_init(&head, HEAD_MAX);
    write_headers(conn, &head, answer->status, answer->headers, answer->header_count);
    if (conn->is_chunked_out)
        (void)hx_buf_append_cstr(&head, "Transfer-Encoding: chunked\r\n");
    (void)hx_buf_append_cstr(&head, "\r\n");
    conn->state = CONN_STREAMING;
    if (hx_buf_ok(&head)) {
        hx_outgoing_add_parts(&conn->out, &head, NULL, hx_span("", 0), 0);
        answer_write(conn);
    } else {
        conn_gone(conn, HX_WEB_GONE_OURS);
    }
    hx_buf_fini(&head);
    server_reap(server);
}

static void op_stream_event(struct hx_web *web, uint64_t exchange, struct hx_buf *bytes,
                            uint64_t tag)
{
    struct server *server = server_of(web);
    struct conn *conn = find(server, exchange);
    bool is_streaming = conn != NULL && conn->state == CONN_STREAMING;
    char text[HX_CHUNKED_PREFIX_MAX];
    struct hx_buf prefix;

    hx_assert(bytes->len > 0);
    hx_buf_init(&prefix, sizeof text);
    if (!is_streaming || conn->is_head_only ||
        conn->out.queued_bytes > server->options.queue_max_bytes ||
        hx_buf_append(&prefix, text, hx_chunked_prefix(bytes->len, text)) < 0) {
        tell(server, HX_WEB_NOT_SENT, tag);
        hx_buf_fini(bytes);
        if (is_streaming && !conn->is_head_only)
            conn_gone(conn, HX_WEB_GONE_SLOW);
    } else if (conn->is_chunked_out) {
        hx_outgoing_add_parts(&conn->out, &prefix, bytes, HX_CHUNKED_SUFFIX, tag);
        answer_write(conn);
    } else {
        hx_outgoing_add_parts(&conn->out, NULL, bytes, hx_span("", 0), tag);
        answer_write(conn);
    }
    hx_buf_fini(&prefix);
    if (is_streaming && conn->out.queued_bytes > 0)
        bound_answers(server);
    server_reap(server);
}

static void op_stream_end(struct hx_web *web, uint64_t exchange)
{
    struct server *server = server_of(web);
    struct conn *conn = find(server, exchange);

    if (conn == NULL || conn->state != CONN_STREAMING)
        return;
    if (conn->is_chunked_out && !conn->is_head_only)
        hx_outgoing_add_parts(&conn->out, NULL, NULL, HX_CHUNKED_LAST, 0);
    conn->state = CONN_FLUSHING;
    answer_write(conn);
    if (conn->state != CONN_CLOSED)
        conn_drive(conn);
    server_reap(server);
}

static uint64_t op_queued_bytes(struct hx_web *web, uint64_t exchange)
{
    const struct conn *conn = find(server_of(web), exchange);

    return conn != NULL ? conn->out.queued_bytes : 0;
}

static bool op_is_alive(struct hx_web *web, uint64_t exchange)
{
    struct conn *conn = find(server_of(web), exchange);
    enum hx_web_gone reason;

    /* What the kernel told here once it may not tell again: so the end is settled now. */
    if (conn == NULL || !conn_is_gone(conn, &reason))
        return conn != NULL;
    conn_gone(conn, reason);
    server_reap(server_of(web));
    return false;
}

static void op_cut(struct hx_web *web, uint64_t exchange)
{
    struct conn *conn = find(server_of(web), exchange);

    if (conn != NULL)
        conn_gone(conn, HX_WEB_GONE_OURS);
    server_reap(server_of(web));
}

static void op_hold(struct hx_web *web, bool is_held)
{
    struct server *server = server_of(web);

    server->is_held = is_held;
    listeners_update(server);
    if (is_held)
        return;
    hx_list_for_each_safe (node, &server->conns) {
        struct conn *conn = hx_container_of(node, struct conn, node);
        intake_resume(conn);
        if (conn->state != CONN_CLOSED)
            conn_drive(conn);
    }
    server_reap(server);
}

static void op_drain(struct hx_web *web)
{
    struct server *server = server_of(web);

    server->is_draining = true;
    listeners_close(server);
    hx_list_for_each_safe (node, &server->idle)
        conn_linger(hx_container_of(node, struct conn, idle));
    server_reap(server);
}

static void op_close(struct hx_web *web)
{
    struct server *server = server_of(web);

    server->is_draining = true;
    listeners_close(server);
    hx_list_for_each_safe (node, &server->conns)
        conn_gone(hx_container_of(node, struct conn, node), HX_WEB_GONE_OURS);
    server_reap(server);
}

const struct hx_web_ops answer_ops = {
    .answer = op_answer,
    .stream_begin = op_stream_begin,
    .stream_event = op_stream_event,
    .stream_end = op_stream_end,
    .queued_bytes = op_queued_bytes,
    .is_alive = op_is_alive,
    .cut = op_cut,
    .hold = op_hold,
    .drain = op_drain,
    .close = op_close,
};
