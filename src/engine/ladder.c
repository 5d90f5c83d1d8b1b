/* SPDX-License-Identifier: MIT */
/*
 * The recovery ladder of an operation whose outcome is unknown, as far as it needs no contract: a
 * stream of the upstream that can be taken up again, by this process or by one after the one that
 * died. A request is never sent for it, so whatever it brings is evidence and nothing else.
 *
 *     LADDER ──► is there a resume point? ──► a link that listens ──► the answer: late evidence
 *                     └─ no                      └─ given up
 *                          └────────────────────────┴──► whoever waits is asked, or told "unknown"
 */
#include "engine/internal.h"

/* NULL: the operation is another server's, which is not here. */
static struct hx_server *server_of(const struct hx_work *work)
{
    struct hx_server *server = hx_server_find(work->gateway, work->op.durable.server);
    return hx_span_eq(server->options.name, work->op.durable.server) ? server : NULL;
}

void hx_ladder_begin(struct hx_work *work)
{
    const struct hx_server *server = server_of(work);
    bool is_possible = server != NULL && server->options.is_remote && work->route == NULL &&
                       !work->gateway->is_draining;
    if (work->search != HX_SEARCH_NONE)
        return;
    work->search = HX_SEARCH_OVER;
    if (!is_possible)
        return;
    work->search = HX_SEARCH_LOOKING;
    struct hx_store_request *get = hx_store_make(work->gateway, HX_STORE_RESUME_GET);
    get->resume.op = work->op.durable.id;
    hx_store_submit_for_work(work, get);
}

bool hx_ladder_is_climbed(const struct hx_work *work)
{
    return work->search != HX_SEARCH_NONE && work->search != HX_SEARCH_OVER;
}

void hx_ladder_over(struct hx_work *work)
{
    struct hx_server *server = server_of(work);
    work->search = HX_SEARCH_OVER;
    if (server != NULL && work->link == server->listener)
        hx_work_use_link(work, NULL);
    hx_work_look_again_later(work);
    if (work->op.phase == HX_PHASE_IDLE && work->op.durable.state == HX_OP_UNKNOWN)
        hx_work_ask_person(work);
}

static void note_listening(struct hx_work *work)
{
    struct hx_buf note;
    char when[HX_TIME_TEXT_SIZE];
    hx_wall_format(work->gateway->now.wall, when);
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    (void)hx_buf_printf(&note, "{\"at\":\"%s\",\"what\":\"evidence\",\"step\":\"stream taken up\"}",
                        when);
    if (hx_buf_ok(&note))
        hx_store_note(work->gateway, &work->op.durable.id, hx_buf_span(&note));
    hx_buf_fini(&note);
}

void hx_ladder_listen(struct hx_work *work)
{
    struct hx_link *link = work->link;
    struct hx_route *route = hx_route_new(link, HX_ROUTE_WORK);
    route->work = work;
    work->route = route;
    work->search = HX_SEARCH_LISTENING;
    note_listening(work);
    link->upstream->ops->resume(link->upstream, work->resume_text, route->id);
}

void hx_ladder_found(struct hx_work *work, struct hx_store_request *done)
{
    struct hx_server *server = server_of(work);
    bool is_wanted = work->op.durable.state == HX_OP_UNKNOWN && work->route == NULL;
    struct hx_link *link =
        is_wanted && done->result == HX_STORE_DONE ? hx_link_listener(server) : NULL;
    if (link == NULL) {
        hx_ladder_over(work);
        return;
    }
    work->resume_text = hx_work_keep_span(work, done->resume.text);
    hx_work_use_link(work, link);
    work->search = HX_SEARCH_STARTING;
    if (hx_link_want(link))
        hx_ladder_listen(work);
}

void hx_ladder_keep_point(struct hx_work *work, struct hx_span text)
{
    struct hx_store_request *put = hx_store_make(work->gateway, HX_STORE_RESUME_PUT);
    put->resume = (struct hx_store_resume){
        .op = work->op.durable.id,
        .attempt = work->op.durable.attempt.number,
        .text = hx_arena_dup(&put->arena, text),
    };
    hx_store_submit_quiet(work->gateway, put);
}
