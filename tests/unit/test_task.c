/* SPDX-License-Identifier: MIT */
/*
 * Calls that the server runs as tasks, on the real engine with a scripted server, a scripted client
 * and the ledger in memory: what is asked when, and what may be called an outcome.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/store_memory/store_memory.h"
#include "base/alloc.h"
#include "engine/gateway.h"

enum { TEXT_MAX = 4096 };

/* One process: the gateway, its only client, and its way to the server. */
struct world {
    struct hx_clock clock;
    struct hx_rand rand;
    uint8_t random;
    struct hx_now now;
    struct hx_memory_ledger *ledger;
    struct hx_store *store;
    struct hx_gateway *gateway;
    struct hx_list upstream_inbox, downstream_inbox;
    struct hx_upstream upstream;
    struct hx_downstream downstream;
    uint32_t generation;
    enum hx_task_use task_use;
    char asked[TEXT_MAX]; /* the last request to the server, and what it went under */
    uint64_t tag;
    unsigned calls;      /* tools/call that reached the server: effects */
    char told[TEXT_MAX]; /* the last line to the client */
};

static struct world *world_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct world, upstream);
}

static struct hx_peer_event *from_server(struct world *world, enum hx_peer_event_type type,
                                         uint64_t tag, const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(type, world->generation);
    event->upstream = &world->upstream;
    event->tag = tag;
    assert_int_equal(hx_buf_append_cstr(&event->line, text), 0);
    hx_list_append(&world->upstream_inbox, &event->node);
    return event;
}

static void turn(struct world *world)
{
    for (int i = 0; i < 20; i++)
        (void)hx_gateway_turn(world->gateway);
}

/* The answer to the request in hand. */
static void answers(struct world *world, const char *member)
{
    char line[TEXT_MAX];
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%u,%s}", (unsigned)world->tag, member);
    world->asked[0] = '\0';
    from_server(world, HX_PEER_MESSAGE, world->tag, line)->is_answer = true;
    turn(world);
}

static void up_start(struct hx_upstream *upstream, uint32_t generation)
{
    world_of(upstream)->generation = generation;
    from_server(world_of(upstream), HX_PEER_STARTED, 0, "");
}

#define HELLO                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"protocolVersion\":\"2025-11-25\","               \
    "\"capabilities\":{\"tools\":{},\"tasks\":{\"requests\":{\"tools\":{\"call\":{}}}}}}}"

static void up_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct world *world = world_of(upstream);
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%.*s", (int)line->len, line->data);
    hx_buf_reset(line);
    if (tag != 0) {
        from_server(world, HX_PEER_FIRST_BYTE, tag, "");
        from_server(world, HX_PEER_WRITTEN, tag, "");
    }
    if (strstr(text, "\"initialize\"") != NULL) {
        char hello[TEXT_MAX];
        snprintf(hello, sizeof hello, HELLO, (unsigned)tag);
        from_server(world, HX_PEER_MESSAGE, tag, hello)->is_answer = true;
        return;
    }
    world->calls += strstr(text, "\"tools/call\"") != NULL;
    memcpy(world->asked, text, sizeof text);
    world->tag = tag;
}

static void up_stop(struct hx_upstream *upstream)
{
    from_server(world_of(upstream), HX_PEER_CLOSED, 0, "");
}

static void up_hold(struct hx_upstream *upstream, bool is_held)
{
    (void)upstream;
    (void)is_held;
}

static void up_drop(struct hx_upstream *upstream, uint64_t tag)
{
    (void)upstream;
    (void)tag;
}

static const char *up_name(struct hx_upstream *upstream)
{
    (void)upstream;
    return "";
}

static const struct hx_upstream_ops up_ops = {.start = up_start,
                                              .send = up_send,
                                              .stop = up_stop,
                                              .kill = up_stop,
                                              .hold = up_hold,
                                              .drop = up_drop,
                                              .transport_name = up_name};

