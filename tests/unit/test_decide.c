/* SPDX-License-Identifier: MIT */
/*
 * A person decides, on a ledger in memory: every decision in every state that matters, against
 * somebody who is faster, against a ledger that fails, and against what nobody may decide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "adapter/store_memory/store_memory.h"
#include "app/decide.h"
#include "app/store_call.h"
#include "kit/ops.h"

enum { GATEWAY = 10, OPERATOR = 11, RIVAL = 12 };

static struct hx_now present;
static uint8_t next_random;
static struct hx_memory_ledger *ledger;
static struct hx_store *gateway;
static struct hx_store *operator_store;
static struct hx_store *rival; /* submits in the middle of the operator's decision */
static struct hx_verdict verdict;

static struct hx_now clock_now(struct hx_clock *clock)
{
    (void)clock;
    return present;
}

static void rand_fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    memset(ret_bytes, ++next_random, len);
}

static struct hx_clock test_clock = {clock_now};
static struct hx_rand test_rand = {rand_fill};

static int set_up(void **state)
{
    (void)state;
    present = kit_now(1, 600 * 1000);
    ledger = hx_memory_ledger_new(&test_clock);
    gateway = hx_store_memory_open(ledger, kit_id(GATEWAY));
    operator_store = hx_store_memory_open(ledger, kit_id(OPERATOR));
    rival = NULL;
    verdict = (struct hx_verdict){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (gateway != NULL)
        gateway->ops->close(gateway);
    operator_store->ops->close(operator_store);
    if (rival != NULL)
        rival->ops->close(rival);
    hx_verdict_fini(&verdict);
    hx_memory_ledger_free(ledger);
    return 0;
}

static void insert(const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = *record;
    assert_int_equal(hx_store_call(gateway, request), 0);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

/* Running, sent a minute after its claim, in the hands of the gateway. */
static struct hx_record sent_record(enum hx_tool_class tool_class)
{
    struct hx_contract contract = kit_contract(tool_class);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, GATEWAY, kit_now(1, 2000));
    kit_mark(&record, kit_now(1, 3000));
    return record;
}

static struct hx_record unknown_record(void)
{
    struct hx_record record = sent_record(HX_CLASS_OPAQUE);
    record.state = HX_OP_UNKNOWN;
    record.reason = HX_REASON_TRANSPORT_LOST;
    record.owner = (struct hx_id){{0}};
    record.settled = kit_now(1, 5000);
    return record;
}

static struct hx_decider decider(void)
{
    return (struct hx_decider){operator_store, &test_clock, &test_rand, "operator uid 1 (ann)"};
}

static int decide(struct hx_decision decision)
{
    struct hx_decider by = decider();
    struct hx_id id = kit_id(1);
    if (decision.type == HX_EV_RESOLVE_HAPPENED)
        decision.outcome = kit_outcome("{\"content\":[]}");
    hx_verdict_fini(&verdict);
    return hx_decide(&by, &id, &decision, &verdict);
}

static void expect(enum hx_event_type type, enum hx_answer answer, enum hx_op_state after)
{
    int rc = decide((struct hx_decision){.type = type});
    assert_int_equal(rc, 0);
    assert_string_equal(hx_answer_name(verdict.answer), hx_answer_name(answer));
    assert_non_null(verdict.found);
    assert_string_equal(hx_op_state_name(verdict.found->record.state), hx_op_state_name(after));
}

/* --- what became of it --- */

static void it_happened(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    expect(HX_EV_RESOLVE_HAPPENED, HX_ANSWER_DONE, HX_OP_SUCCEEDED);
    assert_int_equal(verdict.found->record.reason, HX_REASON_RESOLVED_BY_PERSON);
    assert_false(verdict.is_note_lost);
    /* The second decision comes too late, whatever it says. */
    expect(HX_EV_RESOLVE_AGAIN, HX_ANSWER_NOT_APPLIED, HX_OP_SUCCEEDED);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_NOT_APPLIED, HX_OP_SUCCEEDED);
    assert_int_equal(verdict.found->record.outcome.bytes.len, strlen("{\"content\":[]}"));
}

