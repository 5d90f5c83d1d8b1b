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

void hx_mint_secret(struct hx_gateway *gateway, char ret_text[17])
{
    uint8_t random[8];
    hx_rand_fill(gateway->ports.rand, random, sizeof(random));
    hx_hex_encode(random, sizeof(random), ret_text);
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
    hx_rand_fill(ports->rand, (uint8_t *)gateway->map_secret, sizeof(gateway->map_secret));
    hx_map_init(&gateway->deliveries_by_tag, gateway->map_secret);
    hx_map_init(&gateway->works_by_id, gateway->map_secret);
    hx_map_init(&gateway->gates, gateway->map_secret);
    hx_map_init(&gateway->questions, gateway->map_secret);
    hx_list_init(&gateway->servers);
    hx_list_init(&gateway->sessions);
    hx_list_init(&gateway->links);
    hx_list_init(&gateway->stirred);
    hx_list_init(&gateway->over);
    hx_list_init(&gateway->deliveries);
    hx_list_init(&gateway->works);
    hx_list_init(&gateway->ready);
    hx_list_init(&gateway->verbs);
    gateway->drain_limit.fire = on_drain_limit;
    gateway->leave_limit.fire = on_leave_limit;
    gateway->next_tag = 1;
    hx_mint_secret(gateway, gateway->token_secret);
    hx_store_init(gateway);
    hx_sweep_begin(gateway);
    hx_publish_begin(gateway);
    return gateway;
}

static void free_questions(struct hx_gateway *gateway)
{
    struct hx_map_node *at = NULL;
    while ((at = hx_map_next(&gateway->questions, NULL)) != NULL) {
        hx_map_remove(&gateway->questions, at);
        hx_free(hx_container_of(at, struct hx_question, node));
    }
}

static void free_sessions(struct hx_gateway *gateway)
{
    hx_list_for_each_safe (node, &gateway->sessions)
        hx_session_end(hx_container_of(node, struct hx_session, node));
    hx_list_for_each_safe (node, &gateway->over)
        hx_session_free(hx_container_of(node, struct hx_session, node));
}

struct hx_gateway *hx_gateway_free(struct hx_gateway *gateway)
{
    if (gateway == NULL)
        return NULL;
    hx_check(gateway, HX_GATEWAY_MAGIC);
    free_sessions(gateway);
    hx_store_submit_lazy(gateway);
    hx_list_for_each_safe (node, &gateway->deliveries)
        hx_delivery_free(gateway, hx_container_of(node, struct hx_delivery_note, node));
    hx_list_for_each_safe (node, &gateway->works)
        hx_work_retire(hx_container_of(node, struct hx_work, node));
    hx_list_for_each_safe (node, &gateway->links)
        hx_link_free(hx_container_of(node, struct hx_link, node));
    hx_list_for_each_safe (node, &gateway->servers)
        hx_server_free(hx_container_of(node, struct hx_server, node));
    free_questions(gateway);
    hx_verbs_end(gateway);
    hx_publish_end(gateway);
    hx_store_end(gateway);
    hx_timers_fini(&gateway->timers);
    hx_hasher_free(gateway->hasher);
    hx_fingerprinter_fini(&gateway->fingerprinter);
    hx_json_tape_fini(&gateway->tape);
    hx_json_tape_fini(&gateway->scratch);
    hx_rewrite_fini(&gateway->rewrite);
    hx_arena_fini(&gateway->arena);
    hx_map_fini(&gateway->deliveries_by_tag);
    hx_map_fini(&gateway->works_by_id);
    hx_map_fini(&gateway->gates);
    hx_map_fini(&gateway->questions);
    gateway->magic = 0;
    return hx_free(gateway);
}

/* Its sender must not have to take it for something that may have been done. */
static void leave_unread(struct hx_gateway *gateway, const struct hx_session *session,
                         const struct hx_peer_event *event)
{
    struct hx_downstream *client = event->downstream;
    bool is_request = event->type == HX_PEER_MESSAGE && event->exchange != 0;
    if (is_request && session != NULL && client->ops->settle != NULL)
        client->ops->settle(client, event->exchange, HX_SETTLING_UNREAD);
    else
        hx_delivery_fate(gateway, event->tag, event->type);
}

