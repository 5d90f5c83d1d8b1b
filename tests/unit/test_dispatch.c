/* SPDX-License-Identifier: MIT */
/*
 * By which process an attempt goes: on the real engine, with a process of its own for each session,
 * whose lines are the test's, and the ledger in memory.
 *
 * Whoever asks later whether the sender is gone asks by the name in the claim. So what goes to a
 * process was claimed in its name, whatever happens between: peer_takes() looks at every call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine_kit.h"

#define PAY(id)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","   \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"

/* The third is there for probes that nobody waits for. */
enum { FIRST, SECOND, NOBODYS, PEERS };

/* A client, and the process that was started for it. */
struct peer {
    struct hx_upstream upstream;
    struct hx_downstream downstream;
    const char *name; /* of the process */
    uint32_t generation;
    uint64_t tag;   /* of the last call */
    unsigned calls; /* that reached the process */
    char told[1024];
};

static struct engine_kit kit;
static struct hx_tool_rules rules;
static struct hx_list downstream_inbox;
static struct peer peers[PEERS];
static unsigned made;

/* What the ledger was asked to write last of a claim, and one that is not let through yet. */
static char claimed[HX_TRANSPORT_NAME_MAX];
static bool is_holding;
static struct hx_store_request *held;
static struct hx_store_ops plain_ops, watching_ops;

static void submit_watching(struct hx_store *store, struct hx_store_request *request)
{
    if (request->mark_after)
        memcpy(claimed, request->record.attempt.transport, sizeof claimed);
    if (request->mark_after && is_holding)
        held = request;
    else
        plain_ops.submit(store, request);
}

/* ---- the processes ---- */

static struct peer *peer_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct peer, upstream);
}

static struct hx_peer_event *from_process(struct peer *peer, enum hx_peer_event_type type,
                                          uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, peer->generation);
    event->upstream = &peer->upstream;
    event->tag = tag;
    hx_list_append(&kit.upstream_inbox, &event->node);
    return event;
}

static void answer(struct peer *peer, uint64_t id, const char *result)
{
    struct hx_peer_event *event = from_process(peer, HX_PEER_MESSAGE, 0);
    assert_int_equal(hx_buf_printf(&event->line, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":%s}",
                                   (unsigned)id, result),
                     0);
}

static void up_start(struct hx_upstream *upstream, uint32_t generation)
{
    peer_of(upstream)->generation = generation;
    (void)from_process(peer_of(upstream), HX_PEER_STARTED, 0);
}

static void peer_takes(struct peer *peer, uint64_t tag)
{
    assert_string_equal(claimed, peer->name);
    peer->calls++;
    peer->tag = tag;
    (void)from_process(peer, HX_PEER_FIRST_BYTE, tag);
    (void)from_process(peer, HX_PEER_WRITTEN, tag);
}

static void up_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct peer *peer = peer_of(upstream);
    if (hx_span_contains(hx_buf_span(line), HX_SPAN_LIT("\"tools/call\"")))
        peer_takes(peer, tag);
    else if (hx_span_contains(hx_buf_span(line), HX_SPAN_LIT("\"initialize\"")))
        answer(peer, tag,
               "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},"
               "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}");
    hx_buf_reset(line);
}

static void up_stop(struct hx_upstream *upstream)
{
    (void)from_process(peer_of(upstream), HX_PEER_CLOSED, 0);
}

static const char *up_name(struct hx_upstream *upstream)
{
    return peer_of(upstream)->name;
}

static const struct hx_upstream_ops up_ops = {.start = up_start,
                                              .send = up_send,
                                              .stop = up_stop,
                                              .kill = up_stop,
                                              .hold = engine_kit_upstream_hold,
                                              .transport_name = up_name};

static struct hx_upstream *make_upstream(void *context)
{
    (void)context;
    assert_in_range(made, 0, PEERS - 1);
    return &peers[made++].upstream;
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context;
    (void)upstream;
}

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    (void)context;
    (void)tool;
    *ret_rules = rules;
}

/* ---- the clients ---- */

static struct hx_peer_event *from_client(struct peer *peer, enum hx_peer_event_type type)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &peer->downstream;
    hx_list_append(&downstream_inbox, &event->node);
    return event;
}

static void says(struct peer *peer, const char *line)
{
    assert_int_equal(hx_buf_append_cstr(&from_client(peer, HX_PEER_MESSAGE)->line, line), 0);
    engine_kit_turn(&kit);
}

