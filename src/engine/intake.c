/* SPDX-License-Identifier: MIT */
/*
 * How a guarded call finds its operation.
 *
 * Calls that could be each other's repeats (one twin digest) pass one at a time: look in the
 * ledger, ask neighbours who still waits where that matters, let the core decide, and either go to
 * an existing operation or begin a new one. The next call may look when the decision of the one
 * before is durable.
 */
#include "engine/internal.h"

static void on_wait_over(struct hx_timer *timer)
{
    struct hx_call *call = hx_container_of(timer, struct hx_call, wait);
    if (call->ask != NULL) {
        hx_person_unasked(call->ask);
        hx_intake_is_not_meant(call);
        return;
    }
    struct hx_work *work = call->work;
    if (work == NULL || call->stage != HX_CALL_WAITING)
        return;
    bool is_read = work->op.phase == HX_PHASE_IDLE && work->op.durable.state == HX_OP_READY;
    if (is_read && !call->has_waited_enough) {
        /* That nothing was sent may be true no more; the ledger knows, if it answers in 2 s. */
        call->has_waited_enough = true;
        hx_timer_arm(&call->gateway->timers, timer, hx_mono_after(call->gateway->now.mono, 2000));
        hx_work_read_again(work);
        return;
    }
    struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
    hx_work_step(work, &event, call);
}

/* Only a call that takes its time is worth a row: the client of a quick one calls again. */
static void on_slow(struct hx_timer *timer)
{
    hx_stream_keep(hx_container_of(timer, struct hx_call, slow));
}

static struct hx_call *new_call(struct hx_request *request, struct hx_tool *tool)
{
    enum { ARENA_MAX = 1 << 20 };
    struct hx_gateway *gateway = request->session->gateway;
    struct hx_call *call = hx_new(struct hx_call);
    call->gateway = gateway;
    call->session = request->session;
    call->request = request;
    call->tool = tool;
    call->arrived = gateway->now;
    call->wait.fire = on_wait_over;
    call->slow.fire = on_slow;
    hx_list_init(&call->node);
    hx_arena_init(&call->arena, ARENA_MAX);
    request->call = call;
    return call;
}

static void drop_found(struct hx_call *call)
{
    call->found = hx_store_request_free(call->found);
    call->candidates = NULL;
    call->candidate_count = 0;
    call->questions_open = 0;
}

void hx_call_forget(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_work *work = call->work;
    hx_timer_disarm(&gateway->timers, &call->wait);
    hx_timer_disarm(&gateway->timers, &call->slow);
    hx_store_forget_call(call);
    if (call->ask != NULL)
        hx_person_unasked(call->ask);
    struct hx_map_node *at = NULL;
    while (call->questions_open > 0 && (at = hx_map_next(&gateway->questions, at)) != NULL) {
        struct hx_question *question = hx_container_of(at, struct hx_question, node);
        if (question->call == call)
            question->call = NULL;
    }
    hx_list_unlink(&call->node);
    call->work = NULL;
    if (work != NULL)
        hx_work_call_left(work, call);
    hx_gate_leave(call);
    drop_found(call);
    hx_assert(call->request == NULL);
    hx_arena_fini(&call->arena);
    hx_free(call);
}

/* A retry says by itself which operation it is of. Without a key nothing else does: looked for
 * among its twins, one that was answered would not be met, and one that failed would run twice. */
static void follow_named(struct hx_call *call)
{
    if (hx_id_is_nil(&call->retry_of) || call->wanted.key_source != HX_KEY_NONE ||
        call->wanted.contract.repeat == HX_REPEAT_REQUIRE_KEY)
        return;
    call->is_following = call->is_named = true;
    call->follow_id = call->retry_of;
}

static void refuse_arguments(struct hx_call *call, const char *reason)
{
    struct hx_request *request = call->request;
    request->call = NULL;
    call->request = NULL;
    hx_call_forget(call);
    hx_reply_refused(request, HX_RPC_INVALID_PARAMS, reason);
}

void hx_intake_resume(struct hx_request *request, const struct hx_record *record)
{
    struct hx_gateway *gateway = request->session->gateway;
    struct hx_tool *tool = hx_tool_get(request->session->options.server, record->tool);
    struct hx_call *call = new_call(request, tool);
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max);
    call->is_resumed = true;
    call->stream = call->progress_token = HX_SPAN_NONE;
    if (!hx_write_call(&line, request->raw_id, record)) {
        hx_buf_fini(&line);
        hx_call_no_memory(call);
        return;
    }
    /* The id stands where it stood in the message before. */
    size_t id_at = (size_t)(request->raw_id.ptr - request->message.data);
    size_t id_len = request->raw_id.len;
    request->session->request_bytes += line.len;
    request->session->request_bytes -= request->message.len;
    hx_buf_fini(&request->message);
    request->message = line;
    request->raw_id = hx_span(request->message.data + id_at, id_len);
    call->wanted = (struct hx_record){
        .tenant = request->session->options.tenant,
        .principal = request->session->options.principal,
        .server = request->session->options.server->options.name,
        .tool = hx_span_cstr(tool->name),
        .identity = record->identity,
        .twin = record->twin,
        .fingerprint = record->fingerprint,
        .contract = record->contract,
        .key_source = record->key_source,
    };
    call->wanted.holder = gateway->ports.store->ops->owner(gateway->ports.store);
    call->is_following = true;
    call->follow = record->identity;
    hx_intake_find(call);
}