/* What is said of a session or a link that is over concerns nobody. */
static bool take_peers(struct hx_gateway *gateway)
{
    bool had_any = false;
    struct hx_list *node;
    while ((node = hx_list_take_first(gateway->ports.upstream_inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        hx_link_event(event->upstream->owner, event);
        hx_peer_event_free(event);
        had_any = true;
    }
    while ((node = hx_list_take_first(gateway->ports.downstream_inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        struct hx_downstream *client = event->downstream;
        struct hx_session *session = client != NULL ? client->owner : NULL;
        if (session != NULL && session->link != NULL)
            hx_client_event(session, event);
        else
            leave_unread(gateway, session, event);
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
static void apply_back_pressure(struct hx_link *link)
{
    const struct hx_session *session = hx_link_session(link);
    uint64_t queued = 0;
    if (session != NULL && !session->is_gone)
        queued = session->options.downstream->ops->queued_bytes(session->options.downstream);
    bool must_hold = queued > link->gateway->options.queue_max;
    if (must_hold != link->is_held) {
        link->is_held = must_hold;
        link->upstream->ops->hold(link->upstream, must_hold);
    }
}

static void look_at_stirred(struct hx_gateway *gateway)
{
    struct hx_list *node;
    struct hx_list later;
    hx_list_init(&later);
    while ((node = hx_list_take_first(&gateway->stirred)) != NULL) {
        struct hx_link *link = hx_container_of(node, struct hx_link, stir_node);
        apply_back_pressure(link);
        hx_link_finish_when_idle(link);
        if (!link->is_leaving || !hx_link_is_silent(link))
            continue;
        if (hx_list_is_empty(gateway->ports.upstream_inbox))
            hx_link_free(link);
        else if (hx_list_is_empty(&link->stir_node))
            hx_list_append(&later, &link->stir_node); /* something may speak of it yet */
    }
    hx_list_splice(&gateway->stirred, &later);
}

static void free_what_is_over(struct hx_gateway *gateway)
{
    if (!hx_list_is_empty(gateway->ports.downstream_inbox))
        return; /* something may speak of it yet */
    hx_list_for_each_safe (node, &gateway->over) {
        struct hx_session *session = hx_container_of(node, struct hx_session, node);
        if (!session->is_ending)
            hx_session_free(session);
    }
}

static bool has_unsaved(const struct hx_gateway *gateway)
{
    return gateway->quiet_failed_count > 0 || hx_delivery_has_unsaved(gateway);
}

static bool is_input_over(const struct hx_gateway *gateway)
{
    struct hx_list *first = hx_list_first(&gateway->sessions);
    return gateway->options.ends_with_client &&
           (first == NULL || hx_container_of(first, struct hx_session, node)->is_input_over);
}

static bool is_leaving(const struct hx_gateway *gateway)
{
    if (!gateway->is_draining && !is_input_over(gateway))
        return false;
    hx_list_for_each (node, &gateway->links) {
        if (!hx_link_is_silent(hx_container_of(node, struct hx_link, node)))
            return false;
    }
    return true;
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
        had_any |= hx_publish_take(gateway);
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
    look_at_stirred(gateway);
    free_what_is_over(gateway);
    hx_servers_finish(gateway);
    keep_receipts(gateway);
    hx_publish_leave(gateway, is_leaving(gateway));
    store->ops->flush(store);
    hx_arena_reset(&gateway->arena);
    /* Operations may put events into an inbox at once, and nothing in the loop would wake us for
     * them. */
    bool has_more = had_any || !hx_list_is_empty(&gateway->ready) ||
                    !hx_list_is_empty(gateway->ports.upstream_inbox) ||
                    !hx_list_is_empty(gateway->ports.downstream_inbox);
    return has_more ? 0 : hx_timers_wait_ms(&gateway->timers, gateway->now.mono);
}

static void stir_all(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->links)
        hx_link_stir(hx_container_of(node, struct hx_link, node));
}

void hx_gateway_drain(struct hx_gateway *gateway)
{
    if (gateway->is_draining)
        return;
    gateway->is_draining = true;
    hx_list_for_each (node, &gateway->sessions) {
        struct hx_session *session = hx_container_of(node, struct hx_session, node);
        session->options.downstream->ops->close(session->options.downstream);
        hx_session_gone(session);
    }
    stir_all(gateway);
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
    hx_list_for_each (node, &gateway->links)
        hx_link_stop(hx_container_of(node, struct hx_link, node));
}

/* Are answers still to be written, or requests to be answered? */
static bool has_clients_waiting(const struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->sessions) {
        const struct hx_session *session = hx_container_of(node, struct hx_session, node);
        struct hx_downstream *client = session->options.downstream;
        if (!session->is_gone &&
            (session->request_count > 0 || client->ops->queued_bytes(client) > 0))
            return true;
    }
    return false;
}

bool hx_gateway_is_done(const struct hx_gateway *gateway)
{
    return is_leaving(gateway) && gateway->store_open == 0 &&
           hx_list_is_empty(gateway->ports.downstream_inbox) &&
           (gateway->must_leave || !has_unsaved(gateway)) && hx_list_is_empty(&gateway->lazy) &&
           !has_clients_waiting(gateway) && hx_publish_is_resting(gateway);
}

bool hx_gateway_is_draining(const struct hx_gateway *gateway)
{
    return gateway->is_draining;
}

bool hx_gateway_is_leaving(const struct hx_gateway *gateway)
{
    return gateway->is_draining || is_input_over(gateway);
}

bool hx_gateway_has_live_waiter(struct hx_gateway *gateway, const struct hx_id *operation)
{
    struct hx_work *work = hx_work_find(gateway, operation);
    if (work != NULL) {
        hx_list_for_each (node, &work->calls) {
            const struct hx_call *call = hx_container_of(node, struct hx_call, node);
            if (hx_session_hears(call->session, call->request->exchange))
                return true;
        }
    }
    /* The ledger learns of a delivery some time after it. Until then its row looks like a lost
     * answer, and an equal call that somebody else wants would be taken for the repeat of it. */
    return hx_delivery_is_live(gateway, operation);
}

uint64_t hx_gateway_counter(const struct hx_gateway *gateway, enum hx_counter counter)
{
    return gateway->counters[counter];
}
