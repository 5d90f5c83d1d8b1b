/* SPDX-License-Identifier: MIT */
/*
 * Names that people mistype: comparing them kindly, and finding the one that was meant.
 */
#ifndef HX_APP_NEAREST_H
#define HX_APP_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

/* Equal, a dash counting as an underscore. */
bool hx_name_eq(struct hx_span given, const char *name);
/* The candidate that `given` is most likely a slip of, or NULL when none is near. */
const char *hx_nearest(struct hx_span given, const char *const *candidates, size_t count);

#endif
