/* SPDX-License-Identifier: MIT */
/*
 * The loop on libevent's core. Its own timers are not used: they rest on a clock that stops during
 * suspend. One timerfd on the suspend-counting clock is armed with the earliest deadline instead.
 */
#include "loop/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/list.h"
#include "loop/timer_heap.h"

/* How long a descriptor goes unwatched when there is room again. */
enum { REFUSED_WAIT_MS = 20 };

struct hx_loop {
    struct event_base *base;
    struct hx_loop_clock clock;
    struct hx_timer_heap timers;
    struct hx_list due;          /* timers taken off the heap in this turn, not run yet */
    struct hx_list always_ready; /* watches that cannot be polled and want something */
    struct hx_list ready_now;    /* those still to be run in this turn */
    struct hx_list refused;      /* watches that the kernel had no room for; tried each turn */
    int timer_fd;
    int probe_fd; /* an epoll set that is always empty: tells what can be polled */
    struct event *timer_event;
    struct hx_mono armed_for; /* what timer_fd is set to; INT64_MAX = nothing */
    unsigned object_count;
};

struct hx_loop_fd {
    struct hx_loop *loop;
    struct event *event; /* NULL while resting */
    struct hx_list node; /* in always_ready or ready_now when the descriptor cannot be polled, else
                            perhaps in refused */
    int fd;
    unsigned wanted;
    bool is_pollable;
    void (*ready)(void *arg, unsigned events);
    void *arg;
};

struct hx_loop_signal {
    struct hx_loop *loop;
    struct event *event;
    void (*raised)(void *arg, int signal_number);
    void *arg;
};

static void quiet(int severity, const char *message)
{
    (void)severity;
    (void)message;
}

static void timer_fd_ready(evutil_socket_t fd, short what, void *arg)
{
    struct hx_loop *loop = arg;
    uint64_t count;

    (void)what;
    /* Only the wake-up counts; which timers are due is read from the clock. */
    if (read(fd, &count, sizeof count) == (ssize_t)sizeof count)
        loop->armed_for.ms = INT64_MAX;
}

static int open_descriptors(struct hx_loop *loop)
{
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->timer_fd < 0)
        return HX_RAISE_ERRNO("timerfd_create");
    loop->probe_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->probe_fd < 0)
        return HX_RAISE_ERRNO("epoll_create1");
    loop->base = event_base_new();
    if (loop->base == NULL)
        return HX_RAISE(HX_E_SYSTEM, "no event base");
    loop->timer_event =
        event_new(loop->base, loop->timer_fd, EV_READ | EV_PERSIST, timer_fd_ready, loop);
    if (loop->timer_event == NULL || event_add(loop->timer_event, NULL) != 0)
        return HX_RAISE(HX_E_SYSTEM, "no timer event");
    return 0;
}

struct hx_loop *hx_loop_new(const struct hx_loop_clock *clock)
{
    struct hx_loop *loop = hx_new(struct hx_loop);

    event_set_log_callback(quiet);
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid signal */
    loop->clock = *clock;
    loop->timer_fd = -1;
    loop->probe_fd = -1;
    loop->armed_for.ms = INT64_MAX;
    hx_list_init(&loop->due);
    hx_list_init(&loop->always_ready);
    hx_list_init(&loop->ready_now);
    hx_list_init(&loop->refused);
    if (open_descriptors(loop) != 0)
        return hx_loop_free(loop);
    return loop;
}

struct hx_loop *hx_loop_free(struct hx_loop *loop)
{
    if (loop == NULL)
        return NULL;
    hx_assert(loop->object_count == 0);
    if (loop->timer_event != NULL)
        event_free(loop->timer_event);
    if (loop->base != NULL)
        event_base_free(loop->base);
    if (loop->timer_fd >= 0)
        (void)close(loop->timer_fd);
    if (loop->probe_fd >= 0)
        (void)close(loop->probe_fd);
    hx_timer_heap_fini(&loop->timers);
    return hx_free(loop);
}

struct hx_mono hx_loop_now(const struct hx_loop *loop)
{
    return loop->clock.now(loop->clock.arg);
}

/* Arms the timerfd for the earliest deadline and the limit of this wait. Always relative: the
 * caller's clock need not be the kernel's. */
