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

int hx_cmd_ops(int argc, char **argv)
{
    (void)argc; /* nothing is read */
    (void)argv;
    fputs("hapax ops: not built into this program yet.\n", stderr);
    return HX_EXIT_FAILED;
}
