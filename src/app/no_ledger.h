/* SPDX-License-Identifier: MIT */
/*
 * The store of a gateway whose ledger cannot be opened: it refuses every guarded call with the
 * reason. Read-only tools, lists and everything else still pass, and nothing is ever sent
 * unrecorded.
 */
#ifndef HX_APP_NO_LEDGER_H
#define HX_APP_NO_LEDGER_H

#include "port/store.h"

/* Copies `reason`. */
struct hx_store *hx_no_ledger_new(const char *reason);

#endif
