/* SPDX-License-Identifier: MIT */
#include "app/issue_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

enum { PATH_SIZE = 4352, MISSING = 1 };

/* 0, MISSING, or a fault. */
static int read_secret(const char *path, char ret_secret[HX_ISSUE_SECRET_SIZE])
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? MISSING : HX_RAISE_ERRNO("cannot read %s", path);
    bool is_private = fstat(fd, &status) == 0 && (status.st_mode & 077) == 0;
    ssize_t len = read(fd, ret_secret, HX_ISSUE_SECRET_SIZE);
    int rc = len < 0 ? HX_RAISE_ERRNO("cannot read %s", path) : 0;
    close(fd);
    if (rc != 0)
        return rc;
    if (!is_private)
        return HX_RAISE(HX_E_SYNTAX, "others may read %s; chmod 600 it, or remove it", path);
    if (len != HX_ISSUE_SECRET_SIZE)
        return HX_RAISE(HX_E_SYNTAX,
                        "%s is cut short; remove it, and keys that were handed out before "
                        "are not accepted any more",
                        path);
    return 0;
}

static int write_new(const char *path, struct hx_rand *rand)
{
    uint8_t secret[HX_ISSUE_SECRET_SIZE];
    hx_rand_fill(rand, secret, sizeof(secret));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return HX_RAISE_ERRNO("cannot write %s", path);
    bool is_written =
        write(fd, secret, sizeof(secret)) == (ssize_t)sizeof(secret) && fsync(fd) == 0;
    int rc = is_written ? 0 : HX_RAISE_ERRNO("cannot write %s", path);
    close(fd);
    return rc;
}

/* Under a name of its own first, so that nobody reads half of it; the first of several wins. */
static int make_secret(const char *path, struct hx_rand *rand)
{
    char fresh[PATH_SIZE + 32];
    snprintf(fresh, sizeof(fresh), "%s.%ld", path, (long)getpid());
    (void)unlink(fresh); /* of a process of that number that died in the middle */
    int rc = write_new(fresh, rand);
    if (rc == 0 && link(fresh, path) != 0 && errno != EEXIST)
        rc = HX_RAISE_ERRNO("cannot write %s", path);
    (void)unlink(fresh);
    return rc;
}

int hx_issue_secret_get(const char *ledger, struct hx_rand *rand,
                        char ret_secret[HX_ISSUE_SECRET_SIZE])
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s-issue", ledger);
    int rc = read_secret(path, ret_secret);
    if (rc != MISSING)
        return rc;
    rc = make_secret(path, rand);
    if (rc < 0)
        return HX_TRACE(rc);
    rc = read_secret(path, ret_secret);
    return rc == MISSING ? HX_RAISE(HX_E_SYNTAX, "%s is gone again", path) : rc;
}
