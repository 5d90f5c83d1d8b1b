/* SPDX-License-Identifier: MIT */
/*
 * One gateway process: born, fed, paused, killed, or ended in good order.
 */
#include "sim/sim.h"

static void tell(void *context, enum hx_tell tell_level, const char *event, const char *pairs)
{
    struct sim_life *life = context;
    (void)tell_level;
    if (strcmp(event, "answer_lost") == 0)
        sim_mark(life->sim, SIM_TAKEN_BACK);
    sim_trace(life->sim, "  life %u: %s %s", life->number, event, pairs);
}

static void relay(void *context, struct hx_span line)
{
    (void)context;
    (void)line;
}

static bool is_predecessor_draining(void *context)
{
    const struct sim_life *life = context;
    (void)life;
    return false;
}

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    const struct sim_life *life = context;
    sim_rules_for(life->sim, tool, ret_rules);
}

static struct hx_upstream *make_upstream(void *context)
{
    return sim_upstream_new(context);
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context;
    sim_upstream_free(sim_upstream_of(upstream));
}

struct sim_life *sim_life_find(struct sim *sim, uint32_t number)
{
    hx_list_for_each (at, &sim->lives) {
        struct sim_life *life = hx_container_of(at, struct sim_life, node);
        if (life->number == number)
            return life;
    }
    return NULL;
}

struct sim_life *sim_life_of_owner(struct sim *sim, const struct hx_id *owner)
{
    hx_list_for_each (at, &sim->lives) {
        struct sim_life *life = hx_container_of(at, struct sim_life, node);
        if (hx_id_eq(&life->owner, owner))
            return life;
    }
    return NULL;
}

static struct hx_server *begin_server(struct sim_life *life)
{
    const struct hx_server_options options = {
        .name = HX_SPAN_LIT("bank"),
        .hints = HX_HINTS_READ_ONLY,
        .stuck_timeout_ms = 60 * 1000,
        .start_timeout_ms = 120 * 1000,
        .is_remote = life->sim->form.is_remote,
        .rules_for = rules_for,
        .relay = relay,
        .is_predecessor_draining = is_predecessor_draining,
        .make_upstream = make_upstream,
        .free_upstream = free_upstream,
        .context = life,
    };
    return hx_server_new(life->gateway, &options);
}

void sim_life_reload(struct sim_life *life)
{
    struct hx_server *before = life->server;
    sim_mark(life->sim, SIM_RELOADED);
    sim_trace(life->sim, "life %u reads its configuration again", life->number);
    life->server = begin_server(life);
    hx_server_retire(before);
    life->wake_at = life->sim->now;
}

struct sim_life *sim_life_new(struct sim *sim, uint32_t port)
{
    struct sim_life *life = hx_new(struct sim_life);
    uint8_t random[10];
    life->sim = sim;
    life->number = ++sim->life_count;
    life->resumed_at = -1000000;
    life->port = port;
    hx_rand_fill(&sim->rand, random, sizeof(random));
    life->owner = hx_id_make(hx_clock_now(&sim->clock).wall, random);
    sim_trace(sim, "life %u begins%s, owner %s", life->number, port != 0 ? " at a port" : "",
              sim_short_id(&life->owner));
    sim_disk_open(life);
    hx_list_init(&life->upstreams);
    hx_list_init(&life->upstream_inbox);
    hx_list_init(&life->doors);
    hx_list_init(&life->downstream_inbox);
    sim_neighbours_open(life);
    struct hx_courier *courier = sim_courier_open(life);
    hx_list_append(&sim->lives, &life->node);
    struct hx_gateway_options options = {
        .ends_with_client = port == 0,
        .message_max = 1 << 20,
        .orphan_timeout_ms = sim->contracts[SIM_PAY].orphan_timeout_ms,
        .waiters_max = 4,
        .request_bytes_max = UINT64_MAX,
        .requests_max = 64,
        .queue_max = 64 * 1024,
        .outbox = {.in_flight_max = 3, .wait_ms = 200, .wait_max_ms = 5000},
        .tell_max = HX_TELL_DEBUG,
        .tell = tell,
        .session_over = port != 0 ? sim_web_session_over : NULL,
        .context = life,
    };
    struct hx_gateway_ports ports = {
        .clock = &sim->clock,
        .rand = &sim->rand,
        .store = &life->store,
        .upstream_inbox = &life->upstream_inbox,
        .downstream_inbox = &life->downstream_inbox,
        .neighbours = &life->neighbours,
        .courier = courier,
    };
    life->gateway = hx_gateway_new(&options, &ports);
    life->server = begin_server(life);
    life->wake_at = sim->now;
    return life;
}

