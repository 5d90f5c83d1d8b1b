/* SPDX-License-Identifier: MIT */
/*
 * What becomes of rows with time: payloads go after a week, rows after a month and behind the
 * low-water mark only, tombstones after 400 days; what is open, unknown or disputed stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/retention.h"
#include "base/alloc.h"
#include "world.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

static void done(struct hx_store_request *request)
{
    if (request->result != HX_STORE_DONE)
        print_error("%s\n", request->error);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static void settle(struct world *world, struct hx_record *record, enum hx_op_state state)
{
    static char large[HX_STORE_INLINE_MAX + 1];
    record->state = state;
    record->attempt.state = state == HX_OP_SUCCEEDED ? HX_ATTEMPT_CONFIRMED : record->attempt.state;
    record->updated = world->now;
    if (state == HX_OP_SUCCEEDED) {
        record->outcome.kind = HX_OUTCOME_RESULT;
        record->outcome.bytes = hx_span(large, sizeof(large));
        record->outcome.size = sizeof(large);
    }
    done(world_update(world->stores[0], record, 1));
}

static void pass_days(struct world *world, int64_t days)
{
    world->now.wall.ms += days * DAY_MS;
    world->now.mono.ms += days * DAY_MS;
}

/* A whole round. */
static void sweep(struct world *world)
{
    struct hx_ledger ledger;
    struct hx_aftermath aftermath = {0};
    struct hx_sweep position = {0};
    struct hx_id nobody = {{0}};
    assert_int_equal(hx_ledger_open(&ledger, &world->options, &nobody), 0);
    int rc;
    while ((rc = hx_sweep_step(&position, &ledger, &aftermath)) == HX_SWEEP_MORE) {
    }
    assert_int_equal(rc, 0);
    hx_aftermath_fini(&aftermath);
    hx_ledger_close(&ledger);
}

