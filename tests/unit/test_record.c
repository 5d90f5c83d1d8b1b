/* SPDX-License-Identifier: MIT */
/* The durable record: its axes, its identity, and the rows that cannot be true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/record.h"
#include "kit/ops.h"

static struct hx_record base_record(enum hx_op_state state, enum hx_attempt_state attempt)
{
    struct hx_contract contract = kit_contract(HX_CLASS_OPAQUE);
    struct hx_record record = kit_record(&contract);
    if (attempt != HX_ATTEMPT_NONE)
        kit_claim(&record, 1, kit_now(1, 1));
    record.fence = 1;
    record.attempt.state = attempt;
    record.state = state;
    if (state == HX_OP_SUCCEEDED)
        record.outcome = kit_outcome("done");
    return record;
}

static void effect_is_a_function_of_attempts_and_execution(void **state)
{
    (void)state;
    static const struct {
        enum hx_op_state state;
        enum hx_attempt_state attempt;
        struct hx_attempt_counts earlier;
        enum hx_effect_state effect;
    } cases[] = {
        {HX_OP_AWAITING_APPROVAL, HX_ATTEMPT_NONE, {0}, HX_EFFECT_NONE},
        {HX_OP_READY, HX_ATTEMPT_DEAD, {0}, HX_EFFECT_NONE},
        {HX_OP_READY, HX_ATTEMPT_REFUSED, {0}, HX_EFFECT_ABSENT},
        {HX_OP_READY, HX_ATTEMPT_DEAD, {.refused = 1}, HX_EFFECT_ABSENT},
        {HX_OP_RUNNING, HX_ATTEMPT_OPEN, {0}, HX_EFFECT_INTENDED},
        {HX_OP_INPUT_REQUIRED, HX_ATTEMPT_ASKED, {0}, HX_EFFECT_INTENDED},
        {HX_OP_INPUT_REQUIRED, HX_ATTEMPT_DEAD, {.asked = 1}, HX_EFFECT_INTENDED},
        {HX_OP_UNKNOWN, HX_ATTEMPT_DEAD, {.open = 1}, HX_EFFECT_INTENDED},
        {HX_OP_UNKNOWN, HX_ATTEMPT_NONE, {0}, HX_EFFECT_INTENDED},
        {HX_OP_SUCCEEDED, HX_ATTEMPT_CONFIRMED, {0}, HX_EFFECT_CONFIRMED},
        {HX_OP_SUCCEEDED, HX_ATTEMPT_OPEN, {0}, HX_EFFECT_CONFIRMED},
        {HX_OP_EXPIRED, HX_ATTEMPT_DEAD, {.confirmed = 1}, HX_EFFECT_CONFIRMED},
        {HX_OP_EXPIRED, HX_ATTEMPT_CONFIRMED, {0}, HX_EFFECT_CONFIRMED},
        {HX_OP_FAILED, HX_ATTEMPT_NONE, {0}, HX_EFFECT_ABSENT},
        {HX_OP_CANCELLED, HX_ATTEMPT_NONE, {0}, HX_EFFECT_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_record record = base_record(cases[i].state, cases[i].attempt);
        record.earlier = cases[i].earlier;
        enum hx_effect_state effect = hx_record_effect(&record);
        if (effect != cases[i].effect)
            fail_msg("%s, attempt %s: %s, not %s", hx_op_state_name(cases[i].state),
                     hx_attempt_state_name(cases[i].attempt), hx_effect_state_name(effect),
                     hx_effect_state_name(cases[i].effect));
    }
}

static void delivery_is_the_best_of_the_waiters(void **state)
{
    (void)state;
    static const struct {
        enum hx_op_state state;
        uint32_t sent, lost;
        bool is_acknowledged;
        enum hx_delivery delivery;
    } cases[] = {
        {HX_OP_RUNNING, 1, 1, false, HX_DELIVERY_NOT_READY},
        {HX_OP_SUCCEEDED, 0, 0, false, HX_DELIVERY_PENDING},
        {HX_OP_SUCCEEDED, 0, 2, false, HX_DELIVERY_LOST},
        {HX_OP_SUCCEEDED, 1, 2, false, HX_DELIVERY_SENT},
        {HX_OP_FAILED, 1, 0, false, HX_DELIVERY_SENT},
        {HX_OP_SUCCEEDED, 0, 2, true, HX_DELIVERY_ACKNOWLEDGED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_record record = base_record(cases[i].state, HX_ATTEMPT_OPEN);
        record.sent_count = cases[i].sent;
        record.lost_count = cases[i].lost;
        record.is_acknowledged = cases[i].is_acknowledged;
        assert_string_equal(hx_delivery_name(hx_record_delivery(&record)),
                            hx_delivery_name(cases[i].delivery));
    }
}

static void distinct_calls_have_distinct_identities(void **state)
{
    (void)state;
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_record record = base_record(HX_OP_READY, HX_ATTEMPT_NONE);
    struct hx_digest first = hx_record_identity(hasher, &record, false);
    struct hx_record other = record;
    other.principal = HX_SPAN_LIT("1001");
    struct hx_digest digest = hx_record_identity(hasher, &other, false);
    assert_true(hx_digest_eq(&first, &digest)); /* key_scope: tenant */
    struct hx_digest scoped = hx_record_identity(hasher, &record, true);
    digest = hx_record_identity(hasher, &other, true);
    assert_false(hx_digest_eq(&scoped, &digest));
    assert_false(hx_digest_eq(&scoped, &first));

    struct hx_record changed[6];
    for (int i = 0; i < 6; i++)
        changed[i] = record;
    changed[0].tenant = HX_SPAN_LIT("other");
    changed[1].server = HX_SPAN_LIT("bankcharge"); /* fields must not run together */
    changed[1].tool = HX_SPAN_LIT("");
    changed[2].tool = HX_SPAN_LIT("refund");
    changed[3].key = HX_SPAN_LIT("order-8");
    changed[4].key_source = HX_KEY_NONE; /* nobody can guess his way into an internal key */
    changed[5].server = HX_SPAN_NONE;
    for (int i = 0; i < 6; i++) {
        digest = hx_record_identity(hasher, &changed[i], false);
        assert_false(hx_digest_eq(&first, &digest));
    }
    changed[0] = record;
    changed[0].key_source = HX_KEY_PARAMS; /* the same key by another way is the same key */
    digest = hx_record_identity(hasher, &changed[0], false);
    assert_true(hx_digest_eq(&first, &digest));
    hx_hasher_free(hasher);
}

