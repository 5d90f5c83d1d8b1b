/* SPDX-License-Identifier: MIT */
/*
 * Sessions, their streams, and resume points: what a restart must not lose besides the operations.
 * Runs inside a transaction that somebody else began; what becomes of them with time is in
 * retention_kept.c.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_KEPT_H
#define HX_ADAPTER_STORE_SQLITE_KEPT_H

#include "adapter/store_sqlite/ledger.h"

/* Whether the request is about one of them. */
bool hx_kept_is(enum hx_store_kind kind);
/* Runs one. Any negative return means that the transaction must be rolled back. */
int hx_kept_run(struct hx_ledger *ledger, struct hx_store_request *request) HX_MUST_CHECK;

/* They leave no history by which a commit in doubt could be proved. So the commit also writes the
 * next number of this process into its row of `proof`, which nobody else writes. */
int hx_kept_prove(struct hx_ledger *ledger) HX_MUST_CHECK;
/* Whether the newest proof stands in the ledger: 1, 0 or negative. */
int hx_kept_is_proved(struct hx_ledger *ledger) HX_MUST_CHECK;

#endif
