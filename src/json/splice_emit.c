/* SPDX-License-Identifier: MIT */
/* Turns the edits of a splice into cuts of the old text, and writes both out. */
#include "base/fault.h"
#include "json/scan.h"
#include "json/splice_edit.h"
#include "json/text.h"

/* A run of the old text that goes, and what comes in its place. */
struct cut {
    struct hx_splice_node node; /* key: offset */
    size_t end;
    const struct hx_splice_edit *replacement;
    struct hx_splice_edit *additions; /* `addition_count` of them, linked */
    size_t addition_count;
    bool needs_comma;
};

static struct hx_splice_node *merge(struct hx_splice_node *a, struct hx_splice_node *b)
{
    struct hx_splice_node *head = NULL;
    struct hx_splice_node **tail = &head;
    while (a != NULL && b != NULL) {
        struct hx_splice_node **from = a->key <= b->key ? &a : &b;
        *tail = *from;
        *from = (*from)->next;
        tail = &(*tail)->next;
    }
    *tail = a != NULL ? a : b;
    return head;
}

/* Stable merge sort, bottom up: bin i holds a sorted run of 2^i nodes. */
static struct hx_splice_node *sort(struct hx_splice_node *list)
{
    struct hx_splice_node *bins[64] = {0};
    size_t used = 0;
    while (list != NULL) {
        struct hx_splice_node *run = list;
        list = list->next;
        run->next = NULL;
        size_t i = 0;
        for (; i < used && bins[i] != NULL; i++) {
            run = merge(bins[i], run);
            bins[i] = NULL;
        }
        bins[i] = run;
        if (i == used)
            used++;
    }
    struct hx_splice_node *sorted = NULL;
    for (size_t i = 0; i < used; i++)
        sorted = merge(bins[i], sorted);
    return sorted;
}

/* By container: its removals by child, its additions, its own replacements; each oldest first. */
static struct hx_splice_edit *edits_arrange(struct hx_splice *splice)
{
    struct hx_splice_node *oldest_first = NULL;
    struct hx_splice_node *node = splice->edits ? &splice->edits->node : NULL;
    while (node != NULL) {
        struct hx_splice_node *next = node->next;
        struct hx_splice_edit *edit = (struct hx_splice_edit *)node;
        uint32_t container = edit->kind == HX_SPLICE_REPLACE ? edit->child : edit->container;
        uint32_t child = edit->kind == HX_SPLICE_REMOVE ? edit->child
                         : edit->kind == HX_SPLICE_ADD  ? UINT32_MAX - 1
                                                        : UINT32_MAX;
        edit->node.key = (uint64_t)container << 32 | child;
        if (!edit->is_void) {
            node->next = oldest_first;
            oldest_first = node;
        }
        node = next;
    }
    splice->edits = NULL;
    return (struct hx_splice_edit *)sort(oldest_first);
}

static struct cut *cut_new(struct hx_splice *splice, struct hx_splice_node **cuts, size_t offset,
                           size_t end)
{
    struct cut *cut = hx_arena_alloc(splice->arena, sizeof(*cut));
    if (cut == NULL)
        return NULL;
    *cut = (struct cut){.node = {.next = *cuts, .key = offset}, .end = end};
    *cuts = &cut->node;
    return cut;
}

static size_t token_end(const struct hx_json_tape *tape, uint32_t index)
{
    const struct hx_json_token *token = hx_json_at(tape, index);
    return (size_t)token->offset + token->len;
}

/*
 * Cuts for the removals at the head of `*edits`, all of one object. A member goes together with the
 * comma before it; members before the first that stays go with the comma after them.
 */
static int cuts_for_removals(struct hx_splice *splice, struct hx_splice_edit **edits,
                             struct hx_splice_node **cuts, uint32_t *ret_removed)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t object = (*edits)->container;
    struct hx_splice_edit *edit = *edits;
    size_t last_end = 0;
    uint32_t removed = 0;
    bool has_survivor = false;

    hx_json_for_each(name, tape, object)
    {
        bool goes = false;
        while (edit != NULL && edit->kind == HX_SPLICE_REMOVE && edit->container == object &&
               edit->child == name + 1) {
            goes = true;
            edit = hx_splice_edit_next(edit);
        }
        has_survivor |= !goes;
        size_t end = token_end(tape, name + 1);
        if (goes) {
            uint32_t after = hx_json_next(tape, object, name);
            size_t from = has_survivor ? last_end : hx_json_at(tape, name)->offset;
            if (!has_survivor && after != HX_JSON_NONE)
                end = hx_json_at(tape, after)->offset;
            if (cut_new(splice, cuts, from, end) == NULL)
                return HX_RAISE(HX_E_NOMEM, "JSON edit");
            removed++;
        }
        last_end = token_end(tape, name + 1);
    }
    *edits = edit;
    *ret_removed = removed;
    return 0;
}

