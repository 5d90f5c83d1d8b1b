/* SPDX-License-Identifier: MIT */
/*
 * Which sanitizer this build has, whichever compiler made it. Such a build is many times slower,
 * and puts calls of its own between a test and the system.
 */
#ifndef HX_TESTS_SANITIZED_H
#define HX_TESTS_SANITIZED_H

#ifndef __has_feature /* gcc has macros instead */
#define __has_feature(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { KIT_HAS_ASAN = 1 };
#else
enum { KIT_HAS_ASAN = 0 };
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { KIT_HAS_TSAN = 1 };
#else
enum { KIT_HAS_TSAN = 0 };
#endif

#endif
