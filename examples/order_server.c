/* SPDX-License-Identifier: MIT */
/*
 * An MCP tool server on stdio that keeps orders and a budget in a SQLite file of its own, and acts
 * once for a key however often it is called, killed and started again. It shows both ways to use
 * libhapax (docs/library.md):
 *
 *   order {item, amount}   changes nothing but the server's own tables. Claim, order, budget,
 *                          event and outcome are one transaction, so that its fate is never
 *                          unknown.
 *   pay {amount}           acts elsewhere: a bank, here a file that gets a line. The claim is
 *                          durable before the bank hears of it; the receipt, the row and the
 *                          outcome come after. The bank is told the effect key and pays once for
 *                          it (it would; this one only writes the key down), so a payment whose
 *                          fate is unknown is made again under the same key.
 *
 *   hapax-example-orders --db FILE [--bank FILE] [--budget N]
 *
 * The key is params._meta["dev.hapax/idempotencyKey"]. One thread, one call at a time. The crash
 * points are for the tests, which kill it at each of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/crash.h"
#include "hapax/hapax.h"
#include "json/reader.h"
#include "json/text.h"

#define LINE_BYTES_MAX ((size_t)1 << 20)
#define HORIZON_MS ((int64_t)24 * 60 * 60 * 1000)

struct server {
    struct hapax *ledger;
    struct hapax_conn *conn;
    sqlite3 *db;
    int bank;
    int64_t budget;
    struct hx_json_tape tape; /* of the message being read */
    struct hx_arena arena;    /* what its strings say */
    struct hx_buf out;
    struct hapax_error error;
};

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "hapax-example-orders: %s: %s\n", what, why);
    exit(1);
}

/* --- answers ------------------------------------------------------------- */

static void answer(struct server *server, struct hx_span id, const char *member,
                   struct hx_span json)
{
    struct hx_buf *out = &server->out;
    hx_buf_reset(out);
    hx_buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"%s\":", HX_SPAN_FMT(id), member);
    hx_buf_append_span(out, json);
    hx_buf_append_cstr(out, "}\n");
    struct hx_span line = hx_buf_span(out);
    while (line.len > 0) {
        ssize_t written = write(STDOUT_FILENO, line.ptr, line.len);
        if (written < 0 && errno != EINTR)
            die("cannot write", strerror(errno)); /* nobody reads our answers any more */
        line.ptr += written > 0 ? written : 0;
        line.len -= written > 0 ? (size_t)written : 0;
    }
}

static void answer_error(struct server *server, struct hx_span id, int code, const char *message)
{
    struct hx_buf json;
    hx_buf_init(&json, LINE_BYTES_MAX);
    hx_buf_printf(&json, "{\"code\":%d,\"message\":", code);
    hx_json_text_quote(&json, hx_span_cstr(message));
    hx_buf_append_cstr(&json, "}");
    answer(server, id, "error", hx_buf_span(&json));
    hx_buf_fini(&json);
}

