/* SPDX-License-Identifier: MIT */
/*
 * How a failure travels. Fallible functions return int and must be checked: 0 is done, a negative
 * HX_E_* is not the caller's to judge and goes up with HX_TRACE, a positive value is an outcome
 * listed above the prototype and is handled on the spot.
 *
 * Whoever raises fills the fault record of the thread; whoever decides logs it, once.
 */
#ifndef HX_BASE_FAULT_H
#define HX_BASE_FAULT_H

#include "base/assert.h"

enum hx_error {
    HX_E_NOMEM = -1,   /* an allocation was refused */
    HX_E_SYSTEM = -2,  /* a system call failed; errno is in the record */
    HX_E_LIMIT = -3,   /* a configured maximum was hit */
    HX_E_SYNTAX = -4,  /* bytes from outside are not what they must be */
    HX_E_STORE = -5,   /* the ledger refused or failed */
    HX_E_INTERNAL = -6 /* we contradicted ourselves, without danger */
};

#define HX_FAULT_TEXT_MAX 256

struct hx_fault {
    int code;
    int system_errno; /* 0 when no system call was involved */
    const char *file;
    int line;
    char text[HX_FAULT_TEXT_MAX];
};

/* Fills the calling thread's record and returns `code`. */
int hx_fault_raise(int code, int system_errno, const char *file, int line, const char *format, ...)
    HX_PRINTF(5, 6);

/* The calling thread's latest fault; valid until the next raise on this thread. */
const struct hx_fault *hx_fault_last(void);

#define HX_RAISE(code, ...) hx_fault_raise((code), 0, __FILE__, __LINE__, __VA_ARGS__)
#define HX_RAISE_ERRNO(...) hx_fault_raise(HX_E_SYSTEM, errno, __FILE__, __LINE__, __VA_ARGS__)

/* Marks a place where an error only passes through; a debugger's foothold, free otherwise. */
#define HX_TRACE(rc) (rc)

/* What is known about something done outside this process. A timeout, a cut connection and a lost
 * COMMIT answer are UNKNOWN, not failures. Only core/policy.c turns UNKNOWN into a decision. */
enum hx_fate { HX_FATE_NOT_DONE, HX_FATE_DONE, HX_FATE_UNKNOWN };

#endif