static void arm(struct hx_loop *loop, struct hx_mono now, int64_t wait_max_ms)
{
    struct hx_mono until = {INT64_MAX};
    const struct hx_loop_timer *first = hx_timer_heap_first(&loop->timers);
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (first != NULL)
        until = first->deadline;
    if (wait_max_ms >= 0 && now.ms + wait_max_ms < until.ms)
        until.ms = now.ms + wait_max_ms;
    /* An earlier alarm that is still to come wakes us once for nothing; deadlines that move on with
     * every message would cost a system call each time. */
    bool is_armed_ahead = loop->armed_for.ms > now.ms && loop->armed_for.ms <= until.ms;
    if (is_armed_ahead || until.ms == loop->armed_for.ms)
        return;
    if (until.ms != INT64_MAX) {
        int64_t left_ms = until.ms > now.ms ? until.ms - now.ms : 0;
        spec.it_value.tv_sec = left_ms / 1000;
        /* At least one nanosecond: zero would disarm. */
        spec.it_value.tv_nsec = left_ms % 1000 * 1000000 + 1;
    }
    hx_assert(timerfd_settime(loop->timer_fd, 0, &spec, NULL) == 0);
    loop->armed_for = until;
}

static void run_due_timers(struct hx_loop *loop)
{
    struct hx_mono now = hx_loop_now(loop);
    struct hx_loop_timer *timer;
    struct hx_list *node;

    /* Taken off first, so that one which sets itself again waits for the next turn. */
    while ((timer = hx_timer_heap_first(&loop->timers)) != NULL &&
           hx_mono_reached(now, timer->deadline)) {
        hx_timer_heap_remove(&loop->timers, timer);
        hx_list_append(&loop->due, &timer->node);
    }
    while ((node = hx_list_take_first(&loop->due)) != NULL) {
        timer = hx_container_of(node, struct hx_loop_timer, node);
        timer->due(timer->arg);
    }
}

static void run_always_ready(struct hx_loop *loop)
{
    struct hx_list *node;

    hx_list_splice(&loop->ready_now, &loop->always_ready);
    while ((node = hx_list_take_first(&loop->ready_now)) != NULL) {
        struct hx_loop_fd *watch = hx_container_of(node, struct hx_loop_fd, node);
        hx_list_append(&loop->always_ready, node);
        watch->ready(watch->arg, watch->wanted & (HX_LOOP_READ | HX_LOOP_WRITE));
    }
}

static void rest_on_no_poll(struct hx_loop_fd *watch)
{
    /* What is always ready never changes, so it has no edges. */
    if (watch->wanted != 0 && (watch->wanted & HX_LOOP_EDGE) == 0)
        hx_list_append(&watch->loop->always_ready, &watch->node);
}

/* The kernel gives each user room for so many watches, and other programs use it up too. That is no
 * reason to end: the watch is tried again. */
static void add_event(struct hx_loop_fd *watch)
{
    if (event_add(watch->event, NULL) == 0)
        return;
    if (errno != EPERM) {
        hx_list_append(&watch->loop->refused, &watch->node);
        return;
    }
    /* There was no room to find that out at first. */
    event_free(watch->event);
    watch->event = NULL;
    watch->is_pollable = false;
    rest_on_no_poll(watch);
}

/* What was ready meanwhile is ready when the watch is there, with its edge. */
static void try_refused(struct hx_loop *loop)
{
    struct hx_list again;
    struct hx_list *node;

    hx_list_init(&again);
    hx_list_splice(&again, &loop->refused);
    while ((node = hx_list_take_first(&again)) != NULL) {
        struct hx_loop_fd *watch = hx_container_of(node, struct hx_loop_fd, node);
        add_event(watch);
    }
}

int hx_loop_run_once(struct hx_loop *loop, int64_t wait_max_ms)
{
    if (!hx_list_is_empty(&loop->refused))
        try_refused(loop);
    if (!hx_list_is_empty(&loop->refused) && (wait_max_ms < 0 || wait_max_ms > REFUSED_WAIT_MS))
        wait_max_ms = REFUSED_WAIT_MS;

    struct hx_mono now = hx_loop_now(loop);
    const struct hx_loop_timer *first = hx_timer_heap_first(&loop->timers);
    bool is_waiting = wait_max_ms != 0 && hx_list_is_empty(&loop->always_ready) &&
                      !(first != NULL && hx_mono_reached(now, first->deadline));

    if (is_waiting)
        arm(loop, now, wait_max_ms);
    if (event_base_loop(loop->base, EVLOOP_ONCE | (is_waiting ? 0 : EVLOOP_NONBLOCK)) < 0)
        return HX_RAISE_ERRNO("event loop");
    run_always_ready(loop);
    run_due_timers(loop);
    return 0;
}

/* --- descriptors --- */

static void fd_ready(evutil_socket_t fd, short what, void *arg)
{
    struct hx_loop_fd *watch = arg;
    unsigned events = 0;

    (void)fd;
    if ((what & EV_READ) != 0)
        events |= HX_LOOP_READ;
    if ((what & EV_WRITE) != 0)
        events |= HX_LOOP_WRITE;
    watch->ready(watch->arg, events);
}

