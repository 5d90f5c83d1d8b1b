/* SPDX-License-Identifier: MIT */
/*
 * The ledger for people: what `hapax ops` shows, checks and repairs. Synchronous, with a connection
 * of its own; safe beside running gateways, whose locks and transactions it respects. Decisions
 * about an operation (resolve, cancel) are no matter of this file: they go through the port like
 * any other.
 *
 * Functions return 0 or a negative HX_E_* with a sentence in the fault. Reads are done in short
 * transactions, a page each, so that no long reader keeps the log from being moved.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_INSPECT_H
#define HX_ADAPTER_STORE_SQLITE_INSPECT_H

#include "adapter/store_sqlite/store_sqlite.h"
#include "base/arena.h"
#include "port/store.h"

struct hx_inspect;

/* The ledger must exist. Borrows `options` until close. */
int hx_inspect_open(const struct hx_store_sqlite_options *options,
                    struct hx_inspect **ret_inspect) HX_MUST_CHECK;
struct hx_inspect *hx_inspect_close(struct hx_inspect *inspect);

struct hx_inspect_filter {
    uint32_t states;       /* bits (1 << enum hx_op_state); 0 = every state */
    const char *tool_glob; /* with * ? and [...]; NULL = every tool */
    const char *server;    /* exactly; NULL = every server */
    const char *principal; /* exactly; NULL = every principal */
    struct hx_wall since;  /* created at or after; 0 = no bound */
    struct hx_wall until;  /* created before; 0 = no bound */
    bool needs_human;      /* only unknown ones that wait for a person */
    bool is_newest_first;
    int64_t after;  /* where the last page ended; 0 = from the beginning */
    uint32_t limit; /* 0 = all */
};

/* Calls `visit` for each matching row, until it returns false; what it is given is valid during the
 * call. *ret_next is where the next page begins, 0 when there is none; it may be NULL. */
int hx_inspect_list(struct hx_inspect *inspect, const struct hx_inspect_filter *filter,
                    bool (*visit)(void *context, const struct hx_store_found *found), void *context,
                    int64_t *ret_next) HX_MUST_CHECK;

/* Reads one row into `arena`. 1 and *ret_found, 0 when there is none. */
int hx_inspect_by_id(struct hx_inspect *inspect, const struct hx_id *id, struct hx_arena *arena,
                     struct hx_store_found *ret_found) HX_MUST_CHECK;
/* The same by what people have at hand: a whole id, the last 6 or more digits of one, or a caller's
 * key. 1 and the row; 0 none; 2 when it fits several. */
int hx_inspect_by_text(struct hx_inspect *inspect, struct hx_span text, struct hx_arena *arena,
                       struct hx_store_found *ret_found) HX_MUST_CHECK;

struct hx_history_line {
    int64_t seq; /* from 1 */
    struct hx_wall at;
    struct hx_id who; /* token of the process that wrote it; nil = hapax ops */
    const char *what; /* insert, update, mark, note, spool, evidence, retention */
    enum hx_op_state from;
    enum hx_op_state to;
    enum hx_reason reason;
    uint64_t fence;
    uint32_t attempt;
    enum hx_attempt_state attempt_state;
    struct hx_attempt_counts earlier;
    struct hx_span text; /* the note, or the name of the attempt's transport; may be absent */
};

/* Oldest first. `rowid` 0 = the ledger's own log. */
int hx_inspect_history(struct hx_inspect *inspect, int64_t rowid,
                       bool (*visit)(void *context, const struct hx_history_line *line),
                       void *context) HX_MUST_CHECK;

struct hx_inspect_attempt {
    uint32_t number;
    enum hx_attempt_state state;
    bool is_marked;
    struct hx_wall claimed;
    struct hx_wall marked;
    struct hx_wall ended; /* 0 = still open */
    struct hx_id who;
    char transport[HX_TRANSPORT_NAME_MAX];
};

/* What the history tells about each attempt; at most `max`, in order. */
int hx_inspect_attempts(struct hx_inspect *inspect, int64_t rowid,
                        struct hx_inspect_attempt *ret_attempts, uint32_t max,
                        uint32_t *ret_count) HX_MUST_CHECK;

/* The outcome's bytes wherever they are; absent when there are none (any more). */
int hx_inspect_payload(struct hx_inspect *inspect, const struct hx_id *id, struct hx_arena *arena,
                       struct hx_span *ret_bytes) HX_MUST_CHECK;

struct hx_inspect_facts {
    struct hx_id instance;
    uint64_t synced_commits;
    uint64_t epoch;
    int schema_version;
    struct hx_wall low_water;
    struct hx_gap gap;
    bool is_restored_copy;      /* guarded calls are refused until recover */
    struct hx_wall io_error_at; /* 0 = none since the last recover */
    char io_error[256];
    uint64_t counts[HX_OP_STATE_COUNT];
    struct hx_wall outbox_since; /* 0 = there is no outbox */
};

