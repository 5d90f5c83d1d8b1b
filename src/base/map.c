/* SPDX-License-Identifier: MIT */
#include "base/map.h"

#include "base/alloc.h"
#include "base/assert.h"

enum { SLOT_COUNT_MIN = 8 };

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void sip_add(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3 of Aumasson and Bernstein. */
uint64_t hx_siphash(const uint64_t secret[2], struct hx_span bytes)
{
    uint64_t v[4] = {
        secret[0] ^ 0x736f6d6570736575u,
        secret[1] ^ 0x646f72616e646f6du,
        secret[0] ^ 0x6c7967656e657261u,
        secret[1] ^ 0x7465646279746573u,
    };
    size_t at = 0;
    for (; at + 8 <= bytes.len; at += 8) {
        uint64_t word;
        memcpy(&word, bytes.ptr + at, 8);
        sip_add(v, word);
    }
    uint64_t last = (uint64_t)bytes.len << 56;
    if (at < bytes.len) {
        unsigned char rest[8] = {0};
        memcpy(rest, bytes.ptr + at, bytes.len - at);
        for (int i = 0; i < 7; i++)
            last |= (uint64_t)rest[i] << (8 * i);
    }
    sip_add(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void hx_map_init(struct hx_map *map, const uint64_t secret[2])
{
    *map = (struct hx_map){.secret = {secret[0], secret[1]}};
}

void hx_map_fini(struct hx_map *map)
{
    if (map == NULL)
        return;
    hx_free(map->slots);
    *map = (struct hx_map){0};
}

/* Appends at the end of the chain, so that equal keys stay in order of age. */
static void link_node(struct hx_map *map, struct hx_map_node *node)
{
    struct hx_map_node **at = &map->slots[node->hash & (map->slot_count - 1)];
    while (*at != NULL)
        at = &(*at)->next;
    node->next = NULL;
    *at = node;
}

static void grow(struct hx_map *map)
{
    struct hx_map_node **old = map->slots;
    size_t old_count = map->slot_count;
    map->slot_count = old_count > 0 ? 2 * old_count : SLOT_COUNT_MIN;
    map->slots = hx_new_bytes(map->slot_count * sizeof(*map->slots));
    for (size_t i = 0; i < old_count; i++) {
        struct hx_map_node *node = old[i];
        while (node != NULL) {
            struct hx_map_node *next = node->next;
            link_node(map, node);
            node = next;
        }
    }
    hx_free(old);
}

void hx_map_insert(struct hx_map *map, struct hx_map_node *node, struct hx_span key)
{
    hx_assert(!node->is_linked);
    if (map->count >= map->slot_count)
        grow(map);
    node->key = key;
    node->hash = hx_siphash(map->secret, key);
    node->is_linked = true;
    link_node(map, node);
    map->count++;
}

void hx_map_remove(struct hx_map *map, struct hx_map_node *node)
{
    if (!node->is_linked)
        return;
    struct hx_map_node **at = &map->slots[node->hash & (map->slot_count - 1)];
    while (*at != node) {
        hx_assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->is_linked = false;
    map->count--;
}

struct hx_map_node *hx_map_find(const struct hx_map *map, struct hx_span key)
{
    if (map->count == 0)
        return NULL;
    uint64_t hash = hx_siphash(map->secret, key);
    struct hx_map_node *node = map->slots[hash & (map->slot_count - 1)];
    while (node != NULL && (node->hash != hash || !hx_span_eq(node->key, key)))
        node = node->next;
    return node;
}

struct hx_map_node *hx_map_find_next(const struct hx_map_node *node)
{
    struct hx_map_node *next = node->next;
    while (next != NULL && (next->hash != node->hash || !hx_span_eq(next->key, node->key)))
        next = next->next;
    return next;
}

struct hx_map_node *hx_map_next(const struct hx_map *map, const struct hx_map_node *node)
{
    if (node != NULL && node->next != NULL)
        return node->next;
    size_t slot = node == NULL ? 0 : (node->hash & (map->slot_count - 1)) + 1;
    for (; slot < map->slot_count; slot++) {
        if (map->slots[slot] != NULL)
            return map->slots[slot];
    }
    return NULL;
}
