/* SPDX-License-Identifier: MIT */
/*
 * The table of adapter/http_client/outcome.h, cell by cell: every status that means something times
 * every content, inside and outside a session. One letter is one verdict.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/http_client/outcome.h"

/* In the order of enum hx_http_content: empty, no JSON-RPC, others, nameless, its error, its
 * result. A answered, R refused, S session lost; lost: n no answer, u unreadable, s status. */
static const struct line {
    int status;
    const char *outside;
    const char *inside;
} lines[] = {
    {200, "nunnAA", "nunnAA"}, {201, "nunnAA", "nunnAA"}, {202, "nunnAA", "nunnAA"},
    {204, "nunnAA", "nunnAA"}, {301, "ssssAA", "ssssAA"}, {302, "ssssAA", "ssssAA"},
    {304, "ssssAA", "ssssAA"}, {307, "ssssAA", "ssssAA"}, {400, "RRsRAA", "RRsRAA"},
    {401, "RRRRRA", "RRRRRA"}, {402, "ssssAA", "ssssAA"}, {403, "RRRRRA", "RRRRRA"},
    {404, "ssssAA", "SSSSSA"}, {405, "RRsRAA", "RRsRAA"}, {406, "RRsRAA", "RRsRAA"},
    {407, "RRRRRA", "RRRRRA"}, {408, "ssssAA", "ssssAA"}, {409, "ssssAA", "ssssAA"},
    {410, "ssssAA", "ssssAA"}, {413, "RRsRAA", "RRsRAA"}, {415, "RRsRAA", "RRsRAA"},
    {422, "ssssAA", "ssssAA"}, {425, "ssssAA", "ssssAA"}, {429, "RRRRRA", "RRRRRA"},
    {499, "ssssAA", "ssssAA"}, {500, "ssssAA", "ssssAA"}, {501, "ssssAA", "ssssAA"},
    {502, "ssssAA", "ssssAA"}, {503, "ssssAA", "ssssAA"}, {504, "ssssAA", "ssssAA"},
    {520, "ssssAA", "ssssAA"}, {599, "ssssAA", "ssssAA"},
};

static char letter_of(enum hx_http_verdict verdict, enum hx_peer_loss loss)
{
    if (verdict != HX_HTTP_LOST && loss != HX_PEER_LOSS_NONE)
        return '!';
    switch (verdict) {
    case HX_HTTP_ANSWERED:
        return 'A';
    case HX_HTTP_ACCEPTED:
        return 'C';
    case HX_HTTP_REFUSED:
        return 'R';
    case HX_HTTP_SESSION_LOST:
        return 'S';
    case HX_HTTP_LOST:
        break;
    }
    if (loss == HX_PEER_LOSS_NO_ANSWER)
        return 'n';
    if (loss == HX_PEER_LOSS_UNREADABLE)
        return 'u';
    return loss == HX_PEER_LOSS_STATUS ? 's' : '?';
}

static char judge(int status, enum hx_http_content content, bool is_in_session, bool is_answer_due)
{
    struct hx_http_seen seen = {status, is_in_session, is_answer_due, content};
    enum hx_peer_loss loss = HX_PEER_LOSS_STOPPED;
    enum hx_http_verdict verdict = hx_http_judge(&seen, &loss);

    return letter_of(verdict, loss);
}

static void check(const struct line *line, bool is_in_session)
{
    char got[HX_HTTP_CONTENT_COUNT + 1] = "";
    const char *wanted = is_in_session ? line->inside : line->outside;

    for (int content = 0; content < HX_HTTP_CONTENT_COUNT; content++)
        got[content] = judge(line->status, (enum hx_http_content)content, is_in_session, true);
    if (strcmp(got, wanted) != 0)
        fail_msg("status %d%s: expected %s, got %s", line->status,
                 is_in_session ? " in a session" : "", wanted, got);
}

static void test_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        check(&lines[i], false);
        check(&lines[i], true);
    }
}

static void test_a_status_not_in_the_table_proves_nothing(void **state)
{
    (void)state;
    for (int status = 100; status < 1000; status++) {
        bool is_listed = status / 100 == 2;
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            is_listed |= lines[i].status == status;
        if (!is_listed)
            assert_int_equal(judge(status, HX_HTTP_NOT_RPC, true, true), 's');
    }
}

static void test_messages_that_want_no_answer(void **state)
{
    (void)state;
    assert_int_equal(judge(200, HX_HTTP_EMPTY, true, false), 'C');
    assert_int_equal(judge(202, HX_HTTP_EMPTY, true, false), 'C');
    assert_int_equal(judge(202, HX_HTTP_NOT_RPC, false, false), 'C');
    assert_int_equal(judge(400, HX_HTTP_NAMELESS, true, false), 'R');
    assert_int_equal(judge(404, HX_HTTP_NAMELESS, true, false), 'S');
    assert_int_equal(judge(503, HX_HTTP_EMPTY, true, false), 's');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_a_status_not_in_the_table_proves_nothing),
        cmocka_unit_test(test_messages_that_want_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
