/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax ops`: its commands, their options, and the help that is made from
 * both.
 */
#ifndef HX_APP_OPS_OPTIONS_H
#define HX_APP_OPS_OPTIONS_H

#include <stdio.h>

#include "app/settings.h"
#include "base/time.h"
#include "core/op.h"

enum hx_ops_command {
    HX_OPS_LIST,
    HX_OPS_SHOW,
    HX_OPS_WATCH,
    HX_OPS_RESOLVE,
    HX_OPS_CANCEL,
    HX_OPS_APPROVE,
    HX_OPS_DENY,
    HX_OPS_OUTBOX,
    HX_OPS_EXPORT,
    HX_OPS_SIZE,
    HX_OPS_VERIFY,
    HX_OPS_RECOVER,
    HX_OPS_COMMAND_COUNT
};

enum { HX_OPS_REDACT_MAX = 64 };

struct hx_ops_options {
    enum hx_ops_command command;
    const char *ledger; /* NULL = the default place */
    bool is_json;

    /* Which operations. */
    uint32_t states; /* bits (1 << enum hx_op_state); 0 = not said */
    const char *tool;
    const char *server;
    int64_t older_than_ms;
    bool needs_human;
    int64_t limit; /* 0 = no limit */
    struct hx_wall since;

    /* What of them. */
    bool has_arguments;   /* show: also where nobody but a terminal would see them */
    bool without_payload; /* no arguments, no results */
    const char *redact[HX_OPS_REDACT_MAX]; /* members whose values are left out too */
    int redact_count;
    bool is_raw; /* nothing is left out of arguments and results */

    /* Which one, and what is decided. */
    const char *id; /* as it was written; NULL = named by its key */
    const char *key;
    bool is_key_principal_scoped;
    enum hx_event_type decision;
    bool is_forced;
    const char *note;
    const char *result;

    struct hx_wall backup_taken_at;

    /* outbox: what is done with the event `id`, or with all that are parked. */
    bool is_again;
    bool is_parked;
    bool is_drop;
    bool is_end;
    bool is_all; /* list: also what is over */
};

enum { HX_OPS_LIST_LIMIT = 50 };

/* Asked for help: print hx_ops_help() for `command`, or the overview when it is
 * HX_OPS_COMMAND_COUNT. */
#define HX_OPS_HELP 2

/* Reads argv[1...]. 0, 1 with a complaint, or HX_OPS_HELP. Borrows the words. `now` is what times
 * ago are counted from. */
int hx_ops_parse(int argc, char **argv, struct hx_wall now, struct hx_ops_options *ret_options,
                 struct hx_complaint *complaint) HX_MUST_CHECK;

const char *hx_ops_command_name(enum hx_ops_command command);
/* HX_OPS_COMMAND_COUNT gives the overview. */
void hx_ops_help(FILE *out, enum hx_ops_command command);
void hx_ops_help_options(FILE *out, enum hx_ops_command command);

#endif
