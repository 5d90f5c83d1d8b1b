/* SPDX-License-Identifier: MIT */
/*
 * One connection to a ledger file: opening, transactions and their fate, statements. Used by one
 * thread at a time; the store's thread has one, each inspection has its own.
 *
 * Rules:
 *  - Every write transaction, checkpoint and opening runs under the lock file.
 *  - A transaction is synced or not as a whole. Synced ones are counted.
 *  - After an I/O error nothing is believed until the ledger was healed: WAL checkpointed and cut,
 * the
 *    epoch raised, in a commit that was synced.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_LEDGER_H
#define HX_ADAPTER_STORE_SQLITE_LEDGER_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "adapter/store_sqlite/columns.h"
#include "adapter/store_sqlite/counter.h"
#include "adapter/store_sqlite/files.h"
#include "adapter/store_sqlite/lockfile.h"
#include "adapter/store_sqlite/owners.h"
#include "adapter/store_sqlite/schema.h"
#include "adapter/store_sqlite/spool.h"
#include "adapter/store_sqlite/store_sqlite.h"
#include "base/digest.h"
#include "base/fault.h"
#include "port/store.h"

enum hx_sql {
#define HX_SQL(NAME, text) HX_SQL_##NAME,
#include "adapter/store_sqlite/sql.def"
    HX_SQL_COUNT
};

enum { HX_LOCK_WAIT_MS = 2000 }; /* before an intent, unless the options say otherwise */
enum { HX_LEDGER_BOOTS_CACHED = 8, HX_LEDGER_CONTRACTS_CACHED = 32 };

/* For readers in the way when the log is cut; writers never wait for SQLite. */
enum { HX_LEDGER_READER_WAIT_MS = 200 };

/* The one row of table `ledger`, as the present transaction sees it. */
struct hx_ledger_meta {
    struct hx_id instance;
    uint64_t commits;
    uint64_t epoch;
    struct hx_wall low_water;
    int64_t age_ms; /* of the ledger: monotonic time summed over boots, at `aged` */
    struct hx_now aged;
    struct hx_gap gap;           /* without its age: see hx_ledger_gap() */
    int64_t gap_age_ms;          /* the ledger's age when it was taken into use again */
    struct hx_wall outbox_since; /* 0 = transitions are not announced */
};

enum hx_ledger_txn { HX_TXN_NONE, HX_TXN_READ, HX_TXN_LAZY, HX_TXN_SYNCED };

struct hx_ledger {
    const struct hx_store_sqlite_options *options;
    struct hx_paths paths;
    struct hx_lockfile lock;
    struct hx_counter counter;
    struct hx_owners owners;
    struct hx_spool spool;
    struct hx_hasher *hasher;
    sqlite3 *db;
    bool is_guest;    /* the connection is another's, and so is the spool: see guest.h */
    struct stat file; /* the database as it was opened; its time and size: see beneath.h */
    int64_t page_size;
    int64_t meta_offset;               /* in it, of the page that has the row of table `ledger` */
    sqlite3_stmt *stmts[HX_SQL_COUNT]; /* prepared at first use */
    struct hx_boots boots;
    int64_t lock_wait_ms;

    enum hx_ledger_txn txn;
    int64_t changes_at_begin; /* rows that this connection had changed by then */
    bool is_full_sync;        /* what PRAGMA synchronous says now */
    struct hx_ledger_meta meta;
    struct hx_now now; /* read when the transaction began */

    struct {
        struct hx_boot boot;
        int64_t number;
    } boot_cache[HX_LEDGER_BOOTS_CACHED];
    unsigned boot_next;
    struct {
        struct hx_contract contract;
        int64_t number; /* 0 = free */
    } contract_cache[HX_LEDGER_CONTRACTS_CACHED];
    unsigned contract_next;

