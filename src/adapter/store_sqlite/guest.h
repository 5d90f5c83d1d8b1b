/* SPDX-License-Identifier: MIT */
/*
 * A ledger on the connection of somebody else, who keeps tables of his own in the ledger's file:
 * his rows and ours are committed together or not at all. For the library (src/lib/).
 *
 * The rules of ledger.h hold for this connection as well: it writes under the lock file only, never
 * checkpoints, and every commit is synced and counted. So the transaction is begun and ended here;
 * between them its owner runs his own statements on it. Outside of one his connection can only
 * read, unless its SQLite is new enough that a stray write does no harm.
 *
 * Nothing goes to the spool: an outcome whose transaction failed must not come back without the
 * rows that it tells of.
 *
 * A guest belongs to one thread at a time. The store, whose owner token it writes under, outlives
 * it.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_GUEST_H
#define HX_ADAPTER_STORE_SQLITE_GUEST_H

#include <stdbool.h>

#include "base/assert.h"
#include "port/store.h"

struct sqlite3;
struct hx_guest;

/* What speaks against this version of SQLite, as a sentence, or NULL. */
const char *hx_guest_version_flaw(int sqlite_version, bool writes_outside);

/* `sqlite_source` is what sqlite3_sourceid() returned to the owner of `db`: the same pointer, or he
 * uses another copy of SQLite than we do, and the two would take each other's locks away. 0, or
 * negative with a sentence for people. */
int hx_guest_attach(struct hx_store *store, struct sqlite3 *db, const char *sqlite_source,
                    bool writes_outside, struct hx_guest **ret_guest) HX_MUST_CHECK;
/* Rolls back what is open. The connection stays its owner's; it can read on. Accepts NULL. */
void hx_guest_detach(struct hx_guest *guest);

/* Takes the lock and begins. 0, or negative: nothing was begun. */
int hx_guest_begin(struct hx_guest *guest) HX_MUST_CHECK;
/* Runs one request inside the transaction; its result is as the port says, but durable only with
 * the commit. After NOT_DONE the transaction can only be rolled back. */
void hx_guest_run(struct hx_guest *guest, struct hx_store_request *request);

enum { HX_GUEST_NOT_DONE = 1, HX_GUEST_IN_DOUBT = 2 };
/* 0: durable. NOT_DONE: certainly nothing of it is. IN_DOUBT: it may or may not be, and the ledger
 * could not be asked. With a fault. The transaction is over in every case. */
int hx_guest_commit(struct hx_guest *guest) HX_MUST_CHECK;
void hx_guest_rollback(struct hx_guest *guest);

/* False when there is none, or when its owner ended it himself. */
bool hx_guest_is_open(const struct hx_guest *guest);
/* As the open transaction sees it. */
struct hx_wall hx_guest_low_water(const struct hx_guest *guest);
struct hx_gap hx_guest_gap(const struct hx_guest *guest);

#endif
