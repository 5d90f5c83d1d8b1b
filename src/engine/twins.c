/* SPDX-License-Identifier: MIT */
/*
 * The equal operations that the ledger named for a call: who still waits for them, here or in
 * another process, what the core makes of that, and adopting one of them.
 */
#include "engine/internal.h"

static void decide(struct hx_call *call);

/* Somebody is on his way to it, as from an operation to its successor, and the ledger has not yet
 * told him where it is: he waits for it all the same. */
static bool is_followed(const struct hx_call *call, const struct hx_record *record)
{
    hx_list_for_each (at, &call->gateway->sessions) {
        const struct hx_session *session = hx_container_of(at, struct hx_session, node);
        hx_list_for_each (node, &session->requests) {
            const struct hx_request *request = hx_container_of(node, struct hx_request, node);
            const struct hx_call *other = request->call;
            if (other == NULL || other == call || other->work != NULL || !other->is_following ||
                !hx_digest_eq(&other->wanted.twin, &call->wanted.twin))
                continue;
            bool is_it = hx_id_is_nil(&other->follow_id)
                             ? hx_digest_eq(&other->follow, &record->identity)
                             : hx_id_eq(&other->follow_id, &record->id);
            if (is_it && hx_session_hears(session, request->exchange))
                return true;
        }
    }
    return false;
}

static void look_at_candidate(struct hx_call *call, struct hx_candidate *candidate)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_work *work = hx_work_find(gateway, &candidate->record->id);
    candidate->has_live_waiter = hx_gateway_has_live_waiter(gateway, &candidate->record->id) ||
                                 is_followed(call, candidate->record);
    if (work == NULL)
        return;
    hx_list_for_each (node, &work->calls) {
        const struct hx_call *waiter = hx_container_of(node, struct hx_call, node);
        if (waiter->session != call->session)
            continue; /* two clients that want the same, each for himself */
        candidate->is_same_line = true;
        /* Measured at the arrival of this call: time that it spent waiting for its turn is no sign
         * that the other one was given up. */
        int64_t waited_ms = hx_mono_since_ms(call->arrived.mono, waiter->arrived.mono);
        if (waited_ms > candidate->waited_ms)
            candidate->waited_ms = waited_ms;
    }
}

/* A silent repeat is known by how long the first call had waited when the repeat came. Looking it
 * up takes a while, and in that while the first may be answered: then its row says "delivered", and
 * the repeat would run anew. */
void hx_intake_note_overlap(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    const struct hx_contract *contract = &call->wanted.contract;
    if (call->wanted.key_source != HX_KEY_NONE || contract->repeat != HX_REPEAT_LOST)
        return;
    call->has_overlapped = hx_delivery_find_repeated(call, &call->overlapped);
    hx_list_for_each (at, &gateway->works) {
        const struct hx_work *work = hx_container_of(at, struct hx_work, node);
        const struct hx_record *record = &work->op.durable;
        if (!hx_digest_eq(&record->twin, &call->wanted.twin))
            continue;
        hx_list_for_each (node, &work->calls) {
            const struct hx_call *waiter = hx_container_of(node, struct hx_call, node);
            if (waiter->session != call->session ||
                hx_mono_since_ms(call->arrived.mono, waiter->arrived.mono) < contract->overlap_ms)
                continue;
            call->overlapped = record->id;
            call->has_overlapped = true;
            return;
        }
    }
}

void hx_intake_tell_overlap(const struct hx_call *call, struct hx_gate *gate)
{
    hx_list_for_each (at, &gate->waiting) {
        struct hx_call *later = hx_container_of(at, struct hx_call, node);
        const struct hx_contract *contract = &later->wanted.contract;
        bool is_repeat =
            later->wanted.key_source == HX_KEY_NONE && contract->repeat == HX_REPEAT_LOST &&
            later->session == call->session &&
            hx_mono_since_ms(later->arrived.mono, call->arrived.mono) >= contract->overlap_ms;
        if (!is_repeat || later->has_overlapped)
            continue;
        later->overlapped = call->gone_to;
        later->has_overlapped = true;
    }
}

