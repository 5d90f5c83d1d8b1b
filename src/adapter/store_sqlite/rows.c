/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/rows.h"

#include <stdio.h>

#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/outbox.h"
#include "base/alloc.h"
#include "base/crash.h"

void hx_aftermath_reset(struct hx_aftermath *aftermath)
{
    aftermath->drop_count = 0;
    aftermath->spool_count = 0;
}

void hx_aftermath_fini(struct hx_aftermath *aftermath)
{
    hx_free(aftermath->drop_on_commit);
    hx_free(aftermath->spools_applied);
    *aftermath = (struct hx_aftermath){0};
}

/* Doubles the array behind *memory when it is full. */
static void make_room(void **memory, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return;
    *capacity = *capacity == 0 ? 8 : *capacity * 2;
    *memory = hx_renew_bytes(*memory, count * size, *capacity * size);
}

void hx_aftermath_drop_blob(struct hx_aftermath *aftermath, const struct hx_id *id, uint64_t number)
{
    void *memory = aftermath->drop_on_commit;
    make_room(&memory, aftermath->drop_count, &aftermath->drop_capacity,
              sizeof(struct hx_blob_name));
    aftermath->drop_on_commit = memory;
    aftermath->drop_on_commit[aftermath->drop_count++] = (struct hx_blob_name){*id, number};
}

void hx_aftermath_drop_spool(struct hx_aftermath *aftermath, const struct hx_id *owner)
{
    void *memory = aftermath->spools_applied;
    make_room(&memory, aftermath->spool_count, &aftermath->spool_capacity, sizeof(*owner));
    aftermath->spools_applied = memory;
    aftermath->spools_applied[aftermath->spool_count++] = *owner;
}

int hx_row_head(struct hx_ledger *ledger, const struct hx_id *id, struct hx_row_head *ret_head)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_HEAD);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, id, sizeof(*id), SQLITE_STATIC);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        *ret_head = (struct hx_row_head){
            .row = sqlite3_column_int64(stmt, 0),
            .fence = (uint64_t)sqlite3_column_int64(stmt, 1),
            .state = (enum hx_op_state)sqlite3_column_int(stmt, 2),
            .attempt = (uint32_t)sqlite3_column_int64(stmt, 3),
            .is_marked = sqlite3_column_int(stmt, 4) != 0,
            .outcome_place = sqlite3_column_int(stmt, 5),
            .outcome_blob = (uint64_t)sqlite3_column_int64(stmt, 6),
            .adoptions = (uint32_t)sqlite3_column_int64(stmt, 7),
            .claim_epoch = (uint64_t)sqlite3_column_int64(stmt, 9),
            .claim_boot = sqlite3_column_int64(stmt, 10),
        };
        if (sqlite3_column_bytes(stmt, 8) == HX_ID_SIZE)
            memcpy(&ret_head->owner, sqlite3_column_blob(stmt, 8), HX_ID_SIZE);
        if (ret_head->state <= HX_OP_ABSENT || ret_head->state >= HX_OP_STATE_COUNT)
            rc = hx_ledger_raise(ledger, SQLITE_CORRUPT);
        ret_head->view = (struct hx_outbox_view){
            .state = ret_head->state,
            .reason = (enum hx_reason)sqlite3_column_int(stmt, 11),
            .needs_human = sqlite3_column_int(stmt, 12) != 0,
            .is_superseded = sqlite3_column_int(stmt, 13) != 0,
            .is_disputed = sqlite3_column_int(stmt, 14) != 0,
        };
    }
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}

int hx_row_is_epoch_current(struct hx_ledger *ledger, const struct hx_row_head *head)
{
    struct hx_boot boot;
    if (head->claim_epoch != ledger->meta.epoch || ledger->is_ill)
        return 0;
    int rc = ledger->boots.boot(ledger, head->claim_boot, &boot);
    return rc < 0 ? HX_TRACE(rc) : hx_boot_eq(&boot, &ledger->now.boot);
}

static int one_row(struct hx_ledger *ledger, sqlite3_stmt *stmt, int64_t *ret_row)
{
    int rc = hx_ledger_step(ledger, stmt);
    *ret_row = rc == 1 ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

int hx_row_taken(struct hx_ledger *ledger, const struct hx_record *record, int64_t *ret_row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_IS_TAKEN);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, record->identity.bytes, 16, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, record->generation);
    return HX_TRACE(one_row(ledger, stmt, ret_row));
}

