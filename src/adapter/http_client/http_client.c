/* SPDX-License-Identifier: MIT */
/*
 * The client as a whole: its generations and its end.
 *
 *     start       404 or 400 in a session      start
 *   IDLE -> UP ------------------------> STALE -> UP -> (start: its greeting failed) UP
 *           |  stop                        | stop
 *           +-> STOPPING -> LEAVING -> IDLE, CLOSED
 *
 * kill goes to IDLE from everywhere. In IDLE no exchange exists, and every tag has its fate.
 */
#include "adapter/http_client/http_client.h"

#include <stdio.h>

#include "adapter/http_client/client.h"
#include "base/alloc.h"

enum { TOKENS_MAX = 1 << 20, DEPTH_MAX = 128, ARENA_MAX = 1 << 20 };

struct hx_peer_event *hx_http_client_tell(struct hx_http_client *client,
                                          enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, client->generation);

    event->tag = tag;
    event->upstream = &client->upstream;
    hx_list_append(client->upstream.inbox, &event->node);
    return event;
}

/* --- the end --- */

static void close_down(struct hx_http_client *client)
{
    client->state = HX_HTTP_IDLE;
    hx_http_unasked_close(client);
    hx_loop_timer_clear(client->stop_timer);
    client->session = hx_http_session_drop(client->session);
    hx_http_client_tell(client, HX_PEER_CLOSED, 0);
}

/* Those of `list`; what is due to them is told. */
static void abort_all(struct hx_list *list, enum hx_peer_loss loss)
{
    struct hx_list *node;

    while ((node = hx_list_first(list)) != NULL)
        hx_http_exchange_abort(hx_http_exchange_of(node), loss);
}

static void end_all(struct hx_http_client *client)
{
    hx_http_unasked_close(client);
    abort_all(&client->queued, HX_PEER_LOSS_STOPPED);
    abort_all(&client->running, HX_PEER_LOSS_STOPPED);
    abort_all(&client->waiting, HX_PEER_LOSS_STOPPED);
}

/* Nothing is in flight any more. */
static void leave(struct hx_http_client *client)
{
    hx_loop_timer_clear(client->stop_timer);
    if (!client->options.says_goodbye || client->session->id[0] == '\0' || client->is_stale) {
        close_down(client);
        return;
    }
    client->state = HX_HTTP_LEAVING;
    hx_http_exchange_begin(hx_http_exchange_new(client, HX_HTTP_GOODBYE));
}

/* --- what waits --- */

/* The oldest of those that nobody waits for goes. What its request did is not known by that. */
static bool make_room(struct hx_http_client *client)
{
    hx_list_for_each_safe (node, &client->running) {
        struct hx_http_exchange *exchange = hx_http_exchange_of(node);
        if (exchange->gives_way && exchange->purpose == HX_HTTP_REQUEST) {
            hx_http_exchange_abort(exchange, HX_PEER_LOSS_STOPPED);
            return true;
        }
    }
    return false;
}

static bool may_begin_now(struct hx_http_client *client, const struct hx_http_exchange *exchange)
{
    if (client->greeting != NULL && !exchange->may_jump)
        return false;
    /* A cancel or an answer of ours may be what the running ones wait for. */
    return exchange->purpose != HX_HTTP_REQUEST ||
           client->busy_count < client->options.exchanges_max || make_room(client);
}

static void begin_waiting(struct hx_http_client *client)
{
    if (!hx_http_apart_is_open(client))
        return;
    hx_list_for_each_safe (node, &client->queued) {
        struct hx_http_exchange *exchange = hx_http_exchange_of(node);
        if (!may_begin_now(client, exchange))
            continue;
        if (exchange->is_initialize || exchange->is_initialized)
            client->greeting = exchange;
        hx_loop_timer_clear(exchange->timer);
        hx_http_exchange_begin(exchange);
    }
}

/* The stream of the server's own words does not count: it has no end of its own. */
static bool is_all_over(const struct hx_http_client *client)
{
    const struct hx_list *first = hx_list_first(&client->running);
    bool has_one = first != NULL && first == hx_list_last(&client->running);
    bool is_running =
        first != NULL && !(has_one && client->unasked != NULL && first == &client->unasked->node);

    return hx_list_is_empty(&client->queued) && !is_running && hx_list_is_empty(&client->waiting);
}

static void free_all(struct hx_list *list)
{
    struct hx_list *node;

    while ((node = hx_list_first(list)) != NULL)
        hx_http_exchange_free(hx_http_exchange_of(node));
}

/* Every session of a client may have a connection to the server of its own, and most are idle most
 * of the time: what only makes the next call faster is not kept for long. */
static void rest(struct hx_http_client *client)
{
    free_all(&client->spare);
    hx_http_direct_rest(&client->direct);
    if (client->unasked == NULL)
        hx_http_transfers_rest(&client->transfers);
    hx_json_tape_fini(&client->tape);
    hx_json_tape_init(&client->tape);
    hx_arena_fini(&client->arena);
}

