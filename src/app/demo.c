/* SPDX-License-Identifier: MIT */
/*
 * `hapax demo`: plays every scene bare and through Hapax, all at once, and shows what happened.
 *
 * Each run is a process of its own that adopts what it starts, so runs cannot disturb each other
 * and nothing outlives them; this process adopts what a killed run leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/demo_scene.h"
#include "app/mcp_client.h"
#include "app/nearest.h"
#include "app/offspring.h"
#include "app/scratch.h"
#include "app/table.h"
#include "json/text.h"

#define RUNS_MAX 32
#define DEMO_MS 60000 /* every step has its own bound; this one is for our own mistakes */

struct demo {
    bool is_json;
    bool is_bare_only;
    const char *only;
    const char *server;
    char directory[HX_SCRATCH_SIZE];
    struct hx_demo_paths paths;
    struct hx_demo_run runs[RUNS_MAX]; /* scene by scene: bare, then guarded */
    int run_fds[RUNS_MAX];             /* -1 = over, or never begun */
    bool is_played[RUNS_MAX];
    bool is_interrupted;
    int64_t elapsed_ms;
};

static void print_help(FILE *out)
{
    fputs("Usage: hapax demo [--json] [--only SCENE] [--bare] [--server PROGRAM]\n"
          "\n"
          "Shows with real processes, really killed, what a lost answer does to a tool that\n"
          "charges money: without Hapax, and with 'hapax run' in front of the same server. The\n"
          "number of charges is counted in the file that the server writes. Takes some seconds,\n"
          "uses a temporary ledger and leaves nothing behind.\n"
          "\n"
          "  --json            one JSON object instead of the table\n"
          "  --only SCENE      one scene:",
          out);
    for (size_t i = 0; i < hx_demo_scene_count(); i++)
        fprintf(out, "%s %s", i % 4 == 0 ? "\n                   " : "", hx_demo_scene(i)->name);
    fputs(
        "\n"
        "  --bare            only the half without Hapax\n"
        "  --server PROGRAM  the server to call, instead of the hapax-example-server beside this\n"
        "                    program; it must take the same options\n"
        "\n"
        "Exit status: 0 every promise was kept; 1 one was broken, or a failure could not be\n"
        "staged; 2 the command line is wrong.\n",
        out);
}

/* --- preparing ----------------------------------------------------------- */

static int parse_words(struct demo *demo, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            demo->is_json = true;
        } else if (strcmp(argv[i], "--bare") == 0) {
            demo->is_bare_only = true;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            demo->only = argv[++i];
        } else if (strcmp(argv[i], "--server") == 0 && i + 1 < argc) {
            demo->server = argv[++i];
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(stdout);
            return HX_EXIT_DONE;
        } else {
            static const char *const names[] = {"--json", "--bare", "--only", "--server", "--help"};
            const char *near = hx_nearest(hx_span_cstr(argv[i]), names, 5);
            fprintf(stderr, "hapax demo: '%s' cannot stand here%s%s%s. See hapax demo --help.\n",
                    argv[i], near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
            return HX_EXIT_USAGE;
        }
    }
    const char *names[RUNS_MAX];
    for (size_t i = 0; i < hx_demo_scene_count(); i++) {
        names[i] = hx_demo_scene(i)->name;
        if (demo->only && strcmp(demo->only, names[i]) == 0)
            return -1;
    }
    if (!demo->only)
        return -1;
    const char *near = hx_nearest(hx_span_cstr(demo->only), names, hx_demo_scene_count());
    fprintf(stderr, "hapax demo: there is no scene '%s'%s%s%s. See hapax demo --help.\n",
            demo->only, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return HX_EXIT_USAGE;
}

/* A path without symbolic links, as /proc shows it, of a file that can be run. */
static bool resolve_program(const char *path, char *ret_path, size_t size)
{
    char resolved[PATH_MAX];
    if (!realpath(path, resolved) || access(resolved, X_OK) != 0 || strlen(resolved) >= size)
        return false;
    memcpy(ret_path, resolved, strlen(resolved) + 1);
    return true;
}

static bool find_programs(struct demo *demo)
{
    static const char *const places[] = {"hapax-example-server",
                                         "../libexec/hapax/hapax-example-server",
                                         "../../examples/hapax-example-server"};
    struct hx_demo_paths *paths = &demo->paths;
    if (!resolve_program("/proc/self/exe", paths->hapax, sizeof(paths->hapax))) {
        fputs("hapax demo: cannot find this program's own file.\n", stderr);
        return false;
    }
    if (demo->server) {
        if (resolve_program(demo->server, paths->server, sizeof(paths->server)))
            return true;
        fprintf(stderr, "hapax demo: cannot run '%s': %s.\n", demo->server, strerror(errno));
        return false;
    }
    const char *slash = strrchr(paths->hapax, '/');
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - paths->hapax), paths->hapax,
                 places[i]);
        if (resolve_program(path, paths->server, sizeof(paths->server)))
            return true;
    }
    fputs("hapax demo: there is no hapax-example-server beside this program or in its build\n"
          "directory. Build it (ninja), or name it: hapax demo --server PROGRAM\n",
          stderr);
    return false;
}