int hx_row_newest_twin(struct hx_ledger *ledger, const struct hx_digest *twin, int64_t *ret_row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_TWIN_NEWEST);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, twin->bytes, 16, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, twin->bytes + 16, 16, SQLITE_STATIC);
    return HX_TRACE(one_row(ledger, stmt, ret_row));
}

bool hx_outcome_needs_blob(const struct hx_outcome *outcome)
{
    return outcome->place != HX_OUTCOME_GONE && !hx_span_is_absent(outcome->bytes) &&
           outcome->bytes.len > HX_STORE_INLINE_MAX;
}

static int payload_put(struct hx_ledger *ledger, int64_t row, int part, struct hx_span bytes)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PAYLOAD_PUT);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row * HX_PAYLOAD_PARTS + part);
    sqlite3_bind_blob64(stmt, 2, bytes.ptr, bytes.len, SQLITE_STATIC);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

static int payload_drop(struct hx_ledger *ledger, int64_t row, int part)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PAYLOAD_DROP);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row * HX_PAYLOAD_PARTS + part);
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

static enum hx_bytes_place place_of(struct hx_span bytes)
{
    if (hx_span_is_absent(bytes))
        return HX_BYTES_NONE;
    return bytes.len <= HX_ROW_BYTES_MAX ? HX_BYTES_ROW : HX_BYTES_PAYLOAD;
}

static enum hx_bytes_place outcome_place_of(const struct hx_outcome *outcome, uint64_t blob)
{
    if (blob != 0)
        return HX_BYTES_BLOB;
    return outcome->place == HX_OUTCOME_GONE ? HX_BYTES_GONE : place_of(outcome->bytes);
}

static int bind_place(sqlite3_stmt *stmt, int *index, enum hx_bytes_place place)
{
    return sqlite3_bind_int64(stmt, (*index)++, (int64_t)place);
}

static int bind_in_row(sqlite3_stmt *stmt, int *index, enum hx_bytes_place place,
                       struct hx_span bytes)
{
    if (place != HX_BYTES_ROW)
        return sqlite3_bind_null(stmt, (*index)++);
    return sqlite3_bind_blob64(stmt, (*index)++, bytes.ptr, bytes.len, SQLITE_STATIC);
}

static bool is_born_hot(const struct hx_record *record)
{
    return record->state != HX_OP_CANCELLED && record->state != HX_OP_EXPIRED;
}

static bool is_claim(struct hx_ledger *ledger, enum hx_op_state state, const struct hx_id *owner)
{
    return state == HX_OP_RUNNING && hx_id_eq(owner, &ledger->owners.self) && !hx_id_is_nil(owner);
}

/* Keeps room in the spool for every claim of ours, before the claim is durable. */
static int count_claims(struct hx_ledger *ledger, bool was_claim, bool is_now_claim)
{
    if (ledger->is_guest)
        return 0; /* his outcome is committed together with what it tells of, or not at all */
    if (was_claim && !is_now_claim && ledger->reserved > 0)
        ledger->reserved--;
    if (is_now_claim && !was_claim)
        return HX_TRACE(hx_spool_reserve(&ledger->spool, ++ledger->reserved));
    return 0;
}

int hx_row_recount_claims(struct hx_ledger *ledger)
{
    int64_t count = 0;
    int rc = hx_ledger_begin(ledger, HX_TXN_READ);
    if (rc != 0)
        return HX_E_STORE;
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OWN_RUNNING);
    rc = HX_E_STORE;
    if (stmt != NULL) {
        sqlite3_bind_blob(stmt, 1, &ledger->owners.self, HX_ID_SIZE, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 2, HX_OP_RUNNING);
        rc = one_row(ledger, stmt, &count);
    }
    hx_ledger_rollback(ledger);
    if (rc < 0)
        return HX_TRACE(rc);
    ledger->reserved = (uint32_t)count;
    if (count == 0)
        hx_spool_trim(&ledger->spool);
    return 0;
}

