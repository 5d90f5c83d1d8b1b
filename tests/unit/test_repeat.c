/* SPDX-License-Identifier: MIT */
/* What a call without a key means when an equal one is known; and what a fresh key means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/repeat.h"
#include "kit/ops.h"

static const int64_t minute_ms = 60 * 1000;
static const int64_t day_ms = 24 * 60 * 60 * 1000;

/* How far an equal operation has come. */
enum delivery { NOBODY, SENT, LOST, ACKNOWLEDGED };

struct past {
    enum hx_op_state state;
    enum delivery delivery;
    bool is_keyed, is_told_pending, is_gone, is_superseded;
    bool has_waiter, is_same_line;
    int64_t waited_ms;
    int64_t settled_ms; /* before now; the boot is `settled_boot` or ours */
    unsigned settled_boot;
};

static struct hx_now now_of_test(void)
{
    return kit_now(3, day_ms);
}

static struct hx_record record_of(const struct past *past, const struct hx_contract *contract)
{
    struct hx_record record = kit_record(contract);
    record.state = past->state;
    record.key_source = past->is_keyed ? HX_KEY_META : HX_KEY_NONE;
    record.sent_count = past->delivery == SENT;
    record.lost_count = past->delivery == LOST;
    record.is_acknowledged = past->delivery == ACKNOWLEDGED;
    record.is_told_pending = past->is_told_pending;
    record.is_superseded = past->is_superseded;
    record.outcome.place = past->is_gone ? HX_OUTCOME_GONE : HX_OUTCOME_INLINE;
    record.settled = now_of_test();
    record.settled.mono.ms -= past->settled_ms;
    record.settled.wall.ms -= past->settled_ms;
    if (past->settled_boot != 0)
        record.settled.boot = kit_now(past->settled_boot, 0).boot;
    return record;
}

static struct hx_twin twin_of(const struct past *past, const struct hx_record *record)
{
    return (struct hx_twin){record, past->has_waiter, past->is_same_line, past->waited_ms};
}

struct row {
    const char *says;
    struct past past;
    enum hx_repeat_verdict verdict;
};

static void check_rows(enum hx_repeat repeat, const struct row *rows, size_t count)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    contract.repeat = repeat;
    struct hx_now now = now_of_test();
    for (size_t i = 0; i < count; i++) {
        struct hx_record record = record_of(&rows[i].past, &contract);
        struct hx_twin twin = twin_of(&rows[i].past, &record);
        struct hx_repeat_decision decision = hx_repeat_decide(&contract, &twin, 1, &now);
        if (decision.verdict != rows[i].verdict)
            fail_msg("%s: %d, not %d", rows[i].says, (int)decision.verdict, (int)rows[i].verdict);
    }
}
#define CHECK_ROWS(repeat, rows) check_rows(repeat, rows, sizeof(rows) / sizeof((rows)[0]))

