/* SPDX-License-Identifier: MIT */
/*
 * The gateway's turn and its life: made, fed, drained, done.
 */
#include "engine/internal.h"

#include <stdarg.h>
#include <stdio.h>

/* Values on the tape of one message; what is deeper is checked but not recorded. */
enum { TOKENS_MAX = 1 << 20, ARENA_MAX = 64 << 20, DEPTH_MAX = 128 };

void hx_tell(struct hx_gateway *gateway, enum hx_tell tell, const char *event, const char *format,
             ...)
{
    char pairs[1024];
    va_list args;
    if (tell > gateway->options.tell_max)
        return;
    va_start(args, format);
    vsnprintf(pairs, sizeof(pairs), format, args);
    va_end(args);
    gateway->options.tell(gateway->options.context, tell, event, pairs);
}

void hx_mint_id(struct hx_gateway *gateway, struct hx_id *ret_id)
{
    uint8_t random[10];
    hx_rand_fill(gateway->ports.rand, random, sizeof(random));
    *ret_id = hx_id_make(gateway->now.wall, random);
}

static void mint_secret(struct hx_gateway *gateway, char ret_text[17])
{
    uint8_t random[8];
    hx_rand_fill(gateway->ports.rand, random, sizeof(random));
    hx_hex_encode(random, sizeof(random), ret_text);
}

static void init_maps(struct hx_gateway *gateway)
{
    uint64_t secret[2];
    hx_rand_fill(gateway->ports.rand, (uint8_t *)secret, sizeof(secret));
    hx_map_init(&gateway->requests_by_id, secret);
    hx_map_init(&gateway->asks_by_id, secret);
    hx_map_init(&gateway->deliveries_by_tag, secret);
    hx_map_init(&gateway->answered, secret);
    hx_map_init(&gateway->batch_answers, secret);
    hx_map_init(&gateway->tools, secret);
    hx_map_init(&gateway->works_by_id, secret);
    hx_map_init(&gateway->gates, secret);
    hx_map_init(&gateway->questions, secret);
    hx_map_init(&gateway->link.routes, secret);
}

/* The client has closed its end and still waits; so long that it is told what is known by now. */
static void on_input_limit(struct hx_timer *timer)
{
    struct hx_gateway *gateway = hx_container_of(timer, struct hx_gateway, input_limit);
    hx_list_for_each_safe (node, &gateway->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, node);
        if (hx_work_has_attempt(work))
            hx_work_lost(work, HX_REASON_TIMED_OUT, false);
    }
    hx_list_for_each_safe (node, &gateway->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        if (request->call == NULL)
            hx_upstream_failed_request(gateway, request);
    }
}

static void on_drain_limit(struct hx_timer *timer)
{
    hx_gateway_stop(hx_container_of(timer, struct hx_gateway, drain_limit));
}

static void on_leave_limit(struct hx_timer *timer)
{
    hx_container_of(timer, struct hx_gateway, leave_limit)->must_leave = true;
}

