/* SPDX-License-Identifier: MIT */
/*
 * The outbox, over both adapters: an event exactly if its transition was committed, in order per
 * operation, one publisher at a time, and nothing at all where nobody wants one.
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
#include "adapter/store_sqlite/retention.h"
#include "base/fault.h"
#include "kept.h"
#include "world.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

static void keep_outbox(struct world *world)
{
    if (world->adapter == WORLD_MEMORY)
        hx_memory_ledger_keep_outbox(world->memory);
    else
        world->options.keeps_outbox = true;
}

static struct hx_store_request *due(struct hx_store *store, uint32_t limit)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_DUE, NULL);
    request->outbox.limit = limit;
    request->outbox.must_count = true;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    return request;
}

static void assert_pending(struct hx_store *store, unsigned expected)
{
    struct hx_store_request *request = due(store, 1);
    assert_int_equal(request->outbox.pending, expected);
    hx_store_request_free(request);
}

/* Tried at the moment of the event, for nothing depends on when. */
static enum hx_store_result mark(struct hx_store *store, const struct hx_store_event *event,
                                 enum hx_outbox_place place, uint32_t tries, int64_t not_before_ms)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_MARK, NULL);
    request->outbox.event = *event;
    request->outbox.event.place = place;
    request->outbox.event.tries = tries;
    request->outbox.event.tried = event->at;
    request->outbox.event.not_before.ms = not_before_ms;
    request->outbox.event.error = HX_SPAN_LIT("the receiver said 500");
    world_run(store, request);
    enum hx_store_result result = request->result;
    hx_store_request_free(request);
    return result;
}

