/* SPDX-License-Identifier: MIT */
/*
 * The life of one exchange: its places, what the engine is told of it, and its end. How one begins
 * is in request.c.
 */
#include "adapter/http_client/client.h"

#include <stdio.h>

#include "base/alloc.h"

enum { SPARE_MAX = 64 };

static void timer_due(void *arg);

/* --- events --- */

struct hx_peer_event *hx_http_exchange_tell(struct hx_http_exchange *exchange,
                                            enum hx_peer_event_type type)
{
    struct hx_peer_event *event = hx_peer_event_new(type, exchange->generation);

    event->tag = exchange->tag;
    event->upstream = &exchange->client->upstream;
    hx_list_append(exchange->client->upstream.inbox, &event->node);
    return event;
}

void hx_http_exchange_fate(struct hx_http_exchange *exchange, enum hx_peer_event_type type)
{
    hx_assert(!exchange->is_fate_told);
    exchange->is_fate_told = true;
    hx_http_exchange_tell(exchange, type);
}

static void tell_last_fate(struct hx_http_exchange *exchange)
{
    if (!exchange->is_fate_told)
        hx_http_exchange_fate(exchange, exchange->handed_out > 0 ? HX_PEER_CUT : HX_PEER_NOT_SENT);
}

void hx_http_exchange_settle(struct hx_http_exchange *exchange)
{
    exchange->is_settled = true;
    if (exchange->client->greeting == exchange)
        exchange->client->greeting = NULL;
    /* A stream ought to end behind its answer; then its connection can be used again. */
    if (exchange->place == HX_HTTP_RUNNING)
        hx_loop_timer_set(exchange->timer, exchange->client->options.linger_ms);
}

void hx_http_exchange_lose(struct hx_http_exchange *exchange, enum hx_peer_loss loss,
                           struct hx_span words)
{
    struct hx_peer_event *event = hx_http_exchange_tell(exchange, HX_PEER_ANSWER_LOST);

    hx_assert(exchange->purpose == HX_HTTP_REQUEST);
    hx_assert(!exchange->is_settled);
    event->loss = loss;
    event->status = exchange->status;
    (void)hx_buf_append_span(&event->line, words); /* or without */
    hx_http_exchange_settle(exchange);
}

static bool is_busy(const struct hx_http_exchange *exchange)
{
    return exchange->place == HX_HTTP_RUNNING && exchange->purpose == HX_HTTP_REQUEST;
}

void hx_http_exchange_place(struct hx_http_exchange *exchange, enum hx_http_place where)
{
    struct hx_http_client *client = exchange->client;
    struct hx_list *lists[] = {[HX_HTTP_SPARE] = &client->spare,
                               [HX_HTTP_QUEUED] = &client->queued,
                               [HX_HTTP_RUNNING] = &client->running,
                               [HX_HTTP_WAITING] = &client->waiting};

    client->busy_count -= is_busy(exchange);
    client->spare_count -= exchange->place == HX_HTTP_SPARE;
    hx_list_unlink(&exchange->node);
    exchange->place = where;
    hx_list_append(lists[where], &exchange->node);
    client->busy_count += is_busy(exchange);
    client->spare_count += where == HX_HTTP_SPARE;
}

void hx_http_exchange_queue(struct hx_http_exchange *exchange)
{
    hx_http_exchange_place(exchange, HX_HTTP_QUEUED);
    if (exchange->purpose == HX_HTTP_REQUEST)
        hx_loop_timer_set(exchange->timer, exchange->client->options.queue_timeout_ms);
}

void hx_http_exchange_refuse(struct hx_http_exchange *exchange, int status, struct hx_span words)
{
    struct hx_peer_event *event = hx_http_exchange_tell(exchange, HX_PEER_NOT_SENT);

    hx_assert(exchange->handed_out == 0);
    exchange->is_fate_told = true;
    event->status = status;
    (void)hx_buf_append_span(&event->line, words); /* or without */
    hx_http_exchange_release(exchange);
}

/* --- the end --- */

static struct hx_span words_of(const struct hx_http_exchange *exchange, CURLcode code)
{
    struct hx_span excerpt = hx_http_reply_excerpt(exchange);

    if (code == CURLE_OK)
        return excerpt;
    return hx_span_cstr(exchange->error[0] != '\0' ? exchange->error : curl_easy_strerror(code));
}

