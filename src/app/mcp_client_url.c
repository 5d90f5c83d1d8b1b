/* SPDX-License-Identifier: MIT */
#include "app/mcp_client_url.h"

#include "adapter/clock_os/clock_os.h"
#include "adapter/http_client/http_client.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { SENDING_MS = 15000, TURN_MS = 50, GOODBYE_MS = 1000, MESSAGE_MAX = 16 << 20 };

/* A tag is the id of its request and one more, so that 0 stays "no request". */
struct way {
    struct hx_loop *loop;
    struct hx_upstream *upstream;
    struct hx_list inbox;
    uint64_t awaited; /* the tag whose bytes are on their way; 0 = none */
    bool has_left;
    bool was_accepted;
    bool has_closed;
    uint64_t notice_count;
};

static void take_event(struct hx_mcp_client *client, struct way *way,
                       const struct hx_peer_event *event)
{
    bool is_of_request = event->tag > 0 && event->tag <= HX_MCP_ANSWERS_MAX;
    switch (event->type) {
    case HX_PEER_MESSAGE:
        hx_mcp_client_take(client, hx_buf_span(&event->line));
        break;
    case HX_PEER_WRITTEN:
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
        if (event->tag == way->awaited) {
            way->has_left = true;
            way->was_accepted = event->type == HX_PEER_WRITTEN;
        }
        break;
    case HX_PEER_ANSWER_LOST:
    case HX_PEER_REJECTED:
        if (is_of_request)
            client->answers[event->tag - 1].is_lost = true;
        break;
    case HX_PEER_CLOSED:
        way->has_closed = true;
        break;
    default:
        break; /* what concerns gateways only */
    }
}

static void take_events(struct hx_mcp_client *client, struct way *way)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&way->inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        take_event(client, way, event);
        hx_peer_event_free(event);
    }
}

/* One turn of the loop at most. False when it cannot turn. */
static bool turn(struct hx_mcp_client *client, struct way *way, int64_t wait_ms)
{
    if (hx_loop_run_once(way->loop, wait_ms < TURN_MS ? wait_ms : TURN_MS) < 0)
        return false;
    take_events(client, way);
    return true;
}

/* Called from within a turn, so it must not turn itself. */
static void url_reply(struct hx_mcp_client *client, struct hx_span message)
{
    struct way *way = client->url;
    struct hx_buf line;
    hx_buf_init(&line, MESSAGE_MAX);
    if (hx_buf_append_span(&line, message) == 0)
        way->upstream->ops->send(way->upstream, &line, HX_MCP_ANSWERS_MAX + ++way->notice_count);
    hx_buf_fini(&line);
}

static bool url_pump(struct hx_mcp_client *client, struct hx_mono deadline)
{
    int64_t left_ms = hx_mono_since_ms(deadline, hx_mcp_now());
    return left_ms > 0 && turn(client, client->url, left_ms);
}

static bool url_send(struct hx_mcp_client *client, struct hx_span message, unsigned id,
                     struct hx_span headers)
{
    struct way *way = client->url;
    struct hx_buf line;
    bool is_request = id > 0 || client->answers[0].is_there == false;
    hx_buf_init(&line, MESSAGE_MAX);
    if (hx_buf_append_span(&line, message) < 0) {
        hx_buf_fini(&line);
        return false;
    }
    way->awaited = is_request ? id + 1 : HX_MCP_ANSWERS_MAX + ++way->notice_count;
    way->has_left = false;
    way->was_accepted = false;
    way->upstream->ops->send_with(way->upstream, &line, headers, way->awaited);
    struct hx_mono deadline = hx_mono_after(hx_mcp_now(), SENDING_MS);
    take_events(client, way); /* it may have left at once, and a turn would read on */
    while (!way->has_left && !hx_mono_reached(hx_mcp_now(), deadline))
        if (!turn(client, way, TURN_MS))
            break;
    way->awaited = 0;
    return way->was_accepted;
}

static void url_give_up(struct hx_mcp_client *client, unsigned id)
{
    struct way *way = client->url;
    way->upstream->ops->drop(way->upstream, id + 1);
}

static void url_stop(struct hx_mcp_client *client)
{
    struct way *way = client->url;
    struct hx_list *node;
    if (way == NULL)
        return;
    if (way->upstream != NULL) {
        /* The server need not keep the session. */
        struct hx_mono deadline = hx_mono_after(hx_mcp_now(), GOODBYE_MS);
        way->upstream->ops->stop(way->upstream);
        while (!way->has_closed && !hx_mono_reached(hx_mcp_now(), deadline))
            if (!turn(client, way, TURN_MS))
                break;
    }
    hx_http_client_free(way->upstream);
    while ((node = hx_list_take_first(&way->inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
    hx_loop_free(way->loop);
    client->url = hx_free(way);
}

static const struct hx_mcp_way url_way = {url_send, url_reply, url_pump, url_give_up, url_stop};

static int open_upstream(struct way *way, const char *url, const struct hx_settings *settings)
{
    struct hx_http_client_options options = hx_http_client_defaults();
    options.url = url;
    options.proxy = settings->proxy;
    options.ca_file = settings->ca_file;
    options.cert_file = settings->cert_file;
    options.key_file = settings->key_file;
    options.headers_file = settings->headers_file;
    options.connect_timeout_ms = settings->connect_timeout;
    options.has_unasked_stream = false;
    options.stop_grace_ms = 0;
    way->loop = hx_loop_new(&(struct hx_loop_clock){hx_clock_os_mono, NULL});
    if (way->loop == NULL)
        return HX_E_SYSTEM;
    int rc = hx_http_client_new(way->loop, &way->inbox, &options, &way->upstream);
    if (rc == 0)
        way->upstream->ops->start(way->upstream, 1);
    return HX_TRACE(rc);
}

int hx_mcp_client_open_url(struct hx_mcp_client *client, const char *url,
                           const struct hx_settings *settings)
{
    struct way *way = hx_new(struct way);
    hx_mcp_client_init(client, &url_way);
    client->url = way;
    hx_list_init(&way->inbox);
    return HX_TRACE(open_upstream(way, url, settings));
}
