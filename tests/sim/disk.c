/* SPDX-License-Identifier: MIT */
/*
 * The store of one life: hands requests to the ledger after a while and completions back after
 * another, in order. What has not reached the ledger when the process dies never does; what has
 * reached it, but not come back, stands there and nobody was told.
 */
#include "adapter/store_memory/ledger.h"
#include "sim/sim.h"

static struct sim_life *life_of(struct hx_store *store)
{
    return hx_container_of(store, struct sim_life, store);
}

static void submit(struct hx_store *store, struct hx_store_request *request)
{
    hx_list_append(&life_of(store)->store_batch, &request->node);
}

static bool has_writes(const struct hx_list *batch)
{
    hx_list_for_each (at, batch) {
        if (hx_store_kind_writes(hx_container_of(at, struct hx_store_request, node)->kind))
            return true;
    }
    return false;
}

/* Faults of the ledger are ordered as the commit is about to happen. */
static void order_fault(struct sim *sim)
{
    const struct sim_weather *weather = &sim->weather;
    if (sim->is_calm || sim->options.is_scripted)
        return;
    if (sim_chance(&sim->luck, weather->commit_refuse)) {
        sim_mark(sim, SIM_REFUSED_COMMIT);
        sim_trace(sim, "disk: the next commit is refused");
        hx_memory_ledger_fail_at(sim->ledger, 1, HX_MEMORY_REFUSE);
    } else if (sim_chance(&sim->luck, weather->commit_doubt)) {
        bool is_done = sim_chance(&sim->luck, 500);
        sim_mark(sim, SIM_DOUBT);
        sim_trace(sim, "disk: the next commit is in doubt (%s)", is_done ? "done" : "not done");
        hx_memory_ledger_fail_at(sim->ledger, 1,
                                 is_done ? HX_MEMORY_LOSE_DONE : HX_MEMORY_LOSE_NOT_DONE);
    }
}

static void on_settle(struct sim *sim, struct sim_event *event);

static void collect(struct sim_life *life)
{
    struct hx_store_request *done;
    while ((done = life->disk->ops->take_done(life->disk)) != NULL)
        hx_list_append(&life->store_done, &done->node);
    const struct hx_memory_store *memory =
        hx_container_of(life->disk, struct hx_memory_store, store);
    if (!hx_list_is_empty(&memory->doubtful))
        sim_after(life->sim, sim_between(&life->sim->luck, 50, 4000), on_settle)->a = life->number;
}

static void commit(struct sim_life *life, struct hx_list *batch)
{
    struct hx_list *node;
    if (has_writes(batch))
        order_fault(life->sim);
    while ((node = hx_list_take_first(batch)) != NULL)
        life->disk->ops->submit(life->disk, hx_container_of(node, struct hx_store_request, node));
    life->disk->ops->flush(life->disk);
    sim_check_rows(life->sim);
}

/* The store has read back what was in doubt. */
static void on_settle(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    hx_memory_ledger_settle(sim->ledger);
    if (life == NULL)
        return;
    life->disk->ops->flush(life->disk);
    sim_check_rows(sim);
    collect(life);
}

static void on_done(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    if (life == NULL)
        return;
    collect(life);
}

static void on_commit(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    if (life == NULL)
        return;
    commit(life, &life->store_in_flight);
    struct sim_event *done = sim_after(sim, (int64_t)event->tag, on_done);
    done->a = life->number;
}

static int64_t delay_ms(struct sim *sim)
{
    if (sim->options.is_scripted)
        return sim->script_disk_ms;
    if (sim_chance(&sim->luck, 600))
        return 0;
    if (!sim->is_calm && sim_chance(&sim->luck, sim->weather.slow_disk))
        return sim_between(&sim->luck, 100, 3000);
    return sim_between(&sim->luck, 1, 8);
}

static void flush_now(struct hx_store *store)
{
    struct sim_life *life = life_of(store);
    struct sim *sim = life->sim;
    if (hx_list_is_empty(&life->store_batch) || life->is_frozen)
        return;
    int64_t before = delay_ms(sim), after = delay_ms(sim);
    bool is_idle = hx_list_is_empty(&life->store_in_flight) && sim->now >= life->store_last_at;
    if (before == 0 && after == 0 && is_idle) {
        commit(life, &life->store_batch);
        collect(life);
        return;
    }
    hx_list_splice(&life->store_in_flight, &life->store_batch);
    int64_t at = sim->now + before;
    if (at < life->store_last_at)
        at = life->store_last_at;
    life->store_last_at = at + after;
    struct sim_event *event = sim_after(sim, at - sim->now, on_commit);
    event->a = life->number;
    event->tag = (uint64_t)after;
}

static void flush(struct hx_store *store)
{
    unsigned long left = sim_memory_leave();
    flush_now(store);
    sim_memory_return(left);
}

static struct hx_store_request *take_done(struct hx_store *store)
{
    struct hx_list *node = hx_list_take_first(&life_of(store)->store_done);
    return node != NULL ? hx_container_of(node, struct hx_store_request, node) : NULL;
}

static int wake_fd(struct hx_store *store)
{
    return -1;
}

static struct hx_id owner(struct hx_store *store)
{
    return life_of(store)->owner;
}

static struct hx_wall low_water(struct hx_store *store)
{
    struct hx_store *disk = life_of(store)->disk;
    return disk->ops->low_water(disk);
}

static const char *refusal(struct hx_store *store)
{
    struct hx_store *disk = life_of(store)->disk;
    return disk->ops->refusal(disk);
}

static struct hx_gap gap(struct hx_store *store)
{
    struct hx_store *disk = life_of(store)->disk;
    return disk->ops->gap(disk);
}

static void close_store(struct hx_store *store)
{
    sim_disk_close(life_of(store));
}

static const struct hx_store_ops ops = {
    .submit = submit,
    .flush = flush,
    .take_done = take_done,
    .wake_fd = wake_fd,
    .owner = owner,
    .low_water = low_water,
    .refusal = refusal,
    .gap = gap,
    .close = close_store,
};

void sim_disk_open(struct sim_life *life)
{
    life->store.ops = &ops;
    life->disk = hx_store_memory_open(life->sim->ledger, life->owner);
    hx_list_init(&life->store_batch);
    hx_list_init(&life->store_in_flight);
    hx_list_init(&life->store_done);
}

static void drop(struct hx_list *list)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(list)) != NULL)
        hx_store_request_free(hx_container_of(node, struct hx_store_request, node));
}

void sim_disk_kill(struct sim_life *life)
{
    drop(&life->store_batch);
    drop(&life->store_in_flight);
    drop(&life->store_done);
    hx_store_memory_kill(life->disk);
    life->disk = NULL;
}

void sim_disk_close(struct sim_life *life)
{
    commit(life, &life->store_in_flight);
    commit(life, &life->store_batch);
    drop(&life->store_done);
    life->disk->ops->close(life->disk);
    life->disk = NULL;
}
