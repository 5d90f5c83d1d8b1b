/* SPDX-License-Identifier: MIT */
/*
 * A directory for the time of one command.
 */
#ifndef HX_APP_SCRATCH_H
#define HX_APP_SCRATCH_H

#include <stdbool.h>

#define HX_SCRATCH_SIZE 128

/* Makes it below TMPDIR, else /tmp, for this user alone. False after saying why in the name of
 * `command`; `ret_path` is empty then. */
bool hx_scratch_make(const char *command, char ret_path[HX_SCRATCH_SIZE]);
/* Removes a directory with all that is in it; "" is none. */
void hx_scratch_remove(const char *path);

#endif
