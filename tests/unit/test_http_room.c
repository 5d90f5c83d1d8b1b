/* SPDX-License-Identifier: MIT */
/*
 * The HTTP client at its maximum of requests at once: who waits, who is not sent, who gives way.
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

static void test_more_than_the_maximum_wait(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.exchanges_max = 2;
    http_fixture_open(&fixture);
    for (unsigned id = 1; id <= 40; id++)
        http_fixture_call(&fixture, id, NULL);
    for (unsigned id = 1; id <= 40; id++)
        http_fixture_expect_answer(&fixture, id, NULL);
    assert_int_equal(http_kit_count(&fixture.kit, "requests", "\"conn\": 2"), 0);
    finish(&fixture);
}

#define LATE_ANSWER                                                                                \
    "[{\"sse\":{}},{\"wait\":\"go\"},{\"text\":\"data: {\\\"jsonrpc\\\":"                          \
    "\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{}}\\n\\n\"},{\"end\":1}]"

/* Also a server that never answers what was cancelled is not full for ever. */
static void test_what_nobody_waits_for_gives_way(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.exchanges_max = 2;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, LATE_ANSWER);
    http_fixture_call(&fixture, 2, LATE_ANSWER);
    while (http_kit_effects(&fixture.kit, 1) + http_kit_effects(&fixture.kit, 2) < 2)
        http_fixture_run_ms(&fixture, 5);
    fixture.up->ops->give_way(fixture.up, 1);
    fixture.up->ops->give_way(fixture.up, 2);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_ANSWER_LOST, 1), 0);
    http_fixture_call(&fixture, 3, NULL);
    http_fixture_expect_answer(&fixture, 3, NULL);
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_STOPPED, HTTP_FIXTURE_ANY_STATUS);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 2, NULL);
    finish(&fixture);
}

static void test_who_finds_no_room_is_not_sent(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.exchanges_max = 1;
    fixture.options.queue_timeout_ms = 50;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, LATE_ANSWER);
    while (http_kit_effects(&fixture.kit, 1) == 0)
        http_fixture_run_ms(&fixture, 5);
    http_fixture_call(&fixture, 2, NULL);
    event = http_fixture_end_of(&fixture, 2);
    assert_int_equal(event->type, HX_PEER_NOT_SENT);
    assert_true(hx_span_contains(hx_buf_span(&event->line), HX_SPAN_LIT("too many requests")));
    hx_peer_event_free(event);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_run_ms(&fixture, 50);
    assert_int_equal(http_kit_effects(&fixture.kit, 2), 0);
    finish(&fixture);
}

static void test_what_gives_way_before_it_began_is_not_sent(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.exchanges_max = 1;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, LATE_ANSWER);
    while (http_kit_effects(&fixture.kit, 1) == 0)
        http_fixture_run_ms(&fixture, 5);
    http_fixture_call(&fixture, 2, NULL);
    fixture.up->ops->give_way(fixture.up, 2);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_NOT_SENT, 2), 1);
    http_fixture_expect_not_sent(&fixture, 2);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_run_ms(&fixture, 50);
    assert_int_equal(http_kit_effects(&fixture.kit, 2), 0);
    finish(&fixture);
}

/* What the running calls may wait for must not wait for them. */
static void test_the_maximum_holds_for_requests_only(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"get\":[{\"sse\":{}},{\"wait\":\"go\"}],"
                                       "\"methods\":{\"\":[{\"touch\":\"go\"},"
                                       "{\"status\":[202]}]}}");
    fixture.options.exchanges_max = 1;
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25"); /* with a stream of its own, for ever */
    http_fixture_call(&fixture, 1,
                      "[{\"wait\":\"go\"},{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\","
                      "\\\"id\\\":1,\\\"result\\\":{}}\"}]");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_send(&fixture, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}", 3);
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 2, NULL);
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_the_maximum_wait),
        cmocka_unit_test(test_what_nobody_waits_for_gives_way),
        cmocka_unit_test(test_who_finds_no_room_is_not_sent),
        cmocka_unit_test(test_what_gives_way_before_it_began_is_not_sent),
        cmocka_unit_test(test_the_maximum_holds_for_requests_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
