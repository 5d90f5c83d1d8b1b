/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops verify`: does the ledger hold what it must hold in every row?
 *
 * It reads one snapshot, and does not take the lock: gateways go on. Only the log cannot be moved
 * while it reads, so it grows meanwhile.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "adapter/store_sqlite/blob.h"
#include "adapter/store_sqlite/inspect_ledger.h"
#include "base/alloc.h"

enum { PROGRESS_ROWS = 10000, FINDINGS_PER_STAGE_MAX = 100 };

struct verify {
    struct hx_inspect *inspect;
    const struct hx_verify_listener *listener;
    struct hx_verify_report report;
};

static void tell(struct verify *verify, bool is_problem, const char *format, ...) HX_PRINTF(3, 4);

static void tell(struct verify *verify, bool is_problem, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    verify->report.problems += is_problem;
    verify->report.notes += !is_problem;
    verify->listener->finding(verify->listener->context, is_problem, text);
}

static void progress(struct verify *verify, const char *stage, uint64_t done)
{
    if (verify->listener->progress != NULL)
        verify->listener->progress(verify->listener->context, stage, done);
}

/* Runs a query whose rows are each one finding, a text. */
static int tell_each(struct verify *verify, const char *sql, const char *prefix)
{
    sqlite3_stmt *stmt = hx_inspect_prepare(verify->inspect, sql);
    if (stmt == NULL)
        return HX_E_STORE;
    int rc, count = 0;
    while ((rc = hx_ledger_step(&verify->inspect->ledger, stmt)) == 1) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (text == NULL || strcmp(text, "ok") == 0)
            continue;
        tell(verify, true, "%s%s.", prefix, text);
        if (++count == FINDINGS_PER_STAGE_MAX)
            break;
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int check_database(struct verify *verify)
{
    progress(verify, "pages and indexes", 0);
    return HX_TRACE(tell_each(verify, "PRAGMA integrity_check", "The database is damaged: "));
}

static void id_text(const struct hx_id *id, char *ret_text)
{
    hx_id_format(id, ret_text);
}

static bool has_right_digests(struct verify *verify, const struct hx_record *record)
{
    struct hx_hasher *hasher = verify->inspect->ledger.hasher;
    struct hx_digest twin = hx_record_twin(hasher, record);
    struct hx_digest by_tenant = hx_record_identity(hasher, record, false);
    struct hx_digest by_principal = hx_record_identity(hasher, record, true);
    return hx_digest_eq(&twin, &record->twin) && (hx_digest_eq(&by_tenant, &record->identity) ||
                                                  hx_digest_eq(&by_principal, &record->identity));
}

/* Only the bytes' digest tells whether a stored result is still what the tool said. */
static void check_payload(struct verify *verify, const struct hx_record *record, const char *name)
{
    if (record->outcome.kind == HX_OUTCOME_NONE || record->outcome.place == HX_OUTCOME_GONE)
        return;
    struct hx_store_request *request = hx_store_request_new(HX_STORE_PAYLOAD, NULL);
    request->record.id = record->id;
    if (hx_find_payload(&verify->inspect->ledger, request) < 0)
        tell(verify, true, "Operation %s: %s", name, hx_fault_last()->text);
    else if (!hx_span_is_absent(request->payload) && request->payload.len != record->outcome.size)
        tell(verify, true, "Operation %s: its result has %zu bytes and should have %llu.", name,
             request->payload.len, (unsigned long long)record->outcome.size);
    hx_store_request_free(request);
}

static void check_record(struct verify *verify, const struct hx_record *record, bool is_hot)
{
    char name[HX_ID_TEXT_SIZE];
    id_text(&record->id, name);
    const char *flaw = hx_record_flaw(record);
    if (flaw != NULL)
        tell(verify, true, "Operation %s: %s.", name, flaw);
    if (!hx_op_state_is_final(record->state) && !is_hot)
        tell(verify, true, "Operation %s is open, but an equal call would not meet it.", name);
    if (!has_right_digests(verify, record))
        tell(verify, true, "Operation %s: its names and its digests do not belong together.", name);
    check_payload(verify, record, name);
}

static int check_row(struct verify *verify, int64_t row, bool is_hot)
{
    struct hx_inspect *inspect = verify->inspect;
    hx_store_request_forget(inspect->request);
    int rc = hx_find_row(&inspect->ledger, inspect->request, row);
    if (rc < 0) {
        tell(verify, true, "%s", hx_fault_last()->text);
        return 0;
    }
    if (inspect->request->record_count > 0)
        check_record(verify, &inspect->request->records[0].record, is_hot);
    if (++verify->report.rows % PROGRESS_ROWS == 0)
        progress(verify, "operations", verify->report.rows);
    return 0;
}

static int check_rows(struct verify *verify)
{
    sqlite3_stmt *stmt =
        hx_inspect_prepare(verify->inspect, "SELECT row, hot FROM op ORDER BY row");
    if (stmt == NULL)
        return HX_E_STORE;
    int rc = 0;
    progress(verify, "operations", 0);
    while (rc == 0 && (rc = hx_ledger_step(&verify->inspect->ledger, stmt)) == 1)
        rc = check_row(verify, sqlite3_column_int64(stmt, 0), sqlite3_column_int(stmt, 1) != 0);
    sqlite3_finalize(stmt);
    return HX_TRACE(rc);
}

static int check_references(struct verify *verify)
{
    progress(verify, "references", 0);
    int rc = tell_each(verify,
                       "SELECT 'history line ' || seq || ' belongs to row ' || op || ', which is"
                       " not there' FROM history WHERE op <> 0 AND op NOT IN (SELECT row FROM op)",
                       "A ");
    if (rc == 0)
        rc = tell_each(verify,
                       "SELECT 'payload ' || number || ' belongs to no row' FROM payload"
                       " WHERE number / 4 NOT IN (SELECT row FROM op)",
                       "A ");
    if (rc == 0)
        rc = tell_each(verify,
                       "SELECT 'row ' || row || ' has no history' FROM op"
                       " WHERE NOT EXISTS (SELECT 1 FROM history WHERE history.op = op.row)",
                       "Its ");
    return HX_TRACE(rc);
}

/* Streams of a session that is not there belong to one that ended, and are on their way out. */
static int check_kept(struct verify *verify)
{
    static const struct {
        const char *sql;
        const char *prefix;
    } checks[] = {
        {"SELECT number || ' has a key of ' || length(key) || ' bytes, and should have 32' FROM"
         " session WHERE length(key) <> 32",
         "Session "},
        {"SELECT 'initialize message belongs to session ' || session || ', which is not there'"
         " FROM session_message WHERE session NOT IN (SELECT number FROM session)",
         "An "},
        {"SELECT 'stream of session ' || session || ' belongs to row ' || op || ', which is not"
         " there' FROM stream WHERE op NOT IN (SELECT row FROM op)",
         "A "},
        {"SELECT 'resume point belongs to row ' || op || ', which is not there' FROM resume WHERE"
         " op NOT IN (SELECT row FROM op)",
         "A "},
        {"SELECT 'resume point of row ' || op.row || ' is of attempt ' || resume.attempt || ', and"
         " there were ' || op.attempt FROM resume JOIN op ON op.row = resume.op WHERE"
         " resume.attempt > op.attempt",
         "The "},
    };
    int rc = 0;
    progress(verify, "sessions and streams", 0);
    for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
        rc = tell_each(verify, checks[i].sql, checks[i].prefix);
    return HX_TRACE(rc);
}

/* INV-16, from both sides. History goes with the row, and delivered events go by age, after an hour
 * at the earliest, so only young lines can be asked for theirs. */
static int check_events(struct verify *verify)
{
    char missing[1024];
    enum { EVENTS_KEPT_MS = 3600 * 1000 };
    const struct hx_ledger *ledger = &verify->inspect->ledger;
    progress(verify, "outbox", 0);
    int rc =
        tell_each(verify,
                  "SELECT number || ' of the outbox tells of a transition that is not in the"
                  " history' FROM outbox JOIN op ON op.id = outbox.op WHERE op.expired_from = 0"
                  " AND NOT EXISTS (SELECT 1 FROM history WHERE history.op = op.row AND"
                  " history.seq = outbox.seq AND history.to_state = outbox.state)",
                  "Event ");
    if (rc < 0 || ledger->meta.outbox_since.ms == 0)
        return HX_TRACE(rc);
    int64_t young_ms = ledger->now.wall.ms - EVENTS_KEPT_MS;
    int64_t since_ms = ledger->meta.outbox_since.ms;
    snprintf(missing, sizeof(missing),
             "SELECT 'row ' || op || ', line ' || seq || ', has no event' FROM history WHERE at >"
             " %lld AND from_state <> to_state AND to_state IN (%d, %d, %d, %d, %d) AND kind IN"
             " (%d, %d, %d) AND NOT EXISTS (SELECT 1 FROM outbox JOIN op ON op.id = outbox.op WHERE"
             " op.row = history.op AND outbox.seq = history.seq)",
             (long long)(young_ms > since_ms ? young_ms : since_ms), HX_OP_SUCCEEDED, HX_OP_FAILED,
             HX_OP_UNKNOWN, HX_OP_CANCELLED, HX_OP_AWAITING_APPROVAL, HX_HISTORY_INSERT,
             HX_HISTORY_UPDATE, HX_HISTORY_SPOOL);
    return HX_TRACE(tell_each(verify, missing, "The transition of "));
}

bool hx_inspect_is_blob_named(struct hx_inspect *inspect, const char *name, int *ret_rc)
{
    struct hx_id id;
    uint64_t number;
    struct hx_row_head head;
    *ret_rc = 0;
    if (!hx_blob_parse_name(name, &id, &number))
        return false;
    *ret_rc = hx_row_head(&inspect->ledger, &id, &head);
    return *ret_rc == 1 && head.outcome_place == HX_BYTES_BLOB && head.outcome_blob == number;
}

static int check_blobs(struct verify *verify)
{
    const char *path = verify->inspect->ledger.paths.blobs;
    DIR *directory = opendir(path);
    if (directory == NULL)
        return HX_RAISE(HX_E_SYSTEM, "The directory %s cannot be read.", path);
    int rc = 0;
    uint64_t orphans = 0;
    for (struct dirent *entry; rc >= 0 && (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] != '.' &&
            !hx_inspect_is_blob_named(verify->inspect, entry->d_name, &rc))
            orphans++;
    }
    closedir(directory);
    if (orphans > 0)
        tell(verify, false, "%llu files in %s belong to no operation; recover removes them.",
             (unsigned long long)orphans, path);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int count_entry(void *context, const struct hx_record *record, uint64_t expected_fence)
{
    uint64_t *count = context;
    (*count)++;
    return 0;
}

static int check_spools(struct verify *verify)
{
    struct hx_ledger *ledger = &verify->inspect->ledger;
    DIR *directory = opendir(ledger->paths.spool);
    if (directory == NULL)
        return HX_RAISE(HX_E_SYSTEM, "The directory %s cannot be read.", ledger->paths.spool);
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(directory)) != NULL;) {
        struct hx_id owner;
        uint64_t count = 0;
        if (entry->d_name[0] == '.')
            continue;
        if (!hx_id_parse(hx_span_cstr(entry->d_name), &owner)) {
            tell(verify, false, "The file %s in %s is not ours.", entry->d_name,
                 ledger->paths.spool);
            continue;
        }
        char *path = hx_path_join(ledger->paths.spool, entry->d_name);
        rc = hx_spool_read(path, ledger->hasher, count_entry, &count);
        hx_free(path);
        bool is_alive = hx_owners_is_alive(&ledger->owners, &owner);
        if (rc == 0 && count > 0)
            tell(verify, false, "%llu outcomes wait in the spool of a process that %s.",
                 (unsigned long long)count,
                 is_alive ? "still runs" : "is dead; the next start or recover applies them");
    }
    closedir(directory);
    return HX_TRACE(rc);
}

static int check_facts(struct verify *verify)
{
    struct hx_inspect_facts facts;
    int rc = hx_inspect_facts(verify->inspect, &facts);
    if (rc < 0)
        return HX_TRACE(rc);
    if (facts.is_restored_copy)
        tell(verify, true,
             "The ledger is older than its counter: a copy was restored. Run hapax ops recover "
             "--backup-taken-at TIME.");
    if (facts.io_error[0] != '\0')
        tell(verify, false, "An I/O error was seen: %s", facts.io_error);
    return 0;
}

int hx_inspect_verify(struct hx_inspect *inspect, const struct hx_verify_listener *listener,
                      struct hx_verify_report *ret_report)
{
    static int (*const stages[])(struct verify * verify) = {
        check_database, check_rows, check_references, check_kept, check_events, check_blobs};
    struct verify verify = {.inspect = inspect, .listener = listener};
    int rc = hx_inspect_begin(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    for (size_t i = 0; rc == 0 && i < sizeof(stages) / sizeof(stages[0]); i++)
        rc = stages[i](&verify);
    hx_ledger_rollback(&inspect->ledger);
    if (rc == 0)
        rc = check_spools(&verify);
    if (rc == 0)
        rc = check_facts(&verify);
    *ret_report = verify.report;
    return HX_TRACE(rc);
}
