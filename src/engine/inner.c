/* SPDX-License-Identifier: MIT */
/*
 * An upstream that is a gateway of our kind too. It knows our effect key as its key, so it may be
 * asked again under it: its "busy" and its "unknown" are no outcomes of the tool. What each word
 * means for the attempt is the core's to say (hx_inner_verdict).
 */
#include "engine/internal.h"

/* The word of ours in an answer; false: the answer is the tool's own. In a result it stands in the
 * envelope, and a gateway puts its own there in place of whatever the tool wrote. */
static bool read_word(const struct hx_mcp_call_result *result, const struct hx_mcp_error *error,
                      struct hx_inner_word *ret_word)
{
    struct hx_span code = result->code;
    bool is_error = error->data_code.state == HX_MCP_TEXT_GIVEN;
    *ret_word = (struct hx_inner_word){.is_marked = !is_error || error->is_own_word,
                                       .is_said_unsafe = error->is_said_unsafe};
    if (is_error)
        return hx_answer_parse(error->data_code.text, &ret_word->code);
    /* Our own codes hold nothing that would be escaped. */
    if (hx_span_is_absent(code) || code.len < 2)
        return false;
    return hx_answer_parse(hx_span(code.ptr + 1, code.len - 2), &ret_word->code);
}

static void ask_again_later(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    work->has_polled = true;
    work->polled = work->link->generation;
    hx_timer_arm(&gateway->timers, &work->inner_poll,
                 hx_mono_after(gateway->now.mono, HX_REFUSED_WAIT_MS));
}

static void end_refused(struct hx_work *work, const struct hx_outcome *outcome)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_REFUSED_FINAL);
    event.outcome = *outcome;
    hx_work_step(work, &event, NULL);
}

/* Nothing was sent, and the one behind has tried for as long as we would: whoever waits is told,
 * and may come again under his key. */
static void end_unavailable(struct hx_work *work)
{
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        hx_call_refuse(call, HX_ANSWER_UPSTREAM_UNAVAILABLE,
                       "The gateway before it cannot run the call now.");
    }
    struct hx_event event = hx_work_make_event(work, HX_EV_REFUSED_TRANSIENT);
    event.not_before_ms = HX_REFUSED_WAIT_MS;
    event.is_for_caller = true;
    hx_work_step(work, &event, NULL);
}

static void end_gone(struct hx_work *work, const struct hx_outcome *outcome)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_REPLY);
    event.reason = HX_REASON_ANSWERED;
    event.outcome = *outcome;
    event.outcome.place = HX_OUTCOME_GONE;
    event.outcome.bytes = HX_SPAN_NONE;
    hx_work_step(work, &event, NULL);
}

static enum hx_inner_before sent_before(const struct hx_work *work)
{
    if (work->has_polled)
        return HX_INNER_THIS_ATTEMPT;
    return hx_nothing_sent_before(&work->op.durable) ? HX_INNER_NOTHING : HX_INNER_EARLIER_ATTEMPTS;
}

/* It comes when we no longer wait for it, or on a stream that was taken up. That something happened
 * is evidence, whenever it is said; any other word is about the moment in which it was said, and
 * whoever searches goes on. */
static void take_late(struct hx_work *work, enum hx_inner verdict, const struct hx_outcome *outcome)
{
    if (verdict == HX_INNER_GONE)
        end_gone(work, outcome);
    if (hx_ladder_has_route(work)) {
        hx_ladder_over(work);
        return;
    }
    if (work->search == HX_SEARCH_OVER && work->op.phase == HX_PHASE_IDLE &&
        work->op.durable.state == HX_OP_UNKNOWN) {
        /* Nothing more will come where it was sent, so it can be asked about. */
        work->search = HX_SEARCH_NONE;
        hx_ladder_begin(work);
    }
    hx_work_look_again_later(work);
}

