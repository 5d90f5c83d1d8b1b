/* SPDX-License-Identifier: MIT */
/*
 * Decisions about operations by those who do not run them: an explicit verb of a caller, the admin
 * API. Each is carried out as one of another process would be (decide.h): by the row and its fence.
 * Whoever works on the operation, here or elsewhere, is then told to look at it.
 */
#include "engine/internal.h"

#include <stdio.h>

enum { WHO_MAX = 256, ARENA_MAX = 256 << 20 };

struct hx_verb {
    struct hx_list node; /* gateway->verbs */
    struct hx_gateway *gateway;
    struct hx_arena arena; /* of the copies */
    struct hx_decider decider;
    struct hx_decision decision;
    struct hx_decision_target target;
    struct hx_record wanted;
    struct hx_record owner;
    struct hx_verdict verdict;
    struct hx_deciding *deciding; /* NULL: it only reads */
    hx_gateway_decided *decided;
    hx_gateway_read *read;
    void *context;
    char who[WHO_MAX];
};

static struct hx_verb *new_verb(struct hx_gateway *gateway, void *context)
{
    struct hx_verb *verb = hx_new(struct hx_verb);
    verb->gateway = gateway;
    verb->context = context;
    hx_arena_init(&verb->arena, ARENA_MAX);
    hx_list_append(&gateway->verbs, &verb->node);
    return verb;
}

static void free_verb(struct hx_verb *verb)
{
    if (verb->deciding != NULL)
        hx_deciding_free(verb->deciding);
    hx_verdict_fini(&verb->verdict);
    hx_list_unlink(&verb->node);
    hx_arena_fini(&verb->arena);
    hx_free(verb);
}

static struct hx_record keep(struct hx_verb *verb, const struct hx_record *record)
{
    struct hx_record kept = {0};
    bool is_kept = hx_record_copy(&verb->arena, record, &kept);
    hx_assert(is_kept);
    return kept;
}

static void tell_one(struct hx_gateway *gateway, const struct hx_id *who,
                     const struct hx_id *operation)
{
    struct hx_neighbourhood *neighbours = gateway->ports.neighbours;
    struct hx_id self = gateway->ports.store->ops->owner(gateway->ports.store);
    if (neighbours == NULL || neighbours->ops->tell == NULL || hx_id_is_nil(who) ||
        hx_id_eq(who, &self))
        return;
    neighbours->ops->tell(neighbours, who, operation);
}

/* Those who work on the operation or wait for it look at it now instead of at their next poll. Only
 * a courtesy: without it they see the same, later. */
static void tell_all(struct hx_verb *verb)
{
    struct hx_gateway *gateway = verb->gateway;
    const struct hx_verdict *verdict = &verb->verdict;
    struct hx_work *work = hx_work_find(gateway, &verdict->id);
    if (work != NULL)
        hx_work_read_again(work);
    tell_one(gateway, &verdict->owner_before, &verdict->id);
    if (verdict->found != NULL && !hx_id_eq(&verdict->found->record.holder, &verdict->owner_before))
        tell_one(gateway, &verdict->found->record.holder, &verdict->id);
    if (gateway->ports.neighbours != NULL)
        gateway->ports.neighbours->ops->changed(gateway->ports.neighbours, &verdict->id);
}

static void log_decision(const struct hx_verb *verb)
{
    const struct hx_verdict *verdict = &verb->verdict;
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&verdict->id, id);
    hx_tell(verb->gateway, HX_TELL_INFO, "decision", "operation=%s decision=%s answer=%s", id,
            hx_decision_name(verb->decision.type),
            verdict->is_absent ? "ABSENT" : hx_answer_name(verdict->answer));
}

static void go_on(struct hx_verb *verb)
{
    struct hx_store_request *next = hx_deciding_next(verb->deciding);
    if (next != NULL) {
        hx_store_submit_for_verb(verb->gateway, verb, next);
        return;
    }
    log_decision(verb);
    if (!verb->verdict.is_absent)
        tell_all(verb);
    if (verb->decided != NULL)
        verb->decided(verb->context, &verb->verdict);
    free_verb(verb);
}

void hx_verb_taken(struct hx_verb *verb, struct hx_store_request *done)
{
    if (verb->deciding != NULL) {
        hx_deciding_take(verb->deciding, done);
        go_on(verb);
        return;
    }
    verb->read(verb->context, done);
    hx_store_request_free(done);
    free_verb(verb);
}

void hx_verbs_end(struct hx_gateway *gateway)
{
    hx_list_for_each_safe (node, &gateway->verbs)
        free_verb(hx_container_of(node, struct hx_verb, node));
}

struct hx_verb *hx_gateway_decide(struct hx_gateway *gateway,
                                  const struct hx_decision_target *target,
                                  const struct hx_decision *decision, struct hx_span who,
                                  hx_gateway_decided *decided, void *context)
{
    struct hx_span outcome = decision->outcome.bytes;
    struct hx_verb *verb = new_verb(gateway, context);
    if (!hx_span_is_absent(outcome)) {
        outcome = hx_arena_dup(&verb->arena, outcome);
        if (hx_span_is_absent(outcome)) {
            free_verb(verb);
            return NULL;
        }
    }
    snprintf(verb->who, sizeof(verb->who), "%.*s", HX_SPAN_FMT(who));
    verb->decider = (struct hx_decider){.store = gateway->ports.store,
                                        .clock = gateway->ports.clock,
                                        .rand = gateway->ports.rand,
                                        .who = verb->who};
    verb->decision = *decision;
    verb->decision.words = hx_span_is_absent(decision->words)
                               ? HX_SPAN_NONE
                               : hx_arena_dup(&verb->arena, decision->words);
    verb->decision.outcome.bytes = outcome;
    verb->target.id = target->id;
    if (target->wanted != NULL) {
        verb->wanted = keep(verb, target->wanted);
        verb->target.wanted = &verb->wanted;
    }
    if (target->owner != NULL) {
        verb->owner = keep(verb, target->owner);
        verb->target.owner = &verb->owner;
    }
    verb->decided = decided;
    verb->deciding =
        hx_deciding_new(&verb->decider, &verb->target, &verb->decision, &verb->verdict);
    go_on(verb);
    return verb;
}

void hx_verb_forget(struct hx_verb *verb)
{
    verb->decided = NULL;
}

void hx_gateway_look(struct hx_gateway *gateway, struct hx_store_request *request,
                     hx_gateway_read *read, void *context)
{
    struct hx_verb *verb = new_verb(gateway, context);
    verb->read = read;
    hx_store_submit_for_verb(gateway, verb, request);
}
