/* SPDX-License-Identifier: MIT */
/*
 * Calendar arithmetic without the C library's time functions: those read the time zone database and
 * environment, and core code must not.
 */
#include "base/time.h"

#include <stdio.h>
#include <string.h>

/* Days since 1970-01-01 of a proleptic Gregorian date (Howard Hinnant's public algorithm). */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void civil_from_days(int64_t days, int64_t *ret_year, int64_t *ret_month, int64_t *ret_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted_month = (5 * day_of_year + 2) / 153;
    *ret_day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    *ret_month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
    *ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

void hx_wall_format(struct hx_wall wall, char *text)
{
    const int64_t day_ms = 86400000;
    int64_t days = wall.ms / day_ms;
    int64_t rest = wall.ms % day_ms;
    if (rest < 0) {
        rest += day_ms;
        days--;
    }
    int64_t year, month, day;
    civil_from_days(days, &year, &month, &day);
    if (year < 0 || year > 9999) {
        memcpy(text, "-", 2);
        return;
    }
    snprintf(text, HX_TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, (int)month,
             (int)day, (int)(rest / 3600000), (int)(rest / 60000 % 60), (int)(rest / 1000 % 60),
             (int)(rest % 1000));
}

struct cursor {
    const char *at;
    const char *end;
};

static bool take_digits(struct cursor *cursor, int count, int64_t *ret_value)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++) {
        if (cursor->at == cursor->end || *cursor->at < '0' || *cursor->at > '9')
            return false;
        value = value * 10 + (*cursor->at++ - '0');
    }
    *ret_value = value;
    return true;
}

static bool take_char(struct cursor *cursor, char first, char second)
{
    if (cursor->at == cursor->end || (*cursor->at != first && *cursor->at != second))
        return false;
    cursor->at++;
    return true;
}

static bool take_fraction(struct cursor *cursor, int64_t *ret_ms)
{
    int64_t ms = 0;
    int digits = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (digits < 3)
            ms = ms * 10 + (*cursor->at - '0');
        cursor->at++;
        digits++;
    }
    if (digits == 0 || digits > 9)
        return false;
    for (int i = digits; i < 3; i++)
        ms *= 10;
    *ret_ms = ms;
    return true;
}

static bool take_offset(struct cursor *cursor, int64_t *ret_minutes)
{
    if (take_char(cursor, 'Z', 'z')) {
        *ret_minutes = 0;
        return true;
    }
    bool is_west = cursor->at < cursor->end && *cursor->at == '-';
    int64_t hours, minutes;
    if (!take_char(cursor, '+', '-') || !take_digits(cursor, 2, &hours) ||
        !take_char(cursor, ':', ':') || !take_digits(cursor, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (is_west ? -1 : 1) * (hours * 60 + minutes);
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

bool hx_wall_parse(const char *text, unsigned long len, struct hx_wall *ret_wall)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct cursor cursor = {text, text + len};
    int64_t year, month, day, hour, minute, second, fraction_ms = 0, offset_minutes;
    if (!take_digits(&cursor, 4, &year) || !take_char(&cursor, '-', '-') ||
        !take_digits(&cursor, 2, &month) || !take_char(&cursor, '-', '-') ||
        !take_digits(&cursor, 2, &day) || !take_char(&cursor, 'T', 't') ||
        !take_digits(&cursor, 2, &hour) || !take_char(&cursor, ':', ':') ||
        !take_digits(&cursor, 2, &minute) || !take_char(&cursor, ':', ':') ||
        !take_digits(&cursor, 2, &second))
        return false;
    if (take_char(&cursor, '.', '.') && !take_fraction(&cursor, &fraction_ms))
        return false;
    if (!take_offset(&cursor, &offset_minutes) || cursor.at != cursor.end)
        return false;
    if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 60)
        return false;
    int64_t days_in_month = month_days[month - 1] + (month == 2 && is_leap(year));
    if (day < 1 || day > days_in_month)
        return false;
    int64_t minutes =
        days_from_civil(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    ret_wall->ms = minutes * 60000 + second * 1000 + fraction_ms;
    return true;
}