/* Counts all rows: slow in a large ledger. */
int hx_inspect_facts(struct hx_inspect *inspect, struct hx_inspect_facts *ret_facts) HX_MUST_CHECK;

struct hx_inspect_files {
    uint64_t count;
    uint64_t bytes;
};

struct hx_inspect_size {
    struct hx_inspect_facts facts; /* counts[] of the operations */
    uint64_t history;              /* lines */
    uint64_t sessions;
    uint64_t events_open;             /* of the outbox: waiting or parked */
    uint64_t events_over;             /* kept for a while */
    struct hx_inspect_files payloads; /* arguments and results in rows of their own */
    struct hx_inspect_files blobs;    /* results in files */
    struct hx_inspect_files spools;   /* room of each process for outcomes before a commit */
    uint64_t database_bytes;
    uint64_t free_bytes;   /* of those: used again before it grows */
    uint64_t log_bytes;    /* SQLite's write-ahead log */
    struct hx_wall oldest; /* when the oldest operation came; 0 = there is none */
};

/* Counts everything: slow in a large ledger. */
int hx_inspect_size(struct hx_inspect *inspect, struct hx_inspect_size *ret_size) HX_MUST_CHECK;
/* As it was found when the inspection was opened. */
bool hx_inspect_is_restored_copy(const struct hx_inspect *inspect);

/* The outbox. */

struct hx_inspect_outbox {
    struct hx_wall since; /* 0 = there is none */
    bool has_publisher;   /* a living process publishes */
    uint64_t pending;
    uint64_t parked;
    struct hx_wall oldest; /* of the pending and parked; 0 = none */
};

int hx_inspect_outbox(struct hx_inspect *inspect,
                      struct hx_inspect_outbox *ret_outbox) HX_MUST_CHECK;
/* Events whose place is in `places` (bits 1 << enum hx_outbox_place), and, unless `op` is NULL, of
 * that operation; at most `limit` (0 = all). Until `visit` returns false. */
int hx_inspect_events(struct hx_inspect *inspect, unsigned places, const struct hx_id *op,
                      bool is_newest_first, uint32_t limit,
                      bool (*visit)(void *context, const struct hx_store_event *event),
                      void *context) HX_MUST_CHECK;
/* By a whole id or the last 6 or more digits of one. 1 and the event; 0 none; 2 when it fits
 * several. */
int hx_inspect_event(struct hx_inspect *inspect, struct hx_span text, struct hx_arena *arena,
                     struct hx_store_event *ret_event) HX_MUST_CHECK;
/* What is parked, or pending, is tried from the beginning; `number` 0 = everything parked. */
int hx_inspect_events_again(struct hx_inspect *inspect, int64_t number,
                            uint64_t *ret_count) HX_MUST_CHECK;
/* It is not delivered any more, and what waits behind it goes on. *ret_count is 0 when it was over
 * already. */
int hx_inspect_event_drop(struct hx_inspect *inspect, int64_t number, struct hx_span reason,
                          uint64_t *ret_count) HX_MUST_CHECK;
/* From now on nothing is announced; what was not delivered is dropped. HX_E_STORE while a living
 * process publishes. */
int hx_inspect_outbox_end(struct hx_inspect *inspect, struct hx_span reason,
                          uint64_t *ret_count) HX_MUST_CHECK;

struct hx_verify_report {
    uint64_t rows;
    uint64_t problems; /* something is wrong */
    uint64_t notes;    /* worth knowing, and harmless */
};

struct hx_verify_listener {
    /* A whole sentence. */
    void (*finding)(void *context, bool is_problem, const char *text);
    /* From time to time; may be NULL. */
    void (*progress)(void *context, const char *stage, uint64_t done);
    void *context;
};

/* Reads everything. Works on one snapshot without holding up the gateways. A negative return means
 * that the check itself could not go on. */
int hx_inspect_verify(struct hx_inspect *inspect, const struct hx_verify_listener *listener,
                      struct hx_verify_report *ret_report) HX_MUST_CHECK;

struct hx_recover_report {
    uint32_t spools_applied;
    uint32_t blobs_removed;
    uint64_t rows_doubted; /* of the copy: what became of them since is not known */
    uint64_t rows_damaged; /* of the copy, not ended: they were left as they are */
    int64_t first_damaged;
    bool was_restored_copy;
    struct hx_gap gap;
};

/* Applies what dead processes left, removes files that nothing names, ends the note of an I/O error
 * and, when the ledger was restored from a copy taken at `backup_taken_at` (0 = it was not), makes
 * every row unknown that is not final, stores the gap and lets guarded calls through again. */
int hx_inspect_recover(struct hx_inspect *inspect, struct hx_wall backup_taken_at,
                       struct hx_recover_report *ret_report) HX_MUST_CHECK;

#endif
