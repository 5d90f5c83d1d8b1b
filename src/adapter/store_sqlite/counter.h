/* SPDX-License-Identifier: MIT */
/*
 * How many synced commits a ledger has seen, kept outside it: a ledger that knows of fewer was
 * restored from an older copy. Written after the commit that it counts and never synced, so it can
 * only be too low, which raises no alarm; neither does a torn or missing file.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_COUNTER_H
#define HX_ADAPTER_STORE_SQLITE_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/id.h"

struct hx_counter {
    int fd;
    struct hx_hasher *hasher; /* borrowed */
};

int hx_counter_open(struct hx_counter *counter, const char *path,
                    struct hx_hasher *hasher) HX_MUST_CHECK;
void hx_counter_close(struct hx_counter *counter);
/* False when the file is missing, empty or torn. */
bool hx_counter_read(struct hx_counter *counter, struct hx_id *ret_instance, uint64_t *ret_count);
/* A failure to write is ignored: the count stays too low. */
void hx_counter_write(struct hx_counter *counter, const struct hx_id *instance, uint64_t count);
/* The same of the commits that have been moved into the database's own file: see beneath.h. */
bool hx_counter_read_moved(struct hx_counter *counter, struct hx_id *ret_instance,
                           uint64_t *ret_count);
void hx_counter_write_moved(struct hx_counter *counter, const struct hx_id *instance,
                            uint64_t count);

#endif
