/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/find.h"

#include "adapter/store_sqlite/blob.h"
#include "base/alloc.h"
#include "core/retention.h"

/* How many rows one scan looks at, so that it never holds the thread for long. */
enum { SCAN_LOOK_MAX = 4096 };

static enum hx_owner_fact owner_fact(struct hx_ledger *ledger, const struct hx_record *record)
{
    if (hx_id_is_nil(&record->owner))
        return HX_OWNER_NOBODY;
    if (hx_id_eq(&record->owner, &ledger->owners.self))
        return HX_OWNER_MINE;
    if (hx_boot_is_known(&record->owner_boot) &&
        !hx_boot_eq(&record->owner_boot, &ledger->now.boot))
        return HX_OWNER_DEAD;
    return hx_owners_is_alive(&ledger->owners, &record->owner) ? HX_OWNER_ALIVE : HX_OWNER_DEAD;
}

/* An owner on this host who lives could still send, unless the operation left his hands: the fence
 * was raised then, and the attempt has no other transport than the one that it names. */
static bool could_owner_send(const struct hx_store_found *found)
{
    switch (found->owner_fact) {
    case HX_OWNER_NOBODY:
    case HX_OWNER_DEAD:
        return false;
    case HX_OWNER_MINE:
    case HX_OWNER_ALIVE:
        return found->record.state == HX_OP_RUNNING;
    case HX_OWNER_ELSEWHERE:
    case HX_OWNER_ELSEWHERE_LAPSED:
        return true;
    }
    return true;
}

static bool is_sender_gone(struct hx_ledger *ledger, const struct hx_store_found *found)
{
    const struct hx_store_sqlite_options *options = ledger->options;
    const struct hx_attempt *attempt = &found->record.attempt;
    if (hx_op_state_is_final(found->record.state) || could_owner_send(found))
        return false;
    if (hx_boot_is_known(&attempt->claimed_at.boot) &&
        !hx_boot_eq(&attempt->claimed_at.boot, &ledger->now.boot))
        return true;
    struct hx_id owner;
    if (hx_id_parse(hx_span_cstr(attempt->transport), &owner))
        return !hx_owners_is_alive(&ledger->owners, &owner);
    if (attempt->transport[0] == '\0' || options->is_transport_gone == NULL)
        return false;
    return options->is_transport_gone(options->transport_context, attempt->transport);
}

static int payload_get(struct hx_ledger *ledger, int64_t row, int part, struct hx_arena *arena,
                       struct hx_span *ret_bytes)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_PAYLOAD_GET);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row * HX_PAYLOAD_PARTS + part);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 1) {
        const char *bytes = sqlite3_column_blob(stmt, 0);
        *ret_bytes =
            hx_arena_dup(arena, hx_span(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, 0)));
        rc = hx_span_is_absent(*ret_bytes) ? HX_RAISE(HX_E_NOMEM, HX_NO_ROOM) : 0;
    } else if (rc == 0) {
        rc = HX_RAISE(HX_E_SYNTAX, "row %lld names a payload that is not there", (long long)row);
    }
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}

/* Bytes of column `at`, or of the payload table. */
static int load_bytes(struct hx_ledger *ledger, sqlite3_stmt *stmt, int at, int place, int part,
                      struct hx_arena *arena, struct hx_span *ret_bytes)
{
    *ret_bytes = HX_SPAN_NONE;
    if (place == HX_BYTES_PAYLOAD)
        return HX_TRACE(payload_get(ledger, sqlite3_column_int64(stmt, 0), part, arena, ret_bytes));
    if (place != HX_BYTES_ROW)
        return 0;
    const char *bytes = sqlite3_column_blob(stmt, at);
    *ret_bytes =
        hx_arena_dup(arena, hx_span(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, at)));
    return hx_span_is_absent(*ret_bytes) ? HX_RAISE(HX_E_NOMEM, HX_NO_ROOM) : 0;
}

