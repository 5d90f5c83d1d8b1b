/* SPDX-License-Identifier: MIT */
/* The invariants of docs/invariants.md, against the truth that only the world knows. */
#include "model.h"

bool can_still_act(const struct world *world, unsigned row)
{
    for (unsigned m = 0; m < MESSAGES; m++) {
        const struct message *message = &world->messages[m];
        bool is_alive = message->state == MESSAGE_QUEUED || message->state == MESSAGE_IN_PIPE ||
                        message->state == MESSAGE_FLYING;
        if (is_alive && message->row == row)
            return true;
    }
    return false;
}

static void check_row_truth(const struct world *world, unsigned row)
{
    const struct hx_record *record = &world->row[row];
    unsigned effects = world->effects[row];
    enum hx_effect_state effect = hx_record_effect(record);
    SIM_CHECK("I25", hx_record_flaw(record) == NULL);
    /* Checked again in every later state, so it also says "and never will". */
    if (record->state == HX_OP_FAILED)
        SIM_CHECK("I5", effects == 0);
    if (record->state == HX_OP_CANCELLED)
        SIM_CHECK("I8", effects == 0);
    if (record->state == HX_OP_SUCCEEDED)
        SIM_CHECK("I3", effects >= 1);
    if (effect == HX_EFFECT_CONFIRMED)
        SIM_CHECK("I15", effects >= 1);
    if (effect == HX_EFFECT_NONE || effect == HX_EFFECT_ABSENT)
        SIM_CHECK("I15", effects == 0);
    SIM_CHECK("I5", !record->is_disputed || record->is_superseded);
}

void check_world(const struct world *world)
{
    for (unsigned row = 0; row < ROWS; row++) {
        if (world->tool_class != HX_CLASS_IDEMPOTENT)
            SIM_CHECK("I1", world->effects[row] <= 1);
        if (world->told_cancelled[row])
            SIM_CHECK("I8", world->effects[row] == 0);
        if (world->has_row[row])
            check_row_truth(world, row);
        else
            SIM_CHECK("I19", world->effects[row] == 0);
    }
}

/* The outcome can be given again after any crash. */
static bool is_outcome_durable(const struct world *world, unsigned process, unsigned row)
{
    return (world->has_row[row] && world->row[row].state == HX_OP_SUCCEEDED) ||
           world->spool[process][world->life[process]][row];
}

static bool is_in_a_spool(const struct world *world, unsigned row)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned life = 0; life < LIVES; life++) {
            if (world->spool[p][life][row])
                return true;
        }
    }
    return false;
}

void check_answer(struct world *world, unsigned process, unsigned row, enum hx_answer answer,
                  bool asked_late)
{
    /* Its own commit is under way: the ledger's last word has not reached this process yet. */
    bool is_settling = world->ops[process][row].op.phase == HX_PHASE_SETTLING;
    switch (answer) {
    case HX_ANSWER_OUTCOME:
        SIM_CHECK("I3", is_outcome_durable(world, process, row));
        world->told_success[row] = true;
        return;
    case HX_ANSWER_CANCELLED:
        SIM_CHECK("I6", !world->told_success[row]);
        SIM_CHECK("I8", world->row[row].state == HX_OP_CANCELLED);
        world->told_cancelled[row] = true;
        return;
    case HX_ANSWER_FAILED:
        SIM_CHECK("I6", !world->told_success[row]);
        SIM_CHECK("I5", world->effects[row] == 0 && !can_still_act(world, row));
        return;
    case HX_ANSWER_LEDGER_UNAVAILABLE:
    case HX_ANSWER_UPSTREAM_UNAVAILABLE:
        /* "This request sent nothing." */
        SIM_CHECK("§8", !world->ops[process][row].was_sent);
        return;
    case HX_ANSWER_OUTCOME_UNKNOWN:
        SIM_CHECK("I6", !asked_late || is_settling || is_in_a_spool(world, row));
        return;
    default:
        return;
    }
}

void check_send(const struct world *world, unsigned process, unsigned row)
{
    const struct hx_record *record = &world->row[row];
    struct hx_id own = owner_token(process, world->life[process]);
    SIM_CHECK("I2", world->has_row[row]);
    SIM_CHECK("I2", record->state == HX_OP_RUNNING);
    SIM_CHECK("I2", record->attempt.is_marked || world->claim_epoch[row] != world->epoch);
    SIM_CHECK("I2", hx_id_eq(&record->owner, &own));
    SIM_CHECK("I7", record->fence == world->ops[process][row].op.durable.fence);
    SIM_CHECK("I13",
              hx_id_eq(&record->effect_key, &world->ops[process][row].op.durable.effect_key));
    if (world->tool_class != HX_CLASS_IDEMPOTENT)
        return;
    /* An idempotent tool must not be given the same twice in a changed order. */
    for (unsigned m = 0; m < MESSAGES; m++) {
        const struct message *message = &world->messages[m];
        bool is_waiting = message->state == MESSAGE_QUEUED || message->state == MESSAGE_IN_PIPE;
        SIM_CHECK("§6", !is_waiting || message->row != row);
    }
}

void check_row_change(const struct world *world, const struct hx_record *before,
                      const struct hx_record *after, struct hx_id writer)
{
    (void)world;
    SIM_CHECK("I25", hx_record_flaw(after) == NULL);
    if (before == NULL)
        return;
    SIM_CHECK("I7", after->fence >= before->fence);
    if (after->fence == before->fence)
        SIM_CHECK("I7", hx_id_eq(&before->owner, &writer));
    SIM_CHECK("I13", hx_id_eq(&before->effect_key, &after->effect_key));
    if (hx_op_state_is_final(before->state))
        SIM_CHECK("I4", after->state == before->state || after->state == HX_OP_EXPIRED);
    bool may_have_acted = before->state == HX_OP_UNKNOWN;
    if (may_have_acted && after->state == HX_OP_RUNNING)
        SIM_CHECK("I12", after->earlier.open >= before->earlier.open);
    SIM_CHECK("I9", hx_digest_eq(&before->fingerprint, &after->fingerprint));
}

void check_settled(const struct world *world)
{
    for (unsigned row = 0; row < ROWS; row++) {
        if (world->has_row[row])
            SIM_CHECK("I24", world->row[row].state != HX_OP_RUNNING);
        if (world->has_row[row] && world->row[row].state == HX_OP_UNKNOWN)
            SIM_CHECK("I24", world->row[row].needs_human || world->row[row].is_superseded);
        for (unsigned p = 0; p < PROCESSES; p++) {
            SIM_CHECK("I24", world->ops[p][row].op.waiters == 0);
            SIM_CHECK("I24", world->calls_to_take[p] == 0);
        }
    }
}
