/* SPDX-License-Identifier: MIT */
/*
 * Statements: made once, stepped with one error path. Also what hangs on single statements: the
 * numbers that stand for boots and contracts.
 */
#include <errno.h>
#include <stdio.h>

#include "adapter/store_sqlite/ledger.h"
#include "base/fault.h"

static const char *const sql_texts[] = {
#define HX_SQL(NAME, text) [HX_SQL_##NAME] = text,
#include "adapter/store_sqlite/sql.def"
};

enum { SQL_LEN_MAX = 16 * 1024 };

static void select_op(struct hx_buf *sql, const char *where)
{
    (void)hx_buf_append_cstr(sql,
                             "SELECT row, contract, claim_epoch, arguments_place, outcome_place,"
                             " outcome_blob, arguments, outcome, used_age, ");
    hx_columns_names(sql, HX_COLUMN_ALL);
    (void)hx_buf_printf(sql, " FROM op %s", where);
}

static void insert_op(struct hx_buf *sql)
{
    (void)hx_buf_append_cstr(sql, "INSERT INTO op(");
    hx_columns_names(sql, HX_COLUMN_ALL);
    (void)hx_buf_append_cstr(sql,
                             ", hot, claim_epoch, contract, used_age, arguments_place, arguments,"
                             " outcome_place, outcome_blob, outcome) VALUES (");
    hx_columns_marks(sql, HX_COLUMN_ALL);
    (void)hx_buf_append_cstr(sql, ", ?, ?, ?, ?, ?, ?, ?, ?, ?)");
}

static void update_op(struct hx_buf *sql)
{
    (void)hx_buf_append_cstr(sql, "UPDATE op SET ");
    hx_columns_assignments(sql, HX_COLUMN_CHANGING | HX_COLUMN_GROWING | HX_COLUMN_HOLDER);
    (void)hx_buf_append_cstr(sql,
                             ", hot = coalesce(?, hot), claim_epoch = coalesce(?, claim_epoch),"
                             " used_age = ?, outcome_place = ?, outcome_blob = ?,"
                             " outcome = iif(?, outcome, ?) WHERE row = ?");
}

static int make_sql(struct hx_buf *text, enum hx_sql sql)
{
    if (sql == HX_SQL_OP_INSERT)
        insert_op(text);
    else if (sql == HX_SQL_OP_UPDATE)
        update_op(text);
    else if (sql == HX_SQL_OP_BY_ROW)
        select_op(text, "WHERE row = ?");
    else if (sql == HX_SQL_OP_BY_ID)
        select_op(text, "WHERE id = ?");
    else if (sql == HX_SQL_OP_BY_IDENTITY)
        select_op(text,
                  "WHERE identity = ? AND identity_rest = ? ORDER BY generation DESC LIMIT 1");
    else if (sql == HX_SQL_OP_TWINS)
        select_op(text, "WHERE hot = 1 AND twin = ? AND twin_rest = ? AND row <> ?"
                        " ORDER BY row LIMIT ?");
    else
        (void)hx_buf_append_cstr(text, sql_texts[sql]);
    return hx_buf_ok(text) ? 0 : HX_RAISE(HX_E_NOMEM, HX_NO_ROOM);
}

sqlite3_stmt *hx_ledger_stmt(struct hx_ledger *ledger, enum hx_sql sql)
{
    sqlite3_stmt *stmt = ledger->stmts[sql];
    if (stmt != NULL) {
        sqlite3_reset(stmt);
        return stmt;
    }
    struct hx_buf text;
    hx_buf_init(&text, SQL_LEN_MAX);
    if (make_sql(&text, sql) < 0) {
        hx_buf_fini(&text);
        return NULL;
    }
    int code = sqlite3_prepare_v3(ledger->db, text.data, (int)text.len, SQLITE_PREPARE_PERSISTENT,
                                  &ledger->stmts[sql], NULL);
    hx_buf_fini(&text);
    if (code != SQLITE_OK) {
        (void)hx_ledger_raise(ledger, code);
        return NULL;
    }
    return ledger->stmts[sql];
}

