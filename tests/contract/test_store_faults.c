/* SPDX-License-Identifier: MIT */
/*
 * The SQLite store on a disk that fails: each write, sync and truncation in turn; and ledgers that
 * cannot be opened. Whatever happens, a DONE is durable, a NOT_DONE never happened, nothing is
 * lost, and the file verifies.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/lockfile.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "faulty_vfs.h"
#include "world.h"

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void assert_verifies(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    int rc = hx_inspect_open(&world->options, &inspect);
    if (rc == 0)
        rc = hx_inspect_verify(inspect, &listener, &report);
    if (rc < 0)
        print_error("verify: %s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
}

/* One operation's life; returns what each step was told. */
struct told {
    struct hx_record record;
    enum hx_store_result insert, mark, update;
};

static enum hx_store_result result_of(struct hx_store_request *request)
{
    enum hx_store_result result = request->result;
    if (result == HX_STORE_NOT_DONE) {
        assert_true(request->error[0] != '\0');
    }
    hx_store_request_free(request);
    return result;
}

static struct told live(struct world *world, struct hx_store *store, unsigned number)
{
    struct told told = {.record = world_record(world, 0, number)};
    told.mark = told.update = HX_STORE_NOT_DONE;
    /* Every other one asks for the mark together with the claim first. */
    bool is_marked_after = number % 2 == 0;
    struct hx_store_request *claim =
        is_marked_after ? world_claim(store, &told.record) : world_insert(store, &told.record);
    bool is_marked = claim->is_marked;
    told.insert = result_of(claim);
    if (told.insert != HX_STORE_DONE) {
        assert_false(is_marked);
        return told;
    }
    told.mark = is_marked ? HX_STORE_DONE : result_of(world_mark(world, store, &told.record));
    assert_int_not_equal(told.mark, HX_STORE_STALE);
    struct hx_record next = told.record;
    next.state = HX_OP_SUCCEEDED;
    next.reason = HX_REASON_ANSWERED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.bytes = HX_SPAN_LIT("{\"content\":[]}");
    next.outcome.size = next.outcome.bytes.len;
    if (told.mark == HX_STORE_DONE) {
        next.attempt.is_marked = true;
        next.attempt.marked_at = world->now;
        next.first_mark = world->now;
    }
    told.update = result_of(world_update(store, &next, 1));
    return told;
}

static void assert_true_to(struct hx_store *store, const struct told *told)
{
    struct hx_store_request *request = world_find_id(store, &told->record.id);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_int_equal(request->record_count, told->insert == HX_STORE_DONE ? 1 : 0);
    if (request->record_count == 1) {
        const struct hx_record *record = &request->records[0].record;
        enum hx_op_state expected = told->update == HX_STORE_DONE ? HX_OP_SUCCEEDED : HX_OP_RUNNING;
        assert_int_equal(record->state, expected);
        if (told->mark == HX_STORE_DONE)
            assert_true(record->attempt.is_marked);
    }
    hx_store_request_free(request);
}

/* Fails the n-th operation, for n = 1 until none is reached any more. */
static void fail_each(enum faulty_op op, unsigned long times)
{
    bool was_reached = true;
    unsigned long n = 0;
    while (was_reached) {
        n++;
        struct world *world = world_new(WORLD_SQLITE);
        world->options.vfs_name = FAULTY_VFS_NAME;
        struct hx_store *store = world_open(world, 0);
        struct told before = live(world, store, 1);
        assert_int_equal(before.update, HX_STORE_DONE);
        faulty_vfs_arm(op, n, times);
        struct told during[3];
        for (unsigned i = 0; i < 3; i++)
            during[i] = live(world, store, 2 + i);
        was_reached = faulty_vfs_has_struck();
        faulty_vfs_arm(op, 0, 0);
        struct told after = live(world, store, 9);
        assert_int_equal(after.insert, HX_STORE_DONE);
        assert_int_equal(after.update, HX_STORE_DONE);
        for (int round = 0; round < 2; round++) {
            assert_true_to(store, &before);
            for (unsigned i = 0; i < 3; i++)
                assert_true_to(store, &during[i]);
            assert_true_to(store, &after);
            if (round == 0) {
                /* As after a crash of all processes: what the log says is all there is. */
                world_kill(world, 0);
                store = world_open(world, 0);
            }
        }
        world_close(world, 0);
        assert_verifies(world);
        world_free(world);
    }
    assert_true(n > 3);
}

