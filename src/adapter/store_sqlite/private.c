/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/private.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/store_sqlite/store_sqlite.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { ENTRY_SIZE = 16 * 1024, TEXT_SIZE = 1024 };

/* A group of the user's own, as most systems make one for each user: with it, umask 002 gives
 * directories that "the group" may write, and nobody else is in it. */
static bool is_group_of_one(uid_t owner, gid_t gid)
{
    struct passwd user_entry, *user = NULL;
    struct group group_entry, *group = NULL;
    if (gid == 0)
        return true; /* whoever is in it may do as root does */
    char *texts = hx_new_bytes(2 * (size_t)ENTRY_SIZE);
    (void)getpwuid_r(owner, &user_entry, texts, ENTRY_SIZE, &user);
    (void)getgrgid_r(gid, &group_entry, texts + ENTRY_SIZE, ENTRY_SIZE, &group);
    bool is_his = user != NULL && group != NULL ? strcmp(user->pw_name, group->gr_name) == 0
                                                : (uid_t)gid == owner;
    for (char **member = group != NULL ? group->gr_mem : NULL; is_his && member && *member;
         member++)
        is_his = user != NULL && strcmp(*member, user->pw_name) == 0;
    hx_free(texts);
    return is_his;
}

/* May others put away what is in it? */
static bool is_open_to_others(const struct stat *info)
{
    if ((info->st_mode & S_ISVTX) != 0)
        return false;
    return (info->st_mode & S_IWOTH) != 0 ||
           ((info->st_mode & S_IWGRP) != 0 && !is_group_of_one(info->st_uid, info->st_gid));
}

static void write_open(char text[TEXT_SIZE], const char *directory, mode_t mode)
{
    snprintf(text, TEXT_SIZE,
             "Other users may write the directory %s (mode %04o), so they could put another ledger "
             "in the place of this one, and calls would run twice: chmod go-w it, or name another "
             "directory with --ledger.",
             directory, mode & 07777U);
}

int hx_directory_check_private(const char *path)
{
    struct stat info;
    char text[TEXT_SIZE];
    if (stat(path, &info) < 0)
        return HX_RAISE_ERRNO("%s cannot be examined", path);
    if (geteuid() == 0 || !is_open_to_others(&info))
        return 0;
    write_open(text, path, info.st_mode);
    return HX_RAISE(HX_E_STORE, "%s", text);
}

bool hx_store_sqlite_warning(const char *path, char *ret_text, size_t size)
{
    struct hx_paths paths;
    struct stat info;
    char text[TEXT_SIZE] = "";
    hx_paths_init(&paths, path);
    if (geteuid() == 0 && stat(paths.directory, &info) == 0 && is_open_to_others(&info))
        write_open(text, paths.directory, info.st_mode);
    else if (stat(path, &info) == 0 && (info.st_mode & 077) != 0)
        snprintf(text, sizeof(text),
                 "Other users could read the ledger %s (mode %04o) until now: what its calls hold "
                 "may be known to them. Its mode is 0600 from here on.",
                 path, info.st_mode & 07777U);
    hx_paths_fini(&paths);
    snprintf(ret_text, size, "%s", text);
    return text[0] != '\0';
}

/* `rights` are the owner's. */
static int make_private(const char *path, mode_t rights)
{
    struct stat info;
    if (lstat(path, &info) < 0)
        return errno == ENOENT ? 0 : HX_RAISE_ERRNO("%s cannot be examined", path);
    if (S_ISLNK(info.st_mode) || (info.st_mode & 077) == 0)
        return 0;
    if (chmod(path, rights) < 0)
        return HX_RAISE_ERRNO("%s is open to other users (mode %04o) and is not ours to change",
                              path, info.st_mode & 07777U);
    return 0;
}

int hx_paths_make_private(const struct hx_paths *paths)
{
    /* SQLite gives these two the mode that the database had when they were made. */
    static const char *const beside[] = {"-wal", "-shm", "-redact"};
    const char *const directories[] = {paths->owners, paths->spool, paths->blobs};
    int rc = make_private(paths->lock, 0600);
    if (rc == 0)
        rc = make_private(paths->counter, 0600);
    for (size_t i = 0; rc == 0 && i < sizeof(beside) / sizeof(beside[0]); i++) {
        size_t size = strlen(paths->ledger) + strlen(beside[i]) + 1;
        char *path = hx_new_bytes(size);
        snprintf(path, size, "%s%s", paths->ledger, beside[i]);
        rc = make_private(path, 0600);
        hx_free(path);
    }
    for (size_t i = 0; rc == 0 && i < sizeof(directories) / sizeof(directories[0]); i++)
        rc = make_private(directories[i], 0700);
    return rc < 0 ? HX_TRACE(rc) : 0;
}