void hx_intake(struct hx_request *request, const struct hx_mcp_call *parsed, struct hx_tool *tool,
               const struct hx_call *open)
{
    struct hx_gateway *gateway = request->session->gateway;
    struct hx_call *call = new_call(request, tool);
    call->arguments = parsed->arguments;
    call->progress_token = parsed->progress_token;
    hx_intake_tell_arguments(call);
    if (parsed->has_duplicates) {
        refuse_arguments(call,
                         "Refused, nothing was sent: two members of one name stand in params, "
                         "and readers would disagree about them.");
        return;
    }
    const char *flaw = hx_intake_read_key(call, parsed);
    if (call->is_unread) {
        hx_call_no_memory(call);
        return;
    }
    if (flaw == NULL)
        flaw = hx_intake_read_times(call, parsed);
    if (flaw != NULL) {
        hx_call_refuse(call, HX_ANSWER_KEY_INVALID, flaw);
        return;
    }
    int rc = hx_intake_read_fingerprint(call);
    if (rc < 0) {
        hx_call_no_memory(call);
        return;
    }
    if (rc > 0) {
        refuse_arguments(call, hx_fingerprint_outcome_text(rc));
        return;
    }
    const char *refusal = gateway->ports.store->ops->refusal(gateway->ports.store);
    if (refusal != NULL) {
        hx_call_refuse(call, HX_ANSWER_LEDGER_UNAVAILABLE, refusal);
        return;
    }
    hx_intake_fill_wanted(call);
    hx_intake_name_stream(call);
    follow_named(call);
    if (!call->is_named && open != NULL)
        hx_transport_repeat_of_open(call, open);
    else if (!call->is_named)
        hx_transport_repeat_of_answered(call);
    hx_intake_note_overlap(call);
    if (!hx_replay_peek(call))
        hx_gate_enter(call);
}

/* The ledger's rows for this call: that of its key or of the operation it follows, and its
 * twins. */
void hx_intake_find(struct hx_call *call)
{
    struct hx_store_request *request = hx_store_make(call->gateway, HX_STORE_FIND);
    request->find_id = call->is_following && !hx_id_is_nil(&call->follow_id);
    request->find_identity =
        !request->find_id && (call->is_following || call->wanted.key_source != HX_KEY_NONE);
    request->record.id = call->follow_id;
    request->record.identity = call->is_following ? call->follow : call->wanted.identity;
    request->find_twin = !call->is_following;
    request->record.twin = call->wanted.twin;
    drop_found(call);
    call->has_looked = true;
    call->stage = HX_CALL_FINDING;
    hx_store_submit_for_call(call, request);
}

void hx_intake_again(struct hx_call *call)
{
    hx_timer_disarm(&call->gateway->timers, &call->wait);
    hx_gate_enter(call);
}

/* Takes the call to an operation and lets the core say what that means. */
static void go_to_work(struct hx_call *call, struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    bool is_retry = !hx_id_is_nil(&call->retry_of) && hx_id_eq(&call->retry_of, &record->id);
    call->work_began = record->created.wall;
    /* An outcome that is only spooled so far is told like a stored one. */
    call->is_replayed = hx_op_state_is_final(hx_op_answered_record(&work->op)->state);
    struct hx_event event = hx_work_make_event(work, is_retry ? HX_EV_RETRY : HX_EV_CALL);
    struct hx_store *store = call->gateway->ports.store;
    struct hx_gap gap = store->ops->gap(store);
    event.is_from_gap =
        is_retry ? hx_gap_covers_successor(&gap, record->created.wall) : call->is_from_gap;
    call->stage = HX_CALL_WAITING;
    call->work = work;
    hx_work_step(work, &event, call);
}

