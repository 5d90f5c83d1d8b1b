/* SPDX-License-Identifier: MIT */
#include "app/decide.h"

#include <stdio.h>

#include "app/store_call.h"
#include "json/writer.h"

/* So often may somebody be faster before we give up. Each round is a commit of somebody else's, so
 * this is only reached when a machine decides in a loop. */
enum { ROUNDS_MAX = 32 };

struct deciding {
    const struct hx_decider *decider;
    const struct hx_decision *decision;
    const struct hx_record *wanted; /* by identity; NULL = by verdict->id */
    struct hx_verdict *verdict;
    struct hx_op op;
    struct hx_store_request *row;   /* owns what op.durable points at */
    struct hx_store_request *fresh; /* owns what it points at after a stale write */
    struct hx_facts facts;
    bool is_answered;
};

struct hx_facts hx_facts_of_found(const struct hx_store_found *found)
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
        .hands = hands[found->owner_fact],
        .is_sender_gone = found->is_sender_gone,
        .is_epoch_current = found->is_epoch_current,
    };
}

static struct hx_id mint(const struct hx_decider *decider)
{
    uint8_t random[10];
    hx_rand_fill(decider->rand, random, sizeof(random));
    return hx_id_make(hx_clock_now(decider->clock).wall, random);
}

static void fail(struct deciding *deciding, const char *why, bool is_in_doubt)
{
    deciding->verdict->answer = HX_ANSWER_LEDGER_UNAVAILABLE;
    deciding->verdict->is_in_doubt = is_in_doubt;
    snprintf(deciding->verdict->error, sizeof(deciding->verdict->error), "%s", why);
    deciding->is_answered = true;
}

static const char slow[] = "the ledger did not answer within a minute";

/* True when the request came back; otherwise the decision is over. */
static bool call(struct deciding *deciding, struct hx_store_request *request)
{
    bool is_write = hx_store_kind_writes(request->kind);
    if (hx_store_call(deciding->decider->store, request) == 0)
        return true;
    fail(deciding, slow, is_write);
    return false;
}

/* The row as it is now into op. HX_DECIDE_ABSENT when there is none and none may be made. */
static int load(struct deciding *deciding)
{
    deciding->row = hx_store_request_free(deciding->row);
    deciding->fresh = hx_store_request_free(deciding->fresh);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->find_identity = deciding->wanted != NULL;
    request->find_id = deciding->wanted == NULL;
    if (deciding->wanted != NULL)
        request->record = *deciding->wanted;
    else
        request->record.id = deciding->verdict->id;
    if (!call(deciding, request))
        return 0;
    deciding->row = request;
    if (request->result != HX_STORE_DONE) {
        fail(deciding, request->error, false);
        return 0;
    }
    if (request->record_count == 0) {
        if (deciding->wanted == NULL)
            return HX_DECIDE_ABSENT;
        deciding->facts = (struct hx_facts){.is_epoch_current = true};
        hx_op_init_absent(&deciding->op, deciding->wanted);
        deciding->verdict->id = deciding->wanted->id;
        return 0;
    }
    const struct hx_store_found *found = &request->records[0];
    const char *flaw = hx_record_flaw(&found->record);
    if (flaw != NULL) {
        char why[200];
        snprintf(why, sizeof(why), "its row is damaged (%s); see hapax ops verify", flaw);
        fail(deciding, why, false);
        return 0;
    }
    deciding->facts = hx_facts_of_found(found);
    hx_op_init_loaded(&deciding->op, &found->record);
    deciding->verdict->id = found->record.id;
    return 0;
}

static struct hx_event make_event(const struct deciding *deciding, enum hx_event_type type)
{
    return (struct hx_event){
        .type = type,
        .now = hx_clock_now(deciding->decider->clock),
        .facts = deciding->facts,
        .mint = {.owner = deciding->decider->store->ops->owner(deciding->decider->store),
                 .id = mint(deciding->decider),
                 .effect_key = mint(deciding->decider),
                 .transport = ""},
        .is_forced = deciding->decision->is_forced,
        .is_by_operator = true,
        .reason = HX_REASON_DENIED,
        .outcome = deciding->decision->outcome,
    };
}