int hx_row_insert(struct hx_ledger *ledger, const struct hx_record *record, uint64_t blob)
{
    int64_t contract;
    int index = 1;
    int rc = count_claims(ledger, false, is_claim(ledger, record->state, &record->owner));
    if (rc == 0)
        rc = hx_ledger_contract_number(ledger, &record->contract, &contract);
    sqlite3_stmt *stmt = rc == 0 ? hx_ledger_stmt(ledger, HX_SQL_OP_INSERT) : NULL;
    if (stmt == NULL)
        return HX_E_STORE;
    enum hx_bytes_place arguments = place_of(record->arguments);
    enum hx_bytes_place outcome = outcome_place_of(&record->outcome, blob);
    rc = hx_columns_bind(stmt, &index, record, HX_COLUMN_ALL, &ledger->boots);
    if (rc < 0)
        return HX_TRACE(rc);
    sqlite3_bind_int64(stmt, index++, is_born_hot(record) ? 1 : 0);
    sqlite3_bind_int64(stmt, index++, (int64_t)ledger->meta.epoch);
    sqlite3_bind_int64(stmt, index++, contract);
    sqlite3_bind_int64(stmt, index++, hx_ledger_age_ms(ledger));
    bind_place(stmt, &index, arguments);
    bind_in_row(stmt, &index, arguments, record->arguments);
    bind_place(stmt, &index, outcome);
    sqlite3_bind_int64(stmt, index++, (int64_t)blob);
    bind_in_row(stmt, &index, outcome, record->outcome.bytes);
    rc = hx_ledger_run(ledger, stmt);
    if (rc < 0)
        return HX_TRACE(rc);
    int64_t row = sqlite3_last_insert_rowid(ledger->db);
    if (arguments == HX_BYTES_PAYLOAD)
        rc = payload_put(ledger, row, HX_PAYLOAD_ARGUMENTS, record->arguments);
    if (rc == 0 && outcome == HX_BYTES_PAYLOAD)
        rc = payload_put(ledger, row, HX_PAYLOAD_OUTCOME, record->outcome.bytes);
    HX_CRASH_POINT("insert-half");
    if (rc == 0)
        rc = hx_row_history(ledger, row, record, HX_HISTORY_INSERT, HX_OP_ABSENT);
    const struct hx_outbox_view before = {.state = HX_OP_ABSENT};
    return rc < 0 ? HX_TRACE(rc) : HX_TRACE(hx_outbox_announce(ledger, row, &before, record));
}

/* Moves the old outcome out of the way of the new one. */
static int replace_outcome(struct hx_ledger *ledger, const struct hx_row_head *head,
                           const struct hx_record *record, enum hx_bytes_place place, uint64_t blob,
                           struct hx_aftermath *aftermath)
{
    if (head->outcome_place == HX_BYTES_BLOB && head->outcome_blob != blob)
        hx_aftermath_drop_blob(aftermath, &record->id, head->outcome_blob);
    if (place == HX_BYTES_PAYLOAD)
        return HX_TRACE(payload_put(ledger, head->row, HX_PAYLOAD_OUTCOME, record->outcome.bytes));
    if (head->outcome_place == HX_BYTES_PAYLOAD)
        return HX_TRACE(payload_drop(ledger, head->row, HX_PAYLOAD_OUTCOME));
    return 0;
}

