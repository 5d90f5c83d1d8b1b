/* SPDX-License-Identifier: MIT */
/*
 * What the files of the inspection share. Private to them.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_INSPECT_LEDGER_H
#define HX_ADAPTER_STORE_SQLITE_INSPECT_LEDGER_H

#include "adapter/store_sqlite/find.h"
#include "adapter/store_sqlite/inspect.h"

struct hx_inspect {
    struct hx_ledger ledger;
    struct hx_store_request *request; /* holds the rows of one page */
};

/* A statement of the inspection's own, to be finalized. NULL with a fault. */
sqlite3_stmt *hx_inspect_prepare(struct hx_inspect *inspect, const char *sql);
/* Whether a row names the blob file of that name. */
bool hx_inspect_is_blob_named(struct hx_inspect *inspect, const char *name, int *ret_rc);
/* The number in a column, or 0 when it is no number below `count`. */
int hx_inspect_limited(sqlite3_stmt *stmt, int column, int count);
int hx_inspect_begin(struct hx_inspect *inspect) HX_MUST_CHECK;

#endif
