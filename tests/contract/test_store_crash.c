/* SPDX-License-Identifier: MIT */
/*
 * A process is SIGKILLed at every named point of the store, each time it comes there; then the
 * ledger is opened again. What was told stays true, no outcome that was kept is lost, a second
 * crash inside the recovery changes nothing, and the file verifies.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/retention.h"
#include "base/alloc.h"
#include "base/crash.h"
#include "base/fault.h"
#include "kept.h"
#include "world.h"

enum { SMALL, LARGE, SPOOLED, SPOOLED_LARGE, OPS };
enum { VISITS_MAX = 200 };
#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

struct shared {
    struct {
        struct hx_id id;
        bool is_in_session; /* of its own; its stream comes with the claim */
        bool is_inserted;
        bool is_resumable;
        bool is_kept; /* the outcome was told to be durable, in the row or in the spool */
    } ops[OPS];
    bool is_ending; /* the session of SMALL */
    bool is_ended;
    bool is_swept;
};

static char large[HX_STORE_INLINE_MAX + 7];

static struct hx_record settled(struct world *world, const struct hx_record *record, bool is_large)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.bytes = is_large ? hx_span(large, sizeof(large)) : HX_SPAN_LIT("{\"content\":[]}");
    next.outcome.size = next.outcome.bytes.len;
    hx_hasher_begin(world->hasher);
    hx_hasher_add(world->hasher, next.outcome.bytes);
    next.outcome.digest = hx_hasher_end(world->hasher);
    return next;
}

static void must_be_done(struct hx_store_request *request)
{
    hx_assert(request->result == HX_STORE_DONE);
    hx_store_request_free(request);
}

static void claim(struct hx_store *store, const struct hx_record *record,
                  const struct hx_store_session *session, bool is_marked_after)
{
    struct hx_store_stream stream = kept_stream(session, record, "a");
    enum hx_store_result claimed = HX_STORE_DONE, streamed = HX_STORE_DONE;
    if (is_marked_after) {
        must_be_done(world_claim(store, record));
        must_be_done(kept_put_stream(store, &stream));
        return;
    }
    kept_claim_with_stream(store, record, &stream, &claimed, &streamed);
    hx_assert(claimed == HX_STORE_DONE && streamed == HX_STORE_DONE);
}

