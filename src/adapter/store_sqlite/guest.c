/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/guest.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "adapter/store_sqlite/beneath.h"
#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/outbox.h"
#include "adapter/store_sqlite/request.h"
#include "adapter/store_sqlite/rows.h"
#include "base/alloc.h"

enum {
    SQLITE_WITHOUT_WAL_RESET_FAULT = 3051003,
    ATTACH_WAIT_MS = 10000,
    DOUBT_TRIES = 20,
    DOUBT_PAUSE_MS = 25
};

struct hx_guest {
    struct hx_ledger ledger;
    struct hx_store *store;
    bool writes_outside;
    bool is_open;
    bool is_broken; /* a request failed: only a rollback is left */
    struct hx_aftermath aftermath;
    struct hx_aftermath written; /* blobs of this transaction, for its failure */
    /* The newest write of the transaction that the history can prove. */
    bool has_proof;
    enum hx_store_kind proof_kind;
    struct hx_id proof_id;
    uint64_t proof_fence;
    uint64_t proof_seq; /* of its history line; see batch.c */
};

const char *hx_guest_version_flaw(int sqlite_version, bool writes_outside)
{
    if (!writes_outside || sqlite_version >= SQLITE_WITHOUT_WAL_RESET_FAULT)
        return NULL;
    return "This SQLite (below 3.51.3) can damage a database when one connection writes while "
           "another moves the log: write inside transactions of the ledger only.";
}

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    struct hx_guest *guest = context;
    guest->ledger.wal_pages = pages;
    return SQLITE_OK;
}

