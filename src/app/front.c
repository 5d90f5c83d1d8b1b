/* SPDX-License-Identifier: MIT */
/*
 * Why two processes: clients kill the one they started, with its descendants, when a call takes too
 * long, and then retry. The work must survive that. So the keeper is nobody's descendant (double
 * fork) and in nobody's group (own session); it alone holds the client's pipes, so there is no hop
 * between.
 *
 * How each learns of the other: the front holds the only write end of the life pipe, and the keeper
 * the only write end of the status pipe. No signal and no parent-death rule is involved; the kernel
 * closes pipes whatever kills their holder.
 */
#include "app/front.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/stdio_front/private_fd.h"

struct pipes {
    int life[2];   /* [1] is the front's */
    int status[2]; /* [1] is the keeper's */
};

enum { READ_END = 0, WRITE_END = 1, FIRST_FREE_FD = 3 };

static int own_status_fd = -1; /* the keeper's, until it has said how it ends */

/* Replaces `fd` by /dev/null, so that its number is not given to something else. */
static void fd_to_null(int fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0 || null_fd == fd)
        return;
    (void)dup2(null_fd, fd);
    (void)close(null_fd);
}

void hx_keeper_drop_stderr(void)
{
    fd_to_null(STDERR_FILENO);
}

/* A client may start us without one of the three. */
static void fill_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDWR | O_CLOEXEC); /* gives the lowest free number: fd */
}

void hx_keeper_let_go(int status)
{
    if (own_status_fd < 0)
        return;
    (void)!write(own_status_fd, &status, sizeof status);
    (void)close(own_status_fd);
    own_status_fd = -1;
}

static int open_pipes(struct pipes *pipes)
{
    if (pipe2(pipes->life, O_CLOEXEC) != 0)
        return -1;
    return pipe2(pipes->status, O_CLOEXEC);
}

/* --- the keeper --- */

/* What the client's launcher blocked or ignored is not ours to inherit; nohup's HUP is kept. */
static void reset_signals(void)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, no exit status could be waited for */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
}

void hx_own_stderr(void)
{
    int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (copy < 0)
        return;
    int fd = hx_private_fd(copy);

    /* A socket cannot be opened anew. Who else writes to this one loses a line at worst. */
    if (hx_fd_kind(fd) == HX_FD_SOCKET)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

_Noreturn static void be_keeper(struct pipes *pipes,
                                int (*keeper_main)(const struct hx_keeper_fds *fds, void *arg),
                                void *arg)
{
    struct hx_keeper_fds fds = {.life_fd = pipes->life[READ_END]};
    int status = HX_FRONT_KEEPER_LOST;

    reset_signals(); /* PID 1 has handlers by now */
    own_status_fd = pipes->status[WRITE_END];
    (void)close(pipes->life[WRITE_END]);
    (void)close(pipes->status[READ_END]);
    hx_own_stderr();
    fds.in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    fds.out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    fd_to_null(STDIN_FILENO);
    fd_to_null(STDOUT_FILENO);
    if (fds.in_fd >= 0 && fds.out_fd >= 0)
        status = keeper_main(&fds, arg);
    /* The client must have seen the end of its pipes before the process that it waits for is gone.
     * */
    hx_keeper_drop_stderr();
    hx_keeper_let_go(status);
    exit(status);
}

/* Forks twice, so that the keeper's parent is not the front. Returns the first child. */
static pid_t start_keeper(struct pipes *pipes,
                          int (*keeper_main)(const struct hx_keeper_fds *fds, void *arg), void *arg)
{
    pid_t between = fork();

    if (between != 0)
        return between;
    (void)setsid();
    if (fork() == 0)
        be_keeper(pipes, keeper_main, arg);
    _exit(EXIT_SUCCESS); /* whether or not: the front sees it by the status pipe */
}

/* --- the front --- */

static int life_write_fd; /* for the handler of PID 1 only */

/* PID 1 is not killed by a signal without a handler. The keeper is told, and awaited. */
static void end_life(int signal_number)
{
    (void)signal_number;
    (void)close(life_write_fd);
}

static void prepare_init(int life_fd)
{
    struct sigaction action = {.sa_handler = end_life, .sa_flags = (int)SA_RESETHAND};

    life_write_fd = life_fd;
    (void)sigemptyset(&action.sa_mask);
    /* One close is enough: the first signal blocks the others for good. */
    (void)sigaddset(&action.sa_mask, SIGTERM);
    (void)sigaddset(&action.sa_mask, SIGINT);
    (void)sigaddset(&action.sa_mask, SIGHUP);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

static int wait_for_status(int fd)
{
    int status;
    ssize_t len;

    do
        len = read(fd, &status, sizeof status);
    while (len < 0 && errno == EINTR);
    return len == (ssize_t)sizeof status ? status : HX_FRONT_KEEPER_LOST;
}

static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

int hx_front_run(int (*keeper_main)(const struct hx_keeper_fds *fds, void *arg), void *arg)
{
    struct pipes pipes;
    bool is_init = getpid() == 1;
    pid_t between;
    int status;

    (void)fflush(NULL); /* or both processes would write it */
    fill_standard_fds();
    /* Whatever else the client left open in us would stay open as long as the keeper. */
    closefrom(FIRST_FREE_FD);
    reset_signals();
    if (open_pipes(&pipes) != 0)
        return HX_FRONT_KEEPER_LOST;
    if (is_init)
        prepare_init(pipes.life[WRITE_END]);
    between = start_keeper(&pipes, keeper_main, arg);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        fd_to_null(fd);
    (void)close(pipes.life[READ_END]);
    (void)close(pipes.status[WRITE_END]);
    if (between > 0)
        wait_for(between);
    status = wait_for_status(pipes.status[READ_END]);
    /* As PID 1 we are also the parent of all orphans: the keeper, and reapers that it left to end
     * their trees, which they do in bounded time. */
    while (is_init && (waitpid(-1, NULL, 0) > 0 || errno == EINTR)) {
    }
    return status;
}
