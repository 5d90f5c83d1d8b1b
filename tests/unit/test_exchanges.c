/* SPDX-License-Identifier: MIT */
/*
 * Exchanges that nobody waits for: they end, or are in nobody's way, and what their requests did
 * stays as unknown as it was. And streams that were taken up and say nothing. On the real engine
 * with a scripted server and a scripted client.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/internal.h"
#include "talk_kit.h"

#define PAY(id)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","   \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"
#define READ(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"resources/read\",\"params\":{}}"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

enum { A_WHILE_MS = 30 * 1000 };

static void start(struct talk_kit *talk, const struct hx_tool_rules *rules)
{
    struct talk_kit_options options = {
        .rules = *rules,
        .server_capabilities = "{\"tools\":{},\"resources\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]",
    };
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
}

/* A server need not answer what was cancelled. */
static void a_cancelled_request_leaves_no_exchange(void **state)
{
    struct talk_kit talk;
    struct hx_tool_rules rules = engine_kit_rules();
    (void)state;
    start(&talk, &rules);
    talk_kit_says(&talk, READ("3"));
    talk_kit_asks(&talk, "resources/read");
    uint64_t tag = talk.tag;
    talk_kit_says(&talk, CANCEL("3"));
    talk_kit_asks(&talk, "notifications/cancelled");
    assert_int_equal(talk.gave_way, tag);
    talk_kit_waits(&talk, A_WHILE_MS - 1);
    assert_int_equal(talk.dropped, 0);
    talk_kit_waits(&talk, 1);
    assert_int_equal(talk.dropped, tag);
    talk_kit_fini(&talk);
}

static void answer_lost(struct talk_kit *talk, uint64_t tag)
{
    talk_kit_from_server(talk, HX_PEER_ANSWER_LOST, tag, "")->loss = HX_PEER_LOSS_STOPPED;
    engine_kit_turn(&talk->engine);
}

/* Its late answer is evidence, so it is listened to; the loss of it is none. */
static void a_call_that_timed_out_gives_way_and_stays_unknown(void **state)
{
    (void)state;
    for (int is_lost = 0; is_lost <= 1; is_lost++) {
        struct talk_kit talk;
        struct hx_tool_rules rules = engine_kit_rules();
        rules.contract.timeout_ms = 1000;
        start(&talk, &rules);
        talk_kit_says(&talk, PAY("3"));
        uint64_t tag = talk.tag;
        assert_int_equal(talk.gave_way, 0);
        talk_kit_waits(&talk, 1000);
        talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        assert_int_equal(talk.gave_way, tag);
        talk_kit_waits(&talk, 2 * A_WHILE_MS);
        assert_int_equal(talk.dropped, 0);
        talk.tag = tag;
        if (is_lost)
            answer_lost(&talk, tag);
        else
            talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
        talk_kit_says(&talk, PAY("4"));
        talk_kit_hears(&talk, is_lost ? "OUTCOME_UNKNOWN" : "\"n\":1");
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

/* The cancel was handed on, and nothing came of it. */
static void a_cancelled_call_gives_way_and_stays_unknown(void **state)
{
    struct talk_kit talk;
    struct hx_tool_rules rules = engine_kit_rules();
    rules.contract.cancel_upstream = HX_CANCEL_UPSTREAM_ALWAYS;
    (void)state;
    start(&talk, &rules);
    talk_kit_says(&talk, PAY("3"));
    uint64_t tag = talk.tag;
    talk_kit_says(&talk, CANCEL("3"));
    talk_kit_asks(&talk, "notifications/cancelled");
    talk_kit_waits(&talk, rules.cancel_timeout_ms);
    assert_int_equal(talk.gave_way, tag);
    answer_lost(&talk, tag);
    talk_kit_says(&talk, PAY("4"));
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* A call whose stream is taken up by the next process, and is silent. */
static void is_taken_up(struct talk_kit *talk, bool has_probe)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .is_run = true,
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]",
    };
    options.rules.contract.has_probe = has_probe;
    if (has_probe)
        options.rules.probe = (struct hx_probe){.tool = HX_SPAN_LIT("look"),
                                                .arguments = HX_SPAN_LIT("{}"),
                                                .match = HX_PROBE_TEXT,
                                                .value = HX_SPAN_LIT("paid")};
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
    talk_kit_says(talk, PAY("3"));
    (void)talk_kit_from_server(talk, HX_PEER_RESUME_POINT, talk->tag, "e1");
    engine_kit_turn(&talk->engine);
    talk_kit_waits(talk, 1000); /* it is written with what else there is to write */
    talk_kit_end(talk);
    talk_kit_begin(talk);
    talk->told[0] = '\0';
    talk_kit_says(talk, PAY("4"));
    assert_int_not_equal(talk->taken_up, 0);
    assert_int_equal(talk->gave_way, talk->taken_up);
    talk->asked[0] = '\0';
}

