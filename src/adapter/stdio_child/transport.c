/* SPDX-License-Identifier: MIT */
/*
 * POSIX locks, not flock: F_GETLK asks without taking, and the lock dies with the process even when
 * a descendant inherited the descriptor. Their trap, that closing any descriptor of the file drops
 * the lock, is the reaper's to mind: it opens the file once.
 */
#include "adapter/stdio_child/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/stdio_child/process_table.h"
#include "base/digest.h"

enum { RECORD_SIZE = 64 };

void hx_transport_name_make(char *ret_name)
{
    uint8_t random[16];

    hx_assert(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
    memcpy(ret_name, "transport-", 10);
    hx_hex_encode(random, sizeof random, ret_name + 10);
}

static uint64_t pid_namespace(void)
{
    struct stat info;

    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

int hx_transport_lock(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        int saved_errno = errno;
        (void)close(fd);
        errno = saved_errno;
        return -1;
    }
    return fd;
}

int hx_transport_record(int lock_fd, pid_t group)
{
    char text[RECORD_SIZE];
    int len =
        snprintf(text, sizeof text, "%ld %llu\n", (long)group, (unsigned long long)pid_namespace());

    return pwrite(lock_fd, text, (size_t)len, 0) == len ? 0 : -1;
}

static enum hx_transport_state probe_file(int fd, bool *ret_is_leftover)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[RECORD_SIZE] = "";
    long group;
    unsigned long long namespace_id;
    ssize_t len;

    if (fcntl(fd, F_GETLK, &lock) != 0)
        return HX_TRANSPORT_UNKNOWN;
    if (lock.l_type != F_UNLCK)
        return HX_TRANSPORT_ALIVE;
    len = pread(fd, text, sizeof text - 1, 0);
    if (len < 0)
        return HX_TRANSPORT_UNKNOWN;
    /* Killed before it wrote the group down, hence before the child could get a byte. */
    if (len == 0)
        return HX_TRANSPORT_GONE;
    if (sscanf(text, "%ld %llu\n", &group, &namespace_id) != 2 || group <= 1 || namespace_id == 0 ||
        namespace_id != pid_namespace())
        return HX_TRANSPORT_UNKNOWN;
    *ret_is_leftover = !hx_process_group_is_alive((pid_t)group);
    return *ret_is_leftover ? HX_TRANSPORT_GONE : HX_TRANSPORT_ALIVE;
}

enum hx_transport_state hx_transport_probe(const char *dir, const char *name)
{
    enum hx_transport_state state = HX_TRANSPORT_UNKNOWN;
    int dir_fd;
    int fd;

    if (name[0] == '\0')
        return HX_TRANSPORT_GONE;
    if (name[0] == '.' || strchr(name, '/') != NULL)
        return HX_TRANSPORT_UNKNOWN;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return HX_TRANSPORT_UNKNOWN;
    fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        bool is_leftover = false;
        state = probe_file(fd, &is_leftover);
        (void)close(fd);
        /* Tidiness: the next probe answers the same. Never a file that its reaper may be about to
         * lock and fill. */
        if (is_leftover)
            (void)unlinkat(dir_fd, name, 0);
    } else if (errno == ENOENT) {
        state = HX_TRANSPORT_GONE;
    }
    (void)close(dir_fd);
    return state;
}
