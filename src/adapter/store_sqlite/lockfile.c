/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"
#include "base/fault.h"

/* Both bytes lie far behind the text that names the holder. */
enum { MAIN_BYTE = 1 << 20, TURNSTILE_BYTE = MAIN_BYTE + 1, NOTE_SIZE = 64 };

static int set_lock(int fd, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &range);
}

/* All that are open, for a fork to find them. */
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hx_list open_locks = {&open_locks, &open_locks};
static bool is_fork_handled;

static void before_fork(void)
{
    pthread_mutex_lock(&open_mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&open_mutex);
}

/* To close is no unlocking here: the parent has it open. */
static void after_fork_in_child(void)
{
    for (struct hx_list *node; (node = hx_list_take_first(&open_locks)) != NULL;) {
        struct hx_lockfile *lock = hx_container_of(node, struct hx_lockfile, node);
        close(lock->fd);
        lock->fd = -1;
        lock->is_held = false;
    }
    pthread_mutex_unlock(&open_mutex);
}

/* Under the mutex, also while the file is opened: no child has what is not in the list. */
static int open_for_forks(struct hx_lockfile *lock)
{
    int error = 0;
    if (!is_fork_handled)
        error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    if (error != 0) {
        errno = error;
        return -1;
    }
    is_fork_handled = true;
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock->fd >= 0)
        hx_list_append(&open_locks, &lock->node);
    return lock->fd;
}

int hx_lockfile_open(struct hx_lockfile *lock, const char *path)
{
    *lock = (struct hx_lockfile){.path = hx_strdup(path), .fd = -1};
    hx_list_init(&lock->node);
    pthread_mutex_lock(&open_mutex);
    int fd = open_for_forks(lock);
    pthread_mutex_unlock(&open_mutex);
    return fd < 0 ? HX_RAISE_ERRNO("The lock file %s cannot be opened", path) : 0;
}

void hx_lockfile_close(struct hx_lockfile *lock)
{
    if (lock->path == NULL)
        return;
    pthread_mutex_lock(&open_mutex);
    hx_list_unlink(&lock->node);
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
    pthread_mutex_unlock(&open_mutex);
    lock->path = hx_free(lock->path);
    lock->is_held = false;
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int raise_busy(const struct hx_lockfile *lock, int64_t wait_ms)
{
    char note[NOTE_SIZE + 1] = "";
    ssize_t len = pread(lock->fd, note, NOTE_SIZE, 0);
    note[len > 0 ? len : 0] = '\0';
    note[strcspn(note, "\n")] = '\0';
    (void)HX_RAISE(HX_E_STORE,
                   "The ledger is in use by another process (%s) that has not let go of it for "
                   "%lld ms: stop that process, or try again.",
                   note[0] != '\0' ? note : "unknown", (long long)wait_ms);
    return HX_LOCKFILE_BUSY;
}

/* Waits for one byte, until `deadline_us`. 0, 1 when time is up, or negative. */
static int wait_for(const struct hx_lockfile *lock, off_t byte, int64_t deadline_us)
{
    int64_t pause_us = 10;
    while (set_lock(lock->fd, F_WRLCK, byte) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return HX_RAISE_ERRNO("The lock file %s cannot be locked", lock->path);
        if (now_us() >= deadline_us)
            return 1;
        /* There is no lock call with a time limit; a commit of others takes some 100 us. */
        struct timespec pause = {.tv_nsec = pause_us * 1000};
        (void)ppoll(NULL, 0, &pause, NULL);
        pause_us = pause_us < 500 ? pause_us * 2 : 1000;
    }
    return 0;
}

int hx_lockfile_take(struct hx_lockfile *lock, int64_t wait_ms, const char *purpose)
{
    hx_assert(!lock->is_held);
    int64_t deadline_us = now_us() + wait_ms * 1000;
    int rc = wait_for(lock, TURNSTILE_BYTE, deadline_us);
    if (rc == 0) {
        rc = wait_for(lock, MAIN_BYTE, deadline_us);
        (void)set_lock(lock->fd, F_UNLCK, TURNSTILE_BYTE);
    }
    if (rc != 0)
        return rc < 0 ? HX_TRACE(rc) : raise_busy(lock, wait_ms);
    lock->is_held = true;
    char note[NOTE_SIZE];
    int len = snprintf(note, sizeof(note), "pid %ld, %s\n", (long)getpid(), purpose);
    (void)hx_write_all(lock->fd, note, (size_t)len, 0); /* only for people */
    return 0;
}

void hx_lockfile_drop(struct hx_lockfile *lock)
{
    hx_assert(lock->is_held);
    lock->is_held = false;
    (void)set_lock(lock->fd, F_UNLCK, MAIN_BYTE); /* cannot fail on a lock we hold */
}
