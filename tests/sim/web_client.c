/* SPDX-License-Identifier: MIT */
/*
 * What clients over HTTP do besides calling: come with a session or without, come back for answers,
 * lose connections, end their session, vanish.
 */
#include "sim/sim.h"

/* ---- connections that break ---- */

static void on_return(struct sim *sim, struct sim_event *event);

void sim_web_lose(struct sim *sim, struct sim_exchange *exchange, bool may_come_back)
{
    uint64_t number = exchange->number;
    bool is_told = exchange->is_told && may_come_back;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        const struct sim_exchange *here = sim_exchange_find(sim, number);
        if (call->state != SIM_CALL_OPEN || here == NULL || !sim_exchange_carries(here, call))
            continue;
        /* Also when its repeat is still on its way: till then nobody waits for it there. */
        sim_intent_get(sim, call->intent)->was_disturbed = true;
        if (sim_call_is_heard(sim, call))
            continue;
        if (!is_told || call->is_conflict) {
            sim_call_lost(sim, call);
            continue;
        }
        call->is_adrift = true;
        call->exchange = number;
        snprintf(call->stream, sizeof(call->stream), "%s", here->name);
        sim_after(sim, sim_between(&sim->luck, 20, 12000), on_return)->b = i;
    }
}

/* The same life still knows the stream: it goes on where it was, and the gateway learns nothing. */
static void go_on(struct sim *sim, struct sim_host *host, struct sim_exchange *exchange)
{
    struct sim_door *door = sim_door_find(sim, exchange->life, exchange->session);
    exchange->is_connected = true;
    hx_list_for_each_safe (at, &host->unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->exchange != exchange->number || !line->is_held)
            continue;
        line->is_held = false;
        sim_line_write(door, line);
    }
}

/* Its answer was counted as sent by a keeper that may be dead, and its stream may not be known. */
static void allow_unread(struct sim *sim, struct sim_call *call)
{
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    if (call->answers == 0 || call->is_allowed || intent->key[0] != '\0')
        return;
    call->is_allowed = true;
    intent->allowed_more++;
}

static void come_back(struct sim *sim, struct sim_host *host, struct sim_call *call)
{
    struct sim_exchange *exchange = sim_exchange_find(sim, call->exchange);
    if (sim_door_find(sim, host->life, host->session) == NULL)
        return; /* its end is on its way to the client, who will connect again */
    call->is_adrift = false;
    sim_mark(sim, SIM_CAME_BACK);
    if (exchange != NULL && exchange->life == host->life) {
        sim_trace(sim, "host %u comes back for call %u", host->number, call->number);
        go_on(sim, host, exchange);
        return;
    }
    allow_unread(sim, call);
    exchange = sim_web_resume(sim, host, hx_span_cstr(call->stream));
    if (exchange == NULL) {
        sim_call_lost(sim, call);
        return;
    }
    sim_trace(sim, "host %u asks life %u for %s of call %u: exchange %llu", host->number,
              host->life, call->stream, call->number, (unsigned long long)exchange->number);
    exchange->call = call->number;
    exchange->is_told = true;
    exchange->is_resume = true;
    snprintf(exchange->name, sizeof(exchange->name), "%s", call->stream);
    call->exchange = exchange->number;
    call->life = host->life;
}

static void on_return(struct sim *sim, struct sim_event *event)
{
    struct sim_call *call = sim_call_get(sim, event->b);
    struct sim_host *host = &sim->hosts[call->host];
    if (!call->is_adrift || call->state != SIM_CALL_OPEN || host->life == 0 || !host->is_ready ||
        host->session != call->session)
        return; /* whoever connects it again looks after it */
    come_back(sim, host, call);
}

/* ---- coming ---- */

/* A session of its own, or one that its gateway has told it of. */
static void begin_session(struct sim *sim, struct sim_host *host, struct sim_life *life)
{
    host->session = sim_session_add(sim, host->number, host->port);
    host->has_session = false;
    host->life = life->number;
    sim_trace(sim, "host %u begins session %u with life %u", host->number, host->session,
              life->number);
    struct sim_door *door = sim_door_new(life, host->number, host->session, NULL);
    hx_assert(door->engine != NULL);
    sim_host_greet(sim, host);
    struct sim_exchange *exchange = sim_exchange_find(sim, sim->exchange_count);
    exchange->is_initialize = true;
}

/* What its calls wait for can be had again, or is lost. */
static void take_up_calls(struct sim *sim, struct sim_host *host)
{
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->host != host->number || call->state != SIM_CALL_OPEN || !call->is_adrift)
            continue;
        if (call->session != host->session)
            sim_call_lost(sim, call);
        else if (sim_chance(&sim->luck, 700))
            come_back(sim, host, call);
        else
            sim_after(sim, sim_between(&sim->luck, 0, 3000), on_return)->b = i;
    }
}

