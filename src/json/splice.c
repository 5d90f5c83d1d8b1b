/* SPDX-License-Identifier: MIT */
#include "json/splice.h"

#include "base/fault.h"
#include "json/scan.h"
#include "json/text.h"

enum kind { REPLACE, REMOVE, ADD };

/* Head of everything that is sorted here. */
struct node {
    struct node *next;
    uint64_t key;
};

struct hx_splice_edit {
    struct node node; /* key: container and child, see edit_key() */
    enum kind kind;
    uint32_t container;              /* ADD, REMOVE */
    uint32_t child;                  /* REMOVE, REPLACE: the value */
    struct hx_span name;             /* ADD to an object */
    struct hx_span json;             /* absent: a new object made of `children` */
    struct hx_splice_edit *children; /* ADDs, newest first */
    bool is_void;
};

/* A run of the old text that goes, and what comes in its place. */
struct cut {
    struct node node; /* key: offset */
    size_t end;
    const struct hx_splice_edit *replacement;
    struct hx_splice_edit *additions; /* `addition_count` of them, linked */
    size_t addition_count;
    bool needs_comma;
};

void hx_splice_init(struct hx_splice *splice, const struct hx_json_tape *tape,
                    struct hx_arena *arena)
{
    *splice = (struct hx_splice){.tape = tape, .arena = arena};
}

static struct hx_splice_edit *edit_next(const struct hx_splice_edit *edit)
{
    return (struct hx_splice_edit *)edit->node.next;
}

static struct hx_splice_edit *edit_new(struct hx_splice *splice, enum kind kind)
{
    struct hx_splice_edit *edit = hx_arena_alloc(splice->arena, sizeof(*edit));
    if (edit != NULL)
        *edit = (struct hx_splice_edit){.kind = kind};
    return edit;
}

static int note(struct hx_splice *splice, const struct hx_splice_edit *values)
{
    struct hx_splice_edit *edit = edit_new(splice, values->kind);
    if (edit == NULL)
        return HX_RAISE(HX_E_NOMEM, "JSON edit");
    *edit = *values;
    edit->node.next = splice->edits ? &splice->edits->node : NULL;
    splice->edits = edit;
    return 0;
}

int hx_splice_replace(struct hx_splice *splice, uint32_t value, struct hx_span json)
{
    hx_assert(!hx_span_is_absent(json));
    return note(splice, &(struct hx_splice_edit){.kind = REPLACE, .child = value, .json = json});
}

int hx_splice_remove(struct hx_splice *splice, uint32_t object, uint32_t value)
{
    hx_assert(hx_json_is(splice->tape, object, HX_JSON_OBJECT));
    hx_assert(hx_json_is(splice->tape, value - 1, HX_JSON_NAME));
    return note(splice,
                &(struct hx_splice_edit){.kind = REMOVE, .container = object, .child = value});
}

int hx_splice_add(struct hx_splice *splice, uint32_t object, struct hx_span name,
                  struct hx_span json)
{
    hx_assert(hx_json_is(splice->tape, object, HX_JSON_OBJECT));
    hx_assert(!hx_span_is_absent(name));
    hx_assert(!hx_span_is_absent(json));
    return note(splice, &(struct hx_splice_edit){
                            .kind = ADD, .container = object, .name = name, .json = json});
}

int hx_splice_append(struct hx_splice *splice, uint32_t array, struct hx_span json)
{
    hx_assert(hx_json_is(splice->tape, array, HX_JSON_ARRAY));
    hx_assert(!hx_span_is_absent(json));
    return note(splice, &(struct hx_splice_edit){.kind = ADD, .container = array, .json = json});
}

/* The newest edit of `kind` on the value `child`. */
static struct hx_splice_edit *find_edit(const struct hx_splice *splice, enum kind kind,
                                        uint32_t child)
{
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL; edit = edit_next(edit)) {
        if (!edit->is_void && edit->kind == kind && edit->child == child)
            return edit;
    }
    return NULL;
}

static struct hx_splice_edit *find_child(struct hx_splice_edit *children, struct hx_span name)
{
    for (; children != NULL; children = edit_next(children)) {
        if (hx_span_eq(children->name, name))
            return children;
    }
    return NULL;
}

