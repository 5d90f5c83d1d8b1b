/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax run`: options out of tables/config.def, then the server's own command.
 */
#ifndef HX_APP_OPTIONS_H
#define HX_APP_OPTIONS_H

#include "app/settings.h"

/* The command line asks for something else than a start. */
#define HX_OPTIONS_HELP 2
#define HX_OPTIONS_SHOW 3 /* --show-settings, among good options */

/* Reads argv[1...] up to "--" or the first word that is no option, and checks the result.
 *
 * Returns 0 with *ret_used = index of the server's command (argc when there is none), 1 with a
 * complaint, or HX_OPTIONS_HELP. */
int hx_options_parse(int argc, char **argv, struct hx_settings *settings, int *ret_used,
                     struct hx_complaint *complaint) HX_MUST_CHECK;

/* "repeat_window" -> "--repeat-window", into HX_OPTION_NAME_SIZE bytes. */
#define HX_OPTION_NAME_SIZE 48
void hx_option_name(const char *setting, char *ret_name);

/* An option that is no setting; it hides a setting, and --tool, of its own name. */
struct hx_extra_option {
    const char *name; /* with underscores */
    bool is_flag;     /* its value is then on or off */
    int (*take)(void *context, struct hx_span value, struct hx_complaint *complaint);
};

/* Another command with the same options, and some of its own. */
struct hx_option_words {
    const char *command; /* "serve" */
    const struct hx_extra_option *extras;
    size_t extra_count;
    void *context; /* for their `take` */
};

/* As hx_options_parse, but nothing is checked. */
int hx_options_read(int argc, char **argv, const struct hx_option_words *words,
                    struct hx_settings *settings, int *ret_used,
                    struct hx_complaint *complaint) HX_MUST_CHECK;

/* Beside the configuration file `path` only options of the whole process are good: it says
 * everything about its servers, and two places for one thing would need an order. */
int hx_options_refuse_beside_file(const struct hx_settings *given, const char *path,
                                  struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
