/* SPDX-License-Identifier: MIT */
/*
 * A disk below a whole program: preloaded, it keeps account of what a host crash would take away,
 * and fails when it is told to. It stands below SQLite, the spool, the counter and the blobs alike.
 *
 *   HAPAX_DISK        the directory that it watches, absolute; other files are left alone
 *   HAPAX_DISK_LOG    a file that gets one line for each change and each sync
 *   HAPAX_DISK_FAULT  a file; while it is there, its first word fails operations below HAPAX_DISK:
 *                     `eio` changes and syncs, `sync` syncs alone, `full` what needs more room.
 *                     A second word narrows it to paths that hold that text.
 *   HAPAX_DISK_KILL   N: the process is killed in place of its N-th change or sync there; `N half`:
 *                     when that one is a write, half of it is done first
 *   HAPAX_DISK_FAIL   N TIMES WORD: the N-th change or sync that WORD (as above) speaks of fails,
 *                     and TIMES - 1 after it
 * A program may be linked with this file instead.
 *
 * Lines, one write each, so that processes may share the log:
 *   W INODE OFFSET SIZE HEX   before a change of bytes: the old size, and the old bytes from OFFSET
 *   S INODE                   the file's bytes are safe now
 *   C PATH   U PATH SAVED   R OLD NEW   a name came, went (its file kept as SAVED), changed
 *   D PATH                    the names in that directory are safe now
 * tests/e2e/kit/hostcrash.py plays them back. The shared memory of SQLite is left out: it does not
 * outlive a boot. Everything goes by syscall(2), past our own functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_watched(const char *path)
{
    const char *root = getenv("HAPAX_DISK");
    size_t len = root != NULL ? strlen(root) : 0, path_len = strlen(path);
    bool is_memory = path_len >= 4 && strcmp(path + path_len - 4, "-shm") == 0;
    return len > 0 && !is_memory && strncmp(path, root, len) == 0 &&
           (path[len] == '/' || path[len] == '\0');
}

/* The name behind a descriptor, if it is one of ours. */
static bool is_watched_fd(int fd, char ret_path[PATH_MAX])
{
    char link[64];
    if (getenv("HAPAX_DISK") == NULL)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret_path, PATH_MAX - 1);
    ret_path[len > 0 ? len : 0] = '\0';
    return len > 0 && is_watched(ret_path);
}

static int errno_of(const char *word, bool is_sync, bool needs_room)
{
    if (strcmp(word, "eio") == 0 || (strcmp(word, "sync") == 0 && is_sync))
        return EIO;
    return strcmp(word, "full") == 0 && needs_room ? ENOSPC : 0;
}

static int counted_fault(bool is_sync, bool needs_room)
{
    static _Atomic unsigned long count;
    const char *text = getenv("HAPAX_DISK_FAIL");
    unsigned long first = 0, times = 0;
    char word[16];
    if (text == NULL || sscanf(text, "%lu %lu %15s", &first, &times, word) != 3)
        return 0;
    int error = errno_of(word, is_sync, needs_room);
    if (error == 0)
        return 0;
    unsigned long number = ++count;
    return number >= first && number < first + times ? error : 0;
}

/* Dies in place of what would be done now, or in the middle of it. */
static void maybe_die(int fd, const void *bytes, size_t len, off_t offset)
{
    static _Atomic unsigned long count;
    const char *text = getenv("HAPAX_DISK_KILL");
    if (text == NULL || ++count != strtoul(text, NULL, 10))
        return;
    if (strstr(text, "half") != NULL && len > 1)
        (void)!syscall(SYS_pwrite64, fd, bytes, len / 2, offset);
    (void)raise(SIGKILL);
}

/* The errno with which the next operation of this kind fails; 0 when it may go on. */
static int fault_of(const char *path, bool is_sync, bool needs_room)
{
    const char *name = getenv("HAPAX_DISK_FAULT");
    char text[256] = "", word[16] = "", part[200] = "";
    int fd = name != NULL ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return counted_fault(is_sync, needs_room);
    ssize_t len = syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%15s %199s", word, part) < 1 || strstr(path, part) == NULL)
        return 0;
    return errno_of(word, is_sync, needs_room);
}

/* An account with a hole is worse than none. */
static void write_down(const char *line, size_t len)
{
    const char *name = getenv("HAPAX_DISK_LOG");
    if (name == NULL)
        return;
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || syscall(SYS_write, fd, line, len) != (long)len)
        abort();
    syscall(SYS_close, fd);
}

static void note(const char *kind, const char *first, const char *second)
{
    char line[3 * PATH_MAX];
    int len = snprintf(line, sizeof(line), "%s %s%s%s\n", kind, first, *second != '\0' ? " " : "",
                       second);
    write_down(line, (size_t)len);
}

