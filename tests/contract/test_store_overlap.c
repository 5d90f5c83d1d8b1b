/* SPDX-License-Identifier: MIT */
/*
 * SQLite before 3.51.3 can corrupt a ledger when one process moves the log into the database while
 * another writes. Two processes write and move as hard as they can; the locks that SQLite itself
 * takes in shared memory are watched, beneath our own: while one process holds that of a writer, no
 * other may hold that of a checkpoint. Afterwards every commit that was told is there, and the file
 * verifies.
 *
 * The fault itself needs a race of microseconds inside SQLite, so that a sound file alone
 * would prove little; that the two never overlap is what our lock is for.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/rows.h"
#include "base/fault.h"
#include "world.h"

enum { WRITERS = 2, COMMITS = 3000, WRITE_LOCK = 0, CHECKPOINT_LOCK = 1 };

struct shared {
    _Atomic pid_t writer;       /* who holds SQLite's lock of a writer */
    _Atomic pid_t checkpointer; /* and that of a checkpoint */
    _Atomic uint32_t overlaps;
    _Atomic uint32_t checkpoints;
    _Atomic uint32_t writers_left;
    _Atomic uint32_t opened;            /* nobody begins before all are there */
    _Atomic uint32_t told[WRITERS + 1]; /* commits that were told to be done */
};

static struct shared *shared;
static const sqlite3_io_methods *real_methods;
static sqlite3_io_methods watched_methods;
static sqlite3_vfs watching_vfs;

static void look(pid_t other)
{
    if (other != 0 && other != getpid())
        atomic_fetch_add(&shared->overlaps, 1);
}

/* Told after a lock is taken and before it is let go, so that what overlaps here overlaps there. */
static int shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    bool is_one = count == 1 && (flags & SQLITE_SHM_EXCLUSIVE) != 0;
    _Atomic pid_t *holder = !is_one                     ? NULL
                            : offset == WRITE_LOCK      ? &shared->writer
                            : offset == CHECKPOINT_LOCK ? &shared->checkpointer
                                                        : NULL;
    if (holder != NULL && (flags & SQLITE_SHM_UNLOCK) != 0)
        atomic_store(holder, 0);
    int code = real_methods->xShmLock(file, offset, count, flags);
    if (holder != NULL && (flags & SQLITE_SHM_LOCK) != 0 && code == SQLITE_OK) {
        atomic_store(holder, getpid());
        (void)sched_yield(); /* let the others try just now */
        look(atomic_load(holder == &shared->writer ? &shared->checkpointer : &shared->writer));
    }
    return code;
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
    assert_int_equal(sqlite3_vfs_register(&watching_vfs, 1), SQLITE_OK);
}

static void open_ledger(struct world *world, struct hx_ledger *ledger, unsigned number)
{
    uint8_t random[10] = {(uint8_t)(number + 1)};
    struct hx_id owner = hx_id_make(world->now.wall, random);
    int rc = hx_ledger_open(ledger, &world->options, &owner);
    if (rc < 0)
        fprintf(stderr, "open: %s\n", hx_fault_last()->text);
    hx_assert(rc == 0);
    ledger->lock_wait_ms = 30000;
}

/* Not synced, so that there are many: the fault asks for no sync. */
static bool write_one(struct hx_ledger *ledger)
{
    if (hx_ledger_begin(ledger, HX_TXN_LAZY) != 0)
        return false;
    static const char text[] = "{\"what\":\"a line long enough to fill a page of the log soon\"}";
    if (hx_row_note(ledger, NULL, HX_HISTORY_NOTE, hx_span(text, sizeof(text) - 1)) < 0) {
        hx_ledger_rollback(ledger);
        return false;
    }
    return hx_ledger_commit(ledger) == 0;
}

static _Noreturn void child(struct world *world, unsigned number)
{
    struct hx_ledger ledger;
    open_ledger(world, &ledger, number);
    bool is_writer = number < WRITERS;
    atomic_fetch_add(&shared->opened, 1);
    while (atomic_load(&shared->opened) <= WRITERS)
        (void)sched_yield();
    for (unsigned i = 0; is_writer ? i < COMMITS : atomic_load(&shared->writers_left) > 0; i++) {
        /* The mover writes too: each of the two is then both. */
        if (write_one(&ledger))
            atomic_fetch_add(&shared->told[number], 1);
        if (!is_writer || i % 8 == 0)
            if (hx_ledger_checkpoint(&ledger, i % 3 == 0) == 0)
                atomic_fetch_add(&shared->checkpoints, 1);
    }
    if (is_writer)
        atomic_fetch_sub(&shared->writers_left, 1);
    hx_ledger_close(&ledger);
    _exit(0);
}

static int count_notes(void *context, int count, char **values, char **names)
{
    (void)count;
    (void)names;
    *(long *)context = strtol(values[0], NULL, 10);
    return 0;
}

static void hear(void *context, bool is_problem, const char *text)
{
    (void)context;
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void assert_whole(struct world *world, uint32_t told)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
    /* Nobody else has it open any more. */
    sqlite3 *db = NULL;
    long rows = -1;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "SELECT count(*) FROM history WHERE op = 0", count_notes, &rows, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(rows, told);
}

static void commits_and_checkpoints_never_overlap(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    atomic_store(&shared->writers_left, WRITERS);
    watch();
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_ledger first;
    open_ledger(world, &first, WRITERS + 1);
    hx_ledger_close(&first);
    pid_t children[WRITERS + 1];
    for (unsigned i = 0; i <= WRITERS; i++) {
        fflush(NULL);
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            child(world, i);
    }
    for (unsigned i = 0; i <= WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    uint32_t told = 0;
    for (unsigned i = 0; i <= WRITERS; i++)
        told += atomic_load(&shared->told[i]);
    print_message("%u commits, %u checkpoints, %u overlaps, SQLite %s\n", told,
                  atomic_load(&shared->checkpoints), atomic_load(&shared->overlaps),
                  sqlite3_libversion());
    assert_int_equal(atomic_load(&shared->overlaps), 0);
    assert_true(atomic_load(&shared->checkpoints) > COMMITS / 8);
    assert_whole(world, told);
    world_free(world);
    munmap(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_and_checkpoints_never_overlap),
    };
    return cmocka_run_group_tests_name("store overlap", tests, NULL, NULL);
}
