/* SPDX-License-Identifier: MIT */
/*
 * What each kind of request does to the rows, written as plainly as possible: this file is the
 * reference that the SQLite adapter is compared with.
 */
#include <stdio.h>

#include "adapter/store_memory/ledger.h"
#include "base/alloc.h"

static struct hx_span span_own(struct hx_span span)
{
    return hx_span_is_absent(span) ? span : hx_span(hx_span_strdup(span), span.len);
}

static void span_drop(struct hx_span *span)
{
    union {
        const char *borrowed;
        void *owned;
    } bytes = {.borrowed = span->ptr};
    hx_free(bytes.owned);
    *span = HX_SPAN_NONE;
}

void hx_memory_row_fini(struct hx_memory_row *row)
{
    struct hx_record *record = &row->record;
    struct hx_span *spans[] = {&record->tenant,       &record->principal, &record->server,
                               &record->tool,         &record->key,       &record->arguments,
                               &record->outcome.bytes};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
        span_drop(spans[i]);
}

void hx_memory_synced(struct hx_memory_ledger *ledger)
{
    for (struct hx_list *node; (node = hx_list_take_first(&ledger->unsynced)) != NULL;) {
        struct hx_memory_undo *undo = hx_container_of(node, struct hx_memory_undo, node);
        hx_memory_kept_free(undo->replaced);
        hx_free(undo);
    }
    ledger->unsynced_count = 0;
}

static void keep_undo(struct hx_memory_ledger *ledger, const struct hx_memory_row *row)
{
    struct hx_memory_undo *undo = hx_new(struct hx_memory_undo);
    undo->index = (size_t)(row - ledger->rows);
    undo->before = *row;
    hx_list_append(&ledger->unsynced, &undo->node);
    ledger->unsynced_count++;
}

static bool has_generation(struct hx_memory_ledger *ledger, const struct hx_record *record)
{
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct hx_record *row = &ledger->rows[i].record;
        if (row->generation >= record->generation &&
            hx_digest_eq(&row->identity, &record->identity))
            return true;
    }
    return false;
}

/* Takes a copy of the outcome, and says where the SQLite adapter would have put it. */
static void own_outcome(struct hx_outcome *outcome)
{
    if (outcome->place == HX_OUTCOME_GONE) {
        outcome->bytes = HX_SPAN_NONE;
        return;
    }
    outcome->place = outcome->bytes.len > HX_STORE_INLINE_MAX ? HX_OUTCOME_BLOB : HX_OUTCOME_INLINE;
    outcome->bytes = span_own(outcome->bytes);
}

