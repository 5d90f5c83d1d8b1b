/* SPDX-License-Identifier: MIT */
/*
 * Transactions, their fate, and what keeps the file healthy.
 */
#include "adapter/store_sqlite/ledger.h"

#include <stdatomic.h>
#include <stdio.h>

#include "adapter/store_sqlite/beneath.h"
#include "base/crash.h"

enum { DAY_MS = 24 * 60 * 60 * 1000 };

static int read_meta(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_META_READ);
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(ledger, stmt);
    if (rc != 1) {
        sqlite3_reset(stmt);
        return rc < 0 ? HX_TRACE(rc) : hx_ledger_raise(ledger, SQLITE_CORRUPT);
    }
    struct hx_ledger_meta *meta = &ledger->meta;
    if (sqlite3_column_bytes(stmt, 0) == HX_ID_SIZE)
        memcpy(&meta->instance, sqlite3_column_blob(stmt, 0), HX_ID_SIZE);
    meta->commits = (uint64_t)sqlite3_column_int64(stmt, 1);
    meta->epoch = (uint64_t)sqlite3_column_int64(stmt, 2);
    meta->low_water.ms = sqlite3_column_int64(stmt, 3);
    meta->age_ms = sqlite3_column_int64(stmt, 4);
    meta->aged.wall.ms = sqlite3_column_int64(stmt, 5);
    meta->aged.mono.ms = sqlite3_column_int64(stmt, 6);
    int64_t boot = sqlite3_column_int64(stmt, 7);
    meta->gap.from.ms = sqlite3_column_int64(stmt, 8);
    meta->gap.to.ms = sqlite3_column_int64(stmt, 9);
    meta->gap.until.ms = sqlite3_column_int64(stmt, 10);
    meta->outbox_since.ms = sqlite3_column_int64(stmt, 11);
    meta->gap_age_ms = sqlite3_column_int64(stmt, 12);
    sqlite3_reset(stmt);
    return ledger->boots.boot(ledger, boot, &meta->aged.boot);
}

int64_t hx_ledger_age_ms(const struct hx_ledger *ledger)
{
    const struct hx_now *then = &ledger->meta.aged;
    const struct hx_now *now = &ledger->now;
    if (then->wall.ms == 0)
        return ledger->meta.age_ms;
    int64_t passed_ms;
    if (hx_boot_eq(&then->boot, &now->boot)) {
        passed_ms = hx_mono_since_ms(now->mono, then->mono);
    } else {
        /* Nobody knows how long the machine was off; believe the wall clock for a day at most. */
        passed_ms = now->wall.ms - then->wall.ms;
        passed_ms = passed_ms > DAY_MS ? DAY_MS : passed_ms;
    }
    return ledger->meta.age_ms + (passed_ms > 0 ? passed_ms : 0);
}

struct hx_gap hx_ledger_gap(const struct hx_ledger *ledger)
{
    struct hx_gap gap = ledger->meta.gap;
    if (gap.until.ms != 0)
        gap.age_ms = hx_ledger_age_ms(ledger) - ledger->meta.gap_age_ms;
    return gap;
}

