/* SPDX-License-Identifier: MIT */
/*
 * Which operation a call without a key is: on the real engine with a scripted server and the ledger
 * in memory, whose answers the test can hold back. What the core makes of what is known is
 * test_repeat.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "talk_kit.h"

#define TOOLS "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]"
#define DONE "\"result\":{\"content\":[],\"n\":1}"
#define REFUSED "\"error\":{\"code\":-32011,\"message\":\"no\"}"

enum { LINE_BYTES = 512 };

/* Those of the store, under what a test puts before them. */
static struct hx_store_ops plain_ops, watching_ops;
static bool is_holding;
static enum hx_store_kind holding;
static struct hx_store_request *held;

static void submit_watching(struct hx_store *store, struct hx_store_request *request)
{
    if (is_holding && request->kind == holding && held == NULL)
        held = request;
    else
        plain_ops.submit(store, request);
}

/* The next request of that kind does not come to the ledger until it is let through. */
static void hold(enum hx_store_kind kind)
{
    is_holding = true;
    holding = kind;
    held = NULL;
}

static void let_through(struct talk_kit *talk)
{
    is_holding = false;
    assert_non_null(held);
    plain_ops.submit(talk->engine.store, held);
    engine_kit_turn(&talk->engine);
}

static struct talk_kit_options options_of_test(void)
{
    static const struct hx_no_effect_rule no_effect = {.is_code = true, .code = -32011};
    struct talk_kit_options options = {
        .rules = engine_kit_rules(), .server_capabilities = "{\"tools\":{}}", .tools = TOOLS};
    options.rules.no_effect = &no_effect;
    options.rules.no_effect_count = 1;
    return options;
}

static void begin(struct talk_kit *talk, const struct talk_kit_options *options)
{
    is_holding = false;
    talk_kit_init(talk, options);
    talk_kit_begin(talk);
    plain_ops = watching_ops = *talk->engine.store->ops;
    watching_ops.submit = submit_watching;
    talk->engine.store->ops = &watching_ops;
    talk->told[0] = '\0';
}

static void start(struct talk_kit *talk)
{
    struct talk_kit_options options = options_of_test();
    begin(talk, &options);
}

static const char *tool_name = "pay";

/* `meta`: members of `_meta`, or "". */
static void pays(struct talk_kit *talk, int id, const char *arguments, const char *meta)
{
    char line[LINE_BYTES];
    int len = snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"%s\",\"arguments\":%s,\"_meta\":{%s}}}",
                       id, tool_name, arguments, meta);
    assert_in_range(len, 1, LINE_BYTES - 1);
    talk_kit_says(talk, line);
}

static const struct hx_record *row(const struct talk_kit *talk, size_t index)
{
    const struct hx_record *record = hx_memory_ledger_row(talk->engine.ledger, index);
    assert_non_null(record);
    return record;
}

static void retries(struct talk_kit *talk, int id, const char *arguments, const struct hx_id *of)
{
    char name[HX_ID_TEXT_SIZE], meta[LINE_BYTES / 2];
    hx_id_format(of, name);
    snprintf(meta, sizeof meta, "\"dev.hapax/retry\":\"%s\"", name);
    pays(talk, id, arguments, meta);
}

/* It names the operation: what its twins look like says nothing any more. */
static void a_retry_without_a_key_is_of_the_operation_that_it_names(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    pays(&talk, 3, "{}", "");
    struct hx_id first = row(&talk, 0)->id;
    retries(&talk, 4, "{}", &first); /* it runs */
    assert_int_equal(talk.calls, 1);
    talk_kit_answers(&talk, DONE);
    talk_kit_hears(&talk, "\"id\":4,\"result\":{\"content\":[");
    retries(&talk, 5, "{}", &first); /* it succeeded, and its answer was delivered */
    talk_kit_hears(&talk, "\"replayed\":true");
    assert_int_equal(talk.calls, 1);
    assert_null(hx_memory_ledger_row(talk.engine.ledger, 1));
    talk_kit_fini(&talk);
}

/* One successor, however often the same retry comes. */
static void what_failed_has_one_successor_without_a_key_too(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    pays(&talk, 3, "{}", "");
    struct hx_id first = row(&talk, 0)->id;
    talk_kit_answers(&talk, REFUSED);
    assert_int_equal(row(&talk, 0)->state, HX_OP_FAILED);
    retries(&talk, 4, "{}", &first);
    assert_int_equal(talk.calls, 2);
    talk_kit_answers(&talk, DONE);
    talk_kit_hears(&talk, "\"id\":4,\"result\":{\"content\":[");
    retries(&talk, 5, "{}", &first);
    talk_kit_hears(&talk, "\"replayed\":true");
    assert_int_equal(talk.calls, 2);
    assert_int_equal(row(&talk, 1)->generation, 1);
    talk_kit_fini(&talk);
}

