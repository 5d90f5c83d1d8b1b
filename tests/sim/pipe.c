/* SPDX-License-Identifier: MIT */
/*
 * The pipes of `hapax run`, where a line can be written and never read.
 */
#include "sim/sim.h"

static void on_arrival(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    struct hx_list *first = life != NULL ? hx_list_first(&life->doors) : NULL;
    struct sim_door *door = first != NULL ? hx_container_of(first, struct sim_door, node) : NULL;
    if (door == NULL || door->is_closed)
        return;
    /* `b` is the call, `tag` says whether this is its cancel. */
    if (event->b != 0 && event->tag == 0 && sim_call_is_overtaken(sim, sim_call_get(sim, event->b)))
        return;
    if (event->b != 0)
        sim_call_arrives(sim, life, sim_call_get(sim, event->b), event->tag != 0);
    sim_door_append(door, HX_PEER_MESSAGE, 0, 0, hx_buf_span(&event->line));
}

struct sim_event *sim_pipe_post(struct sim *sim, uint32_t life_number, struct hx_span line)
{
    const struct sim_life *life = sim_life_find(sim, life_number);
    struct hx_list *first = life != NULL ? hx_list_first(&life->doors) : NULL;
    int64_t at = sim->now + sim_between(&sim->luck, 0, 3);
    if (first != NULL) {
        struct sim_door *door = hx_container_of(first, struct sim_door, node);
        if (at < door->last_heard_at)
            at = door->last_heard_at;
        door->last_heard_at = at;
    }
    struct sim_event *event = sim_after(sim, at - sim->now, on_arrival);
    event->a = life_number;
    (void)hx_buf_append_span(&event->line, line);
    return event;
}

struct sim_event *sim_pipe_repeat(struct sim *sim, uint32_t life, struct hx_span line,
                                  int64_t delay_ms)
{
    struct sim_event *event = sim_after(sim, delay_ms, on_arrival);
    event->a = life;
    (void)hx_buf_append_span(&event->line, line);
    return event;
}

static void take_line(struct hx_downstream *downstream, struct hx_buf *bytes,
                      const struct hx_sending *sending)
{
    struct sim_door *door = sim_door_of(downstream);
    if (door->life->is_frozen)
        return;
    if (door->is_closed || door->is_reader_gone) {
        sim_door_append(door, HX_PEER_NOT_SENT, sending->tag, 0, HX_SPAN_NONE);
        return;
    }
    sim_answer_sent(door, hx_buf_span(bytes));
    sim_line_write(door, sim_line_new(door, hx_buf_span(bytes), sending->tag));
}

static bool is_reader_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct sim_door *door = sim_door_of(downstream);
    (void)exchange;
    return !door->is_closed && !door->is_reader_gone && !door->is_front_dead;
}

static void hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream;
    (void)is_held;
}

/* What is unread when the reader goes: taken back if it was written, never sent if not. */
static void settle_unread(struct sim_door *door, bool is_taken_back)
{
    struct sim *sim = door->life->sim;
    hx_list_for_each_safe (at, &sim->hosts[door->host].unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life != door->life->number)
            continue;
        if (!line->is_written)
            sim_door_append(door, HX_PEER_NOT_SENT, line->tag, 0, HX_SPAN_NONE);
        else if (is_taken_back)
            sim_door_append(door, HX_PEER_TAKEN_BACK, line->tag, 0, HX_SPAN_NONE);
        if (!line->is_written || is_taken_back)
            sim_line_free(line);
    }
}

static void close_both(struct hx_downstream *downstream)
{
    struct sim_door *door = sim_door_of(downstream);
    if (door->life->is_frozen || door->is_closed)
        return;
    door->is_closed = true;
    if (!door->is_reader_gone)
        settle_unread(door, false);
    sim_host_cut(door->life->sim, door->life->number);
}

static void send_line(struct hx_downstream *downstream, struct hx_buf *bytes,
                      const struct hx_sending *sending)
{
    unsigned long left = sim_memory_leave();
    take_line(downstream, bytes, sending);
    sim_memory_return(left);
}

const struct hx_downstream_ops sim_pipe_ops = {
    .send = send_line,
    .queued_bytes = sim_door_queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
};

static void on_front_gone(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    struct hx_list *first = life != NULL ? hx_list_first(&life->doors) : NULL;
    if (first != NULL)
        sim_door_append(hx_container_of(first, struct sim_door, node), HX_PEER_FRONT_GONE, 0, 0,
                        HX_SPAN_NONE);
}

void sim_host_hang_up(struct sim *sim, struct sim_host *host, enum sim_hang_up how)
{
    static const char *const words[] = {"kills its front", "closes its pipes", "ends its input"};
    struct sim_door *door = sim_door_find(sim, host->life, host->session);
    if (door == NULL || door->is_closed)
        return;
    sim_trace(sim, "host %u %s, life %u", host->number, words[how], host->life);
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        struct sim_intent *intent = sim_intent_get(sim, i);
        if (intent->host == host->number)
            intent->was_disturbed = true;
    }
    switch (how) {
    case SIM_KILL_FRONT:
        sim_mark(sim, SIM_FRONT_KILL);
        door->is_front_dead = true;
        sim_after(sim, sim_between(&sim->luck, 0, 3), on_front_gone)->a = host->life;
        break;
    case SIM_CLOSE_PIPES:
        door->is_reader_gone = true;
        sim_door_append(door, HX_PEER_END_OF_INPUT, 0, 0, HX_SPAN_NONE);
        settle_unread(door, true);
        sim_door_append(door, HX_PEER_READER_GONE, 0, 0, HX_SPAN_NONE);
        break;
    case SIM_END_OF_INPUT:
        sim_door_append(door, HX_PEER_END_OF_INPUT, 0, 0, HX_SPAN_NONE);
        return; /* it still reads */
    }
    sim_host_after_cut(sim, host);
}
