/* SPDX-License-Identifier: MIT */
/*
 * What `hapax serve` bounds: the rows of tables/limits.def as numbers.
 */
#ifndef HX_APP_SERVE_LIMITS_H
#define HX_APP_SERVE_LIMITS_H

#include "adapter/http_server/http_server.h"
#include "app/settings.h"

/* Durations in milliseconds, sizes in bytes. */
struct hx_limits {
#define HX_LIMIT(field, type, initial, min, max, help) int64_t field;
#include "tables/limits.def"
};

enum hx_limit_id {
#define HX_LIMIT(field, type, initial, min, max, help) HX_LIMIT_ID_##field,
#include "tables/limits.def"
    HX_LIMIT_COUNT
};

const struct hx_setting_row *hx_limit_row(enum hx_limit_id id);
/* NULL when there is none. */
const struct hx_setting_row *hx_limit_find(struct hx_span name);

/* Everything at its default. */
void hx_limits_init(struct hx_limits *limits);
/* 0, or 1 with a complaint (nothing was changed). `row` is one of those above. */
int hx_limits_set(struct hx_limits *limits, const struct hx_setting_row *row, struct hx_span value,
                  struct hx_complaint *complaint) HX_MUST_CHECK;
/* Those that are about HTTP; the other options are at their default. */
struct hx_http_server_options hx_limits_http_server(const struct hx_limits *limits);

#endif
