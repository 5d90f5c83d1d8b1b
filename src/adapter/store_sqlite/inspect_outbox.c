/* SPDX-License-Identifier: MIT */
/*
 * The outbox for people: what waits, what is parked, and what they decide about it.
 */
#include <stdio.h>

#include "adapter/store_sqlite/inspect_ledger.h"
#include "adapter/store_sqlite/outbox.h"

#define COLUMNS                                                                                    \
    "SELECT number, id, op, kind, at, server, tool, created, state, reason, attempt, settled, "    \
    "place, tries, not_before, tried, error FROM outbox "

enum { PAGE_EVENTS = 256, DIGITS_MIN = 6 };

static int finish(struct hx_inspect *inspect, sqlite3_stmt *stmt, int rc)
{
    sqlite3_finalize(stmt);
    if (inspect->ledger.txn != HX_TXN_NONE)
        hx_ledger_rollback(&inspect->ledger);
    return HX_TRACE(rc);
}

static int has_publisher(struct hx_inspect *inspect, bool *ret_is_there)
{
    struct hx_ledger *ledger = &inspect->ledger;
    struct hx_id publisher = {{0}};
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OUTBOX_PUBLISHER);
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1 && sqlite3_column_bytes(stmt, 0) == HX_ID_SIZE)
        memcpy(&publisher, sqlite3_column_blob(stmt, 0), HX_ID_SIZE);
    sqlite3_reset(stmt);
    *ret_is_there = !hx_id_is_nil(&publisher) && hx_owners_is_alive(&ledger->owners, &publisher);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

int hx_inspect_outbox(struct hx_inspect *inspect, struct hx_inspect_outbox *ret_outbox)
{
    struct hx_ledger *ledger = &inspect->ledger;
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, "SELECT count(*) FILTER (WHERE place = 0), count(*) FILTER (WHERE place = 1),"
                 " min(at) FROM outbox INDEXED BY outbox_open WHERE place < 2");
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_inspect_begin(inspect);
    *ret_outbox = (struct hx_inspect_outbox){0};
    if (rc == 0)
        rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        ret_outbox->since = ledger->meta.outbox_since;
        ret_outbox->pending = (uint64_t)sqlite3_column_int64(stmt, 0);
        ret_outbox->parked = (uint64_t)sqlite3_column_int64(stmt, 1);
        ret_outbox->oldest.ms = sqlite3_column_int64(stmt, 2);
        rc = has_publisher(inspect, &ret_outbox->has_publisher);
    }
    return HX_TRACE(finish(inspect, stmt, rc));
}

/* One page, in a short transaction of its own. 1 when there may be more. */
static int visit_page(struct hx_inspect *inspect, sqlite3_stmt *stmt, int64_t *after,
                      bool (*visit)(void *context, const struct hx_store_event *event),
                      void *context, uint32_t *left)
{
    struct hx_ledger *ledger = &inspect->ledger;
    int rc = hx_inspect_begin(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    int count = 0;
    bool wants_more = true;
    sqlite3_bind_int64(stmt, 1, *after);
    sqlite3_bind_int(stmt, 3, PAGE_EVENTS);
    while (wants_more && *left > 0 && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        struct hx_store_event event;
        hx_store_request_forget(inspect->request);
        rc = hx_outbox_load(ledger, stmt, &inspect->request->arena, &event);
        if (rc < 0)
            break;
        *after = event.number;
        count++;
        --*left;
        wants_more = visit(context, &event);
    }
    sqlite3_reset(stmt);
    hx_ledger_rollback(ledger);
    if (rc < 0)
        return HX_TRACE(rc);
    return wants_more && *left > 0 && count == PAGE_EVENTS;
}

int hx_inspect_events(struct hx_inspect *inspect, unsigned places, const struct hx_id *op,
                      bool is_newest_first, uint32_t limit,
                      bool (*visit)(void *context, const struct hx_store_event *event),
                      void *context)
{
    char sql[512];
    uint32_t left = limit > 0 ? limit : UINT32_MAX;
    int64_t after = is_newest_first ? INT64_MAX : 0;
    /* The index of what is not over yet is the small one. */
    bool is_open_only = (places & ~((1U << HX_OUTBOX_PENDING) | (1U << HX_OUTBOX_PARKED))) == 0;
    snprintf(sql, sizeof(sql),
             COLUMNS "WHERE number %s ?1 AND (1 << place) & %u%s%s ORDER BY number %s LIMIT ?3",
             is_newest_first ? "<" : ">", places, is_open_only ? " AND place < 2" : "",
             op != NULL ? " AND op = ?2" : "", is_newest_first ? "DESC" : "ASC");
    sqlite3_stmt *stmt = hx_inspect_prepare(inspect, sql);
    if (stmt == NULL)
        return HX_E_STORE;
    if (op != NULL)
        sqlite3_bind_blob(stmt, 2, op, HX_ID_SIZE, SQLITE_STATIC);
    int rc = 1;
    while (rc == 1)
        rc = visit_page(inspect, stmt, &after, visit, context, &left);
    sqlite3_finalize(stmt);
    return HX_TRACE(rc);
}

/* The digits of an id as they are written, without dashes: what hex() makes of the column. */
static bool digits_of(struct hx_span text, char ret_digits[2 * HX_ID_SIZE + 1])
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char letter = text.ptr[i];
        if (letter == '-')
            continue;
        if (letter >= 'a' && letter <= 'f')
            letter = (char)(letter - 'a' + 'A');
        bool is_digit = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'F');
        if (!is_digit || len == 2 * HX_ID_SIZE)
            return false;
        ret_digits[len++] = letter;
    }
    ret_digits[len] = '\0';
    return len >= DIGITS_MIN;
}