static void a_retry_of_another_call_runs_nothing(void **state)
{
    static const struct hx_id nobodys = {{1, 2, 3}};
    struct talk_kit talk;
    (void)state;
    start(&talk);
    pays(&talk, 3, "{}", "");
    talk_kit_answers(&talk, DONE);
    struct hx_id first = row(&talk, 0)->id;
    retries(&talk, 4, "{\"n\":1}", &first);
    talk_kit_hears(&talk, "KEY_CONFLICT");
    tool_name = "pay_all";
    retries(&talk, 6, "{}", &first);
    tool_name = "pay";
    talk_kit_hears(&talk, "KEY_CONFLICT");
    retries(&talk, 5, "{}", &nobodys); /* gone, or never there: nobody knows whether it acted */
    talk_kit_hears(&talk, "KEY_EXPIRED");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Somebody else's operation is to him as one that is not there. */
static void a_retry_names_only_what_is_ones_own(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of_test();
    (void)state;
    begin(&talk, &options);
    pays(&talk, 3, "{}", "");
    talk_kit_answers(&talk, DONE);
    struct hx_id first = row(&talk, 0)->id;
    talk_kit_end(&talk);
    talk.options.principal = "1001";
    talk_kit_begin(&talk);
    retries(&talk, 4, "{}", &first);
    talk_kit_hears(&talk, "KEY_EXPIRED");
    retries(&talk, 5, "{\"n\":1}", &first);
    talk_kit_hears(&talk, "KEY_EXPIRED");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

static void a_tool_that_requires_a_key_takes_no_retry_without_one(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of_test();
    (void)state;
    options.rules.contract.repeat = HX_REPEAT_REQUIRE_KEY;
    begin(&talk, &options);
    pays(&talk, 3, "{}", "\"dev.hapax/idempotencyKey\":\"k-1\"");
    talk_kit_answers(&talk, REFUSED);
    struct hx_id first = row(&talk, 0)->id;
    retries(&talk, 4, "{}", &first);
    talk_kit_hears(&talk, "KEY_REQUIRED");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

#define KEYED "\"dev.hapax/idempotencyKey\":\"k-1\""

/* What a call with a key left unknown is not run by the same call whose key was lost on its way,
 * and is told as what it is; to its key byte for byte. */
static void a_call_that_lost_its_key_is_no_new_one(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of_test();
    (void)state;
    options.rules.contract.timeout_ms = 1000;
    options.rules.has_replay_note = true;
    begin(&talk, &options);
    pays(&talk, 3, "{}", KEYED);
    talk_kit_waits(&talk, 1000);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    pays(&talk, 4, "{}", "");
    talk_kit_hears(&talk, "\"code\":\"OUTCOME_UNKNOWN\"");
    talk_kit_answers(&talk, DONE); /* late */
    pays(&talk, 5, "{}", "");
    talk_kit_hears(&talk, "Stored answer of the same call");
    pays(&talk, 6, "{}", KEYED);
    talk_kit_hears(&talk, "\"id\":6,\"result\":{\"content\":[],\"n\":1");
    assert_int_equal(talk.calls, 1);
    pays(&talk, 7, "{}", ""); /* it was told to both: this is another one */
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* Nobody read the answer to the key; then whoever comes without it may be told. */
static void an_answer_to_a_key_that_was_lost_is_told_without_it(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    pays(&talk, 3, "{}", KEYED);
    talk_kit_answers(&talk, DONE);
    talk_kit_says(&talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":3}}");
    pays(&talk, 4, "{}", "");
    assert_int_equal(talk.calls, 1);
    talk_kit_hears(&talk, "\"replayed\":true");
    talk_kit_fini(&talk);
}

static void a_keyed_call_of_somebody_else_is_not_joined(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of_test();
    (void)state;
    options.rules.contract.timeout_ms = 1000;
    begin(&talk, &options);
    pays(&talk, 3, "{}", KEYED);
    talk_kit_waits(&talk, 1000);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    talk_kit_end(&talk);
    talk.options.principal = "1001";
    talk_kit_begin(&talk);
    pays(&talk, 4, "{}", "");
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* On one connection: who sends a key and then the same without has given up. */
static void a_silent_repeat_that_lost_its_key_joins(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    pays(&talk, 3, "{}", KEYED);
    talk_kit_waits(&talk, 800);
    hold(HX_STORE_FIND);
    pays(&talk, 4, "{}", "");
    talk_kit_answers(&talk, DONE);
    talk_kit_hears(&talk, "\"id\":3,\"result\":{\"content\":[],\"n\":1");
    let_through(&talk);
    assert_int_equal(talk.calls, 1);
    talk_kit_hears(&talk, "\"id\":4,\"result\":{\"content\":[");
    talk_kit_fini(&talk);
}

/* The first call of all after the server was gone waits until it is greeted; its silent repeat
 * waits behind it, and looks when the first one is answered. */
static void a_silent_repeat_while_the_server_is_greeted_acts_once(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    talk.is_mute = true;
    (void)talk_kit_from_server(&talk, HX_PEER_CLOSED, 0, "");
    engine_kit_turn(&talk.engine);
    pays(&talk, 3, "{}", "");
    talk_kit_waits(&talk, 1000);
    talk_kit_asks(&talk, "\"initialize\"");
    pays(&talk, 4, "{}", "");
    hold(HX_STORE_FIND);
    talk_kit_answers(&talk, "\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}");
    assert_int_equal(talk.calls, 1);
    talk_kit_answers(&talk, DONE);
    talk_kit_hears(&talk, "\"id\":3,\"result\":{\"content\":[],\"n\":1");
    let_through(&talk);
    assert_int_equal(talk.calls, 1);
    talk_kit_hears(&talk, "\"id\":4,\"result\":{\"content\":[");
    talk_kit_fini(&talk);
}

/* Of the call that it repeats no row was ever written: it is told of that what is so, and not that
 * something is too old. */
static void a_silent_repeat_of_a_call_that_came_to_nothing_is_a_new_one(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    hold(HX_STORE_INSERT);
    pays(&talk, 3, "{}", "");
    talk_kit_waits(&talk, 800);
    pays(&talk, 4, "{}", "");
    hx_memory_ledger_break(talk.engine.ledger, true, true);
    let_through(&talk);
    talk_kit_hears(&talk, "\"id\":4,\"error\":{\"code\":1503");
    hx_memory_ledger_break(talk.engine.ledger, false, false);
    pays(&talk, 5, "{}", "");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* A key made anew for a repeat is counted, whatever the rule makes of it. */
static void a_fresh_key_on_an_unresolved_twin_is_always_counted(void **state)
{
    static const enum hx_fresh_key rules[] = {HX_FRESH_KEY_WARN, HX_FRESH_KEY_ASK,
                                              HX_FRESH_KEY_REFUSE};
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct talk_kit talk;
        struct talk_kit_options options = options_of_test();
        options.rules.contract.fresh_key = rules[i];
        begin(&talk, &options);
        pays(&talk, 3, "{}", "\"dev.hapax/idempotencyKey\":\"k-first\"");
        talk_kit_from_server(&talk, HX_PEER_CLOSED, 0, "");
        engine_kit_turn(&talk.engine);
        talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        pays(&talk, 4, "{}", "\"dev.hapax/idempotencyKey\":\"k-first\""); /* the same: none */
        const struct hx_gateway *gateway = talk.engine.gateway;
        assert_int_equal(hx_gateway_counter(gateway, HX_COUNTER_FRESH_KEY), 0);
        pays(&talk, 5, "{}", "\"dev.hapax/idempotencyKey\":\"k-anew\"");
        assert_int_equal(hx_gateway_counter(gateway, HX_COUNTER_FRESH_KEY), 1);
        if (rules[i] != HX_FRESH_KEY_WARN)
            talk_kit_hears(&talk, "REPEAT_SUSPECTED");
        assert_int_equal(talk.calls, rules[i] == HX_FRESH_KEY_WARN ? 2 : 1);
        talk_kit_fini(&talk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_without_a_key_is_of_the_operation_that_it_names),
        cmocka_unit_test(what_failed_has_one_successor_without_a_key_too),
        cmocka_unit_test(a_retry_of_another_call_runs_nothing),
        cmocka_unit_test(a_retry_names_only_what_is_ones_own),
        cmocka_unit_test(a_tool_that_requires_a_key_takes_no_retry_without_one),
        cmocka_unit_test(a_call_that_lost_its_key_is_no_new_one),
        cmocka_unit_test(an_answer_to_a_key_that_was_lost_is_told_without_it),
        cmocka_unit_test(a_keyed_call_of_somebody_else_is_not_joined),
        cmocka_unit_test(a_silent_repeat_that_lost_its_key_joins),
        cmocka_unit_test(a_silent_repeat_while_the_server_is_greeted_acts_once),
        cmocka_unit_test(a_silent_repeat_of_a_call_that_came_to_nothing_is_a_new_one),
        cmocka_unit_test(a_fresh_key_on_an_unresolved_twin_is_always_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
