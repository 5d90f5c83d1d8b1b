/* SPDX-License-Identifier: MIT */
/*
 * Carrying out what the core decided. Nothing here decides anything about running a tool.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/crash.h"

enum { POLL_MS = 200 };

/* From now on only the new attempt is heard: what becomes of another link says nothing of it. */
static void leave_earlier(struct hx_work *work, const struct hx_link *link)
{
    struct hx_route *route = work->route;
    if (route == NULL || route->link == link)
        return;
    route->kind = HX_ROUTE_QUIET;
    route->work = NULL;
    work->route = NULL;
}

static void persist(struct hx_work *work)
{
    const struct hx_op *op = &work->op;
    enum hx_store_kind kind = op->write == HX_WRITE_INSERT ? HX_STORE_INSERT : HX_STORE_UPDATE;
    struct hx_store_request *request = hx_store_make(work->gateway, kind);
    request->record = op->next;
    request->expected_fence = op->expected_fence;
    request->require_unmarked = op->requires_unmarked;
    if (op->write == HX_WRITE_SUCCESSOR) {
        request->second = op->successor;
        request->has_second = true;
    }
    if (op->write == HX_WRITE_INSERT) {
        request->twin_guard = true;
        request->twin_seen = work->twin_seen;
    }
    bool is_claim =
        op->next.state == HX_OP_RUNNING && op->next.attempt.number != op->durable.attempt.number;
    request->mark_after = is_claim;
    if (is_claim)
        hx_ladder_leave(work);
    struct hx_link *link = op->next.state == HX_OP_RUNNING ? hx_work_link(work) : NULL;
    if (is_claim)
        leave_earlier(work, link);
    if (link != NULL)
        work->generation = link->generation;
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

bool hx_write_call(struct hx_buf *out, struct hx_span id, const struct hx_record *record)
{
    struct hx_json_writer writer;
    hx_json_writer_init(&writer, out);
    (void)hx_buf_append_cstr(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_span(out, id);
    (void)hx_buf_append_cstr(out, ",\"method\":\"tools/call\",\"params\":{\"name\":");
    hx_json_put_string(&writer, record->tool);
    if (!hx_span_is_absent(record->arguments)) {
        (void)hx_buf_append_cstr(out, ",\"arguments\":");
        (void)hx_buf_append_span(out, record->arguments);
    }
    (void)hx_buf_append_cstr(out, "}}");
    return hx_buf_ok(out);
}

/* The request to send: the first caller's own line, or, when nobody here has one, made from the
 * row. */
static bool prepare_message(struct hx_work *work)
{
    if (work->message.len > 0)
        return true;
    hx_list_for_each (node, &work->calls) {
        const struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (!call->is_resumed)
            return hx_buf_append_span(&work->message, hx_buf_span(&call->request->message)) == 0;
    }
    /* Without the arguments it would be another call. */
    const struct hx_record *record = &work->op.durable;
    bool has_all = !hx_span_is_absent(record->arguments) || work->tool->rules.has_stored_arguments;
    return has_all && hx_write_call(&work->message, HX_SPAN_LIT("0"), record);
}

static bool wants_progress(const struct hx_work *work)
{
    hx_list_for_each (node, &work->calls) {
        const struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (!hx_span_is_absent(call->progress_token))
            return true;
    }
    return false;
}

static bool takes_key_header(const struct hx_work *work)
{
    return work->op.durable.contract.tool_class == HX_CLASS_KEYED &&
           !hx_span_is_absent(work->tool->rules.effect_key_header);
}

/* Ours in place of the caller's: id, progress token, and the effect key where the tool takes
 * one. */
static int write_request(struct hx_work *work, const struct hx_route *route, struct hx_buf *line)
{
    struct hx_gateway *gateway = work->gateway;
    const struct hx_tool_rules *rules = &work->tool->rules;
    char id[24], token[64], effect_key[HX_ID_TEXT_SIZE];
    hx_route_id_text(route, id);
    snprintf(token, sizeof(token), "\"hx-%s-%s\"", gateway->token_secret, id);
    hx_id_format(&work->op.durable.effect_key, effect_key);
    bool is_keyed = work->op.durable.contract.tool_class == HX_CLASS_KEYED;
    bool has_place = !hx_span_is_absent(rules->effect_key_argument) ||
                     !hx_span_is_absent(rules->effect_key_meta) ||
                     !hx_span_is_absent(rules->effect_key_header) || rules->is_effect_key_param;
    /* A day, since nobody knows when its caller comes back. */
    const struct hx_span task = HX_SPAN_LIT("{\"ttl\":86400000}");
    struct hx_rewrite_call change = {
        .id = hx_span_cstr(id),
        .drop_hapax_meta = true,
        .drop_param_key = true,
        .drop_task = true,
        .task = hx_task_is_wanted(route->link, work->tool) ? task : HX_SPAN_NONE,
        .drop_argument = rules->inject_key,
    };
    if (wants_progress(work))
        change.progress_token = hx_span_cstr(token);
    else
        change.drop_progress_token = true;
    if (is_keyed) {
        change.effect_key = hx_span_cstr(effect_key);
        change.effect_key_argument = rules->effect_key_argument;
        change.effect_key_meta = rules->effect_key_meta;
        change.effect_key_param = rules->is_effect_key_param;
    }
    /* A gateway of our kind knows keys by this name, whatever the tool behind it takes. */
    if (work->is_inner && !(is_keyed && has_place)) {
        change.effect_key = hx_span_cstr(effect_key);
        change.effect_key_meta = HX_SPAN_LIT(HX_MCP_META_KEY);
    }
    return hx_rewrite_call(&gateway->rewrite, hx_buf_span(&work->message), &change, line);
}

static void arm_limits(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    const struct hx_contract *contract = &work->op.durable.contract;
    int64_t limit_ms = contract->timeout_ms;
    if (limit_ms == 0 && work->op.waiters == 0)
        limit_ms = contract->orphan_timeout_ms;
    if (limit_ms > 0)
        hx_timer_arm(&gateway->timers, &work->limit, hx_mono_after(gateway->now.mono, limit_ms));
    hx_work_heard(work);
}

/* The effect key as a header, where the tool takes it there. */
static void send_request(const struct hx_work *work, struct hx_link *link, struct hx_buf *line,
                         uint64_t tag)
{
    char header[HX_RULE_HEADER_NAME_MAX + HX_ID_TEXT_SIZE + 8], effect_key[HX_ID_TEXT_SIZE];
    if (!takes_key_header(work)) {
        hx_link_send(link, line, tag);
        return;
    }
    hx_id_format(&work->op.durable.effect_key, effect_key);
    int len = snprintf(header, sizeof(header), "%.*s: %s\n",
                       HX_SPAN_FMT(work->tool->rules.effect_key_header), effect_key);
    hx_assert(len > 0 && (size_t)len < sizeof(header));
    link->upstream->ops->send_with(link->upstream, line, hx_span(header, (size_t)len), tag);
}

bool hx_work_put_on_wire(struct hx_work *work, struct hx_link *link)
{
    struct hx_buf line;
    /* Without its key a keyed tool would not recognise a repeat: then it is not sent at all. */
    if (takes_key_header(work) && link->upstream->ops->send_with == NULL)
        return false;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_WORK);
    hx_buf_init(&line, work->gateway->options.message_max + 4096);
    if (!prepare_message(work) || write_request(work, route, &line) != 0) {
        hx_buf_fini(&line);
        hx_route_free(route);
        return false;
    }
    route->work = work;
    if (work->route != NULL)
        work->route->work = NULL;
    work->route = route;
    work->is_cancel_forwarded = false;
    arm_limits(work);
    HX_CRASH_POINT("marked-not-sent");
    send_request(work, link, &line, route->id);
    hx_buf_fini(&line);
    return true;
}

void hx_work_send_now(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_link *link = hx_work_link(work);
    bool is_ready = link != NULL && hx_link_want(link);
    if (link == NULL || (is_ready && work->generation != link->generation)) {
        /* The row names the process that was there at the claim. Whoever asks later whether the
         * sender is gone must not be shown another one, so this attempt ends here, unsent. */
        hx_work_event(work, HX_EV_NOT_SENT);
        return;
    }
    if (!is_ready) {
        work->is_send_waiting = true;
        return;
    }
    work->is_send_waiting = false;
    work->search = HX_SEARCH_NONE;
    work->is_inner = link->has_operations;
    work->has_polled = false;
    hx_task_forget(work);
    if (!hx_work_put_on_wire(work, link)) {
        hx_tell(gateway, HX_TELL_ERROR, "request_unwritable", "tool=%s", work->tool->name);
        hx_work_event(work, HX_EV_NOT_SENT);
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
    struct hx_buf line, params;
    char id[24];
    hx_route_id_text(work->route, id);
    hx_buf_init(&line, 1024);
    hx_buf_init(&params, 256);
    (void)hx_buf_printf(&params, "{\"requestId\":%s,\"reason\":\"cancelled\"}", id);
    if (hx_rewrite_build_request(&line, HX_SPAN_NONE, HX_SPAN_LIT("notifications/cancelled"),
                                 hx_buf_span(&params)) == 0)
        hx_link_send(work->route->link, &line, 0);
    hx_buf_fini(&line);
    hx_buf_fini(&params);
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
        if (event->type == HX_EV_CALL && !hx_ladder_is_climbed(work))
            work->search = HX_SEARCH_NONE; /* a caller wakes it: he may bring a link with him */
        hx_ladder_begin(work);
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
