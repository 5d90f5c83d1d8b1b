/* SPDX-License-Identifier: MIT */
/*
 * The reaper starts the command in a process group of its own and waits for two things: the
 * command's end, and the keeper's word. The end of the keeper's pipe is such a word, so a killed
 * keeper takes its tree along: TERM, a grace period, KILL.
 *
 * As subreaper it inherits every orphan below it, also those that left the group or the session.
 * Therefore "waitpid knows no child" means that the whole tree is gone, and only then does it
 * report so, give up the transport lock, and exit.
 *
 * It must not be a nuisance itself: signals that a person or a host sends to everything are
 * blocked, because the tree below needs it until the end; it holds none of the command's
 * descriptors.
 */
#include "app/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adapter/stdio_child/process_table.h"
#include "adapter/stdio_child/reaper_wire.h"
#include "adapter/stdio_child/transport.h"
#include "base/assert.h"

enum {
    END_GRACE_MS = 500,      /* for descendants whose leader is gone */
    ORPHAN_GRACE_MS = 2000,  /* at most this when the keeper was killed */
    KEEPER_SILENT_MS = 1000, /* the leader is gone and the keeper says nothing */
    KILL_AGAIN_MS = 50,
    EXIT_USAGE = 64
};

static const int64_t never_ms = INT64_MAX;

struct reaper {
    pid_t leader;
    int signal_fd;
    int control_fd; /* -1 once the keeper is gone */
    int64_t kill_grace_ms;
    int64_t kill_at_ms; /* when KILL is due next */
    int64_t end_at_ms;  /* when END is due without the keeper's word */
    bool is_leader_reaped;
};

static int64_t now_ms(void)
{
    struct timespec at;

    hx_assert(clock_gettime(CLOCK_BOOTTIME, &at) == 0);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

/* False when the keeper cannot be told; when it is dead, nobody reads any more. */
static bool report(enum hx_reaper_report_type type, int value)
{
    struct hx_reaper_report message = {.type = type, .value = value};
    ssize_t len;

    do
        len = write(HX_REAPER_REPORT_FD, &message, sizeof message);
    while (len < 0 && errno == EINTR);
    return len == (ssize_t)sizeof message;
}

/* --- the command --- */

/* In the new process. Ends in the command, or with the errno in the pipe. */
_Noreturn static void become_command(char **argv, bool may_gain_privileges, pid_t reaper,
                                     int error_fd)
{
    sigset_t none;
    int error;

    (void)setpgid(0, 0);
    /* Our own process has one thread, so this is about the reaper's death and nothing else. It
     * covers the moment when keeper and reaper are killed together. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != reaper)
        _exit(EXIT_FAILURE);
    if (!may_gain_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        goto fail;
    /* Every handler is the default since our own exec; what is ignored and blocked is not. */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Exactly 0, 1 and 2. Everything of ours is close-on-exec already; this is for what is not
     * ours. */
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    execvp(argv[0], argv);
fail:
    error = errno;
    (void)!write(error_fd, &error, sizeof error);
    _exit(EXIT_FAILURE);
}

/* 0, or the errno that kept the command from running. */
static int start_command(struct reaper *reaper, char **argv, bool may_gain_privileges)
{
    int error = 0;
    int ends[2];
    pid_t self = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    reaper->leader = fork();
    if (reaper->leader == 0)
        become_command(argv, may_gain_privileges, self, ends[1]);
    if (reaper->leader < 0)
        error = errno;
    (void)close(ends[1]);
    /* The pipe ends without a byte when the command runs. */
    while (error == 0 && read(ends[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    return error;
}

/* The command's end must be the end of its pipes, so we keep none of them. */
static int drop_standard_streams(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0)
        return -1;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)dup2(null_fd, fd);
    (void)close(null_fd);
    return 0;
}

/* --- ending the tree --- */

static void signal_tree(const struct reaper *reaper, int signal_number)
{
    /* The group at once, so that nobody in it can fork away from us; then whoever left it. Once the
     * leader is reaped its number may be somebody else's. */
    if (!reaper->is_leader_reaped)
        (void)kill(-reaper->leader, signal_number);
    hx_process_signal_descendants(signal_number);
}

static void end_tree(struct reaper *reaper, int64_t grace_ms)
{
    int64_t kill_at_ms = now_ms() + grace_ms;

    reaper->end_at_ms = never_ms;
    /* A second word can only make it sooner. */
    if (kill_at_ms >= reaper->kill_at_ms)
        return;
    if (grace_ms > 0)
        signal_tree(reaper, SIGTERM);
    reaper->kill_at_ms = kill_at_ms;
}

/* Reaps whoever died. False when no child is left, hence no descendant either. */
static bool reap(struct reaper *reaper)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) != 0) {
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return false;
        if (pid == reaper->leader) {
            reaper->is_leader_reaped = true;
            (void)report(HX_REAPER_LEADER_EXITED, status); /* our own end tells it as well */
            if (reaper->kill_at_ms == never_ms)
                reaper->end_at_ms = now_ms() + KEEPER_SILENT_MS;
        }
    }
    return true;
}

