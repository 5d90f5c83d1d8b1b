/* SPDX-License-Identifier: MIT */
/*
 * What a call costs through `hapax run`, beside the same call to the bare server: `./dev bench
 * stdio`. The tool is `echo`, which does nothing, so that what is measured is the way there and
 * back: bare, passed through (declared read-only), guarded (a new operation each), replayed (the
 * same key again). N callers keep one call each under way; with two processes on the ledger they
 * are shared between them.
 *
 * One client, one poll loop. Numbers depend on the machine and on what else runs there: believe the
 * ratios, and the processor time and switches that the processes of Hapax themselves took per call.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "metric.h"

enum {
    STARTS = 11,
    SYNCS = 200,
    CALLERS_MAX = 64,
    PEERS_MAX = 2,
    SAMPLES_MAX = 1 << 20,
    LINE_MAX_BYTES = 1 << 16,
    FIRST_ID = 128
};
_Static_assert(FIRST_ID % CALLERS_MAX == 0, "the caller can be read from the id");

struct peer {
    pid_t pid;
    int in, out;
    size_t held;
    char bytes[LINE_MAX_BYTES];
};

static double samples[SAMPLES_MAX];
static const char *scratch;
static unsigned call_count, id_count;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void peer_start(struct peer *peer, const char *const argv[])
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        die("pipe2");
    *peer = (struct peer){.pid = fork(), .in = in[1], .out = out[0]};
    if (peer->pid < 0)
        die("fork");
    if (peer->pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
            _exit(126);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
}

static void peer_stop(struct peer *peer)
{
    char rest[4096];
    close(peer->in);
    while (read(peer->out, rest, sizeof(rest)) > 0)
        continue;
    close(peer->out);
    waitpid(peer->pid, NULL, 0);
}

static void peer_write(struct peer *peer, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t count = write(peer->in, text, len);
        if (count < 0)
            die("write to the server");
        text += count;
        len -= (size_t)count;
    }
}

/* The id of the next answer; -1 when no whole line is here. `ret_is_error` looks for trouble. */
static long peer_take(struct peer *peer, bool *ret_is_error)
{
    char *end = memchr(peer->bytes, '\n', peer->held);
    if (end == NULL)
        return -1;
    *end = '\0';
    const char *id = strstr(peer->bytes, "\"id\":");
    long value = id != NULL ? strtol(id + 5, NULL, 10) : 0;
    *ret_is_error = strstr(peer->bytes, "\"isError\":true") != NULL ||
                    strstr(peer->bytes, "\"error\":{") != NULL;
    size_t len = (size_t)(end - peer->bytes) + 1;
    memmove(peer->bytes, end + 1, peer->held - len);
    peer->held -= len;
    return value;
}

static void peer_read(struct peer *peer)
{
    ssize_t count = read(peer->out, peer->bytes + peer->held, sizeof(peer->bytes) - peer->held);
    if (count <= 0) {
        fprintf(stderr, "bench_stdio: the server ended\n");
        exit(1);
    }
    peer->held += (size_t)count;
}

/* Seconds from the start to the answer of `initialize`. */
static double peer_open(struct peer *peer, const char *const argv[])
{
    static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}"
        "\n";
    static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n";
    bool is_error = false;
    double started = now_s();
    peer_start(peer, argv);
    peer_write(peer, hello, sizeof(hello) - 1);
    while (peer_take(peer, &is_error) != 1)
        peer_read(peer);
    double elapsed = now_s() - started;
    peer_write(peer, ready, sizeof(ready) - 1);
    while (peer_take(peer, &is_error) != 2)
        peer_read(peer);
    return elapsed;
}

enum kind { BARE, PASSED, GUARDED, REPLAYED };
static const char *const kind_names[] = {"bare", "passed through", "guarded", "replayed"};

