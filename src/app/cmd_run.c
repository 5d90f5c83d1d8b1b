/* SPDX-License-Identifier: MIT */
/*
 * `hapax run`: from words to settings and a command. What happens then is in run.c.
 */
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/help.h"
#include "app/log.h"
#include "app/options.h"
#include "app/settings_show.h"

/* The keeper opens the log for itself; here it is only tried, while a mistake can still be told to
 * the person who made it. */
static bool can_log(const struct hx_settings *settings)
{
    struct hx_log_options options = hx_settings_log_options(settings);
    if (hx_log_open(&options) == 0) {
        hx_log_close();
        return true;
    }
    fprintf(stderr, "hapax run: --log-file: %s: %s.\n", hx_fault_last()->text,
            strerror(hx_fault_last()->system_errno));
    return false;
}

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
    } else if (rc == HX_OPTIONS_SHOW) {
        hx_settings_show(&settings, stdout);
        status = HX_EXIT_DONE;
    } else if (rc != 0) {
        fprintf(stderr, "hapax run: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
    } else if (used == argc) {
        fputs("hapax run: there is no server to start. Write its command behind '--':\n"
              "  hapax run -- npx -y @example/server\n",
              stderr);
    } else if (hx_is_url(argv[used]) && argv[used + 1] != NULL) {
        fprintf(stderr, "hapax run: nothing may follow the URL, but '%s' does.\n", argv[used + 1]);
    } else if (hx_is_url(argv[used]) && hx_url_refusal(argv[used]) != NULL) {
        fprintf(stderr, "hapax run: %s.\n", hx_url_refusal(argv[used]));
    } else if (!hx_is_url(argv[used]) && hx_settings_check_headers(&settings, &complaint) != 0) {
        fprintf(stderr, "hapax run: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
    } else if (can_log(&settings)) {
        status = hx_run(&settings, argv + used);
    }
    hx_settings_fini(&settings);
    return status;
}
