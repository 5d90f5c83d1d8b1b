/* SPDX-License-Identifier: MIT */
/*
 * The name of a server to whom nobody gave one: the same command in the same directory, or the same
 * URL, is the same server.
 */
#ifndef HX_APP_SERVER_NAME_H
#define HX_APP_SERVER_NAME_H

#define HX_SERVER_NAME_SIZE 256

/* `given` (may be NULL) goes first. Else "PREFIX-DIGEST" of `words`, which end with NULL. */
void hx_server_name(const char *given, const char *prefix, char *const *words,
                    char ret_name[HX_SERVER_NAME_SIZE]);

#endif