static int set_sync(struct hx_ledger *ledger, bool is_full)
{
    if (ledger->is_full_sync == is_full)
        return 0;
    const char *sql = is_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    int code = sqlite3_exec(ledger->db, sql, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return hx_ledger_raise(ledger, code);
    ledger->is_full_sync = is_full;
    return 0;
}

static int begin_locked(struct hx_ledger *ledger, enum hx_ledger_txn kind)
{
    if (kind != HX_TXN_READ) {
        int rc = set_sync(ledger, kind == HX_TXN_SYNCED);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    enum hx_sql sql = kind == HX_TXN_READ ? HX_SQL_BEGIN : HX_SQL_BEGIN_WRITE;
    int rc = hx_ledger_run(ledger, hx_ledger_stmt(ledger, sql));
    if (rc < 0)
        return HX_TRACE(rc);
    ledger->now = hx_clock_now(ledger->options->clock);
    rc = read_meta(ledger);
    if (rc < 0)
        hx_ledger_ignore(hx_ledger_run(ledger, hx_ledger_stmt(ledger, HX_SQL_ROLLBACK)));
    return HX_TRACE(rc);
}

/* The name itself: behind a link that was put in its place it would have another log. */
static bool is_still_there(const struct hx_ledger *ledger, struct stat *ret_info)
{
    return lstat(ledger->paths.ledger, ret_info) == 0 && ret_info->st_ino == ledger->file.st_ino &&
           ret_info->st_dev == ledger->file.st_dev;
}

/* What is written into a file that nobody will find again is not durable, whatever the disk says;
 * and what was read from a file that is another one by now is not true. */
static int check_file(struct hx_ledger *ledger)
{
    struct stat info;
    if (!is_still_there(ledger, &info))
        return HX_RAISE(HX_E_STORE,
                        "The ledger %s was moved or deleted while in use: put it back, or start "
                        "this server again.",
                        ledger->paths.ledger);
    return HX_TRACE(hx_beneath_check(ledger, &info));
}

int hx_ledger_begin(struct hx_ledger *ledger, enum hx_ledger_txn kind)
{
    hx_assert(ledger->txn == HX_TXN_NONE);
    if (kind != HX_TXN_READ) {
        if (ledger->is_ill) {
            int rc = hx_ledger_heal(ledger);
            if (rc != 0)
                return HX_TRACE(rc);
        }
        int rc = hx_lockfile_take(&ledger->lock, ledger->lock_wait_ms, "writing");
        if (rc != 0)
            return HX_TRACE(rc);
        if (kind == HX_TXN_SYNCED && (rc = check_file(ledger)) < 0) {
            hx_lockfile_drop(&ledger->lock);
            return HX_TRACE(rc);
        }
    }
    int rc = begin_locked(ledger, kind);
    if (rc < 0) {
        if (kind != HX_TXN_READ)
            hx_lockfile_drop(&ledger->lock);
        return HX_TRACE(rc);
    }
    ledger->txn = kind;
    ledger->reserved_at_begin = ledger->reserved;
    ledger->changes_at_begin = sqlite3_total_changes64(ledger->db);
    return 0;
}

bool hx_ledger_has_changed(const struct hx_ledger *ledger)
{
    return sqlite3_total_changes64(ledger->db) != ledger->changes_at_begin;
}

void hx_ledger_forgo_sync(struct hx_ledger *ledger)
{
    hx_assert(!hx_ledger_has_changed(ledger));
    if (ledger->txn == HX_TXN_SYNCED)
        ledger->txn = HX_TXN_LAZY;
}

static void end(struct hx_ledger *ledger)
{
    if (ledger->txn != HX_TXN_READ)
        hx_lockfile_drop(&ledger->lock);
    ledger->txn = HX_TXN_NONE;
}

/* Keeps the fault that led here. */
static void undo(struct hx_ledger *ledger)
{
    struct hx_fault fault = *hx_fault_last();
    /* SQLite has already rolled back on some errors; then this one fails, rightly. */
    if (sqlite3_get_autocommit(ledger->db) == 0)
        hx_ledger_ignore(hx_ledger_run(ledger, hx_ledger_stmt(ledger, HX_SQL_ROLLBACK)));
    ledger->reserved = ledger->reserved_at_begin;
    hx_ledger_forget_numbers(ledger);
    end(ledger);
    (void)HX_RAISE(fault.code, "%s", fault.text);
}

void hx_ledger_rollback(struct hx_ledger *ledger)
{
    hx_assert(ledger->txn != HX_TXN_NONE);
    undo(ledger);
}

/* One more synced commit, in the commit itself; and the ledger's age, since the row is written
 * anyway. In a restored copy the row is written too, so that there is something to sync, but the
 * count stays: a copy that counts on would catch up with its counter, and be believed. */
static int count_commit(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_META_COUNT);
    int64_t boot;
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = ledger->boots.number(ledger, &ledger->now.boot, &boot);
    if (rc < 0)
        return HX_TRACE(rc);
    int64_t step = ledger->is_restored_copy ? 0 : 1;
    sqlite3_bind_int64(stmt, 1, (int64_t)ledger->meta.commits + step);
    sqlite3_bind_int64(stmt, 2, hx_ledger_age_ms(ledger));
    sqlite3_bind_int64(stmt, 3, ledger->now.wall.ms);
    sqlite3_bind_int64(stmt, 4, ledger->now.mono.ms);
    sqlite3_bind_int64(stmt, 5, boot);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

/* Whether an error of COMMIT leaves no chance that the commit frame is whole in the WAL. A failed
 * sync, or an error behind it, does leave one: the frames lie there with valid checksums, unseen,
 * until somebody writes over them, and a recovery would believe them. A constraint (a deferred key
 * of a caller's own rows) is looked at before anything is written. */
static bool is_surely_not_committed(struct hx_ledger *ledger, int code)
{
    int extended = sqlite3_extended_errcode(ledger->db);
    return (code & 0xff) == SQLITE_FULL || (code & 0xff) == SQLITE_BUSY ||
           (code & 0xff) == SQLITE_CONSTRAINT || extended == SQLITE_IOERR_WRITE;
}

/* What a test ordered: the commit happened, and nobody says so. */
static bool is_answer_lost(struct hx_ledger *ledger)
{
    _Atomic int *lost = ledger->options->lost_answers;
    if (lost == NULL || ledger->txn == HX_TXN_READ || atomic_load(lost) <= 0)
        return false;
    atomic_fetch_sub(lost, 1);
    ledger->is_ill = true;
    snprintf(ledger->illness, sizeof(ledger->illness), "The answer to a commit was lost.");
    return true;
}

int hx_ledger_commit(struct hx_ledger *ledger)
{
    hx_assert(ledger->txn != HX_TXN_NONE);
    bool is_synced = ledger->txn == HX_TXN_SYNCED;
    if (is_synced && count_commit(ledger) < 0) {
        undo(ledger);
        return HX_COMMIT_NOT_DONE;
    }
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_COMMIT);
    if (stmt == NULL) {
        undo(ledger);
        return HX_COMMIT_NOT_DONE;
    }
    HX_CRASH_POINT("commit-before");
    int code = sqlite3_step(stmt);
    if (code != SQLITE_DONE) {
        bool is_sure = is_surely_not_committed(ledger, code);
        (void)hx_ledger_raise(ledger, code);
        sqlite3_reset(stmt);
        if (!is_sure)
            ledger->is_ill = true;
        undo(ledger);
        return is_sure ? HX_COMMIT_NOT_DONE : HX_COMMIT_IN_DOUBT;
    }
    sqlite3_reset(stmt);
    HX_CRASH_POINT("commit-after");
    if (is_answer_lost(ledger)) {
        end(ledger);
        (void)HX_RAISE(HX_E_STORE, "%s", ledger->illness);
        return HX_COMMIT_IN_DOUBT;
    }
    /* The counter is all that tells a copy from its ledger: only recover ends what it says. */
    if (is_synced && !ledger->is_restored_copy)
        hx_counter_write(&ledger->counter, &ledger->meta.instance, ledger->meta.commits + 1);
    HX_CRASH_POINT("commit-counted");
    end(ledger);
    return 0;
}

static int checkpoint_locked(struct hx_ledger *ledger, bool cut, bool *ret_is_whole)
{
    int mode = cut ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART;
    int in_wal = 0, moved = 0;
    int rc = 0;
    struct stat info;
    /* The log of this ledger is nothing for a copy; but a file that was moved is to be whole. */
    if (is_still_there(ledger, &info))
        rc = hx_beneath_check(ledger, &info);
    if (rc == 0)
        rc = set_sync(ledger, true);
    if (rc < 0)
        return HX_TRACE(rc);
    HX_CRASH_POINT("checkpoint-before");
    int code = sqlite3_wal_checkpoint_v2(ledger->db, NULL, mode, &in_wal, &moved);
    HX_CRASH_POINT("checkpoint-after");
    /* Busy, though all was moved: a reader of the newest state keeps the log as it is. The next
     * commits would go behind what a failed sync may have lost, where no recovery comes to. */
    *ret_is_whole = code == SQLITE_OK && in_wal == moved;
    if (code != SQLITE_OK && code != SQLITE_BUSY)
        return hx_ledger_raise(ledger, code);
    if (in_wal == moved)
        hx_beneath_note(ledger);
    if (code == SQLITE_OK)
        ledger->wal_pages = 0;
    return 0;
}

int hx_ledger_checkpoint(struct hx_ledger *ledger, bool cut)
{
    hx_assert(ledger->txn == HX_TXN_NONE);
    int rc =
        hx_lockfile_take(&ledger->lock, ledger->lock_wait_ms, "moving the log into the ledger");
    if (rc != 0)
        return HX_TRACE(rc);
    bool is_whole;
    /* Who would write waits for this lock: what a reader keeps is left to another time. */
    if (!cut)
        sqlite3_busy_timeout(ledger->db, 0);
    rc = checkpoint_locked(ledger, cut, &is_whole);
    if (!cut)
        sqlite3_busy_timeout(ledger->db, HX_LEDGER_READER_WAIT_MS);
    hx_lockfile_drop(&ledger->lock);
    return HX_TRACE(rc);
}

static int raise_epoch(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_META_EPOCH);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_text(stmt, 1, ledger->illness, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, ledger->now.wall.ms);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

/* The WAL may hold pages that never reached the disk although the kernel calls them clean, and
 * frames of a commit that was reported failed. Moving everything into the database and syncing that
 * ends the first doubt; writing a new commit over the frames ends the second. */
int hx_ledger_heal(struct hx_ledger *ledger)
{
    hx_assert(ledger->txn == HX_TXN_NONE);
    int rc = hx_lockfile_take(&ledger->lock, ledger->lock_wait_ms, "healing");
    if (rc != 0)
        return HX_TRACE(rc);
    bool is_whole = false;
    rc = checkpoint_locked(ledger, true, &is_whole);
    if (rc == 0 && !is_whole)
        rc = hx_ledger_raise(ledger, SQLITE_BUSY);
    if (rc == 0)
        rc = begin_locked(ledger, HX_TXN_SYNCED);
    if (rc < 0) {
        hx_lockfile_drop(&ledger->lock);
        return HX_TRACE(rc);
    }
    ledger->txn = HX_TXN_SYNCED;
    ledger->reserved_at_begin = ledger->reserved;
    if (raise_epoch(ledger) < 0) {
        undo(ledger);
        return HX_E_STORE;
    }
    if (hx_ledger_commit(ledger) != 0)
        return HX_E_STORE;
    ledger->is_ill = false;
    ledger->illness[0] = '\0';
    return 0;
}
