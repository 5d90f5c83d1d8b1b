/* SPDX-License-Identifier: MIT */
#include "app/number.h"

#include <inttypes.h>
#include <stdio.h>

#include "app/settings.h"
#include "base/whole.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first, for printing. */
static const struct unit duration_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
static const struct unit size_units[] = {
    {"GiB", 1024 * 1024 * 1024}, {"MiB", 1024 * 1024}, {"KiB", 1024}, {"", 1}, {"B", 1},
};
#define UNIT_COUNT 5

static bool parse_with_unit(struct hx_span text, const struct unit *units, int64_t *ret_value)
{
    size_t used;
    int64_t number;
    if (!hx_whole_parse_front(text, &used, &number))
        return false;
    struct hx_span rest = hx_span(text.ptr + used, text.len - used);
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (!hx_span_eq_cstr(rest, units[i].name))
            continue;
        if (number > INT64_MAX / units[i].factor)
            return false;
        *ret_value = number * units[i].factor;
        return true;
    }
    return false;
}

bool hx_duration_parse(struct hx_span text, int64_t *ret_ms)
{
    /* "0" needs no unit; any other bare number would be guessed at, and wrongly. */
    if (hx_span_eq_cstr(text, "0")) {
        *ret_ms = 0;
        return true;
    }
    return parse_with_unit(text, duration_units, ret_ms);
}

bool hx_size_parse(struct hx_span text, int64_t *ret_bytes)
{
    return parse_with_unit(text, size_units, ret_bytes);
}

static void format_with_unit(int64_t value, const struct unit *units, char *ret_text)
{
    size_t i = 0;
    while (i + 1 < UNIT_COUNT && (value == 0 || value % units[i].factor != 0))
        i++;
    snprintf(ret_text, HX_NUMBER_TEXT_SIZE, "%" PRId64 "%s", value / units[i].factor,
             units[i].name);
}

void hx_duration_format(int64_t ms, char *ret_text)
{
    if (ms == HX_SETTING_NONE)
        snprintf(ret_text, HX_NUMBER_TEXT_SIZE, "none");
    else
        format_with_unit(ms, duration_units, ret_text);
}

void hx_size_format(int64_t bytes, char *ret_text)
{
    if (bytes == HX_SETTING_NONE)
        snprintf(ret_text, HX_NUMBER_TEXT_SIZE, "none");
    else
        format_with_unit(bytes, size_units, ret_text);
}
