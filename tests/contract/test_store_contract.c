/* SPDX-License-Identifier: MIT */
/* style-ok: one suite, which every implementation of the store must pass as a whole */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "records.h"
#include "world.h"

#define assert_result(request, expected)                                                           \
    do {                                                                                           \
        if ((request)->result == HX_STORE_NOT_DONE)                                                \
            print_error("not done: %s\n", (request)->error);                                       \
        assert_int_equal((request)->result, (expected));                                           \
    } while (0)

static void free_request(struct hx_store_request *request)
{
    hx_store_request_free(request);
}

static void must_insert(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = world_insert(store, record);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

static void must_update(struct hx_store *store, const struct hx_record *record, uint64_t fence)
{
    struct hx_store_request *request = world_update(store, record, fence);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

static void must_touch(struct hx_store *store, const struct hx_id *id, struct hx_store_touch touch)
{
    struct hx_store_request *request = world_touch(store, id, touch);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

/* Settles the record as succeeded with these bytes. */
static struct hx_record succeeded(const struct hx_record *record, struct hx_span bytes)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.reason = HX_REASON_ANSWERED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.size = bytes.len;
    next.outcome.bytes = bytes;
    return next;
}

static void insert_is_found_whole(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    record.first_sent.ms = 1795000000000;
    record.contract.tool_class = HX_CLASS_KEYED;
    record.contract.dedupe_horizon_ms = 86400000;
    record.key = hx_span("a\0b", 3);
    record.principal = hx_span("p\0q", 3);
    record.arguments = hx_span("{\"a\":\"\0\"}", 9);
    record.is_approved = true;
    record.predecessor = record.effect_key;
    record.generation = 3;
    record.identity = hx_record_identity(world->hasher, &record, false);
    record.twin = hx_record_twin(world->hasher, &record);
    must_insert(store, &record);
    struct hx_store_request *by_id = world_find_id(store, &record.id);
    assert_int_equal(by_id->record_count, 1);
    assert_records_equal(&by_id->records[0].record, &record);
    assert_int_equal(by_id->records[0].owner_fact, HX_OWNER_MINE);
    assert_true(by_id->records[0].is_epoch_current);
    free_request(by_id);
    struct hx_store_request *by_identity = world_find(store, &record, true, true);
    assert_int_equal(by_identity->record_count, 1);
    assert_records_equal(&by_identity->records[0].record, &record);
    assert_int_equal(by_identity->ret_twin_seen, by_identity->records[0].rowid);
    free_request(by_identity);
}

static void absent_is_not_found(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_request *request = world_find(store, &record, true, true);
    assert_result(request, HX_STORE_DONE);
    assert_int_equal(request->record_count, 0);
    assert_int_equal(request->ret_twin_seen, 0);
    free_request(request);
    request = world_find_id(store, &record.id);
    assert_int_equal(request->record_count, 0);
    free_request(request);
    request = world_update(store, &record, 1);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 0);
    free_request(request);
}

static void identity_and_generation_are_unique(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record first = world_record(world, 0, 1);
    struct hx_record second = world_record(world, 1, 1);
    must_insert(a, &first);
    struct hx_store_request *request = world_insert(b, &second);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    assert_memory_equal(&request->records[0].record.id, &first.id, sizeof(first.id));
    assert_int_equal(request->records[0].owner_fact, HX_OWNER_ALIVE);
    free_request(request);
    second.generation = 1;
    must_insert(b, &second);
    request = world_find(a, &first, true, false);
    assert_int_equal(request->record_count, 1);
    assert_int_equal(request->records[0].record.generation, 1);
    free_request(request);
    /* A name that came to a successor later has no first generation, and must not get one. */
    struct hx_record named = world_record(world, 0, 2);
    named.generation = 2;
    must_insert(a, &named);
    struct hx_record late = world_record(world, 1, 2);
    request = world_insert(b, &late);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    free_request(request);
}

static void update_compares_the_fence(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(a, &record);
    struct hx_record next = record;
    next.fence = 2;
    next.owner = b->ops->owner(b);
    next.attempt.number = 2;
    next.reason = HX_REASON_TAKEN_OVER;
    must_update(b, &next, 1);
    struct hx_record late = succeeded(&record, HX_SPAN_LIT("{}"));
    struct hx_store_request *request = world_update(a, &late, 1);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    assert_records_equal(&request->records[0].record, &next);
    assert_int_equal(request->records[0].owner_fact, HX_OWNER_ALIVE);
    free_request(request);
}

static void update_replaces_the_changing_part(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    struct hx_record next = succeeded(&record, HX_SPAN_LIT("{\"content\":[]}"));
    next.settled = world->now;
    next.earlier = (struct hx_attempt_counts){1, 2, 3, 4};
    next.outcome.is_error = true;
    next.outcome.is_reconstructed = true;
    next.outcome.digest.bytes[3] = 9;
    next.is_disputed = true;
    next.is_superseded = true;
    next.is_tombstone = true;
    next.successor = record.effect_key;
    next.not_before = world->now;
    must_update(store, &next, 1);
    struct hx_record unchanged = next;
    unchanged.tool = HX_SPAN_LIT("other");
    unchanged.arguments = HX_SPAN_NONE;
    unchanged.effect_key = record.id;
    must_update(store, &unchanged, 1);
    struct hx_store_request *request = world_find_id(store, &record.id);
    assert_records_equal(&request->records[0].record, &next);
    free_request(request);
}

static void mark_belongs_to_one_attempt(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    struct hx_record wrong = record;
    wrong.attempt.number = 2;
    struct hx_store_request *request = world_mark(world, store, &wrong);
    assert_result(request, HX_STORE_STALE);
    free_request(request);
    wrong = record;
    wrong.fence = 2;
    request = world_mark(world, store, &wrong);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    assert_false(request->records[0].record.attempt.is_marked);
    free_request(request);
    request = world_mark(world, store, &record);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
    request = world_mark(world, store, &record);
    assert_result(request, HX_STORE_STALE);
    assert_true(request->records[0].record.attempt.is_marked);
    assert_int_equal(request->records[0].record.first_mark.wall.ms, world->now.wall.ms);
    free_request(request);
}

static void update_may_require_unmarked(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    free_request(world_mark(world, store, &record));
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = record;
    request->record.state = HX_OP_READY;
    request->record.attempt.state = HX_ATTEMPT_DEAD;
    request->record.fence = 2;
    request->expected_fence = 1;
    request->require_unmarked = true;
    world_run(store, request);
    assert_result(request, HX_STORE_STALE);
    assert_true(request->records[0].record.attempt.is_marked);
    assert_int_equal(request->records[0].record.state, HX_OP_RUNNING);
    free_request(request);
}

static struct hx_record keyless(struct world *world, int process, unsigned number)
{
    struct hx_record record = world_record(world, process, number);
    record.key_source = HX_KEY_NONE;
    memset(&record.fingerprint, 5, sizeof(record.fingerprint));
    record.identity = hx_record_identity(world->hasher, &record, false);
    record.twin = hx_record_twin(world->hasher, &record);
    return record;
}

static void twin_guard_sees_newer_rows(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record first = keyless(world, 0, 1);
    struct hx_record second = keyless(world, 0, 2);
    must_insert(store, &first);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = second;
    request->twin_guard = true;
    world_run(store, request);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    assert_memory_equal(&request->records[0].record.id, &first.id, sizeof(first.id));
    int64_t seen = request->ret_twin_seen;
    assert_int_equal(seen, request->records[0].rowid);
    free_request(request);
    request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = second;
    request->twin_guard = true;
    request->twin_seen = seen;
    world_run(store, request);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

static void twins_come_in_order_of_creation(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record records[5];
    for (unsigned i = 0; i < 5; i++) {
        records[i] = keyless(world, 0, i);
        must_insert(store, &records[i]);
    }
    struct hx_store_request *request = world_find(store, &records[3], true, true);
    static const unsigned order[] = {3, 0, 1, 2, 4};
    assert_int_equal(request->record_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_memory_equal(&request->records[i].record.id, &records[order[i]].id,
                            sizeof(struct hx_id));
    assert_int_equal(request->ret_twin_seen, request->records[4].rowid);
    free_request(request);
}

static void twins_are_bounded(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record;
    for (unsigned i = 0; i < HX_STORE_TWINS_MAX + 3; i++) {
        record = keyless(world, 0, i);
        struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
        request->record = record;
        store->ops->submit(store, request);
    }
    store->ops->flush(store);
    for (unsigned i = 0; i < HX_STORE_TWINS_MAX + 3; i++)
        free_request(world_take(store));
    struct hx_store_request *request = world_find(store, &record, false, true);
    assert_int_equal(request->record_count, HX_STORE_TWINS_MAX);
    assert_true(request->ret_twin_seen > request->records[HX_STORE_TWINS_MAX - 1].rowid);
    free_request(request);
}

static uint32_t twin_count(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = world_find(store, record, false, true);
    uint32_t count = request->record_count;
    free_request(request);
    return count;
}

static void cooling_leaves_the_twin_index(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = keyless(world, 0, 1);
    must_insert(store, &record);
    must_touch(store, &record.id, (struct hx_store_touch){.cool = true});
    assert_int_equal(twin_count(store, &record), 1); /* not final: stays */
    struct hx_record next = succeeded(&record, HX_SPAN_LIT("{}"));
    must_update(store, &next, 1);
    assert_int_equal(twin_count(store, &record), 1);
    must_touch(store, &record.id, (struct hx_store_touch){.cool = true});
    assert_int_equal(twin_count(store, &record), 0);
    must_touch(store, &record.id, (struct hx_store_touch){.add_lost = 1, .warm = true});
    assert_int_equal(twin_count(store, &record), 1); /* its answer was taken back */
    must_touch(store, &record.id, (struct hx_store_touch){.cool = true});
    assert_int_equal(twin_count(store, &record), 0);
    struct hx_store_request *request = world_find(store, &record, true, false);
    assert_int_equal(request->record_count, 1);
    free_request(request);
    struct hx_record later = keyless(world, 0, 2);
    request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = later;
    request->twin_guard = true;
    world_run(store, request);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

static void adoption_is_compared_and_set(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record record = keyless(world, 0, 1);
    must_insert(a, &record);
    struct hx_record next = succeeded(&record, HX_SPAN_LIT("{}"));
    must_update(a, &next, 1);
    must_touch(a, &record.id, (struct hx_store_touch){.cool = true});
    struct hx_store_touch adopt = {
        .adopt = true, .expect_adoptions = true, .add_repeats = 1, .holder = b->ops->owner(b)};
    must_touch(b, &record.id, adopt);
    adopt.holder = a->ops->owner(a);
    struct hx_store_request *request = world_touch(a, &record.id, adopt);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->record_count, 1);
    const struct hx_record *now = &request->records[0].record;
    struct hx_id owner_b = b->ops->owner(b);
    assert_int_equal(now->adoptions, 1);
    assert_int_equal(now->repeats, 1);
    assert_memory_equal(&now->holder, &owner_b, sizeof(owner_b));
    free_request(request);
    assert_int_equal(twin_count(a, &record), 1); /* hot again */
    /* A write of the owner, who does not know of the adoption, leaves it alone. */
    must_update(a, &next, 1);
    request = world_find_id(a, &record.id);
    assert_int_equal(request->records[0].record.adoptions, 1);
    assert_memory_equal(&request->records[0].record.holder, &owner_b, sizeof(owner_b));
    free_request(request);
}

static void a_keyless_row_may_be_given_a_key_once(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record row = keyless(world, 0, 1);
    struct hx_record taken = world_record(world, 0, 2);
    struct hx_record named = world_record(world, 0, 3);
    struct hx_record other = world_record(world, 0, 4);
    must_insert(store, &row);
    must_insert(store, &taken);
    taken.id = named.id = other.id = row.id;
    /* Another name for what has one is not taken, as the last look shows; it is no failure
     * either. */
    const struct hx_record *names[] = {&taken, &named, &named, &other};
    static const enum hx_store_result expected[] = {HX_STORE_STALE, HX_STORE_DONE, HX_STORE_DONE,
                                                    HX_STORE_DONE};
    for (int i = 0; i < 4; i++) {
        struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
        request->record = *names[i];
        request->touch.rekey = true;
        world_run(store, request);
        assert_result(request, expected[i]);
        free_request(request);
    }
    struct hx_store_request *request = world_find(store, &named, true, false);
    assert_int_equal(request->record_count, 1);
    assert_memory_equal(&request->records[0].record.id, &row.id, sizeof(row.id));
    assert_spans_equal(request->records[0].record.key, named.key);
    assert_int_equal(request->records[0].record.key_source, HX_KEY_META);
    free_request(request);
    request = world_find(store, &row, true, false);
    assert_int_equal(request->record_count, 0);
    free_request(request);
}

static void successor_comes_in_the_same_commit(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    record.state = HX_OP_CANCELLED;
    record.attempt.state = HX_ATTEMPT_DEAD;
    must_insert(store, &record);
    struct hx_record successor = world_record(world, 0, 1);
    successor.generation = 1;
    successor.predecessor = record.id;
    for (int round = 0; round < 2; round++) {
        struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
        request->record = record;
        request->record.successor = successor.id;
        request->expected_fence = 1;
        request->has_second = true;
        request->second = successor;
        world_run(store, request);
        assert_result(request, round == 0 ? HX_STORE_DONE : HX_STORE_STALE);
        assert_int_equal(request->record_count, round == 0 ? 0 : 2);
        if (round == 1) {
            assert_memory_equal(&request->records[0].record.id, &record.id, sizeof(record.id));
            assert_memory_equal(&request->records[1].record.id, &successor.id,
                                sizeof(successor.id));
        }
        free_request(request);
    }
    struct hx_store_request *request = world_find(store, &record, true, false);
    assert_memory_equal(&request->records[0].record.id, &successor.id, sizeof(successor.id));
    free_request(request);
}

static void flags_only_grow(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    must_touch(store, &record.id,
               (struct hx_store_touch){.add_repeats = 2,
                                       .add_sent = 3,
                                       .add_lost = 4,
                                       .set_told_pending = true,
                                       .set_cancel_requested = true,
                                       .set_acknowledged = true,
                                       .set_needs_human = true});
    struct hx_record next = succeeded(&record, HX_SPAN_LIT("{}"));
    must_update(store, &next, 1);
    next.repeats = 2;
    next.sent_count = 3;
    next.lost_count = 4;
    next.is_told_pending = next.is_cancel_requested = true;
    next.is_acknowledged = next.needs_human = true;
    struct hx_store_request *request = world_find_id(store, &record.id);
    assert_records_equal(&request->records[0].record, &next);
    free_request(request);
    must_touch(store, &record.id, (struct hx_store_touch){.subtract_sent = 2, .add_lost = 1});
    must_touch(store, &record.id, (struct hx_store_touch){.subtract_sent = 2});
    request = world_find_id(store, &record.id);
    assert_int_equal(request->records[0].record.sent_count, 0);
    assert_int_equal(request->records[0].record.lost_count, 5);
    free_request(request);
}

static void completions_keep_their_order(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    enum { COUNT = 300 };
    static struct hx_record records[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        records[i] = world_record(world, 0, i);
        struct hx_store_request *insert = hx_store_request_new(HX_STORE_INSERT, NULL);
        insert->record = records[i];
        store->ops->submit(store, insert);
        struct hx_store_request *find = hx_store_request_new(HX_STORE_FIND, NULL);
        find->record.id = records[i].id;
        find->find_id = true;
        store->ops->submit(store, find);
        if (i % 7 == 0)
            store->ops->flush(store);
    }
    store->ops->flush(store);
    uint64_t sequence = 0;
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        struct hx_store_request *request = world_take(store);
        assert_result(request, HX_STORE_DONE);
        assert_int_equal(request->sequence, sequence + 1);
        sequence = request->sequence;
        if (request->kind == HX_STORE_FIND)
            assert_int_equal(request->record_count, 1); /* sees the write before it */
        free_request(request);
    }
}

static void stale_ones_do_not_hurt_their_neighbours(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record records[3];
    for (unsigned i = 0; i < 3; i++) {
        records[i] = world_record(world, 0, i % 2);
        struct hx_store_request *insert = hx_store_request_new(HX_STORE_INSERT, NULL);
        insert->record = records[i];
        store->ops->submit(store, insert);
    }
    store->ops->flush(store);
    static const enum hx_store_result expected[] = {HX_STORE_DONE, HX_STORE_DONE, HX_STORE_STALE};
    for (unsigned i = 0; i < 3; i++) {
        struct hx_store_request *request = world_take(store);
        assert_result(request, expected[i]);
        free_request(request);
    }
}

/* I4 holds in the store as well: not even the right fence reopens a final row. */
static void a_final_row_stays(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 0);
    must_insert(store, &record);
    struct hx_record done = succeeded(&record, HX_SPAN_LIT("{}"));
    must_update(store, &done, 1);
    struct hx_record reopened = record;
    reopened.state = HX_OP_UNKNOWN;
    struct hx_store_request *request = world_update(store, &reopened, 1);
    assert_result(request, HX_STORE_STALE);
    assert_int_equal(request->records[0].record.state, HX_OP_SUCCEEDED);
    free_request(request);
}

static void scan_pages_through(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 20; i++) {
        struct hx_record record = world_record(world, 0, i);
        must_insert(store, &record);
        if (i % 2 == 0) {
            struct hx_record next = succeeded(&record, HX_SPAN_LIT("{}"));
            must_update(store, &next, 1);
        }
        if (i % 2 == 1 && i % 5 == 1) {
            struct hx_record next = record;
            next.state = HX_OP_UNKNOWN;
            next.owner = (struct hx_id){{0}};
            must_update(store, &next, 1);
        }
    }
    static const enum hx_op_state states[] = {HX_OP_ABSENT, HX_OP_UNKNOWN, HX_OP_SUCCEEDED};
    static const unsigned expected[] = {10, 2, 10};
    for (unsigned i = 0; i < 3; i++) {
        int64_t after = 0;
        unsigned count = 0;
        do {
            struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
            request->scan = true;
            request->scan_state = states[i];
            request->scan_after = after;
            request->scan_limit = 3;
            world_run(store, request);
            assert_result(request, HX_STORE_DONE);
            assert_true(request->record_count <= 3);
            for (uint32_t k = 0; k < request->record_count; k++) {
                assert_true(request->records[k].rowid > after);
                after = request->records[k].rowid;
                count++;
            }
            after = request->ret_scan_next;
            free_request(request);
        } while (after != 0);
        assert_int_equal(count, expected[i]);
    }
}

