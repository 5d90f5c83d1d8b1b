/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/retention.h"

#include "base/crash.h"
#include "core/retention.h"

#define HOUR_MS ((int64_t)60 * 60 * 1000)

enum { ROWS_PER_STEP = 256 };

struct old_row {
    int64_t row;
    struct hx_id id;
    struct hx_old_row judged; /* what the core decides by; its contract is the one below */
    struct hx_contract contract;
    uint64_t blob;
    int64_t created_ms;
};

static int read_row(struct hx_ledger *ledger, sqlite3_stmt *stmt, struct old_row *ret_row)
{
    struct old_row *row = ret_row;
    struct hx_old_row *judged = &row->judged;
    *row = (struct old_row){.row = sqlite3_column_int64(stmt, 0)};
    if (sqlite3_column_bytes(stmt, 1) == HX_ID_SIZE)
        memcpy(&row->id, sqlite3_column_blob(stmt, 1), HX_ID_SIZE);
    int64_t state = sqlite3_column_int64(stmt, 2);
    judged->state =
        state > HX_OP_ABSENT && state < HX_OP_STATE_COUNT ? (enum hx_op_state)state : HX_OP_UNKNOWN;
    const char *bytes = sqlite3_column_blob(stmt, 4);
    struct hx_span key = hx_span(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, 4));
    judged->is_key_timed =
        hx_retention_is_key_timed((enum hx_key_source)sqlite3_column_int64(stmt, 3), key);
    row->created_ms = sqlite3_column_int64(stmt, 5);
    judged->newest = hx_retention_newest(key, (struct hx_wall){sqlite3_column_int64(stmt, 6)},
                                         (struct hx_wall){sqlite3_column_int64(stmt, 7)});
    judged->age_ms = hx_ledger_age_ms(ledger) - sqlite3_column_int64(stmt, 8);
    judged->is_disputed = sqlite3_column_int(stmt, 10) != 0;
    int outcome_place = sqlite3_column_int(stmt, 11);
    row->blob = outcome_place == HX_BYTES_BLOB ? (uint64_t)sqlite3_column_int64(stmt, 12) : 0;
    int arguments_place = sqlite3_column_int(stmt, 13);
    judged->has_payload = (outcome_place != HX_BYTES_NONE && outcome_place != HX_BYTES_GONE) ||
                          (arguments_place != HX_BYTES_NONE && arguments_place != HX_BYTES_GONE);
    judged->is_hot = sqlite3_column_int(stmt, 14) != 0;
    judged->is_told_pending = sqlite3_column_int(stmt, 15) != 0;
    judged->has_payload |= sqlite3_column_int(stmt, 16) != 0; /* a stream or resume point */
    judged->is_named = sqlite3_column_int(stmt, 17) != 0;
    return HX_TRACE(hx_ledger_contract(ledger, sqlite3_column_int64(stmt, 9), &row->contract));
}

static enum hx_row_fate fate_of(struct old_row *row, const struct hx_ledger *ledger)
{
    row->judged.contract = &row->contract;
    return hx_retention_fate(&row->judged, ledger->now.wall);
}

struct found_rows {
    int64_t due[ROWS_PER_STEP]; /* their numbers */
    int count;
    int64_t low_water_ms; /* to be raised to; 0 = no row goes */
    int64_t after;
    bool has_more;
};

static int look(struct hx_sweep *sweep, struct hx_ledger *ledger, struct found_rows *found)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_LIST);
    if (stmt == NULL)
        return HX_E_STORE;
    int looked = 0, rc = 0;
    bool is_recent = false;
    sqlite3_bind_int64(stmt, 1, sweep->after);
    sqlite3_bind_int(stmt, 2, ROWS_PER_STEP);
    while (!is_recent && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        struct old_row row;
        rc = read_row(ledger, stmt, &row);
        if (rc < 0)
            break;
        looked++;
        found->after = row.row;
        /* Rows stand in order of creation: behind a recent one there is nothing old. */
        is_recent = ledger->now.wall.ms - row.created_ms < HOUR_MS;
        enum hx_row_fate fate = fate_of(&row, ledger);
        if (fate == HX_ROW_STAY)
            continue;
        found->due[found->count++] = row.row;
        int64_t low_water_ms = hx_retention_low_water(&row.judged).ms;
        if (fate >= HX_ROW_TOMBSTONE && low_water_ms > found->low_water_ms)
            found->low_water_ms = low_water_ms;
    }
    sqlite3_reset(stmt);
    found->has_more = looked == ROWS_PER_STEP && !is_recent;
    return is_recent || rc >= 0 ? 0 : HX_TRACE(rc);
}

