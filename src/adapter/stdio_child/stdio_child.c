/* SPDX-License-Identifier: MIT */
/*
 * The life of one child process, as its keeper sees it.
 *
 *      start                    stop: input closed,           leader exited, or its output ended:
 *   IDLE -> STARTING -> RUNNING ---- TERM after grace ------> DRAINING -> ENDING -> IDLE
 *                                                             (<= 250 ms)           CLOSED
 *
 * Facts: in IDLE nothing of the child exists, and every tag has its fate. From DRAINING on nothing
 * is written. CLOSED is appended in one place, after the reaper has said that every process is
 * gone, or after we have looked for ourselves because the reaper was killed.
 */
#include "adapter/stdio_child/stdio_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/stdio_child/child_spawn.h"
#include "adapter/stdio_child/process_table.h"
#include "adapter/stdio_child/reaper_wire.h"
#include "adapter/stdio_child/stderr_log.h"
#include "adapter/stdio_child/transport.h"
#include "base/alloc.h"
#include "loop/outgoing.h"
#include "wire/lines.h"

enum {
    DRAIN_MS = 250,
    READ_BYTES = 1 << 16,
    TURN_BYTES = 1 << 18,       /* one child's share of a turn */
    LAST_DRAIN_BYTES = 1 << 20, /* no pipe of an ordinary user holds more */
    GROUP_POLL_MS = 20,
    STATUS_KILLED = SIGKILL /* as a wait status, when nobody is left to tell the real one */
};

enum state { IDLE, STARTING, RUNNING, DRAINING, ENDING };

struct child {
    struct hx_upstream upstream;
    struct hx_loop *loop;
    struct hx_stdio_child_options options;
    enum state state;
    uint32_t generation;
    char transport_name[HX_TRANSPORT_NAME_SIZE];

    struct hx_spawned spawned;
    struct hx_loop_fd *reaper_watch;
    struct hx_loop_fd *input_watch;
    struct hx_loop_fd *output_watch;
    struct hx_loop_fd *error_watch;
    struct hx_loop_fd *report_watch;
    struct hx_loop_timer *stall_timer;
    struct hx_loop_timer *term_timer;  /* stop: when TERM is due */
    struct hx_loop_timer *drain_timer; /* DRAINING: when reading ends */
    struct hx_loop_timer *group_timer; /* the reaper was killed: when to look at the group again */

    struct hx_outgoing outgoing;
    struct hx_lines lines;
    struct hx_hasher *hasher;
    struct hx_stderr_log log;
    pid_t group; /* 0 until it runs */
    int status;  /* as CLOSED will tell it */
    uint64_t stalled_tag;
    bool is_stalled; /* stalled_tag was reported */
    bool has_status; /* the leader's own */
    bool is_held;
    bool is_stopping;
    bool is_all_gone; /* the reaper said so */
};

static struct child *child_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct child, upstream);
}

static struct hx_peer_event *append(struct child *child, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, child->generation);

    event->tag = tag;
    hx_list_append(child->upstream.inbox, &event->node);
    return event;
}

static void command(struct child *child, enum hx_reaper_command what)
{
    char byte = (char)what;

    /* A reaper that is gone needs no command, and its pipe never fills with so few. */
    if (child->spawned.control_fd >= 0)
        (void)!write(child->spawned.control_fd, &byte, 1);
}

/* --- writing --- */

static void message_fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate)
{
    static const enum hx_peer_event_type types[] = {
        [HX_OUTGOING_FIRST_BYTE] = HX_PEER_FIRST_BYTE,
        [HX_OUTGOING_WRITTEN] = HX_PEER_WRITTEN,
        [HX_OUTGOING_NOT_SENT] = HX_PEER_NOT_SENT,
        [HX_OUTGOING_CUT] = HX_PEER_CUT,
    };

    append(arg, types[fate], tag);
}

