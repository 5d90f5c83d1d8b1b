/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/direct.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adapter/http_client/client.h"
#include "base/alloc.h"
#include "wire/chunked.h"
#include "wire/http1.h"

enum {
    READ_BYTES = 16 * 1024,
    READS_PER_TURN = 4,   /* one connection's share */
    IN_KEPT_BYTES = 4096, /* while idle */
    HEAD_MAX = 64 * 1024,
    HEADERS_MAX = 128
};

enum framing { BY_LENGTH, BY_CHUNKS, BY_THE_END };

struct hx_http_connection {
    struct hx_list node; /* in `idle`, while it has no exchange */
    struct hx_http_client *client;
    struct hx_http_exchange *exchange; /* NULL while idle */
    struct hx_loop_fd *watch;
    int fd;
    bool was_used; /* for an earlier exchange */
    struct hx_mono idle_since;
    struct hx_buf head; /* of the request */
    size_t sent;        /* of head and body */
    struct hx_buf in;   /* the head of the reply, as far as it came, and what came with it */
    struct hx_http1_scan scan;
    bool has_head;
    bool may_keep;
    enum framing framing;
    uint64_t left; /* BY_LENGTH */
    struct hx_chunked chunked;
};

static const struct hx_http1_limits limits = {
    .head_max_bytes = HEAD_MAX, .target_max_bytes = HEAD_MAX, .headers_max = HEADERS_MAX};

static void connection_ready(void *arg, unsigned events);

/* --- connections --- */

static void connection_free(struct hx_http_connection *connection)
{
    hx_list_unlink(&connection->node);
    if (connection->exchange != NULL)
        connection->exchange->direct = NULL;
    hx_loop_fd_free(connection->watch);
    (void)close(connection->fd);
    hx_buf_fini(&connection->head);
    hx_buf_fini(&connection->in);
    hx_free(connection);
}

static struct hx_http_connection *connection_open(struct hx_http_client *client)
{
    const struct hx_http_direct *direct = &client->direct;
    struct hx_http_connection *connection;
    int one = 1;
    int fd = socket(direct->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return NULL;
    if (connect(fd, (const struct sockaddr *)&direct->address, direct->address_len) != 0 &&
        errno != EINPROGRESS) {
        (void)close(fd);
        return NULL;
    }
    /* Both make it better, and it works without. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    connection = hx_new(struct hx_http_connection);
    connection->client = client;
    connection->fd = fd;
    hx_list_init(&connection->node);
    hx_buf_init(&connection->head, HEAD_MAX);
    hx_buf_init(&connection->in, HEAD_MAX + READ_BYTES);
    connection->watch = hx_loop_fd_new(client->loop, fd, connection_ready, connection);
    return connection;
}

static bool is_fresh(const struct hx_http_connection *connection)
{
    const struct hx_http_client *client = connection->client;

    return hx_mono_since_ms(hx_loop_now(client->loop), connection->idle_since) <
           client->options.idle_connection_ms;
}

/* Nothing came on it while it was idle, not even its end. */
static bool is_silent(const struct hx_http_connection *connection)
{
    char byte;

    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static struct hx_http_connection *connection_take(struct hx_http_client *client)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&client->direct.idle)) != NULL) {
        struct hx_http_connection *connection =
            hx_container_of(node, struct hx_http_connection, node);
        if (is_fresh(connection) && is_silent(connection))
            return connection;
        connection_free(connection);
    }
    return connection_open(client);
}

static void connection_keep(struct hx_http_connection *connection)
{
    struct hx_list *idle = &connection->client->direct.idle;
    struct hx_http_connection *oldest =
        hx_list_is_empty(idle) ? NULL
                               : hx_container_of(idle->prev, struct hx_http_connection, node);

    if (oldest != NULL && !is_fresh(oldest))
        connection_free(oldest);
    if (connection->in.capacity > IN_KEPT_BYTES)
        hx_buf_fini(&connection->in);
    connection->exchange = NULL;
    connection->was_used = true;
    connection->idle_since = hx_loop_now(connection->client->loop);
    hx_list_append(idle->next, &connection->node); /* before the first */
}

