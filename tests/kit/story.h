/* SPDX-License-Identifier: MIT */
/*
 * Files of conversations, as tests/unit/merge.stories explains them.
 */
#ifndef HX_TESTS_STORY_H
#define HX_TESTS_STORY_H

#include <stdbool.h>

#include "base/list.h"

struct story {
    struct story *next;
    char *name;
    char *script; /* words and blocks are replaced */
};

struct story_book {
    struct story *first;
    char *text;
    struct hx_list meanings; /* of words and blocks */
};

/* False, with a word on standard error: it cannot be read. */
bool story_book_read(struct story_book *book, const char *path);
/* One line, with the words and blocks of the book replaced. The caller's, to hx_free. */
char *story_expand(struct story_book *book, const char *line);
void story_book_free(struct story_book *book);

#endif
