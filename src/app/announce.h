/* SPDX-License-Identifier: MIT */
/*
 * The outbox of a process, as its settings say.
 */
#ifndef HX_APP_ANNOUNCE_H
#define HX_APP_ANNOUNCE_H

#include "app/settings.h"
#include "engine/gateway.h"
#include "loop/loop.h"

/* *ret_courier is NULL when there is no outbox. 0, or a fault for a file that cannot be used.
 * Borrows the settings. */
int hx_announce_open(struct hx_loop *loop, const struct hx_settings *settings,
                     struct hx_courier **ret_courier) HX_MUST_CHECK;
struct hx_courier *hx_announce_close(struct hx_courier *courier);
void hx_announce_options(const struct hx_settings *settings, struct hx_gateway_options *options);

#endif
