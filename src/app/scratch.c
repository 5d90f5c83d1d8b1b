/* SPDX-License-Identifier: MIT */
#include "app/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool hx_scratch_make(const char *command, char ret_path[HX_SCRATCH_SIZE])
{
    const char *base = getenv("TMPDIR");
    if (!base || base[0] != '/' || strlen(base) > 80)
        base = "/tmp";
    snprintf(ret_path, HX_SCRATCH_SIZE, "%s/hapax-%s-XXXXXX", base, command);
    if (mkdtemp(ret_path))
        return true;
    fprintf(stderr, "hapax %s: cannot make a directory in %s: %s.\n", command, base,
            strerror(errno));
    ret_path[0] = '\0';
    return false;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *position)
{
    (void)info; /* files and directories are removed alike */
    (void)type;
    (void)position;
    (void)remove(path); /* what cannot be removed stays; the command has said what it is */
    return 0;
}

void hx_scratch_remove(const char *path)
{
    if (path[0] != '\0')
        (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
