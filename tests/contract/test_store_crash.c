/* SPDX-License-Identifier: MIT */
/*
 * A process is SIGKILLed at every named point of the store, each time it comes there; then the
 * ledger is opened again. What was told stays true, no outcome that was kept is lost, a second
 * crash inside the recovery changes nothing, and the file verifies.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "base/crash.h"
#include "crash_history.h"

enum { VISITS_MAX = 200 };

/* Runs the child with one crash point set; false when it came to its end. */
static bool crashes(struct world *world, struct crash_told *told, const char *at)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HAPAX_CRASH_AT", at, 1);
        crash_history_live(world, told);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return true;
}

/* The recovery itself is killed too: a process that opens the ledger, and dies there. */
static void crash_again(struct world *world, const char *at)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HAPAX_CRASH_AT", at, 1);
        world_open(world, 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void every_point_every_visit(void **state)
{
    if (hx_crash_point_count() == 0)
        skip();
    for (size_t i = 0; i < hx_crash_point_count(); i++) {
        const char *name = hx_crash_point_name(i);
        bool is_duplicate = false;
        for (size_t k = 0; k < i; k++)
            is_duplicate |= strcmp(name, hx_crash_point_name(k)) == 0;
        bool was_reached = !is_duplicate;
        unsigned visit = 0;
        while (was_reached && visit < VISITS_MAX) {
            char at[64];
            snprintf(at, sizeof(at), "%s:%u", name, ++visit);
            struct world *world = world_new(WORLD_SQLITE);
            world->options.keeps_outbox = true;
            struct crash_told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            was_reached = crashes(world, told, at);
            crash_again(world, name);
            crash_history_check(world, told, false);
            crash_history_check(world, told, false);
            crash_history_verify(world);
            munmap(told, sizeof(*told));
            world_free(world);
        }
        if (!is_duplicate)
            print_message("%s: %u crashes\n", name, visit - 1);
        if (!is_duplicate && visit < 2)
            print_error("point %s was never reached\n", name);
        assert_true(is_duplicate || visit >= 2);
    }
}

static void copy_fixture(struct world *world, const char *name)
{
    char bytes[65536], path[512];
    snprintf(path, sizeof(path), "%s/%s", HX_FIXTURES, name);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int out = open(world->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

/* While nobody else uses it. */
static int number_in(struct world *world, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int number = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

/* A ledger of format 1 whose migration is killed is one of a format, and nothing between. */
static void a_killed_migration_is_whole_or_not_there(void **state)
{
    static const struct {
        const char *at;
        int version;
    } cases[] = {{"migrate-before-commit", 1},
                 {"migrate-after-commit", 2},
                 {"migrate-before-commit:2", 2},
                 {"migrate-after-commit:2", 3},
                 {"migrate-before-commit:3", 3},
                 {"migrate-after-commit:3", 4},
                 {"commit-before", 4}};
    if (hx_crash_point_count() == 0)
        skip();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(WORLD_SQLITE);
        world->options.keeps_outbox = true;
        struct crash_told *told =
            mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        copy_fixture(world, "version-1.db");
        assert_int_equal(number_in(world, "PRAGMA user_version"), 1);
        assert_true(crashes(world, told, cases[i].at));
        assert_int_equal(number_in(world, "PRAGMA user_version"), cases[i].version);
        assert_int_equal(number_in(world, "SELECT count(*) FROM sqlite_master WHERE name IN"
                                          " ('session', 'stream', 'resume', 'op_gone')"),
                         cases[i].version == 1 ? 0 : 4);
        assert_int_equal(number_in(world, "SELECT count(*) FROM sqlite_master WHERE name IN"
                                          " ('outbox', 'outbox_open', 'outbox_due')"),
                         cases[i].version < 3 ? 0 : 3);
        assert_int_equal(number_in(world, "SELECT count(*) FROM op"), 4);
        crash_history_verify(world);
        assert_int_equal(number_in(world, "PRAGMA user_version"), 4);
        munmap(told, sizeof(*told));
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_point_every_visit),
                                       cmocka_unit_test(a_killed_migration_is_whole_or_not_there)};
    return cmocka_run_group_tests_name("store crashes", tests, NULL, NULL);
}