static enum hx_outcome_place shown_place(int place)
{
    if (place == HX_BYTES_BLOB)
        return HX_OUTCOME_BLOB;
    return place == HX_BYTES_GONE ? HX_OUTCOME_GONE : HX_OUTCOME_INLINE;
}

int hx_find_load(struct hx_ledger *ledger, sqlite3_stmt *stmt, struct hx_store_request *request)
{
    struct hx_store_found *found = hx_store_request_add(request);
    if (found == NULL)
        return HX_RAISE(HX_E_NOMEM, HX_NO_ROOM);
    struct hx_record *record = &found->record;
    int arguments_place = sqlite3_column_int(stmt, 3);
    int outcome_place = sqlite3_column_int(stmt, 4);
    int index = 9;
    found->rowid = sqlite3_column_int64(stmt, 0);
    found->age_ms = hx_ledger_age_ms(ledger) - sqlite3_column_int64(stmt, 8);
    int rc = hx_columns_load(stmt, &index, &request->arena, record, &ledger->boots);
    if (rc == 0)
        rc = hx_ledger_contract(ledger, sqlite3_column_int64(stmt, 1), &record->contract);
    if (rc == 0)
        rc = load_bytes(ledger, stmt, 6, arguments_place, HX_PAYLOAD_ARGUMENTS, &request->arena,
                        &record->arguments);
    if (rc == 0)
        rc = load_bytes(ledger, stmt, 7, outcome_place, HX_PAYLOAD_OUTCOME, &request->arena,
                        &record->outcome.bytes);
    if (rc == HX_E_SYNTAX) {
        struct hx_fault fault = *hx_fault_last();
        ledger->damaged_row = found->rowid;
        return HX_RAISE(HX_E_STORE, "The ledger is damaged in row %lld (%s): run hapax ops verify.",
                        (long long)found->rowid, fault.text);
    }
    if (rc < 0)
        return HX_TRACE(rc);
    record->outcome.place = shown_place(outcome_place);
    bool is_this_boot = hx_boot_eq(&record->attempt.claimed_at.boot, &ledger->now.boot);
    bool is_this_epoch = (uint64_t)sqlite3_column_int64(stmt, 2) == ledger->meta.epoch;
    found->is_epoch_current = is_this_boot && is_this_epoch && !ledger->is_ill;
    return 0;
}

/* Does the row carry the names that it was found under? An index that points astray must hand
 * nobody another one's answer (INV-10, INV-23); and it is damage, so not for us to assert. */
static int check_names(struct hx_ledger *ledger, const struct hx_store_request *request)
{
    const struct hx_store_found *found = &request->records[request->record_count - 1];
    const struct hx_record *record = &found->record;
    struct hx_digest name = hx_record_identity(ledger->hasher, record, false);
    if (hx_digest_eq(&name, &record->identity))
        return 0;
    name = hx_record_identity(ledger->hasher, record, true);
    if (hx_digest_eq(&name, &record->identity))
        return 0;
    return HX_RAISE(HX_E_STORE,
                    "The ledger is damaged in row %lld (it stands under another one's name): run "
                    "hapax ops verify.",
                    (long long)found->rowid);
}

static int check_twin(struct hx_ledger *ledger, const struct hx_store_request *request)
{
    const struct hx_store_found *found = &request->records[request->record_count - 1];
    struct hx_digest twin = hx_record_twin(ledger->hasher, &found->record);
    if (hx_digest_eq(&twin, &request->record.twin))
        return 0;
    return HX_RAISE(
        HX_E_STORE,
        "The ledger is damaged in row %lld (it is no equal call): run hapax ops verify.",
        (long long)found->rowid);
}

typedef int check_fn(struct hx_ledger *ledger, const struct hx_store_request *request);

