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

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/stdio_child/child_spawn.h"
#include "adapter/stdio_child/child_streams.h"
#include "adapter/stdio_child/orphans.h"
#include "adapter/stdio_child/process_table.h"
#include "adapter/stdio_child/reaper_wire.h"
#include "adapter/stdio_child/transport.h"
#include "base/alloc.h"

enum {
    DRAIN_MS = 250,
    ORPHANS_POLL_MS = 20,
    STATUS_KILLED = SIGKILL /* as a wait status, when nobody is left to tell the real one */
};

enum state { IDLE, STARTING, RUNNING, DRAINING, ENDING };

struct child {
    struct hx_upstream upstream;
    struct hx_loop *loop;
    struct hx_stdio_child_options options;
    enum state state;
    char transport_name[HX_TRANSPORT_NAME_SIZE];

    struct hx_spawned spawned; /* the streams are taken out of it */
    struct hx_reaper_watch reaper;
    struct hx_child_streams streams;
    struct hx_loop_fd *reaper_watch;
    struct hx_loop_fd *report_watch;
    struct hx_loop_timer *term_timer;    /* stop: when TERM is due */
    struct hx_loop_timer *drain_timer;   /* DRAINING: when reading ends */
    struct hx_loop_timer *orphans_timer; /* the reaper was killed: when to look again */

    pid_t group;     /* 0 until it runs */
    int status;      /* as CLOSED will tell it */
    bool has_status; /* the leader's own */
    bool is_held;
    bool is_stopping;
    bool is_all_gone; /* the reaper said so */
};

static struct child *child_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct child, upstream);
}

static void command(struct child *child, enum hx_reaper_command what)
{
    char byte = (char)what;

    /* A reaper that is gone needs no command, and its pipe never fills with so few. */
    if (child->spawned.control_fd >= 0)
        (void)!write(child->spawned.control_fd, &byte, 1);
}

/* --- the end --- */

/* Nothing more is read of a leader that is gone or has closed its output. */
static void end_begin(struct child *child)
{
    child->state = ENDING;
    hx_loop_timer_clear(child->drain_timer);
    hx_loop_timer_clear(child->term_timer);
    hx_child_streams_want_output(&child->streams, false);
    command(child, HX_REAPER_END);
}

static void drain_begin(struct child *child)
{
    if (child->state >= DRAINING)
        return;
    child->state = DRAINING;
    hx_child_streams_close_input(&child->streams);
    hx_loop_timer_set(child->drain_timer, DRAIN_MS);
    /* Held or not: what is in the pipe is bounded, and nobody can slow a dead process down. */
    hx_child_streams_want_output(&child->streams, true);
}

/* Both signs of the end are there: no need to wait for drain_due. */
static void end_if_drained(struct child *child)
{
    if (child->state == DRAINING && child->has_status && child->streams.output_fd < 0)
        end_begin(child);
}

static void drain_due(void *arg)
{
    end_begin(arg);
}

/* A leader that only closed its output has until drain_due to exit by itself. */
static void output_ended(void *arg)
{
    struct child *child = arg;

    drain_begin(child);
    end_if_drained(child);
}

/* The only place where CLOSED is made. */
static void finish(struct child *child)
{
    struct hx_buf *tail = &child->streams.log.tail;
    struct hx_peer_event *event;

    hx_assert(child->state != IDLE);
    hx_child_streams_finish(&child->streams);
    child->reaper_watch = hx_loop_fd_free(child->reaper_watch);
    child->report_watch = hx_loop_fd_free(child->report_watch);
    hx_spawned_close(&child->spawned);
    hx_loop_timer_clear(child->term_timer);
    hx_loop_timer_clear(child->drain_timer);
    hx_loop_timer_clear(child->orphans_timer);
    child->state = IDLE;
    event = hx_child_streams_append(&child->streams, HX_PEER_CLOSED, 0);
    event->status = child->status;
    (void)hx_buf_append_span(&event->stderr_tail, hx_buf_span(tail)); /* or without it */
    hx_stderr_log_forget(&child->streams.log);
}

/* The reaper was killed. What it leaves is ended, and as it is ours now, reaped from here: the
 * group at once, so that nobody in it can fork away from us, and whoever left it. */
