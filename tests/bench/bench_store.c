/* SPDX-License-Identifier: MIT */
/*
 * How fast the ledger is, beside what the disk under it can do: `./dev bench ledger`.
 *
 * One operation is what a guarded call costs the store: a synced claim, an unsynced sent mark, a
 * synced outcome and an unsynced delivery, each of which waits for the one before. N callers run at
 * once, on one thread, as the gateway does. The floor is a preallocated file to which one record is
 * appended and synced per step, with the steps of all callers that wait gathered into one sync.
 *
 * Numbers depend on the machine and on what else runs there: believe the ratios.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "metric.h"
#include "world.h"

enum { CALLERS_MAX = 256, RECORD_BYTES = 300 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Processor time of all threads but this one: what the store itself took. */
static double store_cpu_s(void)
{
    struct rusage all, own;
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return (double)(all.ru_utime.tv_sec - own.ru_utime.tv_sec + all.ru_stime.tv_sec -
                    own.ru_stime.tv_sec) +
           (double)(all.ru_utime.tv_usec - own.ru_utime.tv_usec + all.ru_stime.tv_usec -
                    own.ru_stime.tv_usec) /
               1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double *sorted, size_t count, double share)
{
    return count == 0 ? 0 : sorted[(size_t)((double)(count - 1) * share)];
}

struct caller {
    struct hx_record record;
    int step;
    double began_s; /* the claim, and then the outcome */
};

struct run {
    struct world *world;
    struct hx_store *store;
    struct caller callers[CALLERS_MAX];
    double *claims_s;
    double *outcomes_s;
    size_t claim_count;
    size_t outcome_count;
    size_t capacity; /* of both */
    unsigned long done;
    double cpu_s; /* of the store, during the last measurement */
    uint64_t serial;
};

/* Ids and keys as they come in life: ids ordered by time, identities random. */
static void fresh_record(struct run *run, struct hx_record *record)
{
    uint64_t random[4];
    for (int i = 0; i < 4; i++)
        random[i] = world_random(run->world);
    run->world->now.wall.ms += run->serial++ % 16 == 0;
    record->id = hx_id_make(run->world->now.wall, (uint8_t *)&random[0]);
    record->effect_key = hx_id_make(run->world->now.wall, (uint8_t *)&random[2]);
    memcpy(&record->identity, random, sizeof(random));
    random[0]++;
    memcpy(&record->twin, random, sizeof(random));
    memcpy(&record->fingerprint, random, sizeof(random));
}

static void send_step(struct run *run, struct caller *caller, struct hx_store_request *request)
{
    static const enum hx_store_kind kinds[] = {HX_STORE_INSERT, HX_STORE_MARK, HX_STORE_UPDATE,
                                               HX_STORE_TOUCH};
    static char result[RECORD_BYTES];
    request->kind = kinds[caller->step];
    request->context = caller;
    if (caller->step == 0) {
        fresh_record(run, &caller->record);
        caller->record.state = HX_OP_RUNNING;
        caller->record.attempt.state = HX_ATTEMPT_OPEN;
        caller->record.attempt.is_marked = false;
        caller->record.outcome = (struct hx_outcome){0};
        caller->began_s = now_s();
    }
    if (caller->step == 1) {
        caller->record.attempt.is_marked = true;
        caller->record.attempt.marked_at = run->world->now;
        caller->record.first_mark = run->world->now;
    }
    if (caller->step == 2) {
        caller->record.state = HX_OP_SUCCEEDED;
        caller->record.attempt.state = HX_ATTEMPT_CONFIRMED;
        caller->record.outcome.kind = HX_OUTCOME_RESULT;
        caller->record.outcome.bytes = hx_span(result, sizeof(result));
        caller->record.outcome.size = sizeof(result);
        caller->began_s = now_s();
    }
    request->record = caller->record;
    request->expected_fence = caller->record.fence;
    request->touch = (struct hx_store_touch){.add_sent = 1, .cool = true};
    run->store->ops->submit(run->store, request);
}

