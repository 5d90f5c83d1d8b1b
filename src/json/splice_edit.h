/* SPDX-License-Identifier: MIT */
/*
 * What a splice notes, shared by splice.c, which notes, and splice_emit.c, which writes out.
 */
#ifndef HX_JSON_SPLICE_EDIT_H
#define HX_JSON_SPLICE_EDIT_H

#include "json/splice.h"

enum hx_splice_kind { HX_SPLICE_REPLACE, HX_SPLICE_REMOVE, HX_SPLICE_ADD };

/* Head of everything that is sorted here. */
struct hx_splice_node {
    struct hx_splice_node *next;
    uint64_t key;
};

struct hx_splice_edit {
    struct hx_splice_node node; /* key: set by edits_arrange() */
    enum hx_splice_kind kind;
    uint32_t container;              /* HX_SPLICE_ADD, HX_SPLICE_REMOVE */
    uint32_t child;                  /* HX_SPLICE_REMOVE, HX_SPLICE_REPLACE: the value */
    struct hx_span name;             /* HX_SPLICE_ADD to an object */
    struct hx_span json;             /* absent: a new object made of `children` */
    struct hx_splice_edit *children; /* ADDs, newest first */
    bool is_void;
};

static inline struct hx_splice_edit *hx_splice_edit_next(const struct hx_splice_edit *edit)
{
    return (struct hx_splice_edit *)edit->node.next;
}

#endif