/* Could somebody in another process still be waiting, and would that change the decision? */
static bool must_ask(const struct hx_call *call, const struct hx_candidate *candidate)
{
    const struct hx_record *record = candidate->record;
    bool is_elsewhere =
        !hx_id_is_nil(&record->holder) && !hx_id_eq(&record->holder, &call->wanted.holder);
    bool matters =
        !hx_op_state_is_final(record->state) || hx_record_delivery(record) != HX_DELIVERY_SENT;
    return is_elsewhere && matters && call->gateway->ports.neighbours != NULL;
}

void hx_intake_ask_neighbours(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_neighbourhood *neighbours = gateway->ports.neighbours;
    call->stage = HX_CALL_ASKING;
    for (uint32_t i = 0; i < call->candidate_count; i++) {
        struct hx_candidate *candidate = &call->candidates[i];
        look_at_candidate(call, candidate);
        if (!must_ask(call, candidate))
            continue;
        struct hx_question *question = hx_new(struct hx_question);
        question->ticket = ++gateway->next_ticket;
        question->call = call;
        question->candidate = i;
        hx_map_insert(&gateway->questions, &question->node,
                      hx_span((const char *)&question->ticket, sizeof(question->ticket)));
        call->questions_open++;
        neighbours->ops->ask(neighbours, &candidate->record->holder, &candidate->record->id,
                             question->ticket);
    }
    if (call->questions_open == 0)
        decide(call);
}

void hx_intake_neighbour(struct hx_gateway *gateway, uint64_t ticket, bool is_live)
{
    struct hx_map_node *node =
        hx_map_find(&gateway->questions, hx_span((const char *)&ticket, sizeof(ticket)));
    if (node == NULL)
        return;
    struct hx_question *question = hx_container_of(node, struct hx_question, node);
    struct hx_call *call = question->call;
    uint32_t candidate = question->candidate;
    hx_map_remove(&gateway->questions, node);
    hx_free(question);
    if (call == NULL)
        return;
    call->candidates[candidate].has_live_waiter |= is_live;
    if (--call->questions_open == 0)
        decide(call);
}

static void adopt(struct hx_call *call, const struct hx_candidate *candidate)
{
    struct hx_store_request *request = hx_store_make(call->gateway, HX_STORE_TOUCH);
    request->record.id = candidate->record->id;
    request->touch = (struct hx_store_touch){
        .adopt = true,
        .expect_adoptions = true,
        .seen_adoptions = candidate->record->adoptions,
        .add_repeats = 1,
        .holder = call->wanted.holder,
    };
    if (call->wanted.key_source != HX_KEY_NONE) {
        /* A client that retries with a key what it first sent without: from now on the operation is
         * known under that key, or the same key would run a second time later. */
        request->touch.rekey = true;
        request->record.identity = call->wanted.identity;
        request->record.key = hx_arena_dup(&request->arena, call->wanted.key);
        request->record.key_source = call->wanted.key_source;
        request->record.first_sent = call->wanted.first_sent;
    }
    call->is_adopted = true;
    call->adopted = candidate;
    call->stage = HX_CALL_ADOPTING;
    hx_store_submit_for_call(call, request);
}

void hx_intake_adopted(struct hx_call *call, struct hx_store_request *done)
{
    enum hx_store_result result = done->result;
    char error[sizeof(done->error)];
    memcpy(error, done->error, sizeof(error));
    hx_store_request_free(done);
    if (result == HX_STORE_NOT_DONE) {
        hx_call_refuse(call, HX_ANSWER_LEDGER_UNAVAILABLE, error);
        return;
    }
    if (result == HX_STORE_STALE) {
        call->is_adopted = false;
        hx_intake_find(call);
        return;
    }
    struct hx_gateway *gateway = call->gateway;
    struct hx_work *work = hx_work_find(gateway, &call->adopted->record->id);
    struct hx_record *record = work ? &work->op.durable : call->adopted->record;
    bool is_rekeyed = call->wanted.key_source != HX_KEY_NONE && record->key_source == HX_KEY_NONE;
    if (work == NULL) {
        /* The row in hand was read before the adoption was written. In between it may have ended,
         * with nobody waiting to keep it in memory, and an end does not raise the fence: acting on
         * the old row would write "unknown" over a final state. So it is read again. */
        call->follow = is_rekeyed ? call->wanted.identity : record->identity;
        call->is_following = true;
        hx_intake_find(call);
        return;
    }
    record->adoptions++;
    record->holder = call->wanted.holder;
    if (is_rekeyed)
        hx_work_rekey(work, record, &call->wanted);
    hx_intake_go_to_row(call, call->adopted);
}

