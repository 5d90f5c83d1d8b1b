/* SPDX-License-Identifier: MIT */
/* The ledger of the small world, as port/store.h promises it. */
#include "model.h"

struct hx_id owner_token(unsigned process, unsigned life)
{
    return kit_id(0x100 + process * 16 + life);
}

bool owner_lives(const struct world *world, const struct hx_id *owner)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        struct hx_id token = owner_token(p, world->life[p]);
        if (hx_id_eq(&token, owner))
            return true;
    }
    return false;
}

static bool is_server_gone(const struct world *world, const struct hx_id *owner)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned life = 0; life < LIVES; life++) {
            struct hx_id token = owner_token(p, life);
            if (hx_id_eq(&token, owner))
                return world->is_server_gone[p][life];
        }
    }
    return false;
}

/* The sender of the present attempt only: of earlier ones a row says nothing. */
struct hx_facts store_facts(const struct world *world, unsigned process, unsigned row)
{
    struct hx_facts facts = {.is_same_target = true};
    if (!world->has_row[row])
        return facts;
    const struct hx_id *owner = &world->row[row].owner;
    struct hx_id own = owner_token(process, world->life[process]);
    if (hx_id_eq(owner, &own))
        facts.hands = HX_HANDS_MINE;
    else if (!hx_id_is_nil(owner))
        facts.hands = owner_lives(world, owner) ? HX_HANDS_ALIVE : HX_HANDS_DEAD;
    facts.is_sender_gone = facts.hands != HX_HANDS_ALIVE && is_server_gone(world, owner);
    facts.is_epoch_current = world->claim_epoch[row] == world->epoch;
    return facts;
}

static void put_row(struct world *world, unsigned row, const struct hx_record *next,
                    struct hx_id writer)
{
    check_row_change(world, world->has_row[row] ? &world->row[row] : NULL, next, writer);
    bool is_claim = !world->has_row[row] || next->attempt.number != world->row[row].attempt.number;
    if (is_claim)
        world->claim_epoch[row] = world->epoch;
    world->row[row] = *next;
    world->has_row[row] = true;
    world->is_mark_unsynced[row] = false; /* a synced commit takes along what came before */
}

static bool mark_row(struct world *world, unsigned row, const struct hx_op *op)
{
    struct hx_record *record = &world->row[row];
    if (!world->has_row[row] || record->fence != op->expected_fence ||
        record->attempt.number != op->next.attempt.number || record->attempt.is_marked)
        return false;
    record->attempt.is_marked = true;
    record->attempt.marked_at = op->next.attempt.marked_at;
    record->first_mark = op->next.first_mark;
    world->is_mark_unsynced[row] = true;
    return true;
}

/* What follows a claim at once, if the store gets that far: variant 0 is a crash in between too. */
static void mark_claim(struct world *world, unsigned row, struct hx_now *ret_at)
{
    struct hx_record *record = &world->row[row];
    *ret_at = world_now(world);
    record->attempt.is_marked = true;
    record->attempt.marked_at = *ret_at;
    if (record->first_mark.wall.ms == 0)
        record->first_mark = *ret_at;
    world->is_mark_unsynced[row] = true;
}

static bool write_row(struct world *world, unsigned row, const struct hx_op *op,
                      struct hx_id writer)
{
    if (op->write == HX_WRITE_INSERT) {
        if (world->has_row[row])
            return false;
        put_row(world, row, &op->next, writer);
        return true;
    }
    const struct hx_record *record = &world->row[row];
    if (!world->has_row[row] || record->fence != op->expected_fence)
        return false;
    bool is_epoch_over = world->claim_epoch[row] != world->epoch;
    if (op->requires_unmarked && (record->attempt.is_marked || is_epoch_over))
        return false;
    if (op->write == HX_WRITE_SUCCESSOR) {
        if (row + 1 == ROWS || world->has_row[row + 1])
            return false;
        put_row(world, row + 1, &op->successor, writer);
    }
    put_row(world, row, &op->next, writer);
    return true;
}

void store_lose_marks(struct world *world)
{
    for (unsigned row = 0; row < ROWS; row++) {
        if (world->is_mark_unsynced[row]) {
            struct hx_record *record = &world->row[row];
            if (hx_boot_eq(&record->first_mark.boot, &record->attempt.marked_at.boot) &&
                record->first_mark.mono.ms == record->attempt.marked_at.mono.ms &&
                record->earlier.open + record->earlier.asked + record->earlier.refused == 0)
                record->first_mark = (struct hx_now){0};
            record->attempt.is_marked = false;
            record->attempt.marked_at = (struct hx_now){0};
            world->is_mark_unsynced[row] = false;
        }
    }
}

void store_execute(struct world *world, unsigned process, unsigned row, unsigned variant)
{
    struct sim_op *sim = &world->ops[process][row];
    if (variant == 1) {
        sim->write = WRITE_FAILED;
    } else if (variant == 2) {
        /* An I/O error: what was written without a sync may be gone, and nobody is told. */
        world->epoch++;
        store_lose_marks(world);
        sim->write = WRITE_FAILED;
    } else {
        struct hx_id writer = owner_token(process, world->life[process]);
        bool is_done = sim->op.phase == HX_PHASE_MARKING ? mark_row(world, row, &sim->op)
                                                         : write_row(world, row, &sim->op, writer);
        sim->write = is_done ? WRITE_DONE : WRITE_STALE;
        if (variant == 3 && is_done) {
            mark_claim(world, row, &sim->claim_marked_at);
            sim->write = WRITE_DONE_MARKED;
        }
    }
}

const struct hx_record *store_read(struct world *world, unsigned process, unsigned row)
{
    if (!world->has_row[row])
        return NULL;
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned life = 0; life < LIVES; life++) {
            bool is_dead = life < world->life[p];
            if (!is_dead || !world->spool[p][life][row])
                continue;
            world->spool[p][life][row] = false;
            struct hx_record *record = &world->row[row];
            if (record->state != HX_OP_RUNNING && record->state != HX_OP_UNKNOWN)
                continue;
            struct hx_record next = *record;
            next.state = HX_OP_SUCCEEDED;
            next.outcome = kit_outcome("done");
            next.attempt.state = HX_ATTEMPT_CONFIRMED;
            next.fence++;
            put_row(world, row, &next, owner_token(process, world->life[process]));
        }
    }
    return &world->row[row];
}
