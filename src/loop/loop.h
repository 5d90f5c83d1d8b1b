/* SPDX-License-Identifier: MIT */
/*
 * The event loop: descriptors, timers, signals and a wake-up for other threads. A thin wrapper, so
 * that the library behind it shows in one file only.
 *
 * Callbacks run inside hx_loop_run_once() and do one thing: they move bytes and append events to an
 * inbox. The program drains the inboxes between two turns; nothing below may call up.
 *
 *     struct hx_loop *loop = hx_loop_new(&(struct hx_loop_clock){.now = my_now, .arg = clock});
 *     while (!is_done) {
 *         rc = hx_loop_run_once(loop, -1);
 *         drain(&inbox);
 *     }
 *
 * Every object may be freed inside any callback, its own too; it is not called again.
 *
 * Timers follow the caller's clock, which counts suspended time: a laptop that slept through a
 * deadline finds it due at once.
 */
#ifndef HX_LOOP_LOOP_H
#define HX_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/time.h"

struct hx_loop;
struct hx_loop_fd;
struct hx_loop_timer;
struct hx_loop_signal;
struct hx_loop_wake;

struct hx_loop_clock {
    struct hx_mono (*now)(void *arg);
    void *arg;
};

/* The process ignores SIGPIPE from here on: a reader that went away is an error code, never a
 * death. Returns NULL with a fault when the kernel refuses. */
struct hx_loop *hx_loop_new(const struct hx_loop_clock *clock) HX_MUST_CHECK;
/* Everything made from the loop must be freed before. Accepts NULL; returns NULL. */
struct hx_loop *hx_loop_free(struct hx_loop *loop);

/* Waits for something to happen, at most `wait_max_ms` (-1: no limit, 0: do not wait), and runs
 * what is due, each callback at most once. */
int hx_loop_run_once(struct hx_loop *loop, int64_t wait_max_ms) HX_MUST_CHECK;

/* The caller's clock, read now. */
struct hx_mono hx_loop_now(const struct hx_loop *loop);

enum {
    HX_LOOP_READ = 1,  /* readable, at its end, or in error */
    HX_LOOP_WRITE = 2, /* writable, or in error */
    /* Report changes, not states. With READ this watches the write end of a pipe or a socket for
     * the death of its reader without spinning once it is dead. */
    HX_LOOP_EDGE = 4
};

/* `fd` stays the caller's and must stay open as long as the watch lives. Descriptors that cannot be
 * polled (regular files, /dev/null) count as always ready. Starts with no interest. */
struct hx_loop_fd *hx_loop_fd_new(struct hx_loop *loop, int fd,
                                  void (*ready)(void *arg, unsigned events), void *arg);
struct hx_loop_fd *hx_loop_fd_free(struct hx_loop_fd *watch);
/* `events` replaces the earlier interest; 0 rests. */
void hx_loop_fd_want(struct hx_loop_fd *watch, unsigned events);

struct hx_loop_timer *hx_loop_timer_new(struct hx_loop *loop, void (*due)(void *arg), void *arg);
struct hx_loop_timer *hx_loop_timer_free(struct hx_loop_timer *timer);
/* One shot; replaces an earlier deadline. One set inside a callback waits for the next turn. */
void hx_loop_timer_set(struct hx_loop_timer *timer, int64_t after_ms);
void hx_loop_timer_set_at(struct hx_loop_timer *timer, struct hx_mono deadline);
void hx_loop_timer_clear(struct hx_loop_timer *timer);
bool hx_loop_timer_is_set(const struct hx_loop_timer *timer);

struct hx_loop_signal *hx_loop_signal_new(struct hx_loop *loop, int signal_number,
                                          void (*raised)(void *arg, int signal_number), void *arg);
struct hx_loop_signal *hx_loop_signal_free(struct hx_loop_signal *watch);

struct hx_loop_wake *hx_loop_wake_new(struct hx_loop *loop, void (*woken)(void *arg), void *arg);
struct hx_loop_wake *hx_loop_wake_free(struct hx_loop_wake *wake);
/* From any thread, and from a signal handler. Several posts before the turn are one wake-up. */
void hx_loop_wake_post(struct hx_loop_wake *wake);

#endif
