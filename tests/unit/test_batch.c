/* SPDX-License-Identifier: MIT */
/*
 * Arrays of requests, of the one revision that has them, on the real engine with a scripted server
 * and the ledger in memory: what becomes of a call in one that its transport repeats.
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
    "\"arguments\":{}}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}"

enum { EXCHANGES = 4 };

/* What was told last on each exchange. */
static char told[EXCHANGES][TALK_KIT_TEXT_MAX];
static struct hx_downstream_ops plain_down, noting_down;

static void send_noting(struct hx_downstream *downstream, struct hx_buf *line,
                        const struct hx_sending *sending)
{
    assert_in_range(sending->exchange, 0, EXCHANGES - 1);
    snprintf(told[sending->exchange], sizeof told[0], "%.*s", (int)line->len, line->data);
    plain_down.send(downstream, line, sending);
}

static void start(struct talk_kit *talk)
{
    const struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .revision = "2025-03-26",
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]",
    };
    talk_kit_init(talk, &options);
    plain_down = noting_down = *talk->downstream.ops;
    noting_down.send = send_noting;
    talk->downstream.ops = &noting_down;
    talk_kit_begin(talk);
    memset(told, 0, sizeof told);
}

static void is_told(uint64_t exchange, const char *part)
{
    if (strstr(told[exchange], part) == NULL)
        fail_msg("on exchange %u was told %s\n  not %s", (unsigned)exchange, told[exchange], part);
}

static const struct {
    const char *first, *again;
} rows[] = {
    {"[" PAY "]", PAY},
    {PAY, "[" PAY "]"},
    {"[" PAY "," PING "]", "[" PING "," PAY "]"},
};

/* Who repeats it does not hear the first one any more; what he asked may be an array, whose answers
 * leave together. So the call is answered on both, and runs once. */
static void the_repeat_of_a_call_in_an_array_is_answered_where_it_was_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        start(&talk);
        talk_kit_says_on(&talk, 1, rows[i].first);
        talk_kit_asks(&talk, "\"tools/call\"");
        talk_kit_says_on(&talk, 2, rows[i].again);
        assert_string_equal(told[2], "");
        assert_int_equal(talk.calls, 1);
        talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
        for (uint64_t exchange = 1; exchange <= 2; exchange++) {
            bool is_array = (exchange == 1 ? rows[i].first : rows[i].again)[0] == '[';
            is_told(exchange, "\"n\":1");
            assert_int_equal(told[exchange][0] == '[', is_array);
        }
        assert_int_equal(talk.settled[HX_SETTLING_TAKEN], 0);
        talk_kit_fini(&talk);
    }
}

static struct hx_store_ops plain_ops, holding_ops;
static struct hx_store_request *held;

static void submit_holding(struct hx_store *store, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_INSERT && held == NULL)
        held = request;
    else
        plain_ops.submit(store, request);
}

/* The first one stands before the ledger when the repeat comes, and is let through then. */
static void comes_while_the_first_is_written(struct talk_kit *talk, size_t row)
{
    plain_ops = holding_ops = *talk->engine.store->ops;
    holding_ops.submit = submit_holding;
    held = NULL;
    talk->engine.store->ops = &holding_ops;
    talk_kit_says_on(talk, 1, rows[row].first);
    assert_non_null(held);
    talk_kit_says_on(talk, 2, rows[row].again);
    plain_ops.submit(talk->engine.store, held);
    engine_kit_turn(&talk->engine);
    assert_int_equal(talk->calls, 1);
    talk_kit_answers(talk, "\"result\":{\"content\":[],\"n\":1}");
    is_told(1, "\"n\":1");
    is_told(2, "\"n\":1");
}

static void the_repeat_may_come_while_the_first_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        start(&talk);
        comes_while_the_first_is_written(&talk, i);
        talk_kit_fini(&talk);
    }
}

/* The first one is itself taken for the repeat of a call that nobody waits for any more. */
static void the_repeat_goes_to_what_the_first_one_has_adopted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        start(&talk);
        talk_kit_says_on(&talk, 3,
                         "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
                         "\"params\":{\"name\":\"pay\",\"arguments\":{}}}");
        talk_kit_asks(&talk, "\"tools/call\"");
        struct hx_peer_event *gone = hx_peer_event_new(HX_PEER_EXCHANGE_GONE, 0);
        gone->downstream = &talk.downstream;
        gone->exchange = 3;
        hx_list_append(&talk.downstream_inbox, &gone->node);
        engine_kit_turn(&talk.engine);
        comes_while_the_first_is_written(&talk, i);
        talk_kit_fini(&talk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_repeat_of_a_call_in_an_array_is_answered_where_it_was_asked),
        cmocka_unit_test(the_repeat_may_come_while_the_first_is_written),
        cmocka_unit_test(the_repeat_goes_to_what_the_first_one_has_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
