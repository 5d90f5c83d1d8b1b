/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/columns.h"

#include "base/fault.h"

enum kind {
    KIND_ID,     /* 16 bytes; nil = NULL */
    KIND_DIGEST, /* 32 bytes; zero = NULL */
    KIND_SPLIT,  /* a digest in two columns: the half that is indexed, and the rest */
    KIND_TEXT,
    KIND_BYTES,
    KIND_CHARS, /* a NUL-terminated array in the record */
    KIND_BOOL,
    KIND_U16,
    KIND_U32,
    KIND_I64,
    KIND_ENUM,
    KIND_WALL,
    KIND_BOOT,
    KIND_MOMENT /* three columns: wall, mono, boot */
};

struct column {
    const char *name;
    enum kind kind;
    enum hx_column_part part;
    size_t offset;
    unsigned limit; /* ENUM: number of values; CHARS: size of the array */
};

#define COLUMN(name, kind, part, member, limit)                                                    \
    {                                                                                              \
        name, KIND_##kind, HX_COLUMN_##part, offsetof(struct hx_record, member), limit             \
    }

/* The order is that of the table in schema.c. */
static const struct column columns[] = {
    COLUMN("id", ID, FIXED, id, 0),
    COLUMN("identity", SPLIT, FIXED, identity, 0),
    COLUMN("generation", U32, FIXED, generation, 0),
    COLUMN("twin", SPLIT, FIXED, twin, 0),
    COLUMN("fingerprint", DIGEST, FIXED, fingerprint, 0),
    COLUMN("effect_key", ID, FIXED, effect_key, 0),
    COLUMN("tenant", TEXT, FIXED, tenant, 0),
    COLUMN("principal", TEXT, FIXED, principal, 0),
    COLUMN("server", TEXT, FIXED, server, 0),
    COLUMN("tool", TEXT, FIXED, tool, 0),
    COLUMN("key", BYTES, FIXED, key, 0),
    COLUMN("key_source", ENUM, FIXED, key_source, HX_KEY_INJECTED + 1),
    COLUMN("first_sent", WALL, FIXED, first_sent, 0),
    COLUMN("created", MOMENT, FIXED, created, 0),
    COLUMN("state", ENUM, CHANGING, state, HX_OP_STATE_COUNT),
    COLUMN("reason", ENUM, CHANGING, reason, HX_REASON_COUNT),
    COLUMN("fence", I64, CHANGING, fence, 0),
    COLUMN("owner", ID, CHANGING, owner, 0),
    COLUMN("owner_boot", BOOT, CHANGING, owner_boot, 0),
    COLUMN("attempt", U32, CHANGING, attempt.number, 0),
    COLUMN("attempt_state", ENUM, CHANGING, attempt.state, HX_ATTEMPT_DEAD + 1),
    COLUMN("attempt_marked", BOOL, CHANGING, attempt.is_marked, 0),
    COLUMN("claimed", MOMENT, CHANGING, attempt.claimed_at, 0),
    COLUMN("marked", MOMENT, CHANGING, attempt.marked_at, 0),
    COLUMN("transport", CHARS, CHANGING, attempt.transport, HX_TRANSPORT_NAME_MAX),
    COLUMN("earlier_open", U16, CHANGING, earlier.open, 0),
    COLUMN("earlier_asked", U16, CHANGING, earlier.asked, 0),
    COLUMN("earlier_confirmed", U16, CHANGING, earlier.confirmed, 0),
    COLUMN("earlier_refused", U16, CHANGING, earlier.refused, 0),
    COLUMN("sends", U32, CHANGING, sends, 0),
    COLUMN("first_mark", MOMENT, CHANGING, first_mark, 0),
    COLUMN("not_before", MOMENT, CHANGING, not_before, 0),
    COLUMN("settled", MOMENT, CHANGING, settled, 0),
    COLUMN("updated", MOMENT, CHANGING, updated, 0),
    COLUMN("outcome_kind", ENUM, CHANGING, outcome.kind, HX_OUTCOME_ERROR + 1),
    COLUMN("outcome_is_error", BOOL, CHANGING, outcome.is_error, 0),
    COLUMN("outcome_is_reconstructed", BOOL, CHANGING, outcome.is_reconstructed, 0),
    COLUMN("outcome_size", I64, CHANGING, outcome.size, 0),
    COLUMN("outcome_digest", DIGEST, CHANGING, outcome.digest, 0),
    COLUMN("successor", ID, CHANGING, successor, 0),
    COLUMN("predecessor", ID, CHANGING, predecessor, 0),
    COLUMN("is_tombstone", BOOL, CHANGING, is_tombstone, 0),
    COLUMN("is_approved", BOOL, CHANGING, is_approved, 0),
    COLUMN("is_disputed", BOOL, CHANGING, is_disputed, 0),
    COLUMN("is_superseded", BOOL, CHANGING, is_superseded, 0),
    COLUMN("is_cancel_requested", BOOL, GROWING, is_cancel_requested, 0),
    COLUMN("is_told_pending", BOOL, GROWING, is_told_pending, 0),
    COLUMN("is_acknowledged", BOOL, GROWING, is_acknowledged, 0),
    COLUMN("needs_human", BOOL, GROWING, needs_human, 0),
    COLUMN("repeats", U32, GROWING, repeats, 0),
    COLUMN("sent_count", U32, GROWING, sent_count, 0),
    COLUMN("lost_count", U32, GROWING, lost_count, 0),
    COLUMN("adoptions", U32, GROWING, adoptions, 0),
    COLUMN("holder", ID, HOLDER, holder, 0),
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

_Static_assert(sizeof(enum hx_op_state) == sizeof(uint32_t), "enum columns are read as 32 bits");

static const char *const split_suffixes[] = {"", "_rest"};
static const char *const moment_suffixes[] = {"", "_mono", "_boot"};
static const char *const no_suffixes[] = {""};

static const char *const *suffixes_of(const struct column *column, int *ret_count)
{
    if (column->kind == KIND_SPLIT) {
        *ret_count = 2;
        return split_suffixes;
    }
    *ret_count = column->kind == KIND_MOMENT ? 3 : 1;
    return column->kind == KIND_MOMENT ? moment_suffixes : no_suffixes;
}

enum list_form { LIST_NAMES, LIST_MARKS, LIST_ASSIGNMENTS };

static void append_one(struct hx_buf *sql, const struct column *column, const char *suffix,
                       enum list_form form)
{
    const char *name = column->name;
    if (form == LIST_NAMES)
        (void)hx_buf_printf(sql, "%s%s", name, suffix);
    else if (form == LIST_MARKS)
        (void)hx_buf_append_cstr(sql, "?");
    else if (column->part == HX_COLUMN_GROWING)
        (void)hx_buf_printf(sql, "%s = max(%s, ?)", name, name);
    else if (column->part == HX_COLUMN_HOLDER) /* the right-hand sides see the row as it was */
        (void)hx_buf_printf(sql, "%s = iif(adoptions > ?, %s, ?)", name, name);
    else
        (void)hx_buf_printf(sql, "%s%s = ?", name, suffix);
}

static void append_list(struct hx_buf *sql, unsigned parts, enum list_form form)
{
    bool is_first = true;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        if ((columns[i].part & parts) == 0)
            continue;
        int count;
        const char *const *suffixes = suffixes_of(&columns[i], &count);
        for (int k = 0; k < count; k++) {
            (void)hx_buf_append_cstr(sql, is_first ? "" : ", ");
            append_one(sql, &columns[i], suffixes[k], form);
            is_first = false;
        }
    }
}