static void run_sql(struct world *world, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static enum hx_op_state state_of(struct world *world, const struct hx_record *record)
{
    struct hx_store_request *request = world_find(world->stores[0], record, true, false);
    enum hx_op_state state =
        request->record_count == 0 ? HX_OP_ABSENT : request->records[0].record.state;
    hx_store_request_free(request);
    return state;
}

static bool has_payload(struct world *world, const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    request->record.id = record->id;
    world_run(world->stores[0], request);
    bool answer = !hx_span_is_absent(request->payload);
    hx_store_request_free(request);
    return answer;
}

static void rows_go_in_their_time(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    enum { PLAIN, TIMED, KEYLESS, UNKNOWN, DISPUTED, RUNNING, COUNT };
    struct hx_record records[COUNT];
    char timed_key[HX_ID_TEXT_SIZE];
    world_open(world, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        records[i] = world_record(world, 0, i);
        hx_id_format(&records[i].id, timed_key);
        if (i == TIMED)
            records[i].key = hx_span(timed_key, HX_ID_TEXT_SIZE - 1);
        if (i == KEYLESS)
            records[i].key_source = HX_KEY_NONE;
        records[i].identity = hx_record_identity(world->hasher, &records[i], false);
        done(world_insert(world->stores[0], &records[i]));
        if (i == RUNNING)
            continue;
        records[i].is_disputed = i == DISPUTED;
        settle(world, &records[i], i == UNKNOWN ? HX_OP_UNKNOWN : HX_OP_SUCCEEDED);
    }
    sweep(world);
    assert_true(has_payload(world, &records[PLAIN]));
    pass_days(world, 8);
    sweep(world);
    assert_false(has_payload(world, &records[PLAIN]));
    assert_true(has_payload(world, &records[DISPUTED]));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_not_equal(state_of(world, &records[i]), HX_OP_ABSENT);
    assert_int_equal(world->stores[0]->ops->low_water(world->stores[0]).ms, 0);
    pass_days(world, 23);
    sweep(world);
    static const enum hx_op_state month[] = {HX_OP_EXPIRED, HX_OP_ABSENT,    HX_OP_ABSENT,
                                             HX_OP_UNKNOWN, HX_OP_SUCCEEDED, HX_OP_RUNNING};
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(state_of(world, &records[i]), month[i]);
    struct hx_wall low_water = world->stores[0]->ops->low_water(world->stores[0]);
    assert_true(low_water.ms > records[TIMED].updated.wall.ms);
    assert_true(low_water.ms < world->now.wall.ms - 20 * DAY_MS);
    pass_days(world, 401);
    sweep(world);
    assert_int_equal(state_of(world, &records[PLAIN]), HX_OP_ABSENT);
    assert_int_equal(state_of(world, &records[UNKNOWN]), HX_OP_UNKNOWN);
    assert_int_equal(state_of(world, &records[RUNNING]), HX_OP_RUNNING);
    world_free(world);
}

/* The next generation of the same key, in the commit that ends the one before. */
static struct hx_record succeed(struct world *world, struct hx_record *old, uint64_t expected_fence)
{
    struct hx_record next = world_record(world, 0, 0);
    next.key = old->key;
    next.identity = old->identity;
    next.generation = old->generation + 1;
    next.predecessor = old->id;
    old->successor = next.id;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = *old;
    request->expected_fence = expected_fence;
    request->has_second = true;
    request->second = next;
    done(world_run(world->stores[0], request));
    return next;
}

static enum hx_op_state state_of_id(struct world *world, const struct hx_record *record)
{
    struct hx_store_request *request = world_find_id(world->stores[0], &record->id);
    enum hx_op_state state =
        request->record_count == 0 ? HX_OP_ABSENT : request->records[0].record.state;
    hx_store_request_free(request);
    return state;
}

/* Its key means the newest: if that one's row went alone, a caller would be sent on to nobody, or
 * be told "failed" of what was done again. */
static void a_successor_stays_while_the_one_before_it_does(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    enum { SUPERSEDED, DISPUTED, PLAIN, COUNT };
    struct hx_record first[COUNT], second[COUNT], third;
    char keys[COUNT][HX_ID_TEXT_SIZE];
    world_open(world, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        first[i] = world_record(world, 0, i);
        hx_id_format(&first[i].id, keys[i]);
        first[i].key = hx_span(keys[i], HX_ID_TEXT_SIZE - 1); /* it tells its time */
        first[i].identity = hx_record_identity(world->hasher, &first[i], false);
        done(world_insert(world->stores[0], &first[i]));
        first[i].state = i == SUPERSEDED ? HX_OP_UNKNOWN : HX_OP_FAILED;
        first[i].is_superseded = i == SUPERSEDED;
        first[i].is_disputed = i == DISPUTED;
        second[i] = succeed(world, &first[i], 1);
    }
    second[SUPERSEDED].state = HX_OP_FAILED;
    third = succeed(world, &second[SUPERSEDED], 1);
    settle(world, &third, HX_OP_SUCCEEDED);
    settle(world, &second[DISPUTED], HX_OP_SUCCEEDED);
    settle(world, &second[PLAIN], HX_OP_SUCCEEDED);
    for (int month = 0; month < 20; month++) {
        pass_days(world, 31);
        sweep(world);
        assert_int_equal(state_of(world, &first[SUPERSEDED]), HX_OP_EXPIRED);
        assert_int_equal(state_of_id(world, &third), HX_OP_EXPIRED);
        assert_int_equal(state_of_id(world, &second[SUPERSEDED]), HX_OP_EXPIRED);
        assert_int_equal(state_of(world, &first[DISPUTED]), HX_OP_EXPIRED);
        assert_int_equal(state_of_id(world, &first[DISPUTED]), HX_OP_FAILED);
        /* Nothing keeps the one before it, and both go together. */
        assert_int_equal(state_of_id(world, &first[PLAIN]), HX_OP_ABSENT);
        assert_int_equal(state_of_id(world, &second[PLAIN]), HX_OP_ABSENT);
    }
    world_free(world);
}

struct seen {
    struct hx_id ids[16];
    unsigned count;
};

static bool see(void *context, const struct hx_store_found *found)
{
    struct seen *seen = context;
    assert_true(seen->count < 16);
    seen->ids[seen->count++] = found->record.id;
    return true;
}

static unsigned times_seen(const struct seen *seen, const struct hx_record *record)
{
    unsigned times = 0;
    for (unsigned i = 0; i < seen->count; i++)
        times += hx_id_eq(&seen->ids[i], &record->id);
    return times;
}

static struct hx_inspect *open_inspect(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    return inspect;
}

/* One page by a scan of the store, as hapax/operations/list and the admin API make them. */
static int64_t scan_page(struct world *world, int64_t after, uint32_t limit, struct seen *seen)
{
    struct hx_store_request *find = hx_store_request_new(HX_STORE_FIND, NULL);
    find->scan = true;
    find->scan_state = HX_OP_UNKNOWN;
    find->scan_after = after;
    find->scan_limit = limit;
    world_run(world->stores[0], find);
    for (uint32_t i = 0; i < find->record_count; i++)
        see(seen, &find->records[i]);
    int64_t next = find->ret_scan_next;
    hx_store_request_free(find);
    return next;
}

/* What stays is on exactly one page, also when the row goes at which a page ended. */
static void pages_skip_nothing_when_rows_go_between(void **state)
{
    enum { COUNT = 9, STAYS = 1 }; /* every second one is unknown, and stays */
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_record records[COUNT + 1];
    struct seen up = {0}, down = {0}, scanned = {0};
    world_open(world, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        records[i] = world_record(world, 0, i);
        if (i % 2 != STAYS)
            records[i].key_source = HX_KEY_NONE;
        done(world_insert(world->stores[0], &records[i]));
        settle(world, &records[i], i % 2 == STAYS ? HX_OP_UNKNOWN : HX_OP_SUCCEEDED);
    }
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_inspect_filter older = {.limit = 3}, newer = {.limit = 3, .is_newest_first = true};
    assert_int_equal(hx_inspect_list(inspect, &older, see, &up, &older.after), 0);
    assert_int_equal(hx_inspect_list(inspect, &newer, see, &down, &newer.after), 0);
    int64_t next = scan_page(world, 0, 1, &scanned);
    pass_days(world, 31);
    sweep(world);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(state_of(world, &records[i]) != HX_OP_ABSENT, i % 2 == STAYS);
    /* This one gets a number that another had. */
    records[COUNT] = world_record(world, 0, COUNT);
    done(world_insert(world->stores[0], &records[COUNT]));
    while (older.after != 0)
        assert_int_equal(hx_inspect_list(inspect, &older, see, &up, &older.after), 0);
    while (newer.after != 0)
        assert_int_equal(hx_inspect_list(inspect, &newer, see, &down, &newer.after), 0);
    while (next != 0)
        next = scan_page(world, next, 1, &scanned);
    for (unsigned i = STAYS; i < COUNT; i += 2) {
        assert_int_equal(times_seen(&up, &records[i]), 1);
        assert_int_equal(times_seen(&down, &records[i]), 1);
        assert_int_equal(times_seen(&scanned, &records[i]), 1);
    }
    assert_true(times_seen(&up, &records[COUNT]) <= 1);
    assert_int_equal(times_seen(&down, &records[COUNT]), 0);
    hx_inspect_close(inspect);
    world_free(world);
}

/* A wall clock that jumps ahead makes nothing old; many reboots age by a day each at most. */
static void a_jumping_clock_takes_nothing(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(world->stores[0], &record));
    settle(world, &record, HX_OP_SUCCEEDED);
    world->now.wall.ms += 1000 * DAY_MS;
    sweep(world);
    assert_true(has_payload(world, &record));
    memset(&world->now.boot, 9, sizeof(world->now.boot));
    world->now.mono.ms = 5;
    world->now.wall.ms += 1000 * DAY_MS;
    struct hx_record other = world_record(world, 0, 2);
    done(world_insert(world->stores[0], &other));
    sweep(world);
    assert_true(has_payload(world, &record));
    assert_int_equal(state_of(world, &record), HX_OP_SUCCEEDED);
    /* And one that jumps back raises the mark to nothing that is still to come. */
    world->now.wall.ms -= 1990 * DAY_MS;
    world->now.mono.ms += 40 * DAY_MS;
    sweep(world);
    assert_true(world->stores[0]->ops->low_water(world->stores[0]).ms < world->now.wall.ms);
    world_free(world);
}

