/* SPDX-License-Identifier: MIT */
/*
 * The system calls, and which failures fit each. The ones that begin with `~` must make no
 * difference: an interrupted call, a descriptor that has nothing after all, a part of what was
 * asked for. What the kernel never does is left out: a call that need not wait is not interrupted,
 * and one on a regular file is neither that nor cut short.
 */
#include "nth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAITS_MAX = 4096 };

#define CALLER __builtin_return_address(0)

#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (next == NULL)                                                                              \
    next = (__typeof__(&name))(uintptr_t)nth_next(#name)

/* In a function of that name: returns -1 with that errno in place of the call. */
#define MAY_FAIL(name, faults)                                                                     \
    do {                                                                                           \
        int fault_ = nth_fault(NTH_CALLS, #name, CALLER, faults);                                  \
        if (fault_ > 0) {                                                                          \
            errno = fault_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

/* Who waits for a descriptor: one that "has nothing yet" is told again when it has, though nothing
 * has changed, and an edge must not be lost by us. */
static struct {
    int epoll; /* 0 = nobody */
    struct epoll_event event;
} waits[WAITS_MAX];

static void wake_again(int fd)
{
    int saved_errno = errno;
    if (fd >= 0 && fd < WAITS_MAX && waits[fd].epoll > 0)
        syscall(SYS_epoll_ctl, waits[fd].epoll, EPOLL_CTL_MOD, fd, &waits[fd].event);
    errno = saved_errno;
}

#define MAY_FAIL_FD(name, faults)                                                                  \
    do {                                                                                           \
        int fault_ = nth_fault(NTH_CALLS, #name, CALLER, faults);                                  \
        if (fault_ > 0)                                                                            \
            return refuse(fd, fault_);                                                             \
    } while (0)

static int refuse(int fd, int fault)
{
    if (fault == EAGAIN)
        wake_again(fd);
    errno = fault;
    return -1;
}

static bool does_not_block(int fd)
{
    long flags = syscall(SYS_fcntl, fd, F_GETFL, 0);
    return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

static mode_t type_of(int fd)
{
    struct stat facts;
    return syscall(SYS_fstat, fd, &facts) == 0 ? facts.st_mode & S_IFMT : 0;
}

static const char *read_faults(int fd, int flags)
{
    bool is_patient = !does_not_block(fd) && (flags & MSG_DONTWAIT) == 0;
    switch (type_of(fd)) {
    case S_IFREG:
        return "EIO";
    case S_IFSOCK:
        return is_patient ? "~EINTR ECONNRESET" : "~EAGAIN ECONNRESET";
    case S_IFIFO:
        return is_patient ? "~EINTR EIO" : "~EAGAIN EIO";
    case 0: /* events, timers, signals */
        return is_patient ? "" : "~EAGAIN";
    default:
        return "";
    }
}

static const char *write_faults(int fd, int flags, size_t len)
{
    bool is_patient = !does_not_block(fd) && (flags & MSG_DONTWAIT) == 0;
    switch (type_of(fd)) {
    case S_IFREG:
        return len > 1 ? "ENOSPC EIO SHORT" : "ENOSPC EIO"; /* short: the disk is full now */
    case S_IFIFO:
        if (len <= PIPE_BUF) /* all or nothing */
            return is_patient ? "~EINTR EPIPE" : "~EAGAIN EPIPE";
        __attribute__((fallthrough));
    case S_IFSOCK:
        if (is_patient)
            return len > 1 ? "~EINTR ~SHORT EPIPE" : "~EINTR EPIPE";
        return len > 1 ? "~EAGAIN ~SHORT EPIPE" : "~EAGAIN EPIPE";
    default:
        return ""; /* to wake somebody never fails */
    }
}

static size_t total_of(const struct iovec *parts, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    return total;
}

/* The first part that has bytes, and of those half. */
static ssize_t write_half(int fd, const struct iovec *parts, int count, int flags)
{
    for (int i = 0; i < count; i++) {
        size_t len = (parts[i].iov_len + 1) / 2;
        if (len > 0 && type_of(fd) == S_IFSOCK)
            return syscall(SYS_sendto, fd, parts[i].iov_base, len, flags | MSG_NOSIGNAL, NULL, 0);
        if (len > 0)
            return syscall(SYS_write, fd, parts[i].iov_base, len);
    }
    return 0;
}

/* --- bytes --- */

ssize_t read(int fd, void *bytes, size_t len)
{
    NEXT(read);
    MAY_FAIL_FD(read, read_faults(fd, 0));
    return next(fd, bytes, len);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    NEXT(readv);
    MAY_FAIL_FD(readv, read_faults(fd, 0));
    return next(fd, parts, count);
}

ssize_t pread64(int fd, void *bytes, size_t len, off64_t offset)
{
    NEXT(pread64);
    MAY_FAIL(pread64, "EIO");
    return next(fd, bytes, len, offset);
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    NEXT(recv);
    MAY_FAIL_FD(recv, read_faults(fd, flags));
    return next(fd, bytes, len, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    NEXT(recvmsg);
    MAY_FAIL_FD(recvmsg, read_faults(fd, flags));
    return next(fd, message, flags);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    NEXT(write);
    int fault = nth_fault(NTH_CALLS, "write", CALLER, write_faults(fd, 0, len));
    if (fault == NTH_SHORT)
        return syscall(SYS_write, fd, bytes, (len + 1) / 2);
    if (fault > 0)
        return refuse(fd, fault);
    return next(fd, bytes, len);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    NEXT(writev);
    int fault = nth_fault(NTH_CALLS, "writev", CALLER, write_faults(fd, 0, total_of(parts, count)));
    if (fault == NTH_SHORT)
        return write_half(fd, parts, count, 0);
    if (fault > 0)
        return refuse(fd, fault);
    return next(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
    NEXT(pwrite64);
    int fault =
        nth_fault(NTH_CALLS, "pwrite64", CALLER, len > 1 ? "ENOSPC EIO SHORT" : "ENOSPC EIO");
    if (fault == NTH_SHORT)
        return next(fd, bytes, (len + 1) / 2, offset);
    if (fault > 0) {
        errno = fault;
        return -1;
    }
    return next(fd, bytes, len, offset);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    NEXT(send);
    int fault = nth_fault(NTH_CALLS, "send", CALLER, write_faults(fd, flags, len));
    if (fault == NTH_SHORT)
        return next(fd, bytes, (len + 1) / 2, flags);
    if (fault > 0)
        return refuse(fd, fault);
    return next(fd, bytes, len, flags);
}

/* With descriptors aboard it is not cut: they go with the first byte. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    size_t len = total_of(message->msg_iov, (int)message->msg_iovlen);
    if (message->msg_control != NULL)
        len = 1;
    int fault = nth_fault(NTH_CALLS, "sendmsg", CALLER, write_faults(fd, flags, len));
    if (fault == NTH_SHORT)
        return write_half(fd, message->msg_iov, (int)message->msg_iovlen, flags);
    if (fault > 0)
        return refuse(fd, fault);
    return next(fd, message, flags);
}

/* --- descriptors --- */

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode,
                  const void *caller)
{
    const char *faults = (flags & O_CREAT) != 0 ? "EMFILE ENOSPC" : "EMFILE EACCES";
    int fault = nth_fault(NTH_CALLS, "open", caller, faults);
    if (fault > 0) {
        errno = fault;
        return -1;
    }
    return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

int open64(const char *path, int flags, ...)
{
    NEXT(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return opened(next, path, flags, mode, CALLER);
}

int open(const char *path, int flags, ...)
{
    NEXT(open);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return opened(next, path, flags, mode, CALLER);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
    NEXT(open64);
    return opened(next, path, flags, 0, CALLER);
}

int openat64(int dir, const char *path, int flags, ...)
{
    NEXT(openat64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    MAY_FAIL(openat, (flags & O_CREAT) != 0 ? "EMFILE ENOSPC" : "EMFILE EACCES");
    return next(dir, path, flags, mode);
}

/* The descriptor is gone, whatever it says. */
int close(int fd)
{
    NEXT(close);
    mode_t type = type_of(fd);
    int fault = nth_fault(NTH_CALLS, "close", CALLER, type == S_IFREG ? "~EINTR EIO" : "~EINTR");
    int rc = next(fd);
    if (fault > 0) {
        errno = fault;
        return -1;
    }
    return rc;
}

int fcntl64(int fd, int command, ...)
{
    NEXT(fcntl64);
    va_list rest;
    va_start(rest, command);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    const char *faults = command == F_DUPFD_CLOEXEC || command == F_DUPFD ? "EMFILE"
                         : command == F_SETLK || command == F_OFD_SETLK   ? "ENOLCK EAGAIN"
                         : command == F_GETLK || command == F_OFD_GETLK   ? "ENOLCK"
                         : command == F_SETFL && type_of(fd) != S_IFREG   ? "EPERM"
                                                                          : "";
    MAY_FAIL(fcntl, faults);
    return next(fd, command, arg);
}

int dup2(int from, int to)
{
    NEXT(dup2);
    MAY_FAIL(dup2, "EMFILE");
    return next(from, to);
}

int pipe2(int ends[2], int flags)
{
    NEXT(pipe2);
    MAY_FAIL(pipe2, "EMFILE");
    return next(ends, flags);
}

int eventfd(unsigned count, int flags)
{
    NEXT(eventfd);
    MAY_FAIL(eventfd, "EMFILE");
    return next(count, flags);
}

int timerfd_create(int clock, int flags)
{
    NEXT(timerfd_create);
    MAY_FAIL(timerfd_create, "EMFILE");
    return next(clock, flags);
}

int pidfd_open(pid_t pid, unsigned flags);
int pidfd_open(pid_t pid, unsigned flags)
{
    NEXT(pidfd_open);
    MAY_FAIL(pidfd_open, "EMFILE");
    return next(pid, flags);
}

int epoll_create1(int flags)
{
    NEXT(epoll_create1);
    MAY_FAIL(epoll_create1, "EMFILE");
    return next(flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    MAY_FAIL(epoll_ctl, operation == EPOLL_CTL_ADD ? "ENOSPC" : "");
    int rc = next(epoll, operation, fd, event);
    if (rc == 0 && fd >= 0 && fd < WAITS_MAX) {
        waits[fd].epoll = operation == EPOLL_CTL_DEL ? 0 : epoll;
        if (operation != EPOLL_CTL_DEL)
            waits[fd].event = *event;
    }
    return rc;
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    NEXT(epoll_wait);
    MAY_FAIL(epoll_wait, "~EINTR");
    return next(epoll, events, count, timeout);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    NEXT(poll);
    MAY_FAIL(poll, "~EINTR ENOMEM");
    return next(fds, count, timeout);
}

int ioctl(int fd, unsigned long request, ...)
{
    NEXT(ioctl);
    va_list rest;
    va_start(rest, request);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    MAY_FAIL(ioctl, "EINVAL");
    return next(fd, request, arg);
}

/* --- sockets --- */

int socket(int domain, int type, int protocol)
{
    NEXT(socket);
    MAY_FAIL(socket, "EMFILE ENOBUFS");
    return next(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
    NEXT(socketpair);
    MAY_FAIL(socketpair, "EMFILE");
    return next(domain, type, protocol, ends);
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    NEXT(bind);
    MAY_FAIL(bind, "EADDRINUSE");
    return next(fd, address, len);
}

int listen(int fd, int backlog)
{
    NEXT(listen);
    MAY_FAIL(listen, "EADDRINUSE");
    return next(fd, backlog);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    NEXT(connect);
    MAY_FAIL(connect, address->sa_family == AF_UNIX ? "ECONNREFUSED EAGAIN" : "ECONNREFUSED");
    return next(fd, address, len);
}

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    NEXT(accept4);
    /* The one that was waiting is gone with ECONNABORTED, and is here again with the others. */
    MAY_FAIL_FD(accept4, "~EAGAIN ~ECONNABORTED EMFILE");
    return next(fd, address, len, flags);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    NEXT(setsockopt);
    MAY_FAIL(setsockopt, "ENOBUFS");
    return next(fd, level, name, value, len);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    NEXT(getsockopt);
    MAY_FAIL(getsockopt, "ENOBUFS");
    return next(fd, level, name, value, len);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
    NEXT(getsockname);
    MAY_FAIL(getsockname, "ENOBUFS");
    return next(fd, address, len);
}

/* --- names --- */

int stat64(const char *path, struct stat64 *facts)
{
    NEXT(stat64);
    MAY_FAIL(stat, "EIO EACCES");
    return next(path, facts);
}

int lstat64(const char *path, struct stat64 *facts)
{
    NEXT(lstat64);
    MAY_FAIL(lstat, "EIO EACCES");
    return next(path, facts);
}

int fstat64(int fd, struct stat64 *facts)
{
    NEXT(fstat64);
    MAY_FAIL(fstat, "EIO");
    return next(fd, facts);
}

int unlink(const char *path)
{
    NEXT(unlink);
    MAY_FAIL(unlink, "EIO");
    return next(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    NEXT(unlinkat);
    MAY_FAIL(unlinkat, "EIO");
    return next(dir, path, flags);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);
    MAY_FAIL(rename, "EIO");
    return next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    MAY_FAIL(mkdir, "ENOSPC");
    return next(path, mode);
}

int fchmod(int fd, mode_t mode)
{
    NEXT(fchmod);
    MAY_FAIL(fchmod, "EPERM");
    return next(fd, mode);
}

int fsync(int fd)
{
    NEXT(fsync);
    MAY_FAIL(fsync, "EIO");
    return next(fd);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    MAY_FAIL(fdatasync, "EIO");
    return next(fd);
}

ssize_t readlink(const char *path, char *bytes, size_t len)
{
    NEXT(readlink);
    MAY_FAIL(readlink, "ENOMEM");
    return next(path, bytes, len);
}

FILE *fopen64(const char *path, const char *mode)
{
    NEXT(fopen64);
    int fault = nth_fault(NTH_CALLS, "fopen", CALLER, "EMFILE");
    if (fault > 0) {
        errno = fault;
        return NULL;
    }
    return next(path, mode);
}

DIR *opendir(const char *path)
{
    NEXT(opendir);
    int fault = nth_fault(NTH_CALLS, "opendir", CALLER, "EMFILE");
    if (fault > 0) {
        errno = fault;
        return NULL;
    }
    return next(path);
}

/* --- processes --- */

pid_t fork(void)
{
    NEXT(fork);
    MAY_FAIL(fork, "EAGAIN");
    return next();
}

/* With what a failed fork() returned this would end every process of the host. */
int kill(pid_t pid, int number)
{
    NEXT(kill);
    if (pid == -1)
        abort();
    return next(pid, number);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    NEXT(waitpid);
    MAY_FAIL(waitpid, (options & WNOHANG) != 0 ? "" : "~EINTR");
    return next(pid, status, options);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const environment[])
{
    NEXT(posix_spawn);
    int fault = nth_fault(NTH_CALLS, "posix_spawn", CALLER, "EAGAIN");
    return fault > 0 ? fault : next(pid, path, actions, attributes, argv, environment);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *arg)
{
    NEXT(pthread_create);
    int fault = nth_fault(NTH_CALLS, "pthread_create", CALLER, "EAGAIN");
    return fault > 0 ? fault : next(thread, attributes, body, arg);
}
