/* SPDX-License-Identifier: MIT */
/*
 * Time, the life of a gateway, and the store in front of the ledger, which may be slow: what it
 * holds has not reached the disk, or has, and nobody was told.
 */
#include "tests/fuzz/world/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/internal.h"
#include "sim/sim.h"

/* ---- time and chance ---- */

static struct hx_now read_clock(struct hx_clock *clock)
{
    const struct world *world = hx_container_of(clock, struct world, clock);
    const int64_t epoch_ms = 1790000000000;
    struct hx_now now = {.mono = {100000 + world->now_ms}, .wall = {epoch_ms + world->now_ms}};
    now.boot.bytes[0] = 1;
    return now;
}

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    struct world *world = hx_container_of(rand, struct world, rand);
    for (size_t i = 0; i < len; i++) {
        world->chance = world->chance * 6364136223846793005u + 1442695040888963407u;
        ret_bytes[i] = (uint8_t)(world->chance >> 33);
    }
}

/* ---- the store ---- */

static struct world *world_of(struct hx_store *store)
{
    return hx_container_of(store, struct world, store);
}

static void submit(struct hx_store *store, struct hx_store_request *request)
{
    hx_list_append(&world_of(store)->store_batch, &request->node);
}

static void commit(struct world *world)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&world->store_held)) != NULL)
        world->disk->ops->submit(world->disk, hx_container_of(node, struct hx_store_request, node));
    world->disk->ops->flush(world->disk);
    world_judge_rows(world);
}

static void collect(struct world *world)
{
    struct hx_store_request *done;
    while ((done = world->disk->ops->take_done(world->disk)) != NULL)
        hx_list_append(&world->store_done, &done->node);
}

static void flush(struct hx_store *store)
{
    struct world *world = world_of(store);
    hx_list_splice(&world->store_held, &world->store_batch);
    if (world->store_mode != WORLD_STORE_HELD)
        commit(world);
    if (world->store_mode == WORLD_STORE_AT_ONCE)
        collect(world);
}

void world_store_work(struct world *world)
{
    if (world->disk == NULL)
        return;
    commit(world);
    collect(world);
}

static struct hx_store_request *take_done(struct hx_store *store)
{
    struct hx_list *node = hx_list_take_first(&world_of(store)->store_done);
    return node != NULL ? hx_container_of(node, struct hx_store_request, node) : NULL;
}

static int wake_fd(struct hx_store *store)
{
    (void)store;
    return -1;
}

static struct hx_id owner(struct hx_store *store)
{
    return world_of(store)->owner;
}

static struct hx_wall low_water(struct hx_store *store)
{
    return world_of(store)->disk->ops->low_water(world_of(store)->disk);
}

static const char *refusal(struct hx_store *store)
{
    return world_of(store)->disk->ops->refusal(world_of(store)->disk);
}

static struct hx_gap gap(struct hx_store *store)
{
    return world_of(store)->disk->ops->gap(world_of(store)->disk);
}

static void drop(struct hx_list *list)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(list)) != NULL)
        hx_store_request_free(hx_container_of(node, struct hx_store_request, node));
}

static void close_store(struct hx_store *store)
{
    (void)store; /* the world ends it */
}

static const struct hx_store_ops store_ops = {
    .submit = submit,
    .flush = flush,
    .take_done = take_done,
    .wake_fd = wake_fd,
    .owner = owner,
    .low_water = low_water,
    .refusal = refusal,
    .gap = gap,
    .close = close_store,
};

/* ---- the operator's word ---- */

/* By the first letter, so that a name may be any bytes. */
static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    static const struct hx_no_effect_rule no_effect[] = {
        {.is_code = true, .code = -32010}, {.is_code = true, .code = -32011, .is_transient = true}};
    const struct hx_probe probe = {
        .tool = HX_SPAN_LIT("open"),
        .arguments = HX_SPAN_LIT("{\"key\":\"${effect_key}\"}"),
        .match = HX_PROBE_COUNT,
        .pointer = HX_SPAN_LIT("/content"),
        .comparison = HX_CMP_GE,
        .value = HX_SPAN_LIT("1"),
    };
    struct hx_tool_rules rules = {
        .contract = hx_contract_default(),
        .is_class_declared = true,
        .has_replay_note = true,
        .has_stored_arguments = true,
        .task_use = HX_TASK_USE_OFFERED,
        .no_effect = no_effect,
        .no_effect_count = 2,
        .result_max = WORLD_RESULT_MAX,
        .cancel_timeout_ms = 5000,
    };
    struct hx_contract *contract = &rules.contract;
    (void)context;
    contract->orphan_timeout_ms = 60 * 1000;
    contract->join_wait_ms = 5000;
    switch (tool.len > 0 ? tool.ptr[0] : ' ') {
    case 's':
        contract->tool_class = HX_CLASS_IDEMPOTENT;
        contract->timeout_ms = 20 * 1000;
        break;
    case 'b':
        contract->tool_class = HX_CLASS_KEYED;
        contract->dedupe_horizon_ms = 10 * 60 * 1000;
        rules.effect_key_meta = HX_SPAN_LIT("effectKey");
        break;
    case 'w':
        contract->repeat = HX_REPEAT_WINDOW;
        contract->cancel_upstream = HX_CANCEL_UPSTREAM_ALWAYS;
        break;
    case 'q':
        contract->repeat = HX_REPEAT_ASK;
        contract->fresh_key = HX_FRESH_KEY_ASK;
        break;
    case 'k':
        contract->repeat = HX_REPEAT_REQUIRE_KEY;
        rules.key_argument = HX_SPAN_LIT("/k");
        break;
    case 'a':
        contract->approval = HX_APPROVAL_ALWAYS;
        break;
    case 'n':
        contract->repeat = HX_REPEAT_SEPARATE;
        contract->idle_timeout_ms = 10 * 1000;
        rules.inject_key = HX_SPAN_LIT("/k");
        break;
    case 'f':
    case 'g':
        contract->has_probe = true;
        contract->retries_after_proof = tool.ptr[0] == 'g';
        contract->in_flight_bound_ms = 2000;
        rules.probe = probe;
        break;
    case 'o':
        contract->tool_class = HX_CLASS_READ_ONLY;
        contract->timeout_ms = 20 * 1000;
        break;
    default:
        break;
    }
    *ret_rules = rules;
}