static void make_result(struct hx_buf *result, const char *text, bool is_error)
{
    hx_buf_init(result, LINE_BYTES_MAX);
    hx_buf_append_cstr(result, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_text_quote(result, hx_span_cstr(text));
    hx_buf_append_cstr(result, is_error ? "}],\"isError\":true}" : "}]}");
}

/* What a claim says that is not "run": the stored outcome as it is, or one sentence. */
static void answer_claim(struct server *server, struct hx_span id, const struct hapax_call *call)
{
    struct hapax_info info = {.size = sizeof(info)};
    struct hx_buf result;
    hapax_call_info(call, &info);
    if (info.verdict == HAPAX_REPLAY) {
        answer(server, id, "result", hx_span(info.outcome, info.outcome_size));
        return;
    }
    make_result(&result, info.text, true);
    answer(server, id, "result", hx_buf_span(&result));
    hx_buf_fini(&result);
}

/* --- the tools ----------------------------------------------------------- */

static const char tool_list[] =
    "{\"tools\":["
    "{\"name\":\"order\",\"description\":\"Orders an item and charges the budget.\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"item\":{\"type\":\"string\"},"
    "\"amount\":{\"type\":\"integer\"}},\"required\":[\"item\",\"amount\"]},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true}},"
    "{\"name\":\"pay\",\"description\":\"Pays an amount by the bank.\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"amount\":{\"type\":\"integer\"}},"
    "\"required\":[\"amount\"]},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true}}]}";

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS app_orders("
    " operation TEXT NOT NULL UNIQUE, item TEXT NOT NULL, amount INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS app_payments("
    " operation TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL, receipt TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS app_budget("
    " id INTEGER PRIMARY KEY CHECK (id = 1), spent INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS app_events(what TEXT NOT NULL, operation TEXT NOT NULL);"
    "INSERT OR IGNORE INTO app_budget VALUES (1, 0)";

/* Runs a statement; `kinds` tells its values: t a text, i an int64_t. How many rows it changed, or
 * -1. */
static int change(struct server *server, const char *sql, const char *kinds, ...)
{
    sqlite3_stmt *stmt = NULL;
    va_list values;
    int code = sqlite3_prepare_v2(server->db, sql, -1, &stmt, NULL);
    va_start(values, kinds);
    for (int i = 0; code == SQLITE_OK && kinds[i] != '\0'; i++)
        code = kinds[i] == 't'
                   ? sqlite3_bind_text(stmt, i + 1, va_arg(values, const char *), -1, SQLITE_STATIC)
                   : sqlite3_bind_int64(stmt, i + 1, va_arg(values, int64_t));
    va_end(values);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? sqlite3_changes(server->db) : -1;
}

struct wanted {
    const char *tool;
    const char *key;
    const char *item;
    int64_t amount;
    struct hx_span arguments;
};

static int claim(struct server *server, const struct wanted *wanted, struct hapax_conn *conn,
                 struct hapax_call **ret_call)
{
    struct hapax_request request;
    struct hapax_contract contract;
    hapax_contract_init(&contract);
    if (conn == NULL) { /* the payment: the bank knows its key for a day */
        contract.tool_class = HAPAX_KEYED;
        contract.dedupe_horizon_ms = HORIZON_MS;
        contract.timeout_ms = 60 * 1000;
        contract.attempts_max = 1000;
    }
    hapax_request_init(&request);
    request.tool = wanted->tool;
    request.key = wanted->key;
    request.arguments = wanted->arguments.ptr;
    request.arguments_size = wanted->arguments.len;
    request.contract = &contract;
    return hapax_claim(server->ledger, conn, &request, ret_call, &server->error);
}

/* The order itself, inside the transaction. False: the transaction is to be rolled back. */
static bool place_order(struct server *server, const struct wanted *wanted, struct hapax_call *call,
                        struct hx_buf *ret_result)
{
    struct hapax_info info = {.size = sizeof(info)};
    char text[160];
    hapax_call_info(call, &info);
    int paid = change(server, "UPDATE app_budget SET spent = spent + ?1 WHERE spent + ?1 <= ?2",
                      "ii", wanted->amount, server->budget);
    if (paid < 0)
        return false;
    HX_CRASH_POINT("order-charged");
    bool is_in = paid == 0 || (change(server, "INSERT INTO app_orders VALUES (?, ?, ?)", "tti",
                                      info.id, wanted->item, wanted->amount) == 1 &&
                               change(server, "INSERT INTO app_events VALUES ('ordered', ?)", "t",
                                      info.id) == 1);
    HX_CRASH_POINT("order-written");
    snprintf(text, sizeof(text),
             paid == 0 ? "the budget does not allow %" PRId64 : "ordered for %" PRId64,
             wanted->amount);
    make_result(ret_result, text, paid == 0);
    struct hx_span bytes = hx_buf_span(ret_result);
    return is_in &&
           hapax_finish(call, server->conn, bytes.ptr, bytes.len, paid == 0, &server->error) == 0;
}

static void order(struct server *server, struct hx_span id, const struct wanted *wanted)
{
    struct hapax_call *call = NULL;
    struct hx_buf result;
    bool is_done = false;
    hx_buf_init(&result, LINE_BYTES_MAX);
    if (hapax_begin(server->conn, &server->error) != 0) {
        answer_error(server, id, -32603, server->error.text);
        return;
    }
    HX_CRASH_POINT("order-begun");
    int verdict = claim(server, wanted, server->conn, &call);
    HX_CRASH_POINT("order-claimed");
    if (verdict == HAPAX_RUN)
        is_done = place_order(server, wanted, call, &result);
    HX_CRASH_POINT("order-finished");
    /* Nothing is said before the commit has said that it is true. */
    if (verdict < 0 || (verdict == HAPAX_RUN && !is_done))
        hapax_rollback(server->conn);
    else
        is_done = hapax_commit(server->conn, &server->error) == 0;
    HX_CRASH_POINT("order-committed");
    if (!is_done)
        answer_error(server, id, -32603, server->error.text);
    else if (verdict == HAPAX_RUN)
        answer(server, id, "result", hx_buf_span(&result));
    else
        answer_claim(server, id, call);
    hapax_call_free(call);
    hx_buf_fini(&result);
}

/* The effect outside: on the bank's disk when it returns. */
static bool tell_bank(struct server *server, const struct hapax_info *info, int64_t amount)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "%s %" PRId64 "\n", info->effect_key, amount);
    return write(server->bank, line, (size_t)len) == len && fsync(server->bank) == 0;
}

