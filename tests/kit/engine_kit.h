/* SPDX-License-Identifier: MIT */
/*
 * One process on the real engine, with a ledger in memory and a clock that the test moves. What it
 * talks to is the test's: make servers and sessions once it has begun. talk_kit.h has one of each.
 *
 *     engine_kit_init(&kit);
 *     engine_kit_begin(&kit, &downstream_inbox, NULL);
 *     struct hx_server_options server = engine_kit_server_options();
 *     server.name = ...; server.make_upstream = ...; server.free_upstream = ...
 *     hx_server_new(kit.gateway, &server); ...
 *     engine_kit_turn(&kit);
 *     engine_kit_kill(&kit);                       // and begin again: the next process
 *     engine_kit_fini(&kit);
 */
#ifndef HX_TESTS_ENGINE_KIT_H
#define HX_TESTS_ENGINE_KIT_H

#include "adapter/store_memory/store_memory.h"
#include "engine/gateway.h"

struct engine_kit {
    struct hx_clock clock;
    struct hx_rand rand;
    uint64_t random;
    struct hx_now now;
    struct hx_memory_ledger *ledger;
    struct hx_store *store; /* NULL: no process runs */
    struct hx_gateway *gateway;
    struct hx_list upstream_inbox; /* struct hx_peer_event */
};

/* An empty ledger, and the same moment each time. */
void engine_kit_init(struct engine_kit *kit);
/* Kills the process if one runs. */
void engine_kit_fini(struct engine_kit *kit);

/* The process starts. `downstream_inbox` is the test's, as is what `options` point at; NULL: as
 * engine_kit_gateway_options() has them. */
void engine_kit_begin(struct engine_kit *kit, struct hx_list *downstream_inbox,
                      const struct hx_gateway_options *options);
/* It is gone from one moment to the next, and its store with it. */
void engine_kit_kill(struct engine_kit *kit);

/* Enough turns for everything in memory to come to rest. */
void engine_kit_turn(struct engine_kit *kit);
/* Moves both clocks; nothing runs. */
void engine_kit_pass(struct engine_kit *kit, int64_t ms);

/* Room for small tests, and nobody who is told anything. */
struct hx_gateway_options engine_kit_gateway_options(void);
/* Every tool has engine_kit_rules(); name, upstreams and context are missing. */
struct hx_server_options engine_kit_server_options(void);
struct hx_tool_rules engine_kit_rules(void);

/* Members of struct hx_upstream_ops that do nothing. */
void engine_kit_upstream_hold(struct hx_upstream *upstream, bool is_held);
void engine_kit_upstream_drop(struct hx_upstream *upstream, uint64_t tag);
const char *engine_kit_upstream_name(struct hx_upstream *upstream);

/* Frees the events that nobody took. */
void engine_kit_clear(struct hx_list *inbox);

#endif
