/* SPDX-License-Identifier: MIT */
/*
 * Who is alive. Each process that uses a ledger holds a POSIX lock on a file named after its owner
 * token, for as long as it lives: the kernel drops it at death, at once, and a forked child does
 * not inherit it. The lock alone decides; times decide nothing.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_OWNERS_H
#define HX_ADAPTER_STORE_SQLITE_OWNERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/assert.h"
#include "base/id.h"
#include "base/list.h"

struct hx_owners {
    char *directory;
    struct hx_id self;    /* nil while this process owns nothing (inspection) */
    int fd;               /* of our own file; -1 when none */
    pid_t pid;            /* of the process that holds its lock */
    struct hx_list local; /* in the list of this process's own tokens */
    bool is_abandoned;    /* test seam: closes as death would */
};

/* Takes ownership under `self`, or only looks at others when `self` is nil. */
int hx_owners_open(struct hx_owners *owners, const char *directory,
                   const struct hx_id *self) HX_MUST_CHECK;
void hx_owners_close(struct hx_owners *owners);

/* Asks the kernel now. In doubt (the file cannot be opened) an owner counts as alive. */
bool hx_owners_is_alive(struct hx_owners *owners, const struct hx_id *token);
/* For people; 0 = not known. */
long hx_owners_pid(const char *directory, const struct hx_id *token);
/* Calls `visit` for each owner file whose lock is free, at most `max`; its file is removed when
 * visit returns true. */
int hx_owners_each_dead(struct hx_owners *owners, int max,
                        bool (*visit)(void *context, const struct hx_id *token), void *context);

#endif
