/* SPDX-License-Identifier: MIT */
/*
 * One call that fails: which one is told by the stack that it is made on.
 *
 * Preloaded below a test program (tests/nth/run), this notes every different stack on which the
 * program allocates or calls the system, and in another run lets one of them fail. A stack and not
 * a number, because programs with processes and sockets do not count alike twice. Linked into a
 * test, it counts, which that test can afford because it asks for less.
 *
 *   HX_NTH_KIND    `memory` or `calls`
 *   HX_NTH_LOG     a file: gets a line for each stack when nothing is to fail, and one when it did
 *   HX_NTH_STACK   in hexadecimal: what is to fail; HX_NTH_CALLER its first frame
 *   HX_NTH_NTH     the how-manieth time that stack is seen; 1 without it
 *   HX_NTH_FAULT   the name of an errno, or SHORT
 *   HX_NTH_TEST    the one test of a cmocka program that is run
 *
 * A program that is linked with it, and started by another: HX_NTH_ARM, as nth_arm().
 *
 * A fault whose name stands behind a `~` is one that nobody may notice: the call is made again, or
 * goes on later.
 */
#ifndef HX_TESTS_NTH_H
#define HX_TESTS_NTH_H

#include <stdbool.h>
#include <stddef.h>

enum nth_kind { NTH_MEMORY, NTH_CALLS };

enum { NTH_SHORT = -1 /* no errno: a part is done */ };

/* What to do in place of this call: 0 nothing, an errno, or NTH_SHORT. `faults` names what may
 * happen to it, with a space between. */
int nth_fault(enum nth_kind kind, const char *name, const void *caller, const char *faults);

/* For a program that is linked with this: from now on the `number`-th call that can fail so does,
 * and nothing after it; 0 = none. With `is_gentle` only those that nobody may notice are counted. A
 * call that can fail in several ways counts once for each. */
void nth_arm(unsigned long number);
void nth_disarm(void);
/* "" when it has not failed. */
const char *nth_fired(void);

/* The next definition of a function behind our own. */
void *nth_next(const char *name);

#endif
