/* SPDX-License-Identifier: MIT */
/* MCP's front: streams that live on when their clients leave, and one fate for each message. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "front_kit.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"
#define NEW "MCP-Protocol-Version: 2025-11-25\r\n"
#define OLD "MCP-Protocol-Version: 2025-06-18\r\n"

/* A session, and a POST that the engine has. */
struct one {
    struct front_kit kit;
    uint64_t exchange;
    int fd;
    char last_id[128];
};

static void one_init(struct one *one, void (*change)(struct hx_http_front_options *options),
                     const char *more)
{
    front_kit_init(&one->kit, change);
    front_kit_begin(&one->kit);
    one->fd = front_kit_post(&one->kit, more, PING);
    one->exchange = front_kit_message(&one->kit, PING);
}

static void hang_up(struct one *one)
{
    assert_int_equal(close(one->fd), 0);
    one->fd = -1;
}

static void one_fini(struct one *one)
{
    if (one->fd >= 0)
        hang_up(one);
    front_kit_settle(&one->kit);
    front_kit_fini(&one->kit);
}

static void aside(struct one *one, const char *line, uint64_t tag)
{
    front_kit_send(&one->kit, HX_SENDING_ASIDE, one->exchange, line, tag);
}

static void answer(struct one *one, const char *line, uint64_t tag)
{
    front_kit_send(&one->kit, HX_SENDING_ANSWER, one->exchange, line, tag);
}

/* Comes back with the last id seen. */
static void come_back(struct one *one, const char *more)
{
    char headers[512];

    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n%s", one->last_id, more);
    one->fd = front_kit_get(&one->kit, headers);
}

static void read_until(struct one *one, const char *needle)
{
    front_kit_read(&one->kit, one->fd, needle);
}

/* Until the front has noticed: nobody is there for the exchange. */
static void wait_until_away(struct one *one)
{
    while (one->kit.session->ops->is_reader_alive(one->kit.session, one->exchange))
        web_kit_turn(&one->kit.web);
    front_kit_settle(&one->kit);
}

static void soon(struct hx_http_front_options *options)
{
    options->stream_after_ms = 10;
}

static void forgetful(struct hx_http_front_options *options)
{
    options->stream_after_ms = 10;
    options->stream_keep_ms = 40;
}

/* --- how a stream begins --- */

static void what_takes_long_comes_as_a_stream(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    /* Primed: the client has an id before there is anything to lose. */
    read_until(&one, "data: \n\n");
    assert_non_null(strstr(one.kit.got.data, ".0\nretry: 1000\ndata: \n\n"));
    assert_non_null(strstr(one.kit.got.data, "Content-Type: text/event-stream\r\n"));
    answer(&one, "{\"id\":7}", 1);
    read_until(&one, ".1\nevent: message\ndata: {\"id\":7}\n\n\r\n0\r\n\r\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    one_fini(&one);
}

static void older_clients_are_not_primed(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, OLD);
    read_until(&one, "chunked\r\n\r\n");
    answer(&one, "{\"id\":7}", 0);
    read_until(&one, "0\r\n\r\n");
    assert_null(strstr(one.kit.got.data, "data: \n"));
    assert_non_null(strstr(one.kit.got.data, ".0\nevent: message\nretry: 1000\ndata: {\"id\":7}"));
    one_fini(&one);
}

static void a_guarded_call_has_no_ids_before_its_name_is_kept(void **state)
{
    struct one one;
    char name[64];
    struct hx_span span;

    (void)state;
    one_init(&one, soon, NEW);
    span = one.kit.session->ops->stream_name(one.kit.session, one.exchange);
    (void)snprintf(name, sizeof name, "id: %.*s.0\n", HX_SPAN_FMT(span));
    aside(&one, "{\"n\":1}", 0);
    read_until(&one, "{\"n\":1}\n\n");
    assert_null(strstr(one.kit.got.data, "id: p"));
    one.kit.session->ops->stream_kept(one.kit.session, one.exchange);
    read_until(&one, "data: \n\n");
    assert_non_null(strstr(one.kit.got.data, name));
    aside(&one, "{\"n\":2}", 0);
    read_until(&one, ".1\nevent: message\ndata: {\"n\":2}\n\n");
    answer(&one, "{}", 0);
    read_until(&one, "0\r\n\r\n");
    one_fini(&one);
}