/* What the taken up stream says after all. */
static void stream_answers(struct talk_kit *talk)
{
    talk->tag = talk->taken_up;
    talk_kit_answers(talk, "\"result\":{\"content\":[],\"n\":1}");
}

static void waits_for_a_look(struct talk_kit *talk)
{
    for (int i = 0; i < 60 && strstr(talk->asked, "\"look\"") == NULL; i++)
        talk_kit_waits(talk, 500);
    talk_kit_asks(talk, "\"look\"");
}

static void a_silent_stream_does_not_keep_the_probe_away(void **state)
{
    struct talk_kit talk;
    (void)state;
    is_taken_up(&talk, true);
    waits_for_a_look(&talk);
    talk_kit_answers(&talk, "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"paid\"}]}");
    talk_kit_hears(&talk, "What look shows of it");
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* The probe is not over with the stream, nor the stream with the probe. */
static void a_stream_may_speak_beside_the_probe(void **state)
{
    (void)state;
    for (int is_lost = 0; is_lost <= 1; is_lost++) {
        struct talk_kit talk;
        is_taken_up(&talk, true);
        waits_for_a_look(&talk);
        uint64_t look = talk.tag;
        if (is_lost) {
            answer_lost(&talk, talk.taken_up);
            talk.tag = look;
            talk_kit_answers(&talk,
                             "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"paid\"}]}");
            talk_kit_hears(&talk, "What look shows of it");
        } else {
            stream_answers(&talk);
            talk_kit_hears(&talk, "\"n\":1");
            assert_int_equal(talk.dropped, look);
        }
        talk_kit_fini(&talk);
    }
}

static void nobody_waits_for_a_silent_stream_for_ever(void **state)
{
    struct talk_kit talk;
    (void)state;
    is_taken_up(&talk, false);
    talk_kit_waits(&talk, 29 * 1000);
    assert_string_equal(talk.told, "");
    talk_kit_waits(&talk, 1000);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    assert_int_equal(talk.dropped, 0);
    stream_answers(&talk);
    talk_kit_says(&talk, PAY("5"));
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Nothing is kept in memory for what else it may say. */
static void what_the_stream_brings_ends_the_search(void **state)
{
    struct talk_kit talk;
    (void)state;
    is_taken_up(&talk, false);
    stream_answers(&talk);
    talk_kit_hears(&talk, "\"n\":1");
    talk_kit_waits(&talk, 1000);
    assert_true(hx_list_is_empty(&talk.engine.gateway->works));
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_request_leaves_no_exchange),
        cmocka_unit_test(a_call_that_timed_out_gives_way_and_stays_unknown),
        cmocka_unit_test(a_cancelled_call_gives_way_and_stays_unknown),
        cmocka_unit_test(a_silent_stream_does_not_keep_the_probe_away),
        cmocka_unit_test(a_stream_may_speak_beside_the_probe),
        cmocka_unit_test(nobody_waits_for_a_silent_stream_for_ever),
        cmocka_unit_test(what_the_stream_brings_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