int hx_row_update(struct hx_ledger *ledger, const struct hx_row_head *head,
                  const struct hx_record *record, uint64_t blob, enum hx_history_kind kind,
                  struct hx_aftermath *aftermath)
{
    int rc = count_claims(ledger, is_claim(ledger, head->state, &head->owner),
                          is_claim(ledger, record->state, &record->owner));
    bool keeps_bytes = blob == 0 && hx_span_is_absent(record->outcome.bytes) &&
                       record->outcome.place == HX_OUTCOME_BLOB;
    enum hx_bytes_place place = keeps_bytes ? (enum hx_bytes_place)head->outcome_place
                                            : outcome_place_of(&record->outcome, blob);
    if (rc == 0 && !keeps_bytes)
        rc = replace_outcome(ledger, head, record, place, blob, aftermath);
    sqlite3_stmt *stmt = rc == 0 ? hx_ledger_stmt(ledger, HX_SQL_OP_UPDATE) : NULL;
    if (stmt == NULL)
        return HX_E_STORE;
    int index = 1;
    rc = hx_columns_bind(stmt, &index, record,
                         HX_COLUMN_CHANGING | HX_COLUMN_GROWING | HX_COLUMN_HOLDER, &ledger->boots);
    if (rc < 0)
        return HX_TRACE(rc);
    if (record->state != HX_OP_EXPIRED && hx_op_state_is_final(record->state))
        sqlite3_bind_null(stmt, index++); /* as it was */
    else
        sqlite3_bind_int(stmt, index++, record->state != HX_OP_EXPIRED);
    if (record->attempt.number != head->attempt)
        sqlite3_bind_int64(stmt, index++, (int64_t)ledger->meta.epoch);
    else
        sqlite3_bind_null(stmt, index++);
    sqlite3_bind_int64(stmt, index++, hx_ledger_age_ms(ledger));
    bind_place(stmt, &index, place);
    sqlite3_bind_int64(stmt, index++, (int64_t)(keeps_bytes ? head->outcome_blob : blob));
    sqlite3_bind_int(stmt, index++, keeps_bytes);
    bind_in_row(stmt, &index, keeps_bytes ? HX_BYTES_NONE : place, record->outcome.bytes);
    sqlite3_bind_int64(stmt, index++, head->row);
    rc = hx_ledger_run(ledger, stmt);
    HX_CRASH_POINT("update-half");
    if (rc == 0)
        rc = hx_row_history(ledger, head->row, record, kind, head->state);
    return rc < 0 ? HX_TRACE(rc)
                  : HX_TRACE(hx_outbox_announce(ledger, head->row, &head->view, record));
}

static int history_line(struct hx_ledger *ledger, int64_t row, const struct hx_record *record,
                        enum hx_history_kind kind, enum hx_op_state from, struct hx_span text)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_HISTORY_ADD);
    if (stmt == NULL)
        return HX_E_STORE;
    int64_t earlier =
        (int64_t)((uint64_t)record->earlier.open | (uint64_t)record->earlier.asked << 16 |
                  (uint64_t)record->earlier.confirmed << 32 |
                  (uint64_t)record->earlier.refused << 48);
    sqlite3_bind_int64(stmt, 1, row);
    sqlite3_bind_int64(stmt, 2, ledger->now.wall.ms);
    if (hx_id_is_nil(&ledger->owners.self))
        sqlite3_bind_null(stmt, 3);
    else
        sqlite3_bind_blob(stmt, 3, &ledger->owners.self, HX_ID_SIZE, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 4, (int)kind);
    sqlite3_bind_int(stmt, 5, (int)from);
    sqlite3_bind_int(stmt, 6, (int)record->state);
    sqlite3_bind_int(stmt, 7, (int)record->reason);
    sqlite3_bind_int64(stmt, 8, (int64_t)record->fence);
    sqlite3_bind_int64(stmt, 9, record->attempt.number);
    sqlite3_bind_int(stmt, 10, (int)record->attempt.state);
    sqlite3_bind_int64(stmt, 11, earlier);
    if (hx_span_is_absent(text))
        sqlite3_bind_null(stmt, 12);
    else
        sqlite3_bind_text64(stmt, 12, text.ptr, text.len, SQLITE_STATIC, SQLITE_UTF8);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        ledger->history_seq = (uint64_t)sqlite3_column_int64(stmt, 0);
        rc = hx_ledger_step(ledger, stmt); /* a statement is over, and its write whole, then only */
    }
    hx_assert(rc <= 0);
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}

int hx_row_history(struct hx_ledger *ledger, int64_t row, const struct hx_record *record,
                   enum hx_history_kind kind, enum hx_op_state from)
{
    struct hx_span transport = hx_span_cstr(record->attempt.transport);
    return history_line(ledger, row, record, kind, from,
                        transport.len > 0 ? transport : HX_SPAN_NONE);
}