struct hx_gateway *hx_gateway_new(const struct hx_gateway_options *options,
                                  const struct hx_gateway_ports *ports)
{
    struct hx_gateway *gateway = hx_new(struct hx_gateway);
    gateway->magic = HX_GATEWAY_MAGIC;
    gateway->options = *options;
    gateway->ports = *ports;
    gateway->now = hx_clock_now(ports->clock);
    hx_timers_init(&gateway->timers);
    gateway->hasher = hx_hasher_new();
    hx_fingerprinter_init(&gateway->fingerprinter);
    hx_json_tape_init(&gateway->tape);
    hx_json_tape_init(&gateway->scratch);
    gateway->limits = (struct hx_json_limits){.depth_max = DEPTH_MAX,
                                              .record_depth_max = HX_RPC_RECORD_DEPTH,
                                              .tokens_max = TOKENS_MAX,
                                              .text_max = options->message_max};
    gateway->part_limits = gateway->limits;
    gateway->part_limits.record_depth_max = 0;
    hx_rewrite_init(&gateway->rewrite, &gateway->part_limits);
    hx_arena_init(&gateway->arena, ARENA_MAX);
    hx_arena_init(&gateway->client_arena, ARENA_MAX);
    init_maps(gateway);
    hx_list_init(&gateway->requests);
    hx_list_init(&gateway->asks);
    hx_list_init(&gateway->deliveries);
    hx_list_init(&gateway->subscriptions);
    hx_list_init(&gateway->works);
    hx_list_init(&gateway->ready);
    hx_buf_init(&gateway->initialize_message, options->message_max);
    hx_buf_init(&gateway->initialized_message, options->message_max);
    hx_buf_init(&gateway->level_message, options->message_max);
    gateway->era = hx_mcp_facts(HX_MCP_UNKNOWN);
    gateway->drain_limit.fire = on_drain_limit;
    gateway->input_limit.fire = on_input_limit;
    gateway->leave_limit.fire = on_leave_limit;
    gateway->next_tag = 1;
    mint_secret(gateway, gateway->ask_secret);
    mint_secret(gateway, gateway->token_secret);
    hx_store_init(gateway);
    hx_link_init(gateway);
    hx_sweep_begin(gateway);
    (void)hx_link_want(gateway);
    return gateway;
}

static void free_lists(struct hx_gateway *gateway)
{
    hx_store_submit_lazy(gateway);
    hx_list_for_each_safe (node, &gateway->deliveries)
        hx_delivery_free(gateway, hx_container_of(node, struct hx_delivery_note, node));
    hx_list_for_each_safe (node, &gateway->asks)
        hx_ask_withdraw(gateway, hx_container_of(node, struct hx_ask, node));
    hx_list_for_each_safe (node, &gateway->subscriptions) {
        struct hx_subscription *subscription = hx_container_of(node, struct hx_subscription, node);
        hx_buf_fini(&subscription->message);
        hx_list_unlink(node);
        hx_free(subscription);
    }
    struct hx_map_node *at = NULL;
    while ((at = hx_map_next(&gateway->questions, NULL)) != NULL) {
        hx_map_remove(&gateway->questions, at);
        hx_free(hx_container_of(at, struct hx_question, node));
    }
    while ((at = hx_map_next(&gateway->tools, NULL)) != NULL) {
        struct hx_tool *tool = hx_container_of(at, struct hx_tool, node);
        hx_map_remove(&gateway->tools, at);
        hx_free(tool->name);
        hx_free(tool);
    }
}

struct hx_gateway *hx_gateway_free(struct hx_gateway *gateway)
{
    if (gateway == NULL)
        return NULL;
    hx_check(gateway, HX_GATEWAY_MAGIC);
    hx_client_gone(gateway);
    free_lists(gateway);
    hx_list_for_each_safe (node, &gateway->works)
        hx_work_retire(hx_container_of(node, struct hx_work, node));
    hx_link_fini(gateway);
    hx_store_end(gateway);
    hx_timers_fini(&gateway->timers);
    hx_hasher_free(gateway->hasher);
    hx_fingerprinter_fini(&gateway->fingerprinter);
    hx_json_tape_fini(&gateway->tape);
    hx_json_tape_fini(&gateway->scratch);
    hx_rewrite_fini(&gateway->rewrite);
    hx_arena_fini(&gateway->arena);
    hx_arena_fini(&gateway->client_arena);
    hx_buf_fini(&gateway->initialize_message);
    hx_buf_fini(&gateway->initialized_message);
    hx_buf_fini(&gateway->level_message);
    struct hx_map *maps[] = {&gateway->batch_answers, &gateway->requests_by_id,
                             &gateway->asks_by_id,    &gateway->deliveries_by_tag,
                             &gateway->answered,      &gateway->tools,
                             &gateway->works_by_id,   &gateway->gates,
                             &gateway->questions,     &gateway->link.routes};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        hx_map_fini(maps[i]);
    gateway->magic = 0;
    return hx_free(gateway);
}