static int run_sql(struct hx_guest *guest, const char *sql)
{
    int code = sqlite3_exec(guest->ledger.db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : hx_ledger_raise(&guest->ledger, code);
}

/* Outside of a transaction the connection only reads: a write there would be one without the lock.
 * */
static int allow_writes(struct hx_guest *guest, bool is_allowed)
{
    if (guest->writes_outside)
        return 0;
    return run_sql(guest, is_allowed ? "PRAGMA query_only = 0" : "PRAGMA query_only = 1");
}

/* Whether `name` is the ledger's own, so that the same log goes with it: another name of the file
 * (a hard link) has its own. The directory may have several. */
static bool is_ledgers_name(const struct hx_ledger *ledger, const char *name)
{
    struct hx_paths his;
    struct stat a, b;
    hx_paths_init(&his, name);
    const char *ours = strrchr(ledger->paths.ledger, '/');
    const char *last = strrchr(his.ledger, '/');
    bool is_same = strcmp(ours != NULL ? ours + 1 : ledger->paths.ledger,
                          last != NULL ? last + 1 : his.ledger) == 0 &&
                   stat(ledger->paths.directory, &a) == 0 && stat(his.directory, &b) == 0 &&
                   a.st_ino == b.st_ino && a.st_dev == b.st_dev;
    hx_paths_fini(&his);
    return is_same;
}

/* Is it the ledger's own file, by the same copy of SQLite, and can it be written? */
static int examine(struct hx_guest *guest, const char *sqlite_source)
{
    struct hx_ledger *ledger = &guest->ledger;
    const char *flaw = hx_guest_version_flaw(sqlite3_libversion_number(), guest->writes_outside);
    struct stat own, his;
    if (sqlite_source != sqlite3_sourceid())
        return HX_RAISE(HX_E_STORE, "The connection comes from another copy of SQLite than the one "
                                    "this library uses: link both to the same one.");
    if (sqlite3_threadsafe() == 0)
        return HX_RAISE(HX_E_STORE, "This SQLite was built without threads; the ledger has one.");
    if (flaw != NULL)
        return HX_RAISE(HX_E_STORE, "%s", flaw);
    const char *name = sqlite3_db_filename(ledger->db, "main");
    if (stat(ledger->paths.ledger, &own) < 0)
        return HX_RAISE_ERRNO("The ledger %s cannot be looked at", ledger->paths.ledger);
    if (name == NULL || name[0] == '\0' || stat(name, &his) < 0 || own.st_ino != his.st_ino ||
        own.st_dev != his.st_dev)
        return HX_RAISE(HX_E_STORE, "The connection is not one to the ledger's own file %s.",
                        ledger->paths.ledger);
    if (!is_ledgers_name(ledger, name))
        return HX_RAISE(HX_E_STORE,
                        "The connection opened the ledger by another name (%s), which has a log of "
                        "its own: open %s.",
                        name, ledger->paths.ledger);
    if (sqlite3_db_readonly(ledger->db, "main") != 0)
        return hx_ledger_raise(ledger, SQLITE_READONLY);
    if (sqlite3_get_autocommit(ledger->db) == 0)
        return HX_RAISE(HX_E_STORE, "The connection has a transaction under way: end it first.");
    ledger->file = own;
    return 0;
}

static int configure(struct hx_guest *guest)
{
    struct hx_ledger *ledger = &guest->ledger;
    /* The close of the last connection would checkpoint outside the lock. */
    int code = sqlite3_db_config(ledger->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    hx_assert(code == SQLITE_OK);
    sqlite3_wal_autocheckpoint(ledger->db, 0);
    sqlite3_wal_hook(ledger->db, on_commit, guest);
    int rc = run_sql(guest, "PRAGMA synchronous = FULL");
    ledger->is_full_sync = true;
    if (rc == 0)
        rc = allow_writes(guest, false);
    if (rc == 0)
        rc = hx_outbox_connect(ledger); /* his transactions announce transitions like any other */
    if (rc == 0)
        rc = hx_counter_open(&ledger->counter, ledger->paths.counter, ledger->hasher);
    if (rc == 0)
        rc = hx_beneath_init(ledger);
    if (rc < 0)
        return HX_TRACE(rc);
    ledger->boots = hx_ledger_boots(ledger);
    rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc == 0)
        hx_ledger_rollback(ledger);
    if (rc == 0)
        hx_ledger_recheck_copy(ledger);
    if (rc == 0)
        rc = hx_beneath_open(ledger);
    return HX_TRACE(rc);
}

/* The first look at the file is under the lock: it may have to take up a log. */
static int open_guest(struct hx_guest *guest)
{
    struct hx_ledger *ledger = &guest->ledger;
    int rc = hx_lockfile_open(&ledger->lock, ledger->paths.lock);
    if (rc == 0)
        rc = hx_lockfile_take(&ledger->lock, ATTACH_WAIT_MS, "attaching");
    if (rc != 0)
        return rc < 0 ? HX_TRACE(rc) : HX_E_STORE;
    rc = configure(guest);
    hx_lockfile_drop(&ledger->lock);
    return HX_TRACE(rc);
}

static void close_guest(struct hx_guest *guest)
{
    hx_aftermath_fini(&guest->aftermath);
    hx_aftermath_fini(&guest->written);
    hx_ledger_close(&guest->ledger);
    hx_free(guest);
}

int hx_guest_attach(struct hx_store *store, struct sqlite3 *db, const char *sqlite_source,
                    bool writes_outside, struct hx_guest **ret_guest)
{
    const struct hx_store_sqlite_options *options = hx_store_sqlite_options(store);
    static const struct hx_id nobody;
    struct hx_guest *guest = hx_new(struct hx_guest);
    struct hx_ledger *ledger = &guest->ledger;
    *ledger = (struct hx_ledger){
        .options = options, .db = db, .is_guest = true, .lock.fd = -1, .counter.fd = -1};
    ledger->lock_wait_ms = options->lock_wait_ms > 0 ? options->lock_wait_ms : HX_LOCK_WAIT_MS;
    ledger->hasher = hx_hasher_new();
    guest->store = store;
    guest->writes_outside = writes_outside;
    hx_paths_init(&ledger->paths, options->path);
    hx_spool_init(&ledger->spool, ledger->paths.spool, &nobody, ledger->hasher);
    int rc = hx_owners_open(&ledger->owners, ledger->paths.owners, &nobody);
    ledger->owners.self = store->ops->owner(store);
    if (rc == 0)
        rc = examine(guest, sqlite_source);
    if (rc == 0)
        rc = open_guest(guest);
    if (rc != 0) {
        sqlite3_wal_hook(db, NULL, NULL);
        close_guest(guest);
        return rc > 0 ? HX_E_STORE : HX_TRACE(rc);
    }
    *ret_guest = guest;
    return 0;
}

void hx_guest_detach(struct hx_guest *guest)
{
    if (guest == NULL)
        return;
    if (guest->is_open)
        hx_guest_rollback(guest);
    sqlite3_wal_hook(guest->ledger.db, NULL, NULL);
    close_guest(guest);
}

bool hx_guest_is_open(const struct hx_guest *guest)
{
    return guest->is_open && sqlite3_get_autocommit(guest->ledger.db) == 0;
}

int hx_guest_begin(struct hx_guest *guest)
{
    struct hx_ledger *ledger = &guest->ledger;
    if (guest->is_open || sqlite3_get_autocommit(ledger->db) == 0)
        return HX_RAISE(HX_E_STORE, "The connection has a transaction under way: end it first.");
    if (ledger->is_restored_copy)
        hx_ledger_recheck_copy(ledger); /* hapax ops recover may have been told since */
    int rc = allow_writes(guest, true);
    if (rc < 0)
        return HX_TRACE(rc);
    ledger->is_full_sync = false; /* the connection is its owner's, who may have set it since */
    rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0) {
        hx_ledger_ignore(allow_writes(guest, false)); /* begin has told what matters */
        return rc > 0 ? HX_E_STORE : HX_TRACE(rc);
    }
    if (!ledger->is_restored_copy && hx_outbox_ensure(ledger) < 0) {
        hx_ledger_rollback(ledger);
        hx_ledger_ignore(allow_writes(guest, false)); /* as above */
        return HX_E_STORE;
    }
    hx_aftermath_reset(&guest->aftermath);
    hx_aftermath_reset(&guest->written);
    guest->has_proof = false;
    guest->is_broken = false;
    guest->is_open = true;
    return 0;
}

