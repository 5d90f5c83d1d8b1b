/* SPDX-License-Identifier: MIT */
/*
 * Clients of `hapax serve`, and the front that they speak to: every message has a connection of its
 * own, which can break alone. A client that was told the name of its stream may come back for what
 * it missed: here, as long as the life is the same and remembers it; through the gateway otherwise.
 */
#include "adapter/store_memory/ledger.h"
#include "sim/sim.h"

enum { KEEP_MS = 8000 }; /* what a client may come back for */

struct hx_digest sim_session_key(uint32_t session)
{
    struct hx_digest key = {{0}};
    memcpy(key.bytes, &session, sizeof(session));
    key.bytes[HX_DIGEST_SIZE - 1] = 1;
    return key;
}

/* ---- exchanges ---- */

struct sim_exchange *sim_exchange_find(struct sim *sim, uint64_t number)
{
    hx_list_for_each (at, &sim->exchanges) {
        struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
        if (exchange->number == number)
            return exchange;
    }
    return NULL;
}

static struct sim_exchange *exchange_new(struct sim *sim, const struct sim_host *host)
{
    struct sim_exchange *exchange = hx_new(struct sim_exchange);
    exchange->number = ++sim->exchange_count;
    exchange->life = host->life;
    exchange->session = host->session;
    exchange->is_connected = true;
    snprintf(exchange->name, sizeof(exchange->name), "stream-%llu",
             (unsigned long long)exchange->number);
    hx_list_append(&sim->exchanges, &exchange->node);
    return exchange;
}

void sim_exchange_free(struct sim_exchange *exchange)
{
    hx_list_unlink(&exchange->node);
    hx_free(exchange);
}

void sim_exchanges_free(struct sim *sim)
{
    hx_list_for_each_safe (at, &sim->exchanges)
        sim_exchange_free(hx_container_of(at, struct sim_exchange, node));
}

static struct sim_host *host_of(struct sim *sim, const struct sim_exchange *exchange)
{
    return &sim->hosts[sim_session_get(sim, exchange->session)->host];
}

bool sim_exchange_carries(const struct sim_exchange *exchange, const struct sim_call *call)
{
    return call->exchange == exchange->number ||
           (exchange->call == call->number && !exchange->is_cancel);
}

bool sim_call_is_heard(struct sim *sim, const struct sim_call *call)
{
    hx_list_for_each (at, &sim->exchanges) {
        const struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
        if (sim_exchange_carries(exchange, call) && exchange->is_connected)
            return true;
    }
    return false;
}

/* ---- to the gateway ---- */

static void on_arrival(struct sim *sim, struct sim_event *event)
{
    struct sim_exchange *exchange = sim_exchange_find(sim, event->tag);
    if (exchange == NULL || !exchange->is_connected)
        return;
    struct sim_door *door = sim_door_find(sim, exchange->life, exchange->session);
    if (door == NULL || door->is_closed) {
        /* Nobody is there any more: the connection is refused or reset. */
        exchange->has_arrived = exchange->is_answered = true;
        sim_web_cut(sim, exchange, false);
        return;
    }
    /* Who comes back for a stream does so because he has heard of it. */
    if (exchange->call != 0 && !exchange->is_cancel && event->b == 0 &&
        sim_call_is_overtaken(sim, sim_call_get(sim, exchange->call))) {
        sim_exchange_free(exchange);
        return;
    }
    exchange->has_arrived = true;
    if (exchange->call != 0) {
        struct sim_call *call = sim_call_get(sim, exchange->call);
        sim_call_arrives(sim, door->life, call, exchange->is_cancel);
        if (!exchange->is_cancel)
            call->exchange = exchange->number;
    }
    sim_door_append(door, event->b != 0 ? HX_PEER_RESUME : HX_PEER_MESSAGE, 0, exchange->number,
                    hx_buf_span(&event->line));
}

