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

/* In the order of enum hx_http_content: empty, no JSON-RPC, a ruin, others, nameless, its error,
 * its result. A answered, R refused, S session lost; lost: n no answer, u unreadable, s status. */
static const struct line {
    int status;
    const char *outside;
    const char *inside;
} lines[] = {
    {200, "nuunnAA", "nuunnAA"}, {201, "nuunnAA", "nuunnAA"}, {202, "nuunnAA", "nuunnAA"},
    {204, "nuunnAA", "nuunnAA"}, {301, "sssssAA", "sssssAA"}, {302, "sssssAA", "sssssAA"},
    {304, "sssssAA", "sssssAA"}, {307, "sssssAA", "sssssAA"}, {400, "RRssRAA", "RRssRAA"},
    {401, "RRRRRRA", "RRRRRRA"}, {402, "sssssAA", "sssssAA"}, {403, "RRRRRRA", "RRRRRRA"},
    {404, "sssssAA", "SSSSSSA"}, {405, "RRssRAA", "RRssRAA"}, {406, "RRssRAA", "RRssRAA"},
    {407, "RRRRRRA", "RRRRRRA"}, {408, "sssssAA", "sssssAA"}, {409, "sssssAA", "sssssAA"},
    {410, "sssssAA", "sssssAA"}, {413, "RRssRAA", "RRssRAA"}, {415, "RRssRAA", "RRssRAA"},
    {422, "sssssAA", "sssssAA"}, {425, "sssssAA", "sssssAA"}, {429, "RRRRRRA", "RRRRRRA"},
    {499, "sssssAA", "sssssAA"}, {500, "sssssAA", "sssssAA"}, {501, "sssssAA", "sssssAA"},
    {502, "sssssAA", "sssssAA"}, {503, "sssssAA", "sssssAA"}, {504, "sssssAA", "sssssAA"},
    {520, "sssssAA", "sssssAA"}, {599, "sssssAA", "sssssAA"},
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

static char judge_seen(struct hx_http_seen seen)
{
    enum hx_peer_loss loss = HX_PEER_LOSS_STOPPED;
    enum hx_http_verdict verdict = hx_http_judge(&seen, &loss);

    return letter_of(verdict, loss);
}

static char judge(int status, enum hx_http_content content, bool is_in_session, bool is_answer_due)
{
    return judge_seen((struct hx_http_seen){.status = status,
                                            .is_in_session = is_in_session,
                                            .is_answer_due = is_answer_due,
                                            .is_whole = true,
                                            .content = content});
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

/* What is missing of a reply may be the error to the request, which then has acted. It changes
 * nothing under the statuses that need no body, and a message that wants no answer gets none. */
static void test_a_reply_that_is_not_whole_refuses_nothing(void **state)
{
    static const int need_their_body[] = {400, 405, 406, 413, 415};

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        bool needs_body = false;
        for (size_t j = 0; j < sizeof need_their_body / sizeof need_their_body[0]; j++)
            needs_body |= need_their_body[j] == lines[i].status;
        for (int content = 0; content < HX_HTTP_CONTENT_COUNT; content++) {
            struct hx_http_seen seen = {.status = lines[i].status,
                                        .is_in_session = true,
                                        .is_answer_due = true,
                                        .content = (enum hx_http_content)content};
            char whole = lines[i].inside[content];
            char wanted = (char)(needs_body && whole == 'R' ? 's' : whole);
            char got = judge_seen(seen);
            if (got != wanted)
                fail_msg("status %d, content %d: expected %c, got %c", seen.status, content, wanted,
                         got);
            seen.is_answer_due = false;
            if (needs_body && whole == 'R')
                assert_int_equal(judge_seen(seen), 'R');
        }
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
        cmocka_unit_test(test_a_reply_that_is_not_whole_refuses_nothing),
        cmocka_unit_test(test_a_status_not_in_the_table_proves_nothing),
        cmocka_unit_test(test_messages_that_want_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
