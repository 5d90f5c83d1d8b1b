/* SPDX-License-Identifier: MIT */
#include "lib_kit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench *bench_new(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    snprintf(bench->directory, sizeof(bench->directory), "/tmp/hapax-lib-XXXXXX");
    assert_non_null(mkdtemp(bench->directory));
    snprintf(bench->path, sizeof(bench->path), "%s/app.db", bench->directory);
    return bench;
}

static void remove_tree(const char *directory)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", directory, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

void bench_free(struct bench *bench)
{
    remove_tree(bench->directory);
    free(bench);
}

struct hapax *bench_open_other(struct bench *bench)
{
    struct hapax_options options;
    struct hapax *hapax = NULL;
    hapax_options_init(&options);
    options.path = bench->path;
    options.server = "billing";
    options.lock_wait_ms = 300;
    assert_ok(bench, hapax_open(&options, &hapax, &bench->error));
    return hapax;
}

void bench_open(struct bench *bench)
{
    bench->hapax = bench_open_other(bench);
}

void bench_close(struct bench *bench)
{
    assert_ok(bench, hapax_close(bench->hapax, &bench->error));
    bench->hapax = NULL;
}

int bench_setup(void **state)
{
    struct bench *bench = bench_new();
    bench_open(bench);
    *state = bench;
    return 0;
}

int bench_teardown(void **state)
{
    struct bench *bench = *state;
    bench_close(bench);
    bench_free(bench);
    return 0;
}

static struct hapax_request request_for(const char *key, const struct hapax_contract *contract)
{
    struct hapax_request request;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = key;
    request.arguments = "{\"amount\": 1}";
    request.arguments_size = strlen(request.arguments);
    request.contract = contract;
    return request;
}

struct hapax_call *claim_as(struct bench *bench, struct hapax_conn *conn, const char *key,
                            const struct hapax_contract *contract, int expected)
{
    struct hapax_request request = request_for(key, contract);
    struct hapax_call *call = NULL;
    int verdict = hapax_claim(bench->hapax, conn, &request, &call, &bench->error);
    if (verdict != expected)
        fail_msg("claim of %s: %d instead of %d; %s", key, verdict, expected,
                 verdict < 0 ? bench->error.text : info_of(call).text);
    return call;
}

int verdict_of(struct bench *bench, struct hapax *hapax, const char *key,
               const struct hapax_contract *contract)
{
    struct hapax_request request = request_for(key, contract);
    struct hapax_call *call = NULL;
    int verdict = hapax_claim(hapax, NULL, &request, &call, &bench->error);
    hapax_call_free(call);
    return verdict;
}

struct hapax_info info_of(const struct hapax_call *call)
{
    struct hapax_info info = {.size = sizeof(info)};
    hapax_call_info(call, &info);
    return info;
}

void finish(struct bench *bench, struct hapax_call *call, struct hapax_conn *conn,
            const char *outcome)
{
    assert_ok(bench, hapax_finish(call, conn, outcome, strlen(outcome), 0, &bench->error));
}

sqlite3 *db_open(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    return db;
}

int db_try(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

void db_run(sqlite3 *db, const char *sql)
{
    if (db_try(db, sql) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

int64_t db_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return number;
}

int64_t ledger_number(struct bench *bench, const char *sql)
{
    sqlite3 *db = db_open(bench->path);
    int64_t number = db_number(db, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return number;
}
