/* SPDX-License-Identifier: MIT */
/*
 * Clients that do anything at any time, and an engine that answers in any way at any time. Whatever
 * they do:
 *
 *  - A request is handed over whole or not at all, those of a connection in order.
 *  - Each tag gets one fate; TAKEN_BACK only after WRITTEN.
 *  - CLIENT_GONE comes at most once for an exchange, and not after its answer.
 *  - What a client reads are the answers to its requests, in order, cut at most at the end.
 *  - In the end nothing is left.
 *
 * The choices come from a seed; how far the kernel has got at each of them does not, so a failure
 * may need a few runs to show again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/list.h"
#include "web_kit.h"
#include "wire/chunked.h"
#include "wire/http1.h"

enum { CLIENTS = 24, STEPS = 10000, OPEN_MAX_EXCHANGES = 64, TAGS_MAX = 100000, BODY_MAX = 40000 };

struct storm_client {
    int fd; /* -1 = none */
    uint32_t number;
    struct hx_buf out; /* not sent yet */
    struct hx_buf got; /* not judged yet */
    uint32_t requested;
    uint32_t answered;
    bool is_unruly; /* it said something that is refused: answers end there */
    bool is_shut;
};

struct storm_exchange {
    uint64_t id; /* 0 = free */
    bool is_stream;
    char path[32];
};

struct storm {
    struct web_kit kit;
    uint64_t dice;
    struct storm_client clients[CLIENTS];
    struct storm_exchange open[OPEN_MAX_EXCHANGES];
    uint8_t fates[TAGS_MAX];
    uint32_t last_request[TAGS_MAX]; /* by client number */
    uint64_t tags;
    uint32_t client_count;
    unsigned seen[HX_WEB_DRAINED + 1];
    unsigned answers_read;
};

static uint32_t roll(struct storm *storm, uint32_t sides)
{
    storm->dice = storm->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(storm->dice >> 33) % sides;
}

/* --- the engine --- */

static struct storm_exchange *find_open(struct storm *storm, uint64_t id)
{
    for (size_t i = 0; i < OPEN_MAX_EXCHANGES; i++) {
        if (storm->open[i].id == id)
            return &storm->open[i];
    }
    return NULL;
}

/* The body says who sent it and how long it is. */
static void check_request(struct storm *storm, const struct hx_web_event *event)
{
    const struct hx_web_request *request = event->request;
    struct storm_exchange *open = find_open(storm, 0);
    unsigned client;
    unsigned number;
    unsigned len;

    assert_non_null(open);
    open->id = event->exchange;
    open->is_stream = false;
    (void)snprintf(open->path, sizeof open->path, "%.*s", HX_SPAN_FMT(request->path));
    assert_int_equal(sscanf(open->path, "/%u/%u/%u", &client, &number, &len), 3);
    assert_int_equal(request->body.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(request->body.data[i], 'a' + number % 26);
    assert_int_equal(number, storm->last_request[client] + 1);
    storm->last_request[client] = number;
}

static void check_fate(struct storm *storm, const struct hx_web_event *event)
{
    assert_in_range(event->tag, 1, storm->tags);
    if (event->type == HX_WEB_TAKEN_BACK)
        assert_int_equal(storm->fates[event->tag], HX_WEB_WRITTEN);
    else
        assert_int_equal(storm->fates[event->tag], 0);
    storm->fates[event->tag] = (uint8_t)event->type;
}

static void drain_inbox(struct storm *storm)
{
    struct hx_list *node;

    while ((node = hx_list_first(&storm->kit.inbox)) != NULL) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        struct storm_exchange *open;
        storm->seen[event->type]++;
        switch (event->type) {
        case HX_WEB_REQUEST:
            check_request(storm, event);
            break;
        case HX_WEB_CLIENT_GONE:
            open = find_open(storm, event->exchange);
            assert_non_null(open);
            open->id = 0;
            break;
        case HX_WEB_WRITTEN:
        case HX_WEB_NOT_SENT:
        case HX_WEB_CUT:
        case HX_WEB_TAKEN_BACK:
            check_fate(storm, event);
            break;
        case HX_WEB_DRAINED:
            break;
        }
        hx_web_event_free(event);
    }
}

