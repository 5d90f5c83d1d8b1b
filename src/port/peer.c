/* SPDX-License-Identifier: MIT */
#include "port/peer.h"

#include "base/alloc.h"

/* A line's real maximum is enforced where it is read; this only keeps the type's promise. */
enum { LINE_MAX_BYTES = 1 << 30 };

struct hx_peer_event *hx_peer_event_new(enum hx_peer_event_type type, uint32_t generation)
{
    struct hx_peer_event *event = hx_new(struct hx_peer_event);
    hx_list_init(&event->node);
    event->type = type;
    event->generation = generation;
    hx_buf_init(&event->line, LINE_MAX_BYTES);
    hx_buf_init(&event->stderr_tail, LINE_MAX_BYTES);
    hx_buf_init(&event->challenge, LINE_MAX_BYTES);
    hx_buf_init(&event->key, LINE_MAX_BYTES);
    return event;
}

struct hx_peer_event *hx_peer_event_free(struct hx_peer_event *event)
{
    if (event != NULL) {
        hx_list_unlink(&event->node);
        hx_buf_fini(&event->line);
        hx_buf_fini(&event->stderr_tail);
        hx_buf_fini(&event->challenge);
        hx_buf_fini(&event->key);
    }
    return hx_free(event);
}