int hx_row_mark(struct hx_ledger *ledger, const struct hx_row_head *head,
                const struct hx_record *record)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_MARK);
    const struct hx_now *at = &record->attempt.marked_at;
    int64_t boot;
    if (stmt == NULL || ledger->boots.number(ledger, &at->boot, &boot) < 0)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, head->row);
    sqlite3_bind_int64(stmt, 2, at->wall.ms);
    sqlite3_bind_int64(stmt, 3, at->mono.ms);
    sqlite3_bind_int64(stmt, 4, boot);
    int rc = hx_ledger_run(ledger, stmt);
    if (rc < 0)
        return HX_TRACE(rc);
    struct hx_record line = {.state = head->state, .fence = head->fence};
    line.attempt.number = head->attempt;
    line.attempt.state = HX_ATTEMPT_OPEN;
    return HX_TRACE(
        history_line(ledger, head->row, &line, HX_HISTORY_MARK, head->state, HX_SPAN_NONE));
}

int hx_row_rekey(struct hx_ledger *ledger, const struct hx_row_head *head,
                 const struct hx_record *record)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_REKEY);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, head->row);
    sqlite3_bind_blob(stmt, 2, record->identity.bytes, 16, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 3, record->identity.bytes + 16, 16, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 4, record->key.ptr, (int)record->key.len, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 5, record->key_source);
    sqlite3_bind_int64(stmt, 6, record->first_sent.ms);
    int rc = hx_ledger_run(ledger, stmt);
    /* The row's name changes but once; the line also proves it when the commit is in doubt. */
    if (rc == 0)
        rc = hx_row_note(ledger, head, HX_HISTORY_NOTE, HX_SPAN_LIT("{\"what\":\"key_given\"}"));
    return HX_TRACE(rc);
}

int hx_row_touch(struct hx_ledger *ledger, const struct hx_row_head *head,
                 const struct hx_store_touch *touch)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_TOUCH);
    if (stmt == NULL)
        return HX_E_STORE;
    bool cools = touch->cool && hx_op_state_is_final(head->state);
    bool heats = touch->adopt || touch->warm;
    int hot_code = heats ? 2 : cools ? 1 : 0; /* 0 leaves it, else the new value + 1 */
    sqlite3_bind_int64(stmt, 1, head->row);
    sqlite3_bind_int64(stmt, 2, touch->add_repeats);
    sqlite3_bind_int64(stmt, 3, touch->add_sent);
    sqlite3_bind_int64(stmt, 4, touch->subtract_sent);
    sqlite3_bind_int64(stmt, 5, touch->add_lost);
    sqlite3_bind_int(stmt, 6, touch->set_told_pending);
    sqlite3_bind_int(stmt, 7, touch->set_cancel_requested);
    sqlite3_bind_int(stmt, 8, touch->set_acknowledged);
    sqlite3_bind_int(stmt, 9, touch->set_needs_human);
    sqlite3_bind_int(stmt, 10, hot_code);
    sqlite3_bind_int(stmt, 11, touch->adopt);
    if (hx_id_is_nil(&touch->holder))
        sqlite3_bind_null(stmt, 12);
    else
        sqlite3_bind_blob(stmt, 12, &touch->holder, HX_ID_SIZE, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 13, hx_ledger_age_ms(ledger));
    return HX_TRACE(hx_ledger_run(ledger, stmt));
}

int hx_row_note(struct hx_ledger *ledger, const struct hx_row_head *head, enum hx_history_kind kind,
                struct hx_span text)
{
    struct hx_record line = {0};
    if (head != NULL) {
        line.state = head->state;
        line.fence = head->fence;
        line.attempt.number = head->attempt;
    }
    return HX_TRACE(
        history_line(ledger, head != NULL ? head->row : 0, &line, kind, line.state, text));
}

int hx_row_evidence(struct hx_ledger *ledger, const struct hx_row_head *head,
                    const struct hx_outcome *outcome)
{
    char text[160];
    char digest[HX_DIGEST_HEX_SIZE];
    hx_digest_hex(&outcome->digest, digest);
    int len =
        snprintf(text, sizeof(text), "{\"what\":\"late_outcome\",\"size\":%llu,\"digest\":\"%s\"}",
                 (unsigned long long)outcome->size, digest);
    int rc = 0;
    if (!hx_span_is_absent(outcome->bytes))
        rc = payload_put(ledger, head->row, HX_PAYLOAD_EVIDENCE, outcome->bytes);
    if (rc == 0)
        rc = hx_row_note(ledger, head, HX_HISTORY_EVIDENCE, hx_span(text, (size_t)len));
    return HX_TRACE(rc);
}
