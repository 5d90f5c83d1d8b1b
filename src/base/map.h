/* SPDX-License-Identifier: MIT */
/*
 * An intrusive hash table over byte strings. Keys may be chosen by a peer, so the hash is
 * SipHash-1-3 under a secret of the table. Several nodes may share a key: find returns the oldest
 * of them.
 *
 * The key's bytes are borrowed from the object that the node lives in.
 */
#ifndef HX_BASE_MAP_H
#define HX_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct hx_map_node {
    struct hx_map_node *next;
    struct hx_span key;
    uint64_t hash;
    bool is_linked;
};

struct hx_map {
    struct hx_map_node **slots; /* owned; NULL until the first node comes */
    size_t slot_count;          /* a power of two, or 0 */
    size_t count;
    uint64_t secret[2];
};

/* `secret` should be random where keys come from outside. */
void hx_map_init(struct hx_map *map, const uint64_t secret[2]);
/* Forgets the nodes; their objects are the caller's. */
void hx_map_fini(struct hx_map *map);
void hx_map_insert(struct hx_map *map, struct hx_map_node *node, struct hx_span key);
/* Harmless for a node that is not linked. */
void hx_map_remove(struct hx_map *map, struct hx_map_node *node);
struct hx_map_node *hx_map_find(const struct hx_map *map, struct hx_span key);
/* The next younger node of the same key, or NULL. */
struct hx_map_node *hx_map_find_next(const struct hx_map_node *node);
/* Walks all nodes in no order; the present one may be removed, none may be added. Starts with
 * NULL. */
struct hx_map_node *hx_map_next(const struct hx_map *map, const struct hx_map_node *node);

uint64_t hx_siphash(const uint64_t secret[2], struct hx_span bytes);

#endif
