/* SPDX-License-Identifier: MIT */
/*
 * A ledger has one name. Its log, its lock and the files of its owners go with the name, so whoever
 * came by another one would see neither what runs nor what ran.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/fault.h"
#include "sanitized.h"
#include "world.h"

enum { SKIPPED = 77 };

struct names {
    struct world *world;
    char directory[96];
    char other[128]; /* the second name, in a directory of its own */
};

static struct names names_new(void)
{
    struct names names = {.world = world_new(WORLD_SQLITE)};
    snprintf(names.directory, sizeof(names.directory), "%s/b", names.world->directory);
    snprintf(names.other, sizeof(names.other), "%s/ledger.db", names.directory);
    assert_int_equal(mkdir(names.directory, 0700), 0);
    return names;
}

/* What both a gateway and `hapax ops` are told at that name; nothing is made beside it. */
static bool is_refused(struct names *names, const char *path, const char *word)
{
    struct hx_store *store = NULL;
    struct hx_inspect *inspect = NULL;
    struct hx_store_sqlite_options options = names->world->options;
    struct stat info;
    char beside[160];
    options.path = path;
    snprintf(beside, sizeof(beside), "%s-lock", names->other);
    bool is_well = hx_store_sqlite_open(&options, &store) < 0 &&
                   strstr(hx_fault_last()->text, word) != NULL &&
                   hx_inspect_open(&options, &inspect) < 0 &&
                   strstr(hx_fault_last()->text, word) != NULL && stat(beside, &info) < 0;
    if (!is_well)
        print_error("%s: %s\n", path, hx_fault_last()->text);
    if (store != NULL)
        store->ops->close(store);
    hx_inspect_close(inspect);
    return is_well;
}

/* The same operation, and its owner alive: one ledger under both names. */
static void a_symbolic_link_leads_to_the_one_name(void **state)
{
    if (KIT_HAS_TSAN)
        skip(); /* it lets no child of a process with threads begin one */
    struct names names = names_new();
    struct world *world = names.world;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    hx_store_request_free(world_insert(store, &record));
    assert_int_equal(symlink("../ledger.db", names.other), 0);
    world->options.path = names.other;
    pid_t pid = fork();
    if (pid == 0) {
        struct hx_store_request *find = world_find_id(world_open(world, 1), &record.id);
        _exit(find->record_count == 1 && find->records[0].owner_fact == HX_OWNER_ALIVE ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    world_free(world);
    assert_int_equal(status, 0);
}

static void a_link_to_nothing_is_no_ledger(void **state)
{
    struct names names = names_new();
    assert_int_equal(symlink("../gone.db", names.other), 0);
    assert_true(is_refused(&names, names.other, "leads to no file"));
    world_free(names.world);
}

static void a_hard_link_is_refused(void **state)
{
    struct names names = names_new();
    world_open(names.world, 0);
    assert_int_equal(link(names.world->path, names.other), 0);
    assert_true(is_refused(&names, names.other, "hard links"));
    assert_int_equal(unlink(names.other), 0);
    world_open(names.world, 1);
    world_free(names.world);
}

/* What was moved, and a link put in its place, is another ledger to whoever comes later. */
static void a_ledger_that_became_a_link_is_not_written(void **state)
{
    struct names names = names_new();
    struct hx_store *store = world_open(names.world, 0);
    assert_int_equal(rename(names.world->path, names.other), 0);
    assert_int_equal(symlink("b/ledger.db", names.world->path), 0);
    struct hx_record record = world_record(names.world, 0, 1);
    struct hx_store_request *insert = world_insert(store, &record);
    assert_int_equal(insert->result, HX_STORE_NOT_DONE);
    assert_non_null(strstr(insert->error, "moved or deleted"));
    hx_store_request_free(insert);
    world_free(names.world);
}

/* Mounts for this process alone; false where it may not. */
static bool may_mount(void)
{
    char map[64];
    int len = snprintf(map, sizeof(map), "%u %u 1", geteuid(), geteuid());
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    bool is_mapped = fd >= 0 && write(fd, map, (size_t)len) == len;
    if (fd >= 0)
        close(fd);
    return is_mapped;
}

static int try_mounted(struct names *names)
{
    int fd = open(names->other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    if (!may_mount() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(names->world->path, names->other, NULL, MS_BIND, NULL) < 0)
        return SKIPPED;
    bool is_well = is_refused(names, names->other, "mount the directory");
    /* The directory as a whole brings what stands beside. */
    is_well &= umount(names->other) == 0 &&
               mount(names->world->directory, names->directory, NULL, MS_BIND, NULL) == 0;
    names->world->options.path = names->other;
    if (is_well)
        world_open(names->world, 1);
    return is_well ? 0 : 1;
}

static void a_mount_of_the_file_alone_is_refused(void **state)
{
    if (KIT_HAS_TSAN)
        skip(); /* the same */
    struct names names = names_new();
    world_open(names.world, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_mounted(&names));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    world_free(names.world);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        print_message("nobody may mount here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_symbolic_link_leads_to_the_one_name),
        cmocka_unit_test(a_link_to_nothing_is_no_ledger),
        cmocka_unit_test(a_hard_link_is_refused),
        cmocka_unit_test(a_ledger_that_became_a_link_is_not_written),
        cmocka_unit_test(a_mount_of_the_file_alone_is_refused),
    };
    return cmocka_run_group_tests_name("store names", tests, NULL, NULL);
}
