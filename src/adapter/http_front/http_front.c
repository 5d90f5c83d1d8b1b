/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "adapter/http_front/http_front.h"

#include "adapter/http_front/internal.h"
#include "base/alloc.h"

struct hx_http_front {
    struct front front;
};

struct front *front_of(struct hx_http_front *front)
{
    return &front->front;
}

struct hx_http_front_options hx_http_front_defaults(void)
{
    return (struct hx_http_front_options){
        .mcp_path = "/mcp",
        .challenge = "Bearer",
        .message_max_bytes = 64 << 20,
        .sessions_max = 10000,
        .sessions_per_principal_max = 1000,
        .queue_messages_max = 64,
        .stream_after_ms = 1000,
        .stream_keep_ms = 60 * 1000,
        .stream_keep_bytes_max = 1 << 20,
        .retry_ms = 1000,
        .taken_back_within_ms = 5000,
        .queue_wait_ms = 10 * 1000,
    };
}

struct hx_mono front_now(const struct front *front)
{
    return hx_loop_now(front->loop);
}

void front_wake_at(struct front *front, struct hx_mono at)
{
    if (hx_loop_timer_is_set(front->timer) && front->timer_at.ms <= at.ms)
        return;
    front->timer_at = at;
    hx_loop_timer_set_at(front->timer, at);
}

static void front_due(void *arg)
{
    struct front *front = arg;
    struct hx_mono now = front_now(front);

    stream_begin_due(front, now);
    stream_expire_due(front, now);
    sending_expire_due(front, now);
    queue_expire_due(front, now);
}

struct hx_http_front *hx_http_front_new(struct hx_loop *loop, struct hx_web *web,
                                        const struct hx_http_front_options *options)
{
    struct hx_http_front *opaque = hx_new(struct hx_http_front);
    struct front *front = &opaque->front;
    uint8_t process[PROCESS_BYTES];
    uint64_t secret[2];

    hx_assert(options->authenticate != NULL);
    hx_assert(options->find_endpoint != NULL);
    front->loop = loop;
    front->web = web;
    front->options = *options;
    front->hasher = hx_hasher_new();
    hx_rand_fill(options->rand, (uint8_t *)secret, sizeof secret);
    hx_map_init(&front->sessions, secret);
    hx_map_init(&front->streams, secret);
    hx_map_init(&front->webs, secret);
    hx_map_init(&front->sendings, secret);
    hx_list_init(&front->all);
    hx_list_init(&front->tickets);
    hx_list_init(&front->waiting);
    hx_list_init(&front->kept);
    hx_list_init(&front->told);
    hx_list_init(&front->asking);
    front->timer = hx_loop_timer_new(loop, front_due, front);
    hx_json_tape_init(&front->tape);
    hx_arena_init(&front->arena, ARENA_MAX);
    front->limits = HX_JSON_LIMITS_DEFAULT;
    front->limits.record_depth_max = HX_RPC_RECORD_DEPTH_LEAST;
    front->limits.elements_max = HX_RPC_ELEMENTS_MAX;
    front->limits.tokens_max = RPC_TOKENS_MAX;
    hx_rand_fill(options->rand, process, sizeof process);
    hx_hex_encode(process, sizeof process, front->process);
    return opaque;
}

struct hx_http_front *hx_http_front_free(struct hx_http_front *opaque)
{
    struct front *front;

    if (opaque == NULL)
        return NULL;
    front = &opaque->front;
    while (!hx_list_is_empty(&front->all))
        session_free(hx_container_of(hx_list_first(&front->all), struct session, node));
    for (struct hx_list *node; (node = hx_list_first(&front->told)) != NULL;)
        sending_free(hx_container_of(node, struct sending, told));
    tickets_free(front);
    hx_loop_timer_free(front->timer);
    hx_map_fini(&front->sessions);
    hx_map_fini(&front->streams);
    hx_map_fini(&front->webs);
    hx_map_fini(&front->sendings);
    hx_json_tape_fini(&front->tape);
    hx_arena_fini(&front->arena);
    hx_hasher_free(front->hasher);
    return hx_free(opaque);
}

struct hx_peer_event *front_tell(struct session *session, enum hx_peer_event_type type)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);

    event->downstream = &session->downstream;
    hx_list_append(session->downstream.inbox, &event->node);
    return event;
}

