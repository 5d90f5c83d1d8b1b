/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/kept.h"

bool hx_kept_is(enum hx_store_kind kind)
{
    return kind == HX_STORE_SESSION_PUT || kind == HX_STORE_SESSION_GET ||
           kind == HX_STORE_SESSION_TOUCH || kind == HX_STORE_SESSION_END ||
           kind == HX_STORE_STREAM_PUT || kind == HX_STORE_STREAM_END ||
           kind == HX_STORE_STREAM_GET || kind == HX_STORE_RESUME_PUT ||
           kind == HX_STORE_RESUME_GET;
}

static int bind_blob(sqlite3_stmt *stmt, int at, const void *bytes, int len)
{
    return sqlite3_bind_blob(stmt, at, bytes, len, SQLITE_STATIC);
}

static int bind_key(sqlite3_stmt *stmt, const struct hx_digest *key)
{
    return bind_blob(stmt, 1, key->bytes, HX_DIGEST_SIZE);
}

/* Runs a write whose `WHERE` is the request's precondition. */
static int run_if(struct hx_ledger *ledger, struct hx_store_request *request, sqlite3_stmt *stmt)
{
    int rc = hx_ledger_run(ledger, stmt);
    if (rc < 0)
        return HX_TRACE(rc);
    request->result = sqlite3_changes64(ledger->db) > 0 ? HX_STORE_DONE : HX_STORE_STALE;
    return 0;
}

static bool is_text(sqlite3_stmt *stmt, int at, struct hx_span span)
{
    if (sqlite3_column_type(stmt, at) == SQLITE_NULL)
        return span.len == 0;
    const char *bytes = sqlite3_column_blob(stmt, at);
    return hx_span_eq(hx_span(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, at)), span);
}

/* 1 and the number of the session, 0 when there is none, or negative. */
static int session_head(struct hx_ledger *ledger, const struct hx_store_session *session,
                        int64_t *ret_number, bool *ret_is_theirs)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SESSION_HEAD);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &session->key);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        *ret_number = sqlite3_column_int64(stmt, 0);
        *ret_is_theirs =
            !is_text(stmt, 1, session->tenant) || !is_text(stmt, 2, session->principal);
    }
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}

static int put_message(struct hx_ledger *ledger, int64_t number, struct hx_span initialize)
{
    bool is_absent = hx_span_is_absent(initialize);
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, is_absent ? HX_SQL_SESSION_MESSAGE_DROP
                                                          : HX_SQL_SESSION_MESSAGE_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, number);
    if (!is_absent)
        hx_column_bind_span(stmt, 2, initialize, false);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

static int put_session(struct hx_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_store_session *session = &request->session;
    int64_t number = 0;
    bool is_theirs = false;
    int known = session_head(ledger, session, &number, &is_theirs);
    if (known < 0)
        return HX_TRACE(known);
    if (is_theirs) {
        request->result = HX_STORE_STALE;
        return 0;
    }
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SESSION_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &session->key);
    hx_column_bind_span(stmt, 2, session->tenant, true);
    hx_column_bind_span(stmt, 3, session->principal, true);
    hx_column_bind_span(stmt, 4, session->endpoint, true);
    hx_column_bind_span(stmt, 5, session->revision, true);
    sqlite3_bind_int64(stmt, 6, session->created.ms);
    sqlite3_bind_int64(stmt, 7, session->last_seen.ms);
    sqlite3_bind_int64(stmt, 8, hx_ledger_age_ms(ledger));
    int rc = hx_ledger_run(ledger, stmt);
    if (known == 0)
        number = sqlite3_last_insert_rowid(ledger->db);
    if (rc == 0)
        rc = put_message(ledger, number, session->initialize);
    return HX_TRACE(rc);
}

static int get_session(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_store_session session = {.key = request->session.key};
    struct hx_span *texts[] = {&session.tenant, &session.principal, &session.endpoint,
                               &session.revision};
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SESSION_GET);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &session.key);
    int found = hx_ledger_step(ledger, stmt);
    int rc = found < 0 ? found : 0;
    for (int i = 0; found == 1 && rc == 0 && i < 4; i++)
        rc = hx_column_load_span(stmt, i, &request->arena, texts[i]);
    if (found == 1 && rc == 0) {
        session.created.ms = sqlite3_column_int64(stmt, 4);
        session.last_seen.ms = sqlite3_column_int64(stmt, 5);
        rc = hx_column_load_span(stmt, 6, &request->arena, &session.initialize);
    }
    sqlite3_reset(stmt);
    request->session = session;
    request->result = found == 1 ? HX_STORE_DONE : HX_STORE_STALE;
    return HX_TRACE(rc);
}

