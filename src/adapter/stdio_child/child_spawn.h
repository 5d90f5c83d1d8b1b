/* SPDX-License-Identifier: MIT */
/*
 * Starts a reaper with its command: five pipes and one process.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_CHILD_SPAWN_H
#define HX_ADAPTER_STDIO_CHILD_CHILD_SPAWN_H

#include <sys/types.h>

#include "adapter/stdio_child/stdio_child.h"

/* Our ends, none of which blocks. -1 = closed. */
struct hx_spawned {
    pid_t reaper;
    int reaper_fd; /* readable when the reaper has ended */
    int input_fd;  /* the command's standard input */
    int output_fd;
    int error_fd;
    int control_fd; /* commands to the reaper */
    int report_fd;  /* its reports */
};

/* 0 or an errno. `lock_path` may be NULL. */
int hx_spawn(const struct hx_stdio_child_options *options, const char *lock_path,
             struct hx_spawned *ret_spawned) HX_MUST_CHECK;
/* Closes what is open. */
void hx_spawned_close(struct hx_spawned *spawned);
void hx_fd_close(int *fd);

#endif
