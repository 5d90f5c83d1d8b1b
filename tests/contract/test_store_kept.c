/* SPDX-License-Identifier: MIT */
/*
 * Sessions, streams and resume points, over both adapters: what was told stays, after a restart and
 * for every process; what ended is gone; preconditions leave nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kept.h"
#include "records.h"
#include "world.h"

static void what_was_put_is_found_whole(void **state)
{
    struct world *world = *state;
    static char message[HX_STORE_INITIALIZE_MAX];
    memset(message, 'm', sizeof(message));
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    for (unsigned i = 0; i < 3; i++) {
        struct hx_store_session session = kept_session(world, i);
        const size_t lens[] = {0, 3000, sizeof(message)};
        session.initialize = hx_span(message, lens[i]);
        if (i == 1)
            session.endpoint = HX_SPAN_NONE;
        assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
        struct hx_store_request *got = kept_get_session(other, &session.key);
        assert_int_equal(got->result, HX_STORE_DONE);
        assert_sessions_equal(&got->session, &session);
        hx_store_request_free(got);
    }
}

static void what_was_not_put_is_stale(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    struct hx_store_request *got = kept_get_session(store, &session.key);
    assert_int_equal(got->result, HX_STORE_STALE);
    assert_true(hx_span_is_absent(got->session.principal));
    assert_memory_equal(&got->session.key, &session.key, sizeof(session.key));
    hx_store_request_free(got);
    assert_kept(kept_touch(store, &session.key, world->now.wall), HX_STORE_STALE);
    assert_kept(kept_end(store, &session.key), HX_STORE_STALE);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_STALE);
    assert_kept(kept_get_stream(store, &session.key, HX_SPAN_LIT("s")), HX_STORE_STALE);
    struct hx_record record = world_record(world, 0, 1);
    assert_kept(kept_get_resume(store, &record.id), HX_STORE_STALE);
}

static void a_session_is_replaced_but_never_changes_hands(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    struct hx_store_session next = session;
    next.revision = HX_SPAN_LIT("2025-03-26");
    next.initialize = HX_SPAN_LIT("{\"other\":1}");
    next.created.ms += 5000;
    next.last_seen.ms += 5000;
    assert_kept(kept_put_session(store, &next), HX_STORE_DONE);
    next.created = session.created;
    struct hx_store_session theirs = session;
    theirs.principal = HX_SPAN_LIT("mallory");
    assert_kept(kept_put_session(store, &theirs), HX_STORE_STALE);
    theirs = session;
    theirs.tenant = HX_SPAN_LIT("elsewhere");
    assert_kept(kept_put_session(store, &theirs), HX_STORE_STALE);
    struct hx_store_request *got = kept_get_session(store, &session.key);
    assert_sessions_equal(&got->session, &next);
    hx_store_request_free(got);
}

static void a_touch_only_raises(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    struct hx_wall later = {session.last_seen.ms + 70};
    assert_kept(kept_touch(store, &session.key, later), HX_STORE_DONE);
    assert_kept(kept_touch(store, &session.key, session.last_seen), HX_STORE_DONE);
    session.last_seen = later;
    struct hx_store_request *got = kept_get_session(store, &session.key);
    assert_sessions_equal(&got->session, &session);
    hx_store_request_free(got);
}

static void an_ended_session_is_gone_with_its_streams(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    struct hx_store_session session = kept_session(world, 1), neighbour = kept_session(world, 2);
    struct hx_record record = world_record(world, 0, 1);
    assert_kept(kept_put_session(store, &neighbour), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    struct hx_store_stream stream = kept_stream(&session, &record, "a");
    assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
    struct hx_store_stream beside = kept_stream(&neighbour, &record, "a");
    assert_kept(kept_put_stream(store, &beside), HX_STORE_DONE);
    assert_kept(kept_end(other, &session.key), HX_STORE_DONE);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_STALE);
    assert_kept(kept_get_stream(store, &session.key, stream.name), HX_STORE_STALE);
    assert_kept(kept_put_stream(store, &stream), HX_STORE_STALE);
    assert_kept(kept_touch(store, &session.key, world->now.wall), HX_STORE_STALE);
    assert_kept(kept_end(store, &session.key), HX_STORE_STALE);
    assert_kept(kept_get_stream(store, &neighbour.key, beside.name), HX_STORE_DONE);
    /* Also when a session comes after it, of the same key or another. */
    struct hx_store_session third = kept_session(world, 3);
    assert_kept(kept_put_session(store, &third), HX_STORE_DONE);
    assert_kept(kept_get_stream(store, &third.key, stream.name), HX_STORE_STALE);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(kept_get_stream(store, &session.key, stream.name), HX_STORE_STALE);
}