static struct sim_exchange *post(struct sim *sim, struct sim_host *host, struct hx_span line,
                                 int64_t delay_ms, bool is_resume)
{
    struct sim_door *door = sim_door_find(sim, host->life, host->session);
    if (door == NULL)
        return NULL;
    struct sim_exchange *exchange = exchange_new(sim, host);
    int64_t at = sim->now + delay_ms + sim_between(&sim->luck, 0, 3);
    if (delay_ms == 0 && at < door->last_heard_at)
        at = door->last_heard_at;
    if (delay_ms == 0)
        door->last_heard_at = at;
    struct sim_event *event = sim_after(sim, at - sim->now, on_arrival);
    event->tag = exchange->number;
    event->b = is_resume;
    (void)hx_buf_append_span(&event->line, line);
    return exchange;
}

struct sim_exchange *sim_web_post(struct sim *sim, struct sim_host *host, struct hx_span line,
                                  int64_t delay_ms)
{
    return post(sim, host, line, delay_ms, false);
}

struct sim_exchange *sim_web_resume(struct sim *sim, struct sim_host *host, struct hx_span name)
{
    return post(sim, host, name, 0, true);
}

/* ---- what becomes of lines when a connection breaks ---- */

/* Until their client comes back, or cannot any more. */
static void hold_lines(struct sim *sim, const struct sim_exchange *exchange)
{
    struct sim_door *door = sim_door_find(sim, exchange->life, exchange->session);
    hx_list_for_each (at, &host_of(sim, exchange)->unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->exchange != exchange->number || line->is_held)
            continue;
        line->is_held = true;
        if (line->is_written && door != NULL)
            sim_door_append(door, HX_PEER_TAKEN_BACK, line->tag, 0, HX_SPAN_NONE);
        line->is_recalled = line->is_written;
    }
}

static void lose_lines(struct sim *sim, const struct sim_exchange *exchange)
{
    struct sim_door *door = sim_door_find(sim, exchange->life, exchange->session);
    hx_list_for_each_safe (at, &host_of(sim, exchange)->unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->exchange != exchange->number)
            continue;
        if (door != NULL && !line->is_recalled)
            sim_door_append(door, line->is_written ? HX_PEER_TAKEN_BACK : HX_PEER_NOT_SENT,
                            line->tag, 0, HX_SPAN_NONE);
        sim_line_free(line);
    }
}

/* Nobody can come back for it any more. */
static void forget_exchange(struct sim *sim, struct sim_exchange *exchange)
{
    struct sim_door *door = sim_door_find(sim, exchange->life, exchange->session);
    lose_lines(sim, exchange);
    if (door != NULL && exchange->has_arrived && !exchange->is_answered && !door->is_closed)
        sim_door_append(door, HX_PEER_EXCHANGE_GONE, 0, exchange->number, HX_SPAN_NONE);
    sim_exchange_free(exchange);
}

static void on_lapse(struct sim *sim, struct sim_event *event)
{
    struct sim_exchange *exchange = sim_exchange_find(sim, event->tag);
    if (exchange != NULL && !exchange->is_connected)
        forget_exchange(sim, exchange);
}

void sim_web_cut(struct sim *sim, struct sim_exchange *exchange, bool may_come_back)
{
    uint64_t number = exchange->number;
    if (!exchange->is_connected)
        return;
    sim_trace(sim, "exchange %llu (call %u) is cut%s", (unsigned long long)number, exchange->call,
              exchange->is_told ? ", its client knows its name" : "");
    exchange->is_connected = false;
    if (exchange->is_cancel && !exchange->has_arrived)
        sim_call_cancel_lost(sim, sim_call_get(sim, exchange->call));
    bool is_initialize = exchange->is_initialize;
    struct sim_host *host = host_of(sim, exchange);
    if (exchange->is_told) {
        hold_lines(sim, exchange);
        sim_after(sim, KEEP_MS, on_lapse)->tag = number;
        sim_web_lose(sim, exchange, may_come_back);
        return;
    }
    /* The front sees it before its client can try again. */
    lose_lines(sim, exchange);
    sim_web_lose(sim, exchange, false);
    exchange = sim_exchange_find(sim, number);
    if (exchange != NULL)
        forget_exchange(sim, exchange);
    if (is_initialize && host->life != 0)
        sim_web_end(sim, host); /* no session without an answer to it */
}

