/* SPDX-License-Identifier: MIT */
/*
 * Streams that end before their answer. That is no failure: from 2025-11-25 on a server may end the
 * connection after an event with an id, and expects us back. The stream is taken up by GET behind
 * the last event that came whole; the request is not sent again.
 *
 * What a GET says of itself (404, 405, 401) says nothing about the request: its answer is lost.
 */
#include "adapter/http_client/client.h"

enum { DELAY_LEAST_MS = 20, IDLE_DELAY_MS = 250, DOUBLINGS_MAX = 10 };

static int64_t doubled(int64_t delay_ms, unsigned doublings, int64_t max_ms)
{
    if (doublings > DOUBLINGS_MAX)
        doublings = DOUBLINGS_MAX;
    delay_ms <<= doublings;
    return delay_ms < max_ms ? delay_ms : max_ms;
}

/* As the server asks, but no stream that brings nothing is opened over and over without a pause. */
static int64_t next_delay_ms(const struct hx_http_exchange *exchange)
{
    const struct hx_http_client_options *options = &exchange->client->options;
    int64_t asked_ms = exchange->retry_ms >= 0 ? exchange->retry_ms : options->retry_ms;
    int64_t least_ms = DELAY_LEAST_MS;

    if (exchange->failures > 0)
        least_ms = doubled(options->retry_ms, exchange->failures - 1, options->retry_max_ms);
    else if (exchange->idle_rounds > 0)
        least_ms = doubled(IDLE_DELAY_MS, exchange->idle_rounds - 1, options->retry_max_ms);
    return asked_ms > least_ms ? asked_ms : least_ms;
}

void hx_http_stream_broke(struct hx_http_exchange *exchange, CURLcode code)
{
    if (exchange->purpose != HX_HTTP_REQUEST || exchange->is_settled) {
        hx_http_exchange_release(exchange);
    } else if (exchange->event_id.len > 0) {
        hx_http_exchange_wait(exchange, next_delay_ms(exchange));
    } else {
        hx_http_exchange_lose(exchange,
                              code == CURLE_OK ? HX_PEER_LOSS_NO_ANSWER : HX_PEER_LOSS_CONNECTION,
                              hx_span_cstr(code == CURLE_OK ? "" : curl_easy_strerror(code)));
        hx_http_exchange_release(exchange);
    }
}

static bool may_pass(int status)
{
    return status == 0 || status == 408 || status == 429 || status >= 500;
}

static void give_up(struct hx_http_exchange *exchange)
{
    hx_http_exchange_lose(exchange, HX_PEER_LOSS_RESUME, hx_http_reply_excerpt(exchange));
    hx_http_exchange_release(exchange);
}

void hx_http_resume_ended(struct hx_http_exchange *exchange, CURLcode code)
{
    if (exchange->is_settled) {
        hx_http_exchange_release(exchange);
    } else if (exchange->format == HX_HTTP_STREAM) {
        exchange->failures = 0;
        exchange->idle_rounds = exchange->has_event ? 0 : exchange->idle_rounds + 1;
        hx_http_stream_broke(exchange, code);
    } else if (hx_http_reply_content(exchange) >= HX_HTTP_ITS_ERROR) {
        hx_http_reply_deliver(exchange);
        hx_http_exchange_release(exchange);
    } else if (may_pass(exchange->status) &&
               exchange->failures < exchange->client->options.resume_failures_max) {
        exchange->failures++;
        hx_http_exchange_wait(exchange, next_delay_ms(exchange));
    } else {
        give_up(exchange);
    }
}
