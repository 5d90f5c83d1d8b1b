/* SPDX-License-Identifier: MIT */
/*
 * A configuration tree out of JSON.
 *
 * YAML's reader would take most of it, but not all (it refuses the surrogate pairs that JSON is
 * free to write), and it would take much that is not JSON. So JSON is read as what it is.
 */
#include "app/config_tree.h"

#include "json/reader.h"

enum { DEPTH_MAX = 16, TOKENS_MAX = 100000 };

struct json {
    struct hx_tree *tree;
    struct hx_json_tape tape;
    size_t marked; /* tokens are met in order, so the mark of the last one is a head start */
    struct hx_mark mark;
};

static struct hx_mark mark_of(struct json *json, uint32_t index)
{
    size_t offset = hx_json_at(&json->tape, index)->offset;
    hx_assert(offset >= json->marked);
    struct hx_span rest =
        hx_span(json->tape.text.ptr + json->marked, json->tape.text.len - json->marked);
    struct hx_mark step = hx_tree_mark(rest, offset - json->marked);
    json->mark.column = step.line == 1 ? json->mark.column + step.column - 1 : step.column;
    json->mark.line += step.line - 1;
    json->marked = offset;
    return json->mark;
}

static int make_text(struct json *json, uint32_t index, struct hx_node *node)
{
    struct hx_span text = hx_json_raw(&json->tape, index);
    enum hx_json_type type = (enum hx_json_type)hx_json_at(&json->tape, index)->type;
    if (type == HX_JSON_STRING || type == HX_JSON_NAME) {
        int rc = hx_json_string(&json->tape, index, json->tree->arena, &text);
        if (rc != 0)
            return hx_tree_refuse(json->tree, node->mark,
                                  "this text holds half of a surrogate pair, or is too long");
    }
    return hx_tree_text(json->tree, node, text);
}

/* At most DEPTH_MAX deep: the reader has refused what is deeper. */
static int make(struct json *json, uint32_t index, struct hx_node **ret_node)
{
    enum hx_json_type type = (enum hx_json_type)hx_json_at(&json->tape, index)->type;
    enum hx_node_kind kind = type == HX_JSON_NULL     ? HX_NODE_NOTHING
                             : type == HX_JSON_ARRAY  ? HX_NODE_LIST
                             : type == HX_JSON_OBJECT ? HX_NODE_MAP
                                                      : HX_NODE_TEXT;
    struct hx_node *node;
    int rc = hx_tree_node(json->tree, kind, mark_of(json, index), &node);
    if (rc == 0 && kind == HX_NODE_TEXT)
        rc = make_text(json, index, node);
    if (rc == 0)
        *ret_node = node;
    hx_json_for_each(child, &json->tape, index)
    {
        struct hx_node *name = NULL;
        struct hx_node *value = NULL;
        if (rc == 0 && kind == HX_NODE_MAP)
            rc = make(json, child, &name);
        if (rc == 0)
            rc = make(json, kind == HX_NODE_MAP ? child + 1 : child, &value);
        if (rc == 0)
            rc = hx_tree_append(json->tree, node, name, value);
        if (rc != 0)
            return rc;
    }
    return rc;
}

int hx_tree_read_json(struct hx_tree *tree, struct hx_span text, struct hx_node **ret_root)
{
    static const struct hx_json_limits limits = {
        .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX, .text_max = HX_CONFIG_BYTES_MAX};
    struct json json = {.tree = tree, .mark = {1, 1}};
    hx_json_tape_init(&json.tape);
    int rc = hx_json_read(&json.tape, text, &limits);
    if (rc == 0)
        rc = make(&json, 0, ret_root);
    else
        rc = hx_tree_refuse(tree, hx_tree_mark(text, json.tape.error_offset),
                            "this is not JSON, and a file that begins with { must be: %s",
                            json.tape.error_reason ? json.tape.error_reason : "too much memory");
    hx_json_tape_fini(&json.tape);
    return rc;
}
