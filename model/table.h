/* SPDX-License-Identifier: MIT */
/*
 * Notes every decision that a verifier built with -DTABLE comes across: the operation and the event
 * before it, the answers, and the operation after it. Each once; written to TABLE_FILE at the end,
 * to be judged by compare.py. Nothing here is part of a state of the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_SIZE = 1 << 18, TABLE_LINE_MAX = 2000 };

static char *table_lines[TABLE_SIZE];
static char table_line[TABLE_LINE_MAX];
static int table_len;

static void table_write(void)
{
    FILE *file = fopen(TABLE_FILE, "w");
    for (int i = 0; file != NULL && i < TABLE_SIZE; i++) {
        if (table_lines[i] != NULL)
            fprintf(file, "%s\n", table_lines[i]);
    }
    if (file == NULL || fclose(file) != 0)
        abort();
}

static void table_add(const char *name, int value)
{
    table_len += snprintf(table_line + table_len, (size_t)(TABLE_LINE_MAX - table_len), "%s=%d ",
                          name, value);
    if (table_len >= TABLE_LINE_MAX)
        abort();
}

static void table_note(const char *what, int value)
{
    if (table_len > 0)
        table_add(what, value);
}

static void table_end(void)
{
    static int is_first = 1;
    if (table_len == 0)
        return;
    if (is_first)
        atexit(table_write);
    is_first = 0;
    unsigned hash = 5381;
    for (const char *at = table_line; *at != '\0'; at++)
        hash = hash * 33 + (unsigned char)*at;
    for (unsigned i = hash % TABLE_SIZE;; i = (i + 1) % TABLE_SIZE) {
        if (table_lines[i] == NULL)
            table_lines[i] = strdup(table_line);
        else if (strcmp(table_lines[i], table_line) != 0)
            continue;
        break;
    }
    table_len = 0;
}

/* The rest is text of the verifier: `now` is the state of the model. */
#define TABLE_ROW(prefix, r)                                                                       \
    table_add(prefix "state", r.state), table_add(prefix "attempt", r.attempt),                    \
        table_add(prefix "open", r.earlier_open), table_add(prefix "asked", r.earlier_asked),      \
        table_add(prefix "sends", r.sends)
#define TABLE_OP(prefix, o)                                                                        \
    table_add(prefix "phase", o.phase), table_add(prefix "write", o.write),                        \
        table_add(prefix "if_unmarked", o.if_unmarked)
