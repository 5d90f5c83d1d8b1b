/* SPDX-License-Identifier: MIT */
/*
 * A client that comes back for the answer on a stream that this process does not know. Each leg is
 * asked for it; the one whose operation it was answers.
 */
#include "adapter/merge/internal.h"

void resume_unknown(struct request *request)
{
    exchange_settle(request->merge, request->exchange, HX_SETTLING_NO_STREAM);
    request_free(request);
}

void resume_take(struct merge *merge, const struct hx_peer_event *event)
{
    struct request *request = request_new_own(merge, REQUEST_RESUME);

    request->exchange = event->exchange;
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        struct hx_peer_event *told = leg_tell(leg, HX_PEER_RESUME);
        if (told == NULL)
            continue;
        told->exchange = ticket_new(request, leg)->number;
        (void)hx_buf_append_span(&told->line, hx_buf_span(&event->line));
    }
    if (hx_list_is_empty(&request->tickets))
        resume_unknown(request);
}

void resume_answered(struct ticket *ticket, struct hx_buf *line, uint64_t tag)
{
    struct request *request = ticket->request;
    struct leg *leg = ticket->leg;

    hx_list_for_each (node, &request->tickets) {
        struct ticket *other = hx_container_of(node, struct ticket, node);
        struct hx_peer_event *event =
            other != ticket ? leg_tell(other->leg, HX_PEER_EXCHANGE_GONE) : NULL;
        if (event != NULL)
            event->exchange = other->number;
    }
    reply_line(request, line, leg, tag);
}
