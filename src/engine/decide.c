/* SPDX-License-Identifier: MIT */
#include "engine/decide.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/key.h"
#include "core/restored.h"

/* So often may somebody be faster before we give up. Each round is a commit of somebody else's, so
 * this is only reached when a machine decides in a loop. */
enum { ROUNDS_MAX = 32 };

enum stage {
    STAGE_LOAD,    /* the row must be read */
    STAGE_SETTLE,  /* what a dead process left is being written */
    STAGE_WRITE,   /* what the core decided is being written */
    STAGE_REQUEST, /* that a cancel is asked for is being noted in the row */
    STAGE_NOTE,    /* the history gets its line */
    STAGE_READ,    /* the row is read for whoever asked */
    STAGE_OVER
};

struct hx_deciding {
    const struct hx_decider *decider;
    const struct hx_decision *decision;
    const struct hx_decision_target *target;
    struct hx_verdict *verdict;
    struct hx_record wanted; /* target->wanted, made whole */
    struct hx_op op;
    struct hx_store_request *row;   /* owns what op.durable points at */
    struct hx_store_request *fresh; /* owns what it points at after a stale write */
    struct hx_store_request *next;  /* to be handed out */
    struct hx_facts facts;
    enum stage stage;
    int round;
    bool is_answered;
    bool has_settled;
};

struct hx_facts hx_facts_of_found(const struct hx_store_found *found)
{
    static const enum hx_hands hands[] = {
        [HX_OWNER_NOBODY] = HX_HANDS_NOBODY,
        /* Of this process, but of another part of it: whoever decides holds nothing. */
        [HX_OWNER_MINE] = HX_HANDS_ALIVE,
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

void hx_decision_name_call(struct hx_record *wanted, struct hx_hasher *hasher,
                           bool is_key_principal_scoped)
{
    wanted->first_sent = hx_key_time(wanted->key, (struct hx_wall){0}).first_sent;
    wanted->identity = hx_record_identity(hasher, wanted, is_key_principal_scoped);
    wanted->twin = hx_record_twin(hasher, wanted);
}

static struct hx_id mint(const struct hx_decider *decider)
{
    uint8_t random[10];
    hx_rand_fill(decider->rand, random, sizeof(random));
    return hx_id_make(hx_clock_now(decider->clock).wall, random);
}

static void answer(struct hx_deciding *deciding, enum hx_answer answer)
{
    deciding->verdict->answer = answer;
    deciding->is_answered = true;
}

static void fail(struct hx_deciding *deciding, const char *why)
{
    answer(deciding, HX_ANSWER_LEDGER_UNAVAILABLE);
    snprintf(deciding->verdict->error, sizeof(deciding->verdict->error), "%s", why);
}

static void be_absent(struct hx_deciding *deciding)
{
    deciding->verdict->is_absent = true;
    deciding->stage = STAGE_OVER;
}

/* ---- what is asked of the ledger ---- */

static void ask_for_row(struct hx_deciding *deciding)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    deciding->row = hx_store_request_free(deciding->row);
    deciding->fresh = hx_store_request_free(deciding->fresh);
    request->find_identity = deciding->target->wanted != NULL;
    request->find_id = deciding->target->wanted == NULL;
    if (deciding->target->wanted != NULL)
        request->record = deciding->wanted;
    else
        request->record.id = deciding->verdict->id;
    deciding->stage = STAGE_LOAD;
    deciding->next = request;
}

/* What the core wants written. */
static void ask_to_write(struct hx_deciding *deciding, enum stage stage)
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
    deciding->stage = stage;
    deciding->next = request;
}

static void ask_for_cancel(struct hx_deciding *deciding)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record.id = deciding->op.durable.id;
    request->touch.set_cancel_requested = true;
    deciding->stage = STAGE_REQUEST;
    deciding->next = request;
}

static void ask_for_what_is(struct hx_deciding *deciding)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->find_id = true;
    request->record.id = deciding->verdict->id;
    deciding->stage = STAGE_READ;
    deciding->next = request;
}

