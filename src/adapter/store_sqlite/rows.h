/* SPDX-License-Identifier: MIT */
/*
 * What requests do to rows, inside a transaction that somebody else began. Preconditions are read
 * before anything is written: a stale request leaves nothing behind. Any negative return means that
 * the transaction must be rolled back.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_ROWS_H
#define HX_ADAPTER_STORE_SQLITE_ROWS_H

#include "adapter/store_sqlite/ledger.h"

/* Work that belongs after the commit, or after its failure. */
struct hx_aftermath {
    /* Blob files: those that the commit makes superfluous, and those written for it in vain. */
    struct hx_blob_name {
        struct hx_id id;
        uint64_t number;
    } * drop_on_commit;
    uint32_t drop_count;
    uint32_t drop_capacity;
    /* Spools of dead owners whose entries were all applied. */
    struct hx_id *spools_applied;
    uint32_t spool_count;
    uint32_t spool_capacity;
};

void hx_aftermath_reset(struct hx_aftermath *aftermath);
void hx_aftermath_fini(struct hx_aftermath *aftermath);
/* After the commit: removes what is not needed any more. */
void hx_aftermath_carry_out(struct hx_ledger *ledger, struct hx_aftermath *aftermath);
void hx_aftermath_drop_blob(struct hx_aftermath *aftermath, const struct hx_id *id,
                            uint64_t number);
void hx_aftermath_drop_spool(struct hx_aftermath *aftermath, const struct hx_id *owner);

/* The few columns by which a write is judged. */
struct hx_row_head {
    int64_t row;
    uint64_t fence;
    enum hx_op_state state;
    uint32_t attempt;
    bool is_marked;
    int outcome_place;
    uint64_t outcome_blob;
    uint32_t adoptions;
    struct hx_id owner;
    uint64_t claim_epoch;
    int64_t claim_boot;
    struct hx_outbox_view view; /* as it was: what an update announces is the difference */
};

/* 1 and the head, 0 when there is no such row, or negative. */
int hx_row_head(struct hx_ledger *ledger, const struct hx_id *id,
                struct hx_row_head *ret_head) HX_MUST_CHECK;
/* Whether the absence of a mark proves that the present attempt was not sent: 1, 0, or negative. No
 * crash of the host and no I/O error has been since its claim, which could have taken a mark. */
int hx_row_is_epoch_current(struct hx_ledger *ledger, const struct hx_row_head *head) HX_MUST_CHECK;
/* The row of that identity and generation, or 0. */
int hx_row_taken(struct hx_ledger *ledger, const struct hx_record *record,
                 int64_t *ret_row) HX_MUST_CHECK;
int hx_row_newest_twin(struct hx_ledger *ledger, const struct hx_digest *twin,
                       int64_t *ret_row) HX_MUST_CHECK;

/* `blob` is the number of the blob file that already holds the outcome, or 0. */
int hx_row_insert(struct hx_ledger *ledger, const struct hx_record *record,
                  uint64_t blob) HX_MUST_CHECK;
int hx_row_update(struct hx_ledger *ledger, const struct hx_row_head *head,
                  const struct hx_record *record, uint64_t blob, enum hx_history_kind kind,
                  struct hx_aftermath *aftermath) HX_MUST_CHECK;
int hx_row_mark(struct hx_ledger *ledger, const struct hx_row_head *head,
                const struct hx_record *record) HX_MUST_CHECK;
/* A keyless row becomes known under the key and identity of `record`. */
int hx_row_rekey(struct hx_ledger *ledger, const struct hx_row_head *head,
                 const struct hx_record *record) HX_MUST_CHECK;
int hx_row_touch(struct hx_ledger *ledger, const struct hx_row_head *head,
                 const struct hx_store_touch *touch) HX_MUST_CHECK;
/* `head` NULL = the ledger's own log. */
int hx_row_note(struct hx_ledger *ledger, const struct hx_row_head *head, enum hx_history_kind kind,
                struct hx_span text) HX_MUST_CHECK;
/* Keeps an outcome that came too late to be applied: its bytes, and a history line. */
int hx_row_evidence(struct hx_ledger *ledger, const struct hx_row_head *head,
                    const struct hx_outcome *outcome) HX_MUST_CHECK;
/* A history line of what became of a row. */
int hx_row_history(struct hx_ledger *ledger, int64_t row, const struct hx_record *record,
                   enum hx_history_kind kind, enum hx_op_state from) HX_MUST_CHECK;

/* Counts the claims of this process anew, since others may have ended some, and gives back the room
 * in the spool when there is none. */
int hx_row_recount_claims(struct hx_ledger *ledger) HX_MUST_CHECK;

/* Whether an outcome goes to a blob file, which is written before the transaction. */
bool hx_outcome_needs_blob(const struct hx_outcome *outcome);

#endif