static struct hx_splice_edit *find_addition(const struct hx_splice *splice, uint32_t object,
                                            struct hx_span name)
{
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL; edit = edit_next(edit)) {
        if (edit->kind == ADD && edit->container == object && hx_span_eq(edit->name, name))
            return edit;
    }
    return NULL;
}

/* Makes `parent`, whose text is ours, hold `json` at `path`. */
static int fill(struct hx_splice *splice, struct hx_splice_edit *parent, const struct hx_span *path,
                size_t path_count, struct hx_span json)
{
    for (size_t i = 0; i < path_count; i++) {
        if (!hx_span_is_absent(parent->json))
            return HX_SPLICE_NOT_OBJECT; /* an earlier edit put a finished value there */
        struct hx_splice_edit *child = find_child(parent->children, path[i]);
        if (child == NULL) {
            child = edit_new(splice, ADD);
            if (child == NULL)
                return HX_RAISE(HX_E_NOMEM, "JSON edit");
            child->name = path[i];
            child->node.next = parent->children ? &parent->children->node : NULL;
            parent->children = child;
        }
        parent = child;
    }
    parent->json = json;
    parent->children = NULL;
    return 0;
}

/* The member exists in the old text and its value gets new text. */
static int set_existing(struct hx_splice *splice, uint32_t value, const struct hx_span *path,
                        size_t path_count, struct hx_span json)
{
    struct hx_splice_edit *removal;
    while ((removal = find_edit(splice, REMOVE, value)) != NULL)
        removal->is_void = true;
    struct hx_splice_edit *edit = find_edit(splice, REPLACE, value);
    if (edit == NULL) {
        int rc = note(splice, &(struct hx_splice_edit){.kind = REPLACE, .child = value});
        if (rc < 0)
            return HX_TRACE(rc);
        edit = splice->edits;
    }
    return fill(splice, edit, path, path_count, json);
}

int hx_splice_set(struct hx_splice *splice, uint32_t object, const struct hx_span *path,
                  size_t path_count, struct hx_span json)
{
    const struct hx_json_tape *tape = splice->tape;
    hx_assert(path_count > 0);
    hx_assert(!hx_span_is_absent(json));

    for (size_t i = 0;; i++) {
        if (!hx_json_is(tape, object, HX_JSON_OBJECT))
            return HX_SPLICE_NOT_OBJECT;
        if ((hx_json_at(tape, object)->flags & HX_JSON_IS_OPAQUE) != 0)
            return HX_SPLICE_NOT_OBJECT;
        const struct hx_span *rest = path + i + 1;
        size_t rest_count = path_count - i - 1;
        uint32_t value = hx_json_member(tape, object, path[i]);
        if (value == HX_JSON_NONE) {
            struct hx_splice_edit *addition = find_addition(splice, object, path[i]);
            if (addition == NULL) {
                int rc = note(splice, &(struct hx_splice_edit){
                                          .kind = ADD, .container = object, .name = path[i]});
                if (rc < 0)
                    return HX_TRACE(rc);
                addition = splice->edits;
            }
            return fill(splice, addition, rest, rest_count, json);
        }
        bool is_ours =
            find_edit(splice, REMOVE, value) != NULL || find_edit(splice, REPLACE, value) != NULL;
        if (rest_count == 0 || is_ours || hx_json_is(tape, value, HX_JSON_NULL))
            return set_existing(splice, value, rest, rest_count, json);
        object = value;
    }
}

/* Do the edits so far leave `object` without members? */
static bool is_left_empty(const struct hx_splice *splice, uint32_t object)
{
    uint32_t left = hx_json_at(splice->tape, object)->count;
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL; edit = edit_next(edit)) {
        if (edit->is_void || edit->container != object)
            continue;
        if (edit->kind == ADD)
            return false;
        if (edit->kind == REMOVE && find_edit(splice, REMOVE, edit->child) == edit)
            left--;
    }
    return left == 0;
}