/* The next state of the row, by somebody who holds the fence. */
static void move(struct hx_store *store, struct hx_record *record, enum hx_op_state to)
{
    uint64_t fence = record->fence;
    record->state = to;
    record->fence++;
    if (to == HX_OP_SUCCEEDED)
        record->attempt.state = HX_ATTEMPT_CONFIRMED;
    struct hx_store_request *request = world_update(store, record, fence);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static void insert(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = world_insert(store, record);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static enum hx_store_result claim(struct hx_store *store)
{
    struct hx_store_request *request =
        world_run(store, hx_store_request_new(HX_STORE_OUTBOX_CLAIM, NULL));
    enum hx_store_result result = request->result;
    hx_store_request_free(request);
    return result;
}

static void an_event_says_what_its_transition_was(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    insert(store, &record);
    assert_pending(store, 0); /* a claim is a step on its way */
    world->now.wall.ms += 700;
    record.settled = world->now;
    record.reason = HX_REASON_TRANSPORT_LOST;
    move(store, &record, HX_OP_UNKNOWN);
    struct hx_store_request *request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    const struct hx_store_event *event = &request->outbox.events[0];
    assert_int_equal(event->kind, HX_OUTBOX_UNKNOWN);
    assert_int_equal(event->state, HX_OP_UNKNOWN);
    assert_int_equal(event->reason, HX_REASON_TRANSPORT_LOST);
    assert_memory_equal(&event->op, &record.id, sizeof(record.id));
    assert_false(hx_id_is_nil(&event->id));
    assert_true(hx_span_eq(event->server, record.server));
    assert_true(hx_span_eq(event->tool, record.tool));
    assert_int_equal(event->attempt, 1);
    assert_int_equal(event->at.ms, world->now.wall.ms);
    assert_int_equal(event->created.ms, world->now.wall.ms - 700);
    assert_int_equal(event->settled.ms, world->now.wall.ms);
    assert_int_equal(event->tries, 0);
    assert_int_equal(request->outbox.pending, 1);
    hx_store_request_free(request);
}

static void nobody_wants_one_and_nothing_is_written(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    insert(store, &record);
    move(store, &record, HX_OP_SUCCEEDED);
    assert_pending(store, 0);
}

/* INV-16. A write that changed no row has no event, and one that did has. */
static void a_stale_write_has_no_event(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    insert(store, &record);
    struct hx_record next = record;
    next.state = HX_OP_UNKNOWN;
    next.fence = 9;
    struct hx_store_request *request = world_update(store, &next, 8);
    assert_int_equal(request->result, HX_STORE_STALE);
    hx_store_request_free(request);
    assert_pending(store, 0);
    move(store, &record, HX_OP_UNKNOWN);
    assert_pending(store, 1);
    request = world_insert(store, &record); /* its identity is taken */
    assert_int_equal(request->result, HX_STORE_STALE);
    hx_store_request_free(request);
    assert_pending(store, 1);
}

static void both_rows_of_a_commit_are_announced(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    record.state = HX_OP_UNKNOWN;
    insert(store, &record);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = record;
    request->record.fence = 2;
    request->record.is_superseded = true;
    request->expected_fence = 1;
    request->second = world_record(world, 0, 2);
    request->second.identity = record.identity;
    request->second.generation = 1;
    request->second.state = HX_OP_AWAITING_APPROVAL;
    request->has_second = true;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
    request = due(store, 9);
    /* The first two are of one operation, so only the first is given. */
    assert_int_equal(request->outbox.pending, 3);
    assert_int_equal(request->outbox.event_count, 2);
    assert_int_equal(request->outbox.events[0].kind, HX_OUTBOX_UNKNOWN);
    assert_int_equal(request->outbox.events[1].kind, HX_OUTBOX_AWAITING_APPROVAL);
    assert_int_equal(mark(store, &request->outbox.events[0], HX_OUTBOX_DELIVERED, 1, 0),
                     HX_STORE_DONE);
    hx_store_request_free(request);
    request = due(store, 9);
    assert_int_equal(request->outbox.events[0].kind, HX_OUTBOX_RESOLVED);
    hx_store_request_free(request);
}

static void none_overtakes_an_older_one_of_its_operation(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record first = world_record(world, 0, 1), second = world_record(world, 0, 2);
    insert(store, &first);
    insert(store, &second);
    move(store, &first, HX_OP_UNKNOWN);
    move(store, &first, HX_OP_SUCCEEDED);
    move(store, &second, HX_OP_UNKNOWN);
    struct hx_store_request *request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 2);
    struct hx_store_event unknown = request->outbox.events[0];
    assert_int_equal(unknown.kind, HX_OUTBOX_UNKNOWN);
    assert_memory_equal(&unknown.op, &first.id, sizeof(first.id));
    assert_memory_equal(&request->outbox.events[1].op, &second.id, sizeof(second.id));
    assert_true(unknown.number < request->outbox.events[1].number);
    hx_store_request_free(request);
    /* Put off: the one behind it waits too. Parked: it still does. Delivered: it goes. */
    int64_t later_ms = world->now.wall.ms + 5000;
    assert_int_equal(mark(store, &unknown, HX_OUTBOX_PENDING, 1, later_ms), HX_STORE_DONE);
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    assert_memory_equal(&request->outbox.events[0].op, &second.id, sizeof(second.id));
    hx_store_request_free(request);
    world->now.wall.ms = later_ms;
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 2);
    for (unsigned i = 0; i < 2; i++)
        if (request->outbox.events[i].number == unknown.number)
            assert_int_equal(request->outbox.events[i].tries, 1);
    hx_store_request_free(request);
    assert_int_equal(mark(store, &unknown, HX_OUTBOX_PARKED, 20, later_ms), HX_STORE_DONE);
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    assert_int_equal(request->outbox.parked, 1);
    hx_store_request_free(request);
    assert_int_equal(mark(store, &unknown, HX_OUTBOX_DELIVERED, 20, later_ms), HX_STORE_DONE);
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 2);
    assert_int_equal(request->outbox.parked, 0);
    hx_store_request_free(request);
    /* What is over stays so. */
    assert_int_equal(mark(store, &unknown, HX_OUTBOX_PENDING, 0, 0), HX_STORE_STALE);
    unknown.number = 4711;
    assert_int_equal(mark(store, &unknown, HX_OUTBOX_DELIVERED, 0, 0), HX_STORE_STALE);
}

