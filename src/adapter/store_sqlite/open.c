/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing: everything that must be right before the first statement, each with a
 * sentence for people when it is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/store_sqlite/beneath.h"
#include "adapter/store_sqlite/ledger.h"
#include "adapter/store_sqlite/outbox.h"
#include "adapter/store_sqlite/private.h"
#include "base/alloc.h"
#include "base/crash.h"

enum { OPEN_WAIT_MS = 10000, CACHE_KIB = 8192, WAL_SIZE_LIMIT = 64 * 1024 * 1024 };

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    struct hx_ledger *ledger = context;
    ledger->wal_pages = pages;
    return SQLITE_OK;
}

static int make_places(struct hx_ledger *ledger, bool is_inspection)
{
    const struct hx_paths *paths = &ledger->paths;
    struct stat info;
    int rc = hx_file_check_name(paths->ledger); /* before anything is made beside it */
    if (rc < 0)
        return HX_TRACE(rc);
    if (is_inspection) {
        if (stat(paths->ledger, &info) < 0)
            return HX_RAISE_ERRNO("There is no ledger at %s", paths->ledger);
    } else if ((rc = hx_directory_make(paths->directory)) < 0) {
        return HX_TRACE(rc);
    }
    rc = hx_filesystem_check(paths->directory, ledger->options->allow_any_filesystem);
    /* Where a tool server keeps its own file is its business; and who only looks may. */
    if (rc == 0 && !is_inspection && !ledger->options->is_guest_of_process)
        rc = hx_directory_check_private(paths->directory);
    if (rc == 0 && !is_inspection && !ledger->options->is_guest_of_process &&
        paths->link_directory != NULL)
        rc = hx_directory_check_private(paths->link_directory);
    if (rc == 0)
        rc = hx_directory_make(paths->owners);
    if (rc == 0)
        rc = hx_directory_make(paths->spool);
    if (rc == 0)
        rc = hx_directory_make(paths->blobs);
    return HX_TRACE(rc);
}

static int run_sql(struct hx_ledger *ledger, const char *sql)
{
    int code = sqlite3_exec(ledger->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : hx_ledger_raise(ledger, code);
}

/* Runs a statement that gives one number. */
static int query_number(struct hx_ledger *ledger, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(ledger->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
        *ret_number = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    }
    int rc = code == SQLITE_ROW ? 0 : hx_ledger_raise(ledger, code);
    sqlite3_finalize(stmt);
    return rc;
}

/* A process that died between writing the frames of a commit and their sync leaves them for us to
 * find whole, and whoever believes a commit answers from it. So it is synced before it is believed.
 * */
static int sync_found_log(struct hx_ledger *ledger)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s-wal", ledger->paths.ledger);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : HX_RAISE_ERRNO("The ledger's log %s cannot be opened", path);
    struct stat info;
    int rc = 0;
    /* An empty one, as an orderly end leaves it, holds nothing that could be believed; the
     * start need not wait for the disk. What was moved out of it was synced before it was cut. */
    bool is_empty = fstat(fd, &info) == 0 && info.st_size == 0;
    if (!is_empty && fdatasync(fd) < 0)
        rc = HX_RAISE_ERRNO("The ledger's log %s cannot be synced", path);
    close(fd);
    return rc;
}

