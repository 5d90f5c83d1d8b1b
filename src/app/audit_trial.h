/* SPDX-License-Identifier: MIT */
/*
 * The trials, in the order in which they are played.
 */
#ifndef HX_APP_AUDIT_TRIAL_H
#define HX_APP_AUDIT_TRIAL_H

#include "app/audit.h"

struct hx_audit_stage;

/* The moment at which the first call is cut. */
enum hx_audit_moment {
    HX_AUDIT_ACTED, /* its effect has been counted */
    HX_AUDIT_EARLY, /* a quarter of the way to its answer */
    HX_AUDIT_LATE   /* acted, and older than a second: a client's patience */
};

enum hx_audit_cut {
    HX_AUDIT_CUT_NONE,
    HX_AUDIT_CUT_CANCEL,     /* the client says that it has given up */
    HX_AUDIT_CUT_SILENT,     /* it does not say so */
    HX_AUDIT_CUT_CONNECTION, /* HTTP: the connection is reset; the session lives */
    HX_AUDIT_CUT_CLIENT,     /* SIGKILL of a client in a process of its own */
    HX_AUDIT_CUT_SERVER,     /* SIGKILL of the process that was started */
    HX_AUDIT_CUT_TREE,       /* and of all that it started */
    HX_AUDIT_CUT_BEHIND      /* only of the last ones in that tree */
};

enum hx_audit_where { HX_AUDIT_ANYWHERE, HX_AUDIT_STDIO, HX_AUDIT_HTTP };

struct hx_audit_trial {
    const char *name;  /* for --only, --skip and --json */
    const char *title; /* for the table */
    enum hx_audit_kind kind;
    enum hx_audit_cut cut;
    enum hx_audit_moment moment;
    enum hx_audit_where where;
    bool has_key;
    int64_t wanted;
    bool (*play)(struct hx_audit_stage *stage, const struct hx_audit_trial *trial);
};

size_t hx_audit_trial_count(void);
const struct hx_audit_trial *hx_audit_trial(size_t index);

/* Why a trial cannot be played on this target, whatever happens; NULL when it can. */
const char *hx_audit_trial_refusal(const struct hx_audit_trial *trial,
                                   const struct hx_audit_plan *plan);

/* Plays seen->trial in this process, which must be a fresh one: it adopts and ends every process
 * that the trial starts. */
void hx_audit_trial_play(const struct hx_audit_plan *plan, struct hx_audit_seen *seen);

#endif
