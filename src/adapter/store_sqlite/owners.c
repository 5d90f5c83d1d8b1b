/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/owners.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"
#include "base/fault.h"

/* Tokens held by this process. The kernel does not report a process's own locks to it, and closing
 * any descriptor of such a file would drop the lock: so these files are never opened again. */
static pthread_mutex_t local_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hx_list local_tokens = {&local_tokens, &local_tokens};
static bool is_fork_handled;

static void before_fork(void)
{
    pthread_mutex_lock(&local_mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&local_mutex);
}

/* Else a child that was forked while another thread had the list would wait for that thread, which
 * it does not have, whenever it asks who is alive. */
static int handle_forks(void)
{
    pthread_mutex_lock(&local_mutex);
    int error = is_fork_handled ? 0 : pthread_atfork(before_fork, after_fork, after_fork);
    is_fork_handled = error == 0;
    pthread_mutex_unlock(&local_mutex);
    errno = error;
    return error == 0 ? 0 : HX_RAISE_ERRNO("What must happen at a fork cannot be said");
}

/* A forked child finds its parent's tokens in the list, but not one of the locks: to it they are
 * tokens of another process. */
static bool is_local(const struct hx_id *token)
{
    bool is_found = false;
    pid_t pid = getpid();
    pthread_mutex_lock(&local_mutex);
    hx_list_for_each (at, &local_tokens) {
        struct hx_owners *owners = hx_container_of(at, struct hx_owners, local);
        is_found |= owners->pid == pid && hx_id_eq(&owners->self, token);
    }
    pthread_mutex_unlock(&local_mutex);
    return is_found;
}

static void set_local(struct hx_owners *owners, bool is_wanted)
{
    pthread_mutex_lock(&local_mutex);
    if (is_wanted)
        hx_list_append(&local_tokens, &owners->local);
    else
        hx_list_unlink(&owners->local);
    pthread_mutex_unlock(&local_mutex);
}

/* The file appears under its name only when it is locked, so nobody can find it free too early. */
static int make_own_file(struct hx_owners *owners)
{
    char name[HX_ID_TEXT_SIZE + 4];
    hx_id_format(&owners->self, name);
    char *path = hx_path_join(owners->directory, name);
    memcpy(name + HX_ID_TEXT_SIZE - 1, ".new", 5);
    char *new_path = hx_path_join(owners->directory, name);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char pid[32];
    int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    owners->fd = open(new_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = 0;
    if (owners->fd < 0 || fcntl(owners->fd, F_SETLK, &whole) < 0 ||
        hx_write_all(owners->fd, pid, (size_t)len, 0) < 0 || rename(new_path, path) < 0)
        rc = HX_RAISE_ERRNO("The owner file %s cannot be made", path);
    hx_free(new_path);
    hx_free(path);
    return rc;
}

int hx_owners_open(struct hx_owners *owners, const char *directory, const struct hx_id *self)
{
    owners->directory = hx_strdup(directory);
    owners->self = *self;
    owners->fd = -1;
    owners->pid = getpid();
    hx_list_init(&owners->local);
    int rc = handle_forks();
    if (rc < 0 || hx_id_is_nil(self))
        return HX_TRACE(rc);
    /* Before there is a file: another thread that looks for the dead at this moment would open it,
     * see no lock, since its own process holds it, and drop that by closing. */
    set_local(owners, true);
    rc = make_own_file(owners);
    if (rc < 0)
        set_local(owners, false);
    return HX_TRACE(rc);
}

void hx_owners_close(struct hx_owners *owners)
{
    if (owners->directory == NULL)
        return;
    if (owners->fd >= 0) {
        char *path = hx_path_of_id(owners->directory, &owners->self);
        if (!owners->is_abandoned)
            (void)unlink(path); /* a file that stays is cleaned by the next process */
        hx_free(path);
        set_local(owners, false);
        close(owners->fd);
        owners->fd = -1;
    }
    owners->directory = hx_free(owners->directory);
}

enum file_lock { FILE_LOCK_HELD, FILE_LOCK_FREE };

static enum file_lock lock_state(const char *directory, const char *name)
{
    char *path = hx_path_join(directory, name);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    bool is_missing = fd < 0 && errno == ENOENT;
    hx_free(path);
    if (fd < 0)
        return is_missing ? FILE_LOCK_FREE : FILE_LOCK_HELD;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool is_free = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type == F_UNLCK;
    close(fd);
    return is_free ? FILE_LOCK_FREE : FILE_LOCK_HELD;
}

bool hx_owners_is_alive(struct hx_owners *owners, const struct hx_id *token)
{
    if (is_local(token))
        return true;
    char name[HX_ID_TEXT_SIZE];
    hx_id_format(token, name);
    return lock_state(owners->directory, name) == FILE_LOCK_HELD;
}

long hx_owners_pid(const char *directory, const struct hx_id *token)
{
    char text[32] = "";
    if (is_local(token))
        return (long)getpid(); /* and its file stays closed: its lock hangs on that */
    char *path = hx_path_of_id(directory, token);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    hx_free(path);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

static bool token_of_name(const char *name, struct hx_id *ret_token)
{
    struct hx_span text = hx_span_cstr(name);
    struct hx_span suffix = HX_SPAN_LIT(".new");
    if (text.len == HX_ID_TEXT_SIZE - 1 + suffix.len &&
        hx_span_eq(hx_span(text.ptr + HX_ID_TEXT_SIZE - 1, suffix.len), suffix))
        text.len -= suffix.len;
    return hx_id_parse(text, ret_token);
}

/* A file still being born is free for a moment; after a minute it never will be. */
static void remove_stillborn(const char *directory, const char *name)
{
    struct stat info;
    char *path = hx_path_join(directory, name);
    if (stat(path, &info) == 0 && time(NULL) - info.st_mtime > 60)
        (void)unlink(path);
    hx_free(path);
}

int hx_owners_each_dead(struct hx_owners *owners, int max,
                        bool (*visit)(void *context, const struct hx_id *token), void *context)
{
    DIR *directory = opendir(owners->directory);
    if (directory == NULL)
        return HX_RAISE_ERRNO("The directory %s cannot be read", owners->directory);
    for (struct dirent *entry; max > 0 && (entry = readdir(directory)) != NULL;) {
        struct hx_id token;
        if (!token_of_name(entry->d_name, &token) || is_local(&token))
            continue;
        if (lock_state(owners->directory, entry->d_name) == FILE_LOCK_HELD)
            continue;
        if (strlen(entry->d_name) != HX_ID_TEXT_SIZE - 1) {
            remove_stillborn(owners->directory, entry->d_name);
            continue;
        }
        max--;
        if (!visit(context, &token))
            continue;
        char *path = hx_path_join(owners->directory, entry->d_name);
        (void)unlink(path);
        hx_free(path);
    }
    closedir(directory);
    return 0;
}