static void relay(void *context, struct hx_span line)
{
    (void)context;
    (void)line;
}

static bool nobody_drains(void *context)
{
    (void)context;
    return false;
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context;
    world_way_free(hx_container_of(upstream, struct world_way, upstream));
}

static void tell(void *context, enum hx_tell grade, const char *event, const char *pairs)
{
    (void)context;
    (void)grade;
    if (getenv("HX_FUZZ_TRACE") != NULL)
        fprintf(stderr, "  %s %s\n", event, pairs);
}

/* ---- one life ---- */

void world_life_begin(struct world *world)
{
    uint8_t random[10];
    hx_rand_fill(&world->rand, random, sizeof random);
    world->owner = hx_id_make(hx_clock_now(&world->clock).wall, random);
    world->life++;
    world->store.ops = &store_ops;
    world->disk = hx_store_memory_open(world->ledger, world->owner);
    const struct hx_gateway_options options = {
        .issue_secret = HX_SPAN_LIT("0123456789abcdef0123456789abcdef"),
        .ends_with_client = !world->is_web,
        .message_max = WORLD_MESSAGE_MAX,
        .orphan_timeout_ms = 60 * 1000,
        .waiters_max = 4,
        .requests_max = 16,
        .request_bytes_max = UINT64_MAX,
        .queue_max = 16 * 1024,
        .tell_max = HX_TELL_DEBUG,
        .tell = tell,
        .session_over = world_session_over,
        .context = world,
    };
    const struct hx_gateway_ports ports = {
        .clock = &world->clock,
        .rand = &world->rand,
        .store = &world->store,
        .upstream_inbox = &world->upstream_inbox,
        .downstream_inbox = &world->downstream_inbox,
    };
    world->gateway = hx_gateway_new(&options, &ports);
    const struct hx_server_options server = {
        .name = HX_SPAN_LIT("bank"),
        .hints = HX_HINTS_READ_ONLY,
        .offers_operation = true,
        .offers_begin = true,
        .offers_resolve = true,
        .issued_key_lifetime_ms = 60 * 60 * 1000,
        .stuck_timeout_ms = 60 * 1000,
        .start_timeout_ms = 60 * 1000,
        .is_remote = world->is_remote,
        .rules_for = rules_for,
        .relay = relay,
        .is_predecessor_draining = nobody_drains,
        .make_upstream = world_way_new,
        .free_upstream = free_upstream,
        .context = world,
    };
    world->server = hx_server_new(world->gateway, &server);
    world->limits = world->gateway->limits; /* the same words are messages to both */
    world->limits.record_depth_max = HX_RPC_RECORD_DEPTH;
    world->wake_at = world->now_ms;
}

static void drop_events(struct hx_list *inbox)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

/* Whatever it had in hand is lost with it, and its children die. */
static void life_end(struct world *world)
{
    if (world->gateway == NULL)
        return;
    world->is_freeing = true;
    world->gateway = hx_gateway_free(world->gateway);
    world->is_freeing = false;
    drop(&world->store_batch);
    drop(&world->store_held);
    drop(&world->store_done);
    hx_store_memory_kill(world->disk);
    world->disk = NULL;
    drop_events(&world->upstream_inbox);
    drop_events(&world->downstream_inbox);
    hx_list_for_each_safe (at, &world->ways)
        world_way_free(hx_container_of(at, struct world_way, node));
    world_doors_cut(world);
}

void world_life_again(struct world *world)
{
    if (world->life >= WORLD_LIVES_MAX || world->door_count >= WORLD_DOORS_MAX)
        return;
    life_end(world);
    world_life_begin(world);
    world->door = world_door_new(world);
}

