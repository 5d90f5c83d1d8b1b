/* SPDX-License-Identifier: MIT */
/*
 * The client's side of `hapax run`.
 *
 * The hard question here is not how to write but what became of it, so the death of the reader is
 * watched for even when there is nothing to write, and settled at that moment, while the kernel
 * still knows what was left unread (receipts.c).
 */
#include "adapter/stdio_front/stdio_front.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/stdio_front/private_fd.h"
#include "adapter/stdio_front/receipts.h"
#include "base/alloc.h"
#include "loop/fd_state.h"
#include "loop/outgoing.h"
#include "wire/lines.h"

enum {
    READ_BYTES = 1 << 16, /* one client's share of a turn */
    LOOK_FIRST_MS = 1,
    LOOK_MAX_MS = 1024,
    PATIENCE_MS = 1000 /* with a client that says no more, until it has read what it was told */
};

struct front {
    struct hx_downstream downstream;
    int in_fd; /* -1 = closed */
    int out_fd;
    int life_fd;
    enum hx_fd_kind in_kind;
    struct hx_loop_fd *in_watch;
    struct hx_loop_fd *out_watch;
    struct hx_loop_fd *life_watch;
    struct hx_loop_timer *look_timer; /* when to look again whether all was read */
    int64_t look_ms;
    int64_t patience_ms; /* what is left of it */
    struct hx_lines lines;
    struct hx_hasher *hasher;
    struct hx_outgoing outgoing;
    struct hx_receipts receipts;
    bool is_front_gone;
};

static struct front *front_of(struct hx_downstream *downstream)
{
    return hx_container_of(downstream, struct front, downstream);
}

static struct hx_peer_event *append(struct front *front, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);

    event->tag = tag;
    event->downstream = &front->downstream;
    hx_list_append(front->downstream.inbox, &event->node);
    return event;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- requests --- */

static void append_oversize(struct front *front, const struct hx_line *line)
{
    struct hx_peer_event *event = append(front, HX_PEER_OVERSIZE, 0);

    event->size = line->size;
    event->has_method = line->skim.has_method;
    event->has_result = line->skim.has_result;
    event->has_error = line->skim.has_error;
    hx_digest_hex(&line->digest, event->digest_hex);
    (void)hx_buf_append_span(&event->line, line->text); /* short of memory: without its id */
}

static void append_line(struct front *front, struct hx_line *line)
{
    struct hx_peer_event *event;
    struct hx_buf text;

    if (line->kind == HX_LINE_OVERSIZE) {
        append_oversize(front, line);
        return;
    }
    /* A header of another framing is no message either; the engine says so to whom it concerns. */
    hx_buf_init(&text, line->text.len);
    if (hx_buf_append_span(&text, line->text) != 0) {
        /* Without memory for it, it was too long. */
        hx_buf_fini(&text);
        hx_lines_refuse(&front->lines, line);
        append_oversize(front, line);
        return;
    }
    event = append(front, HX_PEER_MESSAGE, 0);
    text.len_max = event->line.len_max;
    hx_buf_fini(&event->line);
    event->line = text;
}

static void lines_feed(struct front *front, const char *bytes, size_t len)
{
    struct hx_span input = hx_span(bytes, len);
    struct hx_line line;

    while (hx_lines_next(&front->lines, &input, &line))
        append_line(front, &line);
}

static void lines_end(struct front *front)
{
    struct hx_line line;

    if (hx_lines_end(&front->lines, &line))
        append_line(front, &line);
}

static void in_close(struct front *front)
{
    front->in_watch = hx_loop_fd_free(front->in_watch);
    fd_close(&front->in_fd);
}

/* A socket has to be asked again and again. So has a pipe before we leave: its reader is alive, and
 * nothing tells that it has read the rest. */
static void look_soon(struct front *front)
{
    bool must_ask = front->receipts.kind == HX_FD_SOCKET || front->in_fd < 0;

    if (!must_ask || front->out_fd < 0 || hx_receipts_is_empty(&front->receipts))
        return;
    front->look_ms = LOOK_FIRST_MS;
    front->patience_ms = PATIENCE_MS;
    hx_loop_timer_set(front->look_timer, front->look_ms);
}