static bool is_io_error(int code)
{
    return (code & 0xff) == SQLITE_IOERR;
}

/* What a person should know and do, by SQLite's primary code. */
static const char *advice(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return "the disk is full; free some space";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "it cannot be written; check the permissions of the file and its directory";
    case SQLITE_CANTOPEN:
        return "it cannot be opened; check that the directory exists and may be written";
    case SQLITE_NOTADB:
        return "it is not a ledger of Hapax; name another file with --ledger";
    case SQLITE_CORRUPT:
        return "it is damaged; stop all of Hapax, keep a copy, and run hapax ops verify";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program holds it; only Hapax may open this file";
    case SQLITE_IOERR:
        return "the disk reports an error; see the kernel's log";
    case SQLITE_NOMEM:
        return "memory is exhausted";
    default:
        return "SQLite refuses";
    }
}

int hx_ledger_raise(struct hx_ledger *ledger, int code)
{
    int extended = ledger->db != NULL ? sqlite3_extended_errcode(ledger->db) : code;
    if ((extended & 0xff) != (code & 0xff))
        extended = code;
    int rc = HX_RAISE(HX_E_STORE, "The ledger %s: %s (%s).", ledger->paths.ledger, advice(code),
                      ledger->db != NULL ? sqlite3_errmsg(ledger->db) : sqlite3_errstr(code));
    if (is_io_error(extended) && !ledger->is_ill) {
        ledger->is_ill = true;
        snprintf(ledger->illness, sizeof(ledger->illness), "%s", hx_fault_last()->text);
    }
    return rc;
}

int hx_ledger_step(struct hx_ledger *ledger, sqlite3_stmt *stmt)
{
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        return 1;
    if (code == SQLITE_DONE)
        return 0;
    return hx_ledger_raise(ledger, code);
}

int hx_ledger_run(struct hx_ledger *ledger, sqlite3_stmt *stmt)
{
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = hx_ledger_step(ledger, stmt);
    sqlite3_reset(stmt);
    hx_assert(rc <= 0);
    return HX_TRACE(rc);
}

static int query_number(struct hx_ledger *ledger, sqlite3_stmt *stmt, int64_t *ret_number)
{
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1)
        *ret_number = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return rc;
}

static int boot_number(void *context, const struct hx_boot *boot, int64_t *ret_number)
{
    static const struct hx_boot none;
    struct hx_ledger *ledger = context;
    *ret_number = 0;
    if (hx_boot_eq(boot, &none))
        return 0;
    for (unsigned i = 0; i < HX_LEDGER_BOOTS_CACHED; i++) {
        if (ledger->boot_cache[i].number != 0 && hx_boot_eq(&ledger->boot_cache[i].boot, boot)) {
            *ret_number = ledger->boot_cache[i].number;
            return 0;
        }
    }
    sqlite3_stmt *find = hx_ledger_stmt(ledger, HX_SQL_BOOT_NUMBER);
    if (find == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(find, 1, boot, sizeof(*boot), SQLITE_STATIC);
    int rc = query_number(ledger, find, ret_number);
    if (rc == 0) {
        sqlite3_stmt *add = hx_ledger_stmt(ledger, HX_SQL_BOOT_ADD);
        if (add == NULL)
            return HX_E_STORE;
        sqlite3_bind_blob(add, 1, boot, sizeof(*boot), SQLITE_STATIC);
        rc = hx_ledger_run(ledger, add);
        *ret_number = sqlite3_last_insert_rowid(ledger->db);
    }
    if (rc < 0)
        return HX_TRACE(rc);
    unsigned at = ledger->boot_next++ % HX_LEDGER_BOOTS_CACHED;
    ledger->boot_cache[at].boot = *boot;
    ledger->boot_cache[at].number = *ret_number;
    return 0;
}

static int boot_of_number(void *context, int64_t number, struct hx_boot *ret_boot)
{
    struct hx_ledger *ledger = context;
    *ret_boot = (struct hx_boot){{0}};
    if (number == 0)
        return 0;
    for (unsigned i = 0; i < HX_LEDGER_BOOTS_CACHED; i++) {
        if (ledger->boot_cache[i].number == number) {
            *ret_boot = ledger->boot_cache[i].boot;
            return 0;
        }
    }
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_BOOT_READ);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, number);
    int rc = hx_ledger_step(ledger, stmt);
    bool is_whole = rc == 1 && sqlite3_column_bytes(stmt, 0) == (int)sizeof(*ret_boot);
    if (is_whole)
        memcpy(ret_boot, sqlite3_column_blob(stmt, 0), sizeof(*ret_boot));
    sqlite3_reset(stmt);
    if (rc >= 0 && !is_whole)
        return HX_RAISE(HX_E_SYNTAX, "a row names boot %lld, which is not there",
                        (long long)number);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

