/* SPDX-License-Identifier: MIT */
/*
 * Sessions, streams and resume points on a disk that fails, and when the answer to a commit is
 * lost: whatever happens, a DONE is there, a NOT_DONE is not, also after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/fault.h"
#include "faulty_vfs.h"
#include "kept.h"
#include "records.h"
#include "world.h"

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
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
}

static enum hx_store_result result_of(struct hx_store_request *request)
{
    enum hx_store_result result = request->result;
    assert_int_equal(request->error[0] != '\0', result == HX_STORE_NOT_DONE);
    hx_store_request_free(request);
    return result;
}

/* One session's life; what each step was told. */
struct told {
    struct hx_store_session session;
    struct hx_record record;
    struct hx_store_stream stream;
    struct hx_store_resume points[2];
    struct hx_wall later;
    enum hx_store_result put, claim, streamed, resumed[2], touched, ended;
};

static struct told live(struct world *world, struct hx_store *store, unsigned number)
{
    struct told told = {.session = kept_session(world, number),
                        .record = world_record(world, 0, number)};
    told.later.ms = told.session.last_seen.ms + 5;
    told.stream = kept_stream(&told.session, &told.record, "a");
    for (unsigned i = 0; i < 2; i++)
        told.points[i] = (struct hx_store_resume){.op = told.record.id,
                                                  .attempt = 1,
                                                  .text = i == 0 ? HX_SPAN_LIT("{\"event\":1}")
                                                                 : HX_SPAN_LIT("{\"event\":2}")};
    told.put = result_of(kept_put_session(store, &told.session));
    kept_claim_with_stream(store, &told.record, &told.stream, &told.claim, &told.streamed);
    for (unsigned i = 0; i < 2; i++)
        told.resumed[i] = result_of(kept_put_resume(store, &told.points[i]));
    told.touched = result_of(kept_touch(store, &told.session.key, told.later));
    told.ended = HX_STORE_NOT_DONE;
    if (number % 2 == 0)
        told.ended = result_of(kept_end(store, &told.session.key));
    return told;
}

static void assert_session_true_to(struct hx_store *store, const struct told *told)
{
    bool is_there = told->put == HX_STORE_DONE && told->ended != HX_STORE_DONE;
    struct hx_store_request *got = kept_get_session(store, &told->session.key);
    assert_int_equal(got->result, is_there ? HX_STORE_DONE : HX_STORE_STALE);
    struct hx_store_session expected = told->session;
    if (told->touched == HX_STORE_DONE)
        expected.last_seen = told->later;
    if (is_there)
        assert_sessions_equal(&got->session, &expected);
    hx_store_request_free(got);
    if (is_there && told->streamed == HX_STORE_DONE)
        assert_stream_is(store, &told->stream);
    else
        assert_kept(kept_get_stream(store, &told->session.key, told->stream.name), HX_STORE_STALE);
}

static void assert_true_to(struct hx_store *store, const struct told *told)
{
    /* What could not hold is stale, what could is done or not, and never the other. */
    if (told->put != HX_STORE_DONE)
        assert_int_not_equal(told->touched, HX_STORE_DONE);
    if (told->claim != HX_STORE_DONE)
        assert_int_not_equal(told->streamed, HX_STORE_DONE);
    if (told->put == HX_STORE_DONE)
        assert_int_not_equal(told->touched, HX_STORE_STALE);
    if (told->claim == HX_STORE_DONE)
        assert_int_not_equal(told->resumed[0], HX_STORE_STALE);
    assert_session_true_to(store, told);
    if (told->resumed[1] == HX_STORE_DONE)
        assert_resume_is(store, &told->points[1]);
    else if (told->resumed[0] == HX_STORE_DONE)
        assert_resume_is(store, &told->points[0]);
    else
        assert_kept(kept_get_resume(store, &told->record.id), HX_STORE_STALE);
}

