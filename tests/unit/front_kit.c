/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "front_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/clock_os/clock_os.h"
#include "base/alloc.h"

enum { GOT_MAX = 64 << 20 };

static time_t now_s(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec;
}

/* `Bearer NAME` is NAME; without one: nobody, unless the test says otherwise. */
static bool authenticate(void *context, struct hx_span authorization, bool is_local,
                         struct hx_http_caller *ret_caller)
{
    (void)context;
    (void)is_local;
    if (hx_span_eq_cstr(authorization, "Bearer ann"))
        ret_caller->principal = HX_SPAN_LIT("ann");
    else if (hx_span_eq_cstr(authorization, "Bearer bob"))
        ret_caller->principal = HX_SPAN_LIT("bob");
    else
        return false;
    ret_caller->tenant = HX_SPAN_LIT("t");
    return true;
}

static int find_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller)
{
    (void)context;
    (void)caller;
    if (hx_span_eq_cstr(path, "/mcp"))
        return 0;
    return hx_span_eq_cstr(path, "/mcp/files") ? 1 : -1;
}

static void turn(void *arg)
{
    struct front_kit *kit = arg;

    while (hx_http_front_turn(kit->front)) {
    }
}

void front_kit_init(struct front_kit *kit, void (*change)(struct hx_http_front_options *options))
{
    memset(kit, 0, sizeof *kit);
    web_kit_init(&kit->web, NULL);
    hx_list_init(&kit->peers);
    hx_list_init(&kit->fronts);
    hx_buf_init(&kit->got, GOT_MAX);
    kit->options = hx_http_front_defaults();
    kit->options.rand = hx_rand_os();
    kit->options.peer_inbox = &kit->peers;
    kit->options.front_inbox = &kit->fronts;
    kit->options.authenticate = authenticate;
    kit->options.find_endpoint = find_endpoint;
    if (change != NULL)
        change(&kit->options);
    kit->front = hx_http_front_new(kit->web.process.loop, kit->web.web, &kit->options);
    kit->web.on_turn = turn;
    kit->web.on_turn_arg = kit;
}

void front_kit_fini(struct front_kit *kit)
{
    struct hx_list *node;

    front_kit_settle(kit);
    while ((node = hx_list_first(&kit->peers)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->type != HX_PEER_WRITTEN)
            fail_msg("event %d of tag %llu, exchange %llu was not expected", (int)event->type,
                     (unsigned long long)event->tag, (unsigned long long)event->exchange);
        hx_peer_event_free(event);
    }
    assert_true(hx_list_is_empty(&kit->fronts));
    kit->front = hx_http_front_free(kit->front);
    kit->web.on_turn = NULL;
    assert_true(hx_list_is_empty(&kit->peers));
    hx_buf_fini(&kit->got);
    web_kit_fini(&kit->web);
}

void front_kit_settle(struct front_kit *kit)
{
    for (unsigned i = 0; i < 3; i++)
        web_kit_turn(&kit->web);
}

static struct hx_peer_event *find(const struct front_kit *kit, enum hx_peer_event_type type)
{
    hx_list_for_each (node, &kit->peers) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->type == type)
            return event;
    }
    return NULL;
}

bool front_kit_has(const struct front_kit *kit, enum hx_peer_event_type type)
{
    return find(kit, type) != NULL;
}

struct hx_peer_event *front_kit_take(struct front_kit *kit, enum hx_peer_event_type type)
{
    time_t limit = now_s() + process_kit_wait_ms() / 1000;
    struct hx_peer_event *event;

    turn(kit);
    while ((event = find(kit, type)) == NULL) {
        if (now_s() > limit)
            fail_msg("waited in vain for event %d", (int)type);
        web_kit_turn(&kit->web);
    }
    hx_list_unlink(&event->node);
    return event;
}

struct hx_http_front_event *front_kit_take_front(struct front_kit *kit,
                                                 enum hx_http_front_event_type type)
{
    time_t limit = now_s() + process_kit_wait_ms() / 1000;
    struct hx_http_front_event *event;
    struct hx_list *node;

    while ((node = hx_list_take_first(&kit->fronts)) == NULL) {
        if (now_s() > limit)
            fail_msg("waited in vain for front event %d", (int)type);
        web_kit_turn(&kit->web);
    }
    event = hx_container_of(node, struct hx_http_front_event, node);
    assert_int_equal(event->type, type);
    return event;
}

void front_kit_expect_tag(struct front_kit *kit, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = front_kit_take(kit, type);

    assert_int_equal(event->tag, tag);
    hx_peer_event_free(event);
}

