/* SPDX-License-Identifier: MIT */
/*
 * The outbox for a program that delivers its events itself. What becomes an event, and when one
 * that could not be delivered comes again, is the core's to say (core/outbox.h).
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lib/internal.h"

enum { WAIT_MS = 1000, WAIT_MAX_MS = 60 * 60 * 1000, TYPE_SIZE = 64 };

struct hapax_events {
    struct hx_store_request *request; /* owns what the events point at */
    struct event_texts {
        char id[HX_ID_TEXT_SIZE];
        char operation[HX_ID_TEXT_SIZE];
        char type[TYPE_SIZE];
        struct hx_span server, tool;
    } * texts;
};

/* 1 when this process is the one that publishes. */
static int become_publisher(struct hapax *hapax, struct hapax_error *error)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_OUTBOX_CLAIM, NULL);
    hx_lib_run(hapax, NULL, request);
    enum hx_store_result result = request->result;
    hx_store_request_free(request);
    if (result == HX_STORE_NOT_DONE)
        return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
    return result == HX_STORE_DONE;
}

static bool fill_texts(struct hapax_events *events)
{
    struct hx_store_request *request = events->request;
    uint32_t count = request->outbox.event_count;
    events->texts = hx_arena_alloc(&request->arena, (count + 1) * sizeof(*events->texts));
    for (uint32_t i = 0; events->texts != NULL && i < count; i++) {
        const struct hx_store_event *event = &request->outbox.events[i];
        struct event_texts *texts = &events->texts[i];
        hx_id_format(&event->id, texts->id);
        hx_id_format(&event->op, texts->operation);
        (void)snprintf(texts->type, sizeof(texts->type), "%s%s", HX_OUTBOX_TYPE_PREFIX,
                       hx_outbox_kind_name(event->kind));
        texts->server = hx_arena_dup(&request->arena, event->server);
        texts->tool = hx_arena_dup(&request->arena, event->tool);
        if (hx_span_is_absent(texts->server) || hx_span_is_absent(texts->tool))
            return false;
    }
    return events->texts != NULL;
}

int hapax_events_due(struct hapax *hapax, unsigned limit, struct hapax_events **ret_events,
                     struct hapax_error *ret_error)
{
    int rc = hx_lib_enter(hapax, ret_error);
    if (rc == 0 && (limit == 0 || limit > HX_STORE_OUTBOX_DUE_MAX))
        rc = hx_lib_fail(ret_error, HAPAX_E_MISUSE, "The limit is 1 to 256 events.");
    if (rc == 0)
        rc = become_publisher(hapax, ret_error);
    if (rc <= 0)
        return rc;
    struct hapax_events *events = hx_new(struct hapax_events);
    events->request = hx_store_request_new(HX_STORE_OUTBOX_DUE, NULL);
    events->request->outbox.limit = limit;
    hx_lib_run(hapax, NULL, events->request);
    uint32_t count = events->request->outbox.event_count;
    if (events->request->result == HX_STORE_NOT_DONE)
        rc = hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    else if (!fill_texts(events))
        rc = hx_lib_fail_memory(ret_error);
    else
        rc = (int)count;
    if (rc > 0)
        *ret_events = events;
    else
        hapax_events_free(events);
    return rc;
}

void hapax_events_get(const struct hapax_events *events, unsigned index,
                      struct hapax_event *ret_event)
{
    hx_assert(index < events->request->outbox.event_count);
    const struct hx_store_event *from = &events->request->outbox.events[index];
    const struct event_texts *texts = &events->texts[index];
    struct hapax_event event = {
        .size = ret_event->size,
        .number = from->number,
        .id = texts->id,
        .operation = texts->operation,
        .type = texts->type,
        .server = texts->server.ptr,
        .tool = texts->tool.ptr,
        .at_ms = from->at.ms,
        .attempt = from->attempt,
        .tries = from->tries,
    };
    size_t size = ret_event->size < sizeof(event) ? ret_event->size : sizeof(event);
    memcpy(ret_event, &event, size);
}

int hapax_event_mark(struct hapax *hapax, const struct hapax_event *event, int is_delivered,
                     struct hapax_error *ret_error)
{
    int rc = hx_lib_enter(hapax, ret_error);
    if (rc == 0 && (event == NULL || event->size < sizeof(*event)))
        rc = hx_lib_fail(ret_error, HAPAX_E_MISUSE, "The event is none of hapax_events_get.");
    if (rc < 0)
        return rc;
    struct hx_store_request *mark = hx_store_request_new(HX_STORE_OUTBOX_MARK, NULL);
    struct hx_store_event *noted = &mark->outbox.event;
    struct hx_wall now = hx_lib_now(hapax).wall;
    uint64_t random = 0;
    hx_rand_fill(hapax->options.rand, (uint8_t *)&random, sizeof(random));
    noted->number = event->number;
    noted->tries = event->tries + 1;
    noted->tried = now;
    noted->place = is_delivered                         ? HX_OUTBOX_DELIVERED
                   : hx_outbox_is_used_up(noted->tries) ? HX_OUTBOX_PARKED
                                                        : HX_OUTBOX_PENDING;
    if (noted->place == HX_OUTBOX_PENDING)
        noted->not_before.ms =
            now.ms + hx_outbox_wait_ms(noted->tries, WAIT_MS, WAIT_MAX_MS, -1, random);
    hx_lib_run(hapax, NULL, mark);
    enum hx_store_result result = mark->result;
    hx_store_request_free(mark);
    if (result == HX_STORE_NOT_DONE)
        return hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    return result == HX_STORE_DONE ? 0
                                   : hx_lib_fail(ret_error, HAPAX_E_STATE,
                                                 "The event is delivered or dropped already.");
}

void hapax_events_free(struct hapax_events *events)
{
    if (events == NULL)
        return;
    hx_store_request_free(events->request);
    hx_free(events);
}
