/* SPDX-License-Identifier: MIT */
/* Streams, clients that leave in every state, and what became of each answer. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sanitized.h"
#include "web_kit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

struct one {
    struct web_kit kit;
    struct hx_buf got;
    int fd;
    uint64_t exchange;
};

/* A server, and a client that waits for an answer. */
static void one_init(struct one *one, void (*change)(struct hx_http_server_options *options))
{
    web_kit_init(&one->kit, change);
    hx_buf_init(&one->got, 64 << 20);
    one->fd = web_client(&one->kit);
    web_send_text(&one->kit, one->fd, GET("/"));
    one->exchange = web_kit_request(&one->kit, "/");
}

static void one_fini(struct one *one)
{
    if (one->fd >= 0)
        assert_int_equal(close(one->fd), 0);
    hx_buf_fini(&one->got);
    web_kit_connections(&one->kit, 0);
    web_kit_fini(&one->kit);
}

/* --- streams --- */

static void events_leave_as_they_come(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_kit_stream(&one.kit, one.exchange);
    web_read(&one.kit, one.fd, &one.got, "Transfer-Encoding: chunked\r\n\r\n");
    web_kit_event(&one.kit, one.exchange, "data: a\n\n", 1);
    web_read(&one.kit, one.fd, &one.got, "9\r\ndata: a\n\n\r\n");
    web_kit_event(&one.kit, one.exchange, "data: 0123456789\n\n", 2);
    web_read(&one.kit, one.fd, &one.got, "12\r\ndata: 0123456789\n\n\r\n");
    assert_int_equal(one.kit.web->ops->queued_bytes(one.kit.web, one.exchange), 0);
    one.kit.web->ops->stream_end(one.kit.web, one.exchange);
    web_read(&one.kit, one.fd, &one.got, "\r\n0\r\n\r\n");
    web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 1);
    web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 2);
    web_kit_event(&one.kit, one.exchange, "data: late\n\n", 3);
    web_kit_expect_tag(&one.kit, HX_WEB_NOT_SENT, 3);
    /* The connection goes on. */
    web_send_text(&one.kit, one.fd, GET("/next"));
    one.exchange = web_kit_request(&one.kit, "/next");
    web_kit_answer(&one.kit, one.exchange, 200, "next", 4);
    web_read(&one.kit, one.fd, &one.got, "\r\n\r\nnext");
    one_fini(&one);
}

static void an_old_client_gets_its_stream_plain(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    assert_int_equal(close(one.fd), 0);
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_CLOSED);
    one.fd = web_client(&one.kit);
    web_send_text(&one.kit, one.fd, "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    one.exchange = web_kit_request(&one.kit, "/old");
    web_kit_stream(&one.kit, one.exchange);
    web_kit_event(&one.kit, one.exchange, "data: a\n\n", 0);
    one.kit.web->ops->stream_end(one.kit.web, one.exchange);
    web_read(&one.kit, one.fd, &one.got, NULL);
    assert_int_equal(hx_buf_append_char(&one.got, '\0'), 0);
    assert_string_equal(one.got.data, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                      "Connection: close\r\n\r\ndata: a\n\n");
    one_fini(&one);
}

