/* SPDX-License-Identifier: MIT */
/*
 * The recovery ladder for an unknown outcome: which rungs the contract allows, and when to look
 * again.
 */
#ifndef HX_CORE_RECOVER_H
#define HX_CORE_RECOVER_H

#include "core/op.h"

enum hx_rung {
    HX_RUNG_EVIDENCE, /* what is already here: late reply, spool, callback */
    HX_RUNG_HANDLE,   /* a durable handle of the upstream's */
    HX_RUNG_RESEND,   /* the same effect key again */
    HX_RUNG_PROBE,    /* a read-only tool that looks */
    HX_RUNG_PERSON,
    HX_RUNG_COUNT
};

struct hx_rungs {
    bool is_allowed[HX_RUNG_COUNT];
};

/* What may be tried now for an operation that is unknown. `has_handle` says that the upstream gave
 * one. */
struct hx_rungs hx_recover_rungs(const struct hx_record *record, const struct hx_facts *facts,
                                 const struct hx_now *now, bool has_handle);

/* How long after the `tries`-th look (0 = none yet) the next one is due: 5 s, 15 s, 45 s, 2 min, 5
 * min, then every 10 min. */
int64_t hx_recover_delay_ms(unsigned tries);

/* Probes that found nothing, in this process. They count only from the time on at which absence can
 * be proved at all, and only some time apart: an effect may be seen late. */
enum { HX_NEGATIVES_NEEDED = 3, HX_NEGATIVES_APART_MS = 10 * 1000 };

struct hx_negatives {
    unsigned count;
    struct hx_mono last;
};

/* A probe that was sent now, while absence was provable or not, found nothing. True when that is
 * enough: it did not happen. */
bool hx_recover_add_negative(struct hx_negatives *negatives, bool is_provable, struct hx_mono now);
/* When the next probe is due, from now, after `tries` of them. */
int64_t hx_recover_probe_delay_ms(unsigned tries, const struct hx_negatives *negatives);

/* May it come to be sent again though nobody waits for it, whatever becomes of its sender? Not what
 * somebody has asked to cancel: the same request would tell what came of it, and would run it if
 * nothing had. */
bool hx_recover_may_send_alone(const struct hx_record *record, const struct hx_now *now);
/* So many looks are over for one that takes it up from the ledger: each brought a send. */
unsigned hx_recover_looks_done(const struct hx_record *record);

/* After this long unknown, a person is needed. */
bool hx_recover_needs_human(const struct hx_record *record, const struct hx_now *now);

const char *hx_rung_name(enum hx_rung rung);

#endif
