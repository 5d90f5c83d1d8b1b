/* SPDX-License-Identifier: MIT */
#include "engine/publish.h"

#include <stdio.h>

#include "base/crash.h"
#include "engine/internal.h"
#include "engine/publish_event.h"

enum {
    LOOK_MS = 1000,        /* for what other processes announce */
    CLAIM_AGAIN_MS = 1000, /* how long a dead publisher can go unnoticed */
    COUNT_MS = 10 * 1000,
    LINGER_MS = 2000
};

/* One event on its way. It stays until the ledger has taken the note of what came of it, so that it
 * is not handed over a second time meanwhile. */
struct flight {
    struct hx_list node;
    uint64_t ticket;
    int64_t number;
    uint32_t tries;
    bool is_over;                  /* reported; the note is to be written */
    int64_t wait_ms;               /* until it is tried again; 0 = it is over */
    bool is_unnoted;               /* the ledger did not take it: once more, in a while */
    struct hx_store_event verdict; /* the note; its error is `words` */
    char words[HX_COURIER_WORDS_MAX];
};

/* One that has lingered goes on, since it may be kept for another reason and is the one that others
 * leave the publishing to; but so that there are moments at which it has nothing in hand. */
static void look_in(struct hx_gateway *gateway, int64_t ms)
{
    if (gateway->publisher.must_rest && ms < LOOK_MS)
        ms = LOOK_MS;
    if (gateway->ports.courier != NULL)
        hx_timer_arm_sooner(&gateway->timers, &gateway->publisher.look,
                            hx_mono_after(gateway->now.mono, ms));
}

static uint32_t room(const struct hx_gateway *gateway)
{
    uint32_t max = gateway->options.outbox.in_flight_max;
    return gateway->publisher.flight_count < max ? max - gateway->publisher.flight_count : 0;
}

static void ask(struct hx_gateway *gateway, enum hx_store_kind kind)
{
    struct hx_publisher *publisher = &gateway->publisher;
    struct hx_store_request *request = hx_store_make(gateway, kind);
    if (kind == HX_STORE_OUTBOX_DUE) {
        /* Those under way are still pending in the ledger, and come along. */
        request->outbox.limit = gateway->options.outbox.in_flight_max + publisher->flight_count;
        request->outbox.must_count =
            publisher->counted.ms == 0 || gateway->now.mono.ms - publisher->counted.ms >= COUNT_MS;
    }
    publisher->is_asking = true;
    hx_store_submit_outbox(gateway, request, NULL);
}

static void note(struct hx_gateway *gateway, struct flight *flight)
{
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_OUTBOX_MARK);
    flight->is_unnoted = false;
    request->outbox.event = flight->verdict;
    request->outbox.event.error = flight->words[0] != '\0'
                                      ? hx_arena_dup(&request->arena, hx_span_cstr(flight->words))
                                      : HX_SPAN_NONE;
    hx_store_submit_outbox(gateway, request, flight);
}

static void note_again(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->publisher.flights) {
        struct flight *flight = hx_container_of(node, struct flight, node);
        if (flight->is_unnoted)
            note(gateway, flight);
    }
}

static void on_look(struct hx_timer *timer)
{
    struct hx_gateway *gateway = hx_container_of(timer, struct hx_gateway, publisher.look);
    struct hx_publisher *publisher = &gateway->publisher;
    note_again(gateway);
    if (publisher->is_asking)
        return;
    bool is_refusing = gateway->ports.store->ops->refusal(gateway->ports.store) != NULL;
    if (is_refusing || (publisher->is_publisher && room(gateway) == 0)) {
        publisher->is_dry |= is_refusing;
        look_in(gateway, LOOK_MS);
        return;
    }
    if (publisher->is_publisher && publisher->paused_until.ms > gateway->now.mono.ms) {
        publisher->is_dry = true;
        look_in(gateway, publisher->paused_until.ms - gateway->now.mono.ms);
        return;
    }
    ask(gateway, publisher->is_publisher ? HX_STORE_OUTBOX_DUE : HX_STORE_OUTBOX_CLAIM);
}

static void on_linger(struct hx_timer *timer)
{
    hx_container_of(timer, struct hx_gateway, publisher.linger)->publisher.must_rest = true;
}

void hx_publish_begin(struct hx_gateway *gateway)
{
    hx_list_init(&gateway->publisher.flights);
    gateway->publisher.look.fire = on_look;
    gateway->publisher.linger.fire = on_linger;
    look_in(gateway, 0);
}

