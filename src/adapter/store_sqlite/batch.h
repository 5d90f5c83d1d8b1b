/* SPDX-License-Identifier: MIT */
/*
 * Group commit: everything that was queued becomes one transaction, and its fate is found out.
 *
 * There are no savepoints: preconditions are read before anything is written, so that a stale
 * request writes nothing; and if one fails all the same, the batch is rolled back and run again one
 * by one, so that it does not hurt its neighbours.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_BATCH_H
#define HX_ADAPTER_STORE_SQLITE_BATCH_H

#include "adapter/store_sqlite/rows.h"

struct hx_batcher {
    struct hx_ledger *ledger;
    struct hx_aftermath aftermath;
    bool is_proved; /* the present transaction wrote a proof: see kept.h */
    /* Waits a little while the fate of a commit cannot be known; false = the store is being closed.
     * */
    bool (*wait)(void *context, int64_t ms);
    void *wait_context;
};

/* Runs all requests of `batch`, in order. False when the store was closed while a commit was in
 * doubt: then their results mean nothing. */
bool hx_batch_run(struct hx_batcher *batcher, struct hx_list *batch);
/* Commits what waits in our own spool, then empties it. */
int hx_batch_apply_own_spool(struct hx_batcher *batcher) HX_MUST_CHECK;
/* Applies and removes the spools of the dead, and their owner files. */
int hx_batch_settle_dead(struct hx_batcher *batcher, uint32_t *ret_applied) HX_MUST_CHECK;

#endif
