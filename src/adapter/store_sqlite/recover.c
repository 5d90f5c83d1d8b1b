/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops recover`: carries out what only a person may order, and tidies up.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "adapter/store_sqlite/batch.h"
#include "adapter/store_sqlite/beneath.h"
#include "adapter/store_sqlite/inspect_ledger.h"
#include "base/alloc.h"
#include "base/crash.h"

enum { ORPHAN_AGE_S = 60 * 60, PAGE_ROWS = 256 };

/* A blob without a row may belong to a commit that is under way; an old one does not. */
static int remove_orphans(struct hx_inspect *inspect, struct hx_recover_report *report)
{
    const char *blobs = inspect->ledger.paths.blobs;
    DIR *directory = opendir(blobs);
    if (directory == NULL)
        return HX_RAISE(HX_E_SYSTEM, "The directory %s cannot be read.", blobs);
    int rc = hx_inspect_begin(inspect);
    for (struct dirent *entry; rc >= 0 && (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (entry->d_name[0] == '.')
            continue;
        bool is_named = hx_inspect_is_blob_named(inspect, entry->d_name, &rc);
        char *path = hx_path_join(blobs, entry->d_name);
        if (rc >= 0 && !is_named && stat(path, &info) == 0 &&
            time(NULL) - info.st_mtime > ORPHAN_AGE_S && unlink(path) == 0)
            report->blobs_removed++;
        hx_free(path);
    }
    if (inspect->ledger.txn != HX_TXN_NONE)
        hx_ledger_rollback(&inspect->ledger);
    closedir(directory);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Up to PAGE_ROWS rows that are not final, past `after`. */
static int open_rows(struct hx_inspect *inspect, sqlite3_stmt *stmt, int64_t after, int64_t *rows,
                     int *ret_count)
{
    int count = 0, rc = 0;
    sqlite3_bind_int64(stmt, 1, after);
    sqlite3_bind_int(stmt, 2, PAGE_ROWS);
    while (count < PAGE_ROWS && (rc = hx_ledger_step(&inspect->ledger, stmt)) == 1)
        rows[count++] = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    *ret_count = count;
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Nothing can be made of it, and nobody runs it: whoever asks for it is refused, in a copy or not.
 * The other rows must not wait for it. */
static int leave_damaged(struct hx_recover_report *report, int64_t row)
{
    if (report->rows_damaged++ == 0)
        report->first_damaged = row;
    return 0;
}

/* One row of the copy: unknown, unless it is final. */
static int doubt_row(struct hx_inspect *inspect, int64_t row, struct hx_aftermath *aftermath,
                     struct hx_recover_report *report)
{
    struct hx_ledger *ledger = &inspect->ledger;
    struct hx_row_head head;
    hx_store_request_forget(inspect->request);
    ledger->damaged_row = 0;
    int rc = hx_find_row(ledger, inspect->request, row);
    if (rc < 0 && ledger->damaged_row == row)
        return leave_damaged(report, row);
    if (rc < 0)
        return HX_TRACE(rc);
    hx_assert(inspect->request->record_count == 1);
    struct hx_record *record = &inspect->request->records[0].record;
    if (hx_record_flaw(record) != NULL)
        return leave_damaged(report, row);
    if (!hx_restored_doubt(record, &ledger->now))
        return 0;
    rc = hx_row_head(ledger, &record->id, &head);
    if (rc == 0 || (rc > 0 && head.row != row))
        return leave_damaged(report, row);
    if (rc > 0)
        rc = hx_row_update(ledger, &head, record, 0, HX_HISTORY_UPDATE, aftermath);
    if (rc == 0)
        report->rows_doubted++;
    return HX_TRACE(rc);
}

/* What the copy says of rows that are not final is out of date: each may have run since. Every row
 * is looked at, since an index is no proof that there are no others. */
static int doubt_rows(struct hx_inspect *inspect, struct hx_aftermath *aftermath,
                      struct hx_recover_report *report)
{
    int64_t rows[PAGE_ROWS];
    int count = PAGE_ROWS;
    int64_t after = 0;
    char sql[160];
    snprintf(sql, sizeof(sql),
             "SELECT row FROM op WHERE row > ?1 AND state IN (%d, %d, %d, %d, %d)"
             " ORDER BY row LIMIT ?2",
             HX_OP_AWAITING_APPROVAL, HX_OP_READY, HX_OP_RUNNING, HX_OP_INPUT_REQUIRED,
             HX_OP_UNKNOWN);
    sqlite3_stmt *stmt = hx_inspect_prepare(inspect, sql);
    int rc = stmt != NULL ? 0 : HX_E_STORE;
    while (rc == 0 && count == PAGE_ROWS) {
        rc = open_rows(inspect, stmt, after, rows, &count);
        for (int i = 0; rc == 0 && i < count; i++) {
            after = rows[i];
            rc = doubt_row(inspect, rows[i], aftermath, report);
        }
    }
    sqlite3_finalize(stmt);
    return HX_TRACE(rc);
}

/* The gap, the count and the end of an I/O error's note. The ledger's count jumps over the
 * counter's, so that the copy is not taken for restored again. */
static int write_meta(struct hx_inspect *inspect, const struct hx_gap *gap)
{
    struct hx_ledger *ledger = &inspect->ledger;
    struct hx_id instance;
    uint64_t count;
    if (hx_counter_read(&ledger->counter, &instance, &count) && count > ledger->meta.commits)
        ledger->meta.commits = count;
    hx_beneath_note(ledger); /* before the counter stops to tell that it is a copy */
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, "UPDATE ledger SET restored_from = iif(?1 = 0, restored_from, ?1),"
                 " restored_to = iif(?1 = 0, restored_to, ?2),"
                 " restored_until = iif(?1 = 0, restored_until, ?3),"
                 " restored_age = iif(?1 = 0, restored_age, ?4), io_error = NULL,"
                 " io_error_at = 0 WHERE id = 1");
    if (stmt != NULL) {
        sqlite3_bind_int64(stmt, 1, gap->from.ms);
        sqlite3_bind_int64(stmt, 2, gap->to.ms);
        sqlite3_bind_int64(stmt, 3, gap->until.ms);
        sqlite3_bind_int64(stmt, 4, hx_ledger_age_ms(ledger));
    }
    int rc = stmt != NULL ? hx_ledger_run(ledger, stmt) : HX_E_STORE;
    sqlite3_finalize(stmt);
    char note[128];
    int len = snprintf(note, sizeof(note), "{\"what\":\"recover\",\"backup_taken_at_ms\":%lld}",
                       (long long)gap->from.ms);
    if (rc == 0)
        rc = hx_row_note(ledger, NULL, HX_HISTORY_NOTE, hx_span(note, (size_t)len));
    return HX_TRACE(rc);
}

/* The commit that ends the copy counts again. When it fails, or nobody knows, it stays one. */
static int commit_as_ledger(struct hx_ledger *ledger)
{
    bool was_restored_copy = ledger->is_restored_copy;
    ledger->is_restored_copy = false;
    int rc = hx_ledger_commit(ledger);
    if (rc != 0)
        ledger->is_restored_copy = was_restored_copy;
    return rc == 0 ? 0 : HX_E_STORE;
}

/* One commit: a copy whose rows are still believed is never one that calls are taken for. */
static int take_into_use(struct hx_inspect *inspect, const struct hx_gap *gap,
                         struct hx_recover_report *report)
{
    struct hx_ledger *ledger = &inspect->ledger;
    struct hx_aftermath aftermath = {0};
    int rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    if (gap->from.ms != 0)
        rc = doubt_rows(inspect, &aftermath, report);
    if (rc == 0)
        rc = write_meta(inspect, gap);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
    } else {
        HX_CRASH_POINT("recover-before-commit");
        rc = commit_as_ledger(ledger);
    }
    if (rc == 0)
        hx_aftermath_carry_out(ledger, &aftermath);
    hx_aftermath_fini(&aftermath);
    return HX_TRACE(rc);
}

static int settle_spools(struct hx_inspect *inspect, struct hx_recover_report *report)
{
    struct hx_batcher batcher = {.ledger = &inspect->ledger};
    int rc = hx_batch_settle_dead(&batcher, &report->spools_applied);
    hx_aftermath_fini(&batcher.aftermath);
    return HX_TRACE(rc);
}

int hx_inspect_recover(struct hx_inspect *inspect, struct hx_wall backup_taken_at,
                       struct hx_recover_report *ret_report)
{
    struct hx_ledger *ledger = &inspect->ledger;
    struct hx_wall now = hx_clock_now(ledger->options->clock).wall;
    *ret_report = (struct hx_recover_report){.was_restored_copy = ledger->is_restored_copy};
    if (ledger->is_restored_copy && backup_taken_at.ms == 0)
        return HX_RAISE(HX_E_STORE, "This ledger was restored from a copy: tell when the copy was "
                                    "taken, with --backup-taken-at TIME.");
    if (backup_taken_at.ms > now.ms)
        return HX_RAISE(HX_E_STORE, "A copy cannot have been taken in the future.");
    struct hx_gap gap = {.from = backup_taken_at};
    if (backup_taken_at.ms != 0) {
        gap.to = now;
        gap.until.ms = now.ms + HX_GAP_CAUTION_MS;
        ret_report->gap = gap;
    }
    int rc = settle_spools(inspect, ret_report);
    if (rc == 0)
        rc = take_into_use(inspect, &gap, ret_report);
    if (rc == 0)
        rc = remove_orphans(inspect, ret_report);
    if (rc == 0)
        hx_ledger_recheck_copy(ledger);
    return HX_TRACE(rc);
}