/* Rows with large arguments would be more than one answer can hold, and a page that always fails
 * can never be passed: nothing behind it would be listed, settled or put before a person. */
static void scan_passes_large_rows(void **state)
{
    enum { ROWS = 40, EACH = 3 * 1024 * 1024 };
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    char *bytes = hx_new_bytes(EACH);
    memset(bytes, ' ', EACH);
    for (unsigned i = 0; i < ROWS; i++) {
        struct hx_record record = world_record(world, 0, i);
        record.arguments = hx_span(bytes, EACH);
        must_insert(store, &record);
    }
    int64_t after = 0;
    unsigned count = 0;
    do {
        struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
        request->scan = true;
        request->scan_after = after;
        request->scan_limit = 256;
        world_run(store, request);
        assert_result(request, HX_STORE_DONE);
        assert_true(request->arena.used < HX_STORE_SCAN_BYTES + 2 * EACH);
        count += request->record_count;
        after = request->ret_scan_next;
        free_request(request);
    } while (after != 0);
    assert_int_equal(count, ROWS);
    hx_free(bytes);
}

static void payload_stands_where_it_fits(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    static const size_t sizes[] = {0,
                                   2048,
                                   2049,
                                   HX_STORE_INLINE_MAX - 1,
                                   HX_STORE_INLINE_MAX,
                                   HX_STORE_INLINE_MAX + 1,
                                   3 * 1024 * 1024};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct hx_record record = world_record(world, 0, i);
        must_insert(store, &record);
        char *bytes = hx_new_bytes(sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[k] = (char)(k * 31 + i);
        struct hx_record next = succeeded(&record, hx_span(bytes, sizes[i]));
        must_update(store, &next, 1);
        bool is_blob = sizes[i] > HX_STORE_INLINE_MAX;
        struct hx_store_request *request = world_find_id(store, &record.id);
        const struct hx_outcome *outcome = &request->records[0].record.outcome;
        assert_int_equal(outcome->place, is_blob ? HX_OUTCOME_BLOB : HX_OUTCOME_INLINE);
        assert_spans_equal(outcome->bytes, is_blob ? HX_SPAN_NONE : hx_span(bytes, sizes[i]));
        struct hx_record kept = request->records[0].record;
        kept.is_disputed = true;
        must_update(store, &kept, 1);
        free_request(request);
        request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
        request->record.id = record.id;
        world_run(store, request);
        assert_result(request, HX_STORE_DONE);
        assert_spans_equal(request->payload, hx_span(bytes, sizes[i]));
        free_request(request);
        next.outcome.bytes = HX_SPAN_NONE;
        next.outcome.place = HX_OUTCOME_GONE;
        must_update(store, &next, 1);
        request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
        request->record.id = record.id;
        world_run(store, request);
        assert_result(request, HX_STORE_DONE);
        assert_true(hx_span_is_absent(request->payload));
        free_request(request);
        request = world_find_id(store, &record.id);
        assert_int_equal(request->records[0].record.outcome.place, HX_OUTCOME_GONE);
        assert_int_equal(request->records[0].record.outcome.size, sizes[i]);
        free_request(request);
        hx_free(bytes);
    }
}

