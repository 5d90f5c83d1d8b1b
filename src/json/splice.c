/* SPDX-License-Identifier: MIT */
#include "json/splice.h"

#include "base/fault.h"
#include "json/splice_edit.h"

void hx_splice_init(struct hx_splice *splice, const struct hx_json_tape *tape,
                    struct hx_arena *arena)
{
    *splice = (struct hx_splice){.tape = tape, .arena = arena};
}

static struct hx_splice_edit *edit_new(struct hx_splice *splice, enum hx_splice_kind kind)
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
    return note(splice,
                &(struct hx_splice_edit){.kind = HX_SPLICE_REPLACE, .child = value, .json = json});
}

int hx_splice_remove(struct hx_splice *splice, uint32_t object, uint32_t value)
{
    hx_assert(hx_json_is(splice->tape, object, HX_JSON_OBJECT));
    hx_assert(hx_json_is(splice->tape, value - 1, HX_JSON_NAME));
    return note(splice, &(struct hx_splice_edit){
                            .kind = HX_SPLICE_REMOVE, .container = object, .child = value});
}

int hx_splice_add(struct hx_splice *splice, uint32_t object, struct hx_span name,
                  struct hx_span json)
{
    hx_assert(hx_json_is(splice->tape, object, HX_JSON_OBJECT));
    hx_assert(!hx_span_is_absent(name));
    hx_assert(!hx_span_is_absent(json));
    return note(splice,
                &(struct hx_splice_edit){
                    .kind = HX_SPLICE_ADD, .container = object, .name = name, .json = json});
}

int hx_splice_append(struct hx_splice *splice, uint32_t array, struct hx_span json)
{
    hx_assert(hx_json_is(splice->tape, array, HX_JSON_ARRAY));
    hx_assert(!hx_span_is_absent(json));
    return note(splice,
                &(struct hx_splice_edit){.kind = HX_SPLICE_ADD, .container = array, .json = json});
}

/* The newest edit of `kind` on the value `child`. */
static struct hx_splice_edit *find_edit(const struct hx_splice *splice, enum hx_splice_kind kind,
                                        uint32_t child)
{
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL;
         edit = hx_splice_edit_next(edit)) {
        if (!edit->is_void && edit->kind == kind && edit->child == child)
            return edit;
    }
    return NULL;
}

static struct hx_splice_edit *find_child(struct hx_splice_edit *children, struct hx_span name)
{
    for (; children != NULL; children = hx_splice_edit_next(children)) {
        if (hx_span_eq(children->name, name))
            return children;
    }
    return NULL;
}

static struct hx_splice_edit *find_addition(const struct hx_splice *splice, uint32_t object,
                                            struct hx_span name)
{
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL;
         edit = hx_splice_edit_next(edit)) {
        if (edit->kind == HX_SPLICE_ADD && edit->container == object &&
            hx_span_eq(edit->name, name))
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
            child = edit_new(splice, HX_SPLICE_ADD);
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
    while ((removal = find_edit(splice, HX_SPLICE_REMOVE, value)) != NULL)
        removal->is_void = true;
    struct hx_splice_edit *edit = find_edit(splice, HX_SPLICE_REPLACE, value);
    if (edit == NULL) {
        int rc = note(splice, &(struct hx_splice_edit){.kind = HX_SPLICE_REPLACE, .child = value});
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
                int rc =
                    note(splice, &(struct hx_splice_edit){
                                     .kind = HX_SPLICE_ADD, .container = object, .name = path[i]});
                if (rc < 0)
                    return HX_TRACE(rc);
                addition = splice->edits;
            }
            return fill(splice, addition, rest, rest_count, json);
        }
        bool is_ours = find_edit(splice, HX_SPLICE_REMOVE, value) != NULL ||
                       find_edit(splice, HX_SPLICE_REPLACE, value) != NULL;
        if (rest_count == 0 || is_ours || hx_json_is(tape, value, HX_JSON_NULL))
            return set_existing(splice, value, rest, rest_count, json);
        object = value;
    }
}

/* Do the edits so far leave `object` without members? */
static bool is_left_empty(const struct hx_splice *splice, uint32_t object)
{
    uint32_t left = hx_json_at(splice->tape, object)->count;
    for (struct hx_splice_edit *edit = splice->edits; edit != NULL;
         edit = hx_splice_edit_next(edit)) {
        if (edit->is_void || edit->container != object)
            continue;
        if (edit->kind == HX_SPLICE_ADD)
            return false;
        if (edit->kind == HX_SPLICE_REMOVE &&
            find_edit(splice, HX_SPLICE_REMOVE, edit->child) == edit)
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
