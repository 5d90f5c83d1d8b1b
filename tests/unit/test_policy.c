/* SPDX-License-Identifier: MIT */
/* What the contract of a tool allows after something is unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/policy.h"
#include "kit/ops.h"

static const int64_t minute_ms = 60 * 1000;
static const int64_t hour_ms = 60 * 60 * 1000;

static struct hx_record sent_record(struct hx_contract contract)
{
    struct hx_record record = kit_record(&contract);
    kit_claim(&record, 1, kit_now(1, 0));
    kit_mark(&record, kit_now(1, 0));
    return record;
}

static void horizon_counts_from_the_first_mark_and_leaves_room_for_the_attempt(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int64_t timeout_ms, in_flight_ms, last_ms; /* the last moment inside */
    } cases[] = {
        {"timeout and bound are declared", 60000, 120000, 3600000 - 60000 - 120000 - 1},
        {"no timeout: the orphan's", 0, 120000, 3600000 - 900000 - 120000 - 1},
        {"no bound: five minutes", 60000, HX_UNDECLARED_MS, 3600000 - 60000 - 300000 - 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
        contract.dedupe_horizon_ms = hour_ms;
        contract.timeout_ms = cases[i].timeout_ms;
        contract.in_flight_bound_ms = cases[i].in_flight_ms;
        struct hx_record record = sent_record(contract);
        struct hx_now now = kit_now(1, cases[i].last_ms);
        if (!hx_is_inside_horizon(&record, &now))
            fail_msg("%s: inside", cases[i].says);
        now = kit_now(1, cases[i].last_ms + 1);
        if (hx_is_inside_horizon(&record, &now))
            fail_msg("%s: no longer inside", cases[i].says);
        now = kit_now(2, 0);
        if (hx_is_inside_horizon(&record, &now))
            fail_msg("%s: over after another boot", cases[i].says);
    }
}

static void undeclared_horizon_covers_nothing(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    contract.dedupe_horizon_ms = HX_UNDECLARED_MS;
    struct hx_record record = sent_record(contract);
    struct hx_now now = kit_now(1, 1);
    assert_false(hx_is_inside_horizon(&record, &now));
}

static void lost_mark_does_not_move_the_horizon(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_KEYED);
    struct hx_record record = kit_record(&contract);
    struct hx_now now = kit_now(1, 30 * hour_ms);
    assert_true(hx_is_inside_horizon(&record, &now)); /* nothing was ever sent */
    kit_claim(&record, 1, kit_now(1, 0));             /* claimed, and its mark may be lost */
    assert_false(hx_is_inside_horizon(&record, &now));
    now = kit_now(1, hour_ms);
    assert_true(hx_is_inside_horizon(&record, &now));
    now = kit_now(2, 1000);
    assert_false(hx_is_inside_horizon(&record, &now));
}

static void class_decides_what_is_sent_again(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        enum hx_tool_class tool_class;
        bool is_reorder_safe, is_sender_gone, may;
    } cases[] = {
        {"opaque never", HX_CLASS_OPAQUE, true, true, false},
        {"probeable never", HX_CLASS_PROBEABLE, true, true, false},
        {"read-only has no business here", HX_CLASS_READ_ONLY, true, true, false},
        {"idempotent when its sender is gone", HX_CLASS_IDEMPOTENT, false, true, true},
        {"idempotent not while it could be overtaken", HX_CLASS_IDEMPOTENT, false, false, false},
        {"reorder-safe at any time", HX_CLASS_IDEMPOTENT, true, false, true},
        {"keyed at any time inside the horizon", HX_CLASS_KEYED, false, false, true},
    };
    struct hx_now now = kit_now(1, 1000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_contract contract = kit_contract(cases[i].tool_class);
        contract.is_reorder_safe = cases[i].is_reorder_safe;
        contract.dedupe_horizon_ms = 24 * hour_ms; /* so that the class alone says no */
        contract.attempts_max = 5;
        struct hx_record record = sent_record(contract);
        struct hx_facts facts = {.is_sender_gone = cases[i].is_sender_gone, .is_same_target = true};
        if (hx_may_send_again(&record, &facts, &now) != cases[i].may)
            fail_msg("%s", cases[i].says);
        if (cases[i].tool_class == HX_CLASS_KEYED) {
            struct hx_now too_late = kit_now(1, 24 * hour_ms);
            assert_false(hx_may_send_again(&record, &facts, &too_late));
        }
        facts.is_same_target = false;
        assert_false(hx_may_send_again(&record, &facts, &now));
        facts.is_same_target = true;
        record.sends = record.contract.attempts_max;
        assert_false(hx_may_send_again(&record, &facts, &now));
        record.sends = 1;
        record.attempt.state = HX_ATTEMPT_CONFIRMED;
        assert_false(hx_may_send_again(&record, &facts, &now));
        record.attempt.state = HX_ATTEMPT_OPEN;
        record.earlier.confirmed = 1;
        assert_false(hx_may_send_again(&record, &facts, &now));
        record.earlier.confirmed = 0;
        record.attempt = (struct hx_attempt){0};
        record.reason = HX_REASON_RESTORED_COPY;
        assert_false(hx_may_send_again(&record, &facts, &now));
        record.attempt.state = HX_ATTEMPT_OPEN;
        assert_false(hx_may_send_again(&record, &facts, &now));
        record.reason = HX_REASON_OWNER_DIED;
        assert_int_equal(hx_may_send_again(&record, &facts, &now), cases[i].may);
    }
}

