/* SPDX-License-Identifier: MIT */
/*
 * The port's words about single messages: send, drop, resume. What a message is, as far as its way
 * is concerned, is read from it here and nowhere else.
 */
#include "adapter/http_client/client.h"

enum { EXTRA_HEADERS_MAX = 16, HEADER_MAX = 8192 };

/* NULL: there is no memory to see what it is, and a request that went as a notice would have no
 * answer. */
static struct hx_http_exchange *message_new(struct hx_http_client *client, struct hx_buf *line,
                                            uint64_t tag)
{
    struct hx_rpc_msg msg;
    struct hx_http_exchange *exchange;
    enum hx_http_purpose purpose;

    hx_arena_reset(&client->arena);
    if (hx_rpc_read(&client->tape, hx_buf_span(line), &client->limits, &client->arena, &msg) < 0)
        return NULL;
    purpose = msg.kind == HX_RPC_REQUEST ? HX_HTTP_REQUEST : HX_HTTP_NOTICE;
    exchange = hx_http_exchange_new(client, purpose);
    exchange->tag = tag;
    if (purpose == HX_HTTP_REQUEST) {
        enum hx_mcp_method method = hx_mcp_method_parse(msg.method);
        exchange->is_initialize = method == HX_MCP_INITIALIZE;
        if (hx_buf_append_span(&exchange->id, msg.id.raw) != 0)
            exchange->purpose = HX_HTTP_NOTICE; /* longer than any id of ours */
    } else if (msg.kind == HX_RPC_NOTIFICATION) {
        exchange->is_initialized = hx_mcp_method_parse(msg.method) == HX_MCP_INITIALIZED;
    } else {
        exchange->may_jump = msg.kind == HX_RPC_RESULT || msg.kind == HX_RPC_ERROR;
    }
    exchange->body = *line;
    hx_buf_init(line, line->len_max);
    return exchange;
}

/* False when one of them cannot be sent. */
static bool take_extra(struct hx_http_exchange *exchange, struct hx_span headers)
{
    unsigned count = 0;

    while (headers.len > 0) {
        const char *newline = memchr(headers.ptr, '\n', headers.len);
        struct hx_span line =
            hx_span(headers.ptr, newline != NULL ? (size_t)(newline - headers.ptr) : headers.len);
        char header[HEADER_MAX];

        headers = hx_span(line.ptr + line.len + (newline != NULL),
                          headers.len - line.len - (newline != NULL));
        if (++count > EXTRA_HEADERS_MAX || line.len >= sizeof header ||
            !hx_http_header_is_good(line))
            return false;
        memcpy(header, line.ptr, line.len);
        header[line.len] = '\0';
        hx_http_header_append(&exchange->extra, header);
    }
    return true;
}

void hx_http_send_with(struct hx_upstream *upstream, struct hx_buf *line, struct hx_span headers,
                       uint64_t tag)
{
    struct hx_http_client *client = hx_http_client_of(upstream);
    struct hx_http_exchange *exchange;

    if (client->state != HX_HTTP_UP || line->len == 0) {
        hx_buf_fini(line);
        hx_http_client_tell(client, HX_PEER_NOT_SENT, tag);
        return;
    }
    exchange = message_new(client, line, tag);
    if (exchange == NULL) {
        hx_buf_fini(line);
        hx_http_client_tell(client, HX_PEER_NOT_SENT, tag);
        return;
    }
    hx_http_exchange_queue(exchange);
    if (!take_extra(exchange, headers))
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_NONE);
    hx_http_client_turn(client);
}

void hx_http_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    hx_http_send_with(upstream, line, HX_SPAN_LIT(""), tag);
}

static struct hx_http_exchange *find(struct hx_http_client *client, uint64_t tag)
{
    struct hx_list *lists[] = {&client->running, &client->waiting, &client->queued};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        hx_list_for_each (node, lists[i]) {
            struct hx_http_exchange *exchange = hx_http_exchange_of(node);
            if (exchange->purpose == HX_HTTP_REQUEST && exchange->tag == tag)
                return exchange;
        }
    }
    return NULL;
}

void hx_http_drop(struct hx_upstream *upstream, uint64_t tag)
{
    struct hx_http_client *client = hx_http_client_of(upstream);
    struct hx_http_exchange *exchange = find(client, tag);

    if (exchange != NULL)
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_NONE);
    hx_http_client_turn(client);
}

/* Those that wait for a stream have no connection, and take up memory all the same. */
static void bound_waiting(struct hx_http_client *client)
{
    struct hx_http_exchange *oldest = NULL;
    unsigned count = 0;

    hx_list_for_each (node, &client->waiting) {
        struct hx_http_exchange *exchange = hx_http_exchange_of(node);
        count += exchange->gives_way;
        if (exchange->gives_way && oldest == NULL)
            oldest = exchange;
    }
    if (count > client->options.exchanges_max)
        hx_http_exchange_abort(oldest, HX_PEER_LOSS_STOPPED);
}

void hx_http_give_way(struct hx_upstream *upstream, uint64_t tag)
{
    struct hx_http_client *client = hx_http_client_of(upstream);
    struct hx_http_exchange *exchange = find(client, tag);

    if (exchange != NULL && exchange->place == HX_HTTP_QUEUED)
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_NONE);
    else if (exchange != NULL)
        exchange->gives_way = true;
    bound_waiting(client);
    hx_http_client_turn(client);
}

void hx_http_resume(struct hx_upstream *upstream, struct hx_span text, uint64_t tag)
{
    struct hx_http_client *client = hx_http_client_of(upstream);
    struct hx_http_exchange *exchange;

    if (client->state != HX_HTTP_UP || client->options.is_apart) {
        hx_http_client_tell(client, HX_PEER_ANSWER_LOST, tag)->loss = HX_PEER_LOSS_RESUME;
        return;
    }
    exchange = hx_http_exchange_new(client, HX_HTTP_REQUEST);
    exchange->tag = tag;
    exchange->is_fate_told = true;
    if (hx_http_resume_read(exchange, text)) {
        hx_http_exchange_wait(exchange, 0);
    } else {
        hx_http_exchange_queue(exchange);
        exchange->is_get = true;
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_RESUME);
    }
}
