/* SPDX-License-Identifier: MIT */
/*
 * Who carries events of the outbox to their receiver, and says what came of each: exactly one
 * report for every event that was handed over, after a bounded time, in any order.
 *
 * "Not delivered" says nothing of what the receiver did: his answer may be lost. The same event is
 * handed over again then, under the same id, by which he knows it.
 */
#ifndef HX_PORT_COURIER_H
#define HX_PORT_COURIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/span.h"
#include "base/time.h"

/* A receiver may ask for a day at most. */
enum { HX_COURIER_WORDS_MAX = 256, HX_COURIER_WAIT_MAX_S = 24 * 60 * 60 };

struct hx_courier_report {
    uint64_t ticket;
    bool is_delivered;
    int64_t retry_after_ms;           /* the receiver asked for so long; -1 = it did not */
    char words[HX_COURIER_WORDS_MAX]; /* why not, for people; never what was sent */
};

struct hx_courier;

struct hx_courier_ops {
    /* Begins to carry `body`, which is copied. `now` is for the signature. */
    void (*send)(struct hx_courier *courier, uint64_t ticket, const struct hx_id *event,
                 struct hx_span body, struct hx_wall now);
    /* The next report; false when there is none. */
    bool (*take_report)(struct hx_courier *courier, struct hx_courier_report *ret_report);
};

struct hx_courier {
    const struct hx_courier_ops *ops;
};

#endif
