/* SPDX-License-Identifier: MIT */
/*
 * The merge on the real engine: two servers in memory, a client in memory, the ledger in memory.
 * What merge.stories says of legs is what the engine does with them: one effect for a call that is
 * cancelled and repeated, a server that cannot be started and comes back, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine_kit.h"
#include "merge_kit.h"
#include "wire/rewrite.h"

static const char *const two[] = {"files=files_", "web=web_", NULL};

/* --- servers --- */

struct toy {
    struct hx_upstream upstream;
    struct hx_list *inbox;
    uint32_t generation;
    bool is_broken; /* it cannot be started */
    bool is_silent; /* calls are not answered until it is told so */
    bool is_freed;
    unsigned calls; /* effects */
    unsigned cancels;
    struct hx_buf owed; /* an answer that is not given yet */
};

static struct hx_peer_event *toy_tell(struct toy *toy, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, toy->generation);
    event->upstream = &toy->upstream;
    event->tag = tag;
    hx_list_append(toy->inbox, &event->node);
    return event;
}

static void toy_start(struct hx_upstream *upstream, uint32_t generation)
{
    struct toy *toy = hx_container_of(upstream, struct toy, upstream);
    toy->generation = generation;
    toy_tell(toy, toy->is_broken ? HX_PEER_CLOSED : HX_PEER_STARTED, 0)->status = 1 << 8;
}

static void toy_answers(struct toy *toy, struct hx_span line)
{
    struct hx_peer_event *event = toy_tell(toy, HX_PEER_MESSAGE, 0);
    assert_int_equal(hx_buf_append_span(&event->line, line), 0);
}

static void toy_takes(struct toy *toy, const struct hx_rpc_msg *msg)
{
    const char *result = "{}";
    char call[64];
    struct hx_buf line;

    if (hx_span_eq_cstr(msg->method, "notifications/cancelled"))
        toy->cancels++;
    if (msg->kind != HX_RPC_REQUEST)
        return;
    if (hx_span_eq_cstr(msg->method, "initialize")) {
        result = "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}}}";
    } else if (hx_span_eq_cstr(msg->method, "tools/list")) {
        result = "{\"tools\":[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]}";
    } else if (hx_span_eq_cstr(msg->method, "tools/call")) {
        snprintf(call, sizeof call, "{\"content\":[],\"effect\":%u}", ++toy->calls);
        result = call;
    }
    hx_buf_init(&line, 1 << 20);
    assert_int_equal(hx_rewrite_build_result(&line, msg->id.raw, hx_span_cstr(result)), 0);
    if (result == call && toy->is_silent) {
        hx_buf_fini(&toy->owed);
        toy->owed = line;
        return;
    }
    toy_answers(toy, hx_buf_span(&line));
    hx_buf_fini(&line);
}

static void toy_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct toy *toy = hx_container_of(upstream, struct toy, upstream);
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_rpc_msg msg;

    toy_tell(toy, HX_PEER_FIRST_BYTE, tag);
    toy_tell(toy, HX_PEER_WRITTEN, tag);
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 1 << 20);
    assert_int_equal(hx_rpc_read(&tape, hx_buf_span(line), &limits, &arena, &msg), 0);
    toy_takes(toy, &msg);
    hx_json_tape_fini(&tape);
    hx_arena_fini(&arena);
    hx_buf_fini(line);
}

static void toy_stop(struct hx_upstream *upstream)
{
    toy_tell(hx_container_of(upstream, struct toy, upstream), HX_PEER_CLOSED, 0);
}

static const struct hx_upstream_ops toy_ops = {.start = toy_start,
                                               .send = toy_send,
                                               .stop = toy_stop,
                                               .kill = toy_stop,
                                               .hold = engine_kit_upstream_hold,
                                               .transport_name = engine_kit_upstream_name};

/* One behind a transport with exchanges. */
static const struct hx_upstream_ops remote_toy_ops = {.start = toy_start,
                                                      .send = toy_send,
                                                      .stop = toy_stop,
                                                      .kill = toy_stop,
                                                      .hold = engine_kit_upstream_hold,
                                                      .drop = engine_kit_upstream_drop,
                                                      .transport_name = engine_kit_upstream_name};

/* --- the world --- */

