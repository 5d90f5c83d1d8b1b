/* SPDX-License-Identifier: MIT */
/*
 * One operation as one gateway works on it: the durable record, the record that is being written,
 * and what this process is in the middle of.
 *
 * The step function is told what happened and answers what to do. It does no I/O, reads no clock
 * and cannot fail: failure is an event. `durable` changes only when the store says so (STORED,
 * STALE), so nothing that leaves the process can rest on something that is not durable yet.
 *
 * Threads: one thread per operation. Memory: the caller owns everything spans point at.
 */
#ifndef HX_CORE_OP_H
#define HX_CORE_OP_H

#include "core/record.h"

enum hx_op_phase {
#define HX_OP_PHASE(NAME, text, doc) HX_PHASE_##NAME,
#include "core/op.def"
    HX_PHASE_COUNT
};

enum hx_event_type {
#define HX_OP_EVENT(NAME, text, doc) HX_EV_##NAME,
#include "core/op.def"
    HX_EV_COUNT
};

enum hx_effect_type {
#define HX_OP_EFFECT(NAME, text, doc) HX_DO_##NAME,
#include "core/op.def"
    HX_DO_TYPE_COUNT
};

enum hx_answer {
#define HX_OP_ANSWER(NAME, text) HX_ANSWER_##NAME,
#include "core/op.def"
    HX_ANSWER_COUNT
};

enum hx_counter {
#define HX_OP_COUNTER(NAME, text) HX_COUNTER_##NAME,
#include "core/op.def"
    HX_COUNTER_COUNT
};

/* Whose hands the operation is in, judged by the store or the engine at the moment of the event. */
enum hx_hands {
    HX_HANDS_NOBODY,
    HX_HANDS_MINE,
    HX_HANDS_ALIVE,           /* another living process of this host */
    HX_HANDS_DEAD,            /* a dead process of this host, or a host that came back rebooted */
    HX_HANDS_ELSEWHERE,       /* another host with a valid lease */
    HX_HANDS_ELSEWHERE_LAPSED /* another host whose lease is over: says nothing about the tool */
};

/* Facts that a guard may need. The engine fills what it knows; false is the careful value. */
struct hx_facts {
    enum hx_hands hands;
    bool is_sender_gone;
    bool is_epoch_current; /* of the claim of the present attempt: no mark then proves something */
    bool is_mark_durable;  /* the store syncs marks (PostgreSQL) */
    bool is_same_target;   /* the upstream is the one the first attempt went to */
    /* It is a gateway of our kind, was one at the first send too, and was asked just now: it has no
     * outcome under the effect key. Whatever else comes there will be recognised by that key. */
    bool recognises_key;
};

/* How a call that continues a round relates to the rounds already known. */
enum hx_round { HX_ROUND_NONE, HX_ROUND_REPEATED, HX_ROUND_CONTINUES, HX_ROUND_DIFFERS };

/* What must be minted before a claim can be made; the core has no randomness of its own. */
struct hx_mint {
    struct hx_id owner; /* this process's token */
    struct hx_id id;    /* of a successor */
    struct hx_id effect_key;
    const char *transport; /* names the upstream transport, may be empty */
};

struct hx_event {
    enum hx_event_type type;
    struct hx_now now;
    struct hx_facts facts;
    struct hx_mint mint;

    bool is_from_gap; /* CALL, RETRY, CANCEL: a restored ledger cannot know what was sent before */
    bool needs_approval;       /* CALL: the contract's condition holds for these arguments */
    bool is_forced;            /* RESOLVE_ABSENT: a person overrides the waiting time */
    bool is_receivers_word;    /* ABSENCE_PROVED: who got it says so of the row it made */
    bool is_by_operator;       /* CANCEL: not the caller but a person */
    enum hx_round round;       /* CALL */
    enum hx_reason reason;     /* LOST, DENY, EVIDENCE: why */
    struct hx_outcome outcome; /* REPLY, EVIDENCE, RESOLVE_HAPPENED, REFUSED_*, INPUT_WANTED */
    int64_t not_before_ms;     /* REFUSED_TRANSIENT: wait at least so long; 0 = not at all */
    bool is_for_caller;        /* REFUSED_TRANSIENT: he must do something before the next try */
    bool is_marked;            /* STORED: the claim carries its sent mark already, */
    struct hx_now marked_at;   /* since then */
    bool is_upstream_down;     /* WAIT_OVER: the server could not be started */
    uint32_t seen_attempt; /* RESOLVE_ABSENT, RESOLVE_AGAIN, ABSENCE_PROVED: the newest attempt that
                              the decision knows of; 0 = whichever is the present one */
    const struct hx_record *fresh; /* STALE: what the ledger says now; NULL = no row */
};

