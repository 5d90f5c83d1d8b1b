/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/inspect.h"

#include <stdio.h>

#include "adapter/store_sqlite/inspect_ledger.h"
#include "base/alloc.h"

enum { SURE_TAIL_LEN = 8 }; /* digits of an id's end */
enum { PAGE_ROWS = 256, SQL_LEN_MAX = 4096, ARENA_KEEP_MAX = 512 * 1024 * 1024 };

int hx_inspect_open(const struct hx_store_sqlite_options *options, struct hx_inspect **ret_inspect)
{
    struct hx_inspect *inspect = hx_new(struct hx_inspect);
    struct hx_id nobody = {{0}};
    inspect->request = hx_store_request_new(HX_STORE_FIND, NULL);
    hx_arena_fini(&inspect->request->arena);
    hx_arena_init(&inspect->request->arena, ARENA_KEEP_MAX);
    int rc = hx_ledger_open(&inspect->ledger, options, &nobody);
    if (rc < 0) {
        hx_inspect_close(inspect);
        return HX_TRACE(rc);
    }
    *ret_inspect = inspect;
    return 0;
}

struct hx_inspect *hx_inspect_close(struct hx_inspect *inspect)
{
    if (inspect == NULL)
        return NULL;
    hx_ledger_close(&inspect->ledger);
    hx_store_request_free(inspect->request);
    return hx_free(inspect);
}

sqlite3_stmt *hx_inspect_prepare(struct hx_inspect *inspect, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(inspect->ledger.db, sql, -1, &stmt, NULL);
    if (code != SQLITE_OK)
        hx_ledger_ignore(hx_ledger_raise(&inspect->ledger, code)); /* the caller sees NULL */
    return stmt;
}

int hx_inspect_begin(struct hx_inspect *inspect)
{
    int rc = hx_ledger_begin(&inspect->ledger, HX_TXN_READ);
    return rc == 0 ? 0 : HX_E_STORE;
}

static bool has_only_open_states(uint32_t states)
{
    if (states == 0)
        return false;
    for (int state = 0; state < HX_OP_STATE_COUNT; state++) {
        if ((states & 1U << state) != 0 && hx_op_state_is_final((enum hx_op_state)state))
            return false;
    }
    return true;
}

/* The parameters have numbers, so that unused ones cost nothing. */
static void make_list_sql(const struct hx_inspect_filter *filter, struct hx_buf *sql)
{
    bool is_open_only = filter->needs_human || has_only_open_states(filter->states);
    (void)hx_buf_printf(sql, "SELECT row FROM op%s WHERE %s",
                        is_open_only ? " INDEXED BY op_hot" : "",
                        is_open_only ? "hot = 1 AND " : "");
    if (!filter->is_newest_first)
        (void)hx_buf_append_cstr(sql, "row > ?1");
    else
        (void)hx_buf_append_cstr(sql, "(?1 = 0 OR row < ?1)");
    if (filter->states != 0) {
        (void)hx_buf_append_cstr(sql, " AND state IN (-1");
        for (int state = 0; state < HX_OP_STATE_COUNT; state++) {
            if ((filter->states & 1U << state) != 0)
                (void)hx_buf_printf(sql, ",%d", state);
        }
        (void)hx_buf_append_cstr(sql, ")");
    }
    if (filter->needs_human)
        (void)hx_buf_printf(sql, " AND needs_human = 1 AND state = %d", (int)HX_OP_UNKNOWN);
    if (filter->tool_glob != NULL)
        (void)hx_buf_append_cstr(sql, " AND tool GLOB ?2");
    if (filter->server != NULL)
        (void)hx_buf_append_cstr(sql, " AND server = ?3");
    if (filter->principal != NULL)
        (void)hx_buf_append_cstr(sql, " AND principal = ?4");
    if (filter->since.ms != 0)
        (void)hx_buf_append_cstr(sql, " AND created >= ?5");
    if (filter->until.ms != 0)
        (void)hx_buf_append_cstr(sql, " AND created < ?6");
    (void)hx_buf_printf(sql, " ORDER BY row %s LIMIT ?7", filter->is_newest_first ? "DESC" : "ASC");
}

static void bind_list(sqlite3_stmt *stmt, const struct hx_inspect_filter *filter, int64_t after,
                      uint32_t limit)
{
    /* Binding a parameter that the text does not have is an error without consequence. */
    sqlite3_bind_int64(stmt, 1, after);
    if (filter->tool_glob != NULL)
        sqlite3_bind_text(stmt, 2, filter->tool_glob, -1, SQLITE_STATIC);
    if (filter->server != NULL)
        sqlite3_bind_text(stmt, 3, filter->server, -1, SQLITE_STATIC);
    if (filter->principal != NULL)
        sqlite3_bind_text(stmt, 4, filter->principal, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 5, filter->since.ms);
    sqlite3_bind_int64(stmt, 6, filter->until.ms);
    sqlite3_bind_int64(stmt, 7, limit);
}

