/* SPDX-License-Identifier: MIT */
/*
 * A configuration tree out of YAML, by the events of libyaml.
 *
 * A small part of YAML: mappings, lists and texts. What lets a file mean something else than it
 * seems to say is refused, and so is what lets a small file grow: anchors and aliases, tags, merge
 * keys, several documents. There are no implicit types; only null and an absent value are told from
 * text, and only when written plainly.
 */
#include "app/config_tree.h"

#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 16 };

struct frame {
    struct hx_node *parent;
    struct hx_node *name; /* read, its value not yet */
};

struct yaml {
    struct hx_tree *tree;
    yaml_parser_t parser;
    struct frame frames[DEPTH_MAX];
    size_t depth;
    struct hx_node *root;
    bool is_ended;
};

static struct hx_mark mark_of(const yaml_mark_t *mark)
{
    return (struct hx_mark){(int)mark->line + 1, (int)mark->column + 1};
}

/* What libyaml found, in its words, at the place that it names. */
static int refuse_syntax(const struct yaml *yaml, struct hx_span text)
{
    const yaml_parser_t *parser = &yaml->parser;
    struct hx_mark mark = mark_of(&parser->problem_mark);
    if (parser->error == YAML_READER_ERROR)
        mark = hx_tree_mark(text, parser->problem_offset);
    if (!parser->problem)
        return hx_tree_refuse(yaml->tree, (struct hx_mark){0, 0}, "there is not enough memory");
    return hx_tree_refuse(yaml->tree, mark, "this is not YAML: %s%s%s", parser->problem,
                          parser->context ? " " : "", parser->context ? parser->context : "");
}

static bool is_nothing(const yaml_event_t *event)
{
    struct hx_span text =
        hx_span((const char *)event->data.scalar.value, event->data.scalar.length);
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return text.len == 0 || hx_span_eq_cstr(text, "~") || hx_span_eq_cstr(text, "null");
}

/* Puts a value, or the name of one, where the reader stands. */
static int place(struct yaml *yaml, struct hx_node *node)
{
    struct frame *frame = yaml->depth > 0 ? &yaml->frames[yaml->depth - 1] : NULL;
    if (!frame) {
        yaml->root = node;
        return 0;
    }
    if (frame->parent->kind == HX_NODE_LIST)
        return hx_tree_append(yaml->tree, frame->parent, NULL, node);
    if (frame->name) {
        struct hx_node *name = frame->name;
        frame->name = NULL;
        return hx_tree_append(yaml->tree, frame->parent, name, node);
    }
    if (node->kind != HX_NODE_TEXT)
        return hx_tree_refuse(yaml->tree, node->mark,
                              "a name must stand here, and it must be a text");
    if (hx_span_eq_cstr(node->text, "<<"))
        return hx_tree_refuse(yaml->tree, node->mark,
                              "'<<' is not read: write out what holds here");
    frame->name = node;
    return 0;
}

static int refuse_trick(const struct yaml *yaml, const yaml_event_t *event,
                        const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct hx_mark mark = mark_of(&event->start_mark);
    if (anchor)
        return hx_tree_refuse(yaml->tree, mark,
                              "anchors (&name) are not read: write the value where it holds; texts "
                              "that begin with & stand in quotes");
    if (tag)
        return hx_tree_refuse(yaml->tree, mark,
                              "tags (!name) are not read: every value is a text here; texts that "
                              "begin with ! stand in quotes");
    return 0;
}

static int open_container(struct yaml *yaml, const yaml_event_t *event, enum hx_node_kind kind)
{
    struct hx_node *node;
    struct hx_mark mark = mark_of(&event->start_mark);
    if (yaml->depth == DEPTH_MAX)
        return hx_tree_refuse(yaml->tree, mark, "nothing in a configuration is nested so deeply");
    int rc = hx_tree_node(yaml->tree, kind, mark, &node);
    if (rc == 0)
        rc = place(yaml, node);
    if (rc == 0)
        yaml->frames[yaml->depth++] = (struct frame){node, NULL};
    return rc;
}

static int take_scalar(struct yaml *yaml, const yaml_event_t *event)
{
    struct hx_node *node;
    enum hx_node_kind kind = is_nothing(event) ? HX_NODE_NOTHING : HX_NODE_TEXT;
    int rc = hx_tree_node(yaml->tree, kind, mark_of(&event->start_mark), &node);
    if (rc == 0)
        rc = hx_tree_text(
            yaml->tree, node,
            hx_span((const char *)event->data.scalar.value, event->data.scalar.length));
    return rc == 0 ? place(yaml, node) : rc;
}

static int take_event(struct yaml *yaml, const yaml_event_t *event)
{
    int rc;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        rc = refuse_trick(yaml, event, event->data.scalar.anchor, event->data.scalar.tag);
        return rc == 0 ? take_scalar(yaml, event) : rc;
    case YAML_SEQUENCE_START_EVENT:
        rc = refuse_trick(yaml, event, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
        return rc == 0 ? open_container(yaml, event, HX_NODE_LIST) : rc;
    case YAML_MAPPING_START_EVENT:
        rc = refuse_trick(yaml, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
        return rc == 0 ? open_container(yaml, event, HX_NODE_MAP) : rc;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        hx_assert(yaml->depth > 0);
        yaml->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return hx_tree_refuse(yaml->tree, mark_of(&event->start_mark),
                              "aliases (*name) are not read: write the value where it holds; a "
                              "pattern that begins with * stands in quotes");
    case YAML_DOCUMENT_START_EVENT:
        if (!yaml->root)
            return 0;
        return hx_tree_refuse(yaml->tree, mark_of(&event->start_mark),
                              "a second document begins here; a configuration is one");
    case YAML_STREAM_END_EVENT:
        yaml->is_ended = true;
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

int hx_tree_read_yaml(struct hx_tree *tree, struct hx_span text, struct hx_node **ret_root)
{
    struct yaml yaml = {.tree = tree};
    int rc = 0;
    if (!yaml_parser_initialize(&yaml.parser))
        return hx_tree_refuse(tree, (struct hx_mark){0, 0}, "there is not enough memory");
    yaml_parser_set_encoding(&yaml.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml.parser, (const unsigned char *)text.ptr, text.len);
    while (rc == 0 && !yaml.is_ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&yaml.parser, &event)) {
            rc = refuse_syntax(&yaml, text);
            break;
        }
        rc = take_event(&yaml, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&yaml.parser);
    if (rc == 0)
        *ret_root = yaml.root && yaml.root->kind != HX_NODE_NOTHING ? yaml.root : NULL;
    return rc;
}
