/* SPDX-License-Identifier: MIT */
/*
 * The demo and the audit kill processes, so they must find exactly those that are meant: the keeper
 * behind a pipe though it has detached itself, and never anything that this process did not start.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/mcp_client.h"
#include "app/offspring.h"

#define LONG_MS 20000

static char own_exe[PATH_MAX];

/* As on a kernel that lists nobody's children. */
FILE *fopen(const char *path, const char *mode)
{
    size_t len = strlen(path);
    (void)mode; /* what is opened here is only read */
    if (len >= 9 && strcmp(path + len - 9, "/children") == 0) {
        errno = ENOENT;
        return NULL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fdopen(fd, "r") : NULL;
}

struct family {
    pid_t front;
    pid_t keeper;
    int write_fd; /* of the pipe whose reading end only the keeper holds */
};

/* A front that lives on, and a keeper that has left it by a double fork, in its own session. */
static void start_family(struct family *family)
{
    int data[2];
    int ids[2];
    assert_int_equal(pipe2(data, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ids, O_CLOEXEC), 0);
    family->front = fork();
    if (family->front == 0) {
        close(data[1]);
        if (fork() == 0) {
            setsid();
            pid_t keeper = fork();
            if (keeper == 0) {
                for (;;)
                    pause();
            }
            _exit(write(ids[1], &keeper, sizeof(keeper)) == sizeof(keeper) ? 0 : 1);
        }
        close(data[0]);
        for (;;)
            pause();
    }
    assert_true(family->front > 0);
    close(data[0]);
    close(ids[1]);
    family->write_fd = data[1];
    assert_int_equal(read(ids[0], &family->keeper, sizeof(family->keeper)), sizeof(pid_t));
    close(ids[0]);
}

static void finds_and_kills_the_keeper_only(void **state)
{
    struct family family;
    int status;
    (void)state;
    assert_true(hx_offspring_adopt());
    start_family(&family);
    /* The front lets go of its copy a moment after the keeper has told its id. */
    pid_t found = 0;
    for (struct hx_mono deadline = hx_mono_after(hx_mcp_now(), LONG_MS);
         !hx_mono_reached(hx_mcp_now(), deadline);) {
        found = hx_offspring_pipe_reader(family.write_fd, family.front);
        if (found == family.keeper)
            break;
    }
    assert_int_equal(found, family.keeper);
    assert_int_equal(hx_offspring_pipe_reader(family.write_fd, family.keeper), 0);
    assert_false(hx_offspring_kill(family.keeper, "/another/program"));
    assert_true(hx_offspring_kill(family.keeper, own_exe));
    assert_int_equal(waitpid(family.keeper, &status, 0), family.keeper);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_false(hx_offspring_kill(family.keeper, own_exe)); /* gone */
    assert_int_equal(waitpid(family.front, NULL, WNOHANG), 0);
    /* What is left is ended, and counted; the helper between the two has ended by itself. */
    assert_int_equal(hx_offspring_end(hx_mcp_now()), 1);
    close(family.write_fd);
}

/* A chain of `depth` processes, the last of which tells its id; all of them wait for ever. */
static pid_t start_chain(int depth, pid_t *ret_last)
{
    int ids[2];
    assert_int_equal(pipe2(ids, O_CLOEXEC), 0);
    pid_t first = fork();
    if (first == 0) {
        for (int i = 1; i < depth; i++)
            if (fork() != 0)
                for (;;)
                    pause();
        pid_t self = getpid();
        if (write(ids[1], &self, sizeof(self)) != sizeof(self))
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ids[0], ret_last, sizeof(*ret_last)), sizeof(pid_t));
    close(ids[0]);
    close(ids[1]);
    return first;
}

static size_t count_living(void)
{
    pid_t pids[16];
    return hx_offspring_list(pids, 16);
}

static void kills_the_last_of_a_tree_and_then_all_of_it(void **state)
{
    pid_t last;
    pid_t lone_last;
    (void)state;
    assert_true(hx_offspring_adopt());
    pid_t first = start_chain(3, &last);
    pid_t lone = start_chain(1, &lone_last);
    assert_int_equal(lone, lone_last);
    assert_int_equal(count_living(), 4);
    /* A leaf that is spared, as the process that a client started is. */
    assert_int_equal(hx_offspring_kill_leaves(lone), 1);
    for (struct hx_mono deadline = hx_mono_after(hx_mcp_now(), LONG_MS);
         count_living() == 4 && !hx_mono_reached(hx_mcp_now(), deadline);)
        ;
    assert_int_equal(count_living(), 3);
    assert_int_equal(kill(first, 0), 0);
    assert_int_equal(waitpid(lone, NULL, WNOHANG), 0);
    assert_true(hx_offspring_kill_all(hx_mono_after(hx_mcp_now(), LONG_MS)) >= 3);
    assert_int_equal(count_living(), 0);
    assert_int_equal(hx_offspring_kill_all(hx_mono_after(hx_mcp_now(), LONG_MS)), 0);
    assert_int_equal(hx_offspring_end(hx_mono_after(hx_mcp_now(), LONG_MS)), 0);
}

static void never_kills_what_is_not_ours(void **state)
{
    (void)state;
    assert_false(hx_offspring_kill(getpid(), own_exe));
    assert_false(hx_offspring_kill(getppid(), own_exe));
    assert_false(hx_offspring_kill(1, own_exe));
    assert_false(hx_offspring_kill(0, own_exe));
    assert_false(hx_offspring_kill(-1, own_exe));
    /* A process beside us that runs the same program is not a descendant either. */
    pid_t sibling = fork();
    if (sibling == 0) {
        for (;;)
            pause();
    }
    pid_t checker = fork();
    if (checker == 0)
        _exit(hx_offspring_kill(sibling, own_exe) ? 1 : 0);
    int status;
    assert_int_equal(waitpid(checker, &status, 0), checker);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(waitpid(sibling, NULL, WNOHANG), 0);
    assert_true(hx_offspring_kill(sibling, own_exe));
    assert_int_equal(waitpid(sibling, NULL, 0), sibling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_and_kills_the_keeper_only),
        cmocka_unit_test(kills_the_last_of_a_tree_and_then_all_of_it),
        cmocka_unit_test(never_kills_what_is_not_ours),
    };
    if (!realpath("/proc/self/exe", own_exe))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