void hx_publish_end(struct hx_gateway *gateway)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&gateway->publisher.flights)) != NULL)
        hx_free(hx_container_of(node, struct flight, node));
}

void hx_publish_stir(struct hx_gateway *gateway)
{
    gateway->publisher.is_dry = false;
    if (gateway->publisher.is_publisher)
        look_in(gateway, 0);
}

/* ---- handing over ---- */

static bool is_under_way(const struct hx_publisher *publisher, int64_t number)
{
    hx_list_for_each (node, &publisher->flights) {
        if (hx_container_of(node, struct flight, node)->number == number)
            return true;
    }
    return false;
}

static void launch(struct hx_gateway *gateway, const struct hx_store_event *event,
                   const struct hx_id *ledger)
{
    struct hx_publisher *publisher = &gateway->publisher;
    struct hx_courier *courier = gateway->ports.courier;
    struct flight *flight = hx_new(struct flight);
    struct hx_buf body;
    flight->ticket = ++publisher->next_ticket;
    flight->number = event->number;
    flight->tries = event->tries;
    flight->verdict = (struct hx_store_event){.number = event->number};
    hx_list_append(&publisher->flights, &flight->node);
    publisher->flight_count++;
    hx_buf_init(&body, HX_PUBLISH_EVENT_MAX);
    if (hx_publish_write(event, ledger, &body)) {
        courier->ops->send(courier, flight->ticket, &event->id, hx_buf_span(&body),
                           gateway->now.wall);
    } else {
        /* Nobody can be told of it in these words; a person sees why. */
        flight->is_over = true;
        flight->verdict.place = HX_OUTBOX_PARKED;
        flight->verdict.tries = event->tries;
        flight->verdict.tried = gateway->now.wall;
        (void)snprintf(flight->words, sizeof(flight->words), "its names are too long to be sent");
        publisher->parked++;
        note(gateway, flight);
    }
    hx_buf_fini(&body);
}

static void take_due(struct hx_gateway *gateway, const struct hx_store_request *done)
{
    struct hx_publisher *publisher = &gateway->publisher;
    const struct hx_store_outbox *due = &done->outbox;
    uint32_t launched = 0;
    if (due->must_count) {
        publisher->counted = gateway->now.mono;
        publisher->waiting_pending = due->pending;
        publisher->waiting_parked = due->parked;
    }
    for (uint32_t i = 0; i < due->event_count && room(gateway) > 0; i++) {
        if (is_under_way(publisher, due->events[i].number))
            continue;
        launch(gateway, &due->events[i], &due->ledger);
        launched++;
    }
    publisher->is_dry = launched == 0;
    if (publisher->retry.ms > gateway->now.mono.ms)
        look_in(gateway, publisher->retry.ms - gateway->now.mono.ms);
    else
        publisher->retry.ms = 0;
    look_in(gateway, LOOK_MS);
}

/* ---- what came of it ---- */

static void judge(struct hx_gateway *gateway, struct flight *flight,
                  const struct hx_courier_report *report)
{
    struct hx_publisher *publisher = &gateway->publisher;
    struct hx_store_event *verdict = &flight->verdict;
    uint64_t random;
    flight->is_over = true;
    verdict->tries = flight->tries + 1;
    verdict->tried = gateway->now.wall;
    if (report->is_delivered) {
        verdict->place = HX_OUTBOX_DELIVERED;
        publisher->delivered++;
        return;
    }
    publisher->failed++;
    (void)snprintf(flight->words, sizeof(flight->words), "%s", report->words);
    if (hx_outbox_is_used_up(verdict->tries)) {
        verdict->place = HX_OUTBOX_PARKED;
        publisher->parked++;
        hx_tell(gateway, HX_TELL_WARN, "event_parked", "event=%lld tries=%u",
                (long long)flight->number, verdict->tries);
        return;
    }
    hx_rand_fill(gateway->ports.rand, (uint8_t *)&random, sizeof(random));
    int64_t wait_ms =
        hx_outbox_wait_ms(verdict->tries, gateway->options.outbox.wait_ms,
                          gateway->options.outbox.wait_max_ms, report->retry_after_ms, random);
    verdict->place = HX_OUTBOX_PENDING;
    verdict->not_before.ms = gateway->now.wall.ms + wait_ms;
    flight->wait_ms = wait_ms;
    /* Who is asked to come back later leaves the receiver alone altogether. */
    int64_t asked_ms = report->retry_after_ms < HX_OUTBOX_WAIT_MAX_MS ? report->retry_after_ms
                                                                      : HX_OUTBOX_WAIT_MAX_MS;
    if (asked_ms > 0 && gateway->now.mono.ms + asked_ms > publisher->paused_until.ms)
        publisher->paused_until = hx_mono_after(gateway->now.mono, asked_ms);
}