/* Its answer was read, or it needs none. */
void sim_web_read(struct sim *sim, uint64_t number)
{
    struct sim_exchange *exchange = sim_exchange_find(sim, number);
    if (exchange != NULL && exchange->is_answered)
        sim_exchange_free(exchange);
}

/* ---- from the gateway ---- */

static struct sim_exchange *open_exchange(struct sim_door *door, uint64_t number)
{
    struct sim_exchange *exchange = sim_exchange_find(door->life->sim, number);
    bool is_its = exchange != NULL && exchange->session == door->session &&
                  exchange->life == door->life->number;
    return is_its ? exchange : NULL;
}

static void take_line(struct hx_downstream *downstream, struct hx_buf *bytes,
                      const struct hx_sending *sending)
{
    struct sim_door *door = sim_door_of(downstream);
    struct sim *sim = door->life->sim;
    bool is_aside = sending->kind == HX_SENDING_ASIDE;
    struct sim_exchange *exchange = open_exchange(door, sending->exchange);
    if (door->life->is_frozen)
        return;
    if (door->is_closed || (exchange == NULL && !is_aside)) {
        sim_door_append(door, HX_PEER_NOT_SENT, sending->tag, 0, HX_SPAN_NONE);
        return;
    }
    if (!is_aside && exchange->is_answered)
        sim_fail(sim, "exchange %llu is answered twice", (unsigned long long)exchange->number);
    sim_answer_sent(door, hx_buf_span(bytes));
    struct sim_line *line = sim_line_new(door, hx_buf_span(bytes), sending->tag);
    if (is_aside) {
        sim_line_write(door, line);
        return;
    }
    exchange->is_answered = true;
    line->exchange = exchange->number;
    line->is_held = !exchange->is_connected; /* it waits for a client that comes back */
    if (exchange->is_initialize) {
        bool is_kept = false;
        struct hx_digest key = sim_session_key(door->session);
        hx_list_for_each (at, &sim->ledger->kept) {
            const struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
            is_kept |= kept->put == HX_STORE_SESSION_PUT && hx_digest_eq(&kept->session.key, &key);
        }
        sim_session_get(sim, door->session)->is_kept = is_kept;
    }
    if (!line->is_held)
        sim_line_write(door, line);
}

/* A request may only go without an answer when it was taken back, or was asked again. */
static void check_settled(struct sim *sim, const struct sim_exchange *exchange)
{
    const struct sim_call *call = exchange->call != 0 ? sim_call_get(sim, exchange->call) : NULL;
    if (call == NULL || exchange->is_cancel || call->state == SIM_CALL_CANCELLED ||
        call->arrivals > 1)
        return;
    sim_fail(sim, "call %u gets no answer: its exchange was settled", call->number);
}

static void settle(struct hx_downstream *downstream, uint64_t number, enum hx_settling settling)
{
    struct sim_door *door = sim_door_of(downstream);
    struct sim *sim = door->life->sim;
    struct sim_exchange *exchange = open_exchange(door, number);
    if (exchange == NULL || door->life->is_frozen)
        return;
    if (exchange->is_answered)
        sim_fail(sim, "exchange %llu is settled after its answer", (unsigned long long)number);
    exchange->is_answered = true;
    if (settling == HX_SETTLING_TAKEN) {
        check_settled(sim, exchange);
        sim_exchange_free(exchange);
        return;
    }
    if (settling == HX_SETTLING_UNREAD) {
        sim_trace(sim, "exchange %llu is told that its session is over",
                  (unsigned long long)number);
        if (exchange->call == 0) {
            sim_exchange_free(exchange);
            return;
        }
    } else {
        sim_mark(sim, SIM_NO_STREAM);
        sim_trace(sim, "call %u is told that its stream is not known",
                  sim_call_get(sim, exchange->call)->number);
    }
    struct sim_call *call = sim_call_get(sim, exchange->call);
    sim_exchange_free(exchange);
    if (call->state == SIM_CALL_OPEN && !sim_call_is_heard(sim, call))
        sim_call_lost(sim, call);
}

