/* SPDX-License-Identifier: MIT */
/*
 * Looking rows up, and judging at that moment who owns them.
 */
#include "adapter/store_memory/ledger.h"

struct hx_memory_row *hx_memory_row_by_id(struct hx_memory_ledger *ledger, const struct hx_id *id)
{
    for (size_t i = ledger->row_count; i-- > 0;) {
        if (hx_id_eq(&ledger->rows[i].record.id, id))
            return &ledger->rows[i];
    }
    return NULL;
}

struct hx_memory_row *hx_memory_row_by_identity(struct hx_memory_ledger *ledger,
                                                const struct hx_digest *identity)
{
    struct hx_memory_row *newest = NULL;
    for (size_t i = 0; i < ledger->row_count; i++) {
        struct hx_memory_row *row = &ledger->rows[i];
        if (hx_digest_eq(&row->record.identity, identity) &&
            (newest == NULL || row->record.generation > newest->record.generation))
            newest = row;
    }
    return newest;
}

int64_t hx_memory_twin_newest(struct hx_memory_ledger *ledger, const struct hx_digest *twin)
{
    for (size_t i = ledger->row_count; i-- > 0;) {
        if (ledger->rows[i].is_hot && hx_digest_eq(&ledger->rows[i].record.twin, twin))
            return ledger->rows[i].rowid;
    }
    return 0;
}

bool hx_memory_is_open(const struct hx_memory_ledger *ledger, const struct hx_id *owner)
{
    hx_list_for_each (at, &ledger->stores) {
        if (hx_id_eq(&hx_container_of(at, struct hx_memory_store, node)->owner, owner))
            return true;
    }
    return false;
}

static enum hx_owner_fact owner_fact(struct hx_memory_store *store, const struct hx_record *record,
                                     const struct hx_boot *boot)
{
    if (hx_id_is_nil(&record->owner))
        return HX_OWNER_NOBODY;
    if (hx_id_eq(&record->owner, &store->owner))
        return HX_OWNER_MINE;
    if (!hx_boot_eq(&record->owner_boot, boot))
        return HX_OWNER_DEAD;
    return hx_memory_is_open(store->ledger, &record->owner) ? HX_OWNER_ALIVE : HX_OWNER_DEAD;
}

static bool is_transport_gone(const struct hx_memory_ledger *ledger, const char *name)
{
    struct hx_id owner;
    if (hx_id_parse(hx_span_cstr(name), &owner))
        return !hx_memory_is_open(ledger, &owner);
    hx_list_for_each (at, &ledger->transports_gone) {
        if (strcmp(hx_container_of(at, struct hx_memory_transport, node)->name, name) == 0)
            return true;
    }
    return false;
}

/* An owner who lives could still send, unless the operation left his hands: the fence was raised
 * then, and the attempt has no other transport than the one that it names. */
static bool could_owner_send(const struct hx_store_found *found)
{
    bool is_there = found->owner_fact != HX_OWNER_DEAD && found->owner_fact != HX_OWNER_NOBODY;
    bool is_here = found->owner_fact == HX_OWNER_MINE || found->owner_fact == HX_OWNER_ALIVE;
    return is_there && (!is_here || found->record.state == HX_OP_RUNNING);
}

bool hx_memory_is_epoch_current(const struct hx_memory_ledger *ledger,
                                const struct hx_memory_row *row)
{
    struct hx_boot boot = hx_clock_now(ledger->clock).boot;
    return row->claim_epoch == ledger->epoch &&
           hx_boot_eq(&row->record.attempt.claimed_at.boot, &boot);
}

/* What it has in its spool, if it lives; else what stands in the row. */
static struct hx_record shown_of(const struct hx_memory_ledger *ledger,
                                 const struct hx_record *record, enum hx_owner_fact fact)
{
    hx_list_for_each (at, &ledger->spool) {
        const struct hx_memory_spooled *entry = hx_container_of(at, struct hx_memory_spooled, node);
        if (fact == HX_OWNER_ALIVE && record->state == HX_OP_RUNNING &&
            hx_id_eq(&entry->record.id, &record->id) && entry->expected_fence == record->fence)
            return hx_memory_shown(record, &entry->record);
    }
    return *record;
}

