/* SPDX-License-Identifier: MIT */
/*
 * A ledger and three processes on it, over either adapter: what the contract suite runs in.
 */
#ifndef HX_TESTS_CONTRACT_WORLD_H
#define HX_TESTS_CONTRACT_WORLD_H

#include "adapter/store_memory/store_memory.h"
#include "adapter/store_sqlite/store_sqlite.h"
#include "port/store.h"

enum world_adapter { WORLD_MEMORY, WORLD_SQLITE };
enum { WORLD_PROCESSES = 3 };

struct world {
    enum world_adapter adapter;
    struct hx_clock clock; /* first, so that the callback finds the world */
    struct hx_rand rand;
    struct hx_now now;
    uint64_t seed;
    struct hx_hasher *hasher;
    char directory[64];
    char path[128];
    const char *gone_transport;
    struct hx_memory_ledger *memory;
    struct hx_store_sqlite_options options;
    struct hx_store *stores[WORLD_PROCESSES];
};

struct world *world_new(enum world_adapter adapter);
struct world *world_free(struct world *world);
struct hx_store *world_open(struct world *world, int process);
void world_close(struct world *world, int process);
/* The process dies as by SIGKILL. */
void world_kill(struct world *world, int process);
void world_transport_gone(struct world *world, const char *name);
uint64_t world_random(struct world *world);
/* Removes a directory of the test's own with everything in it. */
void world_remove_directory(const char *path);

/* A running operation, claimed by `process`, with its first attempt open; its names are made of
 * `number`. Spans are static or borrowed. */
struct hx_record world_record(struct world *world, int process, unsigned number);

/* Submits, flushes and waits. Returns the same request. */
struct hx_store_request *world_run(struct hx_store *store, struct hx_store_request *request);
/* Waits for the next finished request. */
struct hx_store_request *world_take(struct hx_store *store);

struct hx_store_request *world_insert(struct hx_store *store, const struct hx_record *record);
/* An insert whose mark the store writes too. */
struct hx_store_request *world_claim(struct hx_store *store, const struct hx_record *record);
struct hx_store_request *world_update(struct hx_store *store, const struct hx_record *record,
                                      uint64_t expected_fence);
struct hx_store_request *world_mark(struct world *world, struct hx_store *store,
                                    const struct hx_record *record);
struct hx_store_request *world_find_id(struct hx_store *store, const struct hx_id *id);
struct hx_store_request *world_find(struct hx_store *store, const struct hx_record *record,
                                    bool by_identity, bool by_twin);
struct hx_store_request *world_touch(struct hx_store *store, const struct hx_id *id,
                                     struct hx_store_touch touch);

#endif