/* --- the ends of an exchange --- */

static struct hx_http_exchange *let_go(struct hx_http_connection *connection)
{
    struct hx_http_exchange *exchange = connection->exchange;

    exchange->direct = NULL;
    connection->exchange = NULL;
    return exchange;
}

/* These two return false: neither the connection nor the exchange may be touched any more. */

static bool finish(struct hx_http_connection *connection)
{
    struct hx_http_exchange *exchange = let_go(connection);
    bool is_all_sent = connection->sent == connection->head.len + exchange->body.len;

    if (connection->may_keep && is_all_sent)
        connection_keep(connection);
    else
        connection_free(connection);
    hx_http_exchange_ended(exchange, CURLE_OK);
    return false;
}

static bool fail(struct hx_http_connection *connection, CURLcode code)
{
    struct hx_http_exchange *exchange = let_go(connection);
    bool was_used = connection->was_used;
    bool is_unheard = !connection->has_head && connection->in.len == 0;

    connection_free(connection);
    if (exchange->handed_out > 0 || !is_unheard) {
        hx_http_exchange_ended(exchange, code);
        return false;
    }
    /* Not a byte of the message left: the library may begin it. */
    hx_loop_timer_clear(exchange->timer);
    exchange->is_by_library = true;
    exchange->was_retried = was_used;
    exchange->client->counters.reconnects += was_used;
    curl_slist_free_all(exchange->headers);
    exchange->headers = NULL;
    hx_http_exchange_begin(exchange);
    return false;
}

void hx_http_direct_drop(struct hx_http_exchange *exchange)
{
    if (exchange->direct != NULL)
        connection_free(exchange->direct);
}

/* --- what comes back: true as long as more is wanted --- */

static bool take_body(struct hx_http_connection *connection, struct hx_span bytes)
{
    struct hx_http_exchange *exchange = connection->exchange;
    struct hx_span data;
    int rc = HX_CHUNKED_MORE;

    switch (connection->framing) {
    case BY_THE_END:
        if (bytes.len > 0)
            hx_http_reply_add(exchange, bytes);
        return true;
    case BY_LENGTH:
        data = hx_span(bytes.ptr, connection->left < bytes.len ? connection->left : bytes.len);
        if (data.len > 0)
            hx_http_reply_add(exchange, data);
        connection->left -= data.len;
        bytes.len -= data.len;
        rc = connection->left == 0 ? HX_CHUNKED_END : HX_CHUNKED_MORE;
        break;
    case BY_CHUNKS:
        while ((rc = hx_chunked_next(&connection->chunked, &bytes, &data)) == 0)
            hx_http_reply_add(exchange, data);
        break;
    }
    if (rc == HX_CHUNKED_BAD)
        return fail(connection, CURLE_RECV_ERROR);
    if (rc == HX_CHUNKED_MORE)
        return true;
    connection->may_keep &= bytes.len == 0;
    return finish(connection);
}

static void take_head(struct hx_http_connection *connection, const struct hx_http1_head *head,
                      struct hx_span bytes)
{
    struct hx_http_exchange *exchange = connection->exchange;
    bool has_no_body = hx_http1_has_no_body(head->status);

    connection->has_head = true;
    connection->may_keep = head->is_keep_alive;
    connection->chunked = (struct hx_chunked){0};
    connection->left = has_no_body || !head->has_length ? 0 : head->length;
    if (has_no_body || (head->has_length && !head->is_chunked))
        connection->framing = BY_LENGTH;
    else
        connection->framing = head->is_chunked ? BY_CHUNKS : BY_THE_END;
    hx_http_request_take_head(exchange, (int)head->status, hx_http1_find(head, "content-type"),
                              hx_http1_find(head, "content-encoding"));
    exchange->has_end = connection->framing != BY_THE_END;
    if (head->status >= 300)
        (void)hx_buf_append_span(&exchange->refusal, bytes); /* or what it says of itself is lost */
}

