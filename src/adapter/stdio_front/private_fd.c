/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "adapter/stdio_front/private_fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

enum hx_fd_kind hx_fd_kind(int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return HX_FD_OTHER;
    if (S_ISFIFO(info.st_mode))
        return HX_FD_PIPE;
    return S_ISSOCK(info.st_mode) ? HX_FD_SOCKET : HX_FD_OTHER;
}

int hx_private_fd(int fd)
{
    char path[32];
    int flags = fcntl(fd, F_GETFL);
    int own;

    hx_assert(flags >= 0);
    if (hx_fd_kind(fd) != HX_FD_PIPE && isatty(fd) != 1) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        return fd;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* Without O_NOCTTY a keeper, which leads no terminal, could be given one. */
    own = open(path, (flags & O_ACCMODE) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own >= 0) {
        (void)close(fd);
        return own;
    }
    /* Made by another user, or its reader is gone already. The shared flag must do. */
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}
