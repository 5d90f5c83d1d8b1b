/* SPDX-License-Identifier: MIT */
/*
 * The promises, checked against rows, sends and effects after every turn and commit.
 */
#include "adapter/store_memory/ledger.h"
#include "core/record.h"
#include "sim/sim.h"

struct sim_shadow {
    enum hx_op_state state;
    uint64_t fence;
    struct hx_id effect_key;
    struct hx_digest identity, outcome;
    uint32_t attempt, adoptions;
    bool is_marked, needs_human, is_superseded, is_disputed;
    unsigned events;  /* of its transitions so far */
    uint32_t sends;   /* bit n: attempt n was sent */
    uint32_t creator; /* number of the call */
};

const struct hx_record *sim_row(struct sim *sim, const struct hx_id *operation)
{
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++) {
        if (hx_id_eq(&row->id, operation))
            return row;
    }
    return NULL;
}

const struct hx_record *sim_spooled(struct sim *sim, const struct hx_id *operation)
{
    hx_list_for_each (at, &sim->ledger->spool) {
        const struct hx_memory_spooled *entry = hx_container_of(at, struct hx_memory_spooled, node);
        if (hx_id_eq(&entry->record.id, operation))
            return &entry->record;
    }
    return NULL;
}

uint32_t sim_creator(struct sim *sim, const struct hx_id *operation)
{
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++) {
        if (hx_id_eq(&row->id, operation))
            return i < sim->shadow_count ? sim->shadows[i].creator : 0;
    }
    return 0;
}

static bool is_resendable(const struct hx_record *row)
{
    return row->contract.tool_class == HX_CLASS_IDEMPOTENT ||
           row->contract.tool_class == HX_CLASS_KEYED;
}

static bool operation_acted(struct sim *sim, const struct hx_id *operation)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (run->has_acted && hx_id_eq(&run->operation, operation))
            return true;
    }
    return false;
}

static void check_outcome_is_the_tools(struct sim *sim, const struct hx_record *row)
{
    if (row->outcome.place == HX_OUTCOME_GONE)
        sim_fail(sim,
                 "operation %s succeeded, and its outcome is gone: no tool here answers at such "
                 "length",
                 sim_short_id(&row->id));
    if (row->outcome.is_reconstructed)
        return;
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (hx_id_eq(&run->operation, &row->id) &&
            hx_span_eq(hx_buf_span(&run->result), row->outcome.bytes))
            return;
    }
    sim_fail(sim, "operation %s succeeded with an outcome that no run gave",
             sim_short_id(&row->id));
}

static void mark_evidence(struct sim *sim, const struct hx_record *row)
{
    sim_mark(sim, SIM_LATE_EVIDENCE);
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (run->is_taken_up && hx_id_eq(&run->operation, &row->id) &&
            hx_span_eq(hx_buf_span(&run->result), row->outcome.bytes))
            sim_mark(sim, SIM_POINT_EVIDENCE);
    }
}

static void check_move(struct sim *sim, const struct sim_shadow *before,
                       const struct hx_record *row)
{
    const char *id = sim_short_id(&row->id);
    bool was_final = hx_op_state_is_final(before->state);
    if (was_final && row->state != HX_OP_EXPIRED)
        sim_fail(sim, "operation %s left the final state %s for %s", id,
                 hx_op_state_name(before->state), hx_op_state_name(row->state));
    if (before->state == HX_OP_UNKNOWN) {
        if (row->state == HX_OP_RUNNING && !is_resendable(row))
            sim_fail(sim, "operation %s was unknown and runs again", id);
        bool is_proved = row->reason == HX_REASON_ABSENCE_PROVED && row->contract.has_probe;
        if ((row->state == HX_OP_READY && !is_proved) ||
            (row->state == HX_OP_FAILED && !is_proved) || row->state == HX_OP_CANCELLED)
            sim_fail(sim, "operation %s was unknown and is %s without a proof", id,
                     hx_op_state_name(row->state));
        if (row->state == HX_OP_SUCCEEDED && row->reason == HX_REASON_EVIDENCE)
            mark_evidence(sim, row);
        sim_probe_check(sim, row);
    }
}

