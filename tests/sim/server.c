/* SPDX-License-Identifier: MIT */
/*
 * The tool server. It acts at some moment and answers at another, or not at all, or says nonsense;
 * and what it did outside is counted where no crash can reach.
 */
#include "sim/sim.h"

#include <stdlib.h>

struct sim_upstream *sim_upstream_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct sim_upstream, upstream);
}

struct sim_upstream *sim_upstream_find(struct sim *sim, uint32_t number)
{
    hx_list_for_each (life, &sim->lives) {
        hx_list_for_each (at, &hx_container_of(life, struct sim_life, node)->upstreams) {
            struct sim_upstream *upstream = hx_container_of(at, struct sim_upstream, node);
            if (upstream->number == number)
                return upstream;
        }
    }
    return NULL;
}

struct hx_peer_event *sim_upstream_event(struct sim_upstream *upstream,
                                         enum hx_peer_event_type type, uint32_t generation,
                                         uint64_t tag, struct hx_span line)
{
    struct hx_peer_event *event = hx_peer_event_new(type, generation);
    event->upstream = &upstream->upstream;
    event->tag = tag;
    if (!hx_span_is_absent(line))
        (void)hx_buf_append_span(&event->line, line);
    hx_list_append(&upstream->life->upstream_inbox, &event->node);
    return event;
}

struct hx_upstream *sim_upstream_new(struct sim_life *life)
{
    struct sim_upstream *upstream = hx_new(struct sim_upstream);
    upstream->number = ++life->sim->upstream_count;
    upstream->life = life;
    upstream->upstream = (struct hx_upstream){
        .ops = life->sim->form.is_remote ? &sim_remote_ops : &sim_child_ops,
        .inbox = &life->upstream_inbox,
    };
    hx_list_append(&life->upstreams, &upstream->node);
    return &upstream->upstream;
}

void sim_upstream_free(struct sim_upstream *upstream)
{
    sim_remote_detach(upstream->life->sim, upstream->number);
    hx_list_unlink(&upstream->node);
    hx_free(upstream);
}

struct sim_process *sim_process_new(struct sim_upstream *upstream, uint32_t generation)
{
    struct sim *sim = upstream->life->sim;
    struct sim_process *process = hx_new(struct sim_process);
    process->number = ++sim->process_count;
    process->life = upstream->life->number;
    process->upstream = upstream->number;
    process->generation = generation;
    snprintf(process->name, sizeof(process->name), "process-%u", process->number);
    hx_list_append(&sim->processes, &process->node);
    upstream->process = process->number;
    return process;
}

void sim_processes_free(struct sim *sim)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&sim->processes)) != NULL)
        hx_free(hx_container_of(node, struct sim_process, node));
}

struct sim_process *sim_process_find(struct sim *sim, uint32_t number)
{
    hx_list_for_each (at, &sim->processes) {
        struct sim_process *process = hx_container_of(at, struct sim_process, node);
        if (process->number == number)
            return process;
    }
    return NULL;
}

/* ---- what it says ---- */

/* `about`: the call that it belongs to, or NULL. */
static void say(struct sim *sim, struct sim_process *process, struct hx_span line,
                const struct sim_run *about)
{
    if (process->is_dead)
        return;
    if (process->is_remote)
        sim_remote_say(sim, process, line, about != NULL ? about->heard_as : 0, false);
    else
        sim_child_say(sim, process, line);
}

void sim_process_answer(struct sim *sim, struct sim_process *process, struct hx_span id,
                        struct hx_span line)
{
    if (process->is_remote)
        sim_remote_say(sim, process, line, strtoull(id.ptr, NULL, 10), true);
    else
        say(sim, process, line, NULL);
}

void sim_run_write(const struct sim_run *run, struct hx_buf *line)
{
    (void)hx_buf_printf(line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":", run->route_id,
                        run->is_rpc_error ? "error" : "result");
    (void)hx_buf_append_span(line, hx_buf_span(&run->result));
    (void)hx_buf_append_char(line, '}');
}

static void say_answer(struct sim *sim, struct sim_process *process, const struct sim_run *run)
{
    struct hx_buf line;
    hx_buf_init(&line, 1 << 20);
    sim_run_write(run, &line);
    say(sim, process, hx_buf_span(&line), NULL);
    hx_buf_fini(&line);
}

