/* SPDX-License-Identifier: MIT */
/*
 * The history of one operation, and its attempts as the history tells them.
 */
#include <stdio.h>

#include "adapter/store_sqlite/inspect.h"
#include "adapter/store_sqlite/inspect_ledger.h"

static const char *history_word(int kind)
{
    static const char *const words[] = {
        [HX_HISTORY_INSERT] = "insert",       [HX_HISTORY_UPDATE] = "update",
        [HX_HISTORY_MARK] = "mark",           [HX_HISTORY_NOTE] = "note",
        [HX_HISTORY_SPOOL] = "spool",         [HX_HISTORY_EVIDENCE] = "evidence",
        [HX_HISTORY_RETENTION] = "retention",
    };
    return kind >= HX_HISTORY_INSERT && kind <= HX_HISTORY_RETENTION ? words[kind] : "?";
}

static void read_line(sqlite3_stmt *stmt, struct hx_history_line *ret_line)
{
    uint64_t earlier = (uint64_t)sqlite3_column_int64(stmt, 9);
    *ret_line = (struct hx_history_line){
        .seq = sqlite3_column_int64(stmt, 0),
        .at = {sqlite3_column_int64(stmt, 1)},
        .what = history_word(sqlite3_column_int(stmt, 3)),
        .from = (enum hx_op_state)hx_inspect_limited(stmt, 4, HX_OP_STATE_COUNT),
        .to = (enum hx_op_state)hx_inspect_limited(stmt, 5, HX_OP_STATE_COUNT),
        .reason = (enum hx_reason)hx_inspect_limited(stmt, 6, HX_REASON_COUNT),
        .fence = (uint64_t)sqlite3_column_int64(stmt, 7),
        .attempt = (uint32_t)sqlite3_column_int64(stmt, 8),
        .earlier = {(uint16_t)earlier, (uint16_t)(earlier >> 16), (uint16_t)(earlier >> 32),
                    (uint16_t)(earlier >> 48)},
        .attempt_state = (enum hx_attempt_state)hx_inspect_limited(stmt, 10, HX_ATTEMPT_DEAD + 1),
    };
    if (sqlite3_column_bytes(stmt, 2) == HX_ID_SIZE)
        memcpy(&ret_line->who, sqlite3_column_blob(stmt, 2), HX_ID_SIZE);
    const char *text = (const char *)sqlite3_column_text(stmt, 11);
    if (text != NULL)
        ret_line->text = hx_span(text, (size_t)sqlite3_column_bytes(stmt, 11));
}

int hx_inspect_history(struct hx_inspect *inspect, int64_t rowid,
                       bool (*visit)(void *context, const struct hx_history_line *line),
                       void *context)
{
    sqlite3_stmt *stmt = hx_inspect_prepare(
        inspect, "SELECT seq, at, who, kind, from_state, to_state, reason, fence, attempt, earlier,"
                 " attempt_state, text FROM history WHERE op = ?1 ORDER BY seq");
    if (stmt == NULL)
        return HX_E_STORE;
    sqlite3_bind_int64(stmt, 1, rowid);
    int rc = hx_inspect_begin(inspect);
    bool wants_more = rc == 0;
    while (wants_more && (rc = hx_ledger_step(&inspect->ledger, stmt)) == 1) {
        struct hx_history_line line;
        read_line(stmt, &line);
        wants_more = visit(context, &line);
    }
    sqlite3_finalize(stmt);
    if (inspect->ledger.txn != HX_TXN_NONE)
        hx_ledger_rollback(&inspect->ledger);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

struct attempts {
    struct hx_inspect_attempt *list;
    uint32_t max;
    uint32_t count;
    struct hx_attempt_counts earlier; /* of the last line */
};

/* An attempt that another one follows ended in the state whose count rose. */
static enum hx_attempt_state end_state(const struct hx_attempt_counts *before,
                                       const struct hx_attempt_counts *after)
{
    if (after->open > before->open)
        return HX_ATTEMPT_OPEN;
    if (after->asked > before->asked)
        return HX_ATTEMPT_ASKED;
    if (after->confirmed > before->confirmed)
        return HX_ATTEMPT_CONFIRMED;
    return after->refused > before->refused ? HX_ATTEMPT_REFUSED : HX_ATTEMPT_DEAD;
}

static bool add_line(void *context, const struct hx_history_line *line)
{
    struct attempts *attempts = context;
    bool is_mark = strcmp(line->what, "mark") == 0;
    bool is_write = strcmp(line->what, "insert") == 0 || strcmp(line->what, "update") == 0 ||
                    strcmp(line->what, "spool") == 0;
    struct hx_inspect_attempt *last =
        attempts->count > 0 ? &attempts->list[attempts->count - 1] : NULL;
    if (is_mark && last != NULL && last->number == line->attempt) {
        last->is_marked = true;
        last->marked = line->at;
    }
    if (!is_write || line->attempt == 0)
        return true;
    if (last == NULL || last->number != line->attempt) {
        if (last != NULL) {
            last->state = end_state(&attempts->earlier, &line->earlier);
            last->ended = last->ended.ms != 0 ? last->ended : line->at;
        }
        if (attempts->count == attempts->max)
            return false;
        last = &attempts->list[attempts->count++];
        *last = (struct hx_inspect_attempt){
            .number = line->attempt, .claimed = line->at, .who = line->who};
    }
    attempts->earlier = line->earlier;
    last->state = line->attempt_state;
    if (last->state != HX_ATTEMPT_OPEN && last->ended.ms == 0)
        last->ended = line->at;
    if (line->text.len > 0)
        snprintf(last->transport, sizeof(last->transport), "%.*s", HX_SPAN_FMT(line->text));
    return true;
}

int hx_inspect_attempts(struct hx_inspect *inspect, int64_t rowid,
                        struct hx_inspect_attempt *ret_attempts, uint32_t max, uint32_t *ret_count)
{
    struct attempts attempts = {.list = ret_attempts, .max = max};
    int rc = hx_inspect_history(inspect, rowid, add_line, &attempts);
    *ret_count = attempts.count;
    return HX_TRACE(rc);
}