static void down_send(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct peer *peer = hx_container_of(downstream, struct peer, downstream);
    snprintf(peer->told, sizeof peer->told, "%.*s", (int)line->len, line->data);
    hx_buf_reset(line);
    from_client(peer, HX_PEER_WRITTEN)->tag = sending->tag;
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

static void leaves(struct peer *peer)
{
    (void)from_client(peer, HX_PEER_ENDED);
    engine_kit_turn(&kit);
}

/* ---- both ---- */

static void begin_session(struct peer *peer, struct hx_server *server)
{
    const struct hx_session_options options = {.server = server,
                                               .downstream = &peer->downstream,
                                               .tenant = HX_SPAN_LIT("local"),
                                               .principal = HX_SPAN_LIT("1000")};
    assert_non_null(hx_session_new(kit.gateway, &options));
    says(peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
               "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
               "\"t\",\"version\":\"1\"}}}");
    assert_non_null(strstr(peer->told, "\"capabilities\""));
    says(peer, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
}

/* Two sessions of `hapax serve`, of a tool that may be sent again. */
static void begin(void)
{
    static const char *const names[PEERS] = {"the first", "the second", "nobody's"};
    engine_kit_init(&kit);
    hx_list_init(&downstream_inbox);
    made = 0;
    is_holding = false;
    held = NULL;
    claimed[0] = '\0';
    for (int i = 0; i < PEERS; i++)
        peers[i] = (struct peer){
            .upstream = {.ops = &up_ops, .inbox = &kit.upstream_inbox},
            .downstream = {.ops = &down_ops, .inbox = &downstream_inbox},
            .name = names[i],
        };
    rules = engine_kit_rules();
    rules.contract.tool_class = HX_CLASS_IDEMPOTENT;
    rules.contract.is_reorder_safe = true;
    engine_kit_begin(&kit, &downstream_inbox, NULL);
    plain_ops = watching_ops = *kit.store->ops;
    watching_ops.submit = submit_watching;
    kit.store->ops = &watching_ops;
    struct hx_server_options options = engine_kit_server_options();
    options.name = HX_SPAN_LIT("s");
    options.rules_for = rules_for;
    options.make_upstream = make_upstream;
    options.free_upstream = free_upstream;
    struct hx_server *server = hx_server_new(kit.gateway, &options);
    begin_session(&peers[FIRST], server);
    begin_session(&peers[SECOND], server);
}

static void end(void)
{
    engine_kit_kill(&kit);
    engine_kit_clear(&downstream_inbox);
    engine_kit_fini(&kit);
}

static void waits(int64_t ms)
{
    engine_kit_pass(&kit, ms);
    engine_kit_turn(&kit);
}

/* A claim names the process that it goes to, and not the one that was there when its caller came:
 * here there was none, since the first one had gone with its session. */
static void a_claim_names_the_process_that_it_goes_to(void **state)
{
    (void)state;
    begin();
    rules.contract.timeout_ms = 1000;
    rules.contract.has_probe = true; /* so that it stays in memory when nobody waits */
    rules.probe = (struct hx_probe){.tool = HX_SPAN_LIT("look"),
                                    .arguments = HX_SPAN_LIT("{}"),
                                    .match = HX_PROBE_TEXT,
                                    .value = HX_SPAN_LIT("paid")};
    says(&peers[FIRST], PAY("2"));
    assert_int_equal(peers[FIRST].calls, 1);
    waits(1000);
    leaves(&peers[FIRST]);
    says(&peers[SECOND], PAY("2"));
    assert_int_equal(peers[SECOND].calls, 1);
    answer(&peers[SECOND], peers[SECOND].tag, "{\"content\":[],\"n\":1}");
    engine_kit_turn(&kit);
    assert_non_null(strstr(peers[SECOND].told, "\"n\":1"));
    end();
}

/* Its process is gone, and another one there. */
static void is_restarted(struct peer *peer)
{
    uint32_t generation = peer->generation;
    (void)from_process(peer, HX_PEER_CLOSED, 0);
    engine_kit_turn(&kit);
    waits(1000);
    says(peer, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}");
    waits(1000);
    assert_int_equal(peer->generation, generation + 1);
}

/* A session ends while the claim is written that was to go to its process, and another session
 * waits for the call too, whose process is there: but it is not the one that was named. This
 * attempt ends unsent; the next one is claimed in its name. */
static void what_was_claimed_for_one_process_is_sent_by_no_other(void **state)
{
    (void)state;
    begin();
    says(&peers[FIRST], PAY("2"));
    assert_int_equal(peers[FIRST].calls, 1);
    says(&peers[SECOND], PAY("2"));
    is_restarted(&peers[SECOND]);
    claimed[0] = '\0';
    is_holding = true;
    is_restarted(&peers[FIRST]);
    assert_non_null(held);
    assert_string_equal(claimed, peers[FIRST].name);
    assert_int_equal(peers[FIRST].generation, peers[SECOND].generation);
    leaves(&peers[FIRST]);
    is_holding = false;
    plain_ops.submit(kit.store, held);
    engine_kit_turn(&kit);
    assert_int_equal(peers[SECOND].calls, 0);
    says(&peers[SECOND], PAY("3"));
    assert_int_equal(peers[FIRST].calls, 1);
    assert_int_equal(peers[SECOND].calls, 1);
    answer(&peers[SECOND], peers[SECOND].tag, "{\"content\":[],\"n\":1}");
    engine_kit_turn(&kit);
    assert_non_null(strstr(peers[SECOND].told, "\"n\":1"));
    end();
}

/* A cancel that the first attempt did not answer says nothing of the next one. */
static void a_cancel_is_of_its_attempt(void **state)
{
    (void)state;
    begin();
    says(&peers[FIRST], PAY("2"));
    assert_int_equal(peers[FIRST].calls, 1);
    says(&peers[FIRST], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                        "\"requestId\":2,\"reason\":\"Esc\"}}");
    is_restarted(&peers[FIRST]);
    says(&peers[SECOND], PAY("2"));
    assert_int_equal(peers[FIRST].calls, 2);
    waits(rules.cancel_timeout_ms);
    assert_null(strstr(peers[SECOND].told, "OUTCOME_UNKNOWN"));
    answer(&peers[FIRST], peers[FIRST].tag, "{\"content\":[],\"n\":1}");
    engine_kit_turn(&kit);
    assert_non_null(strstr(peers[SECOND].told, "\"n\":1"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_names_the_process_that_it_goes_to),
        cmocka_unit_test(what_was_claimed_for_one_process_is_sent_by_no_other),
        cmocka_unit_test(a_cancel_is_of_its_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
