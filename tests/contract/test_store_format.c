/* SPDX-License-Identifier: MIT */
/*
 * Ledgers written by every published version are read for ever. tests/fixtures/ledger holds one of
 * each; a new version adds one: HAPAX_WRITE_FIXTURE=FILE makes it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/fault.h"
#include "faulty_vfs.h"
#include "kept.h"
#include "records.h"
#include "world.h"

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0)
        print_error("cannot open %s\n", from);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

/* Every field holds something, and the same in every run. */
static struct hx_record fixed_record(struct world *world, unsigned number)
{
    struct hx_record record = world_record(world, 0, number);
    memset(&record.id, 0x10 + (int)number, sizeof(record.id));
    memset(&record.effect_key, 0x20 + (int)number, sizeof(record.effect_key));
    memset(&record.owner, 0x30, sizeof(record.owner));
    memset(&record.holder, 0x31, sizeof(record.holder));
    record.key_source = HX_KEY_ARGUMENT;
    record.first_sent.ms = 1795979990000;
    record.generation = number + 1;
    record.contract.tool_class = HX_CLASS_KEYED;
    record.contract.dedupe_horizon_ms = 86400000;
    record.state = number % 2 == 0 ? HX_OP_SUCCEEDED : HX_OP_UNKNOWN;
    record.reason = number % 2 == 0 ? HX_REASON_ANSWERED : HX_REASON_OWNER_DIED;
    record.fence = 7;
    record.attempt.number = 3;
    record.attempt.state = number % 2 == 0 ? HX_ATTEMPT_CONFIRMED : HX_ATTEMPT_OPEN;
    record.attempt.is_marked = true;
    record.attempt.marked_at = world->now;
    record.first_mark = world->now;
    record.not_before = world->now;
    record.settled = world->now;
    record.earlier = (struct hx_attempt_counts){1, 2, 3, 4};
    record.sends = 3;
    memset(&record.predecessor, 0x40, sizeof(record.predecessor));
    memset(&record.successor, 0x41, sizeof(record.successor));
    record.is_approved = true;
    record.is_told_pending = true;
    record.repeats = 5;
    record.sent_count = 6;
    record.lost_count = 7;
    record.adoptions = 8;
    if (number % 2 == 0) {
        static char bytes[3000];
        memset(bytes, 'r', sizeof(bytes));
        record.outcome.kind = HX_OUTCOME_RESULT;
        record.outcome.is_error = true;
        record.outcome.bytes = hx_span(bytes, number == 0 ? 20 : sizeof(bytes));
        record.outcome.size = record.outcome.bytes.len;
        hx_hasher_begin(world->hasher);
        hx_hasher_add(world->hasher, record.outcome.bytes);
        record.outcome.digest = hx_hasher_end(world->hasher);
    }
    return record;
}

enum { FIXED_COUNT = 4 };

static struct hx_store_resume fixed_resume(const struct hx_record *record)
{
    return (struct hx_store_resume){
        .op = record->id, .attempt = 3, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
}

/* What format 2 brought: a session, with a stream and a resume point for each operation. */
static void put_kept(struct world *world, struct hx_store *store)
{
    struct hx_store_session session = kept_session(world, 0);
    static const char *const names[FIXED_COUNT] = {"a", "b", "c", "d"};
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record record = fixed_record(world, i);
        struct hx_store_stream stream = kept_stream(&session, &record, names[i]);
        struct hx_store_resume resume = fixed_resume(&record);
        assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
        assert_kept(kept_put_resume(store, &resume), HX_STORE_DONE);
    }
}

static void check_kept(struct world *world, struct hx_store *store)
{
    struct hx_store_session session = kept_session(world, 0);
    static const char *const names[FIXED_COUNT] = {"a", "b", "c", "d"};
    struct hx_store_request *got = kept_get_session(store, &session.key);
    assert_int_equal(got->result, HX_STORE_DONE);
    assert_sessions_equal(&got->session, &session);
    hx_store_request_free(got);
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record record = fixed_record(world, i);
        struct hx_store_stream stream = kept_stream(&session, &record, names[i]);
        struct hx_store_resume resume = fixed_resume(&record);
        assert_stream_is(store, &stream);
        assert_resume_is(store, &resume);
    }
}

