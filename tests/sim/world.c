/* SPDX-License-Identifier: MIT */
/*
 * Time, and what happens by itself: the queue of events, the weather of a seed, and the course of
 * one history: faults, then calm, in which everything must come to rest.
 */
#include "sim/sim.h"

/* ---- the queue ---- */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void swap(struct sim *sim, size_t a, size_t b)
{
    struct sim_event *event = sim->events[a];
    sim->events[a] = sim->events[b];
    sim->events[b] = event;
}

struct sim_event *sim_after(struct sim *sim, int64_t delay_ms,
                            void (*fire)(struct sim *sim, struct sim_event *event))
{
    struct sim_event *event = hx_new(struct sim_event);
    event->at = sim->now + (delay_ms > 0 ? delay_ms : 0);
    event->sequence = ++sim->event_sequence;
    event->fire = fire;
    hx_buf_init(&event->line, 1 << 22);
    if (sim->event_count == sim->event_capacity) {
        sim->event_capacity = sim->event_capacity == 0 ? 256 : 2 * sim->event_capacity;
        sim->events = hx_realloc(sim->events, sim->event_capacity * sizeof(sim->events[0]));
        hx_assert(sim->events != NULL);
    }
    size_t at = sim->event_count++;
    sim->events[at] = event;
    while (at > 0 && is_before(event, sim->events[(at - 1) / 2])) {
        swap(sim, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
    return event;
}

static struct sim_event *take_event(struct sim *sim)
{
    struct sim_event *first = sim->events[0];
    sim->events[0] = sim->events[--sim->event_count];
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child >= sim->event_count)
            break;
        if (child + 1 < sim->event_count && is_before(sim->events[child + 1], sim->events[child]))
            child++;
        if (!is_before(sim->events[child], sim->events[at]))
            break;
        swap(sim, at, child);
        at = child;
    }
    return first;
}

static void event_free(struct sim_event *event)
{
    hx_buf_fini(&event->line);
    hx_free(event);
}

/* ---- time ---- */

static struct hx_now read_clock(struct hx_clock *clock)
{
    struct sim *sim = hx_container_of(clock, struct sim, clock);
    const int64_t epoch_ms = 1790000000000;
    struct hx_now now = {.mono = {sim->now - sim->boot_began},
                         .wall = {epoch_ms + sim->now + sim->wall_offset}};
    now.boot.bytes[0] = (uint8_t)(sim->boot + 1);
    now.boot.bytes[15] = 1;
    return now;
}

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    struct sim *sim = hx_container_of(rand, struct sim, rand);
    for (size_t i = 0; i < len; i++)
        ret_bytes[i] = (uint8_t)sim_random(&sim->engine);
}

static bool turn_lives(struct sim *sim)
{
    bool had_any = false;
    hx_list_for_each_safe (at, &sim->lives) {
        struct sim_life *life = hx_container_of(at, struct sim_life, node);
        if (!sim_life_is_due(life))
            continue;
        sim_life_turn(life);
        had_any = true;
    }
    return had_any;
}

static int64_t next_time(struct sim *sim, int64_t limit)
{
    int64_t next = limit;
    if (sim->event_count > 0 && sim->events[0]->at < next)
        next = sim->events[0]->at;
    hx_list_for_each (at, &sim->lives) {
        const struct sim_life *life = hx_container_of(at, struct sim_life, node);
        if (!life->is_paused && life->wake_at >= 0 && life->wake_at < next)
            next = life->wake_at;
    }
    return next > sim->now ? next : sim->now;
}

void sim_run_for(struct sim *sim, int64_t ms)
{
    enum { TURNS_AT_ONCE_MAX = 2000 };
    int64_t limit = sim->now + ms;
    for (;;) {
        for (int i = 0; turn_lives(sim); i++) {
            if (i == TURNS_AT_ONCE_MAX)
                sim_fail(sim, "a gateway does not stop turning");
        }
        int64_t next = next_time(sim, limit);
        sim->now = next;
        if (sim->event_count > 0 && sim->events[0]->at <= sim->now) {
            struct sim_event *event = take_event(sim);
            event->fire(sim, event);
            event_free(event);
        } else if (next >= limit) {
            return;
        }
    }
}

/* ---- weather ---- */

static unsigned pick(struct sim *sim, unsigned most)
{
    return sim_chance(&sim->plan, 500) ? 0 : 1 + sim_below(&sim->plan, most);
}

static unsigned pick_more(struct sim *sim, unsigned most)
{
    return sim_chance(&sim->shape, 400) ? 0 : 1 + sim_below(&sim->shape, most);
}