static void answer_run(struct sim *sim, struct sim_process *process, struct sim_run *run)
{
    struct hx_buf line;
    run->is_over = true;
    if (process->is_remote) {
        sim_remote_answer(sim, run);
        return;
    }
    switch (run->style) {
    case SIM_ANSWER_TWICE:
        say_answer(sim, process, run);
        say_answer(sim, process, run);
        return;
    case SIM_ANSWER_ONCE:
        say_answer(sim, process, run);
        return;
    case SIM_ANSWER_NEVER:
        return;
    case SIM_ANSWER_GARBAGE:
        hx_buf_init(&line, 4096);
        (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"x\":}}",
                            run->route_id);
        say(sim, process, hx_buf_span(&line), NULL);
        hx_buf_fini(&line);
        return;
    case SIM_ANSWER_TASK:
        hx_buf_init(&line, 4096);
        (void)hx_buf_printf(&line,
                            "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"task\":{\"taskId\":"
                            "\"t%u\",\"status\":\"working\"}}}",
                            run->route_id, run->number);
        say(sim, process, hx_buf_span(&line), NULL);
        hx_buf_fini(&line);
        return;
    }
}

/* ---- what it does ---- */

/* The world outside: keyed tools know the keys they have seen, idempotent ones set a value. */
static void act(struct sim *sim, struct sim_run *run)
{
    if (run->has_acted)
        return;
    run->has_acted = true;
    run->seen_at =
        sim->now + sim_between(&sim->extra, 0, sim->contracts[run->tool].visibility_lag_ms);
    sim_check_act(sim, run);
}

static void on_act(struct sim *sim, struct sim_event *event)
{
    struct sim_run *run = sim_run_get(sim, event->b);
    const struct sim_process *process = sim_process_find(sim, run->process);
    if (process == NULL || process->is_dead || run->is_cancelled)
        return;
    act(sim, run);
}

static void on_answer(struct sim *sim, struct sim_event *event)
{
    struct sim_run *run = sim_run_get(sim, event->b);
    struct sim_process *process = sim_process_find(sim, run->process);
    if (process == NULL || process->is_dead || run->is_over)
        return;
    if (run->is_cancelled && sim_chance(&sim->luck, 700))
        return; /* most servers say nothing to a cancelled call */
    answer_run(sim, process, run);
}

static void on_progress(struct sim *sim, struct sim_event *event)
{
    const struct sim_run *run = sim_run_get(sim, event->b);
    struct sim_process *process = sim_process_find(sim, run->process);
    char text[256];
    if (process == NULL || process->is_dead || run->is_over)
        return;
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
             "\"progressToken\":%s,\"progress\":1}}",
             run->token);
    say(sim, process, hx_span_cstr(text), run);
}

static void on_server_ask(struct sim *sim, struct sim_event *event)
{
    const struct sim_run *run = sim_run_get(sim, event->b);
    struct sim_process *process = sim_process_find(sim, run->process);
    char text[256];
    if (process == NULL || process->is_dead || run->is_over)
        return;
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"id\":\"s%u\",\"method\":\"sampling/createMessage\","
             "\"params\":{\"messages\":[]}}",
             run->number);
    say(sim, process, hx_span_cstr(text), run);
}

static void write_result(struct sim *sim, struct sim_run *run)
{
    const struct sim_weather *weather = &sim->weather;
    hx_buf_init(&run->result, 1 << 20);
    if (!sim->is_calm && sim_chance(&sim->luck, weather->refusal)) {
        run->is_refusal = true;
        run->is_rpc_error = true;
        (void)hx_buf_printf(&run->result,
                            "{\"code\":%d,\"message\":\"refused\",\"data\":{\"run\":%u}}",
                            sim_chance(&sim->luck, 500) ? -32010 : -32011, run->number);
    } else if (sim_chance(&sim->luck, weather->tool_error)) {
        run->is_rpc_error = sim_chance(&sim->luck, 400);
        if (run->is_rpc_error)
            (void)hx_buf_printf(&run->result,
                                "{\"code\":-32050, \"message\":\"broke \\u00e9\","
                                "\"data\":{\"run\":%u,\"n\":1.50e0}}",
                                run->number);
        else
            (void)hx_buf_printf(&run->result,
                                "{\"content\": [{\"type\":\"text\",\"text\":\"no\"}],"
                                "\"isError\":true,\"run\":%u}",
                                run->number);
    } else {
        static const char *const tails[] = {"", ",\"_meta\":{\"a/b\":[1.0,2e3]}",
                                            ",\"n\":1.50e+00"};
        (void)hx_buf_printf(&run->result,
                            "{\"content\":[{\"type\":\"text\",\"text\":\"done \\u00e9 %u\"} ],"
                            "\"run\":%u",
                            run->number, run->number);
        sim_memory_pad(sim, &run->result);
        (void)hx_buf_printf(&run->result, "%s}", tails[sim_below(&sim->luck, 3)]);
    }
}

static int64_t think_ms(struct sim *sim)
{
    if (sim_chance(&sim->luck, sim->weather.slow_tool))
        return sim_between(&sim->luck, 1000, sim->is_calm ? 5000 : 90000);
    return sim_between(&sim->luck, 0, 400);
}

