/* SPDX-License-Identifier: MIT */
/*
 * The user's own command that counts effects, run by a shell.
 */
#ifndef HX_APP_AUDIT_COUNT_H
#define HX_APP_AUDIT_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_AUDIT_VALUE_VARIABLE "HAPAX_AUDIT_VALUE"

/* Runs it with `value` in its environment; what it prints must be one whole number, not below zero.
 * Its exit status says nothing ("grep -c" has 1 for 0). False after writing why into `ret_problem`;
 * the command and what it started are killed when the time is over. */
bool hx_audit_count(const char *command, const char *value, int64_t timeout_ms, int64_t *ret_number,
                    char *ret_problem, size_t problem_size);

#endif