static void large_arguments_survive(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    size_t len = 5 * 1024 * 1024;
    char *bytes = hx_new_bytes(len);
    for (size_t k = 0; k < len; k++)
        bytes[k] = (char)(k * 7);
    struct hx_record record = world_record(world, 0, 1);
    record.arguments = hx_span(bytes, len);
    must_insert(store, &record);
    free_request(world_mark(world, store, &record));
    struct hx_store_request *request = world_find_id(store, &record.id);
    assert_spans_equal(request->records[0].record.arguments, record.arguments);
    free_request(request);
    hx_free(bytes);
}

static void notes_are_taken(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    struct hx_id ids[] = {record.id, {{0}}, record.effect_key};
    static const enum hx_store_result expected[] = {HX_STORE_DONE, HX_STORE_DONE, HX_STORE_STALE};
    for (unsigned i = 0; i < 3; i++) {
        struct hx_store_request *request = hx_store_request_new(HX_STORE_NOTE, NULL);
        request->record.id = ids[i];
        request->note = HX_SPAN_LIT("{\"at\":\"2026-11-29T00:00:00Z\",\"what\":\"repeat\"}");
        world_run(store, request);
        assert_result(request, expected[i]);
        free_request(request);
    }
}

static enum hx_owner_fact fact_of(struct hx_store *store, const struct hx_record *record,
                                  bool *ret_is_gone, bool *ret_is_current)
{
    struct hx_store_request *request = world_find_id(store, &record->id);
    assert_int_equal(request->record_count, 1);
    enum hx_owner_fact fact = request->records[0].owner_fact;
    *ret_is_gone = request->records[0].is_sender_gone;
    *ret_is_current = request->records[0].is_epoch_current;
    free_request(request);
    return fact;
}

