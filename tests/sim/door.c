/* SPDX-License-Identifier: MIT */
/*
 * The client's way to a gateway, as far as pipes and sessions over HTTP have it in common: lines
 * that are written and not read yet, connecting, and the end of the connection.
 */
#include "sim/sim.h"

struct sim_door *sim_door_of(struct hx_downstream *downstream)
{
    return hx_container_of(downstream, struct sim_door, downstream);
}

struct sim_door *sim_door_find(struct sim *sim, uint32_t life_number, uint32_t session)
{
    struct sim_life *life = sim_life_find(sim, life_number);
    if (life == NULL)
        return NULL;
    hx_list_for_each (at, &life->doors) {
        struct sim_door *door = hx_container_of(at, struct sim_door, node);
        if (door->session == session)
            return door;
    }
    return NULL;
}

static struct hx_span share_of(const struct sim *sim, const char *principal)
{
    switch (sim->form.share) {
    case SIM_SHARE_NOTHING:
        break;
    case SIM_SHARE_ALL:
        return HX_SPAN_LIT("*");
    case SIM_SHARE_PRINCIPAL:
        return hx_span_cstr(principal);
    }
    return HX_SPAN_NONE;
}

struct sim_door *sim_door_new(struct sim_life *life, uint32_t host, uint32_t session,
                              const struct hx_store_session *kept)
{
    struct sim *sim = life->sim;
    struct sim_door *door = hx_new(struct sim_door);
    bool is_web = life->port != 0;
    const char *principal = sim->hosts[host].principal;
    door->life = life;
    door->host = host;
    door->session = session;
    door->downstream = (struct hx_downstream){.ops = is_web ? &sim_web_ops : &sim_pipe_ops,
                                              .inbox = &life->downstream_inbox};
    hx_list_append(&life->doors, &door->node);
    struct hx_session_options options = {
        .server = life->server,
        .downstream = &door->downstream,
        .tenant = HX_SPAN_LIT("local"),
        .principal = hx_span_cstr(principal),
        .key = is_web ? sim_session_key(session) : (struct hx_digest){{0}},
        .endpoint = is_web ? HX_SPAN_LIT("bank") : HX_SPAN_NONE,
        .share = is_web ? share_of(sim, principal) : HX_SPAN_NONE,
        .initialize = kept != NULL ? kept->initialize : HX_SPAN_NONE,
        .revision = kept != NULL ? kept->revision : HX_SPAN_NONE,
    };
    door->server = life->server;
    door->engine = hx_session_new(life->gateway, &options);
    life->wake_at = sim->now;
    return door;
}

void sim_door_free(struct sim_door *door)
{
    hx_list_unlink(&door->node);
    hx_free(door);
}

void sim_door_append(struct sim_door *door, enum hx_peer_event_type type, uint64_t tag,
                     uint64_t exchange, struct hx_span line)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &door->downstream;
    event->tag = tag;
    event->exchange = exchange;
    if (!hx_span_is_absent(line))
        (void)hx_buf_append_span(&event->line, line);
    hx_list_append(&door->life->downstream_inbox, &event->node);
}

/* ---- lines on their way ---- */

static struct sim_line *unread_find(struct sim_host *host, uint32_t life, uint64_t tag)
{
    hx_list_for_each (at, &host->unread) {
        struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life == life && line->tag == tag)
            return line;
    }
    return NULL;
}

void sim_line_free(struct sim_line *line)
{
    hx_list_unlink(&line->node);
    hx_buf_fini(&line->line);
    hx_free(line);
}

static void on_read(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->b];
    struct sim_line *line = unread_find(host, event->a, event->tag);
    if (line == NULL || line->is_held)
        return;
    uint64_t exchange = line->exchange;
    bool is_read = exchange != 0 || host->life == event->a;
    hx_list_unlink(&line->node);
    if (is_read)
        sim_host_take(sim, host, line->session, hx_buf_span(&line->line));
    sim_line_free(line);
    if (exchange != 0)
        sim_web_read(sim, exchange);
}

static void on_written(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->b];
    struct sim_line *line = unread_find(host, event->a, event->tag);
    struct sim_door *door = line != NULL ? sim_door_find(sim, event->a, line->session) : NULL;
    if (door == NULL || line->is_held)
        return;
    line->is_written = true;
    sim_door_append(door, HX_PEER_WRITTEN, event->tag, 0, HX_SPAN_NONE);
}

struct sim_line *sim_line_new(struct sim_door *door, struct hx_span bytes, uint64_t tag)
{
    struct sim_line *line = hx_new(struct sim_line);
    line->tag = tag;
    line->life = door->life->number;
    line->session = door->session;
    hx_buf_init(&line->line, 1 << 22);
    (void)hx_buf_append_span(&line->line, bytes);
    hx_list_append(&door->life->sim->hosts[door->host].unread, &line->node);
    return line;
}

