/* SPDX-License-Identifier: MIT */
/*
 * What the history says of a decision that a person made by elicitation: that it was applied, or
 * that somebody else was faster and it was not. On the real engine, with the ledger in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/decide.h"
#include "kit/ops.h"
#include "talk_kit.h"

enum { NOTES_MAX = 8 };

static char notes[NOTES_MAX][512]; /* that went to the ledger, oldest first */
static size_t note_count;

static const struct hx_store_ops *plain_ops;
static struct hx_store_ops noting_ops;

static void submit_noting(struct hx_store *store, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_NOTE) {
        assert_true(note_count < NOTES_MAX);
        snprintf(notes[note_count++], sizeof notes[0], "%.*s", HX_SPAN_FMT(request->note));
    }
    plain_ops->submit(store, request);
}

/* A client that can be asked, and a process whose notes are kept here. */
static void start(struct talk_kit *talk, enum hx_approval approval)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .client_capabilities = "{\"elicitation\":{\"form\":{}}}",
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]",
    };
    options.rules.contract.approval = approval;
    note_count = 0;
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
    plain_ops = talk->engine.store->ops;
    noting_ops = *plain_ops;
    noting_ops.submit = submit_noting;
    talk->engine.store->ops = &noting_ops;
}

#define PAY                                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","        \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-pay\"}}}"

/* The client is asked; its answer is given later, to the id in `ret_id`. */
static void is_asked(struct talk_kit *talk, char ret_id[64])
{
    const char *id = strstr(talk->told, "\"id\":");
    if (id == NULL || strstr(talk->told, "elicitation/create") == NULL)
        fail_msg("the client was told %s", talk->told);
    snprintf(ret_id, 64, "%.*s", (int)strcspn(id + 5, ","), id + 5);
}

static void decides(struct talk_kit *talk, const char *id, const char *word)
{
    char line[256];
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"action\":\"accept\",\"content\":{"
             "\"decision\":\"%s\"}}}",
             id, word);
    talk_kit_says(talk, line);
    talk_kit_waits(talk, 20); /* so long may a note wait for company */
}

static void is_noted(size_t index, const char *decision, const char *answer)
{
    char decided[64], answered[64];
    snprintf(decided, sizeof decided, "\"decision\":\"%s\"", decision);
    snprintf(answered, sizeof answered, "\"answer\":\"%s\"", answer);
    assert_true(index < note_count);
    if (strstr(notes[index], decided) == NULL || strstr(notes[index], answered) == NULL ||
        strstr(notes[index], "\"who\":\"caller 1000, by elicitation\"") == NULL)
        fail_msg("noted was %s\n  not %s, %s", notes[index], decided, answered);
}

/* An operator in another process is faster, and nobody tells this one. */
static void operator_tries(struct talk_kit *talk, enum hx_event_type type,
                           struct hx_verdict *ret_verdict)
{
    const struct hx_decision decision = {.type = type, .outcome = kit_outcome("{\"content\":[]}")};
    struct hx_id owner = {{9}};
    struct hx_decider decider = {.store = hx_store_memory_open(talk->engine.ledger, owner),
                                 .clock = &talk->engine.clock,
                                 .rand = &talk->engine.rand,
                                 .who = "operator"};
    struct hx_id id = hx_memory_ledger_row(talk->engine.ledger, 0)->id;
    assert_int_equal(hx_decide(&decider, &id, &decision, ret_verdict), 0);
    decider.store->ops->close(decider.store);
}

static void operator_decides(struct talk_kit *talk, enum hx_event_type type)
{
    struct hx_verdict verdict;
    operator_tries(talk, type, &verdict);
    assert_int_equal(verdict.answer, HX_ANSWER_DONE);
    hx_verdict_fini(&verdict);
}