static void a_gateway_that_recognises_the_key_may_be_sent_it_again(void **state)
{
    (void)state;
    struct hx_now now = kit_now(1, 1000);
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    contract.attempts_max = 5;
    struct hx_record record = sent_record(contract);
    struct hx_facts facts = {.is_same_target = true, .recognises_key = true};
    assert_true(hx_may_send_again(&record, &facts, &now));
    facts.recognises_key = false;
    assert_false(hx_may_send_again(&record, &facts, &now));
    facts = (struct hx_facts){.is_same_target = false, .recognises_key = true};
    assert_false(hx_may_send_again(&record, &facts, &now));
    facts.is_same_target = true;
    record.sends = contract.attempts_max;
    assert_false(hx_may_send_again(&record, &facts, &now));
    record.sends = 1;
    record.earlier.confirmed = 1;
    assert_false(hx_may_send_again(&record, &facts, &now));
}

static void not_before_is_a_monotonic_moment(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    struct hx_now now = kit_now(1, minute_ms);
    assert_true(hx_is_due(&record, &now));
    record.not_before = kit_now(1, minute_ms + 1);
    assert_false(hx_is_due(&record, &now));
    now = kit_now(1, minute_ms + 1);
    assert_true(hx_is_due(&record, &now));
    now = kit_now(2, 0);
    assert_true(hx_is_due(&record, &now));
}

static void absence_needs_a_bound_a_gone_sender_and_time_since_the_last_mark(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int64_t bound_ms, lag_ms, marked_ms, settled_ms, now_ms;
        bool is_sender_gone, is_provable;
    } cases[] = {
        {"no bound was declared", HX_UNDECLARED_MS, 0, 1, 2, 1 << 30, true, false},
        {"the sender may still send", 1000, 0, 1, 2, 1 << 30, false, false},
        {"bound and lag are over", 1000, 500, 100, 200, 1700, true, true},
        {"not quite", 1000, 500, 100, 200, 1699, true, false},
        {"a sender paused behind its mark sent long after it", 1000, 500, 100, 9000, 9100, true,
         false},
        {"not even since the mark", 1000, 500, 300, 200, 1799, true, false},
        {"the last mark is not known: since it was called unknown", 1000, 500, 0, 200, 1699, true,
         false},
        {"and then", 1000, 500, 0, 200, 1700, true, true},
        {"neither is known", 1000, 500, 0, 0, 1 << 30, true, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_contract contract = kit_contract(HX_CLASS_PROBEABLE);
        contract.in_flight_bound_ms = cases[i].bound_ms;
        contract.visibility_lag_ms = cases[i].lag_ms;
        struct hx_record record = kit_record(&contract);
        kit_claim(&record, 1, kit_now(1, 50));
        record.first_mark = kit_now(1, 10); /* of an earlier attempt, and no help */
        if (cases[i].marked_ms > 0)
            kit_mark(&record, kit_now(1, cases[i].marked_ms));
        if (cases[i].settled_ms > 0)
            record.settled = kit_now(1, cases[i].settled_ms);
        struct hx_facts facts = {.is_sender_gone = cases[i].is_sender_gone};
        struct hx_now now = kit_now(1, cases[i].now_ms);
        if (hx_absence_is_provable(&record, &facts, &now) != cases[i].is_provable)
            fail_msg("%s", cases[i].says);
        now = kit_now(2, 1 << 30);
        assert_false(hx_absence_is_provable(&record, &facts, &now)); /* starts again */
    }
}

