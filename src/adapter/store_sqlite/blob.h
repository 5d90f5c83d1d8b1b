/* SPDX-License-Identifier: MIT */
/*
 * Outcomes too large for a row: one synced file each, named after the operation and a random number
 * that stands in the row, so that a writer who lost his fence cannot touch another's.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_BLOB_H
#define HX_ADAPTER_STORE_SQLITE_BLOB_H

#include <stdint.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/span.h"

/* Durable when it returns, under its name. */
int hx_blob_write(const char *directory, const struct hx_id *id, uint64_t number,
                  struct hx_span bytes) HX_MUST_CHECK;
int hx_blob_read(const char *directory, const struct hx_id *id, uint64_t number,
                 struct hx_arena *arena, struct hx_span *ret_bytes) HX_MUST_CHECK;
/* A file that is not there is fine; one that cannot be removed is found by verify. */
void hx_blob_remove(const char *directory, const struct hx_id *id, uint64_t number);
/* False unless the file name is that of a blob. */
bool hx_blob_parse_name(const char *name, struct hx_id *ret_id, uint64_t *ret_number);

#endif
