/* SPDX-License-Identifier: MIT */
/*
 * What poll() tells of one descriptor at this moment, for those who must not wait for the loop:
 * whether a reader is there is asked before each answer, and after an edge that comes once.
 */
#ifndef HX_LOOP_FD_STATE_H
#define HX_LOOP_FD_STATE_H

/* Those of `events` that hold, and POLLERR, POLLHUP, POLLNVAL as with poll(); 0 when nothing does.
 * A signal in between is no answer: it is asked again. */
short hx_fd_state(int fd, short events);

#endif
