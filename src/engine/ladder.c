/* SPDX-License-Identifier: MIT */
/*
 * The recovery ladder of an operation whose outcome is unknown, as far as it needs no contract: a
 * durable handle of the upstream's. That is a stream which can be taken up again, by this process
 * or by one after the one that died, or a task or a gateway of our kind which can be asked about.
 * The request is never sent again for it, so whatever it brings is evidence and nothing else.
 *
 * A stream may be silent for ever. So a probe looks beside it, and after LISTEN_MS nobody waits for
 * it any more; what it says then is evidence all the same.
 *
 *     LADDER ──► is there a handle? ──► a link for it ──► listen, or ask ──► late evidence
 *                     │ no                 │ none            │ nothing
 *                     └────────────────────┴─────────────────┴──► whoever waits is asked, or told
 *                                                                 "unknown"
 */
#include "engine/internal.h"

/* Less than a caller waits by default, so that a person can still be asked. */
enum { LISTEN_MS = 30 * 1000 };

/* The handle of an attempt that went to a gateway of our kind: it can be asked under our key. */
static const struct hx_span inner_handle = HX_SPAN_INIT("hapax/operations");

/* NULL: the operation is another server's, which is not here. */
static struct hx_server *server_of(const struct hx_work *work)
{
    return hx_server_named(work->gateway, work->op.durable.server);
}

bool hx_ladder_has_route(const struct hx_work *work)
{
    return work->is_listening || work->search == HX_SEARCH_ASKING;
}

void hx_ladder_begin(struct hx_work *work)
{
    bool is_possible = server_of(work) != NULL && !work->gateway->is_draining;
    if (work->search != HX_SEARCH_NONE)
        return;
    work->search = HX_SEARCH_OVER;
    if (!is_possible)
        return;
    if (work->route != NULL) {
        /* Its answer may still come where it was sent; looking whether it happened does no harm. */
        (void)hx_probe_begin(work);
        return;
    }
    work->search = HX_SEARCH_LOOKING;
    struct hx_store_request *get = hx_store_make(work->gateway, HX_STORE_RESUME_GET);
    get->resume.op = work->op.durable.id;
    hx_store_submit_for_work(work, get);
}

bool hx_ladder_is_climbed(const struct hx_work *work)
{
    return work->search != HX_SEARCH_NONE && work->search != HX_SEARCH_OVER;
}

/* A probe goes on. */
static void go_on_without(struct hx_work *work)
{
    bool is_probing = work->search == HX_SEARCH_PROBING;
    if (!is_probing)
        work->search = HX_SEARCH_OVER;
    hx_work_look_again_later(work);
    if (work->op.phase != HX_PHASE_IDLE || work->op.durable.state != HX_OP_UNKNOWN)
        return;
    if (!is_probing)
        (void)hx_probe_begin(work);
    hx_schedule_begin(work);
    hx_work_ask_person(work);
}

static void stop_listening(struct hx_work *work)
{
    work->is_listening = false;
    hx_timer_disarm(&work->gateway->timers, &work->listen);
}

void hx_ladder_over(struct hx_work *work)
{
    struct hx_server *server = server_of(work);
    stop_listening(work);
    if (server != NULL && work->link != NULL && work->link == server->listener)
        hx_work_use_link(work, NULL);
    go_on_without(work);
}

void hx_ladder_listened(struct hx_work *work)
{
    if (work->search == HX_SEARCH_LISTENING)
        go_on_without(work);
}

void hx_ladder_leave(struct hx_work *work)
{
    hx_probe_end(work);
    hx_task_forget(work);
    struct hx_route *route = work->route;
    if (work->search == HX_SEARCH_LOOKING || work->search == HX_SEARCH_STARTING)
        work->search = HX_SEARCH_OVER;
    if (!hx_ladder_has_route(work) || route == NULL)
        return;
    struct hx_link *link = route->link;
    bool is_listening = work->is_listening;
    uint64_t tag = route->id;
    stop_listening(work);
    work->search = HX_SEARCH_OVER;
    work->route = NULL;
    route->work = NULL;
    if (!is_listening) {
        hx_route_quiet(route); /* its answer will come, and find that nobody wants it */
        return;
    }
    hx_route_free(route);
    link->upstream->ops->drop(link->upstream, tag);
    hx_link_stir(link);
}

