/* SPDX-License-Identifier: MIT */
/*
 * Calls that a server runs as a task of its own (2025-11-25). Clients are not told of tasks; where
 * a tool can be called in no other way, or the operator wants it, Hapax asks for one and follows
 * it.
 *
 * "Accepted" is no outcome. The handle goes to the ledger before anything is made of it, so that a
 * process after this one can go on. Asking about a task runs nothing, so it is done as often as is
 * needed; only what `tasks/result` answers is the tool's own word. An error there may be the tool's
 * or be about the task, and the task's state tells which.
 *
 *     accepted ──► tasks/result ──► a result: the outcome
 *                   ▲       │ an error
 *                   │       ▼
 *        in a while │   tasks/get ──► working: ask again · failed: the error was the outcome ·
 *                   └───────┘         anything else: lost, and the next rung may know more
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/crash.h"

enum { POLL_MS = 1000, POLL_MIN_MS = 100, POLL_MAX_MS = 30000 };

static const struct hx_span handle_prefix = HX_SPAN_INIT("tasks/result ");

bool hx_task_is_handle(struct hx_span text)
{
    return hx_span_starts_with(text, handle_prefix);
}

bool hx_task_is_wanted(const struct hx_link *link, const struct hx_tool *tool)
{
    if (!link->has_task_calls || tool->rules.task_use == HX_TASK_USE_NEVER)
        return false;
    switch (hx_tool_task_support(link, tool)) {
    case HX_MCP_TASK_REQUIRED:
        return true;
    case HX_MCP_TASK_OPTIONAL:
        return tool->rules.task_use == HX_TASK_USE_OFFERED;
    case HX_MCP_TASK_FORBIDDEN:
        return false;
    }
    return false;
}

void hx_task_forget(struct hx_work *work)
{
    hx_timer_disarm(&work->gateway->timers, &work->task.poll);
    work->task.id = HX_SPAN_NONE;
    work->task.is_status_asked = false;
    work->task.has_ended = false;
    work->task.has_failed = false;
    work->task.was_refused = false;
    work->task.progress_route = 0;
    work->task.poll_ms = POLL_MS;
}

/* The attempt in hand waits for it; else the ladder does. */
static bool is_of_attempt(const struct hx_work *work)
{
    return hx_work_has_attempt(work) && !hx_ladder_has_route(work);
}

static void lose(struct hx_work *work)
{
    bool was_cancelled = work->is_cancel_forwarded;
    bool is_attempt = is_of_attempt(work);
    hx_task_forget(work);
    if (is_attempt)
        hx_work_lost(work, was_cancelled ? HX_REASON_CANCEL_UNANSWERED : HX_REASON_UNREADABLE_REPLY,
                     false);
    else
        hx_ladder_over(work);
}

static bool send_about(struct hx_work *work, struct hx_link *link, const char *method,
                       struct hx_route *route)
{
    struct hx_buf line;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, 4096 + work->task.id.len);
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\","
                        "\"params\":{\"taskId\":%.*s}}",
                        id, method, HX_SPAN_FMT(work->task.id));
    bool is_good = hx_buf_ok(&line);
    if (is_good)
        hx_link_send(link, &line, route->id);
    hx_buf_fini(&line);
    return is_good;
}

static bool ask(struct hx_work *work, bool is_status)
{
    struct hx_link *link = work->link;
    if (link == NULL || link->state != HX_LINK_READY || !link->has_task_calls)
        return false;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_TASK);
    route->work = work;
    work->route = route;
    work->task.is_status_asked = is_status;
    if (send_about(work, link, is_status ? "tasks/get" : "tasks/result", route))
        return true;
    hx_route_free(route);
    return false;
}

static void ask_or_lose(struct hx_work *work, bool is_status)
{
    if (!ask(work, is_status))
        lose(work);
}

static void ask_later(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    hx_timer_arm(&gateway->timers, &work->task.poll,
                 hx_mono_after(gateway->now.mono, work->task.poll_ms));
}

void hx_task_due(struct hx_work *work)
{
    bool is_wanted = is_of_attempt(work) || !hx_list_is_empty(&work->calls);
    if (work->route != NULL || hx_span_is_absent(work->task.id))
        return;
    if (is_wanted)
        ask_or_lose(work, false);
    else
        lose(work);
}

/* ---- the attempt ---- */

static void keep_handle(struct hx_work *work, struct hx_span id)
{
    struct hx_buf text;
    hx_buf_init(&text, HX_STORE_RESUME_MAX);
    (void)hx_buf_append_span(&text, handle_prefix);
    (void)hx_buf_append_span(&text, id);
    hx_assert(hx_buf_ok(&text));
    hx_ladder_keep_task(work, hx_buf_span(&text));
    hx_buf_fini(&text);
}

/* Its acceptance came when it was unknown already: the ladder asks after it. */
static void accepted_late(struct hx_work *work, struct hx_span id)
{
    keep_handle(work, id);
    work->search = HX_SEARCH_NONE;
    hx_ladder_begin(work);
}