static void an_approval_is_noted_as_applied(void **state)
{
    struct talk_kit talk;
    char id[64];
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk_kit_says(&talk, PAY);
    is_asked(&talk, id);
    assert_int_equal(note_count, 0);
    decides(&talk, id, "approve");
    assert_int_equal(note_count, 1);
    is_noted(0, "approve", "DONE");
    talk_kit_asks(&talk, "\"tools/call\"");
    talk_kit_answers(&talk, "\"result\":{\"content\":[]}");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

static void an_approval_that_came_second_is_noted_as_not_applied(void **state)
{
    struct talk_kit talk;
    char id[64];
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk_kit_says(&talk, PAY);
    is_asked(&talk, id);
    operator_decides(&talk, HX_EV_DENY);
    decides(&talk, id, "approve");
    talk_kit_hears(&talk, "CANCELLED");
    assert_int_equal(note_count, 1);
    is_noted(0, "approve", "NOT_APPLIED");
    assert_int_equal(talk.calls, 0);
    talk_kit_fini(&talk);
}

/* What only its caller can mend waits for him: nothing is tried without him, no attempt is used up,
 * and the approval holds until the tool has acted. */
static void an_approved_call_that_its_caller_must_mend_waits_for_him(void **state)
{
    struct talk_kit talk;
    char id[64];
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk_kit_says(&talk, PAY);
    is_asked(&talk, id);
    decides(&talk, id, "approve");
    for (unsigned i = 1; i <= 10; i++) {
        assert_int_equal(talk.calls, i);
        talk_kit_answers(&talk, "\"error\":{\"code\":-32042,\"message\":\"log in\"}");
        talk_kit_hears(&talk, "-32042");
        talk_kit_waits(&talk, 61 * 1000); /* the sweep looks at it too */
        talk_kit_waits(&talk, 61 * 1000);
        assert_int_equal(talk.calls, i);
        talk_kit_says(&talk, PAY);
    }
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    talk_kit_says(&talk, PAY);
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 11);
    talk_kit_fini(&talk);
}

enum { MINUTE_MS = 60 * 1000, DAY_MS = 24 * 60 * MINUTE_MS };

/* Asked or not, whoever waits learns that no decision came, and a late one does not count. */
static void an_approval_that_nobody_gives_ends_after_a_day(void **state)
{
    struct talk_kit talk;
    char id[64];
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk_kit_says(&talk, PAY);
    talk_kit_waits(&talk, DAY_MS - MINUTE_MS / 4);
    talk_kit_hears(&talk, "APPROVAL_REQUIRED");
    talk_kit_says(&talk, PAY);
    is_asked(&talk, id);
    for (int i = 0; i < 4; i++)
        talk_kit_waits(&talk, MINUTE_MS / 8);
    talk_kit_hears(&talk, "nobody gave or refused it within 24 hours");
    decides(&talk, id, "approve");
    talk_kit_says(&talk, PAY);
    talk_kit_hears(&talk, "CANCELLED");
    assert_int_equal(talk.calls, 0);
    talk_kit_fini(&talk);
}

/* Nobody asks about it any more: the sweep finds it, also of a later process. */
static void a_call_that_nobody_asks_about_ends_too(void **state)
{
    struct talk_kit talk;
    (void)state;
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        char id[64];
        start(&talk, HX_APPROVAL_ALWAYS);
        talk_kit_says(&talk, PAY);
        is_asked(&talk, id);
        decides(&talk, id, "later");
        talk_kit_hears(&talk, "APPROVAL_REQUIRED");
        if (is_restarted) {
            talk_kit_end(&talk);
            engine_kit_pass(&talk.engine, DAY_MS);
            talk_kit_begin(&talk);
            talk_kit_waits(&talk, 20);
        } else {
            talk_kit_waits(&talk, DAY_MS);
            talk_kit_waits(&talk, MINUTE_MS);
        }
        const struct hx_record *row = hx_memory_ledger_row(talk.engine.ledger, 0);
        assert_string_equal(hx_op_state_name(row->state), "cancelled");
        assert_string_equal(hx_reason_name(row->reason), "approval_expired");
        assert_int_equal(talk.calls, 0);
        talk_kit_fini(&talk);
    }
}

