/* SPDX-License-Identifier: MIT */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void hx_assert_failed(const char *condition, const char *file, int line, const char *func)
{
    /* Standard error is all we can count on here; the core dump is the rest of the black box. */
    fprintf(stderr, "hapax: assertion failed: %s at %s:%d in %s\n", condition, file, line, func);
    abort();
}
