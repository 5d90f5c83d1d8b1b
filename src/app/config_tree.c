/* SPDX-License-Identifier: MIT */
#include "app/config_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json/scan.h"

/* Far above any sane file. With them the search for names that stand twice stays cheap. */
enum { NODES_MAX = 50000, MEMBERS_MAX = 2000, SHOWN_MAX = 60 };

int hx_tree_refuse(const struct hx_tree *tree, struct hx_mark mark, const char *format, ...)
{
    char sentence[sizeof(tree->complaint->text)];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    for (char *at = sentence; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    if (mark.line == 0)
        return hx_complain(tree->complaint, "%s%s%s", tree->file ? tree->file : "",
                           tree->file ? ": " : "", sentence);
    return hx_complain(tree->complaint, "%s:%d:%d: %s", tree->file, mark.line, mark.column,
                       sentence);
}

struct hx_span hx_node_shown(struct hx_span name)
{
    if (hx_span_starts_with(name, HX_SPAN_LIT("hpx_")))
        return HX_SPAN_LIT("hpx_...");
    while (name.len > SHOWN_MAX)
        name.len = SHOWN_MAX;
    return name;
}

struct hx_mark hx_tree_mark(struct hx_span text, size_t offset)
{
    struct hx_mark mark = {1, 1};
    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            mark.line++;
            mark.column = 1;
        } else if (((unsigned char)text.ptr[i] & 0xC0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

int hx_tree_node(struct hx_tree *tree, enum hx_node_kind kind, struct hx_mark mark,
                 struct hx_node **ret_node)
{
    struct hx_node *node = NULL;
    if (tree->node_count < NODES_MAX)
        node = hx_arena_alloc(tree->arena, sizeof(*node));
    if (!node)
        return hx_tree_refuse(tree, mark, "there is more in this file than a configuration needs");
    tree->node_count++;
    *node = (struct hx_node){.kind = kind, .mark = mark};
    *ret_node = node;
    return 0;
}

int hx_tree_text(struct hx_tree *tree, struct hx_node *node, struct hx_span text)
{
    if (text.len > 0 && memchr(text.ptr, '\0', text.len))
        return hx_tree_refuse(tree, node->mark, "a text must not hold the character NUL");
    node->text = hx_arena_dup(tree->arena, text);
    if (hx_span_is_absent(node->text))
        return hx_tree_refuse(tree, node->mark,
                              "there is more in this file than a configuration needs");
    return 0;
}

int hx_tree_append(struct hx_tree *tree, struct hx_node *parent, const struct hx_node *name,
                   struct hx_node *child)
{
    if (parent->count == MEMBERS_MAX)
        return hx_tree_refuse(tree, child->mark, "more than %d entries stand here", MEMBERS_MAX);
    if (name) {
        for (const struct hx_node *other = parent->first; other; other = other->next)
            if (hx_span_eq(other->name, name->text))
                return hx_tree_refuse(
                    tree, name->mark, "'%.*s' stands here a second time; the first is in line %d",
                    HX_SPAN_FMT(hx_node_shown(name->text)), other->name_mark.line);
        child->name = name->text;
        child->name_mark = name->mark;
    }
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
    return 0;
}

const struct hx_node *hx_node_member(const struct hx_node *map, const char *name)
{
    hx_assert(map->kind == HX_NODE_MAP);
    for (const struct hx_node *member = map->first; member; member = member->next)
        if (hx_span_eq_cstr(member->name, name))
            return member;
    return NULL;
}

/* What must hold for every byte, whatever the format. */
static int check_bytes(const struct hx_tree *tree, struct hx_span text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    const unsigned char *end = at + text.len;
    while (at < end) {
        unsigned len = hx_json_utf8_len(at, end);
        struct hx_mark mark = {0, 0};
        if (len == 0 || *at == '\0')
            mark = hx_tree_mark(text, (size_t)(at - (const unsigned char *)text.ptr));
        if (len == 0)
            return hx_tree_refuse(tree, mark, "this byte is not UTF-8; save the file as UTF-8");
        if (*at == '\0')
            return hx_tree_refuse(tree, mark, "this is the byte NUL, which no text file holds");
        at += len;
    }
    return 0;
}

int hx_tree_read(struct hx_tree *tree, struct hx_span text, struct hx_node **ret_root)
{
    if (text.len > HX_CONFIG_BYTES_MAX)
        return hx_tree_refuse(tree, (struct hx_mark){0, 0},
                              "the file is larger than 1 MiB, the most that is read");
    int rc = check_bytes(tree, text);
    if (rc != 0)
        return rc;
    size_t at = 0;
    while (at < text.len && memchr(" \t\r\n", text.ptr[at], 4))
        at++;
    if (at < text.len && text.ptr[at] == '{')
        return hx_tree_read_json(tree, text, ret_root);
    return hx_tree_read_yaml(tree, text, ret_root);
}