bool front_read(struct front *front, struct hx_span text, struct hx_rpc_msg *ret_msg)
{
    hx_arena_reset(&front->arena);
    bool is_read = hx_rpc_read(&front->tape, text, &front->limits, &front->arena, ret_msg) == 0;
    if (!is_read)
        *ret_msg = (struct hx_rpc_msg){.kind = HX_RPC_INVALID};
    hx_json_tape_trim(&front->tape, TAPE_KEPT);
    return is_read;
}

/* --- turns --- */

static void take(struct front *front, struct hx_web_event *event)
{
    struct hx_map_node *node;

    switch (event->type) {
    case HX_WEB_REQUEST:
        door_take(front, event->exchange, event->request);
        event->request = NULL;
        break;
    case HX_WEB_CLIENT_GONE:
        node = hx_map_find(&front->webs, number_key(&event->exchange));
        if (node != NULL)
            stream_left(front, hx_container_of(node, struct stream, by_web));
        break;
    case HX_WEB_WRITTEN:
    case HX_WEB_NOT_SENT:
    case HX_WEB_CUT:
    case HX_WEB_TAKEN_BACK:
        sending_web_fate(front, event->type, event->tag);
        break;
    case HX_WEB_DRAINED:
        front->is_drained = true;
        break;
    }
}

bool hx_http_front_turn(struct hx_http_front *opaque)
{
    struct front *front = &opaque->front;
    struct hx_list events;
    struct hx_list *node;

    /* What comes of taking these is for the next turn: bounded work. */
    hx_list_init(&events);
    hx_list_splice(&events, front->web->inbox);
    if (hx_list_is_empty(&events))
        return false;
    while ((node = hx_list_take_first(&events)) != NULL) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        take(front, event);
        hx_web_event_free(event);
    }
    return true;
}

void hx_http_front_drain(struct hx_http_front *opaque)
{
    struct front *front = &opaque->front;

    front->is_draining = true;
    hx_list_for_each (at, &front->all) {
        struct session *session = hx_container_of(at, struct session, node);
        hx_list_for_each_safe (node, &session->streams) {
            struct stream *stream = hx_container_of(node, struct stream, node);
            /* One whose name is in the ledger is taken up with the next process. An answer that is
             * known here only is waited for. */
            if (stream->state == STREAM_STREAMING &&
                (stream->kind == STREAM_GET || (stream->is_kept && stream->is_told_id)))
                stream_part(stream);
            else if (stream->state == STREAM_AWAY)
                stream_expire(front, stream);
        }
        while (!hx_list_is_empty(&session->over))
            stream_expire(front,
                          hx_container_of(hx_list_first(&session->over), struct stream, node));
    }
}

bool hx_http_front_is_drained(const struct hx_http_front *opaque)
{
    return opaque->front.is_drained;
}

struct hx_http_front_counts hx_http_front_counts(const struct hx_http_front *opaque)
{
    return opaque->front.counts;
}

struct hx_http_front_event *hx_http_front_event_free(struct hx_http_front_event *event)
{
    if (event == NULL)
        return NULL;
    hx_list_unlink(&event->node);
    hx_web_request_free(event->request);
    return hx_free(event);
}

struct hx_mono hx_http_front_last_seen(const struct hx_downstream *downstream)
{
    const struct session *session =
        hx_container_of((struct hx_downstream *)(uintptr_t)downstream, struct session, downstream);

    hx_check(session, SESSION_MAGIC);
    return session->last_seen;
}

bool hx_http_front_is_busy(const struct hx_downstream *downstream)
{
    struct session *session =
        hx_container_of((struct hx_downstream *)(uintptr_t)downstream, struct session, downstream);

    hx_check(session, SESSION_MAGIC);
    return !hx_list_is_empty(&session->streams);
}

bool hx_http_front_is_awaited(const struct hx_downstream *downstream)
{
    struct session *session =
        hx_container_of((struct hx_downstream *)(uintptr_t)downstream, struct session, downstream);

    hx_check(session, SESSION_MAGIC);
    hx_list_for_each (node, &session->streams) {
        const struct stream *stream = hx_container_of(node, struct stream, node);
        if (stream->kind != STREAM_GET && !stream->is_answered)
            return true;
    }
    return !hx_list_is_empty(&session->sendings);
}
