/* SPDX-License-Identifier: MIT */
/* The caller's own transaction: his rows and ours together, or neither. */
#include "lib_kit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/store_sqlite/guest.h"

struct shop {
    struct bench *bench;
    sqlite3 *db;
    struct hapax_conn *conn;
};

static void shop_open(struct shop *shop, struct bench *bench)
{
    *shop = (struct shop){.bench = bench, .db = db_open(bench->path)};
    assert_ok(bench, hapax_attach(bench->hapax, shop->db, sqlite3_sourceid(), 0, &shop->conn,
                                  &bench->error));
    assert_ok(bench, hapax_begin(shop->conn, &bench->error));
    db_run(shop->db, "CREATE TABLE IF NOT EXISTS app_orders(name TEXT)");
    assert_ok(bench, hapax_commit(shop->conn, &bench->error));
}

static void shop_close(struct shop *shop)
{
    hapax_detach(shop->conn);
    assert_int_equal(sqlite3_close(shop->db), SQLITE_OK);
}

static int64_t orders(struct shop *shop)
{
    return db_number(shop->db, "SELECT count(*) FROM app_orders");
}

static void both_are_committed_together(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
    db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
    assert_ok(bench, hapax_receipt(call, shop.conn, "row a", &bench->error));
    finish(bench, call, shop.conn, "ordered");
    /* Not before the commit. */
    hapax_call_free(call);
    assert_ok(bench, hapax_commit(shop.conn, &bench->error));
    assert_int_equal(orders(&shop), 1);
    call = claim(bench, "order-1", HAPAX_REPLAY);
    assert_memory_equal(info_of(call).outcome, "ordered", 7);
    hapax_call_free(call);
    shop_close(&shop);
}

static void copy_over(const char *from, const char *to)
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

static void done_in_a_transaction(struct bench *bench, struct shop *shop, const char *key)
{
    assert_ok(bench, hapax_begin(shop->conn, &bench->error));
    struct hapax_call *call = claim_as(bench, shop->conn, key, NULL, HAPAX_RUN);
    finish(bench, call, shop->conn, "x");
    hapax_call_free(call);
    assert_ok(bench, hapax_commit(shop->conn, &bench->error));
}