static void ask_to_note(struct hx_deciding *deciding)
{
    struct hx_buf note;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_NOTE, NULL);
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    if (deciding->op.durable.state != HX_OP_ABSENT) /* else it goes to the ledger's own log */
        request->record.id = deciding->verdict->id;
    if (hx_decision_note(deciding->decider, deciding->decision, deciding->verdict, &note))
        request->note = hx_arena_dup(&request->arena, hx_buf_span(&note));
    hx_buf_fini(&note);
    if (hx_span_is_absent(request->note)) {
        deciding->verdict->is_note_lost = true;
        hx_store_request_free(request);
        ask_for_what_is(deciding);
        return;
    }
    deciding->stage = STAGE_NOTE;
    deciding->next = request;
}

static void finish(struct hx_deciding *deciding)
{
    enum hx_answer answer = deciding->verdict->answer;
    if (answer == HX_ANSWER_KEY_CONFLICT)
        deciding->stage = STAGE_OVER; /* nothing of it is his to see */
    else if (answer == HX_ANSWER_DONE || answer == HX_ANSWER_CANCEL_IN_DOUBT)
        ask_to_note(deciding);
    else
        ask_for_what_is(deciding);
}

/* ---- deciding ---- */

static bool is_from_gap(const struct hx_deciding *deciding)
{
    struct hx_store *store = deciding->decider->store;
    if (deciding->target->wanted == NULL)
        return false;
    struct hx_gap gap = store->ops->gap(store);
    return hx_gap_covers_key(&gap, hx_key_time(deciding->wanted.key, deciding->wanted.first_sent));
}

static struct hx_event make_event(const struct hx_deciding *deciding, enum hx_event_type type)
{
    struct hx_now now = hx_clock_now(deciding->decider->clock);
    return (struct hx_event){
        .type = type,
        .now = now,
        .facts = deciding->facts,
        .mint = {.owner = deciding->decider->store->ops->owner(deciding->decider->store),
                 .id = mint(deciding->decider),
                 .effect_key = mint(deciding->decider),
                 .transport = ""},
        .is_from_gap = is_from_gap(deciding),
        .is_forced = deciding->decision->is_forced,
        .is_by_operator = !deciding->decision->is_by_caller,
        .reason = type == HX_EV_DENY ? HX_REASON_DENIED : HX_REASON_NONE,
        .outcome = deciding->decision->outcome,
    };
}

/* The core has nothing to say of evidence that changes nothing. */
static void be_without_effect(struct hx_deciding *deciding)
{
    if (deciding->decision->type == HX_EV_EVIDENCE)
        answer(deciding, HX_ANSWER_NOT_APPLIED);
    else
        fail(deciding, "the decision had no effect");
}

static void run(struct hx_deciding *deciding, struct hx_event event);

static void load_again(struct hx_deciding *deciding)
{
    if (++deciding->round < ROUNDS_MAX) {
        ask_for_row(deciding);
        return;
    }
    fail(deciding, "the operation changes faster than it can be decided; try again");
    finish(deciding);
}

/* One step of the core, and what it asks for. */
static void run(struct hx_deciding *deciding, struct hx_event event)
{
    struct hx_effects effects;
    bool must_persist = false, must_reload = false, must_request = false;
    if (event.type == HX_EV_STALE && event.fresh == NULL) {
        load_again(deciding); /* the row went between two looks: the next one tells */
        return;
    }
    hx_op_step(&deciding->op, &event, &effects);
    for (unsigned i = 0; i < effects.count && !deciding->is_answered; i++) {
        const struct hx_effect *effect = &effects.items[i];
        must_persist |= effect->type == HX_DO_PERSIST;
        must_reload |= effect->type == HX_DO_DEFER;
        must_request |= effect->type == HX_DO_CANCEL_UPSTREAM;
        if (effect->type == HX_DO_ANSWER_CALLER)
            answer(deciding, effect->answer);
        /* The others are about waiters, of which there are none here, or wake a gateway, which
         * looks for itself. */
    }
    bool is_evidence = deciding->decision->type == HX_EV_EVIDENCE;
    if (event.type == HX_EV_STORED && is_evidence && !must_persist)
        answer(deciding, HX_ANSWER_DONE);
    if (deciding->is_answered && must_request)
        ask_for_cancel(deciding);
    else if (deciding->is_answered)
        finish(deciding);
    else if (must_reload)
        load_again(deciding);
    else if (must_persist)
        ask_to_write(deciding, STAGE_WRITE);
    else {
        be_without_effect(deciding);
        finish(deciding);
    }
}

/* A running operation whose process died: a gateway that starts would settle it, but none may start
 * before the morning. What the rules say of it is written here, as long as that is no new attempt;
 * then the person decides about what it became. */
