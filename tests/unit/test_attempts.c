/* SPDX-License-Identifier: MIT */
/*
 * What one attempt says of another, and what uses one up: on the real engine with a scripted
 * server, a scripted client and the ledger in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "talk_kit.h"

#define PAY(id)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","   \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"
#define URL_WANTED                                                                                 \
    "\"error\":{\"code\":-32042,\"message\":\"log in\",\"data\":{\"elicitations\":[]}}"

static void start(struct talk_kit *talk, const struct hx_tool_rules *rules, int64_t target)
{
    struct talk_kit_options options = {
        .rules = *rules,
        .target = target,
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]",
    };
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
}

static void late(struct talk_kit *talk, uint64_t id, const char *member)
{
    char line[256];
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%u,%s}", (unsigned)id, member);
    talk_kit_from_server(talk, HX_PEER_MESSAGE, id, line)->is_answer = true;
    engine_kit_turn(&talk->engine);
}

/* Two attempts under one effect key: the id of the first. */
static uint64_t sent_twice(struct talk_kit *talk)
{
    struct hx_tool_rules rules = engine_kit_rules();
    rules.contract.tool_class = HX_CLASS_IDEMPOTENT;
    rules.contract.is_reorder_safe = true;
    rules.contract.timeout_ms = 1000;
    rules.contract.attempts_max = 2;
    start(talk, &rules, 0);
    talk_kit_says(talk, PAY("3"));
    talk_kit_asks(talk, "\"tools/call\"");
    uint64_t first = talk->tag;
    talk_kit_waits(talk, 1000);
    if (talk->calls == 1)
        talk_kit_says(talk, PAY("4"));
    assert_int_equal(talk->calls, 2);
    talk_kit_waits(talk, 1000);
    talk_kit_hears(talk, "OUTCOME_UNKNOWN");
    return first;
}

/* "A late answer is evidence", also that of the attempt before. */
static void the_first_attempt_answers_after_the_second_was_sent(void **state)
{
    struct talk_kit talk;
    (void)state;
    uint64_t first = sent_twice(&talk);
    late(&talk, first, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_says(&talk, PAY("5"));
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* An error, and what is no outcome, say something of that attempt alone. */
static void a_late_refusal_is_no_evidence(void **state)
{
    static const char *const words[] = {
        "\"error\":{\"code\":-32602,\"message\":\"duplicate\"}",
        "\"result\":{\"content\":[],\"isError\":true}",
        "\"result\":{\"task\":{\"taskId\":\"t\",\"status\":\"working\"}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct talk_kit talk;
        uint64_t first = sent_twice(&talk);
        late(&talk, first, words[i]);
        talk_kit_says(&talk, PAY("5"));
        talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        talk_kit_fini(&talk);
    }
}

/* The name was given to another server meanwhile: it would not know the effect key (I14). */
static void another_server_of_the_name_gets_no_second_attempt(void **state)
{
    (void)state;
    for (int64_t target = 1; target <= 2; target++) {
        struct talk_kit talk;
        struct hx_tool_rules rules = engine_kit_rules();
        rules.contract.tool_class = HX_CLASS_IDEMPOTENT;
        rules.contract.is_reorder_safe = true;
        start(&talk, &rules, 1);
        talk_kit_says(&talk, PAY("3"));
        assert_int_equal(talk.calls, 1);
        talk_kit_end(&talk);
        talk.options.target = target;
        talk_kit_begin(&talk);
        talk_kit_says(&talk, PAY("3"));
        assert_int_equal(talk.calls, target == 1 ? 2 : 1);
        if (target != 1)
            talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        talk_kit_fini(&talk);
    }
}

/* It is no outcome, and nothing was begun: however often the client comes back before it has
 * opened the URL, the call may run. */
static void a_url_that_is_wanted_uses_up_no_attempt(void **state)
{
    struct talk_kit talk;
    (void)state;
    struct hx_tool_rules rules = engine_kit_rules();
    start(&talk, &rules, 0);
    for (unsigned i = 1; i <= 10; i++) {
        talk_kit_says(&talk, PAY("3"));
        assert_int_equal(talk.calls, i);
        talk_kit_answers(&talk, URL_WANTED);
        talk_kit_hears(&talk, "-32042");
        talk_kit_waits(&talk, 60 * 1000);
        assert_int_equal(talk.calls, i);
    }
    talk_kit_says(&talk, PAY("3"));
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    talk_kit_fini(&talk);
}

/* A server that knows keys says of ours that it is in use there: that is no outcome of the tool. */
static void a_word_about_the_key_is_no_outcome(void **state)
{
    static const char *const types[] = {"idempotency_key_in_progress",
                                        "idempotency_outcome_unknown", "idempotency_key_conflict"};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int is_keyed = 0; is_keyed < 2; is_keyed++) {
            struct talk_kit talk;
            struct hx_tool_rules rules = engine_kit_rules();
            char answer[160];
            rules.contract.tool_class = is_keyed ? HX_CLASS_KEYED : HX_CLASS_OPAQUE;
            rules.is_effect_key_param = is_keyed;
            start(&talk, &rules, 0);
            talk_kit_says(&talk, PAY("3"));
            snprintf(answer, sizeof answer,
                     "\"error\":{\"code\":-32603,\"message\":\"m\",\"data\":{\"type\":\"%s\"}}",
                     types[i]);
            talk_kit_answers(&talk, answer);
            talk_kit_hears(&talk, is_keyed ? "OUTCOME_UNKNOWN" : "-32603");
            talk_kit_fini(&talk);
        }
    }
}

/* The ledger and the rules know a tool by its C string: behind a NUL one name would be two. */
static void a_name_with_a_nul_is_refused(void **state)
{
    struct talk_kit talk;
    (void)state;
    struct hx_tool_rules rules = engine_kit_rules();
    start(&talk, &rules, 0);
    talk_kit_says(&talk, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{"
                         "\"name\":\"pay\\u0000x\",\"arguments\":{}}}");
    talk_kit_hears(&talk, "zero byte");
    assert_int_equal(talk.calls, 0);
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_attempt_answers_after_the_second_was_sent),
        cmocka_unit_test(a_late_refusal_is_no_evidence),
        cmocka_unit_test(another_server_of_the_name_gets_no_second_attempt),
        cmocka_unit_test(a_url_that_is_wanted_uses_up_no_attempt),
        cmocka_unit_test(a_word_about_the_key_is_no_outcome),
        cmocka_unit_test(a_name_with_a_nul_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
