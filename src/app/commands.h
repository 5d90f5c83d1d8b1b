/* SPDX-License-Identifier: MIT */
/*
 * The commands of the program. Each gets its own words (argv[0] is the command) and returns the
 * exit status of the process.
 */
#ifndef HX_APP_COMMANDS_H
#define HX_APP_COMMANDS_H

#include "app/settings.h"

#define HX_EXIT_DONE 0
#define HX_EXIT_FAILED 1
#define HX_EXIT_USAGE 2

int hx_cmd_run(int argc, char **argv);
int hx_cmd_serve(int argc, char **argv);
int hx_cmd_call(int argc, char **argv);
int hx_cmd_check(int argc, char **argv);
int hx_cmd_token(int argc, char **argv);
int hx_cmd_ops(int argc, char **argv);
int hx_cmd_demo(int argc, char **argv);
int hx_cmd_audit(int argc, char **argv);
/* Started by a keeper, never by a person. */
int hx_cmd_reaper(int argc, char **argv);

/* Behind `hapax run`: the server's command, NULL at its end, under checked settings. */
int hx_run(const struct hx_settings *settings, char **command);

struct hx_call_options;
struct hx_call_intent;
/* Behind `hapax call`: one call, new or left open by an earlier process, in a process of its own.
 * Nothing may be open and no thread started. Returns the exit status. `ledger` is an absolute
 * path. */
int hx_call_run(const struct hx_call_options *options, const struct hx_call_intent *intent,
                const char *ledger);

#endif
