/* SPDX-License-Identifier: MIT */
/*
 * The names whose members are not shown (json/redact.h), the same for all who show a ledger.
 *
 * A ledger is looked into by processes that never saw a configuration, `hapax ops` above all. So
 * every process that runs tools adds the names of its settings to a file beside the ledger,
 * LEDGER-redact, one a line. Names are only added: what one process was told to hide, no other
 * shows. A person takes a name out by taking its line out. When the file cannot be used, nothing is
 * known to be safe to show, so that is a fault and never an empty list.
 */
#ifndef HX_APP_REDACTION_H
#define HX_APP_REDACTION_H

#include "base/arena.h"
#include "json/redact.h"

enum { HX_REDACTION_NAMES_MAX = 256 };

struct hx_redaction {
    struct hx_redact_names names; /* points into this object, which therefore stays where it is */
    struct hx_span items[HX_REDACTION_NAMES_MAX];
    struct hx_arena arena;
};

void hx_redaction_init(struct hx_redaction *redaction);
void hx_redaction_fini(struct hx_redaction *redaction);

/* All return 0 or a fault. */

/* One that is there already is not added again. */
int hx_redaction_add(struct hx_redaction *redaction, struct hx_span name) HX_MUST_CHECK;
/* Adds what is kept with the ledger, of which `ledger` is the path; nothing when nothing is. */
int hx_redaction_read(struct hx_redaction *redaction, const char *ledger) HX_MUST_CHECK;
/* Makes the two the same: what the ledger lacks is kept with it, what the other lacks is added. */
int hx_redaction_keep(struct hx_redaction *redaction, const char *ledger) HX_MUST_CHECK;

#endif
