/* SPDX-License-Identifier: MIT */
/*
 * What the files of `hapax audit` share: what is audited, what one trial saw, and what that means.
 *
 * A trial makes one intent (or two) known to the server in a way in which clients lose answers, and
 * counts with the user's own command what came of it. It is a process of its own, as the scenes of
 * the demo are, and tells what it saw as plain bytes; audit_verdict.c judges that, and nothing else
 * does.
 */
#ifndef HX_APP_AUDIT_H
#define HX_APP_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/settings.h"

enum { HX_AUDIT_TRIALS_MAX = 40, HX_AUDIT_WORDS_MAX = 200, HX_AUDIT_VALUE_SIZE = 40 };

/* What the first call, which nothing disturbs, tells of the server. */
struct hx_audit_facts {
    bool has_tool;
    bool is_read_only;              /* the tool says so */
    bool is_idempotent;             /* the tool says so */
    bool has_operations;            /* dev.hapax/operations */
    bool has_idempotency;           /* capabilities.tools.idempotency */
    int64_t answer_ms;              /* from the call to its answer */
    char server[64];                /* what it calls itself */
    char tools[HX_AUDIT_WORDS_MAX]; /* some names, when the tool is not there */
};

struct hx_audit_plan {
    char *const *command; /* one of these two is NULL */
    const char *url;
    const struct hx_settings *settings;
    const char *tool;
    const char *arguments; /* the template */
    const char *count;
    int64_t timeout_ms;
    int64_t settle_ms;
    struct hx_key_place key;
    bool has_key;
    bool is_idempotent; /* two equal calls are one, and that is right */
    char run[16];       /* what all values of this run begin with */
    uint32_t number;
    char errors[160]; /* the file for standard error of what is started */
    struct hx_audit_facts facts;
};

/* What a trial needs, or is about. */
enum hx_audit_kind {
    HX_AUDIT_FIRST,    /* one call, answered: does the command count at all? */
    HX_AUDIT_CUT,      /* an answer that is cut, and a retry */
    HX_AUDIT_KEYS,     /* one key several times */
    HX_AUDIT_CONFLICT, /* one key, two calls */
    HX_AUDIT_MEANT     /* two calls, both meant */
};

enum hx_audit_told {
    HX_AUDIT_TOLD_NOTHING, /* no answer in time, or the connection ended */
    HX_AUDIT_TOLD_DONE,    /* a result */
    HX_AUDIT_TOLD_ABSENT,  /* that nothing happened: a code of ours that says it */
    HX_AUDIT_TOLD_UNKNOWN, /* a code of ours that says neither */
    HX_AUDIT_TOLD_ERROR    /* an error of the server's own */
};

/* Plain bytes: it crosses a process boundary. */
struct hx_audit_seen {
    size_t trial;
    bool does_not_apply;              /* `problem` says why; nothing was sent */
    char problem[HX_AUDIT_WORDS_MAX]; /* why it could not be staged; else empty */
    int calls;
    bool is_counted;
    int64_t wanted;
    int64_t effects;
    bool was_cut;         /* nobody had read an answer when the first call was cut */
    bool must_have_acted; /* before it was cut; else it was cut early on purpose */
    int64_t effects_at_cut;
    enum hx_audit_told told;        /* the last caller */
    char words[HX_AUDIT_WORDS_MAX]; /* the same, for a person */
    unsigned left_behind;           /* processes that had to be killed at the end */
    int64_t elapsed_ms;
    struct hx_audit_facts facts; /* FIRST only */
};

enum hx_audit_verdict { HX_AUDIT_KEPT, HX_AUDIT_BROKEN, HX_AUDIT_NOT_SHOWN };

/* Judges; writes the reason, in a few words, unless it is simply kept. */
enum hx_audit_verdict hx_audit_judge(enum hx_audit_kind kind, const struct hx_audit_seen *seen,
                                     char ret_reason[HX_AUDIT_WORDS_MAX]);
const char *hx_audit_verdict_text(enum hx_audit_verdict verdict);

#define HX_AUDIT_EXIT_KEPT 0
#define HX_AUDIT_EXIT_BROKEN 1
#define HX_AUDIT_EXIT_USAGE 2
#define HX_AUDIT_EXIT_NOT_SHOWN 3

/* The exit status for what all trials came to: how many are kept and broken, could not be staged
 * though they should have been, and do not apply. */
struct hx_audit_sum {
    unsigned kept;
    unsigned broken;
    unsigned missed;
    unsigned inapplicable;
};
int hx_audit_exit_status(const struct hx_audit_sum *sum, bool is_strict);

#endif