static void a_stream_for_head_has_no_events(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_kit_answer(&one.kit, one.exchange, 200, "", 0);
    web_read(&one.kit, one.fd, &one.got, "\r\n\r\n");
    web_send_text(&one.kit, one.fd, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n" GET("/next"));
    one.exchange = web_kit_request(&one.kit, "/h");
    web_kit_stream(&one.kit, one.exchange);
    web_kit_event(&one.kit, one.exchange, "data: a\n\n", 1);
    web_kit_expect_tag(&one.kit, HX_WEB_NOT_SENT, 1);
    one.kit.web->ops->stream_end(one.kit.web, one.exchange);
    one.exchange = web_kit_request(&one.kit, "/next");
    web_kit_answer(&one.kit, one.exchange, 200, "next", 0);
    web_read(&one.kit, one.fd, &one.got, "chunked\r\n\r\nHTTP/1.1 200 OK\r\n");
    one_fini(&one);
}

static void fast_pings(struct hx_http_server_options *options)
{
    options->stream_ping_ms = 20;
}

static void a_silent_stream_says_that_it_lives(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, fast_pings);
    web_kit_stream(&one.kit, one.exchange);
    web_read(&one.kit, one.fd, &one.got, "\r\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
    web_kit_event(&one.kit, one.exchange, "data: a\n\n", 1);
    web_read(&one.kit, one.fd, &one.got, "9\r\ndata: a\n\n\r\n3\r\n:\n\n\r\n");
    assert_int_equal(close(one.fd), 0);
    one.fd = -1;
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_CLOSED);
    one_fini(&one);
}

/* --- slow readers --- */

static void small_queue(struct hx_http_server_options *options)
{
    options->queue_max_bytes = 100000;
    options->write_timeout_ms = 10000;
}

/* Writes events until something waits in the server. Returns the last tag. */
static uint64_t fill(struct one *one)
{
    static char text[1 << 16];
    uint64_t tag = 0;

    memset(text, 'x', sizeof text - 1);
    while (one->kit.web->ops->queued_bytes(one->kit.web, one->exchange) == 0) {
        assert_true(tag < 10000);
        web_kit_event(&one->kit, one->exchange, text, ++tag);
    }
    return tag;
}

/* Takes the fates of the tags 1 to `last`: each has one, and they are WRITTEN, at most one CUT,
 * then NOT_SENT. How much the kernel takes is its own affair. */
static void expect_fates(struct one *one, uint64_t last)
{
    static uint8_t fates[100000];
    uint8_t before = HX_WEB_WRITTEN;

    assert_true(last < sizeof fates);
    memset(fates, 0, sizeof fates);
    hx_list_for_each_safe (node, &one->kit.inbox) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        if (event->type == HX_WEB_CLIENT_GONE || event->type == HX_WEB_DRAINED)
            continue;
        assert_in_range(event->tag, 1, last);
        if (event->type == HX_WEB_TAKEN_BACK)
            assert_int_equal(fates[event->tag], HX_WEB_WRITTEN);
        else
            assert_int_equal(fates[event->tag], 0);
        fates[event->tag] = (uint8_t)event->type;
        hx_web_event_free(event);
    }
    for (uint64_t tag = 1; tag <= last; tag++) {
        uint8_t fate = fates[tag] == HX_WEB_TAKEN_BACK ? HX_WEB_WRITTEN : fates[tag];
        if (before == HX_WEB_WRITTEN)
            assert_in_range(fate, HX_WEB_WRITTEN, HX_WEB_CUT);
        else
            assert_int_equal(fate, HX_WEB_NOT_SENT);
        before = fate;
    }
    assert_int_not_equal(before, HX_WEB_WRITTEN);
}

static void who_lets_events_pile_up_is_cut_off(void **state)
{
    struct one one;
    uint64_t tag;

    (void)state;
    one_init(&one, small_queue);
    web_kit_stream(&one.kit, one.exchange);
    tag = fill(&one);
    while (!web_kit_has(&one.kit, HX_WEB_CLIENT_GONE))
        web_kit_event(&one.kit, one.exchange, "data: more and more and more and more\n\n", ++tag);
    expect_fates(&one, tag);
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_SLOW);
    one_fini(&one);
}

static void fast_write_timeout(struct hx_http_server_options *options)
{
    options->write_timeout_ms = 50;
    options->stream_ping_ms = 0;
}

