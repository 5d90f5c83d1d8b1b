/* SPDX-License-Identifier: MIT */
/*
 * What the commands of `hapax ops` share: the ledger they look into, and the way out to the reader.
 */
#ifndef HX_APP_OPS_H
#define HX_APP_OPS_H

#include "adapter/clock_os/clock_os.h"
#include "adapter/store_sqlite/inspect.h"
#include "app/commands.h"
#include "app/ledger_path.h"
#include "app/ops_options.h"
#include "app/redaction.h"
#include "json/writer.h"

#define HX_EXIT_ABSENT 3    /* no such operation, or the name fits several */
#define HX_EXIT_NO_LEDGER 4 /* it cannot be opened */

struct hx_ops {
    struct hx_ops_options options;
    char path[HX_LEDGER_PATH_MAX];
    char transport_dir[HX_LEDGER_PATH_MAX];
    char principal[32]; /* the owner of the ledger's file, as calls over stdio carry him */
    struct hx_clock_os clock;
    struct hx_store_sqlite_options store_options;
    struct hx_inspect *inspect;    /* open, except while a decision is carried out */
    struct hx_arena arena;         /* rows and bytes for the life of the command */
    struct hx_now now;             /* at the beginning */
    struct hx_redaction redaction; /* what show and export leave out */
    FILE *out;                     /* fails for good once nobody reads it any more */
    bool is_terminal;
};

/* Says what went wrong, "hapax ops COMMAND: …", and returns `status`. */
int hx_ops_fail(const struct hx_ops *ops, int status, const char *format, ...) HX_PRINTF(3, 4);
/* The same from the last fault. */
int hx_ops_fault(const struct hx_ops *ops, int status);

/* Opens and closes the inspection. 0, or the exit status after having said why. */
int hx_ops_open(struct hx_ops *ops) HX_MUST_CHECK;
void hx_ops_close(struct hx_ops *ops);

/* Reads what must not be shown; nothing when the options want everything. 0, or the exit status
 * after having said why. */
int hx_ops_read_redaction(struct hx_ops *ops) HX_MUST_CHECK;

/* The operation that options.id names, into the arena. 0, or the exit status after having said why.
 */
int hx_ops_find(struct hx_ops *ops, struct hx_store_found *ret_found) HX_MUST_CHECK;

/* False when nobody reads any more: stop, there is nothing to complain about. */
/* From now on INT and TERM are noted instead of ending us; nothing waits for a reader then. */
void hx_ops_take_signals(void);
bool hx_ops_is_interrupted(void);

static inline bool hx_ops_is_read(const struct hx_ops *ops)
{
    return ferror(ops->out) == 0;
}

/* One line on what waits in the outbox, if anything does. */
void hx_ops_print_outbox(struct hx_ops *ops);
/* What was announced of an operation, if anything was, as lines or as the member "events". 0, or a
 * fault. */
int hx_ops_print_events(struct hx_ops *ops, const struct hx_id *op) HX_MUST_CHECK;
int hx_ops_put_events(struct hx_ops *ops, const struct hx_id *op,
                      struct hx_json_writer *writer) HX_MUST_CHECK;

/* Each carries out one command on an open ledger and returns the exit status. */
int hx_ops_list(struct hx_ops *ops);
int hx_ops_show(struct hx_ops *ops);
int hx_ops_watch(struct hx_ops *ops);
int hx_ops_decide(struct hx_ops *ops);
int hx_ops_outbox(struct hx_ops *ops);
int hx_ops_export(struct hx_ops *ops);
int hx_ops_size(struct hx_ops *ops);
int hx_ops_verify(struct hx_ops *ops);
int hx_ops_recover(struct hx_ops *ops);

#endif
