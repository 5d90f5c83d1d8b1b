/* SPDX-License-Identifier: MIT */
/*
 * Carrying out what the core decided. Nothing here decides anything about running a tool.
 */
#include "engine/internal.h"

#include "base/crash.h"

enum { POLL_MS = 200 };

/* What becomes of another link says nothing of the new attempt. */
static void leave_earlier(struct hx_work *work, const struct hx_link *link)
{
    if (work->route != NULL && work->route->link != link)
        hx_route_leave(work);
}

static void persist(struct hx_work *work)
{
    struct hx_op *op = &work->op;
    bool is_claim =
        op->next.state == HX_OP_RUNNING && op->next.attempt.number != op->durable.attempt.number;
    if (is_claim) {
        hx_ladder_leave(work);
        /* It was forwarded to the attempt before. */
        work->is_cancel_forwarded = false;
        hx_timer_disarm(&work->gateway->timers, &work->cancel);
    }
    struct hx_link *link = op->next.state == HX_OP_RUNNING ? hx_work_link(work) : NULL;
    if (is_claim) {
        leave_earlier(work, link);
        hx_work_name_transport(work, link);
    }
    if (link != NULL)
        work->generation = link->generation;
    enum hx_store_kind kind = op->write == HX_WRITE_INSERT ? HX_STORE_INSERT : HX_STORE_UPDATE;
    struct hx_store_request *request = hx_store_make(work->gateway, kind);
    request->record = op->next;
    request->expected_fence = op->expected_fence;
    request->require_unmarked = op->requires_unmarked;
    request->mark_after = is_claim;
    if (op->write == HX_WRITE_SUCCESSOR) {
        request->second = op->successor;
        request->has_second = true;
    }
    if (op->write == HX_WRITE_INSERT) {
        request->twin_guard = true;
        request->twin_seen = work->twin_seen;
    }
    HX_CRASH_POINT("persist-asked");
    hx_store_submit_for_work(work, request);
    if (is_claim && link != NULL && link->has_operations)
        hx_ladder_keep_inner(work); /* in the same commit: whoever is asked later stands there */
}

/* Only where the store did not write the mark together with the claim. */
static void mark(struct hx_work *work)
{
    struct hx_store_request *request = hx_store_make(work->gateway, HX_STORE_MARK);
    request->record = work->op.next;
    request->expected_fence = work->op.expected_fence;
    hx_store_submit_for_work(work, request);
}

static void spool(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_SPOOL);
    request->record = work->op.next;
    request->expected_fence = work->op.expected_fence;
    hx_store_submit_for_work(work, request);
    int64_t wait_ms = work->op.durable.contract.join_wait_ms;
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        hx_timer_arm_sooner(&gateway->timers, &call->wait,
                            hx_mono_after(gateway->now.mono, wait_ms));
    }
}

static void defer(struct hx_work *work, const struct hx_event *event, struct hx_call *call)
{
    struct hx_deferred *deferred = hx_new(struct hx_deferred);
    /* A verb that was overtaken is judged anew; what overtook it is no event to repeat. */
    deferred->event = event->type == HX_EV_STALE ? work->verb : *event;
    deferred->call = call;
    hx_list_append(&work->deferred, &deferred->node);
}

/* A result kept in a file is read back before anybody can have it. */
static bool must_read_payload(const struct hx_work *work, enum hx_answer answer)
{
    const struct hx_outcome *outcome = &hx_op_answered_record(&work->op)->outcome;
    return answer == HX_ANSWER_OUTCOME && outcome->place == HX_OUTCOME_BLOB &&
           hx_span_is_absent(outcome->bytes);
}

static void read_payload(struct hx_work *work)
{
    if (work->is_payload_reading)
        return;
    struct hx_store_request *request = hx_store_make(work->gateway, HX_STORE_PAYLOAD);
    request->record.id = work->op.durable.id;
    work->is_payload_reading = true;
    hx_store_submit_for_work(work, request);
}