static void down_send(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct world *world = hx_container_of(downstream, struct world, downstream);
    struct hx_peer_event *event = hx_peer_event_new(HX_PEER_WRITTEN, 0);
    snprintf(world->told, sizeof world->told, "%.*s", (int)line->len, line->data);
    hx_buf_reset(line);
    event->downstream = downstream;
    event->tag = sending->tag;
    hx_list_append(&world->downstream_inbox, &event->node);
}

static uint64_t down_queued(struct hx_downstream *downstream)
{
    (void)downstream;
    return 0;
}

static bool down_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    (void)downstream;
    (void)exchange;
    return true;
}

static void down_hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream;
    (void)is_held;
}

static void down_close(struct hx_downstream *downstream)
{
    (void)downstream;
}

static const struct hx_downstream_ops down_ops = {.send = down_send,
                                                  .queued_bytes = down_queued,
                                                  .is_reader_alive = down_alive,
                                                  .hold = down_hold,
                                                  .close = down_close};

static struct hx_now world_now(struct hx_clock *clock)
{
    return hx_container_of(clock, struct world, clock)->now;
}

static void world_fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    struct world *world = hx_container_of(rand, struct world, rand);
    for (size_t i = 0; i < len; i++)
        ret_bytes[i] = world->random++;
}

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    const struct world *world = context;
    (void)tool;
    *ret_rules = (struct hx_tool_rules){.contract = hx_contract_default(),
                                        .has_stored_arguments = true,
                                        .task_use = world->task_use,
                                        .result_max = 1 << 20,
                                        .cancel_timeout_ms = 5000};
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

static struct hx_upstream *make_upstream(void *context)
{
    return &((struct world *)context)->upstream;
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context;
    (void)upstream;
}

static void tell(void *context, enum hx_tell grade, const char *event, const char *pairs)
{
    (void)context;
    (void)grade;
    (void)event;
    (void)pairs;
}

static void says(struct world *world, const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(HX_PEER_MESSAGE, 0);
    event->downstream = &world->downstream;
    assert_int_equal(hx_buf_append_cstr(&event->line, text), 0);
    hx_list_append(&world->downstream_inbox, &event->node);
    turn(world);
}

/* A process on this ledger, and a client that has listed the tools. */
static void begin(struct world *world)
{
    hx_list_init(&world->upstream_inbox);
    hx_list_init(&world->downstream_inbox);
    world->store = hx_store_memory_open(world->ledger, (struct hx_id){{++world->random}});
    world->upstream = (struct hx_upstream){.ops = &up_ops, .inbox = &world->upstream_inbox};
    world->downstream = (struct hx_downstream){.ops = &down_ops, .inbox = &world->downstream_inbox};
    const struct hx_gateway_options options = {.message_max = 1 << 20,
                                               .orphan_timeout_ms = 60 * 1000,
                                               .waiters_max = 16,
                                               .requests_max = 64,
                                               .request_bytes_max = 1 << 20,
                                               .queue_max = 1 << 20,
                                               .tell = tell,
                                               .context = world};
    const struct hx_gateway_ports ports = {.clock = &world->clock,
                                           .rand = &world->rand,
                                           .store = world->store,
                                           .upstream_inbox = &world->upstream_inbox,
                                           .downstream_inbox = &world->downstream_inbox};
    world->gateway = hx_gateway_new(&options, &ports);
    const struct hx_server_options server = {.name = HX_SPAN_LIT("s"),
                                             .stuck_timeout_ms = 60 * 1000,
                                             .start_timeout_ms = 60 * 1000,
                                             .is_remote = true,
                                             .rules_for = rules_for,
                                             .is_predecessor_draining = nobody_drains,
                                             .relay = relay,
                                             .make_upstream = make_upstream,
                                             .free_upstream = free_upstream,
                                             .context = world};
    const struct hx_session_options session = {.server = hx_server_new(world->gateway, &server),
                                               .downstream = &world->downstream,
                                               .tenant = HX_SPAN_LIT("local"),
                                               .principal = HX_SPAN_LIT("1000")};
    assert_non_null(hx_session_new(world->gateway, &session));
    says(world, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
                "\"t\",\"version\":\"1\"}}}");
    says(world, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    says(world, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}");
    answers(world,
            "\"result\":{\"tools\":[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"},"
            "\"annotations\":{\"readOnlyHint\":true},\"execution\":{\"taskSupport\":\"required\"}},"
            "{\"name\":\"may\",\"inputSchema\":{\"type\":\"object\"},"
            "\"execution\":{\"taskSupport\":\"optional\"}}]}");
}