/* The payment's row and its outcome, in one transaction; tried again while the ledger is in use. */
static bool record_payment(struct server *server, const struct wanted *wanted,
                           struct hapax_call *call, struct hx_span result)
{
    struct hapax_info info = {.size = sizeof(info)};
    hapax_call_info(call, &info);
    if (hapax_begin(server->conn, &server->error) != 0)
        return false;
    bool is_in = change(server, "INSERT INTO app_payments VALUES (?, ?, ?)", "tit", info.id,
                        wanted->amount, info.effect_key) == 1;
    HX_CRASH_POINT("pay-written");
    if (!is_in ||
        hapax_finish(call, server->conn, result.ptr, result.len, 0, &server->error) != 0) {
        hapax_rollback(server->conn);
        return false;
    }
    return hapax_commit(server->conn, &server->error) == 0;
}

static void pay(struct server *server, struct hx_span id, const struct wanted *wanted)
{
    struct hapax_call *call = NULL;
    struct hapax_info info = {.size = sizeof(info)};
    struct hx_buf result;
    char text[96];
    int verdict = claim(server, wanted, NULL, &call);
    if (verdict != HAPAX_RUN) {
        if (verdict < 0)
            answer_error(server, id, -32603, server->error.text);
        else
            answer_claim(server, id, call);
        hapax_call_free(call);
        return;
    }
    hapax_call_info(call, &info);
    HX_CRASH_POINT("pay-claimed");
    bool is_told = tell_bank(server, &info, wanted->amount);
    HX_CRASH_POINT("pay-acted");
    if (is_told)
        (void)hapax_receipt(call, NULL, info.effect_key, NULL); /* only for whoever looks later */
    HX_CRASH_POINT("pay-noted");
    snprintf(text, sizeof(text), "paid %" PRId64 ", receipt %s", wanted->amount, info.effect_key);
    make_result(&result, text, false);
    if (is_told && record_payment(server, wanted, call, hx_buf_span(&result))) {
        HX_CRASH_POINT("pay-committed");
        answer(server, id, "result", hx_buf_span(&result));
    } else {
        answer_error(server, id, -32603,
                     "It may have been paid: repeat the same call to find out.");
    }
    hapax_call_free(call); /* not finished: unknown, and the next call with this key pays again */
    hx_buf_fini(&result);
}

/* --- the protocol -------------------------------------------------------- */

static const char *string_of(struct server *server, uint32_t object, const char *name)
{
    struct hx_span text;
    uint32_t at = hx_json_member_of(&server->tape, object, hx_span_cstr(name), HX_JSON_STRING);
    if (at == HX_JSON_NONE || hx_json_string(&server->tape, at, &server->arena, &text) != 0)
        return NULL;
    text = hx_arena_dup(&server->arena, text);
    return text.ptr;
}

static void call_tool(struct server *server, struct hx_span id, uint32_t params)
{
    const struct hx_json_tape *tape = &server->tape;
    uint32_t arguments = hx_json_member(tape, params, HX_SPAN_LIT("arguments"));
    uint32_t meta = hx_json_member(tape, params, HX_SPAN_LIT("_meta"));
    struct wanted wanted = {
        .tool = string_of(server, params, "name"),
        .key = string_of(server, meta, "dev.hapax/idempotencyKey"),
        .item = string_of(server, arguments, "item"),
        .arguments = hx_json_raw(tape, arguments),
    };
    uint32_t amount = hx_json_member(tape, arguments, HX_SPAN_LIT("amount"));
    bool is_order = wanted.tool != NULL && strcmp(wanted.tool, "order") == 0;
    bool is_pay = wanted.tool != NULL && strcmp(wanted.tool, "pay") == 0;
    if (!is_order && !is_pay)
        answer_error(server, id, -32602, "there is no such tool; see tools/list");
    else if (amount == HX_JSON_NONE || !hx_json_int64(tape, amount, &wanted.amount) ||
             wanted.amount <= 0 || (is_order && wanted.item == NULL))
        answer_error(server, id, -32602, "amount must be a whole number above 0, item a text");
    else if (is_order)
        order(server, id, &wanted);
    else
        pay(server, id, &wanted);
}

