/* SPDX-License-Identifier: MIT */
/* What `hapax call` says to a script, and when a call counts as settled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/call_report.h"
#include "base/alloc.h"
#include "base/shell.h"

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
        (void)hx_shell_word(&out, hx_span_cstr(words[i].word));
        assert_int_equal(hx_buf_append_char(&out, '\0'), 0);
        assert_string_equal(out.data, words[i].wanted);
        hx_buf_fini(&out);
    }
}

/* Prints `result`. Whether that was done, and the first bytes of it. */
static bool report(struct hx_buf *result, bool is_refused, char ret_text[64])
{
    char *text = NULL, *said = NULL;
    size_t len = 0, said_len = 0;
    FILE *out = open_memstream(&text, &len), *words = open_memstream(&said, &said_len);
    assert_true(hx_buf_ok(result));
    assert_non_null(out);
    assert_non_null(words);
    const struct hx_call_answer answer = {
        .kind = HX_CALL_RESULT, .has_row = true, .result = hx_buf_span(result)};
    const struct hx_call_told told = {.answer = &answer, .ops_options = ""};
    if (is_refused)
        hx_alloc_fail_large_at(1);
    bool was_shown = hx_call_report(&told, out, words);
    hx_alloc_fail_at(0);
    (void)fclose(out);
    (void)fclose(words);
    snprintf(ret_text, 64, "%s", text);
    assert_true(was_shown || said_len > 0); /* never without a word */
    free(text);
    free(said);
    hx_buf_fini(result);
    return was_shown;
}

static void put_result(struct hx_buf *result, size_t blocks, size_t numbers)
{
    hx_buf_init(result, 256 << 20);
    (void)hx_buf_append_cstr(result, "{\"content\":[{\"type\":\"text\",\"text\":\"receipt\"}");
    for (size_t i = 1; i < blocks; i++)
        (void)hx_buf_append_cstr(result, ",{\"type\":\"text\",\"text\":\"\"}");
    (void)hx_buf_append_cstr(result, "],\"structuredContent\":{\"rows\":[0");
    for (size_t i = 1; i < numbers; i++)
        (void)hx_buf_append_cstr(result, ",1");
    (void)hx_buf_append_cstr(result, "]}}");
}

/* What is shown is forgotten, so what could not be read was not shown. */
static void a_result_is_shown_or_kept(void **state)
{
    struct hx_buf result;
    char text[64];
    (void)state;
    put_result(&result, 1, 5 * 1000 * 1000);
    assert_true(report(&result, false, text));
    assert_string_equal(text, "receipt\n");
    put_result(&result, 70 * 1000, 1);
    assert_false(report(&result, false, text));
    put_result(&result, 1000, 60 * 1000);
    assert_false(report(&result, true, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_has_its_status),
        cmocka_unit_test(every_code_is_judged),
        cmocka_unit_test(a_result_is_shown_or_kept),
        cmocka_unit_test(commands_are_safe_to_paste),
    };
    return cmocka_run_group_tests_name("call_report", tests, NULL, NULL);
}
