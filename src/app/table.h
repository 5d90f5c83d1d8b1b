/* SPDX-License-Identifier: MIT */
/*
 * Tables on a terminal. Widths are counted in columns, not bytes; what does not fit the terminal is
 * cut with an ellipsis; nothing is cut and no colour is used when the output is not a terminal, so
 * that a pipe gets everything. Control bytes are shown as '?': a tool's name must not be able to
 * move the cursor.
 */
#ifndef HX_APP_TABLE_H
#define HX_APP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/span.h"

enum hx_cell_style { HX_CELL_PLAIN, HX_CELL_GOOD, HX_CELL_BAD, HX_CELL_FAINT, HX_CELL_HEAD };

struct hx_table;

/* `titles` has `column_count` texts; a title that begins with '>' is of a column set to the right.
 */
struct hx_table *hx_table_new(const char *const *titles, size_t column_count);
struct hx_table *hx_table_free(struct hx_table *table);
/* Appends the next cell, row by row. Copies `text`. */
void hx_table_add(struct hx_table *table, struct hx_span text, enum hx_cell_style style);
void hx_table_addf(struct hx_table *table, enum hx_cell_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t hx_table_row_count(const struct hx_table *table);

struct hx_table_options {
    size_t columns; /* width of the output; 0 = no limit */
    bool has_color;
};
/* What suits `out`: its width when it is a terminal, colours unless NO_COLOR is set. */
struct hx_table_options hx_table_options_for(FILE *out);
void hx_table_print(const struct hx_table *table, FILE *out, struct hx_table_options options);

/* Columns that `text` takes on a terminal. */
size_t hx_text_columns(struct hx_span text);
/* The longest beginning of `text` that takes at most `columns`, in bytes. */
size_t hx_text_fit(struct hx_span text, size_t columns);

#endif
