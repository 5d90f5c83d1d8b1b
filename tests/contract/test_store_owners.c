/* SPDX-License-Identifier: MIT */
/*
 * Who is alive: the lock of an owner's file, as its own threads, its children and other processes
 * see it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/owners.h"
#include "base/fault.h"
#include "sanitized.h"
#include "world.h"

struct test {
    char directory[64];
    struct hx_owners onlooker; /* who owns nothing */
    struct hx_id token;
    char file[128]; /* of that token */
};

static const struct hx_id nobody;

static int setup(void **state)
{
    struct test *test = calloc(1, sizeof(*test));
    char text[HX_ID_TEXT_SIZE];
    snprintf(test->directory, sizeof(test->directory), "/tmp/hapax-owners-XXXXXX");
    assert_non_null(mkdtemp(test->directory));
    assert_int_equal(hx_owners_open(&test->onlooker, test->directory, &nobody), 0);
    memset(&test->token, 0x5a, sizeof(test->token));
    hx_id_format(&test->token, text);
    snprintf(test->file, sizeof(test->file), "%s/%s", test->directory, text);
    *state = test;
    return 0;
}

static int teardown(void **state)
{
    struct test *test = *state;
    hx_owners_close(&test->onlooker);
    world_remove_directory(test->directory);
    free(test);
    return 0;
}

static bool bury(void *context, const struct hx_id *token)
{
    ++*(unsigned *)context;
    return true;
}

/* As many as this process finds dead now; their files are removed. */
static unsigned bury_the_dead(struct test *test)
{
    unsigned count = 0;
    assert_int_equal(hx_owners_each_dead(&test->onlooker, 64, bury, &count), 0);
    return count;
}

/* The kernel does not show a process its own locks, so another one is asked. */
static bool is_locked(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CLOEXEC);
        _exit(fd >= 0 && fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

/* What another thread does while one of this process takes its token: at the two moments at which
 * there is a file of it, and the call that made it has not come back. */
static struct test *at_rename;
static unsigned buried_at_rename;

int rename(const char *from, const char *to)
{
    if (at_rename != NULL)
        buried_at_rename += bury_the_dead(at_rename);
    int rc = renameat(AT_FDCWD, from, AT_FDCWD, to);
    if (at_rename != NULL)
        buried_at_rename += bury_the_dead(at_rename);
    return rc;
}

static void who_is_just_being_born_is_not_dead(void **state)
{
    struct test *test = *state;
    struct hx_owners owners = {0};
    at_rename = test;
    buried_at_rename = 0;
    int rc = hx_owners_open(&owners, test->directory, &test->token);
    at_rename = NULL;
    assert_int_equal(rc, 0);
    assert_int_equal(buried_at_rename, 0);
    assert_true(is_locked(test->file));
    assert_true(hx_owners_is_alive(&test->onlooker, &test->token));
    hx_owners_close(&owners);
    assert_false(hx_owners_is_alive(&test->onlooker, &test->token));
}

/* A token that could not be had is nobody's, and may be tried again. */
static void a_failed_birth_leaves_nothing_behind(void **state)
{
    struct test *test = *state;
    struct hx_owners owners = {0};
    assert_int_equal(mkdir(test->file, 0700), 0); /* so that nothing can take its name */
    assert_true(hx_owners_open(&owners, test->directory, &test->token) < 0);
    assert_int_equal(rmdir(test->file), 0);
    assert_false(hx_owners_is_alive(&test->onlooker, &test->token));
    hx_owners_close(&owners);
}

/* In the child: what it is told of its parent, first while that lives and then when it does not. */
static _Noreturn void be_the_child(struct test *test, int go, int said)
{
    struct hx_owners own = {0};
    struct hx_id token;
    unsigned buried = 0;
    char byte;
    (void)alarm(20);
    memset(&token, 0x6b, sizeof(token));
    bool is_open = hx_owners_open(&own, test->directory, &token) == 0;
    byte = is_open && hx_owners_is_alive(&own, &test->token) ? 'a' : 'd';
    if (write(said, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(1);
    byte = hx_owners_is_alive(&own, &test->token) ? 'a' : 'd';
    bool is_read = hx_owners_each_dead(&own, 64, bury, &buried) == 0;
    if (!is_read || buried != 1)
        byte = '?';
    _exit(write(said, &byte, 1) == 1 ? 0 : 1);
}

static void a_parent_is_another_process_to_its_child(void **state)
{
    struct test *test = *state;
    int go[2], said[2];
    char byte = 'g';
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct hx_owners owners = {0};
        (void)alarm(20); /* nobody waits longer */
        close(said[0]);
        if (hx_owners_open(&owners, test->directory, &test->token) < 0)
            _exit(1);
        if (fork() == 0)
            be_the_child(test, go[0], said[1]);
        close(said[1]);
        for (;;)
            (void)pause();
    }
    close(said[1]);
    assert_int_equal(read(said[0], &byte, 1), 1);
    assert_int_equal(byte, 'a');
    assert_true(is_locked(test->file)); /* the look of the child did no harm */
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(said[0], &byte, 1), 1);
    assert_int_equal(byte, 'd');
    close(go[0]);
    close(go[1]);
    close(said[0]);
}

struct crowd {
    struct test *test;
    _Atomic bool is_over;
};

static void *ask_all_the_time(void *context)
{
    struct crowd *crowd = context;
    while (!atomic_load(&crowd->is_over))
        (void)hx_owners_is_alive(&crowd->test->onlooker, &crowd->test->token);
    return NULL;
}

/* With many owners the list is in somebody's hand most of the time, also at a fork. */
static void a_child_of_a_busy_process_can_ask(void **state)
{
    enum { OWNERS = 400, FORKS = 60, ASKERS = 2 };
    static struct hx_owners owners[OWNERS];
    pthread_t threads[ASKERS];
    struct crowd crowd = {.test = *state};
    struct test *test = *state;
    if (KIT_HAS_TSAN)
        skip(); /* its own locks are held at a fork too */
    for (int i = 0; i < OWNERS; i++) {
        struct hx_id token = {{(uint8_t)(i >> 8), (uint8_t)i, 1}};
        assert_int_equal(hx_owners_open(&owners[i], test->directory, &token), 0);
    }
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all_the_time, &crowd), 0);
    int failures = 0;
    for (int i = 0; i < FORKS && failures == 0; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(10);
            _exit(hx_owners_is_alive(&test->onlooker, &owners[0].self) ? 0 : 1);
        }
        int status = -1;
        failures += waitpid(pid, &status, 0) != pid || status != 0;
    }
    atomic_store(&crowd.is_over, true);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < OWNERS; i++)
        hx_owners_close(&owners[i]);
    assert_int_equal(failures, 0);
}

