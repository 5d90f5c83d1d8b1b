/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/batch.h"

#include <stdio.h>

#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/find.h"
#include "adapter/store_sqlite/kept.h"
#include "adapter/store_sqlite/outbox.h"
#include "adapter/store_sqlite/request.h"
#include "adapter/store_sqlite/retention.h"
#include "base/crash.h"

enum { DOUBT_WAIT_MIN_MS = 20, DOUBT_WAIT_MAX_MS = 1000 };

static struct hx_store_request *request_of(struct hx_list *node)
{
    return hx_container_of(node, struct hx_store_request, node);
}

static void fail(struct hx_store_request *request)
{
    hx_store_request_forget(request);
    request->result = HX_STORE_NOT_DONE;
    snprintf(request->error, sizeof(request->error), "%s", hx_fault_last()->text);
}

static enum hx_ledger_txn txn_kind(const struct hx_list *batch)
{
    enum hx_ledger_txn kind = HX_TXN_READ;
    hx_list_for_each (at, batch) {
        const struct hx_store_request *request = request_of(at);
        bool is_synced_touch =
            request->kind == HX_STORE_TOUCH && hx_store_touch_is_synced(&request->touch);
        if (hx_store_kind_is_synced(request->kind) || is_synced_touch)
            return HX_TXN_SYNCED;
        if (hx_store_kind_writes(request->kind))
            kind = HX_TXN_LAZY;
    }
    return kind;
}

static void fail_all(struct hx_list *batch)
{
    hx_list_for_each (at, batch)
        fail(request_of(at));
}

/* Whether the batch writes what leaves no history, and no history line of another request would
 * speak for it. */
static bool needs_proof(const struct hx_list *batch)
{
    bool is_needed = false;
    hx_list_for_each (at, batch) {
        const struct hx_store_request *request = request_of(at);
        if (request->result != HX_STORE_DONE)
            continue;
        if (request->kind == HX_STORE_INSERT || request->kind == HX_STORE_UPDATE)
            return false;
        is_needed |= hx_kept_is(request->kind) && hx_store_kind_writes(request->kind);
    }
    return is_needed;
}

enum attempt { ATTEMPT_DONE, ATTEMPT_NOT_BEGUN, ATTEMPT_FAILED, ATTEMPT_IN_DOUBT };

/* One transaction of the whole list. NOT_BEGUN and FAILED: nothing happened, for the reason in the
 * fault, which in the first case is that of every write. */
static enum attempt attempt_batch(struct hx_batcher *batcher, struct hx_list *batch,
                                  enum hx_ledger_txn kind)
{
    struct hx_ledger *ledger = batcher->ledger;
    hx_aftermath_reset(&batcher->aftermath);
    batcher->is_proved = false;
    if (hx_ledger_begin(ledger, kind) != 0)
        return ATTEMPT_NOT_BEGUN;
    if (kind == HX_TXN_SYNCED && !ledger->is_restored_copy && hx_outbox_ensure(ledger) < 0) {
        hx_ledger_rollback(ledger);
        return ATTEMPT_FAILED;
    }
    hx_list_for_each (at, batch) {
        int rc = hx_request_run(ledger, request_of(at), &batcher->aftermath);
        if (rc == 0)
            continue;
        hx_ledger_rollback(ledger);
        if (rc == HX_FIND_NEEDS_SYNC) {
            hx_assert(kind != HX_TXN_SYNCED);
            return attempt_batch(batcher, batch, HX_TXN_SYNCED);
        }
        return ATTEMPT_FAILED;
    }
    batcher->is_proved = needs_proof(batch);
    if (batcher->is_proved && hx_kept_prove(ledger) < 0) {
        hx_ledger_rollback(ledger);
        return ATTEMPT_FAILED;
    }
    /* A claim that met a row is such a one. Where a spool was applied the sync is owed all the
     * same: it is removed then, and what it brought may be the commit of one who died in its sync.
     */
    if (!hx_ledger_has_changed(ledger) && batcher->aftermath.spool_count == 0)
        hx_ledger_forgo_sync(ledger);
    int rc = hx_ledger_commit(ledger);
    if (rc == 0) {
        hx_aftermath_carry_out(ledger, &batcher->aftermath);
        return ATTEMPT_DONE;
    }
    return rc == HX_COMMIT_IN_DOUBT ? ATTEMPT_IN_DOUBT : ATTEMPT_FAILED;
}