void world_init(struct world *world)
{
    world->clock.now = read_clock;
    world->rand.fill = fill;
    world->chance = 1;
    world->hasher = hx_hasher_new();
    hx_json_tape_init(&world->tape);
    hx_json_tape_init(&world->tape2);
    hx_arena_init(&world->arena, 1 << 22);
    hx_list_init(&world->store_batch);
    hx_list_init(&world->store_held);
    hx_list_init(&world->store_done);
    hx_list_init(&world->upstream_inbox);
    hx_list_init(&world->downstream_inbox);
    hx_list_init(&world->doors);
    hx_list_init(&world->ways);
    world->ledger = hx_memory_ledger_new(&world->clock);
    hx_memory_ledger_keep_outbox(world->ledger);
    world_life_begin(world);
    world->door = world_door_new(world);
    world_settle(world);
}

void world_fini(struct world *world)
{
    life_end(world);
    hx_list_for_each_safe (at, &world->doors)
        world_door_free(hx_container_of(at, struct world_door, node));
    hx_memory_ledger_free(world->ledger);
    hx_json_tape_fini(&world->tape);
    hx_json_tape_fini(&world->tape2);
    hx_arena_fini(&world->arena);
    hx_hasher_free(world->hasher);
}

static bool is_due(const struct world *world)
{
    return world->gateway != NULL &&
           ((world->wake_at >= 0 && world->wake_at <= world->now_ms) ||
            !hx_list_is_empty(&world->upstream_inbox) ||
            !hx_list_is_empty(&world->downstream_inbox) || !hx_list_is_empty(&world->store_done));
}

/* In good order: no process may be left, and nothing that was told to end. */
static void end_if_done(struct world *world)
{
    if (!hx_gateway_is_done(world->gateway))
        return;
    hx_list_for_each (at, &world->ways) {
        enum world_way_state state = hx_container_of(at, struct world_way, node)->state;
        bool is_process = state == WORLD_WAY_RUNNING && !world->is_remote;
        if (is_process || state == WORLD_WAY_ENDING)
            world_fail(world, "the gateway ended and left its server running");
    }
    hx_list_for_each (at, &world->doors)
        world_judge_door(hx_container_of(at, struct world_door, node));
    life_end(world);
}

void world_settle(struct world *world)
{
    enum { TURNS_MAX = 500 };
    if (world->is_settling)
        return; /* whoever speaks there is heard in the next turn */
    world->is_settling = true;
    for (int i = 0; is_due(world); i++) {
        if (i == TURNS_MAX)
            world_fail(world, "the gateway does not stop turning");
        int64_t wait_ms = hx_gateway_turn(world->gateway);
        world->wake_at = wait_ms < 0 ? -1 : world->now_ms + wait_ms;
        sim_look_check(world->gateway);
        end_if_done(world);
        if (world->is_calm)
            world_server_answer_all(world);
    }
    world->is_settling = false;
}

/* What was told to end does so when time passes. */
static void end_servers(struct world *world)
{
    hx_list_for_each (at, &world->ways) {
        struct world_way *way = hx_container_of(at, struct world_way, node);
        if (way->state == WORLD_WAY_ENDING)
            world_server_die(way, 0);
    }
    world_settle(world);
}

void world_pass(struct world *world, int64_t ms)
{
    int64_t until = world->now_ms + ms;
    world_settle(world);
    while (world->now_ms < until) {
        end_servers(world);
        bool is_sooner = world->gateway != NULL && world->wake_at >= 0 && world->wake_at < until;
        world->now_ms = is_sooner ? world->wake_at : until;
        world_settle(world);
    }
}

void world_mangle(struct world *world, char *text, size_t *len)
{
    if (!world->must_mangle || *len == 0)
        return;
    world->must_mangle = false;
    size_t at = *len * world->mangle_at / 96;
    if (world->mangle_with == 0)
        *len = at;
    else
        text[at] = (char)(text[at] ^ world->mangle_with);
}

void world_calm(struct world *world)
{
    /* More than twice what any contract here waits for, and until an unknown outcome is told. */
    const int64_t calm_ms = 20 * 60 * 1000;
    if (world->gateway == NULL)
        return;
    world->is_calm = true;
    world->must_mangle = false;
    world->bad_starts = world->not_sent = 0;
    world->is_front_slow = false;
    world->store_mode = WORLD_STORE_AT_ONCE;
    hx_memory_ledger_fail_at(world->ledger, 0, HX_MEMORY_REFUSE);
    hx_memory_ledger_break(world->ledger, false, false);
    hx_memory_ledger_settle(world->ledger);
    world_store_work(world);
    world_settle(world);
    hx_list_for_each (at, &world->ways) {
        struct world_way *way = hx_container_of(at, struct world_way, node);
        world_server_stall(way, false);
        if (!world->is_remote)
            world_server_line(way, HX_SPAN_LIT("\n")); /* behind half a line */
    }
    hx_list_for_each (at, &world->doors) {
        struct world_door *door = hx_container_of(at, struct world_door, node);
        world_client_write(door);
        if (!world->is_web)
            world_client_line(door, HX_SPAN_LIT("\n"));
    }
    world_server_answer_all(world);
    world_pass(world, calm_ms);
    world_judge_end(world);
}
