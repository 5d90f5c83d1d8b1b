/* SPDX-License-Identifier: MIT */
/*
 * The same random requests to both stores: they must answer alike, whatever comes. The memory store
 * is the plain one; where they differ, one of them is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kept.h"
#include "records.h"
#include "world.h"

enum { OPS_MAX = 200, PROCESSES = 3, STEPS = 1000 };

struct pair {
    struct world *memory;
    struct world *sqlite;
    struct hx_record records[OPS_MAX]; /* as the test believes them to be; owner = process */
    int owners[OPS_MAX];               /* -1 = nobody */
    unsigned count;
    char bytes[HX_STORE_INLINE_MAX + 64];
    struct hx_id tokens[2][64]; /* of all processes that ever lived, in both worlds */
    unsigned token_count;
    int token_of[PROCESSES];
};

static uint64_t any(struct pair *pair, uint64_t below)
{
    return world_random(pair->memory) % below;
}

static void open_process(struct pair *pair, int process)
{
    struct hx_store *a = world_open(pair->memory, process);
    struct hx_store *b = world_open(pair->sqlite, process);
    assert_true(pair->token_count < 64);
    pair->tokens[0][pair->token_count] = a->ops->owner(a);
    pair->tokens[1][pair->token_count] = b->ops->owner(b);
    pair->token_of[process] = (int)pair->token_count++;
}

static struct hx_id token(struct pair *pair, int world, int process)
{
    return process < 0 ? (struct hx_id){{0}} : pair->tokens[world][pair->token_of[process]];
}

/* Owner tokens differ between the worlds; what counts is whose they are. */
static struct hx_id neutral(struct pair *pair, int world, const struct hx_id *id)
{
    for (unsigned i = 0; i < pair->token_count; i++) {
        if (hx_id_eq(id, &pair->tokens[world][i]))
            return (struct hx_id){{1, (uint8_t)i}};
    }
    return *id;
}

static void assert_found_equal(struct pair *pair, const struct hx_store_found *a,
                               const struct hx_store_found *b)
{
    struct hx_store_found left = *a, right = *b;
    left.record.owner = neutral(pair, 0, &a->record.owner);
    right.record.owner = neutral(pair, 1, &b->record.owner);
    left.record.holder = neutral(pair, 0, &a->record.holder);
    right.record.holder = neutral(pair, 1, &b->record.holder);
    assert_records_equal(&right.record, &left.record);
    assert_int_equal(left.rowid, right.rowid);
    assert_int_equal(left.owner_fact, right.owner_fact);
    assert_int_equal(left.is_sender_gone, right.is_sender_gone);
    assert_int_equal(left.is_epoch_current, right.is_epoch_current);
}

static void assert_kept_equal(const struct hx_store_request *actual,
                              const struct hx_store_request *expected)
{
    if (expected->kind == HX_STORE_SESSION_GET) {
        assert_sessions_equal(&actual->session, &expected->session);
    } else if (expected->kind == HX_STORE_STREAM_GET) {
        assert_memory_equal(&actual->stream.op, &expected->stream.op, sizeof(struct hx_id));
        assert_spans_equal(actual->stream.request_id, expected->stream.request_id);
    } else if (expected->kind == HX_STORE_RESUME_GET) {
        assert_int_equal(actual->resume.attempt, expected->resume.attempt);
        assert_spans_equal(actual->resume.text, expected->resume.text);
    }
}

/* Sends the request, of which the second is a copy, to both. */
static void run_both(struct pair *pair, int process, struct hx_store_request *a, int owner)
{
    struct hx_store_request *b = hx_store_request_new(a->kind, NULL);
    struct hx_list node = b->node;
    struct hx_arena arena = b->arena;
    *b = *a;
    b->node = node;
    b->arena = arena;
    hx_list_init(&b->node);
    if (a->kind == HX_STORE_INSERT || a->kind == HX_STORE_UPDATE || a->kind == HX_STORE_SPOOL) {
        a->record.owner = a->record.holder = token(pair, 0, owner);
        b->record.owner = b->record.holder = token(pair, 1, owner);
        a->second.owner = a->second.holder = token(pair, 0, owner);
        b->second.owner = b->second.holder = token(pair, 1, owner);
    }
    a->touch.holder = token(pair, 0, process);
    b->touch.holder = token(pair, 1, process);
    world_run(pair->memory->stores[process], a);
    world_run(pair->sqlite->stores[process], b);
    if (a->result != b->result)
        print_error("kind %d: %d, %d %s\n", (int)a->kind, (int)a->result, (int)b->result, b->error);
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->record_count, b->record_count);
    assert_int_equal(a->ret_twin_seen, b->ret_twin_seen);
    for (uint32_t i = 0; i < a->record_count; i++)
        assert_found_equal(pair, &a->records[i], &b->records[i]);
    assert_spans_equal(b->payload, a->payload);
    assert_kept_equal(b, a);
    hx_store_request_free(b);
}