/* What format 3 brought: an event for each of those operations, of which one was delivered. */
static void check_events(struct hx_store *store)
{
    static const enum hx_outbox_kind kinds[] = {HX_OUTBOX_UNKNOWN, HX_OUTBOX_SUCCEEDED,
                                                HX_OUTBOX_UNKNOWN};
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_DUE, NULL);
    request->outbox.limit = 9;
    world_run(store, request);
    assert_int_equal(request->outbox.event_count, FIXED_COUNT - 1);
    for (unsigned i = 0; i < FIXED_COUNT - 1; i++) {
        const struct hx_store_event *event = &request->outbox.events[i];
        struct hx_id op;
        memset(&op, 0x10 + (int)i + 1, sizeof(op));
        assert_int_equal(event->number, i + 2);
        assert_int_equal(event->kind, kinds[i]);
        assert_memory_equal(&event->op, &op, sizeof(op));
        assert_true(hx_span_eq_cstr(event->server, "bank"));
        assert_true(hx_span_eq_cstr(event->tool, "charge"));
        assert_int_equal(event->attempt, 3);
        assert_int_equal(event->tries, i == 0 ? 2 : 0);
        assert_true(i != 0 || hx_span_eq_cstr(event->error, "no answer"));
    }
    hx_store_request_free(request);
}

static void put_events(struct hx_store *store)
{
    for (unsigned i = 0; i < 2; i++) {
        struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_MARK, NULL);
        request->outbox.event = (struct hx_store_event){
            .number = i + 1,
            .place = i == 0 ? HX_OUTBOX_DELIVERED : HX_OUTBOX_PENDING,
            .tries = i + 1,
            .tried.ms = 1795980000000,
            .error = i == 0 ? HX_SPAN_NONE : HX_SPAN_LIT("no answer"),
        };
        assert_kept(world_run(store, request), HX_STORE_DONE);
    }
}

static void write_fixture(const char *path)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.keeps_outbox = true;
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record record = fixed_record(world, i);
        assert_kept(world_insert(store, &record), HX_STORE_DONE);
    }
    put_kept(world, store);
    put_events(store);
    world_close(world, 0);
    copy_file(world->path, path);
    world_free(world);
}

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void check_rows(struct world *world, struct hx_store *store)
{
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record expected = fixed_record(world, i);
        struct hx_store_request *request = world_find_id(store, &expected.id);
        assert_int_equal(request->record_count, 1);
        assert_records_equal(&request->records[0].record, &expected);
        assert_int_equal(request->records[0].owner_fact, HX_OWNER_DEAD);
        hx_store_request_free(request);
    }
}

static void assert_verifies(struct world *world, unsigned rows)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    struct hx_inspect_facts facts;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.rows, rows);
    assert_int_equal(hx_inspect_facts(inspect, &facts), 0);
    assert_int_equal(facts.schema_version, 4);
    hx_inspect_close(inspect);
}

/* Reads everything in the fixture, and works on. */
static void read_version(const char *fixture, bool has_kept, bool has_events)
{
    struct world *world = world_new(WORLD_SQLITE);
    copy_file(fixture, world->path);
    struct hx_store *store = world_open(world, 0);
    check_rows(world, store);
    if (has_kept)
        check_kept(world, store);
    if (has_events)
        check_events(store);
    struct hx_record fresh = world_record(world, 0, 100);
    assert_kept(world_insert(store, &fresh), HX_STORE_DONE);
    put_kept(world, store);
    check_kept(world, store);
    world_close(world, 0);
    assert_verifies(world, FIXED_COUNT + 1);
    world_free(world);
}

static void version_1_is_read(void **state)
{
    read_version(HX_FIXTURES "/version-1.db", false, false);
}

static void version_2_is_read(void **state)
{
    read_version(HX_FIXTURES "/version-2.db", true, false);
}

static void version_3_is_read(void **state)
{
    read_version(HX_FIXTURES "/version-3.db", true, true);
}

static void version_4_is_read(void **state)
{
    const char *wanted = getenv("HAPAX_WRITE_FIXTURE");
    if (wanted != NULL)
        write_fixture(wanted);
    read_version(HX_FIXTURES "/version-4.db", true, true);
}

/* `hapax ops` may be the first that meets an older ledger. */
static void an_inspection_brings_it_up_to_date(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    copy_file(HX_FIXTURES "/version-1.db", world->path);
    assert_verifies(world, FIXED_COUNT);
    world_free(world);
}

