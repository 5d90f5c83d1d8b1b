/* SPDX-License-Identifier: MIT */
/*
 * The life of a ledger, with every kind of request in it, for a process that is killed somewhere in
 * it; and what must be true when the ledger is opened again.
 */
#ifndef HX_TESTS_CONTRACT_CRASH_HISTORY_H
#define HX_TESTS_CONTRACT_CRASH_HISTORY_H

#include "world.h"

enum { SMALL, LARGE, SPOOLED, SPOOLED_LARGE, AGAIN, NEXT, KEYLESS, OPS };

/* What the process that dies has been told so far; in memory that outlives it. */
struct crash_told {
    struct {
        struct hx_id id;
        bool is_in_session; /* of its own; its stream comes with the claim */
        bool is_inserted;
        bool is_streamed;
        bool is_resumable;
        bool is_kept; /* the outcome was told to be durable, in the row or in the spool */
    } ops[OPS];
    bool is_ending; /* the session of SMALL */
    bool is_ended;
    bool is_swept;
    bool is_refused; /* the store said NOT_DONE, or did not open, and that was the end */
};

/* Lives it, in a process of its own; exits with 0 at its end. */
_Noreturn void crash_history_live(struct world *world, struct crash_told *told);
/* Opens the ledger and compares. After a host crash what need not be synced may be gone. */
void crash_history_check(struct world *world, const struct crash_told *told, bool was_host);
/* The file satisfies schema and checks (I25). */
void crash_history_verify(struct world *world);

#endif