bool sim_life_is_due(const struct sim_life *life)
{
    if (life->is_paused)
        return false;
    return (life->wake_at >= 0 && life->wake_at <= life->sim->now) ||
           !hx_list_is_empty(&life->upstream_inbox) || !hx_list_is_empty(&life->downstream_inbox) ||
           !hx_list_is_empty(&life->neighbour_inbox) || !hx_list_is_empty(&life->store_done) ||
           !hx_list_is_empty(&life->courier_reports);
}

static void count_marks(struct sim_life *life)
{
    static const struct {
        enum hx_counter counter;
        enum sim_mark mark;
    } map[] = {
        {HX_COUNTER_TAKEOVER, SIM_TAKEOVER},       {HX_COUNTER_RESEND, SIM_RESEND},
        {HX_COUNTER_STALE_WRITE, SIM_STALE_WRITE}, {HX_COUNTER_BECAME_UNKNOWN, SIM_BECAME_UNKNOWN},
        {HX_COUNTER_REPLAYED, SIM_REPLAYED},       {HX_COUNTER_JOINED, SIM_JOINED}};
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
        life->sim->marks[map[i].mark] += hx_gateway_counter(life->gateway, map[i].counter);
}

static void drop_peer_events(struct hx_list *inbox)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

/* Frees everything but the disk, which dies or is closed before. */
static void release(struct sim_life *life)
{
    struct hx_list *node;
    drop_peer_events(&life->upstream_inbox);
    drop_peer_events(&life->downstream_inbox);
    while ((node = hx_list_take_first(&life->neighbour_inbox)) != NULL)
        hx_neighbour_event_free(hx_container_of(node, struct hx_neighbour_event, node));
    hx_list_for_each_safe (at, &life->doors)
        sim_door_free(hx_container_of(at, struct sim_door, node));
    hx_list_for_each_safe (at, &life->upstreams)
        sim_upstream_free(hx_container_of(at, struct sim_upstream, node));
    sim_courier_close(life);
    hx_list_unlink(&life->node);
    hx_free(life);
}

static void on_port_opens(struct sim *sim, struct sim_event *event)
{
    sim->ports[event->a].is_coming = false;
    sim_port_open(sim, event->a);
}

void sim_port_open(struct sim *sim, uint32_t port)
{
    const struct sim_life *life = sim_life_find(sim, sim->ports[port].life);
    if (life == NULL || hx_gateway_is_draining(life->gateway))
        sim->ports[port].life = sim_life_new(sim, port)->number;
}

void sim_port_open_later(struct sim *sim, uint32_t port, int64_t delay_ms)
{
    if (port == 0 || sim->ports[port].is_coming)
        return;
    sim->ports[port].is_coming = true;
    sim_after(sim, delay_ms, on_port_opens)->a = port;
}

