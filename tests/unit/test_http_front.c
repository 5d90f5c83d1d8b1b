/* SPDX-License-Identifier: MIT */
/* MCP's front: what is refused at the door, how sessions live, and what the engine gets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/http_front/headers.h"
#include "base/alloc.h"
#include "front_kit.h"
#include "wire/mcp.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"
#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}"
#define INITIALIZE "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}"
#define MADE_UP "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* --- the door --- */

#define HOST "Host: localhost\r\n"
#define ANN "Authorization: Bearer ann\r\n"
#define BOTH "Accept: application/json, text/event-stream\r\n"
#define JSON "Content-Type: application/json\r\n"
#define LEN2 "Content-Length: 2\r\n"
#define END "Connection: close\r\n\r\n"

static const struct {
    const char *request;
    const char *status;
    const char *holds;
} door_cases[] = {
    /* where */
    {"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n" ANN BOTH JSON LEN2 END "{}", "403", "host"},
    {"POST /mcp HTTP/1.1\r\nHost: 192.168.0.1\r\n" ANN BOTH JSON LEN2 END "{}", "403", "host"},
    {"POST /mcp HTTP/1.1\r\nHost: localhost.evil.example\r\n" ANN BOTH JSON LEN2 END "{}", "403",
     "host"},
    {"GET /other HTTP/1.1\r\nHost: evil.example\r\n" END, "403", "host"},
    {"POST /mcp HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n" ANN BOTH JSON LEN2 END "{}",
     "403", "origin"},
    {"POST /mcp HTTP/1.1\r\n" HOST "Origin: null\r\n" ANN BOTH JSON LEN2 END "{}", "403", "origin"},
    {"POST /mcp HTTP/1.1\r\n" HOST
     "Origin: http://localhost\r\nOrigin: http://localhost\r\n" ANN BOTH JSON LEN2 END "{}",
     "403", "origin"},
    /* who */
    {"POST /mcp HTTP/1.1\r\n" HOST BOTH JSON LEN2 END "{}", "401", "WWW-Authenticate: Bearer\r\n"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN ANN BOTH JSON LEN2 END "{}", "401", "credentials"},
    {"GET /mcp HTTP/1.1\r\n" HOST "Authorization: Bearer eve\r\n" END, "401", "credentials"},
    {"PUT /mcp/none HTTP/1.1\r\n" HOST END, "401", "credentials"},
    {"POST /mcp HTTP/1.1\r\n" HOST "Origin: http://localhost:5173\r\n" BOTH JSON LEN2 END "{}",
     "401", "Access-Control-Allow-Origin: http://localhost:5173\r\n"},
    /* what */
    {"POST /mcp/none HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{}", "404", "endpoint"},
    {"POST /mcp/ HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{}", "404", "endpoint"},
    {"PUT /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{}", "405",
     "Allow: GET, POST, DELETE, OPTIONS\r\n"},
    {"HEAD /mcp HTTP/1.1\r\n" HOST ANN END, "405", "Allow: "},
    {"post /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{}", "405", "Allow: "},
    /* how */
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH LEN2 END "{}", "415", "Content-Type"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH "Content-Type: text/plain\r\n" LEN2 END "{}", "415",
     "Content-Type"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON JSON LEN2 END "{}", "415", "Content-Type"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN "Content-Type: text/plain; a=application/json\r\n" LEN2 END
     "{}",
     "415", "Content-Type"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Encoding: gzip\r\n" LEN2 END "\x1f\x8b",
     "415", "Accept-Encoding: identity\r\n"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Encoding: gzip\r\n" LEN2 END "{}", "415",
     "without Content-Encoding\"}}"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Encoding: identity\r\n"
     "Content-Encoding: br\r\n" LEN2 END "{}",
     "415", "content coding"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Encoding: identity, deflate\r\n" LEN2 END
     "{}",
     "415", "content coding"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Encoding:\r\n" LEN2 END "{}", "415",
     "content coding"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "content-encoding: Identity\r\n" LEN2 END "{x",
     "400", "-32700"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN "Accept: text/html\r\n" JSON LEN2 END "{}", "406", "accept"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN "Accept: */*;q=0\r\n" JSON LEN2 END "{}", "406", "accept"},
    {"GET /mcp HTTP/1.1\r\n" HOST ANN "Accept: application/json\r\n" END, "406",
     "text/event-stream"},
    /* which session */
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{}", "400", "-32700"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON LEN2 END "{x", "400", "-32700"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Length: 40\r\n" END PING, "400",
     "\"id\":7,\"error\":{\"code\":-32000,\"message\":\"Bad request: Mcp-Session-Id is required, "
     "and only initialize goes without it\","
     "\"data\":" HX_MCP_OWN_ERROR("REQUEST_INVALID", "true", "true") "}}"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON "Content-Length: 48\r\n" END "[" INITIALIZE "]",
     "400", "Mcp-Session-Id"},
    {"GET /mcp HTTP/1.1\r\n" HOST ANN "Accept: text/event-stream\r\n" END, "400", "Mcp-Session-Id"},
    {"DELETE /mcp HTTP/1.1\r\n" HOST ANN END, "400", "Mcp-Session-Id"},
    {"POST /mcp HTTP/1.1\r\n" HOST ANN BOTH JSON
     "Mcp-Session-Id: 1868a90c\r\nContent-Length: 40\r\n" END PING,
     "404", "\"id\":7,\"error\":{\"code\":-32001,"},
    {"GET /mcp HTTP/1.1\r\n" HOST ANN BOTH "Mcp-Session-Id: \xff\xfe odd\r\n" END, "404",
     "Session not found"},
    {"GET /mcp HTTP/1.1\r\n" HOST ANN BOTH "Mcp-Session-Id: a\r\nMcp-Session-Id: a\r\n" END, "400",
     "repeated"},
    {"DELETE /mcp HTTP/1.1\r\n" HOST ANN
     "MCP-Protocol-Version: 1999-01-01\r\nMcp-Session-Id: " MADE_UP "\r\n" END,
     "400", "unsupported protocol version"},
    {"GET /mcp HTTP/1.1\r\n" HOST ANN BOTH
     "MCP-Protocol-Version: 2026-07-28\r\nMcp-Session-Id: " MADE_UP "\r\n" END,
     "400", "unsupported protocol version"},
    /* browsers */
    {"OPTIONS /mcp HTTP/1.1\r\n" HOST "Origin: http://localhost:5173\r\n" END, "204",
     "Access-Control-Allow-Headers: Authorization, Content-Type, Accept, Last-Event-ID, "
     "Mcp-Session-Id, MCP-Protocol-Version,"},
    {"OPTIONS /mcp HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n" END, "403", "origin"},
    {"OPTIONS /mcp HTTP/1.1\r\n" HOST END, "204", "Allow: "},
};

