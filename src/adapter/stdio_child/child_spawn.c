/* SPDX-License-Identifier: MIT */
/*
 * posix_spawn and not fork: the keeper has threads, and the kernel's vfork keeps it cheap however
 * big we are. Pipes and not socket pairs: some programs open /dev/stdin.
 */
#include "adapter/stdio_child/child_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/stdio_child/reaper_wire.h"
#include "base/alloc.h"

extern char **environ;

enum {
    PIPE_COUNT = 5, /* numbered as the reaper sees them */
    ABOVE_FD = 10   /* no source of the renumbering below may be one of its targets */
};

struct pipes {
    int theirs[PIPE_COUNT];
    int ours[PIPE_COUNT];
};

void hx_fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void hx_spawned_close(struct hx_spawned *spawned)
{
    hx_fd_close(&spawned->reaper_fd);
    hx_fd_close(&spawned->input_fd);
    hx_fd_close(&spawned->output_fd);
    hx_fd_close(&spawned->error_fd);
    hx_fd_close(&spawned->control_fd);
    hx_fd_close(&spawned->report_fd);
}

static void pipes_close(struct pipes *pipes)
{
    for (int i = 0; i < PIPE_COUNT; i++) {
        hx_fd_close(&pipes->theirs[i]);
        hx_fd_close(&pipes->ours[i]);
    }
}

/* Our end does not block; theirs does, as every program expects of its standard streams. */
static int pipe_open(bool is_read_by_them, int *ret_theirs, int *ret_ours)
{
    int ends[2];
    int *theirs = is_read_by_them ? &ends[0] : &ends[1];
    int *ours = is_read_by_them ? &ends[1] : &ends[0];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    *ret_ours = *ours;
    *ret_theirs = fcntl(*theirs, F_DUPFD_CLOEXEC, ABOVE_FD);
    hx_fd_close(theirs);
    if (*ret_theirs < 0)
        return errno;
    return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

static int pipes_open(struct pipes *pipes)
{
    static const bool is_read_by_them[PIPE_COUNT] = {
        [STDIN_FILENO] = true, [HX_REAPER_CONTROL_FD] = true};
    int rc = 0;

    for (int i = 0; i < PIPE_COUNT; i++)
        pipes->theirs[i] = pipes->ours[i] = -1;
    for (int i = 0; i < PIPE_COUNT && rc == 0; i++)
        rc = pipe_open(is_read_by_them[i], &pipes->theirs[i], &pipes->ours[i]);
    return rc;
}

static bool is_same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strncmp(a, b, len) == 0 && b[len] == '=';
}

static bool is_replaced(const char *ours, const char *const *more)
{
    for (; *more != NULL; more++) {
        if (is_same_name(*more, ours))
            return true;
    }
    return false;
}

/* Our environment with `more` on top; the caller frees the array. */
static const char **merge_environment(const char *const *more)
{
    static const char *const none[] = {NULL};
    size_t count = 1;
    size_t len = 0;
    const char **merged;

    if (more == NULL)
        more = none;
    for (char **at = environ; *at != NULL; at++)
        count++;
    for (const char *const *at = more; *at != NULL; at++)
        count++;
    merged = hx_new_bytes(count * sizeof *merged);
    for (char **at = environ; *at != NULL; at++) {
        if (!is_replaced(*at, more))
            merged[len++] = *at;
    }
    while (*more != NULL)
        merged[len++] = *more++;
    return merged;
}

/* posix_spawn() takes no const for reasons of history; it does not write. */
static char *const *unconst(const char **strings)
{
    return (char *const *)(uintptr_t)strings;
}

/* The reaper begins with a clean signal state and with exactly five descriptors. */
static int spawn_reaper(const struct hx_stdio_child_options *options, const char **argv,
                        const struct pipes *pipes, pid_t *ret_pid)
{
    const char **environment;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    int rc;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    if ((rc = posix_spawn_file_actions_init(&actions)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attributes)) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    for (int i = 0; i < PIPE_COUNT && rc == 0; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, pipes->theirs[i], i);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, HX_REAPER_FIRST_FREE_FD);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attributes, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (rc == 0 && options->cwd != NULL)
        rc = posix_spawn_file_actions_addchdir_np(&actions, options->cwd);
    environment = merge_environment(options->env);
    if (rc == 0)
        rc = posix_spawn(ret_pid, options->reaper_path, &actions, &attributes, unconst(argv),
                         unconst(environment));
    hx_free(environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* "hapax reaper LOCK KILL_GRACE_MS PRIVILEGES -- CMD ARG..."; the caller frees the array. */
static const char **reaper_argv(const struct hx_stdio_child_options *options, const char *lock_path,
                                const char *grace)
{
    enum { OURS = 6 };
    size_t count = 0;
    const char **argv;

    while (options->argv[count] != NULL)
        count++;
    argv = hx_new_bytes((OURS + count + 1) * sizeof *argv);
    argv[0] = "hapax";
    argv[1] = "reaper";
    argv[2] = lock_path != NULL ? lock_path : "-";
    argv[3] = grace;
    argv[4] = options->allow_new_privs ? "keep" : "drop";
    argv[5] = "--";
    for (size_t i = 0; i < count; i++)
        argv[OURS + i] = options->argv[i];
    return argv;
}

int hx_spawn(const struct hx_stdio_child_options *options, const char *lock_path,
             struct hx_spawned *ret_spawned)
{
    struct pipes pipes;
    char grace[24];
    const char **argv;
    pid_t reaper;
    int reaper_fd;
    int rc = pipes_open(&pipes);

    if (rc != 0) {
        pipes_close(&pipes);
        return rc;
    }
    (void)snprintf(grace, sizeof grace, "%lld", (long long)options->kill_grace_ms);
    argv = reaper_argv(options, lock_path, grace);
    rc = spawn_reaper(options, argv, &pipes, &reaper);
    hx_free(argv);
    if (rc == 0 && (reaper_fd = pidfd_open(reaper, 0)) < 0) {
        rc = errno;
        /* It has started nothing that outlives the end of its control pipe. */
        pipes_close(&pipes);
        (void)waitpid(reaper, NULL, 0);
    }
    if (rc != 0) {
        pipes_close(&pipes);
        return rc;
    }
    for (int i = 0; i < PIPE_COUNT; i++)
        hx_fd_close(&pipes.theirs[i]);
    *ret_spawned = (struct hx_spawned){.reaper = reaper,
                                       .reaper_fd = reaper_fd,
                                       .input_fd = pipes.ours[STDIN_FILENO],
                                       .output_fd = pipes.ours[STDOUT_FILENO],
                                       .error_fd = pipes.ours[STDERR_FILENO],
                                       .control_fd = pipes.ours[HX_REAPER_CONTROL_FD],
                                       .report_fd = pipes.ours[HX_REAPER_REPORT_FD]};
    return 0;
}
