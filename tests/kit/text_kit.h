/* SPDX-License-Identifier: MIT */
/*
 * For tests of byte work: spans compared so that a failure prints both texts, inputs copied to
 * memory of exactly their size so that a sanitizer sees every step beyond the end, and a loop that
 * fails each allocation once.
 */
#ifndef HX_TESTS_TEXT_KIT_H
#define HX_TESTS_TEXT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/span.h"

static inline void kit_span_equal(struct hx_span actual, const char *expected, const char *file,
                                  int line)
{
    if (expected == NULL && hx_span_is_absent(actual))
        return;
    if (expected != NULL && !hx_span_is_absent(actual) && hx_span_eq_cstr(actual, expected))
        return;
    print_error("%s:%d:\n  expected: %s\n  actual:   %.*s\n", file, line,
                expected ? expected : "(absent)", actual.ptr ? (int)actual.len : 8,
                actual.ptr ? actual.ptr : "(absent)");
    fail();
}

/* `expected` NULL means an absent span. */
#define assert_span_equal(actual, expected) kit_span_equal((actual), (expected), __FILE__, __LINE__)

/* A copy without a byte behind it; the caller frees `ptr` with free(). */
static inline struct hx_span kit_exact(struct hx_span text)
{
    char *copy = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return hx_span(copy, text.len);
}

static inline void kit_free(struct hx_span exact)
{
    free((void *)(uintptr_t)exact.ptr);
}

/* Runs `body(context)` with the n-th allocation refused, n = 1, 2, ... until a run does not get so
 * far. The body returns whether it succeeded; it must have cleaned up either way. */
static inline void kit_fail_each_allocation(bool (*body)(void *context), void *context)
{
    unsigned long refused = 0;
    for (unsigned long n = 1;; n++) {
        assert_true(n < 100000);
        hx_alloc_fail_at(n);
        bool is_done = body(context);
        hx_alloc_fail_at(0);
        if (is_done)
            break;
        refused++;
    }
    assert_true(refused > 0);
}

#endif