static void take_step(struct run *run, struct hx_store_request *request)
{
    struct caller *caller = request->context;
    if (request->result != HX_STORE_DONE) {
        fprintf(stderr, "bench: result %d: %s\n", (int)request->result, request->error);
        exit(1);
    }
    if (caller->step == 0 && run->claim_count < run->capacity)
        run->claims_s[run->claim_count++] = now_s() - caller->began_s;
    if (caller->step == 2 && run->outcome_count < run->capacity)
        run->outcomes_s[run->outcome_count++] = now_s() - caller->began_s;
    caller->step = (caller->step + 1) % 4;
    run->done += caller->step == 0;
    send_step(run, caller, request);
}

static double measure(struct run *run, unsigned callers, double seconds)
{
    run->done = 0;
    run->claim_count = run->outcome_count = 0;
    for (unsigned i = 0; i < callers; i++) {
        run->callers[i].record = world_record(run->world, 0, i);
        run->callers[i].step = 0;
        send_step(run, &run->callers[i], hx_store_request_new(HX_STORE_INSERT, NULL));
    }
    double began_s = now_s();
    double cpu_began_s = store_cpu_s();
    while (now_s() - began_s < seconds) {
        struct hx_store_request *request;
        run->store->ops->flush(run->store);
        struct pollfd wait = {.fd = run->store->ops->wake_fd(run->store), .events = POLLIN};
        (void)poll(&wait, 1, 1000);
        while ((request = run->store->ops->take_done(run->store)) != NULL)
            take_step(run, request);
    }
    double rate = (double)run->done / (now_s() - began_s);
    run->cpu_s = store_cpu_s() - cpu_began_s;
    run->store->ops->flush(run->store);
    for (unsigned i = 0; i < callers; i++)
        hx_store_request_free(world_take(run->store));
    return rate;
}

/* Two synced appends and two plain ones per operation, the steps of all callers under one sync. */
static double measure_floor(const char *directory, unsigned callers, double seconds)
{
    char path[256];
    char bytes[CALLERS_MAX * RECORD_BYTES];
    memset(bytes, 'x', sizeof(bytes));
    snprintf(path, sizeof(path), "%s/floor", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const off_t size = 256 << 20;
    if (fd < 0 || posix_fallocate(fd, 0, size) != 0) {
        fprintf(stderr, "bench: no room for %s\n", path);
        exit(1);
    }
    for (off_t at = 0; at < size; at += (off_t)sizeof(bytes))
        (void)!pwrite(fd, bytes, sizeof(bytes), at);
    (void)fsync(fd);
    off_t at = 0;
    unsigned long syncs = 0;
    double began_s = now_s();
    while (now_s() - began_s < seconds) {
        size_t len = callers * RECORD_BYTES;
        if (at + (off_t)len > size)
            at = 0;
        (void)!pwrite(fd, bytes, len, at);
        at += (off_t)len;
        (void)fdatasync(fd);
        syncs++;
    }
    double rate = (double)syncs * callers / 2 / (now_s() - began_s);
    close(fd);
    unlink(path);
    return rate;
}

/* Fills the ledger up to `rows` with settled, cooled operations. */
static void grow(struct run *run, unsigned long rows)
{
    unsigned long have = 0;
    while (have < rows) {
        unsigned count = 0;
        for (; count < 512 && have < rows; count++, have++) {
            struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
            struct hx_record record = world_record(run->world, 0, count);
            fresh_record(run, &record);
            record.state = HX_OP_CANCELLED;
            record.attempt.state = HX_ATTEMPT_DEAD;
            request->record = record;
            run->store->ops->submit(run->store, request);
        }
        run->store->ops->flush(run->store);
        for (unsigned i = 0; i < count; i++)
            hx_store_request_free(world_take(run->store));
    }
}

static double middle_of(double *times_s, size_t count)
{
    qsort(times_s, count, sizeof(double), compare);
    return percentile(times_s, count, 0.5);
}

static void print_claims(struct run *run, const char *name, double *ret_p50_s)
{
    *ret_p50_s = middle_of(run->claims_s, run->claim_count);
    printf("  %-22s claim p50 %7.1f us   p99 %7.1f us\n", name, *ret_p50_s * 1e6,
           percentile(run->claims_s, run->claim_count, 0.99) * 1e6);
}

/* What one caller waits for when all he does is to claim and to give an outcome: the two durable
 * commits of a guarded call, by themselves. */
static void note_commits(struct run *run, double claim_s)
{
    double both_s = claim_s + middle_of(run->outcomes_s, run->outcome_count);
    printf("  one caller's two durable commits %.1f us\n", both_s * 1e6);
    metric("commits_us", both_s * 1e6);
}

static void run_alloc(struct run *run)
{
    run->capacity = 4 << 20;
    run->claims_s = hx_new_bytes(run->capacity * sizeof(double));
    run->outcomes_s = hx_new_bytes(run->capacity * sizeof(double));
}

static struct run *run_new(void)
{
    struct run *run = hx_new(struct run);
    run->world = world_new(WORLD_SQLITE);
    run->store = world_open(run->world, 0);
    run_alloc(run);
    return run;
}

static void run_free(struct run *run)
{
    world_free(run->world);
    hx_free(run->claims_s);
    hx_free(run->outcomes_s);
    hx_free(run);
}

static void bench_rates(double seconds)
{
    static const unsigned callers[] = {1, 16, 64, 256};
    printf("operations per second (claim, mark, outcome, delivery; two syncs each)\n");
    for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
        struct run *run = run_new();
        double p50_s;
        double floor_rate = measure_floor(run->world->directory, callers[i], seconds / 4);
        double rate = measure(run, callers[i], seconds);
        char name[64];
        double cpu_us = run->cpu_s * 1e6 / (double)run->done;
        printf("  %3u callers: ledger %8.0f/s   append+fdatasync %8.0f/s   ratio %.2f"
               "   store's cpu %.1f us per operation (%.0f/s at most)\n",
               callers[i], rate, floor_rate, rate / floor_rate, cpu_us, 1e6 / cpu_us);
        snprintf(name, sizeof(name), "%u callers", callers[i]);
        print_claims(run, name, &p50_s);
        if (callers[i] == 64) {
            metric("store_64_per_s", rate);
            metric("store_64_cpu_us", cpu_us);
        }
        if (callers[i] == 1) {
            printf("  one caller: %.1f us per operation, %.1f us more than two syncs\n", 1e6 / rate,
                   1e6 / rate - 1e6 / floor_rate);
            note_commits(run, p50_s);
        }
        fflush(stdout);
        run_free(run);
    }
}