static void who_reads_nothing_is_cut_off(void **state)
{
    struct one one;
    struct hx_web_event *gone;
    uint64_t tag;

    (void)state;
    one_init(&one, fast_write_timeout);
    web_kit_stream(&one.kit, one.exchange);
    tag = fill(&one);
    gone = web_kit_take(&one.kit, HX_WEB_CLIENT_GONE);
    assert_int_equal(gone->gone, HX_WEB_GONE_SLOW);
    hx_web_event_free(gone);
    expect_fates(&one, tag);
    one_fini(&one);
}

static void who_reads_late_gets_all(void **state)
{
    struct one one;
    uint64_t tag;

    (void)state;
    one_init(&one, NULL);
    web_kit_stream(&one.kit, one.exchange);
    tag = fill(&one);
    one.kit.web->ops->stream_end(one.kit.web, one.exchange);
    web_read(&one.kit, one.fd, &one.got, "\r\n0\r\n\r\n");
    for (uint64_t each = 1; each <= tag; each++)
        web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, each);
    assert_true(one.got.len > tag * 65535);
    one_fini(&one);
}

/* --- clients that leave --- */

static void a_client_that_leaves_is_noticed_in_every_state(void **state)
{
    static const char *const unread[] = {"", "P", "POST /next HTTP/1.1\r\nHost: h\r\n\r\n"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned how = 0; how < 3; how++) {
            for (unsigned is_stream = 0; is_stream < 2; is_stream++) {
                struct one one;
                one_init(&one, NULL);
                if (is_stream) {
                    web_kit_stream(&one.kit, one.exchange);
                    web_read(&one.kit, one.fd, &one.got, "\r\n\r\n");
                }
                /* Requests that nobody reads yet must not hide the end behind them. */
                web_send_text(&one.kit, one.fd, unread[i]);
                web_kit_turn(&one.kit);
                assert_true(one.kit.web->ops->is_alive(one.kit.web, one.exchange));
                if (how == 0) {
                    assert_int_equal(close(one.fd), 0);
                    one.fd = -1;
                } else if (how == 1) {
                    web_reset(one.fd);
                    one.fd = -1;
                } else {
                    assert_int_equal(shutdown(one.fd, SHUT_WR), 0);
                }
                web_kit_expect_gone(&one.kit, one.exchange,
                                    how == 1 ? HX_WEB_GONE_RESET : HX_WEB_GONE_CLOSED);
                assert_false(one.kit.web->ops->is_alive(one.kit.web, one.exchange));
                assert_false(web_kit_has(&one.kit, HX_WEB_REQUEST));
                one_fini(&one);
            }
        }
    }
}

static void who_leaves_with_the_request_is_gone_too(void **state)
{
    struct web_kit kit;

    (void)state;
    web_kit_init(&kit, NULL);
    for (unsigned how = 0; how < 2; how++) {
        int fd = web_client(&kit);
        web_send_text(&kit, fd, GET("/bye"));
        if (how == 0)
            assert_int_equal(close(fd), 0);
        else
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
        /* The request is handed over: it is whole. */
        uint64_t exchange = web_kit_request(&kit, "/bye");
        web_kit_expect_gone(&kit, exchange, HX_WEB_GONE_CLOSED);
        if (how == 1)
            assert_int_equal(close(fd), 0);
    }
    /* Half a request is none. */
    for (unsigned how = 0; how < 2; how++) {
        int fd = web_client(&kit);
        web_send_text(&kit, fd,
                      how == 0 ? "GET / HT"
                               : "POST / HTTP/1.1\r\nHost: h\r\n"
                                 "Content-Length: 5\r\n\r\nhell");
        for (int i = 0; i < 3; i++)
            web_kit_turn(&kit);
        assert_int_equal(close(fd), 0);
    }
    web_kit_connections(&kit, 0);
    assert_false(web_kit_has(&kit, HX_WEB_REQUEST));
    web_kit_fini(&kit);
}

static void asking_is_enough_to_notice(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_reset(one.fd);
    one.fd = -1;
    /* No turn of the loop between: the descriptor is asked. */
    assert_false(one.kit.web->ops->is_alive(one.kit.web, one.exchange));
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_RESET);
    web_kit_answer(&one.kit, one.exchange, 200, "nobody", 1);
    web_kit_expect_tag(&one.kit, HX_WEB_NOT_SENT, 1);
    one_fini(&one);
}