static bool can_be_polled(const struct hx_loop *loop, int fd)
{
    struct epoll_event none = {.events = 0};

    if (epoll_ctl(loop->probe_fd, EPOLL_CTL_ADD, fd, &none) != 0)
        return errno != EPERM;
    (void)epoll_ctl(loop->probe_fd, EPOLL_CTL_DEL, fd, &none);
    return true;
}

struct hx_loop_fd *hx_loop_fd_new(struct hx_loop *loop, int fd,
                                  void (*ready)(void *arg, unsigned events), void *arg)
{
    struct hx_loop_fd *watch = hx_new(struct hx_loop_fd);

    watch->loop = loop;
    watch->fd = fd;
    watch->ready = ready;
    watch->arg = arg;
    watch->is_pollable = can_be_polled(loop, fd);
    hx_list_init(&watch->node);
    loop->object_count++;
    return watch;
}

struct hx_loop_fd *hx_loop_fd_free(struct hx_loop_fd *watch)
{
    if (watch == NULL)
        return NULL;
    hx_loop_fd_want(watch, 0);
    watch->loop->object_count--;
    return hx_free(watch);
}

void hx_loop_fd_want(struct hx_loop_fd *watch, unsigned events)
{
    short what = EV_PERSIST;

    if (events == watch->wanted)
        return;
    watch->wanted = events;
    if (!watch->is_pollable) {
        hx_list_unlink(&watch->node);
        rest_on_no_poll(watch);
        return;
    }
    hx_list_unlink(&watch->node);
    if (watch->event != NULL)
        event_free(watch->event);
    watch->event = NULL;
    if (events == 0)
        return;
    if ((events & HX_LOOP_READ) != 0)
        what |= EV_READ;
    if ((events & HX_LOOP_WRITE) != 0)
        what |= EV_WRITE;
    if ((events & HX_LOOP_EDGE) != 0)
        what |= EV_ET;
    watch->event = event_new(watch->loop->base, watch->fd, what, fd_ready, watch);
    hx_assert(watch->event != NULL);
    add_event(watch);
}

/* --- timers --- */

struct hx_loop_timer *hx_loop_timer_new(struct hx_loop *loop, void (*due)(void *arg), void *arg)
{
    struct hx_loop_timer *timer = hx_new(struct hx_loop_timer);

    timer->loop = loop;
    timer->due = due;
    timer->arg = arg;
    timer->index = HX_TIMER_UNSET;
    hx_list_init(&timer->node);
    loop->object_count++;
    return timer;
}

struct hx_loop_timer *hx_loop_timer_free(struct hx_loop_timer *timer)
{
    if (timer == NULL)
        return NULL;
    hx_loop_timer_clear(timer);
    timer->loop->object_count--;
    return hx_free(timer);
}

void hx_loop_timer_set_at(struct hx_loop_timer *timer, struct hx_mono deadline)
{
    hx_loop_timer_clear(timer);
    timer->deadline = deadline;
    hx_timer_heap_add(&timer->loop->timers, timer);
}

void hx_loop_timer_set(struct hx_loop_timer *timer, int64_t after_ms)
{
    hx_loop_timer_set_at(timer, hx_mono_after(hx_loop_now(timer->loop), after_ms));
}

void hx_loop_timer_clear(struct hx_loop_timer *timer)
{
    hx_list_unlink(&timer->node);
    if (timer->index != HX_TIMER_UNSET)
        hx_timer_heap_remove(&timer->loop->timers, timer);
}

bool hx_loop_timer_is_set(const struct hx_loop_timer *timer)
{
    return timer->index != HX_TIMER_UNSET || !hx_list_is_empty(&timer->node);
}

/* --- signals --- */

static void signal_raised(evutil_socket_t number, short what, void *arg)
{
    struct hx_loop_signal *watch = arg;

    (void)what;
    watch->raised(watch->arg, (int)number);
}

struct hx_loop_signal *hx_loop_signal_new(struct hx_loop *loop, int signal_number,
                                          void (*raised)(void *arg, int signal_number), void *arg)
{
    struct hx_loop_signal *watch = hx_new(struct hx_loop_signal);

    watch->loop = loop;
    watch->raised = raised;
    watch->arg = arg;
    watch->event = evsignal_new(loop->base, signal_number, signal_raised, watch);
    hx_assert(watch->event != NULL);
    hx_assert(event_add(watch->event, NULL) == 0);
    loop->object_count++;
    return watch;
}

struct hx_loop_signal *hx_loop_signal_free(struct hx_loop_signal *watch)
{
    if (watch == NULL)
        return NULL;
    event_free(watch->event);
    watch->loop->object_count--;
    return hx_free(watch);
}