void hx_memory_find_row(struct hx_memory_store *store, struct hx_store_request *request,
                        struct hx_memory_row *row)
{
    struct hx_memory_ledger *ledger = store->ledger;
    struct hx_boot boot = hx_clock_now(ledger->clock).boot;
    const struct hx_record *record = &row->record;
    enum hx_owner_fact fact = owner_fact(store, record, &boot);
    if (fact == HX_OWNER_DEAD)
        hx_memory_spool_apply(ledger, &record->owner);
    struct hx_store_found *found = hx_store_request_add(request);
    hx_assert(found != NULL);
    struct hx_record shown = shown_of(ledger, record, fact);
    if (shown.outcome.place == HX_OUTCOME_BLOB)
        shown.outcome.bytes = HX_SPAN_NONE;
    bool is_copied = hx_record_copy(&request->arena, &shown, &found->record);
    hx_assert(is_copied);
    bool is_this_boot = hx_boot_eq(&record->attempt.claimed_at.boot, &boot);
    found->rowid = row->rowid;
    found->owner_fact = owner_fact(store, record, &boot);
    found->is_sender_gone = !hx_op_state_is_final(record->state) && !could_owner_send(found) &&
                            (!is_this_boot || is_transport_gone(ledger, record->attempt.transport));
    found->is_epoch_current = hx_memory_is_epoch_current(ledger, row);
}

static void find_twins(struct hx_memory_store *store, struct hx_store_request *request,
                       const struct hx_digest *twin, int64_t except)
{
    struct hx_memory_ledger *ledger = store->ledger;
    request->ret_twin_seen = hx_memory_twin_newest(ledger, twin);
    uint32_t left = HX_STORE_TWINS_MAX;
    for (size_t i = 0; i < ledger->row_count && left > 0; i++) {
        struct hx_memory_row *row = &ledger->rows[i];
        if (row->rowid == except || !row->is_hot || !hx_digest_eq(&row->record.twin, twin))
            continue;
        hx_memory_find_row(store, request, row);
        left--;
    }
}

void hx_memory_find_identity(struct hx_memory_store *store, struct hx_store_request *request,
                             bool also_twins)
{
    struct hx_memory_row *row = hx_memory_row_by_identity(store->ledger, &request->record.identity);
    if (row != NULL)
        hx_memory_find_row(store, request, row);
    if (also_twins)
        find_twins(store, request, &request->record.twin, row != NULL ? row->rowid : 0);
}

static bool is_scanned(const struct hx_store_request *request, const struct hx_record *record)
{
    return request->scan_state == HX_OP_ABSENT ? !hx_op_state_is_final(record->state)
                                               : record->state == request->scan_state;
}

static void run_scan(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_ledger *ledger = store->ledger;
    uint32_t left = request->scan_limit;
    for (size_t i = (size_t)request->scan_after; i < ledger->row_count; i++) {
        if (!is_scanned(request, &ledger->rows[i].record))
            continue;
        if (left == 0 || request->arena.used >= HX_STORE_SCAN_BYTES) {
            request->ret_scan_next = request->records[request->record_count - 1].rowid;
            return;
        }
        hx_memory_find_row(store, request, &ledger->rows[i]);
        left--;
    }
}

void hx_memory_find(struct hx_memory_store *store, struct hx_store_request *request)
{
    if (request->scan) {
        hx_assert(request->scan_limit > 0);
        run_scan(store, request);
        return;
    }
    if (request->find_id) {
        struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &request->record.id);
        if (row != NULL)
            hx_memory_find_row(store, request, row);
        return;
    }
    if (request->find_identity)
        hx_memory_find_identity(store, request, request->find_twin);
    else if (request->find_twin)
        find_twins(store, request, &request->record.twin, 0);
}
