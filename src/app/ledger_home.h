/* SPDX-License-Identifier: MIT */
/*
 * The ledger of a process that runs tools, and its neighbours on it. Without a ledger everything
 * that needs none still works, and each guarded call is told why it does not.
 */
#ifndef HX_APP_LEDGER_HOME_H
#define HX_APP_LEDGER_HOME_H

#include "adapter/clock_os/clock_os.h"
#include "adapter/store_sqlite/store_sqlite.h"
#include "app/issue_secret.h"
#include "app/ledger_path.h"
#include "app/redaction.h"
#include "loop/loop.h"
#include "port/neighbour.h"

struct hx_ledger_home {
    struct hx_clock_os *clock; /* borrowed */
    struct hx_store_sqlite_options store_options;
    struct hx_store *store;
    struct hx_neighbourhood *neighbours; /* NULL: by polling, then */
    struct hx_list neighbour_inbox;
    struct hx_loop_fd *watch;
    bool has_ledger;
    bool keeps_outbox; /* as the settings want it */
    int64_t event_keep_ms;
    char path[HX_LEDGER_PATH_MAX];
    char transport_dir[HX_LEDGER_PATH_MAX];
    char secret[HX_ISSUE_SECRET_SIZE]; /* by which keys are handed out */
    bool has_secret;
    struct hx_redaction redaction; /* ours, and once it is open, those of all on the ledger */
    struct hx_buf ops_options;     /* empty when the ledger is where ops looks by itself */
};

/* Finds out where it is. 0, or 1 with a complaint. */
int hx_ledger_home_find(struct hx_ledger_home *home, const struct hx_settings *settings,
                        struct hx_complaint *complaint) HX_MUST_CHECK;
/* Opens it, or says on standard error, for `command`, why there is none. `session_idle_ms`: see
 * struct hx_store_sqlite_options. */
void hx_ledger_home_open(struct hx_ledger_home *home, struct hx_clock_os *clock,
                         struct hx_loop *loop, const char *command, int64_t session_idle_ms);
/* Further names that are not shown, beside those of the settings. They are kept with the ledger as
 * soon as it is open. 0, or 1 with a complaint. */
int hx_ledger_home_redact(struct hx_ledger_home *home, const struct hx_text_list *names,
                          struct hx_complaint *complaint) HX_MUST_CHECK;
/* Absent when there is none that can be used. */
struct hx_span hx_ledger_home_secret(const struct hx_ledger_home *home);
void hx_ledger_home_close(struct hx_ledger_home *home);

#endif
