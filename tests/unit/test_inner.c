/* SPDX-License-Identifier: MIT */
/*
 * A server that is a gateway of our kind too, and servers that come and go: on the real engine with
 * a scripted server and the ledger in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/internal.h"
#include "talk_kit.h"

#define INNER "{\"tools\":{},\"extensions\":{\"dev.hapax/operations\":{}}}"
#define TOOLS "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"}}]"
#define PAY(id)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","   \
    "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-1\"}}}"
#define NOT_FOUND "\"error\":{\"code\":-32602,\"message\":\"m\",\"data\":{\"code\":\"NOT_FOUND\"}}"

/* Those of the store, under what a test puts before them. */
static struct hx_store_ops plain_ops;

static struct talk_kit_options options_of(const char *capabilities)
{
    return (struct talk_kit_options){
        .rules = engine_kit_rules(), .server_capabilities = capabilities, .tools = TOOLS};
}

static void start(struct talk_kit *talk, const struct talk_kit_options *options)
{
    talk_kit_init(talk, options);
    talk_kit_begin(talk);
    talk->told[0] = '\0';
}

static void answers_in_our_word(struct talk_kit *talk, const char *code)
{
    char member[256];
    snprintf(member, sizeof member,
             "\"result\":{\"content\":[],\"isError\":true,\"_meta\":{\"dev.hapax/operation\":"
             "{\"code\":\"%s\"}}}",
             code);
    talk_kit_answers(talk, member);
}

/* A word that comes when the attempt was given up is still no outcome of the tool's: it is asked
 * about, and until something is known it is unknown. */
