/* SPDX-License-Identifier: MIT */
/*
 * The transport of 2024-11-05 (HTTP+SSE): answers come apart from their requests. One GET stream
 * carries everything that the server says, and names in its first event the address for our POSTs.
 *
 * The stream is the session. When it ends, whatever was sent and not answered is lost, for there is
 * nothing to come back by, and the next generation greets anew on a new stream. It is opened with
 * the first message and not again by itself, so that a server that is away is not called for ever.
 *
 * A POST that ended without a word proves nothing: its answer may still come on the stream, and is
 * waited for a little. One that was refused was not dispatched (outcome.h).
 *
 * The library calls take_event in the middle of its own work; nothing may begin or end there. So
 * that is left to a timer (hx_http_apart_due).
 */
#include "adapter/http_client/client.h"

#include "base/alloc.h"

static bool is_request(const struct hx_http_exchange *exchange)
{
    return exchange->purpose == HX_HTTP_REQUEST && !exchange->is_settled;
}

/* --- the address --- */

static bool is_same_part(CURLU *one, CURLU *other, CURLUPart part, unsigned flags)
{
    char *a = NULL;
    char *b = NULL;
    bool is_same = curl_url_get(one, part, &a, flags) == CURLUE_OK &&
                   curl_url_get(other, part, &b, flags) == CURLUE_OK && strcmp(a, b) == 0;

    curl_free(a);
    curl_free(b);
    return is_same;
}

/* `place` against the URL of the stream; NULL when it is none, or of another server: our headers
 * may hold credentials, and are for this one. */
static char *resolve(const char *url, const char *place)
{
    CURLU *base = curl_url();
    CURLU *there = curl_url();
    char *text = NULL;
    bool is_good = base != NULL && there != NULL &&
                   curl_url_set(base, CURLUPART_URL, url, 0) == CURLUE_OK &&
                   curl_url_set(there, CURLUPART_URL, url, 0) == CURLUE_OK &&
                   curl_url_set(there, CURLUPART_URL, place, 0) == CURLUE_OK &&
                   is_same_part(base, there, CURLUPART_SCHEME, 0) &&
                   is_same_part(base, there, CURLUPART_HOST, 0) &&
                   is_same_part(base, there, CURLUPART_PORT, CURLU_DEFAULT_PORT) &&
                   curl_url_get(there, CURLUPART_URL, &text, 0) == CURLUE_OK;
    char *copy = is_good ? hx_strdup(text) : NULL;

    curl_free(text);
    curl_url_cleanup(base);
    curl_url_cleanup(there);
    return copy;
}

static void take_address(struct hx_http_client *client, struct hx_span data)
{
    char place[HX_HTTP_URL_MAX];

    if (client->post_url != NULL || data.len >= sizeof place)
        return;
    memcpy(place, data.ptr, data.len);
    place[data.len] = '\0';
    client->post_url = resolve(client->options.url, place);
    client->is_address_bad = client->post_url == NULL;
    hx_loop_timer_set(client->unasked_timer, 0);
}

/* --- what comes on the stream --- */

static struct hx_http_exchange *find_asker(struct hx_http_client *client,
                                           const struct hx_sse_event *event)
{
    struct hx_list *lists[] = {&client->waiting, &client->running};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        hx_list_for_each (node, lists[i]) {
            struct hx_http_exchange *exchange = hx_http_exchange_of(node);
            if (is_request(exchange) && exchange->session == client->session &&
                hx_http_reply_answers(exchange, event))
                return exchange;
        }
    }
    return NULL;
}

bool hx_http_apart_take(struct hx_http_exchange *stream, const struct hx_sse_event *event)
{
    struct hx_http_client *client = stream->client;
    struct hx_http_exchange *asker;

    if (!client->options.is_apart || stream->purpose != HX_HTTP_UNASKED)
        return false;
    if (hx_span_eq_cstr(event->type, "endpoint")) {
        take_address(client, event->data);
        return true;
    }
    asker = find_asker(client, event);
    if (asker == NULL)
        return false;
    hx_http_reply_event(asker, event);
    hx_loop_timer_set(client->unasked_timer, 0);
    return true;
}

/* --- its beginning and its end --- */

