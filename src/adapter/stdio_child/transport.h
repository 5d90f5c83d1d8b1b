/* SPDX-License-Identifier: MIT */
/*
 * May a request that was handed to a child still act? Asked about a child of *another* keeper,
 * perhaps a dead one, by the name that keeper wrote into the ledger.
 *
 * The name is a file in a directory that all keepers of a ledger share. The child's reaper creates
 * the file, holds a POSIX lock on it as long as it lives, writes the process group into it before
 * the child gets its first byte, and removes it when every process is gone. So a missing file, or a
 * free lock with no process left in the group, means gone.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_TRANSPORT_H
#define HX_ADAPTER_STDIO_CHILD_TRANSPORT_H

#include <sys/types.h>

#include "base/assert.h"

enum hx_transport_state {
    HX_TRANSPORT_ALIVE,
    HX_TRANSPORT_GONE,
    HX_TRANSPORT_UNKNOWN /* cannot be told from here: another pid namespace, an unreadable file */
};

#define HX_TRANSPORT_NAME_SIZE 48 /* with NUL */

/* An empty name means that no child was started, hence GONE. Removes what a killed reaper left.
 * From any thread. */
enum hx_transport_state hx_transport_probe(const char *dir, const char *name);

/* A name that no other transport has. */
void hx_transport_name_make(char *ret_name);

/* For the reaper. Returns a descriptor to be kept open, or -1 with errno. */
int hx_transport_lock(const char *path) HX_MUST_CHECK;
int hx_transport_record(int lock_fd, pid_t group) HX_MUST_CHECK;

#endif
