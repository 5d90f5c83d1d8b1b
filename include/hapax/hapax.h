/* SPDX-License-Identifier: MIT */
/*
 * libhapax: a ledger for tool servers, so that a repeated call acts once.
 *
 * A call is claimed by its key and its arguments before it acts, and finished with its outcome
 * afterwards. Whoever claims the same key again is told to run, is given the stored outcome, or
 * hears that it is under way or that its fate is not known. The rules are those of the `hapax`
 * program, and the file is one of its ledgers: `hapax ops --ledger FILE` shows and settles what is
 * in it. docs/library.md is the introduction, hapax(3) the manual.
 *
 * Units      Sizes are bytes, times milliseconds, and a name says so (_ms). Text is UTF-8 with a
 *            NUL behind it; outcomes are bytes with a size and may hold anything.
 * Ownership  What is passed in is borrowed until the function returns. What is handed out belongs
 *            to its handle and lives until that is freed.
 * Errors     0 or a positive HAPAX_… value is an answer; a negative HAPAX_E_… is a failure, and
 *            says whether something was done. `ret_error` may be NULL; it is written on failure.
 *            Outputs (ret_…) are written only where the function says so.
 * Threads    A `struct hapax` may be used by all threads at once. A `struct hapax_call` and a
 *            `struct hapax_conn` belong to one thread at a time. One thread of the library's own
 *            writes the ledger, with every signal blocked. Nothing survives fork(): in the child
 *            each function fails with HAPAX_E_MISUSE for what was opened before, and the child
 *            keeps no lock of its parent's, whatever becomes of that. A ledger that the parent does
 *            not have open can be opened there, unless another thread was inside SQLite at the
 *            fork: execute a program first if that may be.
 * Versions   Structs that cross the border begin with `size`: their _init function sets it, and a
 *            newer library understands an older one. There is no global state to set up, and
 *            nothing is ever printed, but for one line on standard error before an abort() when
 *            the library finds itself broken or without memory for its own small objects.
 */
#ifndef HAPAX_HAPAX_H
#define HAPAX_HAPAX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAPAX_VERSION_MAJOR 0
#define HAPAX_VERSION_MINOR 1
#define HAPAX_VERSION_PATCH 0

struct sqlite3; /* SQLite's own; its header is not needed here */

struct hapax;      /* one opened ledger */
struct hapax_call; /* one claim and what came of it */
struct hapax_conn; /* a SQLite connection of yours to the ledger's file */

/* ---- errors ---- */

enum hapax_status {
    HAPAX_OK = 0,
    /* Your program is wrong, or an argument is not what it must be; nothing was done. */
    HAPAX_E_MISUSE = -1,
    /* The ledger cannot be used now (disk full, locked, damaged, a restored copy, a copy written
     * over it while in use, no memory, …). This call did nothing; the same may work later. */
    HAPAX_E_LEDGER = -2,
    /* A commit failed in a way that leaves open whether it happened, and the ledger cannot be asked
     * now. Do not act, and do not answer "failed": claim the key again when the ledger is back. */
    HAPAX_E_FATE = -3,
    /* The operation is not in a state for this any more: somebody else settled it, it was taken
     * over, or its transaction was rolled back. Nothing was written. */
    HAPAX_E_STATE = -4
};

#define HAPAX_ERROR_TEXT_SIZE 256

struct hapax_error {
    int code;                         /* enum hapax_status */
    char text[HAPAX_ERROR_TEXT_SIZE]; /* what happened and what to do, for people */
};

/* ---- the ledger ---- */

struct hapax_options {
    size_t size;          /* of this struct: hapax_options_init sets it */
    const char *path;     /* the ledger's file; made with its directory if it is not there. Refused
                           * under a second name: a hard link, a mount of the file alone */
    const char *server;   /* names your server in the ledger; must not change with its version */
    const char *tenant;   /* default "local" */
    int64_t lock_wait_ms; /* how long a write waits for other processes; default 2,000 */
    int keeps_outbox; /* from now on what becomes of operations is announced: hapax_events_due */
};

void hapax_options_init(struct hapax_options *options);

/* Opens the ledger: brings an older format up to date, settles what dead processes left. `options`
 * need not outlive the call. HAPAX_E_LEDGER, HAPAX_E_MISUSE. */
