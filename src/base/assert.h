/* SPDX-License-Identifier: MIT */
/*
 * Assertions are always on. They catch our own mistakes and end the process, which is safe because
 * every promise is durable before it is made. Bytes from a socket, a disk, a config file or an
 * upstream are never asserted on: those get an error path and a test.
 */
#ifndef HX_BASE_ASSERT_H
#define HX_BASE_ASSERT_H

#include <stdint.h>

_Noreturn void hx_assert_failed(const char *condition, const char *file, int line,
                                const char *func);

#define hx_assert(condition)                                                                       \
    ((condition) ? (void)0 : hx_assert_failed(#condition, __FILE__, __LINE__, __func__))

/* Whole-structure checks; compiled in for tests and simulation. */
#ifdef HX_SLOW_ASSERTS
#define hx_assert_slow(condition) hx_assert(condition)
#else
#define hx_assert_slow(condition) ((void)0)
#endif

/* For objects reached through lists and void pointers: their first member is `uint32_t magic`. */
#define hx_check(object, expected_magic)                                                           \
    do {                                                                                           \
        hx_assert((object) != NULL);                                                               \
        hx_assert((object)->magic == (expected_magic));                                            \
    } while (0)

#define HX_MUST_CHECK __attribute__((warn_unused_result))
#define HX_PRINTF(format_index, first_arg)                                                         \
    __attribute__((format(printf, (format_index), (first_arg))))

#endif