static uint64_t next_tag(struct storm *storm)
{
    assert_true(storm->tags + 1 < TAGS_MAX);
    return ++storm->tags;
}

static struct hx_buf filled(struct storm *storm, const char *start, size_t extra_max)
{
    struct hx_buf buf;
    size_t extra = roll(storm, 4) == 0 ? roll(storm, (uint32_t)extra_max) : 0;

    hx_buf_init(&buf, extra + 256);
    (void)hx_buf_append_cstr(&buf, start);
    assert_int_equal(hx_buf_reserve(&buf, extra), 0);
    memset(buf.data + buf.len, '.', extra);
    buf.len += extra;
    (void)hx_buf_append_char(&buf, '\n');
    return buf;
}

static void engine_stream(struct storm *storm, struct storm_exchange *open)
{
    struct hx_web *web = storm->kit.web;
    uint64_t id = open->id;

    if (roll(storm, 4) == 0) {
        open->id = 0;
        web->ops->stream_end(web, id);
    } else {
        struct hx_buf event = filled(storm, "data: more", 50000);
        web->ops->stream_event(web, id, &event, next_tag(storm));
    }
}

static void engine_answer(struct storm *storm, struct storm_exchange *open)
{
    struct hx_web *web = storm->kit.web;
    struct hx_web_answer answer = {.status = 200, .close = roll(storm, 10) == 0};
    struct hx_buf body = filled(storm, open->path, 3000000);
    uint64_t id = open->id;

    if (roll(storm, 3) == 0) {
        open->is_stream = true;
        web->ops->stream_begin(web, id, &answer);
        web->ops->stream_event(web, id, &body, next_tag(storm));
        return;
    }
    open->id = 0;
    web->ops->answer(web, id, &answer, &body, next_tag(storm));
    hx_buf_fini(&body);
}

static void engine_step(struct storm *storm)
{
    struct storm_exchange *open = &storm->open[roll(storm, OPEN_MAX_EXCHANGES)];
    struct hx_web *web = storm->kit.web;

    if (open->id == 0)
        return;
    switch (roll(storm, 30)) {
    case 0:
        web->ops->cut(web, open->id);
        break;
    case 1:
        if (!web->ops->is_alive(web, open->id))
            assert_false(hx_list_is_empty(web->inbox));
        break;
    case 2:
        web->ops->hold(web, true);
        assert_int_equal(hx_loop_run_once(storm->kit.process.loop, 0), 0);
        web->ops->hold(web, false);
        break;
    default:
        if (open->is_stream)
            engine_stream(storm, open);
        else
            engine_answer(storm, open);
    }
    drain_inbox(storm);
}

/* --- the clients --- */

static void client_drop(struct storm_client *client)
{
    client->fd = -1;
    hx_buf_fini(&client->out);
    hx_buf_fini(&client->got);
}

static void client_connect(struct storm *storm, struct storm_client *client)
{
    *client = (struct storm_client){.fd = web_client(&storm->kit), .number = storm->client_count++};
    assert_true(client->number < TAGS_MAX);
    /* A small window, so that answers are often taken in part only. */
    if (roll(storm, 2) == 0)
        (void)setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &(int){2048}, sizeof(int));
    hx_buf_init(&client->out, 64 << 20);
    hx_buf_init(&client->got, 64 << 20);
}

static void append_letters(struct hx_buf *out, char letter, uint32_t count)
{
    assert_int_equal(hx_buf_reserve(out, count), 0);
    memset(out->data + out->len, letter, count);
    out->len += count;
}