struct hx_boots hx_ledger_boots(struct hx_ledger *ledger)
{
    return (struct hx_boots){ledger, boot_number, boot_of_number};
}

static void cache_contract(struct hx_ledger *ledger, const struct hx_contract *contract,
                           int64_t number)
{
    unsigned at = ledger->contract_next++ % HX_LEDGER_CONTRACTS_CACHED;
    ledger->contract_cache[at].contract = *contract;
    ledger->contract_cache[at].number = number;
}

enum { CONTRACT_LEN_MAX = 4096 };

int hx_ledger_contract_number(struct hx_ledger *ledger, const struct hx_contract *contract,
                              int64_t *ret_number)
{
    for (unsigned i = 0; i < HX_LEDGER_CONTRACTS_CACHED; i++) {
        if (ledger->contract_cache[i].number != 0 &&
            hx_contract_eq(&ledger->contract_cache[i].contract, contract)) {
            *ret_number = ledger->contract_cache[i].number;
            return 0;
        }
    }
    struct hx_buf text;
    hx_buf_init(&text, CONTRACT_LEN_MAX);
    hx_contract_format(contract, &text);
    sqlite3_stmt *find = hx_ledger_stmt(ledger, HX_SQL_CONTRACT_NUMBER);
    sqlite3_stmt *add = hx_ledger_stmt(ledger, HX_SQL_CONTRACT_ADD);
    int rc = HX_E_STORE;
    if (!hx_buf_ok(&text)) {
        rc = HX_RAISE(HX_E_NOMEM, HX_NO_ROOM); /* half a contract would be another one */
    } else if (find != NULL && add != NULL) {
        sqlite3_bind_text(find, 1, text.data, (int)text.len, SQLITE_STATIC);
        rc = query_number(ledger, find, ret_number);
    }
    if (rc == 0) {
        sqlite3_bind_text(add, 1, text.data, (int)text.len, SQLITE_STATIC);
        rc = hx_ledger_run(ledger, add);
        *ret_number = sqlite3_last_insert_rowid(ledger->db);
    }
    if (rc >= 0)
        cache_contract(ledger, contract, *ret_number);
    hx_buf_fini(&text);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

void hx_ledger_forget_numbers(struct hx_ledger *ledger)
{
    memset(ledger->boot_cache, 0, sizeof(ledger->boot_cache));
    memset(ledger->contract_cache, 0, sizeof(ledger->contract_cache));
}

int hx_ledger_contract(struct hx_ledger *ledger, int64_t number, struct hx_contract *ret_contract)
{
    for (unsigned i = 0; i < HX_LEDGER_CONTRACTS_CACHED; i++) {
        if (ledger->contract_cache[i].number == number && number != 0) {
            *ret_contract = ledger->contract_cache[i].contract;
            return 0;
        }
    }
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_CONTRACT_READ);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, number);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        *ret_contract =
            hx_contract_parse(hx_span(text ? text : "", (size_t)sqlite3_column_bytes(stmt, 0)));
        cache_contract(ledger, ret_contract, number);
    }
    sqlite3_reset(stmt);
    if (rc == 0)
        return HX_RAISE(HX_E_SYNTAX, "a row names contract %lld, which is not there",
                        (long long)number);
    return rc < 0 ? HX_TRACE(rc) : 0;
}
