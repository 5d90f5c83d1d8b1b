/* SPDX-License-Identifier: MIT */
/*
 * sim SEED [--trace]           one history
 * sim --seeds A..B [--time S]  many; ends at the first that breaks a promise, and counts rare
 * branches
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/sim.h"

static struct sim *running;

/* An assertion of the product, or worse: the seed is what the reader needs. */
static void on_abort(int number)
{
    (void)number;
    if (running != NULL) {
        if (!running->options.is_tracing)
            sim_print_trace(running, stderr, 60);
        fprintf(stderr, "seed %llu\n", (unsigned long long)running->options.seed);
    }
    _exit(1);
}

static void run_one(uint64_t seed, bool is_tracing, uint64_t *marks, uint64_t *turns)
{
    struct sim_options options = {.seed = seed, .is_tracing = is_tracing};
    running = sim_new(&options);
    sim_history(running);
    *turns += running->turns;
    struct sim *done = running;
    running = NULL;
    /* Lives that are freed only now still add to the marks. */
    while (!hx_list_is_empty(&done->lives))
        sim_life_free(hx_container_of(hx_list_first(&done->lives), struct sim_life, node));
    for (int i = 0; i < SIM_MARK_COUNT; i++)
        marks[i] += done->marks[i];
    sim_free(done);
}

static int usage(void)
{
    fprintf(stderr, "usage: sim SEED [--trace] | sim --seeds A..B [--time SECONDS] [--marks]\n");
    return 2;
}

static bool is_time_over(const struct timespec *began, long limit_s)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return limit_s > 0 && now.tv_sec - began->tv_sec >= limit_s;
}

static int run_many(const char *range, long limit_s, bool shows_marks)
{
    enum { LONG_RUN = 1000 };
    uint64_t marks[SIM_MARK_COUNT] = {0}, turns = 0, count = 0;
    char *end;
    uint64_t first = strtoull(range, &end, 10);
    if (strncmp(end, "..", 2) != 0)
        return usage();
    uint64_t last = strtoull(end + 2, NULL, 10);
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (uint64_t seed = first; seed <= last && !is_time_over(&began, limit_s); seed++, count++)
        run_one(seed, false, marks, &turns);
    uint64_t failed = 0;
    for (int i = 0; i < SIM_MARK_COUNT; i++) {
        if (shows_marks)
            printf("%8llu %s\n", (unsigned long long)marks[i], sim_mark_names[i]);
        if (marks[i] == 0 && count >= LONG_RUN) {
            printf("not ok: in %llu histories there was never: %s\n", (unsigned long long)count,
                   sim_mark_names[i]);
            failed++;
        }
    }
    printf("%llu histories, %llu turns\n", (unsigned long long)count, (unsigned long long)turns);
    printf("%llu passed, %llu failed\n", (unsigned long long)count, (unsigned long long)failed);
    return failed > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *range = NULL, *seed = NULL;
    bool is_tracing = false, shows_marks = false;
    long limit_s = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0)
            is_tracing = true;
        else if (strcmp(argv[i], "--marks") == 0)
            shows_marks = true;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            range = argv[++i];
        else if (strcmp(argv[i], "--time") == 0 && i + 1 < argc)
            limit_s = strtol(argv[++i], NULL, 10);
        else if (argv[i][0] != '-' && seed == NULL)
            seed = argv[i];
        else
            return usage();
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    if (range != NULL)
        return run_many(range, limit_s, shows_marks);
    if (seed == NULL)
        return usage();
    uint64_t marks[SIM_MARK_COUNT] = {0}, turns = 0;
    run_one(strtoull(seed, NULL, 10), is_tracing, marks, &turns);
    for (int i = 0; i < SIM_MARK_COUNT; i++) {
        if (marks[i] > 0)
            printf("%8llu %s\n", (unsigned long long)marks[i], sim_mark_names[i]);
    }
    printf("%llu turns\n1 passed, 0 failed\n", (unsigned long long)turns);
    return 0;
}