/* 0, HX_HTTP1_MORE, or what is wrong with it. */
static enum hx_http1_fault look_for_head(struct hx_http_connection *connection, size_t *ret_len)
{
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_head head;

    for (;;) {
        struct hx_span bytes = hx_buf_span(&connection->in);
        enum hx_http1_fault fault = hx_http1_scan(&connection->scan, bytes, &limits, ret_len);
        if (fault == HX_HTTP1_OK)
            fault = hx_http1_read_response(hx_span(bytes.ptr, *ret_len), headers, &limits, &head);
        if (fault != HX_HTTP1_OK)
            return fault;
        if (head.status == 101) /* we asked for no other protocol */
            return HX_HTTP1_BAD_START;
        if (head.status >= 200) {
            take_head(connection, &head, hx_span(bytes.ptr, *ret_len));
            return HX_HTTP1_OK;
        }
        hx_buf_consume(&connection->in, *ret_len);
        connection->scan = (struct hx_http1_scan){0};
    }
}

static bool take_bytes(struct hx_http_connection *connection, struct hx_span bytes)
{
    enum hx_http1_fault fault;
    size_t len = 0;

    if (connection->has_head)
        return take_body(connection, bytes);
    if (hx_buf_append_span(&connection->in, bytes) != 0)
        return fail(connection, CURLE_OUT_OF_MEMORY);
    fault = look_for_head(connection, &len);
    if (fault == HX_HTTP1_MORE)
        return true;
    if (fault != HX_HTTP1_OK)
        return fail(connection, CURLE_WEIRD_SERVER_REPLY);
    return take_body(connection, hx_span(connection->in.data + len, connection->in.len - len));
}

static bool take_end(struct hx_http_connection *connection)
{
    if (!connection->has_head)
        return fail(connection, CURLE_GOT_NOTHING);
    if (connection->framing != BY_THE_END)
        return fail(connection, CURLE_PARTIAL_FILE);
    connection->may_keep = false;
    return finish(connection);
}

static void read_reply(struct hx_http_connection *connection)
{
    char bytes[READ_BYTES];
    bool goes_on = true;

    for (unsigned reads = 0; goes_on && reads < READS_PER_TURN; reads++) {
        ssize_t len = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len > 0)
            goes_on =
                take_bytes(connection, hx_span(bytes, (size_t)len)) && (size_t)len == sizeof bytes;
        else if (len == 0)
            goes_on = take_end(connection);
        else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
            goes_on = false;
        else
            goes_on = fail(connection, CURLE_RECV_ERROR);
    }
}

/* --- what we say --- */

