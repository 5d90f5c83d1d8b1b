/* SPDX-License-Identifier: MIT */
/*
 * The other gateways on this ledger and host: who waits for an operation, and "it changed".
 * Everything here is a hint with a deadline: no answer means "not live", and a lost wake-up costs
 * one poll.
 *
 * A neighbour is named by its owner token. Threads: the loop thread. The adapter appends events to
 * the inbox it was given.
 */
#ifndef HX_PORT_NEIGHBOUR_H
#define HX_PORT_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/list.h"

enum hx_neighbour_event_type {
    HX_NEIGHBOUR_ANSWER,  /* to our question `ticket`: `is_live`; false after 2 s of silence */
    HX_NEIGHBOUR_ASKED,   /* somebody asks whether `operation` has a live waiter here: reply */
    HX_NEIGHBOUR_CHANGED, /* `operation`, which we watch, has changed */
    HX_NEIGHBOUR_STOP     /* stop draining now: too many drain */
};

struct hx_neighbour_event {
    struct hx_list node;
    enum hx_neighbour_event_type type;
    uint64_t ticket;
    struct hx_id operation;
    bool is_live;
};

struct hx_neighbourhood;

struct hx_neighbourhood_ops {
    /* Asks `who` whether `operation` has a live waiter there; ANSWER with `ticket` follows. */
    void (*ask)(struct hx_neighbourhood *neighbours, const struct hx_id *who,
                const struct hx_id *operation, uint64_t ticket);
    /* Answers an ASKED event. */
    void (*reply)(struct hx_neighbourhood *neighbours, uint64_t ticket, bool is_live);
    /* Asks `who` to say when `operation` changes. Repeating it is harmless. */
    void (*watch)(struct hx_neighbourhood *neighbours, const struct hx_id *who,
                  const struct hx_id *operation);
    /* Tells those who watch `operation` here that it changed. */
    void (*changed)(struct hx_neighbourhood *neighbours, const struct hx_id *operation);
    /* Tells `who` that `operation` changed, whether he watches it or works on it. NULL: he finds
     * out for himself. */
    void (*tell)(struct hx_neighbourhood *neighbours, const struct hx_id *who,
                 const struct hx_id *operation);
};

struct hx_neighbourhood {
    const struct hx_neighbourhood_ops *ops;
    struct hx_list *inbox; /* of struct hx_neighbour_event */
};

struct hx_neighbour_event *hx_neighbour_event_new(enum hx_neighbour_event_type type);
struct hx_neighbour_event *hx_neighbour_event_free(struct hx_neighbour_event *event);

#endif
