/* SPDX-License-Identifier: MIT */
/*
 * The words of `hapax audit --help` and `--list`.
 */
#ifndef HX_APP_AUDIT_HELP_H
#define HX_APP_AUDIT_HELP_H

#include <stdio.h>

void hx_help_audit(FILE *out);
/* The names and titles of the trials. */
void hx_audit_list(FILE *out);

#endif