static void check_state(struct sim *sim, const struct hx_record *row)
{
    const char *flaw = hx_record_flaw(row);
    if (flaw != NULL)
        sim_fail(sim, "row %s: %s", sim_short_id(&row->id), flaw);
    bool says_nothing_happened =
        row->state == HX_OP_FAILED || row->state == HX_OP_CANCELLED || row->state == HX_OP_READY;
    if (says_nothing_happened && operation_acted(sim, &row->id))
        sim_fail(sim, "operation %s is %s, and it happened", sim_short_id(&row->id),
                 hx_op_state_name(row->state));
    if (row->state == HX_OP_SUCCEEDED)
        check_outcome_is_the_tools(sim, row);
}

static void check_row(struct sim *sim, struct sim_shadow *shadow, const struct hx_record *row,
                      bool is_new)
{
    bool has_changed = is_new || shadow->state != row->state || shadow->fence != row->fence ||
                       shadow->attempt != row->attempt.number ||
                       shadow->is_marked != row->attempt.is_marked;
    if (!is_new) {
        if (row->fence < shadow->fence)
            sim_fail(sim, "the fence of operation %s fell", sim_short_id(&row->id));
        if (!hx_id_eq(&row->effect_key, &shadow->effect_key))
            sim_fail(sim, "operation %s has another effect key", sim_short_id(&row->id));
        if (shadow->state != row->state)
            check_move(sim, shadow, row);
        if (shadow->state == HX_OP_SUCCEEDED &&
            !hx_digest_eq(&shadow->outcome, &row->outcome.digest))
            sim_fail(sim, "the outcome of operation %s changed", sim_short_id(&row->id));
        if (!hx_digest_eq(&shadow->identity, &row->identity))
            sim_trace(sim, "row %s is known as %.*s", sim_short_id(&row->id),
                      HX_SPAN_FMT(row->key));
        if (!hx_digest_eq(&shadow->identity, &row->identity))
            sim_mark(sim, SIM_REKEYED);
        if (row->adoptions > shadow->adoptions)
            sim_mark(sim, SIM_ADOPTED);
        if (row->needs_human && !shadow->needs_human)
            sim_mark(sim, SIM_NEEDS_HUMAN);
    }
    if (is_new)
        shadow->creator = hx_id_is_nil(&row->predecessor) ? sim_look_caller(sim, row)
                                                          : sim_creator(sim, &row->predecessor);
    if (has_changed) {
        check_state(sim, row);
        sim_trace(sim, "row %s: %s (%s) fence %llu attempt %u %s%s%s", sim_short_id(&row->id),
                  hx_op_state_name(row->state), hx_reason_name(row->reason),
                  (unsigned long long)row->fence, row->attempt.number,
                  hx_attempt_state_name(row->attempt.state),
                  row->attempt.is_marked ? " marked" : "", row->is_superseded ? " superseded" : "");
    }
    for (uint32_t i = 1; row->state == HX_OP_UNKNOWN && has_changed && i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (hx_id_eq(&run->operation, &row->id))
            sim_intent_get(sim, sim_call_get(sim, run->call)->intent)->was_disturbed = true;
    }
    if (row->is_superseded && !shadow->is_superseded) {
        for (uint32_t i = 1; i <= sim->run_count; i++) {
            const struct sim_run *run = sim_run_get(sim, i);
            if (!hx_id_eq(&run->operation, &row->id))
                continue;
            /* A person said "again": one more effect is wanted. */
            struct sim_intent *intent = sim_intent_get(sim, sim_call_get(sim, run->call)->intent);
            intent->is_person_decided = true;
            intent->allowed_more++;
        }
    }
    const struct sim_told before = {is_new ? HX_OP_ABSENT : shadow->state, shadow->needs_human,
                                    shadow->is_superseded, shadow->is_disputed};
    unsigned due = sim_events_due(&before, row);
    shadow->events += due;
    if (due > 0 || has_changed)
        sim_check_events(sim, row, shadow->events);
    shadow->state = row->state;
    shadow->fence = row->fence;
    shadow->effect_key = row->effect_key;
    shadow->identity = row->identity;
    shadow->outcome = row->outcome.digest;
    shadow->attempt = row->attempt.number;
    shadow->adoptions = row->adoptions;
    shadow->is_marked = row->attempt.is_marked;
    shadow->needs_human = row->needs_human;
    shadow->is_superseded = row->is_superseded;
    shadow->is_disputed = row->is_disputed;
}

