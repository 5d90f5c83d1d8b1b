/* SPDX-License-Identifier: MIT */
/*
 * The outbox as plainly as possible. What came of a try is believed at once here, and not lost in a
 * crash of the host: that it may be, and the event published again, the SQLite adapter shows.
 */
#include <stdio.h>

#include "adapter/store_memory/ledger.h"
#include "base/alloc.h"

static struct hx_span own(struct hx_span span)
{
    return hx_span_is_absent(span) ? span : hx_span(hx_span_strdup(span), span.len);
}

static void drop(struct hx_span *span)
{
    union {
        const char *borrowed;
        void *owned;
    } bytes = {.borrowed = span->ptr};
    hx_free(bytes.owned);
    *span = HX_SPAN_NONE;
}

static void add_event(struct hx_memory_ledger *ledger, const struct hx_record *record,
                      enum hx_outbox_kind kind)
{
    if (ledger->event_count == ledger->event_capacity) {
        ledger->event_capacity = ledger->event_capacity == 0 ? 64 : 2 * ledger->event_capacity;
        ledger->events =
            hx_realloc(ledger->events, ledger->event_capacity * sizeof(ledger->events[0]));
        hx_assert(ledger->events != NULL);
    }
    struct hx_wall now = hx_clock_now(ledger->clock).wall;
    uint8_t number[10] = {0};
    size_t at = ledger->event_count++;
    memcpy(number, &at, sizeof(at)); /* as good as random: nobody else gives ids to events */
    ledger->events[at].event = (struct hx_store_event){
        .number = (int64_t)at + 1,
        .id = hx_id_make(now, number),
        .op = record->id,
        .server = own(record->server),
        .tool = own(record->tool),
        .kind = kind,
        .state = record->state,
        .reason = record->reason,
        .attempt = record->attempt.number,
        .at = now,
        .created = record->created.wall,
        .settled = record->settled.wall,
    };
}

void hx_memory_announce(struct hx_memory_ledger *ledger, const struct hx_outbox_view *before,
                        const struct hx_memory_row *row)
{
    enum hx_outbox_kind kinds[HX_OUTBOX_KINDS_MAX];
    if (!ledger->keeps_outbox)
        return;
    struct hx_outbox_view view = hx_outbox_view_of(&row->record);
    unsigned count = hx_outbox_kinds(before, &view, kinds);
    for (unsigned i = 0; i < count; i++)
        add_event(ledger, &row->record, kinds[i]);
}

static bool is_over(const struct hx_store_event *event)
{
    return event->place >= HX_OUTBOX_DELIVERED;
}

/* Whether an older event of the same operation must go first. */
static bool is_held_back(const struct hx_memory_ledger *ledger, size_t index)
{
    const struct hx_store_event *event = &ledger->events[index].event;
    for (size_t i = 0; i < index; i++) {
        const struct hx_store_event *older = &ledger->events[i].event;
        if (!is_over(older) && hx_id_eq(&older->op, &event->op))
            return true;
    }
    return false;
}

static bool is_due(const struct hx_store_event *event, struct hx_wall now)
{
    /* A try in the future says that the clock has jumped back since. */
    return event->not_before.ms <= now.ms || event->tried.ms > now.ms;
}

static void give(struct hx_store_request *request, const struct hx_store_event *event)
{
    struct hx_store_outbox *outbox = &request->outbox;
    struct hx_store_event copy = *event;
    struct hx_span *spans[] = {&copy.server, &copy.tool, &copy.error};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        if (!hx_span_is_absent(*spans[i]))
            *spans[i] = hx_arena_dup(&request->arena, *spans[i]);
    }
    outbox->events[outbox->event_count++] = copy;
}

/* What was put off, by its time, comes before what was never tried. */
static bool is_after(const struct hx_store_event *a, const struct hx_store_event *b)
{
    bool is_fresh = a->not_before.ms == 0, is_other_fresh = b->not_before.ms == 0;
    return is_fresh != is_other_fresh ? is_fresh : a->not_before.ms > b->not_before.ms;
}

static void sort(struct hx_store_event *events, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct hx_store_event event = events[i];
        uint32_t at = i;
        for (; at > 0 && is_after(&events[at - 1], &event); at--)
            events[at] = events[at - 1];
        events[at] = event;
    }
}

static void run_due(struct hx_memory_ledger *ledger, struct hx_store_request *request)
{
    struct hx_store_outbox *outbox = &request->outbox;
    struct hx_wall now = hx_clock_now(ledger->clock).wall;
    if (outbox->limit > HX_STORE_OUTBOX_DUE_MAX)
        outbox->limit = HX_STORE_OUTBOX_DUE_MAX;
    size_t size = (ledger->event_count + 1) * sizeof(outbox->events[0]);
    outbox->events = hx_arena_alloc(&request->arena, size);
    hx_assert(outbox->events != NULL);
    for (size_t i = 0; i < ledger->event_count; i++) {
        const struct hx_store_event *event = &ledger->events[i].event;
        if (outbox->must_count) {
            outbox->pending += event->place == HX_OUTBOX_PENDING;
            outbox->parked += event->place == HX_OUTBOX_PARKED;
        }
        if (event->place == HX_OUTBOX_PENDING && is_due(event, now) && !is_held_back(ledger, i))
            give(request, event);
    }
    sort(outbox->events, outbox->event_count);
    if (outbox->event_count > outbox->limit)
        outbox->event_count = outbox->limit;
}

static void run_mark(struct hx_memory_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_store_event *told = &request->outbox.event;
    bool is_there = told->number >= 1 && (size_t)told->number <= ledger->event_count;
    struct hx_store_event *event = is_there ? &ledger->events[told->number - 1].event : NULL;
    if (event == NULL || is_over(event)) {
        request->result = HX_STORE_STALE;
        return;
    }
    event->place = told->place;
    event->tries = told->tries;
    event->not_before = told->not_before;
    event->tried = told->tried;
    drop(&event->error);
    event->error = own(told->error);
}

void hx_memory_run_outbox(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_ledger *ledger = store->ledger;
    if (request->kind == HX_STORE_OUTBOX_DUE) {
        run_due(ledger, request);
    } else if (request->kind == HX_STORE_OUTBOX_MARK) {
        run_mark(ledger, request);
    } else if (!hx_id_eq(&ledger->publisher, &store->owner) &&
               hx_memory_is_open(ledger, &ledger->publisher)) {
        request->result = HX_STORE_STALE;
    } else {
        ledger->publisher = store->owner;
    }
}

void hx_memory_events_fini(struct hx_memory_ledger *ledger)
{
    for (size_t i = 0; i < ledger->event_count; i++) {
        drop(&ledger->events[i].event.server);
        drop(&ledger->events[i].event.tool);
        drop(&ledger->events[i].event.error);
    }
    ledger->events = hx_free(ledger->events);
}

void hx_memory_ledger_keep_outbox(struct hx_memory_ledger *ledger)
{
    ledger->keeps_outbox = true;
}

const struct hx_store_event *hx_memory_ledger_event(const struct hx_memory_ledger *ledger,
                                                    size_t index)
{
    return index < ledger->event_count ? &ledger->events[index].event : NULL;
}