/* Whether the history proves that this write is in the ledger: 1, 0, or -1 when it can prove
 * nothing. Only the very line that it wrote does: an earlier write of the same row may be of the
 * same kind, under the same fence, and of the same millisecond. */
static int is_in_history(struct hx_ledger *ledger, const struct hx_store_request *request,
                         struct hx_wall when, int *ret_rc)
{
    struct hx_row_head head = {0};
    bool is_own_log = request->kind == HX_STORE_NOTE && hx_id_is_nil(&request->record.id);
    *ret_rc = is_own_log ? 1 : hx_row_head(ledger, &request->record.id, &head);
    if (*ret_rc < 0 || request->result != HX_STORE_DONE)
        return -1;
    if (request->kind == HX_STORE_INSERT)
        return *ret_rc;
    if (request->proof == 0)
        return -1;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_HISTORY_PROOF);
    if (stmt == NULL || *ret_rc == 0) {
        *ret_rc = stmt == NULL ? HX_E_STORE : 0;
        return stmt == NULL ? -1 : 0;
    }
    /* A mark and a note leave the fence as it was, and others may have raised it since. */
    static const enum hx_history_kind kinds[] = {[HX_STORE_UPDATE] = HX_HISTORY_UPDATE,
                                                 [HX_STORE_MARK] = HX_HISTORY_MARK,
                                                 [HX_STORE_TOUCH] = HX_HISTORY_NOTE,
                                                 [HX_STORE_NOTE] = HX_HISTORY_NOTE};
    uint64_t fence = request->kind == HX_STORE_UPDATE ? request->record.fence : head.fence;
    if (request->kind == HX_STORE_MARK)
        fence = request->expected_fence;
    sqlite3_bind_int64(stmt, 1, head.row);
    sqlite3_bind_int64(stmt, 2, (int64_t)request->proof);
    sqlite3_bind_int(stmt, 3, (int)kinds[request->kind]);
    sqlite3_bind_int64(stmt, 4, (int64_t)fence);
    sqlite3_bind_int64(stmt, 5, when.ms);
    sqlite3_bind_blob(stmt, 6, &ledger->owners.self, HX_ID_SIZE, SQLITE_STATIC);
    *ret_rc = hx_ledger_step(ledger, stmt);
    sqlite3_reset(stmt);
    return *ret_rc < 0 ? -1 : *ret_rc;
}

/* The batch was one transaction, so that one proof speaks for all of it. 0, or negative. A batch of
 * nothing but counters proves nothing, and is called not done: a counter may then be one too low.
 * */