void front_kit_expect_gone(struct front_kit *kit, uint64_t exchange)
{
    struct hx_peer_event *event = front_kit_take(kit, HX_PEER_EXCHANGE_GONE);

    assert_int_equal(event->exchange, exchange);
    hx_peer_event_free(event);
}

uint64_t front_kit_message(struct front_kit *kit, const char *line)
{
    struct hx_peer_event *event = front_kit_take(kit, HX_PEER_MESSAGE);
    uint64_t exchange = event->exchange;

    if (line != NULL && !hx_span_eq_cstr(hx_buf_span(&event->line), line))
        fail_msg("expected %s, came %.*s", line, (int)event->line.len, event->line.data);
    hx_peer_event_free(event);
    return exchange;
}

void front_kit_send(struct front_kit *kit, enum hx_sending_kind kind, uint64_t exchange,
                    const char *line, uint64_t tag)
{
    struct hx_sending sending = {.tag = tag, .exchange = exchange, .kind = kind};
    struct hx_buf bytes;

    hx_buf_init(&bytes, GOT_MAX);
    assert_int_equal(hx_buf_append_cstr(&bytes, line), 0);
    kit->session->ops->send(kit->session, &bytes, &sending);
    assert_int_equal(bytes.len, 0);
    hx_buf_fini(&bytes);
    turn(kit);
}

/* --- clients --- */

void front_kit_read(struct front_kit *kit, int fd, const char *needle)
{
    hx_buf_reset(&kit->got);
    web_read(&kit->web, fd, &kit->got, needle);
    assert_int_equal(hx_buf_append_char(&kit->got, '\0'), 0);
}

static void request(struct front_kit *kit, int fd, const char *method, const char *more,
                    const char *body)
{
    static char text[1 << 16];
    int len = snprintf(text, sizeof text,
                       "%s /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\n"
                       "Accept: application/json, text/event-stream\r\n%s%s%s%s%s",
                       method, kit->id[0] != '\0' ? "Mcp-Session-Id: " : "", kit->id,
                       kit->id[0] != '\0' ? "\r\n" : "", more,
                       body != NULL ? "Content-Type: application/json\r\n" : "");

    assert_true(len > 0 && (size_t)len < sizeof text);
    web_send(&kit->web, fd, text, (size_t)len);
    if (body == NULL)
        len = snprintf(text, sizeof text, "\r\n");
    else
        len = snprintf(text, sizeof text, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    assert_true(len > 0 && (size_t)len < sizeof text);
    web_send(&kit->web, fd, text, (size_t)len);
}

void front_kit_post_on(struct front_kit *kit, int fd, const char *more, const char *body)
{
    request(kit, fd, "POST", more, body);
}

int front_kit_post(struct front_kit *kit, const char *more, const char *body)
{
    int fd = web_client(&kit->web);

    request(kit, fd, "POST", more, body);
    return fd;
}

int front_kit_get(struct front_kit *kit, const char *more)
{
    int fd = web_client(&kit->web);

    request(kit, fd, "GET", more, NULL);
    return fd;
}

int front_kit_delete(struct front_kit *kit)
{
    int fd = web_client(&kit->web);

    request(kit, fd, "DELETE", "", NULL);
    return fd;
}

void front_kit_begin(struct front_kit *kit)
{
    static const char head[] = "Mcp-Session-Id: ";
    struct hx_http_front_event *event;
    uint64_t exchange;
    const char *at;
    int fd;

    kit->id[0] = '\0';
    fd = front_kit_post(kit, "", "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}");
    event = front_kit_take_front(kit, HX_HTTP_FRONT_SESSION_NEW);
    kit->session = event->downstream;
    hx_http_front_event_free(event);
    exchange = front_kit_message(kit, NULL);
    front_kit_send(kit, HX_SENDING_ANSWER, exchange,
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-06-18\"}}",
                   0);
    front_kit_read(kit, fd, "2025-06-18\"}}");
    at = strstr(kit->got.data, head);
    assert_non_null(at);
    memcpy(kit->id, at + strlen(head), 64);
    kit->id[64] = '\0';
    assert_int_equal(close(fd), 0);
}

void front_kit_last_id(const struct front_kit *kit, char *ret_id)
{
    const char *at = kit->got.data;
    const char *last = NULL;

    while ((at = strstr(at, "id: ")) != NULL) {
        at += 4;
        last = at;
    }
    assert_non_null(last);
    assert_true(strcspn(last, "\n") < 128);
    memcpy(ret_id, last, strcspn(last, "\n"));
    ret_id[strcspn(last, "\n")] = '\0';
}