static void choose_style(struct sim *sim, struct sim_run *run)
{
    const struct sim_weather *weather = &sim->weather;
    run->style = SIM_ANSWER_ONCE;
    if (sim->is_calm || run->tool == SIM_LOOK)
        return;
    if (sim_chance(&sim->luck, weather->never_answers))
        run->style = SIM_ANSWER_NEVER;
    else if (sim_chance(&sim->luck, weather->answers_twice))
        run->style = SIM_ANSWER_TWICE;
    else if (sim_chance(&sim->luck, weather->garbage))
        run->style = SIM_ANSWER_GARBAGE;
    else if (sim_chance(&sim->luck, weather->task))
        run->style = SIM_ANSWER_TASK;
}

static void begin_run(struct sim *sim, struct sim_process *process, struct sim_run *run)
{
    int64_t act_ms = think_ms(sim);
    int64_t answer_ms = act_ms + think_ms(sim);
    choose_style(sim, run);
    write_result(sim, run);
    if (sim->script_run != NULL)
        sim->script_run(sim, run, &act_ms, &answer_ms);
    sim_trace(sim, "process %u got call %u (%s), run %u of operation %s attempt %u",
              process->number, run->call, sim_tool_names[run->tool], run->number,
              sim_short_id(&run->operation), run->attempt);
    if (process->is_remote)
        sim_remote_begin(sim, run);
    run->began = sim->now;
    run->acts_at = run->is_refusal || act_ms < 0 ? -1 : sim->now + act_ms;
    if (run->acts_at >= 0)
        sim_after(sim, act_ms, on_act)->b = run->number;
    if (answer_ms >= 0)
        sim_after(sim, answer_ms, on_answer)->b = run->number;
    if (run->token[0] != '\0' && sim_chance(&sim->luck, sim->weather.progress))
        sim_after(sim, answer_ms / 2, on_progress)->b = run->number;
    if (!sim->is_calm && sim_chance(&sim->luck, sim->weather.server_asks))
        sim_after(sim, answer_ms / 2, on_server_ask)->b = run->number;
}

/* ---- what it is told ---- */

static enum sim_tool tool_of(struct hx_span name)
{
    for (int i = 0; i < SIM_TOOL_COUNT; i++) {
        if (hx_span_eq_cstr(name, sim_tool_names[i]))
            return (enum sim_tool)i;
    }
    return SIM_TOOL_COUNT;
}

static void copy_span(char *to, size_t size, struct hx_span from)
{
    snprintf(to, size, "%.*s", HX_SPAN_FMT(from));
}

/* A request that was made from the row, since nobody waits where it is sent from, has lost the
 * number. It is a call of whoever sent that operation before, or holds its key. */
static uint32_t call_of_operation(struct sim *sim, const struct hx_id *operation)
{
    const struct hx_record *row = sim_row(sim, operation);
    uint32_t waiting = row != NULL ? sim_look_caller(sim, row) : 0;
    if (waiting != 0)
        return waiting;
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (hx_id_eq(&run->operation, operation) && run->call != 0)
            return run->call;
    }
    if (sim_creator(sim, operation) != 0)
        return sim_creator(sim, operation);
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        if (hx_id_eq(&sim_call_get(sim, i)->operation, operation))
            return i;
    }
    /* A successor is wanted by whoever wanted the one before it. */
    const struct hx_record *before;
    for (size_t i = 0; (before = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++) {
        if (hx_id_eq(&before->successor, operation))
            return call_of_operation(sim, &before->id);
    }
    for (uint32_t i = 1; row != NULL && i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        const struct sim_intent *intent = sim_intent_get(sim, call->intent);
        char amount[24];
        snprintf(amount, sizeof(amount), "\"amount\":%u", intent->group);
        bool is_its_key = hx_span_eq_cstr(row->key, intent->key) || intent->key[0] == '\0';
        if (!call->is_conflict && is_its_key &&
            hx_span_eq_cstr(row->tool, sim_tool_names[intent->tool]) &&
            hx_span_contains_nocase(row->arguments, hx_span_cstr(amount)))
            return call->number;
    }
    return 0;
}

