/* SPDX-License-Identifier: MIT */
/*
 * What the operator declared about a tool: may it be sent again, how long may it take, what does a
 * call without a key mean. A snapshot is stored with each operation, so that a changed
 * configuration never changes the rules for work already begun.
 */
#ifndef HX_CORE_CONTRACT_H
#define HX_CORE_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

enum hx_tool_class {
    HX_CLASS_OPAQUE, /* the default: nothing is known, so nothing is ever sent twice */
    HX_CLASS_IDEMPOTENT,
    HX_CLASS_KEYED, /* takes our effect key downstream */
    HX_CLASS_PROBEABLE,
    HX_CLASS_READ_ONLY /* passes through, no ledger */
};

enum hx_repeat {
    HX_REPEAT_LOST,
    HX_REPEAT_WINDOW,
    HX_REPEAT_ASK,
    HX_REPEAT_REQUIRE_KEY,
    HX_REPEAT_SEPARATE
};

enum hx_fresh_key { HX_FRESH_KEY_WARN, HX_FRESH_KEY_ASK, HX_FRESH_KEY_REFUSE };

enum hx_cancel_upstream {
    HX_CANCEL_UPSTREAM_USER,
    HX_CANCEL_UPSTREAM_NEVER,
    HX_CANCEL_UPSTREAM_ALWAYS
};

enum hx_approval { HX_APPROVAL_NEVER, HX_APPROVAL_ALWAYS, HX_APPROVAL_WHEN };

#define HX_UNDECLARED_MS (-1)

struct hx_contract {
    enum hx_tool_class tool_class;
    enum hx_repeat repeat;
    enum hx_fresh_key fresh_key;
    enum hx_cancel_upstream cancel_upstream;
    enum hx_approval approval;
    bool is_reorder_safe;
    bool has_probe;
    bool retries_after_proof;
    uint32_t attempts_max;
    int64_t timeout_ms;      /* 0 = none while a caller waits */
    int64_t idle_timeout_ms; /* 0 = none */
    int64_t orphan_timeout_ms;
    int64_t join_wait_ms;
    int64_t repeat_window_ms;
    int64_t overlap_ms;
    int64_t dedupe_horizon_ms;  /* HX_UNDECLARED_MS = never sent again */
    int64_t in_flight_bound_ms; /* HX_UNDECLARED_MS = absence cannot be proved */
    int64_t visibility_lag_ms;
    int64_t payload_retention_ms;
    int64_t row_retention_ms;
    int64_t target; /* what stood behind the server's name at the first attempt; 0 = not told */
};

/* The defaults of docs/architecture.md for a tool of which nothing was declared. */
struct hx_contract hx_contract_default(void);

/* The stored text form: "class=opaque repeat=lost …", stable across versions: unknown words are
 * ignored when read, missing ones take the default. */
void hx_contract_format(const struct hx_contract *contract, struct hx_buf *ret_text);
struct hx_contract hx_contract_parse(struct hx_span text);

bool hx_contract_eq(const struct hx_contract *a, const struct hx_contract *b);

const char *hx_tool_class_name(enum hx_tool_class tool_class);
const char *hx_repeat_name(enum hx_repeat repeat);
/* False when `text` names none. */
bool hx_tool_class_parse(struct hx_span text, enum hx_tool_class *ret_class);
bool hx_repeat_parse(struct hx_span text, enum hx_repeat *ret_repeat);

#endif