static struct hx_store_resume resume_of(const struct shared *shared, unsigned op)
{
    return (struct hx_store_resume){
        .op = shared->ops[op].id, .attempt = 1, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
}

static void live(struct world *world, struct hx_store *store, struct shared *shared, unsigned op)
{
    struct hx_record record = world_record(world, 0, op);
    struct hx_store_session session = kept_session(world, op);
    shared->ops[op].id = record.id;
    must_be_done(kept_put_session(store, &session));
    shared->ops[op].is_in_session = true;
    claim(store, &record, &session, op == LARGE);
    shared->ops[op].is_inserted = true;
    struct hx_store_resume resume = resume_of(shared, op);
    must_be_done(kept_put_resume(store, &resume));
    shared->ops[op].is_resumable = true;
    if (op == SMALL)
        must_be_done(world_mark(world, store, &record));
    struct hx_record next = settled(world, &record, op == LARGE || op == SPOOLED_LARGE);
    if (op == SMALL || op == LARGE)
        next.attempt.is_marked = true;
    next.attempt.marked_at = world->now;
    next.first_mark = world->now;
    struct hx_store_request *request =
        hx_store_request_new(op < SPOOLED ? HX_STORE_UPDATE : HX_STORE_SPOOL, NULL);
    request->record = next;
    request->expected_fence = 1;
    must_be_done(world_run(store, request));
    shared->ops[op].is_kept = true;
}

/* Days later: what is old goes. */
static void sweep(struct world *world, struct shared *shared)
{
    struct hx_ledger ledger;
    struct hx_aftermath aftermath = {0};
    struct hx_sweep position = {0};
    struct hx_id nobody = {{0}};
    world->now.wall.ms += 35 * DAY_MS;
    world->now.mono.ms += 35 * DAY_MS;
    shared->is_swept = true;
    int rc = hx_ledger_open(&ledger, &world->options, &nobody);
    hx_assert(rc == 0);
    while ((rc = hx_sweep_step(&position, &ledger, &aftermath)) == HX_SWEEP_MORE) {
    }
    hx_assert(rc == 0);
    hx_aftermath_fini(&aftermath);
    hx_ledger_close(&ledger);
}

static _Noreturn void child(struct world *world, struct shared *shared)
{
    struct hx_store *store = world_open(world, 0);
    for (unsigned op = 0; op < SPOOLED; op++)
        live(world, store, shared, op);
    struct hx_store_session session = kept_session(world, SMALL);
    shared->is_ending = true;
    must_be_done(kept_end(store, &session.key));
    shared->is_ended = true;
    /* One outcome stays in the spool of a dead process, the other is committed by its own. */
    live(world, store, shared, SPOOLED);
    world_kill(world, 0);
    store = world_open(world, 0);
    live(world, store, shared, SPOOLED_LARGE);
    world_close(world, 0);
    sweep(world, shared);
    struct hx_inspect *inspect = NULL;
    struct hx_recover_report report;
    int rc = hx_inspect_open(&world->options, &inspect);
    hx_assert(rc == 0);
    rc = hx_inspect_recover(inspect, (struct hx_wall){0}, &report);
    hx_assert(rc == 0);
    hx_inspect_close(inspect);
    _exit(0);
}

/* Runs the child with one crash point set; false when it came to its end. */
static bool crashes(struct world *world, struct shared *shared, const char *at)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HAPAX_CRASH_AT", at, 1);
        child(world, shared);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return true;
}

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void assert_verifies(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    int rc = hx_inspect_open(&world->options, &inspect);
    if (rc < 0)
        print_error("open: %s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
}

static void assert_kept_true_to(struct world *world, struct hx_store *store,
                                const struct shared *shared, unsigned op)
{
    struct hx_store_session session = kept_session(world, op);
    struct hx_store_resume resume = resume_of(shared, op);
    bool may_be_gone = op == SMALL && shared->is_ending;
    bool is_gone = op == SMALL && shared->is_ended;
    enum hx_store_result expected = is_gone ? HX_STORE_STALE : HX_STORE_DONE;
    if (shared->is_swept)
        return;
    if (shared->ops[op].is_in_session && may_be_gone == is_gone)
        assert_kept(kept_get_session(store, &session.key), expected);
    if (shared->ops[op].is_inserted && may_be_gone == is_gone)
        assert_kept(kept_get_stream(store, &session.key, HX_SPAN_LIT("a")), expected);
    if (shared->ops[op].is_resumable)
        assert_resume_is(store, &resume);
}

/* INV-16: one event for each outcome that is in the ledger, none for one that is not. */
static void assert_announced(struct world *world, struct hx_store *store,
                             const struct shared *shared)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_DUE, NULL);
    request->outbox.limit = HX_STORE_OUTBOX_DUE_MAX;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    unsigned told = 0;
    for (unsigned op = 0; op < OPS; op++) {
        struct hx_store_request *found = world_find_id(store, &shared->ops[op].id);
        unsigned events = 0;
        for (uint32_t i = 0; i < request->outbox.event_count; i++)
            events += hx_id_eq(&request->outbox.events[i].op, &shared->ops[op].id);
        bool has_outcome =
            found->record_count == 1 && found->records[0].record.state == HX_OP_SUCCEEDED;
        if (!shared->is_swept)
            assert_int_equal(events, has_outcome);
        told += events;
        hx_store_request_free(found);
    }
    if (!shared->is_swept)
        assert_int_equal(told, request->outbox.event_count);
    hx_store_request_free(request);
}

