/* SPDX-License-Identifier: MIT */
/*
 * Publishing the outbox: one process of those on a ledger hands the events that wait to a courier,
 * in the order of each operation, and notes what came of it. Internal to engine/.
 *
 * It is never in the way of a call: it has a bounded number under way, its notes are commits
 * without a sync, and nothing waits for it but the last two seconds of a process that leaves.
 */
#ifndef HX_ENGINE_PUBLISH_H
#define HX_ENGINE_PUBLISH_H

#include "base/list.h"
#include "core/outbox.h"
#include "engine/timers.h"
#include "port/courier.h"
#include "port/store.h"

struct hx_gateway;

struct hx_publisher {
    struct hx_timer look;   /* when to ask the ledger next */
    struct hx_timer linger; /* ends the wait of a process that leaves */
    struct hx_list flights; /* struct flight: with the courier, or being noted */
    uint32_t flight_count;
    uint64_t next_ticket;
    struct hx_mono paused_until; /* the receiver asked for it */
    struct hx_mono retry;        /* when the first of those that we put off is due; 0 = none */
    struct hx_mono counted;      /* when the waiting ones were counted */
    bool is_publisher;
    bool is_asking; /* a request to the ledger is under way */
    bool is_dry;    /* the last look found nothing that is due */
    bool must_rest; /* it has lingered enough */

    uint64_t delivered;
    uint64_t failed;
    uint64_t parked;
    uint64_t waiting_pending; /* in the ledger, as counted now and then */
    uint64_t waiting_parked;
};

void hx_publish_begin(struct hx_gateway *gateway);
void hx_publish_end(struct hx_gateway *gateway);
/* A transition was committed here: there may be something to publish. */
void hx_publish_stir(struct hx_gateway *gateway);
/* Takes the courier's reports. True when there was any. */
bool hx_publish_take(struct hx_gateway *gateway);
/* Every turn: `is_leaving` = all else is done, or nearly so. */
void hx_publish_leave(struct hx_gateway *gateway, bool is_leaving);
/* Nothing that a process which leaves should still wait for. */
bool hx_publish_is_resting(const struct hx_gateway *gateway);
/* A request of ours has come back; `flight` is what it was about, or NULL. */
void hx_publish_stored(struct hx_gateway *gateway, struct hx_store_request *done, void *flight);

#endif
