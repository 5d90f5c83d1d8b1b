/* SPDX-License-Identifier: MIT */
/*
 * The HTTP client and a server that has forgotten its session, in whatever words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_fixture.h"

static void finish(struct http_fixture *fixture)
{
    http_fixture_close(fixture);
    http_fixture_fini(fixture);
}

static void test_a_lost_session_is_told_once_and_started_anew(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"session\":\"S\",\"lost\":\"lost\"}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 1,
                      "[{\"wait\":\"go\"},{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\","
                      "\\\"id\\\":1,\\\"result\\\":{}}\"}]");
    process_kit_expect_tag(&fixture.kit, HX_PEER_FIRST_BYTE, HTTP_INITIALIZE_ID);
    while (http_kit_effects(&fixture.kit, 1) == 0)
        http_fixture_run_ms(&fixture, 5);
    http_kit_touch(&fixture.kit, "lost");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_call(&fixture, 3, NULL);
    http_fixture_expect_rejected(&fixture, 2, 404);
    http_fixture_expect_rejected(&fixture, 3, 404);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_SESSION_LOST));
    http_fixture_call(&fixture, 4, NULL); /* nothing more is sent in it */
    http_fixture_expect_not_sent(&fixture, 4);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_SESSION_LOST));
    /* What was in flight goes on, under its own generation. */
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, NULL);

    fixture.generation = 2;
    fixture.up->ops->start(fixture.up, 2);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
    finish(&fixture);
}

/* Field case 80. */
/* In these words some servers say that they know no session of that name. */
#define DOUBTFUL_SCRIPT                                                                            \
    "{\"session\":\"S\",\"lost\":\"lost\",\"lost_status\":[400,\"application/json\","              \
    "\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":null,\\\"error\\\":{\\\"code\\\":-32000,"           \
    "\\\"message\\\":\\\"No valid session ID provided\\\"}}\"]}"

static void begin_anew(struct http_fixture *fixture)
{
    hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_SESSION_LOST));
    fixture->up->ops->start(fixture->up, ++fixture->generation);
    hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_STARTED));
    http_fixture_forget(fixture);
    http_fixture_greet(fixture, "2025-11-25");
}

static void test_a_session_that_is_refused_as_none_is_begun_anew(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, DOUBTFUL_SCRIPT);
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_kit_touch(&fixture.kit, "lost");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_rejected(&fixture, 2, 400);
    begin_anew(&fixture);
    /* Once, and not time after time. */
    for (unsigned id = 3; id <= 5; id++) {
        http_fixture_call(&fixture, id, NULL);
        http_fixture_expect_rejected(&fixture, id, 400);
        assert_false(process_kit_has(&fixture.kit, HX_PEER_SESSION_LOST));
    }
    finish(&fixture);
}

static void test_a_session_that_never_worked_is_refused_twice(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, DOUBTFUL_SCRIPT);
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_kit_touch(&fixture.kit, "lost");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_rejected(&fixture, 1, 400);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_SESSION_LOST));
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_rejected(&fixture, 2, 400);
    begin_anew(&fixture);
    finish(&fixture);
}

static void test_a_session_in_which_something_is_answered_is_none_that_is_lost(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, DOUBTFUL_SCRIPT);
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_call(&fixture, 2,
                      "[{\"wait\":\"go\"},{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\","
                      "\\\"id\\\":2,\\\"result\\\":{}}\"}]");
    while (http_kit_effects(&fixture.kit, 2) == 0)
        http_fixture_run_ms(&fixture, 5);
    http_kit_touch(&fixture.kit, "lost");
    http_fixture_call(&fixture, 3, NULL);
    http_fixture_expect_rejected(&fixture, 3, 400);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_SESSION_LOST));
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 2, NULL);
    http_fixture_run_ms(&fixture, 20);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_SESSION_LOST));
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_session_is_told_once_and_started_anew),
        cmocka_unit_test(test_a_session_that_is_refused_as_none_is_begun_anew),
        cmocka_unit_test(test_a_session_that_never_worked_is_refused_twice),
        cmocka_unit_test(test_a_session_in_which_something_is_answered_is_none_that_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
