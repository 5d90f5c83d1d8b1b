/* SPDX-License-Identifier: MIT */
/*
 * An older copy that is written over the file of a ledger in use, as `cp backup ledger` does:
 * SQLite sees nothing of it. Nothing is claimed on it, nothing is moved into it, and it is not
 * believed because the log of the ledger lies beside it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/fault.h"
#include "world.h"

static void done(struct hx_store_request *request)
{
    if (request->result != HX_STORE_DONE)
        print_error("%s\n", request->error);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static void assert_overwritten(struct hx_store_request *request)
{
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    assert_non_null(strstr(request->error, "was overwritten with a copy while in use: stop all"));
    assert_non_null(strstr(request->error, "hapax ops recover."));
    hx_store_request_free(request);
}

/* Over the inode of `to`, if there is one. */
static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

static bool is_same_file(const char *one, const char *other)
{
    char left[4096], right[4096];
    int fds[2] = {open(one, O_RDONLY | O_CLOEXEC), open(other, O_RDONLY | O_CLOEXEC)};
    bool is_same = true;
    for (ssize_t len = 1; is_same && len > 0;) {
        len = read(fds[0], left, sizeof(left));
        is_same =
            read(fds[1], right, sizeof(right)) == len && memcmp(left, right, (size_t)len) == 0;
    }
    close(fds[0]);
    close(fds[1]);
    return is_same;
}

static void beside(const struct world *world, const char *suffix, char ret_path[160])
{
    snprintf(ret_path, 160, "%s%s", world->path, suffix);
}

static void insert_many(struct world *world, int process, unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++) {
        struct hx_record record = world_record(world, process, i);
        done(world_insert(world->stores[process], &record));
    }
}

/* Moves the log, while process 0 has the ledger open. */
static void move_log(struct world *world)
{
    world_open(world, 1);
    insert_many(world, 1, 1000 + (unsigned)(world_random(world) % 3000), 1);
    world_close(world, 1);
}

static unsigned problems(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {0};
    int rc = hx_inspect_open(&world->options, &inspect);
    if (rc == 0)
        rc = hx_inspect_verify(inspect, &listener, &report);
    if (rc < 0)
        print_error("%s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    hx_inspect_close(inspect);
    return report.problems;
}

/* Process 0 has it open, and a row since the log was last moved; the copy is older than that. */
static void overwrite(struct world *world, char ret_copy[160])
{
    beside(world, ".copy", ret_copy);
    world_open(world, 0);
    insert_many(world, 0, 1, 3);
    move_log(world);
    copy_file(world->path, ret_copy);
    insert_many(world, 0, 4, 3);
    move_log(world);
    insert_many(world, 0, 7, 3);
    copy_file(ret_copy, world->path);
}

static void a_copy_over_a_ledger_in_use_takes_no_claim(void **state)
{
    struct world *world = *state;
    char copy[160];
    overwrite(world, copy);
    struct hx_record record = world_record(world, 0, 20);
    assert_overwritten(world_insert(world->stores[0], &record));
    assert_overwritten(world_claim(world->stores[0], &record));
    /* Who comes now learns it too: he has the log, and with it as many commits as are counted. */
    struct hx_store *store = NULL;
    assert_true(hx_store_sqlite_open(&world->options, &store) < 0);
    assert_non_null(strstr(hx_fault_last()->text, "was overwritten with a copy"));
}

/* An outcome that is on its way is kept beside it, as when the disk is full. */
static void what_was_under_way_is_kept(void **state)
{
    struct world *world = *state;
    char copy[160];
    overwrite(world, copy);
    struct hx_record record = world_record(world, 0, 8);
    struct hx_store_request *found = world_find(world->stores[0], &record, true, false);
    assert_int_equal(found->record_count, 1);
    struct hx_store_request *spool = hx_store_request_new(HX_STORE_SPOOL, NULL);
    spool->record = found->records[0].record;
    spool->record.state = HX_OP_SUCCEEDED;
    spool->record.attempt.state = HX_ATTEMPT_CONFIRMED;
    spool->record.outcome.kind = HX_OUTCOME_RESULT;
    spool->record.outcome.bytes = HX_SPAN_LIT("{}");
    spool->record.outcome.size = 2;
    spool->expected_fence = found->records[0].record.fence;
    done(world_run(world->stores[0], spool));
    hx_store_request_free(found);
    assert_overwritten(world_insert(world->stores[0], &record));
}

/* And the file is the copy that was put there, whole, when all have gone. */
static void nothing_is_moved_into_a_copy(void **state)
{
    struct world *world = *state;
    char copy[160], wal[160], shm[160];
    struct stat info;
    struct hx_wall taken_at = world->now.wall;
    overwrite(world, copy);
    world->now.wall.ms += 3600000;
    world_close(world, 0);
    assert_true(is_same_file(world->path, copy));
    beside(world, "-wal", wal);
    beside(world, "-shm", shm);
    assert_int_equal(stat(wal, &info), 0);
    assert_true(info.st_size > 0);
    /* Its log on the copy would be a mixture that looks like the newest ledger. */
    struct hx_store *store = NULL;
    struct hx_inspect *inspect = NULL;
    assert_true(hx_store_sqlite_open(&world->options, &store) < 0);
    assert_non_null(strstr(hx_fault_last()->text, "was overwritten with a copy"));
    assert_true(hx_inspect_open(&world->options, &inspect) < 0);
    assert_true(is_same_file(world->path, copy));
    /* As it is told. */
    unlink(wal);
    unlink(shm);
    world_open(world, 0);
    assert_non_null(world->stores[0]->ops->refusal(world->stores[0]));
    struct hx_recover_report report;
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_recover(inspect, taken_at, &report), 0);
    assert_true(report.was_restored_copy);
    hx_inspect_close(inspect);
    world_close(world, 0);
    for (int round = 0; round < 2; round++) {
        world_open(world, 0);
        assert_null(world->stores[0]->ops->refusal(world->stores[0]));
        insert_many(world, 0, 30 + (unsigned)round, 1);
        assert_int_equal(problems(world), 0);
        world_close(world, 0);
    }
}