bool hx_http_apart_is_open(struct hx_http_client *client)
{
    struct hx_http_exchange *stream;

    if (!client->options.is_apart || client->post_url != NULL)
        return true;
    if (client->unasked != NULL || hx_list_is_empty(&client->queued))
        return false;
    stream = hx_http_exchange_new(client, HX_HTTP_UNASKED);
    client->unasked = stream;
    client->counters.unasked_gets++;
    hx_http_exchange_begin(stream);
    /* A server that says nothing is no server of this kind. */
    if (client->unasked == stream)
        hx_loop_timer_set(stream->timer, client->options.stall_timeout_ms);
    return false;
}

static void refuse_queued(struct hx_http_client *client, int status, struct hx_span words)
{
    struct hx_list *node;

    while ((node = hx_list_first(&client->queued)) != NULL)
        hx_http_exchange_refuse(hx_http_exchange_of(node), status, words);
}

static void lose_all(struct hx_list *list)
{
    hx_list_for_each_safe (node, list)
        hx_http_exchange_abort(hx_http_exchange_of(node), HX_PEER_LOSS_CONNECTION);
}

void hx_http_apart_ended(struct hx_http_exchange *stream, struct hx_span words)
{
    struct hx_http_client *client = stream->client;
    bool was_open = client->post_url != NULL;
    int status = stream->status;

    client->post_url = hx_free(client->post_url);
    client->unasked = NULL;
    if (!was_open) {
        refuse_queued(client, status, words);
        hx_http_exchange_release(stream);
        return;
    }
    hx_list_unlink(&stream->node); /* it is none of those that wait */
    lose_all(&client->running);
    lose_all(&client->waiting);
    hx_list_append(&client->running, &stream->node);
    hx_http_client_session_lost(client, stream->session);
    hx_http_exchange_release(stream);
}

void hx_http_apart_lose_waiting(struct hx_http_client *client)
{
    if (client->options.is_apart)
        lose_all(&client->waiting);
}

void hx_http_apart_close(struct hx_http_client *client)
{
    client->post_url = hx_free(client->post_url);
    client->is_address_bad = false;
}

void hx_http_apart_due(struct hx_http_client *client)
{
    struct hx_http_exchange *stream = client->unasked;

    hx_list_for_each_safe (node, &client->waiting) {
        struct hx_http_exchange *exchange = hx_http_exchange_of(node);
        if (exchange->is_settled)
            hx_http_exchange_release(exchange);
    }
    if (stream != NULL && client->post_url != NULL)
        hx_loop_timer_clear(stream->timer);
    else if (stream != NULL && client->is_address_bad)
        hx_http_apart_ended(stream,
                            HX_SPAN_LIT("the endpoint that it names is none of this server"));
    client->is_address_bad = false;
    hx_http_client_turn(client);
}

/* --- the POSTs --- */

/* The stream that its answer would come on is there. */
static bool is_stream_there(const struct hx_http_exchange *exchange)
{
    const struct hx_http_client *client = exchange->client;

    return client->unasked != NULL && exchange->session == client->session && !client->is_stale;
}

static void wait_for_answer(struct hx_http_exchange *exchange, int64_t grace_ms)
{
    if (exchange->purpose != HX_HTTP_REQUEST || !is_stream_there(exchange)) {
        if (exchange->purpose == HX_HTTP_REQUEST)
            hx_http_exchange_lose(exchange, HX_PEER_LOSS_CONNECTION, HX_SPAN_LIT(""));
        hx_http_exchange_release(exchange);
        return;
    }
    hx_http_exchange_place(exchange, HX_HTTP_WAITING);
    if (grace_ms > 0)
        hx_loop_timer_set(exchange->timer, grace_ms);
}

void hx_http_apart_posted(struct hx_http_exchange *exchange)
{
    bool is_accepted = exchange->status >= 200 && exchange->status < 300;

    if (exchange->is_settled)
        hx_http_exchange_release(exchange);
    else if (is_accepted)
        wait_for_answer(exchange, 0);
    else
        wait_for_answer(exchange, exchange->client->options.answer_grace_ms);
}

void hx_http_apart_waited(struct hx_http_exchange *exchange)
{
    if (!exchange->is_settled)
        hx_http_exchange_lose(exchange,
                              exchange->status != 0 ? HX_PEER_LOSS_STATUS : HX_PEER_LOSS_CONNECTION,
                              hx_http_reply_excerpt(exchange));
    hx_http_exchange_release(exchange);
}
