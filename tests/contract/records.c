/* SPDX-License-Identifier: MIT */
#include "records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void assert_spans_equal(struct hx_span actual, struct hx_span expected)
{
    assert_int_equal(actual.len, expected.len);
    assert_int_equal(hx_span_is_absent(actual), hx_span_is_absent(expected));
    if (expected.len > 0)
        assert_memory_equal(actual.ptr, expected.ptr, expected.len);
}

void assert_records_equal(const struct hx_record *actual, const struct hx_record *expected)
{
    struct hx_record a = *actual, b = *expected;
    struct hx_span *left[] = {&a.tenant, &a.principal, &a.server,       &a.tool,
                              &a.key,    &a.arguments, &a.outcome.bytes};
    struct hx_span *right[] = {&b.tenant, &b.principal, &b.server,       &b.tool,
                               &b.key,    &b.arguments, &b.outcome.bytes};
    for (size_t i = 0; i < 7; i++) {
        assert_spans_equal(*left[i], *right[i]);
        *left[i] = *right[i] = HX_SPAN_NONE;
    }
    assert_int_equal(a.state, b.state);
    assert_int_equal(a.reason, b.reason);
    assert_int_equal(a.fence, b.fence);
    assert_int_equal(a.attempt.number, b.attempt.number);
    assert_int_equal(a.attempt.state, b.attempt.state);
    assert_int_equal(a.attempt.is_marked, b.attempt.is_marked);
    assert_string_equal(a.attempt.transport, b.attempt.transport);
    assert_memory_equal(&a.attempt.claimed_at, &b.attempt.claimed_at, sizeof(struct hx_now));
    assert_memory_equal(&a.attempt.marked_at, &b.attempt.marked_at, sizeof(struct hx_now));
    assert_memory_equal(&a.earlier, &b.earlier, sizeof(a.earlier));
    assert_memory_equal(&a.first_mark, &b.first_mark, sizeof(struct hx_now));
    assert_memory_equal(&a.not_before, &b.not_before, sizeof(struct hx_now));
    assert_memory_equal(&a.settled, &b.settled, sizeof(struct hx_now));
    assert_memory_equal(&a.updated, &b.updated, sizeof(struct hx_now));
    assert_memory_equal(&a.created, &b.created, sizeof(struct hx_now));
    assert_memory_equal(&a.id, &b.id, sizeof(a.id));
    assert_memory_equal(&a.effect_key, &b.effect_key, sizeof(a.effect_key));
    assert_memory_equal(&a.identity, &b.identity, sizeof(a.identity));
    assert_memory_equal(&a.twin, &b.twin, sizeof(a.twin));
    assert_memory_equal(&a.fingerprint, &b.fingerprint, sizeof(a.fingerprint));
    assert_memory_equal(&a.owner, &b.owner, sizeof(a.owner));
    assert_memory_equal(&a.owner_boot, &b.owner_boot, sizeof(a.owner_boot));
    assert_memory_equal(&a.holder, &b.holder, sizeof(a.holder));
    assert_memory_equal(&a.successor, &b.successor, sizeof(a.successor));
    assert_memory_equal(&a.predecessor, &b.predecessor, sizeof(a.predecessor));
    assert_int_equal(a.outcome.kind, b.outcome.kind);
    assert_int_equal(a.outcome.place, b.outcome.place);
    assert_int_equal(a.outcome.is_error, b.outcome.is_error);
    assert_int_equal(a.outcome.is_reconstructed, b.outcome.is_reconstructed);
    assert_int_equal(a.outcome.size, b.outcome.size);
    assert_memory_equal(&a.outcome.digest, &b.outcome.digest, sizeof(a.outcome.digest));
    assert_int_equal(a.generation, b.generation);
    assert_int_equal(a.key_source, b.key_source);
    assert_int_equal(a.first_sent.ms, b.first_sent.ms);
    assert_int_equal(a.sends, b.sends);
    assert_int_equal(a.is_tombstone, b.is_tombstone);
    assert_int_equal(a.is_approved, b.is_approved);
    assert_int_equal(a.is_disputed, b.is_disputed);
    assert_int_equal(a.is_superseded, b.is_superseded);
    assert_int_equal(a.is_cancel_requested, b.is_cancel_requested);
    assert_int_equal(a.is_told_pending, b.is_told_pending);
    assert_int_equal(a.is_acknowledged, b.is_acknowledged);
    assert_int_equal(a.needs_human, b.needs_human);
    assert_int_equal(a.repeats, b.repeats);
    assert_int_equal(a.sent_count, b.sent_count);
    assert_int_equal(a.lost_count, b.lost_count);
    assert_int_equal(a.adoptions, b.adoptions);
    struct hx_buf contract_a, contract_b;
    hx_buf_init(&contract_a, 4096);
    hx_buf_init(&contract_b, 4096);
    hx_contract_format(&a.contract, &contract_a);
    hx_contract_format(&b.contract, &contract_b);
    assert_spans_equal(hx_buf_span(&contract_a), hx_buf_span(&contract_b));
    hx_buf_fini(&contract_a);
    hx_buf_fini(&contract_b);
}