/* Loads one page into the request. */
static int load_page(struct hx_inspect *inspect, sqlite3_stmt *stmt)
{
    struct hx_ledger *ledger = &inspect->ledger;
    int64_t rows[PAGE_ROWS];
    int count = 0, rc;
    while (count < PAGE_ROWS && (rc = hx_ledger_step(ledger, stmt)) == 1)
        rows[count++] = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    if (count < PAGE_ROWS && rc < 0)
        return HX_TRACE(rc);
    hx_store_request_forget(inspect->request);
    for (int i = 0; i < count; i++) {
        rc = hx_find_row(ledger, inspect->request, rows[i]);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    hx_find_judge(ledger, inspect->request);
    return 0;
}

int hx_inspect_list(struct hx_inspect *inspect, const struct hx_inspect_filter *filter,
                    bool (*visit)(void *context, const struct hx_store_found *found), void *context,
                    int64_t *ret_next)
{
    struct hx_buf sql;
    hx_buf_init(&sql, SQL_LEN_MAX);
    make_list_sql(filter, &sql);
    (void)hx_buf_append_char(&sql, '\0');
    sqlite3_stmt *stmt = hx_inspect_prepare(inspect, sql.data);
    hx_buf_fini(&sql);
    int rc = stmt == NULL ? HX_E_STORE : 0;
    uint32_t left = filter->limit != 0 ? filter->limit : UINT32_MAX;
    int64_t after = filter->after;
    bool has_more = true;
    while (rc == 0 && has_more && left > 0) {
        uint32_t wanted = left < PAGE_ROWS ? left : PAGE_ROWS;
        rc = hx_inspect_begin(inspect);
        if (rc < 0)
            break;
        bind_list(stmt, filter, after, wanted);
        rc = load_page(inspect, stmt);
        hx_ledger_rollback(&inspect->ledger);
        uint32_t count = rc == 0 ? inspect->request->record_count : 0;
        has_more = count == wanted;
        for (uint32_t i = 0; i < count && left > 0; i++) {
            after = inspect->request->records[i].rowid;
            left--;
            if (!visit(context, &inspect->request->records[i]))
                left = 0;
        }
    }
    sqlite3_finalize(stmt);
    if (ret_next != NULL)
        *ret_next = has_more ? after : 0;
    return HX_TRACE(rc);
}

/* Moves the only record of the page to the caller's arena. */
static int give_single(struct hx_inspect *inspect, struct hx_arena *arena,
                       struct hx_store_found *ret_found)
{
    struct hx_store_request *request = inspect->request;
    if (request->record_count == 0)
        return 0;
    struct hx_store_found found = request->records[0];
    if (!hx_record_copy(arena, &request->records[0].record, &found.record))
        return HX_RAISE(HX_E_LIMIT, "The answer is too large.");
    *ret_found = found;
    return request->record_count > 1 ? 2 : 1;
}

/* The rows that `sql` names, whose only parameter is `bytes`. */
static int load_where(struct hx_inspect *inspect, const char *sql, struct hx_span bytes)
{
    sqlite3_stmt *stmt = hx_inspect_prepare(inspect, sql);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob64(stmt, 1, bytes.ptr, bytes.len, SQLITE_STATIC);
    int rc = hx_inspect_begin(inspect);
    if (rc == 0) {
        rc = load_page(inspect, stmt);
        hx_ledger_rollback(&inspect->ledger);
    }
    sqlite3_finalize(stmt);
    return HX_TRACE(rc);
}

int hx_inspect_by_id(struct hx_inspect *inspect, const struct hx_id *id, struct hx_arena *arena,
                     struct hx_store_found *ret_found)
{
    int rc = load_where(inspect, "SELECT row FROM op WHERE id = ?1",
                        hx_span((const char *)id->bytes, HX_ID_SIZE));
    return rc < 0 ? HX_TRACE(rc) : HX_TRACE(give_single(inspect, arena, ret_found));
}

static bool is_id_tail(struct hx_span text)
{
    if (text.len < 6 || text.len > 12)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return false;
    }
    return true;
}