/* --- clients that leave --- */

static void who_has_no_id_cannot_come_back(void **state)
{
    struct one one;

    (void)state;
    /* before anything was sent */
    one_init(&one, NULL, NEW);
    hang_up(&one);
    front_kit_expect_gone(&one.kit, one.exchange);
    answer(&one, "{}", 1);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    /* in a stream without ids */
    one.fd = front_kit_post(&one.kit, NEW, PING);
    one.exchange = front_kit_message(&one.kit, NULL);
    (void)one.kit.session->ops->stream_name(one.kit.session, one.exchange);
    aside(&one, "{\"n\":1}", 2);
    read_until(&one, "{\"n\":1}\n\n");
    hang_up(&one);
    front_kit_expect_gone(&one.kit, one.exchange);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    assert_false(one.kit.session->ops->is_reader_alive(one.kit.session, one.exchange));
    assert_int_equal(hx_http_front_counts(one.kit.front).streams, 0);
    one_fini(&one);
}

static void who_comes_back_gets_what_is_missing(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    aside(&one, "{\"n\":1}", 1);
    read_until(&one, "{\"n\":1}\n\n");
    front_kit_last_id(&one.kit, one.last_id);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    hang_up(&one);
    wait_until_away(&one);
    /* No fate yet: it may be read. */
    aside(&one, "{\"n\":2}", 2);
    answer(&one, "{\"id\":7}", 3);
    assert_false(front_kit_has(&one.kit, HX_PEER_NOT_SENT));
    assert_false(front_kit_has(&one.kit, HX_PEER_EXCHANGE_GONE));
    come_back(&one, NEW);
    read_until(&one, "0\r\n\r\n");
    assert_null(strstr(one.kit.got.data, "{\"n\":1}"));
    assert_non_null(strstr(one.kit.got.data, "data: {\"n\":2}\n\n"));
    assert_non_null(strstr(one.kit.got.data, "data: {\"id\":7}\n\n"));
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 3);
    assert_int_equal(hx_http_front_counts(one.kit.front).resumed, 1);
    one_fini(&one);
}

