/* SPDX-License-Identifier: MIT */
/*
 * The one client of `hapax call`: what it takes an error for, once it has asked whether the ledger
 * knows of the call. "It does not" makes a script begin anew, so nothing else may be heard as that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/call_front/call_front.h"
#include "base/alloc.h"

struct talk {
    struct hx_loop *loop;
    struct hx_list inbox;
    struct hx_downstream *front;
};

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    memset(ret_bytes, 7, len);
}

static struct hx_mono now(void *arg)
{
    (void)arg;
    return (struct hx_mono){0};
}

static void begin(struct talk *talk)
{
    static struct hx_rand rand = {.fill = fill};
    const struct hx_call_front_options options = {
        .rand = &rand,
        .tool = HX_SPAN_LIT("charge"),
        .arguments = HX_SPAN_LIT("{}"),
        .key = HX_SPAN_LIT("k1"),
        .version = "0",
        .wait_ms = -1,
        .life_fd = -1,
    };
    talk->loop = hx_loop_new(&(struct hx_loop_clock){now, NULL});
    assert_non_null(talk->loop);
    hx_list_init(&talk->inbox);
    talk->front = hx_call_front_new(talk->loop, &talk->inbox, &options);
}

static void end(struct talk *talk)
{
    struct hx_list *node;
    hx_call_front_free(talk->front);
    while ((node = hx_list_take_first(&talk->inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
    hx_loop_free(talk->loop);
}

/* Takes what it has said; its last line must hold `method`. */
static void expect(struct talk *talk, const char *method)
{
    bool is_there = false;
    struct hx_list *node;
    while ((node = hx_list_take_first(&talk->inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->type == HX_PEER_MESSAGE) {
            assert_int_equal(hx_buf_append_char(&event->line, '\0'), 0);
            is_there = strstr(event->line.data, method) != NULL;
        }
        hx_peer_event_free(event);
    }
    if (!is_there)
        fail_msg("it did not ask %s", method);
}

/* It numbers what it asks. */
static void answer(struct talk *talk, int id, const char *rest)
{
    struct hx_buf line;
    const struct hx_sending sending = {.tag = (uint64_t)id};
    hx_buf_init(&line, 4096);
    assert_int_equal(hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%d,%s}", id, rest), 0);
    talk->front->ops->send(talk->front, &line, &sending);
}

static void an_error_is_absence_only_if_the_ledger_knows_nothing(void **state)
{
    static const struct {
        const char *says;
        const char *row;
        bool has_row, is_row_untold;
    } cases[] = {
        {"the row", "\"result\":{\"operation\":{\"id\":\"o1\",\"execution\":\"succeeded\"}}", true,
         false},
        {"there is none",
         "\"error\":{\"code\":-32602,\"message\":\"\",\"data\":{\"code\":\"NOT_FOUND\"}}", false,
         false},
        {"the ledger cannot be read",
         "\"error\":{\"code\":1503,\"message\":\"\",\"data\":{\"code\":\"LEDGER_UNAVAILABLE\","
         "\"retry_safe\":true}}",
         false, true},
        {"an error of nobody", "\"error\":{\"code\":-32603,\"message\":\"NOT_FOUND\"}", false,
         true},
        {"a result without a row", "\"result\":{}", false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct talk talk;
        begin(&talk);
        expect(&talk, "\"initialize\"");
        answer(&talk, 1, "\"result\":{}");
        expect(&talk, "\"tools/call\"");
        answer(&talk, 2, "\"error\":{\"code\":-32000,\"message\":\"it failed\"}");
        expect(&talk, "\"hapax/operations/get\"");
        assert_null(hx_call_front_answer(talk.front));
        answer(&talk, 3, cases[i].row);
        const struct hx_call_answer *told = hx_call_front_answer(talk.front);
        if (told == NULL || told->kind != HX_CALL_ERROR || told->has_row != cases[i].has_row ||
            told->is_row_untold != cases[i].is_row_untold)
            fail_msg("%s: not what it was taken for", cases[i].says);
        hx_call_front_leave(talk.front, true);
        end(&talk);
    }
}

/* A call that is passed through has no row, and our words about it no envelope. The same word of a
 * tool that has one is the tool's. */
static void a_code_is_ours_only_without_a_row(void **state)
{
    static const struct {
        const char *code, *row, *is_told;
    } cases[] = {
        {"NO_ANSWER",
         "\"error\":{\"code\":-32602,\"message\":\"\",\"data\":{\"code\":\"NOT_FOUND\"}}",
         "NO_ANSWER"},
        {"EVIL", "\"error\":{\"code\":-32602,\"message\":\"\",\"data\":{\"code\":\"NOT_FOUND\"}}",
         NULL},
        {"UPSTREAM_UNAVAILABLE",
         "\"result\":{\"operation\":{\"id\":\"o1\",\"execution\":\"succeeded\"}}", NULL},
        {"UPSTREAM_UNAVAILABLE", "\"error\":{\"code\":1503,\"message\":\"\"}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct talk talk;
        char error[256];
        begin(&talk);
        answer(&talk, 1, "\"result\":{}");
        (void)snprintf(error, sizeof(error),
                       "\"error\":{\"code\":1,\"message\":\"\",\"data\":{\"code\":\"%s\"}}",
                       cases[i].code);
        answer(&talk, 2, error);
        answer(&talk, 3, cases[i].row);
        const struct hx_call_answer *told = hx_call_front_answer(talk.front);
        assert_non_null(told);
        assert_int_equal(told->is_ours, cases[i].is_told != NULL);
        if (cases[i].is_told != NULL)
            assert_true(hx_span_eq_cstr(told->code, cases[i].is_told));
        hx_call_front_leave(talk.front, true);
        end(&talk);
    }
}

/* It is told what is known, and nobody waits for another answer. */
static void an_answer_that_cannot_be_read_says_nothing(void **state)
{
    static char row[200 * 1000];
    size_t len = (size_t)snprintf(row, sizeof(row), "\"result\":{\"operation\":{\"id\":\"o1\"");
    struct talk talk;
    struct hx_buf line;
    (void)state;
    for (int i = 0; i < 10000; i++)
        len += (size_t)snprintf(row + len, sizeof(row) - len, ",\"a%d\":1", i);
    snprintf(row + len, sizeof(row) - len, "}}");
    begin(&talk);
    answer(&talk, 1, "\"result\":{}");
    answer(&talk, 2, "\"error\":{\"code\":-32000,\"message\":\"it failed\"}");
    expect(&talk, "\"hapax/operations/get\"");
    hx_buf_init(&line, sizeof(row) + 64);
    assert_int_equal(hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":3,%s}", row), 0);
    hx_alloc_fail_large_at(1);
    talk.front->ops->send(talk.front, &line, &(struct hx_sending){.tag = 3});
    hx_alloc_fail_at(0);
    const struct hx_call_answer *told = hx_call_front_answer(talk.front);
    assert_non_null(told);
    assert_true(told->is_row_untold);
    hx_call_front_leave(talk.front, true);
    end(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_absence_only_if_the_ledger_knows_nothing),
        cmocka_unit_test(a_code_is_ours_only_without_a_row),
        cmocka_unit_test(an_answer_that_cannot_be_read_says_nothing),
    };
    return cmocka_run_group_tests_name("call_front", tests, NULL, NULL);
}