/* Two processes on one ledger, one caller each. */
static void bench_two(double seconds)
{
    struct run *run = hx_new(struct run);
    double p50_s;
    run->world = world_new(WORLD_SQLITE);
    run_alloc(run);
    double floor_rate = measure_floor(run->world->directory, 1, seconds / 4);
    fflush(NULL);
    pid_t other = fork();
    run->world->seed = other == 0 ? 7777 : 1;
    run->store = world_open(run->world, 0);
    double rate = measure(run, 1, seconds);
    if (other == 0)
        _exit(0);
    int status;
    (void)waitpid(other, &status, 0);
    printf(
        "two processes, one caller each\n  this one: ledger %8.0f/s   append+fdatasync %8.0f/s   "
        "%.1f us per operation\n",
        rate, floor_rate, 1e6 / rate);
    print_claims(run, "two processes", &p50_s);
    run_free(run);
}

static void bench_growth(double seconds, unsigned long rows_max)
{
    struct run *run = run_new();
    double small_s, large_s;
    printf("claim latency as the ledger grows (one caller)\n");
    grow(run, 1000);
    (void)measure(run, 1, seconds);
    print_claims(run, "1,000 rows", &small_s);
    double began_s = now_s();
    grow(run, rows_max);
    printf("  (%lu rows written at %.0f/s)\n", rows_max, (double)rows_max / (now_s() - began_s));
    (void)measure(run, 1, seconds);
    char name[64];
    snprintf(name, sizeof(name), "%lu rows", rows_max);
    print_claims(run, name, &large_s);
    printf("  ratio %.2f (budget 1.5)\n", large_s / small_s);
    metric("growth_ratio", large_s / small_s);
    metric("growth_rows", (double)rows_max);
    world_close(run->world, 0);
    began_s = now_s();
    run->store = world_open(run->world, 0);
    double open_ms = (now_s() - began_s) * 1e3;
    printf("  opened again in %.1f ms\n", open_ms);
    metric("open_ms", open_ms);
    run_free(run);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    unsigned long rows_max = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    bench_rates(seconds);
    if (rows_max == 0)
        return 0;
    bench_two(seconds);
    bench_growth(seconds, rows_max);
    return 0;
}
