/* SPDX-License-Identifier: MIT */
/*
 * What happens to the outer downstream: the client's words, and what became of ours.
 */
#include "adapter/merge/internal.h"

static void tell_all(struct merge *merge, enum hx_peer_event_type type)
{
    for (size_t i = 0; i < merge->leg_count; i++)
        (void)leg_tell(&merge->legs[i], type);
}

static void take_fate(struct merge *merge, const struct hx_peer_event *event)
{
    uint64_t number = event->tag >> 16;
    size_t at = event->tag & 0xffff;

    if (at == 0 && number != 0)
        receipt_fate(merge, number, event->type);
    else if (at > 0 && at <= merge->leg_count)
        leg_tell_fate(&merge->legs[at - 1], number, event->type);
}

size_t hx_merge_tags_of(const struct hx_merge *opaque, uint64_t tag, uint64_t *ret_tags, size_t max)
{
    uint64_t number = tag >> 16;

    if ((tag & 0xffff) == 0)
        return receipt_tags(&opaque->merge, number, ret_tags, max);
    if (max == 0)
        return 0;
    *ret_tags = number;
    return 1;
}

static void exchange_gone(struct merge *merge, uint64_t exchange)
{
    struct hx_list *node = merge->requests.next;

    while (exchange != 0 && node != &merge->requests) {
        struct request *request = hx_container_of(node, struct request, node);
        node = node->next;
        if (request->exchange != exchange)
            continue;
        if (request->batch != NULL) {
            batch_abandon(merge, request->batch);
            node = merge->requests.next; /* the next one may have been of that batch */
        } else {
            request_leave(request);
        }
    }
}

static void take_words(struct merge *merge, struct hx_peer_event *event)
{
    if (merge->is_gone)
        return;
    if (event->type == HX_PEER_MESSAGE)
        client_message(merge, event);
    else if (event->type == HX_PEER_OVERSIZE)
        client_oversize(merge, event);
    else
        resume_take(merge, event);
}

void hx_merge_event(struct hx_merge *opaque, struct hx_peer_event *event)
{
    struct merge *merge = &opaque->merge;

    hx_check(merge, MERGE_MAGIC);
    switch (event->type) {
    case HX_PEER_MESSAGE:
    case HX_PEER_OVERSIZE:
    case HX_PEER_RESUME:
        take_words(merge, event);
        break;
    case HX_PEER_WRITTEN:
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
    case HX_PEER_TAKEN_BACK:
        take_fate(merge, event);
        break;
    case HX_PEER_END_OF_INPUT:
        tell_all(merge, event->type);
        break;
    case HX_PEER_READER_GONE:
    case HX_PEER_FRONT_GONE:
    case HX_PEER_ENDED:
        tell_all(merge, event->type);
        merge_drop(merge);
        break;
    case HX_PEER_EXCHANGE_GONE:
        exchange_gone(merge, event->exchange);
        break;
    case HX_PEER_FIRST_BYTE:
    case HX_PEER_STARTED:
    case HX_PEER_STALLED:
    case HX_PEER_CLOSED:
    case HX_PEER_STDERR:
    case HX_PEER_ANSWER_LOST:
    case HX_PEER_REJECTED:
    case HX_PEER_SESSION_LOST:
    case HX_PEER_RESUME_POINT:
        break;
    }
    merge_rest(merge);
}

bool hx_merge_take(struct hx_list *outer_inbox)
{
    bool had_any = false;
    struct hx_list *node;

    while ((node = hx_list_take_first(outer_inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        struct hx_merge *merge = event->downstream->owner;
        if (merge != NULL)
            hx_merge_event(merge, event);
        hx_peer_event_free(event);
        had_any = true;
    }
    return had_any;
}
