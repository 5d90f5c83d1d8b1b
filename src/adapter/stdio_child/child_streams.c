/* SPDX-License-Identifier: MIT */
/*
 * The exact fate of every message is told from what the kernel took (loop/outgoing.h). A stall is a
 * line half written and nothing else: messages that have not begun can still be taken back.
 */
#include "adapter/stdio_child/child_streams.h"

#include <errno.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 16,
    TURN_BYTES = 1 << 18,      /* one child's share of a turn */
    LAST_DRAIN_BYTES = 1 << 20 /* no pipe of an ordinary user holds more */
};

struct hx_peer_event *hx_child_streams_append(struct hx_child_streams *streams,
                                              enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, streams->generation);

    event->tag = tag;
    event->upstream = streams->upstream;
    hx_list_append(streams->upstream->inbox, &event->node);
    return event;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- in --- */

static void message_fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate)
{
    static const enum hx_peer_event_type types[] = {
        [HX_OUTGOING_FIRST_BYTE] = HX_PEER_FIRST_BYTE,
        [HX_OUTGOING_WRITTEN] = HX_PEER_WRITTEN,
        [HX_OUTGOING_NOT_SENT] = HX_PEER_NOT_SENT,
        [HX_OUTGOING_CUT] = HX_PEER_CUT,
    };

    hx_child_streams_append(arg, types[fate], tag);
}

void hx_child_streams_close_input(struct hx_child_streams *streams)
{
    streams->input_watch = hx_loop_fd_free(streams->input_watch);
    fd_close(&streams->input_fd);
    hx_loop_timer_clear(streams->stall_timer);
    hx_outgoing_abandon(&streams->outgoing);
}

static bool is_reported_stall(const struct hx_child_streams *streams, uint64_t tag)
{
    return streams->is_stalled && streams->stalled_tag == tag;
}

static void write_some(struct hx_child_streams *streams)
{
    uint64_t before = streams->outgoing.written_bytes;
    uint64_t tag;
    int rc = hx_outgoing_write(&streams->outgoing, streams->input_fd);

    if (rc == HX_OUTGOING_BROKEN) {
        hx_child_streams_close_input(streams);
        return;
    }
    hx_loop_fd_want(streams->input_watch, rc == HX_OUTGOING_BLOCKED ? HX_LOOP_WRITE : 0);
    if (!hx_outgoing_is_cut_now(&streams->outgoing, &tag))
        hx_loop_timer_clear(streams->stall_timer);
    else if (streams->outgoing.written_bytes != before ||
             (!hx_loop_timer_is_set(streams->stall_timer) && !is_reported_stall(streams, tag)))
        hx_loop_timer_set(streams->stall_timer, streams->stall_timeout_ms);
}

static void input_ready(void *arg, unsigned events)
{
    (void)events;
    write_some(arg);
}

static void stall_due(void *arg)
{
    struct hx_child_streams *streams = arg;
    uint64_t tag;

    if (!hx_outgoing_is_cut_now(&streams->outgoing, &tag) || is_reported_stall(streams, tag))
        return;
    streams->is_stalled = true;
    streams->stalled_tag = tag;
    hx_child_streams_append(streams, HX_PEER_STALLED, tag);
}

void hx_child_streams_send(struct hx_child_streams *streams, struct hx_buf *line, uint64_t tag)
{
    if (streams->input_fd < 0) {
        hx_buf_fini(line);
        hx_child_streams_append(streams, HX_PEER_NOT_SENT, tag);
        return;
    }
    hx_outgoing_add(&streams->outgoing, line, tag);
    write_some(streams);
}

/* --- out --- */

static void append_oversize(struct hx_child_streams *streams, const struct hx_line *line)
{
    struct hx_peer_event *event = hx_child_streams_append(streams, HX_PEER_OVERSIZE, 0);

    event->size = line->size;
    event->has_method = line->skim.has_method;
    event->has_result = line->skim.has_result;
    event->has_error = line->skim.has_error;
    event->is_refused = line->size <= streams->lines.line_max;
    hx_digest_hex(&line->digest, event->digest_hex);
    (void)hx_buf_append_span(&event->line, line->text); /* short of memory: without its id */
}

static void append_line(struct hx_child_streams *streams, struct hx_line *line)
{
    struct hx_peer_event *event;
    struct hx_buf text;

    if (line->kind == HX_LINE_OVERSIZE) {
        append_oversize(streams, line);
        return;
    }
    /* A header of another framing is no message either; the engine says so to whom it concerns. */
    hx_buf_init(&text, line->text.len);
    if (hx_buf_append_span(&text, line->text) != 0) {
        hx_buf_fini(&text);
        hx_lines_refuse(&streams->lines, line);
        append_oversize(streams, line);
        return;
    }
    event = hx_child_streams_append(streams, HX_PEER_MESSAGE, 0);
    text.len_max = event->line.len_max;
    hx_buf_fini(&event->line);
    event->line = text;
}

static void lines_feed(struct hx_child_streams *streams, const char *bytes, size_t len)
{
    struct hx_span input = hx_span(bytes, len);
    struct hx_line line;

    while (hx_lines_next(&streams->lines, &input, &line))
        append_line(streams, &line);
}

