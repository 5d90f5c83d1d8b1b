/* SPDX-License-Identifier: MIT */
/*
 * How another thread wakes the loop: an eventfd, whose counter makes many posts one wake-up.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "loop/loop.h"

struct hx_loop_wake {
    struct hx_loop_fd *watch;
    int fd;
    void (*woken)(void *arg);
    void *arg;
};

static void wake_ready(void *arg, unsigned events)
{
    struct hx_loop_wake *wake = arg;
    uint64_t count;

    (void)events;
    if (read(wake->fd, &count, sizeof count) == (ssize_t)sizeof count)
        wake->woken(wake->arg);
}

struct hx_loop_wake *hx_loop_wake_new(struct hx_loop *loop, void (*woken)(void *arg), void *arg)
{
    struct hx_loop_wake *wake = hx_new(struct hx_loop_wake);

    wake->woken = woken;
    wake->arg = arg;
    wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hx_assert(wake->fd >= 0);
    wake->watch = hx_loop_fd_new(loop, wake->fd, wake_ready, wake);
    hx_loop_fd_want(wake->watch, HX_LOOP_READ);
    return wake;
}

struct hx_loop_wake *hx_loop_wake_free(struct hx_loop_wake *wake)
{
    if (wake == NULL)
        return NULL;
    wake->watch = hx_loop_fd_free(wake->watch);
    (void)close(wake->fd);
    return hx_free(wake);
}

void hx_loop_wake_post(struct hx_loop_wake *wake)
{
    static const uint64_t one = 1;
    int saved_errno = errno;

    /* EAGAIN means the counter is full, which is a wake-up too. */
    (void)!write(wake->fd, &one, sizeof one);
    errno = saved_errno;
}
