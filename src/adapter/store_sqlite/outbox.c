/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/outbox.h"

#include "base/crash.h"

static const char trigger[] =
    "CREATE TRIGGER IF NOT EXISTS outbox_is_known BEFORE INSERT ON history BEGIN"
    "  SELECT hapax_outbox(); END";

static void know(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    sqlite3_result_int(context, 1);
}

int hx_outbox_connect(struct hx_ledger *ledger)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int code = sqlite3_create_function_v2(ledger->db, "hapax_outbox", 0, flags, NULL, know, NULL,
                                          NULL, NULL);
    return code == SQLITE_OK ? 0 : hx_ledger_raise(ledger, code);
}

int hx_outbox_ensure(struct hx_ledger *ledger)
{
    hx_assert(ledger->txn == HX_TXN_SYNCED);
    if (!ledger->options->keeps_outbox || ledger->meta.outbox_since.ms != 0)
        return 0;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_BEGIN);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, ledger->now.wall.ms);
    int rc = hx_ledger_run(ledger, stmt);
    if (rc < 0)
        return HX_TRACE(rc);
    int code = sqlite3_exec(ledger->db, trigger, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return hx_ledger_raise(ledger, code);
    ledger->meta.outbox_since = ledger->now.wall;
    return 0;
}

int hx_outbox_begin(struct hx_ledger *ledger)
{
    /* A copy that was not taken into use is not written to; the first commit after that does it. */
    if (!ledger->options->keeps_outbox || ledger->meta.outbox_since.ms != 0 ||
        ledger->is_restored_copy)
        return 0;
    int rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    rc = hx_outbox_ensure(ledger);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    if (!hx_ledger_has_changed(ledger))
        hx_ledger_forgo_sync(ledger); /* somebody was first */
    return hx_ledger_commit(ledger) == 0 ? 0 : HX_E_STORE;
}

static int add_event(struct hx_ledger *ledger, int64_t row, enum hx_outbox_kind kind)
{
    uint8_t random[10];
    hx_rand_fill(ledger->options->rand, random, sizeof(random));
    struct hx_id id = hx_id_make(ledger->now.wall, random);
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_ADD);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row);
    sqlite3_bind_blob(stmt, 2, id.bytes, HX_ID_SIZE, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 3, (int)kind);
    sqlite3_bind_int64(stmt, 4, ledger->now.wall.ms);
    sqlite3_bind_int64(stmt, 5, hx_ledger_age_ms(ledger));
    int rc = hx_ledger_run(ledger, stmt);
    HX_CRASH_POINT("event-half");
    return HX_TRACE(rc);
}

int hx_outbox_announce(struct hx_ledger *ledger, int64_t row, const struct hx_outbox_view *before,
                       const struct hx_record *after)
{
    enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX];
    if (ledger->meta.outbox_since.ms == 0)
        return 0;
    struct hx_outbox_view view = hx_outbox_view_of(after);
    unsigned count = hx_outbox_kinds(before, &view, kinds);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        /* INV-16: in the commit of its transition, and durable with it. */
        hx_assert(ledger->txn == HX_TXN_SYNCED);
        rc = add_event(ledger, row, kinds[i]);
    }
    return HX_TRACE(rc);
}

/* ---- who publishes ---- */

/* 1 and the token, 0 when nobody ever did, or negative. */
static int read_publisher(struct hx_ledger *ledger, struct hx_id *ret_token)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_PUBLISHER);
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(ledger, stmt);
    bool is_there = rc == 1 && sqlite3_column_bytes(stmt, 0) == HX_ID_SIZE;
    if (is_there)
        memcpy(ret_token, sqlite3_column_blob(stmt, 0), HX_ID_SIZE);
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : is_there;
}

static int claim(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_id publisher = {{0}};
    int rc = read_publisher(ledger, &publisher);
    if (rc < 0)
        return HX_TRACE(rc);
    if (rc == 1 && hx_id_eq(&publisher, &ledger->owners.self))
        return 0;
    if (rc == 1 && hx_owners_is_alive(&ledger->owners, &publisher)) {
        request->result = HX_STORE_STALE;
        return 0;
    }
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_CLAIM);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, ledger->owners.self.bytes, HX_ID_SIZE, SQLITE_STATIC);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

/* ---- reading ---- */

static void load_id(sqlite3_stmt *stmt, int at, struct hx_id *ret_id)
{
    if (sqlite3_column_bytes(stmt, at) == HX_ID_SIZE)
        memcpy(ret_id, sqlite3_column_blob(stmt, at), HX_ID_SIZE);
}

