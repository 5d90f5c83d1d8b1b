/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

static char *with_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path) + strlen(suffix) + 1;
    char *text = hx_new_bytes(size);
    snprintf(text, size, "%s%s", path, suffix);
    return text;
}

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return hx_strdup(".");
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    return hx_span_strdup(hx_span(path, len));
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

char *hx_path_true_name(const char *path)
{
    char *found = is_link(path) ? realpath(path, NULL) : NULL;
    char *name = hx_strdup(found != NULL ? found : path);
    free(found); /* style-ok: realpath's own */
    return name;
}

void hx_paths_init(struct hx_paths *paths, const char *given)
{
    char *ledger = hx_path_true_name(given);
    paths->ledger = ledger;
    paths->directory = directory_of(ledger);
    paths->link_directory = is_link(given) ? directory_of(given) : NULL;
    paths->lock = with_suffix(ledger, "-lock");
    paths->counter = with_suffix(ledger, "-counter");
    paths->owners = with_suffix(ledger, "-owners");
    paths->spool = with_suffix(ledger, "-spool");
    paths->blobs = with_suffix(ledger, "-blobs");
}

void hx_paths_fini(struct hx_paths *paths)
{
    hx_free(paths->ledger);
    hx_free(paths->directory);
    hx_free(paths->link_directory);
    hx_free(paths->lock);
    hx_free(paths->counter);
    hx_free(paths->owners);
    hx_free(paths->spool);
    hx_free(paths->blobs);
    *paths = (struct hx_paths){0};
}

char *hx_path_join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = hx_new_bytes(size);
    snprintf(path, size, "%s/%s", directory, name);
    return path;
}

char *hx_path_of_id(const char *directory, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(id, text);
    return hx_path_join(directory, text);
}

int hx_directory_make(const char *path)
{
    char *partial = hx_strdup(path);
    int rc = 0;
    for (char *at = partial + 1; rc == 0; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char ended_by = *at;
        *at = '\0';
        if (mkdir(partial, 0700) < 0 && errno != EEXIST)
            rc = HX_RAISE_ERRNO("The directory %s for the ledger cannot be made", partial);
        *at = ended_by;
        if (ended_by == '\0')
            break;
    }
    hx_free(partial);
    return rc;
}

int hx_directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return HX_RAISE_ERRNO("The directory %s cannot be opened", path);
    int rc = fsync(fd) < 0 ? HX_RAISE_ERRNO("The directory %s cannot be synced", path) : 0;
    close(fd);
    return rc;
}

struct refused_filesystem {
    uint32_t type; /* statfs f_type */
    const char *name;
};

/* On these, locks may not hold between hosts, a sync may not reach a disk, and SQLite's shared
 * memory does not exist. FUSE is among them because that is what sshfs and most cloud mounts look
 * like. */
static const struct refused_filesystem refused[] = {
    {0x6969, "nfs"},          {0xff534d42, "cifs"},   {0xfe534d42, "smb2"},
    {0x517b, "smb"},          {0x65735546, "fuse"},   {0x01021997, "9p"},
    {0x00c36400, "ceph"},     {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"},
    {0x5346414f, "afs"},      {0x6b414653, "afs"},    {0x73757245, "coda"},
    {0x564c, "ncp"},          {0x01161970, "gfs2"},   {0x7461636f, "ocfs2"},
    {0x19830326, "beegfs"},   {0xaad7aaea, "panfs"},  {0x013111a8, "ibrix"},
    {0x7c7c6673, "prl_fs"},   {0x786f4256, "vboxsf"}, {0xbacbacbc, "vmhgfs"},
    {0x20030528, "orangefs"}, {0x61636673, "acfs"},
};

int hx_filesystem_check(const char *directory, bool allow_any)
{
    struct statfs info;
    if (statfs(directory, &info) < 0)
        return HX_RAISE_ERRNO("The file system of %s cannot be examined", directory);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && !allow_any; i++) {
        if ((uint32_t)info.f_type == refused[i].type)
            return HX_RAISE(HX_E_STORE,
                            "%s is on a network file system (%s), where a ledger is not safe: "
                            "put it on a local disk with --ledger.",
                            directory, refused[i].name);
    }
    return 0;
}

int hx_file_ensure_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    struct stat info;
    if (errno != EEXIST)
        return HX_RAISE_ERRNO("%s cannot be made", path);
    if (stat(path, &info) < 0)
        return HX_RAISE_ERRNO("%s cannot be examined", path);
    if (!S_ISREG(info.st_mode))
        return HX_RAISE(HX_E_STORE, "%s is not a regular file.", path);
    if ((info.st_mode & 077) != 0 && chmod(path, 0600) < 0)
        return HX_RAISE_ERRNO("%s can be read by others (mode %03o) and is not ours to change",
                              path, info.st_mode & 0777U);
    return 0;
}

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

int hx_file_check_name(const char *path)
{
    struct stat info;
    struct statx more;
    if (lstat(path, &info) < 0)
        return 0; /* it is not there, or whoever opens it says what is wrong */
    if (S_ISLNK(info.st_mode))
        return HX_RAISE(HX_E_STORE,
                        "The ledger %s is a symbolic link that leads to no file: name the file "
                        "itself.",
                        path);
    if (!S_ISREG(info.st_mode))
        return 0;
    if (info.st_nlink > 1)
        return HX_RAISE(HX_E_STORE,
                        "The ledger %s has %lu names (hard links). Its log and its lock go with "
                        "one of them, so under another one calls would run twice: remove all "
                        "names but the one with the -wal file, or copy the file instead.",
                        path, (unsigned long)info.st_nlink);
    /* A kernel that cannot say it leaves the bit out of the mask, and out of the attributes. */
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &more) == 0 &&
        (more.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return HX_RAISE(HX_E_STORE,
                        "The ledger %s is mounted here as a single file, without the log and the "
                        "lock that stand beside it, so calls would run twice: mount the directory "
                        "that it is in.",
                        path);
    return 0;
}

int hx_write_all(int fd, const void *bytes, size_t len, int64_t offset)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t count = pwrite(fd, at, len, offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return HX_RAISE_ERRNO("write");
        at += count;
        len -= (size_t)count;
        offset += count;
    }
    return 0;
}

int hx_read_all(int fd, void *ret_bytes, size_t len, int64_t offset)
{
    char *at = ret_bytes;
    while (len > 0) {
        ssize_t count = pread(fd, at, len, offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return HX_RAISE_ERRNO("read");
        if (count == 0)
            return 1;
        at += count;
        len -= (size_t)count;
        offset += count;
    }
    return 0;
}