/* Semantics section 7, the row of our own codes from an upstream that advertised the extension. */
static void words_of_an_inner_gateway_end_an_attempt_as_they_must(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        enum hx_inner first;
        enum hx_inner resent;
        enum hx_inner polled;
    } cases[] = {
        {"outcome", HX_INNER_OUTCOME, HX_INNER_OUTCOME, HX_INNER_OUTCOME},
        {"BUSY", HX_INNER_POLL, HX_INNER_POLL, HX_INNER_POLL},
        {"APPROVAL_REQUIRED", HX_INNER_POLL, HX_INNER_POLL, HX_INNER_POLL},
        {"INPUT_REQUIRED", HX_INNER_POLL, HX_INNER_POLL, HX_INNER_POLL},
        {"CANCEL_IN_DOUBT", HX_INNER_POLL, HX_INNER_POLL, HX_INNER_POLL},
        {"OUTCOME_UNKNOWN", HX_INNER_UNKNOWN, HX_INNER_UNKNOWN, HX_INNER_UNKNOWN},
        {"KEY_EXPIRED", HX_INNER_UNKNOWN, HX_INNER_UNKNOWN, HX_INNER_UNKNOWN},
        {"KEY_CONFLICT", HX_INNER_UNKNOWN, HX_INNER_UNKNOWN, HX_INNER_UNKNOWN},
        {"FAILED", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_REFUSED},
        {"CANCELLED", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_REFUSED},
        {"KEY_INVALID", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_UNKNOWN},
        {"KEY_REQUIRED", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_UNKNOWN},
        {"REPEAT_SUSPECTED", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_UNKNOWN},
        {"NO_ANSWER", HX_INNER_UNKNOWN, HX_INNER_UNKNOWN, HX_INNER_UNKNOWN},
        {"REQUEST_INVALID", HX_INNER_REFUSED, HX_INNER_REFUSED, HX_INNER_UNKNOWN},
        {"UPSTREAM_UNAVAILABLE", HX_INNER_UNAVAILABLE, HX_INNER_POLL, HX_INNER_POLL},
        {"LEDGER_UNAVAILABLE", HX_INNER_UNAVAILABLE, HX_INNER_POLL, HX_INNER_POLL},
        {"RESULT_UNAVAILABLE", HX_INNER_GONE, HX_INNER_GONE, HX_INNER_GONE},
        {"DONE", HX_INNER_OUTCOME, HX_INNER_OUTCOME, HX_INNER_OUTCOME},
        {"NOT_APPLIED", HX_INNER_OUTCOME, HX_INNER_OUTCOME, HX_INNER_OUTCOME},
    };
    assert_int_equal(sizeof(cases) / sizeof(cases[0]), HX_ANSWER_COUNT);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum hx_answer code;
        if (!hx_answer_parse(hx_span_cstr(cases[i].code), &code))
            fail_msg("no answer is called %s", cases[i].code);
        const enum hx_inner wanted[] = {cases[i].first, cases[i].resent, cases[i].polled};
        for (int before = HX_INNER_NOTHING; before <= HX_INNER_THIS_ATTEMPT; before++) {
            struct hx_inner_word word = {.code = code, .is_marked = true};
            enum hx_inner verdict = hx_inner_verdict(&word, (enum hx_inner_before)before);
            if (verdict != wanted[before])
                fail_msg("%s, after %d: %d", cases[i].code, before, verdict);
            word.is_marked = false;
            verdict = hx_inner_verdict(&word, (enum hx_inner_before)before);
            if (verdict != HX_INNER_UNKNOWN && cases[i].first != HX_INNER_OUTCOME)
                fail_msg("%s without a mark, after %d: %d", cases[i].code, before, verdict);
        }
        /* Who says that it may have happened is never taken for one that did nothing. */
        if (cases[i].first == HX_INNER_UNAVAILABLE &&
            hx_inner_verdict(&(struct hx_inner_word){code, true, true}, HX_INNER_NOTHING) !=
                HX_INNER_UNKNOWN)
            fail_msg("%s, unsafe", cases[i].code);
    }
    enum hx_answer none;
    assert_false(hx_answer_parse(HX_SPAN_LIT("SOMETHING"), &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(horizon_counts_from_the_first_mark_and_leaves_room_for_the_attempt),
        cmocka_unit_test(undeclared_horizon_covers_nothing),
        cmocka_unit_test(lost_mark_does_not_move_the_horizon),
        cmocka_unit_test(class_decides_what_is_sent_again),
        cmocka_unit_test(a_gateway_that_recognises_the_key_may_be_sent_it_again),
        cmocka_unit_test(not_before_is_a_monotonic_moment),
        cmocka_unit_test(words_of_an_inner_gateway_end_an_attempt_as_they_must),
        cmocka_unit_test(absence_needs_a_bound_a_gone_sender_and_time_since_the_last_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