/* False when the connection is broken. */
static bool send_more(struct hx_http_connection *connection)
{
    struct hx_http_exchange *exchange = connection->exchange;
    size_t head_len = connection->head.len;
    size_t before = connection->sent > head_len ? connection->sent - head_len : 0;
    size_t head_sent = connection->sent - before;
    struct iovec parts[2] = {{connection->head.data + head_sent, head_len - head_sent},
                             {exchange->body.data + before, exchange->body.len - before}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t len = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (len < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection->sent += (size_t)len;
    if (connection->sent > head_len + before)
        hx_http_request_handed_out(exchange, connection->sent - head_len - before);
    return true;
}

static void want(struct hx_http_connection *connection)
{
    struct hx_http_exchange *exchange = connection->exchange;
    bool is_all_sent = connection->sent == connection->head.len + exchange->body.len;

    hx_loop_fd_want(connection->watch,
                    (exchange->is_paused ? 0 : HX_LOOP_READ) | (is_all_sent ? 0 : HX_LOOP_WRITE));
}

static void connection_ready(void *arg, unsigned events)
{
    struct hx_http_connection *connection = arg;
    struct hx_http_exchange *exchange = connection->exchange;

    if (exchange == NULL) { /* an idle one has nothing to say but its end */
        connection_free(connection);
        return;
    }
    exchange->is_paused = exchange->client->is_held;
    if ((events & HX_LOOP_WRITE) != 0 && !send_more(connection) && connection->sent == 0) {
        (void)fail(connection, CURLE_COULDNT_CONNECT);
        return;
    }
    want(connection);
    if ((events & HX_LOOP_READ) != 0 && !exchange->is_paused)
        read_reply(connection);
}

void hx_http_direct_go_on(struct hx_http_exchange *exchange)
{
    want(exchange->direct);
}

static bool write_head(struct hx_http_connection *connection)
{
    const struct hx_http_exchange *exchange = connection->exchange;
    struct hx_buf *head = &connection->head;

    hx_buf_reset(head);
    (void)hx_buf_append_span(head, hx_buf_span(&connection->client->direct.start));
    (void)hx_buf_printf(head, "Content-Length: %zu\r\n", exchange->body.len);
    for (const struct curl_slist *at = exchange->headers; at != NULL; at = at->next) {
        struct hx_span line = hx_span_cstr(at->data);
        if (line.ptr[line.len - 1] == ':') /* for the library: not to be sent */
            continue;
        (void)hx_buf_append_span(head, line);
        (void)hx_buf_append_cstr(head, "\r\n");
    }
    (void)hx_buf_append_cstr(head, "\r\n");
    return hx_buf_ok(head);
}

static bool names_host(const struct curl_slist *headers)
{
    for (; headers != NULL; headers = headers->next)
        if (strncasecmp(headers->data, "host:", 5) == 0)
            return true;
    return false;
}

bool hx_http_direct_begin(struct hx_http_exchange *exchange)
{
    struct hx_http_client *client = exchange->client;
    struct hx_http_connection *connection;

    /* The library learns the session from the answer to the greeting, and an operator's Host is
     * its to put in place. */
    if (!client->direct.is_possible || client->direct.address_len == 0 || exchange->is_by_library ||
        exchange->is_get || exchange->purpose == HX_HTTP_GOODBYE || exchange->is_initialize ||
        exchange->was_retried || exchange->body.len == 0 || names_host(exchange->headers))
        return false;
    connection = connection_take(client);
    if (connection == NULL)
        return false;
    connection->exchange = exchange;
    connection->sent = 0;
    connection->has_head = false;
    connection->scan = (struct hx_http1_scan){0};
    hx_buf_reset(&connection->in);
    if (!write_head(connection) || (!send_more(connection) && connection->sent == 0)) {
        connection->exchange = NULL;
        connection_free(connection);
        return false;
    }
    exchange->direct = connection;
    exchange->is_begun = true;
    if (exchange->handed_out == 0)
        hx_loop_timer_set(exchange->timer, client->options.connect_timeout_ms);
    want(connection);
    return true;
}

struct hx_span hx_http_direct_header(const struct hx_http_exchange *exchange, const char *name,
                                     unsigned index)
{
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_head head;

    if (exchange->refusal.len == 0 ||
        hx_http1_read_response(hx_buf_span(&exchange->refusal), headers, &limits, &head) !=
            HX_HTTP1_OK)
        return (struct hx_span){0};
    for (uint32_t i = 0; i < head.header_count; i++)
        if (hx_span_eq_nocase(headers[i].name, hx_span_cstr(name)) && index-- == 0)
            return headers[i].value;
    return (struct hx_span){0};
}

void hx_http_direct_rest(struct hx_http_direct *direct)
{
    struct hx_list *node;

    while ((node = hx_list_first(&direct->idle)) != NULL)
        connection_free(hx_container_of(node, struct hx_http_connection, node));
}

void hx_http_direct_fini(struct hx_http_direct *direct)
{
    hx_http_direct_rest(direct);
    hx_buf_fini(&direct->start);
}
