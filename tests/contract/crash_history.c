/* SPDX-License-Identifier: MIT */
#include "crash_history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/retention.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "kept.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)

static char large[HX_STORE_INLINE_MAX + 7];

static struct hx_record settled(struct world *world, const struct hx_record *record, bool is_large)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.bytes = is_large ? hx_span(large, sizeof(large)) : HX_SPAN_LIT("{\"content\":[]}");
    next.outcome.size = next.outcome.bytes.len;
    hx_hasher_begin(world->hasher);
    hx_hasher_add(world->hasher, next.outcome.bytes);
    next.outcome.digest = hx_hasher_end(world->hasher);
    return next;
}

static struct crash_told *living;

/* A store that says NOT_DONE ends this life; it must say why. Nothing here may be stale. */
static void must_be_done(struct hx_store_request *request)
{
    if (request->result == HX_STORE_NOT_DONE) {
        hx_assert(request->error[0] != '\0');
        living->is_refused = true;
        _exit(0);
    }
    hx_assert(request->result == HX_STORE_DONE);
    hx_store_request_free(request);
}

static void must_be_zero(int rc)
{
    if (rc == 0)
        return;
    living->is_refused = true;
    _exit(0);
}

static void claim(struct hx_store *store, const struct hx_record *record,
                  const struct hx_store_session *session, unsigned op)
{
    struct hx_store_stream stream = kept_stream(session, record, "a");
    enum hx_store_result claimed = HX_STORE_DONE, streamed = HX_STORE_DONE;
    if (op == LARGE) {
        must_be_done(world_claim(store, record));
        living->ops[op].is_inserted = true;
        must_be_done(kept_put_stream(store, &stream));
        return;
    }
    kept_claim_with_stream(store, record, &stream, &claimed, &streamed);
    hx_assert(claimed != HX_STORE_STALE);
    living->ops[op].is_inserted = claimed == HX_STORE_DONE;
    living->ops[op].is_streamed = streamed == HX_STORE_DONE;
    must_be_zero(claimed == HX_STORE_DONE && streamed == HX_STORE_DONE ? 0 : -1);
}

static struct hx_store_resume resume_of(const struct crash_told *told, unsigned op)
{
    return (struct hx_store_resume){
        .op = told->ops[op].id, .attempt = 1, .text = HX_SPAN_LIT("{\"event\":\"1\"}")};
}

static void live(struct world *world, struct hx_store *store, struct crash_told *told, unsigned op)
{
    struct hx_record record = world_record(world, 0, op);
    struct hx_store_session session = kept_session(world, op);
    told->ops[op].id = record.id;
    must_be_done(kept_put_session(store, &session));
    told->ops[op].is_in_session = true;
    claim(store, &record, &session, op);
    told->ops[op].is_streamed = true;
    struct hx_store_resume resume = resume_of(told, op);
    must_be_done(kept_put_resume(store, &resume));
    told->ops[op].is_resumable = true;
    if (op == SMALL)
        must_be_done(world_mark(world, store, &record));
    struct hx_record next = settled(world, &record, op == LARGE || op == SPOOLED_LARGE);
    if (op == SMALL || op == LARGE)
        next.attempt.is_marked = true;
    next.attempt.marked_at = world->now;
    next.first_mark = world->now;
    struct hx_store_request *request =
        hx_store_request_new(op < SPOOLED ? HX_STORE_UPDATE : HX_STORE_SPOOL, NULL);
    request->record = next;
    request->expected_fence = 1;
    must_be_done(world_run(store, request));
    told->ops[op].is_kept = true;
}

static void touch(struct hx_store *store, struct hx_store_touch touch,
                  const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record = *record;
    request->touch = touch;
    must_be_done(world_run(store, request));
}

/* A call without a key is repeated, adopted, noted and named; another one is cancelled and has a
 * successor. */