/* Fails the n-th operation, for n = 1 until none is reached any more. */
static void fail_each(enum faulty_op op, unsigned long times)
{
    bool was_reached = true;
    unsigned long n = 0;
    while (was_reached) {
        n++;
        struct world *world = world_new(WORLD_SQLITE);
        world->options.vfs_name = FAULTY_VFS_NAME;
        struct hx_store *store = world_open(world, 0);
        struct told before = live(world, store, 1);
        assert_int_equal(before.touched, HX_STORE_DONE);
        faulty_vfs_arm(op, n, times);
        struct told during[2] = {live(world, store, 2), live(world, store, 3)};
        was_reached = faulty_vfs_has_struck();
        faulty_vfs_arm(op, 0, 0);
        struct told after = live(world, store, 4);
        assert_int_equal(after.ended, HX_STORE_DONE);
        for (int round = 0; round < 2; round++) {
            assert_true_to(store, &before);
            assert_true_to(store, &during[0]);
            assert_true_to(store, &during[1]);
            assert_true_to(store, &after);
            if (round == 0) {
                world_kill(world, 0);
                store = world_open(world, 0);
            }
        }
        world_close(world, 0);
        assert_verifies(world);
        world_free(world);
    }
    assert_true(n > 3);
}

static void each_write_fails_once(void **state)
{
    fail_each(FAULTY_WRITE, 1);
}

static void each_write_finds_the_disk_full(void **state)
{
    fail_each(FAULTY_FULL, 3);
}

static void each_sync_fails_once(void **state)
{
    fail_each(FAULTY_SYNC, 1);
}

static void each_sync_fails_for_a_while(void **state)
{
    fail_each(FAULTY_SYNC, 3);
}

/* Every one of them is read back as done when only the answer to its commit was lost. */
static void a_lost_answer_is_read_back(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    _Atomic int lost = 0;
    world->options.lost_answers = &lost;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_stream stream = kept_stream(&session, &record, "a");
    struct hx_store_resume point = {.op = record.id, .attempt = 1, .text = HX_SPAN_LIT("1")};
    enum hx_store_result claim, streamed;
    lost = 1;
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    lost = 1; /* proved by the claim's own history */
    kept_claim_with_stream(store, &record, &stream, &claim, &streamed);
    assert_int_equal(claim, HX_STORE_DONE);
    assert_int_equal(streamed, HX_STORE_DONE);
    stream.name = HX_SPAN_LIT("b");
    lost = 1;
    assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
    lost = 1;
    assert_kept(kept_put_resume(store, &point), HX_STORE_DONE);
    lost = 1;
    assert_kept(kept_touch(store, &session.key, session.last_seen), HX_STORE_DONE);
    assert_stream_is(store, &stream);
    assert_resume_is(store, &point);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_DONE);
    lost = 1;
    assert_kept(kept_end(store, &session.key), HX_STORE_DONE);
    assert_int_equal(lost, 0);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_STALE);
    struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
    note->note = HX_SPAN_LIT("{\"what\":\"the ledger's own log\"}");
    lost = 1;
    assert_kept(world_run(store, note), HX_STORE_DONE);
    world_close(world, 0);
    assert_verifies(world);
    world_free(world);
}

/* That the same stands there already proves nothing about a commit in doubt, nor does the proof of
 * an earlier one. */
static void an_equal_one_before_proves_nothing(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    struct hx_store_session again = session;
    for (int i = 0; i < 2; i++) {
        faulty_vfs_arm(FAULTY_SYNC, 1, 1);
        assert_kept(kept_put_session(store, &again), HX_STORE_NOT_DONE);
        assert_true(faulty_vfs_has_struck());
        faulty_vfs_arm(FAULTY_SYNC, 0, 0);
        again.last_seen.ms += 50;
    }
    struct hx_store_request *got = kept_get_session(store, &session.key);
    assert_sessions_equal(&got->session, &session);
    hx_store_request_free(got);
    world_kill(world, 0);
    store = world_open(world, 0);
    got = kept_get_session(store, &session.key);
    assert_sessions_equal(&got->session, &session);
    hx_store_request_free(got);
    world_free(world);
}

static uint64_t synced_commits(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_inspect_facts facts;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_facts(inspect, &facts), 0);
    hx_inspect_close(inspect);
    return facts.synced_commits;
}

