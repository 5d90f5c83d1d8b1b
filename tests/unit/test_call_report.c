/* SPDX-License-Identifier: MIT */
/* What `hapax call` says to a script, and when a call counts as settled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/call_report.h"

static const struct {
    const char *says;
    struct hx_call_answer answer;
    int status;
    bool is_settled_fresh, is_settled_resumed;
} cases[] = {
    {"a result", {.kind = HX_CALL_RESULT, .has_row = true}, HX_CALL_EXIT_DONE, true, true},
    {"isError",
     {.kind = HX_CALL_RESULT, .is_error = true, .has_row = true},
     HX_CALL_EXIT_TOOL_ERROR,
     true,
     true},
    {"the tool's JSON-RPC error",
     {.kind = HX_CALL_ERROR, .is_error = true, .has_row = true},
     HX_CALL_EXIT_TOOL_ERROR,
     true,
     true},
    {"the error of a tool whose calls are passed through: it ran",
     {.kind = HX_CALL_ERROR, .is_error = true},
     HX_CALL_EXIT_TOOL_ERROR,
     true,
     true},
    {"an error, and the ledger did not say whether it knows of it",
     {.kind = HX_CALL_ERROR, .is_error = true, .is_row_untold = true},
     HX_CALL_EXIT_UNKNOWN,
     false,
     false},
    {"the wait is over, and the ledger did not say how far it is",
     {.kind = HX_CALL_WAIT_OVER, .is_row_untold = true},
     HX_CALL_EXIT_STILL_RUNNING,
     false,
     false},
    {"the wait is over, it runs",
     {.kind = HX_CALL_WAIT_OVER, .has_row = true, .execution = HX_SPAN_INIT("running")},
     HX_CALL_EXIT_STILL_RUNNING,
     false,
     false},
    {"the wait is over, it is unknown",
     {.kind = HX_CALL_WAIT_OVER, .has_row = true, .execution = HX_SPAN_INIT("unknown")},
     HX_CALL_EXIT_UNKNOWN,
     false,
     false},
    {"the wait is over before anything was begun",
     {.kind = HX_CALL_WAIT_OVER},
     HX_CALL_EXIT_STILL_RUNNING,
     false,
     false},
};

static const struct {
    const char *code;
    int status;
    bool is_settled_fresh, is_settled_resumed;
} codes[] = {
    {"BUSY", HX_CALL_EXIT_STILL_RUNNING, false, false},
    {"APPROVAL_REQUIRED", HX_CALL_EXIT_STILL_RUNNING, false, false},
    {"OUTCOME_UNKNOWN", HX_CALL_EXIT_UNKNOWN, false, false},
    {"KEY_EXPIRED", HX_CALL_EXIT_UNKNOWN, false, false},
    {"RESULT_UNAVAILABLE", HX_CALL_EXIT_DONE, true, true},
    {"FAILED", HX_CALL_EXIT_NOT_HAPPENED, true, true},
    {"CANCELLED", HX_CALL_EXIT_NOT_HAPPENED, true, true},
    {"KEY_CONFLICT", HX_CALL_EXIT_NOT_HAPPENED, true, false},
    {"KEY_INVALID", HX_CALL_EXIT_NOT_HAPPENED, true, false},
    {"KEY_REQUIRED", HX_CALL_EXIT_NOT_HAPPENED, true, false},
    {"REPEAT_SUSPECTED", HX_CALL_EXIT_NOT_HAPPENED, true, false},
    {"REQUEST_INVALID", HX_CALL_EXIT_NOT_HAPPENED, true, false},
    {"NO_ANSWER", HX_CALL_EXIT_UNKNOWN, false, false},
    {"a code of a later version", HX_CALL_EXIT_UNKNOWN, false, false},
    {"UPSTREAM_UNAVAILABLE", HX_CALL_EXIT_NO_SERVER, true, false},
    {"LEDGER_UNAVAILABLE", HX_CALL_EXIT_NO_LEDGER, true, false},
};

/* A new code must be thought of here. */
static void every_code_is_judged(void **state)
{
    static const char *const names[] = {
#define HX_ANSWER(name, shape, number, same_key, new_key, http_status, sentence) #name,
#define HX_ANSWER_TYPE(name, type)
#include "tables/errors.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool is_there = false;
        for (size_t at = 0; at < sizeof(codes) / sizeof(codes[0]); at++)
            is_there |= strcmp(codes[at].code, names[i]) == 0;
        if (!is_there)
            fail_msg("%s has no status here", names[i]);
    }
}

static void each_answer_has_its_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct hx_call_answer *answer = &cases[i].answer;
        if (hx_call_exit_status(answer) != cases[i].status)
            fail_msg("%s: got %d, wanted %d", cases[i].says, hx_call_exit_status(answer),
                     cases[i].status);
        if (hx_call_is_settled(answer, true) != cases[i].is_settled_fresh ||
            hx_call_is_settled(answer, false) != cases[i].is_settled_resumed)
            fail_msg("%s: settled", cases[i].says);
    }
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        const struct hx_call_answer answer = {
            .is_error = true, .is_ours = true, .code = hx_span_cstr(codes[i].code)};
        if (hx_call_exit_status(&answer) != codes[i].status)
            fail_msg("%s: got %d, wanted %d", codes[i].code, hx_call_exit_status(&answer),
                     codes[i].status);
        if (hx_call_is_settled(&answer, true) != codes[i].is_settled_fresh ||
            hx_call_is_settled(&answer, false) != codes[i].is_settled_resumed)
            fail_msg("%s: settled", codes[i].code);
    }
}

static void commands_are_safe_to_paste(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        const char *wanted;
    } words[] = {
        {"order-4711", "order-4711"}, {"a b", "'a b'"}, {"it's", "'it'\\''s'"},
        {"$(x)", "'$(x)'"},           {"", "''"},       {"~", "'~'"},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct hx_buf out;
        hx_buf_init(&out, 1024);
        hx_call_quote(&out, hx_span_cstr(words[i].word));
        assert_int_equal(hx_buf_append_char(&out, '\0'), 0);
        assert_string_equal(out.data, words[i].wanted);
        hx_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_has_its_status),
        cmocka_unit_test(every_code_is_judged),
        cmocka_unit_test(commands_are_safe_to_paste),
    };
    return cmocka_run_group_tests_name("call_report", tests, NULL, NULL);
}