static int run_on_row(struct hx_ledger *ledger, enum hx_sql sql, int64_t row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, sql);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

static int drop_payloads(struct hx_ledger *ledger, const struct old_row *row,
                         struct hx_aftermath *aftermath)
{
    if (row->blob != 0)
        hx_aftermath_drop_blob(aftermath, &row->id, row->blob);
    int rc = 0;
    for (int part = 0; rc == 0 && part < HX_PAYLOAD_PARTS; part++)
        rc = run_on_row(ledger, HX_SQL_PAYLOAD_DROP, row->row * HX_PAYLOAD_PARTS + part);
    return HX_TRACE(rc);
}

static int expire(struct hx_ledger *ledger, const struct old_row *row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_EXPIRE);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row->row);
    sqlite3_bind_int(stmt, 2, HX_OP_EXPIRED);
    sqlite3_bind_int(stmt, 3, HX_REASON_RETENTION);
    int rc = hx_ledger_run(ledger, stmt);
    if (rc == 0)
        rc = run_on_row(ledger, HX_SQL_HISTORY_DROP, row->row);
    struct hx_record line = {.state = HX_OP_EXPIRED, .reason = HX_REASON_RETENTION};
    if (rc == 0)
        rc = hx_row_history(ledger, row->row, &line, HX_HISTORY_RETENTION, row->judged.state);
    return HX_TRACE(rc);
}

static int carry_out(struct hx_ledger *ledger, const struct old_row *row, enum hx_row_fate fate,
                     struct hx_aftermath *aftermath)
{
    int rc = fate > HX_ROW_COOL ? drop_payloads(ledger, row, aftermath) : 0;
    if (rc < 0)
        return HX_TRACE(rc);
    switch (fate) {
    case HX_ROW_STAY:
        return 0;
    case HX_ROW_COOL:
        return HX_TRACE(run_on_row(ledger, HX_SQL_SWEEP_COOL, row->row));
    case HX_ROW_LOSE_PAYLOAD:
        rc = run_on_row(ledger, HX_SQL_SWEEP_PAYLOAD, row->row);
        return rc < 0 ? HX_TRACE(rc) : HX_TRACE(run_on_row(ledger, HX_SQL_SWEEP_COOL, row->row));
    case HX_ROW_TOMBSTONE:
        return HX_TRACE(expire(ledger, row));
    case HX_ROW_GO:
        rc = run_on_row(ledger, HX_SQL_HISTORY_DROP, row->row);
        return rc < 0 ? HX_TRACE(rc) : HX_TRACE(run_on_row(ledger, HX_SQL_SWEEP_DROP, row->row));
    }
    return 0;
}

static int raise_low_water(struct hx_ledger *ledger, int64_t low_water_ms)
{
    if (low_water_ms <= ledger->meta.low_water.ms)
        return 0;
    /* INV-18: what is committed here is what every key is compared with from now on. It never comes
     * near the present; the statement lets it rise only, whoever raised it in the meantime. */
    hx_assert(low_water_ms < ledger->now.wall.ms);
    int rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_META_LOW_WATER);
    if (stmt != NULL)
        sqlite3_bind_int64(stmt, 1, low_water_ms);
    if (hx_ledger_run(ledger, stmt) < 0) {
        hx_ledger_rollback(ledger);
        return HX_E_STORE;
    }
    return hx_ledger_commit(ledger) == 0 ? 0 : HX_E_STORE;
}