/* Not one byte was handed out, and no reply explains it. */
static bool begin_again(struct hx_http_exchange *exchange)
{
    long fresh_connections = 0;

    hx_assert(curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &fresh_connections) ==
              CURLE_OK);
    /* Only an idle connection that died in our hands: a fresh one would fail again. */
    if (exchange->was_retried || !exchange->is_begun ||
        (fresh_connections > 0 && !exchange->was_refused))
        return false;
    exchange->was_retried = true;
    exchange->client->counters.reconnects++;
    hx_http_exchange_begin(exchange);
    return true;
}

static void not_sent(struct hx_http_exchange *exchange, CURLcode code)
{
    struct hx_peer_event *event;

    exchange->is_fate_told = true;
    event = hx_http_exchange_tell(exchange, HX_PEER_NOT_SENT);
    event->status = exchange->status;
    (void)hx_buf_append_span(&event->line, words_of(exchange, code)); /* or without */
}

static void add_challenge(struct hx_buf *out, struct hx_span value)
{
    if (out->len > 0)
        (void)hx_buf_append_cstr(out, ", ");
    (void)hx_buf_append_span(out, value);
}

static void add_challenges(struct hx_http_exchange *exchange, struct hx_buf *out)
{
    static const char name[] = "WWW-Authenticate";
    struct hx_span value;
    struct curl_header *header;

    for (unsigned i = 0; (value = hx_http_direct_header(exchange, name, i)).ptr != NULL; i++)
        add_challenge(out, value);
    if (exchange->refusal.len > 0)
        return;
    for (size_t i = 0;
         curl_easy_header(exchange->easy, name, i, CURLH_HEADER, -1, &header) == CURLHE_OK; i++)
        add_challenge(out, hx_span_cstr(header->value));
}

/* Seconds; a date counts only when the library read it. */
static int64_t retry_after_ms(const struct hx_http_exchange *exchange)
{
    const int64_t most_s = 86400;
    struct hx_span text = hx_http_direct_header(exchange, "Retry-After", 0);
    curl_off_t after_s = 0;

    if (exchange->refusal.len == 0)
        hx_assert(curl_easy_getinfo(exchange->easy, CURLINFO_RETRY_AFTER, &after_s) == CURLE_OK);
    for (size_t i = 0; i < text.len && after_s < most_s; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return 0;
        after_s = after_s * 10 + (text.ptr[i] - '0');
    }
    return (after_s < most_s ? after_s : most_s) * 1000;
}

static void reject(struct hx_http_exchange *exchange)
{
    struct hx_peer_event *event = hx_http_exchange_tell(exchange, HX_PEER_REJECTED);

    event->status = exchange->status;
    event->retry_after_ms = retry_after_ms(exchange);
    add_challenges(exchange, &event->challenge);
    (void)hx_buf_append_span(&event->line, hx_http_reply_excerpt(exchange));
    hx_http_exchange_settle(exchange);
}

/* A reply that is no stream. */
static void judge(struct hx_http_exchange *exchange, CURLcode code)
{
    struct hx_http_seen seen = {
        .status = exchange->status,
        .is_in_session = exchange->client->options.is_apart ||
                         (exchange->session->id[0] != '\0' && !exchange->is_initialize),
        .is_answer_due = exchange->purpose == HX_HTTP_REQUEST,
        .is_whole = code == CURLE_OK && exchange->has_end,
        .content = hx_http_reply_content(exchange),
    };
    enum hx_peer_loss loss;

    switch (hx_http_judge(&seen, &loss)) {
    case HX_HTTP_ANSWERED:
        hx_http_reply_deliver(exchange);
        break;
    case HX_HTTP_ACCEPTED:
        if (exchange->is_initialized)
            hx_http_unasked_open(exchange->client);
        break;
    case HX_HTTP_SESSION_LOST:
        reject(exchange);
        hx_http_client_session_lost(exchange->client, exchange->session);
        break;
    case HX_HTTP_REFUSED:
        reject(exchange);
        if (exchange->session->id[0] != '\0' && seen.is_answer_due && seen.status == 400 &&
            seen.content == HX_HTTP_NAMELESS)
            exchange->session->doubts++;
        break;
    case HX_HTTP_LOST:
        if (exchange->client->options.is_apart) {
            hx_http_apart_posted(exchange);
            return;
        }
        if (loss == HX_PEER_LOSS_NO_ANSWER)
            hx_http_reply_deliver(exchange); /* what else came */
        if (code != CURLE_OK && loss != HX_PEER_LOSS_STATUS)
            loss = HX_PEER_LOSS_CONNECTION;
        if (exchange->purpose == HX_HTTP_REQUEST && !exchange->is_settled)
            hx_http_exchange_lose(exchange, loss, words_of(exchange, code));
        break;
    }
    hx_http_exchange_release(exchange);
}

