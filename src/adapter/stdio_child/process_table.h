/* SPDX-License-Identifier: MIT */
/*
 * The processes of this host as /proc shows them. A reading is never atomic: whoever ends processes
 * by it reads again until nothing is left.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_PROCESS_TABLE_H
#define HX_ADAPTER_STDIO_CHILD_PROCESS_TABLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/assert.h"

struct hx_process {
    pid_t pid;
    pid_t parent;
    pid_t group;
    pid_t session;
    char state; /* as in /proc/PID/stat: 'Z' is a zombie */
};

bool hx_process_is_running(const struct hx_process *process);

/* Calls `visit` for each process until it returns false. -1 when /proc cannot be read. */
int hx_process_each(bool (*visit)(void *arg, const struct hx_process *process),
                    void *arg) HX_MUST_CHECK;

/* True while a process of the group runs; zombies do not count. */
bool hx_process_group_is_alive(pid_t group);

/* Sends `signal_number` to every living descendant of the calling process. */
void hx_process_signal_descendants(int signal_number);

#endif