/* Writes what the core wants written, and hands the core the end of it. */
static struct hx_event persist(struct deciding *deciding)
{
    const struct hx_op *op = &deciding->op;
    struct hx_store_request *request = hx_store_request_new(
        op->write == HX_WRITE_INSERT ? HX_STORE_INSERT : HX_STORE_UPDATE, NULL);
    request->record = op->next;
    request->expected_fence = op->expected_fence;
    request->require_unmarked = op->requires_unmarked;
    request->has_second = op->write == HX_WRITE_SUCCESSOR;
    if (request->has_second)
        request->second = op->successor;
    struct hx_event event = make_event(deciding, HX_EV_STORE_FAILED);
    if (!call(deciding, request))
        return event;
    switch (request->result) {
    case HX_STORE_DONE:
        event.type = HX_EV_STORED;
        break;
    case HX_STORE_STALE:
        event.type = HX_EV_STALE;
        event.fresh = request->record_count > 0 ? &request->records[0].record : NULL;
        deciding->verdict->is_overtaken |= op->has_verb;
        break;
    case HX_STORE_NOT_DONE:
        snprintf(deciding->verdict->error, sizeof(deciding->verdict->error), "%s", request->error);
        break;
    }
    if (event.type == HX_EV_STALE)
        deciding->fresh = request; /* the event borrows from it */
    else
        hx_store_request_free(request);
    return event;
}

/* A running operation whose process died: a gateway that starts would settle it, but none may start
 * before the morning. What the rules say of it is written here, as long as that is no new attempt;
 * then the person decides about what it became. */
static bool is_left_behind(const struct deciding *deciding)
{
    return deciding->op.durable.state == HX_OP_RUNNING && deciding->facts.hands == HX_HANDS_DEAD &&
           deciding->decision->type != HX_EV_CANCEL;
}

static void settle(struct deciding *deciding)
{
    struct hx_effects effects;
    struct hx_event look = make_event(deciding, HX_EV_LOOK);
    hx_op_step(&deciding->op, &look, &effects);
    /* Not a word to the core of how this ends: the row is loaded again in any case. */
    if (deciding->op.write == HX_WRITE_UPDATE && deciding->op.next.state != HX_OP_RUNNING)
        (void)persist(deciding);
}

static void request_cancel(struct deciding *deciding)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record.id = deciding->op.durable.id;
    request->touch.set_cancel_requested = true;
    if (!call(deciding, request))
        return;
    if (request->result == HX_STORE_NOT_DONE)
        fail(deciding, request->error, false);
    hx_store_request_free(request);
}

/* One step and what it asks for. True when the row must be loaded and the decision handed in again.
 */
static bool step(struct deciding *deciding, struct hx_event event)
{
    for (;;) {
        struct hx_effects effects;
        bool must_persist = false, must_reload = false;
        if (event.type == HX_EV_STALE && event.fresh == NULL)
            return true; /* the row went between two looks: the next one tells */
        hx_op_step(&deciding->op, &event, &effects);
        for (unsigned i = 0; i < effects.count && !deciding->is_answered; i++) {
            const struct hx_effect *effect = &effects.items[i];
            if (effect->type == HX_DO_PERSIST) {
                must_persist = true;
            } else if (effect->type == HX_DO_DEFER) {
                must_reload = true;
            } else if (effect->type == HX_DO_CANCEL_UPSTREAM) {
                request_cancel(deciding);
            } else if (effect->type == HX_DO_ANSWER_CALLER) {
                deciding->verdict->answer = effect->answer;
                deciding->is_answered = true;
            }
            /* The others are about waiters, of which there are none here, or wake a gateway, which
             * looks for itself. */
        }
        if (deciding->is_answered || must_reload)
            return must_reload && !deciding->is_answered;
        if (!must_persist) {
            fail(deciding, "the decision had no effect", false);
            return false;
        }
        event = persist(deciding);
        if (deciding->is_answered)
            return false;
    }
}

static void read_back(struct deciding *deciding)
{
    struct hx_verdict *verdict = deciding->verdict;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->find_id = true;
    request->record.id = verdict->id;
    if (hx_store_call(deciding->decider->store, request) != 0)
        return;
    verdict->reading = request;
    if (request->result == HX_STORE_DONE && request->record_count > 0)
        verdict->found = &request->records[0];
}

static void leave_note(struct deciding *deciding)
{
    struct hx_verdict *verdict = deciding->verdict;
    struct hx_buf note;
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    struct hx_store_request *request = hx_store_request_new(HX_STORE_NOTE, NULL);
    request->record.id = verdict->id;
    if (hx_decision_note(deciding->decider, deciding->decision, verdict, &note))
        request->note = hx_arena_dup(&request->arena, hx_buf_span(&note));
    hx_buf_fini(&note);
    bool is_submitted = !hx_span_is_absent(request->note);
    int rc = is_submitted ? hx_store_call(deciding->decider->store, request) : 0;
    verdict->is_note_lost = !is_submitted || rc != 0 || request->result != HX_STORE_DONE;
    if (rc == 0)
        hx_store_request_free(request);
}