static void a_resumed_stream_goes_on(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    hang_up(&one);
    wait_until_away(&one);
    come_back(&one, "");
    read_until(&one, "chunked\r\n\r\n");
    assert_true(one.kit.session->ops->is_reader_alive(one.kit.session, one.exchange));
    aside(&one, "{\"n\":1}", 1);
    read_until(&one, "{\"n\":1}\n\n");
    /* Again, and with an answer that comes while nobody is there. */
    front_kit_last_id(&one.kit, one.last_id);
    hang_up(&one);
    wait_until_away(&one);
    come_back(&one, "");
    answer(&one, "{\"id\":7}", 2);
    read_until(&one, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    one_fini(&one);
}

static void a_client_takes_its_stream_over_from_a_dead_connection(void **state)
{
    struct one one;
    int before;

    (void)state;
    one_init(&one, soon, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    before = one.fd; /* as far as we know, it lives */
    come_back(&one, "");
    read_until(&one, "chunked\r\n\r\n");
    answer(&one, "{\"id\":7}", 1);
    read_until(&one, "data: {\"id\":7}\n\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    front_kit_read(&one.kit, before, NULL);
    assert_int_equal(close(before), 0);
    one_fini(&one);
}

static void who_does_not_come_back_is_gone(void **state)
{
    struct hx_peer_event *event;
    struct one one;

    (void)state;
    one_init(&one, forgetful, NEW);
    read_until(&one, "data: \n\n");
    hang_up(&one);
    wait_until_away(&one);
    aside(&one, "{\"n\":1}", 1);
    while (!front_kit_has(&one.kit, HX_PEER_EXCHANGE_GONE))
        web_kit_turn(&one.kit.web);
    /* Its fate came first. */
    event = hx_container_of(hx_list_first(&one.kit.peers), struct hx_peer_event, node);
    assert_int_equal(event->type, HX_PEER_NOT_SENT);
    front_kit_expect_gone(&one.kit, one.exchange);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    answer(&one, "{}", 2);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 2);
    assert_int_equal(hx_http_front_counts(one.kit.front).streams, 0);
    one_fini(&one);
}

static void an_answer_that_nobody_fetches_was_not_sent(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, forgetful, NEW);
    read_until(&one, "data: \n\n");
    hang_up(&one);
    wait_until_away(&one);
    answer(&one, "{}", 1);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    assert_false(front_kit_has(&one.kit, HX_PEER_EXCHANGE_GONE));
    one_fini(&one);
}

static void an_answer_that_was_lost_can_be_fetched(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    answer(&one, "{\"id\":7}", 1);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    web_reset(one.fd); /* unread */
    front_kit_expect_tag(&one.kit, HX_PEER_TAKEN_BACK, 1);
    come_back(&one, "");
    read_until(&one, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    /* It has arrived after all. */
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    one_fini(&one);
}

static void an_id_says_what_has_arrived(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    hang_up(&one);
    wait_until_away(&one);
    aside(&one, "{\"n\":1}", 1);
    /* It cannot have it, but if it says so: who are we to know. */
    one.last_id[strlen(one.last_id) - 1] = '1';
    come_back(&one, "");
    read_until(&one, "chunked\r\n\r\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    answer(&one, "{\"id\":7}", 2);
    read_until(&one, "0\r\n\r\n");
    assert_null(strstr(one.kit.got.data, "{\"n\":1}"));
    one_fini(&one);
}

static void who_reads_a_long_answer_is_there(void **state)
{
    static char line[16 << 20];
    struct one one;

    (void)state;
    one_init(&one, NULL, NEW);
    memset(line, 'x', sizeof line - 1);
    answer(&one, line, 1);
    front_kit_settle(&one.kit);
    assert_false(front_kit_has(&one.kit, HX_PEER_WRITTEN));
    assert_true(one.kit.session->ops->is_reader_alive(one.kit.session, one.exchange));
    hang_up(&one);
    front_kit_expect_tag(&one.kit, HX_PEER_CUT, 1);
    assert_false(one.kit.session->ops->is_reader_alive(one.kit.session, one.exchange));
    one_fini(&one);
}

/* --- streams that only the ledger knows --- */

static uint64_t take_resume(struct one *one, const char *name)
{
    struct hx_peer_event *event = front_kit_take(&one->kit, HX_PEER_RESUME);
    uint64_t exchange = event->exchange;

    if (!hx_span_eq_cstr(hx_buf_span(&event->line), name))
        fail_msg("expected %s, came %.*s", name, HX_SPAN_FMT(hx_buf_span(&event->line)));
    hx_peer_event_free(event);
    return exchange;
}

static void little_room(struct hx_http_front_options *options)
{
    options->stream_after_ms = 10;
    options->stream_keep_bytes_max = 4096;
}

/* What came before an answer that is too long to keep would be all that its client ever got. */
static void a_stream_is_not_kept_without_its_answer(void **state)
{
    char line[8192];
    char name[128];
    struct one one;

    (void)state;
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    one_init(&one, little_room, NEW);
    read_until(&one, "data: \n\n");
    aside(&one, "{\"n\":1}", 0);
    read_until(&one, "{\"n\":1}");
    front_kit_last_id(&one.kit, one.last_id);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(one.last_id, "."), one.last_id);
    answer(&one, line, 2);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    web_reset(one.fd);
    front_kit_expect_tag(&one.kit, HX_PEER_TAKEN_BACK, 2);
    come_back(&one, NEW);
    one.exchange = take_resume(&one, name);
    answer(&one, line, 3);
    read_until(&one, "xxx");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 3);
    one_fini(&one);
}

static void the_engine_is_asked_for_an_unknown_stream(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, soon, NEW);
    answer(&one, "{}", 0);
    read_until(&one, "{}");
    (void)snprintf(one.last_id, sizeof one.last_id, "p0123456789abcdef-2a.3");
    hang_up(&one);
    come_back(&one, NEW);
    one.exchange = take_resume(&one, "p0123456789abcdef-2a");
    /* A stream that starts without ids: the client's own is good still. */
    read_until(&one, "chunked\r\n\r\n");
    answer(&one, "{\"id\":7}", 1);
    read_until(&one, "0\r\n\r\n");
    assert_null(strstr(one.kit.got.data, "id: "));
    assert_non_null(strstr(one.kit.got.data, "data: {\"id\":7}\n\n"));
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    hang_up(&one);
    /* Nobody knows it. */
    come_back(&one, NEW);
    one.exchange = take_resume(&one, "p0123456789abcdef-2a");
    one.kit.session->ops->settle(one.kit.session, one.exchange, HX_SETTLING_NO_STREAM);
    read_until(&one, "cannot be taken up again");
    assert_non_null(strstr(one.kit.got.data, "HTTP/1.1 400 "));
    hang_up(&one);
    /* Its client leaves. */
    come_back(&one, NEW);
    one.exchange = take_resume(&one, "p0123456789abcdef-2a");
    hang_up(&one);
    front_kit_expect_gone(&one.kit, one.exchange);
    /* Of a GET stream nothing is left, and nothing is needed. */
    one.last_id[0] = 'g';
    come_back(&one, NEW);
    read_until(&one, "data: \n\n");
    one_fini(&one);
}

