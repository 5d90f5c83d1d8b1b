/* SPDX-License-Identifier: MIT */
/*
 * A gateway that is refused memory in the middle of a call: one large allocation after another.
 * What its client is told is true and names its request, and the same call again acts once at most.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "talk_kit.h"

/* So many members that what is noted of them is not small, in a line that is. */
enum { MEMBERS = 1500, OBJECT_MAX = 24 * 1024, LINE_MAX_BYTES = OBJECT_MAX + 512 };

#define TOOLS "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]"

static const char *large_object(void)
{
    static char text[OBJECT_MAX];
    size_t len = 0;
    for (int i = 0; i < MEMBERS; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%c\"a%d\":1", i == 0 ? '{' : ',', i);
    assert_true(len < sizeof text - 1);
    text[len] = '}';
    text[len + 1] = '\0';
    return text;
}

static void start_in(struct talk_kit *talk, const char *revision)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(), .revision = revision, .tools = TOOLS};
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
    talk->told[0] = '\0';
}

static void start(struct talk_kit *talk)
{
    start_in(talk, NULL);
}

/* Takes what was said with the n-th large allocation refused. False: there are not so many. */
static bool turn_without(struct talk_kit *talk, unsigned long n)
{
    hx_alloc_fail_large_at(n);
    engine_kit_turn(&talk->engine);
    bool is_refused = hx_alloc_fail_left() == 0;
    hx_alloc_fail_at(0);
    return is_refused;
}

static void client_says(struct talk_kit *talk, const char *line)
{
    struct hx_peer_event *event = hx_peer_event_new(HX_PEER_MESSAGE, 0);
    event->downstream = &talk->downstream;
    assert_int_equal(hx_buf_append_cstr(&event->line, line), 0);
    hx_list_append(&talk->downstream_inbox, &event->node);
}

static void call(struct talk_kit *talk, int id, const char *arguments)
{
    static char line[LINE_MAX_BYTES];
    snprintf(
        line, sizeof line,
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","
        "\"arguments\":%s,\"_meta\":{\"dev.hapax/idempotencyKey\":\"order-17\"}}}",
        id, arguments);
    client_says(talk, line);
}

static void answer_if_asked(struct talk_kit *talk)
{
    if (talk->asked[0] != '\0')
        talk_kit_answers(talk, "\"result\":{\"content\":[],\"n\":1}");
}

static void a_call_is_refused_by_name_or_acts_once(void **state)
{
    unsigned long n = 0;
    bool is_refused = true;
    (void)state;
    while (is_refused) {
        struct talk_kit talk;
        start(&talk);
        call(&talk, 3, large_object());
        is_refused = turn_without(&talk, ++n);
        if (talk.calls == 0 && talk.told[0] == '\0')
            talk_kit_waits(&talk, 3000); /* nothing was sent, and it is tried again */
        if (talk.calls == 0)
            talk_kit_hears(&talk, "\"id\":3,\"error\":{\"code\":15");
        answer_if_asked(&talk);
        call(&talk, 4, large_object());
        engine_kit_turn(&talk.engine);
        answer_if_asked(&talk);
        talk_kit_hears(&talk, "\"id\":4,\"result\":{\"content\":[],\"n\":1");
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
    assert_true(n > 3);
}

static void an_answer_that_cannot_be_read_leaves_nobody_waiting(void **state)
{
    static char line[LINE_MAX_BYTES];
    unsigned long n = 0;
    bool is_refused = true;
    (void)state;
    while (is_refused) {
        struct talk_kit talk;
        start(&talk);
        call(&talk, 3, "{}");
        engine_kit_turn(&talk.engine);
        assert_int_equal(talk.calls, 1);
        snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"content\":[],\"n\":%s}}",
                 (unsigned)talk.tag, large_object());
        talk_kit_from_server(&talk, HX_PEER_MESSAGE, talk.tag, line)->is_answer = true;
        talk.asked[0] = '\0';
        is_refused = turn_without(&talk, ++n);
        bool is_told = strstr(talk.told, "\"a17\":1") != NULL;
        if (strstr(talk.told, "\"id\":3") == NULL)
            fail_msg("nobody was told: %s", talk.told);
        if (!is_told && strstr(talk.told, "may or may not") == NULL &&
            strstr(talk.told, "It happened") == NULL)
            fail_msg("n=%lu: %s", n, talk.told);
        call(&talk, 4, "{}");
        engine_kit_turn(&talk.engine);
        assert_int_equal(talk.calls, 1);
        if (is_told)
            talk_kit_hears(&talk, "\"a17\":1");
        talk_kit_fini(&talk);
    }
    assert_true(n > 1);
}

/* Of what is too long to hold only a result says that it happened: an error may say the opposite,
 * and what could have been held, had there been memory, may be anything. */
