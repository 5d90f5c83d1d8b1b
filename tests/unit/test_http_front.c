/* SPDX-License-Identifier: MIT */
/* MCP's front: what is refused at the door, sessions, and answers in both forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "front_kit.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"
#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}"

/* --- answers --- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_comes_first_is_json),
        cmocka_unit_test(asides_make_it_an_event_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
