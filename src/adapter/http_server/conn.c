/* SPDX-License-Identifier: MIT */
/*
 * The life of one connection: its states are drawn in internal.h.
 *
 * Everything happens in conn_drive(): it writes what waits, reads what came and looks whether the
 * client is there, until nothing more can be done without a new edge. What was not finished because
 * the turn's share was used up is driven again in the next turn.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/http_server/internal.h"
#include "base/alloc.h"
#include "loop/fd_state.h"

static void conn_ready(void *arg, unsigned events);
static void conn_due(void *arg);

void conn_open(struct server *server, int fd, bool is_local, struct hx_tls *tls, const char *peer)
{
    struct conn *conn = hx_new(struct conn);

    hx_assert(server->free_slot_count > 0);
    hx_list_append(&server->conns, &conn->node);
    hx_list_init(&conn->idle);
    hx_list_init(&conn->again);
    conn->server = server;
    conn->fd = fd;
    conn->is_local = is_local;
    (void)snprintf(conn->peer, sizeof conn->peer, "%s", peer);
    conn->number = ++server->last_number;
    conn->slot = server->free_slots[--server->free_slot_count];
    server->slots[conn->slot] = conn;
    server->conn_count++;
    hx_buf_init(&conn->in, server->options.head_max_bytes + SCRATCH_BYTES);
    hx_outgoing_init(&conn->out, true, answer_fate, conn);
    if (tls != NULL) {
        conn->tls = tls;
        conn->out.write = hx_tls_write;
        conn->out.write_arg = tls;
    }
    conn->state = tls != NULL ? CONN_HANDSHAKE : CONN_HEAD;
    hx_web_receipts_init(&conn->receipts);
    conn->deadline.ms = conn->timer_at.ms = INT64_MAX;
    conn->timer = hx_loop_timer_new(server->loop, conn_due, conn);
    conn->watch = hx_loop_fd_new(server->loop, fd, conn_ready, conn);
    hx_loop_fd_want(conn->watch, HX_LOOP_READ | HX_LOOP_WRITE | HX_LOOP_EDGE);
    hx_list_append(&server->idle, &conn->idle);
    conn_deadline(conn, server->options.head_timeout_ms);
}

/* From here on nothing is called for it. It is freed by server_reap. */
static void conn_close(struct conn *conn)
{
    struct server *server = conn->server;

    hx_assert(conn->state != CONN_CLOSED);
    conn->state = CONN_CLOSED;
    conn->watch = hx_loop_fd_free(conn->watch);
    conn->timer = hx_loop_timer_free(conn->timer);
    conn->tls = hx_tls_free(conn->tls);
    (void)close(conn->fd);
    conn->fd = -1;
    intake_drop(conn);
    hx_list_unlink(&conn->idle);
    hx_list_unlink(&conn->again);
    hx_list_unlink(&conn->node);
    hx_list_append(&server->dead, &conn->node);
    server->slots[conn->slot] = NULL;
    server->free_slots[server->free_slot_count++] = conn->slot;
    server->conn_count--;
}

void conn_free(struct conn *conn)
{
    if (conn->state != CONN_CLOSED)
        conn_close(conn);
    hx_list_unlink(&conn->node);
    hx_outgoing_fini(&conn->out);
    hx_web_receipts_clear(&conn->receipts);
    hx_free(conn);
}

/* --- time --- */

void conn_deadline(struct conn *conn, int64_t after_ms)
{
    if (after_ms < 0) {
        conn->deadline.ms = INT64_MAX;
        return;
    }
    conn->deadline = hx_mono_after(hx_loop_now(conn->server->loop), after_ms);
    /* A later deadline waits for the timer to come: most are put off again before. */
    if (conn->deadline.ms < conn->timer_at.ms) {
        conn->timer_at = conn->deadline;
        hx_loop_timer_set_at(conn->timer, conn->deadline);
    }
}

