/* SPDX-License-Identifier: MIT */
/*
 * From bytes to requests: heads, bodies, and what is refused on the way. A request is handed over
 * whole, and the next one of the connection is not looked at before it is answered.
 */
#include <stdio.h>

#include "adapter/http_server/internal.h"
#include "base/alloc.h"

static struct hx_span unused(const struct conn *conn)
{
    struct hx_span all = hx_buf_span(&conn->in);

    return hx_span(all.ptr + conn->in_offset, all.len - conn->in_offset);
}

/* Forgets `count` bytes; the last of them give the memory back, so that a silent connection costs
 * none. */
static void use(struct conn *conn, size_t count)
{
    conn->in_offset += count;
    hx_assert(conn->in_offset <= conn->in.len);
    if (conn->in_offset < conn->in.len)
        return;
    hx_buf_fini(&conn->in);
    conn->in_offset = 0;
}

void intake_drop(struct conn *conn)
{
    if (conn->request != NULL)
        conn->server->body_bytes -= conn->request->body.len;
    conn->request = hx_web_request_free(conn->request);
    hx_buf_fini(&conn->in);
    conn->in_offset = 0;
}

/* --- a whole request --- */

static void hand_over(struct conn *conn)
{
    struct server *server = conn->server;
    struct hx_web_event *event = server_event(server, HX_WEB_REQUEST);

    server->body_bytes -= conn->request->body.len;
    conn->exchange = ++server->last_number << SLOT_BITS | conn->slot;
    conn->state = CONN_WAITING;
    conn_deadline(conn, -1);
    event->connection = conn->number;
    event->exchange = conn->exchange;
    event->request = conn->request;
    conn->request = NULL;
}

/* --- bodies --- */

/* False when it was refused. */
static bool body_add(struct conn *conn, struct hx_span bytes)
{
    struct server *server = conn->server;
    struct hx_buf *body = &conn->request->body;

    if (bytes.len > server->options.message_max_bytes - body->len) {
        answer_refuse(conn, 413, "the body is larger than this server takes");
        return false;
    }
    if (server->body_bytes + bytes.len > server->options.bodies_max_bytes ||
        hx_buf_append_span(body, bytes) < 0) {
        answer_refuse(conn, 503, "too much is being received at this moment; try again");
        return false;
    }
    server->body_bytes += bytes.len;
    return true;
}

/* Bytes of a body of known length. Returns how many were used. */
static size_t body_plain(struct conn *conn, struct hx_span bytes)
{
    size_t len = conn->body_left < bytes.len ? (size_t)conn->body_left : bytes.len;

    if (!body_add(conn, hx_span(bytes.ptr, len)))
        return 0;
    conn->body_left -= len;
    if (conn->body_left == 0)
        hand_over(conn);
    return len;
}

static size_t body_chunked(struct conn *conn, struct hx_span bytes)
{
    struct hx_span input = bytes;
    struct hx_span data;
    int rc;

    while ((rc = hx_chunked_next(&conn->chunked, &input, &data)) == 0) {
        if (!body_add(conn, data))
            return 0;
    }
    if (rc == HX_CHUNKED_END)
        hand_over(conn);
    else if (rc == HX_CHUNKED_BAD)
        answer_refuse(conn, 400, "the chunks of the body are malformed");
    return bytes.len - input.len;
}

/* The deadline moves with what comes, at the slowest rate that is tolerated. */
static void body_deadline(struct conn *conn)
{
    const struct hx_http_server_options *options = &conn->server->options;
    struct hx_mono now = hx_loop_now(conn->server->loop);
    int64_t earned_ms = (int64_t)(conn->request->body.len * 1000 / options->rate_min_bytes);
    int64_t left_ms =
        options->body_timeout_ms + earned_ms - hx_mono_since_ms(now, conn->body_started);

    conn_deadline(conn, left_ms > 0 ? left_ms : 0);
}

static size_t body_bytes(struct conn *conn, struct hx_span bytes)
{
    size_t used = conn->is_chunked_in ? body_chunked(conn, bytes) : body_plain(conn, bytes);

    if (conn->state == CONN_BODY)
        body_deadline(conn);
    else if (conn->state != CONN_WAITING)
        return 0; /* refused: nothing more is used, and the buffer is gone */
    return used;
}

/* --- heads --- */

