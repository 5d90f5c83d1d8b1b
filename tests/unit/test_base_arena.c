/* SPDX-License-Identifier: MIT */
/* Memory that dies together: alignment, the maximum, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdalign.h>

#include "base/alloc.h"
#include "base/arena.h"

static void memory_is_aligned_and_distinct(void **state)
{
    (void)state;
    struct hx_arena arena;
    hx_arena_init(&arena, 1 << 20);
    char *last = NULL;
    for (size_t size = 1; size < 9000; size = size * 3 + 1) {
        char *memory = hx_arena_alloc(&arena, size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % alignof(max_align_t), 0);
        memset(memory, 0x5a, size);
        assert_ptr_not_equal(memory, last);
        last = memory;
    }
    hx_arena_fini(&arena);
    hx_arena_fini(NULL);
}

static void maximum_holds_over_all(void **state)
{
    (void)state;
    struct hx_arena arena;
    hx_arena_init(&arena, 1000);
    assert_non_null(hx_arena_alloc(&arena, 800));
    assert_null(hx_arena_alloc(&arena, 300));
    assert_null(hx_arena_alloc(&arena, 2000));
    assert_null(hx_arena_alloc(&arena, SIZE_MAX));
    assert_non_null(hx_arena_alloc(&arena, 100));
    hx_arena_reset(&arena);
    assert_int_equal(arena.used, 0);
    assert_non_null(hx_arena_alloc(&arena, 800));
    hx_arena_fini(&arena);
    hx_arena_init(&arena, 100000);
    hx_arena_reset(&arena); /* of nothing */
    assert_non_null(hx_arena_alloc(&arena, 5000));
    assert_non_null(hx_arena_alloc(&arena, 5000));
    hx_arena_reset(&arena); /* keeps the newest block only */
    assert_null(hx_arena_alloc(&arena, 99990));
    hx_arena_fini(&arena);
}

static void copies_end_with_a_nul(void **state)
{
    (void)state;
    struct hx_arena arena;
    hx_arena_init(&arena, 4096);
    struct hx_span copy = hx_arena_dup(&arena, hx_span("abcdef", 3));
    assert_string_equal(copy.ptr, "abc");
    copy = hx_arena_dup(&arena, HX_SPAN_LIT(""));
    assert_string_equal(copy.ptr, "");
    hx_arena_fini(&arena);
    hx_arena_init(&arena, 4096);
    hx_alloc_fail_at(1);
    assert_true(hx_span_is_absent(hx_arena_dup(&arena, HX_SPAN_LIT("abc"))));
    hx_arena_fini(&arena);
}

static void strings_are_copied(void **state)
{
    (void)state;
    char *text = hx_strdup("abc");
    assert_string_equal(text, "abc");
    assert_null(hx_free(text));
    text = hx_span_strdup(HX_SPAN_NONE);
    assert_string_equal(text, "");
    hx_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_distinct),
        cmocka_unit_test(maximum_holds_over_all),
        cmocka_unit_test(copies_end_with_a_nul),
        cmocka_unit_test(strings_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
