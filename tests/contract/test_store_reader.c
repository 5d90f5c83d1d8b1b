/* SPDX-License-Identifier: MIT */
/*
 * A reader that stands in a long log (an open SELECT, `hapax ops verify`) keeps it from being
 * moved. Whoever would write waits for the lock under which that is tried: so it is tried without
 * waiting for the reader, and not without a pause. Both are counted, in the VFS.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "world.h"

enum { CHECKPOINT_LOCK = 1, PROCESSES = 3, LONG_LOG = 5 * 1024 * 1024 };

static const sqlite3_io_methods *real_methods;
static sqlite3_io_methods watched_methods;
static sqlite3_vfs watching_vfs;
static _Atomic unsigned tries;  /* to move the log */
static _Atomic unsigned sleeps; /* of SQLite, for somebody else's lock */

static int shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    if (offset == CHECKPOINT_LOCK && count == 1 && (flags & SQLITE_SHM_LOCK) != 0)
        atomic_fetch_add(&tries, 1);
    return real_methods->xShmLock(file, offset, count, flags);
}

static int count_sleep(sqlite3_vfs *vfs, int us)
{
    sqlite3_vfs *real = vfs->pAppData;
    atomic_fetch_add(&sleeps, 1);
    return real->xSleep(real, us);
}

static int watch_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    sqlite3_vfs *real = vfs->pAppData;
    int code = real->xOpen(real, name, file, flags, ret_flags);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
        real_methods = file->pMethods;
        watched_methods = *real_methods;
        watched_methods.xShmLock = shm_lock;
        file->pMethods = &watched_methods;
    }
    return code;
}

static void watch(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    watching_vfs = *real;
    watching_vfs.zName = "watching";
    watching_vfs.pAppData = real;
    watching_vfs.xOpen = watch_open;
    watching_vfs.xSleep = count_sleep;
    assert_int_equal(sqlite3_vfs_register(&watching_vfs, 1), SQLITE_OK);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void insert_large(struct world *world, int process, unsigned number)
{
    static char bytes[200 * 1024];
    memset(bytes, 'a', sizeof(bytes));
    struct hx_record record = world_record(world, process, number);
    record.arguments = hx_span(bytes, sizeof(bytes));
    struct hx_store_request *request = world_insert(world->stores[process], &record);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

/* The number that its first frame after a move raises. */
static uint32_t log_number(const struct world *world)
{
    char path[160];
    uint8_t bytes[4] = {0};
    snprintf(path, sizeof(path), "%s-wal", world->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 12), sizeof(bytes));
    close(fd);
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void a_standing_reader_stops_nobody(void **state)
{
    (void)state;
    struct world *world = world_new(WORLD_SQLITE);
    sqlite3 *reader = NULL;
    for (int i = 0; i < PROCESSES; i++)
        world_open(world, i);
    insert_large(world, 0, 1);
    assert_int_equal(sqlite3_open_v2(world->path, &reader, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_db_config(reader, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM op", NULL, NULL, NULL),
                     SQLITE_OK);
    for (unsigned i = 0; i < LONG_LOG / (200 * 1024) + PROCESSES; i++)
        insert_large(world, (int)(i % PROCESSES), 10 + i);
    /* From here on they are idle. Each may try after 0, 1, 3, 7, ... seconds. */
    atomic_store(&tries, 0);
    atomic_store(&sleeps, 0);
    int64_t began_ms = now_ms();
    while (now_ms() - began_ms < 2500 || atomic_load(&tries) == 0)
        (void)poll(NULL, 0, 100);
    unsigned counted = atomic_load(&tries);
    int64_t seconds = (now_ms() - began_ms) / 1000;
    print_message("%u tries of %d processes in %lld s, %u sleeps\n", counted, PROCESSES,
                  (long long)seconds, atomic_load(&sleeps));
    assert_true(counted <= PROCESSES * (2 + (unsigned)seconds));
    assert_int_equal(atomic_load(&sleeps), 0);
    /* When it has gone, the log is begun anew. */
    uint32_t number = log_number(world);
    assert_int_equal(sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    unsigned next = 1000;
    began_ms = now_ms();
    while (log_number(world) == number && now_ms() - began_ms < 60000) {
        (void)poll(NULL, 0, 200);
        insert_large(world, 0, next++);
    }
    assert_true(log_number(world) != number);
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    world_free(world);
}

int main(void)
{
    watch();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standing_reader_stops_nobody),
    };
    return cmocka_run_group_tests_name("store, reader", tests, NULL, NULL);
}
