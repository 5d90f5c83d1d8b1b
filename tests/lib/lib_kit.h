/* SPDX-License-Identifier: MIT */
/*
 * What the tests of libhapax share: a ledger in a directory of its own, claims in one line, and
 * SQL on a connection of the test's own. Through the public header alone, like any user.
 */
#ifndef HX_TESTS_LIB_KIT_H
#define HX_TESTS_LIB_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "hapax/hapax.h"

struct bench {
    char directory[64];
    char path[96];
    struct hapax *hapax;
    struct hapax_error error;
};

/* cmocka's setup and teardown; *state is the bench. */
int bench_setup(void **state);
int bench_teardown(void **state);
/* Without a ledger opened. */
struct bench *bench_new(void);
void bench_free(struct bench *bench);
void bench_open(struct bench *bench);
void bench_close(struct bench *bench);
struct hapax *bench_open_other(struct bench *bench);

/* Claims `key` of the tool `charge` for {"amount":1}; the verdict must be the one expected. */
struct hapax_call *claim_as(struct bench *bench, struct hapax_conn *conn, const char *key,
                            const struct hapax_contract *contract, int expected);
#define claim(bench, key, expected) claim_as((bench), NULL, (key), NULL, (expected))
/* The verdict of a claim, or its error; frees the call. */
int verdict_of(struct bench *bench, struct hapax *hapax, const char *key,
               const struct hapax_contract *contract);
struct hapax_info info_of(const struct hapax_call *call);
void finish(struct bench *bench, struct hapax_call *call, struct hapax_conn *conn,
            const char *outcome);

/* A connection of the test's own, not attached. */
sqlite3 *db_open(const char *path);
void db_run(sqlite3 *db, const char *sql);
int db_try(sqlite3 *db, const char *sql); /* SQLite's code */
int64_t db_number(sqlite3 *db, const char *sql);
/* The same on a connection that is opened and closed again; for when the ledger is not open. */
int64_t ledger_number(struct bench *bench, const char *sql);

#define assert_ok(bench, call)                                                                     \
    do {                                                                                           \
        int assert_ok_rc = (call);                                                                 \
        if (assert_ok_rc != 0)                                                                     \
            fail_msg("%s: %d, %s", #call, assert_ok_rc, (bench)->error.text);                      \
    } while (0)

#endif