static void insert_row(struct hx_memory_ledger *ledger, const struct hx_record *record)
{
    if (ledger->row_count == ledger->row_capacity) {
        ledger->row_capacity = ledger->row_capacity == 0 ? 16 : 2 * ledger->row_capacity;
        ledger->rows = hx_realloc(ledger->rows, ledger->row_capacity * sizeof(ledger->rows[0]));
        hx_assert(ledger->rows != NULL);
    }
    struct hx_memory_row *row = &ledger->rows[ledger->row_count++];
    *row = (struct hx_memory_row){.record = *record};
    row->rowid = (int64_t)ledger->row_count;
    row->claim_epoch = ledger->epoch;
    row->is_hot = record->state != HX_OP_CANCELLED && record->state != HX_OP_EXPIRED;
    struct hx_record *own = &row->record;
    own->tenant = span_own(record->tenant);
    own->principal = span_own(record->principal);
    own->server = span_own(record->server);
    own->tool = span_own(record->tool);
    own->key = span_own(record->key);
    own->arguments = span_own(record->arguments);
    own_outcome(&own->outcome);
    const struct hx_outbox_view nothing = {.state = HX_OP_ABSENT};
    hx_memory_announce(ledger, &nothing, row);
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The row with another changing part. */
static struct hx_record with_changing(const struct hx_record *row, const struct hx_record *from)
{
    struct hx_record next = *from;
    next.id = row->id;
    next.tenant = row->tenant;
    next.principal = row->principal;
    next.server = row->server;
    next.tool = row->tool;
    next.key = row->key;
    next.key_source = row->key_source;
    next.generation = row->generation;
    next.identity = row->identity;
    next.twin = row->twin;
    next.fingerprint = row->fingerprint;
    next.effect_key = row->effect_key;
    next.first_sent = row->first_sent;
    next.created = row->created;
    next.arguments = row->arguments;
    next.contract = row->contract;
    return next;
}

struct hx_record hx_memory_shown(const struct hx_record *row, const struct hx_record *spooled)
{
    struct hx_record shown = with_changing(row, spooled);
    shown.is_cancel_requested = row->is_cancel_requested;
    shown.is_told_pending = row->is_told_pending;
    shown.is_acknowledged = row->is_acknowledged;
    shown.needs_human = row->needs_human;
    shown.repeats = row->repeats;
    shown.sent_count = row->sent_count;
    shown.lost_count = row->lost_count;
    shown.adoptions = row->adoptions;
    shown.holder = row->holder;
    if (!hx_span_is_absent(shown.outcome.bytes))
        shown.outcome.place = HX_OUTCOME_INLINE; /* no file has it */
    return shown;
}

/* Replaces the changing part; what only grows never falls. */
static void update_row(struct hx_memory_ledger *ledger, struct hx_memory_row *row,
                       const struct hx_record *record)
{
    struct hx_record before = row->record;
    struct hx_record next = with_changing(&before, record);
    next.is_cancel_requested |= before.is_cancel_requested;
    next.is_told_pending |= before.is_told_pending;
    next.is_acknowledged |= before.is_acknowledged;
    next.needs_human |= before.needs_human;
    next.repeats = max_u32(next.repeats, before.repeats);
    next.sent_count = max_u32(next.sent_count, before.sent_count);
    next.lost_count = max_u32(next.lost_count, before.lost_count);
    if (before.adoptions > next.adoptions) {
        next.adoptions = before.adoptions;
        next.holder = before.holder;
    }
    bool keeps_bytes =
        hx_span_is_absent(next.outcome.bytes) && next.outcome.place == HX_OUTCOME_BLOB;
    if (keeps_bytes) {
        next.outcome.bytes = before.outcome.bytes;
        next.outcome.place = before.outcome.place;
    } else {
        span_drop(&row->record.outcome.bytes);
        own_outcome(&next.outcome);
    }
    if (next.attempt.number != before.attempt.number)
        row->claim_epoch = ledger->epoch;
    if (next.state == HX_OP_EXPIRED || !hx_op_state_is_final(next.state))
        row->is_hot = next.state != HX_OP_EXPIRED;
    const struct hx_outbox_view was = hx_outbox_view_of(&before);
    row->record = next;
    hx_memory_announce(ledger, &was, row);
}

static void run_insert(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_ledger *ledger = store->ledger;
    const struct hx_record *record = &request->record;
    bool is_taken = has_generation(ledger, record);
    bool has_newer_twin =
        request->twin_guard && hx_memory_twin_newest(ledger, &record->twin) > request->twin_seen;
    if (is_taken || has_newer_twin) {
        request->result = HX_STORE_STALE;
        hx_memory_find_identity(store, request, request->twin_guard);
        return;
    }
    insert_row(ledger, record);
    hx_memory_synced(ledger);
}

static void run_update(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_ledger *ledger = store->ledger;
    struct hx_memory_row *row = hx_memory_row_by_id(ledger, &request->record.id);
    bool is_stale = row == NULL || row->record.fence != request->expected_fence ||
                    !hx_op_may_become(row->record.state, request->record.state) ||
                    (request->require_unmarked &&
                     (row->record.attempt.is_marked || !hx_memory_is_epoch_current(ledger, row)));
    bool is_second_taken = request->has_second && has_generation(ledger, &request->second);
    if (is_stale || is_second_taken) {
        request->result = HX_STORE_STALE;
        if (row != NULL)
            hx_memory_find_row(store, request, row);
        if (is_second_taken)
            hx_memory_find_row(store, request,
                               hx_memory_row_by_identity(ledger, &request->second.identity));
        return;
    }
    update_row(ledger, row, &request->record);
    if (request->has_second)
        insert_row(ledger, &request->second);
    hx_memory_synced(ledger);
}

static void write_mark(struct hx_memory_ledger *ledger, struct hx_memory_row *row, struct hx_now at)
{
    keep_undo(ledger, row);
    row->record.attempt.is_marked = true;
    row->record.attempt.marked_at = at;
    if (row->record.first_mark.wall.ms == 0)
        row->record.first_mark = at;
}

static void run_mark(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &request->record.id);
    const struct hx_attempt *mark = &request->record.attempt;
    if (row == NULL || row->record.fence != request->expected_fence ||
        row->record.attempt.number != mark->number || row->record.attempt.is_marked) {
        request->result = HX_STORE_STALE;
        if (row != NULL)
            hx_memory_find_row(store, request, row);
        return;
    }
    write_mark(store->ledger, row, mark->marked_at);
}

