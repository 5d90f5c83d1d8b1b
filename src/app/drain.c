/* SPDX-License-Identifier: MIT */
#include "app/drain.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/digest.h"

/* "drain-SERVERDIGEST-TOKEN"; tokens sort by the time at which their keeper began. */
enum { SERVER_DIGITS = 16, DRAINING_MAX = 256 };

static void name_prefix(const char *server, char ret_prefix[SERVER_DIGITS + 8])
{
    char hex[HX_DIGEST_HEX_SIZE];
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span_cstr(server));
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    hx_digest_hex(&digest, hex);
    snprintf(ret_prefix, SERVER_DIGITS + 8, "drain-%.*s-", SERVER_DIGITS, hex);
}

/* Never of our own file, which must be told by its name: our own lock does not stand in our way, so
 * it would look like one that was left behind, and to close it here would give the lock up. */
static bool is_held(int dir_fd, const char *name)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    if (!is_locked)
        unlinkat(dir_fd, name, 0);
    return is_locked;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct hx_id));
}

/* The tokens of those that drain, oldest first, without `self`. */
static unsigned list_others(const char *dir, const char *server, const struct hx_id *self,
                            struct hx_id *ret_ids)
{
    char prefix[SERVER_DIGITS + 8];
    unsigned count = 0;
    name_prefix(server, prefix);
    DIR *stream = opendir(dir);
    if (stream == NULL)
        return 0;
    struct dirent *entry;
    while ((entry = readdir(stream)) != NULL && count < DRAINING_MAX) {
        struct hx_id id;
        size_t prefix_len = strlen(prefix);
        if (strncmp(entry->d_name, prefix, prefix_len) != 0 ||
            !hx_id_parse(hx_span_cstr(entry->d_name + prefix_len), &id) || hx_id_eq(&id, self))
            continue;
        if (is_held(dirfd(stream), entry->d_name))
            ret_ids[count++] = id;
    }
    closedir(stream);
    qsort(ret_ids, count, sizeof(*ret_ids), compare_ids);
    return count;
}

void hx_drain_init(struct hx_drain *drain)
{
    *drain = (struct hx_drain){.fd = -1};
}

/* Locked before it has the name under which others look for it: what is not locked they remove. */
static int open_locked(const char *path)
{
    char unnamed[4210];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(unnamed, sizeof(unnamed), "%s.new", path);
    int fd = open(unnamed, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETLK, &lock) == 0 && rename(unnamed, path) == 0)
        return fd;
    unlink(unnamed);
    close(fd);
    return -1;
}

void hx_drain_begin(struct hx_drain *drain, const char *dir, const char *server,
                    const struct hx_id *self, unsigned max,
                    void (*stop)(void *context, const struct hx_id *who), void *context)
{
    char prefix[SERVER_DIGITS + 8], token[HX_ID_TEXT_SIZE], path[4200];
    struct hx_id others[DRAINING_MAX];
    name_prefix(server, prefix);
    hx_id_format(self, token);
    snprintf(path, sizeof(path), "%s/%s%s", dir, prefix, token);
    drain->path = hx_strdup(path);
    drain->fd = open_locked(path);
    unsigned count = list_others(dir, server, self, others);
    for (unsigned i = 0; count + 1 > max + i && i < count; i++)
        stop(context, &others[i]);
}

void hx_drain_end(struct hx_drain *drain)
{
    if (drain->path != NULL)
        unlink(drain->path);
    if (drain->fd >= 0)
        close(drain->fd);
    hx_free(drain->path);
    hx_drain_init(drain);
}

unsigned hx_drain_count_others(const char *dir, const char *server, const struct hx_id *self)
{
    struct hx_id others[DRAINING_MAX];
    return list_others(dir, server, self, others);
}