/* What one PERSIST writes. */
enum hx_write {
    HX_WRITE_NONE,
    HX_WRITE_INSERT,
    HX_WRITE_UPDATE,   /* WHERE fence = expected_fence */
    HX_WRITE_SUCCESSOR /* UPDATE of this one and INSERT of `successor`, in one commit */
};

struct hx_op {
    uint32_t magic;
    enum hx_op_phase phase;
    struct hx_record durable; /* what the ledger is known to say; state ABSENT = no row */
    struct hx_record next; /* what is being written, while phase is not IDLE, SENDING or AWAITING */
    struct hx_record successor; /* WRITE_SUCCESSOR: the new one */

    /* The write in flight. */
    enum hx_write write;
    uint64_t expected_fence;
    bool requires_unmarked;

    /* Facts of this process, kept by the core. */
    uint32_t waiters;     /* callers of this process that wait; the engine counts them */
    uint32_t start_tries; /* NOT_SENT in a row for one claim */
    struct hx_now start_tried_at;
    /* The fence of an attempt of ours of which this process knows that not one byte left, whatever
     * its mark says and whichever epoch it is of; 0 = of none. */
    uint64_t unsent_fence;
    bool is_spooled;   /* the outcome in `next` is safe in the spool */
    bool is_retry_due; /* SETTLING: the commit failed; LOOK tries it again */
    bool has_verb;     /* the write in flight carries out a verb, whose caller waits */
    bool must_follow;  /* after the write in flight, the callers mean the successor */
};

#define HX_OP_MAGIC 0x6f706572u

struct hx_effect {
    enum hx_effect_type type;
    enum hx_answer answer;   /* ANSWER_* */
    enum hx_counter counter; /* COUNT */
    int64_t delay_ms;        /* LOOK_LATER */
};

enum { HX_EFFECTS_MAX = 8 };

struct hx_effects {
    unsigned count;
    struct hx_effect items[HX_EFFECTS_MAX];
};

/* Makes an operation that the ledger does not know yet. `record` has its identity, fingerprint, id,
 * effect key, contract and times filled in; its state is ABSENT. */
void hx_op_init_absent(struct hx_op *op, const struct hx_record *record);
/* Makes one from a row. */
void hx_op_init_loaded(struct hx_op *op, const struct hx_record *record);

/* One step. `ret_effects` is emptied first. */
void hx_op_step(struct hx_op *op, const struct hx_event *event, struct hx_effects *ret_effects);

/* The record that answers are built from: the durable one, or the outcome that is safe in the
 * spool. */
const struct hx_record *hx_op_answered_record(const struct hx_op *op);

/* True when the pair can occur: the phases that need an owner occur only while running. */
bool hx_op_is_possible(enum hx_op_state state, enum hx_op_phase phase);

/* Asserts the facts of the present state and phase. Runs on every step. */
void hx_op_check(const struct hx_op *op);

bool hx_op_move_is_allowed(enum hx_op_state from, enum hx_op_state to);
const char *hx_op_phase_name(enum hx_op_phase phase);
const char *hx_event_name(enum hx_event_type type);
const char *hx_effect_name(enum hx_effect_type type);
const char *hx_answer_name(enum hx_answer answer);
bool hx_answer_parse(struct hx_span text, enum hx_answer *ret_answer);
const char *hx_counter_name(enum hx_counter counter);

#endif
