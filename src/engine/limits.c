/* SPDX-License-Identifier: MIT */
/*
 * The clocks of an operation in hand: how long its tool may take, how long it may be silent, how
 * long a forwarded cancel may stay unanswered, and when to look at the ledger again. A timeout
 * stops waiting, not listening: a late answer is evidence.
 */
#include "core/words.h"
#include "engine/internal.h"

/* While a person is asked on behalf of the server, the tool is not slow: the person is. */
static bool is_clock_stopped(struct hx_work *work, struct hx_timer *timer)
{
    const int64_t look_again_ms = 1000;
    struct hx_gateway *gateway = work->gateway;
    if (work->link == NULL || work->link->server_asks == 0)
        return false;
    hx_timer_arm(&gateway->timers, timer, hx_mono_after(gateway->now.mono, look_again_ms));
    return true;
}

static void on_limit(struct hx_timer *timer)
{
    struct hx_work *work = hx_container_of(timer, struct hx_work, limit);
    if (!is_clock_stopped(work, timer))
        hx_work_lost(work, HX_REASON_TIMED_OUT, false);
}

static void on_idle(struct hx_timer *timer)
{
    struct hx_work *work = hx_container_of(timer, struct hx_work, idle);
    if (!is_clock_stopped(work, timer))
        hx_work_lost(work, HX_REASON_TIMED_OUT, false);
}

static void on_cancel_unanswered(struct hx_timer *timer)
{
    struct hx_work *work = hx_container_of(timer, struct hx_work, cancel);
    hx_work_lost(work, HX_REASON_CANCEL_UNANSWERED, false);
}

void hx_work_look(struct hx_work *work)
{
    bool would_run = work->op.phase == HX_PHASE_IDLE && work->op.durable.state == HX_OP_READY &&
                     (work->op.waiters > 0 || hx_runs_alone(&work->op.durable));
    struct hx_link *link = would_run ? hx_work_link(work) : NULL;
    if (link != NULL && !hx_link_want(link)) {
        work->is_look_waiting = true;
        return;
    }
    hx_work_event(work, HX_EV_LOOK);
}

static void on_look(struct hx_timer *timer)
{
    hx_work_look(hx_container_of(timer, struct hx_work, look));
}

static void on_poll(struct hx_timer *timer)
{
    hx_work_read_again(hx_container_of(timer, struct hx_work, poll));
}

static void on_probe(struct hx_timer *timer)
{
    hx_probe_due(hx_container_of(timer, struct hx_work, probe));
}

static void on_listen(struct hx_timer *timer)
{
    hx_ladder_listened(hx_container_of(timer, struct hx_work, listen));
}

static void on_rung(struct hx_timer *timer)
{
    hx_schedule_due(hx_container_of(timer, struct hx_work, rung));
}

static void on_inner_poll(struct hx_timer *timer)
{
    hx_inner_poll(hx_container_of(timer, struct hx_work, inner_poll));
}

static void on_task(struct hx_timer *timer)
{
    hx_task_due(hx_container_of(timer, struct hx_work, task.poll));
}

void hx_work_heard(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    int64_t idle_ms = work->op.durable.contract.idle_timeout_ms;
    if (idle_ms > 0 && hx_work_has_attempt(work))
        hx_timer_arm(&gateway->timers, &work->idle, hx_mono_after(gateway->now.mono, idle_ms));
}

void hx_work_set_timers(struct hx_work *work)
{
    work->limit.fire = on_limit;
    work->idle.fire = on_idle;
    work->cancel.fire = on_cancel_unanswered;
    work->look.fire = on_look;
    work->poll.fire = on_poll;
    work->inner_poll.fire = on_inner_poll;
    work->probe.fire = on_probe;
    work->listen.fire = on_listen;
    work->rung.fire = on_rung;
    work->task.poll.fire = on_task;
}
