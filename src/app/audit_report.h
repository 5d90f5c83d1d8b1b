/* SPDX-License-Identifier: MIT */
/*
 * What `hapax audit` says at its end: a table for a person, or one object for a program.
 */
#ifndef HX_APP_AUDIT_REPORT_H
#define HX_APP_AUDIT_REPORT_H

#include <stdio.h>

#include "app/audit.h"

struct hx_audit_row {
    bool is_chosen;
    const char *name;
    const char *title;
    bool has_key;
    enum hx_audit_verdict verdict;
    bool is_inapplicable;
    char reason[HX_AUDIT_WORDS_MAX];
    struct hx_audit_seen seen;
};

struct hx_audit_report {
    const struct hx_audit_plan *plan;
    const struct hx_audit_row *rows;
    size_t row_count;
    struct hx_audit_sum sum;
    bool is_strict;
    int64_t elapsed_ms;
};

void hx_audit_print_table(const struct hx_audit_report *report, FILE *out);
void hx_audit_print_json(const struct hx_audit_report *report, FILE *out);

#endif