static void end(struct world *world)
{
    struct hx_list *inboxes[] = {&world->upstream_inbox, &world->downstream_inbox};
    struct hx_list *node;
    hx_gateway_free(world->gateway);
    hx_store_memory_kill(world->store);
    for (size_t i = 0; i < 2; i++) {
        while ((node = hx_list_take_first(inboxes[i])) != NULL)
            hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
    }
}

static void world_init_using(struct world *world, enum hx_task_use task_use)
{
    *world = (struct world){
        .clock.now = world_now, .rand.fill = world_fill, .random = 1, .task_use = task_use};
    world->now.mono.ms = 1000;
    world->now.wall.ms = 1700000000000;
    world->ledger = hx_memory_ledger_new(&world->clock);
    begin(world);
}

static void world_init(struct world *world)
{
    world_init_using(world, HX_TASK_USE_REQUIRED);
}

static void world_fini(struct world *world)
{
    end(world);
    hx_memory_ledger_free(world->ledger);
}

static void asks(const struct world *world, const char *part)
{
    if (strstr(world->asked, part) == NULL)
        fail_msg("the server was asked %s\n  not %s", world->asked, part);
}

static void hears(struct world *world, const char *part)
{
    if (strstr(world->told, part) == NULL)
        fail_msg("the client was told %s\n  not %s", world->told, part);
    world->told[0] = '\0';
}

static void waits(struct world *world, int64_t ms)
{
    world->now.mono.ms += ms;
    world->now.wall.ms += ms;
    turn(world);
}

#define PAY(id, tool)                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\",\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-" tool "\"}}}"
#define TASK(status) "{\"taskId\":\"t\\u0031\",\"status\":\"" status "\",\"pollInterval\":200}"
#define ERROR "\"error\":{\"code\":-32602,\"message\":\"m\"}"

static void accepted(struct world *world)
{
    world->told[0] = '\0';
    says(world, PAY("3", "pay"));
    asks(world, "\"task\":{\"ttl\":86400000}");
    answers(world, "\"result\":{\"task\":" TASK("working") "}");
    asks(world, "\"method\":\"tasks/result\",\"params\":{\"taskId\":\"t\\u0031\"}");
    assert_string_equal(world->told, "");
}

static void test_the_result_is_the_outcome(void **state)
{
    struct world world;
    (void)state;
    world_init(&world);
    accepted(&world);
    answers(&world, "\"result\":{\"content\":[],\"n\":1}");
    hears(&world, "\"n\":1");
    says(&world, PAY("4", "pay"));
    hears(&world, "\"replayed\":true");
    assert_int_equal(world.calls, 1);
    world_fini(&world);
}

/* The tool has failed when the task has; any other error is about the question. */
static void test_an_error_is_the_outcome_of_a_failed_task_only(void **state)
{
    struct world world;
    (void)state;
    world_init(&world);
    accepted(&world);
    answers(&world, ERROR);
    asks(&world, "\"method\":\"tasks/get\"");
    assert_string_equal(world.told, "");
    answers(&world, "\"result\":" TASK("working"));
    assert_string_equal(world.asked, "");
    waits(&world, 199);
    assert_string_equal(world.asked, "");
    waits(&world, 1);
    asks(&world, "\"method\":\"tasks/result\"");
    answers(&world, ERROR);
    answers(&world, "\"result\":" TASK("failed"));
    asks(&world, "\"method\":\"tasks/result\"");
    assert_string_equal(world.told, "");
    answers(&world, ERROR);
    hears(&world, "-32602");
    assert_int_equal(world.calls, 1);
    world_fini(&world);
}