/* The waiting time is over and the process that got the call is gone: it is believed. Without one
 * of both it needs force. */
static void it_did_not_happen(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    snprintf(record.attempt.transport, sizeof(record.attempt.transport), "child 1");
    insert(&record);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_NOT_APPLIED, HX_OP_UNKNOWN);
    hx_memory_ledger_transport_gone(ledger, "child 1");
    present = kit_now(1, 5000 + 59 * 1000);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_NOT_APPLIED, HX_OP_UNKNOWN);
    present = kit_now(1, 5000 + 61 * 1000);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_DONE, HX_OP_FAILED);
}

static void it_did_not_happen_by_force(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    present = kit_now(1, 6000);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_NOT_APPLIED, HX_OP_UNKNOWN);
    assert_int_equal(decide((struct hx_decision){HX_EV_RESOLVE_ABSENT, .is_forced = true}), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_DONE);
    assert_int_equal(verdict.found->record.state, HX_OP_FAILED);
}

static void it_is_done_again_once(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    expect(HX_EV_RESOLVE_AGAIN, HX_ANSWER_DONE, HX_OP_UNKNOWN);
    assert_true(verdict.found->record.is_superseded);
    const struct hx_record *successor = hx_memory_ledger_row(ledger, 1);
    assert_non_null(successor);
    assert_true(hx_id_eq(&successor->id, &verdict.found->record.successor));
    assert_int_equal(successor->state, HX_OP_READY);
    assert_int_equal(successor->generation, 1);
    assert_false(hx_id_eq(&successor->effect_key, &record.effect_key));
    expect(HX_EV_RESOLVE_AGAIN, HX_ANSWER_NOT_APPLIED, HX_OP_UNKNOWN);
    expect(HX_EV_RESOLVE_HAPPENED, HX_ANSWER_NOT_APPLIED, HX_OP_UNKNOWN);
    assert_null(hx_memory_ledger_row(ledger, 2));
}

/* Its gateway was killed and none was started since: the rules settle it first. */
static void what_was_left_behind_is_settled_first(void **state)
{
    (void)state;
    struct hx_record record = sent_record(HX_CLASS_KEYED);
    insert(&record);
    expect(HX_EV_RESOLVE_HAPPENED, HX_ANSWER_NOT_APPLIED, HX_OP_RUNNING);
    hx_store_memory_kill(gateway);
    gateway = NULL;
    expect(HX_EV_RESOLVE_HAPPENED, HX_ANSWER_DONE, HX_OP_SUCCEEDED);
    assert_int_equal(verdict.state_before, HX_OP_UNKNOWN);
}

/* Left behind without its sent mark nothing was sent: there is nothing that could have happened. */
static void what_was_never_sent_did_not_happen(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, GATEWAY, kit_now(1, 2000));
    insert(&record);
    hx_store_memory_kill(gateway);
    gateway = NULL;
    expect(HX_EV_RESOLVE_HAPPENED, HX_ANSWER_NOT_APPLIED, HX_OP_READY);
    expect(HX_EV_RESOLVE_ABSENT, HX_ANSWER_DONE, HX_OP_FAILED);
}

/* --- cancel --- */

static void a_cancel_is_certain_only_before_the_first_byte(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, GATEWAY, kit_now(1, 2000));
    insert(&record);
    expect(HX_EV_CANCEL, HX_ANSWER_DONE, HX_OP_CANCELLED);
    assert_int_equal(verdict.found->record.reason, HX_REASON_CANCELLED_BY_OPERATOR);
    expect(HX_EV_CANCEL, HX_ANSWER_CANCELLED, HX_OP_CANCELLED);
}