void hx_memory_mark_claim(struct hx_memory_store *store, struct hx_store_request *claim)
{
    struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &claim->record.id);
    if (row == NULL || row->record.fence != claim->record.fence ||
        row->record.attempt.number != claim->record.attempt.number || row->record.attempt.is_marked)
        return;
    claim->is_marked = true;
    claim->marked_at = hx_clock_now(store->ledger->clock);
    write_mark(store->ledger, row, claim->marked_at);
}

/* A keyless row becomes known under a caller's key. False when another row has that name. */
static bool rekey_row(struct hx_memory_ledger *ledger, struct hx_memory_row *row,
                      const struct hx_record *named)
{
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct hx_record *other = &ledger->rows[i].record;
        if (hx_digest_eq(&other->identity, &named->identity) &&
            other->generation == named->generation)
            return &ledger->rows[i] == row;
    }
    if (row->record.key_source != HX_KEY_NONE)
        return true;
    span_drop(&row->record.key);
    row->record.key = span_own(named->key);
    row->record.key_source = named->key_source;
    row->record.identity = named->identity;
    row->record.first_sent = named->first_sent;
    return true;
}

static void run_touch(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &request->record.id);
    const struct hx_store_touch *touch = &request->touch;
    bool is_stale =
        row == NULL || (touch->expect_adoptions && row->record.adoptions != touch->seen_adoptions);
    if (!is_stale && touch->rekey)
        is_stale = !rekey_row(store->ledger, row, &request->record);
    if (is_stale) {
        request->result = HX_STORE_STALE;
        if (row != NULL)
            hx_memory_find_row(store, request, row);
        return;
    }
    /* With what is synced, all that came before is: no undo may hold an old name. */
    if (hx_store_touch_is_synced(touch))
        hx_memory_synced(store->ledger);
    else
        keep_undo(store->ledger, row);
    struct hx_record *record = &row->record;
    uint32_t sent = record->sent_count + touch->add_sent;
    record->repeats += touch->add_repeats;
    record->sent_count = sent > touch->subtract_sent ? sent - touch->subtract_sent : 0;
    record->lost_count += touch->add_lost;
    record->is_told_pending |= touch->set_told_pending;
    record->is_cancel_requested |= touch->set_cancel_requested;
    record->is_acknowledged |= touch->set_acknowledged;
    record->needs_human |= touch->set_needs_human;
    if (touch->cool && hx_op_state_is_final(record->state))
        row->is_hot = false;
    if (touch->warm)
        row->is_hot = true;
    if (touch->adopt) {
        record->adoptions++;
        record->holder = touch->holder;
        row->is_hot = true;
    }
}

