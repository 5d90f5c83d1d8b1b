/* SPDX-License-Identifier: MIT */
/* What libhapax says and keeps when the disk, the file or the lock fails. */
#include "lib_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faulty_vfs.h"

/* While `stands_at` is set the wall clock stands there, for every thread. */
static _Atomic long stands_at;

int clock_gettime(clockid_t id, struct timespec *at)
{
    long seconds = atomic_load(&stands_at);
    if (syscall(SYS_clock_gettime, id, at) < 0)
        return -1;
    if (id == CLOCK_REALTIME && seconds != 0)
        *at = (struct timespec){.tv_sec = seconds};
    return 0;
}

static void stop_the_clock(void)
{
    struct timespec at;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &at), 0);
    atomic_store(&stands_at, at.tv_sec + 1);
}

static int group_setup(void **state)
{
    (void)state;
    faulty_vfs_register();
    return sqlite3_vfs_register(sqlite3_vfs_find(FAULTY_VFS_NAME), 1);
}

static int teardown(void **state)
{
    faulty_vfs_arm(FAULTY_WRITE, 0, 0);
    atomic_store(&stands_at, 0);
    return bench_teardown(state);
}

static void a_full_disk_refuses_the_claim(void **state)
{
    struct bench *bench = *state;
    faulty_vfs_arm(FAULTY_FULL, 1, 1000);
    assert_int_equal(verdict_of(bench, bench->hapax, "full", NULL), HAPAX_E_LEDGER);
    assert_true(faulty_vfs_has_struck());
    assert_true(strlen(bench->error.text) > 10);
    faulty_vfs_arm(FAULTY_FULL, 0, 0);
    hapax_call_free(claim(bench, "full", HAPAX_RUN));
}

/* The outcome is safe beside the ledger, and nobody runs it again meanwhile. */
static void an_outcome_that_the_ledger_does_not_take_is_kept(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "spooled", HAPAX_RUN);
    faulty_vfs_arm(FAULTY_FULL, 1, 100000);
    finish(bench, call, NULL, "done");
    assert_true(faulty_vfs_has_struck());
    assert_int_equal(hapax_finish(call, NULL, "other", 5, 0, &bench->error), HAPAX_E_STATE);
    hapax_call_free(call);
    int verdict = verdict_of(bench, bench->hapax, "spooled", NULL);
    assert_true(verdict == HAPAX_BUSY || verdict == HAPAX_E_LEDGER);
    faulty_vfs_arm(FAULTY_FULL, 0, 0);
    for (int tries = 0; tries < 500 && verdict != HAPAX_REPLAY; tries++) {
        verdict = verdict_of(bench, bench->hapax, "spooled", NULL);
        assert_true(verdict == HAPAX_BUSY || verdict == HAPAX_REPLAY);
        if (verdict == HAPAX_BUSY)
            assert_int_equal(usleep(10000), 0); /* style-ok: the store brings it in in its time */
    }
    assert_int_equal(verdict, HAPAX_REPLAY);
}

/* The same when the process dies before the ledger is well again. */
static void a_spooled_outcome_survives_its_process(void **state)
{
    struct bench *bench = *state;
    bench_close(bench);
    pid_t pid = fork();
    if (pid == 0) {
        bench_open(bench);
        struct hapax_call *call = claim(bench, "spooled", HAPAX_RUN);
        faulty_vfs_arm(FAULTY_FULL, 1, 100000);
        finish(bench, call, NULL, "done");
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    bench_open(bench);
    struct hapax_call *call = claim(bench, "spooled", HAPAX_REPLAY);
    assert_memory_equal(info_of(call).outcome, "done", 4);
    hapax_call_free(call);
}

/* A give-back that was not written may be tried again. */
static void what_was_not_written_may_be_tried_again(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "again", HAPAX_RUN);
    faulty_vfs_arm(FAULTY_FULL, 1, 100000);
    assert_int_equal(hapax_give_back(call, NULL, &bench->error), HAPAX_E_LEDGER);
    assert_int_equal(hapax_refuse(call, NULL, 0, &bench->error), HAPAX_E_LEDGER);
    faulty_vfs_arm(FAULTY_FULL, 0, 0);
    hapax_call_free(claim(bench, "again", HAPAX_BUSY));
    assert_ok(bench, hapax_give_back(call, NULL, &bench->error));
    hapax_call_free(call);
    hapax_call_free(claim(bench, "again", HAPAX_RUN));
}

