/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/beneath.h"

#include "adapter/store_sqlite/schema.h"

/* Enough of a cell for the first columns of the row, whatever follows them. */
enum { LEAF_HEADER_SIZE = 10, CELL_LOOK_SIZE = 128, TABLE_LEAF = 0x0d, APPLICATION_AT = 68 };

/* What stands there instead of the row. */
enum { NO_LEDGER = 1, TORN = 2 };

struct beneath {
    struct hx_id instance;
    uint64_t commits;
};

static int query_number(struct hx_ledger *ledger, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(ledger->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(stmt, 0);
    int rc = code == SQLITE_ROW ? 0 : hx_ledger_raise(ledger, code);
    sqlite3_finalize(stmt);
    return rc;
}

int hx_beneath_init(struct hx_ledger *ledger)
{
    int64_t page_size = 0, page = 0;
    int rc = query_number(ledger, "PRAGMA page_size", &page_size);
    if (rc == 0)
        rc =
            query_number(ledger, "SELECT rootpage FROM sqlite_master WHERE name = 'ledger'", &page);
    if (rc < 0)
        return HX_TRACE(rc);
    ledger->page_size = page_size;
    ledger->meta_offset = (page - 1) * page_size;
    return 0;
}

/* By SQLite's own descriptor: to close another one would drop its locks. What lies behind the end
 * of the file reads as zeros. */
static int read_file(struct hx_ledger *ledger, void *ret_bytes, int len, int64_t offset)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(ledger->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK)
        code = file->pMethods->xRead(file, ret_bytes, len, offset);
    if (code == SQLITE_OK || code == SQLITE_IOERR_SHORT_READ)
        return 0;
    return HX_TRACE(hx_ledger_raise(ledger, code));
}

/* What is left of a cell. */
struct cursor {
    const uint8_t *at, *end;
    bool is_bad; /* it ended too early */
};

static uint64_t take_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (int i = 0; i < 9 && cursor->at < cursor->end; i++) {
        uint8_t byte = *cursor->at++;
        value = i < 8 ? value << 7 | (byte & 0x7f) : value << 8 | byte;
        if (i == 8 || (byte & 0x80) == 0)
            return value;
    }
    cursor->is_bad = true;
    return 0;
}

/* An integer of that serial type. Neither of ours is negative. */
static uint64_t take_integer(struct cursor *cursor, uint64_t type)
{
    static const uint8_t sizes[] = {0, 1, 2, 3, 4, 6, 8, 0, 0, 0};
    uint64_t value = 0;
    if (type == 0 || type == 7 || type > 9 || cursor->end - cursor->at < sizes[type]) {
        cursor->is_bad = true;
        return 0;
    }
    for (int i = 0; i < sizes[type]; i++)
        value = value << 8 | *cursor->at++;
    return type == 9 ? 1 : value;
}

/* The row of table `ledger`: its id, which is the row's number, instance, created, commits. */
static bool parse_cell(const uint8_t *cell, size_t len, struct beneath *ret_beneath)
{
    enum { INSTANCE_TYPE = 12 + 2 * HX_ID_SIZE };
    struct cursor types = {.at = cell, .end = cell + len};
    (void)take_varint(&types); /* of the whole record */
    bool is_row_one = take_varint(&types) == 1;
    const uint8_t *record = types.at;
    uint64_t header_len = take_varint(&types);
    if (types.is_bad || !is_row_one || header_len > (uint64_t)(types.end - record))
        return false;
    struct cursor values = {.at = record + header_len, .end = types.end};
    types.end = values.at;
    bool is_id_null = take_varint(&types) == 0;
    bool is_instance = take_varint(&types) == INSTANCE_TYPE;
    if (types.is_bad || !is_id_null || !is_instance || values.end - values.at < HX_ID_SIZE)
        return false;
    memcpy(&ret_beneath->instance, values.at, HX_ID_SIZE);
    values.at += HX_ID_SIZE;
    (void)take_integer(&values, take_varint(&types));
    ret_beneath->commits = take_integer(&values, take_varint(&types));
    return !types.is_bad && !values.is_bad;
}