static void one_publishes_as_long_as_it_lives(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_store *other = world_open(world, 1);
    assert_int_equal(claim(store), HX_STORE_DONE);
    assert_int_equal(claim(other), HX_STORE_STALE);
    assert_int_equal(claim(store), HX_STORE_DONE);
    world_kill(world, 0);
    assert_int_equal(claim(other), HX_STORE_DONE);
    store = world_open(world, 0);
    assert_int_equal(claim(store), HX_STORE_STALE);
    world_close(world, 1);
    assert_int_equal(claim(store), HX_STORE_DONE);
}

/* Processes of one ledger may be set up differently; whether there is an outbox is the ledger's. */
static void a_process_without_one_announces_too(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *configured = world_open(world, 0);
    world->options.keeps_outbox = false;
    struct hx_store *other = world_open(world, 1);
    struct hx_record record = world_record(world, 1, 1);
    insert(other, &record);
    move(other, &record, HX_OP_SUCCEEDED);
    assert_pending(configured, 1);
    assert_pending(other, 1);
    world_close(world, 0);
    world_close(world, 1);
    other = world_open(world, 1); /* and it stays so when nobody wants it any more */
    struct hx_record second = world_record(world, 1, 2);
    insert(other, &second);
    move(other, &second, HX_OP_UNKNOWN);
    assert_pending(other, 2);
}

static void a_spooled_outcome_is_announced_when_it_is_applied(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    insert(store, &record);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SPOOL, NULL);
    request->record = record;
    request->record.state = HX_OP_SUCCEEDED;
    request->record.attempt.state = HX_ATTEMPT_CONFIRMED;
    request->record.outcome.kind = HX_OUTCOME_RESULT;
    request->record.outcome.bytes = HX_SPAN_LIT("{}");
    request->record.outcome.size = 2;
    request->expected_fence = 1;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
    world_kill(world, 0);
    store = world_open(world, 0);
    hx_store_request_free(world_find_id(store, &record.id)); /* judges the dead owner */
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    assert_int_equal(request->outbox.events[0].kind, HX_OUTBOX_SUCCEEDED);
    assert_true(hx_span_eq(request->outbox.events[0].tool, record.tool));
    hx_store_request_free(request);
}

static void a_clock_that_jumped_back_stops_nothing_for_ever(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    world->now.wall.ms += 400 * DAY_MS;
    insert(store, &record);
    move(store, &record, HX_OP_UNKNOWN);
    world->now.wall.ms -= 399 * DAY_MS; /* what was never tried waits for no clock at all */
    struct hx_store_request *request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    world->now.wall.ms += 399 * DAY_MS;
    assert_int_equal(mark(store, &request->outbox.events[0], HX_OUTBOX_PENDING, 1,
                          world->now.wall.ms + 3600 * 1000),
                     HX_STORE_DONE);
    hx_store_request_free(request);
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 0);
    hx_store_request_free(request);
    world->now.wall.ms -= 1000; /* by a second, or by years */
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    hx_store_request_free(request);
    world->now.wall.ms -= 400 * DAY_MS;
    request = due(store, 9);
    assert_int_equal(request->outbox.event_count, 1);
    hx_store_request_free(request);
}

/* Fresh events never keep one waiting that was put off and is due. */
static void what_was_put_off_comes_first(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct hx_record record = world_record(world, 0, i);
        insert(store, &record);
        move(store, &record, HX_OP_UNKNOWN);
    }
    struct hx_store_request *request = due(store, 9);
    struct hx_store_event first = request->outbox.events[0], third = request->outbox.events[2];
    hx_store_request_free(request);
    int64_t now_ms = world->now.wall.ms;
    assert_int_equal(mark(store, &third, HX_OUTBOX_PENDING, 1, now_ms + 100), HX_STORE_DONE);
    assert_int_equal(mark(store, &first, HX_OUTBOX_PENDING, 1, now_ms + 200), HX_STORE_DONE);
    world->now.wall.ms += 200;
    request = due(store, 3);
    assert_int_equal(request->outbox.event_count, 3);
    assert_int_equal(request->outbox.events[0].number, third.number);
    assert_int_equal(request->outbox.events[1].number, first.number);
    assert_int_equal(request->outbox.events[2].number, 2);
    hx_store_request_free(request);
}

