/* SPDX-License-Identifier: MIT */
/*
 * Places held for commands whose files are not there yet. Whoever brings the real one deletes its
 * stand-in here, and the last one the file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/commands.h"

/* Without a ledger the server is only started: nothing is promised. */
int hx_run(const struct hx_settings *settings, char **command)
{
    (void)settings; /* nothing to apply them to */
    execvp(command[0], command);
    fprintf(stderr, "hapax run: cannot start '%s': %s.\n", command[0], strerror(errno));
    return HX_EXIT_FAILED;
}

int hx_cmd_ops(int argc, char **argv)
{
    (void)argc; /* nothing is read */
    (void)argv;
    fputs("hapax ops: not built into this program yet.\n", stderr);
    return HX_EXIT_FAILED;
}