static void post_ended(struct hx_http_exchange *exchange, CURLcode code)
{
    const int request_timeout = 408; /* said to an idle connection, just as we took it up */
    bool is_unexplained =
        code != CURLE_OK || exchange->status == 0 || exchange->status == request_timeout;

    if (exchange->handed_out == 0) {
        if (is_unexplained && begin_again(exchange))
            return;
        not_sent(exchange, code);
        hx_http_exchange_release(exchange);
        return;
    }
    tell_last_fate(exchange);
    if (exchange->is_settled) {
        hx_http_exchange_release(exchange);
    } else if (exchange->client->options.is_apart &&
               (exchange->status == 0 || exchange->status / 100 == 2)) {
        hx_http_apart_posted(exchange);
    } else if (exchange->status == 0) {
        if (exchange->purpose == HX_HTTP_REQUEST)
            hx_http_exchange_lose(exchange, HX_PEER_LOSS_CONNECTION, words_of(exchange, code));
        hx_http_exchange_release(exchange);
    } else if (exchange->format == HX_HTTP_STREAM) {
        hx_http_stream_broke(exchange, code);
    } else {
        judge(exchange, code);
    }
}

void hx_http_exchange_ended(void *arg, CURLcode code)
{
    struct hx_http_exchange *exchange = arg;
    struct hx_http_client *client = exchange->client;

    if (exchange->is_in_multi && !exchange->has_head)
        hx_http_request_head(exchange);
    exchange->is_in_multi = false;
    curl_slist_free_all(exchange->headers);
    exchange->headers = NULL;
    hx_loop_timer_clear(exchange->timer);
    if (exchange->purpose == HX_HTTP_GOODBYE)
        hx_http_exchange_release(exchange);
    else if (exchange->purpose == HX_HTTP_UNASKED && client->options.is_apart)
        hx_http_apart_ended(exchange, words_of(exchange, code));
    else if (exchange->purpose == HX_HTTP_UNASKED)
        hx_http_unasked_ended(exchange, code);
    else if (exchange->is_get)
        hx_http_resume_ended(exchange, code);
    else
        post_ended(exchange, code);
    hx_http_client_turn(client);
}

void hx_http_exchange_wait(struct hx_http_exchange *exchange, int64_t delay_ms)
{
    exchange->is_get = true;
    hx_http_exchange_place(exchange, HX_HTTP_WAITING);
    hx_loop_timer_set(exchange->timer, delay_ms);
}

void hx_http_exchange_abort(struct hx_http_exchange *exchange, enum hx_peer_loss loss)
{
    bool is_answer_due;

    tell_last_fate(exchange);
    is_answer_due = exchange->purpose == HX_HTTP_REQUEST && !exchange->is_settled &&
                    (exchange->handed_out > 0 || exchange->is_get);
    if (is_answer_due && loss != HX_PEER_LOSS_NONE)
        hx_http_exchange_lose(exchange, loss, HX_SPAN_LIT(""));
    hx_http_exchange_release(exchange);
}

/* What waits for a greeting, or for the stream of 2024-11-05, ends with that. */
static void queued_too_long(struct hx_http_exchange *exchange)
{
    const struct hx_http_client *client = exchange->client;

    if (client->busy_count < client->options.exchanges_max)
        hx_loop_timer_set(exchange->timer, client->options.queue_timeout_ms);
    else
        hx_http_exchange_refuse(exchange, 0,
                                HX_SPAN_LIT("too many requests to it are not answered yet"));
}

