/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "app/commands.h"

int hx_cmd_demo(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs("hapax demo: not built into this program yet.\n", stderr);
    return HX_EXIT_FAILED;
}
