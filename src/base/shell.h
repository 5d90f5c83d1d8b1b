/* SPDX-License-Identifier: MIT */
/*
 * Words of commands that a person copies into a shell.
 */
#ifndef HX_BASE_SHELL_H
#define HX_BASE_SHELL_H

#include "base/buf.h"

/* Appends `word` so that a shell reads it as this one word. 0, or what hx_buf_append says. */
int hx_shell_word(struct hx_buf *out, struct hx_span word);

#endif