struct world {
    struct engine_kit engine;
    struct merge_kit kit;
    struct toy toys[2];
};

static struct hx_upstream *make_upstream(void *context)
{
    struct toy *toy = context;
    return &toy->upstream;
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    struct toy *toy = context;
    assert_ptr_equal(upstream, &toy->upstream);
    toy->is_freed = true;
}

static void session_over(void *context, struct hx_downstream *downstream, bool is_ended)
{
    (void)is_ended;
    struct hx_merge *merge = hx_merge_of_leg(downstream);
    (void)context;
    assert_non_null(merge);
    hx_merge_leg_over(merge, downstream);
}

/* As the program's loop does it. */
static void turn(struct world *world)
{
    for (int i = 0; i < 20; i++) {
        (void)hx_merge_take(&world->kit.outer_inbox);
        (void)hx_gateway_turn(world->engine.gateway);
    }
}

static void open_servers(struct world *world, bool is_broken)
{
    static const char *const names[] = {"files", "web"};
    for (size_t i = 0; i < 2; i++) {
        struct toy *toy = &world->toys[i];
        *toy =
            (struct toy){.inbox = &world->engine.upstream_inbox, .is_broken = is_broken && i == 0};
        toy->upstream = (struct hx_upstream){.ops = &toy_ops, .inbox = toy->inbox};
        hx_buf_init(&toy->owed, 1 << 20);
        struct hx_server_options options = engine_kit_server_options();
        options.name = hx_span_cstr(names[i]);
        options.make_upstream = make_upstream;
        options.free_upstream = free_upstream;
        options.context = toy;
        const struct hx_session_options session = {
            .server = hx_server_new(world->engine.gateway, &options),
            .downstream = hx_merge_leg(world->kit.merge, i),
            .tenant = HX_SPAN_LIT("local"),
            .principal = HX_SPAN_LIT("1000"),
        };
        assert_non_null(hx_session_new(world->engine.gateway, &session));
    }
}

/* `is_broken`: the first server cannot be started. */
/* `merge_options` may be NULL. */
static void world_init_with(struct world *world, bool has_exchanges, bool is_broken,
                            const struct hx_merge_options *merge_options)
{
    struct hx_gateway_options options = engine_kit_gateway_options();
    options.session_over = session_over;
    *world = (struct world){0};
    engine_kit_init(&world->engine);
    merge_kit_init(&world->kit, has_exchanges, two, merge_options);
    engine_kit_begin(&world->engine, &world->kit.leg_inbox, &options);
    open_servers(world, is_broken);
}

static void world_init(struct world *world, bool has_exchanges, bool is_broken)
{
    world_init_with(world, has_exchanges, is_broken, NULL);
}

static void world_fini(struct world *world)
{
    engine_kit_fini(&world->engine);
    for (size_t i = 0; i < 2; i++)
        hx_buf_fini(&world->toys[i].owed);
    merge_kit_fini(&world->kit);
}

static void event(struct world *world, enum hx_peer_event_type type, uint64_t exchange,
                  uint64_t tag, const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &world->kit.outer;
    event->exchange = exchange;
    event->tag = tag;
    assert_int_equal(hx_buf_append_cstr(&event->line, text), 0);
    hx_list_append(&world->kit.outer_inbox, &event->node);
    turn(world);
}

static void says(struct world *world, uint64_t exchange, const char *text)
{
    event(world, HX_PEER_MESSAGE, exchange, 0, text);
}

/* The client's next message is on this exchange and holds this text. */
static void hears(struct world *world, uint64_t exchange, const char *part)
{
    struct merge_kit_word *word = merge_kit_take(&world->kit.said);
    if (word == NULL)
        fail_msg("nothing came, but %s was to", part);
    if (word->exchange != exchange || strstr(word->text, part) == NULL)
        fail_msg("on %u came %s\n  not on %u: %s", (unsigned)word->exchange, word->text,
                 (unsigned)exchange, part);
    merge_kit_word_free(word);
}

static void hears_nothing(struct world *world)
{
    struct merge_kit_word *word = merge_kit_take(&world->kit.said);
    if (word != NULL)
        fail_msg("the client also got %s", word->text);
}

