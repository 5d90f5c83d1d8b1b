/* SPDX-License-Identifier: MIT */
#include "app/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"

#define GAP 2 /* columns between columns */
#define COLUMN_COUNT_MAX 16
#define SHRINK_TO 6 /* a cut column keeps at least so much */

struct cell {
    char *text; /* owned */
    enum hx_cell_style style;
};

struct hx_table {
    size_t column_count;
    size_t cell_count;
    size_t cell_capacity;
    struct cell *cells; /* owned; the first row is the titles */
    bool is_right[COLUMN_COUNT_MAX];
};

/* --- text in columns -----------------------------------------------------------------------------
 */

struct range {
    uint32_t first;
    uint32_t last;
};

/* Coarse on purpose: combining marks and joiners, and the East Asian and emoji blocks. A sign
 * counted wrongly shifts one line by a column. */
static const struct range zero_wide[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},
    {0x064b, 0x065f}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f},
    {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
};
static const struct range double_wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static bool in_ranges(uint32_t sign, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sign >= ranges[i].first && sign <= ranges[i].last)
            return true;
    return false;
}

/* Bytes of the sign at the front; one broken byte counts as a sign of its own. */
static size_t next_sign(struct hx_span text, uint32_t *ret_sign)
{
    unsigned char lead = (unsigned char)text.ptr[0];
    size_t len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
    uint32_t sign = lead < 0x80 ? lead : lead & (0xffu >> (len + 1));
    bool is_broken = len == 0 || len > text.len || lead > 0xf4;
    for (size_t i = 1; !is_broken && i < len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        is_broken = (byte & 0xc0) != 0x80;
        sign = sign << 6 | (byte & 0x3f);
    }
    *ret_sign = is_broken ? '?' : sign;
    return is_broken ? 1 : len;
}

static size_t sign_columns(uint32_t sign)
{
    if (in_ranges(sign, zero_wide, sizeof(zero_wide) / sizeof(zero_wide[0])))
        return 0;
    return in_ranges(sign, double_wide, sizeof(double_wide) / sizeof(double_wide[0])) ? 2 : 1;
}

size_t hx_text_fit(struct hx_span text, size_t columns)
{
    size_t at = 0;
    size_t used = 0;
    while (at < text.len) {
        uint32_t sign;
        size_t len = next_sign(hx_span(text.ptr + at, text.len - at), &sign);
        if (used + sign_columns(sign) > columns)
            break;
        used += sign_columns(sign);
        at += len;
    }
    return at;
}

size_t hx_text_columns(struct hx_span text)
{
    size_t columns = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t sign;
        at += next_sign(hx_span(text.ptr + at, text.len - at), &sign);
        columns += sign_columns(sign);
    }
    return columns;
}

/* A copy in which nothing moves the cursor and all of it is UTF-8. */
static char *printable(struct hx_span text)
{
    char *copy = hx_new_bytes(text.len + 1);
    size_t len = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t sign;
        size_t used = next_sign(hx_span(text.ptr + at, text.len - at), &sign);
        bool is_control = sign < 0x20 || (sign >= 0x7f && sign < 0xa0) ||
                          (sign >= 0x202a && sign <= 0x202e) || (sign >= 0x2066 && sign <= 0x2069);
        if (is_control || (used == 1 && sign == '?')) {
            copy[len++] = '?';
        } else {
            memcpy(copy + len, text.ptr + at, used);
            len += used;
        }
        at += used;
    }
    copy[len] = '\0';
    return copy;
}

/* --- the table -----------------------------------------------------------------------------------
 */

struct hx_table *hx_table_new(const char *const *titles, size_t column_count)
{
    hx_assert(column_count > 0);
    hx_assert(column_count <= COLUMN_COUNT_MAX);
    struct hx_table *table = hx_new(struct hx_table);
    table->column_count = column_count;
    for (size_t i = 0; i < column_count; i++) {
        table->is_right[i] = titles[i][0] == '>';
        hx_table_add(table, hx_span_cstr(titles[i] + table->is_right[i]), HX_CELL_HEAD);
    }
    return table;
}

