/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "web_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { GOT_MAX = 64 << 20 };

void web_kit_init(struct web_kit *kit, void (*change)(struct hx_http_server_options *options))
{
    *kit = (struct web_kit){.options = hx_http_server_defaults()};
    process_kit_init(&kit->process);
    hx_list_init(&kit->inbox);
    kit->options.linger_timeout_ms = 500;
    if (change != NULL)
        change(&kit->options);
    kit->web = hx_http_server_new(kit->process.loop, &kit->inbox, &kit->options);
    assert_int_equal(hx_http_server_listen_tcp(kit->web, "127.0.0.1", 0, &kit->port), 0);
}

void web_kit_fini(struct web_kit *kit)
{
    struct hx_list *node;

    kit->web = hx_http_server_free(kit->web);
    while ((node = hx_list_first(&kit->inbox)) != NULL) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        if (event->type != HX_WEB_WRITTEN)
            fail_msg("event %d was not expected", (int)event->type);
        hx_web_event_free(event);
    }
    process_kit_fini(&kit->process);
}

static struct hx_web_event *find_event(const struct web_kit *kit, enum hx_web_event_type type)
{
    hx_list_for_each (node, &kit->inbox) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        if (event->type == type)
            return event;
    }
    return NULL;
}

bool web_kit_has(const struct web_kit *kit, enum hx_web_event_type type)
{
    return find_event(kit, type) != NULL;
}

static void echo(struct web_kit *kit)
{
    static const struct hx_web_header headers[] = {
        {HX_SPAN_INIT("Content-Type"), HX_SPAN_INIT("text/plain")}};
    struct hx_web_answer answer = {.status = 200, .headers = headers, .header_count = 1};
    struct hx_web_event *event;

    while ((event = find_event(kit, HX_WEB_REQUEST)) != NULL) {
        struct hx_buf body;
        hx_buf_init(&body, GOT_MAX);
        (void)hx_buf_append_span(&body, event->request->method);
        (void)hx_buf_append_char(&body, ' ');
        (void)hx_buf_append_span(&body, event->request->path);
        (void)hx_buf_append_char(&body, ' ');
        (void)hx_buf_append_span(&body, hx_buf_span(&event->request->body));
        (void)hx_buf_append_char(&body, '\n');
        kit->web->ops->answer(kit->web, event->exchange, &answer, &body, ++kit->requests);
        hx_buf_fini(&body);
        hx_web_event_free(event);
    }
}

void web_kit_turn(struct web_kit *kit)
{
    assert_int_equal(hx_loop_run_once(kit->process.loop, 5), 0);
    if (kit->is_echoing)
        echo(kit);
    if (kit->on_turn != NULL)
        kit->on_turn(kit->on_turn_arg);
}

static time_t now_s(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec;
}

struct hx_web_event *web_kit_take(struct web_kit *kit, enum hx_web_event_type type)
{
    time_t limit = now_s() + process_kit_wait_ms() / 1000;
    struct hx_web_event *event;

    while ((event = find_event(kit, type)) == NULL) {
        if (now_s() > limit)
            fail_msg("waited in vain for event %d", (int)type);
        web_kit_turn(kit);
    }
    hx_list_unlink(&event->node);
    return event;
}

void web_kit_expect_tag(struct web_kit *kit, enum hx_web_event_type type, uint64_t tag)
{
    struct hx_web_event *event = web_kit_take(kit, type);

    assert_int_equal(event->tag, tag);
    hx_web_event_free(event);
}

void web_kit_expect_gone(struct web_kit *kit, uint64_t exchange, enum hx_web_gone gone)
{
    struct hx_web_event *event = web_kit_take(kit, HX_WEB_CLIENT_GONE);

    assert_int_equal(event->exchange, exchange);
    assert_int_equal(event->gone, gone);
    hx_web_event_free(event);
}

uint64_t web_kit_request(struct web_kit *kit, const char *path)
{
    struct hx_web_event *event = web_kit_take(kit, HX_WEB_REQUEST);
    uint64_t exchange = event->exchange;

    if (!hx_span_eq_cstr(event->request->path, path))
        fail_msg("expected a request for %s, came %.*s", path, HX_SPAN_FMT(event->request->path));
    hx_web_event_free(event);
    return exchange;
}