static void lines_end(struct hx_child_streams *streams)
{
    struct hx_line line;

    if (hx_lines_end(&streams->lines, &line))
        append_line(streams, &line);
}

static void got_error_line(void *arg, struct hx_span line)
{
    struct hx_peer_event *event = hx_child_streams_append(arg, HX_PEER_STDERR, 0);

    (void)hx_buf_append_span(&event->line, line); /* short of memory: an empty line in the log */
}

static void error_feed(struct hx_child_streams *streams, const char *bytes, size_t len)
{
    hx_stderr_log_feed(&streams->log, bytes, len);
}

/* Reads at most `bytes_max` and hands them on. True when the stream has ended. */
static bool read_some(struct hx_child_streams *streams, int fd, size_t bytes_max,
                      void (*feed)(struct hx_child_streams *streams, const char *bytes, size_t len))
{
    char bytes[READ_BYTES];
    size_t total = 0;

    while (total < bytes_max) {
        ssize_t len = read(fd, bytes, sizeof bytes);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (len <= 0)
            return true;
        feed(streams, bytes, (size_t)len);
        total += (size_t)len;
    }
    return false;
}

static void output_close(struct hx_child_streams *streams)
{
    if (streams->output_fd < 0)
        return;
    lines_end(streams);
    streams->output_watch = hx_loop_fd_free(streams->output_watch);
    fd_close(&streams->output_fd);
}

static void error_close(struct hx_child_streams *streams)
{
    if (streams->error_fd < 0)
        return;
    hx_stderr_log_end(&streams->log);
    streams->error_watch = hx_loop_fd_free(streams->error_watch);
    fd_close(&streams->error_fd);
}

static void output_ready(void *arg, unsigned events)
{
    struct hx_child_streams *streams = arg;

    (void)events;
    if (!read_some(streams, streams->output_fd, TURN_BYTES, lines_feed))
        return;
    output_close(streams);
    streams->output_ended(streams->arg);
}

static void error_ready(void *arg, unsigned events)
{
    struct hx_child_streams *streams = arg;

    (void)events;
    if (read_some(streams, streams->error_fd, READ_BYTES, error_feed))
        error_close(streams);
}

void hx_child_streams_want_output(struct hx_child_streams *streams, bool is_wanted)
{
    if (streams->output_watch != NULL)
        hx_loop_fd_want(streams->output_watch, is_wanted ? HX_LOOP_READ : 0);
}

/* --- the whole --- */

void hx_child_streams_init(struct hx_child_streams *streams, struct hx_loop *loop,
                           const struct hx_child_streams_options *options)
{
    *streams = (struct hx_child_streams){.loop = loop,
                                         .upstream = options->upstream,
                                         .input_fd = -1,
                                         .output_fd = -1,
                                         .error_fd = -1,
                                         .stall_timeout_ms = options->stall_timeout_ms,
                                         .output_ended = options->output_ended,
                                         .arg = options->arg};
    streams->stall_timer = hx_loop_timer_new(loop, stall_due, streams);
    streams->hasher = hx_hasher_new();
    hx_outgoing_init(&streams->outgoing, false, message_fate, streams);
    hx_lines_init(&streams->lines, options->message_max_bytes, streams->hasher);
    hx_stderr_log_init(&streams->log, got_error_line, streams);
}

void hx_child_streams_fini(struct hx_child_streams *streams)
{
    hx_loop_fd_free(streams->input_watch);
    hx_loop_fd_free(streams->output_watch);
    hx_loop_fd_free(streams->error_watch);
    hx_loop_timer_free(streams->stall_timer);
    fd_close(&streams->input_fd);
    fd_close(&streams->output_fd);
    fd_close(&streams->error_fd);
    hx_outgoing_fini(&streams->outgoing);
    hx_lines_fini(&streams->lines);
    hx_hasher_free(streams->hasher);
    hx_stderr_log_fini(&streams->log);
}

void hx_child_streams_open(struct hx_child_streams *streams, uint32_t generation, int input_fd,
                           int output_fd, int error_fd)
{
    hx_assert(streams->input_fd < 0);
    hx_assert(streams->output_fd < 0);
    hx_assert(streams->error_fd < 0);
    streams->generation = generation;
    streams->is_stalled = false;
    streams->input_fd = input_fd;
    streams->output_fd = output_fd;
    streams->error_fd = error_fd;
    streams->input_watch = hx_loop_fd_new(streams->loop, input_fd, input_ready, streams);
    streams->output_watch = hx_loop_fd_new(streams->loop, output_fd, output_ready, streams);
    streams->error_watch = hx_loop_fd_new(streams->loop, error_fd, error_ready, streams);
    hx_loop_fd_want(streams->error_watch, HX_LOOP_READ);
}

void hx_child_streams_finish(struct hx_child_streams *streams)
{
    hx_child_streams_close_input(streams);
    if (streams->output_fd >= 0)
        (void)read_some(streams, streams->output_fd, LAST_DRAIN_BYTES, lines_feed);
    if (streams->error_fd >= 0)
        (void)read_some(streams, streams->error_fd, LAST_DRAIN_BYTES, error_feed);
    output_close(streams);
    error_close(streams);
}
