/* SPDX-License-Identifier: MIT */
/*
 * What becomes of old rows: their payload goes, then the row, or all of it but a small tombstone.
 *
 * The low-water mark is raised and committed before any row goes, so that a key whose row is gone
 * is answered as expired and never runs again. Rows age by the ledger's own clock, which counts
 * monotonic time: a jumping wall clock cannot make one go. Rows that are open, unknown or disputed
 * never go. Streams and resume points go with the payload of their operation, sessions when nobody
 * used them for a while, events of the outbox some time after they were delivered or dropped.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_RETENTION_H
#define HX_ADAPTER_STORE_SQLITE_RETENTION_H

#include "adapter/store_sqlite/rows.h"

enum hx_sweep_stage { HX_SWEEP_ROWS, HX_SWEEP_SESSIONS, HX_SWEEP_STREAMS, HX_SWEEP_EVENTS };

struct hx_sweep {
    enum hx_sweep_stage stage;
    int64_t after; /* row, session or event up to which this stage has looked */
};

enum { HX_SWEEP_MORE = 1 };

/* Looks at a bounded number of rows. 0 at the end of a round, HX_SWEEP_MORE, or negative. Begin
 * with a zeroed one. Nothing goes from a restored copy. */
int hx_sweep_step(struct hx_sweep *sweep, struct hx_ledger *ledger,
                  struct hx_aftermath *aftermath) HX_MUST_CHECK;

/* Takes the payload of that row if its time is over, now and not when the sweep comes by. */
int hx_retention_take_payload(struct hx_ledger *ledger, int64_t row,
                              struct hx_aftermath *aftermath) HX_MUST_CHECK;

/* Stages of it. 0 at their end, HX_SWEEP_MORE, or negative. */
int hx_sweep_sessions(struct hx_sweep *sweep, struct hx_ledger *ledger) HX_MUST_CHECK;
int hx_sweep_streams(struct hx_sweep *sweep, struct hx_ledger *ledger) HX_MUST_CHECK;
int hx_sweep_events(struct hx_sweep *sweep, struct hx_ledger *ledger) HX_MUST_CHECK;

#endif
