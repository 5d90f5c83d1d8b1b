/* SPDX-License-Identifier: MIT */
/*
 * Sessions that nobody used for a while, the streams of sessions that ended, and the proofs of
 * processes that are dead. All of it is found again when a crash takes the removal back, so none of
 * it is synced; and each step is small, since calls wait behind it.
 */
#include "adapter/store_sqlite/retention.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

enum { SESSIONS_PER_STEP = 256, STREAMS_PER_STEP = 512, PROCESSES_PER_STEP = 64 };

static int64_t session_idle_ms(const struct hx_ledger *ledger)
{
    return ledger->options->session_idle_ms > 0 ? ledger->options->session_idle_ms : 7 * DAY_MS;
}

static int commit(struct hx_ledger *ledger, int rc)
{
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    return hx_ledger_commit(ledger) == 0 ? 0 : HX_E_STORE;
}

struct idle_sessions {
    int64_t numbers[SESSIONS_PER_STEP];
    int count;
    int64_t used_age_max; /* who was used later stays */
    int64_t after;
    bool has_more;
};

static int look_for_idle(struct hx_sweep *sweep, struct hx_ledger *ledger,
                         struct idle_sessions *idle)
{
    int rc, looked = 0;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_SESSIONS);
    if (stmt == NULL)
        return HX_E_STORE;
    idle->used_age_max = hx_ledger_age_ms(ledger) - session_idle_ms(ledger);
    sqlite3_bind_int64(stmt, 1, sweep->after);
    sqlite3_bind_int(stmt, 2, SESSIONS_PER_STEP);
    while ((rc = hx_ledger_step(ledger, stmt)) == 1) {
        looked++;
        idle->after = sqlite3_column_int64(stmt, 0);
        if (sqlite3_column_int64(stmt, 1) <= idle->used_age_max)
            idle->numbers[idle->count++] = idle->after;
    }
    sqlite3_reset(stmt);
    idle->has_more = looked == SESSIONS_PER_STEP;
    return HX_TRACE(rc);
}

static int remove_idle(struct hx_ledger *ledger, const struct idle_sessions *idle)
{
    int rc = hx_ledger_begin(ledger, HX_TXN_LAZY);
    if (rc != 0)
        return HX_E_STORE;
    for (int i = 0; rc == 0 && i < idle->count; i++) {
        sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_SESSION);
        if (stmt != NULL) {
            sqlite3_bind_int64(stmt, 1, idle->numbers[i]);
            sqlite3_bind_int64(stmt, 2, idle->used_age_max); /* used since: it stays */
        }
        rc = hx_ledger_run(ledger, stmt);
    }
    return HX_TRACE(commit(ledger, rc));
}

int hx_sweep_sessions(struct hx_sweep *sweep, struct hx_ledger *ledger)
{
    struct idle_sessions idle = {.after = sweep->after};
    int rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    rc = look_for_idle(sweep, ledger, &idle);
    hx_ledger_rollback(ledger);
    if (rc == 0 && idle.count > 0)
        rc = remove_idle(ledger, &idle);
    if (rc < 0)
        return HX_TRACE(rc);
    sweep->after = idle.after;
    return idle.has_more ? HX_SWEEP_MORE : 0;
}

/* The next session that has streams: 1 when it ended, 0 when it lives or *ret_number is 0 because
 * there is none, or negative. */
static int next_with_streams(struct hx_ledger *ledger, int64_t after, int64_t *ret_number)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_STREAMS);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, after);
    int rc = hx_ledger_step(ledger, stmt);
    *ret_number = rc == 1 ? sqlite3_column_int64(stmt, 0) : 0;
    bool has_ended = *ret_number != 0 && sqlite3_column_int(stmt, 1) == 0;
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : has_ended;
}

static int remove_streams(struct hx_ledger *ledger, int64_t number, bool *ret_has_more)
{
    int rc = hx_ledger_begin(ledger, HX_TXN_LAZY);
    if (rc != 0)
        return HX_E_STORE;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_STREAM);
    if (stmt != NULL) {
        sqlite3_bind_int64(stmt, 1, number);
        sqlite3_bind_int(stmt, 2, STREAMS_PER_STEP);
    }
    rc = hx_ledger_run(ledger, stmt);
    *ret_has_more = rc == 0 && sqlite3_changes64(ledger->db) == STREAMS_PER_STEP;
    return HX_TRACE(commit(ledger, rc));
}

/* At the beginning of the stage. */
static int remove_proofs(struct hx_ledger *ledger)
{
    struct hx_id dead[PROCESSES_PER_STEP];
    int count = 0, rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PROOF_LIST);
    rc = stmt == NULL ? HX_E_STORE : 1;
    while (rc == 1 && count < PROCESSES_PER_STEP && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        struct hx_id owner;
        if (sqlite3_column_bytes(stmt, 0) != HX_ID_SIZE)
            continue;
        memcpy(&owner, sqlite3_column_blob(stmt, 0), HX_ID_SIZE);
        if (!hx_owners_is_alive(&ledger->owners, &owner))
            dead[count++] = owner;
    }
    sqlite3_reset(stmt);
    hx_ledger_rollback(ledger);
    if (rc < 0 || count == 0)
        return rc < 0 ? HX_TRACE(rc) : 0;
    rc = hx_ledger_begin(ledger, HX_TXN_LAZY);
    if (rc != 0)
        return HX_E_STORE;
    for (int i = 0; rc == 0 && i < count; i++) {
        stmt = hx_ledger_stmt(ledger, HX_SQL_PROOF_DROP);
        if (stmt != NULL)
            sqlite3_bind_blob(stmt, 1, &dead[i], HX_ID_SIZE, SQLITE_STATIC);
        rc = hx_ledger_run(ledger, stmt);
    }
    return HX_TRACE(commit(ledger, rc));
}

int hx_sweep_streams(struct hx_sweep *sweep, struct hx_ledger *ledger)
{
    int64_t number = 0;
    bool has_more = false;
    int has_ended = 0;
    int rc = sweep->after == 0 ? remove_proofs(ledger) : 0;
    if (rc == 0)
        rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    int64_t after = sweep->after;
    for (int i = 0; i < SESSIONS_PER_STEP; i++) {
        has_ended = next_with_streams(ledger, after, &number);
        if (has_ended != 0 || number == 0)
            break;
        after = number;
    }
    hx_ledger_rollback(ledger);
    if (has_ended < 0)
        return HX_TRACE(has_ended);
    if (has_ended == 1) {
        rc = remove_streams(ledger, number, &has_more);
        if (rc < 0)
            return HX_TRACE(rc);
        after = has_more ? number - 1 : number;
    }
    sweep->after = after;
    return number != 0 ? HX_SWEEP_MORE : 0;
}