static void in_ready(void *arg, unsigned events)
{
    struct front *front = arg;
    char bytes[READ_BYTES];
    ssize_t len;

    (void)events;
    if (front->in_kind == HX_FD_SOCKET)
        len = recv(front->in_fd, bytes, sizeof bytes, MSG_DONTWAIT);
    else
        len = read(front->in_fd, bytes, sizeof bytes);
    if (len > 0) {
        lines_feed(front, bytes, (size_t)len);
        return;
    }
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    /* Any error is an end as well. When both directions are one socket, this one is about what we
     * wrote: the kernel tells it to whoever asks first. */
    if (len < 0 && errno == ECONNRESET)
        front->receipts.was_reset = true;
    lines_end(front);
    in_close(front);
    look_soon(front);
    append(front, HX_PEER_END_OF_INPUT, 0);
}

/* --- answers --- */

static void message_fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate)
{
    struct front *front = arg;

    switch (fate) {
    case HX_OUTGOING_FIRST_BYTE:
        break;
    case HX_OUTGOING_WRITTEN:
        append(front, HX_PEER_WRITTEN, tag);
        hx_receipts_add(&front->receipts, tag, front->outgoing.written_bytes);
        break;
    case HX_OUTGOING_NOT_SENT:
        append(front, HX_PEER_NOT_SENT, tag);
        break;
    case HX_OUTGOING_CUT:
        append(front, HX_PEER_CUT, tag);
        break;
    }
}

static void message_taken_back(void *arg, uint64_t tag)
{
    append(arg, HX_PEER_TAKEN_BACK, tag);
}

static void out_close(struct front *front)
{
    front->out_watch = hx_loop_fd_free(front->out_watch);
    hx_loop_timer_clear(front->look_timer);
    hx_outgoing_abandon(&front->outgoing);
    fd_close(&front->out_fd);
}

static void reader_gone(struct front *front)
{
    hx_outgoing_abandon(&front->outgoing);
    hx_receipts_settle(&front->receipts, front->out_fd, front->outgoing.written_bytes,
                       message_taken_back, front);
    out_close(front);
    append(front, HX_PEER_READER_GONE, 0);
}

