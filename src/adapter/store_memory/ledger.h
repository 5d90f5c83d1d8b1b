/* SPDX-License-Identifier: MIT */
/*
 * What the simulated disk holds. Private to this adapter.
 */
#ifndef HX_ADAPTER_STORE_MEMORY_LEDGER_H
#define HX_ADAPTER_STORE_MEMORY_LEDGER_H

#include "adapter/store_memory/store_memory.h"

struct hx_memory_row {
    struct hx_record record; /* its spans are owned by the row */
    int64_t rowid;
    uint64_t claim_epoch;
    uint32_t notes;
    bool is_hot;
};

/* A session, stream or resume point. It never changes: a newer one takes its place. */
struct hx_memory_kept {
    struct hx_list node;
    enum hx_store_kind put; /* the kind that makes one of this family */
    struct hx_arena arena;  /* of its spans */
    union {
        struct hx_store_session session;
        struct hx_store_stream stream;
        struct hx_store_resume resume;
    };
};

/* What an unsynced change undoes: a row as it was before (such changes touch no span), or what was
 * put and what it replaced. */
struct hx_memory_undo {
    struct hx_list node;
    size_t index;
    struct hx_memory_row before;
    struct hx_memory_kept *put; /* NULL = a row */
    struct hx_memory_kept *replaced;
};

struct hx_memory_spooled {
    struct hx_list node;
    struct hx_id owner;
    struct hx_record record; /* spans in `arena` */
    uint64_t expected_fence;
    struct hx_arena arena;
};

struct hx_memory_transport {
    struct hx_list node;
    char name[HX_TRANSPORT_NAME_MAX];
};

struct hx_memory_event {
    struct hx_store_event event; /* its spans are owned */
};

struct hx_memory_ledger {
    struct hx_clock *clock;
    struct hx_memory_row *rows; /* rowid = index + 1 */
    size_t row_count;
    size_t row_capacity;
    struct hx_list kept;     /* of hx_memory_kept */
    struct hx_list unsynced; /* of hx_memory_undo, oldest first */
    size_t unsynced_count;
    struct hx_list spool;  /* of hx_memory_spooled */
    struct hx_list stores; /* of hx_memory_store */
    unsigned long commits;
    unsigned long fail_countdown;
    enum hx_memory_failure fail_how;
    bool is_broken;
    bool is_spool_broken;
    uint64_t epoch;
    struct hx_list transports_gone; /* of hx_memory_transport */
    struct hx_wall low_water;
    struct hx_gap gap;
    struct hx_now gap_since; /* when it was set */
    const char *refusal;
    bool keeps_outbox;
    struct hx_memory_event *events; /* by number - 1 */
    size_t event_count;
    size_t event_capacity;
    struct hx_id publisher;
};

struct hx_memory_store {
    struct hx_store store;
    struct hx_list node;
    struct hx_memory_ledger *ledger;
    struct hx_id owner;
    uint64_t sequence;
    struct hx_list submitted;
    struct hx_list doubtful; /* done in truth or not, but nobody knows yet */
    enum hx_memory_failure doubt;
    struct hx_list done;
};

/* Runs one request against the rows. */
void hx_memory_run(struct hx_memory_store *store, struct hx_store_request *request);
/* For `mark_after`: the mark of a claim that is DONE. */
void hx_memory_mark_claim(struct hx_memory_store *store, struct hx_store_request *claim);
struct hx_memory_row *hx_memory_row_by_id(struct hx_memory_ledger *ledger, const struct hx_id *id);
/* The newest generation. */
struct hx_memory_row *hx_memory_row_by_identity(struct hx_memory_ledger *ledger,
                                                const struct hx_digest *identity);
/* The number of the newest hot row of that digest, or 0. */
int64_t hx_memory_twin_newest(struct hx_memory_ledger *ledger, const struct hx_digest *twin);
/* Whether the absence of a mark proves that the present attempt was not sent. */
bool hx_memory_is_epoch_current(const struct hx_memory_ledger *ledger,
                                const struct hx_memory_row *row);
/* Add rows to the request's records. */
void hx_memory_find_row(struct hx_memory_store *store, struct hx_store_request *request,
                        struct hx_memory_row *row);
void hx_memory_find_identity(struct hx_memory_store *store, struct hx_store_request *request,
                             bool also_twins);
void hx_memory_find(struct hx_memory_store *store, struct hx_store_request *request);
/* Applies what `owner` left in its spool, oldest first, and forgets it. */
void hx_memory_spool_apply(struct hx_memory_ledger *ledger, const struct hx_id *owner);
/* The row as whoever looks sees it while its living owner has this in the spool. */
struct hx_record hx_memory_shown(const struct hx_record *row, const struct hx_record *spooled);
void hx_memory_synced(struct hx_memory_ledger *ledger);
void hx_memory_row_fini(struct hx_memory_row *row);

/* In the commit of a transition: its events. */
void hx_memory_announce(struct hx_memory_ledger *ledger, const struct hx_outbox_view *before,
                        const struct hx_memory_row *row);
void hx_memory_run_outbox(struct hx_memory_store *store, struct hx_store_request *request);
void hx_memory_events_fini(struct hx_memory_ledger *ledger);
/* Is it the token of a store that is open? */
bool hx_memory_is_open(const struct hx_memory_ledger *ledger, const struct hx_id *owner);

/* Runs a request about a session, stream or resume point. */
void hx_memory_run_kept(struct hx_memory_store *store, struct hx_store_request *request);
struct hx_memory_kept *hx_memory_kept_free(struct hx_memory_kept *kept);

#endif