enum { STREAMS = 500 };

static void five_hundred_streams_whose_clients_leave_at_once(void **state)
{
    static int fds[STREAMS];
    static uint64_t exchanges[STREAMS];
    struct web_kit kit;
    struct hx_web_event *event;

    (void)state;
    web_kit_init(&kit, NULL);
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = web_client(&kit);
        web_send_text(&kit, fds[i], GET("/"));
        exchanges[i] = web_kit_request(&kit, "/");
        web_kit_stream(&kit, exchanges[i]);
    }
    for (int i = 0; i < STREAMS; i++) {
        if (i % 2 == 0)
            web_reset(fds[i]);
        else
            assert_int_equal(close(fds[i]), 0);
    }
    /* Nobody has anything to write. */
    for (int i = 0; i < STREAMS; i++) {
        event = web_kit_take(&kit, HX_WEB_CLIENT_GONE);
        assert_false(kit.web->ops->is_alive(kit.web, event->exchange));
        hx_web_event_free(event);
    }
    assert_int_equal(hx_http_server_connection_count(kit.web), 0);
    web_kit_fini(&kit);
}

static size_t heap_bytes(void)
{
    return KIT_HAS_ASAN ? 0 : mallinfo2().uordblks; /* a sanitizer's allocator does not say */
}

static void an_idle_stream_costs_little(void **state)
{
    enum { STREAM_BYTES_MAX = 4096 };
    static int fds[STREAMS];
    struct web_kit kit;
    size_t before;
    size_t each;

    (void)state;
    web_kit_init(&kit, NULL);
    before = heap_bytes();
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = web_client(&kit);
        web_send_text(&kit, fds[i], GET("/"));
        web_kit_stream(&kit, web_kit_request(&kit, "/"));
    }
    each = (heap_bytes() - before) / STREAMS;
    print_message("# %zu bytes for each idle stream\n", each);
    assert_in_range(each, 0, STREAM_BYTES_MAX);
    kit.web->ops->close(kit.web);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(close(fds[i]), 0);
        hx_web_event_free(web_kit_take(&kit, HX_WEB_CLIENT_GONE));
    }
    hx_web_event_free(web_kit_take(&kit, HX_WEB_DRAINED));
    web_kit_fini(&kit);
}

/* --- what became of an answer --- */

static void an_answer_that_was_read_stays_sent(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_kit_answer(&one.kit, one.exchange, 200, "read", 1);
    web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 1);
    web_read(&one.kit, one.fd, &one.got, "read");
    assert_int_equal(close(one.fd), 0);
    one.fd = -1;
    web_kit_connections(&one.kit, 0);
    assert_false(web_kit_has(&one.kit, HX_WEB_TAKEN_BACK));
    one_fini(&one);
}

static void an_answer_that_was_not_read_is_taken_back(void **state)
{
    (void)state;
    /* Killed, or closed with the answer unread: the kernel resets. */
    for (unsigned how = 0; how < 2; how++) {
        struct one one;
        one_init(&one, NULL);
        web_kit_answer(&one.kit, one.exchange, 200, "unread", 1);
        web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 1);
        if (how == 0)
            web_reset(one.fd);
        else
            assert_int_equal(close(one.fd), 0);
        one.fd = -1;
        web_kit_expect_tag(&one.kit, HX_WEB_TAKEN_BACK, 1);
        one_fini(&one);
    }
}

static void the_next_request_says_that_the_answer_was_read(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_kit_answer(&one.kit, one.exchange, 200, "read", 1);
    web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 1);
    web_read(&one.kit, one.fd, &one.got, "read");
    web_send_text(&one.kit, one.fd, GET("/next"));
    one.exchange = web_kit_request(&one.kit, "/next");
    web_reset(one.fd);
    one.fd = -1;
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_RESET);
    assert_false(web_kit_has(&one.kit, HX_WEB_TAKEN_BACK));
    one_fini(&one);
}