void hx_columns_names(struct hx_buf *sql, unsigned parts)
{
    append_list(sql, parts, LIST_NAMES);
}

void hx_columns_marks(struct hx_buf *sql, unsigned parts)
{
    append_list(sql, parts, LIST_MARKS);
}

void hx_columns_assignments(struct hx_buf *sql, unsigned parts)
{
    append_list(sql, parts, LIST_ASSIGNMENTS);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++)
        any |= bytes[i];
    return any == 0;
}

static int bind_bytes_or_null(sqlite3_stmt *stmt, int at, const uint8_t *bytes, size_t len)
{
    if (is_zero(bytes, len))
        return sqlite3_bind_null(stmt, at);
    return sqlite3_bind_blob64(stmt, at, bytes, len, SQLITE_STATIC);
}

int hx_column_bind_span(sqlite3_stmt *stmt, int at, struct hx_span span, bool is_text)
{
    if (hx_span_is_absent(span))
        return sqlite3_bind_null(stmt, at);
    return is_text ? sqlite3_bind_text64(stmt, at, span.ptr, span.len, SQLITE_STATIC, SQLITE_UTF8)
                   : sqlite3_bind_blob64(stmt, at, span.ptr, span.len, SQLITE_STATIC);
}

/* The plain number in a field that is one. */
static int64_t number_get(const struct column *column, const char *at)
{
    uint16_t u16;
    uint32_t u32;
    int64_t i64;
    if (column->kind == KIND_BOOL)
        return *(const bool *)at ? 1 : 0;
    if (column->kind == KIND_U16) {
        memcpy(&u16, at, sizeof(u16));
        return u16;
    }
    if (column->kind == KIND_U32 || column->kind == KIND_ENUM) {
        memcpy(&u32, at, sizeof(u32));
        return u32;
    }
    memcpy(&i64, at, sizeof(i64));
    return i64;
}

