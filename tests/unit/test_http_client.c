/* SPDX-License-Identifier: MIT */
/*
 * The HTTP client beside its streams: JSON answers, sessions, headers, limits, TLS, and its end.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "http_fixture.h"

static size_t requests(const struct http_fixture *fixture, const char *text)
{
    return http_kit_count(&fixture->kit, "requests", text);
}

static void finish(struct http_fixture *fixture)
{
    http_fixture_close(fixture);
    http_fixture_fini(fixture);
}

static void test_json_there_and_back(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    /* Spread over lines, with a number that no double holds: the same bytes on one line. */
    http_fixture_call(&fixture, 1,
                      "[{\"json\":\"\\ufeff{\\r\\n \\\"jsonrpc\\\": \\\"2.0\\\",\\n\\\"id\\\":1,"
                      "\\\"result\\\":{\\\"n\\\": 9007199254740993}}\\n\"}]");
    http_fixture_expect_answer(&fixture, 1, "{\"n\": 9007199254740993}}");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_answer(&fixture, 2, NULL);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_FIRST_BYTE, 2), 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_WRITTEN, 2), 1);
    /* One connection for both, and the headers of the specification. */
    assert_int_equal(requests(&fixture, "\"conn\": 0"), 2);
    assert_int_equal(requests(&fixture, "\"accept\": \"application/json, text/event-stream\""), 2);
    assert_int_equal(requests(&fixture, "\"content-type\": \"application/json\""), 2);
    assert_int_equal(requests(&fixture, "\"expect\""), 0);
    assert_int_equal(requests(&fixture, "\"accept-encoding\": \"identity\""), 2);
    assert_int_equal(requests(&fixture, "transfer-encoding"), 0);
    finish(&fixture);
}

