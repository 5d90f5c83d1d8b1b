/* SPDX-License-Identifier: MIT */
/*
 * Bringing into the ledger what lies in spools: that of this process, and those that dead ones
 * left.
 */
#include <dirent.h>
#include <unistd.h>

#include "adapter/store_sqlite/batch.h"
#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/find.h"
#include "base/alloc.h"
#include "base/crash.h"

enum { DEAD_MAX = 64 };

bool hx_spool_exists(struct hx_ledger *ledger, const struct hx_id *owner)
{
    char *path = hx_path_of_id(ledger->paths.spool, owner);
    bool exists = access(path, F_OK) == 0;
    hx_free(path);
    return exists;
}

struct apply_context {
    struct hx_ledger *ledger;
    struct hx_aftermath *aftermath;
};

static int apply_one(void *context, const struct hx_record *record, uint64_t expected_fence)
{
    const struct apply_context *apply = context;
    struct hx_ledger *ledger = apply->ledger;
    struct hx_row_head head;
    int rc = hx_row_head(ledger, &record->id, &head);
    if (rc <= 0)
        return HX_TRACE(rc); /* no such row: it was taken by retention */
    if (head.fence != expected_fence || hx_op_state_is_final(head.state)) {
        bool is_same = head.fence == record->fence && hx_op_state_is_final(head.state);
        return is_same ? 0 : HX_TRACE(hx_row_evidence(ledger, &head, &record->outcome));
    }
    uint64_t blob = 0;
    if (hx_outcome_needs_blob(&record->outcome)) {
        hx_rand_fill(ledger->options->rand, (uint8_t *)&blob, sizeof(blob));
        blob = (blob >> 1) | 1;
        rc = hx_blob_write(ledger->paths.blobs, &record->id, blob, record->outcome.bytes);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return HX_TRACE(hx_row_update(ledger, &head, record, blob, HX_HISTORY_SPOOL, apply->aftermath));
}

int hx_spool_apply(struct hx_ledger *ledger, const struct hx_id *owner,
                   struct hx_aftermath *aftermath)
{
    hx_assert(ledger->txn == HX_TXN_SYNCED);
    struct apply_context context = {ledger, aftermath};
    char *path = hx_path_of_id(ledger->paths.spool, owner);
    int rc = hx_spool_read(path, ledger->hasher, apply_one, &context);
    hx_free(path);
    if (rc < 0)
        return HX_TRACE(rc);
    if (!hx_id_eq(owner, &ledger->owners.self)) /* our own is emptied, not removed */
        hx_aftermath_drop_spool(aftermath, owner);
    return 0;
}

struct show_context {
    struct hx_store_found *found;
    struct hx_arena *arena;
};

/* 0 = another row's, or of an attempt that is no longer its; 2 = shown. */
static int show_one(void *context, const struct hx_record *record, uint64_t expected_fence)
{
    const struct show_context *show = context;
    struct hx_record *row = &show->found->record;
    struct hx_span bytes = record->outcome.bytes;
    if (!hx_id_eq(&record->id, &row->id) || expected_fence != row->fence)
        return 0;
    if (!hx_span_is_absent(bytes)) {
        bytes = hx_arena_dup(show->arena, bytes);
        if (hx_span_is_absent(bytes))
            return HX_RAISE(HX_E_NOMEM, HX_NO_ROOM);
    }
    hx_columns_take_changing(row, record);
    row->outcome.bytes = bytes;
    row->outcome.place =
        hx_span_is_absent(bytes) ? record->outcome.place : HX_OUTCOME_INLINE; /* no file has it */
    return 2;
}

int hx_spool_show(struct hx_ledger *ledger, struct hx_store_found *found, struct hx_arena *arena)
{
    struct show_context context = {found, arena};
    char *path = hx_path_of_id(ledger->paths.spool, &found->record.owner);
    int rc = hx_spool_read(path, ledger->hasher, show_one, &context);
    if (rc == 2)
        rc = hx_spool_sync(path); /* its owner may be about to */
    hx_free(path);
    return HX_TRACE(rc);
}

void hx_aftermath_carry_out(struct hx_ledger *ledger, struct hx_aftermath *aftermath)
{
    for (uint32_t i = 0; i < aftermath->drop_count; i++)
        hx_blob_remove(ledger->paths.blobs, &aftermath->drop_on_commit[i].id,
                       aftermath->drop_on_commit[i].number);
    for (uint32_t i = 0; i < aftermath->spool_count; i++) {
        char *path = hx_path_of_id(ledger->paths.spool, &aftermath->spools_applied[i]);
        (void)unlink(path); /* applying it again changes nothing */
        hx_free(path);
    }
    hx_aftermath_reset(aftermath);
}

int hx_batch_apply_own_spool(struct hx_batcher *batcher)
{
    struct hx_ledger *ledger = batcher->ledger;
    /* A copy may lack the rows: the entries wait until a person has said what it is. */
    if (ledger->spool.entry_count == 0 || ledger->is_restored_copy)
        return 0;
    hx_aftermath_reset(&batcher->aftermath);
    int rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    rc = hx_spool_apply(ledger, &ledger->owners.self, &batcher->aftermath);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    /* In doubt, the entries stay and are applied again, which then changes nothing. */
    if (hx_ledger_commit(ledger) != 0)
        return HX_E_STORE;
    hx_aftermath_carry_out(ledger, &batcher->aftermath);
    HX_CRASH_POINT("spool-applied");
    return HX_TRACE(hx_spool_empty(&ledger->spool));
}

struct dead_list {
    struct hx_ledger *ledger;
    struct hx_id owners[DEAD_MAX];
    int count;
};

static bool collect_dead(void *context, const struct hx_id *token)
{
    struct dead_list *dead = context;
    if (!hx_spool_exists(dead->ledger, token))
        return true; /* nothing is left of it: the owner file goes at once */
    dead->owners[dead->count++] = *token;
    return false;
}

/* A spool whose owner file is gone already is found by its own name. */
static void collect_orphans(struct dead_list *dead)
{
    DIR *directory = opendir(dead->ledger->paths.spool);
    if (directory == NULL)
        return;
    for (struct dirent *entry; dead->count < DEAD_MAX && (entry = readdir(directory)) != NULL;) {
        struct hx_id token;
        if (!hx_id_parse(hx_span_cstr(entry->d_name), &token) ||
            hx_owners_is_alive(&dead->ledger->owners, &token))
            continue;
        bool is_known = false;
        for (int i = 0; i < dead->count; i++)
            is_known |= hx_id_eq(&dead->owners[i], &token);
        if (!is_known)
            dead->owners[dead->count++] = token;
    }
    closedir(directory);
}

int hx_batch_settle_dead(struct hx_batcher *batcher, uint32_t *ret_applied)
{
    struct hx_ledger *ledger = batcher->ledger;
    struct dead_list dead = {.ledger = ledger};
    *ret_applied = 0;
    int rc = hx_owners_each_dead(&ledger->owners, DEAD_MAX, collect_dead, &dead);
    if (rc < 0)
        return HX_TRACE(rc);
    collect_orphans(&dead);
    if (dead.count == 0)
        return 0;
    hx_aftermath_reset(&batcher->aftermath);
    rc = hx_ledger_begin(ledger, HX_TXN_SYNCED);
    if (rc != 0)
        return HX_E_STORE;
    for (int i = 0; i < dead.count && rc == 0; i++)
        rc = hx_spool_apply(ledger, &dead.owners[i], &batcher->aftermath);
    if (rc < 0) {
        hx_ledger_rollback(ledger);
        return HX_TRACE(rc);
    }
    if (hx_ledger_commit(ledger) != 0)
        return HX_E_STORE;
    HX_CRASH_POINT("dead-applied");
    *ret_applied = batcher->aftermath.spool_count;
    hx_aftermath_carry_out(ledger, &batcher->aftermath);
    HX_CRASH_POINT("dead-removed");
    return 0;
}
