/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/PID/stat. The list of children that some kernels offer per task is not compiled in
 * everywhere, so descendants are found by walking up from each process.
 */
#include "adapter/stdio_child/process_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { STAT_SIZE = 512, TABLE_MAX = 1 << 16 };

static bool read_stat(const char *pid, struct hx_process *ret_process)
{
    char path[64];
    char text[STAT_SIZE];
    const char *rest;
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    /* The name stands in brackets and may hold brackets and blanks itself. */
    rest = strrchr(text, ')');
    ret_process->pid = (pid_t)strtol(pid, NULL, 10);
    return rest != NULL &&
           sscanf(rest + 1, " %c %d %d %d", &ret_process->state, &ret_process->parent,
                  &ret_process->group, &ret_process->session) == 4;
}

int hx_process_each(bool (*visit)(void *arg, const struct hx_process *process), void *arg)
{
    const struct dirent *entry;
    bool is_wanted = true;
    DIR *proc = opendir("/proc");

    if (proc == NULL)
        return -1;
    while (is_wanted && (entry = readdir(proc)) != NULL) {
        struct hx_process process;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_stat(entry->d_name, &process))
            is_wanted = visit(arg, &process);
    }
    (void)closedir(proc);
    return 0;
}

bool hx_process_is_running(const struct hx_process *process)
{
    return process->state != 'Z' && process->state != 'X';
}

struct group_search {
    pid_t group;
    bool is_found;
};

static bool visit_group(void *arg, const struct hx_process *process)
{
    struct group_search *search = arg;

    search->is_found = process->group == search->group && hx_process_is_running(process);
    return !search->is_found;
}

bool hx_process_group_is_alive(pid_t group)
{
    struct group_search search = {.group = group};

    hx_assert(group > 1);
    /* Cheap first: nothing at all there. EPERM means that something is. */
    if (kill(-group, 0) != 0 && errno == ESRCH)
        return false;
    if (hx_process_each(visit_group, &search) != 0)
        return true;
    return search.is_found;
}

struct table {
    struct hx_process *processes;
    size_t count;
};

static bool visit_table(void *arg, const struct hx_process *process)
{
    struct table *table = arg;

    table->processes[table->count++] = *process;
    return table->count < TABLE_MAX;
}

static int by_pid(const void *a, const void *b)
{
    pid_t left = ((const struct hx_process *)a)->pid;
    pid_t right = ((const struct hx_process *)b)->pid;

    return (left > right) - (left < right);
}

static bool is_descendant(const struct table *table, const struct hx_process *process, pid_t of)
{
    /* Bounded, because a table read while it changes may hold a ring. */
    for (size_t steps = 0; steps < table->count && process != NULL; steps++) {
        struct hx_process key = {.pid = process->parent};
        if (process->parent == of)
            return true;
        process = bsearch(&key, table->processes, table->count, sizeof key, by_pid);
    }
    return false;
}

void hx_process_signal_descendants(int signal_number)
{
    struct table table = {.processes = hx_new_bytes(TABLE_MAX * sizeof(struct hx_process))};
    pid_t self = getpid();

    if (hx_process_each(visit_table, &table) == 0) {
        qsort(table.processes, table.count, sizeof table.processes[0], by_pid);
        for (size_t i = 0; i < table.count; i++) {
            const struct hx_process *process = &table.processes[i];
            /* Its parent chain leads to us, and we reap, so the pid cannot have been given away
             * unless its own parent reaped it just now; then the chain was read a moment ago. */
            if (hx_process_is_running(process) && is_descendant(&table, process, self))
                (void)kill(process->pid, signal_number);
        }
    }
    hx_free(table.processes);
}
