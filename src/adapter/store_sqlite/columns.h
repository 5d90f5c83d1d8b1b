/* SPDX-License-Identifier: MIT */
/*
 * How a record lies in a row: one table of columns, from which the statements are made and by which
 * rows are bound, read and packed for the spool. The columns that only the store knows (hot, epoch,
 * places of the bytes) are not in it.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_COLUMNS_H
#define HX_ADAPTER_STORE_SQLITE_COLUMNS_H

#include <sqlite3.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/record.h"

/* Of a refusal by an arena: the request fails, and the row is as it was. */
#define HX_NO_ROOM "There is not enough memory for what the ledger has to tell."

enum hx_column_part {
    HX_COLUMN_FIXED = 1,    /* never changes once the row exists */
    HX_COLUMN_CHANGING = 2, /* a write replaces it */
    HX_COLUMN_GROWING = 4,  /* a write raises it, and never lowers it */
    HX_COLUMN_HOLDER = 8,   /* follows `adoptions` */
    HX_COLUMN_ALL = 15
};

/* Boots are kept as small numbers; this is who knows them. */
struct hx_boots {
    void *context;
    /* 0 or negative; the zero boot is 0. */
    int (*number)(void *context, const struct hx_boot *boot, int64_t *ret_number);
    /* 0 or negative. */
    int (*boot)(void *context, int64_t number, struct hx_boot *ret_boot);
};

/* Appends "a, b, c" (all names of those parts). */
void hx_columns_names(struct hx_buf *sql, unsigned parts);
/* Appends "?, ?, ?" for them. */
void hx_columns_marks(struct hx_buf *sql, unsigned parts);
/* Appends "a = ?, b = max(b, ?), …". */
void hx_columns_assignments(struct hx_buf *sql, unsigned parts);

/* Binds the parts from parameter *index on and moves it past them. Borrows what `record` points at
 * until the statement is reset. */
int hx_columns_bind(sqlite3_stmt *stmt, int *index, const struct hx_record *record, unsigned parts,
                    const struct hx_boots *boots);
/* Reads all parts from column *index on; spans are copied into `arena`. HX_E_SYNTAX when a value
 * cannot be one of ours. */
int hx_columns_load(sqlite3_stmt *stmt, int *index, struct hx_arena *arena,
                    struct hx_record *ret_record, const struct hx_boots *boots);

/* One span as text or blob; an absent one is NULL. Borrowed until the statement is reset. */
int hx_column_bind_span(sqlite3_stmt *stmt, int at, struct hx_span span, bool is_text);
/* A copy of it in `arena`. */
int hx_column_load_span(sqlite3_stmt *stmt, int at, struct hx_arena *arena,
                        struct hx_span *ret_span) HX_MUST_CHECK;

/* Takes over the part that a write replaces. */
void hx_columns_take_changing(struct hx_record *to, const struct hx_record *from);

/* The same values as plain bytes, for the spool: everything but the fixed part. */
void hx_columns_pack(struct hx_buf *bytes, const struct hx_record *record);
/* False when `bytes` is too short or wrong; consumes what it reads. */
bool hx_columns_unpack(struct hx_span *bytes, struct hx_record *ret_record);

#endif
