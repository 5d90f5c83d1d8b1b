/* SPDX-License-Identifier: MIT */
/* Several threads, several connections and several processes on one ledger. */
#include "lib_kit.h"
#include "sanitized.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 6, KEYS = 40, ROUNDS = 2 };

struct worker {
    struct bench *bench;
    pthread_t thread;
    unsigned number;
    _Atomic unsigned *effects; /* per key */
    int effects_fd;            /* or a file with a line for each; -1 */
    unsigned failures;
};

static void act(struct worker *worker, unsigned key)
{
    char line[32];
    if (worker->effects != NULL)
        atomic_fetch_add(&worker->effects[key], 1);
    if (worker->effects_fd < 0)
        return;
    int len = snprintf(line, sizeof(line), "%u\n", key);
    worker->failures += write(worker->effects_fd, line, (size_t)len) != len;
}

static void set_key(struct hapax_request *request, char *text, size_t size, unsigned key)
{
    snprintf(text, size, "key-%u", key);
    hapax_request_init(request);
    request->tool = "charge";
    request->key = text;
    request->wait_ms = 20000;
}

/* One key from claim to outcome, or what somebody else made of it. */
static void work_on(struct worker *worker, unsigned key)
{
    struct hapax_request request;
    struct hapax_call *call = NULL;
    char text[32];
    set_key(&request, text, sizeof(text), key);
    int verdict = HAPAX_E_LEDGER;
    /* Others hold the lock for long now and then: nothing was done, so once more. */
    for (int tries = 0; tries < 50 && verdict == HAPAX_E_LEDGER; tries++)
        verdict = hapax_claim(worker->bench->hapax, NULL, &request, &call, NULL);
    if (verdict == HAPAX_RUN) {
        act(worker, key);
        int rc = HAPAX_E_LEDGER;
        for (int tries = 0; tries < 50 && rc == HAPAX_E_LEDGER; tries++)
            rc = hapax_finish(call, NULL, text, strlen(text), 0, NULL);
        worker->failures += rc != 0;
    } else if (verdict == HAPAX_REPLAY) {
        struct hapax_info info = {.size = sizeof(info)};
        hapax_call_info(call, &info);
        worker->failures +=
            info.outcome_size != strlen(text) || memcmp(info.outcome, text, info.outcome_size) != 0;
    } else {
        worker->failures++;
    }
    hapax_call_free(call);
}

static void *work(void *context)
{
    struct worker *worker = context;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < KEYS; i++)
            work_on(worker, (i + worker->number * 3) % KEYS);
    }
    return NULL;
}

static void run_workers(struct bench *bench, void *(*body)(void *), _Atomic unsigned *effects,
                        int effects_fd, unsigned *ret_failures)
{
    struct worker workers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .bench = bench, .number = i, .effects = effects, .effects_fd = effects_fd};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    *ret_failures = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        *ret_failures += workers[i].failures;
    }
}

static void threads_act_once_for_a_key(void **state)
{
    struct bench *bench = *state;
    static _Atomic unsigned effects[KEYS];
    unsigned failures;
    run_workers(bench, work, effects, -1, &failures);
    assert_int_equal(failures, 0);
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(effects[key], 1);
}

/* Each with a connection of its own. */
static void *work_in_transactions(void *context)
{
    struct worker *worker = context;
    struct hapax *hapax = worker->bench->hapax;
    struct hapax_conn *conn = NULL;
    sqlite3 *db = NULL;
    if (sqlite3_open(worker->bench->path, &db) != SQLITE_OK ||
        hapax_attach(hapax, db, sqlite3_sourceid(), 0, &conn, NULL) != 0) {
        worker->failures++;
        return NULL;
    }
    for (unsigned i = 0; i < KEYS;) {
        struct hapax_request request;
        struct hapax_call *call = NULL;
        char text[32], sql[96];
        unsigned key = (i + worker->number * 5) % KEYS;
        set_key(&request, text, sizeof(text), key);
        if (hapax_begin(conn, NULL) != 0)
            continue; /* others were at it */
        int verdict = hapax_claim(hapax, conn, &request, &call, NULL);
        snprintf(sql, sizeof(sql), "INSERT INTO app_orders VALUES ('%s')", text);
        if (verdict == HAPAX_RUN)
            worker->failures += sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK ||
                                hapax_finish(call, conn, "ok", 2, 0, NULL) != 0;
        else
            worker->failures += verdict != HAPAX_REPLAY;
        hapax_call_free(call);
        worker->failures += hapax_commit(conn, NULL) != 0;
        i++;
    }
    hapax_detach(conn);
    worker->failures += sqlite3_close(db) != SQLITE_OK;
    return NULL;
}