static void the_limit_holds_and_the_oldest_come_first(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 9; i++) {
        struct hx_record record = world_record(world, 0, i);
        insert(store, &record);
        world->now.wall.ms++;
        move(store, &record, HX_OP_UNKNOWN);
    }
    struct hx_store_request *request = due(store, 4);
    assert_int_equal(request->outbox.event_count, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(request->outbox.events[i].number, i + 1);
    hx_store_request_free(request);
}

/* Random writes of three processes, some of which fail or are killed: the events are exactly those
 * of the writes that were told to be done (INV-16). */
static void events_equal_transitions(void **state)
{
    enum { ROUNDS = 600, ROWS = 20 };
    struct world *world = *state;
    struct hx_record rows[ROWS];
    unsigned done = 0;
    keep_outbox(world);
    for (int i = 0; i < WORLD_PROCESSES; i++)
        world_open(world, i);
    for (unsigned i = 0; i < ROWS; i++) {
        rows[i] = world_record(world, 0, i);
        insert(world->stores[0], &rows[i]);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        int process = (int)(world_random(world) % WORLD_PROCESSES);
        struct hx_record *row = &rows[world_random(world) % ROWS];
        bool is_stale = world_random(world) % 4 == 0;
        struct hx_record next = *row;
        next.state = row->state == HX_OP_RUNNING ? HX_OP_UNKNOWN : HX_OP_RUNNING;
        next.fence++;
        next.attempt.number++;
        if (world->adapter == WORLD_MEMORY && world_random(world) % 10 == 0)
            hx_memory_ledger_fail_at(world->memory, 1, HX_MEMORY_REFUSE);
        struct hx_store_request *request =
            world_update(world->stores[process], &next, is_stale ? row->fence + 7 : row->fence);
        assert_int_equal(is_stale && request->result == HX_STORE_DONE, 0);
        if (request->result == HX_STORE_DONE) {
            done += next.state == HX_OP_UNKNOWN;
            *row = next;
        }
        hx_store_request_free(request);
        if (world_random(world) % 50 == 0) {
            world_kill(world, process);
            world_open(world, process);
        }
        if (round % 50 == 0)
            assert_pending(world->stores[0], done);
    }
    assert_true(done > 50);
    assert_pending(world->stores[0], done);
}

/* ---- of the file alone ---- */

/* A Hapax that knows of no outbox, with the ledger open when one is begun: it cannot make a
 * transition that nobody is told of. */
static void an_older_process_cannot_write_beside_it(void **state)
{
    struct world *world = *state;
    sqlite3 *older = NULL;
    const char *line =
        "INSERT INTO history(op, seq, at, kind, from_state, to_state, reason, fence, attempt,"
        " attempt_state, earlier) VALUES (0, (SELECT coalesce(max(seq), 0) + 1 FROM history WHERE"
        " op = 0), 1, 4, 0, 0, 0, 0, 0, 0, 0)";
    world_open(world, 0);
    assert_int_equal(sqlite3_open(world->path, &older), SQLITE_OK);
    sqlite3_busy_timeout(older, 5000);
    assert_int_equal(sqlite3_exec(older, line, NULL, NULL, NULL), SQLITE_OK);
    keep_outbox(world);
    world_open(world, 1);
    assert_int_equal(sqlite3_exec(older, line, NULL, NULL, NULL), SQLITE_ERROR);
    sqlite3_close(older);
    /* Those that know of it go on, whoever began it. */
    struct hx_record record = world_record(world, 0, 1);
    insert(world->stores[0], &record);
    move(world->stores[0], &record, HX_OP_UNKNOWN);
    assert_pending(world->stores[1], 1);
}

static bool count_one(void *context, const struct hx_store_event *event)
{
    (void)event;
    ++*(unsigned *)context;
    return true;
}

static unsigned count_in(struct hx_inspect *inspect, unsigned places)
{
    unsigned count = 0;
    assert_int_equal(hx_inspect_events(inspect, places, NULL, false, 0, count_one, &count), 0);
    return count;
}

