/* SPDX-License-Identifier: MIT */
/*
 * The transport of 2024-11-05: a stream that names where to POST, and answers that come on it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_fixture.h"

#define SCRIPT "{\"apart\":\"/message?s=$SESSION\"}"
#define ANSWER "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{\\\"n\\\":$N}}"

static void open_script(struct http_fixture *fixture, const char *script)
{
    http_fixture_init_script(fixture, script);
    fixture->options.is_apart = true;
    fixture->options.answer_grace_ms = 300;
    http_fixture_open(fixture);
}

static void finish(struct http_fixture *fixture)
{
    http_fixture_close(fixture);
    http_fixture_fini(fixture);
}

static size_t requests(struct http_fixture *fixture, const char *text)
{
    return http_kit_count(&fixture->kit, "requests", text);
}

/* A call with what its POST does, and what is done on the stream. */
static void call(struct http_fixture *fixture, unsigned id, const char *post, const char *steps)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
                   "\"t\",\"arguments\":{\"post\":%s,\"steps\":%s}}}",
                   id, post, steps);
    http_fixture_send(fixture, text, id);
}

static void test_answers_come_on_the_stream(void **state)
{
    struct http_fixture fixture;

    (void)state;
    open_script(&fixture, SCRIPT);
    http_fixture_greet(&fixture, "2024-11-05");
    /* The answer may come before the POST is accepted, and in another order. */
    http_fixture_call(&fixture, 1, "[{\"wait\":\"go\"},{\"message\":\"" ANSWER "\"}]");
    call(&fixture, 2, "[]",
         "[{\"message\":\"" ANSWER "\"},{\"touch\":\"go\"},{\"wait\":\"never\"}]");
    http_fixture_expect_answer(&fixture, 2, "\"id\":2,");
    http_fixture_expect_answer(&fixture, 1, "\"id\":1,");
    assert_int_equal(http_kit_effects(&fixture.kit, 1), 1);
    assert_int_equal(http_kit_effects(&fixture.kit, 2), 1);
    assert_int_equal(requests(&fixture, "\"verb\": \"GET\""), 1);
    assert_int_equal(requests(&fixture, "/message?s=1"), 4);
    /* What the server says by itself belongs to no request. */
    http_fixture_call(&fixture, 3,
                      "[{\"message\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"q\\\","
                      "\\\"method\\\":\\\"ping\\\"}\"},{\"message\":\"" ANSWER "\"}]");
    http_fixture_expect_answer(&fixture, 3, "\"id\":3,");
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_MESSAGE, 0), 1);
    http_kit_touch(&fixture.kit, "never");
    finish(&fixture);
}

/* Nothing can be taken up again: the call is lost, and the session with its stream. */
static void test_a_stream_that_ends_is_a_session_that_is_lost(void **state)
{
    struct http_fixture fixture;

    (void)state;
    open_script(&fixture, SCRIPT);
    http_fixture_greet(&fixture, "2024-11-05");
    http_fixture_call(&fixture, 1, "[{\"close\":true}]");
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_CONNECTION, HTTP_FIXTURE_ANY_STATUS);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_SESSION_LOST));
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_not_sent(&fixture, 2);
    fixture.up->ops->start(fixture.up, ++fixture.generation);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
    http_fixture_run_ms(&fixture, 50); /* nobody is called without a reason */
    assert_int_equal(requests(&fixture, "\"verb\": \"GET\""), 1);
    http_fixture_greet(&fixture, "2024-11-05");
    http_fixture_call(&fixture, 3, NULL);
    http_fixture_expect_answer(&fixture, 3, "\"id\": 3");
    assert_int_equal(requests(&fixture, "/message?s=2"), 3);
    assert_int_equal(http_kit_effects(&fixture.kit, 1), 1);
    assert_int_equal(http_kit_effects(&fixture.kit, 2), 0);
    finish(&fixture);
}