static void send_call(struct peer *peer, unsigned caller, enum kind kind)
{
    char line[512], key[96] = "";
    if (kind == REPLAYED)
        snprintf(key, sizeof(key), ",\"_meta\":{\"dev.hapax/idempotencyKey\":\"the-same-key\"}");
    /* Different arguments, so that no call is taken for the repeat of another. */
    unsigned number = kind == REPLAYED ? 0 : ++call_count;
    long id = FIRST_ID + (long)++id_count * CALLERS_MAX + caller; /* a session knows no id twice */
    int len = snprintf(line, sizeof(line),
                       "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"echo\",\"arguments\":{\"n\":\"%d-%u\"}%s}}\n",
                       id, (int)(kind == REPLAYED ? 0 : getpid()), number, key);
    peer_write(peer, line, (size_t)len);
}

/* What the processes of Hapax that have our ledger in their command line have used so far. */
struct usage {
    double cpu_us;
    double switches;
    long resident_kb;
};

static bool read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    for (ssize_t i = 0; i < len; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    return len > 0;
}

static double number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

static void add_threads(const char *pid, struct usage *usage)
{
    char path[600], text[4096];
    snprintf(path, sizeof(path), "/proc/%s/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", pid, task->d_name);
        if (task->d_name[0] == '.' || !read_file(path, text, sizeof(text)))
            continue;
        usage->cpu_us += strtod(text, NULL) / 1e3;
        snprintf(path, sizeof(path), "/proc/%s/task/%s/status", pid, task->d_name);
        if (read_file(path, text, sizeof(text)))
            usage->switches += number_after(text, "\nvoluntary_ctxt_switches:");
    }
    closedir(tasks);
}

