/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax call`: a target, a tool and its arguments; or calls that an earlier
 * process left open.
 *
 *     hapax call [OPTION...] URL TOOL [JSON]
 *     hapax call [OPTION...] TOOL [JSON] -- COMMAND [ARGUMENT...]
 *     hapax call [OPTION...] --config FILE NAME TOOL [JSON]
 *     hapax call --resume [KEY [TOOL [SERVER]] | --all]
 *     hapax call --give-up KEY [TOOL [SERVER]]
 *
 * Options stand anywhere before "--". The same words, kept with the intent, are read again when an
 * open call is taken up, so that what a target needs is said in one language only.
 */
#ifndef HX_APP_CALL_OPTIONS_H
#define HX_APP_CALL_OPTIONS_H

#include "app/config.h"
#include "app/options.h"

#define HX_CALL_WAIT_DEFAULT_MS (5 * 60 * 1000)

enum hx_call_action { HX_CALL_NEW, HX_CALL_RESUME, HX_CALL_RESUME_ALL, HX_CALL_GIVE_UP };

struct hx_call_options {
    enum hx_call_action action;
    struct hx_settings given; /* what the words say; `settings` is what holds */
    struct hx_config config;  /* read only for a target with a name */
    const char *config_path;
    const struct hx_settings *settings; /* of the target: `given`, or the upstream's */

    /* The target: a command or a URL. */
    char *const *command;
    const char *const *env;
    const char *cwd;
    const char *url;
    const char *const *headers;
    const char *name; /* in the file; NULL: none */

    const char *tool;
    const char *json;   /* as it was written: JSON, @FILE or -; NULL: {} */
    int json_at;        /* its place in argv; 0: none */
    const char *key;    /* --key, or the one behind --resume and --give-up; NULL: none */
    const char *server; /* behind the key and the tool of an open call; NULL: any */
    int64_t wait_ms;
    bool is_wait_given;
    bool is_json;
};

void hx_call_options_init(struct hx_call_options *options);
void hx_call_options_fini(struct hx_call_options *options);

/* Borrows argv. 0, 1 with a complaint, HX_OPTIONS_HELP, or HX_OPTIONS_SHOW. */
int hx_call_options_parse(int argc, char **argv, struct hx_call_options *options,
                          struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
