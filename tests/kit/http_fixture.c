/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"

void http_fixture_init(struct http_fixture *fixture, const char *const *args)
{
    *fixture = (struct http_fixture){.generation = 1};
    process_kit_init(&fixture->kit);
    http_kit_start(&fixture->http, &fixture->kit, args);
    fixture->options = hx_http_client_defaults();
    fixture->options.url = fixture->http.url;
    fixture->options.has_short_way = getenv("HX_HTTP_BY_LIBCURL") == NULL;
    fixture->options.proxy = ""; /* whatever the environment says */
    fixture->options.retry_ms = 10;
    fixture->options.retry_max_ms = 100;
}

void http_fixture_init_script(struct http_fixture *fixture, const char *script)
{
    const char *args[] = {script, NULL};

    http_fixture_init(fixture, args);
}

void http_fixture_open(struct http_fixture *fixture)
{
    int rc =
        hx_http_client_new(fixture->kit.loop, &fixture->kit.inbox, &fixture->options, &fixture->up);

    if (rc != 0)
        fail_msg("no client: %s", hx_fault_last()->text);
    fixture->up->ops->start(fixture->up, fixture->generation);
    hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_STARTED));
}

void http_fixture_close(struct http_fixture *fixture)
{
    fixture->up->ops->stop(fixture->up);
    hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_CLOSED));
    fixture->up = hx_http_client_free(fixture->up);
}

void http_fixture_end_server(struct http_fixture *fixture)
{
    if (fixture->up != NULL) {
        fixture->up->ops->kill(fixture->up);
        fixture->up = hx_http_client_free(fixture->up);
    }
    http_kit_stop(&fixture->http);
}

void http_fixture_fini(struct http_fixture *fixture)
{
    fixture->up = hx_http_client_free(fixture->up);
    http_kit_stop(&fixture->http);
    process_kit_fini(&fixture->kit);
}

void http_fixture_send(struct http_fixture *fixture, const char *text, uint64_t tag)
{
    struct hx_buf line = process_kit_line(text);

    fixture->up->ops->send(fixture->up, &line, tag);
    hx_buf_fini(&line);
}

void http_fixture_call(struct http_fixture *fixture, unsigned id, const char *steps)
{
    struct hx_buf text;

    hx_buf_init(&text, 1 << 22);
    assert_int_equal(hx_buf_printf(&text,
                                   "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
                                   "\"params\":{\"name\":\"t\",\"arguments\":{%s%s}}}",
                                   id, steps != NULL ? "\"steps\":" : "",
                                   steps != NULL ? steps : ""),
                     0);
    fixture->up->ops->send(fixture->up, &text, id);
    hx_buf_fini(&text);
}

void http_fixture_greet(struct http_fixture *fixture, const char *version)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"initialize\",\"params\":"
                   "{\"protocolVersion\":\"%s\",\"capabilities\":{}}}",
                   HTTP_INITIALIZE_ID, version);
    http_fixture_send(fixture, text, HTTP_INITIALIZE_ID);
    http_fixture_expect_answer(fixture, HTTP_INITIALIZE_ID, "protocolVersion");
    http_fixture_send(fixture, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
                      HTTP_INITIALIZED_TAG);
}

static bool is_end(const struct hx_peer_event *event)
{
    switch (event->type) {
    case HX_PEER_MESSAGE:
    case HX_PEER_OVERSIZE:
        return event->is_answer;
    case HX_PEER_ANSWER_LOST:
    case HX_PEER_REJECTED:
    case HX_PEER_NOT_SENT:
        return true;
    default:
        return false;
    }
}

struct end_wait {
    const struct http_fixture *fixture;
    uint64_t tag;
};

static struct hx_peer_event *find_end(const struct http_fixture *fixture, uint64_t tag)
{
    hx_list_for_each (node, &fixture->kit.inbox) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->tag == tag && is_end(event))
            return event;
    }
    return NULL;
}

static bool has_end(void *arg)
{
    const struct end_wait *wait = arg;

    return find_end(wait->fixture, wait->tag) != NULL;
}

