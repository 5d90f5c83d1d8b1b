/* SPDX-License-Identifier: MIT */
/*
 * A tool server behind pipes: a child process that starts late or badly, stalls and dies, and takes
 * what it had in hand along.
 */
#include "sim/sim.h"

enum { LATE_MS = 30000 };

/* An event for the gateway that owns this process, if it still lives. */
static void report(struct sim *sim, const struct sim_process *process, enum hx_peer_event_type type,
                   uint64_t tag, struct hx_span line)
{
    struct sim_upstream *upstream =
        process->life != 0 ? sim_upstream_find(sim, process->upstream) : NULL;
    if (upstream != NULL)
        (void)sim_upstream_event(upstream, type, process->generation, tag, line);
}

static void on_wire(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    if (process == NULL || process->wire_count == 0)
        return;
    process->wire_count--;
    report(sim, process, HX_PEER_MESSAGE, 0, hx_buf_span(&event->line));
}

void sim_child_say(struct sim *sim, struct sim_process *process, struct hx_span line)
{
    int64_t at = sim->now + sim_between(&sim->luck, 0, 3);
    if (at < process->last_wire_at)
        at = process->last_wire_at;
    process->last_wire_at = at;
    process->wire_count++;
    struct sim_event *event = sim_after(sim, at - sim->now, on_wire);
    event->a = process->number;
    (void)hx_buf_append_span(&event->line, line);
}

static void on_closed(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    if (process == NULL)
        return;
    struct sim_upstream *upstream =
        process->life != 0 ? sim_upstream_find(sim, process->upstream) : NULL;
    hx_memory_ledger_transport_gone(sim->ledger, process->name);
    if (upstream != NULL) {
        sim_upstream_event(upstream, HX_PEER_CLOSED, process->generation, 0, HX_SPAN_NONE)->status =
            (int)event->tag;
        upstream->process = 0;
    }
    hx_list_unlink(&process->node);
    hx_free(process);
}

void sim_process_die(struct sim *sim, struct sim_process *process, int status)
{
    if (process->is_dead)
        return;
    sim_trace(sim, "process %u dies", process->number);
    process->is_dead = true;
    process->is_input_closed = true;
    if (process->is_stalled)
        report(sim, process, HX_PEER_CUT, process->stalled_tag, HX_SPAN_NONE);
    for (unsigned i = 0; i < process->queued_count; i++)
        report(sim, process, HX_PEER_NOT_SENT, process->queued[i], HX_SPAN_NONE);
    /* What it wrote stands in the pipe and is read before the end is. */
    int64_t wait_ms = process->last_wire_at > sim->now ? process->last_wire_at - sim->now : 0;
    struct sim_event *event = sim_after(sim, wait_ms + sim_between(&sim->luck, 0, 20), on_closed);
    event->a = process->number;
    event->tag = (uint64_t)status;
}

static void on_death(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    if (process == NULL || process->is_dead)
        return;
    if (!process->is_ending)
        sim_mark(sim, SIM_SERVER_DEATH);
    sim_process_die(sim, process, process->is_ending ? 0 : 256);
}

static void on_started(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    if (process == NULL || process->is_dead)
        return;
    if (!sim->is_calm && sim_chance(&sim->luck, sim->weather.bad_start)) {
        sim_process_die(sim, process, 512);
        return;
    }
    process->is_running = true;
    report(sim, process, HX_PEER_STARTED, 0, HX_SPAN_NONE);
    if (!sim->is_calm && sim_chance(&sim->luck, sim->weather.server_death))
        sim_after(sim, sim_between(&sim->luck, 0, 40000), on_death)->a = process->number;
}

static void start(struct hx_upstream *port, uint32_t generation)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    if (upstream->life->is_frozen)
        return;
    if (upstream->process != 0)
        sim_fail(sim, "life %u starts a server while one is there", upstream->life->number);
    const struct sim_process *process = sim_process_new(upstream, generation);
    snprintf(upstream->transport, sizeof(upstream->transport), "%s", process->name);
    int64_t delay_ms = sim_between(&sim->luck, 0, 30);
    if (!sim->is_calm && sim_chance(&sim->luck, sim->weather.slow_start))
        delay_ms = sim_between(&sim->luck, 500, 8000);
    sim_after(sim, delay_ms, on_started)->a = process->number;
}

