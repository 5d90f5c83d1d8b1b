/* SPDX-License-Identifier: MIT */
/*
 * The server's process as the gateway sees it: started when something needs it, greeted again after
 * a restart, given up when it starts in vain. What was in flight when it went is settled here by
 * kind: harmless requests are asked once more, guarded calls are told that their transport is lost.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/crash.h"

static void on_restart(struct hx_timer *timer)
{
    struct hx_link *link = hx_container_of(timer, struct hx_link, restart);
    (void)hx_link_want(link);
}

void hx_link_end(struct hx_link *link, bool is_killed)
{
    link->is_ending = true;
    if (is_killed)
        link->upstream->ops->kill(link->upstream);
    else
        link->upstream->ops->stop(link->upstream);
}

/* It accepted no byte of a half-written line for too long, even after its call was given up. */
static void on_stuck(struct hx_timer *timer)
{
    struct hx_link *link = hx_container_of(timer, struct hx_link, stuck);
    hx_tell(link->gateway, HX_TELL_WARN, "server_stuck", "action=restart");
    hx_link_end(link, true);
}

/* It runs and does not answer the handshake: nothing can be done with it. */
static void on_start_limit(struct hx_timer *timer)
{
    struct hx_link *link = hx_container_of(timer, struct hx_link, start_limit);
    hx_tell(link->gateway, HX_TELL_WARN, "server_mute", "action=end generation=%u",
            link->generation);
    link->was_mute = true;
    hx_link_end(link, true);
}

void hx_link_set_timers(struct hx_link *link)
{
    link->restart.fire = on_restart;
    link->stuck.fire = on_stuck;
    link->start_limit.fire = on_start_limit;
}

void hx_link_limit_handshake(struct hx_link *link)
{
    hx_timer_arm(&link->gateway->timers, &link->start_limit,
                 hx_mono_after(link->gateway->now.mono, link->server->options.start_timeout_ms));
}

void hx_link_handshake_answered(struct hx_link *link)
{
    hx_timer_disarm(&link->gateway->timers, &link->start_limit);
}

void hx_link_send(struct hx_link *link, struct hx_buf *line, uint64_t tag)
{
    link->upstream->ops->send(link->upstream, line, tag);
}

void hx_link_send_cancel(const struct hx_route *route, const char *reason)
{
    struct hx_buf line, params;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, 1024);
    hx_buf_init(&params, 256);
    (void)hx_buf_printf(&params, "{\"requestId\":%s,\"reason\":\"%s\"}", id, reason);
    if (hx_rewrite_build_request(&line, HX_SPAN_NONE, HX_SPAN_LIT("notifications/cancelled"),
                                 hx_buf_span(&params)) == 0)
        hx_link_send(route->link, &line, 0);
    hx_buf_fini(&line);
    hx_buf_fini(&params);
}

bool hx_link_want(struct hx_link *link)
{
    if (link->state == HX_LINK_READY && !link->is_input_closed)
        return true;
    if (link->state != HX_LINK_DOWN)
        return false;
    if (hx_link_is_closing(link)) {
        hx_link_fail_waiting(link);
        return false;
    }
    if (!hx_mono_reached(link->gateway->now.mono, link->not_before)) {
        hx_timer_arm_sooner(&link->gateway->timers, &link->restart, link->not_before);
        return false;
    }
    link->generation++;
    link->state = HX_LINK_STARTING;
    link->was_heard = false;
    hx_tools_forget_hints(link);
    link->started = link->gateway->now.mono;
    link->is_stalled = false;
    link->was_mute = false;
    link->is_input_closed = false;
    hx_tell(link->gateway, HX_TELL_INFO, "server_start", "generation=%u", link->generation);
    link->upstream->ops->start(link->upstream, link->generation);
    return false;
}

