/* SPDX-License-Identifier: MIT */
/*
 * The request of an attempt: written with ids of ours in place of the caller's, and put on the
 * wire.
 *
 * Nothing here decides whether it may go: its intent is durable and marked. Whatever keeps it from
 * leaving ends the attempt as not sent, so that nobody has to guess; only for a server that is
 * being started it waits.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/crash.h"

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

/* Members that the fingerprint leaves out may differ from what a person saw; what he approved is
 * what runs (I21). */
static bool says_what_was_approved(const struct hx_call *call, const struct hx_record *record)
{
    return !record->is_approved || hx_span_eq(call->arguments, record->arguments);
}

/* Without the arguments it would be another call. */
static bool has_arguments(const struct hx_work *work)
{
    return !hx_span_is_absent(work->op.durable.arguments) || work->tool->rules.has_stored_arguments;
}

bool hx_work_can_be_written(const struct hx_work *work)
{
    bool is_there = hx_buf_ok(&work->message) && work->message.len > 0;
    return is_there || !hx_list_is_empty(&work->calls) || has_arguments(work);
}

/* The request to send: the first caller's own line, or, when nobody here has one, made from the
 * row. */
static bool prepare_message(struct hx_work *work)
{
    if (hx_buf_ok(&work->message) && work->message.len > 0)
        return true;
    hx_buf_reset(&work->message); /* the last time there was no memory for it */
    const struct hx_record *record = &work->op.durable;
    hx_list_for_each (node, &work->calls) {
        const struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (!call->is_resumed && says_what_was_approved(call, record))
            return hx_buf_append_span(&work->message, hx_buf_span(&call->request->message)) == 0;
    }
    return has_arguments(work) && hx_write_call(&work->message, HX_SPAN_LIT("0"), record);
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

void hx_work_name_transport(struct hx_work *work, const struct hx_link *link)
{
    char *name = work->op.next.attempt.transport;
    memset(name, 0, HX_TRANSPORT_NAME_MAX);
    snprintf(name, HX_TRANSPORT_NAME_MAX, "%s", hx_link_transport(work->gateway, link));
}

static bool is_named(const struct hx_work *work, const struct hx_link *link)
{
    const char *name = work->op.durable.attempt.transport;
    return strncmp(name, hx_link_transport(work->gateway, link), HX_TRANSPORT_NAME_MAX - 1) == 0;
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
        hx_route_leave(work);
    work->route = route;
    work->is_cancel_forwarded = false;
    if (!work->has_polled)
        arm_limits(work); /* of the attempt: it goes on, however often we ask */
    hx_work_heard(work);
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
    bool is_other = is_ready && (work->generation != link->generation || !is_named(work, link));
    if (link == NULL || is_other) {
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
