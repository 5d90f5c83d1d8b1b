/* SPDX-License-Identifier: MIT */
/*
 * One operation in the hands of one thread: events into the core, its writes out to the ledger.
 */
#include "base/alloc.h"
#include "base/crash.h"
#include "base/fault.h"
#include "lib/internal.h"

enum { ARENA_SPARE = 1024 * 1024 };

struct hapax_call *hx_lib_call_new(struct hapax *hapax)
{
    struct hapax_call *call = hx_new(struct hapax_call);
    call->magic = HX_LIB_CALL_MAGIC;
    call->hapax = hapax;
    hx_arena_init(&call->arena, (size_t)HX_LIB_OUTCOME_MAX + ARENA_SPARE);
    hx_arena_init(&call->outcome, (size_t)HX_LIB_OUTCOME_MAX + ARENA_SPARE);
    hx_buf_init(&call->text, 2048);
    hx_list_init(&call->held);
    hx_list_init(&call->enlisted);
    pthread_mutex_lock(&hapax->mutex);
    hx_list_append(&hapax->calls, &call->node);
    pthread_mutex_unlock(&hapax->mutex);
    return call;
}

void hx_lib_let_go(struct hapax_call *call)
{
    for (struct hx_list *node; (node = hx_list_take_first(&call->held)) != NULL;)
        hx_store_request_free(hx_container_of(node, struct hx_store_request, node));
}

void hx_lib_call_drop(struct hapax_call *call)
{
    struct hapax *hapax = call->hapax;
    pthread_mutex_lock(&hapax->mutex);
    hx_list_unlink(&call->node);
    if (call->is_spooled) {
        struct hx_lib_ghost *ghost = hx_new(struct hx_lib_ghost);
        ghost->id = call->op.durable.id;
        hx_list_append(&hapax->ghosts, &ghost->node);
    }
    pthread_cond_broadcast(&hapax->ended);
    pthread_mutex_unlock(&hapax->mutex);
    hx_list_unlink(&call->enlisted);
    hx_lib_let_go(call);
    hx_arena_fini(&call->arena);
    hx_arena_fini(&call->outcome);
    hx_buf_fini(&call->text);
    call->magic = 0;
    hx_free(call);
}

bool hx_lib_is_in_hand(struct hapax_call *call, const struct hx_id *id)
{
    struct hapax *hapax = call->hapax;
    bool is_in_hand = false;
    pthread_mutex_lock(&hapax->mutex);
    hx_list_for_each (at, &hapax->calls) {
        const struct hapax_call *other = hx_container_of(at, struct hapax_call, node);
        is_in_hand |= other != call && other->is_in_hand && hx_id_eq(&other->in_hand, id);
    }
    hx_list_for_each (at, &hapax->ghosts)
        is_in_hand |= hx_id_eq(&hx_container_of(at, struct hx_lib_ghost, node)->id, id);
    pthread_mutex_unlock(&hapax->mutex);
    return is_in_hand;
}

void hx_lib_set_in_hand(struct hapax_call *call, bool is_in_hand)
{
    pthread_mutex_lock(&call->hapax->mutex);
    call->is_in_hand = is_in_hand;
    call->in_hand = call->op.durable.id;
    if (!is_in_hand)
        pthread_cond_broadcast(&call->hapax->ended);
    pthread_mutex_unlock(&call->hapax->mutex);
}

void hx_lib_lay_ghost(struct hapax *hapax, const struct hx_id *id)
{
    pthread_mutex_lock(&hapax->mutex);
    hx_list_for_each_safe (at, &hapax->ghosts) {
        struct hx_lib_ghost *ghost = hx_container_of(at, struct hx_lib_ghost, node);
        if (!hx_id_eq(&ghost->id, id))
            continue;
        hx_list_unlink(&ghost->node);
        hx_free(ghost);
    }
    pthread_mutex_unlock(&hapax->mutex);
}

