/* SPDX-License-Identifier: MIT */
/*
 * The operating system's clocks and randomness.
 *
 *     struct hx_clock_os os;
 *     hx_clock_os_init(&os);
 *     struct hx_now now = hx_clock_now(&os.clock);
 *     hx_rand_fill(hx_rand_os(), bytes, sizeof bytes);
 */
#ifndef HX_ADAPTER_CLOCK_OS_H
#define HX_ADAPTER_CLOCK_OS_H

#include "base/time.h"
#include "port/clock.h"
#include "port/rand.h"

struct hx_clock_os {
    struct hx_clock clock;
    struct hx_boot boot; /* all zero when the kernel does not tell */
};

void hx_clock_os_init(struct hx_clock_os *os);
/* The monotonic half alone, in the shape the loop wants: {hx_clock_os_mono, NULL}. */
struct hx_mono hx_clock_os_mono(void *unused);
/* One for the process; needs no freeing. */
struct hx_rand *hx_rand_os(void);

#endif
