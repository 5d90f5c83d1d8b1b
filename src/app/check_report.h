/* SPDX-License-Identifier: MIT */
/*
 * What `hapax check` prints of a configuration: what was read, not what the file says. Arguments,
 * environments, headers and queries may be secrets and are only counted.
 */
#ifndef HX_APP_CHECK_REPORT_H
#define HX_APP_CHECK_REPORT_H

#include <stdio.h>

#include "app/contact.h"

/* `contacts`, of as many as there are upstreams, is NULL when no server was asked. */
void hx_check_report(const struct hx_config *config, const struct hx_contact *contacts, FILE *out);
/* One object in one line. `complaint` is NULL for a good configuration. */
void hx_check_report_json(const struct hx_config *config, const struct hx_contact *contacts,
                          const char *complaint, FILE *out);

#endif