static void assert_true_to(struct world *world, const struct shared *shared)
{
    struct hx_store *store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    assert_announced(world, store, shared);
    for (unsigned op = 0; op < OPS; op++) {
        assert_kept_true_to(world, store, shared, op);
        if (!shared->ops[op].is_inserted)
            continue;
        struct hx_store_request *request = world_find_id(store, &shared->ops[op].id);
        assert_int_equal(request->result, HX_STORE_DONE);
        assert_int_equal(request->record_count, 1);
        enum hx_op_state state = request->records[0].record.state;
        bool may_be_expired = shared->is_swept && state == HX_OP_EXPIRED;
        if (shared->ops[op].is_kept && !may_be_expired)
            assert_int_equal(state, HX_OP_SUCCEEDED);
        if (may_be_expired)
            assert_true(store->ops->low_water(store).ms > 0);
        hx_store_request_free(request);
        if (state != HX_OP_SUCCEEDED)
            continue;
        struct hx_store_request *ask = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
        ask->record.id = shared->ops[op].id;
        world_run(store, ask);
        if (ask->result != HX_STORE_DONE)
            print_error("payload: %s\n", ask->error);
        assert_int_equal(ask->result, HX_STORE_DONE);
        bool is_large = op == LARGE || op == SPOOLED_LARGE;
        if (!shared->is_swept)
            assert_int_equal(ask->payload.len, is_large ? sizeof(large) : 14);
        hx_store_request_free(ask);
    }
    world_close(world, 0);
}

/* The recovery itself is killed too: a process that opens the ledger, and dies there. */
static void crash_again(struct world *world, const char *at)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HAPAX_CRASH_AT", at, 1);
        world_open(world, 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void every_point_every_visit(void **state)
{
    if (hx_crash_point_count() == 0)
        skip();
    for (size_t i = 0; i < hx_crash_point_count(); i++) {
        const char *name = hx_crash_point_name(i);
        bool is_duplicate = false;
        for (size_t k = 0; k < i; k++)
            is_duplicate |= strcmp(name, hx_crash_point_name(k)) == 0;
        bool was_reached = !is_duplicate;
        unsigned visit = 0;
        while (was_reached && visit < VISITS_MAX) {
            char at[64];
            snprintf(at, sizeof(at), "%s:%u", name, ++visit);
            struct world *world = world_new(WORLD_SQLITE);
            world->options.keeps_outbox = true;
            struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            was_reached = crashes(world, shared, at);
            crash_again(world, name);
            assert_true_to(world, shared);
            assert_true_to(world, shared);
            assert_verifies(world);
            munmap(shared, sizeof(*shared));
            world_free(world);
        }
        if (!is_duplicate)
            print_message("%s: %u crashes\n", name, visit - 1);
        if (!is_duplicate && visit < 2)
            print_error("point %s was never reached\n", name);
        assert_true(is_duplicate || visit >= 2);
    }
}

static void copy_fixture(struct world *world, const char *name)
{
    char bytes[65536], path[512];
    snprintf(path, sizeof(path), "%s/%s", HX_FIXTURES, name);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int out = open(world->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

/* While nobody else uses it. */
static int number_in(struct world *world, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int number = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

/* A ledger of format 1 whose migration is killed is one of a format, and nothing between. */
static void a_killed_migration_is_whole_or_not_there(void **state)
{
    static const struct {
        const char *at;
        int version;
    } cases[] = {{"migrate-before-commit", 1},
                 {"migrate-after-commit", 2},
                 {"migrate-before-commit:2", 2},
                 {"migrate-after-commit:2", 3},
                 {"commit-before", 3}};
    if (hx_crash_point_count() == 0)
        skip();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(WORLD_SQLITE);
        struct shared *shared =
            mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        copy_fixture(world, "version-1.db");
        assert_int_equal(number_in(world, "PRAGMA user_version"), 1);
        assert_true(crashes(world, shared, cases[i].at));
        assert_int_equal(number_in(world, "PRAGMA user_version"), cases[i].version);
        assert_int_equal(number_in(world, "SELECT count(*) FROM sqlite_master WHERE name IN"
                                          " ('session', 'stream', 'resume', 'op_gone')"),
                         cases[i].version == 1 ? 0 : 4);
        assert_int_equal(number_in(world, "SELECT count(*) FROM sqlite_master WHERE name IN"
                                          " ('outbox', 'outbox_open', 'outbox_due')"),
                         cases[i].version < 3 ? 0 : 3);
        assert_int_equal(number_in(world, "SELECT count(*) FROM op"), 4);
        assert_verifies(world);
        assert_int_equal(number_in(world, "PRAGMA user_version"), 3);
        munmap(shared, sizeof(*shared));
        world_free(world);
    }
}

int main(void)
{
    memset(large, 'l', sizeof(large));
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_point_every_visit),
                                       cmocka_unit_test(a_killed_migration_is_whole_or_not_there)};
    return cmocka_run_group_tests_name("store crashes", tests, NULL, NULL);
}
