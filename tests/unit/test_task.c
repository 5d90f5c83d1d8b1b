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

#include "talk_kit.h"

#define TOOLS                                                                                      \
    "[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"},"                                    \
    "\"annotations\":{\"readOnlyHint\":true},\"execution\":{\"taskSupport\":\"required\"}},"       \
    "{\"name\":\"may\",\"inputSchema\":{\"type\":\"object\"},"                                     \
    "\"execution\":{\"taskSupport\":\"optional\"}}]"

static void start_using(struct talk_kit *talk, enum hx_task_use task_use)
{
    struct talk_kit_options options = {
        .rules = engine_kit_rules(),
        .server_capabilities = "{\"tools\":{},\"tasks\":{\"requests\":{\"tools\":{\"call\":{}}}}}",
        .tools = TOOLS,
    };
    options.rules.task_use = task_use;
    talk_kit_init(talk, &options);
    talk_kit_begin(talk);
}

static void start(struct talk_kit *talk)
{
    start_using(talk, HX_TASK_USE_REQUIRED);
}

#define PAY(id, tool)                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\",\"arguments\":{},\"_meta\":{\"dev.hapax/idempotencyKey\":\"k-" tool "\"}}}"
#define TASK(status) "{\"taskId\":\"t\\u0031\",\"status\":\"" status "\",\"pollInterval\":200}"
#define ERROR "\"error\":{\"code\":-32602,\"message\":\"m\"}"

static void accepted(struct talk_kit *talk)
{
    talk->told[0] = '\0';
    talk_kit_says(talk, PAY("3", "pay"));
    talk_kit_asks(talk, "\"task\":{\"ttl\":86400000}");
    talk_kit_answers(talk, "\"result\":{\"task\":" TASK("working") "}");
    talk_kit_asks(talk, "\"method\":\"tasks/result\",\"params\":{\"taskId\":\"t\\u0031\"}");
    assert_string_equal(talk->told, "");
}

static void test_the_result_is_the_outcome(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    accepted(&talk);
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    talk_kit_says(&talk, PAY("4", "pay"));
    talk_kit_hears(&talk, "\"replayed\":true");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* The tool has failed when the task has; any other error is about the question. */
static void test_an_error_is_the_outcome_of_a_failed_task_only(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    accepted(&talk);
    talk_kit_answers(&talk, ERROR);
    talk_kit_asks(&talk, "\"method\":\"tasks/get\"");
    assert_string_equal(talk.told, "");
    talk_kit_answers(&talk, "\"result\":" TASK("working"));
    assert_string_equal(talk.asked, "");
    talk_kit_waits(&talk, 199);
    assert_string_equal(talk.asked, "");
    talk_kit_waits(&talk, 1);
    talk_kit_asks(&talk, "\"method\":\"tasks/result\"");
    talk_kit_answers(&talk, ERROR);
    talk_kit_answers(&talk, "\"result\":" TASK("failed"));
    talk_kit_asks(&talk, "\"method\":\"tasks/result\"");
    assert_string_equal(talk.told, "");
    talk_kit_answers(&talk, ERROR);
    talk_kit_hears(&talk, "-32602");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
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
        struct talk_kit talk;
        start(&talk);
        accepted(&talk);
        talk_kit_answers(&talk, ERROR);
        talk_kit_answers(&talk, ends[i]);
        if (strstr(talk.asked, "tasks/get") != NULL)
            talk_kit_answers(&talk, ends[i]); /* the ladder asks once more */
        talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
        talk_kit_says(&talk, PAY("4", "pay"));
        assert_int_equal(talk.calls, 1);
        talk_kit_fini(&talk);
    }
}

/* Its caller was told "unknown"; the handle is kept all the same, and the task says what came of
 * it. */
static void test_accepted_after_the_timeout_it_is_asked_about(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    talk.options.rules.contract.timeout_ms = 1000;
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY("3", "pay"));
    talk_kit_waits(&talk, 1000);
    talk_kit_hears(&talk, "OUTCOME_UNKNOWN");
    talk_kit_answers(&talk, "\"result\":{\"task\":" TASK("working") "}");
    talk_kit_says(&talk, PAY("4", "pay")); /* who asks brings a link to ask over */
    talk_kit_asks(&talk, "\"method\":\"tasks/get\"");
    talk_kit_answers(&talk, "\"result\":" TASK("completed"));
    talk_kit_asks(&talk, "\"method\":\"tasks/result\"");
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* Nor is an error that is too long to hold. */
static void test_a_long_error_is_about_the_question(void **state)
{
    struct talk_kit talk;
    char id[24];
    (void)state;
    start(&talk);
    accepted(&talk);
    snprintf(id, sizeof id, "%u", (unsigned)talk.tag);
    talk_kit_from_server(&talk, HX_PEER_OVERSIZE, talk.tag, id)->has_error = true;
    engine_kit_turn(&talk.engine);
    talk_kit_asks(&talk, "\"method\":\"tasks/get\""); /* the ladder looks for it */
    talk_kit_answers(&talk, "\"result\":" TASK("completed"));
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* It was accepted: that a question about it is refused does not make it undone. */
static void test_a_refused_question_proves_nothing(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    accepted(&talk);
    talk_kit_from_server(&talk, HX_PEER_REJECTED, talk.tag, "")->status = 404;
    talk.asked[0] = '\0';
    engine_kit_turn(&talk.engine);
    talk_kit_says(&talk, PAY("4", "pay"));
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
}

/* The next process asks for the task that the ledger names. */
static void test_the_next_process_goes_on(void **state)
{
    struct talk_kit talk;
    (void)state;
    start(&talk);
    accepted(&talk);
    /* The stream on which we ask is not the one that the call was made on. */
    talk_kit_from_server(&talk, HX_PEER_RESUME_POINT, talk.tag, "a stream");
    engine_kit_turn(&talk.engine);
    talk_kit_waits(&talk, 100);
    talk_kit_end(&talk);
    talk_kit_begin(&talk);
    talk_kit_says(&talk, PAY("3", "pay"));
    talk_kit_asks(&talk, "\"method\":\"tasks/get\",\"params\":{\"taskId\":\"t\\u0031\"}");
    talk_kit_answers(&talk, "\"result\":" TASK("working"));
    talk_kit_asks(&talk, "\"method\":\"tasks/result\"");
    talk_kit_answers(&talk, "\"result\":{\"content\":[],\"n\":1}");
    talk_kit_hears(&talk, "\"n\":1");
    assert_int_equal(talk.calls, 1);
    talk_kit_fini(&talk);
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
        struct talk_kit talk;
        start_using(&talk, cases[i].use);
        talk_kit_says(&talk, PAY("3", "pay"));
        assert_int_equal(strstr(talk.asked, "\"task\"") != NULL, cases[i].pay);
        talk_kit_answers(&talk, "\"result\":{\"content\":[]}");
        talk_kit_says(&talk, PAY("4", "may"));
        assert_int_equal(strstr(talk.asked, "\"task\"") != NULL, cases[i].may);
        talk_kit_fini(&talk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_result_is_the_outcome),
        cmocka_unit_test(test_an_error_is_the_outcome_of_a_failed_task_only),
        cmocka_unit_test(test_a_task_that_cannot_be_followed_is_unknown),
        cmocka_unit_test(test_accepted_after_the_timeout_it_is_asked_about),
        cmocka_unit_test(test_a_long_error_is_about_the_question),
        cmocka_unit_test(test_a_refused_question_proves_nothing),
        cmocka_unit_test(test_the_next_process_goes_on),
        cmocka_unit_test(test_a_task_is_asked_for_where_it_must_be),
    };
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