/* --- playing ------------------------------------------------------------- */

static void begin_run(struct demo *demo, size_t index)
{
    struct hx_demo_run *run = &demo->runs[index];
    int fds[2];
    *run = (struct hx_demo_run){.scene = index / 2, .is_guarded = index % 2 == 1};
    const struct hx_demo_scene *scene = hx_demo_scene(run->scene);
    bool is_wanted = (!demo->only || strcmp(demo->only, scene->name) == 0) &&
                     (run->is_guarded ? !demo->is_bare_only : scene->effects_bare >= 0);
    if (!is_wanted)
        return;
    demo->is_played[index] = true;
    snprintf(run->problem, sizeof(run->problem), "the run could not be started");
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        /* Killed with us; the pipes of what it started then close, and that ends them. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGINT, SIG_IGN); /* the parent ends us, after us our processes */
        run->problem[0] = '\0';
        snprintf(demo->paths.directory, sizeof(demo->paths.directory), "%s/%s-%s", demo->directory,
                 scene->name, run->is_guarded ? "hapax" : "bare");
        hx_demo_scene_play(run, &demo->paths);
        ssize_t written = write(fds[1], run, sizeof(*run)); /* less than a pipe holds: one piece */
        _exit(written == (ssize_t)sizeof(*run) ? 0 : 1);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return;
    }
    demo->run_fds[index] = fds[0];
}

static bool is_kept(const struct demo *demo, size_t index)
{
    const struct hx_demo_run *run = &demo->runs[index];
    const struct hx_demo_scene *scene = hx_demo_scene(run->scene);
    if (!demo->is_played[index])
        return true;
    if (run->problem[0] != '\0' || run->left_behind > 0)
        return false;
    if (!run->is_guarded) /* bare, the failure must do its harm, or it was not staged */
        return run->effects == scene->effects_bare;
    return run->effects == scene->effects_guarded && run->told == scene->told_guarded;
}

static void print_progress(const struct demo *demo, size_t index)
{
    const struct hx_demo_run *run = &demo->runs[index];
    if (demo->is_json)
        return;
    printf("  %-26s %-6s %2d charge%s  %s%s\n", hx_demo_scene(run->scene)->title,
           run->is_guarded ? "hapax" : "bare", run->effects, run->effects == 1 ? " " : "s",
           run->problem[0] ? run->problem : hx_demo_told_text(run->told),
           run->left_behind > 0 ? " (left processes behind)" : "");
    fflush(stdout);
}

static void take_run(struct demo *demo, size_t index)
{
    struct hx_demo_run run;
    if (read(demo->run_fds[index], &run, sizeof(run)) == (ssize_t)sizeof(run))
        demo->runs[index] = run;
    else
        snprintf(demo->runs[index].problem, sizeof(demo->runs[index].problem),
                 "the run ended early");
    close(demo->run_fds[index]);
    demo->run_fds[index] = -1;
    print_progress(demo, index);
}

static void play_all(struct demo *demo, int signal_fd)
{
    size_t count = 2 * hx_demo_scene_count();
    struct hx_mono start = hx_mcp_now();
    for (size_t i = 0; i < count; i++)
        begin_run(demo, i);
    for (;;) {
        struct pollfd fds[RUNS_MAX + 1];
        size_t open_count = 0;
        for (size_t i = 0; i < count; i++) {
            fds[i] = (struct pollfd){demo->run_fds[i], POLLIN, 0};
            open_count += demo->run_fds[i] >= 0;
        }
        fds[count] = (struct pollfd){signal_fd, POLLIN, 0};
        demo->elapsed_ms = hx_mono_since_ms(hx_mcp_now(), start);
        if (open_count == 0)
            return;
        if (demo->elapsed_ms > DEMO_MS || (poll(fds, count + 1, 1000) > 0 && fds[count].revents)) {
            demo->is_interrupted = true;
            return;
        }
        for (size_t i = 0; i < count; i++)
            if (demo->run_fds[i] >= 0 && fds[i].revents != 0)
                take_run(demo, i);
    }
}

/* --- showing ------------------------------------------------------------- */

static void add_effects(struct hx_table *table, const struct demo *demo, size_t index)
{
    if (!demo->is_played[index])
        hx_table_add(table, HX_SPAN_LIT("-"), HX_CELL_FAINT);
    else
        hx_table_addf(table, HX_CELL_PLAIN, "%d", demo->runs[index].effects);
}

