/* SPDX-License-Identifier: MIT */
/*
 * How `hapax call` tells what became of a call: an exit status for a script, words for a person, or
 * one JSON object for a program.
 */
#ifndef HX_APP_CALL_REPORT_H
#define HX_APP_CALL_REPORT_H

#include <stdio.h>

#include "adapter/call_front/call_front.h"
#include "app/call_intent.h"

/* 0, 1 and 2 are those of every command; 3 and 4 mean here what they mean for `hapax ops`. */
#define HX_CALL_EXIT_DONE 0           /* the tool's result, or: it happened */
#define HX_CALL_EXIT_TOOL_ERROR 1     /* the tool ran and answered with an error */
#define HX_CALL_EXIT_USAGE 2          /* nothing was sent */
#define HX_CALL_EXIT_ABSENT 3         /* no such call is open */
#define HX_CALL_EXIT_NO_LEDGER 4      /* this process sent nothing */
#define HX_CALL_EXIT_NOT_HAPPENED 5   /* proven, or refused: nothing happened, nothing will */
#define HX_CALL_EXIT_NO_SERVER 6      /* it cannot be reached; this process sent nothing */
#define HX_CALL_EXIT_UNKNOWN 7        /* it may have happened */
#define HX_CALL_EXIT_KEEPER_LOST 70   /* HX_FRONT_KEEPER_LOST */
#define HX_CALL_EXIT_STILL_RUNNING 75 /* EX_TEMPFAIL: it runs, or waits for something */

struct hx_call_told {
    const struct hx_call_answer *answer;
    struct hx_call_name name;
    int status;              /* hx_call_exit_status(), or that it must be asked for again */
    const char *ops_options; /* what a person must add to read this ledger */
    bool is_json;
};

int hx_call_exit_status(const struct hx_call_answer *answer);
/* Is there nothing left that a later process could settle? `is_fresh`: the call was first written
 * down by this process. */
bool hx_call_is_settled(const struct hx_call_answer *answer, bool is_fresh);
/* Does it say that nothing was sent, so that nothing of the call may run after it was told? */
bool hx_call_is_unsent(const struct hx_call_answer *answer);
/* Results to `out`, words to `words`. False when `out` cannot be written. */
bool hx_call_report(const struct hx_call_told *told, FILE *out, FILE *words);

/* "hapax call VERB KEY OPTIONS", with tool and server behind a key that is shared; the verb is
 * --resume or --give-up. */
void hx_call_open_command(struct hx_buf *out, const char *verb, const struct hx_call_name *name,
                          const char *ops_options);

#endif