static void owners_are_judged(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    bool is_gone, is_current;
    must_insert(a, &record);
    assert_int_equal(fact_of(a, &record, &is_gone, &is_current), HX_OWNER_MINE);
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_ALIVE);
    assert_false(is_gone);
    assert_true(is_current);
    world_kill(world, 0);
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_DEAD);
    assert_false(is_gone);
    assert_true(is_current);
    world_transport_gone(world, "transport-1");
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_DEAD);
    assert_true(is_gone);
    struct hx_record nobody = world_record(world, 1, 2);
    nobody.owner = (struct hx_id){{0}};
    nobody.state = HX_OP_UNKNOWN;
    must_insert(b, &nobody);
    assert_int_equal(fact_of(b, &nobody, &is_gone, &is_current), HX_OWNER_NOBODY);
    assert_false(is_gone);
}

/* The owner lives. As long as he runs the operation he may send; once it is unknown only the
 * transport that got it can still act. */
static void what_left_the_hands_of_its_owner_ends_with_its_transport(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    bool is_gone, is_current;
    must_insert(a, &record);
    world_transport_gone(world, "transport-1");
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_ALIVE);
    assert_false(is_gone);
    struct hx_record left = record;
    left.state = HX_OP_UNKNOWN;
    left.fence++;
    struct hx_store_request *request = world_update(a, &left, record.fence);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_ALIVE);
    assert_true(is_gone);
    assert_int_equal(fact_of(a, &record, &is_gone, &is_current), HX_OWNER_MINE);
    assert_true(is_gone);
}