static void each_write_fails_once(void **state)
{
    fail_each(FAULTY_WRITE, 1);
}

static void each_write_finds_the_disk_full(void **state)
{
    fail_each(FAULTY_FULL, 3);
}

static void each_sync_fails_once(void **state)
{
    fail_each(FAULTY_SYNC, 1);
}

static void each_sync_fails_for_a_while(void **state)
{
    fail_each(FAULTY_SYNC, 3);
}

/* A failed sync leaves the frames of the commit in the log, whole and with valid checksums. If they
 * were only called failed, the next process to recover the log would believe them. */
static void what_was_not_done_never_comes_back(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct told told = {.record = world_record(world, 0, 1), .update = HX_STORE_NOT_DONE};
    told.mark = HX_STORE_NOT_DONE;
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    told.insert = result_of(world_insert(store, &told.record));
    assert_true(faulty_vfs_has_struck());
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    world_kill(world, 0);
    store = world_open(world, 0);
    assert_true_to(store, &told);
    world_free(world);
}

static struct hx_store_request *cancel_unmarked(struct hx_store *store,
                                                const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = *record;
    request->record.state = HX_OP_CANCELLED;
    request->record.attempt.state = HX_ATTEMPT_DEAD;
    request->record.fence++;
    request->expected_fence = record->fence;
    request->require_unmarked = true;
    return world_run(store, request);
}

static void an_io_error_ends_the_epoch(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_record early = world_record(world, 0, 1);
    assert_int_equal(result_of(world_insert(store, &early)), HX_STORE_DONE);
    faulty_vfs_arm(FAULTY_SYNC, 1, 1);
    struct hx_record record = world_record(world, 0, 2);
    enum hx_store_result result = result_of(world_insert(store, &record));
    assert_true(faulty_vfs_has_struck());
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    assert_int_equal(result, HX_STORE_NOT_DONE);
    struct hx_store_request *request = world_find_id(store, &early.id);
    assert_false(request->records[0].is_epoch_current);
    hx_store_request_free(request);
    struct hx_record late = world_record(world, 0, 3);
    assert_int_equal(result_of(world_insert(store, &late)), HX_STORE_DONE);
    request = world_find_id(store, &late.id);
    assert_true(request->records[0].is_epoch_current);
    hx_store_request_free(request);
    /* A cancel in flight, decided before the error: its mark may be among what was lost. */
    assert_int_equal(result_of(cancel_unmarked(store, &early)), HX_STORE_STALE);
    assert_int_equal(result_of(cancel_unmarked(store, &late)), HX_STORE_DONE);
    assert_null(store->ops->refusal(store));
    world_free(world);
}

/* The commit happened and its answer was lost: every kind of write is read back as done, also while
 * other requests share its batch, and nothing is written twice. */