/* Would taking the call to this row begin an attempt? Then the server must be there first. */
static bool needs_upstream(const struct hx_gateway *gateway, const struct hx_record *record,
                           const struct hx_facts *facts)
{
    bool is_mine = facts->hands == HX_HANDS_ALIVE || facts->hands == HX_HANDS_ELSEWHERE;
    switch (record->state) {
    case HX_OP_READY:
        return true;
    case HX_OP_RUNNING:
        return !is_mine && (hx_attempt_is_unsent(record, facts) ||
                            hx_may_send_again(record, facts, &gateway->now));
    case HX_OP_UNKNOWN:
        return hx_may_send_again(record, facts, &gateway->now);
    default:
        return false;
    }
}

/* What stands in memory may be older than the row just read: another process, or a person, has gone
 * on with the operation while nobody here looked. False: there is no memory for the row. */
static bool refresh(struct hx_work *work, const struct hx_candidate *candidate,
                    const struct hx_facts *facts)
{
    const struct hx_record *known = &work->op.durable;
    const struct hx_record *read = candidate->record;
    bool is_newer = read->fence > known->fence ||
                    (read->fence == known->fence && hx_op_state_is_final(read->state) &&
                     !hx_op_state_is_final(known->state));
    if (work->op.phase != HX_PHASE_IDLE || (!is_newer && read->fence != known->fence))
        return true;
    if (is_newer && !hx_work_keep_record(work, read, &work->op.durable))
        return false;
    work->facts = *facts; /* of its sender too, which may be gone since */
    return true;
}

/* Bounded: each waiter costs memory, and one intent needs few. */
static bool is_full(const struct hx_gateway *gateway, const struct hx_work *work)
{
    const struct hx_record *record = &work->op.durable;
    return work->op.waiters >= gateway->options.waiters_max && record->state != HX_OP_ABSENT &&
           !hx_op_state_is_final(record->state);
}

void hx_intake_go_to_row(struct hx_call *call, const struct hx_candidate *candidate)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_work *work = hx_work_find(gateway, &candidate->record->id);
    struct hx_facts facts =
        hx_facts_of(candidate->owner_fact, candidate->is_sender_gone, candidate->is_epoch_current);
    facts.is_same_target = hx_is_same_target(gateway, candidate->record);
    bool is_idle = work == NULL || work->op.phase == HX_PHASE_IDLE;
    if (is_idle && needs_upstream(gateway, candidate->record, &facts) && !call->was_started &&
        !hx_link_want(call->session->link)) {
        call->was_started = true;
        call->must_find_again = true;
        call->stage = HX_CALL_STARTING;
        hx_list_append(&call->session->link->waiting_calls, &call->node);
        return;
    }
    bool is_there = true;
    if (work != NULL)
        is_there = refresh(work, candidate, &facts);
    else if ((work = hx_work_load(gateway, candidate->record, call->session->link)) != NULL)
        work->facts = facts;
    drop_found(call);
    if (work == NULL || !is_there) {
        hx_call_no_memory(call);
        return;
    }
    if (is_full(gateway, work)) {
        bool is_unknown = work->op.durable.state == HX_OP_UNKNOWN;
        hx_call_answer(call, is_unknown ? HX_ANSWER_OUTCOME_UNKNOWN : HX_ANSWER_BUSY,
                       &work->op.durable);
        return;
    }
    call->gone_to = work->op.durable.id;
    call->has_gone = true;
    hx_transport_repeat_tell(call, &work->op.durable.id);
    hx_gate_leave(call);
    go_to_work(call, work);
}

void hx_intake_begin_new(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    drop_found(call);
    if (gateway->is_draining) {
        hx_call_refuse(call, HX_ANSWER_UPSTREAM_UNAVAILABLE, NULL);
        return;
    }
    if (hx_link_want(call->session->link)) {
        hx_intake_upstream_ready(call);
        return;
    }
    call->stage = HX_CALL_STARTING;
    hx_list_append(&call->session->link->waiting_calls, &call->node);
}

void hx_intake_upstream_ready(struct hx_call *call)
{
    if (call->must_find_again) {
        call->must_find_again = false;
        hx_intake_find(call);
        return;
    }
    struct hx_work *work = hx_work_new_absent(call);
    if (work != NULL)
        go_to_work(call, work);
    else if (call->was_unseen && !call->has_looked)
        hx_intake_find(call); /* what is known of it already can be told; and not in the middle of
                                 what let it in */
    else
        hx_call_no_memory(call);
}

void hx_intake_upstream_failed(struct hx_call *call)
{
    if (call->must_find_again) {
        /* A row exists; what it says is better than "unavailable". */
        call->must_find_again = false;
        hx_intake_find(call);
        return;
    }
    hx_call_refuse(call, HX_ANSWER_UPSTREAM_UNAVAILABLE, NULL);
}

static void conflict(struct hx_call *call)
{
    hx_tell(call->gateway, HX_TELL_WARN, "key_conflict", "tool=%s", call->tool->name);
    hx_call_refuse(call, HX_ANSWER_KEY_CONFLICT, NULL);
}