void hx_link_write_end(const struct hx_link *link, struct hx_buf *out)
{
    const size_t words_max = 4096;
    char reason[96];
    if (link->is_remote && link->http_status != 0)
        (void)hx_buf_printf(out, " It answered with HTTP status %d.", link->http_status);
    else if (link->is_remote)
        (void)hx_buf_append_cstr(out, " It could not be reached.");
    else if (link->was_mute)
        (void)hx_buf_append_cstr(out, " It did not answer initialize within start_timeout.");
    else if (link->state != HX_LINK_DOWN)
        return; /* it takes nothing any more, and how it ends is not known yet */
    else if (link->last_status < 0)
        (void)hx_buf_printf(out, " It could not be started: %s.",
                            strerror_r(-link->last_status, reason, sizeof(reason)));
    else if ((link->last_status & 0x7f) != 0)
        (void)hx_buf_printf(out, " It was ended by signal %d.", link->last_status & 0x7f);
    else
        (void)hx_buf_printf(out, " It ended with exit status %d.", link->last_status >> 8 & 0xff);
    struct hx_span words = hx_buf_span(&link->last_stderr);
    while (words.len > 0 && words.ptr[words.len - 1] == '\n')
        words.len--;
    if (words.len > words_max) /* so that an answer with them is small */
        words = hx_span(words.ptr + words.len - words_max, words_max);
    if (words.len > 0)
        (void)hx_buf_printf(out, " Its last words: %.*s", HX_SPAN_FMT(words));
}

void hx_link_become_ready(struct hx_link *link)
{
    link->state = HX_LINK_READY;
    hx_link_release_waiting(link);
}

static void on_started(struct hx_link *link)
{
    if (link->state != HX_LINK_STARTING)
        return;
    if ((link->generation > 1 || link->must_greet) && link->hello.initialize.len > 0)
        hx_link_greet(link);
    else
        hx_link_become_ready(link);
}

static void settle_routes(struct hx_link *link)
{
    hx_list_for_each_safe (node, &link->route_list) {
        struct hx_route_end end = hx_route_take(hx_container_of(node, struct hx_route, node));
        struct hx_request *request = end.request;
        if (end.work != NULL) {
            hx_route_lost(&end, HX_REASON_TRANSPORT_LOST, true);
        } else if (request != NULL && request->may_resend && !request->was_resent &&
                   !hx_link_is_closing(link)) {
            request->was_resent = true;
            hx_list_append(&link->waiting_requests, &request->wait_node);
        } else if (request != NULL) {
            hx_upstream_failed_request(link, request);
        }
    }
}

/* A process that ends soon after its start is not started again at once: 0.1 s, doubling to 5 s. A
 * first failure at start is told at once; callers that still wait may cause a second try. */
static void plan_restart(struct hx_link *link, bool was_ready)
{
    const int64_t good_run_ms = 5000;
    const int64_t delay_first_ms = 100;
    const int64_t delay_max_ms = 5000;
    bool was_good =
        was_ready && hx_mono_since_ms(link->gateway->now.mono, link->started) >= good_run_ms;
    link->failures = was_good ? 0 : link->failures + 1;
    int64_t delay_ms = 0;
    if (link->failures > 1) {
        unsigned doublings = link->failures - 2;
        delay_ms = doublings >= 6 ? delay_max_ms : delay_first_ms << doublings;
    }
    link->not_before = hx_mono_after(link->gateway->now.mono, delay_ms);
}

static void tell_ended(struct hx_link *link, int status, enum hx_tell level)
{
    const char *how = "exit";
    int value = status >> 8 & 0xff;
    if (status < 0) { /* it was not started */
        how = "errno";
        value = -status;
    } else if ((status & 0x7f) != 0) {
        how = "signal";
        value = status & 0x7f;
    }
    hx_tell(link->gateway, level, "server_ended", "generation=%u %s=%d", link->generation, how,
            value);
}

void hx_link_want_for_waiting(struct hx_link *link)
{
    bool is_wanted =
        !hx_list_is_empty(&link->waiting_requests) || !hx_list_is_empty(&link->waiting_calls);
    hx_list_for_each (node, &link->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        is_wanted |= work->is_send_waiting || work->is_lost_waiting || work->is_look_waiting;
    }
    if (is_wanted)
        (void)hx_link_want(link);
}

static void on_closed(struct hx_link *link, struct hx_peer_event *event)
{
    const int64_t predecessor_wait_ms = 500;
    bool was_ready = link->state == HX_LINK_READY || link->state == HX_LINK_STOPPING;
    bool was_stopping = link->state == HX_LINK_STOPPING;
    tell_ended(link, event->status, was_stopping ? HX_TELL_INFO : HX_TELL_WARN);
    link->state = HX_LINK_DOWN;
    link->is_ending = false;
    link->last_status = event->status;
    hx_buf_reset(&link->last_stderr);
    (void)hx_buf_append_span(&link->last_stderr, hx_buf_span(&event->stderr_tail));
    hx_timer_disarm(&link->gateway->timers, &link->stuck);
    hx_timer_disarm(&link->gateway->timers, &link->start_limit);
    hx_asks_of_server_gone(link);
    plan_restart(link, was_ready);
    if (!link->was_heard && !was_stopping)
        hx_server_missed(link->server);
    settle_routes(link);
    const struct hx_server_options *server = &link->server->options;
    if (!was_ready && server->is_predecessor_draining(server->context))
        link->not_before = hx_mono_after(link->gateway->now.mono, predecessor_wait_ms);
    else if (!was_ready)
        hx_link_fail_waiting(link);
    hx_link_want_for_waiting(link);
}

