/* SPDX-License-Identifier: MIT */
/*
 * `hapax serve`: the process behind a checked configuration.
 */
#ifndef HX_APP_SERVE_H
#define HX_APP_SERVE_H

#include "app/config.h"

/* Returns the exit status. Borrows `config` until then. */
int hx_serve(const struct hx_config *config);

#endif
