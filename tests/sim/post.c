/* SPDX-License-Identifier: MIT */
/*
 * The outbox: that its events are those of the transitions (I16), judged by rules of our own; and,
 * in some worlds, a receiver beyond a courier that loses things both ways.
 */
#include "adapter/store_memory/ledger.h"
#include "sim/sim.h"

/* ---- events and transitions ---- */

static bool is_told(enum hx_op_state from, enum hx_op_state to)
{
    if (from == to)
        return false;
    if (to == HX_OP_READY)
        return from == HX_OP_AWAITING_APPROVAL || from == HX_OP_UNKNOWN;
    return to != HX_OP_RUNNING;
}

unsigned sim_events_due(const struct sim_told *before, const struct hx_record *row)
{
    return (unsigned)is_told(before->state, row->state) +
           (row->needs_human && !before->needs_human) +
           (row->is_superseded && !before->is_superseded) +
           (row->is_disputed && !before->is_disputed);
}

void sim_check_events(struct sim *sim, const struct hx_record *row, unsigned expected)
{
    const struct hx_store_event *event, *newest = NULL;
    unsigned count = 0;
    for (size_t i = 0; (event = hx_memory_ledger_event(sim->ledger, i)) != NULL; i++) {
        if (!hx_id_eq(&event->op, &row->id))
            continue;
        count++;
        newest = event;
    }
    if (count != expected)
        sim_fail(sim, "operation %s has %u events, and made %u announced transitions",
                 sim_short_id(&row->id), count, expected);
    if (newest != NULL && newest->state != row->state && row->state != HX_OP_RUNNING &&
        row->state != HX_OP_READY)
        sim_fail(sim, "operation %s is %s, and its newest event says %s", sim_short_id(&row->id),
                 hx_op_state_name(row->state), hx_op_state_name(newest->state));
}

void sim_check_event_total(struct sim *sim, size_t expected)
{
    if (sim->ledger->event_count != expected)
        sim_fail(sim, "there are %zu events, and %zu belong to a transition",
                 sim->ledger->event_count, expected);
}

/* ---- the courier and the receiver ---- */

enum fate { TAKEN, TAKEN_AND_LOST, REFUSED };

static struct sim_life *life_of(struct hx_courier *courier)
{
    return hx_container_of(courier, struct sim_life, courier);
}

static const struct hx_store_event *find(struct sim *sim, const struct hx_id *id)
{
    const struct hx_store_event *event;
    for (size_t i = 0; (event = hx_memory_ledger_event(sim->ledger, i)) != NULL; i++)
        if (hx_id_eq(&event->id, id))
            return event;
    sim_fail(sim, "event %s is published, and is not in the ledger", sim_short_id(id));
}

static bool was_received(const struct sim *sim, int64_t number)
{
    return (size_t)number <= sim->received_count && sim->received[number - 1];
}

static void receive(struct sim *sim, int64_t number)
{
    size_t count = sim->ledger->event_count;
    if (sim->received_count < count) {
        sim->received = hx_realloc(sim->received, count * sizeof(sim->received[0]));
        hx_assert(sim->received != NULL);
        memset(sim->received + sim->received_count, 0, count - sim->received_count);
        sim->received_count = count;
    }
    sim_mark(sim, sim->received[number - 1] ? SIM_EVENT_AGAIN : SIM_EVENT);
    sim->received[number - 1] = true;
}

/* Nothing that the receiver has not seen may stand before it. */
static void check_order(struct sim *sim, const struct hx_store_event *event)
{
    const struct hx_store_event *older;
    for (int64_t i = 1; i < event->number; i++) {
        older = hx_memory_ledger_event(sim->ledger, (size_t)i - 1);
        if (hx_id_eq(&older->op, &event->op) && !was_received(sim, i))
            sim_fail(sim, "event %lld of operation %s is published before event %lld",
                     (long long)event->number, sim_short_id(&event->op), (long long)i);
    }
}

struct report {
    struct hx_list node;
    struct hx_courier_report report;
};

