/* SPDX-License-Identifier: MIT */
/*
 * The schedule of the recovery ladder: an operation whose outcome is unknown is looked at again
 * after 5 s, 15 s, 45 s and so on, also when nobody asks for it any more. Each look tries what the
 * ledger has a handle for (ladder.c), and then shows the row as it is now to the core, which may
 * send it once more under its effect key. The rung that probes keeps time by itself (probe.c).
 *
 * It survives a restart, since the sweep takes up whatever stands in the ledger: how often it was
 * sent stands there too, and tells how far the schedule had come. Where callers wait they have
 * brought more than a look can, so then it only waits.
 */
#include "engine/internal.h"

/* Operations that one process looks after at the same time; others wait for their turn. */
enum { SCHEDULED_MAX = 256 };
/* A server that is not there is tried for so many seconds, and then again at the next look. */
enum { SOON_MS = 1000, WAITS_MAX = 20 };

static bool may_be_sent(const struct hx_work *work)
{
    return hx_recover_may_send_alone(&work->op.durable, &work->gateway->now) &&
           hx_work_can_be_written(work);
}

/* Whatever else a look finds, a later one finds no more. */
static bool is_possible(const struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    struct hx_gateway *gateway = work->gateway;
    if (record->state != HX_OP_UNKNOWN || record->is_superseded || hx_gateway_is_leaving(gateway) ||
        hx_server_named(gateway, record->server) == NULL || !hx_is_same_target(gateway, record))
        return false;
    return !hx_span_is_absent(work->handle) || may_be_sent(work);
}

static void plan(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    hx_timer_arm(&gateway->timers, &work->rung,
                 hx_mono_after(gateway->now.mono, hx_recover_delay_ms(work->rung_tries)));
}

struct hx_link *hx_schedule_link(struct hx_work *work)
{
    struct hx_list *first = hx_list_first(&work->calls);
    struct hx_server *server = hx_server_named(work->gateway, work->op.durable.server);
    if (first != NULL)
        return hx_container_of(first, struct hx_call, node)->session->link;
    if (server == NULL || server->house != NULL)
        return server != NULL ? server->house : NULL;
    struct hx_link *link = hx_link_shared(server, HX_SPAN_LIT("hapax: probes"));
    if (link != NULL)
        hx_link_linger(link); /* a process of its own does not outlive the looks for long */
    return link;
}

static bool is_there(struct hx_link *link)
{
    return link != NULL && link->hello.initialize.len > 0 && hx_link_want(link);
}

/* The core decides, on the row as it is then. */
static void send_again(struct hx_work *work)
{
    work->is_rung_due = false;
    bool is_alone = work->op.phase == HX_PHASE_IDLE && hx_list_is_empty(&work->calls);
    struct hx_link *link = is_alone && may_be_sent(work) ? hx_schedule_link(work) : NULL;
    if (!is_there(link))
        return;
    hx_work_use_link(work, link);
    hx_work_read_again(work);
}

/* Also when a search of the ladder is over, so that what is due behind it is done. */
void hx_schedule_begin(struct hx_work *work)
{
    unsigned tries = hx_recover_looks_done(&work->op.durable);
    if (!is_possible(work)) {
        hx_schedule_end(work);
        return;
    }
    if (!work->is_scheduled && work->gateway->scheduled_count < SCHEDULED_MAX) {
        work->gateway->scheduled_count++;
        work->is_scheduled = true;
        work->rung_tries = work->rung_tries > tries ? work->rung_tries : tries;
        plan(work);
    }
    bool is_heard_out = work->search == HX_SEARCH_OVER || work->search == HX_SEARCH_PROBING;
    if (work->is_rung_due && is_heard_out)
        send_again(work);
}

void hx_schedule_end(struct hx_work *work)
{
    work->is_rung_due = false;
    if (!work->is_scheduled)
        return;
    work->is_scheduled = false;
    work->gateway->scheduled_count--;
    hx_timer_disarm(&work->gateway->timers, &work->rung);
    hx_work_look_again_later(work); /* it may be all that kept it in memory */
}

void hx_schedule_due(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    if (!is_possible(work)) {
        hx_schedule_end(work);
        return;
    }
    bool is_alone = work->op.phase == HX_PHASE_IDLE && hx_list_is_empty(&work->calls);
    struct hx_link *link = is_alone ? hx_schedule_link(work) : NULL;
    bool may_look = is_there(link);
    if (is_alone && !may_look && work->rung_waits++ < WAITS_MAX) {
        hx_timer_arm(&gateway->timers, &work->rung, hx_mono_after(gateway->now.mono, SOON_MS));
        return;
    }
    work->rung_waits = 0;
    work->rung_tries++;
    plan(work);
    if (!may_look)
        return;
    work->is_rung_due = true;
    if (work->search == HX_SEARCH_ASKING)
        hx_ladder_leave(work); /* not answered since the last look */
    if (work->search == HX_SEARCH_NONE || work->search == HX_SEARCH_OVER) {
        hx_work_use_link(work, link);
        work->search = HX_SEARCH_NONE;
        hx_ladder_begin(work);
    }
    /* What is listened or asked for is heard out before: see hx_schedule_begin. */
    if (!hx_ladder_is_climbed(work) || work->search == HX_SEARCH_PROBING)
        send_again(work);
}