/* An operator comes too late, and no gateway was there to say so before. */
static void an_operator_who_is_late_is_told_so(void **state)
{
    struct talk_kit talk;
    struct hx_buf words;
    struct hx_verdict verdict;
    char id[64];
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk_kit_says(&talk, PAY);
    is_asked(&talk, id);
    engine_kit_pass(&talk.engine, DAY_MS);
    operator_tries(&talk, HX_EV_APPROVE, &verdict);
    assert_int_equal(verdict.answer, HX_ANSWER_NOT_APPLIED);
    hx_buf_init(&words, 4096);
    assert_false(hx_verdict_say(HX_EV_APPROVE, &verdict, &words));
    (void)hx_buf_append_char(&words, '\0');
    assert_string_equal(words.data, "not applied: nobody decided within 24 hours, so it never "
                                    "runs. the operation is cancelled");
    hx_buf_fini(&words);
    hx_verdict_fini(&verdict);
    talk_kit_waits(&talk, MINUTE_MS);
    talk_kit_says(&talk, PAY);
    talk_kit_hears(&talk, "CANCELLED");
    assert_int_equal(talk.calls, 0);
    talk_kit_fini(&talk);
}

/* The call is sent, and its outcome is lost with the server. */
static void is_lost(struct talk_kit *talk, char ret_id[64])
{
    talk_kit_says(talk, PAY);
    talk_kit_asks(talk, "\"tools/call\"");
    talk_kit_from_server(talk, HX_PEER_CLOSED, 0, "");
    engine_kit_turn(&talk->engine);
    is_asked(talk, ret_id);
}

static void what_became_of_a_call_is_noted_with_its_answer(void **state)
{
    static const struct {
        enum hx_event_type faster; /* COUNT: nobody */
        const char *word, *answer;
    } cases[] = {
        {HX_EV_COUNT, "happened", "DONE"},
        {HX_EV_COUNT, "again", "DONE"},
        {HX_EV_RESOLVE_HAPPENED, "again", "NOT_APPLIED"},
        {HX_EV_RESOLVE_AGAIN, "happened", "NOT_APPLIED"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct talk_kit talk;
        char id[64];
        start(&talk, HX_APPROVAL_NEVER);
        is_lost(&talk, id);
        if (cases[i].faster != HX_EV_COUNT)
            operator_decides(&talk, cases[i].faster);
        decides(&talk, id, cases[i].word);
        assert_int_equal(note_count, 1);
        is_noted(0, cases[i].word, cases[i].answer);
        talk_kit_fini(&talk);
    }
}

/* What asks must not wait for a client that the question cannot reach. */
static void a_question_that_cannot_be_sent_is_answered_here(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk, HX_APPROVAL_NEVER);
    talk_kit_says(&talk, PAY);
    uint64_t call = talk.tag;
    talk.is_deaf = true;
    talk_kit_from_server(&talk, HX_PEER_MESSAGE, call,
                         "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\","
                         "\"params\":{\"message\":\"?\"}}");
    engine_kit_turn(&talk.engine);
    talk_kit_asks(&talk, "\"id\":\"q\",\"error\":{");
    talk.is_deaf = false;
    talk.tag = call;
    talk_kit_answers(&talk, "\"result\":{\"content\":[]}");
    talk_kit_hears(&talk, "\"content\":[]");
    talk_kit_fini(&talk);
}

static void a_person_who_cannot_be_asked_decides_nothing(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk, HX_APPROVAL_ALWAYS);
    talk.is_deaf = true;
    talk_kit_says(&talk, PAY);
    talk_kit_hears(&talk, "APPROVAL_REQUIRED");
    assert_int_equal(talk.calls, 0);
    assert_int_equal(note_count, 0);
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_approval_is_noted_as_applied),
        cmocka_unit_test(an_approval_that_came_second_is_noted_as_not_applied),
        cmocka_unit_test(an_approved_call_that_its_caller_must_mend_waits_for_him),
        cmocka_unit_test(an_approval_that_nobody_gives_ends_after_a_day),
        cmocka_unit_test(a_call_that_nobody_asks_about_ends_too),
        cmocka_unit_test(an_operator_who_is_late_is_told_so),
        cmocka_unit_test(what_became_of_a_call_is_noted_with_its_answer),
        cmocka_unit_test(a_question_that_cannot_be_sent_is_answered_here),
        cmocka_unit_test(a_person_who_cannot_be_asked_decides_nothing),
    };
    return cmocka_run_group_tests_name("ask_person", tests, NULL, NULL);
}
