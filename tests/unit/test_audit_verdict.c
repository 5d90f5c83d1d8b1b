/* SPDX-License-Identifier: MIT */
/*
 * What is said of a trial. "Kept" is the word that must be earned: each row but the first of a kind
 * takes one thing away from a trial that was kept, and it is not kept any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/audit.h"

/* A retry after a cut that was staged in full, of a server that keeps its promise. */
static struct hx_audit_seen cut_and_kept(void)
{
    return (struct hx_audit_seen){.calls = 2,
                                  .is_counted = true,
                                  .wanted = 1,
                                  .effects = 1,
                                  .was_cut = true,
                                  .must_have_acted = true,
                                  .effects_at_cut = 1,
                                  .told = HX_AUDIT_TOLD_DONE};
}

static struct hx_audit_seen both_meant(void)
{
    return (struct hx_audit_seen){
        .calls = 2, .is_counted = true, .wanted = 2, .effects = 2, .told = HX_AUDIT_TOLD_DONE};
}

static void expect(enum hx_audit_kind kind, const struct hx_audit_seen *seen,
                   enum hx_audit_verdict verdict, const char *says)
{
    char reason[HX_AUDIT_WORDS_MAX] = "?";
    enum hx_audit_verdict got = hx_audit_judge(kind, seen, reason);
    if (got != verdict)
        fail_msg("%s, wanted %s: %s", hx_audit_verdict_text(got), hx_audit_verdict_text(verdict),
                 reason);
    if (strstr(reason, says) == NULL)
        fail_msg("'%s' does not say '%s'", reason, says);
    /* Whatever is not kept has a reason, and what is kept has none. */
    assert_int_equal(reason[0] == '\0', verdict == HX_AUDIT_KEPT);
}

static void kept_is_what_was_cut_after_it_acted_and_acted_once(void **state)
{
    (void)state;
    struct hx_audit_seen seen = cut_and_kept();
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_KEPT, "");
    seen.told = HX_AUDIT_TOLD_UNKNOWN;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_KEPT, "");
    seen.told = HX_AUDIT_TOLD_ERROR;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_KEPT, "");
}

static void what_was_not_exercised_is_not_kept(void **state)
{
    (void)state;
    struct hx_audit_seen seen = cut_and_kept();
    seen.was_cut = false;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "before it could be cut");
    seen = cut_and_kept();
    seen.effects_at_cut = 0;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "had not acted yet");
    seen.must_have_acted = false; /* cut early on purpose */
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_KEPT, "");
    seen.effects = 0;
    seen.told = HX_AUDIT_TOLD_ERROR;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "did not act");
    seen = cut_and_kept();
    seen.is_counted = false;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "not counted");
    seen = cut_and_kept();
    snprintf(seen.problem, sizeof(seen.problem), "the tool is too fast");
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "too fast");
    seen = cut_and_kept();
    seen.told = HX_AUDIT_TOLD_NOTHING;
    snprintf(seen.words, sizeof(seen.words), "nothing in time");
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "nothing in time");
    seen = cut_and_kept();
    seen.does_not_apply = true;
    snprintf(seen.problem, sizeof(seen.problem), "no keys");
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_NOT_SHOWN, "no keys");
}

static void an_effect_too_many_is_broken_whatever_else_went_wrong(void **state)
{
    (void)state;
    struct hx_audit_seen seen = cut_and_kept();
    seen.effects = 2;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_BROKEN, "acted 2 times where 1");
    seen.was_cut = false;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_BROKEN, "acted 2 times");
    snprintf(seen.problem, sizeof(seen.problem), "no answer");
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_BROKEN, "acted 2 times");
    expect(HX_AUDIT_KEYS, &seen, HX_AUDIT_BROKEN, "acted 2 times");
    expect(HX_AUDIT_CONFLICT, &seen, HX_AUDIT_BROKEN, "acted 2 times");
    seen.wanted = 2;
    seen.effects = 3;
    expect(HX_AUDIT_MEANT, &seen, HX_AUDIT_BROKEN, "acted 3 times where 2");
    seen.is_counted = false;
    expect(HX_AUDIT_MEANT, &seen, HX_AUDIT_NOT_SHOWN, "no answer");
}

