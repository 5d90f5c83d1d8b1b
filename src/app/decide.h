/* SPDX-License-Identifier: MIT */
/*
 * Carrying out a person's decision about one operation: the row is loaded, the core says what the
 * decision means for it, and what it wants written is written. Somebody else may decide at the same
 * moment; then the row is loaded again and the core asked anew, so that of two deciders exactly one
 * is told that it was done.
 *
 * The tool is never run from here: where a decision leads to another attempt, a gateway begins it.
 */
#ifndef HX_APP_DECIDE_H
#define HX_APP_DECIDE_H

#include "core/op.h"
#include "port/clock.h"
#include "port/rand.h"
#include "port/store.h"

struct hx_decider {
    struct hx_store *store;
    struct hx_clock *clock;
    struct hx_rand *rand;
    const char *who; /* "operator uid 1000 (ann)", for the history */
};

struct hx_decision {
    enum hx_event_type type;   /* RESOLVE_*, CANCEL, APPROVE, DENY */
    bool is_forced;            /* RESOLVE_ABSENT: without the waiting time */
    struct hx_outcome outcome; /* RESOLVE_HAPPENED */
    struct hx_span words;      /* the person's own, for the history; may be absent */
};

struct hx_verdict {
    /* DONE; NOT_APPLIED; for CANCEL also CANCEL_IN_DOUBT, or what a final state answers.
     * LEDGER_UNAVAILABLE: `error` says why, and `is_in_doubt` that it may still have been done. */
    enum hx_answer answer;
    bool is_in_doubt;
    bool is_overtaken; /* the row changed while it was being decided */
    bool is_note_lost; /* decided, but the line for the history could not be written */
    struct hx_id id;   /* of the row; of a tombstone its new one */
    enum hx_op_state state_before;
    struct hx_id owner_before;
    const struct hx_store_found *found; /* what the ledger says now; NULL = could not be read */
    struct hx_store_request *reading;   /* owns it */
    struct hx_store_request *held[2];   /* what it was decided upon */
    char error[256];
};

/* There is no such operation. */
#define HX_DECIDE_ABSENT 1

/* Decides about the row `id`. 0 with a verdict, to be ended with hx_verdict_fini(), or
 * HX_DECIDE_ABSENT. */
int hx_decide(const struct hx_decider *decider, const struct hx_id *id,
              const struct hx_decision *decision, struct hx_verdict *ret_verdict) HX_MUST_CHECK;

/* Cancels what `wanted` names by its identity, in its newest generation. When nobody has seen it
 * yet, a tombstone is left, for which `wanted` holds tenant, principal, server, tool, key and its
 * source; everything else is made here. */
int hx_decide_cancel(const struct hx_decider *decider, const struct hx_record *wanted,
                     const struct hx_decision *decision,
                     struct hx_verdict *ret_verdict) HX_MUST_CHECK;

/* In doubt only after the store was closed. */
void hx_verdict_fini(struct hx_verdict *verdict);

/* "happened", "absent", … as it stands in the history. */
const char *hx_decision_name(enum hx_event_type type);

/* The line for the history. False when the words make it longer than the ledger takes. */
bool hx_decision_note(const struct hx_decider *decider, const struct hx_decision *decision,
                      const struct hx_verdict *verdict, struct hx_buf *ret_note) HX_MUST_CHECK;

/* What the store knows of a row at this moment, as the guards of the core want it. */
struct hx_facts hx_facts_of_found(const struct hx_store_found *found);

#endif