static void obey(struct reaper *reaper)
{
    char byte;
    ssize_t len = read(reaper->control_fd, &byte, 1);

    if (len < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (len <= 0) {
        reaper->control_fd = -1;
        end_tree(reaper,
                 reaper->kill_grace_ms < ORPHAN_GRACE_MS ? reaper->kill_grace_ms : ORPHAN_GRACE_MS);
        return;
    }
    switch ((enum hx_reaper_command)byte) {
    case HX_REAPER_TERM:
        end_tree(reaper, reaper->kill_grace_ms);
        break;
    case HX_REAPER_END:
        end_tree(reaper, END_GRACE_MS);
        break;
    case HX_REAPER_KILL:
        end_tree(reaper, 0);
        break;
    }
}

static void wait_for_end(struct reaper *reaper)
{
    while (reap(reaper)) {
        struct pollfd fds[2] = {{.fd = reaper->signal_fd, .events = POLLIN},
                                {.fd = reaper->control_fd, .events = POLLIN}};
        struct signalfd_siginfo info;

        /* INV-26: with nobody left to command, the end of the tree has its time. */
        hx_assert(reaper->control_fd >= 0 || reaper->kill_at_ms != never_ms);
        int64_t until_ms =
            reaper->kill_at_ms < reaper->end_at_ms ? reaper->kill_at_ms : reaper->end_at_ms;
        int64_t left_ms = until_ms == never_ms ? -1 : until_ms - now_ms();

        if (until_ms != never_ms && left_ms < 0)
            left_ms = 0;
        if (left_ms > INT32_MAX)
            left_ms = INT32_MAX;
        (void)poll(fds, 2, (int)left_ms);
        while (read(reaper->signal_fd, &info, sizeof info) > 0) {
        }
        if (fds[1].revents != 0)
            obey(reaper);
        if (now_ms() >= reaper->end_at_ms)
            end_tree(reaper, END_GRACE_MS);
        if (now_ms() >= reaper->kill_at_ms) {
            signal_tree(reaper, SIGKILL);
            reaper->kill_at_ms = now_ms() + KILL_AGAIN_MS;
        }
    }
}

/* --- the whole --- */

static int prepare(struct reaper *reaper)
{
    sigset_t blocked;

    (void)setsid(); /* fails only when it is one already */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return errno;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGCHLD);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigaddset(&blocked, SIGINT);
    (void)sigaddset(&blocked, SIGHUP);
    (void)sigaddset(&blocked, SIGQUIT);
    if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0)
        return errno;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGCHLD);
    reaper->signal_fd = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    if (reaper->signal_fd < 0)
        return errno;
    if (fcntl(HX_REAPER_CONTROL_FD, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(HX_REAPER_REPORT_FD, F_SETFD, FD_CLOEXEC) != 0)
        return errno;
    return 0;
}

int hx_cmd_reaper(int argc, char **argv)
{
    enum { LOCK = 1, GRACE, PRIVILEGES, DASHES, COMMAND };
    struct reaper reaper = {.signal_fd = -1,
                            .control_fd = HX_REAPER_CONTROL_FD,
                            .kill_at_ms = never_ms,
                            .end_at_ms = never_ms};
    int lock_fd = -1;
    bool has_lock;
    int error;

    if (argc <= COMMAND || strcmp(argv[DASHES], "--") != 0)
        return EXIT_USAGE;
    reaper.kill_grace_ms = strtoll(argv[GRACE], NULL, 10);
    has_lock = strcmp(argv[LOCK], "-") != 0;
    error = prepare(&reaper);
    if (error == 0 && has_lock && (lock_fd = hx_transport_lock(argv[LOCK])) < 0)
        error = errno;
    if (error == 0)
        error = start_command(&reaper, &argv[COMMAND], strcmp(argv[PRIVILEGES], "keep") == 0);
    if (error == 0 && drop_standard_streams() != 0)
        error = errno;
    /* Written before the keeper hears that it may send. */
    if (error == 0 && has_lock && hx_transport_record(lock_fd, reaper.leader) != 0)
        error = errno;
    /* A command of which nobody knows that it runs would be waited for without end. */
    if (error == 0 && !report(HX_REAPER_STARTED, reaper.leader))
        error = EPIPE;
    if (error != 0)
        (void)report(HX_REAPER_NOT_STARTED, error);
    if (reaper.leader > 0) {
        if (error != 0)
            end_tree(&reaper, 0);
        wait_for_end(&reaper);
    }
    /* The lock goes with us; the name may go first, since nothing is left that could act. */
    if (lock_fd >= 0)
        (void)unlink(argv[LOCK]);
    (void)report(HX_REAPER_ALL_GONE, 0); /* our own end tells it as well */
    return EXIT_SUCCESS;
}
