/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/request.h"

#include "adapter/store_sqlite/find.h"
#include "adapter/store_sqlite/kept.h"
#include "adapter/store_sqlite/outbox.h"
#include "adapter/store_sqlite/retention.h"
#include "adapter/store_sqlite/rows.h"

static int run_insert(struct hx_ledger *ledger, struct hx_store_request *request,
                      struct hx_aftermath *aftermath)
{
    const struct hx_record *record = &request->record;
    int64_t taken, newest = 0;
    int rc = hx_row_taken(ledger, record, &taken);
    if (rc == 0 && request->twin_guard)
        rc = hx_row_newest_twin(ledger, &record->twin, &newest);
    if (rc < 0)
        return HX_TRACE(rc);
    if (taken != 0 || newest > request->twin_seen)
        return HX_TRACE(hx_find_stale(ledger, request, aftermath));
    return HX_TRACE(hx_row_insert(ledger, record, request->scratch));
}

/* Remembers the history line that was just written: a commit in doubt is proved by it alone. */
static void note_proof(const struct hx_ledger *ledger, struct hx_store_request *request)
{
    request->proof = ledger->history_seq;
}

/* Whoever requires "no mark" takes its absence for a proof, which it is in the epoch of the claim
 * only: an error may have taken the mark since he looked. 1, 0, or negative. */
static int is_provably_unmarked(struct hx_ledger *ledger, const struct hx_row_head *head)
{
    return head->is_marked ? 0 : HX_TRACE(hx_row_is_epoch_current(ledger, head));
}

static int run_update(struct hx_ledger *ledger, struct hx_store_request *request,
                      struct hx_aftermath *aftermath)
{
    struct hx_row_head head;
    int64_t taken = 0;
    int rc = hx_row_head(ledger, &request->record.id, &head);
    if (rc < 0)
        return HX_TRACE(rc);
    bool is_stale = rc == 0 || head.fence != request->expected_fence ||
                    !hx_op_may_become(head.state, request->record.state);
    if (!is_stale && request->require_unmarked) {
        rc = is_provably_unmarked(ledger, &head);
        if (rc < 0)
            return HX_TRACE(rc);
        is_stale = rc == 0;
    }
    if (!is_stale && request->has_second) {
        rc = hx_row_taken(ledger, &request->second, &taken);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    if (is_stale || taken != 0)
        return HX_TRACE(hx_find_stale(ledger, request, aftermath));
    rc = hx_row_update(ledger, &head, &request->record, request->scratch, HX_HISTORY_UPDATE,
                       aftermath);
    if (rc == 0)
        note_proof(ledger, request);
    if (rc == 0 && request->has_second) {
        hx_assert(!hx_outcome_needs_blob(&request->second.outcome));
        rc = hx_row_insert(ledger, &request->second, 0);
    }
    return HX_TRACE(rc);
}

static int run_mark(struct hx_ledger *ledger, struct hx_store_request *request,
                    struct hx_aftermath *aftermath)
{
    struct hx_row_head head;
    int rc = hx_row_head(ledger, &request->record.id, &head);
    if (rc < 0)
        return HX_TRACE(rc);
    if (rc == 0 || head.fence != request->expected_fence ||
        head.attempt != request->record.attempt.number || head.is_marked)
        return HX_TRACE(hx_find_stale(ledger, request, aftermath));
    rc = hx_row_mark(ledger, &head, &request->record);
    if (rc == 0)
        note_proof(ledger, request);
    return HX_TRACE(rc);
}

static int run_touch(struct hx_ledger *ledger, struct hx_store_request *request,
                     struct hx_aftermath *aftermath)
{
    struct hx_row_head head;
    const struct hx_store_touch *touch = &request->touch;
    int rc = hx_row_head(ledger, &request->record.id, &head);
    if (rc < 0)
        return HX_TRACE(rc);
    if (rc == 0 || (touch->expect_adoptions && head.adoptions != touch->seen_adoptions))
        return HX_TRACE(hx_find_stale(ledger, request, aftermath));
    if (touch->rekey) {
        int64_t taken = 0;
        rc = hx_row_taken(ledger, &request->record, &taken);
        if (rc == 0 && taken != 0 && taken != head.row)
            return HX_TRACE(hx_find_stale(ledger, request, aftermath));
        if (rc == 0 && taken == 0)
            rc = hx_row_rekey(ledger, &head, &request->record);
        if (rc < 0)
            return HX_TRACE(rc);
        if (taken == 0)
            note_proof(ledger, request);
    }
    /* A use makes a row young again; what its age had taken by then stays taken. */
    if (touch->add_repeats > 0 && hx_op_state_is_final(head.state))
        rc = hx_retention_take_payload(ledger, head.row, aftermath);
    return rc < 0 ? HX_TRACE(rc) : HX_TRACE(hx_row_touch(ledger, &head, touch));
}

static int run_note(struct hx_ledger *ledger, struct hx_store_request *request)
{
    hx_assert(request->note.len <= HX_STORE_NOTE_MAX);
    struct hx_row_head head;
    bool is_own_log = hx_id_is_nil(&request->record.id);
    int rc = is_own_log ? 1 : hx_row_head(ledger, &request->record.id, &head);
    if (rc == 0)
        request->result = HX_STORE_STALE;
    if (rc <= 0)
        return HX_TRACE(rc);
    rc = hx_row_note(ledger, is_own_log ? NULL : &head, HX_HISTORY_NOTE, request->note);
    if (rc == 0)
        note_proof(ledger, request);
    return HX_TRACE(rc);
}

int hx_request_run(struct hx_ledger *ledger, struct hx_store_request *request,
                   struct hx_aftermath *aftermath)
{
    hx_store_request_forget(request);
    request->proof = 0;
    bool is_about_life = request->kind == HX_STORE_INSERT || request->kind == HX_STORE_UPDATE;
    if (ledger->is_restored_copy && is_about_life)
        return HX_RAISE(HX_E_STORE, "The ledger is a restored copy: run hapax ops recover.");
    switch (request->kind) {
    case HX_STORE_FIND:
        return HX_TRACE(hx_find(ledger, request, aftermath));
    case HX_STORE_PAYLOAD:
        return HX_TRACE(hx_find_payload(ledger, request));
    case HX_STORE_INSERT:
        return HX_TRACE(run_insert(ledger, request, aftermath));
    case HX_STORE_UPDATE:
        return HX_TRACE(run_update(ledger, request, aftermath));
    case HX_STORE_MARK:
        return HX_TRACE(run_mark(ledger, request, aftermath));
    case HX_STORE_TOUCH:
        return HX_TRACE(run_touch(ledger, request, aftermath));
    case HX_STORE_NOTE:
        return HX_TRACE(run_note(ledger, request));
    case HX_STORE_SESSION_PUT:
    case HX_STORE_SESSION_GET:
    case HX_STORE_SESSION_TOUCH:
    case HX_STORE_SESSION_END:
    case HX_STORE_STREAM_PUT:
    case HX_STORE_STREAM_END:
    case HX_STORE_STREAM_GET:
    case HX_STORE_RESUME_PUT:
    case HX_STORE_RESUME_GET:
        return HX_TRACE(hx_kept_run(ledger, request));
    case HX_STORE_OUTBOX_CLAIM:
    case HX_STORE_OUTBOX_DUE:
    case HX_STORE_OUTBOX_MARK:
        return HX_TRACE(hx_outbox_run(ledger, request));
    case HX_STORE_SPOOL:
        break;
    }
    hx_assert(!"the spool is no matter of a transaction");
    return 0;
}