/* Ends writing: the child sees the end of its input, and what did not leave has its fate. */
static void input_close(struct child *child)
{
    child->input_watch = hx_loop_fd_free(child->input_watch);
    hx_fd_close(&child->spawned.input_fd);
    hx_loop_timer_clear(child->stall_timer);
    hx_outgoing_abandon(&child->outgoing);
}

static void write_some(struct child *child)
{
    uint64_t before = child->outgoing.written_bytes;
    uint64_t tag;
    int rc = hx_outgoing_write(&child->outgoing, child->spawned.input_fd);

    if (rc == HX_OUTGOING_BROKEN) {
        input_close(child);
        return;
    }
    hx_loop_fd_want(child->input_watch, rc == HX_OUTGOING_BLOCKED ? HX_LOOP_WRITE : 0);
    /* Only a line half written is a stall: messages that have not begun can still be taken back. */
    if (!hx_outgoing_is_cut_now(&child->outgoing, &tag))
        hx_loop_timer_clear(child->stall_timer);
    else if (child->outgoing.written_bytes != before ||
             (!hx_loop_timer_is_set(child->stall_timer) &&
              !(child->is_stalled && child->stalled_tag == tag)))
        hx_loop_timer_set(child->stall_timer, child->options.stall_timeout_ms);
}

static void input_ready(void *arg, unsigned events)
{
    (void)events;
    write_some(arg);
}

static void stall_due(void *arg)
{
    struct child *child = arg;
    uint64_t tag;

    if (!hx_outgoing_is_cut_now(&child->outgoing, &tag) ||
        (child->is_stalled && child->stalled_tag == tag))
        return;
    child->is_stalled = true;
    child->stalled_tag = tag;
    append(child, HX_PEER_STALLED, tag);
}

/* --- reading --- */

static void append_oversize(struct child *child, const struct hx_line *line)
{
    struct hx_peer_event *event = append(child, HX_PEER_OVERSIZE, 0);

    event->size = line->size;
    event->has_method = line->skim.has_method;
    event->has_result = line->skim.has_result;
    event->has_error = line->skim.has_error;
    hx_digest_hex(&line->digest, event->digest_hex);
    (void)hx_buf_append_span(&event->line, line->text); /* short of memory: without its id */
}

static void append_line(struct child *child, const struct hx_line *line)
{
    struct hx_peer_event *event;

    if (line->kind == HX_LINE_OVERSIZE) {
        append_oversize(child, line);
        return;
    }
    /* A header of another framing is no message either; the engine says so to whom it concerns. */
    event = append(child, HX_PEER_MESSAGE, 0);
    if (hx_buf_append_span(&event->line, line->text) != 0) {
        /* Without memory for it, it was too long. */
        event->type = HX_PEER_OVERSIZE;
        event->size = line->size;
        hx_buf_reset(&event->line);
    }
}

static void lines_feed(struct child *child, const char *bytes, size_t len)
{
    struct hx_span input = hx_span(bytes, len);
    struct hx_line line;

    while (hx_lines_next(&child->lines, &input, &line))
        append_line(child, &line);
}

static void lines_end(struct child *child)
{
    struct hx_line line;

    if (hx_lines_end(&child->lines, &line))
        append_line(child, &line);
}

static void got_error_line(void *arg, struct hx_span line)
{
    struct hx_peer_event *event = append(arg, HX_PEER_STDERR, 0);

    (void)hx_buf_append_span(&event->line, line); /* short of memory: an empty line in the log */
}

enum read_end { READ_MORE, READ_BLOCKED, READ_ENDED };

/* Reads at most `bytes_max` and hands them on. */
static enum read_end output_read(struct child *child, size_t bytes_max)
{
    char bytes[READ_BYTES];
    size_t total = 0;

    while (total < bytes_max) {
        ssize_t len = read(child->spawned.output_fd, bytes, sizeof bytes);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return READ_BLOCKED;
        if (len <= 0) {
            lines_end(child);
            return READ_ENDED;
        }
        lines_feed(child, bytes, (size_t)len);
        total += (size_t)len;
    }
    return READ_MORE;
}