static void connections_insert_one_row_for_a_key(void **state)
{
    struct bench *bench = *state;
    unsigned failures;
    bench_close(bench);
    sqlite3 *db = db_open(bench->path);
    db_run(db, "CREATE TABLE app_orders(name TEXT)");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    bench_open(bench);
    run_workers(bench, work_in_transactions, NULL, -1, &failures);
    assert_int_equal(failures, 0);
    bench_close(bench);
    assert_int_equal(ledger_number(bench, "SELECT count(*) FROM app_orders"), KEYS);
    assert_int_equal(ledger_number(bench, "SELECT count(DISTINCT name) FROM app_orders"), KEYS);
    bench_open(bench);
}

static void processes_act_once_for_a_key(void **state)
{
    struct bench *bench = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/effects", bench->directory);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    bench_close(bench);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            unsigned failures = 0;
            bench_open(bench);
            run_workers(bench, work, NULL, fd, &failures);
            bench_close(bench);
            _exit(failures == 0 ? 0 : 1);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    unsigned effects[KEYS] = {0};
    FILE *lines = fdopen(fd, "re");
    assert_non_null(lines);
    rewind(lines);
    for (unsigned key; fscanf(lines, "%u", &key) == 1;)
        effects[key % KEYS]++;
    fclose(lines);
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(effects[key], 1);
    bench_open(bench);
}

/* A child that claims two keys and waits to be killed. */
static pid_t start_claimer(struct bench *bench, const struct hapax_contract *contract)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bench_open(bench);
        (void)claim(bench, "opaque", HAPAX_RUN);
        (void)claim_as(bench, NULL, "idempotent", contract, HAPAX_RUN);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void a_dead_owner_is_told_from_a_paused_one(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract;
    hapax_contract_init(&contract);
    contract.tool_class = HAPAX_IDEMPOTENT;
    bench_close(bench);
    pid_t pid = start_claimer(bench, &contract);
    bench_open(bench);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    struct hapax_call *call = claim(bench, "opaque", HAPAX_BUSY);
    assert_int_equal(info_of(call).owner_pid, pid);
    char effect_key[40];
    hapax_call_free(call);
    call = claim_as(bench, NULL, "idempotent", &contract, HAPAX_BUSY);
    snprintf(effect_key, sizeof(effect_key), "%s", info_of(call).effect_key);
    hapax_call_free(call);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    hapax_call_free(claim(bench, "opaque", HAPAX_UNKNOWN));
    call = claim_as(bench, NULL, "idempotent", &contract, HAPAX_RUN);
    assert_int_equal(info_of(call).attempt, 2);
    assert_string_equal(info_of(call).effect_key, effect_key);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
}

/* A child of the one who claimed them opens the ledger again and tells what it is told of both,
 * while that one lives and when it does not. */
static _Noreturn void ask_as_a_child(struct bench *bench, const struct hapax_contract *contract,
                                     int go, int said)
{
    (void)alarm(30); /* nobody waits longer */
    struct hapax *hapax = bench_open_other(bench);
    for (int round = 0; round < 2; round++) {
        int verdicts[2] = {verdict_of(bench, hapax, "opaque", NULL),
                           verdict_of(bench, hapax, "idempotent", contract)};
        char byte;
        if (write(said, verdicts, sizeof(verdicts)) != sizeof(verdicts) ||
            (round == 0 && read(go, &byte, 1) != 1))
            _exit(1);
    }
    _exit(0);
}

static void a_child_takes_the_place_of_its_dead_parent(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract;
    int go[2], said[2], verdicts[2] = {0};
    if (KIT_HAS_TSAN)
        skip(); /* it lets no child of a process with threads begin one */
    hapax_contract_init(&contract);
    contract.tool_class = HAPAX_IDEMPOTENT;
    bench_close(bench);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0) {
        (void)alarm(30);
        close(said[0]);
        bench_open(bench);
        (void)claim(bench, "opaque", HAPAX_RUN);
        (void)claim_as(bench, NULL, "idempotent", &contract, HAPAX_RUN);
        if (fork() == 0)
            ask_as_a_child(bench, &contract, go[0], said[1]);
        close(said[1]);
        for (;;)
            (void)pause();
    }
    close(said[1]);
    assert_int_equal(read(said[0], verdicts, sizeof(verdicts)), sizeof(verdicts));
    assert_int_equal(verdicts[0], HAPAX_BUSY);
    assert_int_equal(verdicts[1], HAPAX_BUSY);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(said[0], verdicts, sizeof(verdicts)), sizeof(verdicts));
    assert_int_equal(verdicts[0], HAPAX_UNKNOWN);
    assert_int_equal(verdicts[1], HAPAX_RUN);
    close(go[0]);
    close(go[1]);
    close(said[0]);
    bench_open(bench);
}

#ifdef HX_CRASH_POINTS
/* A child that was forked earlier and lives on must not keep the lock which its parent held when he
 * was killed in a commit: it shares his open file, and for all others the ledger stays in use. */