int hx_inspect_by_text(struct hx_inspect *inspect, struct hx_span text, struct hx_arena *arena,
                       struct hx_store_found *ret_found)
{
    struct hx_id id;
    if (hx_id_parse(text, &id)) {
        int rc = hx_inspect_by_id(inspect, &id, arena, ret_found);
        if (rc != 0)
            return HX_TRACE(rc);
    }
    /* People mostly name what is open, and those rows have an index. With eight digits another row
     * of the same end is as good as impossible; and a caller's key that looks like the end of
     * somebody else's id must not take its place. */
    bool is_tail = is_id_tail(text);
    if (is_tail && text.len >= SURE_TAIL_LEN) {
        int rc = load_where(inspect,
                            "SELECT row FROM op INDEXED BY op_hot WHERE hot = 1 AND"
                            " hex(id) LIKE '%' || CAST(?1 AS TEXT)",
                            text);
        if (rc < 0 || inspect->request->record_count == 1)
            return rc < 0 ? HX_TRACE(rc) : HX_TRACE(give_single(inspect, arena, ret_found));
    }
    /* Only the newest generation of a key is meant by it. Neither has an index, so there is one
     * search for both. */
    int rc = load_where(inspect,
                        is_tail ? "SELECT max(row) FROM op WHERE key = ?1 AND key_source <> 0"
                                  " OR hex(id) LIKE '%' || CAST(?1 AS TEXT) GROUP BY identity"
                                : "SELECT max(row) FROM op WHERE key = ?1 AND key_source <> 0"
                                  " GROUP BY identity",
                        text);
    return rc < 0 ? HX_TRACE(rc) : HX_TRACE(give_single(inspect, arena, ret_found));
}

int hx_inspect_limited(sqlite3_stmt *stmt, int column, int count)
{
    int value = sqlite3_column_int(stmt, column);
    return value >= 0 && value < count ? value : 0;
}

int hx_inspect_payload(struct hx_inspect *inspect, const struct hx_id *id, struct hx_arena *arena,
                       struct hx_span *ret_bytes)
{
    struct hx_store_request *request = inspect->request;
    request->record.id = *id;
    int rc = hx_inspect_begin(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    rc = hx_find_payload(&inspect->ledger, request);
    hx_ledger_rollback(&inspect->ledger);
    if (rc < 0)
        return HX_TRACE(rc);
    *ret_bytes = HX_SPAN_NONE;
    if (hx_span_is_absent(request->payload))
        return 0;
    *ret_bytes = hx_arena_dup(arena, request->payload);
    return hx_span_is_absent(*ret_bytes) ? HX_RAISE(HX_E_NOMEM, HX_NO_ROOM) : 0;
}

static int read_io_error(struct hx_inspect *inspect, struct hx_inspect_facts *facts)
{
    sqlite3_stmt *stmt =
        hx_inspect_prepare(inspect, "SELECT io_error, io_error_at FROM ledger WHERE id = 1");
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(&inspect->ledger, stmt);
    const char *text = rc == 1 ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (text != NULL) {
        snprintf(facts->io_error, sizeof(facts->io_error), "%s", text);
        facts->io_error_at.ms = sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int count_states(struct hx_inspect *inspect, struct hx_inspect_facts *facts)
{
    sqlite3_stmt *stmt =
        hx_inspect_prepare(inspect, "SELECT state, count(*) FROM op GROUP BY state");
    int rc = stmt == NULL ? HX_E_STORE : 1;
    while (rc == 1 && (rc = hx_ledger_step(&inspect->ledger, stmt)) == 1)
        facts->counts[hx_inspect_limited(stmt, 0, HX_OP_STATE_COUNT)] +=
            (uint64_t)sqlite3_column_int64(stmt, 1);
    sqlite3_finalize(stmt);
    return HX_TRACE(rc);
}

int hx_inspect_facts(struct hx_inspect *inspect, struct hx_inspect_facts *ret_facts)
{
    struct hx_ledger *ledger = &inspect->ledger;
    int rc = hx_inspect_begin(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    *ret_facts = (struct hx_inspect_facts){
        .instance = ledger->meta.instance,
        .synced_commits = ledger->meta.commits,
        .epoch = ledger->meta.epoch,
        .schema_version = HX_SCHEMA_VERSION,
        .low_water = ledger->meta.low_water,
        .gap = hx_ledger_gap(ledger),
        .is_restored_copy = ledger->is_restored_copy,
        .outbox_since = ledger->meta.outbox_since,
    };
    rc = read_io_error(inspect, ret_facts);
    if (rc == 0)
        rc = count_states(inspect, ret_facts);
    hx_ledger_rollback(ledger);
    return HX_TRACE(rc);
}

bool hx_inspect_is_restored_copy(const struct hx_inspect *inspect)
{
    return inspect->ledger.is_restored_copy;
}