/* The keeper ends in good order, as the program does it. */
static void end(struct sim_life *life)
{
    struct sim *sim = life->sim;
    uint32_t number = life->number;
    sim_trace(sim, "life %u has ended", number);
    sim_mark(sim, SIM_DRAIN);
    hx_list_for_each (at, &life->upstreams) {
        const struct sim_upstream *upstream = hx_container_of(at, struct sim_upstream, node);
        const struct sim_process *process = sim_process_find(sim, upstream->process);
        if (process != NULL && !process->is_dead && !process->is_remote)
            sim_fail(sim, "life %u ended and left its server running", number);
    }
    count_marks(life);
    life->is_frozen = true;
    hx_gateway_free(life->gateway);
    sim_disk_close(life);
    uint32_t port = life->port;
    release(life);
    sim_host_cut(sim, number);
    sim_port_open_later(sim, port, sim_between(&sim->shape, 0, 3000));
}

void sim_life_turn(struct sim_life *life)
{
    struct sim *sim = life->sim;
    sim_memory_turn(life);
    int64_t wait_ms = hx_gateway_turn(life->gateway);
    sim_memory_turn_over(life);
    life->wake_at = wait_ms < 0 ? -1 : sim->now + wait_ms;
    sim->turns++;
    for (uint32_t i = 1; life->has_cancel_near && i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        call->cancel_arrived |= call->is_cancel_near && call->life == life->number;
    }
    life->has_cancel_near = false;
    sim_look_check(life->gateway);
    sim->marks[SIM_SHARED] += sim_look_is_shared(life->gateway);
    sim_check_rows(sim);
    if (hx_gateway_is_done(life->gateway))
        end(life);
}

void sim_life_free(struct sim_life *life)
{
    life->is_frozen = true;
    count_marks(life);
    hx_gateway_free(life->gateway);
    sim_disk_kill(life);
    release(life);
}

static void on_orphan_ends(struct sim *sim, struct sim_event *event)
{
    struct sim_process *process = sim_process_find(sim, event->a);
    if (process != NULL)
        sim_process_die(sim, process, 9);
}

void sim_life_kill(struct sim_life *life)
{
    struct sim *sim = life->sim;
    uint32_t number = life->number;
    sim_trace(sim, "life %u is killed", number);
    hx_list_for_each (at, &life->upstreams) {
        const struct sim_upstream *upstream = hx_container_of(at, struct sim_upstream, node);
        struct sim_process *process = sim_process_find(sim, upstream->process);
        if (process == NULL || process->is_dead || process->is_remote)
            continue;
        /* The reaper ends the group, a moment later. */
        process->life = 0;
        sim_after(sim, sim_between(&sim->luck, 0, 150), on_orphan_ends)->a = process->number;
    }
    uint32_t port = life->port;
    sim_life_free(life);
    sim_host_allow_unread(sim, number);
    sim_host_cut(sim, number);
    sim_port_open_later(sim, port, sim_between(&sim->shape, 20, 4000));
}

void sim_host_crash(struct sim *sim)
{
    sim_trace(sim, "the host crashes");
    sim_mark(sim, SIM_CRASH);
    hx_list_for_each_safe (at, &sim->processes) {
        struct sim_process *process = hx_container_of(at, struct sim_process, node);
        if (process->is_remote)
            continue; /* on another machine */
        process->life = 0;
        if (!process->is_dead)
            sim_process_die(sim, process, 9);
    }
    hx_list_for_each_safe (at, &sim->lives) {
        struct sim_life *life = hx_container_of(at, struct sim_life, node);
        uint32_t number = life->number, port = life->port;
        sim_life_free(life);
        sim_host_allow_unread(sim, number);
        sim_host_cut(sim, number);
        sim_port_open_later(sim, port, sim_between(&sim->shape, 100, 8000));
    }
    size_t unsynced = hx_memory_ledger_unsynced(sim->ledger);
    uint32_t survivors = sim_below(&sim->luck, (uint32_t)unsynced + 1);
    hx_memory_ledger_lose_unsynced(sim->ledger, sim->options.is_scripted ? 0 : survivors);
    sim->boot++;
    sim->boot_began = sim->now - sim_between(&sim->luck, 2000, 30000);
    for (uint32_t i = 1; i <= sim->intent_count; i++)
        sim_intent_get(sim, i)->was_disturbed = true;
    sim_check_rows(sim);
}