static void the_door_is_strict(void **state)
{
    struct front_kit kit;
    uint64_t refused = 0;

    (void)state;
    front_kit_init(&kit, NULL);
    for (unsigned i = 0; i < sizeof door_cases / sizeof door_cases[0]; i++) {
        char start[32];
        int fd = web_client(&kit.web);
        (void)snprintf(start, sizeof start, "HTTP/1.1 %s ", door_cases[i].status);
        web_send_text(&kit.web, fd, door_cases[i].request);
        front_kit_read(&kit, fd, NULL);
        if (strncmp(kit.got.data, start, strlen(start)) != 0 ||
            strstr(kit.got.data, door_cases[i].holds) == NULL)
            fail_msg("case %u: expected %s with %s, came %s\nto %s", i, door_cases[i].status,
                     door_cases[i].holds, kit.got.data, door_cases[i].request);
        refused += strcmp(door_cases[i].status, "204") != 0;
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(hx_http_front_counts(kit.front).refused, refused);
    assert_int_equal(hx_http_front_counts(kit.front).streams, 0);
    front_kit_fini(&kit);
}

static void hosts_and_origins(void **state)
{
    static const char *const hosts[] = {"gate.example", "other.example:8443", NULL};
    static const char *const origins[] = {"https://app.example", NULL};
    static const char *const all[] = {"*", NULL};
    static const struct {
        const char *host;
        bool is_allowed;
    } by_host[] = {
        {"localhost", true},
        {"LocalHost:80", true},
        {"127.0.0.1:8080", true},
        {"127.255.255.254", true},
        {"127.0.0.256", false},
        {"127.0.0", false},
        {"127.0.0.1.evil", false},
        {"[::1]", true},
        {"[::1]:80", true},
        {"[::2]", false},
        {"gate.example", true},
        {"gate.example:99", true},
        {"GATE.EXAMPLE", true},
        {"other.example:8443", true},
        {"other.example", false},
        {"other.example:1", false},
        {"gate.example.evil", false},
        {"128.0.0.1", false},
        {"", false},
        {"127.0.0.1@evil.test", false},
    };
    static const struct {
        const char *origin;
        const char *host;
        bool is_allowed;
    } by_origin[] = {
        {"http://localhost:6274", "localhost:3000", true},
        {"http://127.0.0.1", "localhost:3000", true},
        {"https://gate.example", "gate.example:443", true},
        {"https://app.example", "gate.example", true},
        {"https://app.example:444", "gate.example", false},
        {"http://localhost", "gate.example", false},
        {"null", "localhost", false},
        {"", "localhost", false},
        {"http://", "localhost", false},
        {"http://localhost.evil", "localhost", false},
        {"https://gate.example.evil", "gate.example", false},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof by_host / sizeof by_host[0]; i++) {
        if (hx_http_host_is_allowed(hx_span_cstr(by_host[i].host), hosts) != by_host[i].is_allowed)
            fail_msg("host \"%s\"", by_host[i].host);
        assert_true(hx_http_host_is_allowed(hx_span_cstr(by_host[i].host), all));
    }
    for (unsigned i = 0; i < sizeof by_origin / sizeof by_origin[0]; i++) {
        if (hx_http_origin_is_allowed(hx_span_cstr(by_origin[i].origin),
                                      hx_span_cstr(by_origin[i].host),
                                      origins) != by_origin[i].is_allowed)
            fail_msg("origin \"%s\" at \"%s\"", by_origin[i].origin, by_origin[i].host);
    }
}

static void accepts(void **state)
{
    static const struct {
        const char *value; /* NULL = no header */
        bool json;
        bool events;
    } cases[] = {
        {NULL, true, true},
        {"*/*", true, true},
        {"application/json, text/event-stream", true, true},
        {"Application/JSON;q=0.9 , text/event-stream ; charset=utf-8", true, true},
        {"application/json", true, false},
        {"text/event-stream", false, true},
        {"application/*", true, false},
        {"text/*;q=0.1", false, true},
        {"application/json;q=0, text/event-stream", false, true},
        {"application/json; q=0.0", false, false},
        {"application/jsonx", false, false},
        {"", false, false},
        {",,;,", false, false},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_web_header header = {HX_SPAN_LIT("accept"), hx_span_cstr(cases[i].value)};
        struct hx_web_request request = {.headers = &header,
                                         .header_count = cases[i].value != NULL};
        struct hx_http_accepts got = hx_http_accepts(&request);
        if (got.json != cases[i].json || got.events != cases[i].events)
            fail_msg("\"%s\": json %d, events %d", cases[i].value, got.json, got.events);
    }
}

static void line_ends_between_tokens_become_spaces(void **state)
{
    static const struct {
        const char *text;
        const char *joined;
    } cases[] = {
        {"{\"a\":1}", "{\"a\":1}"},
        {"{\r\n\t\"a\": [\n1\r]\n}\n", "{  \t\"a\": [ 1 ] } "},
        {"{\"a\\\"\":\n\"\\\\\"\n}", "{\"a\\\"\": \"\\\\\" }"},
        /* No JSON: whoever reads it has to see that. */
        {"{\"a\n\":\n1}", "{\"a\n\": 1}"},
        {"\n\"\\", " \"\\"},
        {"\n", " "},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_buf body;
        hx_buf_init(&body, 1000);
        assert_int_equal(hx_buf_append_cstr(&body, cases[i].text), 0);
        hx_http_join_lines(&body);
        assert_int_equal(hx_buf_append_char(&body, '\0'), 0);
        assert_string_equal(body.data, cases[i].joined);
        hx_buf_fini(&body);
    }
}

/* --- what the engine gets --- */

static void an_answer_that_comes_first_is_json(void **state)
{
    struct front_kit kit;
    uint64_t exchange;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    fd = front_kit_post(&kit, "", PING);
    exchange = front_kit_message(&kit, PING);
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{\"id\":7}", 5);
    front_kit_read(&kit, fd, "\r\n\r\n{\"id\":7}");
    assert_non_null(strstr(kit.got.data, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"));
    assert_null(strstr(kit.got.data, "Mcp-Session-Id"));
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 5);
    /* Notifications are taken, and the connection goes on. */
    front_kit_post_on(&kit, fd, "", NOTE);
    exchange = front_kit_message(&kit, NOTE);
    kit.session->ops->settle(kit.session, exchange, HX_SETTLING_TAKEN);
    front_kit_read(&kit, fd, "HTTP/1.1 202 Accepted\r\n");
    front_kit_post_on(&kit, fd, "", "{");
    exchange = front_kit_message(&kit, "{");
    front_kit_send(&kit, HX_SENDING_FAULT, exchange, "{\"error\":1}", 6);
    front_kit_read(&kit, fd, "\r\n\r\n{\"error\":1}");
    assert_non_null(strstr(kit.got.data, "HTTP/1.1 400 Bad Request\r\n"));
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

static void asides_make_it_an_event_stream(void **state)
{
    struct front_kit kit;
    uint64_t exchange;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    fd = front_kit_post(&kit, "", PING);
    exchange = front_kit_message(&kit, PING);
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, "{\"n\":1}", 1);
    front_kit_read(&kit, fd, "data: {\"n\":1}\n\n");
    assert_non_null(strstr(kit.got.data, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(kit.got.data, "retry: 1000\n"));
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 1);
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{\"id\":7}", 2);
    front_kit_read(&kit, fd, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    assert_null(strstr(kit.got.data, "retry: "));
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 2);
    /* That exchange is over. */
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{\"id\":7}", 3);
    front_kit_expect_tag(&kit, HX_PEER_NOT_SENT, 3);
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

/* Without memory to read what was agreed on it is agreed on all the same. */
static void a_session_begins_without_memory_too(void **state)
{
    bool is_through = false;
    struct hx_buf answer;

    (void)state;
    hx_buf_init(&answer, 1 << 16);
    assert_int_equal(hx_buf_append_cstr(&answer, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{"
                                                 "\"protocolVersion\":\"2025-06-18\",\"x\":["),
                     0);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(hx_buf_append_cstr(&answer, "0,"), 0);
    assert_int_equal(hx_buf_append_cstr(&answer, "\"end\"]}}"), 0);
    assert_int_equal(hx_buf_append_char(&answer, '\0'), 0);
    for (unsigned long n = 1; !is_through; n++) {
        struct front_kit kit;
        front_kit_init(&kit, NULL);
        int fd = front_kit_post(&kit, "", INITIALIZE);
        struct hx_http_front_event *event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_NEW);
        kit.session = event->downstream;
        hx_http_front_event_free(event);
        uint64_t exchange = front_kit_message(&kit, NULL);
        hx_alloc_fail_large_at(n);
        front_kit_send(&kit, HX_SENDING_ANSWER, exchange, answer.data, 0);
        is_through = hx_alloc_fail_left() > 0;
        hx_alloc_fail_at(0);
        front_kit_read(&kit, fd, "\"end\"]}}");
        if (strstr(kit.got.data, "Mcp-Session-Id: ") == NULL)
            fail_msg("memory %lu: no session in %.200s", n, kit.got.data);
        assert_int_equal(close(fd), 0);
        front_kit_fini(&kit);
        assert_true(n > 1 || !is_through);
    }
    hx_buf_fini(&answer);
}

static void the_form_follows_what_is_accepted(void **state)
{
    struct front_kit kit;
    char request[512];
    uint64_t exchange;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    fd = web_client(&kit.web);
    (void)snprintf(request, sizeof request,
                   "POST /mcp HTTP/1.1\r\n" HOST ANN JSON "Accept: text/event-stream\r\n"
                   "Mcp-Session-Id: %s\r\n" LEN2 "\r\n{}",
                   kit.id);
    web_send_text(&kit.web, fd, request);
    exchange = front_kit_message(&kit, "{}");
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{\"id\":7}", 0);
    front_kit_read(&kit, fd, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    (void)snprintf(request, sizeof request,
                   "POST /mcp HTTP/1.1\r\n" HOST ANN JSON "Accept: application/json\r\n"
                   "Mcp-Session-Id: %s\r\n" LEN2 "\r\n{}",
                   kit.id);
    web_send_text(&kit.web, fd, request);
    exchange = front_kit_message(&kit, "{}");
    assert_true(hx_span_is_absent(kit.session->ops->stream_name(kit.session, exchange)));
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, "{\"n\":1}", 0); /* has to wait */
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{\"id\":8}", 0);
    front_kit_read(&kit, fd, "\r\n\r\n{\"id\":8}");
    assert_int_equal(close(fd), 0);
    fd = front_kit_get(&kit, "");
    front_kit_read(&kit, fd, "data: {\"n\":1}\n\n");
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

static void messages_come_as_lines_with_their_key(void **state)
{
    struct front_kit kit;
    struct hx_peer_event *event;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    fd = front_kit_post(&kit, "Idempotency-Key: \"abc\"\r\nidempotency-key: x\r\n",
                        "{\r\n \"a\": 1\n}");
    event = front_kit_take(&kit, HX_PEER_MESSAGE);
    assert_true(hx_span_eq_cstr(hx_buf_span(&event->line), "{   \"a\": 1 }"));
    assert_true(hx_span_eq_cstr(hx_buf_span(&event->key), "\"abc\""));
    assert_int_equal(event->key_count, 2);
    assert_ptr_equal(event->downstream, kit.session);
    front_kit_send(&kit, HX_SENDING_ANSWER, event->exchange, "{}", 0);
    hx_peer_event_free(event);
    front_kit_read(&kit, fd, "\r\n\r\n{}");
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

static void what_is_none_of_mcp_goes_to_the_application(void **state)
{
    struct hx_web_answer answer = {.status = 200};
    struct hx_http_front_event *event;
    struct front_kit kit;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    fd = web_client(&kit.web);
    web_send_text(&kit.web, fd, "GET /mcpx HTTP/1.1\r\n" HOST ANN "\r\n");
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_OTHER);
    assert_true(hx_span_eq_cstr(event->request->path, "/mcpx"));
    assert_true(hx_span_eq_cstr(event->caller.principal, "ann"));
    kit.web.web->ops->answer(kit.web.web, event->exchange, &answer, NULL, 0);
    hx_http_front_event_free(event);
    front_kit_read(&kit, fd, "HTTP/1.1 200 OK\r\n");
    web_send_text(&kit.web, fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_OTHER);
    assert_true(hx_span_is_absent(event->caller.principal));
    kit.web.web->ops->answer(kit.web.web, event->exchange, &answer, NULL, 0);
    hx_http_front_event_free(event);
    front_kit_read(&kit, fd, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

static void a_held_session_waits(void **state)
{
    struct front_kit kit;
    int fd;
    int gone;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    kit.session->ops->hold(kit.session, true);
    fd = front_kit_post(&kit, "", PING);
    gone = front_kit_post(&kit, "", NOTE);
    while (hx_http_front_counts(kit.front).streams < 2)
        web_kit_turn(&kit.web);
    assert_true(hx_http_front_is_busy(kit.session));
    assert_false(front_kit_has(&kit, HX_PEER_MESSAGE));
    /* Who leaves meanwhile has never been there. */
    assert_int_equal(close(gone), 0);
    while (hx_http_front_counts(kit.front).streams > 1)
        web_kit_turn(&kit.web);
    kit.session->ops->hold(kit.session, false);
    front_kit_send(&kit, HX_SENDING_ANSWER, front_kit_message(&kit, PING), "{}", 0);
    front_kit_read(&kit, fd, "\r\n\r\n{}");
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

/* --- sessions --- */

static void expect_status(struct front_kit *kit, int fd, const char *status)
{
    char start[32];

    (void)snprintf(start, sizeof start, "HTTP/1.1 %s ", status);
    front_kit_read(kit, fd, "\r\n\r\n");
    if (strncmp(kit->got.data, start, strlen(start)) != 0)
        fail_msg("expected %s, came %s", status, kit->got.data);
    assert_int_equal(close(fd), 0);
}

static void expect_nothing_yet(struct front_kit *kit, int fd)
{
    char byte;

    front_kit_settle(kit);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static int post_as(struct front_kit *kit, const char *path, const char *name)
{
    char request[512];
    int fd = web_client(&kit->web);

    (void)snprintf(request, sizeof request,
                   "POST %s HTTP/1.1\r\n" HOST BOTH JSON "Authorization: Bearer %s\r\n"
                   "Mcp-Session-Id: %s\r\n" LEN2 "\r\n{}",
                   path, name, kit->id);
    web_send_text(&kit->web, fd, request);
    return fd;
}

static void a_session_belongs_to_its_caller_and_endpoint(void **state)
{
    struct front_kit kit;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    expect_status(&kit, post_as(&kit, "/mcp", "bob"), "404");
    expect_status(&kit, post_as(&kit, "/mcp/files", "ann"), "404");
    kit.id[3] = kit.id[3] == 'a' ? 'b' : 'a';
    expect_status(&kit, post_as(&kit, "/mcp", "eve"), "401");
    front_kit_fini(&kit);
}

static void ids_are_not_kept_and_differ(void **state)
{
    struct front_kit kit;
    char first[80];

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    memcpy(first, kit.id, sizeof first);
    front_kit_begin(&kit);
    assert_string_not_equal(first, kit.id);
    for (unsigned i = 0; i < 64; i++)
        assert_in_range(kit.id[i], 0x21, 0x7e);
    assert_int_equal(hx_http_front_counts(kit.front).sessions, 2);
    front_kit_fini(&kit);
}

static void delete_ends_a_session(void **state)
{
    struct front_kit kit;
    struct hx_peer_event *event;
    uint64_t exchange;
    int waiting;
    int listening;
    int ending;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    listening = front_kit_get(&kit, "");
    front_kit_read(&kit, listening, "\r\n\r\n");
    waiting = front_kit_post(&kit, "", PING);
    exchange = front_kit_message(&kit, PING);
    ending = front_kit_delete(&kit);
    event = front_kit_take(&kit, HX_PEER_ENDED);
    assert_ptr_equal(event->downstream, kit.session);
    hx_peer_event_free(event);
    front_kit_read(&kit, listening, "0\r\n\r\n");
    assert_int_equal(close(listening), 0);
    /* The engine has it, so it was not refused: no status is a true one. */
    front_kit_read(&kit, waiting, NULL);
    assert_string_equal(kit.got.data, "");
    assert_int_equal(close(waiting), 0);
    expect_status(&kit, post_as(&kit, "/mcp", "ann"), "404");
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{}", 9);
    front_kit_expect_tag(&kit, HX_PEER_NOT_SENT, 9);
    expect_status(&kit, front_kit_delete(&kit), "404"); /* it is being ended */
    expect_nothing_yet(&kit, ending);
    hx_http_front_forget(kit.front, kit.session, true);
    expect_status(&kit, ending, "200");
    /* Without asking the ledger, which may not have heard yet. */
    expect_status(&kit, post_as(&kit, "/mcp", "ann"), "404");
    assert_int_equal(hx_http_front_counts(kit.front).sessions, 0);
    front_kit_fini(&kit);
}

/* The ledger did not take the end. */
static void delete_that_ended_nothing(void **state)
{
    struct front_kit kit;
    int ending;
    int gone;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    ending = front_kit_delete(&kit);
    hx_peer_event_free(front_kit_take(&kit, HX_PEER_ENDED));
    hx_http_front_forget(kit.front, kit.session, false);
    expect_status(&kit, ending, "503");
    /* The ledger is asked for the id again, and its client may leave before the next end. */
    gone = front_kit_delete(&kit);
    struct hx_http_front_event *event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    kit.session = hx_http_front_adopt(kit.front, event->ticket, HX_SPAN_LIT("2025-06-18"));
    hx_http_front_event_free(event);
    hx_peer_event_free(front_kit_take(&kit, HX_PEER_ENDED));
    assert_int_equal(close(gone), 0);
    front_kit_settle(&kit);
    hx_http_front_forget(kit.front, kit.session, true);
    fd = front_kit_delete(&kit);
    expect_status(&kit, fd, "404");
    front_kit_fini(&kit);
}

static void a_handshake_that_fails_makes_no_session(void **state)
{
    struct front_kit kit;
    uint64_t exchange;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    fd = front_kit_post(&kit, "", INITIALIZE);
    hx_http_front_event_free(front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_NEW));
    kit.session = NULL;
    {
        struct hx_peer_event *event = front_kit_take(&kit, HX_PEER_MESSAGE);
        kit.session = event->downstream;
        exchange = event->exchange;
        hx_peer_event_free(event);
    }
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange,
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":1502,\"message\":\"no\"}}",
                   1);
    front_kit_read(&kit, fd, "\"no\"}}");
    assert_null(strstr(kit.got.data, "Mcp-Session-Id"));
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 1);
    hx_peer_event_free(front_kit_take(&kit, HX_PEER_ENDED));
    hx_http_front_forget(kit.front, kit.session, true);
    /* Its client leaves. */
    front_kit_post_on(&kit, fd, "", INITIALIZE);
    hx_http_front_event_free(front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_NEW));
    exchange = front_kit_message(&kit, INITIALIZE);
    assert_int_equal(close(fd), 0);
    front_kit_expect_gone(&kit, exchange);
    hx_peer_event_free(front_kit_take(&kit, HX_PEER_ENDED));
    front_kit_fini(&kit);
}

static void few_sessions(struct hx_http_front_options *options)
{
    options->sessions_max = 2;
    options->sessions_per_principal_max = 1;
}

static void sessions_have_limits(void **state)
{
    struct front_kit kit;
    int fd;

    (void)state;
    front_kit_init(&kit, few_sessions);
    front_kit_begin(&kit);
    kit.id[0] = '\0';
    fd = front_kit_post(&kit, "", INITIALIZE);
    front_kit_read(&kit, fd, "\r\n\r\n");
    assert_non_null(strstr(kit.got.data, "HTTP/1.1 429 "));
    assert_non_null(strstr(kit.got.data, "Retry-After: "));
    assert_int_equal(close(fd), 0);
    kit.options.sessions_max = 1;
    front_kit_fini(&kit);
}

static void no_sessions(struct hx_http_front_options *options)
{
    options->sessions_max = 0;
}

static void a_full_house_says_so(void **state)
{
    struct front_kit kit;

    (void)state;
    front_kit_init(&kit, no_sessions);
    expect_status(&kit, front_kit_post(&kit, "", INITIALIZE), "503");
    assert_non_null(strstr(
        kit.got.data, "\"data\":" HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false") "}}"));
    (void)snprintf(kit.id, sizeof kit.id, "%s", MADE_UP);
    expect_status(&kit, post_as(&kit, "/mcp", "ann"), "503");
    front_kit_fini(&kit);
}

/* --- sessions of an earlier process --- */

static void the_ledger_is_asked_once_and_requests_wait(void **state)
{
    struct front_kit kit;
    struct hx_http_front_event *event;
    uint64_t ticket;
    int first;
    int second;
    int gone;
    int other;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    hx_http_front_forget(kit.front, kit.session, false);
    first = post_as(&kit, "/mcp", "ann");
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    ticket = event->ticket;
    assert_int_equal(event->endpoint, 0);
    assert_true(hx_span_eq_cstr(event->caller.principal, "ann"));
    hx_http_front_event_free(event);
    gone = post_as(&kit, "/mcp", "ann");
    second = front_kit_get(&kit, "");
    while (hx_http_front_counts(kit.front).streams < 3)
        web_kit_turn(&kit.web);
    assert_int_equal(close(gone), 0);
    while (hx_http_front_counts(kit.front).streams > 2)
        web_kit_turn(&kit.web);
    assert_true(hx_list_is_empty(&kit.fronts));
    /* Another caller has a question of his own. */
    other = post_as(&kit, "/mcp", "bob");
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    assert_true(hx_span_eq_cstr(event->caller.principal, "bob"));
    kit.session = hx_http_front_adopt(kit.front, ticket, HX_SPAN_LIT("2025-11-25"));
    assert_non_null(kit.session);
    hx_http_front_refuse(kit.front, event->ticket, NULL);
    hx_http_front_event_free(event);
    expect_status(&kit, other, "404");
    front_kit_send(&kit, HX_SENDING_ANSWER, front_kit_message(&kit, "{}"), "{\"id\":1}", 0);
    front_kit_read(&kit, first, "{\"id\":1}");
    front_kit_read(&kit, second, "data: \n\n"); /* primed: the revision is known */
    assert_int_equal(close(first), 0);
    assert_int_equal(close(second), 0);
    front_kit_fini(&kit);
}

static void the_ledger_may_not_know(void **state)
{
    struct front_kit kit;
    struct hx_http_front_event *event;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    (void)snprintf(kit.id, sizeof kit.id, "%s", MADE_UP);
    fd = front_kit_post(&kit, "", PING);
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    hx_http_front_refuse(kit.front, event->ticket, NULL);
    hx_http_front_event_free(event);
    front_kit_read(&kit, fd, "\"id\":7,\"error\":{\"code\":-32001,");
    assert_int_equal(close(fd), 0);
    fd = front_kit_get(&kit, "");
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    hx_http_front_refuse(kit.front, event->ticket, "the ledger rests");
    hx_http_front_event_free(event);
    front_kit_read(&kit, fd, "the ledger rests");
    assert_non_null(strstr(kit.got.data, "HTTP/1.1 503 "));
    assert_int_equal(close(fd), 0);
    /* A DELETE waits as well. */
    fd = front_kit_delete(&kit);
    event = front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED);
    kit.session = hx_http_front_adopt(kit.front, event->ticket, HX_SPAN_LIT("2025-06-18"));
    hx_http_front_event_free(event);
    hx_peer_event_free(front_kit_take(&kit, HX_PEER_ENDED));
    assert_int_equal(close(fd), 0);
    /* It is freed with the front, as an unanswered question is. */
    kit.id[0] = '1';
    fd = front_kit_post(&kit, "", PING);
    hx_http_front_event_free(front_kit_take_front(&kit, HX_HTTP_FRONT_SESSION_ASKED));
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

static void nothing_is_said_of_a_forgotten_session(void **state)
{
    struct front_kit kit;
    uint64_t exchange;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    fd = front_kit_post(&kit, "", PING);
    exchange = front_kit_message(&kit, PING);
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, "{\"n\":1}", 1);
    front_kit_read(&kit, fd, "data: {\"n\":1}\n\n");
    hx_http_front_forget(kit.front, kit.session, true);
    assert_true(hx_list_is_empty(&kit.peers));
    front_kit_read(&kit, fd, "0\r\n\r\n");
    assert_int_equal(close(fd), 0);
    front_kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_door_is_strict),
        cmocka_unit_test(hosts_and_origins),
        cmocka_unit_test(accepts),
        cmocka_unit_test(line_ends_between_tokens_become_spaces),
        cmocka_unit_test(an_answer_that_comes_first_is_json),
        cmocka_unit_test(asides_make_it_an_event_stream),
        cmocka_unit_test(a_session_begins_without_memory_too),
        cmocka_unit_test(the_form_follows_what_is_accepted),
        cmocka_unit_test(messages_come_as_lines_with_their_key),
        cmocka_unit_test(what_is_none_of_mcp_goes_to_the_application),
        cmocka_unit_test(a_held_session_waits),
        cmocka_unit_test(a_session_belongs_to_its_caller_and_endpoint),
        cmocka_unit_test(ids_are_not_kept_and_differ),
        cmocka_unit_test(delete_ends_a_session),
        cmocka_unit_test(delete_that_ended_nothing),
        cmocka_unit_test(a_handshake_that_fails_makes_no_session),
        cmocka_unit_test(sessions_have_limits),
        cmocka_unit_test(a_full_house_says_so),
        cmocka_unit_test(the_ledger_is_asked_once_and_requests_wait),
        cmocka_unit_test(the_ledger_may_not_know),
        cmocka_unit_test(nothing_is_said_of_a_forgotten_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