static const struct {
    int status;
    const char *body;
    enum hx_peer_event_type end;
    enum hx_peer_loss loss;
} statuses[] = {
    {400, "", HX_PEER_REJECTED, 0},
    {400,
     "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":null,\\\"error\\\":{\\\"code\\\":-32600,"
     "\\\"message\\\":\\\"no\\\"}}",
     HX_PEER_REJECTED, 0},
    {400,
     "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"error\\\":{\\\"code\\\":-32602,"
     "\\\"message\\\":\\\"no\\\"}}",
     HX_PEER_MESSAGE, 0},
    /* It is the answer, or may be, and nobody can read it. */
    {400, "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"error\\\":\\\"no\\\"}",
     HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {400, "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"err", HX_PEER_ANSWER_LOST,
     HX_PEER_LOSS_STATUS},
    {400,
     "[{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"error\\\":{\\\"code\\\":-32602,"
     "\\\"message\\\":\\\"no\\\"}}]",
     HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {400, "{\\\"detail\\\":\\\"no\\\"}", HX_PEER_REJECTED, 0},
    {401, "{}", HX_PEER_REJECTED, 0},
    {403, "", HX_PEER_REJECTED, 0},
    {404, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {405, "", HX_PEER_REJECTED, 0},
    {406, "", HX_PEER_REJECTED, 0},
    {413, "<html>", HX_PEER_REJECTED, 0},
    {415, "", HX_PEER_REJECTED, 0},
    {429, "", HX_PEER_REJECTED, 0},
    {500, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {500,
     "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"error\\\":{\\\"code\\\":-32603,"
     "\\\"message\\\":\\\"no\\\"}}",
     HX_PEER_MESSAGE, 0},
    {502, "<html>bad gateway</html>", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {503, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {504, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {307, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_STATUS},
    {202, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_NO_ANSWER},
    {200, "", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_NO_ANSWER},
    {200, "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"resu", HX_PEER_ANSWER_LOST,
     HX_PEER_LOSS_UNREADABLE},
    {200, "<html>hello</html>", HX_PEER_ANSWER_LOST, HX_PEER_LOSS_UNREADABLE},
    {200, "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"$ID\\\",\\\"result\\\":{}}",
     HX_PEER_ANSWER_LOST, HX_PEER_LOSS_NO_ANSWER},
    {200, "[{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{}}]", HX_PEER_ANSWER_LOST,
     HX_PEER_LOSS_UNREADABLE},
};

static void test_every_status_over_the_wire(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        struct hx_peer_event *event;
        char steps[512];
        (void)snprintf(steps, sizeof steps,
                       "[{\"status\":[%d,\"application/json\",\"%s\",{\"Location\":\"/other\","
                       "\"Retry-After\":\"3\",\"WWW-Authenticate\":\"Bearer x=1\"}]}]",
                       statuses[i].status, statuses[i].body);
        http_fixture_call(&fixture, i + 1, steps);
        event = http_fixture_end_of(&fixture, i + 1);
        if (event->type != statuses[i].end || event->loss != statuses[i].loss)
            fail_msg("%d with %s: event %d, loss %d; expected %d, %d", statuses[i].status,
                     statuses[i].body, (int)event->type, (int)event->loss, (int)statuses[i].end,
                     (int)statuses[i].loss);
        if (event->type == HX_PEER_REJECTED) {
            assert_int_equal(event->retry_after_ms, 3000);
            assert_true(hx_span_eq_cstr(hx_buf_span(&event->challenge), "Bearer x=1"));
        }
        if (event->type != HX_PEER_MESSAGE)
            assert_int_equal(event->status, statuses[i].status);
        hx_peer_event_free(event);
        assert_int_equal(http_kit_effects(&fixture.kit, i + 1), 1);
    }
    assert_int_equal(requests(&fixture, "\"path\": \"/other\""),
                     0); /* redirects are not followed */
    finish(&fixture);
}

/* Its session was lost, and the new handshake fails too. */
static void test_a_generation_whose_greeting_failed_is_replaced(void **state)
{
    static const char script[] =
        "{\"methods\":{\"initialize\":[{\"unless\":\"good\",\"do\":[{\"status\":[503,"
        "\"text/plain\",\"\",{\"Connection\":\"close\"}]},{\"close\":true}]},"
        "{\"if\":\"good\",\"do\":[{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,"
        "\\\"result\\\":{\\\"protocolVersion\\\":\\\"2025-11-25\\\"}}\"}]}]}}";
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, script);
    http_fixture_open(&fixture);
    http_fixture_send(&fixture, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\"}", 7);
    http_fixture_expect_lost(&fixture, 7, HX_PEER_LOSS_STATUS, 503);
    fixture.up->ops->start(fixture.up, ++fixture.generation);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
    http_kit_touch(&fixture.kit, "good");
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 10, NULL);
    http_fixture_expect_answer(&fixture, 10, "\"id\":10");
    finish(&fixture);
}

/* What only makes the next call faster is not kept for long; and that call still works. */
static void test_an_idle_client_rests(void **state)
{
    struct http_fixture fixture;
    size_t before;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.idle_connection_ms = 50;
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    for (unsigned id = 1; id <= 20; id++)
        http_fixture_call(&fixture, id, NULL);
    for (unsigned id = 1; id <= 20; id++)
        http_fixture_expect_answer(&fixture, id, NULL);
    before = mallinfo2().uordblks;
    http_fixture_run_ms(&fixture, 300);
    /* Twenty exchanges with a handle of the library each. A sanitizer's allocator counts nothing.
     */
    if (before > 0)
        assert_true(before - mallinfo2().uordblks > (size_t)20 * 4096);
    http_fixture_call(&fixture, 21, NULL);
    http_fixture_expect_answer(&fixture, 21, NULL);
    assert_int_equal(http_fixture_counters(&fixture).reconnects, 0);
    assert_int_equal(http_kit_effects(&fixture.kit, 21), 1);
    finish(&fixture);
}

static void test_a_truncated_body_is_lost(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1,
                      "[{\"raw\":\"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                      "Content-Length: 500\\r\\n\\r\\n{\\\"jsonrpc\\\":\\\"2.0\\\"\"},"
                      "{\"close\":true}]");
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_CONNECTION, 200);
    finish(&fixture);
}

#define ERROR_CUT "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$ID,\\\"error\\\":{\\\"co"
#define HEAD(status) "HTTP/1.1 " status " No\\r\\nContent-Type: application/json\\r\\n"

/* What the server ran it may answer with an error under 400, and then die. */
static void refusals_that_broke_off(bool is_by_library)
{
    static const struct {
        const char *reply;
        bool is_rejected;
        bool is_whole; /* else the connection ends behind it */
    } cases[] = {
        {HEAD("400") "Content-Length: 500\\r\\n\\r\\n", false, false},
        {HEAD("400") "Content-Length: 500\\r\\n\\r\\n" ERROR_CUT, false, false},
        {HEAD("405") "Content-Length: 500\\r\\n\\r\\n", false, false},
        {HEAD("406") "Content-Length: 500\\r\\n\\r\\nno", false, false},
        {HEAD("413") "Content-Length: 500\\r\\n\\r\\n<html>", false, false},
        {HEAD("415") "Transfer-Encoding: chunked\\r\\n\\r\\n", false, false},
        {HEAD("400") "Transfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nno\\r\\n", false, false},
        /* It says nowhere where it ends: so nobody knows that it has. */
        {HEAD("400") "Connection: close\\r\\n\\r\\n", false, false},
        {HEAD("400") "Connection: close\\r\\n\\r\\nno", false, false},
        {HEAD("400") "Connection: close\\r\\n\\r\\n" ERROR_CUT, false, false},
        {HEAD("400") "Transfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nno\\r\\n0\\r\\n\\r\\n", true,
         true},
        {HEAD("400") "Content-Length: 2\\r\\n\\r\\nno", true, true},
        {HEAD("400") "Content-Length: 0\\r\\n\\r\\n", true, true},
        /* These come before anything is run, whatever stands in them. */
        {HEAD("401") "Content-Length: 500\\r\\n\\r\\n", true, false},
        {HEAD("403") "Connection: close\\r\\n\\r\\n", true, false},
        {HEAD("429") "Content-Length: 500\\r\\n\\r\\nno", true, false},
    };
    struct http_fixture fixture;

    http_fixture_init_script(&fixture, "{}");
    fixture.options.has_short_way &= !is_by_library;
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_peer_event *event;
        char steps[512];
        (void)snprintf(steps, sizeof steps, "[{\"raw\":\"%s\"}%s]", cases[i].reply,
                       cases[i].is_whole ? "" : ",{\"close\":true}");
        http_fixture_call(&fixture, i + 1, steps);
        event = http_fixture_end_of(&fixture, i + 1);
        if (event->type != (cases[i].is_rejected ? HX_PEER_REJECTED : HX_PEER_ANSWER_LOST))
            fail_msg("%s: event %d", cases[i].reply, (int)event->type);
        assert_int_equal(event->loss, cases[i].is_rejected ? 0 : HX_PEER_LOSS_STATUS);
        hx_peer_event_free(event);
        assert_int_equal(http_kit_effects(&fixture.kit, i + 1), 1);
    }
    finish(&fixture);
}

static void test_a_refusal_that_broke_off_refuses_nothing(void **state)
{
    (void)state;
    refusals_that_broke_off(false);
    refusals_that_broke_off(true);
}

/* The error to a call that has acted, under 400 and not small, with one large allocation after
 * another refused. */
static void test_an_error_that_was_not_read_refuses_nothing(void **state)
{
    struct hx_buf script;
    struct http_fixture fixture;
    bool is_refused = true;
    unsigned id = 0;

    (void)state;
    hx_buf_init(&script, 1 << 20);
    (void)hx_buf_append_cstr(&script,
                             "{\"methods\":{\"tools/call\":[{\"status\":[400,"
                             "\"application/json\",\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":"
                             "$ID,\\\"error\\\":{\\\"code\\\":1,\\\"message\\\":\\\"no\\\"");
    for (int i = 0; i < 4000; i++)
        (void)hx_buf_printf(&script, ",\\\"a%d\\\":1", i);
    assert_int_equal(hx_buf_append_cstr(&script, "}}\"]}]}}"), 0);
    assert_int_equal(hx_buf_append_char(&script, '\0'), 0);
    http_fixture_init_script(&fixture, script.data);
    hx_buf_fini(&script);
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    while (is_refused) {
        struct hx_peer_event *event;
        hx_alloc_fail_large_at(++id);
        http_fixture_call(&fixture, id, NULL);
        event = http_fixture_end_of(&fixture, id);
        is_refused = hx_alloc_fail_left() == 0;
        hx_alloc_fail_at(0);
        if (event->type != HX_PEER_ANSWER_LOST && !event->is_answer)
            fail_msg("allocation %u: event %d", id, (int)event->type);
        if (event->type == HX_PEER_OVERSIZE)
            assert_true(event->is_refused); /* it is short enough */
        hx_peer_event_free(event);
        assert_int_equal(http_kit_effects(&fixture.kit, id), 1);
    }
    assert_true(id > 3);
    finish(&fixture);
}

static void test_batches_of_2025_03_26(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-03-26");
    http_fixture_call(&fixture, 1,
                      "[{\"json\":\"[{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"x\\\"},"
                      "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{}}]\"}]");
    http_fixture_expect_answer(&fixture, 1, "\"id\":1");
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_MESSAGE, 1), 1); /* the other one */
    assert_int_equal(requests(&fixture, "mcp-protocol-version"), 0);
    finish(&fixture);
}