static void choose_weather(struct sim *sim)
{
    sim->weather = (struct sim_weather){
        .keeper_kill = pick(sim, 60),
        .front_kill = pick(sim, 120),
        .host_crash = pick(sim, 20),
        .server_death = pick(sim, 600),
        .server_stop = pick(sim, 50),
        .pause = pick(sim, 60),
        .commit_refuse = pick(sim, 60),
        .commit_doubt = pick(sim, 60),
        .ledger_full = pick(sim, 40),
        .slow_disk = pick(sim, 150),
        .slow_tool = pick(sim, 400),
        .never_answers = pick(sim, 150),
        .answers_twice = pick(sim, 200),
        .garbage = pick(sim, 80),
        .task = pick(sim, 60),
        .tool_error = pick(sim, 300),
        .refusal = pick(sim, 400),
        .stall = pick(sim, 60),
        .slow_start = pick(sim, 400),
        .bad_start = pick(sim, 500),
        .progress = pick(sim, 500),
        .server_asks = pick(sim, 200),
        .double_send = pick(sim, 200),
        .batch = pick(sim, 700),
        .conflict = pick(sim, 600),
        .clock_jump = pick(sim, 30),
        .silent = pick(sim, 800),
        .orderly_end = pick(sim, 30),
    };
    /* What only some worlds meet has a stream of chance of its own: the others stay as they are. */
    struct sim_weather *weather = &sim->weather;
    weather->cut = pick_more(sim, 500);
    weather->session_end = pick_more(sim, 80);
    weather->session_idle = pick_more(sim, 200);
    weather->vanish = pick_more(sim, 30);
    weather->stranger = pick_more(sim, 500);
    weather->move = pick_more(sim, 500);
    weather->answer_lost = pick_more(sim, 400);
    weather->rejected = pick_more(sim, 250);
    weather->session_lost = pick_more(sim, 100);
    weather->point = pick_more(sim, 1000);
    weather->resume_loss = pick_more(sim, 400);
}

static void on_resume(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    if (life == NULL)
        return;
    sim_trace(sim, "life %u goes on", life->number);
    life->is_paused = false;
    life->resumed_at = sim->now;
}

static void on_full_over(struct sim *sim, struct sim_event *event)
{
    (void)event;
    sim_trace(sim, "the ledger can be written again");
    sim->is_ledger_broken = false;
    hx_memory_ledger_break(sim->ledger, false, false);
}

static struct sim_life *any_life(struct sim *sim)
{
    uint32_t count = 0;
    hx_list_for_each (at, &sim->lives)
        count++;
    uint32_t wanted = sim_below(&sim->luck, count);
    hx_list_for_each (at, &sim->lives) {
        if (wanted-- == 0)
            return hx_container_of(at, struct sim_life, node);
    }
    return NULL;
}

/* Its one client, if it has one that is still there. */
static struct sim_host *host_of(struct sim *sim, const struct sim_life *life)
{
    for (uint32_t i = 1; i <= sim->host_count && life->port == 0; i++) {
        if (sim->hosts[i].life == life->number)
            return &sim->hosts[i];
    }
    return NULL;
}

/* TERM. Another one may be started before it has drained. */
static void drain(struct sim *sim, struct sim_life *life)
{
    sim_trace(sim, "life %u is asked to end", life->number);
    hx_gateway_drain(life->gateway);
    life->wake_at = sim->now;
    if (sim_chance(&sim->shape, 700))
        sim_port_open_later(sim, life->port, sim_between(&sim->shape, 0, 2000));
}

static void strike_life(struct sim *sim, struct sim_life *life)
{
    struct sim_host *host = host_of(sim, life);
    bool is_attached = host != NULL;
    if (sim_chance(&sim->luck, sim->weather.keeper_kill)) {
        sim_mark(sim, SIM_KILL);
        sim_life_kill(life);
    } else if (is_attached && sim_chance(&sim->luck, sim->weather.front_kill)) {
        sim_host_hang_up(sim, host, (enum sim_hang_up)sim_below(&sim->luck, 2));
    } else if (is_attached && sim_chance(&sim->luck, sim->weather.orderly_end)) {
        sim_host_hang_up(sim, host, SIM_END_OF_INPUT);
    } else if (life->port != 0 && sim_chance(&sim->luck, sim->weather.orderly_end)) {
        drain(sim, life);
    } else if (life->port != 0 && sim_chance(&sim->luck, sim->weather.session_idle)) {
        if (sim_chance(&sim->luck, 250))
            sim_life_reload(life);
        else
            sim_web_put_away(sim, life);
    } else if (!life->is_paused && sim_chance(&sim->luck, sim->weather.pause)) {
        sim_mark(sim, SIM_PAUSE);
        sim_trace(sim, "life %u is paused", life->number);
        life->is_paused = true;
        sim_host_silence(sim, life->number);
        sim_after(sim, sim_between(&sim->luck, 100, 40000), on_resume)->a = life->number;
    } else if (hx_gateway_is_draining(life->gateway) &&
               sim_chance(&sim->luck, sim->weather.server_stop)) {
        sim_mark(sim, SIM_STOPPED);
        sim_trace(sim, "life %u is told to stop", life->number);
        hx_gateway_stop(life->gateway);
        life->wake_at = sim->now;
    }
}

