/* SPDX-License-Identifier: MIT */
/*
 * The engine's side: a leg as the downstream that its session has.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"

static struct leg *leg_of(struct hx_downstream *downstream)
{
    struct leg *leg = hx_container_of(downstream, struct leg, downstream);

    hx_check(leg->merge, MERGE_MAGIC);
    return leg;
}

void leg_know_nothing(struct leg *leg)
{
    for (int kind = 0; kind < LIST_KINDS; kind++)
        leg->has_list[kind] = true;
    leg->has_subscribe = true;
    leg->has_completions = true;
    leg->has_logging = true;
}

void leg_init(struct merge *merge, uint32_t index, const struct hx_merge_leg_options *options)
{
    struct leg *leg = &merge->legs[index];

    leg->downstream = (struct hx_downstream){.ops = &leg_ops, .inbox = merge->options.leg_inbox};
    leg->merge = merge;
    leg->index = index;
    leg->own_name = hx_span_strdup(options->name);
    leg->own_prefix = hx_span_strdup(options->prefix);
    leg->name = hx_span(leg->own_name, options->name.len);
    leg->prefix = hx_span(leg->own_prefix, options->prefix.len);
    hx_buf_init(&leg->welcome, merge->options.message_max_bytes);
    hx_list_init(&leg->asks);
    for (int kind = 0; kind < LIST_KINDS; kind++)
        hx_list_init(&leg->known[kind]);
    leg_know_nothing(leg);
}

void leg_forget(struct leg *leg)
{
    struct hx_list *node;

    while ((node = hx_list_first(&leg->asks)) != NULL)
        ask_free(hx_container_of(node, struct ask, node));
    for (int kind = 0; kind < LIST_KINDS; kind++) {
        known_clear(leg, (enum list_kind)kind);
        leg->is_learned[kind] = false;
    }
}

void leg_fini(struct leg *leg)
{
    leg_forget(leg);
    hx_buf_fini(&leg->welcome);
    hx_free(leg->own_name);
    hx_free(leg->own_prefix);
}

/* --- to the engine --- */

struct hx_peer_event *leg_tell(struct leg *leg, enum hx_peer_event_type type)
{
    if (leg_is_over(leg))
        return NULL;
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &leg->downstream;
    hx_list_append(leg->downstream.inbox, &event->node);
    return event;
}

void leg_tell_fate(struct leg *leg, uint64_t tag, enum hx_peer_event_type fate)
{
    struct hx_peer_event *event = tag != 0 ? leg_tell(leg, fate) : NULL;

    /* That its session is over says nothing of whether its last answers were read. */
    if (event == NULL && tag != 0 && fate == HX_PEER_TAKEN_BACK) {
        event = hx_peer_event_new(fate, 0);
        hx_list_append(leg->downstream.inbox, &event->node);
    }
    if (event != NULL)
        event->tag = tag;
}

void leg_message(struct leg *leg, struct hx_buf *line, uint64_t exchange)
{
    struct hx_peer_event *event = leg_tell(leg, HX_PEER_MESSAGE);

    if (event == NULL) {
        hx_buf_fini(line);
        return;
    }
    size_t len_max = line->len_max;
    event->line = *line;
    event->exchange = exchange;
    hx_buf_init(line, len_max);
}

void leg_message_copy_as(struct leg *leg, struct hx_span text, uint64_t exchange)
{
    struct hx_buf line;

    hx_buf_init(&line, leg->merge->options.message_max_bytes);
    if (hx_buf_append_span(&line, text) == 0)
        leg_message(leg, &line, exchange);
    hx_buf_fini(&line);
}

void leg_cancel(struct leg *leg, struct hx_span text, struct hx_span request_id)
{
    struct hx_buf line;

    hx_buf_init(&line, leg->merge->options.message_max_bytes);
    if (hx_buf_append_span(&line, text) != 0) {
        /* Whatever else it says, it is a cancel. */
        hx_buf_reset(&line);
        (void)hx_buf_printf(&line,
                            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                            "\"params\":{\"requestId\":%.*s}}",
                            HX_SPAN_FMT(request_id));
    }
    leg_message(leg, &line, 0);
    hx_buf_fini(&line);
}

void leg_message_copy(struct leg *leg, struct hx_span text)
{
    leg_message_copy_as(leg, text, 0);
}

/* --- from the engine --- */

