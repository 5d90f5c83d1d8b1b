/* SPDX-License-Identifier: MIT */
/*
 * A process, or its whole host, dies in place of every single write, cut, sync and change of a name
 * in the ledger's directory: the first, the second, until none is left. Linked with
 * kit/host_disk.c, so that SQLite's files, the spool, the counter and the blobs are all meant.
 */
#include <fcntl.h>
#include <glob.h>
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

#include "adapter/store_sqlite/schema.h"
#include "crash_history.h"
#include "host_crash.h"
#include "sanitized.h"

/* A sanitized program takes samples. */
enum { STRIDE = KIT_HAS_ASAN || KIT_HAS_TSAN ? 41 : 1 };

enum death { KILLED, LOST, TORN };

/* The log stands beside the directory, which is the ledger's alone. */
static void log_name(const struct world *world, char ret_name[128])
{
    snprintf(ret_name, 128, "%s.disk", world->directory);
}

/* With the files that were unlinked, which are kept beside it. */
static void remove_log(const struct world *world)
{
    char pattern[136], name[128];
    glob_t found;
    log_name(world, name);
    snprintf(pattern, sizeof(pattern), "%s*", name);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        (void)unlink(found.gl_pathv[i]);
    globfree(&found);
}

typedef void life(struct world *world, struct crash_told *told);

/* True when it died there, false when it came to its end before. */
static bool dies_at(struct world *world, struct crash_told *told, life *live, unsigned long n,
                    enum death death)
{
    char name[128], at[32];
    log_name(world, name);
    snprintf(at, sizeof(at), "%lu%s", n, death == TORN ? " half" : "");
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HAPAX_DISK", world->directory, 1);
        if (death != KILLED)
            setenv("HAPAX_DISK_LOG", name, 1);
        setenv("HAPAX_DISK_KILL", at, 1);
        live(world, told);
        _exit(0);
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

/* What the host, if it died too, forgets. */
static unsigned settle(struct world *world, unsigned long n, enum death death)
{
    char name[128];
    if (death == KILLED)
        return 0;
    log_name(world, name);
    unsigned taken_back = host_crash(world->directory, name, death == TORN, n);
    memset(&world->now.boot, 8, sizeof(world->now.boot));
    remove_log(world);
    return taken_back;
}

static void history(struct world *world, struct crash_told *told)
{
    crash_history_live(world, told);
}

static void die_everywhere(enum death death)
{
    bool has_died = true;
    unsigned long n = 1 - STRIDE, taken_back = 0;
    while (has_died) {
        struct world *world = world_new(WORLD_SQLITE);
        world->options.keeps_outbox = true;
        struct crash_told *told =
            mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        has_died = dies_at(world, told, history, n += STRIDE, death);
        taken_back += settle(world, n, death);
        crash_history_check(world, told, death != KILLED);
        crash_history_check(world, told, death != KILLED);
        crash_history_verify(world);
        munmap(told, sizeof(*told));
        world_free(world);
    }
    print_message("%lu places to die, %lu changes taken back\n", n - 1, taken_back);
    assert_true(n > 200);
    assert_true(death == KILLED || taken_back > n / STRIDE);
}

static void a_process_dies_anywhere(void **state)
{
    die_everywhere(KILLED);
}

static void a_host_dies_anywhere_and_forgets(void **state)
{
    die_everywhere(LOST);
}

static void a_host_dies_anywhere_and_tears(void **state)
{
    die_everywhere(TORN);
}

static void copy_fixture(struct world *world, int version)
{
    char bytes[65536], path[512];
    snprintf(path, sizeof(path), "%s/version-%d.db", HX_FIXTURES, version);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int out = open(world->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    assert_int_equal(fsync(out), 0);
    close(in);
    close(out);
}

static void opened(struct world *world, struct crash_told *told)
{
    world_open(world, 0);
    world_close(world, 0);
}

static void migrate_and_die(int version, enum death death)
{
    bool has_died = true;
    unsigned long n = 0;
    while (has_died) {
        struct world *world = world_new(WORLD_SQLITE);
        copy_fixture(world, version);
        has_died = dies_at(world, NULL, opened, ++n, death);
        (void)settle(world, n, death);
        opened(world, NULL);
        crash_history_verify(world);
        world_free(world);
    }
    print_message("version %d: %lu places to die\n", version, n - 1);
    assert_true(n > 5);
}

/* A ledger of each version that was ever published; the newest is only opened. */
static void an_old_ledger_dies_anywhere_as_it_is_opened(void **state)
{
    for (int version = 1; version <= HX_SCHEMA_VERSION; version++) {
        for (int death = KILLED; death <= TORN; death++)
            migrate_and_die(version, (enum death)death);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_ledger_dies_anywhere_as_it_is_opened),
        cmocka_unit_test(a_process_dies_anywhere),
        cmocka_unit_test(a_host_dies_anywhere_and_forgets),
        cmocka_unit_test(a_host_dies_anywhere_and_tears),
    };
    return cmocka_run_group_tests_name("store, disk", tests, NULL, NULL);
}