static void orphans_due(void *arg)
{
    struct child *child = arg;
    bool is_any_left = child->group > 0 && hx_process_group_is_alive(child->group);

    if (is_any_left)
        (void)kill(-child->group, SIGKILL);
    if (hx_orphans_end(&child->reaper) || is_any_left) {
        hx_loop_timer_set(child->orphans_timer, ORPHANS_POLL_MS);
        return;
    }
    /* Only zombies are left, so this never waits. */
    while (child->group > 0 && waitpid(-child->group, NULL, WNOHANG) > 0) {
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
            hx_assert(child->state == STARTING);
            child->state = RUNNING;
            hx_child_streams_append(&child->streams, HX_PEER_STARTED, 0);
            hx_child_streams_want_output(&child->streams, !child->is_held);
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
            end_if_drained(child);
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
    hx_orphans_reap(&child->reaper);
    report_read(child);
    hx_loop_fd_want(child->reaper_watch, 0);
    hx_loop_fd_want(child->report_watch, 0);
    if (child->is_all_gone)
        finish(child);
    else
        orphans_due(child);
}

/* --- the port --- */

/* Names the next transport. Returns the path of its lock, to be freed, or NULL when nobody asks. */
static char *transport_begin(struct child *child)
{
    const char *dir = child->options.transport_dir;
    size_t size;
    char *path;

    child->transport_name[0] = '\0';
    if (dir == NULL)
        return NULL;
    hx_transport_name_make(child->transport_name);
    size = strlen(dir) + 1 + HX_TRANSPORT_NAME_SIZE;
    path = hx_new_bytes(size);
    (void)snprintf(path, size, "%s/%s", dir, child->transport_name);
    return path;
}

static void start(struct hx_upstream *upstream, uint32_t generation)
{
    struct child *child = child_of(upstream);
    char *lock_path;
    int rc;

    hx_assert(child->state == IDLE);
    child->streams.generation = generation;
    child->state = STARTING;
    child->group = 0;
    child->status = STATUS_KILLED;
    child->has_status = child->is_stopping = child->is_all_gone = false;
    lock_path = transport_begin(child);
    rc = hx_spawn(&child->options, lock_path, &child->spawned);
    hx_free(lock_path);
    if (rc != 0) {
        child->status = -rc;
        finish(child);
        return;
    }
    hx_orphans_watch(&child->reaper, child->spawned.reaper);
    child->reaper_watch =
        hx_loop_fd_new(child->loop, child->spawned.reaper_fd, reaper_ready, child);
    child->report_watch =
        hx_loop_fd_new(child->loop, child->spawned.report_fd, report_ready, child);
    hx_loop_fd_want(child->reaper_watch, HX_LOOP_READ);
    hx_loop_fd_want(child->report_watch, HX_LOOP_READ);
    /* Its output waits for the report, so that STARTED comes before the first MESSAGE. */
    hx_child_streams_open(&child->streams, generation, child->spawned.input_fd,
                          child->spawned.output_fd, child->spawned.error_fd);
    child->spawned.input_fd = child->spawned.output_fd = child->spawned.error_fd = -1;
}

static void send_line(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct child *child = child_of(upstream);

    if (child->state == RUNNING) {
        hx_child_streams_send(&child->streams, line, tag);
    } else {
        hx_buf_fini(line);
        hx_child_streams_append(&child->streams, HX_PEER_NOT_SENT, tag);
    }
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
    hx_child_streams_close_input(&child->streams);
    if (child->state <= RUNNING)
        hx_loop_timer_set(child->term_timer, child->options.term_grace_ms);
}

static void kill_now(struct hx_upstream *upstream)
{
    struct child *child = child_of(upstream);

    if (child->state == IDLE)
        return;
    child->is_stopping = true;
    hx_child_streams_close_input(&child->streams);
    hx_loop_timer_clear(child->term_timer);
    command(child, HX_REAPER_KILL);
}

static void hold(struct hx_upstream *upstream, bool is_held)
{
    struct child *child = child_of(upstream);

    child->is_held = is_held;
    if (child->state == RUNNING)
        hx_child_streams_want_output(&child->streams, !is_held);
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

    hx_orphans_prepare(); /* for the day on which a reaper is killed */
    hx_assert(options->argv != NULL);
    hx_assert(options->argv[0] != NULL);
    child->upstream = (struct hx_upstream){.ops = &child_ops, .inbox = inbox};
    child->loop = loop;
    child->options = *options;
    child->spawned = (struct hx_spawned){0, -1, -1, -1, -1, -1, -1};
    child->term_timer = hx_loop_timer_new(loop, term_due, child);
    child->drain_timer = hx_loop_timer_new(loop, drain_due, child);
    child->orphans_timer = hx_loop_timer_new(loop, orphans_due, child);
    hx_child_streams_init(
        &child->streams, loop,
        &(struct hx_child_streams_options){.upstream = &child->upstream,
                                           .message_max_bytes = options->message_max_bytes,
                                           .stall_timeout_ms = options->stall_timeout_ms,
                                           .output_ended = output_ended,
                                           .arg = child});
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
    hx_loop_timer_free(child->term_timer);
    hx_loop_timer_free(child->drain_timer);
    hx_loop_timer_free(child->orphans_timer);
    hx_child_streams_fini(&child->streams);
    hx_spawned_close(&child->spawned);
    hx_orphans_unwatch(&child->reaper);
    hx_free(child);
    return NULL;
}
