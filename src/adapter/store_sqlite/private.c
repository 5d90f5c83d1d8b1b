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

/* Who else may put away what is in a directory. */
enum reach { REACH_NOBODY, REACH_GROUP_ZERO, REACH_OTHERS, REACH_OWNER };

/* That there is none such is an answer; anything else says nothing. */
static bool is_answer(int rc)
{
    return rc == 0 || rc == ENOENT || rc == ESRCH || rc == EBADF || rc == EPERM;
}

/* A group of the user's own, as most systems make one for each user: with it, umask 002 gives
 * directories that "the group" may write, and nobody else is in it. */
static bool is_group_of_one(uid_t owner, gid_t gid)
{
    struct passwd user_entry, *user = NULL;
    struct group group_entry, *group = NULL;
    char *texts = hx_new_bytes(2 * (size_t)ENTRY_SIZE);
    /* A group whose members have no room in that is none of one. */
    bool is_his = is_answer(getpwuid_r(owner, &user_entry, texts, ENTRY_SIZE, &user)) &&
                  is_answer(getgrgid_r(gid, &group_entry, texts + ENTRY_SIZE, ENTRY_SIZE, &group));
    if (is_his)
        is_his = user != NULL && group != NULL ? strcmp(user->pw_name, group->gr_name) == 0
                                               : (uid_t)gid == owner;
    for (char **member = group != NULL ? group->gr_mem : NULL; is_his && member && *member;
         member++)
        is_his = user != NULL && strcmp(*member, user->pw_name) == 0;
    hx_free(texts);
    return is_his;
}

static enum reach reach_of(const struct stat *info)
{
    /* Neither mode nor sticky bit binds the owner. */
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return REACH_OWNER;
    if ((info->st_mode & S_ISVTX) != 0)
        return REACH_NOBODY;
    if ((info->st_mode & S_IWOTH) != 0)
        return REACH_OTHERS;
    if ((info->st_mode & S_IWGRP) == 0)
        return REACH_NOBODY;
    if (info->st_gid == 0 && geteuid() != 0)
        return REACH_GROUP_ZERO;
    return is_group_of_one(info->st_uid, info->st_gid) ? REACH_NOBODY : REACH_OTHERS;
}

static void write_reach(char text[TEXT_SIZE], enum reach reach, const char *directory,
                        const struct stat *info)
{
    switch (reach) {
    case REACH_NOBODY:
        return;
    case REACH_OWNER:
        snprintf(text, TEXT_SIZE,
                 "The directory %s belongs to another user (uid %lu), who could put another ledger "
                 "in the place of this one, and calls would run twice: name a directory of your "
                 "own with --ledger.",
                 directory, (unsigned long)info->st_uid);
        return;
    case REACH_OTHERS:
        snprintf(text, TEXT_SIZE,
                 "Other users may write the directory %s (mode %04o), so they could put another "
                 "ledger in the place of this one, and calls would run twice: chmod go-w it, or "
                 "name another directory with --ledger.",
                 directory, info->st_mode & 07777U);
        return;
    case REACH_GROUP_ZERO:
        snprintf(text, TEXT_SIZE,
                 "Whoever has group 0 may write the directory %s (mode %04o) and could put another "
                 "ledger in the place of this one, and calls would run twice. That is right only "
                 "in a container whose users have any number and all have group 0, with a volume "
                 "that no other program has; anywhere else chmod g-w it.",
                 directory, info->st_mode & 07777U);
        return;
    }
}

int hx_directory_check_private(const char *path)
{
    struct stat info;
    char text[TEXT_SIZE];
    if (stat(path, &info) < 0)
        return HX_RAISE_ERRNO("%s cannot be examined", path);
    enum reach reach = reach_of(&info);
    if (geteuid() == 0 || reach == REACH_NOBODY || reach == REACH_GROUP_ZERO)
        return 0;
    write_reach(text, reach, path, &info);
    return HX_RAISE(HX_E_STORE, "%s", text);
}

/* What is refused needs no warning. */
static void write_warning(char text[TEXT_SIZE], const char *directory)
{
    struct stat info;
    if (stat(directory, &info) < 0)
        return;
    enum reach reach = reach_of(&info);
    if (geteuid() == 0 || reach == REACH_GROUP_ZERO)
        write_reach(text, reach, directory, &info);
}

bool hx_store_sqlite_warning(const char *path, char *ret_text, size_t size)
{
    struct hx_paths paths;
    struct stat info;
    char of_directory[TEXT_SIZE] = "";
    char of_ledger[TEXT_SIZE] = "";
    hx_paths_init(&paths, path);
    write_warning(of_directory, paths.directory);
    if (stat(path, &info) == 0 && (info.st_mode & 077) != 0)
        snprintf(of_ledger, sizeof(of_ledger),
                 "Other users could read the ledger %s (mode %04o) until now: what its calls hold "
                 "may be known to them. It is made 0600 when it is opened.",
                 path, info.st_mode & 07777U);
    hx_paths_fini(&paths);
    snprintf(ret_text, size, "%s%s%s", of_directory,
             of_directory[0] != '\0' && of_ledger[0] != '\0' ? " " : "", of_ledger);
    return ret_text[0] != '\0';
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