/* Takes the line into the pipe. Whether the process reads it is another matter. */
static void deliver(struct sim *sim, struct sim_process *process, struct sim_upstream *upstream,
                    struct hx_span line, uint64_t tag)
{
    int64_t at = sim->now + sim_between(&sim->luck, 0, 3);
    if (at < process->last_read_at)
        at = process->last_read_at;
    process->last_read_at = at;
    struct sim_event *event = sim_after(sim, at - sim->now, sim_process_hear);
    event->a = process->number;
    (void)hx_buf_append_span(&event->line, line);
    if (sim_look_route(&upstream->upstream, tag, &event->id, &event->b))
        sim_check_send(upstream, &event->id, event->b);
}

static void on_stall_told(struct sim *sim, struct sim_event *event)
{
    const struct sim_process *process = sim_process_find(sim, event->a);
    if (process != NULL && !process->is_dead)
        report(sim, process, HX_PEER_STALLED, event->tag, HX_SPAN_NONE);
}

static void take_line(struct hx_upstream *port, struct hx_buf *line, uint64_t tag)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    struct sim_process *process = sim_process_find(sim, upstream->process);
    if (upstream->life->is_frozen) {
        hx_buf_fini(line);
        return;
    }
    bool is_open = process != NULL && process->is_running && !process->is_input_closed;
    if (is_open && process->is_stalled && process->queued_count < SIM_QUEUED_MAX) {
        /* Behind the line that is half out; its fate comes with the end of the process. */
        process->queued[process->queued_count++] = tag;
        hx_buf_fini(line);
        return;
    }
    if (!is_open || process->is_stalled) {
        (void)sim_upstream_event(upstream, HX_PEER_NOT_SENT,
                                 process != NULL ? process->generation : 0, tag, HX_SPAN_NONE);
        hx_buf_fini(line);
        return;
    }
    if (!sim->is_calm && tag != 0 && sim_chance(&sim->luck, sim->weather.stall)) {
        sim_mark(sim, SIM_STALLED);
        sim_trace(sim, "process %u stops reading", process->number);
        process->is_stalled = true;
        process->stalled_tag = tag;
        report(sim, process, HX_PEER_FIRST_BYTE, tag, HX_SPAN_NONE);
        struct sim_event *event = sim_after(sim, LATE_MS, on_stall_told);
        event->a = process->number;
        event->tag = tag;
        hx_buf_fini(line);
        return;
    }
    report(sim, process, HX_PEER_FIRST_BYTE, tag, HX_SPAN_NONE);
    report(sim, process, HX_PEER_WRITTEN, tag, HX_SPAN_NONE);
    deliver(sim, process, upstream, hx_buf_span(line), tag);
    hx_buf_fini(line);
}

static void send_line(struct hx_upstream *port, struct hx_buf *line, uint64_t tag)
{
    unsigned long left = sim_memory_leave();
    take_line(port, line, tag);
    sim_memory_return(left);
}

static void end_by_gateway(struct sim_upstream *upstream, int64_t low_ms, int64_t high_ms)
{
    struct sim *sim = upstream->life->sim;
    struct sim_process *process = sim_process_find(sim, upstream->process);
    if (upstream->life->is_frozen || process == NULL || process->is_dead || process->is_ending)
        return;
    process->is_ending = true;
    process->is_input_closed = true;
    sim_after(sim, sim_between(&sim->luck, low_ms, high_ms), on_death)->a = process->number;
}

static void stop(struct hx_upstream *port)
{
    end_by_gateway(sim_upstream_of(port), 5, 3000);
}

static void kill_now(struct hx_upstream *port)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim_process *process = sim_process_find(upstream->life->sim, upstream->process);
    if (process != NULL)
        process->is_ending = false;
    end_by_gateway(upstream, 1, 30);
}

static void hold(struct hx_upstream *port, bool is_held)
{
    (void)port;
    (void)is_held;
}

static const char *transport_name(struct hx_upstream *port)
{
    return sim_upstream_of(port)->transport;
}

const struct hx_upstream_ops sim_child_ops = {
    .start = start,
    .send = send_line,
    .stop = stop,
    .kill = kill_now,
    .hold = hold,
    .transport_name = transport_name,
};
