/* SPDX-License-Identifier: MIT */
/*
 * `hapax serve`: the process behind a checked configuration.
 *
 *     clients ── http_server ── http_front ── sessions of the gateway ── servers
 *
 * One loop thread turns all of it; the ledger has a thread of its own. TERM drains: nothing new is
 * taken, answers go out, and the process ends when its servers have. A second one ends at once.
 */
#ifndef HX_APP_SERVE_H
#define HX_APP_SERVE_H

#include "app/config.h"

/* Returns the exit status. Borrows everything until then; the words are those that `config` was
 * made of, for reading it again. */
int hx_serve(const struct hx_config *config, int argc, char **argv);

#endif