/* A business row and its operation, with the n-th write or sync failing: they agree. */
static int one_order(struct bench *bench, struct hapax_conn *conn, sqlite3 *db, const char *key)
{
    struct hapax_request request;
    struct hapax_call *call = NULL;
    char sql[80];
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = key;
    request.arguments = "{\"amount\": 1}";
    request.arguments_size = strlen(request.arguments);
    int rc = hapax_begin(conn, &bench->error);
    if (rc < 0)
        return rc;
    rc = hapax_claim(bench->hapax, conn, &request, &call, &bench->error);
    if (rc == HAPAX_RUN) {
        snprintf(sql, sizeof(sql), "INSERT INTO app_orders VALUES ('%s')", key);
        bool is_in = db_try(db, sql) == SQLITE_OK;
        rc = is_in ? hapax_finish(call, conn, "ok", 2, 0, &bench->error) : HAPAX_E_LEDGER;
    }
    hapax_call_free(call);
    if (rc < 0) {
        hapax_rollback(conn);
        return rc;
    }
    return hapax_commit(conn, &bench->error);
}

/* Whoever overlooks that a step failed cannot commit the others. */
static void a_failed_step_cannot_be_committed(void **state)
{
    struct bench *bench = *state;
    struct hapax_conn *conn = NULL;
    sqlite3 *db = db_open(bench->path);
    struct hapax_call *call = claim(bench, "overlooked", HAPAX_RUN);
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    assert_ok(bench, hapax_begin(conn, &bench->error));
    db_run(db, "CREATE TABLE app_orders(name TEXT)");
    char large[300 * 1024] = "";
    char blobs[128];
    snprintf(blobs, sizeof(blobs), "%s-blobs", bench->path);
    assert_int_equal(rmdir(blobs), 0); /* so that its outcome can stand nowhere */
    assert_int_equal(hapax_finish(call, conn, large, sizeof(large), 0, &bench->error),
                     HAPAX_E_LEDGER);
    assert_int_equal(hapax_commit(conn, &bench->error), HAPAX_E_LEDGER);
    assert_int_equal(db_number(db, "SELECT count(*) FROM sqlite_master WHERE name = 'app_orders'"),
                     0);
    finish(bench, call, NULL, "small");
    hapax_call_free(call);
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t orders_named(sqlite3 *db, const char *key)
{
    char sql[96];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM app_orders WHERE name = '%s'", key);
    return db_number(db, sql);
}

static void rows_and_operation_agree(void **state, enum faulty_op op)
{
    struct bench *bench = *state;
    struct hapax_conn *conn = NULL;
    sqlite3 *db = db_open(bench->path);
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    assert_ok(bench, hapax_begin(conn, &bench->error));
    db_run(db, "CREATE TABLE app_orders(name TEXT)");
    assert_ok(bench, hapax_commit(conn, &bench->error));
    bool has_struck = true;
    unsigned failures = 0, doubts = 0;
    for (unsigned n = 1; has_struck; n++) {
        for (unsigned long times = 1; times <= 100000; times *= 100000) {
            char key[32];
            snprintf(key, sizeof(key), "order-%u-%lu", n, times);
            faulty_vfs_arm(op, n, times);
            int rc = one_order(bench, conn, db, key);
            has_struck = faulty_vfs_has_struck();
            faulty_vfs_arm(op, 0, 0);
            failures += rc < 0;
            doubts += rc == HAPAX_E_FATE;
            /* Whatever was said, the same key now tells the truth. */
            assert_ok(bench, one_order(bench, conn, db, key));
            assert_int_equal(orders_named(db, key), 1);
            if (rc == 0)
                hapax_call_free(claim(bench, key, HAPAX_REPLAY));
        }
    }
    assert_true(failures > 0);
    if (op == FAULTY_SYNC)
        assert_true(doubts > 0);
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void rows_and_operation_agree_on_a_full_disk(void **state)
{
    rows_and_operation_agree(state, FAULTY_FULL);
}

static void rows_and_operation_agree_when_a_write_fails(void **state)
{
    rows_and_operation_agree(state, FAULTY_WRITE);
}

static void rows_and_operation_agree_when_a_sync_fails(void **state)
{
    rows_and_operation_agree(state, FAULTY_SYNC);
}

/* A claim that gave way to a second one, in one moment of the clock with the outcome of that: the
 * second claim's line in the history is no proof of a commit that failed. */
static struct hapax_call *claim_twice_in_one_moment(struct bench *bench, const char *key)
{
    struct hapax_call *call = claim(bench, key, HAPAX_RUN);
    assert_ok(bench, hapax_refuse(call, NULL, 0, &bench->error));
    hapax_call_free(call);
    stop_the_clock();
    return claim(bench, key, HAPAX_RUN);
}

static void an_outcome_whose_commit_failed_is_kept(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim_twice_in_one_moment(bench, "second");
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    finish(bench, call, NULL, "done"); /* in the spool, if not in the ledger */
    assert_true(faulty_vfs_has_struck());
    hapax_call_free(call);
    int verdict = HAPAX_BUSY;
    for (int tries = 0; tries < 500 && verdict == HAPAX_BUSY; tries++) {
        verdict = verdict_of(bench, bench->hapax, "second", NULL);
        if (verdict == HAPAX_BUSY)
            assert_int_equal(usleep(10000), 0); /* style-ok: the store brings it in in its time */
    }
    assert_int_equal(verdict, HAPAX_REPLAY);
}

static void rows_of_a_commit_that_failed_are_not_called_durable(void **state)
{
    struct bench *bench = *state;
    struct hapax_conn *conn = NULL;
    sqlite3 *db = db_open(bench->path);
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    assert_ok(bench, hapax_begin(conn, &bench->error));
    db_run(db, "CREATE TABLE app_orders(name TEXT)");
    assert_ok(bench, hapax_commit(conn, &bench->error));
    struct hapax_call *call = claim_twice_in_one_moment(bench, "paid");
    assert_ok(bench, hapax_begin(conn, &bench->error));
    db_run(db, "INSERT INTO app_orders VALUES ('paid')");
    finish(bench, call, conn, "done");
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    assert_int_equal(hapax_commit(conn, &bench->error), HAPAX_E_LEDGER);
    assert_true(faulty_vfs_has_struck());
    assert_int_equal(orders_named(db, "paid"), 0);
    finish(bench, call, NULL, "done");
    hapax_call_free(call);
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_held_lock_is_waited_for_and_then_told(void **state)
{
    struct bench *bench = *state;
    struct hapax *other = bench_open_other(bench);
    sqlite3 *db = db_open(bench->path);
    struct hapax_conn *conn = NULL;
    assert_ok(bench, hapax_attach(other, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    assert_ok(bench, hapax_begin(conn, &bench->error));
    assert_int_equal(verdict_of(bench, bench->hapax, "locked", NULL), HAPAX_E_LEDGER);
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
    assert_non_null(strstr(bench->error.text, pid));
    hapax_rollback(conn);
    hapax_call_free(claim(bench, "locked", HAPAX_RUN));
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_ok(bench, hapax_close(other, &bench->error));
}

/* In all far more bytes than a call may keep, of one outcome that is handed in again and again. */
static void an_outcome_may_be_handed_in_without_end(void **state)
{
    struct bench *bench = *state;
    enum { SIZE = 16 * 1024 * 1024, TRIES = 12 };
    struct hapax_conn *conn = NULL;
    sqlite3 *db = db_open(bench->path);
    struct hapax_call *call = claim(bench, "large", HAPAX_RUN);
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    char *large = calloc(1, SIZE);
    char blobs[128];
    assert_non_null(large);
    snprintf(blobs, sizeof(blobs), "%s-blobs", bench->path);
    assert_int_equal(rmdir(blobs), 0); /* so that it can stand nowhere */
    for (int i = 0; i < TRIES; i++) {
        assert_ok(bench, hapax_begin(conn, &bench->error));
        assert_int_equal(hapax_finish(call, conn, large, SIZE, 0, &bench->error), HAPAX_E_LEDGER);
        assert_null(strstr(bench->error.text, "No memory"));
        hapax_rollback(conn);
    }
    assert_int_equal(mkdir(blobs, 0700), 0);
    assert_ok(bench, hapax_finish(call, NULL, large, SIZE, 0, &bench->error));
    hapax_call_free(call);
    free(large);
    call = claim(bench, "large", HAPAX_REPLAY);
    assert_int_equal(info_of(call).outcome_size, SIZE);
    hapax_call_free(call);
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int open_error(const char *path, struct hapax_error *error)
{
    struct hapax_options options;
    struct hapax *hapax = NULL;
    hapax_options_init(&options);
    options.path = path;
    options.server = "billing";
    int rc = hapax_open(&options, &hapax, error);
    if (rc == 0)
        assert_int_equal(hapax_close(hapax, error), 0);
    return rc;
}

static void a_directory_that_is_not_ours_is_refused(void **state)
{
    struct bench *bench = *state;
    bench_close(bench);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_readonly = chmod(bench->path, 0400) == 0 && chmod(bench->directory, 0500) == 0;
        if (!is_readonly || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0))
            _exit(2);
        _exit(open_error(bench->path, &bench->error) == HAPAX_E_LEDGER ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(bench->directory, 0700), 0);
    assert_int_equal(chmod(bench->path, 0600), 0);
    bench_open(bench);
}

#ifdef HX_CRASH_POINTS
static void an_unknown_boot_opens_no_ledger(void **state)
{
    struct bench *bench = *state;
    bench_close(bench);
    assert_int_equal(setenv("HAPAX_TEST_BOOT_ID", "00000000-0000-0000-0000-000000000000", 1), 0);
    int rc = open_error(bench->path, &bench->error);
    assert_int_equal(unsetenv("HAPAX_TEST_BOOT_ID"), 0);
    assert_int_equal(rc, HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "boot_id cannot be read"));
    assert_non_null(strstr(bench->error.text, "ProcSubset=pid"));
    bench_open(bench);
}
#endif

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)got), got);
    close(in);
    close(out);
}