static int use_wal(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(ledger->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    int rc = 0;
    if (mode == NULL)
        rc = hx_ledger_raise(ledger, code);
    else if (strcmp(mode, "wal") != 0)
        rc = HX_RAISE(
            HX_E_STORE,
            "The ledger %s cannot keep a write-ahead log here (mode %s): use a local disk.",
            ledger->paths.ledger, mode);
    sqlite3_finalize(stmt);
    return rc;
}

/* Each connection is used by one thread at a time, and nobody asks SQLite for its memory figures:
 * the locks around both would cost a tenth of the thread. Too late, if the program used SQLite
 * before, is no harm. */
static void configure_sqlite(void)
{
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static int connect(struct hx_ledger *ledger)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!ledger->options->is_guest_of_process)
        pthread_once(&once, configure_sqlite);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int code = sqlite3_open_v2(ledger->paths.ledger, &ledger->db, flags, ledger->options->vfs_name);
    if (code != SQLITE_OK)
        return hx_ledger_raise(ledger, code);
    /* SQLite falls back to reading when it may not write. */
    if (sqlite3_db_readonly(ledger->db, "main") != 0)
        return hx_ledger_raise(ledger, SQLITE_READONLY);
    if (stat(ledger->paths.ledger, &ledger->file) < 0)
        return HX_RAISE_ERRNO("The ledger %s cannot be looked at", ledger->paths.ledger);
    sqlite3_busy_timeout(ledger->db, HX_LEDGER_READER_WAIT_MS);
    /* The close of the last connection would checkpoint outside our lock. */
    code = sqlite3_db_config(ledger->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    hx_assert(code == SQLITE_OK);
    sqlite3_wal_autocheckpoint(ledger->db, 0);
    sqlite3_wal_hook(ledger->db, on_commit, ledger);
    return HX_TRACE(hx_outbox_connect(ledger));
}

/* The file may be empty, ours, of a newer version, or anything else. */
static int examine(struct hx_ledger *ledger, int64_t *ret_version)
{
    int64_t application = 0, tables = 0;
    int rc = query_number(ledger, "PRAGMA application_id", &application);
    if (rc == 0)
        rc = query_number(ledger, "PRAGMA user_version", ret_version);
    if (rc == 0)
        rc = query_number(ledger, "SELECT count(*) FROM sqlite_master", &tables);
    if (rc < 0)
        return HX_TRACE(rc);
    if (application == 0 && *ret_version == 0 && tables == 0)
        return 0;
    if (application != HX_SCHEMA_APPLICATION)
        return HX_RAISE(HX_E_STORE,
                        "%s is a database of another program: name another file with --ledger.",
                        ledger->paths.ledger);
    if (*ret_version > HX_SCHEMA_VERSION)
        return HX_RAISE(HX_E_STORE,
                        "The ledger %s was written by a newer Hapax (format %lld, this one knows "
                        "%d): update Hapax.",
                        ledger->paths.ledger, (long long)*ret_version, HX_SCHEMA_VERSION);
    return 0;
}

static int migrate_step(struct hx_ledger *ledger, int from)
{
    char tail[128];
    snprintf(tail, sizeof(tail), "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
             HX_SCHEMA_APPLICATION, from + 1);
    int rc = run_sql(ledger, "BEGIN IMMEDIATE");
    if (rc == 0)
        rc = run_sql(ledger, hx_schema_step(from));
    if (rc == 0 && from == 0) {
        struct hx_id instance;
        uint8_t random[10];
        struct hx_wall wall = hx_clock_now(ledger->options->clock).wall;
        hx_rand_fill(ledger->options->rand, random, sizeof(random));
        instance = hx_id_make(wall, random);
        char hex[2 * HX_ID_SIZE + 1];
        char sql[160];
        hx_hex_encode(instance.bytes, HX_ID_SIZE, hex);
        snprintf(sql, sizeof(sql),
                 "INSERT INTO ledger(id, instance, created) VALUES (1, x'%s', %lld)", hex,
                 (long long)wall.ms);
        rc = run_sql(ledger, sql);
    }
    HX_CRASH_POINT("migrate-before-commit");
    if (rc == 0)
        rc = run_sql(ledger, tail);
    HX_CRASH_POINT("migrate-after-commit");
    if (rc < 0 && sqlite3_get_autocommit(ledger->db) == 0)
        sqlite3_exec(ledger->db, "ROLLBACK", NULL, NULL, NULL);
    return HX_TRACE(rc);
}

static int prepare_file(struct hx_ledger *ledger, bool *ret_is_new)
{
    char pragmas[256];
    int64_t version = 0;
    snprintf(pragmas, sizeof(pragmas),
             "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%d;"
             "PRAGMA secure_delete = FAST; PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0;"
             "PRAGMA journal_size_limit = %d",
             CACHE_KIB, WAL_SIZE_LIMIT);
    int rc = examine(ledger, &version);
    if (rc == 0)
        rc = sync_found_log(ledger);
    if (rc == 0)
        rc = use_wal(ledger);
    if (rc == 0)
        rc = run_sql(ledger, pragmas);
    ledger->is_full_sync = true;
    *ret_is_new = rc == 0 && version == 0;
    for (; rc == 0 && version < HX_SCHEMA_VERSION; version++)
        rc = migrate_step(ledger, (int)version);
    return HX_TRACE(rc);
}

/* An older ledger than its counter, or another one, was put here. */
static void compare_counter(struct hx_ledger *ledger)
{
    struct hx_id instance;
    uint64_t count;
    if (!hx_counter_read(&ledger->counter, &instance, &count))
        return;
    bool is_other = !hx_id_eq(&instance, &ledger->meta.instance);
    ledger->is_restored_copy =
        (is_other && count > 0) || (!is_other && count > ledger->meta.commits);
}

static int open_locked(struct hx_ledger *ledger)
{
    bool is_new = false;
    int rc = connect(ledger);
    if (rc == 0)
        rc = prepare_file(ledger, &is_new);
    if (rc == 0)
        rc = hx_counter_open(&ledger->counter, ledger->paths.counter, ledger->hasher);
    if (rc == 0)
        rc = hx_beneath_init(ledger);
    if (rc < 0)
        return HX_TRACE(rc);
    /* Reading once under the lock lets SQLite recover a log that a crash left. */
    ledger->boots = hx_ledger_boots(ledger);
    rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_TRACE(rc);
    hx_ledger_rollback(ledger);
    compare_counter(ledger);
    return HX_TRACE(hx_beneath_open(ledger));
}

/* Which marks a crash took with it, and who came through it, is judged by the boot. Without one,
 * "the same boot" would be said of any two. */
static int check_boot(const struct hx_ledger *ledger)
{
    struct hx_boot boot = hx_clock_now(ledger->options->clock).boot;
    if (hx_boot_is_known(&boot))
        return 0;
    return HX_RAISE(HX_E_STORE, "/proc/sys/kernel/random/boot_id cannot be read, and without it "
                                "nobody can tell what a power loss took: mount /proc here (a "
                                "chroot or a sandbox hides it), or remove ProcSubset=pid from the "
                                "systemd unit.");
}

int hx_ledger_open(struct hx_ledger *ledger, const struct hx_store_sqlite_options *options,
                   const struct hx_id *owner)
{
    bool is_inspection = hx_id_is_nil(owner);
    *ledger = (struct hx_ledger){.options = options, .lock.fd = -1, .counter.fd = -1};
    ledger->lock_wait_ms = options->lock_wait_ms > 0 ? options->lock_wait_ms : HX_LOCK_WAIT_MS;
    ledger->hasher = hx_hasher_new();
    hx_paths_init(&ledger->paths, options->path);
    hx_spool_init(&ledger->spool, ledger->paths.spool, owner, ledger->hasher);
    int rc = check_boot(ledger);
    if (rc == 0)
        rc = make_places(ledger, is_inspection);
    if (rc == 0)
        rc = hx_lockfile_open(&ledger->lock, ledger->paths.lock);
    if (rc == 0)
        rc = hx_lockfile_take(&ledger->lock, OPEN_WAIT_MS, "opening");
    if (rc != 0)
        return rc > 0 ? HX_E_STORE : HX_TRACE(rc);
    rc = hx_file_ensure_private(ledger->paths.ledger);
    if (rc == 0)
        rc = hx_paths_make_private(&ledger->paths);
    if (rc == 0)
        rc = hx_owners_open(&ledger->owners, ledger->paths.owners, owner);
    if (rc == 0)
        rc = open_locked(ledger);
    hx_lockfile_drop(&ledger->lock);
    return rc > 0 ? HX_E_STORE : HX_TRACE(rc);
}

void hx_ledger_close(struct hx_ledger *ledger)
{
    for (int i = 0; i < HX_SQL_COUNT; i++)
        sqlite3_finalize(ledger->stmts[i]);
    if (ledger->db != NULL && !ledger->is_guest)
        (void)sqlite3_close(ledger->db);
    ledger->db = NULL;
    hx_spool_close(&ledger->spool);
    hx_owners_close(&ledger->owners);
    hx_counter_close(&ledger->counter);
    hx_lockfile_close(&ledger->lock);
    hx_paths_fini(&ledger->paths);
    ledger->hasher = hx_hasher_free(ledger->hasher);
}

void hx_ledger_recheck_copy(struct hx_ledger *ledger)
{
    if (hx_ledger_begin(ledger, HX_TXN_READ) != 0)
        return;
    hx_ledger_rollback(ledger);
    compare_counter(ledger); /* a counter that cannot be read now takes nothing back */
}