/* The same when nobody was left to notice: a copy is put beside the log of a killed process. */
static void the_log_of_the_dead_makes_no_ledger_of_a_copy(void **state)
{
    struct world *world = *state;
    char copy[160];
    struct hx_store *store = NULL;
    overwrite(world, copy);
    world_kill(world, 0);
    assert_true(hx_store_sqlite_open(&world->options, &store) < 0);
    assert_non_null(strstr(hx_fault_last()->text, "was overwritten with a copy"));
}

static void another_ledger_over_it_is_noticed(void **state)
{
    struct world *world = *state;
    struct world *other = world_new(WORLD_SQLITE);
    world_open(other, 0);
    insert_many(other, 0, 1, 40);
    world_close(other, 0);
    world_open(world, 0);
    insert_many(world, 0, 1, 3);
    move_log(world);
    copy_file(other->path, world->path);
    struct hx_record record = world_record(world, 0, 20);
    assert_overwritten(world_insert(world->stores[0], &record));
    world_free(other);
}

/* All that it lacks stands in the log; nor is a new time of the file alone any harm. */
static void a_copy_that_loses_nothing_is_none(void **state)
{
    struct world *world = *state;
    char copy[160];
    beside(world, ".copy", copy);
    world_open(world, 0);
    insert_many(world, 0, 1, 3);
    move_log(world);
    copy_file(world->path, copy);
    insert_many(world, 0, 4, 3);
    copy_file(copy, world->path);
    insert_many(world, 0, 7, 3);
    assert_int_equal(utimensat(AT_FDCWD, world->path, NULL, 0), 0);
    insert_many(world, 0, 10, 3);
    assert_int_equal(problems(world), 0);
    world_close(world, 0);
    world_open(world, 0);
    insert_many(world, 0, 13, 3);
    for (unsigned i = 1; i < 16; i++) {
        struct hx_record record = world_record(world, 0, i);
        struct hx_store_request *found = world_find(world->stores[0], &record, true, false);
        assert_int_equal(found->record_count, 1);
        hx_store_request_free(found);
    }
    assert_int_equal(problems(world), 0);
}

/* A crash of the host while the log was moved: the leaf of table `ledger` is old in one sector and
 * new in another, so that its pointer leads to no row. The log still has the page. */
static void a_half_written_page_is_no_copy(void **state)
{
    enum { PAGE_SIZE = 4096, POINTER_AT = 8 };
    struct world *world = *state;
    uint8_t pointer[2], bytes[16] = {0};
    world_open(world, 0);
    insert_many(world, 0, 1, 3);
    move_log(world);
    insert_many(world, 0, 4, 3);
    world_kill(world, 0);
    int fd = open(world->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, pointer, sizeof(pointer), PAGE_SIZE + POINTER_AT), sizeof(pointer));
    off_t cell = PAGE_SIZE + (pointer[0] << 8 | pointer[1]);
    assert_int_equal(pwrite(fd, bytes, sizeof(bytes), cell), sizeof(bytes));
    close(fd);
    world_open(world, 0);
    assert_null(world->stores[0]->ops->refusal(world->stores[0]));
    insert_many(world, 0, 7, 3);
    move_log(world);
    insert_many(world, 0, 10, 3);
    assert_int_equal(problems(world), 0);
}

/* The note of what was moved is lost, torn, or of a version that wrote none: nothing is said. */
static void a_lost_note_raises_no_alarm(void **state)
{
    struct world *world = *state;
    char counter[160];
    beside(world, "-counter", counter);
    for (int round = 0; round < 3; round++) {
        world_open(world, 0);
        insert_many(world, 0, 1 + 10 * (unsigned)round, 3);
        move_log(world);
        insert_many(world, 0, 5 + 10 * (unsigned)round, 3);
        assert_int_equal(truncate(counter, round == 0 ? 48 : 70), 0);
        insert_many(world, 0, 8 + 10 * (unsigned)round, 1);
        if (round == 1)
            world_kill(world, 0);
        else
            world_close(world, 0);
    }
    world_open(world, 0);
    assert_null(world->stores[0]->ops->refusal(world->stores[0]));
    assert_int_equal(problems(world), 0);
}

static int setup(void **state)
{
    *state = world_new(WORLD_SQLITE);
    return 0;
}

static int teardown(void **state)
{
    *state = world_free(*state);
    return 0;
}

#define ON_WORLD(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WORLD(a_copy_over_a_ledger_in_use_takes_no_claim),
        ON_WORLD(what_was_under_way_is_kept),
        ON_WORLD(nothing_is_moved_into_a_copy),
        ON_WORLD(the_log_of_the_dead_makes_no_ledger_of_a_copy),
        ON_WORLD(another_ledger_over_it_is_noticed),
        ON_WORLD(a_copy_that_loses_nothing_is_none),
        ON_WORLD(a_half_written_page_is_no_copy),
        ON_WORLD(a_lost_note_raises_no_alarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
