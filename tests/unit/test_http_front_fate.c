/* SPDX-License-Identifier: MIT */
/* MCP's front: what becomes of messages whose session is over, or that no stream can carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "front_kit.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"

/* One answer, written and unread. */
static int written_once(struct front_kit *kit, uint64_t tag)
{
    int fd;

    front_kit_begin(kit);
    fd = front_kit_post(kit, "", PING);
    front_kit_send(kit, HX_SENDING_ANSWER, front_kit_message(kit, PING), "{}", tag);
    front_kit_expect_tag(kit, HX_PEER_WRITTEN, tag);
    return fd;
}

static void expect_taken_back_of_nobody(struct front_kit *kit, uint64_t tag)
{
    struct hx_peer_event *event = front_kit_take(kit, HX_PEER_TAKEN_BACK);

    assert_int_equal(event->tag, tag);
    assert_null(event->downstream);
    hx_peer_event_free(event);
}

/* That its session ended says nothing of whether an answer was read. */
static void an_answer_is_taken_back_after_its_session(void **state)
{
    struct front_kit kit;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    fd = written_once(&kit, 9);
    hx_http_front_forget(kit.front, kit.session, false);
    web_reset(fd);
    expect_taken_back_of_nobody(&kit, 9);
    /* Told, and not yet taken when its session goes. */
    fd = written_once(&kit, 8);
    web_reset(fd);
    struct hx_peer_event *event = front_kit_take(&kit, HX_PEER_TAKEN_BACK);
    hx_list_append(&kit.peers, &event->node);
    hx_http_front_forget(kit.front, kit.session, true);
    expect_taken_back_of_nobody(&kit, 8);
    /* Who read it may leave as he likes. */
    fd = written_once(&kit, 7);
    front_kit_read(&kit, fd, "{}");
    hx_http_front_forget(kit.front, kit.session, true);
    assert_int_equal(close(fd), 0);
    front_kit_settle(&kit);
    assert_false(front_kit_has(&kit, HX_PEER_TAKEN_BACK));
    /* One that is known still when all ends. */
    fd = written_once(&kit, 6);
    hx_http_front_forget(kit.front, kit.session, true);
    front_kit_fini(&kit);
    assert_int_equal(close(fd), 0);
}

static size_t tags_of(void *context, uint64_t tag, uint64_t *ret_tags, size_t max)
{
    (void)context;
    assert_true(max > 2);
    for (size_t i = 0; i < tag; i++)
        ret_tags[i] = 10 * tag + i;
    return tag;
}

static void what_is_taken_back_is_told_by_other_tags(void **state)
{
    struct front_kit kit;
    int fd;

    (void)state;
    front_kit_init(&kit, NULL);
    fd = written_once(&kit, 2);
    hx_http_front_retag(kit.session, tags_of, NULL);
    hx_http_front_forget(kit.front, kit.session, true);
    web_reset(fd);
    expect_taken_back_of_nobody(&kit, 20);
    expect_taken_back_of_nobody(&kit, 21);
    fd = written_once(&kit, 2);
    web_reset(fd);
    struct hx_peer_event *event = front_kit_take(&kit, HX_PEER_TAKEN_BACK);
    hx_list_append(&kit.peers, &event->node);
    hx_http_front_retag(kit.session, tags_of, NULL);
    hx_http_front_forget(kit.front, kit.session, true);
    expect_taken_back_of_nobody(&kit, 20);
    expect_taken_back_of_nobody(&kit, 21);
    front_kit_fini(&kit);
}

/* --- what no stream carries --- */

static void impatient(struct hx_http_front_options *options)
{
    options->queue_wait_ms = 50;
}

/* A client that takes JSON only, and may never open a stream: whoever asks it must not wait for
 * ever. Nor is one that opens its stream a little later left out. */
static void a_question_to_a_json_only_client_is_not_sent(void **state)
{
    static const char ask[] = "{\"id\":1,\"method\":\"elicitation/create\"}";
    static const char note[] = "{\"method\":\"notifications/x\"}";
    struct front_kit kit;
    uint64_t exchange;
    char request[512];
    int fd;

    (void)state;
    front_kit_init(&kit, impatient);
    front_kit_begin(&kit);
    fd = web_client(&kit.web);
    (void)snprintf(request, sizeof request,
                   "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann\r\n"
                   "Accept: application/json\r\nContent-Type: application/json\r\n"
                   "Mcp-Session-Id: %s\r\nContent-Length: %zu\r\n\r\n" PING,
                   kit.id, strlen(PING));
    web_send_text(&kit.web, fd, request);
    exchange = front_kit_message(&kit, PING);
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, note, 1);
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, ask, 2);
    assert_false(front_kit_has(&kit, HX_PEER_NOT_SENT));
    front_kit_expect_tag(&kit, HX_PEER_NOT_SENT, 2);
    assert_int_equal(hx_http_front_counts(kit.front).dropped_requests, 1);
    front_kit_send(&kit, HX_SENDING_ASIDE, exchange, ask, 3);
    int get = front_kit_get(&kit, "");
    front_kit_read(&kit, get, "elicitation/create");
    assert_non_null(strstr(kit.got.data, "notifications/x"));
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 1);
    front_kit_expect_tag(&kit, HX_PEER_WRITTEN, 3);
    front_kit_send(&kit, HX_SENDING_ANSWER, exchange, "{}", 4);
    front_kit_read(&kit, fd, "{}");
    front_kit_settle(&kit);
    assert_false(front_kit_has(&kit, HX_PEER_NOT_SENT));
    /* One that waits goes with its session, and its time with it. */
    assert_int_equal(close(get), 0);
    front_kit_settle(&kit);
    front_kit_begin(&kit);
    front_kit_send(&kit, HX_SENDING_ASIDE, 0, ask, 5);
    hx_http_front_forget(kit.front, kit.session, true);
    front_kit_begin(&kit);
    front_kit_send(&kit, HX_SENDING_ASIDE, 0, ask, 6);
    front_kit_expect_tag(&kit, HX_PEER_NOT_SENT, 6);
    front_kit_fini(&kit);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_taken_back_after_its_session),
        cmocka_unit_test(what_is_taken_back_is_told_by_other_tags),
        cmocka_unit_test(a_question_to_a_json_only_client_is_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