/* Steps through all rows of a prepared OP_ statement; `check` may be NULL. */
static int load_all(struct hx_ledger *ledger, sqlite3_stmt *stmt, struct hx_store_request *request,
                    check_fn *check)
{
    int rc;
    while ((rc = hx_ledger_step(ledger, stmt)) == 1) {
        rc = hx_find_load(ledger, stmt, request);
        if (rc == 0 && check != NULL)
            rc = check(ledger, request);
        if (rc < 0)
            break;
    }
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}

static int find_by_id(struct hx_ledger *ledger, struct hx_store_request *request,
                      const struct hx_id *id)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_BY_ID);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, id, sizeof(*id), SQLITE_STATIC);
    return HX_TRACE(load_all(ledger, stmt, request, NULL));
}

int hx_find_row(struct hx_ledger *ledger, struct hx_store_request *request, int64_t row)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_BY_ROW);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, row);
    return HX_TRACE(load_all(ledger, stmt, request, NULL));
}

static int find_by_identity(struct hx_ledger *ledger, struct hx_store_request *request,
                            const struct hx_digest *identity)
{
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_BY_IDENTITY);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, identity->bytes, 16, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, identity->bytes + 16, 16, SQLITE_STATIC);
    return HX_TRACE(load_all(ledger, stmt, request, check_names));
}

static int find_twins(struct hx_ledger *ledger, struct hx_store_request *request, int64_t except)
{
    const struct hx_digest *twin = &request->record.twin;
    int rc = hx_row_newest_twin(ledger, twin, &request->ret_twin_seen);
    sqlite3_stmt *stmt = rc == 0 ? hx_ledger_stmt(ledger, HX_SQL_OP_TWINS) : NULL;
    if (stmt == NULL)
        return HX_E_STORE;
    if (request->ret_twin_seen == 0)
        return 0;
    sqlite3_bind_blob(stmt, 1, twin->bytes, 16, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, twin->bytes + 16, 16, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, except);
    sqlite3_bind_int(stmt, 4, HX_STORE_TWINS_MAX);
    return HX_TRACE(load_all(ledger, stmt, request, check_twin));
}

static bool is_scanned(const struct hx_store_request *request, int state)
{
    if (state <= HX_OP_ABSENT || state >= HX_OP_STATE_COUNT)
        return false; /* verify tells of it */
    if (request->scan_state == HX_OP_ABSENT)
        return !hx_op_state_is_final((enum hx_op_state)state);
    return state == (int)request->scan_state;
}

/* Lists the rows of one page first: a sorter must not carry whole rows. */
static int scan(struct hx_ledger *ledger, struct hx_store_request *request)
{
    bool is_open_only =
        request->scan_state == HX_OP_ABSENT || !hx_op_state_is_final(request->scan_state);
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, is_open_only ? HX_SQL_SCAN_OPEN : HX_SQL_SCAN_ALL);
    int64_t *rows = hx_arena_alloc(&request->arena, request->scan_limit * sizeof(int64_t));
    if (stmt == NULL)
        return HX_E_STORE;
    if (rows == NULL)
        return HX_RAISE(HX_E_NOMEM, HX_NO_ROOM);
    sqlite3_bind_int64(stmt, 1, request->scan_after);
    sqlite3_bind_int(stmt, 2, SCAN_LOOK_MAX);
    uint32_t count = 0;
    int looked = 0, rc = 0;
    int64_t last = 0;
    while (count < request->scan_limit && (rc = hx_ledger_step(ledger, stmt)) == 1) {
        looked++;
        last = sqlite3_column_int64(stmt, 0);
        if (is_scanned(request, sqlite3_column_int(stmt, 1)))
            rows[count++] = last;
    }
    sqlite3_reset(stmt);
    if (rc < 0)
        return HX_TRACE(rc);
    bool has_more = count == request->scan_limit || looked == SCAN_LOOK_MAX;
    request->ret_scan_next = has_more ? last : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (request->arena.used >= HX_STORE_SCAN_BYTES) {
            request->ret_scan_next = rows[i - 1];
            break;
        }
        rc = hx_find_row(ledger, request, rows[i]);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