/* False when the number does not fit: the bytes came from outside. */
static bool number_set(const struct column *column, char *at, int64_t value)
{
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    if (column->kind == KIND_BOOL) {
        *(bool *)at = value != 0;
        return value == 0 || value == 1;
    }
    if (column->kind == KIND_U16) {
        memcpy(at, &u16, sizeof(u16));
        return value == u16;
    }
    if (column->kind == KIND_U32 || column->kind == KIND_ENUM) {
        bool fits = value == u32 && (column->kind == KIND_U32 || u32 < column->limit);
        u32 = fits ? u32 : 0;
        memcpy(at, &u32, sizeof(u32));
        return fits;
    }
    memcpy(at, &value, sizeof(value));
    return true;
}

static int bind_moment(sqlite3_stmt *stmt, int *index, const struct hx_now *moment,
                       const struct hx_boots *boots)
{
    int64_t boot_number;
    int rc = boots->number(boots->context, &moment->boot, &boot_number);
    if (rc < 0)
        return HX_TRACE(rc);
    sqlite3_bind_int64(stmt, (*index)++, moment->wall.ms);
    sqlite3_bind_int64(stmt, (*index)++, moment->mono.ms);
    return sqlite3_bind_int64(stmt, (*index)++, boot_number);
}

static int bind_column(sqlite3_stmt *stmt, int *index, const struct column *column, const char *at,
                       const struct hx_boots *boots)
{
    const uint8_t *bytes = (const uint8_t *)at;
    struct hx_span span;
    int64_t number;
    int rc;
    switch (column->kind) {
    case KIND_ID:
        return bind_bytes_or_null(stmt, (*index)++, bytes, HX_ID_SIZE);
    case KIND_DIGEST:
        return bind_bytes_or_null(stmt, (*index)++, bytes, HX_DIGEST_SIZE);
    case KIND_SPLIT:
        rc = sqlite3_bind_blob(stmt, (*index)++, bytes, 16, SQLITE_STATIC);
        return rc ? rc : sqlite3_bind_blob(stmt, (*index)++, bytes + 16, 16, SQLITE_STATIC);
    case KIND_TEXT:
    case KIND_BYTES:
        memcpy(&span, at, sizeof(span));
        return hx_column_bind_span(stmt, (*index)++, span, column->kind == KIND_TEXT);
    case KIND_CHARS:
        span = hx_span(at, strnlen(at, column->limit));
        return hx_column_bind_span(stmt, (*index)++, span.len > 0 ? span : HX_SPAN_NONE, true);
    case KIND_BOOT:
        rc = boots->number(boots->context, (const struct hx_boot *)at, &number);
        return rc < 0 ? HX_TRACE(rc) : sqlite3_bind_int64(stmt, (*index)++, number);
    case KIND_MOMENT:
        return bind_moment(stmt, index, (const struct hx_now *)at, boots);
    case KIND_BOOL:
    case KIND_U16:
    case KIND_U32:
    case KIND_I64:
    case KIND_ENUM:
    case KIND_WALL:
        return sqlite3_bind_int64(stmt, (*index)++, number_get(column, at));
    }
    return SQLITE_INTERNAL;
}

