/* SPDX-License-Identifier: MIT */
#include "app/nearest.h"

#include <stdint.h>
#include <string.h>

#define NAME_LEN_MAX 40

static char folded(char byte)
{
    if (byte == '-')
        return '_';
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

bool hx_name_eq(struct hx_span given, const char *name)
{
    if (strlen(name) != given.len)
        return false;
    for (size_t i = 0; i < given.len; i++)
        if (given.ptr[i] != name[i] && !(given.ptr[i] == '-' && name[i] == '_'))
            return false;
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) that lead from one name to the other. */
static size_t distance(struct hx_span a, struct hx_span b)
{
    size_t rows[3][NAME_LEN_MAX + 1];
    size_t *before = rows[0];
    size_t *above = rows[1];
    size_t *row = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = folded(a.ptr[i - 1]);
            char y = folded(b.ptr[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b.ptr[j - 2]) && folded(a.ptr[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b.len];
}

const char *hx_nearest(struct hx_span given, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    if (given.len == 0 || given.len > NAME_LEN_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct hx_span candidate = hx_span_cstr(candidates[i]);
        if (candidate.len > NAME_LEN_MAX)
            continue;
        size_t edits = distance(given, candidate);
        /* A name cut short ("log" for "log_level") is a slip too, though many edits away. */
        if (given.len >= 3 && hx_span_starts_with(candidate, given))
            edits = least(edits, 2);
        if (edits <= 1 + given.len / 4 && edits < best_distance) {
            best = candidates[i];
            best_distance = edits;
        }
    }
    return best;
}