static struct usage usage_now(void)
{
    struct usage usage = {0};
    char path[300], text[4096];
    DIR *processes = opendir("/proc");
    if (processes == NULL)
        die("/proc");
    for (struct dirent *process; (process = readdir(processes)) != NULL;) {
        if (strspn(process->d_name, "0123456789") == 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%s/cmdline", process->d_name);
        if (!read_file(path, text, sizeof(text)) || strstr(text, scratch) == NULL)
            continue;
        snprintf(path, sizeof(path), "/proc/%s/status", process->d_name);
        if (!read_file(path, text, sizeof(text)) || strncmp(text, "Name:\thapax\n", 12) != 0)
            continue;
        usage.resident_kb += (long)number_after(text, "\nVmRSS:");
        add_threads(process->d_name, &usage);
    }
    closedir(processes);
    return usage;
}

struct result {
    double per_s, p50_us, p99_us;
    double cpu_us, switches; /* of Hapax, per call */
    unsigned errors;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void take_answers(struct peer *peer, double *began, size_t *count, unsigned *errors,
                         bool is_over, enum kind kind, unsigned *under_way)
{
    bool is_error = false;
    for (long id = peer_take(peer, &is_error); id >= 0; id = peer_take(peer, &is_error)) {
        if (id < FIRST_ID)
            continue;
        unsigned caller = (unsigned)(id % CALLERS_MAX);
        double now = now_s();
        if (*count < SAMPLES_MAX)
            samples[(*count)++] = now - began[caller];
        *errors += is_error;
        (*under_way)--;
        if (is_over)
            continue;
        began[caller] = now;
        send_call(peer, caller, kind);
        (*under_way)++;
    }
}

static struct result measure(struct peer *peers, unsigned peer_count, unsigned callers,
                             enum kind kind, double seconds)
{
    double began[CALLERS_MAX];
    size_t count = 0;
    unsigned errors = 0, under_way = 0;
    struct usage before = usage_now();
    double started = now_s();
    for (unsigned caller = 0; caller < callers; caller++) {
        began[caller] = now_s();
        send_call(&peers[caller % peer_count], caller, kind);
        under_way++;
    }
    double ended = started;
    while (under_way > 0) {
        struct pollfd fds[PEERS_MAX];
        for (unsigned i = 0; i < peer_count; i++)
            fds[i] = (struct pollfd){.fd = peers[i].out, .events = POLLIN};
        if (poll(fds, peer_count, 30000) <= 0)
            die("no answer in 30 s");
        ended = now_s();
        bool is_over = ended - started >= seconds;
        for (unsigned i = 0; i < peer_count; i++) {
            if (fds[i].revents == 0)
                continue;
            peer_read(&peers[i]);
            take_answers(&peers[i], began, &count, &errors, is_over, kind, &under_way);
        }
    }
    struct usage after = usage_now();
    qsort(samples, count, sizeof(samples[0]), by_value);
    return (struct result){
        .per_s = (double)count / (ended - started),
        .p50_us = samples[count / 2] * 1e6,
        .p99_us = samples[count * 99 / 100] * 1e6,
        .cpu_us = (after.cpu_us - before.cpu_us) / (double)count,
        .switches = (after.switches - before.switches) / (double)count,
        .errors = errors,
    };
}

static void print_row(enum kind kind, unsigned processes, unsigned callers, struct result result,
                      double bare_per_s)
{
    printf("%-15s %9u %8u %10.0f %9.0f %9.0f %8.2f %9.1f %9.2f", kind_names[kind], processes,
           callers, result.per_s, result.p50_us, result.p99_us, bare_per_s / result.per_s,
           result.cpu_us, result.switches);
    if (result.errors > 0)
        printf("  %u errors", result.errors);
    printf("\n");
    fflush(stdout);
}

/* Starts both in turn, so that what else runs here disturbs them alike. */
static void measure_starts(const char *const bare_argv[], const char *const hapax_argv[])
{
    double bare[STARTS], through[STARTS], own[STARTS], cpu[STARTS];
    struct peer peer;
    for (int i = 0; i < STARTS; i++) {
        bare[i] = peer_open(&peer, bare_argv) * 1e3;
        peer_stop(&peer);
        through[i] = peer_open(&peer, hapax_argv) * 1e3;
        cpu[i] = usage_now().cpu_us / 1e3;
        peer_stop(&peer);
        own[i] = through[i] - bare[i];
    }
    qsort(bare, STARTS, sizeof(bare[0]), by_value);
    qsort(through, STARTS, sizeof(through[0]), by_value);
    qsort(own, STARTS, sizeof(own[0]), by_value);
    qsort(cpu, STARTS, sizeof(cpu[0]), by_value);
    printf("\nfirst initialize answer, %d starts in turn: bare %.1f ms, through hapax %.1f ms; "
           "hapax's "
           "own part %.1f ms at least, %.1f ms in the middle, %.1f ms of processor time\n",
           STARTS, bare[STARTS / 2], through[STARTS / 2], own[0], own[STARTS / 2], cpu[STARTS / 2]);
    metric("start_cpu_ms", cpu[STARTS / 2]);
    metric("start_least_ms", own[0]);
    metric("start_median_ms", own[STARTS / 2]);
}

/* What a durable commit costs here: 4 KiB more in a file that has its room, synced. */
static double sync_p50_us(void)
{
    static double times[SYNCS];
    char path[4096], bytes[4096] = {1};
    snprintf(path, sizeof(path), "%s/floor", scratch);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    for (int i = 0; i < SYNCS; i++) {
        if (pwrite(fd, bytes, sizeof(bytes), (off_t)i * (off_t)sizeof(bytes)) < 0)
            die(path);
    }
    (void)fsync(fd);
    for (int i = 0; i < SYNCS; i++) {
        double began = now_s();
        if (pwrite(fd, bytes, sizeof(bytes), (off_t)i * (off_t)sizeof(bytes)) < 0 ||
            fdatasync(fd) < 0)
            die(path);
        times[i] = now_s() - began;
    }
    close(fd);
    unlink(path);
    qsort(times, SYNCS, sizeof(times[0]), by_value);
    return times[SYNCS / 2] * 1e6;
}

static void note_guarded(unsigned processes, unsigned callers, struct result result, double sync_us)
{
    if (callers == 1) {
        metric("guarded_1_us", result.p50_us);
        metric("guarded_1_own_us", result.p50_us - 2 * sync_us);
    }
    if (callers == CALLERS_MAX && processes == 1) {
        metric("guarded_64_per_s", result.per_s);
        metric("guarded_64_cpu_us", result.cpu_us);
    }
    if (callers == CALLERS_MAX && processes == 2)
        metric("guarded_64_two_per_s", result.per_s);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_stdio HAPAX SERVER SCRATCH_DIRECTORY [SECONDS]\n");
        return 2;
    }
    scratch = argv[3];
    double seconds = argc > 4 ? strtod(argv[4], NULL) : 2;
    char ledger[4096], effects[4096];
    snprintf(ledger, sizeof(ledger), "%s/ledger", scratch);
    snprintf(effects, sizeof(effects), "%s/effects", scratch);
    const char *bare_argv[] = {argv[2], "--ledger", effects, NULL};
    const char *passed_argv[] = {argv[1],    "run",     "--ledger",  ledger, "--name",
                                 "bench",    "--class", "read_only", "--",   argv[2],
                                 "--ledger", effects,   NULL};
    const char *guarded_argv[] = {argv[1], "run",   "--ledger", ledger,  "--name", "bench",
                                  "--",    argv[2], "--ledger", effects, NULL};
    static struct peer peers[PEERS_MAX];
    static const unsigned caller_counts[] = {1, 16, 64};
    double bare_per_s[3];
    signal(SIGPIPE, SIG_IGN);

