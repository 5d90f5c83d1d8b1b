/* SPDX-License-Identifier: MIT */
/*
 * Answers that come as events: in every spelling, in pieces, and over streams that break before the
 * answer. Whatever happens, a call is posted once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "http_fixture.h"

#define RESULT "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{\\\"is\\\":\\\"it\\\"}}"
#define NOTE "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"notifications/progress\\\"}"

static size_t post_count(const struct http_fixture *fixture)
{
    return http_kit_count(&fixture->kit, "requests", "tools/call");
}

static size_t get_count(const struct http_fixture *fixture)
{
    return http_kit_count(&fixture->kit, "requests", "\"verb\": \"GET\"");
}

/* One call whose stream is this text, sent byte for byte, is answered. */
static void expect_stream(struct http_fixture *fixture, unsigned id, const char *text)
{
    char steps[1024];

    (void)snprintf(steps, sizeof steps, "[{\"sse\":{}},{\"bytes\":\"%s\"},{\"end\":true}]", text);
    http_fixture_call(fixture, id, steps);
    http_fixture_expect_answer(fixture, id, "\"is\":\"it\"");
}

/* Field cases 111 to 115. */
static void test_streams_in_every_spelling(void **state)
{
    static const char *const texts[] = {
        "data: " RESULT "\\n\\n",
        "data:" RESULT "\\r\\n\\r\\n",
        "data: " RESULT "\\r\\r",
        ": hello\\n\\nevent: message\\rdata: " RESULT "\\r\\n\\n",
        "\\ufeffid: 7\\ndata: " RESULT "\\n\\n",
        "data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\ndata: \\\"id\\\":$ID,\\ndata: "
        "\\\"result\\\":{\\\"is\\\":\\\"it\\\"}}\\n\\n",
        "data: " NOTE "\\n\\n: still here\\n\\ndata: " RESULT "\\n\\n",
        "event: other\\ndata: nothing for us\\n\\ndata: " RESULT "\\n\\n",
        "id: 1\\ndata:\\n\\ndata: " RESULT "\\n\\n: and a comment behind it\\n",
    };
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_stream(&fixture, i + 1, texts[i]);
    assert_int_equal(post_count(&fixture), sizeof texts / sizeof texts[0]);
    assert_int_equal(get_count(&fixture), 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* Field case 116. */
static void test_an_event_is_there_before_its_stream_ends(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1,
                      "[{\"sse\":{}},{\"text\":\"data: " NOTE "\\n\\n\"},{\"wait\":\"go\"},"
                      "{\"text\":\"data: " RESULT "\\n\\n\"},{\"end\":true}]");
    event = process_kit_take(&fixture.kit, HX_PEER_MESSAGE);
    assert_int_equal(event->tag, 1);
    assert_false(event->is_answer);
    hx_peer_event_free(event);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, "\"is\":\"it\"");
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

static void test_a_stream_without_ids_that_ends_is_lost(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1,
                      "[{\"sse\":{}},{\"text\":\"data: " NOTE "\\n\\n\"},{\"end\":true}]");
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_NO_ANSWER, 200);
    http_fixture_call(&fixture, 2, "[{\"sse\":{}},{\"text\":\": hello\\n\\n\"},{\"close\":true}]");
    http_fixture_expect_lost(&fixture, 2, HX_PEER_LOSS_CONNECTION, 200);
    http_fixture_call(&fixture, 3, "[{\"sse\":{}},{\"reset\":true}]");
    http_fixture_expect_lost(&fixture, 3, HX_PEER_LOSS_CONNECTION, 200);
    assert_int_equal(post_count(&fixture), 3);
    assert_int_equal(get_count(&fixture), 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* An answer that nobody can read has come all the same, and is not waited for. */
static void test_an_unreadable_answer_is_lost_at_once(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1,
                      "[{\"sse\":{}},{\"text\":\"id: 1\\ndata: {\\\"jsonrpc\\\":\\\"2.0\\\","
                      "\\\"id\\\":$ID,\\\"result\\\":{\\\"n\\\":01}}\\n\\n\"},{\"end\":true}]");
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_UNREADABLE, 200);
    assert_int_equal(get_count(&fixture), 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

#define POLITE "[{\"sse\":{}},{\"text\":\"id: p1\\nretry: 30\\ndata:\\n\\n\"},{\"end\":true}]"

static void test_a_polite_disconnect_is_no_failure(void **state)
{
    struct http_fixture fixture;
    int64_t begun_ms;

    (void)state;
    http_fixture_init_script(
        &fixture,
        "{\"session\":\"S\",\"get\":{\"\":[{\"status\":[405]}],"
        "\"p1\":[{\"sse\":{}},{\"text\":\"id: p2\\ndata: " NOTE "\\n\\n\"},{\"end\":true}],"
        "\"p2\":[{\"sse\":{}},{\"text\":\"id: p3\\ndata: {\\\"jsonrpc\\\":\\\"2.0\\\","
        "\\\"id\\\":5,\\\"result\\\":{}}\\n\\n\"},{\"end\":true}]}}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    begun_ms = hx_loop_now(fixture.kit.loop).ms;
    http_fixture_call(&fixture, 5, POLITE);
    http_fixture_expect_answer(&fixture, 5, "\"result\"");
    assert_true(hx_loop_now(fixture.kit.loop).ms - begun_ms >= 30); /* as `retry` says */
    assert_int_equal(post_count(&fixture), 1);
    assert_int_equal(http_kit_count(&fixture.kit, "requests", "\"last-event-id\": \"p1\""), 1);
    assert_int_equal(http_kit_count(&fixture.kit, "requests", "\"last-event-id\": \"p2\""), 1);
    /* What a restart needs was told for each id. */
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_RESUME_POINT, 5), 2);
    assert_int_equal(http_fixture_counters(&fixture).resumes, 2);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* The id of an event that did not come whole must not be skipped. */
static void test_a_broken_event_is_asked_for_again(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(
        &fixture, "{\"get\":{\"\":[{\"status\":[405]}],\"a\":[{\"sse\":{}},{\"text\":\"id: b\\n"
                  "data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{}}\\n\\n\"},"
                  "{\"end\":true}]}}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1,
                      "[{\"sse\":{}},{\"text\":\"id: a\\ndata:\\n\\nid: b\\ndata: {\\\"json\"},"
                      "{\"reset\":true}]");
    http_fixture_expect_answer(&fixture, 1, "\"result\"");
    assert_int_equal(post_count(&fixture), 1);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

static void test_what_a_get_says_of_itself_is_no_verdict(void **state)
{
    static const int statuses[] = {401, 404, 405, 410};
    struct http_fixture fixture;

    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        char script[64];
        (void)snprintf(script, sizeof script, "{\"get\":[{\"status\":[%d]}]}", statuses[i]);
        http_fixture_init_script(&fixture, script);
        http_fixture_open(&fixture);
        http_fixture_call(&fixture, 1, POLITE);
        http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_RESUME, statuses[i]);
        assert_int_equal(get_count(&fixture), 1);
        assert_int_equal(post_count(&fixture), 1);
        http_fixture_close(&fixture);
        http_fixture_fini(&fixture);
    }
}

