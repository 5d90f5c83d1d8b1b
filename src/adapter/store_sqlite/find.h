/* SPDX-License-Identifier: MIT */
/*
 * Reading rows, and judging at that moment who owns them.
 *
 * What a dead owner left in its spool is applied before its row is shown. That needs a synced
 * transaction: in any other, the answer is HX_FIND_NEEDS_SYNC, and the caller begins again in one.
 * What a living one has there is shown, and left to its owner to commit. In a restored copy what a
 * dead one has there is only shown too.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_FIND_H
#define HX_ADAPTER_STORE_SQLITE_FIND_H

#include "adapter/store_sqlite/rows.h"

enum { HX_FIND_NEEDS_SYNC = 1 };

/* Fills the records of a FIND. 0, HX_FIND_NEEDS_SYNC or negative. */
int hx_find(struct hx_ledger *ledger, struct hx_store_request *request,
            struct hx_aftermath *aftermath) HX_MUST_CHECK;
/* What the ledger says now, for a request that was found stale: by identity (and twins), by id, and
 * the row that stands in the way of a successor. */
int hx_find_stale(struct hx_ledger *ledger, struct hx_store_request *request,
                  struct hx_aftermath *aftermath) HX_MUST_CHECK;
/* Reads the outcome's bytes of a PAYLOAD. */
int hx_find_payload(struct hx_ledger *ledger, struct hx_store_request *request) HX_MUST_CHECK;
/* Adds the row that `stmt` (one of the OP_BY_ statements) stands on. */
int hx_find_load(struct hx_ledger *ledger, sqlite3_stmt *stmt,
                 struct hx_store_request *request) HX_MUST_CHECK;

/* Adds the row of that number, if there is one. */
int hx_find_row(struct hx_ledger *ledger, struct hx_store_request *request,
                int64_t row) HX_MUST_CHECK;
/* Looks up the owners of the records found, and whether their senders are gone. */
void hx_find_judge(struct hx_ledger *ledger, struct hx_store_request *request);

/* Applies the spool of `owner`, in a synced transaction; its file goes in the aftermath. */
int hx_spool_apply(struct hx_ledger *ledger, const struct hx_id *owner,
                   struct hx_aftermath *aftermath) HX_MUST_CHECK;
/* Shows what the owner has spooled of this row, and syncs it first; nothing is written. */
int hx_spool_show(struct hx_ledger *ledger, struct hx_store_found *found,
                  struct hx_arena *arena) HX_MUST_CHECK;
bool hx_spool_exists(struct hx_ledger *ledger, const struct hx_id *owner);

#endif
