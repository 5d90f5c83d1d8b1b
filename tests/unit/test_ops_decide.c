/* SPDX-License-Identifier: MIT */
/*
 * What a person is told who has decided, on a ledger in a file that is gone by then. The way from a
 * command line to here (ops.c) is the test's, and so is the moment between the decision and what is
 * said of it, in which those who work on the operation are told.
 */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/neighbour_unix/socket.h"
#include "app/ops.h"
#include "app/store_call.h"
#include "base/fault.h"
#include "kit/ops.h"

static char directory[256], away[HX_LEDGER_PATH_MAX];
static struct hx_ops ops;

/* ---- in place of ops.c ---- */

int hx_ops_fail(const struct hx_ops *of, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(of->out, format, args);
    va_end(args);
    return status;
}

int hx_ops_fault(const struct hx_ops *of, int status)
{
    return hx_ops_fail(of, status, "%s", hx_fault_last()->text);
}

int hx_ops_open(struct hx_ops *of)
{
    return hx_inspect_open(&of->store_options, &of->inspect) < 0
               ? hx_ops_fault(of, HX_EXIT_NO_LEDGER)
               : 0;
}

void hx_ops_close(struct hx_ops *of)
{
    of->inspect = hx_inspect_close(of->inspect);
}

int hx_ops_find(struct hx_ops *of, struct hx_store_found *ret_found)
{
    int rc = hx_inspect_by_text(of->inspect, hx_span_cstr(of->options.id), &of->arena, ret_found);
    assert_int_equal(rc, 1);
    return 0;
}

/* ---- between the decision and its word ---- */

int hx_neighbour_socket_open(struct hx_neighbour_socket *own, const char *dir,
                             const struct hx_id *self)
{
    (void)own;
    (void)dir;
    (void)self;
    assert_int_equal(rename(ops.path, away), 0);
    return HX_E_SYSTEM; /* there is nobody to tell */
}

int hx_neighbour_socket_send(const struct hx_neighbour_socket *own, const struct hx_id *to,
                             const struct hx_neighbour_message *message)
{
    (void)own;
    (void)to;
    (void)message;
    return 0;
}

void hx_neighbour_socket_close(struct hx_neighbour_socket *own)
{
    (void)own;
}

/* ---- the ledger ---- */

static void insert_unknown(void)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_store *store;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = kit_record(&contract);
    kit_claim(&request->record, 1, kit_now(1, 2000));
    kit_mark(&request->record, kit_now(1, 3000));
    request->record.state = HX_OP_UNKNOWN;
    request->record.reason = HX_REASON_TRANSPORT_LOST;
    request->record.owner = (struct hx_id){{0}};
    request->record.settled = kit_now(1, 5000);
    assert_int_equal(hx_store_sqlite_open(&ops.store_options, &store), 0);
    assert_int_equal(hx_store_call(store, request), 0);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
    store->ops->close(store);
}

static void set_up(char id[HX_ID_TEXT_SIZE], enum hx_event_type decision, bool is_json)
{
    struct hx_id row = kit_id(1);
    ops = (struct hx_ops){0};
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/hapax-ops-decide-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(directory));
    snprintf(ops.path, sizeof ops.path, "%s/ledger.db", directory);
    snprintf(away, sizeof away, "%s/ledger.away", directory);
    hx_clock_os_init(&ops.clock);
    hx_arena_init(&ops.arena, 1 << 20);
    ops.now = hx_clock_now(&ops.clock.clock);
    ops.store_options = (struct hx_store_sqlite_options){
        .path = ops.path, .clock = &ops.clock.clock, .rand = hx_rand_os()};
    insert_unknown();
    hx_id_format(&row, id);
    ops.options.id = id;
    ops.options.decision = decision;
    ops.options.is_forced = decision == HX_EV_RESOLVE_ABSENT;
    ops.options.is_json = is_json;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    hx_arena_fini(&ops.arena);
    return access(directory, F_OK) == 0 ? nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS) : 0;
}

/* What was decided stands when it is committed, and whoever decided has it in hand. */
static void what_was_decided_is_told_though_the_ledger_is_gone_then(void **state)
{
    static const struct {
        enum hx_event_type decision;
        bool is_json;
        enum hx_op_state state;
        const char *told;
    } rows[] = {
        {HX_EV_RESOLVE_HAPPENED, false, HX_OP_SUCCEEDED, "it happened"},
        {HX_EV_RESOLVE_HAPPENED, true, HX_OP_SUCCEEDED, "\"is_applied\":true"},
        {HX_EV_RESOLVE_ABSENT, false, HX_OP_FAILED, "it did not happen"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char id[HX_ID_TEXT_SIZE], *told = NULL;
        size_t told_len;
        struct hx_store_found found;
        set_up(id, rows[i].decision, rows[i].is_json);
        ops.out = open_memstream(&told, &told_len);
        assert_int_equal(hx_ops_open(&ops), 0);
        int status = hx_ops_decide(&ops);
        fclose(ops.out);
        if (status != HX_EXIT_DONE || strstr(told, rows[i].told) == NULL)
            fail_msg("status %d, told %s\n  not %s", status, told, rows[i].told);
        free(told);
        assert_int_equal(access(ops.path, F_OK), -1);
        assert_int_equal(rename(away, ops.path), 0);
        assert_int_equal(hx_ops_open(&ops), 0);
        assert_int_equal(hx_ops_find(&ops, &found), 0);
        assert_int_equal(found.record.state, rows[i].state);
        hx_ops_close(&ops);
        assert_int_equal(tear_down(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_was_decided_is_told_though_the_ledger_is_gone_then,
                                  tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