static void insert(struct pair *pair, int process)
{
    if (pair->count == OPS_MAX)
        return;
    unsigned number = (unsigned)any(pair, 30); /* few names, so that they meet */
    struct hx_record record = world_record(pair->memory, process, number);
    record.generation = (uint32_t)any(pair, 4);
    if (any(pair, 2) == 0) {
        record.key_source = HX_KEY_NONE;
        memset(&record.fingerprint, (int)any(pair, 3), sizeof(record.fingerprint));
        record.identity = hx_record_identity(pair->memory->hasher, &record, false);
        record.twin = hx_record_twin(pair->memory->hasher, &record);
    }
    if (any(pair, 8) == 0)
        record.arguments = hx_span(pair->bytes, any(pair, 9000));
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = record;
    request->twin_guard = any(pair, 2) == 0;
    request->twin_seen = (int64_t)any(pair, 40);
    run_both(pair, process, request, process);
    if (request->result == HX_STORE_DONE) {
        pair->owners[pair->count] = process;
        pair->records[pair->count++] = record;
    }
    hx_store_request_free(request);
}

static struct hx_record changed(struct pair *pair, const struct hx_record *record)
{
    static const size_t sizes[] = {0, 2, 2048, 2049, HX_STORE_INLINE_MAX, HX_STORE_INLINE_MAX + 1};
    struct hx_record next = *record;
    next.state = (enum hx_op_state)(1 + any(pair, HX_OP_STATE_COUNT - 1));
    next.reason = (enum hx_reason)any(pair, HX_REASON_COUNT);
    next.fence = record->fence + any(pair, 2);
    next.attempt.number = record->attempt.number + (uint32_t)any(pair, 2);
    next.attempt.state = (enum hx_attempt_state)any(pair, HX_ATTEMPT_DEAD + 1);
    next.attempt.is_marked = any(pair, 2) == 0;
    next.earlier.open = (uint16_t)any(pair, 3);
    next.sends = (uint32_t)any(pair, 9);
    next.updated = pair->memory->now;
    next.is_disputed = any(pair, 2) == 0;
    next.needs_human = any(pair, 4) == 0;
    next.repeats = (uint32_t)any(pair, 4);
    next.adoptions = (uint32_t)any(pair, 4);
    next.outcome.kind = (enum hx_outcome_kind)any(pair, 3);
    next.outcome.place = (enum hx_outcome_place)any(pair, 3);
    next.outcome.bytes =
        any(pair, 2) == 0 ? HX_SPAN_NONE : hx_span(pair->bytes, sizes[any(pair, 6)]);
    next.outcome.size = next.outcome.bytes.len;
    return next;
}

static void update(struct pair *pair, int process, enum hx_store_kind kind)
{
    unsigned at = (unsigned)any(pair, pair->count);
    struct hx_record *record = &pair->records[at];
    int owner = (int)any(pair, PROCESSES + 1) - 1;
    struct hx_store_request *request = hx_store_request_new(kind, NULL);
    request->record = changed(pair, record);
    request->expected_fence = record->fence - (any(pair, 8) == 0);
    request->require_unmarked = any(pair, 3) == 0;
    if (kind == HX_STORE_UPDATE && any(pair, 10) == 0 && pair->count < OPS_MAX) {
        request->has_second = true;
        request->second = world_record(pair->memory, process, (unsigned)any(pair, 30));
        request->second.generation = (uint32_t)any(pair, 6);
    }
    run_both(pair, process, request, owner);
    if (request->result == HX_STORE_DONE && kind == HX_STORE_UPDATE) {
        *record = request->record;
        record->outcome.bytes = HX_SPAN_NONE;
        pair->owners[at] = owner;
        if (request->has_second) {
            pair->owners[pair->count] = owner;
            pair->records[pair->count++] = request->second;
        }
    }
    hx_store_request_free(request);
}

