/* SPDX-License-Identifier: MIT */
/*
 * Files of conversations, as tests/unit/merge.stories explains them.
 */
#ifndef HX_TESTS_STORY_H
#define HX_TESTS_STORY_H

#include <stdbool.h>

struct story {
    struct story *next;
    char *name;
    char *script; /* words and blocks are replaced */
};

struct story_book {
    struct story *first;
    char *text;
};

/* False, with a word on standard error: it cannot be read. */
bool story_book_read(struct story_book *book, const char *path);
void story_book_free(struct story_book *book);

#endif