static void ids_that_are_none_of_ours_are_refused(void **state)
{
    static const char *const ids[] = {"x",
                                      "p.1",
                                      "p0123456789abcdef.1",
                                      "p0123456789abcdef-.1",
                                      "p0123456789abcdef-1",
                                      "p0123456789abcdef-1.",
                                      "p0123456789abcdef-1.x",
                                      "q0123456789abcdef-1.1",
                                      "p0123456789abcdeg-1.1",
                                      "p0123456789abcdef-g.1",
                                      "p0123456789abcdef-11111111111111111.1",
                                      "p0123456789abcdef-1.11111111111111111111"};
    struct one one;

    (void)state;
    one_init(&one, NULL, NEW);
    answer(&one, "{}", 0);
    read_until(&one, "{}");
    for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        hang_up(&one);
        (void)snprintf(one.last_id, sizeof one.last_id, "%s", ids[i]);
        come_back(&one, "");
        read_until(&one, "Last-Event-ID is none of this server");
        assert_non_null(strstr(one.kit.got.data, "HTTP/1.1 400 "));
    }
    one_fini(&one);
}

static void a_stream_of_another_session_is_unknown(void **state)
{
    struct one one;
    char name[128];

    (void)state;
    one_init(&one, soon, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    hang_up(&one);
    wait_until_away(&one);
    front_kit_begin(&one.kit);
    come_back(&one, NEW);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(one.last_id, "."), one.last_id);
    one.exchange = take_resume(&one, name);
    one.kit.session->ops->settle(one.kit.session, one.exchange, HX_SETTLING_NO_STREAM);
    read_until(&one, "HTTP/1.1 400 ");
    one_fini(&one);
}

/* --- GET streams and the queue --- */

