/* SPDX-License-Identifier: MIT */
/*
 * In every test program: with HX_NTH_SMALL set, small memory may be refused as well, as to a
 * library in another's process (base/alloc.h). So readers of bytes are tried with one small
 * allocation after another failing, though no gateway would outlive it.
 */
#include <stdlib.h>

#include "base/alloc.h"

__attribute__((constructor)) static void be_guest(void)
{
    if (getenv("HX_NTH_SMALL") != NULL)
        hx_alloc_refuse_small();
}