static void a_late_word_is_no_outcome(void **state)
{
    static const struct {
        const char *code;
        const char *told;
    } rows[] = {
        {"OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"},
        {"BUSY", "OUTCOME_UNKNOWN"},
        {"APPROVAL_REQUIRED", "OUTCOME_UNKNOWN"},
        {"FAILED", "OUTCOME_UNKNOWN"},
        {"CANCELLED", "OUTCOME_UNKNOWN"},
        {"KEY_CONFLICT", "OUTCOME_UNKNOWN"},
        {"RESULT_UNAVAILABLE", "RESULT_UNAVAILABLE"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        struct talk_kit_options options = options_of(INNER);
        options.rules.contract.timeout_ms = 1000;
        start(&talk, &options);
        talk_kit_says(&talk, PAY("3"));
        talk_kit_asks(&talk, "\"tools/call\"");
        talk_kit_waits(&talk, 1000);
        talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        answers_in_our_word(&talk, rows[i].code);
        talk_kit_says(&talk, PAY("4"));
        if (strcmp(rows[i].told, "OUTCOME_UNKNOWN") == 0) {
            talk_kit_asks(&talk, "hapax/operations/get");
            talk_kit_answers(&talk, NOT_FOUND);
        }
        talk_kit_hears(&talk, rows[i].told);
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

static void a_late_outcome_is_one(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    options.rules.contract.timeout_ms = 1000;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_waits(&talk, 1000);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_says(&talk, PAY("4"));
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Its stream would bring its words, and the next process would not know whose they are. */
static void it_is_asked_by_name_also_when_it_has_streams(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_from_server(&talk, HX_PEER_RESUME_POINT, talk.tag, "the point");
    engine_kit_turn(&talk.engine);
    talk_kit_waits(&talk, 1000); /* it is written with what comes next, or soon */
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY("4"));
    talk_kit_asks(&talk, "hapax/operations/get");
    talk_kit_answers(&talk, "\"result\":{\"operation\":{\"execution\":\"succeeded\",\"result\":"
                            "{\"content\":[],\"n\":1}}}");
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Of the one request that was ever sent it knows how that ended. A cancel leaves a row there too,
 * and may have come without its call. */
static void what_has_ended_there_is_known(void **state)
{
    static const struct {
        const char *row;
        const char *told;
    } rows[] = {
        {"\"execution\":\"failed\"", "It is proven that nothing happened"},
        {"\"execution\":\"cancelled\"", "OUTCOME_UNKNOWN"},
        {"\"execution\":\"expired\"", "OUTCOME_UNKNOWN"},
        {"\"execution\":\"succeeded\",\"payload\":\"gone\"", "RESULT_UNAVAILABLE"},
        {"\"execution\":\"succeeded\"", "OUTCOME_UNKNOWN"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct talk_kit talk;
        struct talk_kit_options options = options_of(INNER);
        char answer[256];
        snprintf(answer, sizeof answer, "\"result\":{\"operation\":{%s}}", rows[i].row);
        start(&talk, &options);
        talk_kit_says(&talk, PAY("3"));
        talk_kit_end(&talk);
        talk_kit_begin(&talk);
        talk_kit_says(&talk, PAY("4"));
        talk_kit_asks(&talk, "hapax/operations/get");
        talk_kit_answers(&talk, answer);
        talk_kit_hears(&talk, rows[i].told);
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

static struct hx_store_request *held;

static void submit_holding(struct hx_store *store, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_RESUME_GET && held == NULL)
        held = request;
    else
        plain_ops.submit(store, request);
}

/* A reload takes the server away while the ledger is asked for the handle of what it lost. */
static void a_server_may_go_while_its_handle_is_looked_for(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    plain_ops = *talk.engine.store->ops;
    struct hx_store_ops ops = plain_ops;
    ops.submit = submit_holding;
    talk.engine.store->ops = &ops;
    talk_kit_says(&talk, PAY("4"));
    assert_non_null(held);
    talk_kit_says(&talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":4}}"); /* nobody waits, so nobody's link serves for it */
    hx_server_retire(talk.server);
    plain_ops.submit(talk.engine.store, held);
    engine_kit_turn(&talk.engine);
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* A client that uses a request id twice means two calls when it says so by their keys. */
static void a_key_says_which_call_is_meant(void **state)
{
    static const char *const keys[] = {"k-1", "k-2", "k-3"};
    struct talk_kit talk;
    struct talk_kit_options options = options_of("{\"tools\":{}}");
    char line[256];
    (void)state;
    start(&talk, &options);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(
            line, sizeof line,
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\","
            "\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"%s\"}}}",
            keys[i]);
        talk_kit_says(&talk, line);
        assert_int_equal(talk.calls, i + 1);
        if (i == 0)
            talk_kit_answers(&talk, "\"result\":{\"content\":[]}"); /* the second is still open */
    }
    talk_kit_fini(&talk);
}

/* Whose attempt was lost while there was no session waits for a new one, and begins it himself when
 * nobody else does. */
static void a_lost_attempt_that_may_be_sent_again_wants_a_server(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of("{\"tools\":{}}");
    (void)state;
    options.rules.contract.tool_class = HX_CLASS_IDEMPOTENT;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    uint64_t call = talk.tag;
    talk.is_mute = true;
    talk_kit_from_server(&talk, HX_PEER_SESSION_LOST, 0, "");
    engine_kit_turn(&talk.engine);
    talk_kit_asks(&talk, "\"initialize\"");
    talk_kit_from_server(&talk, HX_PEER_ANSWER_LOST, talk.tag, "no greeting");
    engine_kit_turn(&talk.engine);
    talk_kit_waits(&talk, 60 * 1000);
    talk.is_mute = false;
    talk_kit_from_server(&talk, HX_PEER_ANSWER_LOST, call, "cut");
    engine_kit_turn(&talk.engine);
    talk_kit_waits(&talk, 60 * 1000);
    talk_kit_asks(&talk, "\"tools/call\"");
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 2);
    talk_kit_fini(&talk);
}

/* As a process that is killed between its claim and its mark leaves it, of a call that a person has
 * approved. */
static void submit_unmarked(struct hx_store *store, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_MARK) {
        hx_store_request_free(request);
        return;
    }
    request->mark_after = false;
    request->record.is_approved = true;
    plain_ops.submit(store, request);
}

/* Whoever looks after what a dead process left behind runs an approved call of his own server, and
 * none of another that has a tool of the same name. */
static void what_is_approved_runs_at_its_own_server(void **state)
{
    static const struct {
        const char *name;
        unsigned calls;
    } rows[] = {{"bank", 0}, {"mail", 1}};
    struct talk_kit talk;
    struct talk_kit_options options = options_of("{\"tools\":{}}");
    (void)state;
    options.name = "mail";
    options.is_run = true;
    start(&talk, &options);
    plain_ops = *talk.engine.store->ops;
    struct hx_store_ops ops = plain_ops;
    ops.submit = submit_unmarked;
    talk.engine.store->ops = &ops;
    talk_kit_says(&talk, PAY("3"));
    assert_int_equal(talk.calls, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        talk_kit_end(&talk);
        talk.options.name = rows[i].name;
        talk_kit_begin(&talk);
        talk_kit_waits(&talk, 61 * 1000);
        talk_kit_waits(&talk, 61 * 1000);
        assert_int_equal(talk.calls, rows[i].calls);
    }
    talk_kit_fini(&talk);
}

/* A list of 4000 tools that were never listed before, answered to the client's last request. */
static void lists_new_names(struct talk_kit *talk, unsigned round)
{
    struct hx_buf text;
    hx_buf_init(&text, 1 << 20);
    talk_kit_says(talk, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\"}");
    (void)hx_buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"tools\":[",
                        (unsigned)talk->tag);
    for (unsigned i = 0; i < 4000; i++)
        (void)hx_buf_printf(&text, "%s{\"name\":\"t%u-%u\"}", i > 0 ? "," : "", round, i);
    (void)hx_buf_append_cstr(&text, "]}}");
    assert_int_equal(hx_buf_append_char(&text, '\0'), 0);
    talk->told[0] = '\0';
    talk_kit_from_server(talk, HX_PEER_MESSAGE, talk->tag, text.data)->is_answer = true;
    engine_kit_turn(&talk->engine);
    talk_kit_hears(talk, "\"tools\":[");
    hx_buf_fini(&text);
}

static void what_a_server_lists_is_not_kept_without_end(void **state)
{
    struct talk_kit_options options = options_of(NULL);
    struct talk_kit talk;
    (void)state;
    start(&talk, &options);
    for (unsigned round = 0; round < 18; round++)
        lists_new_names(&talk, round);
    assert_in_range(talk.server->tools.count, 4000, 64 * 1024);
    talk_kit_fini(&talk);
}

/* The tool acted and says in its own error what we might say in ours. A gateway of an earlier
 * version marks no word, so nothing is concluded from one: the one behind is asked what it knows.
 */
static void the_tools_own_error_is_not_the_word_of_a_gateway(void **state)
{
    static const char *const words[] = {
        "FAILED", "CANCELLED", "KEY_INVALID", "BUSY", "UPSTREAM_UNAVAILABLE", "REQUEST_INVALID"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct talk_kit talk;
        struct talk_kit_options options = options_of(INNER);
        char error[256], row[512];
        snprintf(error, sizeof error,
                 "{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"%s\"}}", words[i]);
        snprintf(row, sizeof row,
                 "\"result\":{\"operation\":{\"execution\":\"succeeded\",\"error\":%s}}", error);
        start(&talk, &options);
        talk_kit_says(&talk, PAY("3"));
        talk_kit_asks(&talk, "\"tools/call\"");
        char member[300];
        snprintf(member, sizeof member, "\"error\":%s", error);
        talk_kit_answers(&talk, member);
        talk_kit_asks(&talk, "hapax/operations/get");
        talk_kit_answers(&talk, row);
        talk_kit_hears(&talk, member);
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

/* It says each time that nothing was sent, and there is no other attempt: none goes on there, and
 * whoever calls is told. */
static void an_inner_gateway_without_a_server_is_told_as_such(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    start(&talk, &options);
    for (unsigned i = 0; i < 7; i++) { /* more often than there are attempts */
        talk_kit_says(&talk, i % 2 == 0 ? PAY("3") : PAY("4"));
        assert_int_equal(talk.calls, i + 1);
        talk_kit_answers(&talk,
                         "\"error\":{\"code\":1502,\"message\":\"m\",\"data\":" HX_MCP_OWN_ERROR(
                             "UPSTREAM_UNAVAILABLE", "true", "false") "}");
        talk_kit_hears(&talk, "UPSTREAM_UNAVAILABLE");
        talk_kit_waits(&talk, 5000);
    }
    talk_kit_says(&talk, PAY("6"));
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    talk_kit_fini(&talk);
}

static void a_poll_moves_no_limit(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    options.rules.contract.timeout_ms = 5000;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(talk.calls, i);
        answers_in_our_word(&talk, "BUSY");
        talk_kit_waits(&talk, 2100);
    }
    assert_int_equal(talk.calls, 3);
    answers_in_our_word(&talk, "BUSY");
    talk_kit_waits(&talk, 900);
    talk_kit_asks(&talk, "hapax/operations/get");
    talk_kit_answers(&talk, NOT_FOUND);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    talk_kit_fini(&talk);
}

/* Marked, it is one, and nothing was sent. */
static void a_marked_error_is_the_word_of_a_gateway(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of(INNER);
    (void)state;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_answers(&talk,
                     "\"error\":{\"code\":-32602,\"message\":\"m\",\"data\":" HX_MCP_OWN_ERROR(
                         "REQUEST_INVALID", "true", "true") "}");
    talk_kit_hears(&talk, "It is proven that nothing happened");
    talk_kit_fini(&talk);
}

/* Whoever stands before us would take it for ours. */
static void a_tools_error_is_passed_on_without_our_mark(void **state)
{
    struct talk_kit talk;
    struct talk_kit_options options = options_of("{\"tools\":{}}");
    (void)state;
    start(&talk, &options);
    talk_kit_says(&talk, PAY("3"));
    talk_kit_answers(&talk,
                     "\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"FAILED\", "
                     "\"dev.hapax/operation\":{\"code\":\"FAILED\"},\"n\":1.0}}");
    talk_kit_hears(&talk,
                   "\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"FAILED\","
                   "\"n\":1.0}}");
    talk_kit_fini(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_word_is_no_outcome),
        cmocka_unit_test(what_has_ended_there_is_known),
        cmocka_unit_test(a_late_outcome_is_one),
        cmocka_unit_test(the_tools_own_error_is_not_the_word_of_a_gateway),
        cmocka_unit_test(an_inner_gateway_without_a_server_is_told_as_such),
        cmocka_unit_test(a_poll_moves_no_limit),
        cmocka_unit_test(a_marked_error_is_the_word_of_a_gateway),
        cmocka_unit_test(a_tools_error_is_passed_on_without_our_mark),
        cmocka_unit_test(it_is_asked_by_name_also_when_it_has_streams),
        cmocka_unit_test(what_is_approved_runs_at_its_own_server),
        cmocka_unit_test(a_server_may_go_while_its_handle_is_looked_for),
        cmocka_unit_test(a_key_says_which_call_is_meant),
        cmocka_unit_test(a_lost_attempt_that_may_be_sent_again_wants_a_server),
        cmocka_unit_test(what_a_server_lists_is_not_kept_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
