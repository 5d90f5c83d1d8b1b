/* SPDX-License-Identifier: MIT */
/*
 * libhapax inside: a thin shell around core/op.h. It hands the core its events, runs the writes
 * that the core asks for, on the store or in the caller's transaction, and waits for them in the
 * calling thread. No rule about running anything stands here.
 *
 * Two things differ from the gateway:
 *  - The one who acts is the process itself, so an attempt's transport is the owner's token: its
 *    sender is gone when that process is.
 *  - Inside a transaction of the caller's a write counts for the core as soon as it is made. What
 *    the core then learned is undone by a rollback, together with the rows (conn.c).
 */
#ifndef HX_LIB_INTERNAL_H
#define HX_LIB_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "adapter/clock_os/clock_os.h"
#include "adapter/store_sqlite/guest.h"
#include "adapter/store_sqlite/store_sqlite.h"
#include "core/op.h"
#include "core/recover.h"
#include "hapax/hapax.h"

#define HX_LIB_MAGIC 0x6c696268u
#define HX_LIB_CALL_MAGIC 0x6c696263u
#define HX_LIB_CONN_MAGIC 0x6c69626eu

enum { HX_LIB_OUTCOME_MAX = 64 * 1024 * 1024, HX_LIB_RECEIPT_MAX = 1024 };

struct hapax {
    uint32_t magic;
    pid_t pid; /* of the process that opened it */
    struct hx_clock_os clock;
    struct hx_store_sqlite_options options;
    struct hx_store *store;
    struct hx_id owner;
    char owner_text[HX_ID_TEXT_SIZE];
    char *path;
    char *server;
    char *tenant;

    pthread_mutex_t mutex;
    pthread_cond_t came_back; /* requests */
    pthread_cond_t ended;     /* a call of ours */
    /* Under the mutex; the store's own functions too, which are for one thread. */
    bool has_reader; /* a thread waits at the store's descriptor, for all of them */
    struct hx_list calls;
    struct hx_list ghosts;
    unsigned conn_count;
};

/* An operation whose outcome stands in the spool, and not yet in the ledger: to those who ask it is
 * still under way here, until the store has brought it in. */
struct hx_lib_ghost {
    struct hx_list node; /* hapax->ghosts */
    struct hx_id id;
};

struct hapax_conn {
    uint32_t magic;
    struct hapax *hapax;
    struct hx_guest *guest;
    struct hx_list calls; /* that wrote in the open transaction */
};

struct hapax_call {
    uint32_t magic;
    struct hapax *hapax;
    struct hx_list node; /* hapax->calls */
    /* Under the mutex of hapax, since other threads ask: this process is in the middle of it. */
    bool is_in_hand;
    struct hx_id in_hand;

    struct hx_op op;
    struct hx_facts facts;
    struct hx_arena arena;   /* what records borrow: names and the key */
    struct hx_arena outcome; /* the bytes of the newest one that was handed in */
    struct hx_list held;     /* requests whose records op points at */
    struct hx_negatives negatives;
    bool has_record; /* op says something */

    /* In a transaction: where, and what to go back to. */
    struct hapax_conn *conn;
    struct hx_list enlisted; /* conn->calls */
    struct hx_op saved_op;
    bool saved_in_hand;
    bool was_claimed_here;
    bool is_void;    /* its transaction was undone */
    bool is_spooled; /* its outcome is not in the ledger yet */

    enum hapax_verdict verdict;
    enum hx_answer answer;  /* not for RUN */
    struct hx_span payload; /* REPLAY */
    struct hx_span receipt;
    struct hx_span flaw; /* said instead of the answer's own sentence */
    char id[HX_ID_TEXT_SIZE];
    char effect_key[HX_ID_TEXT_SIZE];
    char owner[HX_ID_TEXT_SIZE];
    long owner_pid;
    struct hx_buf text;
};

/* What one run of the core came to. */
struct hx_lib_result {
    bool runs;        /* SEND: the caller may act now */
    bool is_answered; /* `answer` holds */
    enum hx_answer answer;
    bool must_follow; /* take the caller in again */
    bool is_spooled;
    bool has_failed; /* a write did not happen; the fault tells why */
};

/* ---- error.c ---- */

/* Fills the caller's record and returns `code`. */
int hx_lib_fail(struct hapax_error *error, int code, const char *format, ...) HX_PRINTF(3, 4);
/* The same with the sentence of the latest fault. */
int hx_lib_fail_fault(struct hapax_error *error, int code);
/* 0 when `hapax` may be used here and now. */
int hx_lib_check(const struct hapax *hapax, struct hapax_error *error);
/* The same, before a piece of work that may fail: there is memory for what cannot fail in it. */
int hx_lib_enter(const struct hapax *hapax, struct hapax_error *error);
/* "No memory", which is nobody's mistake and may be over soon. */
int hx_lib_fail_memory(struct hapax_error *error);

/* ---- ledger.c ---- */

/* Runs one request and waits for it: on the store, or in the transaction of `conn`. */
void hx_lib_run(struct hapax *hapax, struct hapax_conn *conn, struct hx_store_request *request);
/* The same without waiting; takes the request. */
void hx_lib_run_later(struct hapax *hapax, struct hapax_conn *conn,
                      struct hx_store_request *request);
struct hx_id hx_lib_mint(struct hapax *hapax);
struct hx_now hx_lib_now(struct hapax *hapax);
/* Waits until a call of this process has ended, at most so long. */
void hx_lib_wait(struct hapax *hapax, int64_t wait_ms);

/* ---- drive.c ---- */

struct hapax_call *hx_lib_call_new(struct hapax *hapax);
/* Whether this process is in the middle of that operation, in another call than this one. */
bool hx_lib_is_in_hand(struct hapax_call *call, const struct hx_id *id);
void hx_lib_set_in_hand(struct hapax_call *call, bool is_in_hand);
/* The row says what the spool said. */
void hx_lib_lay_ghost(struct hapax *hapax, const struct hx_id *id);
void hx_lib_call_drop(struct hapax_call *call);
/* Frees what the call holds: op must point at none of it. */
void hx_lib_let_go(struct hapax_call *call);
/* What the store found, as the core's facts. */
struct hx_facts hx_lib_facts(struct hapax_call *call, const struct hx_store_found *found);
struct hx_event hx_lib_event(struct hapax_call *call, enum hx_event_type type);
/* Hands in one event and carries out what the core asks for, until nothing is left to do. */
struct hx_lib_result hx_lib_drive(struct hapax_call *call, struct hx_event event);
/* Ties the call to the transaction of `conn` (NULL = none) for what comes next. 0,
 * HAPAX_E_MISUSE, or HAPAX_E_STATE when its transaction was undone. */
int hx_lib_enlist(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *error);

/* ---- info.c ---- */

/* Settles what the call tells: the verdict for an answer, the texts, the stored bytes. */
int hx_lib_answer(struct hapax_call *call, enum hx_answer answer, struct hapax_error *error);
/* Claimed: the caller acts. */
void hx_lib_answer_run(struct hapax_call *call);

#endif