static void timer_due(void *arg)
{
    struct hx_http_exchange *exchange = arg;
    struct hx_http_client *client = exchange->client;

    if (exchange->place == HX_HTTP_QUEUED) {
        queued_too_long(exchange);
    } else if (exchange->purpose == HX_HTTP_UNASKED) {
        hx_http_apart_ended(exchange, HX_SPAN_LIT("it does not name the endpoint for messages"));
    } else if (exchange->place == HX_HTTP_WAITING && client->options.is_apart) {
        hx_http_apart_waited(exchange);
    } else if (exchange->place == HX_HTTP_WAITING) {
        client->counters.resumes++;
        hx_http_exchange_begin(exchange);
    } else if (exchange->is_settled) {
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_NONE);
    } else {
        hx_http_exchange_abort(exchange, HX_PEER_LOSS_STALLED);
    }
    hx_http_client_turn(client);
}

/* --- memory --- */

static struct hx_http_exchange *exchange_make(struct hx_http_client *client)
{
    struct hx_http_exchange *exchange = hx_new(struct hx_http_exchange);
    CURL *easy = hx_http_easy_new(&client->options);

    exchange->client = client;
    exchange->easy = easy;
    exchange->timer = hx_loop_timer_new(client->loop, timer_due, exchange);
    hx_list_init(&exchange->node);
    hx_buf_init(&exchange->refusal, HX_HTTP_HEADERS_FILE_MAX);
    hx_http_request_prepare(exchange);
    return exchange;
}

struct hx_http_exchange *hx_http_exchange_new(struct hx_http_client *client,
                                              enum hx_http_purpose purpose)
{
    struct hx_list *node = hx_list_first(&client->spare);
    struct hx_http_exchange *exchange =
        node != NULL ? hx_container_of(node, struct hx_http_exchange, node) : exchange_make(client);

    if (node != NULL) {
        client->spare_count--;
        hx_list_unlink(node);
    }
    exchange->place = HX_HTTP_QUEUED; /* as soon as it is in a list */
    exchange->purpose = purpose;
    exchange->generation = client->generation;
    exchange->session = hx_http_session_hold(client->session);
    exchange->tag = 0;
    exchange->handed_out = 0;
    exchange->is_initialize = exchange->is_initialized = exchange->may_jump = false;
    exchange->is_get = purpose == HX_HTTP_UNASKED;
    exchange->is_fate_told = purpose == HX_HTTP_UNASKED || purpose == HX_HTTP_GOODBYE;
    exchange->is_by_library = false;
    exchange->was_retried = exchange->is_settled = exchange->is_point_due = false;
    exchange->gives_way = false;
    exchange->retry_ms = -1;
    exchange->failures = exchange->idle_rounds = 0;
    hx_buf_init(&exchange->body, client->options.message_max_bytes + 4096);
    hx_buf_init(&exchange->id, HX_RPC_ID_MAX);
    hx_buf_init(&exchange->event_id, HX_SSE_ID_MAX);
    return exchange;
}

static void let_go(struct hx_http_exchange *exchange)
{
    if (exchange->is_in_multi)
        hx_http_transfers_remove(&exchange->client->transfers, exchange->easy);
    exchange->is_in_multi = false;
    hx_http_direct_drop(exchange);
    hx_loop_timer_clear(exchange->timer);
    curl_slist_free_all(exchange->headers);
    curl_slist_free_all(exchange->extra);
    exchange->headers = exchange->extra = NULL;
    exchange->session = hx_http_session_drop(exchange->session);
    hx_buf_fini(&exchange->body);
    hx_buf_fini(&exchange->id);
    hx_buf_fini(&exchange->event_id);
    hx_http_reply_end(exchange);
}

void hx_http_exchange_release(struct hx_http_exchange *exchange)
{
    struct hx_http_client *client = exchange->client;

    if (client->greeting == exchange)
        client->greeting = NULL;
    if (client->unasked == exchange)
        client->unasked = NULL;
    let_go(exchange);
    hx_http_exchange_place(exchange, HX_HTTP_SPARE);
    if (client->spare_count > SPARE_MAX)
        hx_http_exchange_free(exchange);
}

void hx_http_exchange_free(struct hx_http_exchange *exchange)
{
    struct hx_http_client *client = exchange->client;

    client->busy_count -= is_busy(exchange);
    client->spare_count -= exchange->place == HX_HTTP_SPARE;
    hx_list_unlink(&exchange->node);
    let_go(exchange);
    curl_easy_cleanup(exchange->easy);
    hx_loop_timer_free(exchange->timer);
    hx_hasher_free(exchange->hasher);
    hx_buf_fini(&exchange->reply);
    hx_buf_fini(&exchange->refusal);
    hx_free(exchange);
}
