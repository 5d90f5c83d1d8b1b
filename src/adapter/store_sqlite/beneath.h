/* SPDX-License-Identifier: MIT */
/*
 * What stands in the database's own file, beneath the log, and whether somebody has put an older
 * copy over it while it was in use.
 *
 * Such a copy is not seen through SQLite: what was read is in its cache, and what was written since
 * the log was last moved is in the log. But only we write into that file, when we move the log, so
 * its time tells whether anybody did; and after a move its commits are noted beside the counter.
 * Fewer than noted, or another ledger's, is a copy. One with as many or more is none of which
 * anything is lost: each page that it lacks stands in the log.
 *
 * The note is written after the move and never synced, so it can only be too low, which raises no
 * alarm. Everything here is called under the lock.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_BENEATH_H
#define HX_ADAPTER_STORE_SQLITE_BENEATH_H

#include "adapter/store_sqlite/ledger.h"

/* Learns where in the file to look. */
int hx_beneath_init(struct hx_ledger *ledger) HX_MUST_CHECK;
/* After the counter was compared. The log of a ledger may lie on a copy of it, and make it look as
 * if it were none: negative, with a sentence for people. Else what is there is noted. */
int hx_beneath_open(struct hx_ledger *ledger) HX_MUST_CHECK;
/* Before anything is written or moved; `now` is the file as it is. Costs nothing while the file is
 * as it was. Negative, with a sentence for people, when a copy was put over it. */
int hx_beneath_check(struct hx_ledger *ledger, const struct stat *now) HX_MUST_CHECK;
/* The whole log was moved, or a copy is taken into use: what is there is right. */
void hx_beneath_note(struct hx_ledger *ledger);

#endif