static void live_otherwise(struct world *world, struct hx_store *store, struct crash_told *told)
{
    struct hx_record keyless = world_record(world, 0, KEYLESS);
    struct hx_record named = keyless;
    keyless.key_source = HX_KEY_NONE;
    keyless.identity = hx_record_identity(world->hasher, &keyless, false);
    told->ops[KEYLESS].id = keyless.id;
    must_be_done(world_insert(store, &keyless));
    told->ops[KEYLESS].is_inserted = true;
    touch(store, (struct hx_store_touch){.add_repeats = 1, .add_sent = 1}, &keyless);
    touch(store, (struct hx_store_touch){.adopt = true, .expect_adoptions = true}, &keyless);
    struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
    note->record.id = keyless.id;
    note->note = HX_SPAN_LIT("{\"what\":\"a note\"}");
    must_be_done(world_run(store, note));
    touch(store, (struct hx_store_touch){.rekey = true}, &named);

    struct hx_record first = world_record(world, 0, AGAIN), next = first;
    first.state = HX_OP_CANCELLED;
    first.attempt.state = HX_ATTEMPT_DEAD;
    told->ops[AGAIN].id = first.id;
    must_be_done(world_insert(store, &first));
    told->ops[AGAIN].is_inserted = true;
    next.id = told->ops[NEXT].id = keyless.effect_key;
    next.generation = 1;
    next.predecessor = first.id;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = first;
    request->record.successor = next.id;
    request->expected_fence = 1;
    request->has_second = true;
    request->second = next;
    must_be_done(world_run(store, request));
    told->ops[NEXT].is_inserted = true;
    struct hx_store_request *scan = hx_store_request_new(HX_STORE_FIND, NULL);
    scan->scan = true;
    scan->scan_limit = 100;
    must_be_done(world_run(store, scan));
}

/* Days later: what is old goes. */
static void sweep(struct world *world, struct crash_told *told)
{
    struct hx_ledger ledger;
    struct hx_aftermath aftermath = {0};
    struct hx_sweep position = {0};
    struct hx_id nobody = {{0}};
    world->now.wall.ms += 35 * DAY_MS;
    world->now.mono.ms += 35 * DAY_MS;
    told->is_swept = true;
    must_be_zero(hx_ledger_open(&ledger, &world->options, &nobody));
    int rc;
    while ((rc = hx_sweep_step(&position, &ledger, &aftermath)) == HX_SWEEP_MORE) {
    }
    must_be_zero(rc);
    hx_aftermath_fini(&aftermath);
    hx_ledger_close(&ledger);
}

static struct hx_store *open_store(struct world *world)
{
    must_be_zero(hx_store_sqlite_open(&world->options, &world->stores[0]));
    return world->stores[0];
}

_Noreturn void crash_history_live(struct world *world, struct crash_told *told)
{
    memset(large, 'l', sizeof(large));
    living = told;
    struct hx_store *store = open_store(world);
    for (unsigned op = 0; op < SPOOLED; op++)
        live(world, store, told, op);
    struct hx_store_session session = kept_session(world, SMALL);
    told->is_ending = true;
    must_be_done(kept_end(store, &session.key));
    told->is_ended = true;
    /* One outcome stays in the spool of a dead process, the other is committed by its own. */
    live(world, store, told, SPOOLED);
    world_kill(world, 0);
    store = open_store(world);
    live(world, store, told, SPOOLED_LARGE);
    live_otherwise(world, store, told);
    world_close(world, 0);
    sweep(world, told);
    struct hx_inspect *inspect = NULL;
    struct hx_recover_report report;
    must_be_zero(hx_inspect_open(&world->options, &inspect));
    must_be_zero(hx_inspect_recover(inspect, (struct hx_wall){0}, &report));
    hx_inspect_close(inspect);
    _exit(0);
}

static void hear(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        print_error("verify: %s\n", text);
}

