/* SPDX-License-Identifier: MIT */
/*
 * Records, moments and contracts for tests of the core: small, valid, and all different enough to
 * be told apart.
 */
#ifndef HX_KIT_OPS_H
#define HX_KIT_OPS_H

#include "core/op.h"

/* An id, a digest and an owner token that carry `number`. */
struct hx_id kit_id(unsigned number);
struct hx_digest kit_digest(unsigned number);
/* `ms` after the start of boot `boot`; wall time follows, one hour per boot ahead. */
struct hx_now kit_now(unsigned boot, int64_t ms);

/* A contract of this class: keyed tools have a horizon of one day, in-flight bound one minute. */
struct hx_contract kit_contract(enum hx_tool_class tool_class);

/* A record that nobody has begun: state ABSENT, a key, owner principal "1000". */
struct hx_record kit_record(const struct hx_contract *contract);
/* Takes it on to attempt 1, open, owned by kit_id(owner), claimed at `now`. */
void kit_claim(struct hx_record *record, unsigned owner, struct hx_now now);
void kit_mark(struct hx_record *record, struct hx_now now);
/* A result whose bytes are `text`, which must outlive it. */
struct hx_outcome kit_outcome(const char *text);

#endif
