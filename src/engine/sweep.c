/* SPDX-License-Identifier: MIT */
/*
 * What nobody asks for: operations whose owner died are settled by the rules; those that are
 * unknown are put on the ladder's schedule (schedule.c), and before a person when they have been it
 * for too long; what a person was asked and did not answer for a day ends. Runs at start and every
 * minute; it runs no tool but what a person has approved, and what the schedule may send again.
 */
#include "core/words.h"
#include "engine/internal.h"

/* A round is as long as the longest step of the ladder's schedule. */
enum { SWEEP_MS = 60 * 1000, ROWS_MAX = 256, SWEEPS_OF_ROUND = 10 };

static void scan(struct hx_gateway *gateway, int64_t after)
{
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_FIND);
    request->scan = true;
    request->scan_state = HX_OP_ABSENT; /* everything open or unknown */
    request->scan_after = after;
    request->scan_limit = ROWS_MAX;
    hx_store_submit_sweep(gateway, request);
}

static void on_sweep(struct hx_timer *timer)
{
    struct hx_gateway *gateway = hx_container_of(timer, struct hx_gateway, sweep);
    if (gateway->sweeps++ % SWEEPS_OF_ROUND == 0)
        gateway->sought_after = 0;
    if (!gateway->is_draining)
        scan(gateway, 0);
    hx_timer_arm(&gateway->timers, &gateway->sweep, hx_mono_after(gateway->now.mono, SWEEP_MS));
}

void hx_sweep_begin(struct hx_gateway *gateway)
{
    gateway->sweep.fire = on_sweep;
    hx_timer_arm(&gateway->timers, &gateway->sweep, gateway->now.mono);
}

/* Of every row once in a round, since only the ledger knows whether there is one. */
static bool is_handle_sought(struct hx_gateway *gateway, const struct hx_store_found *found)
{
    if (found->rowid <= gateway->sought_after)
        return false;
    gateway->sought_after = found->rowid;
    return true;
}

/* An operation whose outcome is unknown, and that nobody here asks for. */
static void look_after(struct hx_gateway *gateway, const struct hx_store_found *found,
                       struct hx_work *work)
{
    const struct hx_record *record = &found->record;
    if (record->state != HX_OP_UNKNOWN || record->is_superseded ||
        hx_server_named(gateway, record->server) == NULL)
        return;
    if (work != NULL) {
        /* Kept for a late answer, while there were too many to look after. */
        if (work->op.phase == HX_PHASE_IDLE && work->search == HX_SEARCH_OVER) {
            (void)hx_probe_begin(work);
            hx_schedule_begin(work);
        }
        return;
    }
    if (!record->contract.has_probe && !hx_recover_may_send_alone(record, &gateway->now) &&
        !is_handle_sought(gateway, found))
        return;
    work = hx_work_load(gateway, record, NULL);
    if (work == NULL)
        return; /* no memory; the next sweep finds it again */
    work->facts = hx_facts_of(found->owner_fact, found->is_sender_gone, found->is_epoch_current);
    hx_ladder_begin(work);
    hx_schedule_begin(work);
    hx_work_look_again_later(work);
}

static void settle(struct hx_gateway *gateway, const struct hx_store_found *found)
{
    const struct hx_record *record = &found->record;
    if (!hx_is_row_sound(gateway, record))
        return;
    bool is_left = record->state == HX_OP_RUNNING && found->owner_fact == HX_OWNER_DEAD;
    bool is_stale_question = hx_recover_needs_human(record, &gateway->now) && !record->needs_human;
    /* What was sent and refused waits for its caller: trying alone would use up its attempts. */
    bool is_approved = record->state == HX_OP_READY && hx_runs_alone(record) && record->sends == 0;
    bool is_unanswered = hx_is_unanswered(record, &gateway->now);
    struct hx_work *work = hx_work_find(gateway, &record->id);
    if (!is_left && !is_stale_question && !is_approved && !is_unanswered) {
        look_after(gateway, found, work);
        return;
    }
    if (work != NULL && is_left) {
        hx_work_read_again(work); /* it is watched here already */
        return;
    }
    if (work != NULL && work->op.phase != HX_PHASE_IDLE)
        return;
    if (work == NULL)
        work = hx_work_load(gateway, record, NULL);
    if (work == NULL)
        return; /* no memory; the next sweep finds it again */
    work->facts = hx_facts_of(found->owner_fact, found->is_sender_gone, found->is_epoch_current);
    if (is_approved)
        hx_work_look(work);
    else
        hx_work_event(work, is_stale_question ? HX_EV_HUMAN_DUE : HX_EV_LOOK);
}

void hx_sweep_found(struct hx_gateway *gateway, struct hx_store_request *found)
{
    if (found->result != HX_STORE_DONE)
        return;
    for (uint32_t i = 0; i < found->record_count; i++)
        settle(gateway, &found->records[i]);
    if (found->ret_scan_next > 0 && !gateway->is_draining)
        scan(gateway, found->ret_scan_next);
}