static void test_a_session_from_hello_to_goodbye(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"session\":\"S-1\"}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-06-18");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_close(&fixture);
    http_kit_stop(&fixture.http);
    /* initialized, GET, call, DELETE; but not initialize */
    assert_int_equal(requests(&fixture, "\"mcp-session-id\": \"S-1\""), 4);
    assert_int_equal(requests(&fixture, "\"mcp-protocol-version\": \"2025-06-18\""), 4);
    assert_int_equal(requests(&fixture, "\"verb\": \"DELETE\""), 1);
    http_fixture_fini(&fixture);
}

/* On HTTP, what is sent behind `initialized` could arrive before it. */
static void test_calls_wait_for_the_greeting(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture,
                             "{\"methods\":{\"notifications/initialized\":[{\"touch\":\"here\"},"
                             "{\"wait\":\"go\"},{\"status\":[202]}]}}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_until_touched(&fixture, "here");
    http_fixture_run_ms(&fixture, 50);
    assert_int_equal(http_kit_effects(&fixture.kit, 1), 0);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 1, NULL);
    finish(&fixture);
}

/* Field cases 72 and 75. */
static void test_a_server_without_unasked_stream_is_asked_once(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    http_fixture_run_ms(&fixture, 300);
    assert_int_equal(requests(&fixture, "\"verb\": \"GET\""), 1);
    assert_int_equal(http_fixture_counters(&fixture).unasked_gets, 1);
    finish(&fixture);
}

