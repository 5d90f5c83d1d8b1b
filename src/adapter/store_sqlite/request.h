/* SPDX-License-Identifier: MIT */
/*
 * One request of port/store.h, within a transaction that is open. Which requests go together, and
 * what becomes of them when the commit fails, is batch.h.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_REQUEST_H
#define HX_ADAPTER_STORE_SQLITE_REQUEST_H

#include "adapter/store_sqlite/batch.h"

/* Fills its results. Negative when the transaction cannot go on. `aftermath` notes what must be
 * done once it is committed. */
int hx_request_run(struct hx_ledger *ledger, struct hx_store_request *request,
                   struct hx_aftermath *aftermath) HX_MUST_CHECK;

#endif
