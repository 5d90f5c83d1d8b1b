/* SPDX-License-Identifier: MIT */
/*
 * Messages of the server that no stream is open for. They wait for the next one; when there are too
 * many the oldest notification goes, for a newer one mostly says the same. Of a request the engine
 * is told, and it waits for a bounded time: while a server asks, its tool's clocks stand still.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"
#include "wire/skim.h"

static struct queued *queued_of(struct hx_list *node)
{
    return hx_container_of(node, struct queued, node);
}

static void drop(struct session *session, struct queued *queued)
{
    session->kept_bytes -= queued->line.len;
    session->queue_count--;
    hx_list_unlink(&queued->node);
    hx_list_unlink(&queued->due);
    hx_buf_fini(&queued->line);
    hx_free(queued);
}

static void refuse_queued(struct session *session, struct queued *queued)
{
    struct hx_http_front_counts *counts = &session->front->counts;

    if (queued->is_request)
        counts->dropped_requests++;
    else
        counts->dropped_notifications++;
    tell_not_sent(session, queued->tag);
    drop(session, queued);
}

static bool is_request(struct hx_span message)
{
    struct hx_skim *skim = hx_new(struct hx_skim);
    struct hx_skim_result seen;

    hx_skim_begin(skim);
    hx_skim_add(skim, message);
    seen = hx_skim_end(skim);
    hx_free(skim);
    return seen.has_id && seen.has_method;
}

static bool is_full(const struct session *session)
{
    const struct hx_http_front_options *options = &session->front->options;

    return session->queue_count > options->queue_messages_max ||
           session->kept_bytes > options->stream_keep_bytes_max;
}

static struct queued *oldest_notification(const struct session *session)
{
    hx_list_for_each (node, &session->queue) {
        if (!queued_of(node)->is_request)
            return queued_of(node);
    }
    return NULL;
}

static void wait_for_stream(struct front *front, struct queued *queued)
{
    queued->due_at = hx_mono_after(front_now(front), front->options.queue_wait_ms);
    hx_list_append(&front->asking, &queued->due);
    front_wake_at(front, queued->due_at);
}

void queue_expire_due(struct front *front, struct hx_mono now)
{
    struct hx_list *node;

    while ((node = hx_list_first(&front->asking)) != NULL) {
        struct queued *queued = hx_container_of(node, struct queued, due);
        if (!hx_mono_reached(now, queued->due_at)) {
            front_wake_at(front, queued->due_at);
            return;
        }
        refuse_queued(queued->session, queued);
    }
}

void queue_add(struct session *session, struct hx_buf *line, uint64_t tag)
{
    struct queued *queued = hx_new(struct queued);

    queued->is_request = is_request(hx_buf_span(line));
    queued->tag = tag;
    buf_take(&queued->line, line);
    hx_list_append(&session->queue, &queued->node);
    hx_list_init(&queued->due);
    queued->session = session;
    if (queued->is_request)
        wait_for_stream(session->front, queued);
    session->queue_count++;
    session->kept_bytes += queued->line.len;
    while (is_full(session) && session->queue_count > 0) {
        struct queued *victim = oldest_notification(session);
        refuse_queued(session, victim != NULL ? victim : queued);
        if (victim == NULL || victim == queued)
            return;
    }
}

void queue_flush(struct session *session, struct stream *stream)
{
    struct hx_list *node;

    while ((node = hx_list_first(&session->queue)) != NULL && stream->web != 0) {
        struct queued *queued = queued_of(node);
        struct hx_buf line;
        uint64_t tag = queued->tag;
        buf_take(&line, &queued->line);
        session->kept_bytes -= line.len;
        drop(session, queued);
        stream_send(stream, &line, tag, false);
        hx_buf_fini(&line);
    }
}

void queue_clear(struct session *session)
{
    while (!hx_list_is_empty(&session->queue)) {
        struct queued *queued = queued_of(hx_list_first(&session->queue));
        tell_not_sent(session, queued->tag);
        drop(session, queued);
    }
}