int hapax_open(const struct hapax_options *options, struct hapax **ret_hapax,
               struct hapax_error *ret_error);
/* Frees it; blocks for at most some seconds. HAPAX_E_MISUSE while a call or a connection of it is
 * there, and then it stays open. Accepts NULL. */
int hapax_close(struct hapax *hapax, struct hapax_error *ret_error);

/* The version of the library that runs: major * 1,000,000 + minor * 1,000 + patch. */
unsigned hapax_version(void);

/* ---- claiming ---- */

/* What may be done again when the outcome of an attempt is not known. */
enum hapax_tool_class {
    HAPAX_OPAQUE = 0, /* nothing is ever done again: the default */
    HAPAX_IDEMPOTENT, /* doing it again changes nothing more */
    HAPAX_KEYED,      /* what you call takes the effect key and acts once for it */
    HAPAX_PROBEABLE   /* you can look whether it happened: hapax_happened, hapax_absent */
};

#define HAPAX_UNDECLARED_MS ((int64_t)-1)

/* A snapshot of it is stored with the operation. */
struct hapax_contract {
    size_t size;                /* hapax_contract_init sets it, and the defaults */
    int tool_class;             /* enum hapax_tool_class; HAPAX_OPAQUE */
    unsigned attempts_max;      /* 5, 65535 at most; each attempt counts that may have acted */
    int64_t timeout_ms;         /* how long one attempt may take; 0 = 15 minutes are assumed */
    int64_t dedupe_horizon_ms;  /* KEYED: for how long, from the first attempt, the key is known
                                    there; undeclared = never done again */
    int64_t in_flight_bound_ms; /* after so long an attempt that is over acts no more; undeclared =
                                    its absence cannot be proved */
    int64_t visibility_lag_ms;  /* and so much later you would see that it did; 0 */
    int64_t payload_retention_ms; /* the outcome's bytes are kept for it; 7 days */
    int64_t row_retention_ms;     /* and the operation itself; 30 days */
};

void hapax_contract_init(struct hapax_contract *contract);

struct hapax_request {
    size_t size;           /* hapax_request_init sets it */
    const char *tool;      /* the tool's name */
    const char *key;       /* the caller's idempotency key: 1 to 255 bytes of 0x21 to 0x7E */
    const char *arguments; /* JSON text; NULL is the same as {} */
    size_t arguments_size; /* without a NUL */
    const char *principal; /* who calls; another one with the same key hears HAPAX_CONFLICT */
    int64_t first_sent_ms; /* when the caller sent it first, since 1970; 0 = not known */
    const struct hapax_contract *contract; /* NULL = the defaults */
    int64_t
        wait_ms; /* so long a claim may wait for somebody else's attempt; 0 = HAPAX_BUSY at once */
};

void hapax_request_init(struct hapax_request *request);

/* The answer to a claim. */
enum hapax_verdict {
    HAPAX_RUN = 1,  /* do it now, under info.effect_key; then hapax_finish */
    HAPAX_REPLAY,   /* it happened: answer with info.outcome */
    HAPAX_GONE,     /* it happened, and its outcome is kept no more: answer that */
    HAPAX_BUSY,     /* under way: ask again after info.retry_after_ms */
    HAPAX_UNKNOWN,  /* an earlier attempt may have acted; info.may says what can be done */
    HAPAX_CONFLICT, /* the key belongs to other arguments or to somebody else */
    HAPAX_EXPIRED,  /* too old to know */
    HAPAX_REFUSED   /* it never will run under this key: info.code and info.text say why */
};

/* info.may of HAPAX_UNKNOWN */
#define HAPAX_MAY_FIND 1U   /* report what you find out: hapax_happened */
#define HAPAX_MAY_ABSENT 2U /* absence can be proved: hapax_absent */
#define HAPAX_MAY_ASK 4U    /* a person can decide: hapax ops resolve */