static void messages_of_no_exchange_find_a_stream(void **state)
{
    struct one one;
    int get;

    (void)state;
    one_init(&one, NULL, NEW);
    /* the POST, for want of a better one */
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":1}", 1);
    read_until(&one, "data: {\"n\":1}\n\n");
    get = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, get, "data: \n\n");
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":2}", 2);
    front_kit_read(&one.kit, get, "data: {\"n\":2}\n\n");
    answer(&one, "{}", 0);
    read_until(&one, "0\r\n\r\n");
    assert_null(strstr(one.kit.got.data, "{\"n\":2}"));
    /* late, of an exchange that is over */
    aside(&one, "{\"n\":3}", 3);
    front_kit_read(&one.kit, get, "data: {\"n\":3}\n\n");
    for (uint64_t tag = 1; tag <= 3; tag++)
        front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, tag);
    assert_true(one.kit.session->ops->is_reader_alive(one.kit.session, 0));
    assert_int_equal(close(get), 0);
    one_fini(&one);
}

static void a_second_get_is_refused_while_the_first_lives(void **state)
{
    struct one one;
    int get;
    int second;

    (void)state;
    one_init(&one, NULL, NEW);
    get = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, get, "data: \n\n");
    second = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, second, "HTTP/1.1 409 Conflict\r\n");
    assert_int_equal(close(second), 0);
    /* Not by a poll interval later: at once. */
    assert_int_equal(close(get), 0);
    get = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, get, "data: \n\n");
    assert_int_equal(close(get), 0);
    answer(&one, "{}", 0);
    one_fini(&one);
}

static void a_get_stream_is_taken_up(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL, NEW);
    answer(&one, "{}", 0);
    read_until(&one, "{}");
    hang_up(&one);
    one.fd = front_kit_get(&one.kit, OLD);
    read_until(&one, "chunked\r\n\r\n");
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":1}", 1);
    read_until(&one, "data: {\"n\":1}\n\n");
    front_kit_last_id(&one.kit, one.last_id);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":2}", 2);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    web_reset(one.fd);
    /* After a reset nothing is known, ... */
    front_kit_expect_tag(&one.kit, HX_PEER_TAKEN_BACK, 1);
    front_kit_expect_tag(&one.kit, HX_PEER_TAKEN_BACK, 2);
    front_kit_settle(&one.kit);
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":3}", 3); /* queued */
    come_back(&one, OLD);
    read_until(&one, "data: {\"n\":3}\n\n");
    assert_non_null(strstr(one.kit.got.data, "data: {\"n\":2}\n\n"));
    assert_null(strstr(one.kit.got.data, "{\"n\":1}"));
    /* ... until the client says what it has. */
    for (uint64_t tag = 1; tag <= 3; tag++)
        front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, tag);
    one_fini(&one);
}

static void small_queue(struct hx_http_front_options *options)
{
    options->queue_messages_max = 3;
}

static void a_full_queue_drops_notifications_first(void **state)
{
    static const char ask[] = "{\"id\":1,\"method\":\"elicitation/create\"}";
    static const char note[] = "{\"method\":\"notifications/x\"}";
    struct one one;

    (void)state;
    one_init(&one, small_queue, NEW);
    answer(&one, "{}", 0);
    read_until(&one, "{}");
    one.exchange = 0;
    aside(&one, note, 1);
    aside(&one, ask, 2);
    aside(&one, note, 3);
    aside(&one, ask, 4);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    aside(&one, ask, 5);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 3);
    /* No request goes silently. */
    aside(&one, ask, 6);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 6);
    aside(&one, note, 7);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 7);
    assert_int_equal(hx_http_front_counts(one.kit.front).dropped_notifications, 3);
    assert_int_equal(hx_http_front_counts(one.kit.front).dropped_requests, 1);
    hang_up(&one);
    one.fd = front_kit_get(&one.kit, NEW);
    read_until(&one, ".3\nevent: message\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 2);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 4);
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 5);
    one_fini(&one);
}

