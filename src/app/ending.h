/* SPDX-License-Identifier: MIT */
/*
 * How a keeper is asked to end: TERM, INT or HUP. The first drains the gateway, so that what is in
 * hand reaches its outcome; the next one stops it, and what was sent becomes unknown.
 */
#ifndef HX_APP_ENDING_H
#define HX_APP_ENDING_H

#include "engine/gateway.h"
#include "loop/loop.h"

struct hx_ending {
    struct hx_gateway *const *gateway; /* borrowed */
    struct hx_loop_signal *watches[3];
    bool was_asked;
};

/* From here on these signals kill nobody. `gateway` says where the gateway will be when the loop
 * turns: signals are watched before it is made. */
void hx_ending_init(struct hx_ending *ending, struct hx_loop *loop,
                    struct hx_gateway *const *gateway);
/* Also of one that is all zero. Before the loop is freed. */
void hx_ending_fini(struct hx_ending *ending);

#endif
