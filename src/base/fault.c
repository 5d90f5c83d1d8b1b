/* SPDX-License-Identifier: MIT */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct hx_fault last_fault;

int hx_fault_raise(int code, int system_errno, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(last_fault.text, sizeof(last_fault.text), format, args);
    va_end(args);
    if (system_errno != 0 && len >= 0 && (size_t)len < sizeof(last_fault.text) - 4) {
        char reason[96];
        snprintf(last_fault.text + len, sizeof(last_fault.text) - (size_t)len, ": %s",
                 strerror_r(system_errno, reason, sizeof(reason)));
    }
    last_fault.code = code;
    last_fault.system_errno = system_errno;
    last_fault.file = file;
    last_fault.line = line;
    return code;
}

const struct hx_fault *hx_fault_last(void)
{
    return &last_fault;
}