static void what_was_not_read_is_not_taken_for_an_outcome(void **state)
{
    static const struct {
        bool has_result, has_error, is_refused;
        const char *told;
    } rows[] = {{true, false, false, "RESULT_UNAVAILABLE"}, {false, true, false, "OUTCOME_UNKNOWN"},
                {true, false, true, "OUTCOME_UNKNOWN"},     {false, true, true, "OUTCOME_UNKNOWN"},
                {false, false, false, "OUTCOME_UNKNOWN"},   {true, true, false, "OUTCOME_UNKNOWN"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        char id[24];
        start(&talk);
        call(&talk, 3, "{}");
        engine_kit_turn(&talk.engine);
        snprintf(id, sizeof id, "%u", (unsigned)talk.tag);
        struct hx_peer_event *event = talk_kit_from_server(&talk, HX_PEER_OVERSIZE, talk.tag, id);
        event->has_error = rows[i].has_error;
        event->has_result = rows[i].has_result;
        event->is_refused = rows[i].is_refused;
        engine_kit_turn(&talk.engine);
        talk_kit_hears(&talk, rows[i].told);
        call(&talk, 4, "{}");
        engine_kit_turn(&talk.engine);
        talk_kit_hears(&talk, rows[i].told);
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

/* A stream that was taken up brings its answer under the id of an earlier process, under which this
 * one may have asked something else. */
static void what_is_too_long_is_of_its_exchange(void **state)
{
    struct talk_kit talk;
    char id[24];
    (void)state;
    start(&talk);
    call(&talk, 3, "{}");
    engine_kit_turn(&talk.engine);
    snprintf(id, sizeof id, "%u", (unsigned)talk.tag);
    uint64_t first = talk.tag;
    client_says(&talk, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"pay\",\"arguments\":{},\"_meta\":{"
                       "\"dev.hapax/idempotencyKey\":\"order-18\"}}}");
    engine_kit_turn(&talk.engine);
    assert_int_not_equal(talk.tag, first);
    struct hx_peer_event *event = talk_kit_from_server(&talk, HX_PEER_OVERSIZE, talk.tag, id);
    event->is_answer = event->has_result = true;
    engine_kit_turn(&talk.engine);
    assert_non_null(strstr(talk.told, "\"id\":4"));
    talk_kit_hears(&talk, "RESULT_UNAVAILABLE");
    event = talk_kit_from_server(&talk, HX_PEER_OVERSIZE, first, "\"of no request\"");
    event->is_answer = event->has_result = true;
    engine_kit_turn(&talk.engine);
    assert_non_null(strstr(talk.told, "\"id\":3"));
    talk_kit_hears(&talk, "RESULT_UNAVAILABLE");
    talk_kit_fini(&talk);
}

/* Who waits for a part of it finds his id, and a gateway before us finds no error of the tool's. */
static void an_array_that_cannot_be_written_names_each(void **state)
{
    static char line[2 * HX_ALLOC_SMALL_MAX];
    unsigned long n = 0;
    unsigned replaced = 0;
    bool is_refused = true;
    (void)state;
    while (is_refused) {
        struct talk_kit talk;
        start_in(&talk, "2025-03-26");
        client_says(&talk, "[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"},"
                           "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{"
                           "\"name\":\"pay\",\"arguments\":{}}}]");
        engine_kit_turn(&talk.engine);
        int len = snprintf(line, sizeof line,
                           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"content\":[],\"n\":\"",
                           (unsigned)talk.tag);
        memset(line + len, 'x', HX_ALLOC_SMALL_MAX);
        memcpy(line + len + HX_ALLOC_SMALL_MAX, "\"}}", 4);
        talk_kit_from_server(&talk, HX_PEER_MESSAGE, talk.tag, line)->is_answer = true;
        talk.asked[0] = '\0';
        is_refused = turn_without(&talk, ++n);
        if (strstr(talk.told, "\"id\":3") == NULL)
            fail_msg("n=%lu: nobody was told: %.300s", n, talk.told);
        if (strstr(talk.told, "There is no memory for this answer") != NULL) {
            replaced++;
            assert_non_null(strstr(talk.told, "\"id\":4"));
            assert_non_null(strstr(talk.told, "\"code\":\"OUTCOME_UNKNOWN\""));
            assert_non_null(strstr(talk.told, "\"data\":{\"code\":\"NO_ANSWER\"")); /* ping */
            assert_int_equal(talk.told[0], '[');
        }
        talk_kit_fini(&talk);
    }
    assert_true(replaced > 0);
}

/* A gateway before us must not take our refusal for an error of the tool's: it names our word, for
 * what is too long, for what is no message and for what names no tool. */
static void what_is_refused_unread_is_refused_in_our_word(void **state)
{
    static const char *const faulty[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{}}",
        NULL,
    };
    (void)state;
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++) {
        struct talk_kit talk;
        start(&talk);
        if (faulty[i] != NULL) {
            client_says(&talk, faulty[i]);
        } else {
            struct hx_peer_event *event = hx_peer_event_new(HX_PEER_OVERSIZE, 0);
            event->downstream = &talk.downstream;
            event->size = 1 << 30;
            event->has_method = true;
            assert_int_equal(hx_buf_append_cstr(&event->line, "3"), 0);
            hx_list_append(&talk.downstream_inbox, &event->node);
        }
        engine_kit_turn(&talk.engine);
        assert_non_null(strstr(talk.told, "\"id\":3,\"error\":{\"code\":-326"));
        talk_kit_hears(&talk, "\"data\":" HX_MCP_OWN_ERROR("REQUEST_INVALID", "true", "true"));
        assert_int_equal(talk.calls, 0);
        talk_kit_fini(&talk);
    }
}