static void a_request_sent_before_the_answer_says_nothing_of_it(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    web_send_text(&one.kit, one.fd, GET("/next"));
    web_kit_answer(&one.kit, one.exchange, 200, "unread", 1);
    web_kit_expect_tag(&one.kit, HX_WEB_WRITTEN, 1);
    one.exchange = web_kit_request(&one.kit, "/next");
    web_reset(one.fd);
    one.fd = -1;
    web_kit_expect_tag(&one.kit, HX_WEB_TAKEN_BACK, 1);
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_RESET);
    one_fini(&one);
}

static void soon(struct hx_http_server_options *options)
{
    options->taken_back_within_ms = 20;
    options->stream_ping_ms = 40;
}

static void a_late_reset_says_nothing_of_an_answer(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon);
    web_kit_stream(&one.kit, one.exchange);
    web_kit_event(&one.kit, one.exchange, "data: a\n\n", 1);
    web_read(&one.kit, one.fd, &one.got,
             "a\n\n\r\n3\r\n:\n\n\r\n"); /* the ping comes after 40 ms */
    web_kit_event(&one.kit, one.exchange, "data: b\n\n", 2);
    web_reset(one.fd);
    one.fd = -1;
    web_kit_expect_tag(&one.kit, HX_WEB_TAKEN_BACK, 2);
    assert_false(web_kit_has(&one.kit, HX_WEB_TAKEN_BACK));
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_RESET);
    one_fini(&one);
}

static void a_large_answer_that_is_not_read_is_cut(void **state)
{
    enum { SIZE = 16 << 20 };
    struct one one;
    struct hx_web_answer answer = {.status = 200};
    struct hx_buf body;

    (void)state;
    one_init(&one, NULL);
    hx_buf_init(&body, SIZE);
    assert_int_equal(hx_buf_reserve(&body, SIZE), 0);
    memset(body.data, 'b', SIZE);
    body.len = SIZE;
    one.kit.web->ops->answer(one.kit.web, one.exchange, &answer, &body, 1);
    assert_int_equal(body.len, 0);
    web_kit_turn(&one.kit);
    assert_true(one.kit.web->ops->queued_bytes(one.kit.web, one.exchange) > 0);
    assert_int_equal(close(one.fd), 0);
    one.fd = -1;
    web_kit_expect_tag(&one.kit, HX_WEB_CUT, 1);
    assert_false(web_kit_has(&one.kit, HX_WEB_WRITTEN));
    assert_false(web_kit_has(&one.kit, HX_WEB_CLIENT_GONE));
    one_fini(&one);
}

static void on_a_unix_socket_too(void **state)
{
    (void)state;
    for (unsigned is_read = 0; is_read < 2; is_read++) {
        struct web_kit kit;
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        struct hx_buf got;
        int fd;

        web_kit_init(&kit, NULL);
        hx_buf_init(&got, 1 << 20);
        (void)snprintf(to.sun_path, sizeof to.sun_path, "%s/web", kit.process.dir);
        assert_int_equal(hx_http_server_listen_unix(kit.web, to.sun_path), 0);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        web_send_text(&kit, fd, GET("/"));
        web_kit_answer(&kit, web_kit_request(&kit, "/"), 200, "answer", 1);
        web_kit_expect_tag(&kit, HX_WEB_WRITTEN, 1);
        if (is_read)
            web_read(&kit, fd, &got, "answer");
        assert_int_equal(close(fd), 0);
        web_kit_connections(&kit, 0);
        assert_int_equal(web_kit_has(&kit, HX_WEB_TAKEN_BACK), !is_read);
        if (!is_read)
            web_kit_expect_tag(&kit, HX_WEB_TAKEN_BACK, 1);
        hx_buf_fini(&got);
        web_kit_fini(&kit);
    }
}