    uint64_t proof_number;      /* of the newest proof that this process wrote: see kept.h */
    uint64_t history_seq;       /* of the newest history line that this connection wrote */
    uint32_t reserved;          /* claims of ours that may still bring an outcome */
    uint32_t reserved_at_begin; /* restored by a rollback */
    bool is_restored_copy;      /* found at opening, until recover */
    int64_t damaged_row;        /* the last one that could not be read for what stands in it */
    bool is_ill;                /* an I/O error was seen and not yet healed */
    char illness[HX_FAULT_TEXT_MAX];
    int wal_pages; /* in the WAL after the newest commit of ours */
};

/* For a result that does not matter here; say why. */
static inline void hx_ledger_ignore(int rc)
{
    (void)rc;
}

/* Opens; with `owner` nil the ledger is only inspected, and must exist. */
int hx_ledger_open(struct hx_ledger *ledger, const struct hx_store_sqlite_options *options,
                   const struct hx_id *owner) HX_MUST_CHECK;
void hx_ledger_close(struct hx_ledger *ledger);

/* Begins a transaction; LAZY and SYNCED take the lock first. 0, negative, or HX_LOCKFILE_BUSY. */
int hx_ledger_begin(struct hx_ledger *ledger, enum hx_ledger_txn kind) HX_MUST_CHECK;
void hx_ledger_rollback(struct hx_ledger *ledger);

/* A transaction that turned out to change nothing need not be synced or counted. */
void hx_ledger_forgo_sync(struct hx_ledger *ledger);
bool hx_ledger_has_changed(const struct hx_ledger *ledger);

enum { HX_COMMIT_NOT_DONE = 1, HX_COMMIT_IN_DOUBT = 2 };

/* 0: done. HX_COMMIT_NOT_DONE: certainly not. HX_COMMIT_IN_DOUBT: it may or may not be; heal first,
 * then read back. The transaction is over in every case, with a fault for the latter two. */
int hx_ledger_commit(struct hx_ledger *ledger) HX_MUST_CHECK;
/* After an I/O error: makes the file trustworthy again. 0 when it is. */
int hx_ledger_heal(struct hx_ledger *ledger) HX_MUST_CHECK;

/* Moves the WAL into the database, so that it is written from its beginning again; with `cut`, the
 * file shrinks too. Takes the lock. A reader in the way is no error. */
int hx_ledger_checkpoint(struct hx_ledger *ledger, bool cut) HX_MUST_CHECK;

/* Looks again whether a restored copy was declared, by whichever process. */
void hx_ledger_recheck_copy(struct hx_ledger *ledger);

/* A prepared statement, reset; bind every parameter. NULL with a fault when it cannot be prepared.
 * */
sqlite3_stmt *hx_ledger_stmt(struct hx_ledger *ledger, enum hx_sql sql);
/* Steps. SQLITE_ROW = 1, SQLITE_DONE = 0, else negative with a sentence for people. */
int hx_ledger_step(struct hx_ledger *ledger, sqlite3_stmt *stmt) HX_MUST_CHECK;
/* Steps a statement that gives no row, and resets it. */
int hx_ledger_run(struct hx_ledger *ledger, sqlite3_stmt *stmt) HX_MUST_CHECK;
/* Raises a fault that tells what SQLite's code means for a person. Returns HX_E_STORE. */
int hx_ledger_raise(struct hx_ledger *ledger, int code);

int hx_ledger_contract_number(struct hx_ledger *ledger, const struct hx_contract *contract,
                              int64_t *ret_number) HX_MUST_CHECK;
int hx_ledger_contract(struct hx_ledger *ledger, int64_t number,
                       struct hx_contract *ret_contract) HX_MUST_CHECK;
struct hx_boots hx_ledger_boots(struct hx_ledger *ledger);
/* After a rollback: numbers given in that transaction do not exist. */
void hx_ledger_forget_numbers(struct hx_ledger *ledger);
/* The ledger's own age at the beginning of this transaction. */
int64_t hx_ledger_age_ms(const struct hx_ledger *ledger);
struct hx_gap hx_ledger_gap(const struct hx_ledger *ledger);

#endif