/* Asks the kernel now. A file has no reader that could go. */
static bool is_open_at_far_end(int fd)
{
    return (hx_fd_state(fd, 0) & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

static void write_some(struct front *front)
{
    uint64_t before = front->outgoing.written_bytes;
    int rc = hx_outgoing_write(&front->outgoing, front->out_fd);

    if (rc == HX_OUTGOING_BROKEN) {
        if (front->outgoing.broken_errno == ECONNRESET)
            front->receipts.was_reset = true;
        reader_gone(front);
        return;
    }
    /* While blocked the write interest tells of the reader's death too. The two are never mixed: an
     * edge that was not used up, because a turn's share was, would not come again. */
    hx_loop_fd_want(front->out_watch,
                    rc == HX_OUTGOING_BLOCKED ? HX_LOOP_WRITE : HX_LOOP_READ | HX_LOOP_EDGE);
    if (front->outgoing.written_bytes == before)
        return;
    hx_receipts_look(&front->receipts, front->out_fd, front->outgoing.written_bytes);
    look_soon(front);
}

static void look_due(void *arg)
{
    struct front *front = arg;

    hx_receipts_look(&front->receipts, front->out_fd, front->outgoing.written_bytes);
    if (hx_receipts_is_empty(&front->receipts))
        return;
    front->patience_ms -= front->look_ms;
    if (front->in_fd < 0 && front->patience_ms <= 0) {
        hx_receipts_give_up(&front->receipts, front->out_fd, front->outgoing.written_bytes,
                            message_taken_back, front);
        return;
    }
    if (front->look_ms < LOOK_MAX_MS)
        front->look_ms *= 2;
    hx_loop_timer_set(front->look_timer, front->look_ms);
}

static void out_ready(void *arg, unsigned events)
{
    struct front *front = arg;

    (void)events;
    /* Settle first: a write would meet the error and use it up. */
    if (!is_open_at_far_end(front->out_fd))
        reader_gone(front);
    else if (!hx_outgoing_is_empty(&front->outgoing))
        write_some(front);
}

/* --- the front's life --- */

static void life_ready(void *arg, unsigned events)
{
    struct front *front = arg;
    char byte;
    ssize_t len = read(front->life_fd, &byte, 1);

    (void)events;
    if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    front->is_front_gone = true;
    front->life_watch = hx_loop_fd_free(front->life_watch);
    fd_close(&front->life_fd);
    append(front, HX_PEER_FRONT_GONE, 0);
}

/* --- the port --- */

static void send_line(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct front *front = front_of(downstream);

    if (front->out_fd < 0) {
        hx_buf_fini(line);
        append(front, HX_PEER_NOT_SENT, sending->tag);
        return;
    }
    hx_outgoing_add(&front->outgoing, line, sending->tag);
    write_some(front);
}

static uint64_t queued_bytes(struct hx_downstream *downstream)
{
    const struct front *front = front_of(downstream);
    /* Who says no more is still waited for, or nobody would learn that he did not read the rest. */
    bool is_awaited =
        front->in_fd < 0 && front->out_fd >= 0 && !hx_receipts_is_empty(&front->receipts);

    return front->outgoing.queued_bytes + (is_awaited ? 1 : 0);
}

static bool is_reader_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct front *front = front_of(downstream);
    (void)exchange;

    if (front->is_front_gone || front->out_fd < 0 || !is_open_at_far_end(front->out_fd))
        return false;
    return front->life_fd < 0 || is_open_at_far_end(front->life_fd);
}

static void hold(struct hx_downstream *downstream, bool is_held)
{
    struct front *front = front_of(downstream);

    if (front->in_watch != NULL)
        hx_loop_fd_want(front->in_watch, is_held ? 0 : HX_LOOP_READ);
}

static void close_both(struct hx_downstream *downstream)
{
    struct front *front = front_of(downstream);

    in_close(front);
    if (front->out_fd < 0)
        return;
    /* The last moment at which the kernel can tell what a dead reader left. */
    if (!is_open_at_far_end(front->out_fd)) {
        reader_gone(front);
        return;
    }
    hx_outgoing_abandon(&front->outgoing);
    hx_receipts_give_up(&front->receipts, front->out_fd, front->outgoing.written_bytes,
                        message_taken_back, front);
    out_close(front);
}

static const struct hx_downstream_ops front_ops = {
    .send = send_line,
    .queued_bytes = queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
};

struct hx_stdio_front_options hx_stdio_front_defaults(void)
{
    return (struct hx_stdio_front_options){
        .in_fd = -1, .out_fd = -1, .life_fd = -1, .message_max_bytes = 64 << 20};
}

struct hx_downstream *hx_stdio_front_new(struct hx_loop *loop, struct hx_list *inbox,
                                         const struct hx_stdio_front_options *options)
{
    struct front *front = hx_new(struct front);

    front->downstream = (struct hx_downstream){.ops = &front_ops, .inbox = inbox};
    front->in_fd = hx_private_fd(options->in_fd);
    front->out_fd = hx_private_fd(options->out_fd);
    front->life_fd = options->life_fd;
    front->in_kind = hx_fd_kind(front->in_fd);
    hx_receipts_init(&front->receipts, hx_fd_kind(front->out_fd));
    hx_outgoing_init(&front->outgoing, front->receipts.kind == HX_FD_SOCKET, message_fate, front);
    front->hasher = hx_hasher_new();
    hx_lines_init(&front->lines, options->message_max_bytes, front->hasher);
    front->look_timer = hx_loop_timer_new(loop, look_due, front);
    front->in_watch = hx_loop_fd_new(loop, front->in_fd, in_ready, front);
    hx_loop_fd_want(front->in_watch, HX_LOOP_READ);
    front->out_watch = hx_loop_fd_new(loop, front->out_fd, out_ready, front);
    hx_loop_fd_want(front->out_watch, HX_LOOP_READ | HX_LOOP_EDGE);
    if (front->life_fd >= 0) {
        front->life_watch = hx_loop_fd_new(loop, front->life_fd, life_ready, front);
        hx_loop_fd_want(front->life_watch, HX_LOOP_READ);
    }
    return &front->downstream;
}

struct hx_downstream *hx_stdio_front_free(struct hx_downstream *downstream)
{
    struct front *front;

    if (downstream == NULL)
        return NULL;
    front = front_of(downstream);
    hx_loop_fd_free(front->in_watch);
    hx_loop_fd_free(front->out_watch);
    hx_loop_fd_free(front->life_watch);
    hx_loop_timer_free(front->look_timer);
    fd_close(&front->in_fd);
    fd_close(&front->out_fd);
    fd_close(&front->life_fd);
    hx_outgoing_fini(&front->outgoing);
    hx_receipts_fini(&front->receipts);
    hx_lines_fini(&front->lines);
    hx_hasher_free(front->hasher);
    hx_free(front);
    return NULL;
}