static void test_what_a_server_says_unasked_has_no_tag(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    http_fixture_init_script(
        &fixture, "{\"get\":{\"\":[{\"sse\":{}},{\"text\":\"id: g1\\ndata: {\\\"jsonrpc\\\":"
                  "\\\"2.0\\\",\\\"method\\\":\\\"notifications/tools/list_changed\\\"}\\n\\n\"},"
                  "{\"end\":true}],\"g1\":[{\"sse\":{}},{\"touch\":\"again\"},"
                  "{\"wait\":\"go\"},{\"end\":true}]}}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    event = process_kit_take(&fixture.kit, HX_PEER_MESSAGE);
    assert_int_equal(event->tag, 0);
    assert_false(event->is_answer);
    hx_peer_event_free(event);
    http_fixture_until_touched(&fixture, "again"); /* opened again, behind the last event */
    http_kit_touch(&fixture.kit, "go");
    finish(&fixture);
}

static void test_dropping_one_leaves_the_others(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, "[{\"sse\":{}},{\"wait\":\"go\"},{\"end\":true}]");
    http_fixture_call(&fixture, 2,
                      "[{\"wait\":\"go\"},{\"json\":\"{\\\"jsonrpc\\\":\\\"2.0\\\","
                      "\\\"id\\\":2,\\\"result\\\":{}}\"}]");
    while (http_kit_effects(&fixture.kit, 1) + http_kit_effects(&fixture.kit, 2) < 2)
        http_fixture_run_ms(&fixture, 5);
    fixture.up->ops->drop(fixture.up, 1);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_expect_answer(&fixture, 2, NULL);
    http_fixture_run_ms(&fixture, 20);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_WRITTEN, 1), 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_ANSWER_LOST, 1), 0);
    finish(&fixture);
}

/* Field case 50. */
static void test_stop_gives_grace_and_then_tells(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.stop_grace_ms = 100;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, "[{\"wait\":\"go\"}]");
    while (http_kit_effects(&fixture.kit, 1) == 0)
        http_fixture_run_ms(&fixture, 5);
    fixture.up->ops->stop(fixture.up);
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_not_sent(&fixture, 2);
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_STOPPED, 0);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_CLOSED));
    http_kit_touch(&fixture.kit, "go");
    http_fixture_fini(&fixture);
}

