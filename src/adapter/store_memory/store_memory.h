/* SPDX-License-Identifier: MIT */
/*
 * The ledger in memory: the twin of the SQLite adapter for the simulator and the crash enumeration.
 * It is small and deterministic, and it can do on demand what disks and processes do at the worst
 * moment.
 *
 * A ledger is what a disk is: it outlives the stores opened on it. Each store is one process. A
 * flush is one commit of everything submitted since the last one.
 */
#ifndef HX_ADAPTER_STORE_MEMORY_STORE_MEMORY_H
#define HX_ADAPTER_STORE_MEMORY_STORE_MEMORY_H

#include <stddef.h>

#include "port/clock.h"
#include "port/store.h"

struct hx_memory_ledger;

enum hx_memory_failure {
    HX_MEMORY_REFUSE,       /* the commit certainly does not happen: NOT_DONE */
    HX_MEMORY_LOSE_DONE,    /* it happens, but its answer is lost until hx_memory_ledger_settle */
    HX_MEMORY_LOSE_NOT_DONE /* it does not happen, and that too is known only after settle */
};

/* Borrows `clock`, whose boot is the host's. */
struct hx_memory_ledger *hx_memory_ledger_new(struct hx_clock *clock);
/* Every store on it must be closed or killed. */
struct hx_memory_ledger *hx_memory_ledger_free(struct hx_memory_ledger *ledger);

/* A process starts to use the ledger. */
struct hx_store *hx_store_memory_open(struct hx_memory_ledger *ledger, struct hx_id owner);
/* The process dies: what was not flushed is lost, its requests are freed. */
void hx_store_memory_kill(struct hx_store *store);

/* The host crashes: of the unsynced changes since the last synced commit only the first `survivors`
 * remain. All stores must have been killed; the clock should tell another boot from now on. */
void hx_memory_ledger_lose_unsynced(struct hx_memory_ledger *ledger, size_t survivors);
size_t hx_memory_ledger_unsynced(const struct hx_memory_ledger *ledger);

/* The n-th commit from now (1 = next) that changes rows, by whichever store, fails so; 0 = none. */
void hx_memory_ledger_fail_at(struct hx_memory_ledger *ledger, unsigned long countdown,
                              enum hx_memory_failure how);
/* Commits that changed rows, so far. */
unsigned long hx_memory_ledger_commits(const struct hx_memory_ledger *ledger);
/* Ends every doubt. The stores' next flush carries on with what waited behind it. */
void hx_memory_ledger_settle(struct hx_memory_ledger *ledger);
/* While it is full or broken each commit is refused, and, with `also_spool`, the spool too. */
void hx_memory_ledger_break(struct hx_memory_ledger *ledger, bool is_broken, bool also_spool);

/* An I/O error was seen: no claim made before proves anything by the absence of its mark. */
void hx_memory_ledger_end_epoch(struct hx_memory_ledger *ledger);
/* The transport of that name is gone with its process group. */
void hx_memory_ledger_transport_gone(struct hx_memory_ledger *ledger, const char *name);
void hx_memory_ledger_set_low_water(struct hx_memory_ledger *ledger, struct hx_wall low_water);
void hx_memory_ledger_set_gap(struct hx_memory_ledger *ledger, struct hx_gap gap);
/* NULL = guarded calls may be taken. Borrows `sentence`. */
void hx_memory_ledger_set_refusal(struct hx_memory_ledger *ledger, const char *sentence);

/* From now on transitions are announced. */
void hx_memory_ledger_keep_outbox(struct hx_memory_ledger *ledger);
/* Every event in order, for checks: returns NULL past the end. Borrowed until the next flush. */
const struct hx_store_event *hx_memory_ledger_event(const struct hx_memory_ledger *ledger,
                                                    size_t index);

/* Every row in order of creation, for checks: returns NULL past the end. Borrowed until the next
 * flush of any store. */
const struct hx_record *hx_memory_ledger_row(const struct hx_memory_ledger *ledger, size_t index);
bool hx_memory_ledger_is_hot(const struct hx_memory_ledger *ledger, size_t index);

#endif
