/* SPDX-License-Identifier: MIT */
/*
 * Intrusive doubly linked ring. A list head and a node are the same struct; an unlinked node points
 * at itself, so unlinking twice is harmless.
 */
#ifndef HX_BASE_LIST_H
#define HX_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hx_list {
    struct hx_list *next;
    struct hx_list *prev;
};

#define hx_container_of(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void hx_list_init(struct hx_list *node)
{
    node->next = node;
    node->prev = node;
}

static inline bool hx_list_is_empty(const struct hx_list *head)
{
    return head->next == head;
}

static inline void hx_list_append(struct hx_list *head, struct hx_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void hx_list_unlink(struct hx_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hx_list_init(node);
}

/* First node, or NULL. */
static inline struct hx_list *hx_list_first(const struct hx_list *head)
{
    return hx_list_is_empty(head) ? NULL : head->next;
}

/* Last node, or NULL. */
static inline struct hx_list *hx_list_last(const struct hx_list *head)
{
    return hx_list_is_empty(head) ? NULL : head->prev;
}

/* Unlinks and returns the first node, or NULL. */
static inline struct hx_list *hx_list_take_first(struct hx_list *head)
{
    struct hx_list *node = hx_list_first(head);
    if (node != NULL)
        hx_list_unlink(node);
    return node;
}

/* Moves all of `from` to the end of `to`. */
static inline void hx_list_splice(struct hx_list *to, struct hx_list *from)
{
    if (hx_list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    hx_list_init(from);
}

#define hx_list_for_each(at, head)                                                                 \
    for (struct hx_list *at = (head)->next; at != (head); at = at->next)

/* The body may unlink `at`. */
#define hx_list_for_each_safe(at, head)                                                            \
    for (struct hx_list *at = (head)->next, *at##_next = at->next; at != (head);                   \
         at = at##_next, at##_next = at->next)

#endif