/* Nor is what gets no answer that can be passed back an error of the server's. */
static void what_cannot_be_passed_back_is_told_in_our_word(void **state)
{
    static const struct {
        const char *method;
        const char *told;
    } rows[] = {
        {"resources/read", "\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")},
        {"resources/unsubscribe", "\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")},
        {"tasks/result", "\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")},
        {"tasks/cancel", "\"data\":" HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")},
        {"initialize", "\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")},
        {"vendor/acts", "\"data\":" HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        char line[256];
        start(&talk);
        talk.is_mute = true; /* the answer is the test's, to initialize too */
        snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"%s\",\"params\":{}}",
                 rows[i / 2].method);
        client_says(&talk, line);
        engine_kit_turn(&talk.engine);
        snprintf(line, sizeof line, i % 2 == 0 ? "%u" : "{\"id\":%u,", (unsigned)talk.tag);
        struct hx_peer_event *event = talk_kit_from_server(
            &talk, i % 2 == 0 ? HX_PEER_OVERSIZE : HX_PEER_MESSAGE, talk.tag, line);
        event->is_answer = true;
        event->has_result = i % 2 == 0;
        engine_kit_turn(&talk.engine);
        talk_kit_hears(&talk, rows[i / 2].told);
        /* It has answered, so that it is not ended for being mute. */
        talk_kit_waits(&talk, 120000);
        talk_kit_says(&talk, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"resources/list\"}");
        talk_kit_asks(&talk, "resources/list");
        talk_kit_fini(&talk);
    }
}

/* A cancel is one however long its reason is. */
static void a_cancel_is_not_lost(void **state)
{
    static char line[3 * HX_ALLOC_SMALL_MAX];
    (void)state;
    for (unsigned long n = 1; n < 6; n++) {
        struct talk_kit talk;
        start(&talk);
        call(&talk, 3, "{}");
        engine_kit_turn(&talk.engine);
        int len =
            snprintf(line, sizeof line,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                     "\"requestId\":3,\"reason\":\"\\u0041");
        memset(line + len, 'x', 2 * (size_t)HX_ALLOC_SMALL_MAX);
        memcpy(line + len + 2 * HX_ALLOC_SMALL_MAX, "\"}}", 4);
        client_says(&talk, line);
        talk.asked[0] = '\0';
        (void)turn_without(&talk, n);
        talk_kit_asks(&talk, "notifications/cancelled");
        assert_string_equal(talk.told, "");
        talk_kit_fini(&talk);
    }
}

/* A request that comes in a session that was found too late is not "taken": nobody reads it. */
static void what_comes_in_a_drain_is_unread(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    hx_gateway_drain(talk.engine.gateway);
    const struct hx_session_options session = {.server = talk.server,
                                               .downstream = &talk.downstream,
                                               .tenant = HX_SPAN_LIT("local"),
                                               .principal = HX_SPAN_LIT("1000")};
    assert_non_null(hx_session_new(talk.engine.gateway, &session));
    call(&talk, 3, "{}");
    hx_container_of(hx_list_first(&talk.downstream_inbox), struct hx_peer_event, node)->exchange =
        9;
    memset(talk.settled, 0, sizeof talk.settled);
    engine_kit_turn(&talk.engine);
    assert_int_equal(talk.settled[HX_SETTLING_UNREAD], 1);
    assert_int_equal(talk.settled[HX_SETTLING_TAKEN], 0);
    assert_int_equal(talk.calls, 0);
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_refused_by_name_or_acts_once),
        cmocka_unit_test(an_answer_that_cannot_be_read_leaves_nobody_waiting),
        cmocka_unit_test(what_was_not_read_is_not_taken_for_an_outcome),
        cmocka_unit_test(an_array_that_cannot_be_written_names_each),
        cmocka_unit_test(what_is_too_long_is_of_its_exchange),
        cmocka_unit_test(what_is_refused_unread_is_refused_in_our_word),
        cmocka_unit_test(what_comes_in_a_drain_is_unread),
        cmocka_unit_test(what_cannot_be_passed_back_is_told_in_our_word),
        cmocka_unit_test(a_cancel_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