static void a_stream_leads_to_its_operation(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    struct hx_store_session session = kept_session(world, 1), second = kept_session(world, 2);
    struct hx_record records[2] = {world_record(world, 0, 1), world_record(world, 0, 2)};
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &second), HX_STORE_DONE);
    for (unsigned i = 0; i < 2; i++)
        assert_kept(world_insert(store, &records[i]), HX_STORE_DONE);
    struct hx_store_stream streams[] = {
        kept_stream(&session, &records[0], "a"), kept_stream(&session, &records[1], "b"),
        kept_stream(&second, &records[1], "a"), /* the name is the session's own */
    };
    streams[2].request_id = HX_SPAN_LIT("\"id-7\"");
    for (unsigned i = 0; i < 3; i++)
        assert_kept(kept_put_stream(store, &streams[i]), HX_STORE_DONE);
    for (unsigned i = 0; i < 3; i++)
        assert_stream_is(other, &streams[i]);
    streams[0].op = records[1].id;
    streams[0].request_id = HX_SPAN_LIT("8");
    assert_kept(kept_put_stream(store, &streams[0]), HX_STORE_DONE);
    assert_stream_is(other, &streams[0]);
    /* Names that are prefixes of each other, and the end of what is allowed. */
    char longest[HX_STORE_STREAM_NAME_MAX];
    static char request_id[HX_STORE_STREAM_REQUEST_MAX];
    memset(longest, 'a', sizeof(longest));
    memset(request_id, '7', sizeof(request_id));
    streams[1].name = hx_span(longest, sizeof(longest));
    streams[1].request_id = hx_span(request_id, sizeof(request_id));
    assert_kept(kept_get_stream(store, &session.key, streams[1].name), HX_STORE_STALE);
    assert_kept(kept_put_stream(store, &streams[1]), HX_STORE_DONE);
    assert_stream_is(other, &streams[1]);
    assert_stream_is(other, &streams[0]);
}

/* A client takes a request back: its streams go, also that of a repeat of it, for every process and
 * after a restart; those of other requests and sessions stay. */
static void a_request_that_was_taken_back_has_no_stream(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    struct hx_store_session session = kept_session(world, 1), neighbour = kept_session(world, 2);
    struct hx_record record = world_record(world, 0, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &neighbour), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    struct hx_store_stream streams[] = {
        kept_stream(&session, &record, "a"), kept_stream(&session, &record, "b"),
        kept_stream(&session, &record, "c"), kept_stream(&neighbour, &record, "a")};
    streams[0].request_id = streams[1].request_id = streams[3].request_id = HX_SPAN_LIT("5");
    streams[2].request_id = HX_SPAN_LIT("\"5\"");
    for (unsigned i = 0; i < 4; i++)
        assert_kept(kept_put_stream(store, &streams[i]), HX_STORE_DONE);
    assert_kept(kept_end_streams(other, &session.key, HX_SPAN_LIT("5")), HX_STORE_DONE);
    assert_kept(kept_end_streams(store, &session.key, HX_SPAN_LIT("5")), HX_STORE_STALE);
    assert_kept(kept_end_streams(store, &session.key, HX_SPAN_NONE), HX_STORE_NOT_DONE);
    world_kill(world, 0);
    store = world_open(world, 0);
    for (unsigned i = 0; i < 2; i++)
        assert_kept(kept_get_stream(store, &session.key, streams[i].name), HX_STORE_STALE);
    assert_stream_is(store, &streams[2]);
    assert_stream_is(store, &streams[3]);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_DONE);
}