static void fail(struct hx_guest *guest, struct hx_store_request *request)
{
    hx_store_request_forget(request);
    request->result = HX_STORE_NOT_DONE;
    snprintf(request->error, sizeof(request->error), "%s", hx_fault_last()->text);
    guest->is_broken = true;
}

static int write_blob(struct hx_guest *guest, struct hx_store_request *request)
{
    struct hx_ledger *ledger = &guest->ledger;
    uint64_t number;
    request->scratch = 0;
    if (!hx_store_kind_is_synced(request->kind) || !hx_outcome_needs_blob(&request->record.outcome))
        return 0;
    hx_rand_fill(ledger->options->rand, (uint8_t *)&number, sizeof(number));
    number = (number >> 1) | 1;
    int rc = hx_blob_write(ledger->paths.blobs, &request->record.id, number,
                           request->record.outcome.bytes);
    if (rc < 0)
        return HX_TRACE(rc);
    hx_aftermath_drop_blob(&guest->written, &request->record.id, number);
    request->scratch = number;
    return 0;
}

/* The mark of a claim. Others see both or neither, so a claim that was committed is marked. */
static int mark_claim(struct hx_guest *guest, struct hx_store_request *claim)
{
    struct hx_store_request *mark = hx_store_request_new(HX_STORE_MARK, NULL);
    mark->record.id = claim->record.id;
    mark->record.attempt.number = claim->record.attempt.number;
    mark->record.attempt.marked_at = guest->ledger.now;
    mark->expected_fence = claim->record.fence;
    int rc = hx_request_run(&guest->ledger, mark, &guest->aftermath);
    claim->is_marked = rc == 0 && mark->result == HX_STORE_DONE;
    claim->marked_at = mark->record.attempt.marked_at;
    hx_store_request_free(mark);
    return HX_TRACE(rc);
}

static int run(struct hx_guest *guest, struct hx_store_request *request)
{
    const char *flaw = hx_store_request_flaw(request);
    if (flaw != NULL)
        return HX_RAISE(HX_E_LIMIT, "%s", flaw);
    if (guest->is_broken)
        return HX_RAISE(HX_E_STORE, "An earlier step of this transaction failed: roll it back.");
    if (!hx_guest_is_open(guest))
        return HX_RAISE(HX_E_STORE, "The connection has no open transaction of the ledger.");
    int rc = write_blob(guest, request);
    if (rc == 0)
        rc = hx_request_run(&guest->ledger, request, &guest->aftermath);
    if (rc != 0 || request->result != HX_STORE_DONE)
        return HX_TRACE(rc);
    if (request->kind == HX_STORE_INSERT || request->kind == HX_STORE_UPDATE) {
        guest->has_proof = true;
        guest->proof_kind = request->kind;
        guest->proof_id = request->record.id;
        guest->proof_fence = request->record.fence;
        guest->proof_seq = request->proof;
    }
    return request->mark_after ? HX_TRACE(mark_claim(guest, request)) : 0;
}

void hx_guest_run(struct hx_guest *guest, struct hx_store_request *request)
{
    if (run(guest, request) != 0)
        fail(guest, request);
}