/* An id is found whoever it belongs to: what is not his is to him as if it were not there. */
static bool is_anothers(const struct hx_call *call, const struct hx_record *record)
{
    return call->is_named && (!hx_span_eq(record->tenant, call->wanted.tenant) ||
                              !hx_span_eq(record->principal, call->wanted.principal));
}

static void own_row(struct hx_call *call)
{
    const struct hx_candidate *candidate = &call->candidates[0];
    const struct hx_record *record = candidate->record;
    bool is_same_tool = !call->is_named || (hx_span_eq(record->server, call->wanted.server) &&
                                            hx_span_eq(record->tool, call->wanted.tool));
    bool is_same_call =
        is_same_tool &&
        (record->is_tombstone || hx_digest_eq(&record->fingerprint, &call->wanted.fingerprint));
    bool is_same_principal = hx_span_eq(record->principal, call->wanted.principal);
    if (!is_same_call || !is_same_principal) {
        conflict(call);
        return;
    }
    if (!call->is_following) {
        struct hx_store_request *touch = hx_store_make(call->gateway, HX_STORE_TOUCH);
        touch->record.id = record->id;
        touch->touch.add_repeats = 1;
        hx_store_submit_quiet(call->gateway, touch);
    }
    hx_intake_go_to_row(call, candidate);
}

/* What was answered in the gap of a restored ledger is not known, so that a repeat of it would look
 * like a new call. */
static bool is_refused_after_restore(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_gap gap = gateway->ports.store->ops->gap(gateway->ports.store);
    if (!hx_gap_covers_keyless(&gap, &call->wanted.contract))
        return false;
    hx_call_refuse(call, HX_ANSWER_REPEAT_SUSPECTED,
                   "The ledger was restored from an older copy a short while ago.");
    return true;
}

/* The call that it is the silent repeat of had no row yet when this one came, and got none: the
 * ledger did not take it. So nothing was sent for it, and nothing is too old. */
static void begin_anew(struct hx_call *call)
{
    call->follows_overlapped = call->is_following = false;
    call->follow_id = (struct hx_id){{0}};
    hx_intake_find(call);
}

void hx_intake_found(struct hx_call *call, struct hx_store_request *found)
{
    if (!hx_replay_is_found(call, found)) {
        hx_store_request_free(found);
        hx_gate_enter(call);
        return;
    }
    if (found->result != HX_STORE_DONE) {
        char error[sizeof(found->error)];
        memcpy(error, found->error, sizeof(error));
        hx_store_request_free(found);
        hx_call_refuse(call, HX_ANSWER_LEDGER_UNAVAILABLE, error);
        return;
    }
    call->found = found;
    call->candidate_count = found->record_count;
    call->candidates =
        hx_arena_alloc(&found->arena, (found->record_count + 1) * sizeof(*call->candidates));
    if (call->candidates == NULL) {
        hx_call_no_memory(call);
        return;
    }
    for (uint32_t i = 0; i < found->record_count; i++) {
        struct hx_store_found *row = &found->records[i];
        if (!hx_is_row_sound(call->gateway, &row->record)) {
            hx_call_refuse(call, HX_ANSWER_LEDGER_UNAVAILABLE,
                           "A row of the ledger contradicts itself: run hapax ops verify.");
            return;
        }
        call->candidates[i] = (struct hx_candidate){
            .record = &row->record,
            .owner_fact = row->owner_fact,
            .is_sender_gone = row->is_sender_gone,
            .is_epoch_current = row->is_epoch_current,
        };
    }
    call->twin_seen = found->ret_twin_seen;
    const struct hx_record *first = found->record_count > 0 ? &found->records[0].record : NULL;
    const struct hx_digest *identity = call->is_following ? &call->follow : &call->wanted.identity;
    bool has_own_row =
        first != NULL &&
        (found->find_id || (found->find_identity && hx_digest_eq(&first->identity, identity))) &&
        !is_anothers(call, first);
    if (has_own_row)
        call->follows_overlapped = false;
    if (has_own_row && found->find_id && !hx_id_is_nil(&first->successor)) {
        call->follow_id = first->successor; /* the newest is meant */
        hx_intake_find(call);
        return;
    }
    if (has_own_row)
        own_row(call);
    else if (call->follows_overlapped)
        begin_anew(call);
    else if (call->is_following)
        hx_call_refuse(call, HX_ANSWER_KEY_EXPIRED,
                       call->is_named ? "No operation of yours has the id in dev.hapax/retry."
                                      : NULL);
    else if (call->wanted.key_source == HX_KEY_NONE ? !is_refused_after_restore(call)
                                                    : hx_intake_is_key_acceptable(call))
        hx_intake_ask_neighbours(call);
}