void sim_web_greeted(struct sim *sim, struct sim_host *host)
{
    take_up_calls(sim, host);
}

static void forget_session(struct sim *sim, struct sim_host *host)
{
    host->session = 0;
    host->has_session = false;
    host->is_ready = false;
    host->life = 0;
    sim_host_connect_later(sim, host, sim_between(&sim->luck, 10, 2000));
}

static void restored(struct sim *sim, struct sim_host *host, struct sim_life *life,
                     const struct hx_store_session *found)
{
    if (sim_door_find(sim, life->number, host->session) == NULL) {
        sim_mark(sim, SIM_RESTORED);
        sim_trace(sim, "session %u goes on with life %u", host->session, life->number);
        (void)sim_door_new(life, host->number, host->session, found);
    }
    host->life = life->number;
    host->is_ready = true;
    take_up_calls(sim, host);
}

static void on_found(void *context, uint64_t ticket, enum hx_store_result result,
                     const struct hx_store_session *found)
{
    struct sim_life *life = context;
    struct sim *sim = life->sim;
    struct sim_host *host = &sim->hosts[ticket & 0xff];
    uint32_t session = (uint32_t)(ticket >> 8);
    if (life->is_frozen || host->life != 0 || host->session != session || host->has_vanished)
        return;
    if (hx_gateway_is_draining(life->gateway)) {
        sim_host_connect_later(sim, host, 500);
        return;
    }
    const struct sim_session *known = sim_session_get(sim, session);
    bool is_his = found != NULL &&
                  (sim->is_front_careless || hx_span_eq_cstr(found->principal, host->principal));
    if (found != NULL && known->is_ended)
        sim_fail(sim, "session %u was ended, and is found again", session);
    if (result == HX_STORE_NOT_DONE) {
        sim_host_connect_later(sim, host, sim_between(&sim->luck, 500, 3000));
    } else if (is_his) {
        restored(sim, host, life, found);
    } else {
        if (known->is_kept && !known->is_ended)
            sim_fail(sim, "session %u was kept, and is not found", session);
        sim_trace(sim, "session %u is not known to life %u", session, life->number);
        forget_session(sim, host);
    }
}

/* Asks for somebody else's session, as one who stole its id would. */
static void on_found_by_stranger(void *context, uint64_t ticket, enum hx_store_result result,
                                 const struct hx_store_session *found)
{
    const struct sim_life *life = context;
    (void)ticket;
    if (result == HX_STORE_DONE && !hx_span_eq_cstr(found->tenant, "local"))
        sim_fail(life->sim, "a session of another tenant was found");
}

void sim_web_connect(struct sim *sim, struct sim_host *host)
{
    struct sim_life *life = sim_life_find(sim, sim->ports[host->port].life);
    if (life == NULL || life->is_paused || hx_gateway_is_draining(life->gateway)) {
        sim_host_connect_later(sim, host, 300);
        return;
    }
    if (!host->has_session) {
        begin_session(sim, host, life);
        take_up_calls(sim, host);
        return;
    }
    struct hx_digest key = sim_session_key(host->session);
    hx_gateway_find_session(life->gateway, &key, on_found, life,
                            (uint64_t)host->session << 8 | host->number);
    life->wake_at = sim->now;
    if (sim_chance(&sim->shape, sim->weather.stranger))
        hx_gateway_find_session(life->gateway, &key, on_found_by_stranger, life, 0);
    /* Should that life die, nobody answers. */
    sim_host_connect_later(sim, host, 5000);
}

/* ---- going ---- */

void sim_web_after_cut(struct sim *sim, struct sim_host *host, uint32_t life)
{
    hx_list_for_each_safe (at, &host->unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life == life && line->session == host->session)
            sim_line_free(line);
    }
    for (bool had_any = true; had_any;) {
        had_any = false;
        hx_list_for_each (at, &sim->exchanges) {
            struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
            if (exchange->life != life || exchange->session != host->session)
                continue;
            exchange->is_connected = false;
            sim_web_lose(sim, exchange, host->has_session);
            sim_exchange_free(exchange);
            had_any = true;
            break;
        }
    }
    /* What never arrived has no exchange any more. */
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->session == host->session && call->state == SIM_CALL_OPEN && !call->is_adrift &&
            call->life == life)
            sim_call_lost(sim, call);
    }
}