static void a_lost_answer_is_read_back(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    _Atomic int lost = 0;
    world->options.lost_answers = &lost;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    lost = 1;
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    lost = 1;
    assert_int_equal(result_of(world_mark(world, store, &record)), HX_STORE_DONE);
    struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
    note->record.id = record.id;
    note->note = HX_SPAN_LIT("{}");
    lost = 1;
    assert_int_equal(result_of(world_run(store, note)), HX_STORE_DONE);
    struct hx_record keyless = world_record(world, 0, 3);
    keyless.key_source = HX_KEY_NONE;
    keyless.identity = hx_record_identity(world->hasher, &keyless, false);
    assert_int_equal(result_of(world_insert(store, &keyless)), HX_STORE_DONE);
    struct hx_store_request *rekey = hx_store_request_new(HX_STORE_TOUCH, NULL);
    rekey->record = world_record(world, 0, 4);
    rekey->record.id = keyless.id;
    rekey->touch.rekey = true;
    lost = 1;
    assert_int_equal(result_of(world_run(store, rekey)), HX_STORE_DONE);
    struct hx_store_request *batch[4];
    static const enum hx_store_kind kinds[] = {HX_STORE_FIND, HX_STORE_TOUCH, HX_STORE_UPDATE,
                                               HX_STORE_INSERT};
    struct hx_record second = world_record(world, 0, 2);
    for (unsigned i = 0; i < 4; i++) {
        batch[i] = hx_store_request_new(kinds[i], NULL);
        batch[i]->record = kinds[i] == HX_STORE_INSERT ? second : record;
        batch[i]->find_id = true;
        batch[i]->expected_fence = 1;
        batch[i]->touch.add_repeats = 1;
        if (kinds[i] == HX_STORE_UPDATE) {
            batch[i]->record.state = HX_OP_UNKNOWN;
            batch[i]->record.fence = 2;
        }
        store->ops->submit(store, batch[i]);
    }
    lost = 1;
    store->ops->flush(store);
    for (unsigned i = 0; i < 4; i++) {
        assert_ptr_equal(world_take(store), batch[i]);
        assert_int_equal(result_of(batch[i]), HX_STORE_DONE);
    }
    assert_int_equal(lost, 0);
    struct hx_store_request *find = world_find_id(store, &record.id);
    assert_int_equal(find->records[0].record.state, HX_OP_UNKNOWN);
    assert_int_equal(find->records[0].record.repeats, 1);
    hx_store_request_free(find);
    world_close(world, 0);
    assert_verifies(world);
    world_free(world);
}

static void doubt_is_kept_until_it_ends(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    faulty_vfs_arm(FAULTY_SYNC, 1, 1000000);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = record;
    store->ops->submit(store, request);
    store->ops->flush(store);
    while (store->ops->refusal(store) == NULL) {
    }
    assert_non_null(strstr(store->ops->refusal(store), world->path));
    assert_null(store->ops->take_done(store));
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    assert_ptr_equal(world_take(store), request);
    assert_int_equal(result_of(request), HX_STORE_NOT_DONE);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    world_free(world);
}

static void closing_in_doubt_ends(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.vfs_name = FAULTY_VFS_NAME;
    struct hx_store *store = world_open(world, 0);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = world_record(world, 0, 1);
    faulty_vfs_arm(FAULTY_SYNC, 1, 1000000);
    store->ops->submit(store, request);
    store->ops->flush(store);
    world_close(world, 0);
    faulty_vfs_arm(FAULTY_SYNC, 0, 0);
    world_open(world, 0);
    world_close(world, 0);
    assert_verifies(world);
    world_free(world);
}

/* The disk is full before the intent: the spool cannot promise room, nothing may be sent. */
static void no_room_for_an_outcome_refuses_the_claim(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    struct hx_store *store = world_open(world, 0);
    small = old;
    small.rlim_cur = 300 * 1024;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_request *request = world_insert(store, &record);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    assert_non_null(strstr(request->error, "no room"));
    hx_store_request_free(request);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    world_free(world);
}

/* So many syncs of a spool are to fail, as those of a disk that gives an error; with `takes_back`
 * what was written is not there either. */
static struct {
    _Atomic int left;
    bool takes_back;
} spool_fault;

/* Puts back the header of the generation before: magic of 8 bytes, then the number. */
static void take_back_header(int fd)
{
    uint64_t generation;
    assert_int_equal(pread(fd, &generation, sizeof(generation), 8), sizeof(generation));
    generation--;
    assert_int_equal(pwrite(fd, &generation, sizeof(generation), 8), sizeof(generation));
}

int fdatasync(int fd)
{
    int (*real)(int);
    void *symbol = dlsym(RTLD_NEXT, "fdatasync");
    char link[64], path[256];
    memcpy(&real, &symbol, sizeof(real));
    if (atomic_load(&spool_fault.left) == 0)
        return real(fd);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    if (strstr(path, "-spool/") == NULL)
        return real(fd);
    if (spool_fault.takes_back)
        take_back_header(fd);
    atomic_fetch_sub(&spool_fault.left, 1);
    errno = EIO;
    return -1;
}