static void a_cancel_of_what_was_sent_is_in_doubt(void **state)
{
    (void)state;
    struct hx_record record = sent_record(HX_CLASS_OPAQUE);
    insert(&record);
    expect(HX_EV_CANCEL, HX_ANSWER_CANCEL_IN_DOUBT, HX_OP_RUNNING);
    assert_true(verdict.found->record.is_cancel_requested);
}

static struct hx_record named(void)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record wanted = kit_record(&contract);
    wanted.id = (struct hx_id){{0}};
    wanted.effect_key = (struct hx_id){{0}};
    wanted.arguments = HX_SPAN_NONE;
    return wanted;
}

static void a_cancel_before_the_call_leaves_a_tombstone(void **state)
{
    (void)state;
    struct hx_record wanted = named();
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_CANCEL};
    assert_int_equal(hx_decide_cancel(&by, &wanted, &decision, &verdict), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_DONE);
    assert_int_equal(verdict.state_before, HX_OP_ABSENT);
    assert_non_null(verdict.found);
    assert_true(verdict.found->record.is_tombstone);
    assert_int_equal(verdict.found->record.state, HX_OP_CANCELLED);
    hx_verdict_fini(&verdict);
    assert_int_equal(hx_decide_cancel(&by, &wanted, &decision, &verdict), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_CANCELLED);
    assert_null(hx_memory_ledger_row(ledger, 1));
}

/* INV-8: what a restored copy lacks may have run, so "cancelled" would be a promise about it. */
static void a_cancel_from_the_gap_of_a_copy_is_in_doubt(void **state)
{
    (void)state;
    struct hx_record wanted = named();
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_CANCEL};
    struct hx_wall now = present.wall;
    hx_memory_ledger_set_gap(ledger, (struct hx_gap){.from = {now.ms - 1000},
                                                     .to = {now.ms - 500},
                                                     .until = {now.ms + 1000000}});
    assert_int_equal(hx_decide_cancel(&by, &wanted, &decision, &verdict), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_CANCEL_IN_DOUBT);
    assert_null(verdict.found);
    assert_null(hx_memory_ledger_row(ledger, 0));
}

static void a_cancel_of_a_key_too_old_promises_nothing(void **state)
{
    (void)state;
    struct hx_record wanted = named();
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_CANCEL};
    wanted.first_sent = (struct hx_wall){present.wall.ms - 1000};
    hx_memory_ledger_set_low_water(ledger, present.wall);
    assert_int_equal(hx_decide_cancel(&by, &wanted, &decision, &verdict), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_KEY_EXPIRED);
    assert_null(hx_memory_ledger_row(ledger, 0));
}

/* Evidence from outside settles what is unknown, once, and says nothing of what others run. */
static void evidence_settles_what_is_unknown(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    struct hx_decision decision = {.type = HX_EV_EVIDENCE,
                                   .outcome = kit_outcome("{\"content\":[]}")};
    assert_int_equal(decide(decision), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_DONE);
    assert_int_equal(verdict.found->record.state, HX_OP_SUCCEEDED);
    assert_int_equal(verdict.found->record.reason, HX_REASON_EVIDENCE);
    assert_int_equal(decide(decision), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
    decision.outcome = kit_outcome("{\"content\":[1]}");
    assert_int_equal(decide(decision), 0);
    assert_true(verdict.found->record.is_disputed);
    assert_int_equal(verdict.found->record.state, HX_OP_SUCCEEDED);
}

/* A result that people made up never contradicts the tool's own: both say that it happened. What is
 * contradicted stands, and is disputed once. */
static void evidence_against_what_has_ended(void **state)
{
    (void)state;
    static const enum hx_op_state ends[] = {HX_OP_SUCCEEDED, HX_OP_FAILED};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct hx_record record = unknown_record();
        bool has_happened = ends[i] == HX_OP_SUCCEEDED;
        record.state = ends[i];
        record.reason = has_happened ? HX_REASON_ANSWERED : HX_REASON_RESOLVED_BY_PERSON;
        record.attempt.state = has_happened ? HX_ATTEMPT_CONFIRMED : HX_ATTEMPT_REFUSED;
        if (has_happened)
            record.outcome = kit_outcome("{\"content\":[2]}");
        insert(&record);
        struct hx_decision decision = {.type = HX_EV_EVIDENCE,
                                       .outcome = kit_outcome("{\"content\":[]}")};
        decision.outcome.is_reconstructed = true;
        assert_int_equal(decide(decision), 0);
        assert_int_equal(verdict.answer, has_happened ? HX_ANSWER_NOT_APPLIED : HX_ANSWER_DONE);
        assert_int_equal(verdict.found->record.is_disputed, !has_happened);
        assert_int_equal(verdict.found->record.state, ends[i]);
        assert_int_equal(decide(decision), 0);
        assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
        tear_down(state);
        set_up(state);
    }
}

