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

/* What a variable of the environment asks for: the way through the points, and how far we are. */
struct errand {
    const char *variable;
    int signal;
    _Atomic unsigned passed; /* points of the way that are behind us */
    _Atomic unsigned long visits;
};

static struct errand errands[] = {{.variable = "HAPAX_CRASH_AT", .signal = SIGKILL},
                                  {.variable = "HAPAX_STOP_AT", .signal = SIGSTOP}};

/* The next point of the way; NULL when it is walked. */
static const char *next_of(const struct errand *errand)
{
    const char *at = getenv(errand->variable);
    for (unsigned left = errand->passed; left > 0 && at != NULL; left--) {
        at = strchr(at, '>');
        at = at != NULL ? at + 1 : NULL;
    }
    return at;
}

static void visit(struct errand *errand, const char *name)
{
    const char *wanted = next_of(errand);
    size_t len = strlen(name);
    if (wanted == NULL || strncmp(wanted, name, len) != 0)
        return;
    unsigned long countdown = 1;
    const char *end = strchr(wanted, '>');
    if (wanted[len] == ':')
        countdown = strtoul(wanted + len + 1, NULL, 10);
    else if (wanted[len] != '\0' && wanted[len] != '>')
        return;
    if (atomic_fetch_add(&errand->visits, 1) + 1 != countdown)
        return;
    errand->visits = 0;
    errand->passed++;
    if (end == NULL)
        (void)raise(errand->signal);
}

void hx_crash_point(const char *name)
{
    for (size_t i = 0; i < sizeof(errands) / sizeof(errands[0]); i++)
        visit(&errands[i], name);
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