static void take_headers(struct hx_web_request *request, const struct hx_http1_head *head)
{
    request->method = head->method;
    request->target = head->target;
    request->path = head->path;
    request->query = head->query;
    request->host = head->host;
    request->version_minor = head->version_minor;
    request->header_count = head->header_count;
    if (head->header_count == 0)
        return;
    request->headers = hx_new_bytes(head->header_count * sizeof *request->headers);
    for (uint32_t i = 0; i < head->header_count; i++)
        request->headers[i] = (struct hx_web_header){head->headers[i].name, head->headers[i].value};
}

static void body_begin(struct conn *conn, const struct hx_http1_head *head)
{
    struct server *server = conn->server;

    conn->is_chunked_in = head->is_chunked;
    conn->chunked = (struct hx_chunked){0};
    conn->body_left = head->has_length ? head->length : 0;
    if (!head->is_chunked && conn->body_left == 0) {
        hand_over(conn);
        return;
    }
    if (conn->body_left > server->options.message_max_bytes) {
        answer_refuse(conn, 413, "the body is larger than this server takes");
        return;
    }
    conn->state = CONN_BODY;
    conn->body_started = hx_loop_now(server->loop);
    body_deadline(conn);
    if (head->expects_continue && unused(conn).len == 0)
        answer_continue(conn);
}

static void head_read(struct conn *conn, struct hx_span bytes)
{
    struct server *server = conn->server;
    struct hx_web_request *request =
        hx_web_request_new(bytes.len, server->options.message_max_bytes);
    struct hx_http1_head head;
    enum hx_http1_fault fault;

    conn->request = request;
    if (hx_buf_append_span(&request->head, bytes) < 0) {
        answer_refuse(conn, 503, "no memory for this request at this moment; try again");
        return;
    }
    fault =
        hx_http1_read_request(hx_buf_span(&request->head), server->headers, &server->limits, &head);
    if (fault != HX_HTTP1_OK) {
        answer_refuse(conn, hx_http1_fault_status(fault), hx_http1_fault_text(fault));
        return;
    }
    take_headers(request, &head);
    (void)snprintf(request->peer, sizeof request->peer, "%s", conn->peer);
    request->is_local = conn->is_local;
    request->is_secure = conn->tls != NULL;
    conn->is_keep_alive = head.is_keep_alive && !server->is_draining;
    conn->is_minor_0 = head.version_minor == 0;
    conn->is_head_only = hx_span_eq_cstr(head.method, "HEAD");
    use(conn, bytes.len);
    body_begin(conn, &head);
}

/* False when more must come. */
static bool head_bytes(struct conn *conn)
{
    struct hx_span bytes = unused(conn);
    enum hx_http1_fault fault;
    size_t len;

    if (!hx_list_is_empty(&conn->idle)) {
        /* The first byte of a request: from now on it has to come. */
        hx_list_unlink(&conn->idle);
        conn_deadline(conn, conn->server->options.head_timeout_ms);
    }
    fault = hx_http1_scan(&conn->scan, bytes, &conn->server->limits, &len);
    if (fault == HX_HTTP1_MORE)
        return false;
    if (fault != HX_HTTP1_OK) {
        answer_refuse(conn, hx_http1_fault_status(fault), hx_http1_fault_text(fault));
        return false;
    }
    head_read(conn, hx_span(bytes.ptr, len));
    return true;
}

void intake_resume(struct conn *conn)
{
    while (unused(conn).len > 0 && !conn->server->is_held) {
        if (conn->state == CONN_HEAD) {
            if (!head_bytes(conn))
                return;
        } else if (conn->state == CONN_BODY) {
            size_t used = body_bytes(conn, unused(conn));
            if (used > 0)
                use(conn, used);
        } else {
            return;
        }
    }
}

void intake_bytes(struct conn *conn, struct hx_span bytes)
{
    if (conn->state == CONN_LINGER)
        return;
    /* The middle of a body goes straight to it. */
    if (conn->state == CONN_BODY && unused(conn).len == 0) {
        size_t used = body_bytes(conn, bytes);
        bytes = hx_span(bytes.ptr + used, bytes.len - used);
    }
    if (bytes.len == 0 || (conn->state != CONN_HEAD && conn->state != CONN_WAITING))
        return;
    /* Between two heads the buffer starts anew, so that it never holds more than one and a read. */
    hx_buf_consume(&conn->in, conn->in_offset);
    conn->in_offset = 0;
    if (hx_buf_append_span(&conn->in, bytes) < 0) {
        answer_refuse(conn, 503, "no memory for this request at this moment; try again");
        return;
    }
    intake_resume(conn);
}