/* The disk fails in the middle of it: the ledger is refused, and whole the next time. */
static void fail_each(enum faulty_op op)
{
    bool was_reached = true;
    unsigned long n = 0, refused = 0;
    while (was_reached) {
        struct world *world = world_new(WORLD_SQLITE);
        struct hx_store *store = NULL;
        copy_file(HX_FIXTURES "/version-1.db", world->path);
        world->options.vfs_name = FAULTY_VFS_NAME;
        faulty_vfs_arm(op, ++n, 1);
        int rc = hx_store_sqlite_open(&world->options, &store);
        was_reached = faulty_vfs_has_struck();
        faulty_vfs_arm(op, 0, 0);
        if (rc == 0) {
            store->ops->close(store);
        } else {
            refused++;
            assert_non_null(strstr(hx_fault_last()->text, world->path));
        }
        store = world_open(world, 0);
        check_rows(world, store);
        put_kept(world, store);
        world_close(world, 0);
        assert_verifies(world, FIXED_COUNT);
        world_free(world);
    }
    assert_true(refused > 0);
}

static void a_failing_disk_leaves_it_as_it_was(void **state)
{
    fail_each(FAULTY_WRITE);
    fail_each(FAULTY_FULL);
    fail_each(FAULTY_SYNC);
}

static void run_sql(sqlite3 *db, const char *sql)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        print_error("%s: %s\n", sql, sqlite3_errmsg(db));
    assert_int_equal(code, SQLITE_OK);
}

/* A process of version 1 had the ledger open when one of version 2 came. It goes on with the
 * statements that it had prepared, knows nothing of the new tables, and what belongs to a row that
 * its retention takes goes all the same. */
static void an_older_process_goes_on_beside_us(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    sqlite3 *older = NULL;
    sqlite3_stmt *repeat = NULL, *drop = NULL, *lose = NULL;
    copy_file(HX_FIXTURES "/version-1.db", world->path);
    assert_int_equal(sqlite3_open(world->path, &older), SQLITE_OK);
    sqlite3_busy_timeout(older, 5000);
    run_sql(older, "PRAGMA journal_mode = WAL");
    sqlite3_prepare_v2(older, "UPDATE op SET repeats = 77 WHERE row = 1", -1, &repeat, NULL);
    sqlite3_prepare_v2(older, "DELETE FROM op WHERE row = 2", -1, &drop, NULL);
    sqlite3_prepare_v2(older,
                       "UPDATE op SET arguments_place = iif(arguments_place = 0, 0, 4), arguments ="
                       " NULL, outcome_place = iif(outcome_place = 0, 0, 4), outcome = NULL,"
                       " outcome_blob = 0 WHERE row = 3",
                       -1, &lose, NULL);
    struct hx_store *store = world_open(world, 0);
    put_kept(world, store);
    assert_int_equal(sqlite3_step(repeat), SQLITE_DONE);
    assert_int_equal(sqlite3_step(drop), SQLITE_DONE);
    assert_int_equal(sqlite3_step(lose), SQLITE_DONE);
    sqlite3_finalize(repeat);
    sqlite3_finalize(drop);
    sqlite3_finalize(lose);
    struct hx_store_session session = kept_session(world, 0);
    static const struct {
        const char *name;
        enum hx_store_result expected;
    } streams[FIXED_COUNT] = {
        {"a", HX_STORE_DONE}, {"b", HX_STORE_STALE}, {"c", HX_STORE_STALE}, {"d", HX_STORE_DONE}};
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record record = fixed_record(world, i);
        assert_kept(kept_get_stream(store, &session.key, hx_span_cstr(streams[i].name)),
                    streams[i].expected);
        assert_kept(kept_get_resume(store, &record.id), streams[i].expected);
    }
    struct hx_record first = fixed_record(world, 0);
    struct hx_store_request *found = world_find_id(store, &first.id);
    assert_int_equal(found->records[0].record.repeats, 77);
    hx_store_request_free(found);
    /* The row's number may be given again; what is put there is not what was there. */
    run_sql(older, "DELETE FROM op WHERE row = 4");
    struct hx_record next = world_record(world, 0, 100);
    assert_kept(world_insert(store, &next), HX_STORE_DONE);
    assert_kept(kept_get_stream(store, &session.key, HX_SPAN_LIT("d")), HX_STORE_STALE);
    assert_kept(kept_get_resume(store, &next.id), HX_STORE_STALE);
    sqlite3_close(older);
    world_free(world);
}

int main(void)
{
    faulty_vfs_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(version_2_is_read),
        cmocka_unit_test(version_3_is_read),
        cmocka_unit_test(version_4_is_read),
        cmocka_unit_test(an_inspection_brings_it_up_to_date),
        cmocka_unit_test(a_failing_disk_leaves_it_as_it_was),
        cmocka_unit_test(an_older_process_goes_on_beside_us),
    };
    return cmocka_run_group_tests_name("store format", tests, NULL, NULL);
}
