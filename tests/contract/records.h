/* SPDX-License-Identifier: MIT */
/*
 * Comparing what two stores say, field by field, so that a failure names the field.
 */
#ifndef HX_TESTS_CONTRACT_RECORDS_H
#define HX_TESTS_CONTRACT_RECORDS_H

#include "core/record.h"

void assert_spans_equal(struct hx_span actual, struct hx_span expected);
void assert_records_equal(const struct hx_record *actual, const struct hx_record *expected);

#endif