static void lost_believes_only_evidence_of_a_lost_answer(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"running, nobody waits", {.state = HX_OP_RUNNING}, HX_REPEAT_ADOPT},
        {"ready, nobody waits", {.state = HX_OP_READY}, HX_REPEAT_ADOPT},
        {"awaiting approval", {.state = HX_OP_AWAITING_APPROVAL}, HX_REPEAT_ADOPT},
        {"input required", {.state = HX_OP_INPUT_REQUIRED}, HX_REPEAT_ADOPT},
        {"unknown, however old",
         {.state = HX_OP_UNKNOWN, .settled_ms = 300 * day_ms},
         HX_REPEAT_ADOPT},
        {"superseded is never adopted",
         {.state = HX_OP_UNKNOWN, .is_superseded = true},
         HX_REPEAT_NEW},
        {"a keyed one: the key was lost on the way, or its client sends none any more",
         {.state = HX_OP_UNKNOWN, .is_keyed = true},
         HX_REPEAT_ADOPT},
        {"a keyed one, finished, the answer was lost",
         {.state = HX_OP_SUCCEEDED, .is_keyed = true, .delivery = LOST, .settled_ms = 1},
         HX_REPEAT_ADOPT},
        {"a keyed one, finished and delivered",
         {.state = HX_OP_SUCCEEDED, .is_keyed = true, .delivery = SENT, .settled_ms = 1},
         HX_REPEAT_NEW},
        {"a keyed one, somebody waits, just now",
         {.state = HX_OP_RUNNING,
          .is_keyed = true,
          .has_waiter = true,
          .is_same_line = true,
          .waited_ms = 499},
         HX_REPEAT_NEW},
        {"a keyed one, somebody has waited in silence on this line",
         {.state = HX_OP_RUNNING,
          .is_keyed = true,
          .has_waiter = true,
          .is_same_line = true,
          .waited_ms = 500},
         HX_REPEAT_ADOPT},
        {"somebody waits, just now",
         {.state = HX_OP_RUNNING, .has_waiter = true, .is_same_line = true, .waited_ms = 499},
         HX_REPEAT_NEW},
        {"somebody has waited in silence on this line",
         {.state = HX_OP_RUNNING, .has_waiter = true, .is_same_line = true, .waited_ms = 500},
         HX_REPEAT_ADOPT},
        {"somebody waits on another line",
         {.state = HX_OP_RUNNING, .has_waiter = true, .waited_ms = 5000},
         HX_REPEAT_NEW},
        {"finished, the answer was lost",
         {.state = HX_OP_SUCCEEDED, .delivery = LOST, .settled_ms = 14 * minute_ms},
         HX_REPEAT_ADOPT},
        {"finished, nobody was there",
         {.state = HX_OP_SUCCEEDED, .settled_ms = 14 * minute_ms},
         HX_REPEAT_ADOPT},
        {"failed, and nobody was told", {.state = HX_OP_FAILED, .settled_ms = 1}, HX_REPEAT_ADOPT},
        {"cancelled, and nobody was told",
         {.state = HX_OP_CANCELLED, .settled_ms = 1},
         HX_REPEAT_ADOPT},
        {"the window is over",
         {.state = HX_OP_SUCCEEDED, .settled_ms = 15 * minute_ms},
         HX_REPEAT_NEW},
        {"but its caller was told to come back",
         {.state = HX_OP_SUCCEEDED, .is_told_pending = true, .settled_ms = 3 * day_ms},
         HX_REPEAT_ADOPT},
        {"and there is nothing left to give him",
         {.state = HX_OP_SUCCEEDED,
          .is_told_pending = true,
          .is_gone = true,
          .settled_ms = 3 * day_ms},
         HX_REPEAT_NEW},
        {"finished and delivered",
         {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = 1},
         HX_REPEAT_NEW},
        {"finished and acknowledged",
         {.state = HX_OP_SUCCEEDED, .delivery = ACKNOWLEDGED, .settled_ms = 1},
         HX_REPEAT_NEW},
        {"finished, its answer is just being written",
         {.state = HX_OP_SUCCEEDED, .has_waiter = true, .is_same_line = true, .waited_ms = 9999},
         HX_REPEAT_NEW},
        {"expired", {.state = HX_OP_EXPIRED}, HX_REPEAT_NEW},
        {"absent", {.state = HX_OP_ABSENT}, HX_REPEAT_NEW},
    };
    CHECK_ROWS(HX_REPEAT_LOST, rows);
}

static void window_across_boots_starts_again_within_a_day(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    static const struct {
        const char *says;
        int64_t up_ms, wall_ms;
        enum hx_repeat_verdict verdict;
    } rows[] = {
        {"soon after the boot", 60000, 3600000, HX_REPEAT_ADOPT},
        {"a window after the boot", 900000, 3600000, HX_REPEAT_NEW},
        {"a day later by the wall", 60000, 86400000, HX_REPEAT_NEW},
        {"the wall clock was set back", 60000, -86400000, HX_REPEAT_ADOPT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct past past = {.state = HX_OP_SUCCEEDED, .delivery = LOST, .settled_boot = 2};
        struct hx_record record = record_of(&past, &contract);
        struct hx_twin twin = twin_of(&past, &record);
        struct hx_now now = now_of_test();
        now.mono.ms = rows[i].up_ms;
        now.wall.ms = record.settled.wall.ms + rows[i].wall_ms;
        if (hx_repeat_decide(&contract, &twin, 1, &now).verdict != rows[i].verdict)
            fail_msg("%s", rows[i].says);
    }
}

static void window_takes_any_equal_call_unless_it_failed(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"delivered, inside the window",
         {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = 14 * minute_ms},
         HX_REPEAT_ADOPT},
        {"delivered, the window is over",
         {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = 15 * minute_ms},
         HX_REPEAT_NEW},
        {"owed, however old",
         {.state = HX_OP_SUCCEEDED, .is_told_pending = true, .settled_ms = day_ms},
         HX_REPEAT_ADOPT},
        {"lost but not owed, too old",
         {.state = HX_OP_SUCCEEDED, .delivery = LOST, .settled_ms = day_ms},
         HX_REPEAT_NEW},
        {"open, somebody waits", {.state = HX_OP_RUNNING, .has_waiter = true}, HX_REPEAT_ADOPT},
        {"failed", {.state = HX_OP_FAILED, .settled_ms = 1}, HX_REPEAT_NEW},
        {"cancelled", {.state = HX_OP_CANCELLED, .settled_ms = 1}, HX_REPEAT_NEW},
        {"keyed", {.state = HX_OP_SUCCEEDED, .is_keyed = true, .settled_ms = 1}, HX_REPEAT_ADOPT},
    };
    CHECK_ROWS(HX_REPEAT_WINDOW, rows);
}