static bool take_peers(struct hx_gateway *gateway)
{
    bool had_any = false;
    struct hx_list *node;
    while ((node = hx_list_take_first(gateway->ports.upstream->inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        hx_link_event(gateway, event);
        hx_peer_event_free(event);
        had_any = true;
    }
    while ((node = hx_list_take_first(gateway->ports.downstream->inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        hx_client_event(gateway, event);
        hx_peer_event_free(event);
        had_any = true;
    }
    return had_any;
}

static void neighbour_event(struct hx_gateway *gateway, const struct hx_neighbour_event *event)
{
    struct hx_neighbourhood *neighbours = gateway->ports.neighbours;
    struct hx_work *work;
    switch (event->type) {
    case HX_NEIGHBOUR_ANSWER:
        hx_intake_neighbour(gateway, event->ticket, event->is_live);
        return;
    case HX_NEIGHBOUR_ASKED:
        neighbours->ops->reply(neighbours, event->ticket,
                               hx_gateway_has_live_waiter(gateway, &event->operation));
        return;
    case HX_NEIGHBOUR_CHANGED:
        work = hx_work_find(gateway, &event->operation);
        if (work != NULL)
            hx_work_read_again(work);
        return;
    case HX_NEIGHBOUR_STOP:
        if (gateway->is_draining)
            hx_gateway_stop(gateway);
        return;
    }
}

static bool take_neighbours(struct hx_gateway *gateway)
{
    bool had_any = false;
    struct hx_list *node;
    if (gateway->ports.neighbours == NULL)
        return false;
    while ((node = hx_list_take_first(gateway->ports.neighbours->inbox)) != NULL) {
        struct hx_neighbour_event *event = hx_container_of(node, struct hx_neighbour_event, node);
        neighbour_event(gateway, event);
        hx_neighbour_event_free(event);
        had_any = true;
    }
    return had_any;
}

/* A slow client must not make us hold the server's whole output. */
static void apply_back_pressure(struct hx_gateway *gateway)
{
    struct hx_downstream *client = gateway->ports.downstream;
    struct hx_upstream *server = gateway->ports.upstream;
    uint64_t queued = gateway->is_client_gone ? 0 : client->ops->queued_bytes(client);
    bool must_hold = queued > gateway->options.queue_max;
    if (must_hold != gateway->link.is_held) {
        gateway->link.is_held = must_hold;
        server->ops->hold(server, must_hold);
    }
}

static void finish_when_idle(struct hx_gateway *gateway)
{
    bool is_leaving = gateway->is_draining || gateway->is_input_over;
    if (!is_leaving || gateway->link.state == HX_LINK_STOPPING ||
        gateway->link.state == HX_LINK_DOWN)
        return;
    bool has_requests = gateway->request_count > 0 && !gateway->is_client_gone;
    bool has_attempts = false;
    hx_list_for_each (node, &gateway->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, node);
        has_attempts |= work->op.phase != HX_PHASE_IDLE || work->is_send_waiting;
    }
    if (!has_requests && !has_attempts)
        hx_link_stop(gateway);
}

static bool has_unsaved(const struct hx_gateway *gateway)
{
    bool is_unsaved = gateway->quiet_failed_count > 0;
    hx_list_for_each (node, &gateway->deliveries) {
        const struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        is_unsaved |= note->wanted != note->stored;
    }
    return is_unsaved;
}

static bool is_leaving(const struct hx_gateway *gateway)
{
    return (gateway->is_draining || gateway->is_input_over) && gateway->link.state == HX_LINK_DOWN;
}

/* What became of the last answers decides what a repeat through another process means, so a ledger
 * that is full for a moment is waited for; but not for ever. */
static void keep_receipts(struct hx_gateway *gateway)
{
    const int64_t limit_ms = 10 * 1000;
    bool is_waiting = is_leaving(gateway) && has_unsaved(gateway) && !gateway->must_leave;
    if (is_waiting && !hx_timer_is_armed(&gateway->leave_limit))
        hx_timer_arm(&gateway->timers, &gateway->leave_limit,
                     hx_mono_after(gateway->now.mono, limit_ms));
}

int64_t hx_gateway_turn(struct hx_gateway *gateway)
{
    /* Bounded, so that a chatty peer cannot keep the turn from ending. */
    enum { ROUNDS_MAX = 16 };
    hx_check(gateway, HX_GATEWAY_MAGIC);
    gateway->now = hx_clock_now(gateway->ports.clock);
    struct hx_store *store = gateway->ports.store;
    bool had_any = true;
    for (int round = 0; had_any && round < ROUNDS_MAX; round++) {
        had_any = take_peers(gateway);
        had_any |= take_neighbours(gateway);
        store->ops->flush(store);
        struct hx_store_request *done;
        while ((done = store->ops->take_done(store)) != NULL) {
            hx_store_take_one(gateway, done);
            had_any = true;
        }
        hx_work_take_ready(gateway);
        store->ops->flush(store);
    }
    hx_timers_run(&gateway->timers, gateway->now.mono);
    hx_work_take_ready(gateway);
    hx_delivery_forget_old(gateway);
    apply_back_pressure(gateway);
    finish_when_idle(gateway);
    keep_receipts(gateway);
    store->ops->flush(store);
    hx_arena_reset(&gateway->arena);
    /* Operations may put events into an inbox at once, and nothing in the loop would wake us for
     * them. */
    bool has_more = had_any || !hx_list_is_empty(gateway->ports.upstream->inbox) ||
                    !hx_list_is_empty(gateway->ports.downstream->inbox);
    return has_more ? 0 : hx_timers_wait_ms(&gateway->timers, gateway->now.mono);
}

void hx_gateway_drain(struct hx_gateway *gateway)
{
    if (gateway->is_draining)
        return;
    gateway->is_draining = true;
    struct hx_downstream *client = gateway->ports.downstream;
    client->ops->close(client);
    hx_client_gone(gateway);
    hx_timer_arm(&gateway->timers, &gateway->drain_limit,
                 hx_mono_after(gateway->now.mono, gateway->options.orphan_timeout_ms));
}

void hx_gateway_stop(struct hx_gateway *gateway)
{
    hx_gateway_drain(gateway);
    if (gateway->is_stopping)
        return;
    gateway->is_stopping = true;
    hx_timer_disarm(&gateway->timers, &gateway->drain_limit);
    hx_list_for_each_safe (node, &gateway->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, node);
        if (hx_work_has_attempt(work))
            hx_work_lost(work, HX_REASON_DRAIN_STOPPED, false);
    }
    hx_link_stop(gateway);
}

bool hx_gateway_is_done(const struct hx_gateway *gateway)
{
    bool has_answers = !gateway->is_client_gone &&
                       gateway->ports.downstream->ops->queued_bytes(gateway->ports.downstream) > 0;
    return is_leaving(gateway) && gateway->store_open == 0 &&
           (gateway->must_leave || !has_unsaved(gateway)) && hx_list_is_empty(&gateway->lazy) &&
           !has_answers && (gateway->is_client_gone || gateway->request_count == 0);
}

bool hx_gateway_is_draining(const struct hx_gateway *gateway)
{
    return gateway->is_draining;
}

bool hx_gateway_has_live_waiter(struct hx_gateway *gateway, const struct hx_id *operation)
{
    struct hx_downstream *client = gateway->ports.downstream;
    struct hx_work *work = hx_work_find(gateway, operation);
    /* The ledger learns of a delivery some time after it. Until then its row looks like a lost
     * answer, and an equal call that somebody else wants would be taken for the repeat of it. */
    bool has_waiter = work != NULL && !hx_list_is_empty(&work->calls) && !gateway->is_client_gone &&
                      client->ops->is_reader_alive(client, 0);
    return has_waiter || hx_delivery_is_live(gateway, operation);
}

bool hx_gateway_had_server(const struct hx_gateway *gateway)
{
    return gateway->link.has_spoken || gateway->initialize_message.len == 0;
}

uint64_t hx_gateway_counter(const struct hx_gateway *gateway, enum hx_counter counter)
{
    return gateway->counters[counter];
}