static void client_compose(struct storm *storm, struct storm_client *client)
{
    uint32_t len = roll(storm, 4) == 0 ? roll(storm, BODY_MAX) : roll(storm, 20);
    uint32_t number = client->requested + 1;
    struct hx_buf *out = &client->out;
    char letter = (char)('a' + number % 26);

    if (client->is_unruly || out->len > 4 * BODY_MAX)
        return;
    if (roll(storm, 60) == 0) {
        client->is_unruly = true;
        (void)hx_buf_append_cstr(out, "POST / HTTP/1.1\r\nHost : h\r\n\r\n");
        return;
    }
    client->requested = number;
    (void)hx_buf_printf(out, "POST /%u/%u/%u HTTP/1.1\r\nHost: h\r\n", client->number, number, len);
    if (roll(storm, 2) == 0) {
        (void)hx_buf_printf(out, "Content-Length: %u\r\n\r\n", len);
        append_letters(out, letter, len);
    } else {
        (void)hx_buf_append_cstr(out, "Transfer-Encoding: chunked\r\n\r\n");
        while (len > 0) {
            uint32_t piece = 1 + roll(storm, len < 1000 ? len : 1000);
            (void)hx_buf_printf(out, "%x\r\n", piece);
            append_letters(out, letter, piece);
            (void)hx_buf_append_cstr(out, "\r\n");
            len -= piece;
        }
        (void)hx_buf_append_cstr(out, "0\r\n\r\n");
    }
    assert_true(hx_buf_ok(out));
}

