/* SPDX-License-Identifier: MIT */
/*
 * Notes every decision that a verifier built with -DTABLE comes across: the operation and the event
 * before it, the answers, and the operation after it. Each once; written to $TABLE_FILE at the end,
 * to be judged by compare.py. Nothing here is part of a state of the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_SIZE = 1 << 18, TABLE_FACTS_MAX = 100 };

/* A decision is a list of facts, each a name and a value. The names are literals: of two decisions
 * that come from the same places of the model they are the same pointers. */
struct table_fact {
    const char *name;
    long value;
};

static struct table_fact *table_decisions[TABLE_SIZE];
static int table_lens[TABLE_SIZE];
static struct table_fact table_facts[TABLE_FACTS_MAX];
static int table_len, table_count;

static void table_write(void)
{
    FILE *file = fopen(getenv("TABLE_FILE"), "w");
    for (int i = 0; file != NULL && i < TABLE_SIZE; i++) {
        for (int k = 0; k < table_lens[i]; k++)
            fprintf(file, "%s=%ld ", table_decisions[i][k].name, table_decisions[i][k].value);
        if (table_lens[i] > 0)
            fprintf(file, "\n");
    }
    if (file == NULL || fclose(file) != 0)
        abort();
}

static void table_add(const char *name, int value)
{
    if (table_len == TABLE_FACTS_MAX)
        abort();
    table_facts[table_len++] = (struct table_fact){name, value};
}

static void table_note(const char *what, int value)
{
    if (table_len > 0)
        table_add(what, value);
}

static void table_end(void)
{
    size_t size = (size_t)table_len * sizeof *table_facts;
    unsigned long hash = 5381;
    for (int k = 0; k < table_len; k++)
        hash = (hash * 33 + (unsigned long)table_facts[k].name) * 33 +
               (unsigned long)table_facts[k].value;
    unsigned i = (unsigned)((hash ^ hash >> 32) % TABLE_SIZE);
    while (table_lens[i] > 0 &&
           (table_lens[i] != table_len || memcmp(table_decisions[i], table_facts, size) != 0))
        i = (i + 1) % TABLE_SIZE;
    if (table_lens[i] == 0) {
        table_decisions[i] = malloc(size);
        if (table_decisions[i] == NULL || table_count == TABLE_SIZE - 1)
            abort();
        memcpy(table_decisions[i], table_facts, size);
        table_lens[i] = table_len;
        if (table_count++ == 0)
            atexit(table_write);
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