static void rest_due(void *arg)
{
    struct hx_http_client *client = arg;
    int64_t idle_ms = hx_mono_since_ms(hx_loop_now(client->loop), client->idle_since);

    if (!is_all_over(client))
        return; /* their end comes here again */
    if (idle_ms < client->options.idle_connection_ms)
        hx_loop_timer_set(client->rest_timer, client->options.idle_connection_ms - idle_ms);
    else
        rest(client);
}

static void leave_doubtful(struct hx_http_client *client)
{
    if (client->state != HX_HTTP_UP || !hx_http_session_is_doubtful(client))
        return;
    client->has_doubted = true;
    client->doubted = hx_loop_now(client->loop);
    hx_http_client_session_lost(client, client->session);
}

void hx_http_client_turn(struct hx_http_client *client)
{
    /* What cannot begin ends at once and comes here again. */
    if (client->is_turning)
        return;
    client->is_turning = true;
    leave_doubtful(client);
    if (client->state == HX_HTTP_UP)
        begin_waiting(client);
    client->is_turning = false;
    if (!is_all_over(client))
        return;
    if (client->state == HX_HTTP_STOPPING)
        leave(client);
    else if (client->state == HX_HTTP_LEAVING)
        close_down(client);
    client->idle_since = hx_loop_now(client->loop);
    if (!hx_loop_timer_is_set(client->rest_timer))
        hx_loop_timer_set(client->rest_timer, client->options.idle_connection_ms);
}

/* What was not begun in it ends; what is in flight may still be answered. */
static void give_up_generation(struct hx_http_client *client)
{
    hx_http_unasked_close(client);
    hx_http_apart_lose_waiting(client);
    abort_all(&client->queued, HX_PEER_LOSS_NONE);
}

void hx_http_client_session_lost(struct hx_http_client *client,
                                 const struct hx_http_session *session)
{
    /* Once a generation, and not for a late word about an earlier one. */
    if (session != client->session || client->is_stale)
        return;
    client->is_stale = true;
    client->counters.sessions_lost++;
    hx_http_client_tell(client, HX_PEER_SESSION_LOST, 0);
    if (client->state != HX_HTTP_UP)
        return;
    client->state = HX_HTTP_STALE;
    give_up_generation(client);
}

/* --- the port --- */

static void start(struct hx_upstream *upstream, uint32_t generation)
{
    struct hx_http_client *client = hx_http_client_of(upstream);
    bool was_doubtful = client->is_stale && client->session->doubts > 0;

    hx_assert(client->state <= HX_HTTP_STALE);
    if (client->state == HX_HTTP_UP)
        give_up_generation(client);
    hx_http_session_drop(client->session);
    client->session = hx_http_session_new(client->options.revision);
    client->session->is_second_try = was_doubtful;
    client->generation = generation;
    client->greeting = NULL;
    client->is_stale = false;
    client->state = HX_HTTP_UP;
    hx_http_client_tell(client, HX_PEER_STARTED, 0);
}

static void stop_due(void *arg)
{
    struct hx_http_client *client = arg;

    if (client->state == HX_HTTP_STOPPING)
        end_all(client);
    hx_http_client_turn(client);
}

static void stop(struct hx_upstream *upstream)
{
    struct hx_http_client *client = hx_http_client_of(upstream);

    if (client->state != HX_HTTP_UP && client->state != HX_HTTP_STALE)
        return;
    client->state = HX_HTTP_STOPPING;
    if (!client->options.is_apart) /* else the last answers come on it */
        hx_http_unasked_close(client);
    abort_all(&client->queued, HX_PEER_LOSS_NONE);
    hx_loop_timer_set(client->stop_timer, client->options.stop_grace_ms);
    hx_http_client_turn(client);
}

static void kill_now(struct hx_upstream *upstream)
{
    struct hx_http_client *client = hx_http_client_of(upstream);

    if (client->state == HX_HTTP_IDLE)
        return;
    end_all(client);
    close_down(client);
}

static void hold(struct hx_upstream *upstream, bool is_held)
{
    struct hx_http_client *client = hx_http_client_of(upstream);

    client->is_held = is_held;
    hx_list_for_each (node, &client->running)
        hx_http_exchange_hold(hx_http_exchange_of(node), is_held);
}

static const char *transport_name(struct hx_upstream *upstream)
{
    /* Sockets die with their process, so that there is nothing to ask about. */
    (void)upstream;
    return "";
}

static const struct hx_upstream_ops client_ops = {
    .start = start,
    .send = hx_http_send,
    .stop = stop,
    .kill = kill_now,
    .hold = hold,
    .transport_name = transport_name,
    .send_with = hx_http_send_with,
    .drop = hx_http_drop,
    .give_way = hx_http_give_way,
    .resume = hx_http_resume,
};

/* --- memory --- */