static int find_identity_and_twins(struct hx_ledger *ledger, struct hx_store_request *request,
                                   bool by_identity, bool also_twins)
{
    if (by_identity) {
        int rc = find_by_identity(ledger, request, &request->record.identity);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    if (!also_twins)
        return 0;
    int64_t except = request->record_count > 0 ? request->records[0].rowid : 0;
    return HX_TRACE(find_twins(ledger, request, except));
}

static int load_stale(struct hx_ledger *ledger, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_INSERT)
        return HX_TRACE(find_identity_and_twins(ledger, request, true, request->twin_guard));
    int rc = find_by_id(ledger, request, &request->record.id);
    int64_t taken = 0;
    if (rc == 0 && request->has_second)
        rc = hx_row_taken(ledger, &request->second, &taken);
    if (rc == 0 && taken != 0)
        rc = find_by_identity(ledger, request, &request->second.identity);
    return HX_TRACE(rc);
}

static int load(struct hx_ledger *ledger, struct hx_store_request *request)
{
    if (request->kind != HX_STORE_FIND)
        return HX_TRACE(load_stale(ledger, request));
    if (request->scan) {
        hx_assert(request->scan_limit > 0);
        return HX_TRACE(scan(ledger, request));
    }
    if (request->find_id)
        return HX_TRACE(find_by_id(ledger, request, &request->record.id));
    return HX_TRACE(
        find_identity_and_twins(ledger, request, request->find_identity, request->find_twin));
}

static bool is_applied(const struct hx_aftermath *aftermath, const struct hx_id *owner)
{
    for (uint32_t i = 0; i < aftermath->spool_count; i++) {
        if (hx_id_eq(&aftermath->spools_applied[i], owner))
            return true;
    }
    return false;
}

/* Applies the spools of the dead owners among the records. 1 when there were any. Beside a restored
 * copy they may be those of the ledger that it took the place of, and hold outcomes whose rows it
 * lacks: a spool that is applied goes, and they with it. So there they are left to recover, and to
 * whoever puts that ledger back. */
static int apply_spools(struct hx_ledger *ledger, struct hx_store_request *request,
                        struct hx_aftermath *aftermath, bool *ret_needs_sync)
{
    int any = 0;
    if (ledger->is_restored_copy)
        return 0;
    for (uint32_t i = 0; i < request->record_count; i++) {
        const struct hx_store_found *found = &request->records[i];
        const struct hx_id *owner = &found->record.owner;
        if (found->owner_fact != HX_OWNER_DEAD || is_applied(aftermath, owner) ||
            !hx_spool_exists(ledger, owner))
            continue;
        if (ledger->txn != HX_TXN_SYNCED) {
            *ret_needs_sync = true;
            return 0;
        }
        int rc = hx_spool_apply(ledger, owner, aftermath);
        if (rc < 0)
            return HX_TRACE(rc);
        any = 1;
    }
    return any;
}

/* Of a living owner's row the ledger may say "running" when the outcome was told already; and of a
 * dead one's, where the spool may not be applied. */
