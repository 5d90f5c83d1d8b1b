/* SPDX-License-Identifier: MIT */
/*
 * The recovery ladder with nobody who asks: on the real engine with a scripted server and the
 * ledger in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "talk_kit.h"

#define PAY                                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","        \
    "\"arguments\":{\"n\":1},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"
#define CANCEL                                                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"hapax/operations/cancel\",\"params\":{"            \
    "\"key\":\"k-1\",\"tool\":\"pay\"}}"
#define RECEIPT "\"result\":{\"content\":[],\"n\":1}"
#define NOT_FOUND "\"error\":{\"code\":-32602,\"message\":\"m\",\"data\":{\"code\":\"NOT_FOUND\"}}"

static struct talk_kit_options keyed(void)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .is_run = true,
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]"};
    options.rules.contract.tool_class = HX_CLASS_KEYED;
    options.rules.contract.dedupe_horizon_ms = 24 * 3600 * 1000;
    options.rules.contract.timeout_ms = 1000;
    options.rules.effect_key_argument = HX_SPAN_LIT("/key");
    return options;
}

static const struct hx_record *row(struct talk_kit *talk)
{
    return hx_memory_ledger_row(talk->engine.ledger, 0);
}

/* Its tool is silent, and its caller told "unknown". */
static void begin_lost(struct talk_kit *talk, const struct talk_kit_options *options)
{
    talk_kit_init(talk, options);
    talk_kit_begin(talk);
    talk_kit_says(talk, PAY);
    talk_kit_asks(talk, "\"tools/call\"");
    talk_kit_waits(talk, 1000);
    talk_kit_hears(talk, "OUTCOME_UNKNOWN");
    assert_int_equal(row(talk)->state, HX_OP_UNKNOWN);
}

static void waits_seconds(struct talk_kit *talk, int seconds)
{
    for (int i = 0; i < seconds; i++)
        talk_kit_waits(talk, 1000);
}

/* The member of the last request that its tool takes for the key. */
static void key_asked(const struct talk_kit *talk, char ret_key[64])
{
    const char *at = strstr(talk->asked, "\"key\":\"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"key\":\"%63[^\"]", ret_key), 1);
}

static void a_keyed_call_is_sent_again_though_nobody_asks(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    char first[64], second[64];
    (void)state;
    begin_lost(&talk, &options);
    key_asked(&talk, first);
    waits_seconds(&talk, 4);
    assert_int_equal(talk.calls, 1);
    waits_seconds(&talk, 2);
    assert_int_equal(talk.calls, 2);
    key_asked(&talk, second);
    assert_string_equal(first, second);
    talk_kit_asks(&talk, "\"n\":1");
    talk_kit_answers(&talk, RECEIPT);
    assert_int_equal(row(&talk)->state, HX_OP_SUCCEEDED);
    waits_seconds(&talk, 100);
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* 5 s, 15 s, 45 s and 2 min after it was lost, and never more often than its contract says. */
static void it_is_sent_again_by_the_schedule_and_not_without_end(void **state)
{
    static const int steps_s[] = {5, 15, 45, 120};
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    begin_lost(&talk, &options);
    for (unsigned i = 0; i < 4; i++) {
        /* The look before has begun the next step, and its attempt took a second of that. */
        waits_seconds(&talk, i == 0 ? steps_s[i] - 1 : steps_s[i] - 4);
        assert_int_equal(talk.calls, i + 1);
        waits_seconds(&talk, 4);
        assert_int_equal(talk.calls, i + 2);
    }
    waits_seconds(&talk, 3600);
    assert_int_equal(talk.calls, 5);
    assert_int_equal(row(&talk)->state, HX_OP_UNKNOWN);
    talk_kit_fini(&talk);
}

/* The process was killed after the tool acted, and no caller comes back. */
static void the_next_process_settles_it(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    options.rules.contract.timeout_ms = 0;
    talk_kit_init(&talk, &options);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY);
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    waits_seconds(&talk, 4);
    assert_int_equal(row(&talk)->state, HX_OP_UNKNOWN);
    assert_int_equal(talk.calls, 1);
    waits_seconds(&talk, 2);
    assert_int_equal(talk.calls, 2);
    talk_kit_asks(&talk, "\"n\":1");
    talk_kit_end(&talk); /* this one too */
    talk_kit_begin(&talk);
    waits_seconds(&talk, 10); /* one look was made: the next is later */
    assert_int_equal(talk.calls, 2);
    waits_seconds(&talk, 10);
    assert_int_equal(talk.calls, 3);
    talk_kit_answers(&talk, RECEIPT);
    assert_int_equal(row(&talk)->state, HX_OP_SUCCEEDED);
    talk_kit_fini(&talk);
}

