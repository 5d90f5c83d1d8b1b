/* SPDX-License-Identifier: MIT */
/*
 * What is kept for clients that come back for a stream, and how it is written again.
 *
 * Kept are whole events, for stream_keep_ms and at most stream_keep_bytes_max for each session.
 * Where that is not enough streams that are over go first, then the stream's own oldest events.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"

static struct event *event_of(struct hx_list *node)
{
    return hx_container_of(node, struct event, node);
}

/* What it takes to keep it, with its share of a stream that is kept for nothing else. */
static size_t cost_of(size_t len)
{
    return len + sizeof(struct event) + sizeof(struct sending) + sizeof(struct stream);
}

/* What was said of it so far is its fate. */
static void event_free(struct session *session, struct event *event)
{
    if (event->sending != NULL)
        sending_detach(event->sending);
    session->kept_bytes -= cost_of(event->bytes.len);
    hx_list_unlink(&event->node);
    hx_buf_fini(&event->bytes);
    hx_free(event);
}

void replay_drop_first(struct stream *stream)
{
    event_free(stream->session, event_of(hx_list_first(&stream->events)));
}

void replay_keep_until(struct stream *stream)
{
    struct front *front = stream->session->front;

    stream->due_at = hx_mono_after(front_now(front), front->options.stream_keep_ms);
    hx_list_unlink(&stream->due);
    hx_list_append(&front->kept, &stream->due);
    front_wake_at(front, stream->due_at);
}

void stream_expire_due(struct front *front, struct hx_mono now)
{
    struct hx_list *node;

    while ((node = hx_list_first(&front->kept)) != NULL) {
        struct stream *stream = hx_container_of(node, struct stream, due);
        if (!hx_mono_reached(now, stream->due_at)) {
            front_wake_at(front, stream->due_at);
            return;
        }
        stream_expire(front, stream);
    }
}

static bool make_room(struct stream *stream, size_t cost)
{
    struct session *session = stream->session;
    struct front *front = session->front;
    size_t max = front->options.stream_keep_bytes_max;

    while (cost <= max && session->kept_bytes > max - cost) {
        struct hx_list *over = hx_list_first(&session->over);
        front->counts.dropped_events++;
        if (over != NULL)
            stream_expire(front, hx_container_of(over, struct stream, node));
        else if (!hx_list_is_empty(&stream->events))
            replay_drop_first(stream);
        else
            return false;
    }
    return cost <= max;
}

/* On a connection that lives, older ones have arrived, or it would be known by now. */
static void drop_old(struct stream *stream)
{
    struct front *front = stream->session->front;
    struct hx_mono now = front_now(front);
    struct hx_list *node;

    while (stream->state == STREAM_STREAMING && (node = hx_list_first(&stream->events)) != NULL &&
           hx_mono_since_ms(now, event_of(node)->kept_at) > front->options.stream_keep_ms)
        replay_drop_first(stream);
}

struct event *replay_add(struct stream *stream, const struct hx_buf *bytes)
{
    struct session *session = stream->session;
    uint64_t number = stream->event_count++;
    struct event *event;

    drop_old(stream);
    if (!make_room(stream, cost_of(bytes->len)))
        return NULL;
    event = hx_new(struct event);
    hx_buf_init(&event->bytes, BODY_MAX);
    if (hx_buf_append_span(&event->bytes, hx_buf_span(bytes)) < 0) {
        hx_free(event);
        return NULL;
    }
    event->number = number;
    event->kept_at = front_now(session->front);
    hx_list_append(&stream->events, &event->node);
    session->kept_bytes += cost_of(event->bytes.len);
    return event;
}

/* False: there is no memory for a copy. */
static bool write_again(struct stream *stream, struct event *event)
{
    struct front *front = stream->session->front;
    struct hx_buf bytes;

    hx_buf_init(&bytes, BODY_MAX);
    if (hx_buf_append_span(&bytes, hx_buf_span(&event->bytes)) < 0)
        return false;
    /* Its client does not have it, whatever the kernel took. */
    sending_recall(event->sending);
    front->web->ops->stream_event(front->web, stream->web, &bytes,
                                  sending_web_tag(event->sending, stream->web));
    hx_buf_fini(&bytes);
    return true;
}

static void confirm_until(struct stream *stream, uint64_t number)
{
    struct hx_list *node;

    while ((node = hx_list_first(&stream->events)) != NULL && event_of(node)->number <= number) {
        if (event_of(node)->sending != NULL)
            sending_confirm(event_of(node)->sending);
        replay_drop_first(stream);
    }
}

void stream_resume(struct stream *stream, uint64_t exchange, uint64_t number)
{
    struct session *session = stream->session;
    struct front *front = session->front;
    uint64_t before = stream->web;

    confirm_until(stream, number);
    stream_attach(front, stream, exchange);
    hx_list_unlink(&stream->node);
    hx_list_append(&session->streams, &stream->node);
    /* Who comes back knows that the other connection is dead, even if we do not yet. */
    if (before != 0)
        front->web->ops->cut(front->web, before);
    stream_open(stream);
    hx_list_for_each (node, &stream->events) {
        if (!write_again(stream, event_of(node))) {
            front->web->ops->cut(front->web, exchange);
            return;
        }
    }
    if (stream->is_answered)
        stream_finish(stream);
    else if (stream->kind == STREAM_GET)
        queue_flush(session, stream);
}
