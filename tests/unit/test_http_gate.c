/* SPDX-License-Identifier: MIT */
/*
 * The gate: no message is ever sent twice, whatever becomes of its connection. The server counts.
 *
 * libcurl sends a POST again when a reused connection dies before the first byte of the reply, and
 * reports no error. Everything here would be more than one execution if it still did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_fixture.h"

enum { CALLS = 24 };

/* The end of call `id`, as one letter: answered, lost, not sent. */
static char end_letter(struct http_fixture *fixture, unsigned id)
{
    struct hx_peer_event *event = http_fixture_end_of(fixture, id);
    char letter = '?';

    if (event->type == HX_PEER_MESSAGE)
        letter = 'a';
    else if (event->type == HX_PEER_ANSWER_LOST)
        letter = 'l';
    else if (event->type == HX_PEER_NOT_SENT)
        letter = 'n';
    hx_peer_event_free(event);
    return letter;
}

/* Lost to its connection; the first one, when all goes by the library, because that was about to
 * send it again and could not: "necessary data rewind wasn't possible". Without that the test would
 * show nothing of the library. */
static void expect_cut(struct http_fixture *fixture, unsigned id, bool is_rewound)
{
    struct hx_peer_event *event = http_fixture_end_of(fixture, id);

    assert_int_equal(event->type, HX_PEER_ANSWER_LOST);
    assert_int_equal(event->loss, HX_PEER_LOSS_CONNECTION);
    is_rewound &= getenv("HX_HTTP_BY_LIBCURL") != NULL; /* without our own short way */
    if (is_rewound && memmem(event->line.data, event->line.len, "rewind", 6) == NULL)
        fail_msg("call %u was lost to: %.*s", id, HX_SPAN_FMT(hx_buf_span(&event->line)));
    hx_peer_event_free(event);
}

/* Every second call finds a connection that was used before, and the server executes and closes. */
static void run_closing(const char *steps, bool is_rewound)
{
    struct http_fixture fixture;
    char conn[32];
    unsigned used_twice = 0;

    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (unsigned id = 1; id <= CALLS; id++) {
        bool is_cut = id % 2 == 0;
        http_fixture_call(&fixture, id, is_cut ? steps : NULL);
        if (is_cut)
            expect_cut(&fixture, id, is_rewound && id == 2);
        else
            assert_int_equal(end_letter(&fixture, id), 'a');
        assert_int_equal(http_fixture_count(&fixture, HX_PEER_FIRST_BYTE, id), 1);
        assert_int_equal(http_fixture_count(&fixture, HX_PEER_WRITTEN, id), 1);
    }
    assert_int_equal(http_fixture_counters(&fixture).reconnects, 0);
    http_fixture_end_server(&fixture);
    for (unsigned id = 1; id <= CALLS; id++)
        assert_int_equal(http_kit_effects(&fixture.kit, id), 1);
    /* They were used connections. */
    for (unsigned at = 0; at < 2 * CALLS; at++) {
        (void)snprintf(conn, sizeof conn, "\"conn\": %u,", at);
        used_twice += http_kit_count(&fixture.kit, "requests", conn) == 2;
    }
    assert_int_equal(used_twice, CALLS / 2);
    http_fixture_fini(&fixture);
}

static void test_closed_after_the_effect_counts_one(void **state)
{
    (void)state;
    run_closing("[{\"close\":true}]", true);
}

static void test_reset_after_the_effect_counts_one(void **state)
{
    (void)state;
    run_closing("[{\"reset\":true}]", false);
}

static void test_closed_in_the_head_of_the_reply_counts_one(void **state)
{
    (void)state;
    run_closing("[{\"raw\":\"HTTP/1.1 20\"},{\"close\":true}]", false);
}