static void take_call(struct sim *sim, struct sim_process *process, const struct hx_rpc_msg *msg,
                      const struct sim_event *event)
{
    struct hx_json_tape *tape = &sim->tape;
    uint32_t params = msg->params_token;
    uint32_t meta = hx_json_member(tape, params, HX_SPAN_LIT("_meta"));
    int64_t call = 0;
    (void)(hx_json_is(tape, hx_json_member(tape, meta, HX_SPAN_LIT("sim")), HX_JSON_NUMBER) &&
           hx_json_int64(tape, hx_json_member(tape, meta, HX_SPAN_LIT("sim")), &call));
    uint32_t name = hx_json_member(tape, params, HX_SPAN_LIT("name"));
    uint32_t key = hx_json_member(tape, meta, HX_SPAN_LIT("effectKey"));
    uint32_t token = hx_json_member(tape, meta, HX_SPAN_LIT("progressToken"));
    uint32_t ours = hx_json_member(tape, meta, HX_SPAN_LIT("dev.hapax/idempotencyKey"));
    if (call == 0)
        call = call_of_operation(sim, &event->id);
    if (call == 0 || (uint32_t)call > sim->call_count)
        sim_fail(sim, "a process got a call that no client sent");
    if (ours != HX_JSON_NONE && !hx_span_eq_cstr(hx_json_content(tape, name), "look"))
        sim_fail(sim, "the caller's key was forwarded");
    struct sim_run *run = sim_run_add(sim);
    run->process = process->number;
    run->call = (uint32_t)call;
    run->tool = tool_of(hx_json_content(tape, name));
    run->operation = event->id;
    run->attempt = event->b;
    if (key != HX_JSON_NONE)
        copy_span(run->effect_key, sizeof(run->effect_key), hx_json_content(tape, key));
    if (token != HX_JSON_NONE)
        copy_span(run->token, sizeof(run->token), hx_json_raw(tape, token));
    copy_span(run->route_id, sizeof(run->route_id), msg->id.raw);
    if (run->tool == SIM_BANK && run->effect_key[0] == '\0')
        sim_fail(sim, "a keyed tool was called without its effect key");
    begin_run(sim, process, run);
}

static void take_cancel(struct sim *sim, struct sim_process *process, const struct hx_rpc_msg *msg)
{
    uint32_t id = hx_json_member(&sim->tape, msg->params_token, HX_SPAN_LIT("requestId"));
    for (uint32_t i = sim->run_count; i >= 1; i--) {
        struct sim_run *run = sim_run_get(sim, i);
        if (run->process != process->number || id == HX_JSON_NONE ||
            !hx_span_eq_cstr(hx_json_raw(&sim->tape, id), run->route_id))
            continue;
        sim_trace(sim, "process %u: run %u is cancelled", process->number, run->number);
        if (!run->has_acted && sim_chance(&sim->luck, 500))
            run->is_cancelled = true;
        return;
    }
}

static void take_request(struct sim *sim, struct sim_process *process, const struct hx_rpc_msg *msg,
                         const struct sim_event *event)
{
    struct hx_buf line;
    if (hx_span_eq_cstr(msg->method, "tools/call")) {
        if (!process->is_initialized)
            sim_fail(sim, "process %u got a call before it was greeted", process->number);
        uint32_t name = hx_json_member(&sim->tape, msg->params_token, HX_SPAN_LIT("name"));
        if (hx_span_eq_cstr(hx_json_content(&sim->tape, name), "find")) {
            sim_probe_take(sim, process, msg);
            return;
        }
        take_call(sim, process, msg, event);
        return;
    }
    hx_buf_init(&line, 1 << 20);
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":", HX_SPAN_FMT(msg->id.raw));
    if (hx_span_eq_cstr(msg->method, "initialize")) {
        uint32_t version =
            hx_json_member(&sim->tape, msg->params_token, HX_SPAN_LIT("protocolVersion"));
        (void)hx_buf_printf(&line,
                            "{\"protocolVersion\":%.*s,\"capabilities\":{\"tools\":{}},"
                            "\"serverInfo\":{\"name\":\"sim\",\"version\":\"1\"}}",
                            HX_SPAN_FMT(hx_json_raw(&sim->tape, version)));
        process->is_initialized = true;
    } else {
        (void)hx_buf_append_cstr(&line, "{}");
    }
    (void)hx_buf_append_char(&line, '}');
    sim_process_answer(sim, process, msg->id.raw, hx_buf_span(&line));
    hx_buf_fini(&line);
}

void sim_process_hear(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    struct hx_rpc_msg msg;
    if (process == NULL || process->is_dead || !process->is_running)
        return;
    if (hx_rpc_read(&sim->tape, hx_buf_span(&event->line), &sim->limits, &sim->arena, &msg) != 0)
        sim_fail(sim, "out of memory");
    if (msg.kind == HX_RPC_INVALID)
        sim_fail(sim, "the gateway sent nonsense: %.*s", HX_SPAN_FMT(hx_buf_span(&event->line)));
    if (msg.kind == HX_RPC_REQUEST)
        take_request(sim, process, &msg, event);
    else if (hx_span_eq_cstr(msg.method, "notifications/cancelled"))
        take_cancel(sim, process, &msg);
    hx_arena_reset(&sim->arena);
}
