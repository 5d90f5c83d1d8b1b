/* SPDX-License-Identifier: MIT */
/*
 * Replies under arbitrary bytes, over a real connection of our own short way to a server.
 *
 *  - However they are cut, the request ends in the same way, with the same words.
 *  - It has one fate and, once a byte of it left, one end; and it never leaves twice.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/http_client/http_client.h"
#include "base/digest.h"
#include "tests/fuzz/fuzz.h"

enum { TAG = 1, TURNS_MAX = 64, SEEN_MAX = 1 << 16 };

/* How the request ended, as far as it must not depend on the cuts. */
struct outcome {
    enum hx_peer_event_type type;
    enum hx_peer_loss loss;
    int status;
    struct hx_digest words;
};

static struct {
    struct hx_loop *loop;
    struct hx_list inbox;
    struct hx_hasher *hasher;
    int listener;
    char url[64];
} world;

/* It stands still: nothing here may depend on how long it takes. */
static struct hx_mono now(void *arg)
{
    (void)arg;
    return (struct hx_mono){1000000};
}

static void open_world(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    world.loop = hx_loop_new(&(struct hx_loop_clock){.now = now});
    hx_assert(world.loop != NULL);
    hx_list_init(&world.inbox);
    world.hasher = hx_hasher_new();
    world.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    hx_assert(bind(world.listener, (struct sockaddr *)&address, sizeof address) == 0);
    hx_assert(listen(world.listener, 16) == 0);
    hx_assert(getsockname(world.listener, (struct sockaddr *)&address, &len) == 0);
    (void)snprintf(world.url, sizeof world.url, "http://127.0.0.1:%u/mcp", ntohs(address.sin_port));
}

static void turn(void)
{
    hx_assert(hx_loop_run_once(world.loop, 0) == 0);
}

/* What came of the request, which is small enough to come at once. */
static void read_request(int conn)
{
    static char seen[SEEN_MAX];
    size_t len = 0;
    ssize_t got;
    unsigned posts = 0;

    for (int i = 0; i < TURNS_MAX && len == 0; i++) {
        turn();
        while ((got = read(conn, seen + len, sizeof seen - len)) > 0)
            len += (size_t)got;
    }
    for (const char *at = seen; (at = memmem(at, len - (size_t)(at - seen), "POST ", 5)) != NULL;
         at += 5)
        posts++;
    hx_assert(posts == 1);
}

/* Ends the connection in order behind the last byte. */
static void write_reply(int conn, struct hx_span bytes, struct fuzz_dice *dice, uint32_t piece_max)
{
    while (bytes.len > 0) {
        size_t piece = 1 + fuzz_roll(dice, piece_max);
        piece = piece < bytes.len ? piece : bytes.len;
        ssize_t put = send(conn, bytes.ptr, piece, MSG_NOSIGNAL);
        if (put < 0)
            break; /* it has heard enough */
        bytes = hx_span(bytes.ptr + put, bytes.len - (size_t)put);
        turn();
    }
    (void)shutdown(conn, SHUT_WR);
}

static bool is_end(const struct hx_peer_event *event)
{
    return event->is_answer || event->type == HX_PEER_ANSWER_LOST ||
           event->type == HX_PEER_REJECTED;
}

static bool is_fate(const struct hx_peer_event *event)
{
    return event->type == HX_PEER_WRITTEN || event->type == HX_PEER_NOT_SENT ||
           event->type == HX_PEER_CUT;
}

/* Counts what was told, and forgets it. */
static void take_events(struct outcome *outcome, unsigned *ends, unsigned *fates)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&world.inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        *fates += event->tag == TAG && is_fate(event);
        if (event->tag == TAG && is_end(event)) {
            (*ends)++;
            hx_hasher_begin(world.hasher);
            /* What is quoted of anything else is a sample for people: as much as was held then. */
            if (event->is_answer)
                hx_hasher_add(world.hasher, hx_buf_span(&event->line));
            hx_hasher_add(world.hasher, hx_buf_span(&event->challenge));
            *outcome = (struct outcome){event->type, event->loss, event->status,
                                        hx_hasher_end(world.hasher)};
        }
        hx_peer_event_free(event);
    }
}

static struct outcome run(struct hx_span reply, struct fuzz_dice *dice, uint32_t piece_max)
{
    struct hx_http_client_options options = hx_http_client_defaults();
    struct outcome outcome = {0};
    struct hx_upstream *up = NULL;
    struct hx_buf line;
    unsigned ends = 0;
    unsigned fates = 0;
    int conn;

    while ((conn = accept4(world.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        (void)close(conn); /* of a stream that was taken up again, of an earlier run */
    options.url = world.url;
    options.proxy = "";
    options.message_max_bytes = 4096;
    options.retry_ms = options.retry_max_ms = INT32_MAX;
    hx_assert(hx_http_client_new(world.loop, &world.inbox, &options, &up) == 0);
    up->ops->start(up, 1);
    hx_buf_init(&line, 256);
    (void)hx_buf_append_cstr(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}");
    up->ops->send(up, &line, TAG);
    hx_buf_fini(&line);
    conn = accept4(world.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    hx_assert(conn >= 0);
    hx_assert(setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    read_request(conn);
    write_reply(conn, reply, dice, piece_max);
    for (int i = 0; i < TURNS_MAX && ends == 0; i++) {
        turn();
        take_events(&outcome, &ends, &fates);
    }
    up->ops->kill(up); /* one that waits to be taken up again ends here */
    take_events(&outcome, &ends, &fates);
    hx_assert(ends == 1);
    hx_assert(fates == 1);
    (void)hx_http_client_free(up);
    (void)close(conn);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t pieces_max[] = {1 << 16, 1, 40};
    struct hx_span reply = hx_span((const char *)data, size);
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct outcome first = {0};

    if (world.loop == NULL)
        open_world();
    if (size > 8192)
        return 0;
    for (size_t i = 0; i < sizeof pieces_max / sizeof pieces_max[0]; i++) {
        struct outcome outcome = run(reply, &dice, pieces_max[i]);
        if (i == 0)
            first = outcome;
        hx_assert(outcome.type == first.type);
        hx_assert(outcome.loss == first.loss);
        hx_assert(outcome.status == first.status);
        hx_assert(hx_digest_eq(&outcome.words, &first.words));
    }
    return 0;
}