/* 1 and the row of that number, or 0. */
static int find_row(struct hx_ledger *ledger, int64_t number, struct old_row *ret_row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SWEEP_LIST);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, number - 1);
    sqlite3_bind_int(stmt, 2, 1);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1)
        rc = read_row(ledger, stmt, ret_row) < 0 ? HX_E_STORE : 1;
    sqlite3_reset(stmt);
    if (rc <= 0 || ret_row->row != number)
        return rc < 0 ? HX_TRACE(rc) : 0;
    ret_row->judged.contract = &ret_row->contract;
    return 1;
}

/* Between looking and acting others may have used a row: it is judged once more, and by the
 * mark that is committed by now (INV-18). Of a row that is not there any more nothing is asked. */
static int carry_out_now(struct hx_ledger *ledger, int64_t number, struct hx_aftermath *aftermath)
{
    struct old_row row;
    int rc = find_row(ledger, number, &row);
    if (rc <= 0)
        return HX_TRACE(rc);
    return HX_TRACE(
        carry_out(ledger, &row,
                  hx_retention_fate_behind(&row.judged, ledger->now.wall, ledger->meta.low_water),
                  aftermath));
}

int hx_retention_take_payload(struct hx_ledger *ledger, int64_t number,
                              struct hx_aftermath *aftermath)
{
    struct old_row row;
    int rc = find_row(ledger, number, &row);
    if (rc <= 0 || hx_retention_fate(&row.judged, ledger->now.wall) < HX_ROW_LOSE_PAYLOAD)
        return HX_TRACE(rc < 0 ? rc : 0);
    return HX_TRACE(carry_out(ledger, &row, HX_ROW_LOSE_PAYLOAD, aftermath));
}

static int remove_rows(struct hx_ledger *ledger, struct found_rows *found,
                       struct hx_aftermath *aftermath)
{
    hx_aftermath_reset(aftermath);
    int rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    for (int i = 0; rc == 0 && i < found->count; i++)
        rc = carry_out_now(ledger, found->due[i], aftermath);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    if (hx_ledger_commit(ledger) != 0)
        return HX_E_STORE;
    HX_CRASH_POINT("sweep-removed");
    hx_aftermath_carry_out(ledger, aftermath);
    return 0;
}

static int sweep_rows(struct hx_sweep *sweep, struct hx_ledger *ledger,
                      struct hx_aftermath *aftermath)
{
    struct found_rows found = {.after = sweep->after};
    int rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    rc = look(sweep, ledger, &found);
    hx_ledger_rollback(ledger);
    if (rc == 0 && found.low_water_ms > 0)
        rc = raise_low_water(ledger, found.low_water_ms);
    HX_CRASH_POINT("sweep-raised");
    if (rc == 0 && found.count > 0)
        rc = remove_rows(ledger, &found, aftermath);
    if (rc < 0)
        return HX_TRACE(rc);
    sweep->after = found.after;
    return found.has_more ? HX_SWEEP_MORE : 0;
}

static int sweep_stage(struct hx_sweep *sweep, struct hx_ledger *ledger,
                       struct hx_aftermath *aftermath)
{
    switch (sweep->stage) {
    case HX_SWEEP_ROWS:
        return HX_TRACE(sweep_rows(sweep, ledger, aftermath));
    case HX_SWEEP_SESSIONS:
        return HX_TRACE(hx_sweep_sessions(sweep, ledger));
    case HX_SWEEP_STREAMS:
        return HX_TRACE(hx_sweep_streams(sweep, ledger));
    case HX_SWEEP_EVENTS:
        return HX_TRACE(hx_sweep_events(sweep, ledger));
    }
    return 0;
}

int hx_sweep_step(struct hx_sweep *sweep, struct hx_ledger *ledger, struct hx_aftermath *aftermath)
{
    /* The ledger may yet be put back in the place of its copy, and have younger rows whose outcomes
     * lie in the same files beside both. */
    if (ledger->is_restored_copy)
        return 0;
    int rc = sweep_stage(sweep, ledger, aftermath);
    if (rc != 0)
        return HX_TRACE(rc);
    bool is_last = sweep->stage == HX_SWEEP_EVENTS;
    sweep->stage = is_last ? HX_SWEEP_ROWS : (enum hx_sweep_stage)(sweep->stage + 1);
    sweep->after = 0;
    return is_last ? 0 : HX_SWEEP_MORE;
}