/* A host that crashed while the log was moved leaves pages of which sectors are old and others new.
 * Ours cannot be read then, until the log is moved again; but the file is still a ledger's. */
static int judge_unreadable(struct hx_ledger *ledger)
{
    uint8_t bytes[4];
    int rc = read_file(ledger, bytes, sizeof(bytes), APPLICATION_AT);
    if (rc < 0)
        return HX_TRACE(rc);
    uint32_t application =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return application == HX_SCHEMA_APPLICATION ? TORN : NO_LEDGER;
}

/* 0, NO_LEDGER (a new one is all in its log), TORN, or negative. */
static int look(struct hx_ledger *ledger, struct beneath *ret_beneath)
{
    uint8_t leaf[LEAF_HEADER_SIZE], cell[CELL_LOOK_SIZE];
    int rc = read_file(ledger, leaf, sizeof(leaf), ledger->meta_offset);
    if (rc < 0)
        return HX_TRACE(rc);
    int64_t start = leaf[8] << 8 | leaf[9];
    bool has_one_cell = leaf[3] == 0 && leaf[4] == 1;
    if (leaf[0] != TABLE_LEAF || !has_one_cell || start < LEAF_HEADER_SIZE ||
        start >= ledger->page_size)
        return NO_LEDGER;
    int64_t len = ledger->page_size - start;
    len = len < CELL_LOOK_SIZE ? len : CELL_LOOK_SIZE;
    rc = read_file(ledger, cell, (int)len, ledger->meta_offset + start);
    if (rc < 0)
        return HX_TRACE(rc);
    return parse_cell(cell, (size_t)len, ret_beneath) ? 0 : judge_unreadable(ledger);
}

/* `found` is what look() said. */
static bool is_older_than_noted(struct hx_ledger *ledger, int found, const struct beneath *beneath)
{
    struct hx_id instance;
    uint64_t commits;
    if (found == TORN || !hx_counter_read_moved(&ledger->counter, &instance, &commits))
        return false;
    return found != 0 || !hx_id_eq(&instance, &beneath->instance) || beneath->commits < commits;
}

static int raise_overwritten(const struct hx_ledger *ledger)
{
    return HX_RAISE(HX_E_STORE,
                    "The ledger %s was overwritten with a copy while in use: stop all that uses "
                    "it, put the copy there again, remove its -wal and -shm, then run hapax ops "
                    "recover.",
                    ledger->paths.ledger);
}

int hx_beneath_open(struct hx_ledger *ledger)
{
    struct beneath beneath = {0};
    int found = look(ledger, &beneath);
    if (found < 0)
        return HX_TRACE(found);
    if (ledger->is_restored_copy)
        return 0; /* what is noted is of another one, until recover */
    bool is_of_log = found != 0 || hx_id_eq(&beneath.instance, &ledger->meta.instance);
    bool is_older = is_older_than_noted(ledger, found, &beneath);
    if (!is_of_log || (is_older && beneath.commits != ledger->meta.commits))
        return raise_overwritten(ledger);
    ledger->is_restored_copy = is_older; /* a plain one, whose counter is lost */
    if (!is_older)
        hx_beneath_note(ledger);
    return 0;
}

int hx_beneath_check(struct hx_ledger *ledger, const struct stat *now)
{
    struct stat *known = &ledger->file;
    if (known->st_mtim.tv_nsec == now->st_mtim.tv_nsec &&
        known->st_mtim.tv_sec == now->st_mtim.tv_sec && known->st_size == now->st_size)
        return 0;
    struct beneath beneath = {0};
    int found = look(ledger, &beneath);
    if (found < 0)
        return HX_TRACE(found);
    /* A restored copy was noticed already. */
    if (!ledger->is_restored_copy && is_older_than_noted(ledger, found, &beneath))
        return raise_overwritten(ledger);
    known->st_mtim = now->st_mtim;
    known->st_size = now->st_size;
    return 0;
}

void hx_beneath_note(struct hx_ledger *ledger)
{
    struct beneath beneath;
    /* What cannot be read is noted next time. */
    if (look(ledger, &beneath) == 0)
        hx_counter_write_moved(&ledger->counter, &beneath.instance, beneath.commits);
}
