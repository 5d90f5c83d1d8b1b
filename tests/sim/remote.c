/* SPDX-License-Identifier: MIT */
/*
 * A tool server over HTTP. It runs on another machine: nothing that happens to a gateway ends what
 * it has begun. Every request is an exchange of its own, which can break alone; some answers stand
 * on streams that can be taken up again, also by a gateway that comes later; and it forgets
 * sessions.
 */
#include "sim/sim.h"

#include <stdlib.h>

enum { STATUS_NOT_FOUND = 404, STATUS_TOO_MANY = 429, STATUS_UNAUTHORIZED = 401 };

/* ---- who listens ---- */

/* The exchange of this run ends without its answer. */
static void lose(struct sim *sim, struct sim_run *run, enum hx_peer_loss loss)
{
    struct sim_upstream *upstream = sim_upstream_find(sim, run->heard_by);
    if (upstream != NULL && run->heard_by != 0) {
        sim_mark(sim, SIM_ANSWER_LOST);
        sim_trace(sim, "the answer of run %u is lost", run->number);
        sim_upstream_event(upstream, HX_PEER_ANSWER_LOST, run->heard_generation, run->heard_as,
                           HX_SPAN_NONE)
            ->loss = loss;
    }
    run->heard_by = 0;
}

void sim_remote_detach(struct sim *sim, uint32_t upstream)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->heard_by == upstream)
            run->heard_by = 0;
    }
}

static void lose_all(struct sim *sim, uint32_t upstream, enum hx_peer_loss loss)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->heard_by == upstream && upstream != 0)
            lose(sim, run, loss);
    }
}

/* ---- what it says ---- */

static void on_wire(struct sim *sim, struct sim_event *event)
{
    struct sim_upstream *upstream = sim_upstream_find(sim, event->a);
    if (upstream == NULL)
        return;
    struct hx_peer_event *message = sim_upstream_event(
        upstream, HX_PEER_MESSAGE, (uint32_t)event->id.bytes[0] << 8 | event->id.bytes[1],
        event->tag, hx_buf_span(&event->line));
    message->is_answer = event->b != 0;
}

static void say_to(struct sim *sim, uint32_t upstream, uint32_t generation, struct hx_span line,
                   uint64_t tag, bool is_answer)
{
    struct sim_event *event = sim_after(sim, sim_between(&sim->luck, 0, 3), on_wire);
    event->a = upstream;
    event->b = is_answer;
    event->tag = tag;
    event->id.bytes[0] = (uint8_t)(generation >> 8);
    event->id.bytes[1] = (uint8_t)generation;
    (void)hx_buf_append_span(&event->line, line);
}

void sim_remote_say(struct sim *sim, struct sim_process *process, struct hx_span line, uint64_t tag,
                    bool is_answer)
{
    if (process->life != 0)
        say_to(sim, process->upstream, process->generation, line, tag, is_answer);
}

void sim_remote_begin(struct sim *sim, struct sim_run *run)
{
    const struct sim_process *process = sim_process_find(sim, run->process);
    char text[24];
    run->heard_by = process->life != 0 ? process->upstream : 0;
    run->heard_as = strtoull(run->route_id, NULL, 10);
    run->heard_generation = process->generation;
    struct sim_upstream *upstream = sim_upstream_find(sim, run->heard_by);
    if (upstream == NULL || run->heard_by == 0 || !sim_chance(&sim->shape, sim->weather.point))
        return;
    sim_mark(sim, SIM_POINT);
    run->has_point = true;
    snprintf(text, sizeof(text), "run %u", run->number);
    (void)sim_upstream_event(upstream, HX_PEER_RESUME_POINT, run->heard_generation, run->heard_as,
                             hx_span_cstr(text));
}

/* What stands on its stream goes to whoever listens now. */
static void give(struct sim *sim, struct sim_run *run)
{
    struct hx_buf line;
    uint32_t upstream = run->heard_by;
    if (upstream == 0)
        return;
    switch (run->style) {
    case SIM_ANSWER_NEVER:
        return;
    case SIM_ANSWER_GARBAGE:
        lose(sim, run, HX_PEER_LOSS_UNREADABLE);
        return;
    case SIM_ANSWER_ONCE:
    case SIM_ANSWER_TWICE:
    case SIM_ANSWER_TASK:
        break;
    }
    run->heard_by = 0;
    hx_buf_init(&line, 1 << 20);
    if (run->style == SIM_ANSWER_TASK)
        (void)hx_buf_printf(&line,
                            "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"task\":{\"taskId\":"
                            "\"t%u\",\"status\":\"working\"}}}",
                            run->route_id, run->number);
    else
        sim_run_write(run, &line);
    say_to(sim, upstream, run->heard_generation, hx_buf_span(&line), run->heard_as, true);
    hx_buf_fini(&line);
}

void sim_remote_answer(struct sim *sim, struct sim_run *run)
{
    give(sim, run);
}