static void evidence_waits_for_whoever_runs_it(void **state)
{
    (void)state;
    struct hx_record record = sent_record(HX_CLASS_OPAQUE);
    insert(&record);
    struct hx_decision decision = {.type = HX_EV_EVIDENCE,
                                   .outcome = kit_outcome("{\"content\":[]}")};
    assert_int_equal(decide(decision), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
    assert_int_equal(verdict.found->record.state, HX_OP_RUNNING);
}

static void strangers_see_nothing(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    struct hx_record other = record;
    other.principal = HX_SPAN_LIT("somebody else");
    struct hx_record wanted = record;
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_CANCEL};
    const struct hx_decision_target targets[] = {{.id = record.id, .owner = &other},
                                                 {.wanted = &wanted, .owner = &other}};
    for (size_t i = 0; i < 2; i++) {
        struct hx_deciding *deciding = hx_deciding_new(&by, &targets[i], &decision, &verdict);
        struct hx_store_request *request;
        while ((request = hx_deciding_next(deciding)) != NULL) {
            assert_int_equal(hx_store_call(operator_store, request), 0);
            hx_deciding_take(deciding, request);
        }
        hx_deciding_free(deciding);
        assert_null(verdict.found);
        assert_int_equal(verdict.is_absent, i == 0);
        if (i == 1)
            assert_int_equal(verdict.answer, HX_ANSWER_KEY_CONFLICT);
        hx_verdict_fini(&verdict);
    }
}

static void a_cancel_by_key_finds_the_call(void **state)
{
    (void)state;
    struct hx_record record = sent_record(HX_CLASS_OPAQUE);
    struct hx_record wanted = named();
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_CANCEL};
    insert(&record);
    assert_int_equal(hx_decide_cancel(&by, &wanted, &decision, &verdict), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_CANCEL_IN_DOUBT);
    assert_true(hx_id_eq(&verdict.id, &record.id));
}

/* --- approval --- */

static struct hx_record waiting_record(void)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    record.state = HX_OP_AWAITING_APPROVAL;
    record.fence = 1;
    return record;
}

/* Approving makes it ready; running it is a gateway's work, never ours. */
static void an_approval_runs_nothing_here(void **state)
{
    (void)state;
    struct hx_record record = waiting_record();
    insert(&record);
    expect(HX_EV_APPROVE, HX_ANSWER_DONE, HX_OP_READY);
    assert_true(verdict.found->record.is_approved);
    expect(HX_EV_DENY, HX_ANSWER_NOT_APPLIED, HX_OP_READY);
}

static void a_denial_is_final(void **state)
{
    (void)state;
    struct hx_record record = waiting_record();
    insert(&record);
    expect(HX_EV_DENY, HX_ANSWER_DONE, HX_OP_CANCELLED);
    assert_int_equal(verdict.found->record.reason, HX_REASON_DENIED);
    expect(HX_EV_APPROVE, HX_ANSWER_NOT_APPLIED, HX_OP_CANCELLED);
}