struct hx_table *hx_table_free(struct hx_table *table)
{
    if (!table)
        return NULL;
    for (size_t i = 0; i < table->cell_count; i++)
        hx_free(table->cells[i].text);
    hx_free(table->cells);
    return hx_free(table);
}

void hx_table_add(struct hx_table *table, struct hx_span text, enum hx_cell_style style)
{
    if (table->cell_count == table->cell_capacity) {
        size_t capacity = table->cell_capacity ? table->cell_capacity * 2 : 64;
        struct cell *cells = hx_new_bytes(capacity * sizeof(*cells));
        if (table->cell_count > 0)
            memcpy(cells, table->cells, table->cell_count * sizeof(*cells));
        hx_free(table->cells);
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    table->cells[table->cell_count++] = (struct cell){printable(text), style};
}

void hx_table_addf(struct hx_table *table, enum hx_cell_style style, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    hx_table_add(table, hx_span_cstr(text), style);
}

size_t hx_table_row_count(const struct hx_table *table)
{
    return table->cell_count / table->column_count - 1;
}

struct hx_table_options hx_table_options_for(FILE *out)
{
    struct hx_table_options options = {0};
    struct winsize size;
    const char *no_color = getenv("NO_COLOR");
    if (!isatty(fileno(out)))
        return options;
    options.has_color = !(no_color && no_color[0]);
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        options.columns = size.ws_col;
    return options;
}

/* Takes columns from the widest column until the row fits. */
static void shrink(size_t *widths, size_t count, size_t limit)
{
    size_t total = GAP * (count - 1);
    for (size_t i = 0; i < count; i++)
        total += widths[i];
    while (total > limit) {
        size_t widest = 0;
        for (size_t i = 1; i < count; i++)
            if (widths[i] > widths[widest])
                widest = i;
        if (widths[widest] <= SHRINK_TO)
            return;
        widths[widest]--;
        total--;
    }
}

static const char *style_code(enum hx_cell_style style)
{
    switch (style) {
    case HX_CELL_PLAIN:
        return NULL;
    case HX_CELL_GOOD:
        return "\033[32m";
    case HX_CELL_BAD:
        return "\033[1;31m";
    case HX_CELL_FAINT:
        return "\033[2m";
    case HX_CELL_HEAD:
        return "\033[1m";
    }
    return NULL;
}

static void print_cell(const struct hx_table *table, size_t index, size_t width, FILE *out,
                       bool has_color)
{
    const struct cell *cell = &table->cells[index];
    size_t column = index % table->column_count;
    struct hx_span text = hx_span_cstr(cell->text);
    bool is_cut = hx_text_columns(text) > width;
    if (is_cut)
        text.len = hx_text_fit(text, width - 1);
    size_t used = hx_text_columns(text) + is_cut;
    int pad = (int)(width - used);
    const char *code = has_color ? style_code(cell->style) : NULL;
    bool is_last = column + 1 == table->column_count;
    fprintf(out, "%*s%s%.*s%s%s", table->is_right[column] ? pad : 0, "", code ? code : "",
            HX_SPAN_FMT(text), is_cut ? "\xe2\x80\xa6" : "", code ? "\033[0m" : "");
    if (is_last)
        fputc('\n', out);
    else
        fprintf(out, "%*s", GAP + (table->is_right[column] ? 0 : pad), "");
}

void hx_table_print(const struct hx_table *table, FILE *out, struct hx_table_options options)
{
    size_t widths[COLUMN_COUNT_MAX] = {0};
    hx_assert(table->cell_count % table->column_count == 0);
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t columns = hx_text_columns(hx_span_cstr(table->cells[i].text));
        size_t *width = &widths[i % table->column_count];
        *width = columns > *width ? columns : *width;
    }
    if (options.columns > 0)
        shrink(widths, table->column_count, options.columns);
    for (size_t i = 0; i < table->cell_count; i++)
        print_cell(table, i, widths[i % table->column_count], out, options.has_color);
}
