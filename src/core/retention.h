/* SPDX-License-Identifier: MIT */
/*
 * What becomes of an old row, and when: its payload goes, then the row, or all of it but a
 * tombstone.
 *
 * This is a rule about retries like any other: a row that went too early would let its call run
 * once more. So it is decided here, and a store only carries it out. It looks at the little of
 * a row that decides, since a store judges thousands of them at a time.
 *
 * A successor answers for its key as long as the one before it is there: without it the older row
 * would be taken for the newest, and the answers of both would mix. So a row that another one names
 * as its successor leaves a tombstone at least, which goes when that one has gone or goes with it.
 *
 *   INV-18  The low-water mark never falls, and rows go only behind it.
 */
#ifndef HX_CORE_RETENTION_H
#define HX_CORE_RETENTION_H

#include "core/record.h"

/* In order: each takes all that the ones before it take. */
enum hx_row_fate {
    HX_ROW_STAY,
    HX_ROW_COOL,         /* leaves the twin index: no equal call without a key can mean it */
    HX_ROW_LOSE_PAYLOAD, /* digest and size stay */
    HX_ROW_TOMBSTONE,    /* becomes EXPIRED; identity and fingerprint stay */
    HX_ROW_GO            /* no trace: the low-water mark alone answers for it */
};

struct hx_old_row {
    enum hx_op_state state;
    const struct hx_contract *contract;
    bool is_key_timed; /* see hx_retention_is_key_timed */
    bool is_hot;
    bool is_disputed;
    bool is_told_pending;
    bool has_payload;
    bool is_named;         /* the row of the one before it, whose successor it is, is there */
    int64_t age_ms;        /* since its last use, by the ledger's own clock */
    struct hx_wall newest; /* see hx_retention_newest */
};

/* May the row ever fade, be it by time? Not while it is open, unknown or disputed. */
bool hx_retention_may_fade(enum hx_op_state state, bool is_disputed);
/* Is the time of its bytes over, whether or not they have been taken? `age_ms` as above. */
bool hx_retention_is_payload_over(const struct hx_record *record, int64_t age_ms);
/* The key itself tells its time, so that the low-water mark can answer for it; or nobody can
 * name it again. */
bool hx_retention_is_key_timed(enum hx_key_source source, struct hx_span key);
/* The latest time under which its key may ever come in again, or its last change if that is
 * later. The key's own time counts too where an older one was told once: the next repeat may
 * not tell it. */
struct hx_wall hx_retention_newest(struct hx_span key, struct hx_wall first_sent,
                                   struct hx_wall updated);
/* What time allows. */
enum hx_row_fate hx_retention_fate(const struct hx_old_row *row, struct hx_wall now);
/* What may be done with it while the committed mark is `low_water`: nothing that makes its key
 * unknown before the mark has passed it. */
enum hx_row_fate hx_retention_fate_behind(const struct hx_old_row *row, struct hx_wall now,
                                          struct hx_wall low_water);
/* The mark that must be committed before the row may go. */
struct hx_wall hx_retention_low_water(const struct hx_old_row *row);

#endif