static void what_waits_at_the_end_was_not_sent(void **state)
{
    struct one one;

    (void)state;
    one_init(&one, NULL, NEW);
    answer(&one, "{}", 0);
    read_until(&one, "{}");
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":1}", 1);
    hang_up(&one);
    one.kit.session->ops->close(one.kit.session);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    front_kit_send(&one.kit, HX_SENDING_ASIDE, 0, "{\"n\":2}", 2);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 2);
    /* Its id may be good elsewhere. */
    one.fd = front_kit_post(&one.kit, NEW, PING);
    read_until(&one, "HTTP/1.1 503 ");
    one_fini(&one);
}

/* --- bounds --- */

static void little_memory(struct hx_http_front_options *options)
{
    options->stream_after_ms = 10;
    options->stream_keep_bytes_max = 3500;
}

static void only_so_much_is_kept(void **state)
{
    static char line[800];
    struct one one;

    (void)state;
    one_init(&one, little_memory, NEW);
    read_until(&one, "data: \n\n");
    front_kit_last_id(&one.kit, one.last_id);
    hang_up(&one);
    wait_until_away(&one);
    memset(line, 'x', sizeof line - 1);
    for (uint64_t tag = 1; tag <= 3; tag++)
        aside(&one, line, tag);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    answer(&one, "{\"id\":7}", 4);
    assert_false(front_kit_has(&one.kit, HX_PEER_NOT_SENT));
    come_back(&one, NEW);
    read_until(&one, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    for (uint64_t tag = 2; tag <= 4; tag++)
        front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, tag);
    assert_int_equal(hx_http_front_counts(one.kit.front).dropped_events, 1);
    one_fini(&one);
}

static void what_is_too_large_to_keep_is_not_kept(void **state)
{
    static char line[4000];
    struct one one;

    (void)state;
    one_init(&one, little_memory, NEW);
    read_until(&one, "data: \n\n");
    memset(line, 'x', sizeof line - 1);
    answer(&one, line, 1);
    read_until(&one, "0\r\n\r\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    hang_up(&one);
    one.fd = front_kit_post(&one.kit, NEW, PING);
    one.exchange = front_kit_message(&one.kit, NULL);
    read_until(&one, "data: \n\n");
    hang_up(&one);
    wait_until_away(&one);
    answer(&one, line, 2);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 2);
    one_fini(&one);
}

/* --- the end --- */

static void draining_ends_streams_that_can_be_taken_up(void **state)
{
    struct one one;
    uint64_t unguarded;
    int get;
    int waiting;

    (void)state;
    one_init(&one, soon, NEW);
    (void)one.kit.session->ops->stream_name(one.kit.session, one.exchange);
    one.kit.session->ops->stream_kept(one.kit.session, one.exchange);
    read_until(&one, "data: \n\n");
    get = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, get, "data: \n\n");
    waiting = front_kit_post(&one.kit, NEW, PING);
    unguarded = front_kit_message(&one.kit, NULL);
    front_kit_read(&one.kit, waiting, "data: \n\n");
    one.kit.web.web->ops->drain(one.kit.web.web);
    hx_http_front_drain(one.kit.front);
    front_kit_expect_gone(&one.kit, one.exchange);
    read_until(&one, "0\r\n\r\n");
    front_kit_read(&one.kit, get, "0\r\n\r\n");
    assert_false(hx_http_front_is_drained(one.kit.front));
    front_kit_send(&one.kit, HX_SENDING_ANSWER, unguarded, "{\"id\":7}", 1);
    front_kit_read(&one.kit, waiting, "data: {\"id\":7}\n\n\r\n0\r\n\r\n");
    front_kit_expect_tag(&one.kit, HX_PEER_WRITTEN, 1);
    assert_int_equal(close(get), 0);
    assert_int_equal(close(waiting), 0);
    hang_up(&one);
    while (!hx_http_front_is_drained(one.kit.front))
        web_kit_turn(&one.kit.web);
    assert_int_equal(hx_http_front_counts(one.kit.front).streams, 0);
    one_fini(&one);
}