static int decide(struct deciding *deciding)
{
    struct hx_verdict *verdict = deciding->verdict;
    const char *refusal = deciding->decider->store->ops->refusal(deciding->decider->store);
    bool again = true, has_settled = false;
    for (int round = 0; again && round < ROUNDS_MAX; round++) {
        int rc = load(deciding);
        if (rc != 0)
            return rc;
        if (deciding->is_answered)
            break;
        verdict->state_before = deciding->op.durable.state;
        if (round == 0)
            verdict->owner_before = deciding->op.durable.owner;
        /* What an older copy says must not be decided upon: the operation may have gone on since.
         */
        if (refusal != NULL) {
            fail(deciding, refusal, false);
            break;
        }
        if (!has_settled && is_left_behind(deciding)) {
            settle(deciding);
            has_settled = true;
            again = !deciding->is_answered;
            continue;
        }
        again = step(deciding, make_event(deciding, deciding->decision->type));
    }
    if (!deciding->is_answered)
        fail(deciding, "the operation changes faster than it can be decided; try again", false);
    if (verdict->answer == HX_ANSWER_DONE || verdict->answer == HX_ANSWER_CANCEL_IN_DOUBT)
        leave_note(deciding);
    if (!verdict->is_in_doubt)
        read_back(deciding);
    return 0;
}

static int decide_and_release(struct deciding *deciding)
{
    int rc = decide(deciding);
    /* In doubt the store still reads what these hold. */
    deciding->verdict->held[0] = deciding->row;
    deciding->verdict->held[1] = deciding->fresh;
    if (rc != 0)
        hx_verdict_fini(deciding->verdict);
    return rc;
}

int hx_decide(const struct hx_decider *decider, const struct hx_id *id,
              const struct hx_decision *decision, struct hx_verdict *ret_verdict)
{
    *ret_verdict = (struct hx_verdict){.answer = HX_ANSWER_NOT_APPLIED, .id = *id};
    struct deciding deciding = {.decider = decider, .decision = decision, .verdict = ret_verdict};
    return decide_and_release(&deciding);
}

int hx_decide_cancel(const struct hx_decider *decider, const struct hx_record *wanted,
                     const struct hx_decision *decision, struct hx_verdict *ret_verdict)
{
    hx_assert(decision->type == HX_EV_CANCEL);
    struct hx_record record = *wanted;
    record.id = mint(decider);
    record.created = hx_clock_now(decider->clock);
    record.state = HX_OP_ABSENT;
    record.contract = hx_contract_default();
    *ret_verdict = (struct hx_verdict){.answer = HX_ANSWER_NOT_APPLIED, .id = record.id};
    struct deciding deciding = {
        .decider = decider, .decision = decision, .wanted = &record, .verdict = ret_verdict};
    return decide_and_release(&deciding);
}

void hx_verdict_fini(struct hx_verdict *verdict)
{
    verdict->reading = hx_store_request_free(verdict->reading);
    verdict->held[0] = hx_store_request_free(verdict->held[0]);
    verdict->held[1] = hx_store_request_free(verdict->held[1]);
    verdict->found = NULL;
}

const char *hx_decision_name(enum hx_event_type type)
{
    switch (type) {
    case HX_EV_RESOLVE_HAPPENED:
        return "happened";
    case HX_EV_RESOLVE_ABSENT:
        return "absent";
    case HX_EV_RESOLVE_AGAIN:
        return "again";
    case HX_EV_CANCEL:
        return "cancel";
    case HX_EV_APPROVE:
        return "approve";
    case HX_EV_DENY:
        return "deny";
    default:
        return hx_event_name(type);
    }
}

bool hx_decision_note(const struct hx_decider *decider, const struct hx_decision *decision,
                      const struct hx_verdict *verdict, struct hx_buf *ret_note)
{
    struct hx_json_writer writer;
    char when[HX_TIME_TEXT_SIZE];
    hx_wall_format(hx_clock_now(decider->clock).wall, when);
    hx_json_writer_init(&writer, ret_note);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "at");
    hx_json_put_cstr(&writer, when);
    hx_json_put_name(&writer, "what");
    hx_json_put_cstr(&writer, "decision");
    hx_json_put_name(&writer, "who");
    hx_json_put_cstr(&writer, decider->who);
    hx_json_put_name(&writer, "decision");
    hx_json_put_cstr(&writer, hx_decision_name(decision->type));
    hx_json_put_name(&writer, "answer");
    hx_json_put_cstr(&writer, hx_answer_name(verdict->answer));
    if (decision->is_forced) {
        hx_json_put_name(&writer, "forced");
        hx_json_put_bool(&writer, true);
    }
    if (!hx_span_is_absent(decision->words)) {
        hx_json_put_name(&writer, "note");
        hx_json_put_string(&writer, decision->words);
    }
    hx_json_close_object(&writer);
    return hx_buf_ok(ret_note);
}
