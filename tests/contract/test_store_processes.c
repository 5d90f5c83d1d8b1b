/* SPDX-License-Identifier: MIT */
/*
 * Several processes on one ledger, killed at random: what was told to any of them stays true, and
 * the file verifies. What each was told stands in memory that they share with the test, which is
 * not killed.
 */
#include <fcntl.h>
#include <poll.h>
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

#include "adapter/store_sqlite/inspect.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "kept.h"
#include "world.h"

enum { OPS_MAX = 65536, WORKERS_MAX = 4 };

enum stage {
    STAGE_NONE,
    STAGE_BEGUN,
    STAGE_SESSION,  /* its session is kept */
    STAGE_INSERTED, /* with its stream */
    STAGE_MARKED,
    STAGE_RESUMABLE,
    STAGE_SETTLED,
    STAGE_ENDING, /* its session may be gone */
    STAGE_ENDED
};

struct shared {
    _Atomic uint32_t next;
    struct {
        struct hx_id id;
        _Atomic int stage;
    } ops[OPS_MAX];
};

struct test {
    struct world *world;
    struct shared *shared;
    int progress[2]; /* a pipe: one byte per settled operation */
    pid_t workers[WORKERS_MAX];
};

static bool ended_done(struct hx_store_request *request)
{
    bool is_done = request->result == HX_STORE_DONE;
    if (!is_done) /* a worker may only be told what is true; a busy lock is */
        fprintf(stderr, "worker: result %d: %s\n", (int)request->result, request->error);
    hx_store_request_free(request);
    return is_done;
}

/* Each operation has a session of its own. */
static struct hx_store_session session_of(struct world *world, uint32_t number)
{
    struct hx_store_session session = kept_session(world, 0);
    memcpy(&session.key, &number, sizeof(number));
    return session;
}

static struct hx_store_resume resume_of(const struct hx_id *id)
{
    return (struct hx_store_resume){
        .op = *id, .attempt = 1, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
}

static bool claim(struct hx_store *store, const struct hx_record *record,
                  const struct hx_store_session *session)
{
    struct hx_store_stream stream = kept_stream(session, record, "a");
    enum hx_store_result claimed, streamed;
    kept_claim_with_stream(store, record, &stream, &claimed, &streamed);
    return claimed == HX_STORE_DONE && streamed == HX_STORE_DONE;
}

static void live(struct test *test, struct hx_store *store)
{
    struct world *world = test->world;
    uint32_t number = test->shared->next++;
    if (number >= OPS_MAX)
        _exit(0);
    struct hx_record record = world_record(world, 0, number % 4096);
    record.generation = number / 4096;
    record.identity = hx_record_identity(world->hasher, &record, false);
    test->shared->ops[number].id = record.id;
    test->shared->ops[number].stage = STAGE_BEGUN;
    struct hx_store_session session = session_of(world, number);
    if (!ended_done(kept_put_session(store, &session)))
        return;
    test->shared->ops[number].stage = STAGE_SESSION;
    if (!claim(store, &record, &session))
        return;
    test->shared->ops[number].stage = STAGE_INSERTED;
    if (!ended_done(world_mark(world, store, &record)))
        return;
    test->shared->ops[number].stage = STAGE_MARKED;
    struct hx_store_resume resume = resume_of(&record.id);
    if (!ended_done(kept_put_resume(store, &resume)))
        return;
    test->shared->ops[number].stage = STAGE_RESUMABLE;
    static char bytes[HX_STORE_INLINE_MAX + 10];
    memset(bytes, 'r', sizeof(bytes));
    size_t len = number % 50 == 0 ? sizeof(bytes) : number % 10 == 0 ? 5000 : 300;
    record.state = HX_OP_SUCCEEDED;
    record.attempt.state = HX_ATTEMPT_CONFIRMED;
    record.attempt.is_marked = true;
    record.attempt.marked_at = world->now;
    record.first_mark = world->now;
    record.outcome.kind = HX_OUTCOME_RESULT;
    record.outcome.bytes = hx_span(bytes, len);
    record.outcome.size = len;
    if (!ended_done(world_update(store, &record, 1)))
        return;
    test->shared->ops[number].stage = STAGE_SETTLED;
    (void)!write(test->progress[1], "x", 1);
    (void)ended_done(
        world_touch(store, &record.id, (struct hx_store_touch){.add_sent = 1, .cool = true}));
    if (number % 3 != 0)
        return;
    test->shared->ops[number].stage = STAGE_ENDING;
    if (ended_done(kept_end(store, &session.key)))
        test->shared->ops[number].stage = STAGE_ENDED;
}

static _Noreturn void worker(struct test *test)
{
    struct hx_store *store = world_open(test->world, 0);
    for (;;)
        live(test, store);
}

static void start(struct test *test, int index)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(test->progress[0]);
        worker(test);
    }
    test->workers[index] = pid;
}