/* A result too large to keep is still in our hands right after it came: whoever waits for it now
 * can have it. */
static enum hx_answer with_live_bytes(const struct hx_work *work, enum hx_answer answer)
{
    const struct hx_outcome *outcome = &hx_op_answered_record(&work->op)->outcome;
    bool is_live = answer == HX_ANSWER_RESULT_UNAVAILABLE && !hx_span_is_absent(outcome->bytes);
    return is_live ? HX_ANSWER_OUTCOME : answer;
}

static void answer_caller(struct hx_work *work, const struct hx_event *event, struct hx_call *call,
                          enum hx_answer answer)
{
    if (call == NULL) {
        hx_person_decided(work, event, answer);
        return;
    }
    if (must_read_payload(work, answer)) {
        if (hx_list_is_empty(&call->node)) {
            hx_list_append(&work->calls, &call->node);
            work->op.waiters++;
        }
        read_payload(work);
        return;
    }
    HX_CRASH_POINT("caller-unanswered");
    hx_call_answer(call, answer, hx_op_answered_record(&work->op));
    HX_CRASH_POINT("caller-answered");
}

static void answer_all(struct hx_work *work, enum hx_answer answer)
{
    if (must_read_payload(work, answer) && !hx_list_is_empty(&work->calls)) {
        read_payload(work);
        return;
    }
    if (work->ask != NULL)
        hx_person_unasked(work->ask);
    struct hx_list *node;
    answer = with_live_bytes(work, answer);
    HX_CRASH_POINT("outcome-unanswered");
    while ((node = hx_list_first(&work->calls)) != NULL)
        hx_call_answer(hx_container_of(node, struct hx_call, node), answer,
                       hx_op_answered_record(&work->op));
}

static void follow_one(struct hx_work *work, struct hx_call *call)
{
    bool is_row_there = work->op.durable.state != HX_OP_ABSENT;
    hx_list_unlink(&call->node);
    call->work = NULL;
    if (is_row_there) {
        call->is_following = true;
        call->follow = work->op.durable.identity;
        /* A key that is given to either of the two parts their names. */
        call->follow_id = work->op.durable.successor;
    }
    hx_intake_again(call);
}

static void follow(struct hx_work *work, struct hx_call *call)
{
    struct hx_list *node;
    if (call != NULL && hx_list_is_empty(&call->node))
        follow_one(work, call);
    while ((node = hx_list_first(&work->calls)) != NULL)
        follow_one(work, hx_container_of(node, struct hx_call, node));
    work->op.waiters = 0;
}

static void watch(struct hx_work *work, enum hx_event_type cause)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_neighbourhood *neighbours = gateway->ports.neighbours;
    if (hx_list_is_empty(&work->calls) && hx_list_is_empty(&work->deferred))
        return; /* nobody here wants to know */
    if (neighbours != NULL)
        neighbours->ops->watch(neighbours, &work->op.durable.owner, &work->op.durable.id);
    int64_t wait_ms = cause == HX_EV_STALE ? 0 : POLL_MS;
    hx_timer_arm(&gateway->timers, &work->poll, hx_mono_after(gateway->now.mono, wait_ms));
}

static void note_cancel(struct hx_work *work)
{
    struct hx_store_request *request = hx_store_make(work->gateway, HX_STORE_TOUCH);
    request->record.id = work->op.durable.id;
    request->touch.set_cancel_requested = true;
    hx_store_submit_quiet(work->gateway, request);
}

void hx_work_cancel_upstream(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    bool may_forward = work->tool->rules.contract.cancel_upstream != HX_CANCEL_UPSTREAM_NEVER;
    if (!may_forward || work->is_cancel_forwarded)
        return;
    bool is_task = hx_task_cancel(work);
    if (!is_task && work->route == NULL)
        return;
    work->is_cancel_forwarded = true;
    hx_timer_arm(&gateway->timers, &work->cancel,
                 hx_mono_after(gateway->now.mono, work->tool->rules.cancel_timeout_ms));
    if (is_task)
        return;
    hx_link_send_cancel(work->route, "cancelled");
}