/* --- the end of the server --- */

static void draining_ends_what_is_idle_and_waits_for_the_rest(void **state)
{
    struct one one;
    int idle;
    int late;

    (void)state;
    one_init(&one, NULL);
    idle = web_client(&one.kit);
    late = web_client(&one.kit);
    web_send_text(&one.kit, late, "GET /late HTTP/1.1\r\nHost");
    web_kit_connections(&one.kit, 3);
    for (int i = 0; i < 3; i++)
        web_kit_turn(&one.kit);
    one.kit.web->ops->drain(one.kit.web);
    web_read(&one.kit, idle, &one.got, NULL);
    assert_int_equal(one.got.len, 0);
    assert_int_equal(close(idle), 0);
    /* A request of which something has come is still taken. */
    web_send_text(&one.kit, late, ": h\r\n\r\n");
    uint64_t exchange = web_kit_request(&one.kit, "/late");
    web_kit_answer(&one.kit, exchange, 200, "last", 1);
    web_read(&one.kit, late, &one.got, NULL);
    assert_non_null(memmem(one.got.data, one.got.len, "Connection: close\r\n", 19));
    assert_non_null(memmem(one.got.data, one.got.len, "last", 4));
    assert_int_equal(close(late), 0);
    assert_false(web_kit_has(&one.kit, HX_WEB_DRAINED));
    web_kit_answer(&one.kit, one.exchange, 200, "done", 2);
    web_read(&one.kit, one.fd, &one.got, NULL);
    assert_int_equal(close(one.fd), 0);
    one.fd = -1;
    hx_web_event_free(web_kit_take(&one.kit, HX_WEB_DRAINED));
    one_fini(&one);
}

static void closing_tells_every_fate(void **state)
{
    struct one one;
    uint64_t tag;

    (void)state;
    one_init(&one, NULL);
    web_kit_stream(&one.kit, one.exchange);
    tag = fill(&one);
    web_kit_event(&one.kit, one.exchange, "data: never\n\n", ++tag);
    one.kit.web->ops->close(one.kit.web);
    expect_fates(&one, tag);
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_OURS);
    hx_web_event_free(web_kit_take(&one.kit, HX_WEB_DRAINED));
    one_fini(&one);
}

static void one_client_can_be_cut_off(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL);
    one.kit.web->ops->cut(one.kit.web, one.exchange);
    one.kit.web->ops->cut(one.kit.web, one.exchange);
    web_kit_expect_gone(&one.kit, one.exchange, HX_WEB_GONE_OURS);
    web_read(&one.kit, one.fd, &one.got, NULL);
    one_fini(&one);
}

static void while_held_nothing_is_read_and_leaving_is_noticed(void **state)
{
    struct one one;
    int other;

    (void)state;
    one_init(&one, NULL);
    other = web_client(&one.kit);
    web_kit_connections(&one.kit, 2);
    one.kit.web->ops->hold(one.kit.web, true);
    web_send_text(&one.kit, other, GET("/held"));
    web_send_text(&one.kit, one.fd, GET("/pipelined"));
    assert_int_equal(close(web_client(&one.kit)), 0);
    for (int i = 0; i < 5; i++)
        web_kit_turn(&one.kit);
    web_kit_answer(&one.kit, one.exchange, 200, "answer", 1);
    web_read(&one.kit, one.fd, &one.got, "answer");
    assert_false(web_kit_has(&one.kit, HX_WEB_REQUEST));
    assert_int_equal(hx_http_server_connection_count(one.kit.web), 2);
    one.kit.web->ops->hold(one.kit.web, false);
    one.exchange = web_kit_request(&one.kit, "/pipelined");
    uint64_t held = web_kit_request(&one.kit, "/held");
    one.kit.web->ops->hold(one.kit.web, true);
    assert_int_equal(close(other), 0);
    web_kit_expect_gone(&one.kit, held, HX_WEB_GONE_CLOSED);
    one.kit.web->ops->hold(one.kit.web, false);
    web_kit_answer(&one.kit, one.exchange, 200, "", 0);
    /* What is here already waits as well. */
    web_send_text(&one.kit, one.fd, GET("/1") GET("/2"));
    one.exchange = web_kit_request(&one.kit, "/1");
    one.kit.web->ops->hold(one.kit.web, true);
    web_kit_answer(&one.kit, one.exchange, 200, "", 0);
    for (int i = 0; i < 3; i++)
        web_kit_turn(&one.kit);
    assert_false(web_kit_has(&one.kit, HX_WEB_REQUEST));
    one.kit.web->ops->hold(one.kit.web, false);
    web_kit_answer(&one.kit, web_kit_request(&one.kit, "/2"), 200, "", 0);
    one_fini(&one);
}

