/* SPDX-License-Identifier: MIT */
/*
 * After a ledger was restored from an older copy: what was recorded between the copy and the return
 * is missing, so that absence proves nothing for a while.
 */
#ifndef HX_CORE_RESTORED_H
#define HX_CORE_RESTORED_H

#include "core/contract.h"
#include "core/key.h"
#include "core/record.h"

/* All zero: the ledger never was a restored copy. */
struct hx_gap {
    struct hx_wall from;  /* when the copy was taken */
    struct hx_wall to;    /* when the ledger was taken into use again */
    struct hx_wall until; /* end of the caution, as it was foreseen then; 0 = there was no copy */
    int64_t age_ms; /* how long it is in use again, by the ledger's own age: the wall clock may
                             jump over the whole of the caution */
};

#define HX_GAP_CAUTION_MS ((int64_t)30 * 24 * 60 * 60 * 1000)

/* A key that the ledger does not know may have been used in the gap: its time does not lie after
 * it, or it has none. It must open as unknown. */
bool hx_gap_covers_key(const struct hx_gap *gap, struct hx_key_time time);
/* A row of the copy may have had a successor that the copy lacks. `created` is that of the row. */
bool hx_gap_covers_successor(const struct hx_gap *gap, struct hx_wall created);
/* A row of the copy that is not final may have gone on in the gap, in a way that the copy does not
 * know. It becomes unknown, whatever it was, before anything may run it: only evidence, a proof or
 * a person takes it on. False = the row may stay as it is. */
bool hx_restored_doubt(struct hx_record *record, const struct hx_now *now);
/* An equal call without a key may have been answered in the gap and be repeated now. */
bool hx_gap_covers_keyless(const struct hx_gap *gap, const struct hx_contract *contract);

#endif
