/* SPDX-License-Identifier: MIT */
/*
 * What the ledger answers about an operation in hand: a row read again, a write that ended, a
 * payload.
 */
#include "engine/internal.h"

enum { POLL_MS = 200, ASKED_POLL_MS = 1000 };

void hx_work_read_again(struct hx_work *work)
{
    /* With an attempt in hand the row is ours; all it can tell is that somebody asks for a
     * cancel. */
    bool is_readable = work->op.phase == HX_PHASE_IDLE || hx_work_has_attempt(work);
    if (work->is_reading || !is_readable)
        return;
    struct hx_store_request *request = hx_store_make(work->gateway, HX_STORE_FIND);
    request->find_id = true;
    request->record.id = work->op.durable.id;
    work->is_reading = true;
    hx_store_submit_for_work(work, request);
}

static void look_when_possible(struct hx_work *work)
{
    struct hx_timers *timers = &work->gateway->timers;
    hx_timer_arm_sooner(timers, &work->look, work->gateway->now.mono);
}

/* Rows are bytes from a disk: one that contradicts itself is reported, never worked on. */
bool hx_is_row_sound(struct hx_gateway *gateway, const struct hx_record *record)
{
    const char *flaw = hx_record_flaw(record);
    char id[HX_ID_TEXT_SIZE];
    if (flaw == NULL)
        return true;
    hx_id_format(&record->id, id);
    hx_tell(gateway, HX_TELL_ERROR, "row_flawed", "operation=%s flaw=\"%s\"", id, flaw);
    return false;
}

struct hx_facts hx_facts_of(enum hx_owner_fact owner, bool is_sender_gone, bool is_epoch_current)
{
    static const enum hx_hands hands[] = {
        [HX_OWNER_NOBODY] = HX_HANDS_NOBODY,
        [HX_OWNER_MINE] = HX_HANDS_MINE,
        [HX_OWNER_ALIVE] = HX_HANDS_ALIVE,
        [HX_OWNER_DEAD] = HX_HANDS_DEAD,
        [HX_OWNER_ELSEWHERE] = HX_HANDS_ELSEWHERE,
        [HX_OWNER_ELSEWHERE_LAPSED] = HX_HANDS_ELSEWHERE_LAPSED,
    };
    return (struct hx_facts){
        .hands = hands[owner],
        .is_sender_gone = is_sender_gone,
        .is_epoch_current = is_epoch_current || owner == HX_OWNER_MINE,
    };
}

static bool is_question_open(const struct hx_work *work)
{
    return work->op.durable.state == HX_OP_UNKNOWN && work->op.waiters > 0 &&
           (hx_ladder_is_climbed(work) || work->ask != NULL);
}

static void tell_who_waited_enough(struct hx_work *work)
{
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
        if (call->has_waited_enough)
            hx_work_step(work, &event, call);
    }
}

void hx_work_found(struct hx_work *work, struct hx_store_request *done)
{
    struct hx_gateway *gateway = work->gateway;
    work->is_reading = false;
    hx_work_look_again_later(work);
    if (hx_work_has_attempt(work) && done->record_count > 0 &&
        done->records[0].record.is_cancel_requested)
        hx_work_cancel_upstream(work);
    if (work->op.phase != HX_PHASE_IDLE)
        return;
    if (done->result != HX_STORE_DONE || done->record_count == 0) {
        hx_timer_arm(&gateway->timers, &work->poll, hx_mono_after(gateway->now.mono, POLL_MS));
        return;
    }
    const struct hx_store_found *found = &done->records[0];
    if (!hx_is_row_sound(gateway, &found->record)) {
        hx_timer_arm(&gateway->timers, &work->poll, hx_mono_after(gateway->now.mono, POLL_MS));
        return;
    }
    enum hx_op_state before = work->op.durable.state;
    bool is_as_before =
        found->record.fence == work->op.durable.fence && found->record.state == before;
    if (!is_as_before && !hx_work_keep_record(work, &found->record, &work->op.durable)) {
        tell_who_waited_enough(work);
        hx_timer_arm(&gateway->timers, &work->poll, hx_mono_after(gateway->now.mono, POLL_MS));
        return;
    }
    work->op.durable.is_cancel_requested |= found->record.is_cancel_requested; /* raises no fence */
    work->facts = hx_facts_of(found->owner_fact, found->is_sender_gone, found->is_epoch_current);
    tell_who_waited_enough(work);
    bool is_down_known = work->is_down_known;
    work->is_down_known = false;
    if (is_as_before && is_down_known && before == HX_OP_READY)
        hx_work_tell_down(work);
    else if (is_as_before && is_question_open(work))
        hx_work_ask_person(work); /* who waits goes on waiting, and the row is watched */
    else if (work->op.durable.state == HX_OP_READY && work->op.waiters > 0)
        look_when_possible(work);
    else
        hx_work_event(work, HX_EV_LOOK);
    bool is_asked = work->ask != NULL && work->ask->kind == HX_ASK_APPROVAL;
    if (is_asked && work->op.durable.state != HX_OP_AWAITING_APPROVAL)
        hx_person_unasked(work->ask); /* somebody else has decided */
    else if (is_asked)
        hx_timer_arm_sooner(&gateway->timers, &work->poll,
                            hx_mono_after(gateway->now.mono, ASKED_POLL_MS));
}

