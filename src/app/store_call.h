/* SPDX-License-Identifier: MIT */
/*
 * The ledger for a command: one request at a time, waited for.
 */
#ifndef HX_APP_STORE_CALL_H
#define HX_APP_STORE_CALL_H

#include "port/store.h"

/* The store still has the request: what became of it is not known, and the request is the store's.
 */
#define HX_STORE_CALL_IN_DOUBT 1

/* Submits and waits. 0: done, look at request->result. No other request may be under way. */
int hx_store_call(struct hx_store *store, struct hx_store_request *request) HX_MUST_CHECK;

#endif