static void test_a_task_that_cannot_be_followed_is_unknown(void **state)
{
    static const char *const ends[] = {
        "\"result\":" TASK("cancelled"),
        "\"result\":{\"taskId\":\"t1\",\"status\":\"odd\"}",
        "\"result\":{}",
        ERROR,
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct world world;
        world_init(&world);
        accepted(&world);
        answers(&world, ERROR);
        answers(&world, ends[i]);
        if (strstr(world.asked, "tasks/get") != NULL)
            answers(&world, ends[i]); /* the ladder asks once more */
        hears(&world, "OUTCOME_UNKNOWN");
        says(&world, PAY("4", "pay"));
        assert_int_equal(world.calls, 1);
        world_fini(&world);
    }
}

/* Nor is an error that is too long to hold. */
static void test_a_long_error_is_about_the_question(void **state)
{
    struct world world;
    char id[24];
    (void)state;
    world_init(&world);
    accepted(&world);
    snprintf(id, sizeof id, "%u", (unsigned)world.tag);
    from_server(&world, HX_PEER_OVERSIZE, world.tag, id)->has_error = true;
    turn(&world);
    asks(&world, "\"method\":\"tasks/get\""); /* the ladder looks for it */
    answers(&world, "\"result\":" TASK("completed"));
    answers(&world, "\"result\":{\"content\":[],\"n\":1}");
    hears(&world, "\"n\":1");
    assert_int_equal(world.calls, 1);
    world_fini(&world);
}

/* It was accepted: that a question about it is refused does not make it undone. */
static void test_a_refused_question_proves_nothing(void **state)
{
    struct world world;
    (void)state;
    world_init(&world);
    accepted(&world);
    from_server(&world, HX_PEER_REJECTED, world.tag, "")->status = 404;
    world.asked[0] = '\0';
    turn(&world);
    says(&world, PAY("4", "pay"));
    assert_int_equal(world.calls, 1);
    world_fini(&world);
}

/* The next process asks for the task that the ledger names. */
static void test_the_next_process_goes_on(void **state)
{
    struct world world;
    (void)state;
    world_init(&world);
    accepted(&world);
    /* The stream on which we ask is not the one that the call was made on. */
    from_server(&world, HX_PEER_RESUME_POINT, world.tag, "a stream");
    turn(&world);
    waits(&world, 100);
    end(&world);
    begin(&world);
    says(&world, PAY("3", "pay"));
    asks(&world, "\"method\":\"tasks/get\",\"params\":{\"taskId\":\"t\\u0031\"}");
    answers(&world, "\"result\":" TASK("working"));
    asks(&world, "\"method\":\"tasks/result\"");
    answers(&world, "\"result\":{\"content\":[],\"n\":1}");
    hears(&world, "\"n\":1");
    assert_int_equal(world.calls, 1);
    world_fini(&world);
}

static void test_a_task_is_asked_for_where_it_must_be(void **state)
{
    static const struct {
        enum hx_task_use use;
        bool pay, may;
    } cases[] = {
        {HX_TASK_USE_REQUIRED, true, false},
        {HX_TASK_USE_OFFERED, true, true},
        {HX_TASK_USE_NEVER, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        world_init_using(&world, cases[i].use);
        says(&world, PAY("3", "pay"));
        assert_int_equal(strstr(world.asked, "\"task\"") != NULL, cases[i].pay);
        answers(&world, "\"result\":{\"content\":[]}");
        says(&world, PAY("4", "may"));
        assert_int_equal(strstr(world.asked, "\"task\"") != NULL, cases[i].may);
        world_fini(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_result_is_the_outcome),
        cmocka_unit_test(test_an_error_is_the_outcome_of_a_failed_task_only),
        cmocka_unit_test(test_a_task_that_cannot_be_followed_is_unknown),
        cmocka_unit_test(test_a_long_error_is_about_the_question),
        cmocka_unit_test(test_a_refused_question_proves_nothing),
        cmocka_unit_test(test_the_next_process_goes_on),
        cmocka_unit_test(test_a_task_is_asked_for_where_it_must_be),
    };
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
