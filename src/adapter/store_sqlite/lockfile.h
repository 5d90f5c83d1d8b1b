/* SPDX-License-Identifier: MIT */
/*
 * The lock under which a ledger is opened, written and checkpointed, by every process.
 *
 * SQLite before 3.51.3 can corrupt a database when one process checkpoints while another writes; so
 * the two never overlap. The lock is kept in a file of its own, because closing any descriptor of
 * the database would drop SQLite's own locks on it.
 *
 * The wait is bounded and fair: whoever wants the lock passes a turnstile first, and keeps it while
 * he waits, so that a process that writes without a pause cannot starve the others.
 *
 * The lock belongs to the open file, which a forked child has too: it would keep the lock when its
 * parent is killed while he holds it. So a child closes its copy as soon as it is there, and an
 * hx_lockfile that was opened before a fork takes nothing in the child. (What was started without
 * fork's handlers, by vfork, posix_spawn or clone, has a copy until it executes a program.)
 */
#ifndef HX_ADAPTER_STORE_SQLITE_LOCKFILE_H
#define HX_ADAPTER_STORE_SQLITE_LOCKFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/list.h"

struct hx_lockfile {
    int fd;
    char *path;
    struct hx_list node; /* of those that are open in this process */
    bool is_held;
};

int hx_lockfile_open(struct hx_lockfile *lock, const char *path) HX_MUST_CHECK;
void hx_lockfile_close(struct hx_lockfile *lock);

enum { HX_LOCKFILE_BUSY = 1 };

/* 0, or HX_LOCKFILE_BUSY after `wait_ms`, with a fault that names the holder. `purpose` is what
 * others will read. */
int hx_lockfile_take(struct hx_lockfile *lock, int64_t wait_ms, const char *purpose) HX_MUST_CHECK;
void hx_lockfile_drop(struct hx_lockfile *lock);

#endif
