/* SPDX-License-Identifier: MIT */
/* RFC 3339 both ways, without the C library's calendar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/time.h"

static void moments_are_written(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1700000000123, "2023-11-14T22:13:20.123Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {253402300800000, "-"},
        {-62167219200000, "0000-01-01T00:00:00.000Z"},
        {-62167219200001, "-"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[HX_TIME_TEXT_SIZE];
        hx_wall_format((struct hx_wall){cases[i].ms}, text);
        assert_string_equal(text, cases[i].text);
        struct hx_wall back;
        if (text[0] != '-') {
            assert_true(hx_wall_parse(text, strlen(text), &back));
            assert_int_equal(back.ms, cases[i].ms);
        }
    }
}

static void every_day_comes_back(void **state)
{
    (void)state;
    const int64_t day_ms = 86400000;
    for (int64_t day = -719528; day < 2932897; day += 97) {
        char text[HX_TIME_TEXT_SIZE];
        struct hx_wall back;
        hx_wall_format((struct hx_wall){day * day_ms + 1}, text);
        assert_true(hx_wall_parse(text, strlen(text), &back));
        assert_int_equal(back.ms, day * day_ms + 1);
    }
}

static void offsets_and_fractions_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1969-12-31T18:30:00-05:30", 0},
        {"1970-01-01T00:00:00.5Z", 500},
        {"1970-01-01T00:00:00.123456789Z", 123},
        {"1970-01-01T00:00:60Z", 60000},
        {"2024-02-29T00:00:00Z", 1709164800000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_wall wall;
        if (!hx_wall_parse(cases[i].text, strlen(cases[i].text), &wall))
            fail_msg("%s was refused", cases[i].text);
        assert_int_equal(wall.ms, cases[i].ms);
    }
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "1970",
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-1-01T00:00:00Z",
        "1970-01-01 00:00:00Z",
        "1970-01-01T00:00Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00.1234567890Z",
        "1970-13-01T00:00:00Z",
        "1970-00-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-01-32T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+00:60",
        "1970-01-01T00:00:00+0000",
        "1970-01-01T00:00:00Zx",
        "1970-01-01T00:00:00+01",
        "a970-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hx_wall wall = {42};
        if (hx_wall_parse(texts[i], strlen(texts[i]), &wall))
            fail_msg("%s was taken", texts[i]);
        assert_int_equal(wall.ms, 42);
    }
}

static void monotonic_moments_are_compared(void **state)
{
    (void)state;
    struct hx_mono start = {1000}, later = hx_mono_after(start, 50);
    assert_int_equal(hx_mono_since_ms(later, start), 50);
    assert_true(hx_mono_reached(later, later));
    assert_false(hx_mono_reached(start, later));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_written),
        cmocka_unit_test(every_day_comes_back),
        cmocka_unit_test(offsets_and_fractions_are_read),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(monotonic_moments_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
