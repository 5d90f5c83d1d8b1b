/* SPDX-License-Identifier: MIT */
/*
 * One decision about one operation, by somebody who does not run it: a person with `hapax ops` or
 * the admin API, a caller by an explicit verb, a probe from outside. The row is loaded, the core
 * says what the decision means for it, and what it wants written is written. Somebody else may
 * decide at the same moment; then the row is loaded again and the core asked anew, so that of two
 * deciders exactly one is told that it was done.
 *
 * It does no I/O: it names the request to the ledger that it needs next and is handed what became
 * of it. `hapax ops` waits for each (app/decide.c); a gateway has many under way (engine/verb.c).
 *
 * The tool is never run from here: where a decision leads to another attempt, a caller begins it.
 */
#ifndef HX_ENGINE_DECIDE_H
#define HX_ENGINE_DECIDE_H

#include "base/buf.h"
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
    enum hx_event_type type;   /* RESOLVE_*, CANCEL, APPROVE, DENY, EVIDENCE, ABSENCE_PROVED */
    bool is_forced;            /* RESOLVE_ABSENT: without the waiting time */
    bool is_by_caller;         /* CANCEL: the one who made the call */
    struct hx_outcome outcome; /* RESOLVE_HAPPENED, EVIDENCE */
    struct hx_span words;      /* the person's own, for the history; may be absent */
};

/* Which operation. Everything is borrowed until the decision is over. */
struct hx_decision_target {
    struct hx_id id; /* unless `wanted` */
    /* CANCEL: by its identity, in its newest generation. When nobody has seen it yet, a tombstone
     * is left, for which this holds tenant, principal, server, tool, key and its source, and what
     * hx_decision_name_call() makes of them; everything else is made here. */
    const struct hx_record *wanted;
    /* Whoever decides may only see operations of this tenant and principal at this server; NULL:
     * all. */
    const struct hx_record *owner;
};

/* Completes the name of a call that may not have come yet: identity, twin and the time that the key
 * tells, from tenant, principal, server, tool and key. */
void hx_decision_name_call(struct hx_record *wanted, struct hx_hasher *hasher,
                           bool is_key_principal_scoped);

struct hx_verdict {
    /* DONE; NOT_APPLIED; for CANCEL also CANCEL_IN_DOUBT, KEY_CONFLICT, or what a final state
     * answers. LEDGER_UNAVAILABLE: `error` says why, and `is_in_doubt` that it may still have been
     * done. */
    enum hx_answer answer;
    bool is_absent; /* there is no such operation, or it is not the decider's */
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

/* In doubt only after the store was closed. */
void hx_verdict_fini(struct hx_verdict *verdict);

struct hx_deciding;

/* Everything is borrowed; the verdict is the caller's, to be ended with hx_verdict_fini() after
 * hx_deciding_free(). */
struct hx_deciding *hx_deciding_new(const struct hx_decider *decider,
                                    const struct hx_decision_target *target,
                                    const struct hx_decision *decision,
                                    struct hx_verdict *ret_verdict);
struct hx_deciding *hx_deciding_free(struct hx_deciding *deciding);
/* What the ledger must be asked next, with no context; NULL: the decision is over and the verdict
 * final. */
struct hx_store_request *hx_deciding_next(struct hx_deciding *deciding);
/* Takes the request, which is done. */
void hx_deciding_take(struct hx_deciding *deciding, struct hx_store_request *done);
/* The ledger has not answered, and `why` says so: the request that is out is lost. */
void hx_deciding_give_up(struct hx_deciding *deciding, const char *why);

/* "happened", "absent", … as it stands in the history. */
const char *hx_decision_name(enum hx_event_type type);

/* It is in its state because somebody decided so. */
bool hx_record_was_decided(const struct hx_record *record);
/* What came of it, as a sentence without its full stop. True: it is as the decider wanted it. */
bool hx_verdict_say(enum hx_event_type decision, const struct hx_verdict *verdict,
                    struct hx_buf *ret_words);

/* The line for the history. False when the words make it longer than the ledger takes. */
bool hx_decision_note(const struct hx_decider *decider, const struct hx_decision *decision,
                      const struct hx_verdict *verdict, struct hx_buf *ret_note) HX_MUST_CHECK;

/* The same of what did not come by way of a decider. */
struct hx_decision_line {
    struct hx_wall at;
    const char *who;      /* "caller 1000, by elicitation" */
    const char *decision; /* hx_decision_name(), or in words */
    const char *answer; /* what the core made of it; NULL: it was not about the operation itself */
    struct hx_span words; /* may be absent */
    bool is_forced;
};
bool hx_decision_line_write(const struct hx_decision_line *line,
                            struct hx_buf *ret_note) HX_MUST_CHECK;

/* What the store knows of a row at this moment, as the guards of the core want it for somebody who
 * does not work on the operation. */
struct hx_facts hx_facts_of_found(const struct hx_store_found *found);

#endif