void sim_check_rows(struct sim *sim)
{
    const struct hx_record *row;
    size_t events = 0;
    for (size_t i = 0; (row = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++) {
        bool is_new = i >= sim->shadow_count;
        if (is_new) {
            if (sim->shadow_count == sim->shadow_capacity) {
                sim->shadow_capacity = sim->shadow_capacity == 0 ? 32 : 2 * sim->shadow_capacity;
                sim->shadows =
                    hx_realloc(sim->shadows, sim->shadow_capacity * sizeof(sim->shadows[0]));
                hx_assert(sim->shadows != NULL);
            }
            sim->shadows[sim->shadow_count++] = (struct sim_shadow){0};
        }
        check_row(sim, &sim->shadows[i], row, is_new);
        events += sim->shadows[i].events;
    }
    sim_check_event_total(sim, events);
}

void sim_shadows_free(struct sim *sim)
{
    hx_free(sim->shadows);
}

/* ---- a byte leaves ---- */

static size_t row_index(struct sim *sim, const struct hx_id *operation)
{
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++) {
        if (hx_id_eq(&row->id, operation))
            return i;
    }
    sim_fail(sim, "a byte of operation %s leaves, which is not in the ledger",
             sim_short_id(operation));
}

/* Every earlier send of an opaque tool must have been refused by the tool. */
static void check_nothing_sent_before(struct sim *sim, const struct hx_record *row,
                                      const struct sim_shadow *shadow)
{
    for (uint32_t attempt = 1; attempt < row->attempt.number && attempt < 32; attempt++) {
        if ((shadow->sends & 1u << attempt) == 0)
            continue;
        bool was_refused = false;
        for (uint32_t i = 1; i <= sim->run_count; i++) {
            const struct sim_run *run = sim_run_get(sim, i);
            was_refused |= run->is_refusal && run->is_over && run->attempt == attempt &&
                           hx_id_eq(&run->operation, &row->id);
        }
        if (!was_refused)
            sim_fail(sim, "operation %s is sent as attempt %u, and attempt %u may have acted",
                     sim_short_id(&row->id), row->attempt.number, attempt);
    }
}

/* An idempotent tool may be called again only when the old call cannot land any more. */
static void check_old_transport_gone(struct sim *sim, const struct sim_upstream *upstream,
                                     const struct hx_record *row)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        const struct sim_process *process = sim_process_find(sim, run->process);
        if (hx_id_eq(&run->operation, &row->id) && process != NULL && !process->is_dead &&
            !process->is_remote && !run->is_over && run->process != upstream->process)
            sim_fail(sim, "operation %s is sent again while process %u still works on it",
                     sim_short_id(&row->id), run->process);
    }
}

void sim_check_send(struct sim_upstream *upstream, const struct hx_id *operation, uint32_t attempt)
{
    const struct sim_life *life = upstream->life;
    struct sim *sim = life->sim;
    size_t index = row_index(sim, operation);
    const struct hx_record *row = hx_memory_ledger_row(sim->ledger, index);
    sim_check_rows(sim);
    struct sim_shadow *shadow = &sim->shadows[index];
    if (row->state != HX_OP_RUNNING || !hx_id_eq(&row->owner, &life->owner) ||
        row->attempt.number != attempt || !row->attempt.is_marked)
        sim_fail(sim, "a byte of operation %s leaves, and its row says %s, attempt %u, %smarked",
                 sim_short_id(operation), hx_op_state_name(row->state), row->attempt.number,
                 row->attempt.is_marked ? "" : "not ");
    if (attempt < 32 && (shadow->sends & 1u << attempt) != 0)
        sim_fail(sim, "attempt %u of operation %s is sent twice", attempt, sim_short_id(operation));
    if (attempt < 32)
        shadow->sends |= 1u << attempt;
    if (!is_resendable(row))
        check_nothing_sent_before(sim, row, shadow);
    if (row->contract.tool_class == HX_CLASS_IDEMPOTENT)
        check_old_transport_gone(sim, upstream, row);
}