/* Whether the transaction is in the ledger: 1, 0, or negative when that cannot be read. */
static int is_proved(struct hx_guest *guest, struct hx_wall when)
{
    struct hx_ledger *ledger = &guest->ledger;
    struct hx_row_head head;
    if (hx_ledger_begin(ledger, HX_TXN_READ) != 0)
        return HX_E_STORE;
    int rc = hx_row_head(ledger, &guest->proof_id, &head);
    if (rc == 1 && guest->proof_kind == HX_STORE_UPDATE) {
        sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_HISTORY_PROOF);
        rc = HX_E_STORE;
        if (stmt != NULL) {
            sqlite3_bind_int64(stmt, 1, head.row);
            sqlite3_bind_int64(stmt, 2, (int64_t)guest->proof_seq);
            sqlite3_bind_int(stmt, 3, (int)HX_HISTORY_UPDATE);
            sqlite3_bind_int64(stmt, 4, (int64_t)guest->proof_fence);
            sqlite3_bind_int64(stmt, 5, when.ms);
            sqlite3_bind_blob(stmt, 6, &ledger->owners.self, HX_ID_SIZE, SQLITE_STATIC);
            rc = hx_ledger_step(ledger, stmt);
            sqlite3_reset(stmt);
        }
    }
    hx_ledger_rollback(ledger);
    return HX_TRACE(rc);
}

/* Asks the ledger, after it was healed, what became of the commit. */
static int resolve_doubt(struct hx_guest *guest)
{
    struct hx_fault fault = *hx_fault_last();
    struct hx_wall when = guest->ledger.now.wall;
    int rc = -1;
    for (int tries = 0; guest->has_proof && rc < 0 && tries < DOUBT_TRIES; tries++) {
        if (tries > 0)
            (void)poll(NULL, 0, DOUBT_PAUSE_MS);
        if (!guest->ledger.is_ill || hx_ledger_heal(&guest->ledger) == 0)
            rc = is_proved(guest, when);
    }
    (void)HX_RAISE(fault.code, "%s", fault.text);
    if (rc < 0)
        return HX_GUEST_IN_DOUBT;
    return rc == 1 ? 0 : HX_GUEST_NOT_DONE;
}

static void drop_written(struct hx_guest *guest)
{
    for (uint32_t i = 0; i < guest->written.drop_count; i++)
        hx_blob_remove(guest->ledger.paths.blobs, &guest->written.drop_on_commit[i].id,
                       guest->written.drop_on_commit[i].number);
    hx_aftermath_reset(&guest->written);
}

static int commit(struct hx_guest *guest)
{
    struct hx_ledger *ledger = &guest->ledger;
    if (sqlite3_get_autocommit(ledger->db) != 0) {
        hx_ledger_rollback(ledger); /* there is none: this gives back the lock */
        (void)HX_RAISE(HX_E_STORE, "The transaction was ended behind the ledger's back.");
        return resolve_doubt(guest);
    }
    if (guest->is_broken) {
        hx_ledger_rollback(ledger);
        (void)HX_RAISE(HX_E_STORE, "A step of this transaction failed: nothing was committed.");
        return HX_GUEST_NOT_DONE;
    }
    hx_assert(!guest->is_broken); /* INV-27: all of it, or nothing */
    int rc = hx_ledger_commit(ledger);
    return rc == HX_COMMIT_IN_DOUBT ? resolve_doubt(guest) : (rc == 0 ? 0 : (int)HX_GUEST_NOT_DONE);
}

int hx_guest_commit(struct hx_guest *guest)
{
    if (!guest->is_open) {
        (void)HX_RAISE(HX_E_STORE, "The connection has no open transaction of the ledger.");
        return HX_GUEST_NOT_DONE;
    }
    int rc = commit(guest);
    guest->is_open = false;
    struct hx_fault fault = *hx_fault_last();
    if (rc == 0)
        hx_aftermath_carry_out(&guest->ledger, &guest->aftermath);
    else if (rc == HX_GUEST_NOT_DONE)
        drop_written(guest); /* in doubt they stay, and `hapax ops recover` finds those in vain */
    hx_ledger_ignore(allow_writes(guest, false)); /* begin tries the other way, and tells */
    hx_store_sqlite_log_grew(guest->store, guest->ledger.wal_pages);
    if (rc != 0)
        (void)HX_RAISE(fault.code, "%s", fault.text);
    return rc;
}

void hx_guest_rollback(struct hx_guest *guest)
{
    if (!guest->is_open)
        return;
    hx_ledger_rollback(&guest->ledger);
    guest->is_open = false;
    drop_written(guest);
    hx_ledger_ignore(allow_writes(guest, false)); /* as above */
}

struct hx_wall hx_guest_low_water(const struct hx_guest *guest)
{
    return guest->ledger.meta.low_water;
}

struct hx_gap hx_guest_gap(const struct hx_guest *guest)
{
    return hx_ledger_gap(&guest->ledger);
}