/* They wait for what the search brings, but no longer than a joined caller would. */
static void wait_for_ladder(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    hx_list_for_each (node, &work->calls)
        hx_timer_arm_sooner(
            &gateway->timers, &hx_container_of(node, struct hx_call, node)->wait,
            hx_mono_after(gateway->now.mono, work->op.durable.contract.join_wait_ms));
}

/* It may be settled meanwhile by another process, which looks for it too, or by a person there. */
static void watch_question(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_neighbourhood *neighbours = gateway->ports.neighbours;
    if (hx_list_is_empty(&work->calls))
        return;
    if (neighbours != NULL)
        neighbours->ops->watch(neighbours, &work->op.durable.owner, &work->op.durable.id);
    hx_timer_arm_sooner(&gateway->timers, &work->poll, hx_mono_after(gateway->now.mono, POLL_MS));
}

/* Those who cannot be asked, or whose question is not for them, are told what the state says. */
void hx_work_ask_person(struct hx_work *work)
{
    bool is_question = work->op.durable.state == HX_OP_UNKNOWN;
    if (is_question && hx_ladder_is_climbed(work)) {
        wait_for_ladder(work);
        watch_question(work);
        return;
    }
    if (is_question && hx_ask_outcome(work)) {
        watch_question(work);
        return;
    }
    if (work->op.durable.state == HX_OP_AWAITING_APPROVAL && hx_ask_approval(work))
        return;
    struct hx_list *node;
    while ((node = hx_list_first(&work->calls)) != NULL) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
        hx_work_step(work, &event, call);
    }
}

void hx_effect_run(struct hx_work *work, const struct hx_effect *effect,
                   const struct hx_event *event, struct hx_call *call)
{
    struct hx_gateway *gateway = work->gateway;
    switch (effect->type) {
    case HX_DO_PERSIST:
        persist(work);
        return;
    case HX_DO_MARK:
        mark(work);
        return;
    case HX_DO_SEND:
        hx_work_send_now(work);
        return;
    case HX_DO_SPOOL:
        spool(work);
        return;
    case HX_DO_DEFER:
        defer(work, event, call);
        return;
    case HX_DO_JOIN:
        return; /* done before the other effects, so that they see the new waiter */
    case HX_DO_ANSWER_CALLER:
        answer_caller(work, event, call, effect->answer);
        return;
    case HX_DO_ANSWER_ALL:
        answer_all(work, effect->answer);
        return;
    case HX_DO_WATCH:
        watch(work, event->type);
        return;
    case HX_DO_LOOK_LATER:
        hx_timer_arm(&gateway->timers, &work->look,
                     hx_mono_after(gateway->now.mono, effect->delay_ms));
        return;
    case HX_DO_CANCEL_UPSTREAM:
        note_cancel(work);
        hx_work_cancel_upstream(work);
        return;
    case HX_DO_LADDER:
        if (event->type == HX_EV_CALL && !hx_ladder_is_climbed(work)) {
            work->search = HX_SEARCH_NONE; /* a caller wakes it: he may bring a link with him */
            work->was_called_again = false;
        }
        hx_ladder_begin(work);
        hx_schedule_begin(work);
        return;
    case HX_DO_ASK_PERSON:
        hx_work_ask_person(work);
        return;
    case HX_DO_FOLLOW:
        follow(work, call);
        return;
    case HX_DO_ALARM:
        hx_tell(gateway, HX_TELL_ERROR, "disputed", "tool=%s", work->tool->name);
        return;
    case HX_DO_COUNT:
        gateway->counters[effect->counter]++;
        return;
    case HX_DO_TYPE_COUNT:
        break;
    }
    hx_assert(!"effect");
}