static void closing_is_seen_by_all(void **state)
{
    struct one one;
    int get;

    (void)state;
    one_init(&one, NULL, NEW);
    get = front_kit_get(&one.kit, NEW);
    front_kit_read(&one.kit, get, "data: \n\n");
    one.kit.session->ops->close(one.kit.session);
    (void)web_read(&one.kit.web, one.fd, &one.kit.got, NULL);
    front_kit_read(&one.kit, get, "0\r\n\r\n");
    answer(&one, "{}", 1);
    front_kit_expect_tag(&one.kit, HX_PEER_NOT_SENT, 1);
    assert_int_equal(close(get), 0);
    one_fini(&one);
}

/* --- many --- */

enum { IDLE_COUNT = 500 };

static void idle_sessions_and_streams_cost_little(void **state)
{
    static int fds[IDLE_COUNT];
    static char ids[IDLE_COUNT][80];
    struct front_kit kit;
    struct rlimit files;
    size_t before;
    size_t sessions;
    size_t streams;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 2 * IDLE_COUNT + 100)
        skip();
    front_kit_init(&kit, NULL);
    front_kit_begin(&kit);
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < IDLE_COUNT; i++) {
        front_kit_begin(&kit);
        memcpy(ids[i], kit.id, sizeof ids[i]);
    }
    web_kit_connections(&kit.web, 0);
    sessions = mallinfo2().uordblks - before;
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < IDLE_COUNT; i++) {
        memcpy(kit.id, ids[i], sizeof kit.id);
        fds[i] = front_kit_get(&kit, NEW);
        front_kit_read(&kit, fds[i], "data: \n\n");
    }
    streams = mallinfo2().uordblks - before;
    print_message("# %zu bytes for each idle session, %zu for its idle stream with connection\n",
                  sessions / IDLE_COUNT, streams / IDLE_COUNT);
    /* A sanitizer's allocator does not say: 0. */
    assert_in_range(sessions / IDLE_COUNT, 0, 1024);
    assert_in_range((streams + sessions) / IDLE_COUNT, 0, 4096);
    for (unsigned i = 0; i < IDLE_COUNT; i++)
        assert_int_equal(close(fds[i]), 0);
    web_kit_connections(&kit.web, 0);
    front_kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_long_comes_as_a_stream),
        cmocka_unit_test(older_clients_are_not_primed),
        cmocka_unit_test(a_guarded_call_has_no_ids_before_its_name_is_kept),
        cmocka_unit_test(who_has_no_id_cannot_come_back),
        cmocka_unit_test(who_comes_back_gets_what_is_missing),
        cmocka_unit_test(a_resumed_stream_goes_on),
        cmocka_unit_test(a_client_takes_its_stream_over_from_a_dead_connection),
        cmocka_unit_test(who_does_not_come_back_is_gone),
        cmocka_unit_test(an_answer_that_nobody_fetches_was_not_sent),
        cmocka_unit_test(an_answer_that_was_lost_can_be_fetched),
        cmocka_unit_test(an_id_says_what_has_arrived),
        cmocka_unit_test(who_reads_a_long_answer_is_there),
        cmocka_unit_test(a_stream_is_not_kept_without_its_answer),
        cmocka_unit_test(the_engine_is_asked_for_an_unknown_stream),
        cmocka_unit_test(ids_that_are_none_of_ours_are_refused),
        cmocka_unit_test(a_stream_of_another_session_is_unknown),
        cmocka_unit_test(messages_of_no_exchange_find_a_stream),
        cmocka_unit_test(a_second_get_is_refused_while_the_first_lives),
        cmocka_unit_test(a_get_stream_is_taken_up),
        cmocka_unit_test(a_full_queue_drops_notifications_first),
        cmocka_unit_test(what_waits_at_the_end_was_not_sent),
        cmocka_unit_test(only_so_much_is_kept),
        cmocka_unit_test(what_is_too_large_to_keep_is_not_kept),
        cmocka_unit_test(draining_ends_streams_that_can_be_taken_up),
        cmocka_unit_test(closing_is_seen_by_all),
        cmocka_unit_test(idle_sessions_and_streams_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