static enum hx_store_result spool_success(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *spool = hx_store_request_new(HX_STORE_SPOOL, NULL);
    spool->record = *record;
    spool->record.state = HX_OP_SUCCEEDED;
    spool->record.attempt.state = HX_ATTEMPT_CONFIRMED;
    spool->record.outcome.kind = HX_OUTCOME_RESULT;
    spool->record.outcome.bytes = HX_SPAN_LIT("{}");
    spool->record.outcome.size = 2;
    spool->expected_fence = 1;
    return result_of(world_run(store, spool));
}

static void assert_succeeded(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = world_find_id(store, &record->id);
    assert_int_equal(request->record_count, 1);
    assert_int_equal(request->records[0].record.state, HX_OP_SUCCEEDED);
    hx_store_request_free(request);
}

/* The first outcome was brought into the ledger, and its spool could not be emptied: a second one
 * that comes before the next try must be found by whoever reads the spool, whichever of the two
 * headers is in the file. */
static void outlive_a_spool_that_cannot_be_emptied(bool takes_back, int more_failures)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    struct hx_record records[2];
    for (unsigned i = 0; i < 2; i++) {
        records[i] = world_record(world, 0, 1 + i);
        assert_int_equal(result_of(world_insert(store, &records[i])), HX_STORE_DONE);
    }
    assert_int_equal(spool_success(store, &records[0]), HX_STORE_DONE);
    spool_fault.takes_back = takes_back;
    atomic_store(&spool_fault.left, 1);
    while (atomic_load(&spool_fault.left) > 0)
        hx_store_request_free(world_find_id(store, &records[1].id));
    atomic_store(&spool_fault.left, more_failures);
    for (int i = 0; i < more_failures; i++)
        assert_int_equal(spool_success(store, &records[1]), HX_STORE_NOT_DONE);
    assert_int_equal(spool_success(store, &records[1]), HX_STORE_DONE);
    world_kill(world, 0);
    store = world_open(world, 0);
    assert_succeeded(store, &records[0]);
    assert_succeeded(store, &records[1]);
    world_close(world, 0);
    assert_verifies(world);
    world_free(world);
}

static void a_spool_that_cannot_be_emptied_loses_nothing(void **state)
{
    for (int i = 0; i < 3; i++) {
        outlive_a_spool_that_cannot_be_emptied(false, i);
        outlive_a_spool_that_cannot_be_emptied(true, i);
    }
}

static void assert_refused(struct world *world, const char *needle)
{
    struct hx_store *store = NULL;
    int rc = hx_store_sqlite_open(&world->options, &store);
    if (rc == 0)
        store->ops->close(store);
    assert_true(rc < 0);
    if (strstr(hx_fault_last()->text, needle) == NULL)
        print_error("said: %s\n", hx_fault_last()->text);
    assert_non_null(strstr(hx_fault_last()->text, needle));
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

static void foreign_files_are_refused(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    char text[8192];
    memset(text, 'x', sizeof(text));
    write_file(world->path, text, sizeof(text));
    assert_refused(world, "is not a ledger of Hapax");
    unlink(world->path);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_refused(world, "database of another program");
    world_free(world);
}

static void newer_formats_are_refused(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world_open(world, 0);
    world_close(world, 0);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_refused(world, "newer Hapax");
    world_free(world);
}

static void corrupt_ledgers_are_named(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 50; i++)
        (void)live(world, store, i);
    world_close(world, 0);
    int fd = open(world->path, O_RDWR | O_CLOEXEC);
    char garbage[4096];
    struct stat info;
    memset(garbage, 0xa5, sizeof(garbage));
    fstat(fd, &info);
    for (off_t at = 4096; at < info.st_size; at += 4096)
        assert_int_equal(pwrite(fd, garbage, sizeof(garbage), at), 4096);
    close(fd);
    assert_refused(world, "damaged");
    world_free(world);
}