static void cut_all(struct sim *sim, const struct sim_host *host)
{
    for (bool had_any = true; had_any;) {
        had_any = false;
        hx_list_for_each (at, &sim->exchanges) {
            struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
            if (exchange->session != host->session || !exchange->is_connected)
                continue;
            exchange->is_initialize = false;
            sim_web_cut(sim, exchange, false);
            had_any = true;
            break;
        }
    }
}

static void disturb(struct sim *sim, const struct sim_host *host)
{
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        struct sim_intent *intent = sim_intent_get(sim, i);
        intent->was_disturbed |= intent->host == host->number;
    }
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        if (call->host == host->number)
            sim_intent_get(sim, call->intent)->was_disturbed = true;
    }
}

/* By DELETE, or because its handshake failed. */
void sim_web_end(struct sim *sim, struct sim_host *host)
{
    struct sim_door *door = sim_door_find(sim, host->life, host->session);
    if (door == NULL || door->is_closed)
        return;
    sim_mark(sim, SIM_ENDED);
    sim_trace(sim, "host %u ends session %u", host->number, host->session);
    disturb(sim, host);
    uint32_t life = host->life;
    cut_all(sim, host);
    sim_door_append(door, HX_PEER_ENDED, 0, 0, HX_SPAN_NONE);
    host->has_session = false;
    sim_web_after_cut(sim, host, life);
    host->initialize_id = 0;
    hx_buf_reset(&host->batch);
    forget_session(sim, host);
}

void sim_web_vanish(struct sim *sim, struct sim_host *host)
{
    sim_mark(sim, SIM_VANISHED);
    sim_trace(sim, "host %u is never seen again", host->number);
    disturb(sim, host);
    host->has_vanished = true;
    cut_all(sim, host);
    host->life = 0;
    host->is_ready = false;
    host->has_session = false;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->host == host->number && call->state == SIM_CALL_OPEN)
            sim_call_lost(sim, call);
    }
}

static bool is_busy(struct sim *sim, const struct sim_door *door)
{
    hx_list_for_each (at, &sim->exchanges) {
        const struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
        if (exchange->session == door->session && exchange->life == door->life->number)
            return true;
    }
    return false;
}

void sim_web_put_away(struct sim *sim, struct sim_life *life)
{
    hx_list_for_each (at, &life->doors) {
        struct sim_door *door = hx_container_of(at, struct sim_door, node);
        bool is_stale = door->server != life->server;
        if (door->is_closed || is_busy(sim, door) || (!is_stale && sim_chance(&sim->shape, 500)))
            continue;
        sim_mark(sim, SIM_IDLE);
        sim_trace(sim, "life %u puts session %u away", life->number, door->session);
        door->is_closed = true;
        hx_session_end(door->engine);
        life->wake_at = sim->now;
        return;
    }
}

void sim_web_drop(struct sim *sim, const struct sim_call *call)
{
    uint32_t number = call->number;
    for (bool had_any = true; had_any;) {
        had_any = false;
        hx_list_for_each (at, &sim->exchanges) {
            struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
            if (!exchange->is_connected ||
                !sim_exchange_carries(exchange, sim_call_get(sim, number)))
                continue;
            sim_web_cut(sim, exchange, false);
            had_any = true;
            break;
        }
    }
}

static void on_cut(struct sim *sim, struct sim_event *event)
{
    struct sim_exchange *exchange = sim_exchange_find(sim, event->tag);
    if (exchange == NULL || !exchange->is_connected || sim->is_calm)
        return;
    sim_mark(sim, SIM_CUT);
    sim_web_cut(sim, exchange, sim_chance(&sim->shape, 850));
}

void sim_web_cut_later(struct sim *sim, const struct sim_exchange *exchange, int64_t delay_ms)
{
    sim_after(sim, delay_ms, on_cut)->tag = exchange->number;
}

/* The weather of clients over HTTP. */
void sim_web_strike(struct sim *sim)
{
    struct sim_host *host = &sim->hosts[1 + sim_below(&sim->luck, sim->host_count)];
    if (host->port == 0 || host->life == 0 || host->has_vanished)
        return;
    if (sim_chance(&sim->luck, sim->weather.session_end)) {
        sim_web_end(sim, host);
    } else if (sim_chance(&sim->luck, sim->weather.vanish)) {
        sim_web_vanish(sim, host);
    } else if (sim_chance(&sim->luck, sim->weather.cut)) {
        uint32_t nth = sim_below(&sim->luck, 4);
        hx_list_for_each (at, &sim->exchanges) {
            struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
            if (exchange->session != host->session || !exchange->is_connected || nth-- > 0)
                continue;
            sim_mark(sim, SIM_CUT);
            sim_web_cut(sim, exchange, sim_chance(&sim->luck, 850));
            return;
        }
    }
}