static void deadline_passed(struct conn *conn)
{
    /* What we do not read cannot be late. */
    if (conn->server->is_held && (conn->state == CONN_HEAD || conn->state == CONN_BODY)) {
        conn_deadline(conn, conn->server->options.head_timeout_ms);
        return;
    }
    switch (conn->state) {
    case CONN_HANDSHAKE:
    case CONN_LINGER:
        conn_gone(conn, HX_WEB_GONE_OURS);
        break;
    case CONN_HEAD:
        if (conn->in.len > 0)
            answer_refuse(conn, 408, "the head of the request did not come in time");
        else
            conn_gone(conn, HX_WEB_GONE_OURS);
        break;
    case CONN_BODY:
        answer_refuse(conn, 408, "the body of the request did not come in time");
        break;
    case CONN_STREAMING:
        if (hx_outgoing_is_empty(&conn->out)) {
            answer_ping(conn);
            break;
        }
        conn_gone(conn, HX_WEB_GONE_SLOW);
        break;
    case CONN_WAITING:
    case CONN_FLUSHING:
        conn_gone(conn, HX_WEB_GONE_SLOW);
        break;
    case CONN_CLOSED:
        break;
    }
}

static void conn_due(void *arg)
{
    struct conn *conn = arg;
    struct server *server = conn->server;

    conn->timer_at.ms = INT64_MAX;
    if (hx_mono_reached(hx_loop_now(server->loop), conn->deadline)) {
        deadline_passed(conn);
    } else if (conn->deadline.ms != INT64_MAX) {
        conn->timer_at = conn->deadline;
        hx_loop_timer_set_at(conn->timer, conn->deadline);
    }
    server_reap(server);
}

/* --- the client's end --- */

