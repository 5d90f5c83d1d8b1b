/* SPDX-License-Identifier: MIT */
/*
 * Ledgers written by every published version are read for ever. tests/fixtures/ledger holds one of
 * each; a new version adds one: HAPAX_WRITE_FIXTURE=FILE makes it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/fault.h"
#include "records.h"
#include "world.h"

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0)
        print_error("cannot open %s\n", from);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

/* Every field holds something, and the same in every run. */
static struct hx_record fixed_record(struct world *world, unsigned number)
{
    struct hx_record record = world_record(world, 0, number);
    memset(&record.id, 0x10 + (int)number, sizeof(record.id));
    memset(&record.effect_key, 0x20 + (int)number, sizeof(record.effect_key));
    memset(&record.owner, 0x30, sizeof(record.owner));
    memset(&record.holder, 0x31, sizeof(record.holder));
    record.key_source = HX_KEY_ARGUMENT;
    record.first_sent.ms = 1795979990000;
    record.generation = number + 1;
    record.contract.tool_class = HX_CLASS_KEYED;
    record.contract.dedupe_horizon_ms = 86400000;
    record.state = number % 2 == 0 ? HX_OP_SUCCEEDED : HX_OP_UNKNOWN;
    record.reason = number % 2 == 0 ? HX_REASON_ANSWERED : HX_REASON_OWNER_DIED;
    record.fence = 7;
    record.attempt.number = 3;
    record.attempt.state = number % 2 == 0 ? HX_ATTEMPT_CONFIRMED : HX_ATTEMPT_OPEN;
    record.attempt.is_marked = true;
    record.attempt.marked_at = world->now;
    record.first_mark = world->now;
    record.not_before = world->now;
    record.settled = world->now;
    record.earlier = (struct hx_attempt_counts){1, 2, 3, 4};
    record.sends = 3;
    memset(&record.predecessor, 0x40, sizeof(record.predecessor));
    memset(&record.successor, 0x41, sizeof(record.successor));
    record.is_approved = true;
    record.is_told_pending = true;
    record.repeats = 5;
    record.sent_count = 6;
    record.lost_count = 7;
    record.adoptions = 8;
    if (number % 2 == 0) {
        static char bytes[3000];
        memset(bytes, 'r', sizeof(bytes));
        record.outcome.kind = HX_OUTCOME_RESULT;
        record.outcome.is_error = true;
        record.outcome.bytes = hx_span(bytes, number == 0 ? 20 : sizeof(bytes));
        record.outcome.size = record.outcome.bytes.len;
        hx_hasher_begin(world->hasher);
        hx_hasher_add(world->hasher, record.outcome.bytes);
        record.outcome.digest = hx_hasher_end(world->hasher);
    }
    return record;
}

enum { FIXED_COUNT = 4 };

static void write_fixture(const char *path)
{
    struct world *world = world_new(WORLD_SQLITE);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record record = fixed_record(world, i);
        struct hx_store_request *request = world_insert(store, &record);
        assert_int_equal(request->result, HX_STORE_DONE);
        hx_store_request_free(request);
    }
    world_close(world, 0);
    copy_file(world->path, path);
    world_free(world);
}

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

static void version_1_is_read(void **state)
{
    const char *wanted = getenv("HAPAX_WRITE_FIXTURE");
    if (wanted != NULL)
        write_fixture(wanted);
    struct world *world = world_new(WORLD_SQLITE);
    copy_file(HX_FIXTURES "/version-1.db", world->path);
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < FIXED_COUNT; i++) {
        struct hx_record expected = fixed_record(world, i);
        struct hx_store_request *request = world_find_id(store, &expected.id);
        assert_int_equal(request->record_count, 1);
        assert_records_equal(&request->records[0].record, &expected);
        assert_int_equal(request->records[0].owner_fact, HX_OWNER_DEAD);
        hx_store_request_free(request);
    }
    struct hx_record fresh = world_record(world, 0, 100);
    struct hx_store_request *request = world_insert(store, &fresh);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
    world_close(world, 0);
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    assert_int_equal(hx_inspect_open(&world->options, &inspect), 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.rows, FIXED_COUNT + 1);
    hx_inspect_close(inspect);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_1_is_read)};
    return cmocka_run_group_tests_name("store format", tests, NULL, NULL);
}