static void another_boot_ends_everything(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    bool is_gone, is_current;
    must_insert(a, &record);
    world_kill(world, 0);
    memset(&world->now.boot, 8, sizeof(world->now.boot));
    struct hx_store *b = world_open(world, 1);
    assert_int_equal(fact_of(b, &record, &is_gone, &is_current), HX_OWNER_DEAD);
    assert_true(is_gone);
    assert_false(is_current);
}

static void spool_outcome(struct hx_store *store, const struct hx_record *record, uint64_t fence)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SPOOL, NULL);
    request->record = *record;
    request->expected_fence = fence;
    world_run(store, request);
    assert_result(request, HX_STORE_DONE);
    free_request(request);
}

static void spool_is_applied_before_judgement(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record records[4];
    static char large[HX_STORE_INLINE_MAX + 1];
    memset(large, 'x', sizeof(large));
    for (unsigned i = 0; i < 4; i++) {
        records[i] = world_record(world, 0, i);
        must_insert(a, &records[i]);
        struct hx_span bytes =
            i == 1 ? hx_span(large, sizeof(large)) : hx_span("{\"a\":\"\0\"}", 9);
        struct hx_record next = succeeded(&records[i], bytes);
        if (i == 2) {
            /* Taken over before its outcome comes: what is spooled may change nothing. */
            struct hx_record taken = records[i];
            taken.fence = 2;
            taken.state = HX_OP_UNKNOWN;
            taken.owner = (struct hx_id){{0}};
            must_update(b, &taken, 1);
        }
        if (i < 3)
            spool_outcome(a, &next, 1);
    }
    world_kill(world, 0);
    struct hx_store_request *request;
    for (int round = 0; round < 2; round++) {
        static const enum hx_op_state expected[] = {HX_OP_SUCCEEDED, HX_OP_SUCCEEDED, HX_OP_UNKNOWN,
                                                    HX_OP_RUNNING};
        for (unsigned i = 0; i < 4; i++) {
            request = world_find_id(b, &records[i].id);
            assert_result(request, HX_STORE_DONE);
            assert_int_equal(request->records[0].record.state, expected[i]);
            free_request(request);
        }
    }
    request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    request->record.id = records[1].id;
    world_run(b, request);
    assert_spans_equal(request->payload, hx_span(large, sizeof(large)));
    free_request(request);
}