/* The server closes idle connections at any moment, also while we take one up. */
static void run_idle_race(const char *last_step)
{
    struct http_fixture fixture;
    char steps[128];
    unsigned answered = 0;

    (void)snprintf(steps, sizeof steps,
                   "[{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{}}\"},"
                   "{\"%s\":true}]",
                   last_step);
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (unsigned id = 1; id <= 4 * CALLS; id++) {
        char end;
        http_fixture_call(&fixture, id, steps);
        end = end_letter(&fixture, id);
        assert_int_not_equal(end, '?');
        if (end == 'a')
            answered |= 1;
        /* What was answered ran once; what was lost ran once or not; what was not sent did not. */
        assert_true(http_kit_effects(&fixture.kit, id) <= (end == 'n' ? 0 : 1));
        if (end == 'a')
            assert_int_equal(http_kit_effects(&fixture.kit, id), 1);
    }
    assert_int_equal(answered, 1);
    http_fixture_end_server(&fixture);
    for (unsigned id = 1; id <= 4 * CALLS; id++)
        assert_true(http_kit_effects(&fixture.kit, id) <= 1);
    http_fixture_fini(&fixture);
}

static void test_idle_close_race_counts_at_most_one(void **state)
{
    (void)state;
    run_idle_race("close");
}

static void test_idle_reset_race_counts_at_most_one(void **state)
{
    (void)state;
    run_idle_race("reset");
}

/* Cut by a proxy behind every single byte of the exchange, in one direction. */
static void run_cuts(const char *direction, bool is_rude)
{
    const char *args[] = {"{}", "--cut", direction, is_rude ? "--reset" : NULL, NULL};
    const char *const steps =
        "[{\"sse\":{}},{\"text\":\"data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\""
        ":{}}\\n\\n\"},{\"end\":true}]";
    struct http_fixture fixture;
    char ends[2048] = "";
    unsigned id = 0;
    unsigned wholes = 0;

    http_fixture_init(&fixture, args);
    while (wholes < 3) {
        assert_true(++id < sizeof ends);
        http_fixture_open(&fixture); /* no idle connection to start from */
        http_fixture_call(&fixture, id, steps);
        ends[id] = end_letter(&fixture, id);
        assert_int_not_equal(ends[id], '?');
        wholes += ends[id] == 'a';
        fixture.up->ops->kill(fixture.up);
        fixture.up = hx_http_client_free(fixture.up);
        http_fixture_forget(&fixture);
    }
    http_fixture_end_server(&fixture);
    for (unsigned at = 1; at <= id; at++) {
        size_t effects = http_kit_effects(&fixture.kit, at);
        if (ends[at] == 'a' && effects != 1)
            fail_msg("call %u was answered and executed %zu times", at, effects);
        if (ends[at] == 'l' && effects > 1)
            fail_msg("call %u was lost and executed %zu times", at, effects);
        if (ends[at] == 'n' && effects != 0)
            fail_msg("call %u was not sent and executed %zu times", at, effects);
    }
    assert_true(id > 100); /* an exchange has more bytes than that */
    http_fixture_fini(&fixture);
}

static void test_request_cut_at_every_byte(void **state)
{
    (void)state;
    run_cuts("up", false);
}

static void test_request_reset_at_every_byte(void **state)
{
    (void)state;
    run_cuts("up", true);
}

static void test_reply_cut_at_every_byte(void **state)
{
    (void)state;
    run_cuts("down", false);
}

static void test_reply_reset_at_every_byte(void **state)
{
    (void)state;
    run_cuts("down", true);
}

static void test_a_dead_server_is_not_sent(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_kit_stop(&fixture.http);
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_not_sent(&fixture, 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_FIRST_BYTE, 1), 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_after_the_effect_counts_one),
        cmocka_unit_test(test_reset_after_the_effect_counts_one),
        cmocka_unit_test(test_closed_in_the_head_of_the_reply_counts_one),
        cmocka_unit_test(test_idle_close_race_counts_at_most_one),
        cmocka_unit_test(test_idle_reset_race_counts_at_most_one),
        cmocka_unit_test(test_request_cut_at_every_byte),
        cmocka_unit_test(test_request_reset_at_every_byte),
        cmocka_unit_test(test_reply_cut_at_every_byte),
        cmocka_unit_test(test_reply_reset_at_every_byte),
        cmocka_unit_test(test_a_dead_server_is_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