static void an_hour_sends_nothing(const struct talk_kit_options *options)
{
    struct talk_kit talk;
    begin_lost(&talk, options);
    waits_seconds(&talk, 3600);
    assert_int_equal(talk.calls, 1);
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    waits_seconds(&talk, 3600);
    assert_int_equal(talk.calls, 1);
    assert_int_equal(row(&talk)->state, HX_OP_UNKNOWN);
    talk_kit_fini(&talk);
}

static void what_the_contract_does_not_allow_is_not_sent(void **state)
{
    struct talk_kit_options options = keyed();
    (void)state;
    options.rules.contract.tool_class = HX_CLASS_OPAQUE;
    an_hour_sends_nothing(&options);
    options = keyed();
    options.rules.contract.dedupe_horizon_ms = HX_UNDECLARED_MS;
    an_hour_sends_nothing(&options);
    options.rules.contract.dedupe_horizon_ms = 300 * 1000 + 1000 + 2000; /* over before 5 s are */
    an_hour_sends_nothing(&options);
    options = keyed();
    options.rules.contract.attempts_max = 1;
    an_hour_sends_nothing(&options);
}

static void another_server_of_the_name_is_not_sent_it(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    options.target = 1;
    begin_lost(&talk, &options);
    talk_kit_end(&talk);
    talk.options.target = 2;
    talk_kit_begin(&talk);
    waits_seconds(&talk, 600);
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Sent again it would tell what came of it, and would run if nothing had. */
static void what_was_cancelled_in_doubt_is_not_sent_again(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    begin_lost(&talk, &options);
    talk_kit_says(&talk, CANCEL);
    waits_seconds(&talk, 600);
    assert_true(row(&talk)->is_cancel_requested);
    assert_int_equal(talk.calls, 1);
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    waits_seconds(&talk, 600);
    assert_int_equal(talk.calls, 1);
    talk_kit_says(&talk, PAY); /* but for who wants it still */
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* Without its arguments it would be another call; until then it claims no attempt. */
static void what_is_not_kept_is_not_sent(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    options.rules.has_stored_arguments = false;
    begin_lost(&talk, &options);
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    waits_seconds(&talk, 600);
    assert_int_equal(talk.calls, 1);
    assert_int_equal(row(&talk)->attempt.number, 1);
    talk_kit_fini(&talk);
}

/* The rung before asks, also for a tool that is never sent again: what is known elsewhere. */
static void a_handle_is_asked_about_though_nobody_asks(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = keyed();
    (void)state;
    options.rules.contract.tool_class = HX_CLASS_OPAQUE;
    options.rules.contract.timeout_ms = 0;
    options.server_capabilities = "{\"tools\":{},\"extensions\":{\"dev.hapax/operations\":{}}}";
    talk_kit_init(&talk, &options);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY);
    talk_kit_end(&talk);
    talk.asked[0] = '\0';
    talk_kit_begin(&talk);
    for (int looks = 0; looks < 3; looks++) {
        for (int i = 0; i < 120 && strstr(talk.asked, "hapax/operations/get") == NULL; i++)
            talk_kit_waits(&talk, 1000);
        talk_kit_asks(&talk, "hapax/operations/get");
        talk_kit_answers(&talk, looks < 2 ? NOT_FOUND
                                          : "\"result\":{\"operation\":{\"execution\":"
                                            "\"succeeded\",\"result\":{\"content\":[]}}}");
    }
    assert_int_equal(row(&talk)->state, HX_OP_SUCCEEDED);
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keyed_call_is_sent_again_though_nobody_asks),
        cmocka_unit_test(it_is_sent_again_by_the_schedule_and_not_without_end),
        cmocka_unit_test(the_next_process_settles_it),
        cmocka_unit_test(what_the_contract_does_not_allow_is_not_sent),
        cmocka_unit_test(another_server_of_the_name_is_not_sent_it),
        cmocka_unit_test(what_was_cancelled_in_doubt_is_not_sent_again),
        cmocka_unit_test(what_is_not_kept_is_not_sent),
        cmocka_unit_test(a_handle_is_asked_about_though_nobody_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