/* Across boots a repeat is placed by the wall clock, and at most a day back. */
static void allow_new_windows(struct sim *sim)
{
    for (uint32_t i = 1; sim->boot > 0 && i <= sim->intent_count; i++) {
        struct sim_intent *intent = sim_intent_get(sim, i);
        intent->allowed_more += intent->key[0] == '\0';
    }
}

static void on_storm(struct sim *sim, struct sim_event *event)
{
    (void)event;
    if (sim->is_calm)
        return;
    sim_after(sim, sim_between(&sim->luck, 100, 1500), on_storm);
    unsigned boot_before = sim->boot;
    struct sim_life *life = any_life(sim);
    if (life != NULL)
        strike_life(sim, life);
    if (sim->form.port_count > 0)
        sim_web_strike(sim);
    if (sim->form.is_remote && sim_chance(&sim->luck, sim->weather.server_death / 20))
        sim_remote_restart(sim);
    if (sim_chance(&sim->luck, sim->weather.host_crash))
        sim_host_crash(sim);
    if (sim->wall_offset != 0 && sim->boot > boot_before)
        allow_new_windows(sim);
    if (!sim->is_ledger_broken && sim_chance(&sim->luck, sim->weather.ledger_full)) {
        bool also_spool = sim_chance(&sim->luck, 400);
        sim_mark(sim, SIM_FULL);
        sim_trace(sim, "the ledger is full%s", also_spool ? ", the spool too" : "");
        sim->is_ledger_broken = true;
        hx_memory_ledger_break(sim->ledger, true, also_spool);
        sim_after(sim, sim_between(&sim->luck, 100, 20000), on_full_over);
    }
    if (sim_chance(&sim->luck, sim->weather.clock_jump)) {
        const int64_t day_ms = 24 * 3600 * 1000;
        sim->wall_offset += sim_between(&sim->luck, -2 * day_ms, 2 * day_ms);
        sim_mark(sim, SIM_CLOCK_JUMP);
        sim_trace(sim, "the wall clock jumps");
        allow_new_windows(sim);
    }
}

/* ---- one history ---- */

static void open_hosts(struct sim *sim)
{
    static const char *const revisions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
    for (uint32_t i = 1; i <= SIM_HOSTS_MAX; i++) {
        struct sim_host *host = &sim->hosts[i];
        struct sim_rng *rng = i <= SIM_RUN_HOSTS_MAX ? &sim->plan : &sim->shape;
        host->number = i;
        host->next_id = 1;
        host->principal = "1000";
        host->revision = revisions[2];
        hx_list_init(&host->unread);
        hx_buf_init(&host->batch, 1 << 20);
        if (sim->options.is_scripted)
            continue;
        host->revision = revisions[sim_below(rng, 4)];
        host->can_elicit = sim_chance(rng, 400);
        host->is_slow = sim_chance(rng, 300);
    }
}