    printf("%-15s %9s %8s %10s %9s %9s %8s %9s %9s\n", "calls", "processes", "callers", "calls/s",
           "p50 us", "p99 us", "x bare", "cpu us", "switches");
    peer_open(&peers[0], bare_argv);
    for (int i = 0; i < 3; i++) {
        struct result result = measure(peers, 1, caller_counts[i], BARE, seconds);
        bare_per_s[i] = result.per_s;
        print_row(BARE, 1, caller_counts[i], result, result.per_s);
    }
    peer_stop(&peers[0]);
    peer_open(&peers[0], passed_argv);
    for (int i = 0; i < 3; i++)
        print_row(PASSED, 1, caller_counts[i], measure(peers, 1, caller_counts[i], PASSED, seconds),
                  bare_per_s[i]);
    peer_stop(&peers[0]);
    peer_open(&peers[0], guarded_argv);
    long idle_kb = usage_now().resident_kb;
    double sync_us = sync_p50_us();
    metric("sync_p50_us", sync_us);
    metric("idle_kb", (double)idle_kb);
    for (unsigned processes = 1; processes <= PEERS_MAX; processes++) {
        if (processes == 2)
            peer_open(&peers[1], guarded_argv);
        for (int i = 0; i < 3; i++) {
            if (caller_counts[i] < processes)
                continue;
            struct result result = measure(peers, processes, caller_counts[i], GUARDED, seconds);
            print_row(GUARDED, processes, caller_counts[i], result, bare_per_s[i]);
            note_guarded(processes, caller_counts[i], result, sync_us);
        }
    }
    for (int i = 0; i < 3; i++) {
        struct result result = measure(peers, 1, caller_counts[i], REPLAYED, seconds);
        print_row(REPLAYED, 1, caller_counts[i], result, bare_per_s[i]);
        if (caller_counts[i] == CALLERS_MAX) {
            metric("replay_64_per_s", result.per_s);
            metric("replay_64_cpu_us", result.cpu_us);
        }
    }
    printf("resident, idle (front, keeper and reaper together): %ld KB; after the load: %ld KB\n",
           idle_kb, usage_now().resident_kb / PEERS_MAX);
    for (unsigned i = 0; i < PEERS_MAX; i++)
        peer_stop(&peers[i]);
    measure_starts(bare_argv, guarded_argv);
    return 0;
}
