/* SPDX-License-Identifier: MIT */
/* Two worlds with the same hash are the same for everything that can still happen in them. What is
 * left out is what no rule looks at: reasons, names, the times of creation and update. */
#include "model.h"

struct mixer {
    uint64_t value;
};

static void mix(struct mixer *mixer, uint64_t word)
{
    uint64_t x = mixer->value ^ word;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 32;
    mixer->value = x;
}

static void mix_moment(struct mixer *mixer, const struct hx_now *now)
{
    mix(mixer, now->wall.ms == 0 ? 0 : (uint64_t)now->mono.ms << 8 | now->boot.bytes[0]);
}

static void mix_id(struct mixer *mixer, const struct hx_id *id)
{
    mix(mixer, (uint64_t)id->bytes[14] << 8 | id->bytes[15]);
}

/* Fences and numbers of attempts only rise, and rules only compare them with the row's. */
static void mix_record(struct mixer *mixer, const struct hx_record *record,
                       const struct hx_record *row)
{
    mix(mixer, (uint64_t)record->state | (uint64_t)(record->fence - row->fence) << 8 |
                   (uint64_t)record->sends << 48);
    mix(mixer, (uint64_t)(uint16_t)(record->attempt.number - row->attempt.number) |
                   (uint64_t)record->attempt.state << 16 |
                   (uint64_t)record->attempt.is_marked << 24 |
                   (uint64_t)record->earlier.open << 32 | (uint64_t)record->earlier.refused << 48);
    mix(mixer, (uint64_t)record->earlier.asked | (uint64_t)record->is_approved << 32 |
                   (uint64_t)record->is_disputed << 33 | (uint64_t)record->is_superseded << 34 |
                   (uint64_t)record->is_tombstone << 35 | (uint64_t)record->needs_human << 36 |
                   (uint64_t)record->outcome.kind << 40);
    mix_id(mixer, &record->owner);
    mix_id(mixer, &record->successor);
    mix_moment(mixer, &record->attempt.claimed_at);
    mix_moment(mixer, &record->attempt.marked_at);
    mix_moment(mixer, &record->first_mark);
    mix_moment(mixer, &record->not_before);
    mix_moment(mixer, &record->settled);
}

static void mix_op(struct mixer *mixer, const struct sim_op *sim, const struct hx_record *row)
{
    const struct hx_op *op = &sim->op;
    mix(mixer, sim->exists);
    if (!sim->exists)
        return;
    mix(mixer, (uint64_t)op->phase | (uint64_t)op->write << 8 |
                   (uint64_t)op->requires_unmarked << 16 | (uint64_t)op->is_spooled << 17 |
                   (uint64_t)op->is_retry_due << 18 | (uint64_t)op->has_verb << 19 |
                   (uint64_t)op->must_follow << 20 | (uint64_t)op->start_tries << 24 |
                   (uint64_t)op->waiters << 32);
    mix(mixer, op->unsent_fence);
    mix(mixer, (uint64_t)sim->write | (uint64_t)sim->is_spooling << 8 |
                   (uint64_t)sim->is_look_due << 9 | (uint64_t)sim->was_sent << 10 |
                   (uint64_t)sim->asked_late << 11 | (uint64_t)sim->deferred_calls << 16 |
                   (uint64_t)sim->deferred_evidence << 24 | (uint64_t)sim->deferred_verbs << 32);
    if (sim->write == WRITE_DONE_MARKED)
        mix_moment(mixer, &sim->claim_marked_at);
    bool has_verb = op->has_verb || sim->deferred_verbs != 0;
    mix(mixer, has_verb ? (uint64_t)sim->verb | (uint64_t)sim->seen_attempt << 32 : 0);
    mix_record(mixer, &op->durable, row);
    bool is_writing = op->phase == HX_PHASE_WRITING || op->phase == HX_PHASE_MARKING ||
                      op->phase == HX_PHASE_SETTLING;
    if (is_writing) {
        mix(mixer, op->expected_fence - row->fence);
        mix_record(mixer, &op->next, row);
    }
}

static void mix_truth(struct mixer *mixer, const struct world *world, unsigned row)
{
    mix(mixer,
        (uint64_t)world->has_row[row] | (uint64_t)world->is_mark_unsynced[row] << 1 |
            (uint64_t)world->told_success[row] << 2 | (uint64_t)world->told_cancelled[row] << 3 |
            (uint64_t)world->is_known_to_tool[row] << 4 | (uint64_t)world->effects[row] << 8 |
            (uint64_t)(world->claim_epoch[row] == world->epoch) << 16);
    if (world->has_row[row])
        mix_record(mixer, &world->row[row], &world->row[row]);
}

uint64_t world_hash(const struct world *world, uint64_t seed)
{
    struct mixer mixer = {seed};
    const struct budget *left = &world->left;
    mix(&mixer, (uint64_t)left->crashes | (uint64_t)left->store_errors << 8 |
                    (uint64_t)left->calls << 16 | (uint64_t)left->verbs << 24 |
                    (uint64_t)left->not_sent << 32 | (uint64_t)left->refusals << 40 |
                    (uint64_t)left->jumps << 48);
    mix(&mixer, (uint64_t)world->clock_ms << 8 | world->boot);
    for (unsigned row = 0; row < ROWS; row++)
        mix_truth(&mixer, world, row);
    for (unsigned p = 0; p < PROCESSES; p++) {
        mix(&mixer, (uint64_t)world->life[p] | (uint64_t)world->calls_to_take[p] << 8);
        for (unsigned life = 0; life < LIVES; life++)
            mix(&mixer, (uint64_t)world->is_server_gone[p][life] |
                            (uint64_t)world->spool[p][life][0] << 1 |
                            (uint64_t)world->spool[p][life][1] << 2);
        for (unsigned row = 0; row < ROWS; row++)
            mix_op(&mixer, &world->ops[p][row], &world->row[row]);
    }
    for (unsigned m = 0; m < MESSAGES; m++) {
        const struct message *message = &world->messages[m];
        uint32_t behind = world->row[message->row].attempt.number - message->attempt;
        mix(&mixer, message->state == MESSAGE_NONE
                        ? 0
                        : (uint64_t)message->state | (uint64_t)message->process << 8 |
                              (uint64_t)message->life << 16 | (uint64_t)message->row << 24 |
                              (uint64_t)behind << 32);
    }
    return mixer.value;
}
