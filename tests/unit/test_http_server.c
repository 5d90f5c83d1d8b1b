/* SPDX-License-Identifier: MIT */
/* Requests of every kind come out whole or are refused, and answers go out in their order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "web_kit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n"
#define POST(path) "POST " path " HTTP/1.1\r\nHost: h\r\n"

/* --- framing --- */

static void what_is_ambiguous_is_answered_and_closed(void **state)
{
    static const struct {
        const char *request;
        const char *answer;
    } cases[] = {
        {POST("/") "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        {POST("/") "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "400"},
        {POST("/") "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400"},
        {POST("/") "Content-Length: +5\r\n\r\nhello", "400"},
        {POST("/") "Content-Length: 5 5\r\n\r\nhello", "400"},
        {POST("/") "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
        {POST("/") "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
        {POST("/") "Content-Length : 5\r\n\r\nhello", "400"},
        {POST("/") "X: a\r\n b\r\n\r\n", "400"},
        {POST("/") "X: a\rTransfer-Encoding: chunked\r\n\r\n", "400"},
        {"GET / HTTP/1.1\nHost: h\n", "400"}, /* at once: the end of the head has not come */
        {"GET /\n", "400"},
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
        {"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
        {"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
        {"\x16\x03\x01", "400"},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", "400"},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloGET / HTTP/1.1\r\n", "400"},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "400"},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n0\r\nX y\r\n\r\n", "400"},
        {POST("/") "Expect: magic\r\nContent-Length: 5\r\n\r\n", "417"},
    };
    struct web_kit kit;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[512];
        char start[32];
        /* What was smuggled behind it must not be read as a request. */
        (void)snprintf(request, sizeof request, "%s%s\r\n", cases[i].request, GET("/smuggled"));
        (void)snprintf(start, sizeof start, "HTTP/1.1 %s ", cases[i].answer);
        web_expect(&kit, request, start);
        assert_int_equal(kit.requests, 0);
    }
    web_kit_connections(&kit, 0);
    web_kit_fini(&kit);
}

static void expect_bodies(struct web_kit *kit, int fd, const char *const *bodies, size_t count)
{
    struct hx_buf got;
    size_t at = 0;

    hx_buf_init(&got, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        const char *found;
        web_read(kit, fd, &got, bodies[i]);
        found = memmem(got.data + at, got.len - at, bodies[i], strlen(bodies[i]));
        if (found == NULL)
            fail_msg("\"%s\" is out of order in %.*s", bodies[i], (int)got.len, got.data);
        at = (size_t)(found - got.data) + strlen(bodies[i]);
    }
    hx_buf_fini(&got);
}

static const char three_requests[] = POST("/a") "Content-Length: 5\r\n\r\nhello" POST(
    "/b") "Transfer-Encoding: chunked\r\n\r\n"
          "3;x=y\r\nwor\r\n2\r\nld\r\n0\r\nX: y\r\n\r\n" GET("/c") "\r\n";

static void pipelined_requests_are_answered_in_order(void **state)
{
    static const char *const bodies[] = {"POST /a hello\n", "POST /b world\n", "GET /c \n"};
    struct web_kit kit;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    fd = web_client(&kit);
    web_send(&kit, fd, three_requests, sizeof three_requests - 1);
    expect_bodies(&kit, fd, bodies, 3);
    /* Byte by byte, on the same connection. */
    for (size_t i = 0; i < sizeof three_requests - 1; i++) {
        web_send(&kit, fd, three_requests + i, 1);
        web_kit_turn(&kit);
    }
    expect_bodies(&kit, fd, bodies, 3);
    assert_int_equal(kit.requests, 6);
    assert_int_equal(close(fd), 0);
    web_kit_connections(&kit, 0);
    web_kit_fini(&kit);
}

static void many_pipelined_requests_are_all_answered(void **state)
{
    enum { COUNT = 5000 }; /* more than one read takes */
    struct web_kit kit;
    struct hx_buf requests;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    hx_buf_init(&got, 64 << 20);
    hx_buf_init(&requests, 1 << 20);
    for (int i = 1; i <= COUNT; i++)
        (void)hx_buf_printf(&requests, "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
    fd = web_client(&kit);
    web_send(&kit, fd, requests.data, requests.len);
    web_read(&kit, fd, &got, "GET /5000 \n");
    assert_int_equal(kit.requests, COUNT);
    assert_int_equal(close(fd), 0);
    hx_buf_fini(&requests);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void one_request_of_a_connection_at_a_time(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    uint64_t exchange;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    hx_buf_init(&got, 1 << 20);
    fd = web_client(&kit);
    web_send(&kit, fd, three_requests, sizeof three_requests - 1);
    exchange = web_kit_request(&kit, "/a");
    assert_false(web_kit_has(&kit, HX_WEB_REQUEST));
    web_kit_answer(&kit, exchange, 202, "", 1);
    /* Again, and late: it is over. */
    web_kit_answer(&kit, exchange, 200, "late", 2);
    web_kit_expect_tag(&kit, HX_WEB_WRITTEN, 1);
    web_kit_expect_tag(&kit, HX_WEB_NOT_SENT, 2);
    web_read(&kit, fd, &got, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    exchange = web_kit_request(&kit, "/b");
    web_kit_answer(&kit, exchange, 204, "ignored", 3);
    web_read(&kit, fd, &got, "HTTP/1.1 204 No Content\r\n\r\n");
    exchange = web_kit_request(&kit, "/c");
    assert_true(kit.web->ops->is_alive(kit.web, exchange));
    web_kit_answer(&kit, exchange, 404, "no", 4);
    web_read(&kit, fd, &got, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
    assert_false(kit.web->ops->is_alive(kit.web, exchange));
    assert_int_equal(close(fd), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void a_request_says_what_it_was(void **state)
{
    struct web_kit kit;
    struct hx_web_event *event;
    struct hx_web_request *request;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    fd = web_client(&kit);
    web_send_text(&kit, fd,
                  "DELETE /mcp%2f?x=1 HTTP/1.1\r\nHost: a:1\r\nA: 1\r\na:2\r\n"
                  "Content-Length: 2\r\n\r\n{}");
    event = web_kit_take(&kit, HX_WEB_REQUEST);
    request = event->request;
    assert_true(hx_span_eq_cstr(request->method, "DELETE"));
    assert_true(hx_span_eq_cstr(request->path, "/mcp%2f"));
    assert_true(hx_span_eq_cstr(request->query, "x=1"));
    assert_true(hx_span_eq_cstr(request->host, "a:1"));
    assert_int_equal(hx_web_request_count(request, "a"), 2);
    assert_true(hx_span_eq_cstr(hx_web_request_find(request, "A"), "1"));
    assert_true(hx_span_is_absent(hx_web_request_find(request, "B")));
    assert_true(hx_span_eq_cstr(hx_buf_span(&request->body), "{}"));
    assert_memory_equal(request->peer, "127.0.0.1:", 10);
    assert_false(request->is_local);
    hx_web_event_free(event);
    assert_int_equal(close(fd), 0);
    hx_web_event_free(web_kit_take(&kit, HX_WEB_CLIENT_GONE));
    web_kit_fini(&kit);
}

static void the_client_that_waits_for_100_gets_it(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    hx_buf_init(&got, 1 << 20);
    fd = web_client(&kit);
    web_send_text(&kit, fd, POST("/") "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    web_read(&kit, fd, &got, "HTTP/1.1 100 Continue\r\n\r\n");
    web_send_text(&kit, fd, "hello");
    web_read(&kit, fd, &got, "POST / hello\n");
    assert_int_equal(close(fd), 0);
    /* It is not told to send what will be refused. */
    web_expect(&kit, POST("/") "Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n",
               "HTTP/1.1 413 ");
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void heads_and_old_versions(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    hx_buf_init(&got, 1 << 20);
    fd = web_client(&kit);
    web_send_text(&kit, fd,
                  "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: h\r\n"
                  "Connection: close\r\n\r\n");
    web_read(&kit, fd, &got, NULL);
    assert_int_equal(hx_buf_append_char(&got, '\0'), 0);
    assert_string_equal(got.data, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                  "Content-Length: 9\r\n\r\n"
                                  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                  "Connection: close\r\nContent-Length: 11\r\n\r\n"
                                  "OPTIONS * \n");
    assert_int_equal(close(fd), 0);
    web_expect(&kit, "GET /old HTTP/1.0\r\n\r\n",
               "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n");
    hx_buf_reset(&got);
    fd = web_client(&kit);
    web_send_text(&kit, fd, "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    web_read(&kit, fd, &got, "GET /1 \n");
    web_send_text(&kit, fd, "GET /2 HTTP/1.0\r\n\r\n");
    web_read(&kit, fd, &got, NULL);
    assert_non_null(memmem(got.data, got.len, "Connection: keep-alive\r\n", 24));
    assert_non_null(memmem(got.data, got.len, "GET /2 \n", 8));
    assert_int_equal(close(fd), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

/* --- size --- */

static void small_limits(struct hx_http_server_options *options)
{
    options->head_max_bytes = 512;
    options->target_max_bytes = 64;
    options->headers_max = 8;
    options->message_max_bytes = 1000;
    options->bodies_max_bytes = 1500;
}

static void send_filled(struct web_kit *kit, int fd, char byte, size_t count)
{
    char *bytes = malloc(count);

    assert_non_null(bytes);
    memset(bytes, byte, count);
    web_send(kit, fd, bytes, count);
    free(bytes);
}

/* Sends the start and then filling, which the server will not read to its end. */
static void expect_too_large(struct web_kit *kit, const char *start, size_t filling,
                             const char *answer)
{
    struct hx_buf got;
    int fd = web_client(kit);

    hx_buf_init(&got, 1 << 20);
    web_send_text(kit, fd, start);
    send_filled(kit, fd, 'a', filling);
    /* No reset: it could overtake the answer. */
    assert_true(web_read(kit, fd, &got, NULL));
    if (got.len < strlen(answer) || memcmp(got.data, answer, strlen(answer)) != 0)
        fail_msg("expected %s, came %.*s", answer, (int)got.len, got.data ? got.data : "");
    hx_buf_fini(&got);
    assert_int_equal(close(fd), 0);
}

static void what_is_too_large_is_refused_and_the_refusal_arrives(void **state)
{
    struct web_kit kit;
    char chunks[64];

    (void)state;
    web_kit_init(&kit, small_limits);
    kit.is_echoing = true;
    expect_too_large(&kit, GET("/") "X: ", 200000, "HTTP/1.1 431 ");
    expect_too_large(&kit, GET("/") "A:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\n\r\n", 10,
                     "HTTP/1.1 431 ");
    web_expect(&kit,
               "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n"
               "Host: h\r\n\r\n",
               "HTTP/1.1 414 ");
    expect_too_large(&kit, POST("/") "Content-Length: 1001\r\n\r\n", 1001, "HTTP/1.1 413 ");
    expect_too_large(&kit, POST("/") "Content-Length: 999999999999999999\r\n\r\n", 1,
                     "HTTP/1.1 413 ");
    (void)snprintf(chunks, sizeof chunks, "%s", "Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n");
    {
        char start[128];
        (void)snprintf(start, sizeof start, "%s%s", POST("/"), chunks);
        expect_too_large(&kit, start, 300000, "HTTP/1.1 413 ");
    }
    assert_int_equal(kit.requests, 0);
    web_kit_fini(&kit);
}

static void all_bodies_together_have_a_maximum(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int first;

    (void)state;
    web_kit_init(&kit, small_limits);
    kit.is_echoing = true;
    hx_buf_init(&got, 1 << 20);
    first = web_client(&kit);
    web_send_text(&kit, first, POST("/first") "Content-Length: 1000\r\n\r\n");
    send_filled(&kit, first, 'a', 999);
    web_kit_connections(&kit, 1);
    for (int i = 0; i < 20; i++)
        web_kit_turn(&kit);
    expect_too_large(&kit, POST("/") "Content-Length: 600\r\n\r\n", 600, "HTTP/1.1 503 ");
    /* What was refused weighs nothing; the first is not harmed. */
    web_send_text(&kit, first, "b");
    web_read(&kit, first, &got, "ab\n");
    assert_int_equal(close(first), 0);
    web_kit_connections(&kit, 0);
    /* Those that never came to their end weigh nothing either. */
    for (int i = 0; i < 10; i++) {
        int fd = web_client(&kit);
        web_send_text(&kit, fd, POST("/") "Content-Length: 400\r\n\r\n");
        send_filled(&kit, fd, 'a', 399);
        web_kit_connections(&kit, 1);
        for (int turn = 0; turn < 3; turn++)
            web_kit_turn(&kit);
        assert_int_equal(close(fd), 0);
        web_kit_connections(&kit, 0);
    }
    expect_too_large(&kit, POST("/") "Connection: close\r\nContent-Length: 600\r\n\r\n", 600,
                     "HTTP/1.1 200 ");
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void large_bodies_pass_both_ways(void **state)
{
    enum { SIZE = 8 << 20 };
    struct web_kit kit;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    kit.is_echoing = true;
    hx_buf_init(&got, 64 << 20);
    fd = web_client(&kit);
    for (int i = 0; i < 2; i++) {
        web_send_text(&kit, fd, POST("/big") "Content-Length: 8388608\r\n\r\n");
        send_filled(&kit, fd, 'a' + (char)i, SIZE);
        hx_buf_reset(&got);
        web_read(&kit, fd, &got, i == 0 ? "aa\n" : "bb\n");
        assert_int_equal(got.len, strlen("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                         "Content-Length: 8388619\r\n\r\nPOST /big \n") +
                                      SIZE);
    }
    assert_int_equal(close(fd), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

/* --- time --- */

static void short_times(struct hx_http_server_options *options)
{
    options->head_timeout_ms = 60;
    options->body_timeout_ms = 60;
    options->rate_min_bytes = 1000000;
    options->idle_timeout_ms = 60;
    options->linger_timeout_ms = 60;
}

static void what_comes_too_slowly_is_refused(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, short_times);
    kit.is_echoing = true;
    hx_buf_init(&got, 1 << 20);
    /* A connection that says nothing gets no answer. */
    web_expect(&kit, "", "");
    web_expect(&kit, "GET / HT", "HTTP/1.1 408 ");
    web_expect(&kit, POST("/") "Content-Length: 5\r\n\r\nhell", "HTTP/1.1 408 ");
    web_expect(&kit, POST("/") "Transfer-Encoding: chunked\r\n\r\n5\r\n", "HTTP/1.1 408 ");
    /* Neither does one byte now and then help. */
    fd = web_client(&kit);
    web_send_text(&kit, fd, POST("/") "Content-Length: 100000\r\n\r\n");
    while (hx_http_server_connection_count(kit.web) == 0)
        web_kit_turn(&kit);
    for (int i = 0; hx_http_server_connection_count(kit.web) > 0; i++) {
        assert_true(i < 10000000);
        web_send_text(&kit, fd, "x");
        web_kit_turn(&kit);
    }
    web_read(&kit, fd, &got, NULL);
    assert_int_equal(close(fd), 0);
    /* Idle between requests: closed without a word. */
    hx_buf_reset(&got);
    fd = web_client(&kit);
    web_send_text(&kit, fd, GET("/") "\r\n");
    web_read(&kit, fd, &got, NULL);
    assert_memory_equal(got.data + got.len - 7, "GET / \n", 7);
    assert_int_equal(close(fd), 0);
    assert_int_equal(kit.requests, 1);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void who_never_closes_is_closed_after_the_last_answer(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int fd;

    (void)state;
    web_kit_init(&kit, short_times);
    kit.is_echoing = true;
    hx_buf_init(&got, 1 << 20);
    fd = web_client(&kit);
    web_send_text(&kit, fd, GET("/") "Connection: close\r\n\r\n");
    web_read(&kit, fd, &got, NULL);
    web_kit_connections(&kit, 0); /* though we have not closed */
    assert_int_equal(close(fd), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

/* --- how many --- */

static void four_connections(struct hx_http_server_options *options)
{
    options->connections_max = 4;
}

static void a_new_client_takes_the_place_of_an_idle_one(void **state)
{
    struct web_kit kit;
    struct hx_buf got;
    int fds[6];

    (void)state;
    web_kit_init(&kit, four_connections);
    hx_buf_init(&got, 1 << 20);
    for (int i = 0; i < 4; i++) {
        fds[i] = web_client(&kit);
        web_kit_connections(&kit, (uint32_t)i + 1);
    }
    web_send_text(&kit, fds[0], GET("/0") "\r\n");
    uint64_t first = web_kit_request(&kit, "/0");
    fds[4] = web_client(&kit);
    web_read(&kit, fds[1], &got, NULL); /* idle longest */
    web_send_text(&kit, fds[4], GET("/4") "\r\n");
    uint64_t fifth = web_kit_request(&kit, "/4");
    web_send_text(&kit, fds[2], GET("/2") "\r\n");
    web_send_text(&kit, fds[3], GET("/3") "\r\n");
    (void)web_kit_request(&kit, "/2");
    (void)web_kit_request(&kit, "/3");
    /* Nobody is idle: the next one waits in the queue of the kernel. */
    fds[5] = web_client(&kit);
    web_send_text(&kit, fds[5], GET("/5") "\r\n");
    for (int i = 0; i < 5; i++)
        web_kit_turn(&kit);
    assert_false(web_kit_has(&kit, HX_WEB_REQUEST));
    web_kit_answer(&kit, first, 200, "", 0);
    uint64_t sixth = web_kit_request(&kit, "/5");
    web_kit_answer(&kit, fifth, 200, "", 0);
    web_kit_answer(&kit, sixth, 200, "", 0);
    kit.web->ops->close(kit.web);
    hx_web_event_free(web_kit_take(&kit, HX_WEB_CLIENT_GONE));
    hx_web_event_free(web_kit_take(&kit, HX_WEB_CLIENT_GONE));
    hx_web_event_free(web_kit_take(&kit, HX_WEB_DRAINED));
    for (int i = 0; i < 6; i++)
        assert_int_equal(close(fds[i]), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

/* --- Unix sockets --- */

static int unix_client(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void a_unix_socket_is_private_and_removed(void **state)
{
    struct web_kit kit;
    struct hx_web_event *event;
    struct stat status;
    struct hx_buf got;
    char path[64];
    int fd;

    (void)state;
    web_kit_init(&kit, NULL);
    hx_buf_init(&got, 1 << 20);
    (void)snprintf(path, sizeof path, "%s/web", kit.process.dir);
    /* One that a dead process left is replaced. */
    struct sockaddr_un stale = {.sun_family = AF_UNIX};
    (void)snprintf(stale.sun_path, sizeof stale.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof stale), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(hx_http_server_listen_unix(kit.web, path), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    /* One that is in use is not. */
    assert_int_not_equal(hx_http_server_listen_unix(kit.web, path), 0);

    fd = unix_client(path);
    web_send_text(&kit, fd, POST("/u") "Content-Length: 2\r\n\r\nok");
    event = web_kit_take(&kit, HX_WEB_REQUEST);
    assert_true(event->request->is_local);
    assert_string_equal(event->request->peer, "unix");
    web_kit_answer(&kit, event->exchange, 200, "fine", 1);
    hx_web_event_free(event);
    web_kit_expect_tag(&kit, HX_WEB_WRITTEN, 1);
    web_read(&kit, fd, &got, "fine");
    web_send_text(&kit, fd, GET("/again") "\r\n");
    uint64_t exchange = web_kit_request(&kit, "/again");
    assert_int_equal(close(fd), 0);
    web_kit_expect_gone(&kit, exchange, HX_WEB_GONE_CLOSED);
    kit.web->ops->drain(kit.web);
    hx_web_event_free(web_kit_take(&kit, HX_WEB_DRAINED));
    assert_int_not_equal(stat(path, &status), 0);
    hx_buf_fini(&got);
    web_kit_fini(&kit);
}

static void addresses_that_cannot_be_are_told(void **state)
{
    struct web_kit kit;
    uint16_t port = 0;
    char path[200];

    (void)state;
    web_kit_init(&kit, NULL);
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_not_equal(hx_http_server_listen_unix(kit.web, path), 0);
    assert_int_not_equal(hx_http_server_listen_tcp(kit.web, "localhost.example", 0, &port), 0);
    assert_int_not_equal(hx_http_server_listen_tcp(kit.web, "127.0.0.1", kit.port, &port), 0);
    assert_int_not_equal(hx_http_server_listen_fd(kit.web, -1), 0);
    web_kit_fini(&kit);
}

/* --- without memory --- */

static bool one_call(void *context)
{
    static const char request[] = POST("/m") "Connection: close\r\nContent-Length: 600\r\n\r\n";
    struct web_kit *kit = context;
    struct hx_buf got;
    int fd = web_client(kit);
    bool is_done;

    web_send_text(kit, fd, request);
    send_filled(kit, fd, 'x', 600);
    /* The server's allocations are counted, not those of the test. */
    while (hx_http_server_connection_count(kit->web) == 0)
        web_kit_turn(kit);
    for (int i = 0; i < 3 || web_kit_has(kit, HX_WEB_REQUEST); i++) {
        web_kit_turn(kit);
        if (web_kit_has(kit, HX_WEB_REQUEST)) {
            struct hx_web_event *event = web_kit_take(kit, HX_WEB_REQUEST);
            struct hx_web_answer answer = {.status = 200};
            struct hx_buf body = event->request->body;
            hx_buf_init(&event->request->body, 0);
            kit->web->ops->answer(kit->web, event->exchange, &answer, &body, 9);
            hx_buf_fini(&body);
            hx_web_event_free(event);
        }
    }
    hx_alloc_fail_at(0);
    hx_buf_init(&got, 1 << 20);
    web_read(kit, fd, &got, NULL);
    is_done = got.len > 600 && memcmp(got.data, "HTTP/1.1 200 ", 13) == 0;
    if (!is_done && got.len > 0)
        assert_memory_equal(got.data, "HTTP/1.1 503 ", 13);
    hx_buf_fini(&got);
    assert_int_equal(close(fd), 0);
    web_kit_connections(kit, 0);
    return is_done;
}

static void without_memory_a_request_is_refused(void **state)
{
    struct web_kit kit;
    unsigned refused = 0;

    (void)state;
    web_kit_init(&kit, NULL);
    for (unsigned long n = 1;; n++) {
        struct hx_list *node;
        assert_true(n < 100);
        hx_alloc_fail_at(n);
        if (one_call(&kit))
            break;
        refused++;
        while ((node = hx_list_first(&kit.inbox)) != NULL)
            hx_web_event_free(hx_container_of(node, struct hx_web_event, node));
    }
    hx_alloc_fail_at(0);
    assert_true(refused > 2);
    web_kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ambiguous_is_answered_and_closed),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(many_pipelined_requests_are_all_answered),
        cmocka_unit_test(one_request_of_a_connection_at_a_time),
        cmocka_unit_test(a_request_says_what_it_was),
        cmocka_unit_test(the_client_that_waits_for_100_gets_it),
        cmocka_unit_test(heads_and_old_versions),
        cmocka_unit_test(what_is_too_large_is_refused_and_the_refusal_arrives),
        cmocka_unit_test(all_bodies_together_have_a_maximum),
        cmocka_unit_test(large_bodies_pass_both_ways),
        cmocka_unit_test(what_comes_too_slowly_is_refused),
        cmocka_unit_test(who_never_closes_is_closed_after_the_last_answer),
        cmocka_unit_test(a_new_client_takes_the_place_of_an_idle_one),
        cmocka_unit_test(a_unix_socket_is_private_and_removed),
        cmocka_unit_test(addresses_that_cannot_be_are_told),
        cmocka_unit_test(without_memory_a_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