void web_kit_answer(struct web_kit *kit, uint64_t exchange, uint32_t status, const char *body,
                    uint64_t tag)
{
    struct hx_web_answer answer = {.status = status};
    struct hx_buf bytes;

    hx_buf_init(&bytes, GOT_MAX);
    assert_int_equal(hx_buf_append_cstr(&bytes, body), 0);
    kit->web->ops->answer(kit->web, exchange, &answer, &bytes, tag);
    hx_buf_fini(&bytes);
}

void web_kit_stream(struct web_kit *kit, uint64_t exchange)
{
    static const struct hx_web_header headers[] = {
        {HX_SPAN_INIT("Content-Type"), HX_SPAN_INIT("text/event-stream")}};
    struct hx_web_answer answer = {.status = 200, .headers = headers, .header_count = 1};

    kit->web->ops->stream_begin(kit->web, exchange, &answer);
}

void web_kit_event(struct web_kit *kit, uint64_t exchange, const char *text, uint64_t tag)
{
    struct hx_buf bytes;

    hx_buf_init(&bytes, GOT_MAX);
    assert_int_equal(hx_buf_append_cstr(&bytes, text), 0);
    kit->web->ops->stream_event(kit->web, exchange, &bytes, tag);
    assert_int_equal(bytes.len, 0);
}

void web_kit_connections(struct web_kit *kit, uint32_t count)
{
    time_t limit = now_s() + process_kit_wait_ms() / 1000;

    while (hx_http_server_connection_count(kit->web) != count) {
        if (now_s() > limit)
            fail_msg("%u connections instead of %u", hx_http_server_connection_count(kit->web),
                     count);
        web_kit_turn(kit);
    }
}

/* --- clients --- */

int web_client(struct web_kit *kit)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(kit->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

void web_send(struct web_kit *kit, int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            /* The server may have closed already; its answer tells more than our error. */
            if (errno == EPIPE || errno == ECONNRESET)
                return;
            assert_int_equal(errno, EAGAIN);
            web_kit_turn(kit);
            continue;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
}

void web_send_text(struct web_kit *kit, int fd, const char *text)
{
    web_send(kit, fd, text, strlen(text));
}

bool web_read(struct web_kit *kit, int fd, struct hx_buf *got, const char *needle)
{
    time_t limit = now_s() + process_kit_wait_ms() / 1000;
    static char bytes[1 << 16];
    size_t from = 0; /* no needle starts before it */

    for (;;) {
        ssize_t len;
        if (needle != NULL && got->len >= from + strlen(needle)) {
            if (memmem(got->data + from, got->len - from, needle, strlen(needle)) != NULL)
                return true;
            from = got->len - strlen(needle) + 1;
        }
        len = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len == 0 || (len < 0 && errno == ECONNRESET)) {
            if (needle != NULL)
                fail_msg("closed without \"%s\": %.*s", needle, (int)got->len, got->data);
            return len == 0;
        }
        if (len > 0) {
            assert_int_equal(hx_buf_append(got, bytes, (size_t)len), 0);
            continue;
        }
        assert_int_equal(errno, EAGAIN);
        if (now_s() > limit)
            fail_msg("waited in vain for \"%s\": %.*s", needle ? needle : "(end)", (int)got->len,
                     got->data ? got->data : "");
        web_kit_turn(kit);
    }
}

void web_expect(struct web_kit *kit, const char *request, const char *answer_start)
{
    struct hx_buf got;
    int fd = web_client(kit);

    hx_buf_init(&got, GOT_MAX);
    web_send_text(kit, fd, request);
    web_read(kit, fd, &got, NULL);
    if (got.len < strlen(answer_start) ||
        memcmp(hx_buf_span(&got).ptr, answer_start, strlen(answer_start)) != 0)
        fail_msg("%.60s...: expected %s, came %.*s", request, answer_start, (int)got.len,
                 got.data ? got.data : "");
    hx_buf_fini(&got);
    assert_int_equal(close(fd), 0);
}

void web_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    assert_int_equal(close(fd), 0);
}