int hx_columns_bind(sqlite3_stmt *stmt, int *index, const struct hx_record *record, unsigned parts,
                    const struct hx_boots *boots)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        if ((column->part & parts) == 0)
            continue;
        /* The assignment of `holder` compares the adoptions first. */
        if (column->part == HX_COLUMN_HOLDER && parts != HX_COLUMN_ALL)
            sqlite3_bind_int64(stmt, (*index)++, record->adoptions);
        int rc = bind_column(stmt, index, column, (const char *)record + column->offset, boots);
        if (rc != 0)
            return rc < 0 ? HX_TRACE(rc)
                          : HX_RAISE(HX_E_STORE, "Column %s: not bound.", column->name);
    }
    return 0;
}

static bool load_fixed_bytes(sqlite3_stmt *stmt, int at, char *to, int len)
{
    int have = sqlite3_column_bytes(stmt, at);
    if (sqlite3_column_type(stmt, at) == SQLITE_NULL) {
        memset(to, 0, (size_t)len);
        return true;
    }
    if (have != len)
        return false;
    memcpy(to, sqlite3_column_blob(stmt, at), (size_t)len);
    return true;
}

int hx_column_load_span(sqlite3_stmt *stmt, int at, struct hx_arena *arena,
                        struct hx_span *ret_span)
{
    *ret_span = HX_SPAN_NONE;
    if (sqlite3_column_type(stmt, at) == SQLITE_NULL)
        return 0;
    const char *bytes = sqlite3_column_blob(stmt, at);
    struct hx_span span = hx_span(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, at));
    *ret_span = hx_arena_dup(arena, span);
    return hx_span_is_absent(*ret_span) ? HX_RAISE(HX_E_NOMEM, HX_NO_ROOM) : 0;
}

static int load_moment(sqlite3_stmt *stmt, int *index, struct hx_now *ret_moment,
                       const struct hx_boots *boots)
{
    ret_moment->wall.ms = sqlite3_column_int64(stmt, (*index)++);
    ret_moment->mono.ms = sqlite3_column_int64(stmt, (*index)++);
    return boots->boot(boots->context, sqlite3_column_int64(stmt, (*index)++), &ret_moment->boot);
}

/* 0, negative, or 1 when the value cannot be one of ours. */
static int load_column(sqlite3_stmt *stmt, int *index, const struct column *column, char *to,
                       struct hx_arena *arena, const struct hx_boots *boots)
{
    int at = *index;
    switch (column->kind) {
    case KIND_ID:
        return load_fixed_bytes(stmt, (*index)++, to, HX_ID_SIZE) ? 0 : 1;
    case KIND_DIGEST:
        return load_fixed_bytes(stmt, (*index)++, to, HX_DIGEST_SIZE) ? 0 : 1;
    case KIND_SPLIT:
        *index += 2;
        return load_fixed_bytes(stmt, at, to, 16) && load_fixed_bytes(stmt, at + 1, to + 16, 16)
                   ? 0
                   : 1;
    case KIND_TEXT:
    case KIND_BYTES: {
        struct hx_span span;
        int rc = hx_column_load_span(stmt, (*index)++, arena, &span);
        memcpy(to, &span, sizeof(span));
        return HX_TRACE(rc);
    }
    case KIND_CHARS: {
        (*index)++;
        int len = sqlite3_column_bytes(stmt, at);
        if (len < 0 || (unsigned)len >= column->limit)
            return 1;
        if (len > 0)
            memcpy(to, sqlite3_column_blob(stmt, at), (size_t)len);
        to[len] = '\0';
        return 0;
    }
    case KIND_BOOT:
        return boots->boot(boots->context, sqlite3_column_int64(stmt, (*index)++),
                           (struct hx_boot *)to);
    case KIND_MOMENT:
        return load_moment(stmt, index, (struct hx_now *)to, boots);
    case KIND_BOOL:
    case KIND_U16:
    case KIND_U32:
    case KIND_I64:
    case KIND_ENUM:
    case KIND_WALL:
        return number_set(column, to, sqlite3_column_int64(stmt, (*index)++)) ? 0 : 1;
    }
    return 1;
}

