/* SPDX-License-Identifier: MIT */
/*
 * What the tool's contract allows. See policy.c.
 */
#ifndef HX_CORE_POLICY_H
#define HX_CORE_POLICY_H

#include "core/op.h"

/* The dedupe horizon still covers another attempt that starts now: now + time it may take +
 * in-flight bound lies inside it. Only for keyed tools; an undeclared horizon covers nothing. */
bool hx_is_inside_horizon(const struct hx_record *record, const struct hx_now *now);
/* How long a tool that says "not now", and no time, is left alone before it is sent to again. */
enum { HX_REFUSED_WAIT_MS = 1000 };

/* The contract allows, in itself, another attempt with the same effect key: what decides whether
 * it is worth waiting for a server that can be sent one. */
bool hx_is_resend_declared(const struct hx_contract *contract);
/* The contract allows another attempt with the same effect key, to be begun now. */
bool hx_may_send_again(const struct hx_record *record, const struct hx_facts *facts,
                       const struct hx_now *now);
/* Attempts are left: every send counts, also the ladder's. */
bool hx_has_attempts_left(const struct hx_record *record);
/* READY: the not-before time has passed. */
bool hx_is_due(const struct hx_record *record, const struct hx_now *now);
/* Δ has passed since the last mark with the sender gone: absence may be believed. */
bool hx_absence_is_provable(const struct hx_record *record, const struct hx_facts *facts,
                            const struct hx_now *now);

/* What an answer in our own words says when it comes from an upstream that is such a gateway too
 * (it has advertised the extension): about the attempt whose effect key was its key. */
enum hx_inner {
    HX_INNER_OUTCOME,     /* the tool's own answer */
    HX_INNER_POLL,        /* not over: the attempt stays open, the same key is asked again */
    HX_INNER_UNKNOWN,     /* it does not know either */
    HX_INNER_REFUSED,     /* nothing happened, and nothing will under this key */
    HX_INNER_UNAVAILABLE, /* nothing happened yet, later may do */
    HX_INNER_GONE         /* it happened; what it answered is kept no more */
};
/* What it was sent under this key before the request that it answers: what refuses this one without
 * having looked the key up says nothing of the others. */
enum hx_inner_before {
    HX_INNER_NOTHING,          /* so that what sends nothing now has sent nothing at all */
    HX_INNER_EARLIER_ATTEMPTS, /* of which the core knows what to think */
    HX_INNER_THIS_ATTEMPT      /* and it said that it was not over */
};
struct hx_inner_word {
    enum hx_answer code;
    bool is_marked;      /* as a word of a gateway; without that, a tool may have chosen it */
    bool is_said_unsafe; /* it says of itself that it may have happened */
};
enum hx_inner hx_inner_verdict(const struct hx_inner_word *word, enum hx_inner_before before);

#endif