/* --- others, and failures --- */

/* A store in front of the operator's own: before the first UPDATE goes through, the rival decides.
 */
static struct hx_decision rival_decision;

static void racing_submit(struct hx_store *store, struct hx_store_request *request)
{
    (void)store;
    if (request->kind == HX_STORE_UPDATE && rival == NULL) {
        struct hx_verdict theirs;
        struct hx_id id = kit_id(1);
        rival = hx_store_memory_open(ledger, kit_id(RIVAL));
        struct hx_decider by = {rival, &test_clock, &test_rand, "operator uid 2 (bob)"};
        assert_int_equal(hx_decide(&by, &id, &rival_decision, &theirs), 0);
        assert_int_equal(theirs.answer, HX_ANSWER_DONE);
        hx_verdict_fini(&theirs);
    }
    operator_store->ops->submit(operator_store, request);
}

static void racing_flush(struct hx_store *store)
{
    (void)store;
    operator_store->ops->flush(operator_store);
}

static struct hx_store_request *racing_take_done(struct hx_store *store)
{
    (void)store;
    return operator_store->ops->take_done(operator_store);
}

static int racing_wake_fd(struct hx_store *store)
{
    (void)store;
    return operator_store->ops->wake_fd(operator_store);
}

static struct hx_id racing_owner(struct hx_store *store)
{
    (void)store;
    return operator_store->ops->owner(operator_store);
}

static const char *racing_refusal(struct hx_store *store)
{
    (void)store;
    return operator_store->ops->refusal(operator_store);
}

static const struct hx_store_ops racing_ops = {
    .submit = racing_submit,
    .flush = racing_flush,
    .take_done = racing_take_done,
    .wake_fd = racing_wake_fd,
    .owner = racing_owner,
    .refusal = racing_refusal,
};
static struct hx_store racing = {&racing_ops};

static int decide_against(enum hx_event_type ours, enum hx_event_type theirs)
{
    rival_decision = (struct hx_decision){.type = theirs, .outcome = kit_outcome("{}")};
    struct hx_decider by = {&racing, &test_clock, &test_rand, "operator uid 1 (ann)"};
    struct hx_decision decision = {.type = ours, .outcome = kit_outcome("{}")};
    struct hx_id id = kit_id(1);
    return hx_decide(&by, &id, &decision, &verdict);
}

