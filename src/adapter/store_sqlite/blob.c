/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/columns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"
#include "base/crash.h"
#include "base/fault.h"

static char *blob_path(const char *directory, const struct hx_id *id, uint64_t number,
                       const char *suffix)
{
    char name[HX_ID_TEXT_SIZE + 32];
    hx_id_format(id, name);
    size_t len = HX_ID_TEXT_SIZE - 1;
    snprintf(name + len, sizeof(name) - len, "-%llu%s", (unsigned long long)number, suffix);
    return hx_path_join(directory, name);
}

static int write_file(const char *path, struct hx_span bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return HX_RAISE_ERRNO("The file %s for a large result cannot be made", path);
    int rc = hx_write_all(fd, bytes.ptr, bytes.len, 0);
    if (rc == 0 && fsync(fd) < 0)
        rc = -1;
    if (rc < 0)
        rc = HX_RAISE_ERRNO("The file %s for a large result cannot be written", path);
    close(fd);
    return rc;
}

int hx_blob_write(const char *directory, const struct hx_id *id, uint64_t number,
                  struct hx_span bytes)
{
    char *path = blob_path(directory, id, number, "");
    char *new_path = blob_path(directory, id, number, ".new");
    int rc = write_file(new_path, bytes);
    HX_CRASH_POINT("blob-written");
    if (rc == 0 && rename(new_path, path) < 0)
        rc = HX_RAISE_ERRNO("The file %s for a large result cannot be named", path);
    if (rc < 0)
        (void)unlink(new_path);
    if (rc == 0)
        rc = hx_directory_sync(directory);
    HX_CRASH_POINT("blob-named");
    hx_free(new_path);
    hx_free(path);
    return rc;
}

int hx_blob_read(const char *directory, const struct hx_id *id, uint64_t number,
                 struct hx_arena *arena, struct hx_span *ret_bytes)
{
    char *path = blob_path(directory, id, number, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    int rc = 0;
    if (fd < 0 || fstat(fd, &info) < 0)
        rc = HX_RAISE_ERRNO("The stored result %s cannot be read", path);
    if (rc == 0) {
        char *bytes = hx_arena_alloc(arena, (size_t)info.st_size + 1);
        if (bytes == NULL)
            rc = HX_RAISE(HX_E_NOMEM, HX_NO_ROOM);
        else if (hx_read_all(fd, bytes, (size_t)info.st_size, 0) != 0)
            rc = HX_RAISE_ERRNO("The stored result %s cannot be read", path);
        else
            *ret_bytes = hx_span(bytes, (size_t)info.st_size);
    }
    if (fd >= 0)
        close(fd);
    hx_free(path);
    return rc;
}

void hx_blob_remove(const char *directory, const struct hx_id *id, uint64_t number)
{
    char *path = blob_path(directory, id, number, "");
    (void)unlink(path);
    hx_free(path);
}

bool hx_blob_parse_name(const char *name, struct hx_id *ret_id, uint64_t *ret_number)
{
    size_t id_len = HX_ID_TEXT_SIZE - 1;
    if (strlen(name) < id_len + 2 || name[id_len] != '-' ||
        !hx_id_parse(hx_span(name, id_len), ret_id))
        return false;
    char *end;
    errno = 0;
    *ret_number = strtoull(name + id_len + 1, &end, 10);
    return errno == 0 && *end == '\0' && end != name + id_len + 1;
}