static void places_that_cannot_be_written_are_named(void **state)
{
    /* Root may write anywhere, so it becomes nobody for a while. */
    bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    struct world *world = world_new(WORLD_SQLITE);
    chmod(world->directory, 0500);
    assert_refused(world, world->directory);
    chmod(world->directory, 0700);
    world_open(world, 0);
    world_close(world, 0);
    chmod(world->path, 0400);
    assert_refused(world, "cannot be written");
    chmod(world->path, 0600);
    world_free(world);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

/* Others could put another ledger there, and every call would be new. */
static void a_directory_that_others_may_write_is_refused(void **state)
{
    static const struct {
        mode_t mode;
        bool is_refused;
    } rows[] = {{0777, true},  {0707, true},  {0722, true}, {01777, false},
                {0755, false}, {0750, false}, {0700, false}};
    bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    struct world *world = world_new(WORLD_SQLITE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(chmod(world->directory, rows[i].mode), 0);
        if (rows[i].is_refused) {
            assert_refused(world, "put another ledger in the place of this one");
            continue;
        }
        world_open(world, 0);
        world_close(world, 0);
    }
    world_free(world);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

/* All of it becomes that user's. */
static void give_world(struct world *world, uid_t user, gid_t group)
{
    static const char *const suffixes[] = {"",         "-wal",    "-shm",   "-lock",
                                           "-counter", "-owners", "-spool", "-blobs"};
    assert_int_equal(chown(world->directory, user, group), 0);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[256];
        struct stat info;
        snprintf(path, sizeof(path), "%s%s", world->path, suffixes[i]);
        if (stat(path, &info) == 0)
            assert_int_equal(chown(path, user, group), 0);
    }
}

/* umask 002, where each user has a group of his own name. */
static void a_group_of_one_is_no_other(void **state)
{
    const struct passwd *user = getpwuid(geteuid());
    const struct group *group = getgrgid(getegid());
    struct world *world = world_new(WORLD_SQLITE);
    assert_int_equal(chmod(world->directory, 0775), 0);
    if (user != NULL && group != NULL && strcmp(user->pw_name, group->gr_name) == 0) {
        world_open(world, 0);
        world_close(world, 0);
    }
    /* Here the group is everybody's of that name, and only root may give a file to it. */
    if (geteuid() == 0) {
        char text[2048];
        assert_false(hx_store_sqlite_warning(world->path, text, sizeof(text)));
        assert_int_equal(chown(world->directory, 0, 100), 0);
        assert_true(hx_store_sqlite_warning(world->path, text, sizeof(text)));
        assert_non_null(strstr(text, "chmod go-w it"));
        give_world(world, 65534, 100);
        assert_int_equal(seteuid(65534), 0);
        assert_refused(world, "Other users may write the directory");
        assert_int_equal(seteuid(0), 0);
        world_open(world, 0); /* root is warned */
        world_close(world, 0);
    }
    world_free(world);
}

/* Whoever has the directory may rename what is in it, whatever its mode, and the sticky bit too. */
static void a_directory_of_another_user_is_refused(void **state)
{
    static const mode_t modes[] = {0700, 0755, 0777, 01777};
    char text[2048];
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct world *world = world_new(WORLD_SQLITE);
        world_open(world, 0);
        world_close(world, 0);
        give_world(world, 65534, 65534);
        assert_int_equal(chmod(world->directory, modes[i]), 0);
        assert_true(hx_store_sqlite_warning(world->path, text, sizeof(text)));
        assert_non_null(strstr(text, "belongs to another user (uid 65534)"));
        world_open(world, 0); /* root is warned */
        world_close(world, 0);
        assert_int_equal(chown(world->directory, 4321, 4321), 0);
        assert_int_equal(seteuid(65534), 0);
        /* So that only the owner is in the way. */
        if (modes[i] != 0700)
            assert_refused(world, "belongs to another user (uid 4321)");
        assert_int_equal(seteuid(0), 0);
        /* Of root it may be: root may do everything anyway. */
        assert_int_equal(chown(world->directory, 0, 0), 0);
        assert_int_equal(seteuid(65534), 0);
        if (modes[i] == 01777) {
            world_open(world, 0);
            world_close(world, 0);
        }
        assert_int_equal(seteuid(0), 0);
        world_free(world);
    }
}

