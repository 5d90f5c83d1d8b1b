/* SPDX-License-Identifier: MIT */
/*
 * The stream for what the server says without being asked. A server need not have one: after 405,
 * or after a few failures, that is how it is until the next session. One that lives is opened again
 * when it ends, behind the last event that came, and the sooner it ends the later.
 */
#include "adapter/http_client/client.h"

enum { SHORT_LIFE_MS = 5000, FAILURES_MAX = 3, DOUBLINGS_MAX = 6 };

static void begin(struct hx_http_client *client)
{
    struct hx_http_exchange *exchange = hx_http_exchange_new(client, HX_HTTP_UNASKED);

    client->unasked = exchange;
    client->unasked_begun = hx_loop_now(client->loop);
    client->counters.unasked_gets++;
    (void)hx_buf_append_span(&exchange->event_id, hx_buf_span(&client->unasked_event_id));
    hx_http_exchange_begin(exchange);
}

void hx_http_unasked_due(void *arg)
{
    struct hx_http_client *client = arg;

    if (client->options.is_apart)
        hx_http_apart_due(client);
    else if (client->state == HX_HTTP_UP && client->unasked == NULL)
        begin(client);
}

void hx_http_unasked_open(struct hx_http_client *client)
{
    if (client->state != HX_HTTP_UP || !client->options.has_unasked_stream ||
        client->options.is_apart || /* it is open already */
        client->unasked != NULL || hx_loop_timer_is_set(client->unasked_timer))
        return;
    client->unasked_failures = client->unasked_short_lives = 0;
    hx_buf_reset(&client->unasked_event_id);
    begin(client);
}

void hx_http_unasked_close(struct hx_http_client *client)
{
    hx_loop_timer_clear(client->unasked_timer);
    hx_http_apart_close(client);
    if (client->unasked != NULL)
        hx_http_exchange_release(client->unasked);
}

static int64_t next_delay_ms(const struct hx_http_client *client, int64_t asked_ms)
{
    unsigned doublings = client->unasked_failures + client->unasked_short_lives;
    int64_t delay_ms = asked_ms >= 0 ? asked_ms : client->options.retry_ms;

    if (delay_ms < client->options.retry_ms)
        delay_ms = client->options.retry_ms;
    delay_ms <<= doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX;
    return delay_ms < client->options.retry_max_ms ? delay_ms : client->options.retry_max_ms;
}

void hx_http_unasked_ended(struct hx_http_exchange *exchange, CURLcode code)
{
    struct hx_http_client *client = exchange->client;
    bool was_stream = exchange->format == HX_HTTP_STREAM;
    bool may_pass = exchange->status == 0 || exchange->status == 429 || exchange->status >= 500;
    int64_t asked_ms = exchange->retry_ms;
    int64_t lived_ms = hx_mono_since_ms(hx_loop_now(client->loop), client->unasked_begun);

    (void)code; /* cut or ended in order: there is no difference */
    hx_buf_reset(&client->unasked_event_id);
    (void)hx_buf_append_span(&client->unasked_event_id, hx_buf_span(&exchange->event_id));
    hx_http_exchange_release(exchange);
    if (client->state != HX_HTTP_UP)
        return;
    if (was_stream) {
        client->unasked_failures = 0;
        client->unasked_short_lives =
            lived_ms < SHORT_LIFE_MS ? client->unasked_short_lives + 1 : 0;
    } else if (may_pass && client->unasked_failures < FAILURES_MAX) {
        client->unasked_failures++;
    } else {
        return; /* it has none */
    }
    hx_loop_timer_set(client->unasked_timer, next_delay_ms(client, asked_ms));
}