/* As `hapax ops recover` ends what is said of a copy: the counter tells no more than the ledger. */
static void a_connection_hears_of_recover(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    char copy[128], counter[128], old_counter[128];
    snprintf(copy, sizeof(copy), "%s/copy.db", bench->directory);
    snprintf(counter, sizeof(counter), "%s-counter", bench->path);
    snprintf(old_counter, sizeof(old_counter), "%s/old-counter", bench->directory);
    struct hapax_call *call = claim(bench, "before", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    bench_close(bench);
    copy_over(bench->path, copy);
    copy_over(counter, old_counter);
    bench_open(bench);
    call = claim(bench, "lost-with-the-copy", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    bench_close(bench);
    copy_over(copy, bench->path);
    bench_open(bench);
    shop = (struct shop){.bench = bench, .db = db_open(bench->path)};
    assert_ok(bench, hapax_attach(bench->hapax, shop.db, sqlite3_sourceid(), 0, &shop.conn,
                                  &bench->error));
    struct hapax_request request;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = "on-the-copy";
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    assert_int_equal(hapax_claim(bench->hapax, shop.conn, &request, &call, &bench->error),
                     HAPAX_E_LEDGER);
    hapax_rollback(shop.conn);
    copy_over(old_counter, counter);
    /* The ledger itself looks each second. */
    int verdict = HAPAX_E_LEDGER;
    for (int tries = 0; verdict == HAPAX_E_LEDGER && tries < 300; tries++) {
        (void)poll(NULL, 0, 200);
        verdict = verdict_of(bench, bench->hapax, "of-its-own", NULL);
    }
    assert_int_equal(verdict, HAPAX_RUN);
    done_in_a_transaction(bench, &shop, "after-it");
    shop_close(&shop);
}

/* His own rows forbid the commit: nothing of it happened, and the disk is well. */
static void a_deferred_key_that_dangles_is_no_doubt(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    db_run(shop.db, "CREATE TABLE app_p(id INTEGER PRIMARY KEY)");
    db_run(shop.db, "CREATE TABLE app_c(p REFERENCES app_p(id) DEFERRABLE INITIALLY DEFERRED)");
    assert_ok(bench, hapax_commit(shop.conn, &bench->error));
    db_run(shop.db, "PRAGMA foreign_keys = ON");
    int64_t epoch = db_number(shop.db, "SELECT epoch FROM ledger");
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    struct hapax_call *call = claim_as(bench, shop.conn, "dangling", NULL, HAPAX_RUN);
    db_run(shop.db, "INSERT INTO app_c VALUES (99)");
    finish(bench, call, shop.conn, "done");
    hapax_call_free(call);
    assert_int_equal(hapax_commit(shop.conn, &bench->error), HAPAX_E_LEDGER);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    hapax_rollback(shop.conn);
    assert_int_equal(db_number(shop.db, "SELECT epoch FROM ledger"), epoch);
    assert_int_equal(db_number(shop.db, "SELECT count(*) FROM app_c"), 0);
    hapax_call_free(claim(bench, "dangling", HAPAX_RUN));
    shop_close(&shop);
}

/* Its commits would go into a log that nobody else reads. */
/* Pools and mappers set it on each connection they give out. */
static void what_the_owner_of_the_connection_sets_makes_no_commit_unsynced(void **state)
{
    enum { FULL = 2 };
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    db_run(shop.db, "PRAGMA synchronous = OFF");
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    assert_int_equal(db_number(shop.db, "PRAGMA synchronous"), FULL);
    assert_ok(bench, hapax_commit(shop.conn, &bench->error));
    shop_close(&shop);
}

static void a_connection_by_another_name_is_refused(void **state)
{
    struct bench *bench = *state;
    struct hapax_conn *conn = NULL;
    char other[128], soft[128];
    snprintf(other, sizeof(other), "%s/other.db", bench->directory);
    snprintf(soft, sizeof(soft), "%s/soft.db", bench->directory);
    assert_int_equal(link(bench->path, other), 0);
    sqlite3 *db = db_open(other);
    assert_int_equal(hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error),
                     HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "another name"));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink(bench->path, soft), 0);
    db = db_open(soft);
    assert_ok(bench, hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error));
    hapax_detach(conn);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void neither_is_there_after_a_rollback(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
    db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
    finish(bench, call, shop.conn, "ordered");
    hapax_rollback(shop.conn);
    assert_int_equal(hapax_finish(call, NULL, "x", 1, 0, &bench->error), HAPAX_E_STATE);
    assert_non_null(strstr(bench->error.text, "claim its key again"));
    hapax_call_free(call);
    assert_int_equal(orders(&shop), 0);
    call = claim(bench, "order-1", HAPAX_RUN);
    assert_int_equal(info_of(call).attempt, 1);
    finish(bench, call, NULL, "ordered");
    hapax_call_free(call);
    shop_close(&shop);
}

/* An effect outside between two commits: the claim in one, the outcome and the row in the other. */
static void an_outcome_may_be_tried_again_after_a_rollback(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    struct hapax_call *call = claim(bench, "pay-1", HAPAX_RUN);
    for (int tries = 0; tries < 2; tries++) {
        assert_ok(bench, hapax_begin(shop.conn, &bench->error));
        db_run(shop.db, "INSERT INTO app_orders VALUES ('paid')");
        finish(bench, call, shop.conn, "paid");
        assert_int_equal(hapax_finish(call, NULL, "x", 1, 0, &bench->error), HAPAX_E_MISUSE);
        if (tries == 0) {
            hapax_rollback(shop.conn);
            /* It runs still, in our hands. */
            hapax_call_free(claim(bench, "pay-1", HAPAX_BUSY));
        } else {
            assert_ok(bench, hapax_commit(shop.conn, &bench->error));
        }
    }
    hapax_call_free(call);
    assert_int_equal(orders(&shop), 1);
    hapax_call_free(claim(bench, "pay-1", HAPAX_REPLAY));
    shop_close(&shop);
}

static void a_large_outcome_goes_with_the_rollback(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    size_t size = 400 * 1024;
    char *outcome = calloc(1, size);
    assert_non_null(outcome);
    struct hapax_call *call = claim(bench, "large", HAPAX_RUN);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    assert_ok(bench, hapax_finish(call, shop.conn, outcome, size, 0, &bench->error));
    hapax_rollback(shop.conn);
    char blobs[128];
    snprintf(blobs, sizeof(blobs), "%s-blobs", bench->path);
    assert_int_equal(rmdir(blobs), 0); /* it is empty */
    assert_int_equal(access(bench->path, F_OK), 0);
    hapax_call_free(call);
    free(outcome);
    shop_close(&shop);
}

