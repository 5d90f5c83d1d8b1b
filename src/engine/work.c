/* SPDX-License-Identifier: MIT */
/*
 * Operations in this process's hands: loading them, stepping them, and what happens around a step.
 *
 * A step never frees its work: works that may have nothing left to do are looked at once more at
 * the end of the turn, together with those that have deferred events.
 */
#include "engine/internal.h"

enum { STEPS_MAX = 64 };

struct hx_span hx_work_keep_span(struct hx_work *work, struct hx_span span)
{
    if (hx_span_is_absent(span))
        return span;
    struct hx_span copy = hx_arena_dup(&work->arena, span);
    hx_assert(!hx_span_is_absent(copy));
    return copy;
}

bool hx_work_keep_record(struct hx_work *work, const struct hx_record *record,
                         struct hx_record *ret_record)
{
    return hx_record_copy(&work->arena, record, ret_record);
}

void hx_work_use_link(struct hx_work *work, struct hx_link *link)
{
    hx_list_unlink(&work->link_node);
    if (work->link != link)
        hx_link_stir(work->link); /* the last one that left it may be all that kept it */
    work->link = link;
    if (link != NULL)
        hx_list_append(&link->works, &work->link_node);
}

static struct hx_work *new_work(struct hx_gateway *gateway, const struct hx_id *id,
                                struct hx_link *link)
{
    const size_t arena_max = (size_t)256 * 1024 * 1024;
    struct hx_work *work = hx_new(struct hx_work);
    work->magic = HX_WORK_MAGIC;
    work->gateway = gateway;
    hx_arena_init(&work->arena, arena_max);
    hx_list_init(&work->calls);
    hx_list_init(&work->deferred);
    hx_list_init(&work->ready_node);
    hx_list_init(&work->link_node);
    hx_work_use_link(work, link);
    hx_buf_init(&work->message, gateway->options.message_max);
    hx_list_init(&work->replies);
    hx_work_set_timers(work);
    work->op.durable.id = *id;
    hx_list_append(&gateway->works, &work->node);
    hx_map_insert(&gateway->works_by_id, &work->by_id,
                  hx_span((const char *)work->op.durable.id.bytes, HX_ID_SIZE));
    return work;
}

struct hx_work *hx_work_new_absent(struct hx_call *call)
{
    struct hx_work *work = new_work(call->gateway, &call->wanted.id, call->session->link);
    struct hx_record record;
    if (!hx_work_keep_record(work, &call->wanted, &record)) {
        hx_work_retire(work);
        return NULL;
    }
    hx_op_init_absent(&work->op, &record);
    work->tool = call->tool;
    work->needs_approval = call->needs_approval;
    work->twin_seen = call->twin_seen;
    work->facts = (struct hx_facts){.is_epoch_current = true};
    return work;
}

void hx_work_renew_rules(struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    if (work->tool->server->is_retired)
        work->tool = hx_tool_get(hx_server_find(work->gateway, record->server), record->tool);
}

struct hx_work *hx_work_load(struct hx_gateway *gateway, const struct hx_record *record,
                             struct hx_link *link)
{
    struct hx_work *work = new_work(gateway, &record->id, link);
    struct hx_record kept;
    if (!hx_work_keep_record(work, record, &kept)) {
        hx_work_retire(work);
        return NULL;
    }
    hx_op_init_loaded(&work->op, &kept);
    work->tool = hx_tool_get(hx_server_find(gateway, kept.server), kept.tool);
    work->needs_approval = hx_work_needs_approval(work);
    work->is_told = kept.is_told_pending;
    return work;
}

/* An attempt may begin over it. Nothing is sent over a link that only listens. */
static bool is_usable(const struct hx_link *link)
{
    return link != NULL && !link->is_leaving && link != link->server->listener;
}