/* Containers whose users have any number all have group 0, and volumes that it may write. */
static void what_group_zero_may_write_is_warned_of(void **state)
{
    char text[2048];
    if (geteuid() != 0)
        skip();
    struct world *world = world_new(WORLD_SQLITE);
    give_world(world, 65534, 0);
    assert_int_equal(chmod(world->directory, 0770), 0);
    assert_int_equal(seteuid(65534), 0);
    assert_true(hx_store_sqlite_warning(world->path, text, sizeof(text)));
    assert_non_null(strstr(text, "Whoever has group 0 may write the directory"));
    world_open(world, 0);
    world_close(world, 0);
    assert_int_equal(chmod(world->directory, 0772), 0);
    assert_refused(world, "Other users may write the directory");
    assert_int_equal(seteuid(0), 0);
    world_free(world);
}

/* What getgrgid_r is to say instead of the truth; 0 = the truth. */
static int group_fault;

int getgrgid_r(gid_t gid, struct group *entry, char *texts, size_t size, struct group **ret_entry)
{
    int (*real)(gid_t, struct group *, char *, size_t, struct group **);
    void *symbol = dlsym(RTLD_NEXT, "getgrgid_r");
    memcpy(&real, &symbol, sizeof(real));
    if (group_fault == 0)
        return real(gid, entry, texts, size, ret_entry);
    *ret_entry = NULL;
    return group_fault;
}

/* Who is in it nobody knows then. That there is no such group is known. */
static void a_group_that_cannot_be_read_is_others(void **state)
{
    if (geteuid() != 0)
        skip();
    struct world *world = world_new(WORLD_SQLITE);
    give_world(world, 4321, 4321);
    assert_int_equal(chmod(world->directory, 0770), 0);
    assert_int_equal(seteuid(4321), 0);
    group_fault = ERANGE;
    assert_refused(world, "Other users may write the directory");
    group_fault = ENOENT;
    world_open(world, 0);
    world_close(world, 0);
    group_fault = 0;
    world_open(world, 0);
    world_close(world, 0);
    assert_int_equal(seteuid(0), 0);
    world_free(world);
}

static void a_directory_is_no_ledger(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    mkdir(world->path, 0700);
    assert_refused(world, "not a regular file");
    world_free(world);
}

static void files_are_private(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    mode_t old = umask(0);
    struct hx_store *store = world_open(world, 0);
    (void)live(world, store, 1);
    static const char *const suffixes[] = {"",         "-wal",    "-shm",   "-lock",
                                           "-counter", "-owners", "-spool", "-blobs"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[256];
        struct stat info;
        snprintf(path, sizeof(path), "%s%s", world->path, suffixes[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 077, 0);
    }
    world_close(world, 0);
    /* A copy that somebody made of all of it. */
    char text[1024];
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[256];
        struct stat info;
        snprintf(path, sizeof(path), "%s%s", world->path, suffixes[i]);
        if (stat(path, &info) == 0)
            assert_int_equal(chmod(path, S_ISDIR(info.st_mode) ? 0777 : 0666), 0);
    }
    assert_true(hx_store_sqlite_warning(world->path, text, sizeof(text)));
    assert_non_null(strstr(text, "could read the ledger"));
    assert_non_null(strstr(text, "It is made 0600 when it is opened")); /* which may be refused */
    world_open(world, 0);
    assert_false(hx_store_sqlite_warning(world->path, text, sizeof(text)));
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[256];
        struct stat info;
        snprintf(path, sizeof(path), "%s%s", world->path, suffixes[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 077, 0);
    }
    umask(old);
    world_free(world);
}