static void op_send(struct hx_downstream *downstream, struct hx_buf *line,
                    const struct hx_sending *sending)
{
    struct leg *leg = leg_of(downstream);
    struct merge *merge = leg->merge;

    if (merge->is_gone) {
        leg_tell_fate(leg, sending->tag, HX_PEER_NOT_SENT);
    } else if (sending->kind == HX_SENDING_ASIDE) {
        aside_take(leg, line, sending);
    } else {
        struct ticket *ticket = ticket_find(merge, sending->exchange);
        if (ticket != NULL && ticket->leg == leg)
            request_answered(ticket, line, sending->tag);
        else
            leg_tell_fate(leg, sending->tag, HX_PEER_NOT_SENT);
    }
    hx_buf_fini(line);
    merge_rest(merge);
}

static uint64_t op_queued_bytes(struct hx_downstream *downstream)
{
    struct merge *merge = leg_of(downstream)->merge;

    return merge->is_gone ? 0 : merge->outer->ops->queued_bytes(merge->outer);
}

/* Where something that belongs to the leg's `exchange` goes; false: nowhere any more. */
static bool outer_exchange(const struct leg *leg, uint64_t exchange, uint64_t *ret_exchange)
{
    struct ticket *ticket = exchange != 0 ? ticket_find(leg->merge, exchange) : NULL;

    if (ticket == NULL || ticket->leg != leg || ticket->request->exchange == 0)
        return false;
    *ret_exchange = ticket->request->exchange;
    return true;
}

static bool op_is_reader_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct leg *leg = leg_of(downstream);
    struct hx_downstream *outer = leg->merge->outer;
    uint64_t there = 0;

    if (leg->merge->is_gone)
        return false;
    /* An answer that waits in a batch is as good as one that nobody reads: who asks again is
     * given it. */
    if (leg->merge->has_exchanges && exchange != 0 && !outer_exchange(leg, exchange, &there))
        return false;
    return outer->ops->is_reader_alive(outer, there);
}

static void op_hold(struct hx_downstream *downstream, bool is_held)
{
    struct leg *leg = leg_of(downstream);
    struct merge *merge = leg->merge;
    bool before = false;
    bool after = false;

    for (size_t i = 0; i < merge->leg_count; i++)
        before |= merge->legs[i].is_held;
    leg->is_held = is_held;
    for (size_t i = 0; i < merge->leg_count; i++)
        after |= merge->legs[i].is_held;
    if (before != after && !merge->is_gone)
        merge->outer->ops->hold(merge->outer, after);
}

/* The engine closes when it takes no more work of anybody. */
static void op_close(struct hx_downstream *downstream)
{
    struct merge *merge = leg_of(downstream)->merge;

    if (merge->is_closed)
        return;
    merge->is_closed = true;
    merge->outer->ops->close(merge->outer);
}

static void op_settle(struct hx_downstream *downstream, uint64_t exchange,
                      enum hx_settling settling)
{
    struct leg *leg = leg_of(downstream);
    struct ticket *ticket = ticket_find(leg->merge, exchange);

    /* A RESUME knows of itself that it is one. */
    if (ticket != NULL && ticket->leg == leg && settling == HX_SETTLING_UNREAD)
        ticket_unread(ticket);
    else if (ticket != NULL && ticket->leg == leg)
        ticket_settled(ticket);
    merge_rest(leg->merge);
}

static struct hx_span op_stream_name(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct leg *leg = leg_of(downstream);
    struct hx_downstream *outer = leg->merge->outer;
    struct ticket *ticket = ticket_find(leg->merge, exchange);
    uint64_t there;

    /* On a batch's stream comes an array, which no operation alone could bring back. */
    if (leg->merge->is_gone || outer->ops->stream_name == NULL ||
        !outer_exchange(leg, exchange, &there) || ticket->request->batch != NULL)
        return HX_SPAN_NONE;
    return outer->ops->stream_name(outer, there);
}

static void op_stream_kept(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct leg *leg = leg_of(downstream);
    struct hx_downstream *outer = leg->merge->outer;
    uint64_t there;

    if (!leg->merge->is_gone && outer->ops->stream_kept != NULL &&
        outer_exchange(leg, exchange, &there))
        outer->ops->stream_kept(outer, there);
}

const struct hx_downstream_ops leg_ops = {
    .send = op_send,
    .queued_bytes = op_queued_bytes,
    .is_reader_alive = op_is_reader_alive,
    .hold = op_hold,
    .close = op_close,
    .settle = op_settle,
    .stream_name = op_stream_name,
    .stream_kept = op_stream_kept,
};
