/* SPDX-License-Identifier: MIT */
#include "app/serve_limits.h"

#include <string.h>

#include "app/value.h"

#define TYPE_DURATION HX_SETTING_DURATION
#define TYPE_COUNT HX_SETTING_COUNT_OF
#define TYPE_SIZE HX_SETTING_SIZE

static const struct hx_setting_row rows[HX_LIMIT_COUNT] = {
#define HX_LIMIT(field, type, initial, min, max, help)                                             \
    {#field,                                                                                       \
     TYPE_##type,                                                                                  \
     HX_SCOPE_GLOBAL,                                                                              \
     initial,                                                                                      \
     min,                                                                                          \
     max,                                                                                          \
     help,                                                                                         \
     offsetof(struct hx_limits, field)},
#include "tables/limits.def"
};

const struct hx_setting_row *hx_limit_row(enum hx_limit_id id)
{
    hx_assert(id < HX_LIMIT_COUNT);
    return &rows[id];
}

const struct hx_setting_row *hx_limit_find(struct hx_span name)
{
    for (size_t i = 0; i < HX_LIMIT_COUNT; i++)
        if (hx_span_eq_cstr(name, rows[i].name))
            return &rows[i];
    return NULL;
}

int hx_limits_set(struct hx_limits *limits, const struct hx_setting_row *row, struct hx_span value,
                  struct hx_complaint *complaint)
{
    /* No type of a limit copies a text, so no arena is needed. */
    return hx_value_parse(row, value, NULL, (char *)limits + row->offset, complaint);
}

void hx_limits_init(struct hx_limits *limits)
{
    struct hx_complaint complaint;
    memset(limits, 0, sizeof(*limits));
    for (size_t i = 0; i < HX_LIMIT_COUNT; i++) {
        int rc = hx_limits_set(limits, &rows[i], hx_span_cstr(rows[i].initial), &complaint);
        hx_assert(rc == 0); /* the table is ours */
    }
}

struct hx_http_server_options hx_limits_http_server(const struct hx_limits *limits)
{
    struct hx_http_server_options options = {0};
    /* Each value fits its field: the table's maximum is the proof, which the tests read. */
#define HX_LIMIT_HTTP(field, type, option, initial, min, max, help)                                \
    options.option = (__typeof__(options.option))limits->field;
#include "tables/limits.def"
    return options;
}