#define ASK                                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define READY "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define LIST(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/list\"}"
#define PAY(id, name)                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name    \
    "\",\"arguments\":{\"to\":1}}}"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id    \
    ",\"reason\":\"Request timed out\"}}"

static void begin(struct world *world, bool has_exchanges)
{
    uint64_t settled = has_exchanges ? 2 : 0;
    says(world, has_exchanges, ASK);
    hears(world, has_exchanges, "\"protocolVersion\":\"2025-06-18\"");
    says(world, settled, READY);
    if (has_exchanges)
        hears(world, 2, "");
    hears_nothing(world);
}

/* The promise of the whole: a timeout, its cancel and a repeat are one effect. */
static void one_effect(struct world *world, uint64_t step)
{
    says(world, 3 * step, PAY("5", "web_pay"));
    assert_int_equal(world->toys[1].calls, 1);
    says(world, 4 * step, CANCEL("5"));
    if (step > 0) {
        hears(world, 4, ""); /* settled: there is nothing to wait for */
        hears(world, 3, "");
    }
    hears_nothing(world);
    says(world, 5 * step, PAY("6", "web_pay"));
    hears_nothing(world);
    world->toys[1].is_silent = false;
    toy_answers(&world->toys[1], hx_buf_span(&world->toys[1].owed));
    turn(world);
    hears(world, 5 * step, "\"id\":6,\"result\":{\"content\":[");
    hears_nothing(world);
    assert_int_equal(world->toys[1].calls, 1);
    assert_int_equal(world->toys[0].calls, 0);
    event(world, HX_PEER_WRITTEN, 0, world->kit.last_outer_tag, "");
}

static void test_a_repeated_call_has_one_effect(void **state)
{
    (void)state;
    for (int has_exchanges = 0; has_exchanges < 2; has_exchanges++) {
        struct world world;
        world_init(&world, has_exchanges == 1, false);
        world.toys[1].is_silent = true;
        begin(&world, has_exchanges == 1);
        one_effect(&world, (uint64_t)has_exchanges);
        /* After that one was read, an equal call is meant anew. */
        says(&world, 6 * (uint64_t)has_exchanges, PAY("7", "web_pay"));
        hears(&world, 6 * (uint64_t)has_exchanges, "\"effect\":2");
        assert_int_equal(world.toys[1].calls, 2);
        world_fini(&world);
    }
}

/* An answer that was never read is given again. */
static void test_a_lost_answer_is_given_again(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, false);
    begin(&world, true);
    says(&world, 3, PAY("5", "files_pay"));
    hears(&world, 3, "\"effect\":1");
    event(&world, HX_PEER_NOT_SENT, 0, world.kit.last_outer_tag, "");
    says(&world, 4, PAY("6", "files_pay"));
    hears(&world, 4, "\"effect\":1");
    assert_int_equal(world.toys[0].calls, 1);
    world_fini(&world);
}

static void test_equal_names_are_different_tools(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, false);
    begin(&world, true);
    says(&world, 3, LIST("4"));
    hears(&world, 3,
          "{\"tools\":[{\"name\":\"files_pay\",\"inputSchema\":{\"type\":\"object\"}},"
          "{\"name\":\"web_pay\",\"inputSchema\":{\"type\":\"object\"}}]}");
    says(&world, 4, PAY("5", "files_pay"));
    hears(&world, 4, "\"effect\":1");
    says(&world, 5, PAY("6", "web_pay"));
    hears(&world, 5, "\"effect\":1");
    assert_int_equal(world.toys[0].calls, 1);
    assert_int_equal(world.toys[1].calls, 1);
    hears_nothing(&world);
    world_fini(&world);
}

static void test_a_server_comes_back(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, true);
    turn(&world);
    says(&world, 1, ASK);
    hears(&world, 1,
          "Server \\\"files\\\"\\nIt is not available now: The tool server is not "
          "running. It ended with exit status 1.");
    says(&world, 2, READY);
    hears(&world, 2, "");
    world.toys[0].is_broken = false;
    engine_kit_pass(&world.engine, 60 * 1000);
    says(&world, 3, LIST("4"));
    hears(&world, 3, "\"result\":{\"tools\":[{\"name\":\"web_pay\"");
    hears(&world, 0, "notifications/tools/list_changed");
    hears(&world, 0, "notifications/prompts/list_changed");
    hears(&world, 0, "notifications/resources/list_changed");
    says(&world, 4, LIST("5"));
    hears(&world, 4, "\"result\":{\"tools\":[{\"name\":\"files_pay\"");
    says(&world, 5, PAY("6", "files_pay"));
    hears(&world, 5, "\"effect\":1");
    hears_nothing(&world);
    world_fini(&world);
}