static void test_kill_tells_all_at_once(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"session\":\"S\"}");
    fixture.options.exchanges_max = 1;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, "[{\"wait\":\"go\"}]");
    http_fixture_call(&fixture, 2, NULL);
    while (http_kit_effects(&fixture.kit, 1) == 0)
        http_fixture_run_ms(&fixture, 5);
    fixture.up->ops->kill(fixture.up);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_ANSWER_LOST, 1), 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_NOT_SENT, 2), 1);
    assert_true(process_kit_has(&fixture.kit, HX_PEER_CLOSED));
    http_kit_touch(&fixture.kit, "go");
    http_fixture_fini(&fixture);
}

static void test_five_hundred_at_once(void **state)
{
    enum { COUNT = 512 };
    struct http_fixture fixture;
    struct rlimit files;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    for (unsigned id = 1; id <= COUNT; id++)
        http_fixture_call(&fixture, id,
                          "[{\"sse\":{}},{\"wait\":\"go\"},{\"text\":\"data: {\\\"jsonrpc\\\":"
                          "\\\"2.0\\\",\\\"id\\\":$ID,\\\"result\\\":{}}\\n\\n\"},{\"end\":1}]");
    while (http_kit_count(&fixture.kit, "effects", "") < COUNT)
        http_fixture_run_ms(&fixture, 20);
    http_kit_touch(&fixture.kit, "go");
    for (unsigned id = 1; id <= COUNT; id++)
        http_fixture_expect_answer(&fixture, id, NULL);
    for (unsigned id = 1; id <= COUNT; id++)
        assert_int_equal(http_kit_effects(&fixture.kit, id), 1);
    finish(&fixture);
}

static void test_a_held_client_reads_nothing(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    http_fixture_open(&fixture);
    fixture.up->ops->hold(fixture.up, true);
    http_fixture_call(&fixture, 1, "[{\"big\":200000}]");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_run_ms(&fixture, 100);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_MESSAGE));
    fixture.up->ops->hold(fixture.up, false);
    http_fixture_expect_answer(&fixture, 1, "xxx");
    http_fixture_expect_answer(&fixture, 2, NULL);
    finish(&fixture);
}

static void test_an_answer_over_the_maximum_is_oversize(void **state)
{
    struct http_fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.message_max_bytes = 100000;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, "[{\"big\":1000000}]");
    event = http_fixture_end_of(&fixture, 1);
    assert_int_equal(event->type, HX_PEER_OVERSIZE);
    assert_true(event->is_answer);
    assert_true(event->has_result);
    assert_false(event->is_refused);
    assert_true(event->size > 1000000);
    assert_true(hx_span_eq_cstr(hx_buf_span(&event->line), "1"));
    hx_peer_event_free(event);
    finish(&fixture);
}