static enum read_end error_read(struct child *child, size_t bytes_max)
{
    char bytes[READ_BYTES];
    size_t total = 0;

    while (total < bytes_max) {
        ssize_t len = read(child->spawned.error_fd, bytes, sizeof bytes);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return READ_BLOCKED;
        if (len <= 0) {
            hx_stderr_log_end(&child->log);
            return READ_ENDED;
        }
        hx_stderr_log_feed(&child->log, bytes, (size_t)len);
        total += (size_t)len;
    }
    return READ_MORE;
}

static void error_close(struct child *child)
{
    child->error_watch = hx_loop_fd_free(child->error_watch);
    hx_fd_close(&child->spawned.error_fd);
}

static void output_close(struct child *child)
{
    child->output_watch = hx_loop_fd_free(child->output_watch);
    hx_fd_close(&child->spawned.output_fd);
}

static void error_ready(void *arg, unsigned events)
{
    struct child *child = arg;

    (void)events;
    if (error_read(child, READ_BYTES) == READ_ENDED)
        error_close(child);
}

/* Nothing more will be read of a leader that is gone or has closed its output. */
static void end_begin(struct child *child)
{
    child->state = ENDING;
    hx_loop_timer_clear(child->drain_timer);
    hx_loop_timer_clear(child->term_timer);
    command(child, HX_REAPER_END);
}

static void drain_begin(struct child *child)
{
    if (child->state >= DRAINING)
        return;
    child->state = DRAINING;
    input_close(child);
    hx_loop_timer_set(child->drain_timer, DRAIN_MS);
    /* Held or not: what is in the pipe is bounded, and nobody can slow a dead process down. */
    if (child->output_watch != NULL)
        hx_loop_fd_want(child->output_watch, HX_LOOP_READ);
}

static void drain_due(void *arg)
{
    end_begin(arg);
}

static void output_ready(void *arg, unsigned events)
{
    struct child *child = arg;

    (void)events;
    if (output_read(child, TURN_BYTES) != READ_ENDED)
        return;
    output_close(child);
    drain_begin(child);
    /* A leader that only closed its output has until drain_due to exit by itself. */
    if (child->state == DRAINING && child->has_status)
        end_begin(child);
}

/* --- the end --- */

/* The only place where CLOSED is made. */
static void finish(struct child *child)
{
    struct hx_peer_event *event;

    hx_assert(child->state != IDLE);
    input_close(child);
    /* Every writer is dead, so what is left is in the pipes and ends. */
    if (child->spawned.output_fd >= 0 && output_read(child, LAST_DRAIN_BYTES) != READ_ENDED)
        lines_end(child);
    if (child->spawned.error_fd >= 0 && error_read(child, LAST_DRAIN_BYTES) != READ_ENDED)
        hx_stderr_log_end(&child->log);
    output_close(child);
    error_close(child);
    child->reaper_watch = hx_loop_fd_free(child->reaper_watch);
    child->report_watch = hx_loop_fd_free(child->report_watch);
    hx_spawned_close(&child->spawned);
    hx_loop_timer_clear(child->term_timer);
    hx_loop_timer_clear(child->drain_timer);
    hx_loop_timer_clear(child->group_timer);
    child->state = IDLE;
    event = append(child, HX_PEER_CLOSED, 0);
    event->status = child->status;
    (void)hx_buf_append_span(&event->stderr_tail, hx_buf_span(&child->log.tail));
    hx_buf_reset(&child->log.tail);
    child->log.tail_lines = 0;
}

/* The reaper was killed. What is left of the group is ended from here. */
static void group_due(void *arg)
{
    struct child *child = arg;

    if (child->group > 0 && hx_process_group_is_alive(child->group)) {
        (void)kill(-child->group, SIGKILL);
        hx_loop_timer_set(child->group_timer, GROUP_POLL_MS);
        return;
    }
    finish(child);
}