static int read_back(struct hx_batcher *batcher, struct hx_list *batch, struct hx_wall when,
                     bool *ret_is_done)
{
    struct hx_ledger *ledger = batcher->ledger;
    int rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    int proof = -1;
    if (batcher->is_proved)
        rc = proof = hx_kept_is_proved(ledger);
    hx_list_for_each (at, batch) {
        if (proof >= 0 || rc < 0)
            break;
        proof = is_in_history(ledger, request_of(at), when, &rc);
    }
    hx_ledger_rollback(ledger);
    *ret_is_done = proof == 1;
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Waits until the truth is known. A write is never repeated here. */
static bool resolve_doubt(struct hx_batcher *batcher, struct hx_list *batch, bool *ret_is_done)
{
    struct hx_wall when = batcher->ledger->now.wall;
    int64_t wait_ms = DOUBT_WAIT_MIN_MS;
    for (;;) {
        if (hx_ledger_heal(batcher->ledger) == 0 &&
            read_back(batcher, batch, when, ret_is_done) == 0)
            return true;
        if (!batcher->wait(batcher->wait_context, wait_ms))
            return false;
        wait_ms = wait_ms < DOUBT_WAIT_MAX_MS / 2 ? wait_ms * 2 : DOUBT_WAIT_MAX_MS;
    }
}

static bool is_single(const struct hx_list *batch)
{
    return batch->next->next == batch;
}

static bool run_transaction(struct hx_batcher *batcher, struct hx_list *batch);

static bool run_one_by_one(struct hx_batcher *batcher, struct hx_list *batch)
{
    struct hx_list rest, single;
    hx_list_init(&rest);
    hx_list_splice(&rest, batch);
    bool is_known = true;
    for (struct hx_list *node; is_known && (node = hx_list_take_first(&rest)) != NULL;) {
        hx_list_init(&single);
        hx_list_append(&single, node);
        is_known = run_transaction(batcher, &single);
        hx_list_splice(batch, &single);
    }
    hx_list_splice(batch, &rest);
    return is_known;
}

/* Every write of the batch certainly did not happen; its reads saw what never was, and read again.
 * */
static bool end_not_done(struct hx_batcher *batcher, struct hx_list *batch, const char *reason)
{
    struct hx_list rest, single;
    hx_list_init(&rest);
    hx_list_splice(&rest, batch);
    for (struct hx_list *node; (node = hx_list_take_first(&rest)) != NULL;) {
        hx_list_init(&single);
        hx_list_append(&single, node);
        bool is_write = hx_store_kind_writes(request_of(node)->kind);
        if (is_write)
            (void)HX_RAISE(HX_E_STORE, "%s", reason);
        if (is_write || attempt_batch(batcher, &single, HX_TXN_READ) != ATTEMPT_DONE)
            fail(request_of(node));
        hx_list_splice(batch, &single);
    }
    return true;
}

static bool run_transaction(struct hx_batcher *batcher, struct hx_list *batch)
{
    char reason[HX_FAULT_TEXT_MAX];
    bool is_done = false;
    switch (attempt_batch(batcher, batch, txn_kind(batch))) {
    case ATTEMPT_DONE:
        return true;
    case ATTEMPT_NOT_BEGUN:
        snprintf(reason, sizeof(reason), "%s", hx_fault_last()->text);
        return end_not_done(batcher, batch, reason);
    case ATTEMPT_FAILED:
        if (!is_single(batch))
            return run_one_by_one(batcher, batch);
        fail_all(batch);
        return true;
    case ATTEMPT_IN_DOUBT:
        break;
    }
    snprintf(reason, sizeof(reason), "%s", hx_fault_last()->text);
    if (!resolve_doubt(batcher, batch, &is_done))
        return false;
    if (is_done) {
        hx_aftermath_carry_out(batcher->ledger, &batcher->aftermath);
        return true;
    }
    return end_not_done(batcher, batch, reason);
}

/* Large outcomes are on the disk before the transaction begins: their sync must not hold the lock.
 * */
static void write_blobs(struct hx_batcher *batcher, struct hx_list *batch,
                        struct hx_list *ret_failed)
{
    struct hx_ledger *ledger = batcher->ledger;
    hx_list_for_each_safe (at, batch) {
        struct hx_store_request *request = request_of(at);
        request->scratch = 0;
        if (!hx_store_kind_is_synced(request->kind) ||
            !hx_outcome_needs_blob(&request->record.outcome))
            continue;
        uint64_t number;
        hx_rand_fill(ledger->options->rand, (uint8_t *)&number, sizeof(number));
        number = (number >> 1) | 1;
        if (hx_blob_write(ledger->paths.blobs, &request->record.id, number,
                          request->record.outcome.bytes) == 0) {
            request->scratch = number;
            continue;
        }
        fail(request);
        hx_list_unlink(at);
        hx_list_append(ret_failed, at);
    }
}

/* Before the transaction, so that they do not hurt their neighbours. */
static void turn_away(struct hx_list *batch, struct hx_list *ret_failed)
{
    hx_list_for_each_safe (at, batch) {
        const char *flaw = hx_store_request_flaw(request_of(at));
        if (flaw == NULL)
            continue;
        (void)HX_RAISE(HX_E_LIMIT, "%s", flaw);
        fail(request_of(at));
        hx_list_unlink(at);
        hx_list_append(ret_failed, at);
    }
}

static void drop_vain_blobs(struct hx_batcher *batcher, struct hx_list *batch)
{
    hx_list_for_each (at, batch) {
        struct hx_store_request *request = request_of(at);
        if (request->scratch != 0 && request->result != HX_STORE_DONE)
            hx_blob_remove(batcher->ledger->paths.blobs, &request->record.id, request->scratch);
    }
}

/* The marks of the claims that have become durable. A mark that is refused, fails or stays in doubt
 * is found out like any other, and what comes of it is left to whoever asks for the mark next. */
static bool mark_claims(struct hx_batcher *batcher, struct hx_list *batch)
{
    struct hx_list marks;
    bool is_known = true;
    hx_list_init(&marks);
    hx_list_for_each (at, batch) {
        struct hx_store_request *claim = request_of(at);
        if (!claim->mark_after || claim->result != HX_STORE_DONE)
            continue;
        struct hx_store_request *mark = hx_store_request_new(HX_STORE_MARK, claim);
        mark->record.id = claim->record.id;
        mark->record.attempt.number = claim->record.attempt.number;
        mark->record.attempt.marked_at = hx_clock_now(batcher->ledger->options->clock);
        mark->expected_fence = claim->record.fence;
        hx_list_append(&marks, &mark->node);
    }
    if (!hx_list_is_empty(&marks)) {
        HX_CRASH_POINT("claim-unmarked");
        is_known = run_transaction(batcher, &marks);
    }
    for (struct hx_list *node; (node = hx_list_take_first(&marks)) != NULL;) {
        struct hx_store_request *mark = request_of(node);
        struct hx_store_request *claim = mark->context;
        claim->is_marked = is_known && mark->result == HX_STORE_DONE;
        claim->marked_at = mark->record.attempt.marked_at;
        hx_store_request_free(mark);
    }
    return is_known;
}

static void run_spool(struct hx_batcher *batcher, struct hx_store_request *request)
{
    hx_store_request_forget(request);
    if (hx_spool_append(&batcher->ledger->spool, &request->record, request->expected_fence) < 0)
        fail(request);
}

bool hx_batch_run(struct hx_batcher *batcher, struct hx_list *batch)
{
    struct hx_list rest, run, failed;
    bool is_known = true;
    hx_list_init(&rest);
    hx_list_splice(&rest, batch);
    while (is_known && !hx_list_is_empty(&rest)) {
        if (request_of(rest.next)->kind == HX_STORE_SPOOL) {
            struct hx_list *node = hx_list_take_first(&rest);
            run_spool(batcher, request_of(node));
            hx_list_append(batch, node);
            continue;
        }
        hx_list_init(&run);
        hx_list_init(&failed);
        while (!hx_list_is_empty(&rest) && request_of(rest.next)->kind != HX_STORE_SPOOL)
            hx_list_append(&run, hx_list_take_first(&rest));
        turn_away(&run, &failed);
        write_blobs(batcher, &run, &failed);
        hx_list_splice(batch, &failed);
        if (!hx_list_is_empty(&run))
            is_known = run_transaction(batcher, &run);
        if (is_known)
            drop_vain_blobs(batcher, &run);
        if (is_known)
            is_known = mark_claims(batcher, &run);
        hx_list_splice(batch, &run);
    }
    hx_list_splice(batch, &rest);
    return is_known;
}
