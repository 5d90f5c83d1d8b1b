/* SPDX-License-Identifier: MIT */
/*
 * What `hapax check` prints of a configuration: what was read, not what the file says. Arguments,
 * environments, headers and queries may be secrets and are only counted.
 */
#ifndef HX_APP_CHECK_REPORT_H
#define HX_APP_CHECK_REPORT_H

#include <stdio.h>

#include "app/config.h"

void hx_check_report(const struct hx_config *config, FILE *out);
/* One object in one line. `complaint` is NULL for a good configuration. */
void hx_check_report_json(const struct hx_config *config, const char *complaint, FILE *out);

#endif
