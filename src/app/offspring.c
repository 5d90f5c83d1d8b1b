/* SPDX-License-Identifier: MIT */
#include "app/offspring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/mcp_client.h"

#define ANCESTORS_MAX 64
#define LISTED_MAX 512

bool hx_offspring_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* What the kernel says of a process: 'Z' and 0 when it is gone. */
static void look_at(pid_t pid, char *ret_state, pid_t *ret_parent)
{
    char path[64];
    char line[512];
    char state = 'Z';
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "re");
    /* The second field is the name in parentheses, and may itself hold any byte. */
    if (in && fgets(line, sizeof(line), in)) {
        const char *after = strrchr(line, ')');
        if (!after || sscanf(after, ") %c %d", &state, &parent) != 2) {
            state = 'Z';
            parent = 0;
        }
    }
    if (in)
        fclose(in);
    *ret_state = state;
    *ret_parent = parent;
}

/* 0 when the process is gone. */
static pid_t parent_of(pid_t pid)
{
    char state;
    pid_t parent;
    look_at(pid, &state, &parent);
    return parent;
}

/* A zombie is gone already, and waits only to be noticed. */
static bool lives(pid_t pid)
{
    char state;
    pid_t parent;
    look_at(pid, &state, &parent);
    return state != 'Z' && state != 'X';
}

static bool is_descendant(pid_t pid)
{
    pid_t self = getpid();
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        pid = parent_of(pid);
        if (pid == self)
            return true;
    }
    return false;
}

static bool runs(pid_t pid, const char *exe)
{
    char path[64];
    char target[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    if (len < 0)
        return false;
    target[len] = '\0';
    return strcmp(target, exe) == 0;
}

bool hx_offspring_kill(pid_t pid, const char *exe)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return false;
    bool is_killed = is_descendant(pid) && (exe == NULL || runs(pid, exe)) &&
                     syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
    close(fd);
    return is_killed;
}

static bool holds_reading_end(pid_t pid, const char *pipe_name)
{
    char path[300];
    char target[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    bool is_found = false;
    if (!dir)
        return false;
    for (struct dirent *entry = readdir(dir); entry && !is_found; entry = readdir(dir)) {
        struct stat info;
        snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        /* The permissions of such a link tell what its descriptor was opened for. */
        if (len < 0 || lstat(path, &info) != 0 || (info.st_mode & S_IRUSR) == 0)
            continue;
        target[len] = '\0';
        is_found = strcmp(target, pipe_name) == 0;
    }
    closedir(dir);
    return is_found;
}

pid_t hx_offspring_pipe_reader(int write_fd, pid_t except)
{
    char path[64];
    char pipe_name[64];
    pid_t reader = 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", write_fd);
    ssize_t len = readlink(path, pipe_name, sizeof(pipe_name) - 1);
    DIR *dir = opendir("/proc");
    if (len < 0 || !dir)
        goto out;
    pipe_name[len] = '\0';
    for (struct dirent *entry = readdir(dir); entry && reader == 0; entry = readdir(dir)) {
        char *end;
        pid_t pid = (pid_t)strtol(entry->d_name, &end, 10);
        if (*end == '\0' && pid > 1 && pid != except && is_descendant(pid) &&
            holds_reading_end(pid, pipe_name))
            reader = pid;
    }
out:
    if (dir)
        closedir(dir);
    return reader;
}

size_t hx_offspring_list(pid_t *ret_pids, size_t max)
{
    DIR *dir = opendir("/proc");
    size_t count = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry && count < max; entry = readdir(dir)) {
        char *end;
        pid_t pid = (pid_t)strtol(entry->d_name, &end, 10);
        if (*end == '\0' && pid > 1 && is_descendant(pid) && lives(pid))
            ret_pids[count++] = pid;
    }
    closedir(dir);
    return count;
}

unsigned hx_offspring_kill_all(struct hx_mono deadline)
{
    pid_t pids[LISTED_MAX];
    unsigned killed = 0;
    do {
        size_t count = hx_offspring_list(pids, LISTED_MAX);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++)
            killed += hx_offspring_kill(pids[i], NULL);
        poll(NULL, 0, 2); /* until they have ended; what they started meanwhile comes next */
    } while (!hx_mono_reached(hx_mcp_now(), deadline));
    return killed;
}

unsigned hx_offspring_kill_leaves(pid_t except)
{
    pid_t pids[LISTED_MAX];
    size_t count = hx_offspring_list(pids, LISTED_MAX);
    unsigned killed = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_leaf = pids[i] != except;
        for (size_t j = 0; j < count && is_leaf; j++)
            is_leaf = parent_of(pids[j]) != pids[i];
        if (is_leaf)
            killed += hx_offspring_kill(pids[i], NULL);
    }
    return killed;
}

/* Sends KILL to each direct child; they are ours until we wait for them, so their ids cannot have
 * been given away. Their children become ours and come next. Not every kernel has a list of the
 * children of a process. */
static void kill_children(void)
{
    pid_t pids[LISTED_MAX];
    pid_t self = getpid();
    size_t count = hx_offspring_list(pids, LISTED_MAX);
    for (size_t i = 0; i < count; i++)
        if (parent_of(pids[i]) == self)
            (void)kill(pids[i], SIGKILL); /* one that has just ended is as good */
}

unsigned hx_offspring_end(struct hx_mono deadline)
{
    unsigned killed = 0;
    bool is_killing = false;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            killed += is_killing && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            continue;
        }
        if (pid < 0 && errno == ECHILD)
            return killed;
        if (hx_mono_reached(hx_mcp_now(), deadline)) {
            is_killing = true;
            kill_children();
        }
        poll(NULL, 0, 5); /* until the next child has ended */
    }
}
