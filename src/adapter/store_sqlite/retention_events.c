/* SPDX-License-Identifier: MIT */
/*
 * Events of the outbox go some time after they were delivered or dropped. Those that were not stay,
 * however old: what becomes of them is for a person to say. Not synced: what a crash of the host
 * brings back is found again.
 */
#include "adapter/store_sqlite/retention.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

enum { EVENTS_PER_STEP = 512 };

struct old_events {
    int64_t numbers[EVENTS_PER_STEP];
    int count;
    int64_t used_age_max;
    int64_t after;
    bool has_more;
};

static int look_for_old(struct hx_sweep *sweep, struct hx_ledger *ledger, struct old_events *old)
{
    int rc, looked = 0;
    int64_t keep_ms = ledger->options->event_keep_ms;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_EVENTS);
    if (stmt == NULL)
        return HX_E_STORE;
    old->used_age_max = hx_ledger_age_ms(ledger) - (keep_ms > 0 ? keep_ms : 7 * DAY_MS);
    sqlite3_bind_int64(stmt, 1, sweep->after);
    sqlite3_bind_int(stmt, 2, EVENTS_PER_STEP);
    while ((rc = hx_ledger_step(ledger, stmt)) == 1) {
        looked++;
        old->after = sqlite3_column_int64(stmt, 0);
        bool is_over = sqlite3_column_int(stmt, 1) >= HX_OUTBOX_DELIVERED;
        if (is_over && sqlite3_column_int64(stmt, 2) <= old->used_age_max)
            old->numbers[old->count++] = old->after;
    }
    sqlite3_reset(stmt);
    old->has_more = looked == EVENTS_PER_STEP;
    return HX_TRACE(rc);
}

static int remove_old(struct hx_ledger *ledger, const struct old_events *old)
{
    int rc = hx_ledger_begin(ledger, HX_TXN_LAZY);
    if (rc != 0)
        return HX_E_STORE;
    for (int i = 0; rc == 0 && i < old->count; i++) {
        sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_EVENT);
        if (stmt != NULL) {
            sqlite3_bind_int64(stmt, 1, old->numbers[i]);
            sqlite3_bind_int64(stmt, 2, old->used_age_max);
        }
        rc = hx_ledger_run(ledger, stmt);
    }
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    return hx_ledger_commit(ledger) == 0 ? 0 : HX_E_STORE;
}

int hx_sweep_events(struct hx_sweep *sweep, struct hx_ledger *ledger)
{
    struct old_events old = {.after = sweep->after};
    /* How long they are kept is said by those that are set up for the outbox. */
    if (!ledger->options->keeps_outbox && ledger->meta.outbox_since.ms != 0)
        return 0;
    int rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    rc = look_for_old(sweep, ledger, &old);
    hx_ledger_rollback(ledger);
    if (rc == 0 && old.count > 0)
        rc = remove_old(ledger, &old);
    if (rc < 0)
        return HX_TRACE(rc);
    sweep->after = old.after;
    return old.has_more ? HX_SWEEP_MORE : 0;
}