/* What the port calls synced is, and nothing else is: a call would wait for it. */
static void what_must_be_synced_is(void **state)
{
    static const struct {
        enum hx_store_kind kind;
        unsigned syncs;
    } cases[] = {
        {HX_STORE_SESSION_PUT, 1}, {HX_STORE_SESSION_PUT, 1},   {HX_STORE_SESSION_GET, 0},
        {HX_STORE_STREAM_PUT, 0},  {HX_STORE_SESSION_TOUCH, 0}, {HX_STORE_STREAM_GET, 0},
        {HX_STORE_STREAM_END, 1},  {HX_STORE_RESUME_PUT, 0},    {HX_STORE_RESUME_GET, 0},
        {HX_STORE_SESSION_END, 1},
    };
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t before = synced_commits(world);
        struct hx_store_request *request = hx_store_request_new(cases[i].kind, NULL);
        if (cases[i].kind <= HX_STORE_SESSION_END)
            request->session = session;
        else if (cases[i].kind <= HX_STORE_STREAM_GET)
            request->stream = kept_stream(&session, &record, "a");
        else
            request->resume =
                (struct hx_store_resume){.op = record.id, .attempt = 1, .text = HX_SPAN_LIT("1")};
        assert_kept(world_run(store, request), HX_STORE_DONE);
        if (synced_commits(world) - before != cases[i].syncs)
            print_error("case %zu\n", i);
        assert_int_equal(synced_commits(world) - before, cases[i].syncs);
    }
    /* What changes nothing costs nothing. */
    uint64_t before = synced_commits(world);
    assert_kept(kept_end(store, &session.key), HX_STORE_STALE);
    assert_int_equal(synced_commits(world), before);
    world_free(world);
}

static void spoil(struct world *world, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        print_error("%s: %s\n", sql, sqlite3_errmsg(db));
    assert_int_equal(code, SQLITE_OK);
    sqlite3_close(db);
}

struct findings {
    char text[4096];
};

static void collect(void *context, bool is_problem, const char *text)
{
    struct findings *findings = context;
    size_t len = strlen(findings->text);
    if (is_problem)
        snprintf(findings->text + len, sizeof(findings->text) - len, "%s\n", text);
}

static void verify_finds_what_is_wrong(void **state)
{
    static const struct {
        const char *sql;
        const char *needle;
    } cases[] = {
        {"SELECT 1", ""},
        {"UPDATE session SET key = x'00'", "key of 1 bytes"},
        {"UPDATE session_message SET session = 77", "session 77, which is not there"},
        {"UPDATE stream SET op = 77", "row 77, which is not there"},
        {"UPDATE resume SET op = 78", "row 78, which is not there"},
        {"UPDATE resume SET attempt = 9", "is of attempt 9"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(WORLD_SQLITE);
        struct told told = live(world, world_open(world, 0), 1);
        assert_int_equal(told.touched, HX_STORE_DONE);
        world_close(world, 0);
        spoil(world, cases[i].sql);
        struct findings findings = {{0}};
        struct hx_inspect *inspect = NULL;
        struct hx_verify_report report;
        struct hx_verify_listener listener = {.finding = collect, .context = &findings};
        assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
        assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
        hx_inspect_close(inspect);
        if (strstr(findings.text, cases[i].needle) == NULL)
            print_error("case %zu: %s\n", i, findings.text);
        assert_non_null(strstr(findings.text, cases[i].needle));
        assert_int_equal(report.problems, i == 0 ? 0 : 1);
        world_free(world);
    }
}

int main(void)
{
    faulty_vfs_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_write_fails_once),
        cmocka_unit_test(each_write_finds_the_disk_full),
        cmocka_unit_test(each_sync_fails_once),
        cmocka_unit_test(each_sync_fails_for_a_while),
        cmocka_unit_test(a_lost_answer_is_read_back),
        cmocka_unit_test(an_equal_one_before_proves_nothing),
        cmocka_unit_test(what_must_be_synced_is),
        cmocka_unit_test(verify_finds_what_is_wrong),
    };
    return cmocka_run_group_tests_name("store sessions, faults", tests, NULL, NULL);
}