static void an_older_format_is_brought_up_to_date(void **state)
{
    struct bench *bench = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/old.db", bench->directory);
    copy_file(HX_FIXTURES "/version-1.db", path);
    assert_ok(bench, open_error(path, &bench->error));
    sqlite3 *db = db_open(path);
    assert_true(db_number(db, "PRAGMA user_version") >= 2);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_newer_format_and_a_strange_file_are_refused(void **state)
{
    struct bench *bench = *state;
    bench_close(bench);
    sqlite3 *db = db_open(bench->path);
    int64_t version = db_number(db, "PRAGMA user_version");
    db_run(db, "PRAGMA user_version = 99");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(open_error(bench->path, &bench->error), HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "newer"));
    db = db_open(bench->path);
    char sql[64];
    snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", (int)version);
    db_run(db, sql);
    db_run(db, "PRAGMA application_id = 7");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(open_error(bench->path, &bench->error), HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "another program"));
    db = db_open(bench->path);
    db_run(db, "PRAGMA application_id = 1212239960"); /* HAPX */
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    bench_open(bench);
}

static void a_restored_copy_takes_no_claims(void **state)
{
    struct bench *bench = *state;
    char copy[128];
    snprintf(copy, sizeof(copy), "%s/copy.db", bench->directory);
    struct hapax_call *call = claim(bench, "before", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    bench_close(bench);
    copy_file(bench->path, copy);
    bench_open(bench);
    call = claim(bench, "after", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    bench_close(bench);
    copy_file(copy, bench->path);
    bench_open(bench);
    assert_int_equal(verdict_of(bench, bench->hapax, "after", NULL), HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "hapax ops recover"));
    /* Nor for what it knows: that may have gone on since. */
    assert_int_equal(verdict_of(bench, bench->hapax, "before", NULL), HAPAX_E_LEDGER);
    sqlite3 *db = db_open(bench->path);
    struct hapax_conn *conn = NULL;
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    assert_ok(bench, hapax_begin(conn, &bench->error));
    struct hapax_request request;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = "after";
    assert_int_equal(hapax_claim(bench->hapax, conn, &request, &call, &bench->error),
                     HAPAX_E_LEDGER);
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, teardown)
        TEST(a_full_disk_refuses_the_claim),
        TEST(an_outcome_that_the_ledger_does_not_take_is_kept),
        TEST(a_spooled_outcome_survives_its_process),
        TEST(what_was_not_written_may_be_tried_again),
        TEST(a_failed_step_cannot_be_committed),
        TEST(rows_and_operation_agree_on_a_full_disk),
        TEST(rows_and_operation_agree_when_a_write_fails),
        TEST(rows_and_operation_agree_when_a_sync_fails),
        TEST(an_outcome_whose_commit_failed_is_kept),
        TEST(rows_of_a_commit_that_failed_are_not_called_durable),
        TEST(an_outcome_may_be_handed_in_without_end),
        TEST(a_held_lock_is_waited_for_and_then_told),
        TEST(a_directory_that_is_not_ours_is_refused),
        TEST(an_older_format_is_brought_up_to_date),
        TEST(a_newer_format_and_a_strange_file_are_refused),
#ifdef HX_CRASH_POINTS
        TEST(an_unknown_boot_opens_no_ledger),
#endif
        TEST(a_restored_copy_takes_no_claims),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
