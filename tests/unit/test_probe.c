/* SPDX-License-Identifier: MIT */
/*
 * Of which server a probe is asked: on the real engine with a scripted server and the ledger in
 * memory. What its answers prove is the simulator's (tests/sim/probe.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "talk_kit.h"

#define PAY(id)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","   \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"

static struct talk_kit_options probed_options(const char *name)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .name = name,
        .server_capabilities = "{\"tools\":{}}",
        .tools = "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]"};
    options.rules.contract.has_probe = true;
    options.rules.probe = (struct hx_probe){.tool = HX_SPAN_LIT("look"),
                                            .arguments = HX_SPAN_LIT("{}"),
                                            .match = HX_PROBE_TEXT,
                                            .value = HX_SPAN_LIT("paid")};
    return options;
}

/* What a tool of the same name tells at another server is of another world: it would prove that a
 * call happened, or that it did not, of which that server has never heard. */
static void a_probe_is_asked_of_its_own_server(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = probed_options("mail");
    (void)state;
    options.is_run = true;
    talk_kit_init(&talk, &options);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY("3"));
    assert_int_equal(talk.calls, 1);
    talk_kit_end(&talk);
    talk.options.name = "bank";
    talk_kit_begin(&talk);
    for (int i = 0; i < 3; i++)
        talk_kit_waits(&talk, 61 * 1000);
    assert_int_equal(talk.calls, 1);
    assert_string_equal(talk.asked, "");
    talk_kit_end(&talk);
    talk.options.name = "mail";
    talk_kit_begin(&talk);
    talk_kit_waits(&talk, 61 * 1000);
    talk_kit_asks(&talk, "\"look\"");
    talk_kit_answers(&talk, "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"paid\"}]}");
    talk_kit_says(&talk, PAY("4"));
    talk_kit_hears(&talk, "What look shows of it");
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

static struct hx_upstream bank;
static unsigned bank_starts;

static void bank_start(struct hx_upstream *upstream, uint32_t generation)
{
    (void)upstream;
    (void)generation;
    bank_starts++;
}

static void bank_stop(struct hx_upstream *upstream)
{
    (void)upstream;
}

static struct hx_upstream *make_bank(void *context)
{
    static const struct hx_upstream_ops ops = {.start = bank_start,
                                               .stop = bank_stop,
                                               .kill = bank_stop,
                                               .hold = engine_kit_upstream_hold,
                                               .drop = engine_kit_upstream_drop,
                                               .transport_name = engine_kit_upstream_name};
    bank = (struct hx_upstream){.ops = &ops, .inbox = context};
    return &bank;
}

static void free_bank(void *context, struct hx_upstream *upstream)
{
    (void)context;
    (void)upstream;
}

/* A reload takes the server away while a probe of it is due, and leaves another one. */
static void the_probe_of_a_server_that_is_gone_is_asked_of_no_other(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = probed_options("mail");
    struct hx_server_options other = engine_kit_server_options();
    (void)state;
    options.rules.contract.timeout_ms = 1000;
    bank_starts = 0;
    talk_kit_init(&talk, &options);
    talk_kit_begin(&talk);
    other.name = HX_SPAN_LIT("bank");
    other.is_remote = true;
    other.make_upstream = make_bank;
    other.free_upstream = free_bank;
    other.context = &talk.engine.upstream_inbox;
    (void)hx_server_new(talk.engine.gateway, &other);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_waits(&talk, 1000);
    talk_kit_says(&talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":3}}"); /* nobody waits, so nobody's link serves for it */
    hx_server_retire(talk.server);
    for (int i = 0; i < 3; i++)
        talk_kit_waits(&talk, 61 * 1000);
    assert_int_equal(bank_starts, 0);
    talk_kit_fini(&talk);
}

/* The server dies under the call. */
static void is_lost(struct talk_kit *talk)
{
    talk_kit_asks(talk, "\"pay\"");
    talk->asked[0] = '\0';
    hx_memory_ledger_transport_gone(talk->engine.ledger, engine_kit_upstream_name(&talk->upstream));
    (void)talk_kit_from_server(talk, HX_PEER_CLOSED, 0, "");
    engine_kit_turn(&talk->engine);
}

/* How often nothing was found until that was taken for proof. */
static unsigned looks_until_it_is_proved(struct talk_kit *talk)
{
    unsigned looks = 0;
    const struct hx_record *row = hx_memory_ledger_row(talk->engine.ledger, 0);
    for (int i = 0; i < 900 && row->state == HX_OP_UNKNOWN; i++) {
        talk_kit_waits(talk, 1000);
        if (strstr(talk->asked, "\"look\"") == NULL)
            continue;
        looks++;
        talk_kit_answers(talk, "\"result\":{\"content\":[]}");
        row = hx_memory_ledger_row(talk->engine.ledger, 0);
    }
    assert_int_not_equal(row->state, HX_OP_UNKNOWN);
    return looks;
}

/* What was not found before the second attempt was sent says nothing of that one. */
static void negatives_are_of_one_attempt(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = probed_options("bank");
    (void)state;
    options.is_child = true;
    options.rules.contract.in_flight_bound_ms = 1000;
    options.rules.contract.retries_after_proof = true;
    talk_kit_init(&talk, &options);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY("3"));
    is_lost(&talk);
    assert_int_equal(looks_until_it_is_proved(&talk), 3);
    is_lost(&talk);
    assert_int_equal(looks_until_it_is_proved(&talk), 3);
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_is_asked_of_its_own_server),
        cmocka_unit_test(the_probe_of_a_server_that_is_gone_is_asked_of_no_other),
        cmocka_unit_test(negatives_are_of_one_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