static void print_table(const struct demo *demo, size_t kept, size_t total)
{
    static const char *const titles[] = {
        "what happens", ">calls", ">bare", ">Hapax", "what the caller was told", "promise"};
    struct hx_table *table = hx_table_new(titles, sizeof(titles) / sizeof(titles[0]));
    for (size_t scene = 0; scene < hx_demo_scene_count(); scene++) {
        size_t bare = 2 * scene;
        size_t guarded = bare + 1;
        size_t shown = demo->is_played[guarded] ? guarded : bare;
        if (!demo->is_played[shown])
            continue;
        const char *problem =
            demo->runs[guarded].problem[0] ? demo->runs[guarded].problem : demo->runs[bare].problem;
        bool is_good = is_kept(demo, bare) && is_kept(demo, guarded);
        hx_table_add(table, hx_span_cstr(hx_demo_scene(scene)->title), HX_CELL_PLAIN);
        hx_table_addf(table, HX_CELL_PLAIN, "%d", demo->runs[shown].calls);
        add_effects(table, demo, bare);
        add_effects(table, demo, guarded);
        hx_table_add(table,
                     hx_span_cstr(problem[0] ? problem : hx_demo_told_text(demo->runs[shown].told)),
                     HX_CELL_PLAIN);
        hx_table_add(table,
                     hx_span_cstr(!is_good             ? "BROKEN"
                                  : demo->is_bare_only ? "-"
                                                       : "kept"),
                     is_good ? HX_CELL_GOOD : HX_CELL_BAD);
    }
    puts("\nCharges, counted in the server's own file:\n");
    hx_table_print(table, stdout, hx_table_options_for(stdout));
    if (demo->is_bare_only)
        puts("\nWithout Hapax nothing was promised, and a retry charges again.");
    printf("\n%zu of %zu %s, in %lld.%lld s.\n", kept, total,
           demo->is_bare_only ? "staged" : "kept", (long long)demo->elapsed_ms / 1000,
           (long long)demo->elapsed_ms % 1000 / 100);
    hx_table_free(table);
}

static void print_json_run(const char *name, const struct hx_demo_run *run)
{
    struct hx_buf problem;
    hx_buf_init(&problem, 4096);
    hx_json_text_quote(&problem, hx_span_cstr(run->problem));
    printf(",\"%s\":{\"effects\":%d,\"told\":\"%s\",\"left_behind\":%u,\"elapsed_ms\":%lld,"
           "\"problem\":%.*s}",
           name, run->effects, hx_demo_told_text(run->told), run->left_behind,
           (long long)run->elapsed_ms, HX_SPAN_FMT(hx_buf_span(&problem)));
    hx_buf_fini(&problem);
}

static void print_json(const struct demo *demo, size_t kept, size_t total)
{
    bool needs_comma = false;
    printf("{\"scenes\":[");
    for (size_t scene = 0; scene < hx_demo_scene_count(); scene++) {
        size_t bare = 2 * scene;
        size_t guarded = bare + 1;
        if (!demo->is_played[bare] && !demo->is_played[guarded])
            continue;
        printf("%s{\"name\":\"%s\",\"calls\":%d,\"expected_effects\":%d", needs_comma ? "," : "",
               hx_demo_scene(scene)->name,
               demo->runs[demo->is_played[guarded] ? guarded : bare].calls,
               hx_demo_scene(scene)->effects_guarded);
        if (demo->is_played[bare])
            print_json_run("bare", &demo->runs[bare]);
        if (demo->is_played[guarded])
            print_json_run("hapax", &demo->runs[guarded]);
        printf(",\"kept\":%s}", is_kept(demo, bare) && is_kept(demo, guarded) ? "true" : "false");
        needs_comma = true;
    }
    printf("],\"kept\":%zu,\"total\":%zu,\"elapsed_ms\":%lld}\n", kept, total,
           (long long)demo->elapsed_ms);
}

static int report(const struct demo *demo)
{
    size_t kept = 0;
    size_t total = 0;
    if (demo->is_interrupted) {
        fputs("hapax demo: stopped before the end; everything it started is gone.\n", stderr);
        return HX_EXIT_FAILED;
    }
    for (size_t scene = 0; scene < hx_demo_scene_count(); scene++) {
        if (!demo->is_played[2 * scene] && !demo->is_played[2 * scene + 1])
            continue;
        total++;
        kept += is_kept(demo, 2 * scene) && is_kept(demo, 2 * scene + 1);
    }
    if (demo->is_json)
        print_json(demo, kept, total);
    else
        print_table(demo, kept, total);
    return kept == total ? HX_EXIT_DONE : HX_EXIT_FAILED;
}

int hx_cmd_demo(int argc, char **argv)
{
    struct demo *demo = &(struct demo){0};
    sigset_t stops;
    int status = parse_words(demo, argc, argv);
    if (status >= 0)
        return status;
    for (size_t i = 0; i < RUNS_MAX; i++)
        demo->run_fds[i] = -1;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &stops, NULL) != 0)
        return HX_EXIT_FAILED;
    int signal_fd = signalfd(-1, &stops, SFD_CLOEXEC);
    if (signal_fd < 0 || !hx_offspring_adopt() || !find_programs(demo) ||
        !hx_scratch_make("demo", demo->directory))
        return HX_EXIT_FAILED;
    if (!demo->is_json)
        puts("Staging every failure at the moment between the charge and its answer.\n");
    fflush(stdout); /* the runs are forks and must not print it again */
    play_all(demo, signal_fd);
    /* Runs that are over have left nothing; what an interrupted one started comes to us. */
    (void)hx_offspring_end(hx_mcp_now());
    hx_scratch_remove(demo->directory);
    close(signal_fd);
    return report(demo);
}
