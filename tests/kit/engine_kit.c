/* SPDX-License-Identifier: MIT */
#include "engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct hx_now kit_clock_now(struct hx_clock *clock)
{
    return hx_container_of(clock, struct engine_kit, clock)->now;
}

static void kit_rand_fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    struct engine_kit *kit = hx_container_of(rand, struct engine_kit, rand);
    for (size_t i = 0; i < len; i++) {
        kit->random = kit->random * 6364136223846793005u + 1442695040888963407u;
        ret_bytes[i] = (uint8_t)(kit->random >> 56);
    }
}

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    (void)context;
    (void)tool;
    *ret_rules = engine_kit_rules();
}

static bool nobody_drains(void *context)
{
    (void)context;
    return false;
}

static void relay(void *context, struct hx_span line)
{
    (void)context;
    (void)line;
}

static void tell(void *context, enum hx_tell grade, const char *event, const char *pairs)
{
    (void)context;
    (void)grade;
    (void)event;
    (void)pairs;
}

struct hx_gateway_options engine_kit_gateway_options(void)
{
    return (struct hx_gateway_options){.message_max = 1 << 20,
                                       .orphan_timeout_ms = 60 * 1000,
                                       .waiters_max = 16,
                                       .requests_max = 64,
                                       .request_bytes_max = 1 << 20,
                                       .queue_max = 1 << 20,
                                       .tell = tell};
}

struct hx_server_options engine_kit_server_options(void)
{
    return (struct hx_server_options){.stuck_timeout_ms = 60 * 1000,
                                      .start_timeout_ms = 60 * 1000,
                                      .rules_for = rules_for,
                                      .is_predecessor_draining = nobody_drains,
                                      .relay = relay};
}

struct hx_tool_rules engine_kit_rules(void)
{
    return (struct hx_tool_rules){.contract = hx_contract_default(),
                                  .has_stored_arguments = true,
                                  .result_max = 1 << 20,
                                  .cancel_timeout_ms = 5000};
}

void engine_kit_upstream_hold(struct hx_upstream *upstream, bool is_held)
{
    (void)upstream;
    (void)is_held;
}

void engine_kit_upstream_drop(struct hx_upstream *upstream, uint64_t tag)
{
    (void)upstream;
    (void)tag;
}

const char *engine_kit_upstream_name(struct hx_upstream *upstream)
{
    (void)upstream;
    return "";
}

void engine_kit_clear(struct hx_list *inbox)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

void engine_kit_init(struct engine_kit *kit)
{
    *kit = (struct engine_kit){.clock.now = kit_clock_now, .rand.fill = kit_rand_fill};
    kit->now.mono.ms = 1000;
    kit->now.wall.ms = 1700000000000;
    hx_list_init(&kit->upstream_inbox);
    kit->ledger = hx_memory_ledger_new(&kit->clock);
}

void engine_kit_fini(struct engine_kit *kit)
{
    if (kit->store != NULL)
        engine_kit_kill(kit);
    hx_memory_ledger_free(kit->ledger);
}

void engine_kit_begin(struct engine_kit *kit, struct hx_list *downstream_inbox,
                      const struct hx_gateway_options *options)
{
    const struct hx_gateway_options plain = engine_kit_gateway_options();
    struct hx_id owner = {{0}};
    assert_null(kit->store);
    hx_rand_fill(&kit->rand, owner.bytes, sizeof(owner.bytes));
    kit->store = hx_store_memory_open(kit->ledger, owner);
    const struct hx_gateway_ports ports = {.clock = &kit->clock,
                                           .rand = &kit->rand,
                                           .store = kit->store,
                                           .upstream_inbox = &kit->upstream_inbox,
                                           .downstream_inbox = downstream_inbox};
    kit->gateway = hx_gateway_new(options != NULL ? options : &plain, &ports);
}

void engine_kit_kill(struct engine_kit *kit)
{
    hx_gateway_free(kit->gateway);
    hx_store_memory_kill(kit->store);
    engine_kit_clear(&kit->upstream_inbox);
    kit->gateway = NULL;
    kit->store = NULL;
}

void engine_kit_turn(struct engine_kit *kit)
{
    for (int i = 0; i < 20; i++)
        (void)hx_gateway_turn(kit->gateway);
}

void engine_kit_pass(struct engine_kit *kit, int64_t ms)
{
    kit->now.mono.ms += ms;
    kit->now.wall.ms += ms;
}