struct hx_peer_event *http_fixture_end_of(struct http_fixture *fixture, uint64_t tag)
{
    struct end_wait wait = {fixture, tag};
    struct hx_peer_event *event;
    char what[48];

    (void)snprintf(what, sizeof what, "the end of message %llu", (unsigned long long)tag);
    process_kit_until(&fixture->kit, has_end, &wait, what);
    event = find_end(fixture, tag);
    hx_list_unlink(&event->node);
    assert_int_equal(event->generation, fixture->generation);
    return event;
}

static struct hx_peer_event *expect(struct http_fixture *fixture, uint64_t tag,
                                    enum hx_peer_event_type type)
{
    struct hx_peer_event *event = http_fixture_end_of(fixture, tag);

    if (event->type != type)
        fail_msg("message %llu ended with event %d (loss %d, status %d: %.*s), expected %d",
                 (unsigned long long)tag, (int)event->type, (int)event->loss, event->status,
                 HX_SPAN_FMT(hx_buf_span(&event->line)), (int)type);
    return event;
}

void http_fixture_expect_answer(struct http_fixture *fixture, uint64_t tag, const char *line)
{
    struct hx_peer_event *event = expect(fixture, tag, HX_PEER_MESSAGE);

    if (line != NULL && memmem(event->line.data, event->line.len, line, strlen(line)) == NULL)
        fail_msg("%.*s does not hold %s", HX_SPAN_FMT(hx_buf_span(&event->line)), line);
    assert_null(memchr(event->line.data, '\n', event->line.len));
    hx_peer_event_free(event);
}

void http_fixture_expect_lost(struct http_fixture *fixture, uint64_t tag, enum hx_peer_loss loss,
                              int status)
{
    struct hx_peer_event *event = expect(fixture, tag, HX_PEER_ANSWER_LOST);

    assert_int_equal(event->loss, loss);
    if (status != HTTP_FIXTURE_ANY_STATUS)
        assert_int_equal(event->status, status);
    hx_peer_event_free(event);
}

void http_fixture_expect_rejected(struct http_fixture *fixture, uint64_t tag, int status)
{
    struct hx_peer_event *event = expect(fixture, tag, HX_PEER_REJECTED);

    assert_int_equal(event->status, status);
    hx_peer_event_free(event);
}

void http_fixture_expect_not_sent(struct http_fixture *fixture, uint64_t tag)
{
    hx_peer_event_free(expect(fixture, tag, HX_PEER_NOT_SENT));
}

size_t http_fixture_count(const struct http_fixture *fixture, enum hx_peer_event_type type,
                          uint64_t tag)
{
    size_t count = 0;

    hx_list_for_each (node, &fixture->kit.inbox) {
        const struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        count += event->type == type && event->tag == tag;
    }
    return count;
}

void http_fixture_forget(struct http_fixture *fixture)
{
    struct hx_list *node;

    while ((node = hx_list_first(&fixture->kit.inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

struct touch_wait {
    const struct http_fixture *fixture;
    const char *name;
};

static bool is_touched(void *arg)
{
    const struct touch_wait *wait = arg;
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", wait->fixture->kit.dir, wait->name);
    return access(path, F_OK) == 0;
}

void http_fixture_until_touched(struct http_fixture *fixture, const char *name)
{
    struct touch_wait wait = {fixture, name};

    process_kit_until(&fixture->kit, is_touched, &wait, name);
}

struct clock_wait {
    const struct hx_loop *loop;
    struct hx_mono until;
};

static bool is_late(void *arg)
{
    const struct clock_wait *wait = arg;

    return hx_mono_reached(hx_loop_now(wait->loop), wait->until);
}

void http_fixture_run_ms(struct http_fixture *fixture, int64_t ms)
{
    struct clock_wait wait = {fixture->kit.loop, hx_mono_after(hx_loop_now(fixture->kit.loop), ms)};

    process_kit_until(&fixture->kit, is_late, &wait, "the clock");
}

struct hx_http_client_counters http_fixture_counters(const struct http_fixture *fixture)
{
    return hx_http_client_counters(fixture->up);
}