struct hapax_info {
    size_t size;      /* yours to set before hapax_call_info */
    int verdict;      /* enum hapax_verdict */
    const char *code; /* the answer's name in the protocol (docs/states.md): "BUSY", "FAILED", …;
                         "" for HAPAX_RUN and HAPAX_REPLAY */
    const char *text; /* a sentence that a model can act on; "" as above */
    const char *id;   /* of the operation, as `hapax ops` knows it; "" when there is none */
    const char *effect_key; /* the same for every attempt of it: hand it to what you call */
    unsigned attempt;       /* HAPAX_RUN: from 1; above 1 an earlier one may have acted */
    const void *outcome;    /* HAPAX_REPLAY: the bytes of hapax_finish */
    size_t outcome_size;
    int is_error;           /* HAPAX_REPLAY: it is an error result */
    int is_reconstructed;   /* HAPAX_REPLAY: found out, or a person's word; not the tool's own */
    const char *receipt;    /* the newest of hapax_receipt, or NULL */
    const char *owner;      /* HAPAX_BUSY: whose attempt it is: a token, */
    long owner_pid;         /* and his process; 0 = not known */
    int64_t retry_after_ms; /* HAPAX_BUSY */
    unsigned may;           /* HAPAX_UNKNOWN: HAPAX_MAY_… */
    int is_new_key_allowed; /* the intent may be tried under another key */
};

/* Claims an operation: asks what the ledger knows of the key and, when it may run, writes down that
 * it is going to, before this returns. With `conn`, in the open transaction of that connection:
 * then the claim stands or falls with it; wait_ms is not used. With NULL it is durable on return.
 *
 * Returns an enum hapax_verdict, and *ret_call for each of them; negative: no call.
 * HAPAX_E_MISUSE (also: the arguments are not JSON), HAPAX_E_LEDGER, HAPAX_E_FATE. */
int hapax_claim(struct hapax *hapax, struct hapax_conn *conn, const struct hapax_request *request,
                struct hapax_call **ret_call, struct hapax_error *ret_error);
/* Fills *ret_info as far as its `size` goes; what it points at lives as long as the call. */
void hapax_call_info(const struct hapax_call *call, struct hapax_info *ret_info);
/* Frees the call. One that runs and was neither finished nor given back becomes *unknown*, since it
 * may have acted. Accepts NULL. */
void hapax_call_free(struct hapax_call *call);

/* ---- what comes of a call that runs ----
 *
 * Each takes the connection in whose transaction it shall be written, or NULL for a commit of its
 * own. HAPAX_E_MISUSE, HAPAX_E_LEDGER, HAPAX_E_FATE, HAPAX_E_STATE, unless it says otherwise. After
 * HAPAX_E_LEDGER the call runs still, and the same may be tried again. */

/* Notes the reference that an effect has elsewhere (a payment's number), for whoever must find out
 * later. Printable ASCII, at most 1,024 bytes. Kept against the death of the process; against that
 * of the machine only with the next commit. */
int hapax_receipt(struct hapax_call *call, struct hapax_conn *conn, const char *receipt,
                  struct hapax_error *ret_error);
/* It is done: these bytes are its outcome, also when they tell of an error (`is_error`). Durable on
 * return, or with the commit of `conn`; answer your caller after that. Up to 64 MiB are kept; of
 * more the digest alone. When the ledger cannot be written the outcome goes to a synced file
 * beside it, which counts as done. */
int hapax_finish(struct hapax_call *call, struct hapax_conn *conn, const void *outcome,
                 size_t outcome_size, int is_error, struct hapax_error *ret_error);
/* It was tried and provably changed nothing. With retry_after_ms >= 0 the key may run again after
 * that; with -1 it failed for good. */
int hapax_refuse(struct hapax_call *call, struct hapax_conn *conn, int64_t retry_after_ms,
                 struct hapax_error *ret_error);
/* It was not begun: the key may run again at once. */
int hapax_give_back(struct hapax_call *call, struct hapax_conn *conn,
                    struct hapax_error *ret_error);
/* It may have happened or not, and nobody will find out now. */
int hapax_lost(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *ret_error);

/* ---- what comes of a call that is unknown (HAPAX_UNKNOWN) ---- */

/* You found out that it happened: these bytes are what to answer. */
int hapax_happened(struct hapax_call *call, struct hapax_conn *conn, const void *outcome,
                   size_t outcome_size, int is_error, struct hapax_error *ret_error);
/* You looked and did not see it. That proves something only when the contract declares
 * in_flight_bound_ms, the process of the attempt is gone, that time (and visibility_lag_ms) has
 * passed, and you have looked three times, ten seconds apart, with this same call. 0: proved, it
 * failed. HAPAX_E_STATE: not yet, or not provable; the text says which. */