static void test_a_server_that_cannot_now_is_asked_a_few_times(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"get\":[{\"status\":[503]}]}");
    fixture.options.resume_failures_max = 3;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, POLITE);
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_RESUME, 503);
    assert_int_equal(get_count(&fixture), 4);
    assert_int_equal(post_count(&fixture), 1);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* Empty streams over and over are waited out with growing pauses, never in a busy loop. */
static void test_empty_streams_are_not_polled_hard(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture,
                             "{\"get\":[{\"sse\":{}},{\"text\":\"retry: 0\\n\\n\"},{\"end\":1}]}");
    fixture.options.retry_max_ms = 5000;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, POLITE);
    http_fixture_run_ms(&fixture, 600);
    assert_in_range(get_count(&fixture), 1, 3);
    fixture.up->ops->drop(fixture.up, 1);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* A later process takes up the stream with what the first one told. */
static void test_a_stream_is_taken_up_after_a_restart(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *point;
    struct hx_peer_event *answer;

    (void)state;
    http_fixture_init_script(&fixture,
                             "{\"session\":\"S-1\",\"get\":{\"\":[{\"status\":[405]}],"
                             "\"p1\":[{\"sse\":{}},{\"text\":\"data: {\\\"jsonrpc\\\":\\\"2.0\\\","
                             "\\\"id\\\":6,\\\"result\\\":{}}\\n\\n\"},{\"text\":"
                             "\"data: {\\\"jsonrpc\\\":\\\"2.0\\\","
                             "\\\"id\\\":5,\\\"result\\\":{}}\\n\\n\"},{\"end\":true}]}}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 5,
                      "[{\"sse\":{}},{\"text\":\"id: p1\\ndata:\\n\\n\"},{\"wait\":\"never\"}]");
    point = process_kit_take(&fixture.kit, HX_PEER_RESUME_POINT);
    assert_int_equal(point->tag, 5);
    fixture.up = hx_http_client_free(fixture.up); /* as if killed */
    http_kit_touch(&fixture.kit, "never");
    http_fixture_forget(&fixture);

    http_fixture_open(&fixture);
    fixture.up->ops->resume(fixture.up, hx_buf_span(&point->line), 77);
    answer = http_fixture_end_of(&fixture, 77);
    assert_int_equal(answer->type, HX_PEER_MESSAGE);
    /* Nor is anything else of the earlier process's ours: its ids are not. */
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_MESSAGE, 77), 0);
    assert_non_null(memmem(answer->line.data, answer->line.len, "\"id\":5", 6));
    assert_int_equal(http_kit_count(&fixture.kit, "requests", "\"last-event-id\": \"p1\""), 1);
    assert_true(http_kit_count(&fixture.kit, "requests", "\"mcp-session-id\": \"S-1\"") >= 2);
    assert_int_equal(post_count(&fixture), 1);
    hx_peer_event_free(answer);
    hx_peer_event_free(point);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