bool hx_inner_take(struct hx_work *work, const struct hx_mcp_call_result *result,
                   const struct hx_mcp_error *error, const struct hx_outcome *outcome)
{
    struct hx_inner_word word;
    if (!work->is_inner || !read_word(result, error, &word))
        return false;
    enum hx_inner verdict = hx_inner_verdict(&word, sent_before(work));
    if (!hx_work_has_attempt(work) && verdict != HX_INNER_OUTCOME) {
        take_late(work, verdict, outcome);
        return true;
    }
    switch (verdict) {
    case HX_INNER_OUTCOME:
        return false;
    case HX_INNER_POLL:
        ask_again_later(work);
        return true;
    case HX_INNER_UNKNOWN:
        hx_work_lost(work, HX_REASON_INNER_UNKNOWN, false);
        return true;
    case HX_INNER_REFUSED:
        end_refused(work, outcome);
        return true;
    case HX_INNER_UNAVAILABLE:
        end_unavailable(work);
        return true;
    case HX_INNER_GONE:
        end_gone(work, outcome);
        return true;
    }
    return false;
}

/* It runs there, so what is lost here will be known there. Only for somebody who waits. */
static void ask_once_more(struct hx_work *work)
{
    bool is_wanted = work->search == HX_SEARCH_ASKING && work->route == NULL &&
                     work->op.durable.state == HX_OP_UNKNOWN;
    if (is_wanted && (hx_list_is_empty(&work->calls) || !hx_inner_ask(work)))
        hx_ladder_over(work);
}

void hx_inner_poll(struct hx_work *work)
{
    struct hx_link *link = work->link;
    if (!hx_work_has_attempt(work)) {
        ask_once_more(work);
        return;
    }
    /* Who is there after a session or a process was lost may be another one, to whom the same call
     * would be a new one. He can be asked what he knows. */
    bool may_ask = link != NULL && link->state == HX_LINK_READY && link->has_operations &&
                   link->generation == work->polled;
    if (work->route != NULL)
        return;
    if (!may_ask || !hx_work_put_on_wire(work, link))
        hx_work_lost(work, HX_REASON_TRANSPORT_LOST, true);
}

/* ---- what it knows of an operation that we lost ---- */

bool hx_inner_ask(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_link *link = work->link;
    if (link == NULL || link->state != HX_LINK_READY || !link->has_operations)
        return false;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_QUERY);
    struct hx_buf line;
    struct hx_json_writer writer;
    char id[24], key[HX_ID_TEXT_SIZE];
    hx_route_id_text(route, id);
    hx_id_format(&work->op.durable.effect_key, key);
    hx_buf_init(&line, gateway->options.message_max);
    hx_json_writer_init(&writer, &line);
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"hapax/operations/get\","
                        "\"params\":{\"key\":\"%s\",\"tool\":",
                        id, key);
    hx_json_put_string(&writer, work->op.durable.tool);
    (void)hx_buf_append_cstr(&line, "}}");
    if (!hx_buf_ok(&line)) {
        hx_buf_fini(&line);
        hx_route_free(route);
        return false;
    }
    route->work = work;
    work->route = route;
    hx_link_send(link, &line, route->id);
    hx_buf_fini(&line);
    return true;
}

/* It has no outcome, and gets none by being asked: it waits there for somebody who calls. The core
 * may call again under the key; once for each time that we take the operation in hand, or the two
 * of us would use up the attempts among ourselves. */
static void has_no_outcome(struct hx_work *work)
{
    if (work->was_called_again || work->op.phase != HX_PHASE_IDLE) {
        hx_ladder_over(work);
        return;
    }
    work->was_called_again = true;
    work->search = HX_SEARCH_OVER;
    work->facts.recognises_key = true;
    hx_work_event(work, HX_EV_LOOK);
    work->facts.recognises_key = false;
}

