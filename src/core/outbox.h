/* SPDX-License-Identifier: MIT */
/*
 * Which transitions the outbox announces, and when an event that could not be delivered is tried
 * again. The stores ask the first at every write, so that events and rows are one commit (INV-16);
 * the engine asks the second.
 *
 * An event says that something happened to an operation, never what it was about: no arguments,
 * results or keys.
 */
#ifndef HX_CORE_OUTBOX_H
#define HX_CORE_OUTBOX_H

#include "core/record.h"

#define HX_OUTBOX_TYPE_PREFIX "dev.hapax.operation."

/* Zero is no kind, so that a row which holds nothing is seen to be wrong. */
enum hx_outbox_kind {
    HX_OUTBOX_NOTHING,
#define HX_OUTBOX_KIND(NAME, text, doc) HX_OUTBOX_##NAME,
#include "core/outbox.def"
    HX_OUTBOX_KIND_COUNT
};

/* How far an event has come. The order matters: below DELIVERED it holds back what comes behind it
 * for the same operation. */
enum hx_outbox_place {
    HX_OUTBOX_PENDING,
    HX_OUTBOX_PARKED, /* tried in vain too often; a person must say what becomes of it */
    HX_OUTBOX_DELIVERED,
    HX_OUTBOX_DROPPED, /* by a person */
    HX_OUTBOX_PLACE_COUNT
};

/* The state of one transition, as far as events depend on it. */
struct hx_outbox_view {
    enum hx_op_state state; /* ABSENT = there was no row */
    enum hx_reason reason;
    bool needs_human;
    bool is_superseded;
    bool is_disputed;
};

enum { HX_OUTBOX_KINDS_MAX = 4, HX_OUTBOX_TRIES_MAX = 20 };

/* What the transition between the two makes known, in order. Returns how many. */
unsigned hx_outbox_kinds(const struct hx_outbox_view *before, const struct hx_outbox_view *after,
                         enum hx_outbox_kind ret_kinds[HX_OUTBOX_KINDS_MAX]);
struct hx_outbox_view hx_outbox_view_of(const struct hx_record *record);

const char *hx_outbox_kind_name(enum hx_outbox_kind kind);
const char *hx_outbox_place_name(enum hx_outbox_place place);

/* No event waits longer than that, whatever a receiver asks for. */
#define HX_OUTBOX_WAIT_MAX_MS ((int64_t)24 * 60 * 60 * 1000)

/* How long to wait after the try of that number (from 1) came to nothing: anything up to base_ms
 * doubled with every try, at most max_ms, and never less than the receiver asked for
 * (retry_after_ms; negative = it said nothing). `random` is any number. */
int64_t hx_outbox_wait_ms(uint32_t tries, int64_t base_ms, int64_t max_ms, int64_t retry_after_ms,
                          uint64_t random);
/* Is it parked after that many tries? */
bool hx_outbox_is_used_up(uint32_t tries);

#endif