static void report_read(struct child *child)
{
    struct hx_reaper_report report;

    while (read(child->spawned.report_fd, &report, sizeof report) == (ssize_t)sizeof report) {
        switch ((enum hx_reaper_report_type)report.type) {
        case HX_REAPER_STARTED:
            child->group = report.value;
            if (child->state == STARTING) {
                child->state = RUNNING;
                append(child, HX_PEER_STARTED, 0);
            }
            break;
        case HX_REAPER_NOT_STARTED:
            child->status = -report.value;
            child->has_status = true;
            break;
        case HX_REAPER_LEADER_EXITED:
            /* What failed to become the command exits too; that it failed is worth more. */
            if (!child->has_status)
                child->status = report.value;
            child->has_status = true;
            drain_begin(child);
            if (child->state == DRAINING && child->output_watch == NULL)
                end_begin(child);
            break;
        case HX_REAPER_ALL_GONE:
            child->is_all_gone = true;
            break;
        }
    }
}

static void report_ready(void *arg, unsigned events)
{
    struct child *child = arg;

    (void)events;
    report_read(child);
    /* At its end the pipe would stay readable; reaper_ready reads what is left. */
    if (child->is_all_gone)
        hx_loop_fd_want(child->report_watch, 0);
}

static void reaper_ready(void *arg, unsigned events)
{
    struct child *child = arg;

    (void)events;
    (void)waitpid(child->spawned.reaper, NULL, 0); /* it is a zombie: this does not wait */
    report_read(child);
    hx_loop_fd_want(child->reaper_watch, 0);
    hx_loop_fd_want(child->report_watch, 0);
    if (child->is_all_gone || child->group == 0)
        finish(child);
    else
        group_due(child);
}

/* --- the port --- */

static void start(struct hx_upstream *upstream, uint32_t generation)
{
    struct child *child = child_of(upstream);
    char lock_path[4096];
    const char *path = NULL;
    int rc;

    hx_assert(child->state == IDLE);
    child->generation = generation;
    child->state = STARTING;
    child->group = 0;
    child->status = STATUS_KILLED;
    child->has_status = child->is_stopping = child->is_all_gone = child->is_stalled = false;
    child->transport_name[0] = '\0';
    if (child->options.transport_dir != NULL) {
        hx_transport_name_make(child->transport_name);
        (void)snprintf(lock_path, sizeof lock_path, "%s/%s", child->options.transport_dir,
                       child->transport_name);
        path = lock_path;
    }
    rc = hx_spawn(&child->options, path, &child->spawned);
    if (rc != 0) {
        child->status = -rc;
        finish(child);
        return;
    }
    child->reaper_watch =
        hx_loop_fd_new(child->loop, child->spawned.reaper_fd, reaper_ready, child);
    child->report_watch =
        hx_loop_fd_new(child->loop, child->spawned.report_fd, report_ready, child);
    child->input_watch = hx_loop_fd_new(child->loop, child->spawned.input_fd, input_ready, child);
    child->output_watch =
        hx_loop_fd_new(child->loop, child->spawned.output_fd, output_ready, child);
    child->error_watch = hx_loop_fd_new(child->loop, child->spawned.error_fd, error_ready, child);
    hx_loop_fd_want(child->reaper_watch, HX_LOOP_READ);
    hx_loop_fd_want(child->report_watch, HX_LOOP_READ);
    hx_loop_fd_want(child->output_watch, child->is_held ? 0 : HX_LOOP_READ);
    hx_loop_fd_want(child->error_watch, HX_LOOP_READ);
}

static void send_line(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct child *child = child_of(upstream);

    if (child->state != RUNNING || child->spawned.input_fd < 0) {
        hx_buf_fini(line);
        append(child, HX_PEER_NOT_SENT, tag);
        return;
    }
    hx_outgoing_add(&child->outgoing, line, tag);
    write_some(child);
}

