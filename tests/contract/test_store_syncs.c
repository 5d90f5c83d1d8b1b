/* SPDX-License-Identifier: MIT */
/*
 * What is told to be durable was synced before it was told: SIGKILL alone would not show it, since
 * the kernel keeps what a dead process wrote. So this program stands between the store and
 * fdatasync(), and looks at which files were synced, and how long they were then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "world.h"

static atomic_int log_syncs, spool_syncs;
static _Atomic int64_t spool_synced_blocks;

static void note(int fd)
{
    char name[64], path[256];
    struct stat info;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(name, path, sizeof(path) - 1);
    if (len < 0)
        return;
    path[len] = '\0';
    if (strstr(path, "-wal") != NULL)
        atomic_fetch_add(&log_syncs, 1);
    if (strstr(path, "spool/") != NULL && fstat(fd, &info) == 0) {
        atomic_fetch_add(&spool_syncs, 1);
        atomic_store(&spool_synced_blocks, info.st_blocks);
    }
}

/* Ours comes before that of the C library, for SQLite too. */
int fdatasync(int fd);
int fdatasync(int fd)
{
    note(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd);
int fsync(int fd)
{
    note(fd);
    return (int)syscall(SYS_fsync, fd);
}

static void must_be_done(struct hx_store_request *request)
{
    if (request->result != HX_STORE_DONE)
        print_error("%s\n", request->error);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static struct hx_record settled(struct world *world, const struct hx_record *record)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.bytes = HX_SPAN_LIT("{\"content\":[]}");
    next.outcome.size = next.outcome.bytes.len;
    hx_hasher_begin(world->hasher);
    hx_hasher_add(world->hasher, next.outcome.bytes);
    next.outcome.digest = hx_hasher_end(world->hasher);
    return next;
}

static void claims_and_outcomes_are_synced_before_they_are_told(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    for (unsigned number = 0; number < 5; number++) {
        struct hx_record record = world_record(world, 0, number);
        atomic_store(&log_syncs, 0);
        must_be_done(world_insert(store, &record));
        assert_int_equal(atomic_load(&log_syncs), 1);
        /* The mark may go with the machine; that it cost nothing is why it may be written at
         * all. */
        must_be_done(world_mark(world, store, &record));
        assert_int_equal(atomic_load(&log_syncs), 1);
        struct hx_record next = settled(world, &record);
        next.attempt.is_marked = true;
        next.attempt.marked_at = next.first_mark = world->now;
        must_be_done(world_update(store, &next, 1));
        assert_int_equal(atomic_load(&log_syncs), 2);
    }
    world_free(world);
}

/* A key that the machine forgot would run once more under its name. */
static void a_name_given_later_is_synced_too(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    record.key_source = HX_KEY_NONE;
    record.identity = hx_record_identity(world->hasher, &record, false);
    must_be_done(world_insert(store, &record));
    atomic_store(&log_syncs, 0);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record = record;
    request->record.key = HX_SPAN_LIT("order-7");
    request->record.key_source = HX_KEY_META;
    request->record.identity = hx_record_identity(world->hasher, &request->record, false);
    request->touch.rekey = true;
    must_be_done(world_run(store, request));
    assert_int_equal(atomic_load(&log_syncs), 1);
    must_be_done(world_touch(store, &record.id, (struct hx_store_touch){.add_repeats = 1}));
    assert_int_equal(atomic_load(&log_syncs), 1);
    world_free(world);
}

/* "Sent" may be believed after a crash of the machine, so "taken back" must be too. */
static void a_loss_is_synced_where_the_receipt_was_told(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_be_done(world_insert(store, &record));
    atomic_store(&log_syncs, 0);
    must_be_done(world_touch(store, &record.id, (struct hx_store_touch){.add_sent = 1}));
    assert_int_equal(atomic_load(&log_syncs), 0);
    must_be_done(
        world_touch(store, &record.id, (struct hx_store_touch){.add_lost = 1, .subtract_sent = 1}));
    assert_int_equal(atomic_load(&log_syncs), 1);
    must_be_done(world_touch(store, &record.id, (struct hx_store_touch){.add_lost = 1}));
    assert_int_equal(atomic_load(&log_syncs), 1);
    world_free(world);
}

static void a_spooled_outcome_is_synced_before_it_is_told(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    for (unsigned number = 0; number < 3; number++) {
        struct hx_record record = world_record(world, 0, number);
        must_be_done(world_insert(store, &record));
        struct hx_store_request *request = hx_store_request_new(HX_STORE_SPOOL, NULL);
        request->record = settled(world, &record);
        request->expected_fence = 1;
        atomic_store(&spool_syncs, 0);
        must_be_done(world_run(store, request));
        assert_true(atomic_load(&spool_syncs) >= 1);
        assert_true(atomic_load(&spool_synced_blocks) > 0);
    }
    world_free(world);
}

/* One that opens the ledger and writes nothing. */
static int syncs_of_a_look(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    atomic_store(&log_syncs, 0);
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    int syncs = atomic_load(&log_syncs);
    hx_inspect_close(inspect);
    return syncs;
}

/* Whoever died between writing a commit and its sync leaves it whole in the log: it is synced
 * before anybody believes it. What an orderly end leaves is empty, and the start does not wait
 * for it. */
static void a_log_that_is_found_is_synced_before_it_is_believed(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    must_be_done(world_insert(store, &record));
    world_kill(world, 0);
    assert_true(syncs_of_a_look(world) >= 1);
    world_open(world, 1);
    world_close(world, 1); /* empties the log */
    assert_int_equal(syncs_of_a_look(world), 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_and_outcomes_are_synced_before_they_are_told),
        cmocka_unit_test(a_name_given_later_is_synced_too),
        cmocka_unit_test(a_loss_is_synced_where_the_receipt_was_told),
        cmocka_unit_test(a_spooled_outcome_is_synced_before_it_is_told),
        cmocka_unit_test(a_log_that_is_found_is_synced_before_it_is_believed),
    };
    return cmocka_run_group_tests_name("store syncs", tests, NULL, NULL);
}
