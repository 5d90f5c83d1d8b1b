/* SPDX-License-Identifier: MIT */
/*
 * The port's side of the memory ledger: queues, batches, and the faults that were ordered.
 */
#include "adapter/store_memory/store_memory.h"

#include <stdio.h>

#include "adapter/store_memory/ledger.h"
#include "base/alloc.h"

static struct hx_memory_store *memory_store(struct hx_store *store)
{
    return hx_container_of(store, struct hx_memory_store, store);
}

static struct hx_store_request *request_of(struct hx_list *node)
{
    return hx_container_of(node, struct hx_store_request, node);
}

static void submit(struct hx_store *base, struct hx_store_request *request)
{
    struct hx_memory_store *store = memory_store(base);
    request->sequence = ++store->sequence;
    hx_list_append(&store->submitted, &request->node);
}

static void refuse(struct hx_store_request *request)
{
    hx_store_request_forget(request);
    request->result = HX_STORE_NOT_DONE;
    snprintf(request->error, sizeof(request->error), "The ledger cannot be written.");
}

static bool has_writes(const struct hx_list *batch)
{
    hx_list_for_each (at, batch) {
        if (hx_store_kind_writes(request_of(at)->kind))
            return true;
    }
    return false;
}

/* Runs the batch; with `is_refused`, its writes do not happen. */
static void run_batch(struct hx_memory_store *store, struct hx_list *batch, bool is_refused)
{
    hx_list_for_each (at, batch) {
        struct hx_store_request *request = request_of(at);
        if (is_refused && hx_store_kind_writes(request->kind))
            refuse(request);
        else
            hx_memory_run(store, request);
    }
}

static bool is_failing_now(struct hx_memory_ledger *ledger)
{
    if (ledger->fail_countdown == 0)
        return false;
    return --ledger->fail_countdown == 0;
}

/* The marks of the claims that are DONE: one more commit, which may be ordered to fail too. */
static void mark_claims(struct hx_memory_store *store, const struct hx_list *batch)
{
    bool is_begun = false, is_refused = false;
    hx_list_for_each (at, batch) {
        struct hx_store_request *claim = request_of(at);
        if (!claim->mark_after || claim->result != HX_STORE_DONE)
            continue;
        if (!is_begun) {
            store->ledger->commits++;
            is_refused =
                is_failing_now(store->ledger) && store->ledger->fail_how != HX_MEMORY_LOSE_DONE;
        }
        is_begun = true;
        if (!is_refused)
            hx_memory_mark_claim(store, claim);
    }
}

static void flush(struct hx_store *base)
{
    struct hx_memory_store *store = memory_store(base);
    struct hx_memory_ledger *ledger = store->ledger;
    if (!hx_list_is_empty(&store->doubtful) || hx_list_is_empty(&store->submitted))
        return;
    struct hx_list batch;
    hx_list_init(&batch);
    hx_list_splice(&batch, &store->submitted);
    if (!ledger->is_broken)
        hx_memory_spool_apply(ledger, &store->owner);
    bool is_failing = false;
    if (has_writes(&batch)) {
        ledger->commits++;
        is_failing = is_failing_now(ledger);
    }
    if (!is_failing || ledger->fail_how == HX_MEMORY_REFUSE) {
        run_batch(store, &batch, is_failing || ledger->is_broken);
        mark_claims(store, &batch);
        hx_list_splice(&store->done, &batch);
        return;
    }
    store->doubt = ledger->fail_how;
    if (store->doubt == HX_MEMORY_LOSE_DONE) {
        run_batch(store, &batch, false);
        mark_claims(store, &batch);
    }
    hx_list_splice(&store->doubtful, &batch);
}

void hx_memory_ledger_settle(struct hx_memory_ledger *ledger)
{
    hx_list_for_each (at, &ledger->stores) {
        struct hx_memory_store *store = hx_container_of(at, struct hx_memory_store, node);
        if (store->doubt == HX_MEMORY_LOSE_NOT_DONE)
            run_batch(store, &store->doubtful, true);
        hx_list_splice(&store->done, &store->doubtful);
    }
}

static struct hx_store_request *take_done(struct hx_store *base)
{
    struct hx_list *node = hx_list_take_first(&memory_store(base)->done);
    return node != NULL ? request_of(node) : NULL;
}

static int wake_fd(struct hx_store *base)
{
    return -1;
}

static struct hx_id owner(struct hx_store *base)
{
    return memory_store(base)->owner;
}

static struct hx_wall low_water(struct hx_store *base)
{
    return memory_store(base)->ledger->low_water;
}

static const char *refusal(struct hx_store *base)
{
    return memory_store(base)->ledger->refusal;
}

static struct hx_gap gap(struct hx_store *base)
{
    const struct hx_memory_ledger *ledger = memory_store(base)->ledger;
    struct hx_now now = hx_clock_now(ledger->clock);
    struct hx_gap gap = ledger->gap;
    /* Over boots as SQLite counts it, but for the sum: a day at most. */
    const int64_t day_ms = 24 * 60 * 60 * 1000;
    int64_t wall_ms = now.wall.ms - ledger->gap_since.wall.ms;
    if (gap.until.ms == 0)
        return gap;
    gap.age_ms += hx_boot_eq(&now.boot, &ledger->gap_since.boot)
                      ? hx_mono_since_ms(now.mono, ledger->gap_since.mono)
                      : (wall_ms < 0        ? 0
                         : wall_ms < day_ms ? wall_ms
                                            : day_ms);
    return gap;
}