static int show_spools(struct hx_ledger *ledger, struct hx_store_request *request)
{
    for (uint32_t i = 0; i < request->record_count; i++) {
        struct hx_store_found *found = &request->records[i];
        bool may_be_spooled = found->owner_fact == HX_OWNER_ALIVE ||
                              (found->owner_fact == HX_OWNER_DEAD && ledger->is_restored_copy);
        if (!may_be_spooled || found->record.state != HX_OP_RUNNING)
            continue;
        int rc = hx_spool_show(ledger, found, &request->arena);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

void hx_find_judge(struct hx_ledger *ledger, struct hx_store_request *request)
{
    for (uint32_t i = 0; i < request->record_count; i++) {
        struct hx_store_found *found = &request->records[i];
        found->owner_fact = owner_fact(ledger, &found->record);
        found->is_sender_gone = is_sender_gone(ledger, found);
    }
}

/* What the sweep has not come by to take is gone all the same once its time is over: no answer
 * depends on when a sweep runs. */
static void hide_what_is_over(struct hx_store_request *request)
{
    for (uint32_t i = 0; i < request->record_count; i++) {
        struct hx_store_found *found = &request->records[i];
        struct hx_outcome *outcome = &found->record.outcome;
        if (outcome->kind == HX_OUTCOME_NONE ||
            !hx_retention_is_payload_over(&found->record, found->age_ms))
            continue;
        outcome->place = HX_OUTCOME_GONE;
        outcome->bytes = HX_SPAN_NONE;
    }
}

static int find(struct hx_ledger *ledger, struct hx_store_request *request,
                struct hx_aftermath *aftermath)
{
    enum hx_store_result result = request->result;
    /* Twice: the spools that the first round applies are known in the second. */
    for (int rc = 1; rc != 0;) {
        bool needs_sync = false;
        hx_store_request_forget(request);
        request->result = result;
        rc = load(ledger, request);
        if (rc < 0)
            return HX_TRACE(rc);
        hx_find_judge(ledger, request);
        rc = apply_spools(ledger, request, aftermath, &needs_sync);
        if (rc < 0)
            return HX_TRACE(rc);
        if (needs_sync)
            return HX_FIND_NEEDS_SYNC;
    }
    int rc = show_spools(ledger, request);
    hide_what_is_over(request);
    return HX_TRACE(rc);
}

int hx_find(struct hx_ledger *ledger, struct hx_store_request *request,
            struct hx_aftermath *aftermath)
{
    return HX_TRACE(find(ledger, request, aftermath));
}

int hx_find_stale(struct hx_ledger *ledger, struct hx_store_request *request,
                  struct hx_aftermath *aftermath)
{
    request->result = HX_STORE_STALE;
    return HX_TRACE(find(ledger, request, aftermath));
}

static int check_digest(struct hx_ledger *ledger, const struct hx_digest *expected,
                        struct hx_span bytes)
{
    static const struct hx_digest none;
    hx_hasher_begin(ledger->hasher);
    hx_hasher_add(ledger->hasher, bytes);
    struct hx_digest actual = hx_hasher_end(ledger->hasher);
    if (hx_digest_eq(expected, &none) || hx_digest_eq(expected, &actual))
        return 0;
    return HX_RAISE(HX_E_STORE, "A stored result is damaged: its digest differs. "
                                "Run hapax ops verify.");
}

int hx_find_payload(struct hx_ledger *ledger, struct hx_store_request *request)
{
    struct hx_id id = request->record.id;
    hx_store_request_forget(request);
    sqlite3_stmt *stmt = hx_ledger_stmt(ledger, HX_SQL_OP_OUTCOME);
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_blob(stmt, 1, &id, sizeof(id), SQLITE_STATIC);
    int rc = hx_ledger_step(ledger, stmt);
    if (rc == 0)
        request->result = HX_STORE_STALE;
    if (rc == 1) {
        int place = sqlite3_column_int(stmt, 1);
        uint64_t blob = (uint64_t)sqlite3_column_int64(stmt, 2);
        rc = place == HX_BYTES_BLOB
                 ? hx_blob_read(ledger->paths.blobs, &id, blob, &request->arena, &request->payload)
                 : load_bytes(ledger, stmt, 3, place, HX_PAYLOAD_OUTCOME, &request->arena,
                              &request->payload);
        struct hx_digest digest = {{0}};
        if (sqlite3_column_bytes(stmt, 5) == HX_DIGEST_SIZE)
            memcpy(&digest, sqlite3_column_blob(stmt, 5), HX_DIGEST_SIZE);
        if (rc == 0 && !hx_span_is_absent(request->payload))
            rc = check_digest(ledger, &digest, request->payload);
    }
    sqlite3_reset(stmt);
    return HX_TRACE(rc);
}