/* ---- what is sent to it ---- */

static void on_break(struct sim *sim, struct sim_event *event)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->heard_by == event->a && run->heard_as == event->tag)
            lose(sim, run, HX_PEER_LOSS_CONNECTION);
    }
}

static void reject(struct sim_upstream *upstream, const struct sim_process *process, uint64_t tag,
                   int status)
{
    struct sim *sim = upstream->life->sim;
    sim_mark(sim, SIM_REJECTED);
    sim_trace(sim, "process %u refuses with status %d", process->number, status);
    struct hx_peer_event *event =
        sim_upstream_event(upstream, HX_PEER_REJECTED, process->generation, tag, HX_SPAN_NONE);
    event->status = status;
    if (status == STATUS_TOO_MANY)
        event->retry_after_ms = sim_between(&sim->luck, 0, 3000);
}

static void not_sent(struct sim_upstream *upstream, const struct sim_process *process, uint64_t tag)
{
    if (tag != 0)
        (void)sim_upstream_event(upstream, HX_PEER_NOT_SENT,
                                 process != NULL ? process->generation : 0, tag, HX_SPAN_NONE);
}

/* Returns true when the message is dispatched. */
static bool is_taken(struct sim_upstream *upstream, struct sim_process *process, uint64_t tag)
{
    struct sim *sim = upstream->life->sim;
    struct hx_id operation;
    uint32_t attempt;
    bool is_call = sim_look_route(&upstream->upstream, tag, &operation, &attempt);
    bool is_stormy = !sim->is_calm && !sim->options.is_scripted;
    if (is_stormy && process->is_initialized && !process->is_dead &&
        sim_chance(&sim->luck, sim->weather.session_lost))
        process->is_forgotten = true;
    if (process->is_dead || process->is_forgotten) {
        if (tag != 0)
            reject(upstream, process, tag, STATUS_NOT_FOUND);
        if (!process->is_lost) {
            sim_mark(sim, SIM_SESSION_LOST);
            (void)sim_upstream_event(upstream, HX_PEER_SESSION_LOST, process->generation, 0,
                                     HX_SPAN_NONE);
        }
        process->is_lost = true;
        return false;
    }
    if (is_stormy && is_call && sim_chance(&sim->luck, sim->weather.rejected)) {
        reject(upstream, process, tag,
               sim_chance(&sim->luck, 800) ? STATUS_TOO_MANY : STATUS_UNAUTHORIZED);
        return false;
    }
    return true;
}

static void dispatch(struct sim_upstream *upstream, struct sim_process *process,
                     struct hx_span line, uint64_t tag)
{
    struct sim *sim = upstream->life->sim;
    struct sim_event *event = sim_after(sim, sim_between(&sim->luck, 0, 3), sim_process_hear);
    event->a = process->number;
    (void)hx_buf_append_span(&event->line, line);
    if (!sim_look_route(&upstream->upstream, tag, &event->id, &event->b))
        return;
    sim_check_send(upstream, &event->id, event->b);
    if (sim->is_calm || !sim_chance(&sim->luck, sim->weather.answer_lost))
        return;
    struct sim_event *cut = sim_after(sim, sim_between(&sim->luck, 4, 3000), on_break);
    cut->a = upstream->number;
    cut->tag = tag;
}

static void take_line(struct hx_upstream *port, struct hx_buf *line, uint64_t tag)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    struct sim_process *process = sim_process_find(sim, upstream->process);
    bool is_down = process == NULL || process->is_ending || process->is_lost ||
                   sim->now < sim->remote_down_until ||
                   (!sim->is_calm && !sim->options.is_scripted &&
                    sim_chance(&sim->luck, sim->weather.bad_start / 8));
    if (upstream->life->is_frozen) {
        hx_buf_fini(line);
        return;
    }
    if (is_down) {
        not_sent(upstream, process, tag);
        hx_buf_fini(line);
        return;
    }
    if (tag != 0) {
        (void)sim_upstream_event(upstream, HX_PEER_FIRST_BYTE, process->generation, tag,
                                 HX_SPAN_NONE);
        (void)sim_upstream_event(upstream, HX_PEER_WRITTEN, process->generation, tag, HX_SPAN_NONE);
    }
    if (is_taken(upstream, process, tag))
        dispatch(upstream, process, hx_buf_span(line), tag);
    hx_buf_fini(line);
}

static void send_line(struct hx_upstream *port, struct hx_buf *line, uint64_t tag)
{
    unsigned long left = sim_memory_leave();
    take_line(port, line, tag);
    sim_memory_return(left);
}

static void send_with(struct hx_upstream *port, struct hx_buf *line, struct hx_span headers,
                      uint64_t tag)
{
    (void)headers;
    send_line(port, line, tag);
}

