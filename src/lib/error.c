/* SPDX-License-Identifier: MIT */
/*
 * How a failure reaches the caller: in a record of his own, so that there is none of ours to share.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lib/internal.h"

_Static_assert(HAPAX_ERROR_TEXT_SIZE >= HX_FAULT_TEXT_MAX, "a fault's text must fit");

int hx_lib_fail(struct hapax_error *error, int code, const char *format, ...)
{
    if (error == NULL)
        return code;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    error->code = code;
    return code;
}

int hx_lib_fail_fault(struct hapax_error *error, int code)
{
    return hx_lib_fail(error, code, "%s", hx_fault_last()->text);
}

int hx_lib_check(const struct hapax *hapax, struct hapax_error *error)
{
    if (hapax == NULL || hapax->magic != HX_LIB_MAGIC)
        return hx_lib_fail(error, HAPAX_E_MISUSE, "This is no open ledger.");
    /* The thread and the locks stayed with the parent. */
    if (hapax->pid != getpid())
        return hx_lib_fail(error, HAPAX_E_MISUSE,
                           "The ledger was opened before a fork: open it again in the child.");
    return 0;
}

int hx_lib_fail_memory(struct hapax_error *error)
{
    return hx_lib_fail(error, HAPAX_E_LEDGER, "No memory: nothing was done.");
}

/* The process is not ours to end. */
int hx_lib_enter(const struct hapax *hapax, struct hapax_error *error)
{
    int rc = hx_lib_check(hapax, error);
    if (rc == 0 && !hx_alloc_be_guest())
        rc = hx_lib_fail_memory(error);
    return rc;
}