static void stop(struct test *test, int index)
{
    int status;
    assert_int_equal(kill(test->workers[index], SIGKILL), 0);
    assert_int_equal(waitpid(test->workers[index], &status, 0), test->workers[index]);
    /* One that had failed an assertion would have died of that. */
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void await_progress(struct test *test, unsigned count)
{
    char byte;
    for (unsigned i = 0; i < count; i++) {
        struct pollfd wait = {.fd = test->progress[0], .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 30000), 1);
        assert_int_equal(read(test->progress[0], &byte, 1), 1);
    }
}

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void check_kept(struct test *test, struct hx_store *store, uint32_t number)
{
    int stage = test->shared->ops[number].stage;
    struct hx_store_session session = session_of(test->world, number);
    struct hx_store_resume resume = resume_of(&test->shared->ops[number].id);
    if (stage >= STAGE_SESSION && stage != STAGE_ENDING)
        assert_kept(kept_get_session(store, &session.key),
                    stage == STAGE_ENDED ? HX_STORE_STALE : HX_STORE_DONE);
    if (stage >= STAGE_INSERTED && stage != STAGE_ENDING)
        assert_kept(kept_get_stream(store, &session.key, HX_SPAN_LIT("a")),
                    stage == STAGE_ENDED ? HX_STORE_STALE : HX_STORE_DONE);
    if (stage >= STAGE_RESUMABLE)
        assert_resume_is(store, &resume);
}

static void check(struct test *test)
{
    struct world *world = test->world;
    struct hx_store *store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    uint32_t count = test->shared->next < OPS_MAX ? test->shared->next : OPS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        int stage = test->shared->ops[i].stage;
        check_kept(test, store, i);
        if (stage < STAGE_INSERTED)
            continue;
        struct hx_store_request *request = world_find_id(store, &test->shared->ops[i].id);
        assert_int_equal(request->record_count, 1);
        const struct hx_store_found *found = &request->records[0];
        if (stage >= STAGE_MARKED)
            assert_true(found->record.attempt.is_marked);
        if (stage >= STAGE_SETTLED)
            assert_int_equal(found->record.state, HX_OP_SUCCEEDED);
        assert_int_equal(found->owner_fact, HX_OWNER_DEAD);
        hx_store_request_free(request);
    }
    world_close(world, 0);
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
}

static void hammer(int workers, unsigned kills)
{
    struct test test = {.world = world_new(WORLD_SQLITE)};
    test.shared =
        mmap(NULL, sizeof(*test.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(test.shared, MAP_FAILED);
    assert_int_equal(pipe2(test.progress, O_CLOEXEC), 0);
    for (int i = 0; i < workers; i++)
        start(&test, i);
    for (unsigned i = 0; i < kills; i++) {
        await_progress(&test, 1 + (unsigned)(world_random(test.world) % 20));
        int victim = (int)(world_random(test.world) % (unsigned)workers);
        stop(&test, victim);
        start(&test, victim);
    }
    await_progress(&test, 20);
    for (int i = 0; i < workers; i++)
        stop(&test, i);
    check(&test);
    close(test.progress[0]);
    close(test.progress[1]);
    munmap(test.shared, sizeof(*test.shared));
    world_free(test.world);
}

static void two_processes_killed_at_random(void **state)
{
    hammer(2, 25);
}

static void four_processes_killed_at_random(void **state)
{
    hammer(4, 25);
}

/* Nobody starves: while one process writes without a pause, another gets its turn. */
static void the_lock_is_fair(void **state)
{
    struct test test = {.world = world_new(WORLD_SQLITE)};
    test.shared =
        mmap(NULL, sizeof(*test.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(pipe2(test.progress, O_CLOEXEC), 0);
    for (int i = 0; i < 3; i++)
        start(&test, i);
    await_progress(&test, 10);
    struct hx_store *store = world_open(test.world, 0);
    for (unsigned i = 0; i < 20; i++) {
        struct hx_record record = world_record(test.world, 0, i);
        record.generation = 1000;
        assert_true(ended_done(world_insert(store, &record)));
    }
    for (int i = 0; i < 3; i++)
        stop(&test, i);
    close(test.progress[0]);
    close(test.progress[1]);
    munmap(test.shared, sizeof(*test.shared));
    world_free(test.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_killed_at_random),
        cmocka_unit_test(four_processes_killed_at_random),
        cmocka_unit_test(the_lock_is_fair),
    };
    return cmocka_run_group_tests_name("store processes", tests, NULL, NULL);
}
