/* SPDX-License-Identifier: MIT */
#include "story.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { FILE_MAX = 1 << 20 };

/* A word and its text, or a block and its lines. */
struct meaning {
    struct hx_list node;
    struct hx_span word;
    struct hx_buf text;
};

static void add(struct hx_buf *out, struct hx_span text)
{
    hx_assert(hx_buf_append_span(out, text) == 0);
}

static struct meaning *find(struct hx_list *meanings, struct hx_span word)
{
    hx_list_for_each (node, meanings) {
        struct meaning *meaning = hx_container_of(node, struct meaning, node);
        if (hx_span_eq(meaning->word, word))
            return meaning;
    }
    return NULL;
}

static struct meaning *define(struct hx_list *meanings, struct hx_span word)
{
    struct meaning *meaning = hx_new(struct meaning);
    meaning->word = word;
    hx_buf_init(&meaning->text, FILE_MAX);
    hx_list_append(meanings, &meaning->node);
    return meaning;
}

static size_t word_len(const char *at)
{
    size_t len = 1;
    while (at[len] >= 'a' && at[len] <= 'z')
        len++;
    return len;
}

/* Words become what they stand for; `%` becomes `parameter`. */
static void expand(struct hx_list *meanings, struct hx_span text, struct hx_span parameter,
                   struct hx_buf *out)
{
    size_t at = 0;
    while (at < text.len) {
        struct hx_span word = hx_span(text.ptr + at, 1);
        struct meaning *meaning = NULL;
        if (text.ptr[at] == '$') {
            word.len = word_len(word.ptr);
            meaning = find(meanings, word);
        }
        if (meaning != NULL)
            expand(meanings, hx_buf_span(&meaning->text), parameter, out);
        else if (text.ptr[at] == '%' && !hx_span_is_absent(parameter))
            add(out, parameter);
        else
            add(out, word);
        at += word.len;
    }
}

static void take_line(struct hx_list *meanings, struct hx_span line, struct hx_buf *out)
{
    const char *space = memchr(line.ptr, ' ', line.len);
    size_t len = space != NULL ? (size_t)(space - line.ptr) : line.len;
    struct meaning *block = find(meanings, hx_span(line.ptr, len));

    if (block != NULL && space != NULL) {
        expand(meanings, hx_buf_span(&block->text), hx_span(space + 1, line.len - len - 1), out);
        return;
    }
    expand(meanings, line, HX_SPAN_NONE, out);
    add(out, HX_SPAN_LIT("\n"));
}

static void close_story(struct story *story, struct hx_buf *script)
{
    if (story != NULL)
        story->script = hx_span_strdup(hx_buf_span(script));
    hx_buf_reset(script);
}

static void read_text(struct story_book *book, struct hx_list *meanings)
{
    struct story **end = &book->first;
    struct meaning *block = NULL;
    struct story *story = NULL;
    struct hx_buf script;

    hx_buf_init(&script, FILE_MAX);
    for (const char *at = book->text; *at != '\0';) {
        struct hx_span line = hx_span(at, strcspn(at, "\n"));
        at += line.len + (at[line.len] == '\n');
        char first = line.len > 1 ? line.ptr[0] : '#';
        if (first == '=') {
            close_story(story, &script);
            story = *end = hx_new(struct story);
            end = &story->next;
            story->name = hx_span_strdup(hx_span(line.ptr + 2, line.len - 2));
            block = NULL;
        } else if (first == '+') {
            block = define(meanings, hx_span(line.ptr + 2, line.len - 2));
        } else if (first == '$') {
            size_t len = word_len(line.ptr);
            add(&define(meanings, hx_span(line.ptr, len))->text,
                hx_span(line.ptr + len + 1, line.len - len - 1));
        } else if (first != '#' && block != NULL) {
            add(&block->text, line);
            add(&block->text, HX_SPAN_LIT("\n"));
        } else if (first != '#') {
            take_line(meanings, line, &script);
        }
    }
    close_story(story, &script);
    hx_buf_fini(&script);
}

bool story_book_read(struct story_book *book, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    *book = (struct story_book){.text = hx_new_bytes(FILE_MAX)};
    hx_list_init(&book->meanings);
    ssize_t size = file >= 0 ? read(file, book->text, FILE_MAX - 1) : -1;
    if (file >= 0)
        close(file);
    if (size < 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        story_book_free(book);
        return false;
    }
    read_text(book, &book->meanings);
    return true;
}

char *story_expand(struct story_book *book, const char *line)
{
    struct hx_buf out;

    hx_buf_init(&out, FILE_MAX);
    take_line(&book->meanings, hx_span_cstr(line), &out);
    char *text = hx_span_strdup(hx_buf_span(&out));
    hx_buf_fini(&out);
    return text;
}

void story_book_free(struct story_book *book)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&book->meanings)) != NULL) {
        struct meaning *meaning = hx_container_of(node, struct meaning, node);
        hx_buf_fini(&meaning->text);
        hx_free(meaning);
    }
    while (book->first != NULL) {
        struct story *story = book->first;
        book->first = story->next;
        hx_free(story->name);
        hx_free(story->script);
        hx_free(story);
    }
    book->text = hx_free(book->text);
}