#define IN(place) (1U << HX_OUTBOX_##place)

static void a_person_drives_again_drops_and_ends(void **state)
{
    struct world *world = *state;
    struct hx_inspect *inspect = NULL;
    struct hx_inspect_outbox outbox;
    struct hx_arena arena;
    uint64_t count = 0;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct hx_record record = world_record(world, 0, i);
        insert(store, &record);
        move(store, &record, HX_OP_UNKNOWN);
    }
    struct hx_store_request *request = due(store, 9);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(mark(store, &request->outbox.events[i], HX_OUTBOX_PARKED, 20, 0), 0);
    assert_int_equal(claim(store), HX_STORE_DONE);
    world->options.keeps_outbox = false;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_outbox(inspect, &outbox), 0);
    assert_true(outbox.has_publisher);
    assert_int_equal(outbox.since.ms, world->now.wall.ms);
    assert_int_equal(outbox.parked, 2);
    assert_int_equal(outbox.pending, 1);
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&request->outbox.events[0].id, id);
    struct hx_store_event event;
    hx_arena_init(&arena, 4096);
    assert_int_equal(hx_inspect_event(inspect, hx_span_cstr(id + 28), &arena, &event), 1);
    assert_int_equal(event.number, request->outbox.events[0].number);
    assert_int_equal(event.tries, 20);
    assert_true(hx_span_eq_cstr(event.error, "the receiver said 500"));
    assert_int_equal(hx_inspect_event(inspect, HX_SPAN_LIT("000000000"), &arena, &event), 0);
    assert_int_equal(hx_inspect_event(inspect, HX_SPAN_LIT("x"), &arena, &event), 0);
    assert_int_equal(hx_inspect_events_again(inspect, event.number, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(count_in(inspect, IN(PARKED)), 1);
    assert_int_equal(hx_inspect_events_again(inspect, 0, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(count_in(inspect, IN(PENDING)), 3);
    assert_int_equal(hx_inspect_event_drop(inspect, event.number, HX_SPAN_LIT("old"), &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(hx_inspect_event_drop(inspect, event.number, HX_SPAN_LIT("old"), &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(hx_inspect_events_again(inspect, event.number, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(count_in(inspect, IN(DROPPED)), 1);
    /* Not while somebody publishes. */
    assert_true(hx_inspect_outbox_end(inspect, HX_SPAN_LIT("no more"), &count) < 0);
    world_close(world, 0);
    assert_int_equal(hx_inspect_outbox_end(inspect, HX_SPAN_LIT("no more"), &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(count_in(inspect, IN(PENDING) | IN(PARKED)), 0);
    hx_inspect_close(inspect);
    hx_arena_fini(&arena);
    hx_store_request_free(request);
    store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 9);
    insert(store, &record);
    move(store, &record, HX_OP_UNKNOWN);
    assert_pending(store, 0);
}

static void sweep(struct world *world)
{
    struct hx_ledger ledger;
    struct hx_aftermath aftermath = {0};
    struct hx_sweep position = {0};
    struct hx_id nobody = {{0}};
    int rc = HX_SWEEP_MORE;
    assert_int_equal(hx_ledger_open(&ledger, &world->options, &nobody), 0);
    while (rc == HX_SWEEP_MORE)
        rc = hx_sweep_step(&position, &ledger, &aftermath);
    assert_int_equal(rc, 0);
    hx_aftermath_fini(&aftermath);
    hx_ledger_close(&ledger);
}

static void what_was_delivered_goes_and_the_rest_stays(void **state)
{
    struct world *world = *state;
    struct hx_inspect *inspect = NULL;
    keep_outbox(world);
    world->options.event_keep_ms = 2 * DAY_MS;
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct hx_record record = world_record(world, 0, i);
        insert(store, &record);
        move(store, &record, HX_OP_UNKNOWN);
    }
    struct hx_store_request *request = due(store, 9);
    assert_int_equal(mark(store, &request->outbox.events[0], HX_OUTBOX_DELIVERED, 1, 0), 0);
    assert_int_equal(mark(store, &request->outbox.events[1], HX_OUTBOX_PARKED, 1, 0), 0);
    hx_store_request_free(request);
    struct hx_record last = world_record(world, 0, 7); /* its commit takes the ledger's age along */
    world_close(world, 0);
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    world->now.wall.ms += DAY_MS;
    world->now.mono.ms += DAY_MS;
    sweep(world);
    assert_int_equal(count_in(inspect, IN(PENDING) | IN(PARKED) | IN(DELIVERED)), 3);
    world->now.wall.ms += 40 * DAY_MS;
    world->now.mono.ms += 40 * DAY_MS;
    store = world_open(world, 0);
    insert(store, &last);
    world_close(world, 0);
    world->options.keeps_outbox = false; /* a process that knows nothing of how long */
    sweep(world);
    assert_int_equal(count_in(inspect, IN(DELIVERED)), 1);
    world->options.keeps_outbox = true;
    sweep(world);
    assert_int_equal(count_in(inspect, IN(PENDING) | IN(PARKED)), 2);
    assert_int_equal(count_in(inspect, IN(DELIVERED)), 0);
    hx_inspect_close(inspect);
}

static int problems;

static void hear(void *context, bool is_problem, const char *text)
{
    (void)context;
    (void)text;
    problems += is_problem;
}

static int verify(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    problems = 0;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    hx_inspect_close(inspect);
    return problems;
}

static void run_sql(struct world *world, const char *sql)
{
    struct hx_ledger ledger;
    struct hx_id nobody = {{0}};
    assert_int_equal(hx_ledger_open(&ledger, &world->options, &nobody), 0);
    assert_int_equal(sqlite3_exec(ledger.db, sql, NULL, NULL, NULL), SQLITE_OK);
    hx_ledger_close(&ledger);
}

static void verify_notices_what_is_missing_or_invented(void **state)
{
    struct world *world = *state;
    keep_outbox(world);
    struct hx_store *store = world_open(world, 0);
    world->now.wall.ms += 10;
    for (unsigned i = 0; i < 2; i++) {
        struct hx_record record = world_record(world, 0, i);
        record.attempt.is_marked = true;
        record.attempt.marked_at = record.first_mark = world->now;
        insert(store, &record);
        record.settled = world->now;
        move(store, &record, HX_OP_UNKNOWN);
    }
    world_close(world, 0);
    assert_int_equal(verify(world), 0);
    run_sql(world, "UPDATE outbox SET state = 6 WHERE number = 1");
    assert_true(verify(world) > 0);
    run_sql(world, "UPDATE outbox SET state = 7 WHERE number = 1");
    assert_int_equal(verify(world), 0);
    run_sql(world, "DELETE FROM outbox WHERE number = 2");
    assert_true(verify(world) > 0);
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

#define SQLITE(name)                                                                               \
    {                                                                                              \
        "sqlite: " #name, name, setup_sqlite, teardown, NULL                                       \
    }
#define BOTH(name) {"memory: " #name, name, setup_memory, teardown, NULL}, SQLITE(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(an_event_says_what_its_transition_was),
        BOTH(nobody_wants_one_and_nothing_is_written),
        BOTH(a_stale_write_has_no_event),
        BOTH(both_rows_of_a_commit_are_announced),
        BOTH(none_overtakes_an_older_one_of_its_operation),
        BOTH(one_publishes_as_long_as_it_lives),
        BOTH(a_process_without_one_announces_too),
        BOTH(a_spooled_outcome_is_announced_when_it_is_applied),
        BOTH(a_clock_that_jumped_back_stops_nothing_for_ever),
        BOTH(what_was_put_off_comes_first),
        BOTH(the_limit_holds_and_the_oldest_come_first),
        BOTH(events_equal_transitions),
        SQLITE(an_older_process_cannot_write_beside_it),
        SQLITE(a_person_drives_again_drops_and_ends),
        SQLITE(what_was_delivered_goes_and_the_rest_stays),
        SQLITE(verify_notices_what_is_missing_or_invented),
    };
    return cmocka_run_group_tests_name("store outbox", tests, NULL, NULL);
}
