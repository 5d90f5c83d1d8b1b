/* SPDX-License-Identifier: MIT */
/*
 * A small world around the real core: one key, two gateway processes on one ledger, a tool server
 * under each, and callers. The engine's part (what an effect means) is modelled as plainly as
 * core/op.def states it; the store's part as port/store.h states it.
 *
 * What the world keeps and no process of it can see is the truth: how often the tool acted, and
 * whether a request can still act later. The invariants are checked against that.
 *
 *   K  a process dies; its tool server lives on until it is ended, and may act in the meantime
 *   P  the host dies: every process with it; marks that were not synced may be lost
 *   E  a write certainly did not happen, with or without doubt about earlier unsynced ones
 *
 * Left out on purpose: time that passes by itself (two jumps stand for it: past the in-flight
 * bound, past the horizon), approval, several hosts, and the matching of keyless calls. Those are
 * in unit tests.
 */
#ifndef HX_SIM_MODEL_H
#define HX_SIM_MODEL_H

#include "kit/ops.h"

enum { PROCESSES = 2, ROWS = 2, MESSAGES = 8, LIVES = 5 };

enum write_state {
    WRITE_NONE,
    WRITE_SUBMITTED,
    WRITE_DONE,
    WRITE_DONE_MARKED, /* a claim, and its mark with it */
    WRITE_STALE,
    WRITE_FAILED
};

/* One operation as one process works on it. */
struct sim_op {
    struct hx_op op;
    bool exists;
    enum write_state write;
    struct hx_now claim_marked_at; /* DONE_MARKED */
    bool is_spooling;
    bool is_look_due;
    bool was_sent;   /* a request left while somebody waited here */
    bool asked_late; /* somebody waits here who asked after another was told of success */
    uint8_t deferred_calls;
    uint8_t deferred_evidence;
    uint32_t deferred_verbs; /* bit per event type */
    uint32_t seen_attempt;   /* the newest one that the deciding person knew of */
    enum hx_event_type verb; /* whose write is in flight, with op.has_verb */
};

enum message_state {
    MESSAGE_NONE,
    MESSAGE_QUEUED,  /* no byte has left yet */
    MESSAGE_IN_PIPE, /* the server may run it, now or later */
    MESSAGE_FLYING,  /* the server is gone, what it began may still act */
    MESSAGE_ANSWERED /* it acted; the reply is on its way */
};

struct message {
    enum message_state state;
    uint8_t process, life, row;
    uint32_t attempt;
};

struct budget {
    uint8_t crashes, store_errors, calls, verbs, not_sent, refusals, jumps;
    uint8_t verb_set; /* bit per verb */
};

enum { VERB_CANCEL, VERB_HAPPENED, VERB_ABSENT, VERB_AGAIN, VERB_RETRY, VERB_COUNT };

struct world {
    enum hx_tool_class tool_class;
    struct budget left;
    uint8_t calls_max;

    /* The ledger. */
    bool has_row[ROWS];
    struct hx_record row[ROWS];
    bool is_mark_unsynced[ROWS];
    uint8_t claim_epoch[ROWS];
    uint8_t epoch;
    bool spool[PROCESSES][LIVES][ROWS];

    /* The host. */
    uint8_t boot;
    int64_t clock_ms;
    uint8_t life[PROCESSES];
    bool is_server_gone[PROCESSES][LIVES];
    uint8_t calls_to_take[PROCESSES];
    struct sim_op ops[PROCESSES][ROWS];
    struct message messages[MESSAGES];

    /* The truth. */
    uint8_t effects[ROWS];
    bool is_known_to_tool[ROWS]; /* a keyed tool remembers the effect key */
    bool told_success[ROWS];
    bool told_cancelled[ROWS];
};

enum action_kind {
    ACT_CALL,
    ACT_EXECUTE, /* the store does a write and answers; variant 1: E, 2: E with doubt,
                    3: a claim and its mark */
    ACT_SPOOL,
    ACT_ACCEPT,
    ACT_NOT_SENT,
    ACT_ACT, /* the tool acts */
    ACT_REPLY,
    ACT_REFUSE, /* variant: 0 final, 1 transient */
    ACT_TIMEOUT,
    ACT_SERVER_ENDS, /* variant: which life */
    ACT_DROP,        /* what was flying never acts */
    ACT_LOOK,
    ACT_WAIT_OVER,
    ACT_HUMAN_DUE,
    ACT_ABSENCE,
    ACT_CRASH,
    ACT_HOST_CRASH, /* variant: 0 marks survive, 1 they are lost */
    ACT_VERB,       /* variant: index into the verbs */
    ACT_JUMP,       /* variant: 0 past the in-flight bound, 1 past the horizon */
    ACT_KIND_COUNT
};

struct action {
    enum action_kind kind;
    uint8_t process, row, variant; /* `row` is a message for ACCEPT to REFUSE and DROP */
};

void world_init(struct world *world, enum hx_tool_class tool_class, struct budget budget);
/* False, and `world` is as it was, when the action is not possible now. */
bool world_act(struct world *world, struct action action);
/* Is it one of the faults and free choices, which need not happen? */
bool action_is_optional(enum action_kind kind);
const char *action_name(enum action_kind kind);
/* How many values of process, row and variant an action has. */
struct action action_limits(enum action_kind kind);
uint64_t world_hash(const struct world *world, uint64_t seed);

/* model_store.c */
struct hx_now world_now(const struct world *world);
void store_execute(struct world *world, unsigned process, unsigned row, unsigned variant);
void store_lose_marks(struct world *world);
/* Reads the row; what a dead owner left in its spool is applied first. NULL: there is none. */
const struct hx_record *store_read(struct world *world, unsigned process, unsigned row);
struct hx_facts store_facts(const struct world *world, unsigned process, unsigned row);
struct hx_id owner_token(unsigned process, unsigned life);
bool owner_lives(const struct world *world, const struct hx_id *owner);

/* model_check.c: ends the program with the history when an invariant is broken. */
void check_world(const struct world *world);
/* `asked_late`: the question came after somebody was told of success. */
void check_answer(struct world *world, unsigned process, unsigned row, enum hx_answer answer,
                  bool asked_late);
void check_send(const struct world *world, unsigned process, unsigned row);
void check_row_change(const struct world *world, const struct hx_record *before,
                      const struct hx_record *after, struct hx_id writer);
/* Nothing more can happen without a fault or a new call: everything must be settled (I24). */
void check_settled(const struct world *world);
bool can_still_act(const struct world *world, unsigned row);
_Noreturn void sim_fail(const char *invariant, const char *what);
#define SIM_CHECK(invariant, condition) ((condition) ? (void)0 : sim_fail(invariant, #condition))

#endif
