/* SPDX-License-Identifier: MIT */
/*
 * What a server is: the same command in the same directory, or the same URL, is the same server.
 * Its name, when nobody gave one; and, whatever its name is, whether it is still the one that an
 * operation went to.
 */
#ifndef HX_APP_SERVER_NAME_H
#define HX_APP_SERVER_NAME_H

#include <stdint.h>

#define HX_SERVER_NAME_SIZE 256

/* `given` (may be NULL) goes first. Else "PREFIX-DIGEST" of `words`, which end with NULL. */
void hx_server_name(const char *given, const char *prefix, char *const *words,
                    char ret_name[HX_SERVER_NAME_SIZE]);

/* A digest of the `words` in the directory `cwd` (NULL: ours), or of a URL, when `words` is NULL or
 * begins with one; never 0. */
int64_t hx_server_target(char *const *words, const char *cwd, const char *url);

#endif