static bool is_left_behind(const struct hx_deciding *deciding)
{
    enum hx_event_type type = deciding->decision->type;
    return deciding->op.durable.state == HX_OP_RUNNING && deciding->facts.hands == HX_HANDS_DEAD &&
           type != HX_EV_CANCEL && type != HX_EV_EVIDENCE;
}

static void settle(struct hx_deciding *deciding)
{
    struct hx_effects effects;
    struct hx_event look = make_event(deciding, HX_EV_LOOK);
    deciding->has_settled = true;
    hx_op_step(&deciding->op, &look, &effects);
    /* Not a word to the core of how this ends: the row is loaded again in any case. */
    if (deciding->op.write == HX_WRITE_UPDATE && deciding->op.next.state != HX_OP_RUNNING)
        ask_to_write(deciding, STAGE_SETTLE);
    else
        load_again(deciding);
}

/* Nobody has seen it. A key too old to be known must not be promised anything. */
static void begin_absent(struct hx_deciding *deciding)
{
    struct hx_store *store = deciding->decider->store;
    struct hx_wall now = hx_clock_now(deciding->decider->clock).wall;
    struct hx_key_time time = hx_key_time(deciding->wanted.key, deciding->wanted.first_sent);
    deciding->facts = (struct hx_facts){.is_epoch_current = true};
    hx_op_init_absent(&deciding->op, &deciding->wanted);
    deciding->verdict->id = deciding->wanted.id;
    if (hx_key_age(time, now, store->ops->low_water(store)) == HX_KEY_AGE_EXPIRED)
        answer(deciding, HX_ANSWER_KEY_EXPIRED);
}

static bool may_see(const struct hx_record *owner, const struct hx_record *record)
{
    return owner == NULL || (hx_span_eq(owner->tenant, record->tenant) &&
                             hx_span_eq(owner->principal, record->principal) &&
                             hx_span_eq(owner->server, record->server));
}

static void begin_loaded(struct hx_deciding *deciding, const struct hx_store_found *found)
{
    const char *flaw = hx_record_flaw(&found->record);
    if (flaw != NULL) {
        char why[200];
        snprintf(why, sizeof(why), "its row is damaged (%s); see hapax ops verify", flaw);
        fail(deciding, why);
        return;
    }
    deciding->facts = hx_facts_of_found(found);
    hx_op_init_loaded(&deciding->op, &found->record);
    deciding->verdict->id = found->record.id;
}

static void loaded(struct hx_deciding *deciding, struct hx_store_request *done)
{
    struct hx_verdict *verdict = deciding->verdict;
    struct hx_store *store = deciding->decider->store;
    const struct hx_store_found *found = done->record_count > 0 ? &done->records[0] : NULL;
    deciding->row = done;
    if (done->result != HX_STORE_DONE) {
        fail(deciding, done->error);
    } else if (found != NULL && !may_see(deciding->target->owner, &found->record)) {
        if (deciding->target->wanted == NULL) {
            be_absent(deciding);
            return;
        }
        answer(deciding, HX_ANSWER_KEY_CONFLICT);
    } else if (found != NULL) {
        begin_loaded(deciding, found);
    } else if (deciding->target->wanted != NULL) {
        begin_absent(deciding);
    } else {
        be_absent(deciding);
        return;
    }
    if (!deciding->is_answered) {
        verdict->state_before = deciding->op.durable.state;
        if (deciding->round == 0)
            verdict->owner_before = deciding->op.durable.owner;
        /* What an older copy says must not be decided upon: the operation may have gone on since.
         */
        const char *refusal = store->ops->refusal(store);
        if (refusal != NULL)
            fail(deciding, refusal);
    }
    if (deciding->is_answered)
        finish(deciding);
    else if (!deciding->has_settled && is_left_behind(deciding))
        settle(deciding);
    else
        run(deciding, make_event(deciding, deciding->decision->type));
}

