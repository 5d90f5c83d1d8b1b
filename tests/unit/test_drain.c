/* SPDX-License-Identifier: MIT */
/*
 * Keepers that only finish their work are seen by each other for as long as they live. Each one is
 * a process here, since a lock never stands in the way of who has it.
 */
#include <dirent.h>
#include <fcntl.h>
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

#include "app/drain.h"

enum { FAILED = 99 };

static char dir[32];

static struct hx_id id_of(uint8_t number)
{
    uint8_t random[10] = {number};
    return hx_id_make((struct hx_wall){1000 + number}, random);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/hapax-drain-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

/* Copies the name of the only file, or none. */
static unsigned list(char ret_name[256], bool removes)
{
    unsigned count = 0;
    DIR *stream = opendir(dir);
    struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(ret_name, 256, "%s", entry->d_name);
        if (removes)
            unlinkat(dirfd(stream), entry->d_name, 0);
    }
    if (stream != NULL)
        closedir(stream);
    return count;
}

static int teardown(void **state)
{
    char name[256];
    (void)state;
    list(name, true);
    return rmdir(dir);
}

/* What another process counts; it inherits no lock. */
static int count_elsewhere(const char *server, uint8_t self)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct hx_id id = id_of(self);
        _exit((int)hx_drain_count_others(dir, server, &id));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

static void nobody(void *context, const struct hx_id *who)
{
    (void)context;
    (void)who;
    fail_msg("nobody is to be stopped");
}

static void one_that_drains_stays_in_sight_whatever_it_looks_at(void **state)
{
    struct hx_id self = id_of(1);
    struct hx_drain drain;
    (void)state;
    hx_drain_init(&drain);
    hx_drain_begin(&drain, dir, "bank", &self, 4, nobody, NULL);
    assert_true(drain.fd >= 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count_elsewhere("bank", 2), 1);
        assert_int_equal(count_elsewhere("mail", 2), 0);
        assert_int_equal(hx_drain_count_others(dir, "bank", &self), 0);
    }
    hx_drain_end(&drain);
    assert_int_equal(count_elsewhere("bank", 2), 0);
}

static void what_is_not_locked_yet_is_left_alone(void **state)
{
    struct hx_id self = id_of(1);
    struct hx_drain drain;
    char name[256], path[320];
    (void)state;
    hx_drain_init(&drain);
    hx_drain_begin(&drain, dir, "bank", &self, 4, nobody, NULL);
    assert_int_equal(list(name, false), 1);
    hx_drain_end(&drain);
    assert_int_equal(list(path, false), 0);

    snprintf(path, sizeof(path), "%s/%s.new", dir, name);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(count_elsewhere("bank", 2), 0);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);

    /* One under the name itself is somebody's who is gone. */
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(count_elsewhere("bank", 2), 0);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Others look without end, while this one begins and ends: not one of its beginnings is lost. */
static void no_look_takes_the_file_of_one_that_begins(void **state)
{
    pid_t self_pid = getpid(), looker = fork();
    (void)state;
    if (looker == 0) {
        struct hx_id other = id_of(200);
        while (getppid() == self_pid)
            hx_drain_count_others(dir, "bank", &other);
        _exit(0);
    }
    for (uint8_t i = 0; i < 200; i++) {
        struct hx_id self = id_of(i);
        struct hx_drain drain;
        hx_drain_init(&drain);
        hx_drain_begin(&drain, dir, "bank", &self, 4, nobody, NULL);
        bool is_there = drain.fd >= 0 && access(drain.path, F_OK) == 0;
        hx_drain_end(&drain);
        if (!is_there) {
            kill(looker, SIGKILL);
            fail_msg("beginning %u was lost", i);
        }
    }
    kill(looker, SIGKILL);
    assert_int_equal(waitpid(looker, NULL, 0), looker);
}

static void stopped(void *context, const struct hx_id *who)
{
    struct hx_id *first = context;
    if (hx_id_is_nil(first))
        *first = *who;
}

static void the_oldest_is_stopped_when_there_are_too_many(void **state)
{
    struct hx_id self = id_of(3), wanted = id_of(1), first = {0};
    struct hx_drain drain;
    int ready[2], done[2];
    char byte;
    (void)state;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    pid_t older = fork();
    if (older == 0) {
        struct hx_drain its;
        close(done[1]);
        hx_drain_init(&its);
        hx_drain_begin(&its, dir, "bank", &wanted, 1, nobody, NULL);
        hx_drain_count_others(dir, "bank", &wanted); /* as its own engine asks */
        _exit(write(ready[1], "r", 1) == 1 && read(done[0], &byte, 1) == 0 ? 0 : FAILED);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    hx_drain_init(&drain);
    hx_drain_begin(&drain, dir, "bank", &self, 1, stopped, &first);
    hx_drain_end(&drain);
    assert_true(hx_id_eq(&first, &wanted));
    close(done[1]);
    close(done[0]);
    close(ready[0]);
    close(ready[1]);
    int status;
    assert_int_equal(waitpid(older, &status, 0), older);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_drains_stays_in_sight_whatever_it_looks_at),
        cmocka_unit_test(what_is_not_locked_yet_is_left_alone),
        cmocka_unit_test(no_look_takes_the_file_of_one_that_begins),
        cmocka_unit_test(the_oldest_is_stopped_when_there_are_too_many),
    };
    return cmocka_run_group_tests_name("drain", tests, setup, teardown);
}
