/* SPDX-License-Identifier: MIT */
/*
 * What becomes of sessions, streams and resume points with time: a session goes when nobody used it
 * for a while, the others with their session or with the payload of their operation. It is done bit
 * by bit, and no clock that jumps makes anything old.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/retention.h"
#include "kept.h"
#include "world.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

static void pass_ms(struct world *world, int64_t ms)
{
    world->now.wall.ms += ms;
    world->now.mono.ms += ms;
}

struct swept {
    unsigned steps;
    int64_t changes_max; /* rows changed by one step */
};

/* A whole round. */
static struct swept sweep(struct world *world)
{
    struct hx_ledger ledger;
    struct hx_aftermath aftermath = {0};
    struct hx_sweep position = {0};
    struct hx_id nobody = {{0}};
    struct swept swept = {0};
    int rc = HX_SWEEP_MORE;
    assert_int_equal(hx_ledger_open(&ledger, &world->options, &nobody), 0);
    while (rc == HX_SWEEP_MORE) {
        int64_t before = sqlite3_total_changes64(ledger.db);
        rc = hx_sweep_step(&position, &ledger, &aftermath);
        int64_t changes = sqlite3_total_changes64(ledger.db) - before;
        swept.changes_max = changes > swept.changes_max ? changes : swept.changes_max;
        swept.steps++;
        assert_true(swept.steps < 10000);
    }
    assert_int_equal(rc, 0);
    hx_aftermath_fini(&aftermath);
    hx_ledger_close(&ledger);
    return swept;
}

/* Only a test may look into the database beside Hapax, and only while nobody writes. */
static int64_t count(struct world *world, const char *table)
{
    struct hx_ledger ledger;
    struct hx_id nobody = {{0}};
    char sql[64];
    sqlite3_stmt *stmt = NULL;
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    assert_int_equal(hx_ledger_open(&ledger, &world->options, &nobody), 0);
    assert_int_equal(sqlite3_prepare_v2(ledger.db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t rows = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    hx_ledger_close(&ledger);
    return rows;
}

static void an_idle_session_goes(int64_t set_ms, int64_t expected_ms)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.session_idle_ms = set_ms;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session idle = kept_session(world, 1), touched = kept_session(world, 2),
                            put = kept_session(world, 3);
    struct hx_record record = world_record(world, 0, 1);
    assert_kept(kept_put_session(store, &idle), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &touched), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &put), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    struct hx_store_stream of_idle = kept_stream(&idle, &record, "a"),
                           of_touched = kept_stream(&touched, &record, "a");
    assert_kept(kept_put_stream(store, &of_idle), HX_STORE_DONE);
    assert_kept(kept_put_stream(store, &of_touched), HX_STORE_DONE);
    pass_ms(world, expected_ms - 1000);
    assert_kept(kept_touch(store, &touched.key, (struct hx_wall){0}), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &put), HX_STORE_DONE);
    sweep(world);
    assert_kept(kept_get_session(store, &idle.key), HX_STORE_DONE);
    pass_ms(world, 1001);
    sweep(world);
    assert_kept(kept_get_session(store, &idle.key), HX_STORE_STALE);
    assert_kept(kept_get_stream(store, &idle.key, of_idle.name), HX_STORE_STALE);
    assert_kept(kept_touch(store, &idle.key, world->now.wall), HX_STORE_STALE);
    assert_kept(kept_get_session(store, &touched.key), HX_STORE_DONE);
    assert_kept(kept_get_session(store, &put.key), HX_STORE_DONE);
    assert_stream_is(store, &of_touched);
    assert_int_equal(count(world, "session"), 2);
    assert_int_equal(count(world, "session_message"), 2);
    assert_int_equal(count(world, "stream"), 1);
    world_free(world);
}

static void idle_sessions_go(void **state)
{
    an_idle_session_goes(0, 7 * DAY_MS);
    an_idle_session_goes(3600 * 1000, 3600 * 1000);
}

static void a_jumping_clock_ends_no_session(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    world->now.wall.ms += 1000 * DAY_MS;
    sweep(world);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_DONE);
    world_free(world);
}

static struct hx_record ended(const struct hx_record *record)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.bytes = HX_SPAN_LIT("{}");
    next.outcome.size = 2;
    return next;
}

static struct hx_store_resume point_of(const struct hx_record *record)
{
    return (struct hx_store_resume){.op = record->id, .attempt = 1, .text = HX_SPAN_LIT("{}")};
}

/* What leads to an outcome goes with it, and not before; that of an open operation stays. A small
 * one, without arguments and cancelled, has nothing else that would go. */
