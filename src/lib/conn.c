/* SPDX-License-Identifier: MIT */
/*
 * The caller's own transaction. What the core learned from writes in it is kept beside what it knew
 * before, and the end of the transaction decides which of the two holds.
 */
#include "base/alloc.h"
#include "base/fault.h"
#include "lib/internal.h"

static int check(const struct hapax_conn *conn, struct hapax_error *error)
{
    if (conn == NULL || conn->magic != HX_LIB_CONN_MAGIC)
        return hx_lib_fail(error, HAPAX_E_MISUSE, "This is no attached connection.");
    return hx_lib_check(conn->hapax, error);
}

static int enter(const struct hapax_conn *conn, struct hapax_error *error)
{
    int rc = check(conn, error);
    return rc < 0 ? rc : hx_lib_enter(conn->hapax, error);
}

int hapax_attach(struct hapax *hapax, struct sqlite3 *db, const char *sqlite_source, unsigned flags,
                 struct hapax_conn **ret_conn, struct hapax_error *ret_error)
{
    struct hx_guest *guest = NULL;
    int rc = hx_lib_enter(hapax, ret_error);
    if (rc < 0)
        return rc;
    if (db == NULL || (flags & ~HAPAX_WRITES_OUTSIDE) != 0)
        return hx_lib_fail(ret_error, HAPAX_E_MISUSE,
                           "No connection, or a flag that is not known.");
    bool writes_outside = (flags & HAPAX_WRITES_OUTSIDE) != 0;
    if (hx_guest_attach(hapax->store, db, sqlite_source, writes_outside, &guest) < 0)
        return hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    struct hapax_conn *conn = hx_new(struct hapax_conn);
    conn->magic = HX_LIB_CONN_MAGIC;
    conn->hapax = hapax;
    conn->guest = guest;
    hx_list_init(&conn->calls);
    pthread_mutex_lock(&hapax->mutex);
    hapax->conn_count++;
    pthread_mutex_unlock(&hapax->mutex);
    *ret_conn = conn;
    return 0;
}

enum end { END_COMMITTED, END_UNDONE, END_IN_DOUBT };

/* In doubt neither holds, so the call can do nothing more: the next claim asks the ledger. */
static void release(struct hapax_call *call, enum end end)
{
    hx_list_unlink(&call->enlisted);
    call->conn = NULL;
    if (end != END_COMMITTED) {
        call->is_void = call->was_claimed_here || end == END_IN_DOUBT;
        call->op = call->saved_op;
        hx_lib_set_in_hand(call, call->saved_in_hand && !call->is_void);
    }
    call->was_claimed_here = false;
}

static void release_all(struct hapax_conn *conn, enum end end)
{
    struct hx_list *node;
    while ((node = hx_list_first(&conn->calls)) != NULL)
        release(hx_container_of(node, struct hapax_call, enlisted), end);
}

int hapax_begin(struct hapax_conn *conn, struct hapax_error *ret_error)
{
    int rc = enter(conn, ret_error);
    if (rc < 0)
        return rc;
    if (hx_guest_begin(conn->guest) < 0)
        return hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    return 0;
}

int hapax_commit(struct hapax_conn *conn, struct hapax_error *ret_error)
{
    int rc = check(conn, ret_error);
    if (rc < 0)
        return rc;
    switch (hx_guest_commit(conn->guest)) {
    case 0:
        release_all(conn, END_COMMITTED);
        return 0;
    case HX_GUEST_IN_DOUBT:
        release_all(conn, END_IN_DOUBT);
        return hx_lib_fail_fault(ret_error, HAPAX_E_FATE);
    default:
        release_all(conn, END_UNDONE);
        return hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    }
}

void hapax_rollback(struct hapax_conn *conn)
{
    if (check(conn, NULL) < 0)
        return;
    /* Whoever ended it by a statement of his own may have committed it. */
    enum end end = hx_guest_is_open(conn->guest) ? END_UNDONE : END_IN_DOUBT;
    hx_guest_rollback(conn->guest);
    release_all(conn, end);
}

void hapax_detach(struct hapax_conn *conn)
{
    if (conn == NULL || check(conn, NULL) < 0)
        return;
    struct hapax *hapax = conn->hapax;
    hapax_rollback(conn);
    hx_guest_detach(conn->guest);
    pthread_mutex_lock(&hapax->mutex);
    hapax->conn_count--;
    pthread_mutex_unlock(&hapax->mutex);
    conn->magic = 0;
    hx_free(conn);
}