static void client_send(struct storm *storm, struct storm_client *client)
{
    size_t len = roll(storm, 2) == 0 ? client->out.len : roll(storm, 200);
    ssize_t sent;

    if (len > client->out.len)
        len = client->out.len;
    if (len == 0 || client->is_shut)
        return;
    sent = send(client->fd, client->out.data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        hx_buf_consume(&client->out, (size_t)sent);
}

/* Takes one whole answer off `got`; false when there is none. */
static bool take_answer(struct storm_client *client, struct hx_buf *body, uint32_t *ret_status)
{
    struct hx_http1_limits limits = hx_http1_limits_defaults();
    struct hx_http1_header headers[64];
    struct hx_http1_scan scan = {0};
    struct hx_http1_head head;
    struct hx_span got = hx_buf_span(&client->got);
    struct hx_span data;
    size_t len = 0;
    enum hx_http1_fault fault = hx_http1_scan(&scan, got, &limits, &len);

    if (fault == HX_HTTP1_MORE)
        return false;
    assert_int_equal(fault, HX_HTTP1_OK);
    assert_int_equal(hx_http1_read_response(hx_span(got.ptr, len), headers, &limits, &head), 0);
    struct hx_span rest = hx_span(got.ptr + len, got.len - len);
    hx_buf_reset(body);
    if (head.is_chunked) {
        struct hx_chunked chunked = {0};
        int rc;
        while ((rc = hx_chunked_next(&chunked, &rest, &data)) == 0)
            assert_int_equal(hx_buf_append_span(body, data), 0);
        assert_int_not_equal(rc, HX_CHUNKED_BAD);
        if (rc == HX_CHUNKED_MORE)
            return false;
    } else {
        assert_true(head.has_length);
        if (rest.len < head.length)
            return false;
        assert_int_equal(hx_buf_append(body, rest.ptr, head.length), 0);
        rest = hx_span(rest.ptr + head.length, rest.len - head.length);
    }
    *ret_status = head.status;
    hx_buf_consume(&client->got, client->got.len - rest.len);
    return true;
}

static void judge_answers(struct storm *storm, struct storm_client *client)
{
    struct hx_buf body;
    uint32_t status = 0;

    hx_buf_init(&body, 64 << 20);
    while (take_answer(client, &body, &status)) {
        char expected[32];
        if (status != 200) {
            /* Refused for what it said, or for being slow: nothing comes after. */
            assert_true(client->is_unruly || status == 408);
            assert_int_equal(client->got.len, 0);
            break;
        }
        client->answered++;
        storm->answers_read++;
        assert_true(client->answered <= client->requested);
        int len = snprintf(expected, sizeof expected, "/%u/%u/", client->number, client->answered);
        assert_true(body.len > (size_t)len);
        assert_memory_equal(body.data, expected, (size_t)len);
    }
    hx_buf_fini(&body);
}

static void client_read(struct storm *storm, struct storm_client *client)
{
    static char bytes[1 << 17];
    size_t size = roll(storm, 2) == 0 ? sizeof bytes : 1 + roll(storm, 500);
    ssize_t len = recv(client->fd, bytes, size, MSG_DONTWAIT);

    if (len < 0 && errno == EAGAIN)
        return;
    if (len > 0) {
        assert_int_equal(hx_buf_append(&client->got, bytes, (size_t)len), 0);
        judge_answers(storm, client);
        return;
    }
    assert_int_equal(close(client->fd), 0);
    client_drop(client);
}

static void client_step(struct storm *storm)
{
    struct storm_client *client = &storm->clients[roll(storm, CLIENTS)];

    if (client->fd < 0) {
        client_connect(storm, client);
        return;
    }
    switch (roll(storm, 60)) {
    case 0:
        assert_int_equal(close(client->fd), 0);
        client_drop(client);
        break;
    case 1:
        web_reset(client->fd);
        client_drop(client);
        break;
    case 2:
        (void)shutdown(client->fd, SHUT_WR);
        client->is_shut = true;
        break;
    default:
        if (roll(storm, 3) == 0)
            client_compose(storm, client);
        else if (roll(storm, 2) == 0)
            client_send(storm, client);
        else
            client_read(storm, client);
    }
}

/* --- the storm --- */

static void storm_limits(struct hx_http_server_options *options)
{
    options->connections_max = CLIENTS - 4;
    options->head_timeout_ms = 200;
    options->body_timeout_ms = 200;
    options->idle_timeout_ms = 200;
    options->write_timeout_ms = 200;
    options->linger_timeout_ms = 50;
    options->stream_ping_ms = 0;
    options->queue_max_bytes = 100000;
}

static void run_storm(uint64_t seed)
{
    struct storm *storm = calloc(1, sizeof *storm);

    assert_non_null(storm);
    storm->dice = seed;
    web_kit_init(&storm->kit, storm_limits);
    for (int i = 0; i < CLIENTS; i++)
        storm->clients[i].fd = -1;
    for (int step = 0; step < STEPS; step++) {
        client_step(storm);
        engine_step(storm);
        if (roll(storm, 3) == 0) {
            assert_int_equal(hx_loop_run_once(storm->kit.process.loop, 0), 0);
            drain_inbox(storm);
        }
    }
    storm->kit.web->ops->close(storm->kit.web);
    drain_inbox(storm);
    for (int i = 0; i < CLIENTS; i++) {
        if (storm->clients[i].fd >= 0)
            assert_int_equal(close(storm->clients[i].fd), 0);
        client_drop(&storm->clients[i]);
    }
    print_message(
        "# seed %llu: %u requests, %u gone, %u written, %u not sent, %u cut, %u taken back,"
        " %u answers read\n",
        (unsigned long long)seed, storm->seen[HX_WEB_REQUEST], storm->seen[HX_WEB_CLIENT_GONE],
        storm->seen[HX_WEB_WRITTEN], storm->seen[HX_WEB_NOT_SENT], storm->seen[HX_WEB_CUT],
        storm->seen[HX_WEB_TAKEN_BACK], storm->answers_read);
    assert_int_equal(hx_http_server_connection_count(storm->kit.web), 0);
    for (uint64_t tag = 1; tag <= storm->tags; tag++)
        assert_int_not_equal(storm->fates[tag], 0);
    for (size_t i = 0; i < OPEN_MAX_EXCHANGES; i++)
        assert_int_equal(storm->open[i].id, 0);
    assert_int_equal(storm->seen[HX_WEB_DRAINED], 1);
    assert_true(storm->seen[HX_WEB_REQUEST] > 100);
    assert_true(storm->seen[HX_WEB_CLIENT_GONE] > 10);
    assert_true(storm->answers_read > 50);
    assert_true(storm->seen[HX_WEB_CUT] > 0);
    web_kit_fini(&storm->kit);
    free(storm);
}

static void every_promise_holds_in_a_storm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_storm(seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_in_a_storm),
    };
    /* test_http_storm SEED: one storm, again. */
    if (argc > 1) {
        run_storm(strtoull(argv[1], NULL, 10));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
