/* SPDX-License-Identifier: MIT */
/*
 * Neighbours over datagram sockets in the ledger's directory, one for each keeper, named by its
 * owner token.
 *
 *     struct hx_neighbour_unix_options options = {.dir = ledger_dir, .self = owner};
 *     struct hx_neighbourhood *all = hx_neighbour_unix_new(loop, &inbox, &options);
 *     all->ops->ask(all, &who, &operation, 1);  // ANSWER 1, within 2 s
 *     on HX_NEIGHBOUR_ASKED: all->ops->reply(all, event->ticket, is_live);
 *     hx_neighbour_unix_free(all);
 *
 * Opened before anything is claimed: a neighbour whose socket is not there counts as dead. Only
 * processes of the same user can reach the sockets (mode 0600), and what they say is checked all
 * the same.
 */
#ifndef HX_ADAPTER_NEIGHBOUR_UNIX_H
#define HX_ADAPTER_NEIGHBOUR_UNIX_H

#include <stdint.h>

#include "base/assert.h"
#include "loop/loop.h"
#include "port/neighbour.h"

struct hx_neighbour_unix_options {
    const char *dir;           /* of any length; borrowed for the call */
    struct hx_id self;         /* our owner token */
    int64_t answer_timeout_ms; /* 0: 2 s */
};

/* NULL with a fault. Removes the sockets of dead neighbours. */
struct hx_neighbourhood *
hx_neighbour_unix_new(struct hx_loop *loop, struct hx_list *inbox,
                      const struct hx_neighbour_unix_options *options) HX_MUST_CHECK;
/* Accepts NULL. Our questions that are open get no answer any more. */
struct hx_neighbourhood *hx_neighbour_unix_free(struct hx_neighbourhood *neighbours);

/* Tells `who` to stop draining now: too many drain. It gets HX_NEIGHBOUR_STOP. */
void hx_neighbour_unix_stop(struct hx_neighbourhood *neighbours, const struct hx_id *who);

#endif