/* ---- the tool acts ---- */

/* Is this one more effect in the world, or one that the tool's contract makes none of? */
static bool is_new_effect(struct sim *sim, const struct sim_run *run)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *other = sim_run_get(sim, i);
        if (other == run || !other->has_acted || other->tool != run->tool)
            continue;
        if (run->tool == SIM_BANK && strcmp(other->effect_key, run->effect_key) == 0)
            return false;
        if (run->tool == SIM_SET && hx_id_eq(&other->operation, &run->operation))
            return false;
        if (hx_id_eq(&other->operation, &run->operation))
            sim_fail(sim, "operation %s acted twice, in runs %u and %u",
                     sim_short_id(&run->operation), other->number, run->number);
    }
    return true;
}

static void check_group(struct sim *sim, const struct sim_intent *of)
{
    uint32_t effects = 0, allowed = 0, calls = 0;
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        const struct sim_intent *intent = sim_intent_get(sim, i);
        if (intent->tool != of->tool || intent->group != of->group)
            continue;
        effects += intent->effects;
        allowed += (intent->state != SIM_INTENT_PLANNED) + intent->allowed_more;
    }
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_intent *intent = sim_intent_get(sim, sim_call_get(sim, i)->intent);
        calls += intent->tool == of->tool && intent->group == of->group;
    }
    if (of->tool == SIM_NOTE)
        allowed = calls;
    if (effects > allowed)
        sim_fail(sim, "%s %u was wanted %u times and happened %u times", sim_tool_names[of->tool],
                 of->group, allowed, effects);
}

/* A retry of one who gave up without a word took an equal call of somebody else, which nobody
 * waited for, for the lost one: that his own is still open he had not said. Whoever made that one
 * makes another. */
static void allow_other(struct sim *sim, struct sim_intent *intent, const struct sim_run *run)
{
    uint32_t creator = sim_creator(sim, &run->operation);
    bool is_others = creator != 0 && sim_call_get(sim, creator)->intent != intent->number;
    for (uint32_t i = 1; is_others && intent->key[0] == '\0' && i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        if (call->intent == intent->number && call->number < run->call && call->answers == 0 &&
            call->arrivals > 0 && call->state == SIM_CALL_ABANDONED) {
            intent->allowed_more++;
            return;
        }
    }
}

void sim_check_act(struct sim *sim, struct sim_run *run)
{
    if (run->tool == SIM_LOOK)
        return;
    struct sim_intent *intent = sim_intent_get(sim, sim_call_get(sim, run->call)->intent);
    const struct hx_record *row = sim_row(sim, &run->operation);
    bool is_new = is_new_effect(sim, run);
    sim_trace(sim, "run %u acts for intent %u%s", run->number, intent->number,
              is_new ? "" : " (no new effect)");
    if (sim_call_get(sim, run->call)->is_conflict)
        sim_fail(sim, "a conflicting call acted");
    if (row == NULL || row->state == HX_OP_READY || row->state == HX_OP_FAILED ||
        row->state == HX_OP_CANCELLED)
        sim_fail(sim, "run %u acts, and operation %s is %s", run->number,
                 sim_short_id(&run->operation),
                 row != NULL ? hx_op_state_name(row->state) : "absent");
    if (!is_new)
        return;
    intent->effects++;
    allow_other(sim, intent, run);
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        const struct sim_intent *other = sim_intent_get(sim, i);
        if (other != intent && other->group == intent->group && other->tool == intent->tool &&
            other->key[0] == '\0' && intent->key[0] == '\0' && other->effects > 0 &&
            other->began == intent->began)
            sim_mark(sim, SIM_PARALLEL);
    }
    if (intent->key[0] != '\0' && intent->effects > 1 + intent->allowed_more)
        sim_fail(sim, "key %s acted %u times", intent->key, intent->effects);
    check_group(sim, intent);
}