static void of_two_deciders_one_is_told(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    assert_int_equal(decide_against(HX_EV_RESOLVE_HAPPENED, HX_EV_RESOLVE_AGAIN), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
    assert_true(verdict.is_overtaken);
    assert_true(verdict.found->record.is_superseded);
    assert_non_null(hx_memory_ledger_row(ledger, 1));
}

static void again_at_once_by_two_makes_one_successor(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    assert_int_equal(decide_against(HX_EV_RESOLVE_AGAIN, HX_EV_RESOLVE_AGAIN), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
    assert_true(verdict.is_overtaken);
    assert_non_null(hx_memory_ledger_row(ledger, 1));
    assert_null(hx_memory_ledger_row(ledger, 2));
}

static void nothing_is_decided_when_the_ledger_fails(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    hx_memory_ledger_fail_at(ledger, 1, HX_MEMORY_REFUSE);
    assert_int_equal(decide((struct hx_decision){.type = HX_EV_RESOLVE_AGAIN}), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_LEDGER_UNAVAILABLE);
    assert_false(verdict.is_in_doubt);
    assert_true(verdict.error[0] != '\0');
    assert_int_equal(verdict.found->record.state, HX_OP_UNKNOWN);
    expect(HX_EV_RESOLVE_AGAIN, HX_ANSWER_DONE, HX_OP_UNKNOWN);
}

static void doubt_is_told_as_doubt(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    hx_memory_ledger_fail_at(ledger, 1, HX_MEMORY_LOSE_DONE);
    assert_int_equal(decide((struct hx_decision){.type = HX_EV_DENY}), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED); /* no write, no doubt */
    assert_int_equal(decide((struct hx_decision){HX_EV_RESOLVE_ABSENT, .is_forced = true}), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_LEDGER_UNAVAILABLE);
    assert_true(verdict.is_in_doubt);
    hx_memory_ledger_settle(ledger);
}

static void a_restored_copy_is_not_decided_upon(void **state)
{
    (void)state;
    struct hx_record record = unknown_record();
    insert(&record);
    hx_memory_ledger_set_refusal(ledger, "a copy was restored");
    assert_int_equal(decide((struct hx_decision){.type = HX_EV_RESOLVE_AGAIN}), 0);
    assert_int_equal(verdict.answer, HX_ANSWER_LEDGER_UNAVAILABLE);
    assert_string_equal(verdict.error, "a copy was restored");
    assert_null(hx_memory_ledger_row(ledger, 1));
}

static void what_is_not_there_is_absent(void **state)
{
    (void)state;
    assert_int_equal(decide((struct hx_decision){.type = HX_EV_RESOLVE_AGAIN}), HX_DECIDE_ABSENT);
    assert_int_equal(hx_memory_ledger_commits(ledger), 0);
}

static void the_history_tells_who(void **state)
{
    struct hx_buf note;
    struct hx_decider by = decider();
    struct hx_decision decision = {.type = HX_EV_RESOLVE_ABSENT,
                                   .is_forced = true,
                                   .words = HX_SPAN_LIT("no \"trace\" of it")};
    (void)state;
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    verdict.answer = HX_ANSWER_DONE;
    assert_true(hx_decision_note(&by, &decision, &verdict, &note));
    (void)hx_buf_append_char(&note, '\0');
    assert_non_null(strstr(note.data, "\"what\":\"decision\",\"who\":\"operator uid 1 (ann)\","
                                      "\"decision\":\"absent\",\"answer\":\"DONE\",\"forced\":true,"
                                      "\"note\":\"no \\\"trace\\\" of it\"}"));
    hx_buf_fini(&note);
    char *words = calloc(1, HX_STORE_NOTE_MAX + 1);
    assert_non_null(words);
    memset(words, 'x', HX_STORE_NOTE_MAX);
    decision.words = hx_span_cstr(words);
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    assert_false(hx_decision_note(&by, &decision, &verdict, &note));
    hx_buf_fini(&note);
    free(words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_happened),
        TEST(it_did_not_happen),
        TEST(it_did_not_happen_by_force),
        TEST(it_is_done_again_once),
        TEST(what_was_left_behind_is_settled_first),
        TEST(what_was_never_sent_did_not_happen),
        TEST(a_cancel_is_certain_only_before_the_first_byte),
        TEST(a_cancel_of_what_was_sent_is_in_doubt),
        TEST(a_cancel_before_the_call_leaves_a_tombstone),
        TEST(a_cancel_from_the_gap_of_a_copy_is_in_doubt),
        TEST(a_cancel_of_a_key_too_old_promises_nothing),
        TEST(evidence_settles_what_is_unknown),
        TEST(evidence_against_what_has_ended),
        TEST(evidence_waits_for_whoever_runs_it),
        TEST(strangers_see_nothing),
        TEST(a_cancel_by_key_finds_the_call),
        TEST(an_approval_runs_nothing_here),
        TEST(a_denial_is_final),
        TEST(of_two_deciders_one_is_told),
        TEST(again_at_once_by_two_makes_one_successor),
        TEST(nothing_is_decided_when_the_ledger_fails),
        TEST(doubt_is_told_as_doubt),
        TEST(a_restored_copy_is_not_decided_upon),
        TEST(what_is_not_there_is_absent),
        TEST(the_history_tells_who),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