/* What the POST says proves as much as elsewhere, and never that an accepted call ran or not. */
static void test_what_a_post_proves(void **state)
{
    static const struct {
        const char *post;
        const char *steps;
        enum hx_peer_event_type end;
        enum hx_peer_loss loss;
        int status;
    } cases[] = {
        {"[{\"status\":[401]}]", "[]", HX_PEER_REJECTED, 0, 401},
        {"[{\"status\":[400]}]", "[]", HX_PEER_REJECTED, 0, 400},
        {"[{\"status\":[429]}]", "[]", HX_PEER_REJECTED, 0, 429},
        {"[{\"status\":[502]}]", "[]", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS, 502},
        {"[{\"status\":[502]}]", "[{\"message\":\"" ANSWER "\"}]", HX_PEER_MESSAGE, 0, 0},
        {"[{\"close\":true}]", "[]", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_CONNECTION, 0},
        {"[{\"status\":[200]}]", "[{\"message\":\"" ANSWER "\"}]", HX_PEER_MESSAGE, 0, 0},
        {"[]",
         "[{\"text\":\"data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":x}"
         "\\n\\n\"}]",
         HX_PEER_ANSWER_LOST, HX_PEER_LOSS_UNREADABLE, 0},
    };
    struct http_fixture fixture;

    (void)state;
    open_script(&fixture, SCRIPT);
    http_fixture_greet(&fixture, "2024-11-05");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_peer_event *event;
        call(&fixture, i + 1, cases[i].post, cases[i].steps);
        event = http_fixture_end_of(&fixture, i + 1);
        if (event->type != cases[i].end || event->loss != cases[i].loss ||
            event->status != cases[i].status)
            fail_msg("case %u: event %d, loss %d, status %d", i, (int)event->type, (int)event->loss,
                     event->status);
        hx_peer_event_free(event);
        assert_int_equal(http_kit_effects(&fixture.kit, i + 1), 1); /* and never a second time */
    }
    /* The stream lives: the POST of a session that is not known ends it. */
    call(&fixture, 50, "[{\"status\":[202]}]", "[{\"touch\":\"taken\"}]");
    http_fixture_until_touched(&fixture, "taken");
    call(&fixture, 51, "[{\"status\":[404]}]", "[]");
    http_fixture_expect_rejected(&fixture, 51, 404);
    http_fixture_expect_lost(&fixture, 50, HX_PEER_LOSS_CONNECTION, HTTP_FIXTURE_ANY_STATUS);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_SESSION_LOST, 0), 1);
    http_kit_touch(&fixture.kit, "never");
    finish(&fixture);
}

/* Our headers may be credentials: they go where the operator said, and nowhere else. */
static void test_the_endpoint_is_one_of_the_same_server(void **state)
{
    static const char *const bad[] = {"http://127.0.0.2:1/message", "https://127.0.0.1/message",
                                      "//evil.example/message", "http://127.0.0.1:1/message",
                                      "ftp://127.0.0.1/message"};

    (void)state;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct http_fixture fixture;
        struct hx_peer_event *event;
        char script[256];
        (void)snprintf(script, sizeof script, "{\"apart\":\"%s\"}", bad[i]);
        open_script(&fixture, script);
        http_fixture_call(&fixture, 1, NULL);
        event = http_fixture_end_of(&fixture, 1);
        assert_int_equal(event->type, HX_PEER_NOT_SENT);
        assert_non_null(memmem(event->line.data, event->line.len, "none of this server", 19));
        hx_peer_event_free(event);
        assert_int_equal(requests(&fixture, "POST"), 0);
        finish(&fixture);
    }
}

static void test_a_server_of_another_kind_gets_nothing(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    open_script(&fixture, "{}"); /* 405 to GET */
    http_fixture_call(&fixture, 1, NULL);
    event = http_fixture_end_of(&fixture, 1);
    assert_int_equal(event->type, HX_PEER_NOT_SENT);
    assert_int_equal(event->status, 405);
    hx_peer_event_free(event);
    finish(&fixture);

    http_fixture_init_script(&fixture, "{\"apart\":\"\"}"); /* a stream that names nothing */
    fixture.options.is_apart = true;
    fixture.options.stall_timeout_ms = 100;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    event = http_fixture_end_of(&fixture, 1);
    assert_int_equal(event->type, HX_PEER_NOT_SENT);
    assert_non_null(memmem(event->line.data, event->line.len, "does not name", 13));
    hx_peer_event_free(event);
    assert_int_equal(requests(&fixture, "POST"), 0);
    finish(&fixture);
}

static void test_stop_lets_answers_come(void **state)
{
    struct http_fixture fixture;

    (void)state;
    open_script(&fixture, SCRIPT);
    http_fixture_greet(&fixture, "2024-11-05");
    http_fixture_call(&fixture, 1,
                      "[{\"touch\":\"begun\"},{\"wait\":\"go\"},{\"message\":\"" ANSWER "\"}]");
    http_fixture_call(&fixture, 2, "[{\"wait\":\"go\"}]"); /* and its connection stays good */
    http_fixture_until_touched(&fixture, "begun");
    fixture.up->ops->drop(fixture.up, 2);
    fixture.up->ops->stop(fixture.up);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, "\"id\":1,");
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_CLOSED));
    /* And kill does not. */
    fixture.up->ops->start(fixture.up, ++fixture.generation);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
    http_fixture_call(&fixture, 3, "[{\"touch\":\"more\"},{\"wait\":\"never\"}]");
    http_fixture_until_touched(&fixture, "more");
    fixture.up->ops->kill(fixture.up);
    http_fixture_expect_lost(&fixture, 3, HX_PEER_LOSS_STOPPED, HTTP_FIXTURE_ANY_STATUS);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_CLOSED));
    http_kit_touch(&fixture.kit, "never");
    fixture.up = hx_http_client_free(fixture.up);
    http_fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_come_on_the_stream),
        cmocka_unit_test(test_a_stream_that_ends_is_a_session_that_is_lost),
        cmocka_unit_test(test_what_a_post_proves),
        cmocka_unit_test(test_the_endpoint_is_one_of_the_same_server),
        cmocka_unit_test(test_a_server_of_another_kind_gets_nothing),
        cmocka_unit_test(test_stop_lets_answers_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