/* Whoever stands behind them may be their silent repeat, and finds out only when they have been
 * answered. */
static void leave_gates(struct hx_work *work)
{
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        call->gone_to = work->op.durable.id;
        call->has_gone = true;
        hx_transport_repeat_tell(call, &work->op.durable.id);
        hx_gate_leave(call);
    }
}

static void payload_read(struct hx_work *work, struct hx_store_request *done);

/* The claim was tried without looking, and its caller still waits. */
static bool was_unseen(const struct hx_work *work)
{
    struct hx_list *first = hx_list_first(&work->calls);
    const struct hx_call *call = first ? hx_container_of(first, struct hx_call, node) : NULL;
    return call != NULL && call->was_unseen && !call->has_looked;
}

void hx_work_stored(struct hx_work *work, struct hx_store_request *done)
{
    struct hx_gateway *gateway = work->gateway;
    if (done->kind == HX_STORE_PAYLOAD) {
        payload_read(work, done);
        return;
    }
    struct hx_event event = hx_work_make_event(work, HX_EV_STORED);
    struct hx_record fresh;
    switch (done->result) {
    case HX_STORE_DONE:
        if (done->kind == HX_STORE_SPOOL)
            event.type = HX_EV_SPOOLED;
        break;
    case HX_STORE_STALE:
        if (done->record_count > 0 &&
            (!hx_is_row_sound(gateway, &done->records[0].record) ||
             !hx_work_keep_record(work, &done->records[0].record, &fresh))) {
            event.type = HX_EV_STORE_FAILED; /* nothing was written, and the row says nothing */
            break;
        }
        event.type = HX_EV_STALE;
        if (done->record_count > 0) {
            const struct hx_store_found *row = &done->records[0];
            event.fresh = &fresh;
            work->facts = hx_facts_of(row->owner_fact, row->is_sender_gone, row->is_epoch_current);
            event.facts = work->facts;
            event.facts.is_same_target = hx_is_same_target(gateway, &fresh);
        }
        break;
    case HX_STORE_NOT_DONE:
        event.type = HX_EV_STORE_FAILED;
        memcpy(work->ledger_error, done->error, sizeof(work->ledger_error));
        hx_tell(gateway, HX_TELL_ERROR, "ledger_failed", "error=\"%s\"", done->error);
        if (done->kind == HX_STORE_INSERT && was_unseen(work)) {
            /* Nothing can be begun, but a stored outcome can still be read: look before refusing.
             * */
            event.type = HX_EV_STALE;
            break;
        }
        if (done->kind == HX_STORE_SPOOL)
            return; /* the commit is tried again all the same */
        break;
    }
    if (done->kind == HX_STORE_INSERT && done->result == HX_STORE_DONE)
        leave_gates(work);
    bool is_claim = done->result == HX_STORE_DONE && done->kind != HX_STORE_SPOOL &&
                    work->op.phase == HX_PHASE_WRITING && work->op.next.state == HX_OP_RUNNING;
    if (is_claim) {
        /* What was looked up about the row spoke of the owner before us. */
        work->facts.hands = HX_HANDS_MINE;
        work->facts.is_sender_gone = false;
        work->facts.is_epoch_current = true;
    }
    event.is_marked = done->result == HX_STORE_DONE && done->is_marked;
    event.marked_at = done->marked_at;
    hx_work_step(work, &event, NULL);
}

/* The stored result is there and cannot be had now: nobody is told that it is gone. */
static void cannot_read(struct hx_work *work)
{
    struct hx_list *node;
    while ((node = hx_list_first(&work->calls)) != NULL) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        call->is_result_unread = true;
        hx_call_answer(call, HX_ANSWER_RESULT_UNAVAILABLE, hx_op_answered_record(&work->op));
    }
    hx_work_look_again_later(work);
}

static void payload_read(struct hx_work *work, struct hx_store_request *done)
{
    work->is_payload_reading = false;
    struct hx_outcome *outcome = &work->op.durable.outcome;
    struct hx_span payload = HX_SPAN_NONE;
    if (done->result == HX_STORE_DONE && !hx_span_is_absent(done->payload))
        payload = hx_arena_dup(&work->arena, done->payload);
    if (done->result == HX_STORE_NOT_DONE ||
        (hx_span_is_absent(payload) && !hx_span_is_absent(done->payload))) {
        cannot_read(work);
        return;
    }
    outcome->bytes = payload;
    if (hx_span_is_absent(payload))
        outcome->place = HX_OUTCOME_GONE;
    struct hx_effect answer = {.type = HX_DO_ANSWER_ALL,
                               .answer = outcome->place == HX_OUTCOME_GONE
                                             ? HX_ANSWER_RESULT_UNAVAILABLE
                                             : HX_ANSWER_OUTCOME};
    struct hx_event event = hx_work_make_event(work, HX_EV_LOOK);
    hx_effect_run(work, &answer, &event, NULL);
    hx_work_look_again_later(work);
}