/* The link that an attempt would go over, once no search is in its way; NULL = none. */
static struct hx_link *link_to_send(const struct hx_work *work)
{
    struct hx_list *first = hx_list_first(&work->calls);
    if (is_usable(work->link))
        return work->link;
    if (first != NULL)
        return hx_container_of(first, struct hx_call, node)->session->link;
    const struct hx_server *server = hx_server_named(work->gateway, work->op.durable.server);
    return server != NULL ? server->house : NULL;
}

struct hx_link *hx_work_link(struct hx_work *work)
{
    /* What was lost is searched for where the search began; a probe goes its own way. */
    bool is_bound =
        work->link != NULL && hx_ladder_is_climbed(work) && work->search != HX_SEARCH_PROBING;
    struct hx_link *link = link_to_send(work);
    bool is_chosen = link == work->link || is_bound || hx_work_has_attempt(work);
    bool is_asked_for = !hx_list_is_empty(&work->calls);
    if (!is_chosen && (is_asked_for || !hx_ladder_is_climbed(work)))
        hx_work_use_link(work, link);
    return work->link;
}

struct hx_work *hx_work_find(struct hx_gateway *gateway, const struct hx_id *id)
{
    struct hx_map_node *node =
        hx_map_find(&gateway->works_by_id, hx_span((const char *)id->bytes, HX_ID_SIZE));
    return node ? hx_container_of(node, struct hx_work, by_id) : NULL;
}

void hx_work_rekey(struct hx_work *work, struct hx_record *record, const struct hx_record *wanted)
{
    record->identity = wanted->identity;
    record->key_source = wanted->key_source;
    record->first_sent = wanted->first_sent;
    record->key = hx_work_keep_span(work, wanted->key);
    if (work->op.phase != HX_PHASE_IDLE) {
        work->op.next.identity = record->identity;
        work->op.next.key = record->key;
        work->op.next.key_source = record->key_source;
        work->op.next.first_sent = record->first_sent;
    }
}

static void disarm_all(struct hx_work *work)
{
    struct hx_timers *timers = &work->gateway->timers;
    hx_timer_disarm(timers, &work->limit);
    hx_timer_disarm(timers, &work->idle);
    hx_timer_disarm(timers, &work->cancel);
    hx_timer_disarm(timers, &work->look);
    hx_timer_disarm(timers, &work->poll);
    hx_timer_disarm(timers, &work->inner_poll);
    hx_timer_disarm(timers, &work->probe);
    hx_timer_disarm(timers, &work->listen);
    hx_timer_disarm(timers, &work->task.poll);
}

static void free_deferred(struct hx_work *work)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&work->deferred)) != NULL)
        hx_free(hx_container_of(node, struct hx_deferred, node));
}

void hx_work_retire(struct hx_work *work)
{
    hx_check(work, HX_WORK_MAGIC);
    hx_assert(hx_list_is_empty(&work->calls));
    hx_probe_end(work);
    hx_schedule_end(work);
    disarm_all(work);
    free_deferred(work);
    if (work->route != NULL)
        hx_route_free(work->route);
    if (work->ask != NULL)
        hx_ask_withdraw(work->ask);
    work->payload = hx_store_request_free(work->payload);
    hx_free(work->decider);
    hx_map_remove(&work->gateway->works_by_id, &work->by_id);
    hx_list_unlink(&work->node);
    hx_list_unlink(&work->ready_node);
    hx_list_unlink(&work->link_node);
    hx_link_stir(work->link);
    hx_arena_fini(&work->arena);
    hx_buf_fini(&work->message);
    struct hx_list *node;
    while ((node = hx_list_take_first(&work->replies)) != NULL) {
        struct hx_reply *reply = hx_container_of(node, struct hx_reply, node);
        hx_buf_fini(&reply->line);
        hx_free(reply);
    }
    work->magic = 0;
    hx_free(work);
}

bool hx_work_has_attempt(const struct hx_work *work)
{
    return work->op.phase == HX_PHASE_SENDING || work->op.phase == HX_PHASE_AWAITING;
}