static void ask_puts_a_delivered_twin_to_a_person(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"delivered",
         {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = 1},
         HX_REPEAT_SUSPECT},
        {"lost", {.state = HX_OP_SUCCEEDED, .delivery = LOST, .settled_ms = 1}, HX_REPEAT_ADOPT},
        {"open", {.state = HX_OP_RUNNING}, HX_REPEAT_ADOPT},
        {"too old",
         {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = day_ms},
         HX_REPEAT_NEW},
    };
    CHECK_ROWS(HX_REPEAT_ASK, rows);
}

static void require_key_and_separate_look_at_no_twin(void **state)
{
    (void)state;
    static const struct row refused[] = {
        {"a key is required", {.state = HX_OP_RUNNING}, HX_REPEAT_NEEDS_KEY}};
    static const struct row apart[] = {
        {"every call is its own", {.state = HX_OP_RUNNING}, HX_REPEAT_NEW}};
    CHECK_ROWS(HX_REPEAT_REQUIRE_KEY, refused);
    CHECK_ROWS(HX_REPEAT_SEPARATE, apart);
}

static void lost_takes_the_oldest_and_window_the_newest(void **state)
{
    (void)state;
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    const struct past pasts[] = {
        {.state = HX_OP_SUCCEEDED, .delivery = SENT, .settled_ms = 3},
        {.state = HX_OP_RUNNING, .has_waiter = true, .is_same_line = true, .waited_ms = 900},
        {.state = HX_OP_UNKNOWN},
        {.state = HX_OP_RUNNING},
    };
    struct hx_record records[4];
    struct hx_twin twins[4];
    for (int i = 0; i < 4; i++) {
        records[i] = record_of(&pasts[i], &contract);
        twins[i] = twin_of(&pasts[i], &records[i]);
    }
    struct hx_now now = now_of_test();
    struct hx_repeat_decision decision = hx_repeat_decide(&contract, twins, 4, &now);
    assert_int_equal(decision.verdict, HX_REPEAT_ADOPT);
    assert_int_equal(decision.index, 2); /* a lost one goes before one with a silent waiter */
    contract.repeat = HX_REPEAT_WINDOW;
    decision = hx_repeat_decide(&contract, twins, 4, &now);
    assert_int_equal(decision.index, 3);
    assert_int_equal(hx_repeat_decide(&contract, twins, 0, &now).verdict, HX_REPEAT_NEW);
}

static void fresh_key_on_an_unresolved_twin(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        enum hx_fresh_key fresh_key;
        struct past past;
        enum hx_repeat_verdict verdict;
    } rows[] = {
        {"a keyless unknown one is adopted",
         HX_FRESH_KEY_WARN,
         {.state = HX_OP_UNKNOWN},
         HX_REPEAT_ADOPT},
        {"so is a keyless running one nobody waits for",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_RUNNING},
         HX_REPEAT_ADOPT},
        {"a keyed one is warned of",
         HX_FRESH_KEY_WARN,
         {.state = HX_OP_UNKNOWN, .is_keyed = true},
         HX_REPEAT_FRESH_WARN},
        {"asked",
         HX_FRESH_KEY_ASK,
         {.state = HX_OP_UNKNOWN, .is_keyed = true},
         HX_REPEAT_FRESH_ASK},
        {"or refused",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_RUNNING, .is_keyed = true},
         HX_REPEAT_FRESH_REFUSE},
        {"somebody waits: another intent",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_RUNNING, .is_keyed = true, .has_waiter = true},
         HX_REPEAT_NEW},
        {"superseded",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_UNKNOWN, .is_superseded = true},
         HX_REPEAT_NEW},
        {"a keyless one that has finished and whose answer is lost is adopted",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_SUCCEEDED},
         HX_REPEAT_ADOPT},
        {"settled and answered",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_SUCCEEDED, .delivery = SENT},
         HX_REPEAT_NEW},
        {"one of another key whose answer was lost",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_SUCCEEDED, .is_keyed = true, .delivery = LOST, .settled_ms = 1},
         HX_REPEAT_NEW},
        {"a settled one of another key",
         HX_FRESH_KEY_REFUSE,
         {.state = HX_OP_SUCCEEDED, .is_keyed = true},
         HX_REPEAT_NEW},
    };
    struct hx_now now = now_of_test();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
        contract.fresh_key = rows[i].fresh_key;
        struct hx_record record = record_of(&rows[i].past, &contract);
        struct hx_twin twin = twin_of(&rows[i].past, &record);
        if (hx_repeat_decide_fresh_key(&contract, &twin, 1, &now).verdict != rows[i].verdict)
            fail_msg("%s", rows[i].says);
    }
}