static int64_t low_water_ms(struct world *world)
{
    return world->stores[0]->ops->low_water(world->stores[0]).ms;
}

/* What goes later may be older than what went before. */
static void the_mark_never_falls(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world_open(world, 0);
    struct hx_record old = world_record(world, 0, 1);
    done(world_insert(world->stores[0], &old));
    pass_days(world, 1);
    struct hx_record young = world_record(world, 0, 2);
    done(world_insert(world->stores[0], &young));
    settle(world, &young, HX_OP_SUCCEEDED);
    pass_days(world, 32);
    sweep(world);
    assert_int_equal(state_of(world, &young), HX_OP_EXPIRED);
    int64_t before_ms = low_water_ms(world);
    assert_true(before_ms > young.updated.wall.ms);
    /* It ends now, and says that it ended long ago. */
    old.state = HX_OP_SUCCEEDED;
    old.attempt.state = HX_ATTEMPT_CONFIRMED;
    old.outcome.kind = HX_OUTCOME_RESULT;
    done(world_update(world->stores[0], &old, 1));
    pass_days(world, 32);
    sweep(world);
    assert_int_equal(state_of(world, &old), HX_OP_EXPIRED);
    assert_int_equal(low_water_ms(world), before_ms);
    world_free(world);
}

/* Age counts from the last use, also from one that changed nothing but a counter. */
static void what_was_used_stays(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(world->stores[0], &record));
    settle(world, &record, HX_OP_SUCCEEDED);
    pass_days(world, 6);
    done(world_touch(world->stores[0], &record.id, (struct hx_store_touch){.add_repeats = 1}));
    pass_days(world, 6);
    sweep(world);
    assert_true(has_payload(world, &record));
    done(world_touch(world->stores[0], &record.id, (struct hx_store_touch){.add_repeats = 1}));
    pass_days(world, 25);
    sweep(world);
    assert_int_equal(state_of(world, &record), HX_OP_SUCCEEDED);
    assert_false(has_payload(world, &record));
    world_free(world);
}

