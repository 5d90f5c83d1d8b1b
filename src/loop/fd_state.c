/* SPDX-License-Identifier: MIT */
#include "loop/fd_state.h"

#include <errno.h>
#include <poll.h>

short hx_fd_state(int fd, short events)
{
    struct pollfd at = {.fd = fd, .events = events};
    int rc;

    /* Even a poll() that does not wait is interrupted when a signal is there and nothing else. */
    do
        rc = poll(&at, 1, 0);
    while (rc < 0 && errno == EINTR);
    return rc > 0 ? at.revents : 0;
}