struct hx_facts hx_lib_facts(struct hapax_call *call, const struct hx_store_found *found)
{
    static const enum hx_hands hands[] = {
        [HX_OWNER_NOBODY] = HX_HANDS_NOBODY,
        [HX_OWNER_MINE] = HX_HANDS_MINE,
        [HX_OWNER_ALIVE] = HX_HANDS_ALIVE,
        [HX_OWNER_DEAD] = HX_HANDS_DEAD,
        [HX_OWNER_ELSEWHERE] = HX_HANDS_ELSEWHERE,
        [HX_OWNER_ELSEWHERE_LAPSED] = HX_HANDS_ELSEWHERE_LAPSED,
    };
    struct hx_facts facts = {
        .hands = hands[found->owner_fact],
        .is_sender_gone = found->is_sender_gone,
        .is_epoch_current = found->is_epoch_current,
        .is_same_target = true, /* the server is the one whose name it was claimed under */
    };
    /* The process lives; whether this attempt of it still does, only its own calls know. */
    if (facts.hands == HX_HANDS_MINE && hx_lib_is_in_hand(call, &found->record.id))
        facts.hands = HX_HANDS_ALIVE;
    else if (facts.hands == HX_HANDS_MINE)
        facts.is_sender_gone = true;
    return facts;
}

struct hx_event hx_lib_event(struct hapax_call *call, enum hx_event_type type)
{
    struct hapax *hapax = call->hapax;
    return (struct hx_event){
        .type = type,
        .now = hx_lib_now(hapax),
        .facts = call->facts,
        .mint = {.owner = hapax->owner,
                 .id = hx_lib_mint(hapax),
                 .effect_key = hx_lib_mint(hapax),
                 .transport = hapax->owner_text},
    };
}

/* Kept, since what it found may be what op points at from now on. */
static void hold(struct hapax_call *call, struct hx_store_request *request)
{
    hx_list_append(&call->held, &request->node);
}

/* Runs the write in flight; its end is the next event. */
static struct hx_event persist(struct hapax_call *call, struct hx_lib_result *result)
{
    const struct hx_op *op = &call->op;
    enum hx_store_kind kind = op->write == HX_WRITE_INSERT ? HX_STORE_INSERT : HX_STORE_UPDATE;
    struct hx_store_request *request = hx_store_request_new(kind, NULL);
    request->record = op->next;
    request->expected_fence = op->expected_fence;
    request->require_unmarked = op->requires_unmarked;
    bool is_claim =
        op->next.state == HX_OP_RUNNING && op->next.attempt.number != op->durable.attempt.number;
    request->mark_after = is_claim;
    /* Before it can be seen by others: a row of ours that nobody holds is one left behind. */
    if (is_claim)
        hx_lib_set_in_hand(call, true);
    HX_CRASH_POINT("lib-persist-asked");
    hx_lib_run(call->hapax, call->conn, request);
    struct hx_event event = hx_lib_event(call, HX_EV_STORE_FAILED);
    switch (request->result) {
    case HX_STORE_DONE:
        event.type = HX_EV_STORED;
        event.is_marked = request->is_marked;
        event.marked_at = request->marked_at;
        break;
    case HX_STORE_STALE:
        event.type = HX_EV_STALE;
        if (request->record_count > 0) {
            event.fresh = &request->records[0].record;
            event.facts = call->facts = hx_lib_facts(call, &request->records[0]);
        }
        break;
    case HX_STORE_NOT_DONE:
        result->has_failed = true;
        break;
    }
    bool is_over = op->next.state != HX_OP_RUNNING && event.type == HX_EV_STORED;
    if (is_over || event.type == HX_EV_STALE || (is_claim && result->has_failed))
        hx_lib_set_in_hand(call, false);
    hold(call, request);
    return event;
}

static struct hx_event mark(struct hapax_call *call, struct hx_lib_result *result)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_MARK, NULL);
    request->record = call->op.next;
    request->expected_fence = call->op.expected_fence;
    hx_lib_run(call->hapax, call->conn, request);
    struct hx_event event = hx_lib_event(call, HX_EV_STORE_FAILED);
    if (request->result == HX_STORE_DONE) {
        event.type = HX_EV_STORED;
    } else if (request->result == HX_STORE_STALE) {
        event.type = HX_EV_STALE;
        event.fresh = request->record_count > 0 ? &request->records[0].record : NULL;
    } else {
        result->has_failed = true;
    }
    if (event.type != HX_EV_STORED)
        hx_lib_set_in_hand(call, false);
    hold(call, request);
    return event;
}

