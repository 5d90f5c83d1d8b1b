/* SPDX-License-Identifier: MIT */
/*
 * By what a commit in doubt is read back: by the very history line that it wrote, and no other; and
 * not before the log was cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "faulty_vfs.h"
#include "world.h"

static enum hx_store_result result_of(struct hx_store_request *request)
{
    enum hx_store_result result = request->result;
    hx_store_request_free(request);
    return result;
}

/* A claim of a row that was there, and the outcome of the same claim, are both updates under one
 * fence; here they also come in one millisecond, as on a fast machine or under a clock that stands
 * still. The line of the one does not prove the other. */
static void the_line_of_a_claim_proves_no_outcome(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    record.state = HX_OP_READY;
    record.attempt.state = HX_ATTEMPT_REFUSED;
    assert_int_equal(result_of(world_update(store, &record, 1)), HX_STORE_DONE);
    record.state = HX_OP_RUNNING;
    record.attempt.state = HX_ATTEMPT_OPEN;
    record.attempt.number = 2;
    record.fence = 2;
    assert_int_equal(result_of(world_update(store, &record, 1)), HX_STORE_DONE);
    struct hx_record outcome = record;
    outcome.state = HX_OP_SUCCEEDED;
    outcome.reason = HX_REASON_ANSWERED;
    outcome.attempt.state = HX_ATTEMPT_CONFIRMED;
    outcome.outcome.kind = HX_OUTCOME_RESULT;
    outcome.outcome.bytes = HX_SPAN_LIT("{\"content\":[]}");
    outcome.outcome.size = outcome.outcome.bytes.len;
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    enum hx_store_result result = result_of(world_update(store, &outcome, 2));
    assert_true(faulty_vfs_has_struck());
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    struct hx_store_request *find = world_find_id(store, &record.id);
    assert_int_equal(find->records[0].record.state, HX_OP_RUNNING);
    hx_store_request_free(find);
    assert_int_equal(result, HX_STORE_NOT_DONE);
    assert_int_equal(result_of(world_update(store, &outcome, 2)), HX_STORE_DONE);
    world_free(world);
}

/* The same of two notes. One is synced when a loss that must be is in its batch. */
static void the_line_of_a_note_proves_no_other(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    for (unsigned i = 0; i < 2; i++) {
        struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
        struct hx_store_request *loss = hx_store_request_new(HX_STORE_TOUCH, NULL);
        note->record.id = loss->record.id = record.id;
        note->note = HX_SPAN_LIT("{}");
        loss->touch.subtract_sent = 1;
        store->ops->submit(store, note);
        store->ops->submit(store, loss);
        faulty_vfs_arm(FAULTY_SYNC, i, 1);
        store->ops->flush(store);
        for (int n = 0; n < 2; n++)
            assert_int_equal(result_of(world_take(store)),
                             i == 0 ? HX_STORE_DONE : HX_STORE_NOT_DONE);
    }
    assert_true(faulty_vfs_has_struck());
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    world_free(world);
}

/* A reader keeps the log from being cut, though all of it can be moved. What a failed sync lost
 * would stand in the middle of it, and a recovery would end there: nothing is healed meanwhile. */
static void a_log_that_a_reader_keeps_is_not_healed(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_request *claim = hx_store_request_new(HX_STORE_INSERT, NULL), *done;
    sqlite3 *reader = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open_v2(world->path, &reader, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_db_config(reader, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_prepare_v2(reader, "SELECT epoch FROM ledger", -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    claim->record = record;
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    store->ops->submit(store, claim);
    store->ops->flush(store);
    while ((done = store->ops->take_done(store)) == NULL && store->ops->refusal(store) == NULL) {
    }
    assert_true(faulty_vfs_has_struck());
    assert_null(done);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    assert_ptr_equal(world_take(store), claim);
    assert_int_equal(result_of(claim), HX_STORE_NOT_DONE);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    world_free(world);
}

int main(void)
{
    faulty_vfs_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_of_a_claim_proves_no_outcome),
        cmocka_unit_test(the_line_of_a_note_proves_no_other),
        cmocka_unit_test(a_log_that_a_reader_keeps_is_not_healed),
    };
    return cmocka_run_group_tests_name("store proof", tests, NULL, NULL);
}