static struct flight *flight_of(struct hx_publisher *publisher, uint64_t ticket)
{
    hx_list_for_each (node, &publisher->flights) {
        struct flight *flight = hx_container_of(node, struct flight, node);
        if (flight->ticket == ticket && !flight->is_over)
            return flight;
    }
    return NULL;
}

bool hx_publish_take(struct hx_gateway *gateway)
{
    struct hx_courier *courier = gateway->ports.courier;
    struct hx_courier_report report;
    bool had_any = false;
    while (courier != NULL && courier->ops->take_report(courier, &report)) {
        struct flight *flight = flight_of(&gateway->publisher, report.ticket);
        hx_assert(flight != NULL);
        judge(gateway, flight, &report);
        HX_CRASH_POINT("event-sent");
        note(gateway, flight);
        had_any = true;
    }
    return had_any;
}

static void noted(struct hx_gateway *gateway, struct flight *flight, enum hx_store_result result)
{
    struct hx_publisher *publisher = &gateway->publisher;
    if (result == HX_STORE_NOT_DONE) {
        flight->is_unnoted = true; /* and the event is not handed over again */
        look_in(gateway, LOOK_MS);
        return;
    }
    struct hx_mono retry = hx_mono_after(gateway->now.mono, flight->wait_ms);
    if (flight->wait_ms > 0 && (publisher->retry.ms == 0 || retry.ms < publisher->retry.ms))
        publisher->retry = retry;
    hx_list_unlink(&flight->node);
    hx_free(flight);
    publisher->flight_count--;
    publisher->is_dry = false;
    look_in(gateway, 0);
}

void hx_publish_stored(struct hx_gateway *gateway, struct hx_store_request *done, void *flight)
{
    struct hx_publisher *publisher = &gateway->publisher;
    if (done->kind == HX_STORE_OUTBOX_MARK) {
        noted(gateway, flight, done->result);
        return;
    }
    publisher->is_asking = false;
    if (done->kind == HX_STORE_OUTBOX_CLAIM) {
        publisher->is_publisher = done->result == HX_STORE_DONE;
        publisher->is_dry = !publisher->is_publisher;
        look_in(gateway, publisher->is_publisher ? 0 : CLAIM_AGAIN_MS);
    } else if (done->result == HX_STORE_DONE) {
        take_due(gateway, done);
    } else {
        look_in(gateway, LOOK_MS);
    }
}

/* ---- the end ---- */

void hx_publish_leave(struct hx_gateway *gateway, bool is_leaving)
{
    struct hx_publisher *publisher = &gateway->publisher;
    if (!is_leaving || gateway->ports.courier == NULL || publisher->must_rest ||
        hx_timer_is_armed(&publisher->linger))
        return;
    hx_timer_arm(&gateway->timers, &publisher->linger, hx_mono_after(gateway->now.mono, LINGER_MS));
    publisher->is_dry = false;
    look_in(gateway, 0);
}

/* A process that only watches leaves at once: the publisher sees what it wrote. */
bool hx_publish_is_resting(const struct hx_gateway *gateway)
{
    const struct hx_publisher *publisher = &gateway->publisher;
    if (gateway->ports.courier == NULL || publisher->must_rest)
        return true;
    return publisher->flight_count == 0 && !publisher->is_asking && publisher->is_dry;
}

struct hx_outbox_counts hx_gateway_outbox_counts(const struct hx_gateway *gateway)
{
    const struct hx_publisher *publisher = &gateway->publisher;
    return (struct hx_outbox_counts){
        .is_wanted = gateway->ports.courier != NULL,
        .is_publisher = publisher->is_publisher,
        .delivered = publisher->delivered,
        .failed = publisher->failed,
        .parked = publisher->parked,
        .waiting_pending = publisher->waiting_pending,
        .waiting_parked = publisher->waiting_parked,
    };
}