/* What somebody there works at, or waits for a person, is waited for. */
static bool goes_on(struct hx_span execution)
{
    enum hx_op_state state;
    return hx_op_state_parse(execution, &state) &&
           (state == HX_OP_RUNNING || state == HX_OP_AWAITING_APPROVAL ||
            state == HX_OP_INPUT_REQUIRED);
}

static bool waits_for_a_call(struct hx_span execution)
{
    enum hx_op_state state;
    return hx_op_state_parse(execution, &state) && (state == HX_OP_READY || state == HX_OP_UNKNOWN);
}

/* Of what was ever sent it got the only request, and made this row of it. `cancelled` may be the
 * tombstone of a cancel that came without its call. */
static void has_failed(struct hx_work *work)
{
    struct hx_event event = hx_work_make_event(work, HX_EV_ABSENCE_PROVED);
    event.seen_attempt = work->op.durable.attempt.number;
    event.is_receivers_word = true;
    work->search = HX_SEARCH_OVER;
    hx_work_step(work, &event, NULL);
    if (work->op.phase == HX_PHASE_IDLE)
        hx_ladder_over(work); /* it proved nothing */
}

static bool is_state(struct hx_span execution, enum hx_op_state wanted)
{
    enum hx_op_state state;
    return hx_op_state_parse(execution, &state) && state == wanted;
}

static bool says_not_found(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_json_tape *tape = &gateway->scratch;
    if (msg->kind != HX_RPC_ERROR || hx_json_read(tape, msg->error, &gateway->part_limits) != 0)
        return false;
    uint32_t data = hx_json_member(tape, 0, HX_SPAN_LIT("data"));
    return hx_json_is_text(tape, hx_json_member(tape, data, HX_SPAN_LIT("code")),
                           HX_SPAN_LIT("NOT_FOUND"));
}

static void take_row(struct hx_work *work, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_json_tape *tape = &gateway->scratch;
    bool is_result =
        msg->kind == HX_RPC_RESULT && hx_json_read(tape, msg->result, &gateway->part_limits) == 0;
    uint32_t operation =
        is_result ? hx_json_member(tape, 0, HX_SPAN_LIT("operation")) : HX_JSON_NONE;
    uint32_t result = hx_json_member(tape, operation, HX_SPAN_LIT("result"));
    uint32_t error = hx_json_member(tape, operation, HX_SPAN_LIT("error"));
    uint32_t named = hx_json_member_of(tape, operation, HX_SPAN_LIT("execution"), HX_JSON_STRING);
    struct hx_span execution =
        named != HX_JSON_NONE ? hx_json_content(tape, named) : HX_SPAN_LIT("");
    bool is_gone = hx_json_is_text(tape, hx_json_member(tape, operation, HX_SPAN_LIT("payload")),
                                   HX_SPAN_LIT("gone"));
    if (result != HX_JSON_NONE || error != HX_JSON_NONE) {
        bool is_error = result == HX_JSON_NONE;
        struct hx_span bytes = hx_json_raw(tape, is_error ? error : result);
        hx_outcome_evidence(work, bytes, is_error, line);
    } else if (is_gone && is_state(execution, HX_OP_SUCCEEDED)) {
        hx_outcome_gone(work);
    } else if (is_state(execution, HX_OP_FAILED)) {
        has_failed(work);
    } else if (waits_for_a_call(execution)) {
        has_no_outcome(work);
    } else if (goes_on(execution)) {
        hx_timer_arm(&gateway->timers, &work->inner_poll,
                     hx_mono_after(gateway->now.mono, HX_REFUSED_WAIT_MS));
    } else {
        hx_ladder_over(work);
    }
}

void hx_inner_answered(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_gateway *gateway = route->link->gateway;
    struct hx_work *work = hx_route_take(route).work;
    if (work == NULL)
        return;
    /* Who does not know the key may be another one than he to whom it was sent, with another
     * ledger, or know us by another name: it proves nothing (semantics section 7). */
    if (says_not_found(gateway, msg))
        hx_ladder_over(work);
    else
        take_row(work, msg, line);
}