static bool has_nothing_left(const struct hx_work *work)
{
    bool is_busy = work->op.phase != HX_PHASE_IDLE || work->writes_open > 0 || work->is_reading ||
                   work->route != NULL || work->ask != NULL || work->is_send_waiting ||
                   work->is_lost_waiting || work->is_look_waiting || work->is_payload_reading ||
                   hx_ladder_is_climbed(work);
    bool is_needed = !hx_list_is_empty(&work->calls) || !hx_list_is_empty(&work->deferred);
    /* Ours, still running, and nothing in flight: the ledger failed, and a look is due. */
    bool is_ours_left = work->op.durable.state == HX_OP_RUNNING &&
                        work->facts.hands == HX_HANDS_MINE && hx_timer_is_armed(&work->look);
    return !is_busy && !is_needed && !is_ours_left;
}

void hx_work_look_again_later(struct hx_work *work)
{
    if (hx_list_is_empty(&work->ready_node))
        hx_list_append(&work->gateway->ready, &work->ready_node);
}

/* A name is given anew to another server easily: by an entry that is edited, or a reload. */
bool hx_is_same_target(struct hx_gateway *gateway, const struct hx_record *record)
{
    const struct hx_server *server = hx_server_named(gateway, record->server);
    return server == NULL || server->options.target == record->contract.target;
}

struct hx_event hx_work_make_event(struct hx_work *work, enum hx_event_type type)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_link *link = hx_work_link(work);
    struct hx_event event = {.type = type, .now = gateway->now, .facts = work->facts};
    event.facts.is_same_target = hx_is_same_target(gateway, &work->op.durable);
    event.mint.owner = gateway->ports.store->ops->owner(gateway->ports.store);
    event.mint.transport = hx_link_transport(gateway, link);
    if (type == HX_EV_RETRY || type == HX_EV_RESOLVE_AGAIN) {
        hx_mint_id(gateway, &event.mint.id);
        hx_mint_id(gateway, &event.mint.effect_key);
    }
    event.needs_approval = work->needs_approval;
    return event;
}

/* What a step changed, for the operator's log and for neighbours that watch. */
static void tell_change(struct hx_work *work, enum hx_op_state before)
{
    struct hx_gateway *gateway = work->gateway;
    const struct hx_record *record = &work->op.durable;
    if (record->state == before)
        return;
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&record->id, id);
    enum hx_tell tell = record->state == HX_OP_UNKNOWN ? HX_TELL_WARN : HX_TELL_INFO;
    hx_tell(gateway, tell, "operation", "operation=%s tool=%s from=%s to=%s reason=%s attempt=%u",
            id, work->tool->name, hx_op_state_name(before), hx_op_state_name(record->state),
            hx_reason_name(record->reason), record->attempt.number);
    if (gateway->ports.neighbours != NULL)
        gateway->ports.neighbours->ops->changed(gateway->ports.neighbours, &record->id);
    work->was_asked = false;
    bool is_asked = work->ask != NULL && work->ask->kind == HX_ASK_APPROVAL;
    if (is_asked && record->state != HX_OP_AWAITING_APPROVAL)
        hx_person_unasked(work->ask); /* somebody else has decided */
}

static bool has_effect(const struct hx_effects *effects, enum hx_effect_type type)
{
    for (unsigned i = 0; i < effects->count; i++) {
        if (effects->items[i].type == type)
            return true;
    }
    return false;
}

/* A caller that only waits for what others run is told BUSY after join_wait. */
static void mark_joined(struct hx_work *work, struct hx_call *call,
                        const struct hx_effects *effects)
{
    struct hx_gateway *gateway = work->gateway;
    bool is_runner = has_effect(effects, HX_DO_PERSIST);
    if (is_runner || work->op.durable.state == HX_OP_UNKNOWN)
        return;
    call->is_joined = true;
    int64_t wait_ms = work->op.durable.contract.join_wait_ms;
    if (call->is_param_key && call->session->options.server->options.is_sep3182_strict)
        wait_ms = 0;
    hx_timer_arm(&gateway->timers, &call->wait, hx_mono_after(gateway->now.mono, wait_ms));
}