static enum hx_outcome_place place_of(struct world *world, const struct hx_record *record)
{
    struct hx_store_request *request = world_find(world->stores[0], record, true, false);
    assert_int_equal(request->record_count, 1);
    enum hx_outcome_place place = request->records[0].record.outcome.place;
    hx_store_request_free(request);
    return place;
}

/* Whoever asks after its time is told that the result is gone, before any sweep, and the repeat
 * that was told so does not bring it back. */
static void no_answer_depends_on_the_sweep(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(world->stores[0], &record));
    settle(world, &record, HX_OP_SUCCEEDED);
    assert_int_equal(place_of(world, &record), HX_OUTCOME_BLOB);
    pass_days(world, 8);
    assert_int_equal(place_of(world, &record), HX_OUTCOME_GONE);
    assert_true(has_payload(world, &record));
    done(world_touch(world->stores[0], &record.id, (struct hx_store_touch){.add_repeats = 1}));
    assert_int_equal(place_of(world, &record), HX_OUTCOME_GONE);
    assert_false(has_payload(world, &record));
    world_free(world);
}

/* The ledger may yet be put back, and have used the row since: its outcome must be there then. */
static void nothing_goes_from_a_restored_copy(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    char copy[160], wal[160], sql[256];
    snprintf(copy, sizeof(copy), "%s/copy", world->directory);
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", copy);
    world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(world->stores[0], &record));
    settle(world, &record, HX_OP_SUCCEEDED);
    world_close(world, 0);
    run_sql(world, sql);
    struct hx_wall taken_at = world->now.wall;
    world_open(world, 0);
    struct hx_record since = world_record(world, 0, 2);
    done(world_insert(world->stores[0], &since));
    world_close(world, 0);
    assert_int_equal(rename(copy, world->path), 0);
    (void)unlink(wal);
    pass_days(world, 8);
    sweep(world);
    world_open(world, 0);
    assert_non_null(world->stores[0]->ops->refusal(world->stores[0]));
    assert_true(has_payload(world, &record));
    struct hx_inspect *inspect = NULL;
    struct hx_recover_report report;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_recover(inspect, taken_at, &report), 0);
    hx_inspect_close(inspect);
    sweep(world);
    assert_false(has_payload(world, &record));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_in_their_time),
        cmocka_unit_test(a_successor_stays_while_the_one_before_it_does),
        cmocka_unit_test(pages_skip_nothing_when_rows_go_between),
        cmocka_unit_test(a_jumping_clock_takes_nothing),
        cmocka_unit_test(the_mark_never_falls),
        cmocka_unit_test(what_was_used_stays),
        cmocka_unit_test(no_answer_depends_on_the_sweep),
        cmocka_unit_test(nothing_goes_from_a_restored_copy),
    };
    return cmocka_run_group_tests_name("store retention", tests, NULL, NULL);
}