/* "The same boot" of two that nobody knows would be said of any two. */
static void an_unknown_boot_opens_no_ledger(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_boot boot = world->now.boot;
    struct hx_store *store = NULL;
    struct hx_inspect *inspect = NULL;
    (void)world_open(world, 0);
    world_close(world, 0);
    world->now.boot = (struct hx_boot){{0}};
    assert_true(hx_store_sqlite_open(&world->options, &store) < 0);
    assert_non_null(strstr(hx_fault_last()->text, "boot_id cannot be read"));
    assert_non_null(strstr(hx_fault_last()->text, "remove ProcSubset=pid from the systemd unit."));
    assert_true(hx_inspect_open(&world->options, &inspect) < 0);
    assert_non_null(strstr(hx_fault_last()->text, "boot_id cannot be read"));
    world->now.boot = boot;
    (void)world_open(world, 0);
    world_free(world);
}

static enum hx_owner_fact owner_fact_of(struct hx_store *store, const struct hx_id *id,
                                        bool *ret_is_sender_gone)
{
    struct hx_store_request *request = world_find_id(store, id);
    assert_int_equal(request->record_count, 1);
    enum hx_owner_fact fact = request->records[0].owner_fact;
    *ret_is_sender_gone = request->records[0].is_sender_gone;
    hx_store_request_free(request);
    return fact;
}

/* Rows of a version that wrote without knowing its boot: the lock decides, and only that. */
static void an_owner_of_an_unknown_boot_is_judged_by_his_lock(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    bool is_sender_gone = true;
    (void)world_open(world, 0);
    (void)world_open(world, 1);
    struct hx_record record = world_record(world, 0, 1);
    record.owner_boot = record.attempt.claimed_at.boot = (struct hx_boot){{0}};
    snprintf(record.attempt.transport, sizeof(record.attempt.transport), "t:1");
    hx_store_request_free(world_insert(world->stores[0], &record));
    assert_int_equal(owner_fact_of(world->stores[1], &record.id, &is_sender_gone), HX_OWNER_ALIVE);
    assert_false(is_sender_gone);
    world_kill(world, 0);
    assert_int_equal(owner_fact_of(world->stores[1], &record.id, &is_sender_gone), HX_OWNER_DEAD);
    assert_false(is_sender_gone); /* the child that got the bytes may live */
    world_transport_gone(world, "t:1");
    assert_int_equal(owner_fact_of(world->stores[1], &record.id, &is_sender_gone), HX_OWNER_DEAD);
    assert_true(is_sender_gone);
    world_free(world);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_is_just_being_born_is_not_dead),
        TEST(a_failed_birth_leaves_nothing_behind),
        TEST(a_parent_is_another_process_to_its_child),
        TEST(a_child_of_a_busy_process_can_ask),
        cmocka_unit_test(an_unknown_boot_opens_no_ledger),
        cmocka_unit_test(an_owner_of_an_unknown_boot_is_judged_by_his_lock),
    };
    return cmocka_run_group_tests_name("store owners", tests, NULL, NULL);
}
