/* SPDX-License-Identifier: MIT */
/*
 * A configuration file as a tree that remembers where everything stands.
 *
 * The same tree comes from YAML and from JSON, so that what follows is written once. Values are
 * texts: what `30s` or `off` means is for the setting to say, never for the file format. Refused
 * while the tree is made: more than HX_CONFIG_BYTES_MAX, bytes that are not UTF-8, NUL, a name that
 * stands twice in one mapping, anchors, aliases, tags and merge keys of YAML, a second document,
 * and more than a configuration can need in depth or number.
 */
#ifndef HX_APP_CONFIG_TREE_H
#define HX_APP_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "app/settings.h"
#include "base/arena.h"
#include "base/span.h"

#define HX_CONFIG_BYTES_MAX (1024 * 1024)

enum hx_node_kind {
    HX_NODE_NOTHING, /* null, or a value left out */
    HX_NODE_TEXT,
    HX_NODE_LIST,
    HX_NODE_MAP
};

struct hx_node {
    enum hx_node_kind kind;
    struct hx_mark mark;
    struct hx_span text; /* of a TEXT; NUL behind it, none inside */
    struct hx_span name; /* when it stands in a MAP */
    struct hx_mark name_mark;
    struct hx_node *first; /* of a LIST or MAP, in the order of the file */
    struct hx_node *last;
    struct hx_node *next; /* its neighbour */
    size_t count;
};

/* Where a tree is made. */
struct hx_tree {
    const char *file; /* as complaints call it */
    struct hx_arena *arena;
    struct hx_complaint *complaint;
    size_t node_count;
};

/* Reads `text`, JSON when it begins with a brace and YAML otherwise. 0, with *ret_root NULL when
 * nothing is in it; or 1 with a complaint. The tree lives in tree->arena and borrows nothing. */
int hx_tree_read(struct hx_tree *tree, struct hx_span text,
                 struct hx_node **ret_root) HX_MUST_CHECK;
/* The member of a MAP called `name`, or NULL. */
const struct hx_node *hx_node_member(const struct hx_node *map, const char *name);

/* "file:line:column: ..." as a complaint; returns 1. Bytes that a terminal would obey are replaced.
 */
int hx_tree_refuse(const struct hx_tree *tree, struct hx_mark mark, const char *format, ...)
    HX_PRINTF(3, 4);
/* For "%.*s": at most 60 bytes of a name out of the file; what looks like a token of ours is not
 * repeated. */
struct hx_span hx_node_shown(struct hx_span name);

/* --- between the readers --- */

int hx_tree_read_yaml(struct hx_tree *tree, struct hx_span text,
                      struct hx_node **ret_root) HX_MUST_CHECK;
int hx_tree_read_json(struct hx_tree *tree, struct hx_span text,
                      struct hx_node **ret_root) HX_MUST_CHECK;
/* A node, without its place in the tree. */
int hx_tree_node(struct hx_tree *tree, enum hx_node_kind kind, struct hx_mark mark,
                 struct hx_node **ret_node) HX_MUST_CHECK;
/* Copies `text` into the node. */
int hx_tree_text(struct hx_tree *tree, struct hx_node *node, struct hx_span text) HX_MUST_CHECK;
/* Appends to a LIST, or to a MAP under `name` (a TEXT node; NULL for a LIST). */
int hx_tree_append(struct hx_tree *tree, struct hx_node *parent, const struct hx_node *name,
                   struct hx_node *child) HX_MUST_CHECK;
/* Where byte `offset` of `text` stands. */
struct hx_mark hx_tree_mark(struct hx_span text, size_t offset);

#endif
