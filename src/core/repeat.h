/* SPDX-License-Identifier: MIT */
/*
 * What a call without a key means when an equal one is known (semantics section 5), and what a key
 * seen for the first time means when an equal operation is unresolved (section 4).
 */
#ifndef HX_CORE_REPEAT_H
#define HX_CORE_REPEAT_H

#include "core/op.h"

/* One operation of the same twin digest, with what is known of its waiters at this moment. */
struct hx_twin {
    const struct hx_record *record;
    bool has_live_waiter;        /* somebody can still read its answer */
    bool is_waiter_on_same_line; /* that waiter is on the caller's own connection or session */
    int64_t waiter_waited_ms;    /* the longest wait among those on the same line */
};

enum hx_repeat_verdict {
    HX_REPEAT_NEW,       /* a new operation */
    HX_REPEAT_ADOPT,     /* it is the operation `index` */
    HX_REPEAT_SUSPECT,   /* ask a person, else refuse with REPEAT_SUSPECTED */
    HX_REPEAT_NEEDS_KEY, /* refuse with KEY_REQUIRED */
    /* Keyed, and the twin `index` under another key is unresolved: counted, whichever it is. */
    HX_REPEAT_FRESH_WARN,  /* run */
    HX_REPEAT_FRESH_ASK,   /* ask a person, else refuse */
    HX_REPEAT_FRESH_REFUSE /* refuse */
};

struct hx_repeat_decision {
    enum hx_repeat_verdict verdict;
    unsigned index; /* into the twins; ADOPT, SUSPECT and FRESH_* */
};

/* `twins` in order of creation, oldest first. */
struct hx_repeat_decision hx_repeat_decide(const struct hx_contract *contract,
                                           const struct hx_twin *twins, unsigned count,
                                           const struct hx_now *now);
struct hx_repeat_decision hx_repeat_decide_fresh_key(const struct hx_contract *contract,
                                                     const struct hx_twin *twins, unsigned count,
                                                     const struct hx_now *now);

/* May the row leave the twin index? True when no later call can mean it any more. */
bool hx_repeat_is_cold(const struct hx_record *record, const struct hx_now *now);

#endif