static bool is_reader_alive(struct hx_downstream *downstream, uint64_t number)
{
    struct sim_door *door = sim_door_of(downstream);
    const struct sim_exchange *exchange = open_exchange(door, number);
    if (door->is_closed)
        return false;
    return number == 0 || (exchange != NULL && exchange->is_connected);
}

static void hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream;
    (void)is_held;
}

/* The streams of a door that goes end; what was written is still read. */
static void close_exchanges(struct sim_door *door)
{
    struct sim *sim = door->life->sim;
    hx_list_for_each_safe (at, &sim->hosts[door->host].unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life != door->life->number || line->session != door->session ||
            (line->is_written && !line->is_held))
            continue;
        if (!line->is_recalled)
            sim_door_append(door, HX_PEER_NOT_SENT, line->tag, 0, HX_SPAN_NONE);
        sim_line_free(line);
    }
}

static void on_host_cut(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->b];
    if (host->life == event->a && host->session == (uint32_t)event->tag)
        sim_host_after_cut(sim, host);
}

static void cut_host(struct sim_door *door)
{
    struct sim *sim = door->life->sim;
    const struct sim_host *host = &sim->hosts[door->host];
    int64_t wait_ms = sim_between(&sim->luck, 0, 20);
    if (host->session != door->session || host->life != door->life->number)
        return;
    hx_list_for_each (at, &host->unread) {
        const struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life == host->life && !line->is_held && line->read_at - sim->now > wait_ms)
            wait_ms = line->read_at - sim->now;
    }
    struct sim_event *event = sim_after(sim, wait_ms, on_host_cut);
    event->a = host->life;
    event->b = host->number;
    event->tag = host->session;
}

static void close_both(struct hx_downstream *downstream)
{
    struct sim_door *door = sim_door_of(downstream);
    if (door->life->is_frozen || door->is_closed)
        return;
    door->is_closed = true;
    close_exchanges(door);
    cut_host(door);
}

static struct hx_span stream_name(struct hx_downstream *downstream, uint64_t number)
{
    struct sim_exchange *exchange = open_exchange(sim_door_of(downstream), number);
    if (exchange == NULL || exchange->is_batch)
        return HX_SPAN_NONE;
    exchange->is_named = true;
    return hx_span_cstr(exchange->name);
}

static void stream_kept(struct hx_downstream *downstream, uint64_t number)
{
    struct sim_exchange *exchange = open_exchange(sim_door_of(downstream), number);
    if (exchange == NULL)
        return;
    if (!exchange->is_named)
        sim_fail(sim_door_of(downstream)->life->sim, "a stream is kept that nobody named");
    exchange->is_told |= exchange->is_connected;
}

static void send_line(struct hx_downstream *downstream, struct hx_buf *bytes,
                      const struct hx_sending *sending)
{
    unsigned long left = sim_memory_leave();
    take_line(downstream, bytes, sending);
    sim_memory_return(left);
}

const struct hx_downstream_ops sim_web_ops = {
    .send = send_line,
    .queued_bytes = sim_door_queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
    .settle = settle,
    .stream_name = stream_name,
    .stream_kept = stream_kept,
};

void sim_web_session_over(void *context, struct hx_downstream *downstream, bool is_ended)
{
    struct sim_life *life = context;
    struct sim_door *door = sim_door_of(downstream);
    if (life->is_frozen)
        return; /* everything goes at once */
    if (is_ended)
        sim_session_get(life->sim, door->session)->is_ended = true;
    door->is_closed = true;
    close_exchanges(door);
    cut_host(door);
    /* What was just said of it concerns nobody. */
    hx_list_for_each_safe (at, &life->downstream_inbox) {
        struct hx_peer_event *event = hx_container_of(at, struct hx_peer_event, node);
        if (event->downstream != downstream)
            continue;
        hx_list_unlink(at);
        hx_peer_event_free(event);
    }
    sim_door_free(door);
}
