/* SPDX-License-Identifier: MIT */
/*
 * What became of each message that the engine asks after.
 *
 * The web port says it of a tag of ours, and a message that is written again to a client that came
 * back gets a new one: what is said of an earlier tag is then nobody's any more. A message that
 * stands in an event which is kept has no bad fate as long as its client may come back.
 *
 * What may be taken back outlives its session: that it ended says nothing of whether its last
 * answers were read.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"

void tell_not_sent(struct session *session, uint64_t tag)
{
    if (tag != 0)
        front_tell(session, HX_PEER_NOT_SENT)->tag = tag;
}

void tell_of_nobody(struct front *front, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);

    event->tag = tag;
    hx_list_append(front->options.peer_inbox, &event->node);
}

struct sending *sending_new(const struct stream *stream, uint64_t tag, struct event *event)
{
    struct session *session = stream->session;
    struct sending *sending;

    if (tag == 0)
        return NULL;
    sending = hx_new(struct sending);
    hx_list_append(&session->sendings, &sending->node);
    hx_list_init(&sending->told);
    sending->front = session->front;
    sending->session = session;
    sending->tag = tag;
    sending->exchange = stream->number;
    sending->event = event;
    if (event != NULL)
        event->sending = sending;
    return sending;
}

static void unmap(struct sending *sending)
{
    struct front *front = sending->front;

    hx_map_remove(&front->sendings, &sending->by_web_tag);
    sending->web_tag = 0;
    if (!hx_list_is_empty(&sending->told))
        front->told_count--;
    hx_list_unlink(&sending->told);
}

uint64_t sending_web(const struct session *session, uint64_t exchange)
{
    hx_list_for_each (node, &session->sendings) {
        const struct sending *sending = hx_container_of(node, struct sending, node);
        if (sending->exchange == exchange && sending->web_tag != 0)
            return sending->web;
    }
    return 0;
}

uint64_t sending_web_tag(struct sending *sending, uint64_t web)
{
    struct front *front;

    if (sending == NULL)
        return 0;
    front = sending->front;
    unmap(sending);
    sending->web = web;
    sending->web_tag = ++front->last_web_tag;
    hx_map_insert(&front->sendings, &sending->by_web_tag, number_key(&sending->web_tag));
    return sending->web_tag;
}

void sending_free(struct sending *sending)
{
    if (sending->event != NULL)
        sending->event->sending = NULL;
    unmap(sending);
    hx_list_unlink(&sending->node);
    hx_free(sending);
}

static void tell(struct sending *sending, enum hx_peer_event_type type)
{
    if (sending->session != NULL)
        front_tell(sending->session, type)->tag = sending->tag;
    else
        tell_of_nobody(sending->front, type, sending->tag);
}

void sending_give_up(struct sending *sending)
{
    if (!sending->has_fate)
        tell(sending, sending->is_cut ? HX_PEER_CUT : HX_PEER_NOT_SENT);
    sending_free(sending);
}

void sending_recall(struct sending *sending)
{
    if (sending == NULL || !sending->is_told)
        return;
    tell(sending, HX_PEER_TAKEN_BACK);
    sending->is_told = false;
}

void sending_confirm(struct sending *sending)
{
    if (!sending->is_told)
        tell(sending, HX_PEER_WRITTEN);
    sending_free(sending);
}

void sending_detach(struct sending *sending)
{
    sending->event->sending = NULL;
    sending->event = NULL;
    /* With the web still: it has the last word. */
    if (sending->web_tag == 0)
        sending_give_up(sending);
}

/* From here on it is not taken back. */
static void settle(struct sending *sending)
{
    if (sending->event != NULL)
        unmap(sending);
    else
        sending_free(sending);
}

static void remember_told(struct front *front, struct sending *sending)
{
    hx_list_append(&front->told, &sending->told);
    front_wake_at(front, hx_mono_after(sending->told_at, front->options.taken_back_within_ms));
    if (++front->told_count > TOLD_MAX)
        settle(hx_container_of(hx_list_first(&front->told), struct sending, told));
}

static void written(struct sending *sending)
{
    tell(sending, HX_PEER_WRITTEN);
    sending->is_told = true;
    sending->has_fate = true;
    sending->told_at = front_now(sending->front);
    hx_list_unlink(&sending->node);
    hx_list_append(&sending->session->written, &sending->node);
    remember_told(sending->front, sending);
}

/* The same for another of the tags that it stands for. */
static void outlive_as(const struct sending *sending, uint64_t tag)
{
    struct sending *other = hx_new(struct sending);

    *other = (struct sending){.front = sending->front,
                              .tag = tag,
                              .web_tag = sending->web_tag,
                              .told_at = sending->told_at,
                              .is_told = true,
                              .has_fate = true};
    hx_list_init(&other->node);
    hx_list_init(&other->told);
    hx_map_insert(&other->front->sendings, &other->by_web_tag, number_key(&other->web_tag));
    remember_told(other->front, other);
}

void sending_outlive(struct sending *sending, const uint64_t *tags, size_t count)
{
    struct sending was = *sending;

    /* First, since the oldest one goes when there are too many. */
    sending_free(sending);
    for (size_t i = 0; was.is_told && was.web_tag != 0 && i < count; i++)
        outlive_as(&was, tags[i]);
}

static void lost(struct sending *sending, enum hx_web_event_type type)
{
    if (type == HX_WEB_CUT)
        sending->is_cut = true;
    if (sending->event == NULL)
        sending_give_up(sending);
    else
        unmap(sending);
}

static void taken_back(struct sending *sending)
{
    sending_recall(sending);
    if (sending->event == NULL)
        sending_free(sending);
    else
        unmap(sending);
}

void sending_web_fate(struct front *front, enum hx_web_event_type type, uint64_t web_tag)
{
    struct hx_map_node *node = hx_map_find(&front->sendings, number_key(&web_tag));

    while (node != NULL) {
        /* What an array stood for has one tag of the web's. */
        struct hx_map_node *next = hx_map_find_next(node);
        struct sending *sending = hx_container_of(node, struct sending, by_web_tag);
        if (type == HX_WEB_WRITTEN)
            written(sending);
        else if (type == HX_WEB_TAKEN_BACK)
            taken_back(sending);
        else
            lost(sending, type);
        node = next;
    }
}

/* Later than this nothing is taken back. */
void sending_expire_due(struct front *front, struct hx_mono now)
{
    int64_t within_ms = front->options.taken_back_within_ms;
    struct hx_list *node;

    while ((node = hx_list_first(&front->told)) != NULL) {
        struct sending *sending = hx_container_of(node, struct sending, told);
        struct hx_mono due = hx_mono_after(sending->told_at, within_ms);
        if (!hx_mono_reached(now, due)) {
            front_wake_at(front, due);
            return;
        }
        settle(sending);
    }
}