static void a_lock_that_is_held_is_named(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    world->options.lock_wait_ms = 300;
    struct hx_store *store = world_open(world, 0);
    struct hx_lockfile lock;
    char path[256];
    snprintf(path, sizeof(path), "%s-lock", world->path);
    assert_int_equal(hx_lockfile_open(&lock, path), 0);
    assert_int_equal(hx_lockfile_take(&lock, 1000, "holding it in a test"), 0);
    struct hx_record record = world_record(world, 0, 1);
    struct hx_store_request *request = world_insert(store, &record);
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    assert_non_null(strstr(request->error, "holding it in a test"));
    hx_store_request_free(request);
    /* A whole batch waits once, not once for each. */
    struct hx_id ids[20];
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (unsigned i = 0; i < 20; i++) {
        request = hx_store_request_new(HX_STORE_INSERT, NULL);
        request->record = world_record(world, 0, 2 + i);
        ids[i] = request->record.id;
        store->ops->submit(store, request);
    }
    store->ops->flush(store);
    for (unsigned i = 0; i < 20; i++) {
        request = world_take(store);
        assert_memory_equal(&request->record.id, &ids[i], sizeof(ids[i]));
        assert_int_equal(result_of(request), HX_STORE_NOT_DONE);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_true((ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000 <
                3000); /* and not 20 times 300 ms */
    /* Reading needs no lock. */
    assert_int_equal(result_of(world_find_id(store, &record.id)), HX_STORE_DONE);
    hx_lockfile_drop(&lock);
    hx_lockfile_close(&lock);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    world_free(world);
}

static void a_lost_blob_is_told_and_hurts_nobody(void **state)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    static char large[HX_STORE_INLINE_MAX + 1];
    struct hx_record record = world_record(world, 0, 1);
    assert_int_equal(result_of(world_insert(store, &record)), HX_STORE_DONE);
    record.state = HX_OP_SUCCEEDED;
    record.attempt.state = HX_ATTEMPT_CONFIRMED;
    record.outcome.kind = HX_OUTCOME_RESULT;
    record.outcome.bytes = hx_span(large, sizeof(large));
    record.outcome.size = sizeof(large);
    assert_int_equal(result_of(world_update(store, &record, 1)), HX_STORE_DONE);
    char path[256];
    snprintf(path, sizeof(path), "%s-blobs", world->path);
    world_remove_directory(path);
    struct hx_store_request *ask = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    ask->record.id = record.id;
    store->ops->submit(store, ask);
    struct hx_record other = world_record(world, 0, 2);
    struct hx_store_request *insert = hx_store_request_new(HX_STORE_INSERT, NULL);
    insert->record = other;
    store->ops->submit(store, insert);
    store->ops->flush(store);
    assert_ptr_equal(world_take(store), ask);
    assert_int_equal(ask->result, HX_STORE_NOT_DONE);
    assert_non_null(strstr(ask->error, path));
    hx_store_request_free(ask);
    assert_ptr_equal(world_take(store), insert);
    assert_int_equal(result_of(insert), HX_STORE_DONE);
    world_free(world);
}

int main(void)
{
    faulty_vfs_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_write_fails_once),
        cmocka_unit_test(each_write_finds_the_disk_full),
        cmocka_unit_test(each_sync_fails_once),
        cmocka_unit_test(each_sync_fails_for_a_while),
        cmocka_unit_test(what_was_not_done_never_comes_back),
        cmocka_unit_test(an_io_error_ends_the_epoch),
        cmocka_unit_test(a_lost_answer_is_read_back),
        cmocka_unit_test(doubt_is_kept_until_it_ends),
        cmocka_unit_test(closing_in_doubt_ends),
        cmocka_unit_test(no_room_for_an_outcome_refuses_the_claim),
        cmocka_unit_test(a_spool_that_cannot_be_emptied_loses_nothing),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(newer_formats_are_refused),
        cmocka_unit_test(corrupt_ledgers_are_named),
        cmocka_unit_test(places_that_cannot_be_written_are_named),
        cmocka_unit_test(a_directory_that_others_may_write_is_refused),
        cmocka_unit_test(a_group_of_one_is_no_other),
        cmocka_unit_test(a_directory_of_another_user_is_refused),
        cmocka_unit_test(what_group_zero_may_write_is_warned_of),
        cmocka_unit_test(a_group_that_cannot_be_read_is_others),
        cmocka_unit_test(a_directory_is_no_ledger),
        cmocka_unit_test(files_are_private),
        cmocka_unit_test(a_lock_that_is_held_is_named),
        cmocka_unit_test(a_lost_blob_is_told_and_hurts_nobody),
    };
    return cmocka_run_group_tests_name("store faults", tests, NULL, NULL);
}