void sim_line_write(struct sim_door *door, struct sim_line *line)
{
    struct sim *sim = door->life->sim;
    const struct sim_host *host = &sim->hosts[door->host];
    int64_t write_ms =
        host->is_slow && sim_chance(&sim->luck, 200) ? sim_between(&sim->luck, 1, 2000) : 0;
    if (sim->script_write_ms > 0)
        write_ms = sim->script_write_ms;
    int64_t at = sim->now + write_ms + sim_between(&sim->luck, 0, host->is_slow ? 1500 : 3);
    if (at < door->last_read_at && line->exchange == 0)
        at = door->last_read_at;
    if (line->exchange == 0)
        door->last_read_at = at;
    line->read_at = at;
    struct sim_event *event = NULL;
    if (write_ms == 0) {
        line->is_written = true;
        sim_door_append(door, HX_PEER_WRITTEN, line->tag, 0, HX_SPAN_NONE);
    } else {
        event = sim_after(sim, write_ms, on_written);
        event->a = line->life;
        event->b = host->number;
        event->tag = line->tag;
    }
    event = sim_after(sim, at - sim->now, on_read);
    event->a = line->life;
    event->b = host->number;
    event->tag = line->tag;
}

uint64_t sim_door_queued_bytes(struct hx_downstream *downstream)
{
    const struct sim_door *door = sim_door_of(downstream);
    uint64_t bytes = 0;
    hx_list_for_each (at, &door->life->sim->hosts[door->host].unread) {
        const struct sim_line *line = hx_container_of(at, struct sim_line, node);
        if (line->life == door->life->number && line->session == door->session &&
            !line->is_written && !line->is_held)
            bytes += line->line.len + 1;
    }
    return bytes;
}

void sim_host_drop_unread(struct sim *sim, struct sim_host *host)
{
    (void)sim;
    hx_list_for_each_safe (at, &host->unread)
        sim_line_free(hx_container_of(at, struct sim_line, node));
}

/* ---- coming and going ---- */

uint32_t sim_session_add(struct sim *sim, uint32_t host, uint32_t port)
{
    if (sim->session_count == sim->session_capacity) {
        sim->session_capacity = sim->session_capacity == 0 ? 16 : 2 * sim->session_capacity;
        sim->sessions = hx_realloc(sim->sessions, sim->session_capacity * sizeof(sim->sessions[0]));
        hx_assert(sim->sessions != NULL);
    }
    sim->sessions[sim->session_count++] = (struct sim_session){.host = host, .port = port};
    return sim->session_count;
}

struct sim_session *sim_session_get(struct sim *sim, uint32_t number)
{
    hx_assert(number >= 1 && number <= sim->session_count);
    return &sim->sessions[number - 1];
}

void sim_host_greet(struct sim *sim, struct sim_host *host)
{
    char text[512];
    host->is_ready = false;
    host->initialize_id = host->next_id++;
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"%s\",\"capabilities\":{%s},\"clientInfo\":{\"name\":\"sim\","
             "\"version\":\"1\"}}}",
             host->initialize_id, host->revision,
             host->can_elicit ? "\"elicitation\":{}" : "\"roots\":{}");
    sim_host_send(sim, host, hx_span_cstr(text));
}

void sim_host_connect(struct sim *sim, struct sim_host *host)
{
    if (host->port != 0) {
        sim_web_connect(sim, host);
        return;
    }
    struct sim_life *life = sim_life_new(sim, 0);
    host->session = sim_session_add(sim, host->number, 0);
    host->life = life->number;
    sim_trace(sim, "host %u starts life %u", host->number, life->number);
    (void)sim_door_new(life, host->number, host->session, NULL);
    sim_host_greet(sim, host);
}

static void on_connect(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->a];
    if (host->life == 0 && !host->has_vanished && host->connecting == event->tag)
        sim_host_connect(sim, host);
}

void sim_host_connect_later(struct sim *sim, struct sim_host *host, int64_t delay_ms)
{
    struct sim_event *event = sim_after(sim, delay_ms, on_connect);
    event->a = host->number;
    event->tag = ++host->connecting;
}

/* The application has lost its connection: what was open is lost, and what is still wanted is tried
 * again through a new process. */
void sim_host_after_cut(struct sim *sim, struct sim_host *host)
{
    uint32_t life = host->life;
    if (life == 0)
        return;
    host->life = 0;
    host->is_ready = false;
    host->initialize_id = 0;
    hx_buf_reset(&host->batch);
    sim_host_connect_later(sim, host, sim_between(&sim->luck, 10, 2000));
    if (host->port != 0) {
        sim_web_after_cut(sim, host, life);
        return;
    }
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->life == life && call->state == SIM_CALL_OPEN)
            sim_call_lost(sim, call);
    }
}

static void on_cut(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->b];
    if (host->life == event->a)
        sim_host_after_cut(sim, host);
}

void sim_host_cut(struct sim *sim, uint32_t life)
{
    for (uint32_t i = 1; i <= sim->host_count; i++) {
        if (sim->hosts[i].life != life)
            continue;
        /* It reads what is in the pipe, and then the end. */
        int64_t wait_ms = sim_between(&sim->luck, 0, 20);
        hx_list_for_each (at, &sim->hosts[i].unread) {
            const struct sim_line *line = hx_container_of(at, struct sim_line, node);
            if (line->life == life && line->read_at - sim->now > wait_ms)
                wait_ms = line->read_at - sim->now;
        }
        struct sim_event *event = sim_after(sim, wait_ms, on_cut);
        event->a = life;
        event->b = i;
    }
}