static void a_caller_who_was_told_what_is_not_so(void **state)
{
    (void)state;
    struct hx_audit_seen seen = cut_and_kept();
    seen.told = HX_AUDIT_TOLD_ABSENT;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_BROKEN, "nothing happened, and it did");
    expect(HX_AUDIT_KEYS, &seen, HX_AUDIT_BROKEN, "nothing happened, and it did");
    seen.effects = 0;
    expect(HX_AUDIT_KEYS, &seen, HX_AUDIT_NOT_SHOWN, "did not act");
    seen.told = HX_AUDIT_TOLD_DONE;
    expect(HX_AUDIT_KEYS, &seen, HX_AUDIT_BROKEN, "done, and it is not");
    seen.must_have_acted = false;
    expect(HX_AUDIT_CUT, &seen, HX_AUDIT_BROKEN, "done, and it is not");
    /* Another call's key. */
    seen = cut_and_kept();
    expect(HX_AUDIT_CONFLICT, &seen, HX_AUDIT_BROKEN, "never ran");
    seen.told = HX_AUDIT_TOLD_ERROR;
    expect(HX_AUDIT_CONFLICT, &seen, HX_AUDIT_KEPT, "");
    seen.told = HX_AUDIT_TOLD_ABSENT; /* of the second call, and that is so */
    expect(HX_AUDIT_CONFLICT, &seen, HX_AUDIT_KEPT, "");
}

static void two_that_were_meant_are_two(void **state)
{
    (void)state;
    struct hx_audit_seen seen = both_meant();
    expect(HX_AUDIT_MEANT, &seen, HX_AUDIT_KEPT, "");
    seen.effects = 1;
    expect(HX_AUDIT_MEANT, &seen, HX_AUDIT_BROKEN, "became 1");
    seen.told = HX_AUDIT_TOLD_ERROR;
    expect(HX_AUDIT_MEANT, &seen, HX_AUDIT_BROKEN, "became 1");
}

/* The first call says whether anything can be counted; it breaks no promise. */
static void a_wrong_count_of_the_first_call_is_the_commands_fault(void **state)
{
    (void)state;
    struct hx_audit_seen seen = {
        .calls = 1, .is_counted = true, .wanted = 1, .effects = 2, .told = HX_AUDIT_TOLD_DONE};
    snprintf(seen.problem, sizeof(seen.problem), "by 2, not by 1");
    expect(HX_AUDIT_FIRST, &seen, HX_AUDIT_NOT_SHOWN, "by 2");
    seen.problem[0] = '\0'; /* another came later */
    expect(HX_AUDIT_FIRST, &seen, HX_AUDIT_NOT_SHOWN, "by 2, not by 1");
    seen.effects = 1;
    expect(HX_AUDIT_FIRST, &seen, HX_AUDIT_KEPT, "");
}

static void the_exit_status(void **state)
{
    (void)state;
    static const struct {
        struct hx_audit_sum sum;
        bool is_strict;
        int status;
    } rows[] = {
        {{.kept = 5}, false, 0},
        {{.kept = 5}, true, 0},
        {{.kept = 5, .inapplicable = 2}, false, 0},
        {{.kept = 5, .inapplicable = 2}, true, 3},
        {{.kept = 5, .missed = 1}, false, 3},
        {{.kept = 5, .broken = 1, .missed = 1}, false, 1},
        {{.kept = 1}, false, 3}, /* only the call that nothing disturbed */
        {{.kept = 1, .inapplicable = 20}, false, 3},
        {{.missed = 1}, false, 3},
        {{.broken = 1}, true, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (hx_audit_exit_status(&rows[i].sum, rows[i].is_strict) != rows[i].status)
            fail_msg("row %zu: %d, wanted %d", i,
                     hx_audit_exit_status(&rows[i].sum, rows[i].is_strict), rows[i].status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_is_what_was_cut_after_it_acted_and_acted_once),
        cmocka_unit_test(what_was_not_exercised_is_not_kept),
        cmocka_unit_test(an_effect_too_many_is_broken_whatever_else_went_wrong),
        cmocka_unit_test(a_caller_who_was_told_what_is_not_so),
        cmocka_unit_test(two_that_were_meant_are_two),
        cmocka_unit_test(a_wrong_count_of_the_first_call_is_the_commands_fault),
        cmocka_unit_test(the_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
