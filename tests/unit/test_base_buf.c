/* SPDX-License-Identifier: MIT */
/* A growing buffer: its maximum, refused memory, and what a failure leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fault.h"

static void appends_grow_it(void **state)
{
    (void)state;
    struct hx_buf buf;
    hx_buf_init(&buf, 1 << 20);
    assert_int_equal(hx_buf_span(&buf).len, 0);
    assert_false(hx_span_is_absent(hx_buf_span(&buf)));
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(hx_buf_append_char(&buf, 'x'), 0);
        assert_int_equal(hx_buf_printf(&buf, "%d,", i), 0);
    }
    assert_int_equal(hx_buf_append(&buf, NULL, 0), 0);
    assert_int_equal(hx_buf_append_span(&buf, HX_SPAN_LIT("span")), 0);
    assert_int_equal(hx_buf_append_cstr(&buf, "end"), 0);
    assert_true(hx_span_starts_with(hx_buf_span(&buf), HX_SPAN_LIT("x0,x1,x2,")));
    assert_memory_equal(buf.data + buf.len - 7, "spanend", 7);
    hx_buf_consume(&buf, buf.len - 3);
    assert_true(hx_span_eq_cstr(hx_buf_span(&buf), "end"));
    hx_buf_consume(&buf, 0);
    hx_buf_consume(&buf, 3);
    assert_int_equal(buf.len, 0);
    hx_buf_fini(&buf);
    hx_buf_fini(NULL);
}

static void maximum_is_kept_and_the_failure_remembered(void **state)
{
    (void)state;
    struct hx_buf buf;
    hx_buf_init(&buf, 300);
    assert_int_equal(hx_buf_append_cstr(&buf, "kept"), 0);
    char big[600] = {0};
    assert_int_equal(hx_buf_append(&buf, big, sizeof(big)), HX_E_LIMIT);
    assert_false(hx_buf_ok(&buf));
    assert_true(hx_span_eq_cstr(hx_buf_span(&buf), "kept"));
    assert_int_equal(hx_buf_append_char(&buf, 'x'), HX_E_LIMIT);
    assert_int_equal(hx_buf_printf(&buf, "x"), HX_E_LIMIT);
    assert_int_equal(hx_fault_last()->code, HX_E_LIMIT);
    hx_buf_reset(&buf);
    assert_true(hx_buf_ok(&buf));
    assert_int_equal(hx_buf_append(&buf, big, 290), 0);
    assert_int_equal(hx_buf_printf(&buf, "%s", "much more than eleven"), HX_E_LIMIT);
    hx_buf_fini(&buf);
}

static void refused_memory_leaves_what_was_there(void **state)
{
    (void)state;
    struct hx_buf buf;
    hx_buf_init(&buf, 1 << 20);
    assert_int_equal(hx_buf_append_cstr(&buf, "kept"), 0);
    char big[1000] = {0};
    hx_alloc_fail_at(1);
    assert_int_equal(hx_buf_append(&buf, big, sizeof(big)), HX_E_NOMEM);
    assert_true(hx_span_eq_cstr(hx_buf_span(&buf), "kept"));
    hx_buf_reset(&buf);
    assert_int_equal(hx_buf_append(&buf, big, sizeof(big)), 0);
    hx_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_grow_it),
        cmocka_unit_test(maximum_is_kept_and_the_failure_remembered),
        cmocka_unit_test(refused_memory_leaves_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