struct hx_http_client_options hx_http_client_defaults(void)
{
    return (struct hx_http_client_options){.revision = HX_MCP_UNKNOWN,
                                           .message_max_bytes = 64 << 20,
                                           .exchanges_max = 512,
                                           .queue_timeout_ms = 10000,
                                           .resume_failures_max = 8,
                                           .connect_timeout_ms = 10000,
                                           .stall_timeout_ms = 30000,
                                           .idle_connection_ms = 10000,
                                           .retry_ms = 1000,
                                           .retry_max_ms = 30000,
                                           .linger_ms = 1000,
                                           .stop_grace_ms = 1000,
                                           .answer_grace_ms = 5000,
                                           .has_short_way = true,
                                           .has_unasked_stream = true,
                                           .says_goodbye = true};
}

/* Everything that could make a later setting fail is looked at here. */
static int check_options(const struct hx_http_client_options *options)
{
    CURLU *url = curl_url();
    char *scheme = NULL;
    bool is_good = url != NULL && options->url != NULL &&
                   curl_url_set(url, CURLUPART_URL, options->url, 0) == CURLUE_OK &&
                   curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                   (hx_span_eq_cstr(hx_span_cstr(scheme), "http") ||
                    hx_span_eq_cstr(hx_span_cstr(scheme), "https"));

    curl_free(scheme);
    curl_url_cleanup(url);
    if (!is_good)
        return HX_RAISE(HX_E_SYNTAX, "not an http or https URL");
    for (const char *const *at = options->headers; at != NULL && *at != NULL; at++) {
        if (!hx_http_header_is_good(hx_span_cstr(*at)))
            return HX_RAISE(HX_E_SYNTAX, "a configured header is malformed, or set by us");
    }
    return 0;
}

static void client_init(struct hx_http_client *client, struct hx_loop *loop)
{
    const struct hx_http_client_options *options = &client->options;

    client->loop = loop;
    hx_list_init(&client->queued);
    hx_list_init(&client->running);
    hx_list_init(&client->waiting);
    hx_list_init(&client->spare);
    hx_http_direct_init(&client->direct, options);
    hx_http_transfers_init(&client->transfers, loop, (long)options->exchanges_max,
                           hx_http_exchange_ended);
    client->unasked_timer = hx_loop_timer_new(loop, hx_http_unasked_due, client);
    client->stop_timer = hx_loop_timer_new(loop, stop_due, client);
    client->rest_timer = hx_loop_timer_new(loop, rest_due, client);
    hx_buf_init(&client->unasked_event_id, HX_SSE_ID_MAX);
    hx_json_tape_init(&client->tape);
    hx_arena_init(&client->arena, ARENA_MAX);
    client->limits = (struct hx_json_limits){.depth_max = DEPTH_MAX,
                                             .record_depth_max = HX_RPC_RECORD_DEPTH,
                                             .tokens_max = TOKENS_MAX,
                                             .text_max = options->message_max_bytes + 4096};
}

int hx_http_client_new(struct hx_loop *loop, struct hx_list *inbox,
                       const struct hx_http_client_options *options,
                       struct hx_upstream **ret_upstream)
{
    struct hx_http_client *client;
    int rc;

    rc = hx_curl_load();
    if (rc != 0)
        return HX_TRACE(rc);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counted by the library */
        return HX_RAISE(HX_E_INTERNAL, "the HTTP library cannot start");
    rc = check_options(options);
    if (rc != 0)
        return HX_TRACE(rc);
    client = hx_new(struct hx_http_client);
    client->options = *options;
    if (options->is_apart)
        client->options.has_short_way = client->options.says_goodbye = false;
    client->upstream = (struct hx_upstream){.ops = &client_ops, .inbox = inbox};
    client_init(client, loop);
    hx_http_headers_init(&client->headers, options->headers, options->headers_file);
    rc = hx_http_headers_refresh(&client->headers);
    if (rc != 0) {
        hx_http_client_free(&client->upstream);
        return HX_TRACE(rc);
    }
    *ret_upstream = &client->upstream;
    return 0;
}

struct hx_upstream *hx_http_client_free(struct hx_upstream *upstream)
{
    struct hx_http_client *client;

    if (upstream == NULL)
        return NULL;
    client = hx_http_client_of(upstream);
    free_all(&client->queued);
    free_all(&client->running);
    free_all(&client->waiting);
    free_all(&client->spare);
    hx_http_direct_fini(&client->direct);
    hx_http_transfers_fini(&client->transfers);
    hx_loop_timer_free(client->unasked_timer);
    hx_loop_timer_free(client->stop_timer);
    hx_loop_timer_free(client->rest_timer);
    hx_http_session_drop(client->session);
    hx_free(client->post_url);
    hx_http_headers_fini(&client->headers);
    hx_buf_fini(&client->unasked_event_id);
    hx_json_tape_fini(&client->tape);
    hx_arena_fini(&client->arena);
    hx_free(client);
    return NULL;
}

struct hx_http_client_counters hx_http_client_counters(struct hx_upstream *upstream)
{
    return hx_http_client_of(upstream)->counters;
}