/* Whoever was told an outcome from the spool is told it by every other process too. */
static void what_a_living_owner_spooled_is_shown(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    static char large[HX_STORE_INLINE_MAX + 1];
    memset(large, 'x', sizeof(large));
    for (unsigned i = 0; i < 4; i++) {
        struct hx_record record = world_record(world, 0, i);
        must_insert(a, &record);
        struct hx_span bytes = i == 1 ? hx_span(large, sizeof(large)) : HX_SPAN_LIT("{\"a\":1}");
        struct hx_record next = succeeded(&record, bytes);
        if (i == 2) {
            struct hx_record taken = record;
            taken.fence = 2;
            taken.state = HX_OP_UNKNOWN;
            taken.owner = (struct hx_id){{0}};
            must_update(b, &taken, 1);
        }
        free_request(world_touch(b, &record.id, (struct hx_store_touch){.add_repeats = 3}));
        if (i < 3)
            spool_outcome(a, &next, 1);
        struct hx_store_request *request = world_find_id(b, &record.id);
        const struct hx_record *shown = &request->records[0].record;
        static const enum hx_op_state expected[] = {HX_OP_SUCCEEDED, HX_OP_SUCCEEDED, HX_OP_UNKNOWN,
                                                    HX_OP_RUNNING};
        assert_int_equal(shown->state, expected[i]);
        assert_int_equal(shown->repeats, 3);
        assert_null(hx_record_flaw(shown));
        if (i < 2)
            assert_spans_equal(shown->outcome.bytes, bytes);
        free_request(request);
    }
}