/* The ledger does not take the outcome: into the synced file beside it. */
static bool spool(struct hapax_call *call)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SPOOL, NULL);
    request->record = call->op.next;
    request->expected_fence = call->op.expected_fence;
    hx_lib_run(call->hapax, NULL, request);
    bool is_done = request->result == HX_STORE_DONE;
    hx_store_request_free(request);
    return is_done;
}

static void request_cancel(struct hapax_call *call)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record.id = call->op.durable.id;
    request->touch.set_cancel_requested = true;
    hx_lib_run_later(call->hapax, call->conn, request);
}

/* Carries out the effects of one step. True when there is a next event. */
static bool carry_out(struct hapax_call *call, const struct hx_effects *effects,
                      struct hx_lib_result *result, struct hx_event *ret_next)
{
    bool has_next = false;
    for (unsigned i = 0; i < effects->count; i++) {
        const struct hx_effect *effect = &effects->items[i];
        switch (effect->type) {
        case HX_DO_PERSIST:
            *ret_next = persist(call, result);
            has_next = true;
            break;
        case HX_DO_MARK:
            *ret_next = mark(call, result);
            has_next = true;
            break;
        case HX_DO_SEND:
            result->runs = true;
            break;
        case HX_DO_SPOOL:
            result->is_spooled = spool(call);
            has_next = result->is_spooled;
            *ret_next = hx_lib_event(call, HX_EV_SPOOLED);
            break;
        case HX_DO_ANSWER_CALLER:
        case HX_DO_ANSWER_ALL:
            result->is_answered = true;
            result->answer = effect->answer;
            break;
        case HX_DO_FOLLOW:
            result->must_follow = true;
            break;
        case HX_DO_CANCEL_UPSTREAM:
            request_cancel(call);
            break;
        case HX_DO_DEFER: /* overtaken: whoever called sees that nothing was applied */
        case HX_DO_JOIN:
        case HX_DO_WATCH:
        case HX_DO_LOOK_LATER:
        case HX_DO_LADDER:
        case HX_DO_ASK_PERSON:
        case HX_DO_ALARM:
        case HX_DO_COUNT:
            break; /* about waiting, which the caller does himself, or told by the row */
        case HX_DO_TYPE_COUNT:
            hx_assert(!"effect");
        }
    }
    return has_next;
}

struct hx_lib_result hx_lib_drive(struct hapax_call *call, struct hx_event event)
{
    struct hx_lib_result result = {0};
    struct hx_effects effects;
    bool has_next = true;
    while (has_next) {
        hx_op_step(&call->op, &event, &effects);
        has_next = carry_out(call, &effects, &result, &event);
        /* In a transaction a failed write has no fate of its own: all of it is rolled back, and
         * with it what the core believes. */
        if (call->conn != NULL && result.has_failed)
            return result;
    }
    return result;
}

int hx_lib_enlist(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *error)
{
    if (call->is_void)
        return hx_lib_fail(error, HAPAX_E_STATE,
                           "The transaction of this call was not committed: claim its key again.");
    if (call->conn != conn && call->conn != NULL)
        return hx_lib_fail(error, HAPAX_E_MISUSE,
                           "The call takes part in an open transaction: end that first.");
    if (conn == NULL || call->conn == conn)
        return 0;
    if (conn->magic != HX_LIB_CONN_MAGIC || conn->hapax != call->hapax)
        return hx_lib_fail(error, HAPAX_E_MISUSE, "The connection is not one of this ledger.");
    if (!hx_guest_is_open(conn->guest))
        return hx_lib_fail(error, HAPAX_E_MISUSE,
                           "The connection has no open transaction: hapax_begin comes first.");
    call->conn = conn;
    call->saved_op = call->op;
    call->saved_in_hand = call->is_in_hand;
    hx_list_append(&conn->calls, &call->enlisted);
    return 0;
}
