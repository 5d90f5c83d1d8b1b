/* SPDX-License-Identifier: MIT */
/*
 * `hapax run`: from words to settings and a command. What happens then is in run.c.
 */
#include <stdio.h>

#include "app/commands.h"
#include "app/help.h"
#include "app/options.h"

int hx_cmd_run(int argc, char **argv)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    int used = argc;
    int status = HX_EXIT_USAGE;
    hx_settings_init(&settings);
    int rc = hx_options_parse(argc, argv, &settings, &used, &complaint);
    if (rc == HX_OPTIONS_HELP) {
        hx_help_run(stdout);
        status = HX_EXIT_DONE;
    } else if (rc != 0) {
        fprintf(stderr, "hapax run: %s.\n", complaint.text);
    } else if (used == argc) {
        fputs("hapax run: there is no server to start. Write its command behind '--':\n"
              "  hapax run -- npx -y @example/server\n",
              stderr);
    } else {
        status = hx_run(&settings, argv + used);
    }
    hx_settings_fini(&settings);
    return status;
}