int hx_splice_unset(struct hx_splice *splice, uint32_t object, const struct hx_span *path,
                    size_t path_count, bool prune)
{
    const struct hx_json_tape *tape = splice->tape;
    hx_assert(path_count > 0);
    uint32_t value = hx_json_member(tape, object, path[0]);
    if (value == HX_JSON_NONE)
        return 0;
    if (path_count > 1) {
        int rc = hx_splice_unset(splice, value, path + 1, path_count - 1, prune);
        if (rc < 0)
            return HX_TRACE(rc);
        bool goes = prune && hx_json_is(tape, value, HX_JSON_OBJECT) &&
                    hx_json_at(tape, value)->count > 0 && is_left_empty(splice, value);
        return goes ? hx_splice_remove(splice, object, value) : 0;
    }
    hx_json_for_each(name, tape, object)
    {
        if (!hx_json_is_text(tape, name, path[0]))
            continue;
        int rc = hx_splice_remove(splice, object, name + 1);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

/* ---- Writing out ---- */

static struct node *merge(struct node *a, struct node *b)
{
    struct node *head = NULL;
    struct node **tail = &head;
    while (a != NULL && b != NULL) {
        struct node **from = a->key <= b->key ? &a : &b;
        *tail = *from;
        *from = (*from)->next;
        tail = &(*tail)->next;
    }
    *tail = a != NULL ? a : b;
    return head;
}

/* Stable merge sort, bottom up: bin i holds a sorted run of 2^i nodes. */
static struct node *sort(struct node *list)
{
    struct node *bins[64] = {0};
    size_t used = 0;
    while (list != NULL) {
        struct node *run = list;
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
    struct node *sorted = NULL;
    for (size_t i = 0; i < used; i++)
        sorted = merge(bins[i], sorted);
    return sorted;
}

/* Oldest first, by container, removals by child before additions; replacements stand on their own.
 */
static struct hx_splice_edit *edits_arrange(struct hx_splice *splice)
{
    struct node *oldest_first = NULL;
    struct node *node = splice->edits ? &splice->edits->node : NULL;
    while (node != NULL) {
        struct node *next = node->next;
        struct hx_splice_edit *edit = (struct hx_splice_edit *)node;
        uint32_t container = edit->kind == REPLACE ? edit->child : edit->container;
        uint32_t child = edit->kind == REMOVE ? edit->child : UINT32_MAX;
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

static struct cut *cut_new(struct hx_splice *splice, struct node **cuts, size_t offset, size_t end)
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
                             struct node **cuts, uint32_t *ret_removed)
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
        while (edit != NULL && edit->kind == REMOVE && edit->container == object &&
               edit->child == name + 1) {
            goes = true;
            edit = edit_next(edit);
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
                              struct node **cuts)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t container = (*edits)->container;
    uint32_t removed = 0;

    if ((*edits)->kind == REMOVE) {
        int rc = cuts_for_removals(splice, edits, cuts, &removed);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    struct hx_splice_edit *additions = *edits;
    size_t count = 0;
    while (*edits != NULL && (*edits)->kind == ADD && (*edits)->container == container) {
        count++;
        *edits = edit_next(*edits);
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
    put_children(out, edit_next(child)); /* they are linked newest first */
    if (edit_next(child) != NULL)
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
        addition = edit_next(addition);
    }
}

static int cuts_make(struct hx_splice *splice, struct node **ret_cuts)
{
    struct node *cuts = NULL;
    struct hx_splice_edit *edit = edits_arrange(splice);
    while (edit != NULL) {
        if (edit->kind == REPLACE) {
            const struct hx_json_token *token = hx_json_at(splice->tape, edit->child);
            struct cut *cut =
                cut_new(splice, &cuts, token->offset, (size_t)token->offset + token->len);
            if (cut == NULL)
                return HX_RAISE(HX_E_NOMEM, "JSON edit");
            cut->replacement = edit;
            edit = edit_next(edit);
        } else {
            int rc = cuts_for_container(splice, &edit, &cuts);
            if (rc < 0)
                return HX_TRACE(rc);
        }
    }
    /* They were pushed newest first; turn them round so that equal offsets keep their order. */
    struct node *ordered = NULL;
    while (cuts != NULL) {
        struct node *next = cuts->next;
        cuts->next = ordered;
        ordered = cuts;
        cuts = next;
    }
    *ret_cuts = sort(ordered);
    return 0;
}

int hx_splice_emit(struct hx_splice *splice, struct hx_buf *out)
{
    struct node *cuts = NULL;
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
