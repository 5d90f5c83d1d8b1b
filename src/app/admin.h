/* SPDX-License-Identifier: MIT */
/*
 * The admin API: a small HTTP API on a Unix socket or a port of this machine, with tokens of its
 * own, by which people and programs look at operations and decide about them, as `hapax ops` does:
 * the same decisions, by the same rules (engine/decide.h), in the same words. docs/admin.md says
 * what it takes and answers. It runs inside the process whose ledger it is, and runs no tool.
 */
#ifndef HX_APP_ADMIN_H
#define HX_APP_ADMIN_H

#include "app/settings.h"
#include "engine/gateway.h"
#include "loop/loop.h"

struct hx_admin;

struct hx_admin_options {
    struct hx_loop *loop;
    struct hx_gateway *gateway;
    struct hx_clock *clock;
    const struct hx_settings *settings;
    const char *ledger;  /* its path: beside it stands what must not be shown */
    const char *command; /* for what is said on standard error */
};

/* *ret_admin is NULL when the settings want none. A fault when it cannot listen. */
int hx_admin_open(const struct hx_admin_options *options,
                  struct hx_admin **ret_admin) HX_MUST_CHECK;
/* Takes what came. True when there was anything. Accepts NULL, as do the others. */
bool hx_admin_turn(struct hx_admin *admin);
/* No new requests; answers go out. */
void hx_admin_drain(struct hx_admin *admin);
/* After the gateway. */
struct hx_admin *hx_admin_free(struct hx_admin *admin);

#endif