void hx_work_step(struct hx_work *work, const struct hx_event *event, struct hx_call *call)
{
    struct hx_effects effects;
    hx_check(work, HX_WORK_MAGIC);
    hx_link_stir(work->link);
    enum hx_op_state before = work->op.durable.state;
    bool had_verb = work->op.has_verb;
    hx_op_step(&work->op, event, &effects);
    if (work->op.has_verb && !had_verb)
        work->verb = *event;
    if (call != NULL && has_effect(&effects, HX_DO_JOIN)) {
        hx_list_append(&work->calls, &call->node);
        work->op.waiters++;
        /* Somebody waits again, so the orphan's bound does not hold any more. */
        if (work->op.durable.contract.timeout_ms == 0)
            hx_timer_disarm(&work->gateway->timers, &work->limit);
        mark_joined(work, call, &effects);
    }
    for (unsigned i = 0; i < effects.count; i++)
        hx_effect_run(work, &effects.items[i], event, call);
    if (work->op.phase != HX_PHASE_SENDING)
        work->is_send_waiting = false;
    if (work->op.phase != HX_PHASE_IDLE)
        work->is_down_known = false;
    if (work->op.durable.state != HX_OP_UNKNOWN) {
        hx_probe_end(work);
        hx_schedule_end(work);
    }
    if (!hx_work_has_attempt(work))
        work->is_lost_waiting = false; /* what comes next is another attempt's matter */
    tell_change(work, before);
    hx_work_look_again_later(work);
}

void hx_work_event(struct hx_work *work, enum hx_event_type type)
{
    struct hx_event event = hx_work_make_event(work, type);
    const struct hx_link *link = link_to_send(work);
    /* A look begins no attempt for which there is no way: where nobody waits there may be none. */
    bool has_way = link != NULL && !hx_link_is_closing(link) && hx_work_can_be_written(work);
    if (type == HX_EV_LOOK && !has_way)
        event.facts.is_same_target = false;
    if (type == HX_EV_NOT_SENT || type == HX_EV_FIRST_BYTE)
        work->is_send_waiting = false;
    hx_work_step(work, &event, NULL);
}

/* The tools that may be sent again wait for a living server before the core is asked. */
void hx_work_lost(struct hx_work *work, enum hx_reason reason, bool is_sender_gone)
{
    const struct hx_link *link = work->link;
    bool is_closing = link == NULL || hx_link_is_closing(link);
    work->facts.is_sender_gone |= is_sender_gone;
    bool may_resend = hx_is_resend_declared(&work->op.durable.contract);
    if (hx_ladder_has_route(work)) {
        hx_ladder_over(work);
        return;
    }
    if (!hx_work_has_attempt(work)) {
        /* Nothing is heard from the tool any more: it may be all that kept this in memory. */
        hx_work_look_again_later(work);
        return;
    }
    bool must_wait = link == NULL || link->state != HX_LINK_READY;
    if (is_sender_gone && may_resend && !is_closing && must_wait && !work->is_lost_waiting) {
        work->is_lost_waiting = true;
        work->lost_reason = reason;
        work->facts.is_sender_gone = true;
        return;
    }
    struct hx_event event = hx_work_make_event(work, HX_EV_LOST);
    event.reason = reason;
    event.facts.is_sender_gone = is_sender_gone;
    /* Sent again at once only where the server is there and the old exchange is closed. */
    if (!is_sender_gone || must_wait || is_closing)
        event.facts.is_same_target = false;
    hx_work_step(work, &event, NULL);
    if (work->route != NULL && !hx_work_has_attempt(work))
        hx_route_give_way(work->route);
}