int hx_outbox_load(struct hx_ledger *ledger, sqlite3_stmt *stmt, struct hx_arena *arena,
                   struct hx_store_event *ret_event)
{
    int kind = sqlite3_column_int(stmt, 3), state = sqlite3_column_int(stmt, 8);
    int reason = sqlite3_column_int(stmt, 9), place = sqlite3_column_int(stmt, 12);
    if (kind <= HX_OUTBOX_NOTHING || kind >= HX_OUTBOX_KIND_COUNT || state < 0 ||
        state >= HX_OP_STATE_COUNT || reason < 0 || reason >= HX_REASON_COUNT || place < 0 ||
        place >= HX_OUTBOX_PLACE_COUNT)
        return hx_ledger_raise(ledger, SQLITE_CORRUPT);
    *ret_event = (struct hx_store_event){
        .number = sqlite3_column_int64(stmt, 0),
        .kind = (enum hx_outbox_kind)kind,
        .at.ms = sqlite3_column_int64(stmt, 4),
        .created.ms = sqlite3_column_int64(stmt, 7),
        .state = (enum hx_op_state)state,
        .reason = (enum hx_reason)reason,
        .attempt = (uint32_t)sqlite3_column_int64(stmt, 10),
        .settled.ms = sqlite3_column_int64(stmt, 11),
        .place = (enum hx_outbox_place)place,
        .tries = (uint32_t)sqlite3_column_int64(stmt, 13),
        .not_before.ms = sqlite3_column_int64(stmt, 14),
        .tried.ms = sqlite3_column_int64(stmt, 15),
    };
    load_id(stmt, 1, &ret_event->id);
    load_id(stmt, 2, &ret_event->op);
    int rc = hx_column_load_span(stmt, 5, arena, &ret_event->server);
    if (rc == 0)
        rc = hx_column_load_span(stmt, 6, arena, &ret_event->tool);
    if (rc == 0)
        rc = hx_column_load_span(stmt, 16, arena, &ret_event->error);
    return HX_TRACE(rc);
}

/* Adds what the statement finds. */
static int add_due(struct hx_ledger *ledger, struct hx_store_request *request, sqlite3_stmt *stmt)
{
    struct hx_store_outbox *outbox = &request->outbox;
    int rc = 0;
    while (outbox->event_count < outbox->limit && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        rc = hx_outbox_load(ledger, stmt, &request->arena, &outbox->events[outbox->event_count]);
        if (rc < 0)
            break;
        outbox->event_count++;
    }
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Those whose time lies in (after, until]. */
static int due_between(struct hx_ledger *ledger, struct hx_store_request *request, int64_t after_ms,
                       int64_t until_ms)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_DUE);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, after_ms);
    sqlite3_bind_int64(stmt, 2, until_ms);
    sqlite3_bind_int64(stmt, 3, request->outbox.limit - request->outbox.event_count);
    return HX_TRACE(add_due(ledger, request, stmt));
}

/* Those whose last try lies in the future: the clock has jumped back since, so the time until which
 * they were put off means nothing (INV-22). */
static int due_by_jump(struct hx_ledger *ledger, struct hx_store_request *request)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_JUMPED);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, ledger->now.wall.ms);
    sqlite3_bind_int64(stmt, 2, request->outbox.limit - request->outbox.event_count);
    return HX_TRACE(add_due(ledger, request, stmt));
}

static int count_events(struct hx_ledger *ledger, struct hx_store_outbox *outbox)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_COUNT);
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(ledger, stmt);
    outbox->pending = rc == 1 ? (uint64_t)sqlite3_column_int64(stmt, 0) : 0;
    outbox->parked = rc == 1 ? (uint64_t)sqlite3_column_int64(stmt, 1) : 0;
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int due(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_store_outbox *outbox = &request->outbox;
    const int64_t now_ms = ledger->now.wall.ms;
    outbox->ledger = ledger->meta.instance;
    if (outbox->limit > HX_STORE_OUTBOX_DUE_MAX)
        outbox->limit = HX_STORE_OUTBOX_DUE_MAX;
    if (outbox->limit > 0) {
        outbox->events = hx_arena_alloc(&request->arena, outbox->limit * sizeof(outbox->events[0]));
        if (outbox->events == NULL)
            return HX_RAISE(HX_E_NOMEM, "There is not enough memory for the events.");
    }
    /* What was put off comes before what was never tried, or a busy ledger would keep it waiting;
     * and what was never tried depends on no clock. */
    int rc = due_between(ledger, request, 0, now_ms);
    if (rc == 0)
        rc = due_between(ledger, request, INT64_MIN, 0);
    if (rc == 0 && outbox->must_count)
        rc = due_by_jump(ledger, request);
    if (rc == 0 && outbox->must_count)
        rc = count_events(ledger, outbox);
    return HX_TRACE(rc);
}

/* ---- what came of a try ---- */

static int mark(struct hx_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_store_event *event = &request->outbox.event;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_MARK);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, event->number);
    sqlite3_bind_int(stmt, 2, (int)event->place);
    sqlite3_bind_int64(stmt, 3, event->tries);
    sqlite3_bind_int64(stmt, 4, event->not_before.ms);
    sqlite3_bind_int64(stmt, 5, event->tried.ms);
    hx_column_bind_span(stmt, 6, event->error, true);
    sqlite3_bind_int64(stmt, 7, hx_ledger_age_ms(ledger));
    int rc = hx_ledger_run(ledger, stmt);
    if (rc == 0 && sqlite3_changes(ledger->db) == 0)
        request->result = HX_STORE_STALE;
    return HX_TRACE(rc);
}

int hx_outbox_run(struct hx_ledger *ledger, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_OUTBOX_CLAIM)
        return HX_TRACE(claim(ledger, request));
    if (request->kind == HX_STORE_OUTBOX_DUE)
        return HX_TRACE(due(ledger, request));
    hx_assert(request->kind == HX_STORE_OUTBOX_MARK);
    return HX_TRACE(mark(ledger, request));
}