static void test_the_end_of_a_session(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, false);
    world.toys[1].is_silent = true;
    begin(&world, true);
    says(&world, 3, PAY("5", "web_pay"));
    event(&world, HX_PEER_ENDED, 0, 0, "");
    assert_true(hx_merge_is_over(world.kit.merge));
    hears_nothing(&world);
    assert_int_equal(world.toys[1].calls, 1); /* it goes on to its outcome */
    world_fini(&world);
}

/* Its server forgot the session in mid-call and its client has left: the answer that still comes is
 * the outcome all the same, so the link is there to hear it. */
static void test_the_end_of_a_forgotten_session(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, false);
    world.toys[1].upstream.ops = &remote_toy_ops;
    world.toys[1].is_silent = true;
    begin(&world, true);
    says(&world, 3, PAY("5", "web_pay"));
    event(&world, HX_PEER_ENDED, 0, 0, "");
    toy_tell(&world.toys[1], HX_PEER_SESSION_LOST, 0);
    turn(&world);
    assert_false(world.toys[1].is_freed);
    toy_answers(&world.toys[1], hx_buf_span(&world.toys[1].owed));
    turn(&world);
    assert_true(world.toys[1].is_freed);
    assert_int_equal(hx_memory_ledger_row(world.engine.ledger, 0)->state, HX_OP_SUCCEEDED);
    world_fini(&world);
}

/* The operator ends sessions under calls: what one of them was sent is unknown, and what came after
 * its end went nowhere. */
static void test_a_session_that_is_ended_here(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, true, false);
    world.toys[1].is_silent = true;
    begin(&world, true);
    says(&world, 3, PAY("5", "web_pay"));
    assert_int_equal(world.toys[1].calls, 1);
    struct hx_session *session = hx_merge_leg(world.kit.merge, 1)->owner;
    struct hx_peer_event *late = hx_peer_event_new(HX_PEER_MESSAGE, 0);
    late->downstream = &world.kit.outer;
    late->exchange = 4;
    assert_int_equal(hx_buf_append_cstr(&late->line, PAY("6", "web_pay")), 0);
    hx_list_append(&world.kit.outer_inbox, &late->node);
    (void)hx_merge_take(&world.kit.outer_inbox);
    hx_session_end(session);
    turn(&world);
    hears(&world, 4,
          "nothing was sent. Repeat the request in a new session.\",\"data\":" HX_MCP_OWN_ERROR(
              "UPSTREAM_UNAVAILABLE", "true", "false"));
    hears(&world, 3,
          "\"isError\":true,\"_meta\":{\"dev.hapax/operation\":{\"code\":"
          "\"OUTCOME_UNKNOWN\"");
    assert_int_equal(world.toys[1].calls, 1);
    world_fini(&world);
}

/* The handshake changes nothing, so it is not called unknown, and a gateway before us knows the
 * word for ours. */
static void test_a_welcome_too_long_is_no_answer(void **state)
{
    struct hx_merge_options options = hx_merge_defaults();
    struct world world;

    (void)state;
    options.message_max_bytes = 250;
    world_init_with(&world, true, false, &options);
    says(&world, 1, ASK);
    hears(&world, 1, "\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true"));
    hears_nothing(&world);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_repeated_call_has_one_effect),
        cmocka_unit_test(test_a_lost_answer_is_given_again),
        cmocka_unit_test(test_equal_names_are_different_tools),
        cmocka_unit_test(test_a_server_comes_back),
        cmocka_unit_test(test_the_end_of_a_session),
        cmocka_unit_test(test_the_end_of_a_forgotten_session),
        cmocka_unit_test(test_a_session_that_is_ended_here),
        cmocka_unit_test(test_a_welcome_too_long_is_no_answer),
    };
    return cmocka_run_group_tests_name("merge_gateway", tests, NULL, NULL);
}
