/* SPDX-License-Identifier: MIT */
/*
 * `hapax serve`: from words and a file to a checked configuration. What happens then is in serve.c.
 */
#include <stdio.h>

#include "app/commands.h"
#include "app/help.h"
#include "app/serve.h"
#include "app/serve_options.h"

int hx_cmd_serve(int argc, char **argv)
{
    struct hx_config config;
    struct hx_complaint complaint;
    int status = HX_EXIT_USAGE;
    hx_config_init(&config);
    int rc = hx_serve_options_parse(argc, argv, &config, &complaint);
    if (rc == HX_OPTIONS_HELP) {
        hx_help_serve(stdout);
        status = HX_EXIT_DONE;
    } else if (rc != 0) {
        fprintf(stderr, "hapax serve: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
    } else {
        for (const struct hx_config_warning *at = config.warnings; at; at = at->next)
            fprintf(stderr, "hapax serve: %s.\n", at->text);
        status = hx_serve(&config, argc, argv);
    }
    hx_config_fini(&config);
    return status;
}