/* The process or session cannot be used; whoever needs it waits for the next one. */
static void go_down(struct hx_link *link)
{
    link->state = HX_LINK_DOWN;
    hx_timer_disarm(&link->gateway->timers, &link->start_limit);
    hx_asks_of_server_gone(link);
    plan_restart(link, false);
}

void hx_link_unreachable(struct hx_link *link)
{
    if (link->is_ending)
        return; /* CLOSED comes, and before it nothing may be started */
    go_down(link);
    hx_link_fail_waiting(link);
}

/* The server is there and knows us no more: a new handshake, and what waits goes on. What is in
 * flight in the old session may still be answered. */
static void on_session_lost(struct hx_link *link)
{
    bool was_ready = link->state == HX_LINK_READY;
    hx_tell(link->gateway, HX_TELL_WARN, "session_lost", "generation=%u", link->generation);
    if (link->is_ending)
        return;
    go_down(link);
    if (was_ready) {
        /* Once at once; a server that forgets every session at birth is given time. */
        link->not_before = link->gateway->now.mono;
        (void)hx_link_want(link);
    } else {
        hx_link_fail_waiting(link);
    }
}

/* A line is half out and the process takes no more: its call is unknown, the others wait. */
static void on_stalled(struct hx_link *link, uint64_t tag)
{
    struct hx_route *route = hx_route_find(link, tag);
    link->is_stalled = true;
    hx_tell(link->gateway, HX_TELL_WARN, "server_stalled", "route=%llu", (unsigned long long)tag);
    hx_timer_arm(&link->gateway->timers, &link->stuck,
                 hx_mono_after(link->gateway->now.mono, link->server->options.stuck_timeout_ms));
    if (route == NULL || route->work == NULL)
        return;
    struct hx_route_end end = {.kind = route->kind, .work = route->work};
    hx_route_lost(&end, HX_REASON_TIMED_OUT, false);
}

/* No byte of it left, and this process takes no more: the next one can be asked. Of one that took
 * not even its greeting, how it ended is the answer. */
static void question_not_sent(struct hx_link *link, struct hx_route *route)
{
    bool is_initialize = route->request != NULL && route->request->kind == HX_REQUEST_INITIALIZE;
    if (route->kind == HX_ROUTE_HANDSHAKE)
        return; /* its limit ends this process */
    if (is_initialize && !link->was_heard) {
        if (!link->is_ending)
            hx_link_end(link, false);
        return;
    }
    struct hx_route_end end = hx_route_take(route);
    struct hx_request *request = end.request;
    if (end.work != NULL) {
        hx_route_lost(&end, HX_REASON_TRANSPORT_LOST, true);
    } else if (request != NULL && !is_initialize && !request->was_resent) {
        request->was_resent = true;
        hx_list_append(&link->waiting_requests, &request->wait_node);
    } else if (request != NULL) {
        hx_upstream_failed_request(link, request);
    }
}

static void on_fate(struct hx_link *link, const struct hx_peer_event *event)
{
    struct hx_route *route = hx_route_find(link, event->tag);
    if (event->type == HX_PEER_WRITTEN && link->is_stalled) {
        link->is_stalled = false;
        hx_timer_disarm(&link->gateway->timers, &link->stuck);
    }
    if (route == NULL)
        return;
    if (route->kind != HX_ROUTE_WORK) {
        if (event->type == HX_PEER_NOT_SENT)
            question_not_sent(link, route);
        return;
    }
    struct hx_work *work = route->work;
    if (work == NULL) {
        /* An attempt that was given up while its request stood in the queue. */
        if (event->type == HX_PEER_NOT_SENT)
            hx_route_free(route);
        return;
    }
    if (work->has_polled) {
        if (event->type != HX_PEER_NOT_SENT)
            return;
        hx_route_free(route);
        hx_work_lost(work, HX_REASON_TRANSPORT_LOST, true); /* an earlier one had left */
        return;
    }
    if (event->type == HX_PEER_FIRST_BYTE) {
        HX_CRASH_POINT("first-byte-left");
        hx_work_event(work, HX_EV_FIRST_BYTE);
    } else if (event->type == HX_PEER_NOT_SENT) {
        hx_route_free(route);
        hx_work_event(work, HX_EV_NOT_SENT);
    }
}

