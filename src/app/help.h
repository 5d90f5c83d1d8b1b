/* SPDX-License-Identifier: MIT */
/*
 * Help texts that teach: the most common line first, then examples, then everything.
 */
#ifndef HX_APP_HELP_H
#define HX_APP_HELP_H

#include <stdio.h>

void hx_help_overview(FILE *out);
void hx_help_run(FILE *out);
void hx_help_serve(FILE *out);
void hx_help_call(FILE *out);
/* Writes `text` in lines of at most 80 columns, each behind `indent` spaces; the first line begins
 * at column `column`. */
void hx_help_wrap(FILE *out, const char *text, size_t indent, size_t column);

#endif