static void written(struct hx_deciding *deciding, struct hx_store_request *done)
{
    struct hx_event event = make_event(deciding, HX_EV_STORE_FAILED);
    switch (done->result) {
    case HX_STORE_DONE:
        event.type = HX_EV_STORED;
        break;
    case HX_STORE_STALE:
        event.type = HX_EV_STALE;
        event.fresh = done->record_count > 0 ? &done->records[0].record : NULL;
        deciding->verdict->is_overtaken |= deciding->op.has_verb;
        break;
    case HX_STORE_NOT_DONE:
        snprintf(deciding->verdict->error, sizeof(deciding->verdict->error), "%s", done->error);
        if (deciding->decision->type == HX_EV_EVIDENCE) {
            fail(deciding, done->error); /* for a verb the core says so */
            hx_store_request_free(done);
            finish(deciding);
            return;
        }
        break;
    }
    struct hx_store_request *spent = done;
    if (event.type == HX_EV_STALE) { /* the event borrows from it */
        spent = deciding->fresh;
        deciding->fresh = done;
    }
    run(deciding, event);
    /* Only now: the step may have read the row that it replaces. */
    hx_store_request_free(spent);
}

/* ---- the way through ---- */

struct hx_deciding *hx_deciding_new(const struct hx_decider *decider,
                                    const struct hx_decision_target *target,
                                    const struct hx_decision *decision,
                                    struct hx_verdict *ret_verdict)
{
    struct hx_deciding *deciding = hx_new(struct hx_deciding);
    deciding->decider = decider;
    deciding->decision = decision;
    deciding->target = target;
    deciding->verdict = ret_verdict;
    *ret_verdict = (struct hx_verdict){.answer = HX_ANSWER_NOT_APPLIED, .id = target->id};
    if (target->wanted != NULL) {
        hx_assert(decision->type == HX_EV_CANCEL);
        deciding->wanted = *target->wanted;
        deciding->wanted.id = mint(decider);
        deciding->wanted.created = hx_clock_now(decider->clock);
        deciding->wanted.state = HX_OP_ABSENT;
        deciding->wanted.contract = hx_contract_default();
        ret_verdict->id = deciding->wanted.id;
    }
    ask_for_row(deciding);
    return deciding;
}

struct hx_deciding *hx_deciding_free(struct hx_deciding *deciding)
{
    if (deciding == NULL)
        return NULL;
    hx_store_request_free(deciding->next);
    /* In doubt the store still reads what these hold. */
    deciding->verdict->held[0] = deciding->row;
    deciding->verdict->held[1] = deciding->fresh;
    return hx_free(deciding);
}

struct hx_store_request *hx_deciding_next(struct hx_deciding *deciding)
{
    struct hx_store_request *next = deciding->next;
    deciding->next = NULL;
    hx_assert((next == NULL) == (deciding->stage == STAGE_OVER));
    return next;
}

void hx_deciding_take(struct hx_deciding *deciding, struct hx_store_request *done)
{
    struct hx_verdict *verdict = deciding->verdict;
    switch (deciding->stage) {
    case STAGE_LOAD:
        loaded(deciding, done);
        return;
    case STAGE_SETTLE:
        hx_store_request_free(done);
        load_again(deciding);
        return;
    case STAGE_WRITE:
        written(deciding, done);
        return;
    case STAGE_REQUEST:
        if (done->result == HX_STORE_NOT_DONE)
            fail(deciding, done->error);
        hx_store_request_free(done);
        finish(deciding);
        return;
    case STAGE_NOTE:
        verdict->is_note_lost = done->result != HX_STORE_DONE;
        hx_store_request_free(done);
        ask_for_what_is(deciding);
        return;
    case STAGE_READ:
        verdict->reading = done;
        if (done->result == HX_STORE_DONE && done->record_count > 0)
            verdict->found = &done->records[0];
        deciding->stage = STAGE_OVER;
        return;
    case STAGE_OVER:
        break;
    }
    hx_assert(!"stage");
}

void hx_deciding_give_up(struct hx_deciding *deciding, const char *why)
{
    enum stage stage = deciding->stage;
    deciding->stage = STAGE_OVER;
    if (stage == STAGE_NOTE)
        deciding->verdict->is_note_lost = true;
    if (stage == STAGE_NOTE || stage == STAGE_READ)
        return; /* it is decided; only what belongs to it is missing */
    fail(deciding, why);
    deciding->verdict->is_in_doubt = stage != STAGE_LOAD;
}

void hx_verdict_fini(struct hx_verdict *verdict)
{
    verdict->reading = hx_store_request_free(verdict->reading);
    verdict->held[0] = hx_store_request_free(verdict->held[0]);
    verdict->held[1] = hx_store_request_free(verdict->held[1]);
    verdict->found = NULL;
}