void hx_intake_is_meant(struct hx_call *call)
{
    call->is_meant = true;
    hx_intake_begin_new(call);
}

void hx_intake_is_repeat(struct hx_call *call)
{
    adopt(call, call->suspected);
}

void hx_intake_is_not_meant(struct hx_call *call)
{
    hx_call_refuse(call, HX_ANSWER_REPEAT_SUSPECTED,
                   call->wanted.key_source == HX_KEY_NONE
                       ? NULL
                       : "An equal call under another key is not resolved yet.");
}

/* A person is asked, unless he has said already that it is meant. */
static void suspect(struct hx_call *call, enum hx_ask_kind kind, uint32_t index)
{
    call->suspected = &call->candidates[index];
    if (call->is_meant)
        hx_intake_begin_new(call);
    else if (!hx_ask_about_repeat(call, kind, call->suspected))
        hx_intake_is_not_meant(call);
}

/* A key that was made anew for a repeat shows by this, whatever is done about it then. Once a call,
 * which may be decided about more than once. */
static void count_fresh_key(struct hx_call *call)
{
    if (call->is_fresh_key_counted)
        return;
    call->is_fresh_key_counted = true;
    call->gateway->counters[HX_COUNTER_FRESH_KEY]++;
    hx_tell(call->gateway, HX_TELL_WARN, "fresh_key_on_unresolved", "tool=%s", call->tool->name);
}

static void decide(struct hx_call *call)
{
    const struct hx_contract *contract = &call->wanted.contract;
    struct hx_twin twins[HX_STORE_TWINS_MAX];
    for (uint32_t i = 0; i < call->candidate_count; i++) {
        const struct hx_candidate *candidate = &call->candidates[i];
        twins[i] = (struct hx_twin){candidate->record, candidate->has_live_waiter,
                                    candidate->is_same_line, candidate->waited_ms};
    }
    struct hx_repeat_decision decision =
        call->wanted.key_source == HX_KEY_NONE
            ? hx_repeat_decide(contract, twins, call->candidate_count, &call->gateway->now)
            : hx_repeat_decide_fresh_key(contract, twins, call->candidate_count,
                                         &call->gateway->now);
    switch (decision.verdict) {
    case HX_REPEAT_FRESH_WARN:
        count_fresh_key(call);
        hx_intake_begin_new(call);
        return;
    case HX_REPEAT_NEW:
        if (call->has_overlapped) {
            call->has_overlapped = false;
            call->is_following = call->follows_overlapped = true;
            call->follow_id = call->overlapped;
            hx_intake_find(call);
            return;
        }
        hx_intake_begin_new(call);
        return;
    case HX_REPEAT_ADOPT:
        adopt(call, &call->candidates[decision.index]);
        return;
    case HX_REPEAT_SUSPECT:
        suspect(call, HX_ASK_REPEAT, decision.index);
        return;
    case HX_REPEAT_NEEDS_KEY:
        hx_call_refuse(call, HX_ANSWER_KEY_REQUIRED, NULL);
        return;
    case HX_REPEAT_FRESH_ASK:
        count_fresh_key(call);
        suspect(call, HX_ASK_FRESH_KEY, decision.index);
        return;
    case HX_REPEAT_FRESH_REFUSE:
        count_fresh_key(call);
        hx_intake_is_not_meant(call);
        return;
    }
}
