/* SPDX-License-Identifier: MIT */
#include "app/audit_count.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/mcp_client.h"
#include "base/whole.h"

enum { OUTPUT_SHOWN = 120 };

static _Noreturn void become_command(const char *command, const char *value, int out_fd, int err_fd)
{
    sigset_t none;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (setpgid(0, 0) == 0 && setenv(HX_AUDIT_VALUE_VARIABLE, value, 1) == 0 &&
        dup2(null_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0 &&
        dup2(err_fd, STDERR_FILENO) >= 0)
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* False when it had to be killed. */
static bool wait_for(pid_t pid, int64_t timeout_ms)
{
    struct hx_mono deadline = hx_mono_after(hx_mcp_now(), timeout_ms);
    int status;
    /* Whoever of the two comes first makes the group, or it could be killed before it is one. */
    (void)setpgid(pid, pid);
    bool has_ended = false;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    while (fd >= 0 && !has_ended) {
        int64_t left_ms = hx_mono_since_ms(deadline, hx_mcp_now());
        struct pollfd end = {fd, POLLIN, 0};
        int ready = left_ms > 0 ? poll(&end, 1, (int)left_ms) : 0;
        has_ended = ready > 0;
        if (ready == 0 || (ready < 0 && errno != EINTR))
            break;
    }
    if (fd >= 0)
        (void)close(fd);
    /* What it left in its group would go on counting; the group is ours until we have waited. */
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return has_ended;
}

/* The beginning of what was written, without blanks at its end. */
static void read_output(int fd, char *ret_text, size_t size)
{
    ssize_t len = pread(fd, ret_text, size - 1, 0);
    if (len < 0)
        len = 0;
    while (len > 0 && strchr(" \t\r\n", ret_text[len - 1]) != NULL)
        len--;
    ret_text[len] = '\0';
}

static bool read_number(const char *text, int64_t *ret_number)
{
    return hx_whole_parse(hx_span_cstr(text + strspn(text, " \t\r\n")), ret_number);
}

bool hx_audit_count(const char *command, const char *value, int64_t timeout_ms, int64_t *ret_number,
                    char *ret_problem, size_t problem_size)
{
    char out[OUTPUT_SHOWN];
    char err[OUTPUT_SHOWN];
    bool is_good = false;
    int out_fd = memfd_create("count", MFD_CLOEXEC);
    int err_fd = memfd_create("count", MFD_CLOEXEC);
    pid_t pid = out_fd >= 0 && err_fd >= 0 ? fork() : -1;
    if (pid == 0)
        become_command(command, value, out_fd, err_fd);
    if (pid < 0) {
        snprintf(ret_problem, problem_size, "the counting command could not be started: %s",
                 strerror(errno));
    } else if (!wait_for(pid, timeout_ms)) {
        snprintf(ret_problem, problem_size, "the counting command did not end within %lld s",
                 (long long)timeout_ms / 1000);
    } else {
        read_output(out_fd, out, sizeof(out));
        read_output(err_fd, err, sizeof(err));
        is_good = read_number(out, ret_number);
        if (!is_good)
            snprintf(ret_problem, problem_size, "the counting command printed no number: '%s' %s",
                     out, err);
    }
    if (out_fd >= 0)
        (void)close(out_fd);
    if (err_fd >= 0)
        (void)close(err_fd);
    return is_good;
}
