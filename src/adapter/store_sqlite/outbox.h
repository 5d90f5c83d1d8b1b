/* SPDX-License-Identifier: MIT */
/*
 * The outbox: events of transitions, written in the transaction of the transition, and what became
 * of them.
 *
 * Whether there is one is a fact of the ledger and not of a process: once a process that is set up
 * for it has opened the ledger, every process on it writes events, so that no transition goes
 * unannounced because it was made by one that is set up otherwise. A Hapax that is too old to know
 * of the outbox and has the ledger open cannot write any more from then on: a trigger calls a
 * function that it does not have.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_OUTBOX_H
#define HX_ADAPTER_STORE_SQLITE_OUTBOX_H

#include "adapter/store_sqlite/ledger.h"

/* For a new connection: the function that the trigger asks for. */
int hx_outbox_connect(struct hx_ledger *ledger) HX_MUST_CHECK;
/* Inside a synced transaction: from now on there is an outbox, if this process wants one. */
int hx_outbox_ensure(struct hx_ledger *ledger) HX_MUST_CHECK;
/* The same in a transaction of its own, at opening. */
int hx_outbox_begin(struct hx_ledger *ledger) HX_MUST_CHECK;
/* Behind the write and the history line of a transition. */
int hx_outbox_announce(struct hx_ledger *ledger, int64_t row, const struct hx_outbox_view *before,
                       const struct hx_record *after) HX_MUST_CHECK;
/* Runs a request about events. */
int hx_outbox_run(struct hx_ledger *ledger, struct hx_store_request *request) HX_MUST_CHECK;
/* The row that a statement with the columns of OUTBOX_DUE stands on; spans go into `arena`. */
int hx_outbox_load(struct hx_ledger *ledger, sqlite3_stmt *stmt, struct hx_arena *arena,
                   struct hx_store_event *ret_event) HX_MUST_CHECK;

#endif