static void write_file(const struct http_fixture *fixture, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", fixture->kit.dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void send_with(struct http_fixture *fixture, const char *headers, uint64_t tag)
{
    struct hx_buf line = process_kit_line("{\"jsonrpc\":\"2.0\",\"id\":50,\"method\":\"ping\"}");

    fixture->up->ops->send_with(fixture->up, &line, hx_span_cstr(headers), tag);
    hx_buf_fini(&line);
}

static void test_headers_fixed_from_a_file_and_of_one_message(void **state)
{
    static const char *const fixed[] = {"X-Fixed: one", NULL};
    struct http_fixture fixture;
    char path[64];

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    write_file(&fixture, "headers", "# a comment\nAuthorization: Bearer first\r\n\n");
    (void)snprintf(path, sizeof path, "%s/headers", fixture.kit.dir);
    fixture.options.headers = fixed;
    fixture.options.headers_file = path;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    write_file(&fixture, "headers", "Authorization: Bearer renewed\n");
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_answer(&fixture, 2, NULL);
    write_file(&fixture, "headers", "Content-Length: 5\n"); /* spoiled: the last good ones count */
    send_with(&fixture, "Idempotency-Key: abc\nX-Other: d\n", 3);
    http_fixture_expect_answer(&fixture, 3, NULL);
    send_with(&fixture, "Mcp-Session-Id: mine\n", 4); /* is ours to set */
    http_fixture_expect_not_sent(&fixture, 4);
    assert_int_equal(requests(&fixture, "\"x-fixed\": \"one\""), 3);
    assert_int_equal(requests(&fixture, "\"authorization\": \"Bearer first\""), 1);
    assert_int_equal(requests(&fixture, "\"authorization\": \"Bearer renewed\""), 2);
    assert_int_equal(requests(&fixture, "\"idempotency-key\": \"abc\""), 1);
    finish(&fixture);
}

static void test_bad_options_are_refused(void **state)
{
    static const char *const bad[] = {"no header", NULL};
    static const char *const urls[] = {"", "ftp://x/", "not a url", "file:///etc/passwd", NULL};
    struct process_kit kit;
    struct hx_upstream *up = NULL;
    struct hx_http_client_options options = hx_http_client_defaults();

    (void)state;
    process_kit_init(&kit);
    for (size_t i = 0; urls[i] != NULL; i++) {
        options.url = urls[i];
        assert_true(hx_http_client_new(kit.loop, &kit.inbox, &options, &up) < 0);
    }
    options.url = "http://127.0.0.1/mcp";
    options.headers = bad;
    assert_true(hx_http_client_new(kit.loop, &kit.inbox, &options, &up) < 0);
    options.headers = NULL;
    options.headers_file = "/nonexistent/headers";
    assert_true(hx_http_client_new(kit.loop, &kit.inbox, &options, &up) < 0);
    process_kit_fini(&kit);
}

static void init_tls(struct http_fixture *fixture, char paths[3][256])
{
    static const char *const names[] = {"ca.pem", "server.pem", "client.pem"};

    for (int i = 0; i < 3; i++)
        (void)snprintf(paths[i], 256, "%s/%s", getenv("HX_TLS_DIR"), names[i]);
    const char *args[] = {"{}", "--tls", paths[1], "--client-ca", paths[0], NULL};
    http_fixture_init(fixture, args);
}

static void test_tls_with_a_private_authority_and_a_client_certificate(void **state)
{
    struct http_fixture fixture;
    char paths[3][256];

    (void)state;
    init_tls(&fixture, paths);
    fixture.options.ca_file = paths[0];
    fixture.options.cert_file = paths[2];
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    finish(&fixture);
}

/* Not one byte of the call leaves before the server has proved who it is. */
static void test_a_stranger_gets_nothing(void **state)
{
    struct http_fixture fixture;
    char paths[3][256];

    (void)state;
    init_tls(&fixture, paths);
    fixture.options.cert_file = paths[2];
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_not_sent(&fixture, 1);
    http_fixture_end_server(&fixture);
    assert_int_equal(http_kit_effects(&fixture.kit, 1), 0);
    http_fixture_fini(&fixture);
}

static void send_long(struct http_fixture *fixture, uint64_t tag)
{
    enum { LONG_BYTES = 24 << 20 }; /* more than any socket buffers */
    struct hx_buf line = process_kit_filled_line(LONG_BYTES);
    const char *head =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"x\":\"";

    memcpy(line.data, head, strlen(head));
    memcpy(line.data + line.len - 3, "\"}}", 3);
    fixture->up->ops->send(fixture->up, &line, tag);
    hx_buf_fini(&line);
}

static void test_a_stalled_upload_is_given_up(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"early\":[{\"wait\":\"go\"}]}");
    fixture.options.stall_timeout_ms = 200;
    http_fixture_open(&fixture);
    send_long(&fixture, 1);
    http_fixture_expect_lost(&fixture, 1, HX_PEER_LOSS_STALLED, 0);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_FIRST_BYTE, 1), 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_CUT, 1), 1);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_WRITTEN, 1), 0);
    http_kit_touch(&fixture.kit, "go");
    http_fixture_end_server(&fixture);
    assert_int_equal(http_kit_effects(&fixture.kit, 1), 0);
    http_fixture_fini(&fixture);
}

static void test_a_refusal_in_the_middle_of_the_body(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{\"early\":[{\"status\":[413,\"\",\"\",{\"Connection\":"
                                       "\"close\"}]},{\"wait\":\"go\"},{\"close\":true}]}");
    http_fixture_open(&fixture);
    send_long(&fixture, 1);
    http_fixture_expect_rejected(&fixture, 1, 413);
    assert_int_equal(http_fixture_count(&fixture, HX_PEER_CUT, 1), 1);
    http_kit_touch(&fixture.kit, "go");
    finish(&fixture);
}

