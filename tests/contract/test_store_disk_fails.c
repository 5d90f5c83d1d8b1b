/* SPDX-License-Identifier: MIT */
/*
 * Every single write, cut, sync and growth in the ledger's directory fails: the first, the second,
 * until all have; or for a while; or because the disk is full. What was DONE stays, what was
 * NOT_DONE never comes back, and the file verifies. Linked with kit/host_disk.c.
 */
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

#include "base/alloc.h"
#include "crash_history.h"
#include "sanitized.h"

/* A sanitized program takes samples. */
enum { STRIDE = KIT_HAS_ASAN || KIT_HAS_TSAN ? 13 : 1 };

enum { AT_ONCE = 16 };

struct attempt {
    struct world *world;
    struct crash_told *told;
    pid_t pid;
};

static struct attempt begin_failing(unsigned long n, unsigned times, const char *word)
{
    struct attempt attempt = {.world = world_new(WORLD_SQLITE)};
    attempt.world->options.keeps_outbox = true;
    attempt.told = mmap(NULL, sizeof(*attempt.told), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    attempt.pid = fork();
    assert_true(attempt.pid >= 0);
    if (attempt.pid == 0) {
        char at[64];
        snprintf(at, sizeof(at), "%lu %u %s", n, times, word);
        setenv("HAPAX_DISK", attempt.world->directory, 1);
        setenv("HAPAX_DISK_FAIL", at, 1);
        if (strcmp(word, "memory") == 0) {
            (void)!freopen("/dev/null", "w", stderr); /* assertions that are meant */
            hx_alloc_fail_at(n);
        }
        crash_history_live(attempt.world, attempt.told);
    }
    return attempt;
}

/* Without memory of its own the process may end by an assertion: every promise is durable by then,
 * and that is what is looked at. */
static bool end_failing(struct attempt *attempt, bool may_abort)
{
    int status;
    assert_int_equal(waitpid(attempt->pid, &status, 0), attempt->pid);
    bool has_aborted = may_abort && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    assert_true(has_aborted || WIFEXITED(status));
    if (!has_aborted)
        assert_int_equal(WEXITSTATUS(status), 0);
    bool was_refused = attempt->told->is_refused || has_aborted;
    crash_history_check(attempt->world, attempt->told, false);
    crash_history_verify(attempt->world);
    munmap(attempt->told, sizeof(*attempt->told));
    world_free(attempt->world);
    return was_refused;
}

/* Most of the time goes by waiting for a store that heals itself, so many fail at once. */
static void fail_everywhere(unsigned long places, unsigned times, const char *word)
{
    unsigned refused = 0;
    for (unsigned long n = 1; n <= places; n += AT_ONCE * STRIDE) {
        struct attempt attempts[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++)
            attempts[i] = begin_failing(n + i * STRIDE, times, word);
        for (unsigned i = 0; i < AT_ONCE; i++)
            refused += end_failing(&attempts[i], false);
    }
    print_message("%s: %lu places, %u refusals\n", word, places, refused);
    assert_true(refused > (STRIDE == 1 ? 10 : 0));
}

/* Only memory whose size a peer chooses is refused. Until sixteen in a row refuse nothing. */
static void every_allocation_is_refused_once(void **state)
{
    unsigned refused = 0, in_batch = 1;
    for (unsigned long n = 1; in_batch > 0; n += AT_ONCE * STRIDE) {
        struct attempt attempts[AT_ONCE];
        in_batch = 0;
        for (unsigned i = 0; i < AT_ONCE; i++)
            attempts[i] = begin_failing(n + i * STRIDE, 1, "memory");
        for (unsigned i = 0; i < AT_ONCE; i++)
            in_batch += end_failing(&attempts[i], true);
        refused += in_batch;
    }
    print_message("memory: %u refusals\n", refused);
    assert_true(refused > 0);
}

/* All places there are, and some that nothing comes to. */
static void every_change_and_sync_fails_once(void **state)
{
    fail_everywhere(480, 1, "eio");
}

static void every_sync_fails_for_a_while(void **state)
{
    fail_everywhere(160, 3, "sync");
}

static void the_disk_is_full_anywhere(void **state)
{
    fail_everywhere(160, 3, "full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_is_refused_once),
        cmocka_unit_test(every_change_and_sync_fails_once),
        cmocka_unit_test(every_sync_fails_for_a_while),
        cmocka_unit_test(the_disk_is_full_anywhere),
    };
    return cmocka_run_group_tests_name("store, failing disk", tests, NULL, NULL);
}
