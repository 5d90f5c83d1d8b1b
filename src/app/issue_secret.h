/* SPDX-License-Identifier: MIT */
/*
 * The secret of a ledger by which keys are handed out (engine/issue.c), in a file beside it. All
 * processes on the ledger use the same one; it is made once, whole or not at all. Without it keys
 * that were handed out are no longer recognised as such, which refuses calls and runs nothing.
 */
#ifndef HX_APP_ISSUE_SECRET_H
#define HX_APP_ISSUE_SECRET_H

#include "base/assert.h"
#include "port/rand.h"

enum { HX_ISSUE_SECRET_SIZE = 32 };

/* Reads it, or makes it when there is none. 0, or a fault. */
int hx_issue_secret_get(const char *ledger, struct hx_rand *rand,
                        char ret_secret[HX_ISSUE_SECRET_SIZE]) HX_MUST_CHECK;

#endif