static void drop(struct hx_upstream *port, uint64_t tag)
{
    const struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->heard_by == upstream->number && run->heard_as == tag)
            run->heard_by = 0;
    }
}

/* For one in eight the place is needed at once. */
static void give_way(struct hx_upstream *port, uint64_t tag)
{
    const struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    for (uint32_t i = 1; i <= sim->run_count && !upstream->life->is_frozen; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        bool is_its = run->heard_by == upstream->number && run->heard_as == tag;
        if (is_its && !sim->is_calm && run->number % 8 == 0)
            lose(sim, run, HX_PEER_LOSS_STOPPED);
    }
}

static void resume(struct hx_upstream *port, struct hx_span text, uint64_t tag)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    const struct sim_process *here = sim_process_find(sim, upstream->process);
    uint32_t number = text.len > 4 ? (uint32_t)strtoul(text.ptr + 4, NULL, 10) : 0;
    if (upstream->life->is_frozen)
        return;
    if (number == 0 || number > sim->run_count)
        sim_fail(sim, "a stream is taken up that no server has");
    struct sim_run *run = sim_run_get(sim, number);
    const struct sim_process *process = sim_process_find(sim, run->process);
    bool is_there = here != NULL && !here->is_ending;
    bool is_known = process != NULL && !process->is_dead && run->has_point && is_there &&
                    !sim_chance(&sim->luck, sim->is_calm ? 0 : sim->weather.resume_loss);
    sim_mark(sim, SIM_POINT_USED);
    sim_trace(sim, "life %u takes up the stream of run %u%s", upstream->life->number, number,
              is_known ? "" : ", which is not there any more");
    if (!is_known) {
        sim_mark(sim, SIM_POINT_LOST);
        sim_upstream_event(upstream, HX_PEER_ANSWER_LOST, here != NULL ? here->generation : 0, tag,
                           HX_SPAN_NONE)
            ->loss = HX_PEER_LOSS_RESUME;
        return;
    }
    run->is_taken_up = true;
    run->heard_by = upstream->number;
    run->heard_as = tag;
    run->heard_generation = here->generation;
    if (run->is_over)
        give(sim, run);
}

/* ---- its sessions ---- */

static void start(struct hx_upstream *port, uint32_t generation)
{
    struct sim_upstream *upstream = sim_upstream_of(port);
    if (upstream->life->is_frozen)
        return;
    struct sim_process *process = sim_process_new(upstream, generation);
    process->is_remote = true;
    process->is_running = true;
    (void)sim_upstream_event(upstream, HX_PEER_STARTED, generation, 0, HX_SPAN_NONE);
}

static void on_stopped(struct sim *sim, struct sim_event *event)
{
    struct sim_upstream *upstream = sim_upstream_find(sim, event->a);
    struct sim_process *process = sim_process_find(sim, event->b);
    if (upstream == NULL || process == NULL || upstream->process != process->number)
        return;
    lose_all(sim, upstream->number, HX_PEER_LOSS_STOPPED);
    process->life = 0;
    upstream->process = 0;
    (void)sim_upstream_event(upstream, HX_PEER_CLOSED, process->generation, 0, HX_SPAN_NONE);
}

static void end(struct hx_upstream *port, int64_t high_ms)
{
    const struct sim_upstream *upstream = sim_upstream_of(port);
    struct sim *sim = upstream->life->sim;
    struct sim_process *process = sim_process_find(sim, upstream->process);
    if (upstream->life->is_frozen || process == NULL || process->is_ending)
        return;
    process->is_ending = true;
    struct sim_event *event = sim_after(sim, sim_between(&sim->luck, 0, high_ms), on_stopped);
    event->a = upstream->number;
    event->b = process->number;
}

static void stop(struct hx_upstream *port)
{
    end(port, 2000);
}

static void kill_now(struct hx_upstream *port)
{
    end(port, 5);
}

void sim_remote_restart(struct sim *sim)
{
    sim_trace(sim, "the remote server is started again");
    sim_mark(sim, SIM_SERVER_DEATH);
    sim->remote_down_until = sim->now + sim_between(&sim->luck, 0, 5000);
    hx_list_for_each (at, &sim->processes) {
        struct sim_process *process = hx_container_of(at, struct sim_process, node);
        process->is_dead |= process->is_remote;
    }
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->heard_by != 0)
            lose(sim, run, HX_PEER_LOSS_CONNECTION);
    }
}

static void hold(struct hx_upstream *port, bool is_held)
{
    (void)port;
    (void)is_held;
}

/* Sockets die with their process. */
static const char *transport_name(struct hx_upstream *port)
{
    (void)port;
    return "";
}

const struct hx_upstream_ops sim_remote_ops = {
    .start = start,
    .send = send_line,
    .stop = stop,
    .kill = kill_now,
    .hold = hold,
    .transport_name = transport_name,
    .send_with = send_with,
    .drop = drop,
    .give_way = give_way,
    .resume = resume,
};
