/* SPDX-License-Identifier: MIT */
/*
 * What a claim writes besides the intent, in both stores: its mark, when it asks for that too, and
 * the name of what is to carry it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "world.h"

static void a_claim_may_be_marked_in_one_go(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    int64_t first_ms = world->now.wall.ms;
    struct hx_store_request *request = world_claim(store, &record);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_true(request->is_marked);
    hx_store_request_free(request);
    request = world_claim(store, &record);
    assert_int_equal(request->result, HX_STORE_STALE);
    assert_false(request->is_marked);
    assert_true(request->records[0].record.attempt.is_marked);
    hx_store_request_free(request);
    world->now.wall.ms += 1000;
    request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = record;
    request->record.attempt.number = 2;
    request->record.fence = 2;
    request->record.earlier.open = 1;
    request->record.first_mark = record.created;
    request->record.first_mark.wall.ms = first_ms;
    request->expected_fence = 1;
    request->mark_after = true;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_true(request->is_marked);
    hx_store_request_free(request);
    request = world_find_id(store, &record.id);
    const struct hx_record *now = &request->records[0].record;
    assert_int_equal(now->attempt.number, 2);
    assert_true(now->attempt.is_marked);
    assert_int_equal(now->attempt.marked_at.wall.ms, world->now.wall.ms);
    assert_int_equal(now->first_mark.wall.ms, first_ms);
    hx_store_request_free(request);
}

static void no_mark_without_a_wish(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_request *request = world_insert(store, &record);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_false(request->is_marked);
    hx_store_request_free(request);
    request = world_find_id(store, &record.id);
    assert_false(request->records[0].record.attempt.is_marked);
    hx_store_request_free(request);
}

static void expect(struct hx_store *store, const struct hx_record *record,
                   enum hx_owner_fact owner_fact, bool is_sender_gone)
{
    struct hx_store_request *request = world_find_id(store, &record->id);
    assert_int_equal(request->record_count, 1);
    assert_int_equal(request->records[0].owner_fact, owner_fact);
    assert_int_equal(request->records[0].is_sender_gone, is_sender_gone);
    hx_store_request_free(request);
}

static void must(struct hx_store_request *request)
{
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

/* Exchanges over HTTP die with their process, and carry its name: also when somebody else has taken
 * the operation over since. */
static void a_transport_that_is_its_process_ends_with_it(void **state)
{
    struct world *world = *state;
    struct hx_store *a = world_open(world, 0);
    struct hx_store *b = world_open(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_id self = a->ops->owner(a);
    hx_id_format(&self, record.attempt.transport);
    must(world_insert(a, &record));
    struct hx_record left = record;
    left.state = HX_OP_UNKNOWN;
    left.fence++;
    must(world_update(a, &left, record.fence));
    expect(b, &record, HX_OWNER_ALIVE, false);
    expect(a, &record, HX_OWNER_MINE, false);
    world_kill(world, 0);
    expect(b, &record, HX_OWNER_DEAD, true);
    struct hx_record taken = left;
    taken.owner = b->ops->owner(b);
    taken.fence++;
    must(world_update(b, &taken, left.fence));
    expect(b, &record, HX_OWNER_MINE, true);
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

/* An error, or another boot, may have taken the mark along: then "unmarked" says nothing. */
static void update_may_require_the_epoch_of_the_claim(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 1; i <= 3; i++) {
        struct hx_record record = world_record(world, 0, i);
        hx_store_request_free(world_insert(store, &record));
        bool is_over = i == 2 || (i == 3 && world->adapter == WORLD_MEMORY);
        if (i == 2)
            world->now.boot.bytes[0]++;
        else if (is_over)
            hx_memory_ledger_end_epoch(world->memory);
        struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
        request->record = record;
        request->record.state = HX_OP_CANCELLED;
        request->record.attempt.state = HX_ATTEMPT_DEAD;
        request->record.fence = 2;
        request->expected_fence = 1;
        request->require_unmarked = true;
        world_run(store, request);
        assert_int_equal(request->result, is_over ? HX_STORE_STALE : HX_STORE_DONE);
        if (is_over) {
            assert_int_equal(request->record_count, 1);
            assert_false(request->records[0].is_epoch_current);
            assert_int_equal(request->records[0].record.state, HX_OP_RUNNING);
        }
        hx_store_request_free(request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claim_may_be_marked_in_one_go, setup_memory, teardown),
        cmocka_unit_test_setup_teardown(a_claim_may_be_marked_in_one_go, setup_sqlite, teardown),
        cmocka_unit_test_setup_teardown(update_may_require_the_epoch_of_the_claim, setup_memory,
                                        teardown),
        cmocka_unit_test_setup_teardown(update_may_require_the_epoch_of_the_claim, setup_sqlite,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_mark_without_a_wish, setup_memory, teardown),
        cmocka_unit_test_setup_teardown(no_mark_without_a_wish, setup_sqlite, teardown),
        cmocka_unit_test_setup_teardown(a_transport_that_is_its_process_ends_with_it, setup_memory,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_transport_that_is_its_process_ends_with_it, setup_sqlite,
                                        teardown),
    };
    return cmocka_run_group_tests_name("store marks", tests, NULL, NULL);
}