/* Two worlds in five have nothing but `run`, with one client each. */
static void choose_form(struct sim *sim)
{
    struct sim_rng *rng = &sim->shape;
    if (sim->options.is_scripted || sim->options.seed % 5 < 2)
        return;
    sim->form.port_count = 1 + sim_chance(rng, 400);
    sim->form.share = (enum sim_share)sim_below(rng, 3);
    sim->form.is_remote = sim_chance(rng, 500);
    sim->host_count = 1 + sim_below(rng, 4);
    for (uint32_t i = 1; i <= sim->host_count; i++) {
        sim->hosts[i].port = 1 + sim_below(rng, sim->form.port_count);
        sim->hosts[i].principal = sim_chance(rng, 250) ? "2000" : "1000";
    }
    /* A `run` beside it. */
    if (sim_chance(rng, 400))
        sim->host_count++;
}

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *sim = hx_new(struct sim);
    sim->options = *options;
    sim->plan.state = options->seed * 3 + 1;
    sim->luck.state = options->seed * 0x10001 + 2;
    sim->engine.state = options->seed * 0x1000003 + 3;
    sim->shape.state = options->seed * 0x100000d + 4;
    sim->extra.state = options->seed * 0x1000193 + 5;
    sim->clock.now = read_clock;
    sim->rand.fill = fill;
    sim->boot_began = -100000;
    sim->limits = HX_JSON_LIMITS_DEFAULT;
    hx_json_tape_init(&sim->tape);
    hx_json_tape_init(&sim->tape2);
    hx_arena_init(&sim->arena, 1 << 24);
    hx_list_init(&sim->lives);
    hx_list_init(&sim->processes);
    hx_list_init(&sim->questions);
    hx_list_init(&sim->exchanges);
    sim->ledger = hx_memory_ledger_new(&sim->clock);
    hx_memory_ledger_keep_outbox(sim->ledger);
    /* Publishing goes on as long as the world does, so not in every one. */
    sim->has_receiver = !options->is_scripted && options->seed % 7 == 3;
    sim->host_count = 1 + (options->is_scripted ? SIM_RUN_HOSTS_MAX - 1
                                                : sim_below(&sim->plan, SIM_RUN_HOSTS_MAX));
    sim_contracts(sim);
    open_hosts(sim);
    choose_form(sim);
    return sim;
}

void sim_free(struct sim *sim)
{
    hx_list_for_each_safe (at, &sim->lives)
        sim_life_free(hx_container_of(at, struct sim_life, node));
    sim_processes_free(sim);
    sim_neighbours_free(sim);
    sim_exchanges_free(sim);
    for (size_t i = 0; i < sim->event_count; i++)
        event_free(sim->events[i]);
    hx_free(sim->events);
    for (uint32_t i = 1; i <= SIM_HOSTS_MAX; i++) {
        sim_host_drop_unread(sim, &sim->hosts[i]);
        hx_buf_fini(&sim->hosts[i].batch);
    }
    hx_memory_ledger_free(sim->ledger);
    for (uint32_t i = 0; i < sim->run_count; i++)
        hx_buf_fini(&sim->runs[i].result);
    hx_free(sim->runs);
    hx_free(sim->received);
    hx_free(sim->sessions);
    hx_free(sim->calls);
    hx_free(sim->intents);
    sim_shadows_free(sim);
    hx_json_tape_fini(&sim->tape);
    hx_json_tape_fini(&sim->tape2);
    hx_arena_fini(&sim->arena);
    hx_free(sim);
}

/* Everybody who has a key asks once more: what the ledger says now is what he was told. */
static void ask_again(struct sim *sim)
{
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        struct sim_intent *intent = sim_intent_get(sim, i);
        if (intent->key[0] == '\0' || intent->tool == SIM_LOOK || intent->is_ancient)
            continue;
        intent->give_up = SIM_WAIT_ON;
        intent->retries_left = 0;
        sim_host_begin(sim, intent);
    }
}

static void become_calm(struct sim *sim)
{
    sim_trace(sim, "calm");
    sim->is_calm = true;
    hx_memory_ledger_fail_at(sim->ledger, 0, HX_MEMORY_REFUSE);
    hx_memory_ledger_break(sim->ledger, false, false);
    sim->is_ledger_broken = false;
    hx_list_for_each (at, &sim->lives)
        hx_container_of(at, struct sim_life, node)->is_paused = false;
}

void sim_history(struct sim *sim)
{
    const int64_t storm_ms = 90 * 1000;
    const int64_t calm_ms = 60 * 60 * 1000;
    choose_weather(sim);
    sim_probe_choose(sim);
    sim_memory_choose(sim);
    sim_plan(sim);
    sim_refused_plan(sim);
    for (uint32_t i = 1; i <= sim->form.port_count; i++)
        sim_port_open(sim, i);
    for (uint32_t i = 1; i <= sim->host_count; i++) {
        struct sim_host *host = &sim->hosts[i];
        if (host->port != 0 && sim_chance(&sim->shape, 500))
            sim_host_connect_later(sim, host, sim_between(&sim->shape, 0, 25000));
        else
            sim_host_connect(sim, host);
    }
    on_storm(sim, NULL);
    sim_run_for(sim, storm_ms);
    become_calm(sim);
    sim_run_for(sim, calm_ms);
    sim_check_end(sim);
    sim_check_published(sim);
    ask_again(sim);
    sim_run_for(sim, 40 * 60 * 1000);
    sim_check_end(sim);
    sim_check_published(sim);
}