bool conn_is_gone(struct conn *conn, enum hx_web_gone *ret_reason)
{
    socklen_t len = sizeof(int);
    int error = 0;

    if ((hx_fd_state(conn->fd, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0)
        return false;
    (void)getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    *ret_reason = error != 0 ? HX_WEB_GONE_RESET : HX_WEB_GONE_CLOSED;
    return true;
}

static void tell_taken_back(void *arg, uint64_t tag)
{
    struct conn *conn = arg;

    server_event(conn->server, HX_WEB_TAKEN_BACK)->tag = tag;
}

/* Bytes of the stream that have certainly been read, after an orderly end. */
static uint64_t acknowledged(const struct conn *conn)
{
    uint64_t written = conn->out.written_bytes;
    int unread = 0;

    if (conn->is_local || ioctl(conn->fd, SIOCOUTQ, &unread) != 0)
        return written;
    if (conn->tls != NULL)
        return unread == 0 ? written : 0;
    /* Our end of file counts as a byte. */
    if (conn->is_shut && unread > 0)
        unread--;
    return written - ((uint64_t)unread < written ? (uint64_t)unread : written);
}

static void settle_receipts(struct conn *conn, enum hx_web_gone reason)
{
    struct hx_mono now = hx_loop_now(conn->server->loop);
    int64_t within_ms = conn->server->options.taken_back_within_ms;

    hx_web_receipts_forget_until(&conn->receipts, hx_mono_after(now, -within_ms));
    if (reason != HX_WEB_GONE_RESET && reason != HX_WEB_GONE_SLOW)
        hx_web_receipts_forget_read(&conn->receipts, acknowledged(conn));
    hx_web_receipts_settle(&conn->receipts, tell_taken_back, conn);
}

bool conn_has_input(const struct conn *conn)
{
    int waiting = 0;

    return ioctl(conn->fd, FIONREAD, &waiting) != 0 || waiting > 0;
}

void conn_gone(struct conn *conn, enum hx_web_gone reason)
{
    bool is_told = conn->state == CONN_WAITING || conn->state == CONN_STREAMING;
    uint64_t exchange = conn->exchange;

    hx_outgoing_abandon(&conn->out);
    settle_receipts(conn, reason);
    if (is_told) {
        struct hx_web_event *event = server_event(conn->server, HX_WEB_CLIENT_GONE);
        event->exchange = exchange;
        event->gone = reason;
    }
    conn_close(conn);
}

/* --- between exchanges --- */

void conn_linger(struct conn *conn)
{
    if (conn->tls != NULL)
        hx_tls_end(conn->tls);
    (void)shutdown(conn->fd, SHUT_WR);
    conn->is_shut = true;
    conn->state = CONN_LINGER;
    hx_list_unlink(&conn->idle);
    hx_buf_fini(&conn->in);
    conn->in_offset = 0;
    conn_deadline(conn, conn->server->options.linger_timeout_ms);
}

void conn_next_request(struct conn *conn)
{
    struct server *server = conn->server;

    conn->exchange = 0;
    conn->is_chunked_out = false;
    conn->flush_end.ms = 0;
    if (!conn->is_keep_alive || server->is_draining) {
        conn_linger(conn);
        return;
    }
    conn->state = CONN_HEAD;
    conn->scan = (struct hx_http1_scan){0};
    hx_list_append(&server->idle, &conn->idle);
    if (server->free_slot_count == 0)
        listeners_update(server); /* there is one to evict */
    conn_deadline(conn, server->options.idle_timeout_ms);
    intake_resume(conn);
}

/* --- reading --- */

/* 1: bytes were used. 0: nothing more now, or the connection is closed. */
static int read_once(struct conn *conn)
{
    struct server *server = conn->server;
    ssize_t len;

    do {
        len = conn->tls != NULL ? hx_tls_read(conn->tls, server->scratch, SCRATCH_BYTES)
                                : recv(conn->fd, server->scratch, SCRATCH_BYTES, MSG_DONTWAIT);
    } while (len < 0 && errno == EINTR);
    if (len > 0) {
        /* The client has seen the answer before it sends the next request, unless that was on its
         * way already. */
        if (conn->state == CONN_HEAD && conn->in.len == 0 && !conn->is_ahead)
            hx_web_receipts_clear(&conn->receipts);
        conn->is_ahead = false;
        intake_bytes(conn, hx_span(server->scratch, (size_t)len));
        /* TCP gave all that it had; what comes later has an edge, and an end of file that was there
         * already will be asked for. Saves the read that would find nothing. */
        if (conn->state == CONN_WAITING && !conn->is_local && conn->tls == NULL &&
            (size_t)len < SCRATCH_BYTES)
            conn->is_readable = false;
        return 1;
    }
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        conn->is_readable = false;
        return 0;
    }
    conn_gone(conn, len == 0 ? HX_WEB_GONE_CLOSED : HX_WEB_GONE_RESET);
    return 0;
}

static bool wants_input(const struct conn *conn)
{
    if (conn->state == CONN_LINGER)
        return true;
    return (conn->state == CONN_HEAD || conn->state == CONN_BODY) && !conn->server->is_held;
}

static bool is_answering(const struct conn *conn)
{
    return conn->state == CONN_WAITING || conn->state == CONN_STREAMING ||
           conn->state == CONN_FLUSHING;
}

static void drive_again(struct conn *conn)
{
    struct server *server = conn->server;

    if (conn->again.next == &conn->again)
        hx_list_append(&server->again, &conn->again);
    if (!hx_loop_timer_is_set(server->again_timer))
        hx_loop_timer_set(server->again_timer, 0);
}

/* True when it is done. */
static bool shake_hands(struct conn *conn)
{
    int rc = hx_tls_handshake(conn->tls);

    if (rc == 0)
        conn->state = CONN_HEAD;
    else if (rc == HX_TLS_FAILED)
        conn_gone(conn, HX_WEB_GONE_OURS);
    return rc == 0;
}

void conn_drive(struct conn *conn)
{
    enum hx_web_gone reason;

    if (conn->state == CONN_HANDSHAKE && !shake_hands(conn))
        return;
    if (!hx_outgoing_is_empty(&conn->out))
        answer_write(conn);
    for (unsigned reads = 0; wants_input(conn) && conn->is_readable; reads++) {
        if (reads == READS_PER_TURN) {
            drive_again(conn);
            return;
        }
        if (read_once(conn) == 0)
            break;
    }
    /* An end of file may have come with the request itself, and then has no edge of its own. */
    if (is_answering(conn) && conn_is_gone(conn, &reason))
        conn_gone(conn, reason);
    else if (conn->state != CONN_CLOSED && conn->out.is_share_used)
        drive_again(conn);
}

static void conn_ready(void *arg, unsigned events)
{
    struct conn *conn = arg;
    struct server *server = conn->server;

    if ((events & HX_LOOP_READ) != 0)
        conn->is_readable = true;
    conn_drive(conn);
    server_reap(server);
}