/* One container's removals, then its additions, which go behind its last value. */
static int cuts_for_container(struct hx_splice *splice, struct hx_splice_edit **edits,
                              struct hx_splice_node **cuts)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t container = (*edits)->container;
    uint32_t removed = 0;

    if ((*edits)->kind == HX_SPLICE_REMOVE) {
        int rc = cuts_for_removals(splice, edits, cuts, &removed);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    struct hx_splice_edit *additions = *edits;
    size_t count = 0;
    while (*edits != NULL && (*edits)->kind == HX_SPLICE_ADD && (*edits)->container == container) {
        count++;
        *edits = hx_splice_edit_next(*edits);
    }
    if (count == 0)
        return 0;
    size_t at = token_end(tape, container) - 1;
    while (hx_json_is_space((unsigned char)tape->text.ptr[at - 1]))
        at--;
    /* In an empty container this is the place behind the bracket; what space there is stays. */
    struct cut *cut = cut_new(splice, cuts, at, at);
    if (cut == NULL)
        return HX_RAISE(HX_E_NOMEM, "JSON edit");
    cut->additions = additions;
    cut->addition_count = count;
    cut->needs_comma = hx_json_at(tape, container)->count > removed;
    return 0;
}

static void put_value(struct hx_buf *out, const struct hx_splice_edit *edit);

static void put_member(struct hx_buf *out, const struct hx_splice_edit *edit)
{
    if (!hx_span_is_absent(edit->name)) {
        hx_json_text_quote(out, edit->name);
        (void)hx_buf_append_char(out, ':'); /* the buffer remembers a failure */
    }
    put_value(out, edit);
}

static void put_children(struct hx_buf *out, const struct hx_splice_edit *child)
{
    if (child == NULL)
        return;
    put_children(out, hx_splice_edit_next(child)); /* they are linked newest first */
    if (hx_splice_edit_next(child) != NULL)
        (void)hx_buf_append_char(out, ',');
    put_member(out, child);
}

/* Recursion as deep as the longest path that the caller gave. */
static void put_value(struct hx_buf *out, const struct hx_splice_edit *edit)
{
    if (!hx_span_is_absent(edit->json)) {
        (void)hx_buf_append_span(out, edit->json);
        return;
    }
    (void)hx_buf_append_char(out, '{');
    put_children(out, edit->children);
    (void)hx_buf_append_char(out, '}');
}

static void put_cut(struct hx_buf *out, const struct cut *cut)
{
    if (cut->replacement != NULL)
        put_value(out, cut->replacement);
    const struct hx_splice_edit *addition = cut->additions;
    for (size_t i = 0; i < cut->addition_count; i++) {
        if (i > 0 || cut->needs_comma)
            (void)hx_buf_append_char(out, ',');
        put_member(out, addition);
        addition = hx_splice_edit_next(addition);
    }
}

static int cuts_make(struct hx_splice *splice, struct hx_splice_node **ret_cuts)
{
    struct hx_splice_node *cuts = NULL;
    struct hx_splice_edit *edit = edits_arrange(splice);
    while (edit != NULL) {
        if (edit->kind == HX_SPLICE_REPLACE) {
            struct hx_splice_edit *later = hx_splice_edit_next(edit);
            if (later != NULL && later->node.key == edit->node.key) {
                edit = later; /* the same value was replaced again */
                continue;
            }
            const struct hx_json_token *token = hx_json_at(splice->tape, edit->child);
            struct cut *cut =
                cut_new(splice, &cuts, token->offset, (size_t)token->offset + token->len);
            if (cut == NULL)
                return HX_RAISE(HX_E_NOMEM, "JSON edit");
            cut->replacement = edit;
            edit = later;
        } else {
            int rc = cuts_for_container(splice, &edit, &cuts);
            if (rc < 0)
                return HX_TRACE(rc);
        }
    }
    /* They were pushed newest first; turn them round so that equal offsets keep their order. */
    struct hx_splice_node *ordered = NULL;
    while (cuts != NULL) {
        struct hx_splice_node *next = cuts->next;
        cuts->next = ordered;
        ordered = cuts;
        cuts = next;
    }
    *ret_cuts = sort(ordered);
    return 0;
}

int hx_splice_emit(struct hx_splice *splice, struct hx_buf *out)
{
    struct hx_splice_node *cuts = NULL;
    int rc = cuts_make(splice, &cuts);
    if (rc < 0)
        return HX_TRACE(rc);
    struct hx_span text = splice->tape->text;
    size_t at = 0;
    for (; cuts != NULL; cuts = cuts->next) {
        const struct cut *cut = (const struct cut *)cuts;
        size_t offset = (size_t)cut->node.key;
        if (offset < at)
            continue; /* inside something that another edit took away */
        (void)hx_buf_append(out, text.ptr + at, offset - at);
        put_cut(out, cut);
        at = cut->end;
    }
    return hx_buf_append(out, text.ptr + at, text.len - at);
}