static void own_spool_is_committed_in_the_end(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_insert(store, &record);
    struct hx_record next = succeeded(&record, HX_SPAN_LIT("{}"));
    spool_outcome(store, &next, 1);
    enum hx_op_state seen = HX_OP_RUNNING;
    for (int i = 0; i < 100000 && seen != HX_OP_SUCCEEDED; i++) {
        struct hx_store_request *request = world_find_id(store, &record.id);
        seen = request->records[0].record.state;
        free_request(request);
    }
    assert_int_equal(seen, HX_OP_SUCCEEDED);
}

static void nothing_is_refused_at_first(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    assert_int_equal(store->ops->low_water(store).ms, 0);
    assert_int_equal(store->ops->gap(store).until.ms, 0);
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
        BOTH(insert_is_found_whole),
        BOTH(absent_is_not_found),
        BOTH(identity_and_generation_are_unique),
        BOTH(update_compares_the_fence),
        BOTH(update_replaces_the_changing_part),
        BOTH(mark_belongs_to_one_attempt),
        BOTH(update_may_require_unmarked),
        BOTH(twin_guard_sees_newer_rows),
        BOTH(twins_come_in_order_of_creation),
        BOTH(twins_are_bounded),
        BOTH(cooling_leaves_the_twin_index),
        BOTH(adoption_is_compared_and_set),
        BOTH(a_keyless_row_may_be_given_a_key_once),
        BOTH(successor_comes_in_the_same_commit),
        BOTH(flags_only_grow),
        BOTH(completions_keep_their_order),
        BOTH(stale_ones_do_not_hurt_their_neighbours),
        BOTH(a_final_row_stays),
        BOTH(scan_pages_through),
        BOTH(scan_passes_large_rows),
        BOTH(payload_stands_where_it_fits),
        BOTH(large_arguments_survive),
        BOTH(notes_are_taken),
        BOTH(owners_are_judged),
        BOTH(what_left_the_hands_of_its_owner_ends_with_its_transport),
        BOTH(another_boot_ends_everything),
        BOTH(spool_is_applied_before_judgement),
        BOTH(own_spool_is_committed_in_the_end),
        BOTH(what_a_living_owner_spooled_is_shown),
        BOTH(nothing_is_refused_at_first),
    };
    return cmocka_run_group_tests_name("store contract", tests, NULL, NULL);
}