static void term_due(void *arg)
{
    command(arg, HX_REAPER_TERM);
}

static void stop(struct hx_upstream *upstream)
{
    struct child *child = child_of(upstream);

    if (child->state == IDLE || child->is_stopping)
        return;
    child->is_stopping = true;
    input_close(child);
    if (child->state <= RUNNING)
        hx_loop_timer_set(child->term_timer, child->options.term_grace_ms);
}

static void kill_now(struct hx_upstream *upstream)
{
    struct child *child = child_of(upstream);

    if (child->state == IDLE)
        return;
    child->is_stopping = true;
    input_close(child);
    hx_loop_timer_clear(child->term_timer);
    command(child, HX_REAPER_KILL);
}

static void hold(struct hx_upstream *upstream, bool is_held)
{
    struct child *child = child_of(upstream);

    child->is_held = is_held;
    if (child->output_watch != NULL && child->state < DRAINING)
        hx_loop_fd_want(child->output_watch, is_held ? 0 : HX_LOOP_READ);
}

static const char *transport_name(struct hx_upstream *upstream)
{
    return child_of(upstream)->transport_name;
}

static const struct hx_upstream_ops child_ops = {
    .start = start,
    .send = send_line,
    .stop = stop,
    .kill = kill_now,
    .hold = hold,
    .transport_name = transport_name,
};

struct hx_stdio_child_options hx_stdio_child_defaults(void)
{
    return (struct hx_stdio_child_options){.reaper_path = "/proc/self/exe",
                                           .message_max_bytes = 64 << 20,
                                           .term_grace_ms = 1000,
                                           .kill_grace_ms = 2000,
                                           .stall_timeout_ms = 30000};
}

struct hx_upstream *hx_stdio_child_new(struct hx_loop *loop, struct hx_list *inbox,
                                       const struct hx_stdio_child_options *options)
{
    struct child *child = hx_new(struct child);

    hx_assert(options->argv != NULL);
    hx_assert(options->argv[0] != NULL);
    child->upstream = (struct hx_upstream){.ops = &child_ops, .inbox = inbox};
    child->loop = loop;
    child->options = *options;
    child->spawned = (struct hx_spawned){0, -1, -1, -1, -1, -1, -1};
    child->stall_timer = hx_loop_timer_new(loop, stall_due, child);
    child->term_timer = hx_loop_timer_new(loop, term_due, child);
    child->drain_timer = hx_loop_timer_new(loop, drain_due, child);
    child->group_timer = hx_loop_timer_new(loop, group_due, child);
    hx_outgoing_init(&child->outgoing, false, message_fate, child);
    hx_stderr_log_init(&child->log, got_error_line, child);
    child->hasher = hx_hasher_new();
    hx_lines_init(&child->lines, options->message_max_bytes, child->hasher);
    return &child->upstream;
}

struct hx_upstream *hx_stdio_child_free(struct hx_upstream *upstream)
{
    struct child *child;

    if (upstream == NULL)
        return NULL;
    child = child_of(upstream);
    hx_loop_fd_free(child->reaper_watch);
    hx_loop_fd_free(child->report_watch);
    hx_loop_fd_free(child->input_watch);
    hx_loop_fd_free(child->output_watch);
    hx_loop_fd_free(child->error_watch);
    hx_loop_timer_free(child->stall_timer);
    hx_loop_timer_free(child->term_timer);
    hx_loop_timer_free(child->drain_timer);
    hx_loop_timer_free(child->group_timer);
    hx_spawned_close(&child->spawned);
    hx_outgoing_fini(&child->outgoing);
    hx_lines_fini(&child->lines);
    hx_hasher_free(child->hasher);
    hx_stderr_log_fini(&child->log);
    hx_free(child);
    return NULL;
}