/* A claim and its stream in one flush: both are there, or neither. */
static void a_stream_rides_with_its_claim(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    for (unsigned round = 0; round < 2; round++) {
        struct hx_record record = world_record(world, 0, 5); /* the same identity twice */
        struct hx_store_stream stream = kept_stream(&session, &record, round == 0 ? "a" : "b");
        struct hx_store_request *insert = hx_store_request_new(HX_STORE_INSERT, NULL);
        struct hx_store_request *put = hx_store_request_new(HX_STORE_STREAM_PUT, NULL);
        insert->record = record;
        insert->mark_after = true;
        put->stream = stream;
        store->ops->submit(store, insert);
        store->ops->submit(store, put);
        store->ops->flush(store);
        assert_ptr_equal(world_take(store), insert);
        assert_ptr_equal(world_take(store), put);
        enum hx_store_result expected = round == 0 ? HX_STORE_DONE : HX_STORE_STALE;
        assert_int_equal(insert->is_marked, round == 0);
        assert_kept(insert, expected);
        assert_kept(put, expected);
        assert_kept(kept_get_stream(store, &session.key, stream.name), expected);
    }
}

static void a_resume_point_is_of_the_attempt_in_hand(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    static char text[HX_STORE_RESUME_MAX];
    memset(text, 'r', sizeof(text));
    struct hx_record record = world_record(world, 0, 1), neighbour = world_record(world, 0, 2);
    struct hx_store_resume point = {
        .op = record.id, .attempt = 1, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
    assert_kept(kept_put_resume(store, &point), HX_STORE_STALE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    assert_kept(world_insert(store, &neighbour), HX_STORE_DONE);
    assert_kept(kept_get_resume(store, &record.id), HX_STORE_STALE);
    assert_kept(kept_put_resume(store, &point), HX_STORE_DONE);
    assert_resume_is(other, &point);
    point.text = hx_span(text, sizeof(text));
    assert_kept(kept_put_resume(store, &point), HX_STORE_DONE);
    assert_resume_is(other, &point);
    assert_kept(kept_get_resume(store, &neighbour.id), HX_STORE_STALE);
    struct hx_store_resume early = {.op = record.id, .attempt = 2, .text = HX_SPAN_LIT("x")};
    assert_kept(kept_put_resume(store, &early), HX_STORE_STALE);
    /* The second attempt begins: the point of the first is still told, until there is a newer. */
    record.attempt.number = 2;
    record.fence = 2;
    record.earlier.open = 1;
    assert_kept(world_update(store, &record, 1), HX_STORE_DONE);
    assert_resume_is(other, &point);
    assert_kept(kept_put_resume(store, &point), HX_STORE_STALE);
    assert_kept(kept_put_resume(store, &early), HX_STORE_DONE);
    assert_resume_is(other, &early);
}

static void what_cannot_be_kept_is_not_done_with_a_sentence(void **state)
{
    struct world *world = *state;
    static char bytes[HX_STORE_INITIALIZE_MAX + 1];
    memset(bytes, 'x', sizeof(bytes));
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_session sound = kept_session(world, 1);
    assert_kept(kept_put_session(store, &sound), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    enum { COUNT = 8, SOUND = COUNT - 1 };
    struct hx_store_request *requests[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        static const enum hx_store_kind kinds[] = {HX_STORE_SESSION_PUT, HX_STORE_SESSION_PUT,
                                                   HX_STORE_STREAM_PUT,  HX_STORE_STREAM_PUT,
                                                   HX_STORE_RESUME_PUT,  HX_STORE_STREAM_PUT,
                                                   HX_STORE_RESUME_PUT,  HX_STORE_SESSION_TOUCH};
        requests[i] = hx_store_request_new(kinds[i], NULL);
    }
    requests[0]->session = kept_session(world, 2);
    requests[0]->session.initialize = hx_span(bytes, HX_STORE_INITIALIZE_MAX + 1);
    requests[1]->session = kept_session(world, 2);
    requests[1]->session.principal = hx_span(bytes, HX_STORE_SESSION_TEXT_MAX + 1);
    requests[2]->stream = kept_stream(&sound, &record, "a");
    requests[2]->stream.name = hx_span(bytes, HX_STORE_STREAM_NAME_MAX + 1);
    requests[3]->stream = kept_stream(&sound, &record, "a");
    requests[3]->stream.request_id = hx_span(bytes, HX_STORE_STREAM_REQUEST_MAX + 1);
    requests[4]->resume = (struct hx_store_resume){
        .op = record.id, .attempt = 1, .text = hx_span(bytes, HX_STORE_RESUME_MAX + 1)};
    requests[5]->stream = kept_stream(&sound, &record, "a");
    requests[5]->stream.name = HX_SPAN_NONE;
    requests[6]->resume = (struct hx_store_resume){.op = record.id, .attempt = 1};
    requests[SOUND]->session.key = sound.key; /* a neighbour in the same flush */
    for (unsigned i = 0; i < COUNT; i++)
        store->ops->submit(store, requests[i]);
    store->ops->flush(store);
    for (unsigned i = 0; i < COUNT; i++) {
        struct hx_store_request *request = world_take(store);
        assert_int_equal(request->error[0] != '\0', request != requests[SOUND]);
        assert_kept(request, request == requests[SOUND] ? HX_STORE_DONE : HX_STORE_NOT_DONE);
    }
    struct hx_store_session refused = kept_session(world, 2);
    assert_kept(kept_get_session(store, &refused.key), HX_STORE_STALE);
    assert_kept(kept_get_stream(store, &sound.key, HX_SPAN_LIT("a")), HX_STORE_STALE);
    assert_kept(kept_get_resume(store, &record.id), HX_STORE_STALE);
}

/* All of it survives the death of the process, at once: also what is not synced. */
static void a_restart_loses_nothing(void **state)
{
    struct world *world = *state;
    struct hx_store_session session = kept_session(world, 1), ended = kept_session(world, 2);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_stream stream = kept_stream(&session, &record, "a");
    struct hx_store_resume point = {
        .op = record.id, .attempt = 1, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    assert_kept(kept_put_session(store, &ended), HX_STORE_DONE);
    assert_kept(world_insert(store, &record), HX_STORE_DONE);
    assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
    assert_kept(kept_put_resume(store, &point), HX_STORE_DONE);
    session.last_seen.ms += 1;
    assert_kept(kept_touch(store, &session.key, session.last_seen), HX_STORE_DONE);
    assert_kept(kept_end(store, &ended.key), HX_STORE_DONE);
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            world_kill(world, 0);
        else
            world_close(world, 0);
        store = world_open(world, 0);
        struct hx_store_request *got = kept_get_session(store, &session.key);
        assert_int_equal(got->result, HX_STORE_DONE);
        assert_sessions_equal(&got->session, &session);
        hx_store_request_free(got);
        assert_kept(kept_get_session(store, &ended.key), HX_STORE_STALE);
        assert_stream_is(store, &stream);
        assert_resume_is(store, &point);
    }
}

/* The crash of a host takes what was not synced, the newest first, and never a session. */
static void a_crashed_host_keeps_what_was_synced(void **state)
{
    for (size_t survivors = 0; survivors <= 4; survivors++) {
        struct world *world = world_new(WORLD_MEMORY);
        struct hx_store *store = world_open(world, 0);
        struct hx_store_session session = kept_session(world, 1);
        struct hx_record record = world_record(world, 0, 1);
        struct hx_store_stream stream = kept_stream(&session, &record, "a");
        struct hx_store_resume first = {.op = record.id, .attempt = 1, .text = HX_SPAN_LIT("1")};
        struct hx_store_resume second = {.op = record.id, .attempt = 1, .text = HX_SPAN_LIT("2")};
        assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
        assert_kept(world_insert(store, &record), HX_STORE_DONE);
        assert_int_equal(hx_memory_ledger_unsynced(world->memory), 0);
        assert_kept(kept_put_stream(store, &stream), HX_STORE_DONE);
        assert_kept(kept_put_resume(store, &first), HX_STORE_DONE);
        assert_kept(kept_put_resume(store, &second), HX_STORE_DONE);
        struct hx_wall seen = {session.last_seen.ms + 9};
        assert_kept(kept_touch(store, &session.key, seen), HX_STORE_DONE);
        assert_int_equal(hx_memory_ledger_unsynced(world->memory), 4);
        world_kill(world, 0);
        hx_memory_ledger_lose_unsynced(world->memory, survivors);
        store = world_open(world, 0);
        if (survivors == 4)
            session.last_seen = seen;
        struct hx_store_request *got = kept_get_session(store, &session.key);
        assert_int_equal(got->result, HX_STORE_DONE);
        assert_sessions_equal(&got->session, &session);
        hx_store_request_free(got);
        assert_kept(kept_get_stream(store, &session.key, stream.name),
                    survivors >= 1 ? HX_STORE_DONE : HX_STORE_STALE);
        if (survivors >= 2)
            assert_resume_is(store, survivors >= 3 ? &second : &first);
        else
            assert_kept(kept_get_resume(store, &record.id), HX_STORE_STALE);
        world_free(world);
    }
}

/* A refused commit leaves nothing of it, and every one of them can be told so. */
static void a_refused_commit_leaves_nothing(void **state)
{
    struct world *world = world_new(WORLD_MEMORY);
    struct hx_store *store = world_open(world, 0);
    struct hx_store_session session = kept_session(world, 1);
    hx_memory_ledger_fail_at(world->memory, 1, HX_MEMORY_REFUSE);
    assert_kept(kept_put_session(store, &session), HX_STORE_NOT_DONE);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_STALE);
    assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
    hx_memory_ledger_fail_at(world->memory, 1, HX_MEMORY_REFUSE);
    assert_kept(kept_end(store, &session.key), HX_STORE_NOT_DONE);
    assert_kept(kept_get_session(store, &session.key), HX_STORE_DONE);
    world_free(world);
}

static int setup_memory(void **state)
{
    *state = world_new(WORLD_MEMORY);
    return 0;
}

static int setup_sqlite(void **state)
{
    *state = world_new(WORLD_SQLITE);
    return 0;
}

static int teardown(void **state)
{
    *state = world_free(*state);
    return 0;
}

#define BOTH(name)                                                                                 \
    {"memory: " #name, name, setup_memory, teardown, NULL},                                        \
    {                                                                                              \
        "sqlite: " #name, name, setup_sqlite, teardown, NULL                                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(what_was_put_is_found_whole),
        BOTH(what_was_not_put_is_stale),
        BOTH(a_session_is_replaced_but_never_changes_hands),
        BOTH(a_touch_only_raises),
        BOTH(an_ended_session_is_gone_with_its_streams),
        BOTH(a_stream_leads_to_its_operation),
        BOTH(a_request_that_was_taken_back_has_no_stream),
        BOTH(a_stream_rides_with_its_claim),
        BOTH(a_resume_point_is_of_the_attempt_in_hand),
        BOTH(what_cannot_be_kept_is_not_done_with_a_sentence),
        BOTH(a_restart_loses_nothing),
        cmocka_unit_test(a_crashed_host_keeps_what_was_synced),
        cmocka_unit_test(a_refused_commit_leaves_nothing),
    };
    return cmocka_run_group_tests_name("store sessions", tests, NULL, NULL);
}