static void test_through_a_proxy(void **state)
{
    struct http_fixture fixture;

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    fixture.options.proxy = fixture.http.url;
    fixture.options.url = "http://tools.invalid/mcp";
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    assert_int_equal(requests(&fixture, "\"path\": \"http://tools.invalid/mcp\""), 1);
    /* A tunnel that is refused: nothing left. */
    fixture.up = hx_http_client_free(fixture.up);
    fixture.options.url = "https://tools.invalid/mcp";
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_not_sent(&fixture, 2);
    finish(&fixture);
}

static void test_a_name_with_several_addresses(void **state)
{
    struct http_fixture fixture;
    char url[64];

    (void)state;
    http_fixture_init_script(&fixture, "{}");
    (void)snprintf(url, sizeof url, "http://localhost:%d/mcp", fixture.http.port);
    fixture.options.url = url;
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 1, NULL);
    http_fixture_expect_answer(&fixture, 1, NULL);
    fixture.up = hx_http_client_free(fixture.up);
    fixture.options.url = "http://no-such-host.invalid/mcp";
    http_fixture_open(&fixture);
    http_fixture_call(&fixture, 2, NULL);
    http_fixture_expect_not_sent(&fixture, 2);
    finish(&fixture);
}

/* Field case 97: a server that is down costs nothing while nobody asks. */
static void test_a_dead_server_keeps_nobody_busy(void **state)
{
    struct http_fixture fixture;
    clock_t begun;

    (void)state;
    http_fixture_init_script(&fixture, "{\"get\":[{\"sse\":{}},{\"touch\":\"open\"},"
                                       "{\"wait\":\"go\"},{\"reset\":true}]}");
    http_fixture_open(&fixture);
    http_fixture_greet(&fixture, "2025-11-25");
    http_fixture_until_touched(&fixture, "open");
    http_kit_touch(&fixture.kit, "go");
    http_kit_stop(&fixture.http);
    begun = clock();
    http_fixture_run_ms(&fixture, 500);
    assert_true(clock() - begun < CLOCKS_PER_SEC / 5);
    assert_in_range(http_fixture_counters(&fixture).unasked_gets, 1, 8);
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_there_and_back),
        cmocka_unit_test(test_every_status_over_the_wire),
        cmocka_unit_test(test_a_truncated_body_is_lost),
        cmocka_unit_test(test_a_refusal_that_broke_off_refuses_nothing),
        cmocka_unit_test(test_an_error_that_was_not_read_refuses_nothing),
        cmocka_unit_test(test_a_generation_whose_greeting_failed_is_replaced),
        cmocka_unit_test(test_an_idle_client_rests),
        cmocka_unit_test(test_batches_of_2025_03_26),
        cmocka_unit_test(test_a_session_from_hello_to_goodbye),
        cmocka_unit_test(test_calls_wait_for_the_greeting),
        cmocka_unit_test(test_a_server_without_unasked_stream_is_asked_once),
        cmocka_unit_test(test_what_a_server_says_unasked_has_no_tag),
        cmocka_unit_test(test_dropping_one_leaves_the_others),
        cmocka_unit_test(test_stop_gives_grace_and_then_tells),
        cmocka_unit_test(test_kill_tells_all_at_once),
        cmocka_unit_test(test_five_hundred_at_once),
        cmocka_unit_test(test_a_held_client_reads_nothing),
        cmocka_unit_test(test_an_answer_over_the_maximum_is_oversize),
        cmocka_unit_test(test_headers_fixed_from_a_file_and_of_one_message),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_tls_with_a_private_authority_and_a_client_certificate),
        cmocka_unit_test(test_a_stranger_gets_nothing),
        cmocka_unit_test(test_a_stalled_upload_is_given_up),
        cmocka_unit_test(test_a_refusal_in_the_middle_of_the_body),
        cmocka_unit_test(test_through_a_proxy),
        cmocka_unit_test(test_a_name_with_several_addresses),
        cmocka_unit_test(test_a_dead_server_keeps_nobody_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
