/* SPDX-License-Identifier: MIT */
/*
 * Finding and ending the processes of one demo run, and no others.
 *
 * Each run is a process that adopts its orphans (child subreaper), so everything that a run starts,
 * however it detaches itself, is a descendant of it. Only descendants are ever killed.
 */
#ifndef HX_APP_DEMO_PROCESS_H
#define HX_APP_DEMO_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on orphans below this process become its children. */
bool hx_demo_adopt_orphans(void);
/* Kills `pid` if it is a descendant of this process that runs `exe` (a path without symbolic
 * links). The process is held by a pidfd meanwhile, so no other can be hit. */
bool hx_demo_kill(pid_t pid, const char *exe);
/* The descendant of this process that holds the reading end of the pipe behind `write_fd` open,
 * other than `except`; 0 when there is none. */
pid_t hx_demo_pipe_reader(int write_fd, pid_t except);
/* Waits until this process has no child any more; kills what is left at the deadline. Returns how
 * many had to be killed. */
unsigned hx_demo_end_children(int64_t deadline_ms);
/* Removes a directory with all that is in it. */
void hx_demo_remove_tree(const char *path);

#endif