/* The index of twins must keep whatever a later call may mean, and need not keep more. */
static void cold_is_what_no_later_call_can_mean(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        enum hx_repeat repeat;
        struct past past;
        bool is_cold;
    } rows[] = {
        {"open", HX_REPEAT_LOST, {.state = HX_OP_RUNNING, .settled_ms = 9 * day_ms}, false},
        {"superseded", HX_REPEAT_LOST, {.state = HX_OP_UNKNOWN, .is_superseded = true}, true},
        {"expired", HX_REPEAT_LOST, {.state = HX_OP_EXPIRED}, true},
        {"keyed and settled, and nobody was told",
         HX_REPEAT_LOST,
         {.state = HX_OP_SUCCEEDED, .is_keyed = true},
         false},
        {"keyed and delivered",
         HX_REPEAT_LOST,
         {.state = HX_OP_SUCCEEDED, .is_keyed = true, .delivery = SENT},
         true},
        {"lost, inside the window",
         HX_REPEAT_LOST,
         {.state = HX_OP_SUCCEEDED, .delivery = LOST},
         false},
        {"lost, too old",
         HX_REPEAT_LOST,
         {.state = HX_OP_SUCCEEDED, .delivery = LOST, .settled_ms = day_ms},
         true},
        {"owed",
         HX_REPEAT_LOST,
         {.state = HX_OP_SUCCEEDED, .is_told_pending = true, .settled_ms = 9 * day_ms},
         false},
        {"delivered", HX_REPEAT_LOST, {.state = HX_OP_SUCCEEDED, .delivery = SENT}, true},
        {"delivered, keys required",
         HX_REPEAT_REQUIRE_KEY,
         {.state = HX_OP_SUCCEEDED, .delivery = SENT},
         true},
        {"delivered, separate",
         HX_REPEAT_SEPARATE,
         {.state = HX_OP_SUCCEEDED, .delivery = SENT},
         true},
        {"delivered, by window",
         HX_REPEAT_WINDOW,
         {.state = HX_OP_SUCCEEDED, .delivery = SENT},
         false},
        {"delivered, by ask", HX_REPEAT_ASK, {.state = HX_OP_SUCCEEDED, .delivery = SENT}, false},
    };
    struct hx_now now = now_of_test();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
        contract.repeat = rows[i].repeat;
        struct hx_record record = record_of(&rows[i].past, &contract);
        if (hx_repeat_is_cold(&record, &now) != rows[i].is_cold)
            fail_msg("%s", rows[i].says);
        struct hx_twin twin = twin_of(&rows[i].past, &record);
        bool is_meant = hx_repeat_decide(&contract, &twin, 1, &now).verdict == HX_REPEAT_ADOPT;
        if (is_meant && rows[i].is_cold)
            fail_msg("%s: cold, and yet adopted", rows[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_believes_only_evidence_of_a_lost_answer),
        cmocka_unit_test(window_across_boots_starts_again_within_a_day),
        cmocka_unit_test(window_takes_any_equal_call_unless_it_failed),
        cmocka_unit_test(ask_puts_a_delivered_twin_to_a_person),
        cmocka_unit_test(require_key_and_separate_look_at_no_twin),
        cmocka_unit_test(lost_takes_the_oldest_and_window_the_newest),
        cmocka_unit_test(fresh_key_on_an_unresolved_twin),
        cmocka_unit_test(cold_is_what_no_later_call_can_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