static void twins_share_tenant_principal_server_tool_and_fingerprint(void **state)
{
    (void)state;
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_record record = base_record(HX_OP_READY, HX_ATTEMPT_NONE);
    struct hx_digest first = hx_record_twin(hasher, &record);
    struct hx_record other = record;
    other.key = HX_SPAN_LIT("anything");
    struct hx_digest digest = hx_record_twin(hasher, &other);
    assert_true(hx_digest_eq(&first, &digest));
    struct hx_record changed[5];
    for (int i = 0; i < 5; i++)
        changed[i] = record;
    changed[0].tenant = HX_SPAN_LIT("x");
    changed[1].principal = HX_SPAN_LIT("x");
    changed[2].server = HX_SPAN_LIT("x");
    changed[3].tool = HX_SPAN_LIT("x");
    changed[4].fingerprint = kit_digest(9);
    for (int i = 0; i < 5; i++) {
        digest = hx_record_twin(hasher, &changed[i]);
        assert_false(hx_digest_eq(&first, &digest));
    }
    hx_hasher_free(hasher);
}

struct flaw_case {
    const char *says; /* a word of the flaw; NULL = it may be so */
    enum hx_op_state state;
    enum hx_attempt_state attempt;
    struct hx_attempt_counts earlier;
};

static void states_have_facts(void **state)
{
    (void)state;
    static const struct flaw_case cases[] = {
        {"absent", HX_OP_ABSENT, HX_ATTEMPT_NONE, {0}},
        {NULL, HX_OP_AWAITING_APPROVAL, HX_ATTEMPT_NONE, {0}},
        {"approval", HX_OP_AWAITING_APPROVAL, HX_ATTEMPT_DEAD, {0}},
        {NULL, HX_OP_READY, HX_ATTEMPT_NONE, {0}},
        {NULL, HX_OP_READY, HX_ATTEMPT_DEAD, {.refused = 2}},
        {"ready", HX_OP_READY, HX_ATTEMPT_OPEN, {0}},
        {"ready", HX_OP_READY, HX_ATTEMPT_ASKED, {0}},
        {"ready", HX_OP_READY, HX_ATTEMPT_CONFIRMED, {0}},
        {"ready", HX_OP_READY, HX_ATTEMPT_DEAD, {.open = 1}},
        {"ready", HX_OP_READY, HX_ATTEMPT_DEAD, {.asked = 1}},
        {"ready", HX_OP_READY, HX_ATTEMPT_DEAD, {.confirmed = 1}},
        {NULL, HX_OP_RUNNING, HX_ATTEMPT_OPEN, {.open = 1}},
        {"no open attempt", HX_OP_RUNNING, HX_ATTEMPT_DEAD, {0}},
        {NULL, HX_OP_INPUT_REQUIRED, HX_ATTEMPT_ASKED, {0}},
        {NULL, HX_OP_INPUT_REQUIRED, HX_ATTEMPT_DEAD, {.asked = 1}},
        {"asked", HX_OP_INPUT_REQUIRED, HX_ATTEMPT_DEAD, {0}},
        {NULL, HX_OP_SUCCEEDED, HX_ATTEMPT_CONFIRMED, {0}},
        {NULL, HX_OP_FAILED, HX_ATTEMPT_REFUSED, {0}},
        {"failed", HX_OP_FAILED, HX_ATTEMPT_OPEN, {0}},
        {"failed", HX_OP_FAILED, HX_ATTEMPT_REFUSED, {.open = 1}},
        {NULL, HX_OP_UNKNOWN, HX_ATTEMPT_OPEN, {0}},
        {NULL, HX_OP_UNKNOWN, HX_ATTEMPT_ASKED, {0}},
        {NULL, HX_OP_UNKNOWN, HX_ATTEMPT_REFUSED, {.open = 1}},
        {"unknown", HX_OP_UNKNOWN, HX_ATTEMPT_REFUSED, {0}},
        {NULL, HX_OP_CANCELLED, HX_ATTEMPT_DEAD, {0}},
        {"cancelled", HX_OP_CANCELLED, HX_ATTEMPT_OPEN, {0}},
        {"cancelled", HX_OP_CANCELLED, HX_ATTEMPT_DEAD, {.asked = 1}},
        {NULL, HX_OP_EXPIRED, HX_ATTEMPT_CONFIRMED, {0}},
        {"no such state", HX_OP_STATE_COUNT, HX_ATTEMPT_NONE, {0}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_record record = base_record(cases[i].state, cases[i].attempt);
        record.earlier = cases[i].earlier;
        const char *flaw = hx_record_flaw(&record);
        bool is_right = cases[i].says == NULL ? flaw == NULL
                                              : flaw != NULL && strstr(flaw, cases[i].says) != NULL;
        if (!is_right)
            fail_msg("case %zu: %s", i, flaw != NULL ? flaw : "no flaw");
    }
}

static void assert_flaw(const struct hx_record *record, const char *word)
{
    const char *flaw = hx_record_flaw(record);
    assert_non_null(flaw);
    if (strstr(flaw, word) == NULL)
        fail_msg("%s does not say %s", flaw, word);
}

static void rows_that_cannot_be_true(void **state)
{
    (void)state;
    struct hx_record record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.owner = (struct hx_id){{0}};
    assert_flaw(&record, "no owner");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.sends = 0;
    assert_flaw(&record, "never sent");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.contract.approval = HX_APPROVAL_ALWAYS;
    assert_flaw(&record, "wants approval");
    record.is_approved = true;
    assert_null(hx_record_flaw(&record));
    record.sends = record.contract.attempts_max + 1;
    assert_flaw(&record, "more often");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.id = (struct hx_id){{0}};
    assert_flaw(&record, "no id");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.effect_key = (struct hx_id){{0}};
    assert_flaw(&record, "effect key");
    record = base_record(HX_OP_CANCELLED, HX_ATTEMPT_NONE);
    record.effect_key = (struct hx_id){{0}};
    record.is_tombstone = true;
    assert_null(hx_record_flaw(&record));
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.fence = 0;
    assert_flaw(&record, "fence");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.predecessor = kit_id(5);
    assert_flaw(&record, "generation");
    record.generation = 1;
    assert_null(hx_record_flaw(&record));
    record = base_record(HX_OP_READY, HX_ATTEMPT_NONE);
    record.attempt.number = 1;
    assert_flaw(&record, "no state");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.attempt.number = 0;
    assert_flaw(&record, "no number");
    record = base_record(HX_OP_RUNNING, HX_ATTEMPT_OPEN);
    record.attempt.is_marked = true;
    assert_flaw(&record, "mark time");
    record.attempt.marked_at = kit_now(1, 5);
    assert_flaw(&record, "first mark");
    record = base_record(HX_OP_SUCCEEDED, HX_ATTEMPT_CONFIRMED);
    record.outcome.kind = HX_OUTCOME_NONE;
    assert_flaw(&record, "without an outcome");
    record = base_record(HX_OP_FAILED, HX_ATTEMPT_REFUSED);
    record.outcome = kit_outcome("done");
    assert_flaw(&record, "result");
    record = base_record(HX_OP_UNKNOWN, HX_ATTEMPT_NONE);
    record.reason = HX_REASON_RESTORED_COPY;
    assert_null(hx_record_flaw(&record));
    record.reason = HX_REASON_SUPERSEDED;
    record.is_superseded = true;
    assert_null(hx_record_flaw(&record));
}

static void names_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < HX_OP_STATE_COUNT; i++) {
        enum hx_op_state back = HX_OP_STATE_COUNT;
        const char *name = hx_op_state_name((enum hx_op_state)i);
        assert_true(hx_op_state_parse(hx_span_cstr(name), &back));
        assert_int_equal(back, i);
    }
    enum hx_op_state untouched = HX_OP_READY;
    assert_false(hx_op_state_parse(HX_SPAN_LIT("readyy"), &untouched));
    assert_int_equal(untouched, HX_OP_READY);
    for (int i = 0; i < HX_REASON_COUNT; i++)
        assert_non_null(hx_reason_name((enum hx_reason)i));
    assert_string_equal(hx_attempt_state_name(HX_ATTEMPT_ASKED), "asked");
    assert_string_equal(hx_key_source_name(HX_KEY_INJECTED), "inject_key");
    assert_string_equal(hx_delivery_name(HX_DELIVERY_ACKNOWLEDGED), "acknowledged");
    assert_string_equal(hx_effect_state_name(HX_EFFECT_ABSENT), "absent");
}

/* What the store asks of every write: a final row may be rewritten as it is and nothing else. */
static void a_row_becomes_only_what_the_moves_allow(void **state)
{
    (void)state;
    assert_true(hx_op_may_become(HX_OP_RUNNING, HX_OP_SUCCEEDED));
    assert_true(hx_op_may_become(HX_OP_SUCCEEDED, HX_OP_SUCCEEDED));
    assert_true(hx_op_may_become(HX_OP_SUCCEEDED, HX_OP_EXPIRED));
    assert_false(hx_op_may_become(HX_OP_SUCCEEDED, HX_OP_UNKNOWN));
    assert_false(hx_op_may_become(HX_OP_FAILED, HX_OP_READY));
    assert_false(hx_op_may_become(HX_OP_CANCELLED, HX_OP_RUNNING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(effect_is_a_function_of_attempts_and_execution),
        cmocka_unit_test(delivery_is_the_best_of_the_waiters),
        cmocka_unit_test(distinct_calls_have_distinct_identities),
        cmocka_unit_test(twins_share_tenant_principal_server_tool_and_fingerprint),
        cmocka_unit_test(states_have_facts),
        cmocka_unit_test(rows_that_cannot_be_true),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(a_row_becomes_only_what_the_moves_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