static struct stat facts_of(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) < 0)
        abort();
    return facts;
}

/* Before `len` bytes from `offset` on are overwritten or cut away. Through the descriptor itself:
 * to close another one of the same file would drop the locks that the program has on it. Files that
 * are for writing only are new, and written from their beginning to their end. */
static void note_change(int fd, off_t offset, size_t len)
{
    struct stat facts = facts_of(fd);
    off_t left = facts.st_size > offset ? facts.st_size - offset : 0;
    size_t count = (off_t)len < left ? len : (size_t)left;
    char *line = malloc(2 * count + 128);
    unsigned char *old = malloc(count + 1);
    if (line == NULL || old == NULL ||
        (count > 0 && syscall(SYS_pread64, fd, old, count, offset) != (long)count))
        abort();
    size_t at = (size_t)snprintf(line, 128, "W %llu %lld %lld ", (unsigned long long)facts.st_ino,
                                 (long long)offset, (long long)facts.st_size);
    for (size_t i = 0; i < count; i++, at += 2)
        snprintf(line + at, 3, "%02x", old[i]);
    line[at++] = '\n';
    write_down(line, at);
    free(line);
    free(old);
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
    char path[PATH_MAX];
    if (is_watched_fd(fd, path)) {
        int error = fault_of(path, false, offset + (off_t)len > facts_of(fd).st_size);
        if (error != 0)
            return refuse(error);
        note_change(fd, offset, len);
        maybe_die(fd, bytes, len, offset);
    }
    return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return pwrite64(fd, bytes, len, offset);
}

int ftruncate64(int fd, off64_t size)
{
    char path[PATH_MAX];
    if (is_watched_fd(fd, path)) {
        off_t old = facts_of(fd).st_size;
        int error = fault_of(path, false, size > old);
        if (error != 0)
            return refuse(error);
        note_change(fd, size, old > size ? (size_t)(old - size) : 0);
        maybe_die(fd, NULL, 0, 0);
    }
    return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

int posix_fallocate64(int fd, off64_t offset, off64_t len)
{
    char path[PATH_MAX];
    if (is_watched_fd(fd, path)) {
        int error = fault_of(path, false, offset + len > facts_of(fd).st_size);
        if (error != 0)
            return error;
        note_change(fd, offset + len, 0);
        maybe_die(fd, NULL, 0, 0);
    }
    return syscall(SYS_fallocate, fd, 0, offset, len) < 0 ? errno : 0;
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
    return posix_fallocate64(fd, offset, len);
}

static int sync_by(long number, int fd)
{
    char path[PATH_MAX], inode[32];
    bool is_ours = is_watched_fd(fd, path);
    int error = is_ours ? fault_of(path, true, false) : 0;
    if (error != 0)
        return refuse(error);
    if (is_ours)
        maybe_die(fd, NULL, 0, 0);
    int rc = (int)syscall(number, fd);
    if (is_ours && rc == 0) {
        struct stat facts = facts_of(fd);
        snprintf(inode, sizeof(inode), "%llu", (unsigned long long)facts.st_ino);
        if (S_ISDIR(facts.st_mode))
            note("D", path, "");
        else
            note("S", inode, "");
    }
    return rc;
}

int fsync(int fd)
{
    return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_by(SYS_fdatasync, fd);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    bool is_new = false;
    if ((flags & O_CREAT) != 0 && is_watched(path))
        is_new = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) < 0;
    if (is_new)
        maybe_die(-1, NULL, 0, 0);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~(is_new ? 0 : O_TRUNC), mode);
    if (fd >= 0 && is_new)
        note("C", path, "");
    if (fd >= 0 && !is_new && (flags & O_TRUNC) != 0 && ftruncate64(fd, 0) < 0) {
        syscall(SYS_close, fd);
        return -1;
    }
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open64(path, flags, mode);
}

int unlink(const char *path)
{
    static _Atomic unsigned count;
    char saved[PATH_MAX];
    const char *log = getenv("HAPAX_DISK_LOG");
    if (is_watched(path))
        maybe_die(-1, NULL, 0, 0);
    if (log != NULL && is_watched(path)) {
        snprintf(saved, sizeof(saved), "%s-%d-%u", log, (int)getpid(), count++);
        if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, saved, 0) == 0)
            note("U", path, saved);
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int rename(const char *from, const char *to)
{
    if (is_watched(to))
        maybe_die(-1, NULL, 0, 0);
    int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (rc == 0 && is_watched(to))
        note("R", from, to);
    return rc;
}