static void free_requests(struct hx_list *list)
{
    for (struct hx_list *node; (node = hx_list_take_first(list)) != NULL;)
        hx_store_request_free(request_of(node));
}

void hx_store_memory_kill(struct hx_store *base)
{
    struct hx_memory_store *store = memory_store(base);
    free_requests(&store->submitted);
    free_requests(&store->doubtful);
    free_requests(&store->done);
    hx_list_unlink(&store->node);
    hx_free(store);
}

static void store_close(struct hx_store *base)
{
    flush(base);
    hx_store_memory_kill(base);
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
    .close = store_close,
};

struct hx_store *hx_store_memory_open(struct hx_memory_ledger *ledger, struct hx_id owner_token)
{
    struct hx_memory_store *store = hx_new(struct hx_memory_store);
    store->store.ops = &ops;
    store->ledger = ledger;
    store->owner = owner_token;
    hx_list_init(&store->submitted);
    hx_list_init(&store->doubtful);
    hx_list_init(&store->done);
    hx_list_append(&ledger->stores, &store->node);
    return &store->store;
}

struct hx_memory_ledger *hx_memory_ledger_new(struct hx_clock *clock)
{
    struct hx_memory_ledger *ledger = hx_new(struct hx_memory_ledger);
    ledger->clock = clock;
    hx_list_init(&ledger->kept);
    hx_list_init(&ledger->unsynced);
    hx_list_init(&ledger->spool);
    hx_list_init(&ledger->stores);
    hx_list_init(&ledger->transports_gone);
    return ledger;
}

struct hx_memory_ledger *hx_memory_ledger_free(struct hx_memory_ledger *ledger)
{
    if (ledger == NULL)
        return NULL;
    hx_assert(hx_list_is_empty(&ledger->stores));
    hx_memory_synced(ledger);
    for (struct hx_list *node; (node = hx_list_take_first(&ledger->spool)) != NULL;) {
        struct hx_memory_spooled *entry = hx_container_of(node, struct hx_memory_spooled, node);
        hx_arena_fini(&entry->arena);
        hx_free(entry);
    }
    for (struct hx_list *node; (node = hx_list_take_first(&ledger->kept)) != NULL;)
        hx_memory_kept_free(hx_container_of(node, struct hx_memory_kept, node));
    for (struct hx_list *node; (node = hx_list_take_first(&ledger->transports_gone)) != NULL;)
        hx_free(hx_container_of(node, struct hx_memory_transport, node));
    for (size_t i = 0; i < ledger->row_count; i++)
        hx_memory_row_fini(&ledger->rows[i]);
    hx_memory_events_fini(ledger);
    hx_free(ledger->rows);
    return hx_free(ledger);
}

void hx_memory_ledger_lose_unsynced(struct hx_memory_ledger *ledger, size_t survivors)
{
    hx_assert(hx_list_is_empty(&ledger->stores));
    while (ledger->unsynced_count > survivors) {
        struct hx_list *newest = ledger->unsynced.prev;
        struct hx_memory_undo *undo = hx_container_of(newest, struct hx_memory_undo, node);
        if (undo->put == NULL)
            ledger->rows[undo->index] = undo->before;
        else
            hx_memory_kept_free(undo->put);
        if (undo->replaced != NULL)
            hx_list_append(&ledger->kept, &undo->replaced->node);
        hx_list_unlink(newest);
        hx_free(undo);
        ledger->unsynced_count--;
    }
    /* What survived a crash stands on the disk. */
    hx_memory_synced(ledger);
}

size_t hx_memory_ledger_unsynced(const struct hx_memory_ledger *ledger)
{
    return ledger->unsynced_count;
}

void hx_memory_ledger_fail_at(struct hx_memory_ledger *ledger, unsigned long countdown,
                              enum hx_memory_failure how)
{
    ledger->fail_countdown = countdown;
    ledger->fail_how = how;
}

unsigned long hx_memory_ledger_commits(const struct hx_memory_ledger *ledger)
{
    return ledger->commits;
}

void hx_memory_ledger_break(struct hx_memory_ledger *ledger, bool is_broken, bool also_spool)
{
    ledger->is_broken = is_broken;
    ledger->is_spool_broken = is_broken && also_spool;
}

void hx_memory_ledger_end_epoch(struct hx_memory_ledger *ledger)
{
    ledger->epoch++;
}

void hx_memory_ledger_transport_gone(struct hx_memory_ledger *ledger, const char *name)
{
    struct hx_memory_transport *transport = hx_new(struct hx_memory_transport);
    snprintf(transport->name, sizeof(transport->name), "%s", name);
    hx_list_append(&ledger->transports_gone, &transport->node);
}

void hx_memory_ledger_set_low_water(struct hx_memory_ledger *ledger, struct hx_wall low_water_mark)
{
    hx_assert(low_water_mark.ms >= ledger->low_water.ms);
    ledger->low_water = low_water_mark;
}

void hx_memory_ledger_set_gap(struct hx_memory_ledger *ledger, struct hx_gap new_gap)
{
    ledger->gap = new_gap;
    ledger->gap_since = hx_clock_now(ledger->clock);
}

void hx_memory_ledger_set_refusal(struct hx_memory_ledger *ledger, const char *sentence)
{
    ledger->refusal = sentence;
}

const struct hx_record *hx_memory_ledger_row(const struct hx_memory_ledger *ledger, size_t index)
{
    return index < ledger->row_count ? &ledger->rows[index].record : NULL;
}

bool hx_memory_ledger_is_hot(const struct hx_memory_ledger *ledger, size_t index)
{
    hx_assert(index < ledger->row_count);
    return ledger->rows[index].is_hot;
}
