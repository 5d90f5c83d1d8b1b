/* SPDX-License-Identifier: MIT */
#include "base/crash.h"

#ifdef HX_CRASH_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Given by the linker; weak, since a program may have no point at all. */
extern const char *const __start_hx_crash_points[] __attribute__((weak));
extern const char *const __stop_hx_crash_points[] __attribute__((weak));

static _Atomic unsigned long visits;

void hx_crash_point(const char *name)
{
    const char *wanted = getenv("HAPAX_CRASH_AT");
    size_t len = strlen(name);
    if (wanted == NULL || strncmp(wanted, name, len) != 0)
        return;
    unsigned long countdown = 1;
    if (wanted[len] == ':')
        countdown = strtoul(wanted + len + 1, NULL, 10);
    else if (wanted[len] != '\0')
        return;
    if (atomic_fetch_add(&visits, 1) + 1 == countdown)
        (void)raise(SIGKILL);
}

size_t hx_crash_point_count(void)
{
    return (size_t)(__stop_hx_crash_points - __start_hx_crash_points);
}

const char *hx_crash_point_name(size_t index)
{
    return __start_hx_crash_points[index];
}

#else

size_t hx_crash_point_count(void)
{
    return 0;
}

const char *hx_crash_point_name(size_t index)
{
    return NULL;
}

#endif