/* ---- the end ---- */

/* The tool never answers, no timeout was declared, and the client has not said that it gave up. */
static bool is_hanging(struct sim *sim, const struct sim_call *call)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        const struct sim_process *process = sim_process_find(sim, run->process);
        const struct sim_call *of = sim_call_get(sim, run->call);
        bool is_silent = run->style == SIM_ANSWER_NEVER || run->is_cancelled;
        if (of->intent == call->intent && is_silent && process != NULL && !process->is_dead)
            return true;
    }
    return false;
}

static void check_calls(struct sim *sim)
{
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        const struct sim_door *door = sim_door_find(sim, call->life, call->session);
        bool is_owed = door != NULL && !door->is_closed && !door->is_reader_gone &&
                       call->arrivals > 0 && call->answers == 0 && !call->cancel_arrived;
        if (is_owed && door->life->port != 0)
            is_owed = sim_call_is_heard(sim, call);
        bool is_hung = call->state == SIM_CALL_ABANDONED && is_hanging(sim, call);
        if (is_owed && !is_hung && !sim_look_is_asked(sim, call))
            sim_fail(sim, "call %u was forgotten", call->number);
    }
}

static void check_intents(struct sim *sim)
{
    for (uint32_t i = 1; i <= sim->intent_count; i++) {
        const struct sim_intent *intent = sim_intent_get(sim, i);
        bool is_asked = false;
        for (uint32_t j = 1; j <= sim->call_count; j++) {
            const struct sim_call *call = sim_call_get(sim, j);
            is_asked |= call->intent == intent->number && sim_look_is_asked(sim, call);
        }
        if (intent->state == SIM_INTENT_OPEN && !is_asked)
            sim_fail(sim, "intent %u is still open", intent->number);
    }
}

static void check_settled(struct sim *sim, const struct hx_record *row)
{
    const int64_t patience_ms = 17 * 60 * 1000;
    struct hx_now now = hx_clock_now(&sim->clock);
    bool is_hung = false;
    for (uint32_t i = 1; i <= sim->call_count && row->state == HX_OP_RUNNING; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        is_hung |= call->state != SIM_CALL_OPEN && call->answers < call->arrivals &&
                   is_hanging(sim, call) && sim_life_of_owner(sim, &row->owner) != NULL;
    }
    if (is_hung)
        return;
    if (row->state == HX_OP_RUNNING || row->state == HX_OP_ABSENT)
        sim_fail(sim, "operation %s is still %s", sim_short_id(&row->id),
                 hx_op_state_name(row->state));
    if (row->state == HX_OP_UNKNOWN && !row->is_superseded && !row->needs_human &&
        hx_boot_eq(&row->settled.boot, &now.boot) &&
        hx_mono_since_ms(now.mono, row->settled.mono) > patience_ms)
        sim_fail(sim, "operation %s is unknown, and nobody is told so", sim_short_id(&row->id));
}

static const char *restless(struct sim *sim)
{
    hx_list_for_each (at, &sim->lives) {
        const char *why = sim_look_idle(hx_container_of(at, struct sim_life, node)->gateway);
        if (why != NULL)
            return why;
    }
    return NULL;
}

void sim_check_end(struct sim *sim)
{
    const struct hx_record *row;
    /* A sweep may just be under way. */
    const char *why = restless(sim);
    for (int i = 0; why != NULL && i < 20; i++) {
        sim_run_for(sim, 137);
        why = restless(sim);
    }
    if (why != NULL)
        sim_fail(sim, "a life does not come to rest: %s", why);
    check_calls(sim);
    check_intents(sim);
    for (size_t i = 0; (row = hx_memory_ledger_row(sim->ledger, i)) != NULL; i++)
        check_settled(sim, row);
}