bool hx_task_accepted(struct hx_work *work, struct hx_link *link, struct hx_span task,
                      uint64_t request)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_mcp_task accepted;
    bool is_late = work->op.phase == HX_PHASE_IDLE && work->op.durable.state == HX_OP_UNKNOWN &&
                   work->search == HX_SEARCH_OVER;
    bool is_new = hx_work_has_attempt(work) && hx_span_is_absent(work->task.id);
    if ((!is_new && !is_late) || !link->has_task_calls || work->link != link)
        return false;
    if (hx_mcp_task_read(&gateway->scratch, task, &gateway->part_limits, &accepted) != 0 ||
        accepted.id.len > HX_STORE_RESUME_MAX / 2)
        return false;
    if (is_late) {
        accepted_late(work, accepted.id);
        return true;
    }
    hx_task_forget(work);
    work->task.id = hx_work_keep_span(work, accepted.id);
    work->task.progress_route = request;
    work->has_polled = true; /* what it began goes on, whatever becomes of our questions */
    HX_CRASH_POINT("task-unkept");
    keep_handle(work, work->task.id);
    hx_work_heard(work);
    if (work->is_cancel_forwarded)
        (void)hx_task_cancel(work); /* it crossed the acceptance, which it cannot undo */
    return true;
}

void hx_task_kept(struct hx_work *work)
{
    HX_CRASH_POINT("task-kept");
    if (work->route == NULL && is_of_attempt(work) && !hx_span_is_absent(work->task.id))
        ask_or_lose(work, false);
}

bool hx_task_cancel(struct hx_work *work)
{
    struct hx_link *link = work->link;
    if (hx_span_is_absent(work->task.id) || link == NULL || link->state != HX_LINK_READY)
        return false;
    /* A task is not stopped by "notifications/cancelled". What the server answers says nothing of
     * what it did. */
    struct hx_route *route = hx_route_new(link, HX_ROUTE_QUIET);
    if (send_about(work, link, "tasks/cancel", route))
        hx_route_quiet(route);
    else
        hx_route_free(route);
    return true;
}

struct hx_work *hx_task_find(struct hx_link *link, struct hx_span request_id)
{
    hx_list_for_each (node, &link->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        char id[24];
        int len = snprintf(id, sizeof(id), "%llu", (unsigned long long)work->task.progress_route);
        if (work->task.progress_route != 0 && hx_span_eq(request_id, hx_span(id, (size_t)len)))
            return work;
    }
    return NULL;
}

/* ---- what is answered ---- */

static void take_outcome(struct hx_work *work, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    bool is_error = msg->kind == HX_RPC_ERROR;
    if (is_of_attempt(work)) {
        hx_timer_disarm(&work->gateway->timers, &work->task.poll);
        hx_outcome_answer(work, msg, line);
        return;
    }
    hx_task_forget(work);
    hx_outcome_evidence(work, is_error ? msg->error : msg->result, is_error, line);
    hx_ladder_over(work);
}

bool hx_task_is_outcome(const struct hx_work *work, bool is_error)
{
    return !work->task.is_status_asked && (!is_error || work->task.has_failed);
}

static void take_result(struct hx_work *work, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    if (hx_task_is_outcome(work, msg->kind == HX_RPC_ERROR)) {
        take_outcome(work, msg, line);
    } else if (work->task.has_ended) {
        lose(work); /* it is over, and what came of it is not to be had any more */
    } else {
        work->task.was_refused = true;
        ask_or_lose(work, true);
    }
}

static void take_status(struct hx_work *work, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_mcp_task task = {0};
    if (msg->kind != HX_RPC_RESULT ||
        hx_mcp_task_read(&gateway->scratch, msg->result, &gateway->part_limits, &task) != 0 ||
        task.status == HX_MCP_TASK_OTHER || task.status == HX_MCP_TASK_CANCELLED) {
        lose(work);
        return;
    }
    if (task.poll_ms > 0)
        work->task.poll_ms = task.poll_ms < POLL_MIN_MS   ? POLL_MIN_MS
                             : task.poll_ms > POLL_MAX_MS ? POLL_MAX_MS
                                                          : task.poll_ms;
    work->task.has_failed = task.status == HX_MCP_TASK_FAILED;
    work->task.has_ended = task.status != HX_MCP_TASK_WORKING;
    hx_work_heard(work);
    if (!work->task.has_ended && work->task.was_refused)
        ask_later(work);
    else
        ask_or_lose(work, false);
}

void hx_task_answered(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line)
{
    struct hx_work *work = hx_route_take(route).work;
    if (work == NULL || hx_span_is_absent(work->task.id))
        return;
    if (work->task.is_status_asked)
        take_status(work, msg);
    else
        take_result(work, msg, line);
}

/* ---- the ladder ---- */

bool hx_task_follow(struct hx_work *work, struct hx_span handle)
{
    hx_task_forget(work);
    work->task.id = hx_span(handle.ptr + handle_prefix.len, handle.len - handle_prefix.len);
    return ask(work, true);
}