static void test_a_bad_resume_text_is_lost_at_once(void **state)
{
    static const char *const texts[] = {"",
                                        "hapax-resume-1",
                                        "hapax-resume-1\nS\n2025-11-25\n\n5",
                                        "hapax-resume-2\nS\n2025-11-25\ne\n5",
                                        "hapax-resume-1\nS S\n2025-11-25\ne\n5",
                                        "hapax-resume-1\nS\n2025-11-25\ne\nnull"};
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fixture.up->ops->resume(fixture.up, hx_span_cstr(texts[i]), i + 1);
        http_fixture_expect_lost(&fixture, i + 1, HX_PEER_LOSS_RESUME, 0);
    }
    assert_int_equal(get_count(&fixture), 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* An event over message_max is told with its id and digest, and the call is answered by it. */
static void test_a_long_event_is_oversize(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;
    char steps[3000];
    char filler[2001];

    (void)state;
    memset(filler, 'y', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    (void)snprintf(steps, sizeof steps,
                   "[{\"sse\":{}},{\"text\":\"data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,"
                   "\\\"result\\\":\\\"%s\\\"}\\n\\n\"},{\"end\":true}]",
                   filler);
    http_fixture_init_script(&fixture, "{}");
    fixture.options.message_max_bytes = 1000;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, steps);
    event = http_fixture_end_of(&fixture, 1);
    assert_int_equal(event->type, HX_PEER_OVERSIZE);
    assert_true(event->has_result);
    assert_false(event->is_refused);
    assert_true(event->size > 2000);
    assert_int_equal(strlen(event->digest_hex), 64);
    hx_peer_event_free(event);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

/* What would be short enough is not too long: there was no memory, and it may say anything. */
static void test_an_event_without_memory_is_refused(void **state)
{
    static char steps[50000];
    static char filler[40001];
    struct http_fixture fixture;
    unsigned refused = 0;
    bool is_refused = true;

    (void)state;
    memset(filler, 'y', sizeof filler - 1);
    (void)snprintf(
        steps, sizeof steps,
        "{\"methods\":{\"tools/call\":[{\"sse\":{}},{\"text\":\"data: {\\\"jsonrpc\\\":"
        "\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":\\\"%s\\\"}\\n\\n\"},{\"end\":true}]}}",
        filler);
    http_fixture_init_script(&fixture, steps);
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    for (unsigned id = 1; is_refused; id++) {
        struct hx_peer_event *event;
        hx_alloc_fail_large_at(id);
        http_fixture_call(&fixture, id, NULL);
        event = http_fixture_end_of(&fixture, id);
        is_refused = hx_alloc_fail_left() == 0;
        hx_alloc_fail_at(0);
        if (event->type == HX_PEER_OVERSIZE) {
            assert_true(event->is_answer);
            assert_true(event->is_refused);
            refused++;
        }
        hx_peer_event_free(event);
    }
    assert_true(refused > 0);
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

#define ITS_ERROR "\\\"error\\\":{\\\"code\\\":-32000,\\\"message\\\":\\\"no\\\"}}"

/* What the server ran it may answer with an error under 400, in a form that nobody reads here. */
static void refusals_that_may_be_answers(bool is_by_library)
{
    static const struct {
        const char *type;
        const char *body;
        const char *more;
        bool is_rejected;
    } cases[] = {
        {"application/json", "abcd", "\"Content-Encoding\":\"gzip\"", false},
        {"application/json", "no", "\"Content-Encoding\":\"Identity\"", true},
        {"text/event-stream; charset=utf-8", "data: abcd\\n\\n", "", false},
        {"application/json", "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":4.0," ITS_ERROR, "", false},
        {"application/json", "{\\\"id\\\":5.0," ITS_ERROR, "", false},
        {"application/json", "{\\\"id\\\":\\\"six\\\"," ITS_ERROR, "", false},
        {"application/json", "{\\\"id\\\":null," ITS_ERROR, "", true},
        {"application/json", "{" ITS_ERROR, "", true},
        {"application/json", ")]}',\\n{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":9," ITS_ERROR, "",
         false},
        {"application/json", "\\u0000{\\u0000}", "", false},
        {"application/json", "\\\"{'jsonrpc':'2.0','id':11}\\\"", "", false},
        {"text/html", "<style>b{color:red}</style>no", "", true},
    };
    struct http_fixture fixture;

    http_fixture_init_script(&fixture, "{}");
    fixture.options.has_short_way &= !is_by_library;
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_peer_event *event;
        char steps[512];
        (void)snprintf(steps, sizeof steps, "[{\"status\":[400,\"%s\",\"%s\",{%s}]}]",
                       cases[i].type, cases[i].body, cases[i].more);
        http_fixture_call(&fixture, i + 1, steps);
        event = http_fixture_end_of(&fixture, i + 1);
        if (event->type != (cases[i].is_rejected ? HX_PEER_REJECTED : HX_PEER_ANSWER_LOST))
            fail_msg("%s with %s: event %d", cases[i].body, cases[i].more, (int)event->type);
        hx_peer_event_free(event);
        assert_int_equal(http_kit_effects(&fixture.kit, i + 1), 1);
    }
    http_fixture_close(&fixture);
    http_fixture_fini(&fixture);
}

static void test_a_refusal_that_may_be_the_answer_refuses_nothing(void **state)
{
    (void)state;
    refusals_that_may_be_answers(false);
    refusals_that_may_be_answers(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refusal_that_may_be_the_answer_refuses_nothing),
        cmocka_unit_test(test_streams_in_every_spelling),
        cmocka_unit_test(test_an_event_without_memory_is_refused),
        cmocka_unit_test(test_an_event_is_there_before_its_stream_ends),
        cmocka_unit_test(test_a_stream_without_ids_that_ends_is_lost),
        cmocka_unit_test(test_an_unreadable_answer_is_lost_at_once),
        cmocka_unit_test(test_a_polite_disconnect_is_no_failure),
        cmocka_unit_test(test_a_broken_event_is_asked_for_again),
        cmocka_unit_test(test_what_a_get_says_of_itself_is_no_verdict),
        cmocka_unit_test(test_a_server_that_cannot_now_is_asked_a_few_times),
        cmocka_unit_test(test_empty_streams_are_not_polled_hard),
        cmocka_unit_test(test_a_stream_is_taken_up_after_a_restart),
        cmocka_unit_test(test_a_bad_resume_text_is_lost_at_once),
        cmocka_unit_test(test_a_long_event_is_oversize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