static void outside_of_a_transaction_the_connection_only_reads(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_int_equal(db_try(shop.db, "INSERT INTO app_orders VALUES ('stray')"), SQLITE_READONLY);
    assert_int_equal(orders(&shop), 0);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
    hapax_rollback(shop.conn);
    assert_int_equal(db_try(shop.db, "INSERT INTO app_orders VALUES ('stray')"), SQLITE_READONLY);
    shop_close(&shop);
}

static void an_old_sqlite_may_not_write_outside(void **state)
{
    struct bench *bench = *state;
    assert_non_null(hx_guest_version_flaw(3051002, true));
    assert_non_null(hx_guest_version_flaw(3040001, true));
    assert_null(hx_guest_version_flaw(3051003, true));
    assert_null(hx_guest_version_flaw(3040001, false));
    sqlite3 *db = db_open(bench->path);
    struct hapax_conn *conn = NULL;
    int rc = hapax_attach(bench->hapax, db, sqlite3_sourceid(), HAPAX_WRITES_OUTSIDE, &conn,
                          &bench->error);
    if (sqlite3_libversion_number() < 3051003) {
        assert_int_equal(rc, HAPAX_E_LEDGER);
        assert_non_null(strstr(bench->error.text, "3.51.3"));
    } else {
        assert_int_equal(rc, 0);
        hapax_detach(conn);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void other_connections_are_refused(void **state)
{
    struct bench *bench = *state;
    struct hapax_conn *conn = NULL;
    static const char copy[] = "another copy";
    sqlite3 *db = db_open(bench->path);
    assert_int_equal(hapax_attach(bench->hapax, db, copy, 0, &conn, &bench->error), HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "another copy"));
    db_run(db, "BEGIN");
    assert_int_equal(hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error),
                     HAPAX_E_LEDGER);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error),
                     HAPAX_E_LEDGER);
    assert_non_null(strstr(bench->error.text, "own file"));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sqlite3_open_v2(bench->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(hapax_attach(bench->hapax, db, sqlite3_sourceid(), 0, &conn, &bench->error),
                     HAPAX_E_LEDGER);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Forgotten: nobody else gets in, the rows are not there, and detaching rolls back. */
static void a_forgotten_commit_is_a_rollback(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
    db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
    finish(bench, call, shop.conn, "ordered");
    assert_int_equal(hapax_begin(shop.conn, &bench->error), HAPAX_E_LEDGER);
    assert_int_equal(verdict_of(bench, bench->hapax, "order-2", NULL), HAPAX_E_LEDGER);
    assert_int_equal(bench->error.code, HAPAX_E_LEDGER);
    hapax_call_free(call);
    shop_close(&shop);
    shop_open(&shop, bench);
    assert_int_equal(orders(&shop), 0);
    hapax_call_free(claim(bench, "order-1", HAPAX_RUN));
    shop_close(&shop);
}

/* His own COMMIT, not ours: both are in, and we say so. His own ROLLBACK: neither. */
static void a_transaction_ended_by_hand_is_looked_up(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    for (int is_commit = 0; is_commit < 2; is_commit++) {
        assert_ok(bench, hapax_begin(shop.conn, &bench->error));
        struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
        db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
        finish(bench, call, shop.conn, "ordered");
        db_run(shop.db, is_commit ? "COMMIT" : "ROLLBACK");
        struct hapax_request request;
        struct hapax_call *late = NULL;
        hapax_request_init(&request);
        request.tool = "charge";
        request.key = "late";
        assert_int_equal(hapax_claim(bench->hapax, shop.conn, &request, &late, &bench->error),
                         HAPAX_E_MISUSE);
        assert_int_equal(hapax_commit(shop.conn, &bench->error), is_commit ? 0 : HAPAX_E_LEDGER);
        hapax_call_free(call);
        assert_int_equal(orders(&shop), is_commit);
        assert_int_equal(db_try(shop.db, "INSERT INTO app_orders VALUES ('stray')"),
                         SQLITE_READONLY);
    }
    hapax_call_free(claim(bench, "order-1", HAPAX_REPLAY));
    shop_close(&shop);
}

/* Rolled back through us after he committed by hand: what the call believes may be wrong, so that
 * it believes nothing. */
static void a_rollback_behind_a_commit_is_none(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    struct hapax_call *call = claim(bench, "pay", HAPAX_RUN);
    assert_ok(bench, hapax_begin(shop.conn, &bench->error));
    finish(bench, call, shop.conn, "paid");
    db_run(shop.db, "COMMIT");
    hapax_rollback(shop.conn);
    assert_int_equal(hapax_finish(call, NULL, "other", 5, 0, &bench->error), HAPAX_E_STATE);
    hapax_call_free(call);
    call = claim(bench, "pay", HAPAX_REPLAY);
    assert_memory_equal(info_of(call).outcome, "paid", 4);
    hapax_call_free(call);
    shop_close(&shop);
}

static void begin_and_commit_are_told_when_misused(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    assert_int_equal(hapax_commit(shop.conn, &bench->error), HAPAX_E_LEDGER);
    hapax_rollback(shop.conn);
    assert_int_equal(hapax_begin(NULL, &bench->error), HAPAX_E_MISUSE);
    struct hapax_call *call = claim(bench, "a", HAPAX_RUN);
    assert_int_equal(hapax_finish(call, shop.conn, "x", 1, 0, &bench->error), HAPAX_E_MISUSE);
    assert_non_null(strstr(bench->error.text, "hapax_begin"));
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    assert_int_equal(hapax_close(bench->hapax, &bench->error), HAPAX_E_MISUSE);
    shop_close(&shop);
}

/* Kills a child at a point of the transaction; tells how many orders there are then. */
static int64_t orders_after_death(struct bench *bench, int step, int *ret_verdict)
{
    bench_close(bench);
    pid_t pid = fork();
    if (pid == 0) {
        struct shop shop;
        bench_open(bench);
        shop_open(&shop, bench);
        assert_ok(bench, hapax_begin(shop.conn, &bench->error));
        struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
        if (step == 0)
            raise(SIGKILL);
        db_run(shop.db, "INSERT INTO app_orders VALUES ('a')");
        if (step == 1)
            raise(SIGKILL);
        finish(bench, call, shop.conn, "ordered");
        if (step == 2)
            raise(SIGKILL);
        assert_ok(bench, hapax_commit(shop.conn, &bench->error));
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    bench_open(bench);
    struct shop shop;
    shop_open(&shop, bench);
    int64_t count = orders(&shop);
    shop_close(&shop);
    *ret_verdict = verdict_of(bench, bench->hapax, "order-1", NULL);
    return count;
}

static void a_death_in_between_leaves_neither(void **state)
{
    struct bench *bench = *state;
    int verdict = 0;
    for (int step = 0; step < 3; step++) {
        assert_int_equal(orders_after_death(bench, step, &verdict), 0);
        assert_int_equal(verdict, HAPAX_RUN);
        /* verdict_of claimed and left it: a new ledger for the next round. */
        bench_close(bench);
        char lock[128];
        snprintf(lock, sizeof(lock), "%s", bench->path);
        assert_int_equal(unlink(lock), 0);
        snprintf(lock, sizeof(lock), "%s-counter", bench->path);
        assert_int_equal(unlink(lock), 0);
        bench_open(bench);
    }
    assert_int_equal(orders_after_death(bench, 3, &verdict), 1);
    assert_int_equal(verdict, HAPAX_REPLAY);
}

/* How often the log was begun anew: it stands in its head, which carries no lock. */
static unsigned log_beginnings(struct bench *bench)
{
    char path[128];
    unsigned char head[32] = {0};
    snprintf(path, sizeof(path), "%s-wal", bench->path);
    FILE *log = fopen(path, "re");
    assert_non_null(log);
    assert_int_equal(fread(head, 1, sizeof(head), log), sizeof(head));
    fclose(log);
    return (unsigned)head[12] << 24 | (unsigned)head[13] << 16 | (unsigned)head[14] << 8 | head[15];
}

/* Many commits of ours that the store does not see: the log is moved all the same. */
static void the_log_is_kept_short(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    shop_open(&shop, bench);
    unsigned beginnings = log_beginnings(bench);
    bool is_moved = false;
    for (int i = 0; i < 3000 && !is_moved; i++) {
        bool is_long = i < 12; /* 12 MB, then little by little until a commit finds it moved */
        assert_ok(bench, hapax_begin(shop.conn, &bench->error));
        db_run(shop.db, is_long ? "INSERT INTO app_orders VALUES (zeroblob(1000000))"
                                : "INSERT INTO app_orders VALUES ('small')");
        assert_ok(bench, hapax_commit(shop.conn, &bench->error));
        is_moved = log_beginnings(bench) != beginnings;
        if (!is_moved && !is_long)
            assert_int_equal(usleep(10000), 0); /* style-ok: another thread moves it */
    }
    assert_true(is_moved);
    shop_close(&shop);
}

static struct hapax *open_with_outbox(struct bench *bench)
{
    struct hapax_options options;
    struct hapax *hapax = NULL;
    hapax_options_init(&options);
    options.path = bench->path;
    options.server = "billing";
    options.keeps_outbox = 1;
    assert_ok(bench, hapax_open(&options, &hapax, &bench->error));
    return hapax;
}

/* An event is there exactly if its transition is: with the rows, and not after a rollback. */
static void events_stand_or_fall_with_the_transaction(void **state)
{
    struct bench *bench = *state;
    struct shop shop;
    struct hapax_events *events = NULL;
    bench_close(bench);
    bench->hapax = open_with_outbox(bench);
    shop_open(&shop, bench);
    for (int is_commit = 0; is_commit < 2; is_commit++) {
        assert_ok(bench, hapax_begin(shop.conn, &bench->error));
        struct hapax_call *call = claim_as(bench, shop.conn, "order-1", NULL, HAPAX_RUN);
        finish(bench, call, shop.conn, "ordered");
        hapax_call_free(call);
        if (is_commit)
            assert_ok(bench, hapax_commit(shop.conn, &bench->error));
        else
            hapax_rollback(shop.conn);
        assert_int_equal(hapax_events_due(bench->hapax, 10, &events, &bench->error), is_commit);
    }
    struct hapax_event event = {.size = sizeof(event)};
    hapax_events_get(events, 0, &event);
    assert_string_equal(event.type, "dev.hapax.operation.succeeded");
    assert_string_equal(event.tool, "charge");
    assert_string_equal(event.server, "billing");
    struct hapax_call *call = claim(bench, "order-1", HAPAX_REPLAY);
    assert_string_equal(event.operation, info_of(call).id);
    hapax_call_free(call);

    /* Not delivered: it comes again, under the same id, and not at once. */
    char id[40];
    snprintf(id, sizeof(id), "%s", event.id);
    assert_ok(bench, hapax_event_mark(bench->hapax, &event, 0, &bench->error));
    hapax_events_free(events);
    int due = 0;
    for (int i = 0; i < 300 && due == 0; i++) {
        due = hapax_events_due(bench->hapax, 10, &events, &bench->error);
        if (due == 0)
            assert_int_equal(usleep(10000), 0); /* style-ok: its time comes by the clock */
    }
    assert_int_equal(due, 1);
    hapax_events_get(events, 0, &event);
    assert_string_equal(event.id, id);
    assert_int_equal(event.tries, 1);
    /* Another process sees none while this one delivers. */
    struct hapax *other = bench_open_other(bench);
    struct hapax_events *none = NULL;
    assert_int_equal(hapax_events_due(other, 10, &none, &bench->error), 0);
    assert_ok(bench, hapax_close(other, &bench->error));
    assert_ok(bench, hapax_event_mark(bench->hapax, &event, 1, &bench->error));
    assert_int_equal(hapax_event_mark(bench->hapax, &event, 1, &bench->error), HAPAX_E_STATE);
    hapax_events_free(events);
    assert_int_equal(hapax_events_due(bench->hapax, 10, &events, &bench->error), 0);
    shop_close(&shop);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
        TEST(both_are_committed_together),
        TEST(a_connection_hears_of_recover),
        TEST(a_deferred_key_that_dangles_is_no_doubt),
        TEST(a_connection_by_another_name_is_refused),
        TEST(what_the_owner_of_the_connection_sets_makes_no_commit_unsynced),
        TEST(neither_is_there_after_a_rollback),
        TEST(an_outcome_may_be_tried_again_after_a_rollback),
        TEST(a_large_outcome_goes_with_the_rollback),
        TEST(outside_of_a_transaction_the_connection_only_reads),
        TEST(an_old_sqlite_may_not_write_outside),
        TEST(other_connections_are_refused),
        TEST(a_forgotten_commit_is_a_rollback),
        TEST(a_transaction_ended_by_hand_is_looked_up),
        TEST(a_rollback_behind_a_commit_is_none),
        TEST(begin_and_commit_are_told_when_misused),
        TEST(a_death_in_between_leaves_neither),
        TEST(the_log_is_kept_short),
        TEST(events_stand_or_fall_with_the_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
