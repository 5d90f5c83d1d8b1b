/* SPDX-License-Identifier: MIT */
/*
 * Keepers that only finish their work: how many there are of one server, and a bound on them.
 *
 * Each one holds a lock on a file of its own beside the ledger while it drains; a free lock is a
 * keeper that is gone.
 */
#ifndef HX_APP_DRAIN_H
#define HX_APP_DRAIN_H

#include "base/id.h"

struct hx_drain {
    int fd;     /* of our own file; -1 = there is none */
    char *path; /* owned; NULL = we do not drain */
};

void hx_drain_init(struct hx_drain *drain);
/* Enters our own file. If more than `max` drain then, `stop` is called for the oldest ones. */
void hx_drain_begin(struct hx_drain *drain, const char *dir, const char *server,
                    const struct hx_id *self, unsigned max,
                    void (*stop)(void *context, const struct hx_id *who), void *context);
void hx_drain_end(struct hx_drain *drain);
/* Living keepers of `server` that drain, other than `self`, who may drain too. */
unsigned hx_drain_count_others(const char *dir, const char *server, const struct hx_id *self);

#endif
