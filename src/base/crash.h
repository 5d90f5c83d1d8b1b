/* SPDX-License-Identifier: MIT */
/*
 * Named points at which a test build kills itself, one at every durable step and between them.
 *
 * With the build option `crash_points`, HAPAX_CRASH_AT="name" or "name:3" in the environment ends
 * the process by SIGKILL the first or third time it comes there: nothing is flushed, no handler
 * runs. "name>other" waits for the first and then ends it at the other. HAPAX_STOP_AT, of the same
 * form, stops it by SIGSTOP, so that a test can change the world and let it go on. Without the
 * option the points cost nothing.
 */
#ifndef HX_BASE_CRASH_H
#define HX_BASE_CRASH_H

#include <stddef.h>

#ifdef HX_CRASH_POINTS

/* The names gather in a section of their own, so that a program can list those it has. */
#define HX_CRASH_POINT(name)                                                                       \
    do {                                                                                           \
        static const char *const hx_crash_name __attribute__((used, section("hx_crash_points"))) = \
            (name);                                                                                \
        hx_crash_point(hx_crash_name);                                                             \
    } while (0)

void hx_crash_point(const char *name);

#else

#define HX_CRASH_POINT(name) ((void)0)

#endif

/* The points linked into this program; none without the build option. */
size_t hx_crash_point_count(void);
const char *hx_crash_point_name(size_t index);

#endif