int hx_inspect_event(struct hx_inspect *inspect, struct hx_span text, struct hx_arena *arena,
                     struct hx_store_event *ret_event)
{
    struct hx_ledger *ledger = &inspect->ledger;
    char digits[2 * HX_ID_SIZE + 1];
    if (!digits_of(text, digits))
        return 0;
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, COLUMNS "WHERE substr(hex(id), -length(?1)) = ?1 ORDER BY number LIMIT 2");
    if (stmt == NULL)
        return HX_E_STORE;
    int count = 0;
    int rc = hx_inspect_begin(inspect);
    sqlite3_bind_text(stmt, 1, digits, -1, SQLITE_STATIC);
    while (rc >= 0 && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        if (count++ == 0)
            rc = hx_outbox_load(ledger, stmt, arena, ret_event);
    }
    rc = finish(inspect, stmt, rc);
    return rc < 0 ? HX_TRACE(rc) : count;
}

/* ---- what a person decides ---- */

static int begin_write(struct hx_inspect *inspect)
{
    if (inspect->ledger.is_restored_copy)
        return HX_RAISE(HX_E_STORE, "The ledger is a restored copy: run hapax ops recover.");
    return hx_ledger_begin(&inspect->ledger, HX_TXN_SYNCED) == 0 ? 0 : HX_E_STORE;
}

/* Runs the prepared change and commits it. */
static int carry_out(struct hx_inspect *inspect, sqlite3_stmt *stmt, uint64_t *ret_count)
{
    struct hx_ledger *ledger = &inspect->ledger;
    int rc = hx_ledger_run(ledger, stmt);
    *ret_count = rc == 0 ? (uint64_t)sqlite3_changes64(ledger->db) : 0;
    sqlite3_finalize(stmt);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    return hx_ledger_commit(ledger) == 0 ? 0 : HX_E_STORE;
}

int hx_inspect_events_again(struct hx_inspect *inspect, int64_t number, uint64_t *ret_count)
{
    int rc = begin_write(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, number != 0 ? "UPDATE outbox SET place = 0, tries = 0, not_before = 0"
                               " WHERE number = ?1 AND place < 2"
                             : "UPDATE outbox SET place = 0, tries = 0, not_before = 0"
                               " WHERE ?1 = 0 AND place = 1");
    if (stmt != NULL)
        sqlite3_bind_int64(stmt, 1, number);
    return HX_TRACE(carry_out(inspect, stmt, ret_count));
}

/* Drops what is not over, of that number or (0) all. */
static sqlite3_stmt *prepare_drop(struct hx_inspect *inspect, int64_t number, struct hx_span reason)
{
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, number != 0 ? "UPDATE outbox SET place = 3, error = ?2, used_age = ?3"
                               " WHERE number = ?1 AND place < 2"
                             : "UPDATE outbox SET place = 3, error = ?2, used_age = ?3"
                               " WHERE ?1 = 0 AND place < 2");
    if (stmt == NULL)
        return NULL;
    sqlite3_bind_int64(stmt, 1, number);
    hx_column_bind_span(stmt, 2, reason, true);
    sqlite3_bind_int64(stmt, 3, hx_ledger_age_ms(&inspect->ledger));
    return stmt;
}

int hx_inspect_event_drop(struct hx_inspect *inspect, int64_t number, struct hx_span reason,
                          uint64_t *ret_count)
{
    int rc = begin_write(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    return HX_TRACE(carry_out(inspect, prepare_drop(inspect, number, reason), ret_count));
}

static int end_outbox(struct hx_inspect *inspect)
{
    bool is_published = true;
    int rc = has_publisher(inspect, &is_published);
    if (rc < 0)
        return HX_TRACE(rc);
    if (is_published)
        return HX_RAISE(HX_E_STORE, "A running Hapax publishes this outbox: take outbox_url out of "
                                    "its settings and stop it first.");
    int code = sqlite3_exec(inspect->ledger.db,
                            "DROP TRIGGER IF EXISTS outbox_is_known;"
                            "UPDATE ledger SET outbox_since = 0, outbox_publisher = NULL",
                            NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : hx_ledger_raise(&inspect->ledger, code);
}

int hx_inspect_outbox_end(struct hx_inspect *inspect, struct hx_span reason, uint64_t *ret_count)
{
    int rc = begin_write(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    rc = end_outbox(inspect);
    if (rc < 0) {
        hx_ledger_rollback(&inspect->ledger);
        return HX_TRACE(rc);
    }
    return HX_TRACE(carry_out(inspect, prepare_drop(inspect, 0, reason), ret_count));
}