static void note_step(struct hx_work *work, const char *step)
{
    struct hx_buf note;
    char when[HX_TIME_TEXT_SIZE];
    hx_wall_format(work->gateway->now.wall, when);
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    (void)hx_buf_printf(&note, "{\"at\":\"%s\",\"what\":\"evidence\",\"step\":\"%s\"}", when, step);
    if (hx_buf_ok(&note))
        hx_store_note(work->gateway, &work->op.durable.id, hx_buf_span(&note));
    hx_buf_fini(&note);
}

static void listen_to(struct hx_work *work)
{
    struct hx_link *link = work->link;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_WORK);
    route->work = work;
    work->route = route;
    work->search = HX_SEARCH_LISTENING;
    work->is_listening = true;
    hx_timer_arm(&work->gateway->timers, &work->listen,
                 hx_mono_after(work->gateway->now.mono, LISTEN_MS));
    work->is_inner = link->has_operations; /* what comes may be its word, and no outcome */
    note_step(work, "stream taken up");
    link->upstream->ops->resume(link->upstream, work->handle, route->id);
    hx_route_give_way(route);
    (void)hx_probe_begin(work);
}

void hx_ladder_go_on(struct hx_work *work)
{
    bool is_task = hx_task_is_handle(work->handle);
    if (!is_task && !hx_span_eq(work->handle, inner_handle)) {
        listen_to(work);
        return;
    }
    work->search = HX_SEARCH_ASKING;
    if (is_task ? hx_task_follow(work, work->handle) : hx_inner_ask(work))
        note_step(work, is_task ? "task asked about" : "inner gateway asked");
    else
        hx_ladder_over(work);
}

/* Whoever is asked knows us by the link on which somebody speaks. */
static struct hx_link *link_to_ask(const struct hx_work *work, const struct hx_server *server)
{
    struct hx_list *first = hx_list_first(&work->calls);
    if (first != NULL)
        return hx_container_of(first, struct hx_call, node)->session->link;
    bool is_usable =
        work->link != NULL && !work->link->is_leaving && work->link != server->listener;
    return server->house != NULL ? server->house : is_usable ? work->link : NULL;
}

void hx_ladder_found(struct hx_work *work, struct hx_store_request *done)
{
    struct hx_server *server = server_of(work);
    bool is_wanted = server != NULL && /* or a reload has taken it away meanwhile */
                     work->op.durable.state == HX_OP_UNKNOWN && work->route == NULL;
    struct hx_link *link = NULL;
    if (work->search != HX_SEARCH_LOOKING)
        return; /* an attempt has begun in the meantime, over a link of its own */
    if (is_wanted && done->result == HX_STORE_DONE) {
        work->handle = hx_work_keep_span(work, done->resume.text);
        bool is_asked = hx_span_eq(work->handle, inner_handle) || hx_task_is_handle(work->handle);
        link = is_asked                    ? link_to_ask(work, server)
               : server->options.is_remote ? hx_link_listener(server)
                                           : NULL;
    }
    if (link == NULL) {
        hx_ladder_over(work);
        return;
    }
    hx_work_use_link(work, link);
    work->search = HX_SEARCH_STARTING;
    hx_schedule_begin(work); /* whatever is asked may not be answered */
    if (hx_link_want(link))
        hx_ladder_go_on(work);
}

static struct hx_store_request *make_put(struct hx_work *work, uint32_t attempt,
                                         struct hx_span text)
{
    struct hx_store_request *put = hx_store_make(work->gateway, HX_STORE_RESUME_PUT);
    put->resume = (struct hx_store_resume){
        .op = work->op.durable.id,
        .attempt = attempt,
        .text = hx_arena_dup(&put->arena, text),
    };
    return put;
}

void hx_ladder_keep_inner(struct hx_work *work)
{
    hx_store_submit_now(work->gateway, make_put(work, work->op.next.attempt.number, inner_handle));
}

void hx_ladder_keep_point(struct hx_work *work, struct hx_span text)
{
    hx_store_submit_quiet(work->gateway, make_put(work, work->op.durable.attempt.number, text));
}

void hx_ladder_keep_task(struct hx_work *work, struct hx_span handle)
{
    hx_store_submit_for_work(work, make_put(work, work->op.durable.attempt.number, handle));
}