static void two_answers(struct hx_http_server_options *options)
{
    options->answers_max_bytes = 65 << 20;
}

/* Far more than sockets hold, so that each waits with us but for what they hold. */
static void unread_answers_are_bounded(void **state)
{
    const size_t size = 32 << 20;
    char *body = malloc(size + 1);
    struct web_kit kit;
    int fds[3];

    (void)state;
    assert_non_null(body);
    memset(body, 'x', size);
    body[size] = '\0';
    web_kit_init(&kit, two_answers);
    for (uint64_t i = 0; i < 3; i++) {
        fds[i] = web_client(&kit);
        web_send_text(&kit, fds[i], "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_false(web_kit_has(&kit, HX_WEB_CUT));
        web_kit_answer(&kit, web_kit_request(&kit, "/a"), 200, body, i + 1);
        web_kit_turn(&kit);
    }
    web_kit_expect_tag(&kit, HX_WEB_CUT, 1);
    assert_false(web_kit_has(&kit, HX_WEB_CUT));
    web_reset(fds[0]);
    for (uint64_t i = 1; i < 3; i++) {
        web_reset(fds[i]);
        web_kit_expect_tag(&kit, HX_WEB_CUT, i + 1);
    }
    web_kit_fini(&kit);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_leave_as_they_come),
        cmocka_unit_test(an_old_client_gets_its_stream_plain),
        cmocka_unit_test(a_stream_for_head_has_no_events),
        cmocka_unit_test(a_silent_stream_says_that_it_lives),
        cmocka_unit_test(who_lets_events_pile_up_is_cut_off),
        cmocka_unit_test(who_reads_nothing_is_cut_off),
        cmocka_unit_test(who_reads_late_gets_all),
        cmocka_unit_test(a_client_that_leaves_is_noticed_in_every_state),
        cmocka_unit_test(who_leaves_with_the_request_is_gone_too),
        cmocka_unit_test(asking_is_enough_to_notice),
        cmocka_unit_test(five_hundred_streams_whose_clients_leave_at_once),
        cmocka_unit_test(an_idle_stream_costs_little),
        cmocka_unit_test(an_answer_that_was_read_stays_sent),
        cmocka_unit_test(an_answer_that_was_not_read_is_taken_back),
        cmocka_unit_test(the_next_request_says_that_the_answer_was_read),
        cmocka_unit_test(a_request_sent_before_the_answer_says_nothing_of_it),
        cmocka_unit_test(a_late_reset_says_nothing_of_an_answer),
        cmocka_unit_test(a_large_answer_that_is_not_read_is_cut),
        cmocka_unit_test(on_a_unix_socket_too),
        cmocka_unit_test(draining_ends_what_is_idle_and_waits_for_the_rest),
        cmocka_unit_test(closing_tells_every_fate),
        cmocka_unit_test(one_client_can_be_cut_off),
        cmocka_unit_test(while_held_nothing_is_read_and_leaving_is_noticed),
        cmocka_unit_test(unread_answers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
