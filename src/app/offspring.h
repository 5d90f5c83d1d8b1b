/* SPDX-License-Identifier: MIT */
/*
 * Finding and ending the processes of one run of `demo` or one trial of `audit`, and no others.
 *
 * Each is a process that adopts its orphans (child subreaper), so everything that a run starts,
 * however it detaches itself, is a descendant of it. Only descendants are ever killed.
 */
#ifndef HX_APP_OFFSPRING_H
#define HX_APP_OFFSPRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"

/* From now on orphans below this process become its children. */
bool hx_offspring_adopt(void);
/* Kills `pid` if it is a descendant of this process that runs `exe` (a path without symbolic
 * links; NULL: any). The process is held by a pidfd meanwhile, so no other can be hit. */
bool hx_offspring_kill(pid_t pid, const char *exe);
/* The descendant of this process that holds the reading end of the pipe behind `write_fd` open,
 * other than `except`; 0 when there is none. */
pid_t hx_offspring_pipe_reader(int write_fd, pid_t except);
/* Waits until this process has no child any more; kills what is left at the deadline. Returns how
 * many had to be killed. */
unsigned hx_offspring_end(struct hx_mono deadline);
/* The living descendants of this process. Returns how many, `max` at most. */
size_t hx_offspring_list(pid_t *ret_pids, size_t max);
/* Kills every descendant, and what these start meanwhile. Returns how many kills there were. */
unsigned hx_offspring_kill_all(struct hx_mono deadline);
/* Kills the descendants that have no living child, except one. Returns how many. */
unsigned hx_offspring_kill_leaves(pid_t except);

#endif