/* The process lives on but has closed its input: let what is in flight come back, then renew it. */
static void on_input_closed(struct hx_link *link)
{
    if (link->state == HX_LINK_READY || link->state == HX_LINK_GREETING)
        link->is_input_closed = true; /* hx_link_finish_when_idle */
}

void hx_link_stop(struct hx_link *link)
{
    if (link->state == HX_LINK_DOWN || link->state == HX_LINK_STOPPING)
        return;
    link->state = HX_LINK_STOPPING;
    hx_link_end(link, false);
}

/* Of a joined operation, the caller whose link this is; else any. */
static struct hx_request *request_of_work(const struct hx_link *link, const struct hx_work *work)
{
    struct hx_request *found = NULL;
    hx_list_for_each (node, &work->calls) {
        const struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (found == NULL || call->session->link == link)
            found = call->request;
    }
    return found;
}

struct hx_request *hx_link_about(struct hx_link *link)
{
    struct hx_session *session = hx_link_session(link);
    struct hx_route *route = link->speaking != 0 ? hx_route_find(link, link->speaking) : NULL;
    if (route != NULL && route->request != NULL)
        return route->request;
    if (route != NULL && route->work != NULL)
        return request_of_work(link, route->work);
    struct hx_list *newest = session != NULL ? hx_list_last(&session->requests) : NULL;
    return newest ? hx_container_of(newest, struct hx_request, node) : NULL;
}

static void on_resume_point(struct hx_link *link, const struct hx_peer_event *event)
{
    const struct hx_route *route = hx_route_find(link, event->tag);
    /* A question about it has a stream too, which is no handle. A gateway of our kind is asked by
     * name, which finds more than the rest of a stream. */
    if (route != NULL && route->work != NULL && route->kind == HX_ROUTE_WORK &&
        !route->work->is_inner)
        hx_ladder_keep_point(route->work, hx_buf_span(&event->line));
}

void hx_link_event(struct hx_link *link, struct hx_peer_event *event)
{
    hx_link_stir(link);
    /* A server that forgot its session gets a new generation while answers of the old one still
     * come; they are told apart by their routes. What is said of a generation as a whole must be
     * of ours. */
    bool is_of_exchange = event->tag != 0 && hx_link_has_exchanges(link);
    if (event->generation != link->generation && !is_of_exchange)
        return;
    switch (event->type) {
    case HX_PEER_MESSAGE:
        link->was_heard = true;
        link->server->is_missed = false;
        hx_upstream_message(link, event);
        return;
    case HX_PEER_OVERSIZE:
        hx_outcome_oversize(link, event);
        return;
    case HX_PEER_STARTED:
        on_started(link);
        return;
    case HX_PEER_CLOSED:
        on_closed(link, event);
        return;
    case HX_PEER_STALLED:
        on_stalled(link, event->tag);
        return;
    case HX_PEER_FIRST_BYTE:
    case HX_PEER_WRITTEN:
    case HX_PEER_CUT:
        on_fate(link, event);
        return;
    case HX_PEER_NOT_SENT:
        if (hx_link_has_exchanges(link)) {
            if (link->state != HX_LINK_STOPPING)
                hx_server_missed(link->server);
            hx_exchange_not_sent(link, event);
            return;
        }
        on_fate(link, event);
        on_input_closed(link);
        return;
    case HX_PEER_ANSWER_LOST:
        hx_exchange_answer_lost(link, event);
        return;
    case HX_PEER_REJECTED:
        hx_exchange_rejected(link, event);
        return;
    case HX_PEER_SESSION_LOST:
        on_session_lost(link);
        return;
    case HX_PEER_STDERR:
        link->server->options.relay(link->server->options.context, hx_buf_span(&event->line));
        return;
    case HX_PEER_END_OF_INPUT:
    case HX_PEER_TAKEN_BACK:
    case HX_PEER_READER_GONE:
    case HX_PEER_FRONT_GONE:
    case HX_PEER_ENDED:
    case HX_PEER_EXCHANGE_GONE:
    case HX_PEER_RESUME:
        return;
    case HX_PEER_RESUME_POINT:
        on_resume_point(link, event);
        return;
    }
}