static int touch_session(struct hx_ledger *ledger, struct hx_store_request *request)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SESSION_TOUCH);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &request->session.key);
    sqlite3_bind_int64(stmt, 2, request->session.last_seen.ms);
    sqlite3_bind_int64(stmt, 3, hx_ledger_age_ms(ledger));
    return HX_TRACE(run_if(ledger, request, stmt));
}

static int end_session(struct hx_ledger *ledger, struct hx_store_request *request)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_SESSION_END);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &request->session.key);
    return HX_TRACE(run_if(ledger, request, stmt));
}

static int put_stream(struct hx_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_store_stream *stream = &request->stream;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_STREAM_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &stream->session);
    hx_column_bind_span(stmt, 2, stream->name, false);
    bind_blob(stmt, 3, &stream->op, HX_ID_SIZE);
    hx_column_bind_span(stmt, 4, stream->request_id, false);
    return HX_TRACE(run_if(ledger, request, stmt));
}

static int end_streams(struct hx_ledger *ledger, struct hx_store_request *request)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_STREAM_END);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &request->stream.session);
    hx_column_bind_span(stmt, 2, request->stream.request_id, false);
    return HX_TRACE(run_if(ledger, request, stmt));
}

static int get_stream(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_store_stream *stream = &request->stream;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_STREAM_GET);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_key(stmt, &stream->session);
    hx_column_bind_span(stmt, 2, stream->name, false);
    int found = hx_ledger_step(ledger, stmt);
    int rc = found < 0 ? found : 0;
    if (found == 1 && sqlite3_column_bytes(stmt, 0) != HX_ID_SIZE)
        rc = hx_ledger_raise(ledger, SQLITE_CORRUPT);
    if (found == 1 && rc == 0) {
        memcpy(&stream->op, sqlite3_column_blob(stmt, 0), HX_ID_SIZE);
        rc = hx_column_load_span(stmt, 1, &request->arena, &stream->request_id);
    }
    sqlite3_reset(stmt);
    request->result = found == 1 ? HX_STORE_DONE : HX_STORE_STALE;
    return HX_TRACE(rc);
}

static int put_resume(struct hx_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_store_resume *resume = &request->resume;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_RESUME_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_blob(stmt, 1, &resume->op, HX_ID_SIZE);
    sqlite3_bind_int64(stmt, 2, resume->attempt);
    hx_column_bind_span(stmt, 3, resume->text, false);
    return HX_TRACE(run_if(ledger, request, stmt));
}

static int get_resume(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_store_resume *resume = &request->resume;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_RESUME_GET);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_blob(stmt, 1, &resume->op, HX_ID_SIZE);
    int found = hx_ledger_step(ledger, stmt);
    int rc = found < 0 ? found : 0;
    if (found == 1) {
        resume->attempt = (uint32_t)sqlite3_column_int64(stmt, 0);
        rc = hx_column_load_span(stmt, 1, &request->arena, &resume->text);
    }
    sqlite3_reset(stmt);
    request->result = found == 1 ? HX_STORE_DONE : HX_STORE_STALE;
    return HX_TRACE(rc);
}

int hx_kept_run(struct hx_ledger *ledger, struct hx_store_request *request)
{
    static int (*const runs[])(struct hx_ledger * ledger, struct hx_store_request * request) = {
        [HX_STORE_SESSION_PUT] = put_session,     [HX_STORE_SESSION_GET] = get_session,
        [HX_STORE_SESSION_TOUCH] = touch_session, [HX_STORE_SESSION_END] = end_session,
        [HX_STORE_STREAM_PUT] = put_stream,       [HX_STORE_STREAM_END] = end_streams,
        [HX_STORE_STREAM_GET] = get_stream,       [HX_STORE_RESUME_PUT] = put_resume,
        [HX_STORE_RESUME_GET] = get_resume,
    };
    hx_assert(hx_kept_is(request->kind));
    return HX_TRACE(runs[request->kind](ledger, request));
}

int hx_kept_prove(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PROOF_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_blob(stmt, 1, &ledger->owners.self, HX_ID_SIZE);
    sqlite3_bind_int64(stmt, 2, (int64_t)++ledger->proof_number);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

int hx_kept_is_proved(struct hx_ledger *ledger)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PROOF_GET);
    if (stmt == NULL)
        return HX_E_STORE;
    bind_blob(stmt, 1, &ledger->owners.self, HX_ID_SIZE);
    int rc = hx_ledger_step(ledger, stmt);
    bool is_there = rc == 1 && (uint64_t)sqlite3_column_int64(stmt, 0) == ledger->proof_number;
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : is_there;
}