static void on_arrives(struct sim *sim, struct sim_event *arrival)
{
    enum fate fate = (enum fate)arrival->b;
    struct sim_life *life = sim_life_find(sim, arrival->a);
    if (fate != REFUSED)
        receive(sim, find(sim, &arrival->id)->number);
    if (life == NULL)
        return; /* whoever takes over publishes it again */
    struct report *report = hx_new(struct report);
    report->report.ticket = arrival->tag;
    report->report.is_delivered = fate == TAKEN;
    report->report.retry_after_ms = fate == REFUSED && sim_chance(&sim->shape, 200) ? 3000 : -1;
    (void)snprintf(report->report.words, sizeof(report->report.words), "lost");
    hx_list_append(&life->courier_reports, &report->node);
}

static void send_event(struct hx_courier *courier, uint64_t ticket, const struct hx_id *id,
                       struct hx_span body, struct hx_wall now)
{
    struct sim_life *life = life_of(courier);
    struct sim *sim = life->sim;
    const struct hx_store_event *event = find(sim, id);
    (void)now;
    if (!hx_id_eq(&sim->ledger->publisher, &life->owner))
        sim_fail(sim, "life %u publishes, and another one does", life->number);
    if (event->place >= HX_OUTBOX_DELIVERED)
        sim_fail(sim, "event %lld is published once more, and is over", (long long)event->number);
    if (!hx_span_contains_nocase(body, hx_span_cstr(hx_outbox_kind_name(event->kind))))
        sim_fail(sim, "event %lld says something else", (long long)event->number);
    check_order(sim, event);
    enum fate fate = sim->is_calm                   ? TAKEN
                     : sim_chance(&sim->shape, 650) ? TAKEN
                     : sim_chance(&sim->shape, 500) ? TAKEN_AND_LOST
                                                    : REFUSED;
    sim_trace(sim, "  life %u publishes event %lld of %s (%s)", life->number,
              (long long)event->number, sim_short_id(&event->op),
              fate == TAKEN     ? "taken"
              : fate == REFUSED ? "refused"
                                : "taken, answer lost");
    struct sim_event *arrival = sim_after(sim, sim_between(&sim->shape, 1, 400), on_arrives);
    arrival->a = life->number;
    arrival->b = (uint32_t)fate;
    arrival->tag = ticket;
    arrival->id = *id;
}

static bool take_report(struct hx_courier *courier, struct hx_courier_report *ret_report)
{
    struct hx_list *node = hx_list_take_first(&life_of(courier)->courier_reports);
    if (node == NULL)
        return false;
    struct report *report = hx_container_of(node, struct report, node);
    *ret_report = report->report;
    hx_free(report);
    return true;
}

static const struct hx_courier_ops ops = {.send = send_event, .take_report = take_report};

struct hx_courier *sim_courier_open(struct sim_life *life)
{
    hx_list_init(&life->courier_reports);
    life->courier.ops = &ops;
    return life->sim->has_receiver ? &life->courier : NULL;
}

void sim_courier_close(struct sim_life *life)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&life->courier_reports)) != NULL)
        hx_free(hx_container_of(node, struct report, node));
}

/* When nothing goes wrong any more, and somebody is there who publishes, all is delivered. */
void sim_check_published(struct sim *sim)
{
    const struct hx_store_event *event;
    bool is_anybody_there = false;
    hx_list_for_each (at, &sim->lives) {
        const struct sim_life *life = hx_container_of(at, struct sim_life, node);
        is_anybody_there |= !hx_gateway_is_draining(life->gateway);
    }
    if (!sim->has_receiver || !is_anybody_there)
        return;
    for (size_t i = 0; (event = hx_memory_ledger_event(sim->ledger, i)) != NULL; i++) {
        if (event->place != HX_OUTBOX_DELIVERED || !was_received(sim, event->number))
            sim_fail(sim, "event %lld of operation %s is %s at the end", (long long)event->number,
                     sim_short_id(&event->op), hx_outbox_place_name(event->place));
    }
}