void crash_history_verify(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    struct hx_verify_report report;
    struct hx_verify_listener listener = {.finding = hear};
    int rc = hx_inspect_open(&world->options, &inspect);
    if (rc < 0)
        print_error("open: %s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    assert_int_equal(hx_inspect_verify(inspect, &listener, &report), 0);
    assert_int_equal(report.problems, 0);
    hx_inspect_close(inspect);
}

static void assert_kept_true_to(struct world *world, struct hx_store *store,
                                const struct crash_told *told, unsigned op, bool was_host)
{
    struct hx_store_session session = kept_session(world, op);
    struct hx_store_resume resume = resume_of(told, op);
    bool may_be_gone = op == SMALL && told->is_ending;
    bool is_gone = op == SMALL && told->is_ended;
    enum hx_store_result expected = is_gone ? HX_STORE_STALE : HX_STORE_DONE;
    if (told->is_swept)
        return;
    if (told->ops[op].is_in_session && may_be_gone == is_gone)
        assert_kept(kept_get_session(store, &session.key), expected);
    /* Streams and resume points are not synced, but for a stream that came with its claim. */
    bool is_stream_synced = op != LARGE || !was_host;
    if (told->ops[op].is_streamed && may_be_gone == is_gone && is_stream_synced)
        assert_kept(kept_get_stream(store, &session.key, HX_SPAN_LIT("a")), expected);
    if (told->ops[op].is_resumable && !was_host)
        assert_resume_is(store, &resume);
}

static void assert_row_true_to(struct hx_store *store, const struct crash_told *told, unsigned op)
{
    struct hx_store_request *request = world_find_id(store, &told->ops[op].id);
    assert_int_equal(request->result, HX_STORE_DONE);
    if (request->record_count != 1)
        print_error("operation %u is not there\n", op);
    assert_int_equal(request->record_count, 1);
    enum hx_op_state state = request->records[0].record.state;
    bool may_be_expired = told->is_swept && state == HX_OP_EXPIRED;
    bool is_followed = !hx_id_is_nil(&request->records[0].record.successor);
    if (told->ops[op].is_kept && !may_be_expired)
        assert_int_equal(state, HX_OP_SUCCEEDED);
    if (may_be_expired)
        assert_true(store->ops->low_water(store).ms > 0);
    if (op == AGAIN && told->ops[NEXT].is_inserted)
        assert_true(is_followed);
    hx_store_request_free(request);
    if (state != HX_OP_SUCCEEDED)
        return;
    struct hx_store_request *ask = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    ask->record.id = told->ops[op].id;
    world_run(store, ask);
    if (ask->result != HX_STORE_DONE)
        print_error("payload: %s\n", ask->error);
    assert_int_equal(ask->result, HX_STORE_DONE);
    bool is_large = op == LARGE || op == SPOOLED_LARGE;
    if (!told->is_swept)
        assert_int_equal(ask->payload.len, is_large ? sizeof(large) : 14);
    hx_store_request_free(ask);
}

/* What was not done never comes back. */
static void assert_is_absent(struct hx_store *store, const struct hx_id *id)
{
    struct hx_store_request *request = world_find_id(store, id);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_int_equal(request->record_count, 0);
    hx_store_request_free(request);
}

static bool is_announced_state(enum hx_op_state state)
{
    return state == HX_OP_SUCCEEDED || state == HX_OP_CANCELLED;
}

/* INV-16: one event for each outcome that is in the ledger, none for one that is not. */
static void assert_announced(struct hx_store *store, const struct crash_told *told)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_DUE, NULL);
    request->outbox.limit = HX_STORE_OUTBOX_DUE_MAX;
    world_run(store, request);
    assert_int_equal(request->result, HX_STORE_DONE);
    unsigned count = 0;
    for (unsigned op = 0; op < OPS && !told->is_swept; op++) {
        struct hx_store_request *found = world_find_id(store, &told->ops[op].id);
        unsigned events = 0;
        for (uint32_t i = 0; i < request->outbox.event_count; i++)
            events += hx_id_eq(&request->outbox.events[i].op, &told->ops[op].id);
        assert_int_equal(events, found->record_count == 1 &&
                                     is_announced_state(found->records[0].record.state));
        count += events;
        hx_store_request_free(found);
    }
    if (!told->is_swept)
        assert_int_equal(count, request->outbox.event_count);
    hx_store_request_free(request);
}

void crash_history_check(struct world *world, const struct crash_told *told, bool was_host)
{
    struct hx_store *store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    assert_announced(store, told);
    for (unsigned op = 0; op < OPS; op++) {
        assert_kept_true_to(world, store, told, op, was_host);
        if (told->ops[op].is_inserted)
            assert_row_true_to(store, told, op);
        else if (told->is_refused && !hx_id_is_nil(&told->ops[op].id))
            assert_is_absent(store, &told->ops[op].id);
    }
    world_close(world, 0);
}