void hx_work_upstream_ready(struct hx_work *work)
{
    if (work->is_lost_waiting) {
        work->is_lost_waiting = false;
        struct hx_event event = hx_work_make_event(work, HX_EV_LOST);
        event.reason = work->lost_reason;
        event.facts.is_sender_gone = true;
        hx_work_step(work, &event, NULL);
    }
    if (work->search == HX_SEARCH_STARTING)
        hx_ladder_go_on(work);
    if (work->is_send_waiting)
        hx_work_send_now(work);
    if (work->is_look_waiting) {
        work->is_look_waiting = false;
        hx_work_event(work, HX_EV_LOOK);
    }
}

void hx_work_upstream_failed(struct hx_work *work)
{
    if (work->search == HX_SEARCH_STARTING)
        hx_ladder_over(work);
    if (work->is_lost_waiting) {
        work->is_lost_waiting = false;
        hx_work_lost(work, work->lost_reason, false);
    }
    if (work->is_send_waiting)
        hx_work_event(work, HX_EV_NOT_SENT);
    if (!work->is_look_waiting)
        return;
    work->is_look_waiting = false;
    hx_work_look_again_later(work); /* its callers may all have left in the meantime */
    if (hx_list_is_empty(&work->calls))
        return;
    /* Another process may have a way to the server, and have sent it. */
    work->is_down_known = true;
    hx_work_read_again(work);
}

void hx_work_tell_down(struct hx_work *work)
{
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
        event.is_upstream_down = true;
        hx_work_step(work, &event, hx_container_of(node, struct hx_call, node));
    }
}

void hx_work_call_left(struct hx_work *work, struct hx_call *call)
{
    struct hx_gateway *gateway = work->gateway;
    hx_list_for_each_safe (node, &work->deferred) {
        struct hx_deferred *deferred = hx_container_of(node, struct hx_deferred, node);
        if (deferred->call == call) {
            hx_list_unlink(node);
            hx_free(deferred);
        }
    }
    uint32_t waiting = 0;
    hx_list_for_each (node, &work->calls)
        waiting++;
    bool did_wait = waiting < work->op.waiters;
    work->op.waiters = waiting;
    /* Nobody wants it any more, so nobody is asked to allow it. */
    if (waiting == 0 && work->ask != NULL && work->ask->kind == HX_ASK_APPROVAL)
        hx_person_unasked(work->ask);
    if (!did_wait)
        return;
    hx_work_event(work, HX_EV_WAITER_LEFT);
    if (waiting == 0 && hx_work_has_attempt(work)) {
        /* Nobody waits any more: from now on the orphan's bound holds. */
        struct hx_mono due =
            hx_mono_after(gateway->now.mono, work->op.durable.contract.orphan_timeout_ms);
        hx_timer_arm_sooner(&gateway->timers, &work->limit, due);
    }
}

static bool take_deferred(struct hx_work *work)
{
    bool is_free = work->op.phase == HX_PHASE_IDLE || hx_work_has_attempt(work);
    struct hx_list *node = is_free ? hx_list_take_first(&work->deferred) : NULL;
    if (node == NULL)
        return false;
    struct hx_deferred *deferred = hx_container_of(node, struct hx_deferred, node);
    struct hx_event event = deferred->event;
    struct hx_call *call = deferred->call;
    hx_free(deferred);
    const struct hx_event now = hx_work_make_event(work, event.type);
    event.now = now.now;
    event.facts = now.facts;
    /* The link of then may be gone, and its name with it. */
    event.mint.owner = now.mint.owner;
    event.mint.transport = now.mint.transport;
    event.fresh = NULL;
    hx_work_step(work, &event, call);
    return true;
}

void hx_work_take_ready(struct hx_gateway *gateway)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&gateway->ready)) != NULL) {
        struct hx_work *work = hx_container_of(node, struct hx_work, ready_node);
        for (int i = 0; i < STEPS_MAX && take_deferred(work); i++)
            ;
        hx_list_unlink(&work->ready_node);
        if (!has_nothing_left(work))
            continue;
        if (work->is_scheduled)
            hx_work_use_link(work, NULL); /* whoever comes before the next look brings his own */
        else
            hx_work_retire(work);
    }
}