static void run_note(struct hx_memory_store *store, struct hx_store_request *request)
{
    hx_assert(request->note.len <= HX_STORE_NOTE_MAX);
    if (hx_id_is_nil(&request->record.id))
        return;
    struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &request->record.id);
    if (row == NULL) {
        request->result = HX_STORE_STALE;
        return;
    }
    keep_undo(store->ledger, row);
    row->notes++;
}

static void run_spool(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_ledger *ledger = store->ledger;
    if (ledger->is_spool_broken) {
        request->result = HX_STORE_NOT_DONE;
        snprintf(request->error, sizeof(request->error), "The spool cannot be written.");
        return;
    }
    struct hx_memory_spooled *entry = hx_new(struct hx_memory_spooled);
    hx_arena_init(&entry->arena, SIZE_MAX / 2);
    entry->owner = store->owner;
    entry->expected_fence = request->expected_fence;
    bool is_copied = hx_record_copy(&entry->arena, &request->record, &entry->record);
    hx_assert(is_copied);
    hx_list_append(&ledger->spool, &entry->node);
}

void hx_memory_spool_apply(struct hx_memory_ledger *ledger, const struct hx_id *owner)
{
    hx_list_for_each_safe (at, &ledger->spool) {
        struct hx_memory_spooled *entry = hx_container_of(at, struct hx_memory_spooled, node);
        if (!hx_id_eq(&entry->owner, owner))
            continue;
        struct hx_memory_row *row = hx_memory_row_by_id(ledger, &entry->record.id);
        if (row != NULL && row->record.fence == entry->expected_fence &&
            !hx_op_state_is_final(row->record.state)) {
            update_row(ledger, row, &entry->record);
            hx_memory_synced(ledger);
        }
        hx_list_unlink(&entry->node);
        hx_arena_fini(&entry->arena);
        hx_free(entry);
    }
}

static void run_payload(struct hx_memory_store *store, struct hx_store_request *request)
{
    struct hx_memory_row *row = hx_memory_row_by_id(store->ledger, &request->record.id);
    if (row == NULL) {
        request->result = HX_STORE_STALE;
        return;
    }
    struct hx_span bytes = row->record.outcome.bytes;
    request->payload =
        hx_span_is_absent(bytes) ? HX_SPAN_NONE : hx_arena_dup(&request->arena, bytes);
}

void hx_memory_run(struct hx_memory_store *store, struct hx_store_request *request)
{
    hx_store_request_forget(request);
    switch (request->kind) {
    case HX_STORE_FIND:
        hx_memory_find(store, request);
        return;
    case HX_STORE_INSERT:
        run_insert(store, request);
        return;
    case HX_STORE_UPDATE:
        run_update(store, request);
        return;
    case HX_STORE_MARK:
        run_mark(store, request);
        return;
    case HX_STORE_TOUCH:
        run_touch(store, request);
        return;
    case HX_STORE_SPOOL:
        run_spool(store, request);
        return;
    case HX_STORE_NOTE:
        run_note(store, request);
        return;
    case HX_STORE_PAYLOAD:
        run_payload(store, request);
        return;
    case HX_STORE_SESSION_PUT:
    case HX_STORE_SESSION_GET:
    case HX_STORE_SESSION_TOUCH:
    case HX_STORE_SESSION_END:
    case HX_STORE_STREAM_PUT:
    case HX_STORE_STREAM_END:
    case HX_STORE_STREAM_GET:
    case HX_STORE_RESUME_PUT:
    case HX_STORE_RESUME_GET:
        hx_memory_run_kept(store, request);
        return;
    case HX_STORE_OUTBOX_CLAIM:
    case HX_STORE_OUTBOX_DUE:
    case HX_STORE_OUTBOX_MARK:
        hx_memory_run_outbox(store, request);
        return;
    }
}