static void handle_line(struct server *server, struct hx_span line)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    const struct hx_json_tape *tape = &server->tape;
    hx_arena_reset(&server->arena);
    if (hx_json_read(&server->tape, line, &limits) != 0) {
        answer_error(server, HX_SPAN_LIT("null"), -32700, "this line is not JSON");
        return;
    }
    uint32_t method = hx_json_member_of(tape, 0, HX_SPAN_LIT("method"), HX_JSON_STRING);
    uint32_t params = hx_json_member(tape, 0, HX_SPAN_LIT("params"));
    struct hx_span id = hx_json_raw(tape, hx_json_member(tape, 0, HX_SPAN_LIT("id")));
    if (method == HX_JSON_NONE || hx_span_is_absent(id))
        return; /* an answer or a notification: we asked nothing, and no call is cut short */
    if (hx_json_is_text(tape, method, HX_SPAN_LIT("tools/call")))
        call_tool(server, id, params);
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("tools/list")))
        answer(server, id, "result", HX_SPAN_LIT(tool_list));
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("ping")))
        answer(server, id, "result", HX_SPAN_LIT("{}"));
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("initialize")))
        answer(server, id, "result",
               HX_SPAN_LIT("{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},"
                           "\"serverInfo\":{\"name\":\"hapax-example-orders\","
                           "\"version\":\"1.0.0\"}}"));
    else
        answer_error(server, id, -32601, "this method is not known here");
}

/* --- beginning and end --------------------------------------------------- */

static void open_all(struct server *server, const char *db, const char *bank)
{
    struct hapax_options options;
    hapax_options_init(&options);
    options.path = db;
    options.server = "orders";
    options.lock_wait_ms = 10000;
    if (hapax_open(&options, &server->ledger, &server->error) != 0)
        die(db, server->error.text);
    /* After the ledger: it makes the file, with the mode that it wants. */
    if (sqlite3_open_v2(db, &server->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        die(db, sqlite3_errmsg(server->db));
    if (hapax_attach(server->ledger, server->db, sqlite3_sourceid(), 0, &server->conn,
                     &server->error) != 0 ||
        hapax_begin(server->conn, &server->error) != 0)
        die(db, server->error.text);
    if (sqlite3_exec(server->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        die(db, sqlite3_errmsg(server->db));
    if (hapax_commit(server->conn, &server->error) != 0)
        die(db, server->error.text);
    server->bank = open(bank, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (server->bank < 0)
        die(bank, strerror(errno));
}

static void serve(struct server *server)
{
    char *line = NULL;
    size_t size = 0;
    for (ssize_t len; (len = getline(&line, &size, stdin)) > 0;) {
        if (line[len - 1] == '\n')
            len--;
        if (len > 0)
            handle_line(server, hx_span(line, (size_t)len));
    }
    free(line);
}

int main(int argc, char **argv)
{
    struct server server = {.budget = INT64_MAX / 2};
    const char *db = NULL, *bank = "/dev/null";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--db") == 0)
            db = argv[i + 1];
        else if (strcmp(argv[i], "--bank") == 0)
            bank = argv[i + 1];
        else if (strcmp(argv[i], "--budget") == 0)
            server.budget = strtoll(argv[i + 1], NULL, 10);
        else
            db = NULL;
    }
    if (db == NULL) {
        fputs("usage: hapax-example-orders --db FILE [--bank FILE] [--budget N]\n", stderr);
        return 2;
    }
    hx_json_tape_init(&server.tape);
    hx_arena_init(&server.arena, 4 * LINE_BYTES_MAX);
    hx_buf_init(&server.out, 2 * LINE_BYTES_MAX);
    open_all(&server, db, bank);
    serve(&server);
    hapax_detach(server.conn);
    (void)sqlite3_close(server.db);
    (void)hapax_close(server.ledger, NULL);
    close(server.bank);
    hx_buf_fini(&server.out);
    hx_arena_fini(&server.arena);
    hx_json_tape_fini(&server.tape);
    return 0;
}