static void mark(struct pair *pair, int process)
{
    const struct hx_record *record = &pair->records[any(pair, pair->count)];
    struct hx_store_request *request = hx_store_request_new(HX_STORE_MARK, NULL);
    request->record = *record;
    request->record.attempt.number -= any(pair, 6) == 0;
    request->record.attempt.marked_at = pair->memory->now;
    request->expected_fence = record->fence;
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

static void touch(struct pair *pair, int process)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record.id = pair->records[any(pair, pair->count)].id;
    request->touch = (struct hx_store_touch){
        .add_repeats = (uint32_t)any(pair, 3),
        .add_sent = (uint32_t)any(pair, 3),
        .subtract_sent = (uint32_t)any(pair, 3),
        .add_lost = (uint32_t)any(pair, 2),
        .set_told_pending = any(pair, 3) == 0,
        .set_cancel_requested = any(pair, 9) == 0,
        .set_acknowledged = any(pair, 9) == 0,
        .set_needs_human = any(pair, 9) == 0,
        .cool = any(pair, 3) == 0,
        .adopt = any(pair, 3) == 0,
        .expect_adoptions = any(pair, 2) == 0,
        .seen_adoptions = (uint32_t)any(pair, 3),
    };
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

static void find(struct pair *pair, int process)
{
    const struct hx_record *record = &pair->records[any(pair, pair->count)];
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->record = *record;
    request->find_id = any(pair, 3) == 0;
    request->find_identity = any(pair, 2) == 0;
    request->find_twin = any(pair, 2) == 0;
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

static void payload(struct pair *pair, int process)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    request->record.id = pair->records[any(pair, pair->count)].id;
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

static void scan(struct pair *pair, int process)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->scan = true;
    request->scan_limit = OPS_MAX + 1;
    request->scan_state = (enum hx_op_state)any(pair, HX_OP_STATE_COUNT);
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

/* A session, stream or resume point; few names, so that they meet. */
static void kept(struct pair *pair, int process)
{
    static const enum hx_store_kind kinds[] = {
        HX_STORE_SESSION_PUT, HX_STORE_SESSION_GET, HX_STORE_SESSION_TOUCH,
        HX_STORE_SESSION_END, HX_STORE_STREAM_PUT,  HX_STORE_STREAM_GET,
        HX_STORE_RESUME_PUT,  HX_STORE_RESUME_GET,  HX_STORE_STREAM_END};
    static const size_t sizes[] = {0, 2, 64, 65, 1024, 1025, 8192, 8193, HX_STORE_INITIALIZE_MAX};
    const struct hx_record *record = &pair->records[any(pair, pair->count)];
    struct hx_store_request *request = hx_store_request_new(kinds[any(pair, 9)], NULL);
    struct hx_store_session session = kept_session(pair->memory, (unsigned)any(pair, 4));
    struct hx_span bytes = hx_span(pair->bytes, sizes[any(pair, 9)]);
    session.principal = any(pair, 9) == 0 ? HX_SPAN_LIT("mallory") : session.principal;
    session.initialize = any(pair, 3) == 0 ? HX_SPAN_NONE : bytes;
    if (request->kind <= HX_STORE_SESSION_END) {
        request->session = session;
    } else if (request->kind <= HX_STORE_STREAM_GET) {
        request->stream = kept_stream(&session, record, any(pair, 2) == 0 ? "a" : "ab");
        request->stream.request_id = any(pair, 4) == 0 ? HX_SPAN_NONE : bytes;
    } else {
        request->resume = (struct hx_store_resume){
            .op = record->id, .attempt = (uint32_t)any(pair, 4), .text = bytes};
    }
    run_both(pair, process, request, process);
    hx_store_request_free(request);
}

static void die(struct pair *pair, int process)
{
    if (pair->token_count >= 60)
        return;
    world_kill(pair->memory, process);
    world_kill(pair->sqlite, process);
    open_process(pair, process);
}

static void step(struct pair *pair)
{
    int process = (int)any(pair, PROCESSES);
    uint64_t dice = any(pair, 100);
    pair->memory->now.wall.ms += 7;
    pair->memory->now.mono.ms += 7;
    pair->sqlite->now = pair->memory->now;
    if (pair->count == 0 || dice < 20)
        insert(pair, process);
    else if (dice < 45)
        update(pair, process, HX_STORE_UPDATE);
    else if (dice < 55)
        mark(pair, process);
    else if (dice < 62)
        touch(pair, process);
    else if (dice < 78)
        kept(pair, process);
    else if (dice < 87)
        find(pair, process);
    else if (dice < 92)
        payload(pair, process);
    else if (dice < 96)
        scan(pair, process);
    else
        die(pair, process);
}

static void both_answer_alike(uint64_t seed)
{
    struct pair *pair = hx_new(struct pair);
    pair->memory = world_new(WORLD_MEMORY);
    pair->sqlite = world_new(WORLD_SQLITE);
    pair->memory->seed = seed;
    for (size_t i = 0; i < sizeof(pair->bytes); i++)
        pair->bytes[i] = (char)(i * 13);
    for (int i = 0; i < PROCESSES; i++)
        open_process(pair, i);
    for (unsigned i = 0; i < STEPS; i++)
        step(pair);
    world_free(pair->memory);
    world_free(pair->sqlite);
    hx_free(pair);
}

static void a_thousand_requests_each(void **state)
{
    const char *chosen = getenv("HAPAX_SEED");
    if (chosen != NULL) {
        both_answer_alike(strtoull(chosen, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= 4; seed++) {
        print_message("seed %llu (HAPAX_SEED repeats it)\n", (unsigned long long)seed);
        both_answer_alike(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_requests_each)};
    return cmocka_run_group_tests_name("store twins", tests, NULL, NULL);
}