int hapax_absent(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *ret_error);

/* ---- how the answer fared ---- */

/* The answer to this call was written to its caller (1), or he is gone (0). For people who look at
 * the ledger; it changes nothing of what may run. Not synced. */
int hapax_delivered(struct hapax_call *call, int is_delivered, struct hapax_error *ret_error);

/* ---- your own transaction ----
 *
 * When your tables are in the ledger's file, one commit holds both. Open the ledger first, then a
 * connection of your own to the same path, and attach it. Give your tables names that begin with
 * "app_": the ledger never uses those. */

/* hapax_attach: the connection also writes outside of hapax_begin and hapax_commit. Only with
 * SQLite 3.51.3 or newer, which cannot damage the file by it. */
#define HAPAX_WRITES_OUTSIDE 1U

/* Takes the connection's automatic checkpoints away (the library does them), makes its commits
 * synced and, without HAPAX_WRITES_OUTSIDE, lets it only read outside of hapax_begin and
 * hapax_commit. `sqlite_source` is what sqlite3_sourceid() returns in your program, and proves
 * that both use one copy of SQLite. HAPAX_E_MISUSE, HAPAX_E_LEDGER. */
int hapax_attach(struct hapax *hapax, struct sqlite3 *db, const char *sqlite_source, unsigned flags,
                 struct hapax_conn **ret_conn, struct hapax_error *ret_error);
/* Before you close the connection. Rolls back what is open. Accepts NULL. */
void hapax_detach(struct hapax_conn *conn);

/* Begins a transaction on the connection, alone in the ledger: others wait until it ends. Do not
 * call out in it, and do not end it with statements of your own. HAPAX_E_MISUSE, HAPAX_E_LEDGER. */
int hapax_begin(struct hapax_conn *conn, struct hapax_error *ret_error);
/* 0: all of it is durable. HAPAX_E_LEDGER: nothing of it is. HAPAX_E_FATE: one or the other. The
 * transaction is over in each case; calls that were claimed in one that is not durable are void. */
int hapax_commit(struct hapax_conn *conn, struct hapax_error *ret_error);
/* Undoes it, and what calls learned in it. */
void hapax_rollback(struct hapax_conn *conn);

/* ---- events ----
 *
 * With options.keeps_outbox what becomes of operations is announced by events (docs/outbox.md tells
 * which), each written in the commit of what it tells of, also in a transaction of yours. A `hapax
 * run` or `serve` with outbox_url on the same ledger delivers them, or you do: at least once, in
 * order per operation, by one process at a time. Receivers know an event again by its id. */

struct hapax_events; /* some of them; one thread at a time */

struct hapax_event {
    size_t size;    /* yours to set before hapax_events_get */
    int64_t number; /* rises with every event of the ledger */
    const char *id;
    const char *operation;
    const char *type; /* "dev.hapax.operation.succeeded", … */
    const char *server;
    const char *tool;
    int64_t at_ms; /* of the change, since 1970 */
    unsigned attempt;
    unsigned tries; /* to deliver it, so far */
};

/* At most `limit` (1 to 256) events that are to be delivered now, oldest first, of each operation
 * only the oldest. How many there are, and *ret_events for one or more; 0 also while another
 * process delivers them. HAPAX_E_MISUSE, HAPAX_E_LEDGER. */
int hapax_events_due(struct hapax *hapax, unsigned limit, struct hapax_events **ret_events,
                     struct hapax_error *ret_error);
/* The event of that index; what it points at lives as long as `events`. */
void hapax_events_get(const struct hapax_events *events, unsigned index,
                      struct hapax_event *ret_event);
/* It was delivered (1), or not (0): then it comes again, later each time, and is parked after 20
 * tries for a person (hapax ops outbox). Not synced: after a crash of the machine an event may come
 * once more. HAPAX_E_MISUSE, HAPAX_E_LEDGER, HAPAX_E_STATE. */
int hapax_event_mark(struct hapax *hapax, const struct hapax_event *event, int is_delivered,
                     struct hapax_error *ret_error);
void hapax_events_free(struct hapax_events *events);

#ifdef __cplusplus
}
#endif

#endif