static void a_child_keeps_no_lock_of_its_dead_parent(void **state)
{
    struct bench *bench = *state;
    int go[2], ready[2];
    char byte = 'g';
    int status = 0;
    if (KIT_HAS_TSAN)
        skip(); /* it lets no child of a process with threads begin one */
    bench_close(bench);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0) {
        (void)alarm(30);
        close(go[1]);
        bench_open(bench);
        if (fork() == 0) {
            /* Until the end of the test, as a worker would that its parent leaves behind. */
            close(ready[0]);
            _exit(write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) >= 0 ? 0 : 1);
        }
        /* Of the claim: a look before it takes no lock. */
        if (read(ready[0], &byte, 1) != 1 ||
            setenv("HAPAX_CRASH_AT", "lib-persist-asked>commit-before", 1) != 0)
            _exit(1);
        (void)claim(bench, "killed", HAPAX_RUN);
        _exit(1);
    }
    close(go[0]);
    close(ready[1]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    bench_open(bench); /* waits 10 s for the lock, and fails then */
    hapax_call_free(claim(bench, "killed", HAPAX_RUN));
    close(ready[0]);
    close(go[1]);
}
#endif

enum { OPENERS = 4 };

static _Atomic bool is_fork_watched;
static _Atomic unsigned openings;
static _Atomic bool went_on_in_a_fork;

static void *open_in_vain(void *context)
{
    _Atomic bool *is_over = context;
    struct hapax_options options;
    struct hapax *hapax = NULL;
    hapax_options_init(&options);
    options.path = "/dev/null/ledger"; /* as far as to the library's own locks, not to SQLite's */
    options.server = "billing";
    while (!atomic_load(is_over)) {
        if (hapax_open(&options, &hapax, NULL) != HAPAX_E_LEDGER)
            abort();
        atomic_fetch_add(&openings, 1);
    }
    return NULL;
}

/* Registered before the library's own, so it runs after that: from here to the end of the fork
 * nobody has a lock of the library but the thread that forks. Whoever was past it may go on. */
static void watch_a_fork(void)
{
    enum { LOOKS = 500 };
    if (!atomic_exchange(&is_fork_watched, false))
        return;
    const unsigned before = atomic_load(&openings);
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < LOOKS && atomic_load(&openings) - before <= OPENERS; i++)
        (void)nanosleep(&pause, NULL);
    atomic_store(&went_on_in_a_fork, atomic_load(&openings) - before > OPENERS);
}

/* A fork may come while another thread is anywhere in the library. What it has locked there, nobody
 * would ever unlock in the child. */
static void a_child_of_a_busy_process_can_open(void **state)
{
    enum { FORKS = 100 };
    pthread_t threads[OPENERS];
    _Atomic bool is_over = false;
    struct hapax_options options;
    struct hapax *hapax = NULL;
    hapax_options_init(&options);
    options.path = "/dev/null/ledger";
    options.server = "billing";
    const char *preloaded = getenv("LD_PRELOAD");
    bool is_under_valgrind = preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
    if (KIT_HAS_TSAN || is_under_valgrind)
        skip();          /* a fork takes too long there for so many */
    bench_close(*state); /* else the last to leave puts nothing by again */
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_in_vain, &is_over), 0);
    int failures = 0;
    atomic_store(&is_fork_watched, true);
    for (int i = 0; i < FORKS && failures == 0; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(10);
            _exit(hapax_open(&options, &hapax, NULL) == HAPAX_E_LEDGER ? 0 : 1);
        }
        int status = -1;
        failures += waitpid(pid, &status, 0) != pid || status != 0;
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(failures, 0);
    assert_false(went_on_in_a_fork);
    bench_open(*state);
}

static _Atomic int handled;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, (int)(getpid() == (pid_t)gettid() ? 1 : 1000));
}

/* The program's signals go to its own threads. */
static void the_thread_takes_no_signals(void **state)
{
    struct bench *bench = *state;
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t usr1;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    hapax_call_free(claim(bench, "signal", HAPAX_RUN)); /* the thread was awake meanwhile */
    assert_int_equal(handled, 0);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
    assert_int_equal(handled, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
        TEST(threads_act_once_for_a_key),
        TEST(connections_insert_one_row_for_a_key),
        TEST(processes_act_once_for_a_key),
        TEST(a_dead_owner_is_told_from_a_paused_one),
        TEST(a_child_takes_the_place_of_its_dead_parent),
#ifdef HX_CRASH_POINTS
        TEST(a_child_keeps_no_lock_of_its_dead_parent),
#endif
        TEST(a_child_of_a_busy_process_can_open),
        TEST(the_thread_takes_no_signals),
    };
    if (pthread_atfork(watch_a_fork, NULL, NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