int hx_columns_load(sqlite3_stmt *stmt, int *index, struct hx_arena *arena,
                    struct hx_record *ret_record, const struct hx_boots *boots)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        char *to = (char *)ret_record + columns[i].offset;
        int rc = load_column(stmt, index, &columns[i], to, arena, boots);
        if (rc < 0)
            return HX_TRACE(rc);
        if (rc > 0)
            return HX_RAISE(HX_E_SYNTAX, "column %s holds what no Hapax wrote", columns[i].name);
    }
    return 0;
}

/* Size of a field as plain bytes in the spool; CHARS are written whole. */
static size_t packed_size(const struct column *column)
{
    switch (column->kind) {
    case KIND_ID:
        return HX_ID_SIZE;
    case KIND_DIGEST:
    case KIND_SPLIT:
        return HX_DIGEST_SIZE;
    case KIND_CHARS:
        return column->limit;
    case KIND_BOOT:
        return sizeof(struct hx_boot);
    case KIND_MOMENT:
        return sizeof(struct hx_now);
    case KIND_TEXT:
    case KIND_BYTES:
        break;
    case KIND_BOOL:
    case KIND_U16:
    case KIND_U32:
    case KIND_I64:
    case KIND_ENUM:
    case KIND_WALL:
        return sizeof(int64_t);
    }
    hx_assert(!"this kind is never spooled");
    return 0;
}

static bool is_number(const struct column *column)
{
    return column->kind == KIND_BOOL || column->kind == KIND_U16 || column->kind == KIND_U32 ||
           column->kind == KIND_I64 || column->kind == KIND_ENUM || column->kind == KIND_WALL;
}

void hx_columns_take_changing(struct hx_record *to, const struct hx_record *from)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        const char *source = (const char *)from + column->offset;
        char *target = (char *)to + column->offset;
        if (column->part != HX_COLUMN_CHANGING)
            continue;
        if (!is_number(column))
            memcpy(target, source, packed_size(column));
        else if (!number_set(column, target, number_get(column, source)))
            hx_assert(!"a value of ours");
    }
}

_Static_assert(sizeof(struct hx_now) == 32, "a moment is packed as it lies in memory");

void hx_columns_pack(struct hx_buf *bytes, const struct hx_record *record)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        if (column->part == HX_COLUMN_FIXED)
            continue;
        const char *at = (const char *)record + column->offset;
        int64_t number = is_number(column) ? number_get(column, at) : 0;
        if (is_number(column))
            (void)hx_buf_append(bytes, &number, sizeof(number));
        else
            (void)hx_buf_append(bytes, at, packed_size(column));
    }
}

bool hx_columns_unpack(struct hx_span *bytes, struct hx_record *ret_record)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        if (column->part == HX_COLUMN_FIXED)
            continue;
        size_t size = packed_size(column);
        if (bytes->len < size)
            return false;
        char *to = (char *)ret_record + column->offset;
        int64_t number;
        if (is_number(column)) {
            memcpy(&number, bytes->ptr, sizeof(number));
            if (!number_set(column, to, number))
                return false;
        } else {
            memcpy(to, bytes->ptr, size);
        }
        if (column->kind == KIND_CHARS && memchr(to, '\0', size) == NULL)
            return false;
        bytes->ptr += size;
        bytes->len -= size;
    }
    return true;
}