static void streams_and_points_go_with_the_payload(void **state)
{
    enum { ENDED, EMPTY, RUNNING, COUNT };
    struct world *world = world_new(WORLD_SQLITE);
    world->options.session_idle_ms = 900 * DAY_MS;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    struct hx_record records[COUNT];
    static const char *const names[] = {"a", "b", "c"};
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    for (unsigned i = 0; i < COUNT; i++) {
        records[i] = world_record(world, 0, i);
        if (i == EMPTY)
            records[i].arguments = HX_SPAN_NONE;
        struct hx_store_stream stream = kept_stream(&session, &records[i], names[i]);
        struct hx_store_resume point = point_of(&records[i]);
        assert_kept(world_insert(store, &records[i]), HX_STORE_DONE);
        assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
        assert_kept(kept_put_resume(store, &point), HX_STORE_DONE);
        struct hx_record next = ended(&records[i]);
        if (i == EMPTY) {
            next.state = HX_OP_CANCELLED;
            next.outcome = (struct hx_outcome){0};
        }
        if (i != RUNNING)
            assert_kept(world_update(store, &next, 1), HX_STORE_DONE);
        if (i == EMPTY)
            assert_kept(world_touch(store, &records[i].id, (struct hx_store_touch){.cool = true}),
                        HX_STORE_DONE);
    }
    static const struct {
        int64_t days;
        bool has_ended; /* streams of what ended are there still */
    } times[] = {{6, true}, {2, false}, {25, false}};
    for (unsigned t = 0; t < 3; t++) {
        pass_ms(world, times[t].days * DAY_MS);
        sweep(world);
        for (unsigned i = 0; i < COUNT; i++) {
            bool is_there = i == RUNNING || times[t].has_ended;
            enum hx_store_result expected = is_there ? HX_STORE_DONE : HX_STORE_STALE;
            assert_kept(kept_get_stream(store, &session.key, hx_span_cstr(names[i])), expected);
            assert_kept(kept_get_resume(store, &records[i].id), expected);
        }
        assert_int_equal(count(world, "stream"), times[t].has_ended ? 3 : 1);
        assert_int_equal(count(world, "resume"), times[t].has_ended ? 3 : 1);
    }
    world_free(world);
}

/* A session with thousands of streams ends at once; they are taken away in small steps, and no
 * other's are. */
static void many_streams_go_bit_by_bit(void **state)
{
    enum { STREAMS = 3000 };
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1), other = kept_session(world, 2);
    struct hx_record record = world_record(world, 0, 1);
    static char names[STREAMS][8];
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &other), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    for (unsigned i = 0; i < STREAMS; i++) {
        snprintf(names[i], sizeof(names[i]), "%u", i);
        struct hx_store_request *put = hx_store_request_new(HX_STORE_STREAM_PUT, NULL);
        put->stream = kept_stream(i % 100 == 0 ? &other : &session, &record, names[i]);
        store->ops->submit(store, put);
    }
    store->ops->flush(store);
    for (unsigned i = 0; i < STREAMS; i++)
        assert_kept(world_take(store), HX_STORE_DONE);
    assert_kept(kept_end(store, &session.key), HX_STORE_DONE);
    assert_int_equal(count(world, "stream"), STREAMS);
    struct swept swept = sweep(world);
    assert_int_equal(count(world, "stream"), STREAMS / 100);
    assert_in_range(swept.changes_max, 1, 512);
    assert_in_range(swept.steps, STREAMS / 512, 20);
    assert_kept(kept_get_stream(store, &other.key, hx_span_cstr(names[0])), HX_STORE_DONE);
    world_free(world);
}

/* Proofs of dead processes go; that of a living one stays. */
static void proofs_go_with_their_process(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    for (int process = 0; process < 3; process++) {
        struct hx_store_session session = kept_session(world, (unsigned)process);
        assert_kept(kept_put_session(world_open(world, process), &session), HX_STORE_DONE);
    }
    world_kill(world, 0);
    world_close(world, 1);
    assert_int_equal(count(world, "proof"), 3);
    sweep(world);
    assert_int_equal(count(world, "proof"), 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_sessions_go),
        cmocka_unit_test(a_jumping_clock_ends_no_session),
        cmocka_unit_test(streams_and_points_go_with_the_payload),
        cmocka_unit_test(many_streams_go_bit_by_bit),
        cmocka_unit_test(proofs_go_with_their_process),
    };
    return cmocka_run_group_tests_name("store sessions, retention", tests, NULL, NULL);
}
