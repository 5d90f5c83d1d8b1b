/* SPDX-License-Identifier: MIT */
/* What a well-formed key is, and how old it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/id.h"
#include "core/key.h"

static void key_syntax(void **state)
{
    (void)state;
    char longest[256];
    for (int i = 0; i < 255; i++)
        longest[i] = (char)('a' + i % 26);
    longest[255] = 'a';
    const struct {
        struct hx_span key;
        const char *flaw; /* a word of it; NULL = a good key */
    } cases[] = {
        {HX_SPAN_LIT("a"), NULL},
        {HX_SPAN_LIT("order-7"), NULL},
        {HX_SPAN_LIT("!~"), NULL},
        {hx_span(longest, 255), NULL},
        {HX_SPAN_LIT("01890a5d-ac96-774b-bcce-b302099a8057"), NULL},
        {HX_SPAN_LIT("nullable"), NULL},
        {HX_SPAN_LIT(""), "empty"},
        {hx_span(longest, 256), "255"},
        {HX_SPAN_LIT("a b"), "outside"},
        {HX_SPAN_LIT("a\x7f"), "outside"},
        {HX_SPAN_LIT("a\0b"), "outside"},
        {HX_SPAN_LIT("\xc3\xa9t\xc3\xa9"), "outside"},
        {HX_SPAN_LIT("null"), "placeholder"},
        {HX_SPAN_LIT("Undefined"), "placeholder"},
        {HX_SPAN_LIT("NONE"), "placeholder"},
        {HX_SPAN_LIT("00000000-0000-0000-0000-000000000000"), "nil"},
        {HX_SPAN_LIT("xx"), "repeated"},
        {HX_SPAN_LIT("--------"), "repeated"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *flaw = hx_key_flaw(cases[i].key);
        bool is_right = cases[i].flaw == NULL ? flaw == NULL
                                              : flaw != NULL && strstr(flaw, cases[i].flaw) != NULL;
        if (!is_right)
            fail_msg("%.*s: %s", HX_SPAN_FMT(cases[i].key), flaw != NULL ? flaw : "good");
    }
}

static void time_is_the_older_of_the_two(void **state)
{
    (void)state;
    const struct hx_span v7 = HX_SPAN_LIT("01890a5d-ac96-774b-bcce-b302099a8057");
    const struct hx_span v4 = HX_SPAN_LIT("01890a5d-ac96-474b-bcce-b302099a8057");
    const struct hx_span foreign = HX_SPAN_LIT("01890a5d-ac96-774b-fcce-b302099a8057");
    const int64_t inside_ms = 0x01890a5dac96;
    const struct {
        struct hx_span key;
        int64_t stated_ms, first_ms;
        bool is_in_key;
    } cases[] = {
        {v7, 0, inside_ms, true},
        {v7, inside_ms - 5, inside_ms - 5, true},
        {v7, inside_ms + 5, inside_ms, true},
        {v4, 77, 77, false},
        {v4, 0, 0, false},
        {foreign, 77, 77, false},
        {HX_SPAN_LIT("order-7"), 77, 77, false},
        {HX_SPAN_LIT(HX_KEY_ISSUED_PREFIX "01890a5d-ac96-774b-bcce-b302099a8057-00ff"), 0,
         inside_ms, true},
        {HX_SPAN_LIT(HX_KEY_ISSUED_PREFIX "01890a5d-ac96-774b-bcce-b302099a8057"), 77, 77, false},
        {HX_SPAN_LIT("HXK-01890a5d-ac96-774b-bcce-b302099a8057-00ff"), 77, 77, false},
        {HX_SPAN_LIT("00000000-0000-7000-8000-000000000001"), 77, 77, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_key_time time = hx_key_time(cases[i].key, (struct hx_wall){cases[i].stated_ms});
        assert_int_equal(time.first_sent.ms, cases[i].first_ms);
        assert_int_equal(time.is_in_key, cases[i].is_in_key);
    }
}

static void age_is_judged_against_the_clock_and_the_low_water_mark(void **state)
{
    (void)state;
    const struct hx_wall now = {1000000000}, low_water = {900000000};
    static const struct {
        int64_t ms;
        enum hx_key_age age;
    } cases[] = {
        {0, HX_KEY_AGE_GOOD},
        {1000000000, HX_KEY_AGE_GOOD},
        {1000000000 + 300000, HX_KEY_AGE_GOOD},
        {1000000000 + 300001, HX_KEY_AGE_FUTURE},
        {900000000, HX_KEY_AGE_GOOD},
        {899999999, HX_KEY_AGE_EXPIRED},
        {-1, HX_KEY_AGE_EXPIRED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_key_time time = {.first_sent = {cases[i].ms}};
        assert_int_equal(hx_key_age(time, now, low_water), cases[i].age);
    }
}

/* Each part must be where it belongs. */
static void what_we_hand_out_is_known_by_its_parts(void **state)
{
    static const char *const others[] = {
        "hxk-",
        "key-0190a0a0-0000-7000-8000-000000000001-00112233445566778899aabbccddeeff",
        "hxk-0190a0a0-0000-7000-8000-000000000001_00112233445566778899aabbccddeeff",
        "hxk-0190a0a0-0000-7000-8000-00000000000x-00112233445566778899aabbccddeeff",
    };
    struct hx_key_issued parts;
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(hx_key_issued(hx_span_cstr(others[i]), &parts));
    assert_true(
        hx_key_issued(HX_SPAN_LIT("hxk-0190a0a0-0000-7000-8000-000000000001-00ff"), &parts));
    assert_int_equal(parts.tag.len, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_syntax),
        cmocka_unit_test(time_is_the_older_of_the_two),
        cmocka_unit_test(what_we_hand_out_is_known_by_its_parts),
        cmocka_unit_test(age_is_judged_against_the_clock_and_the_low_water_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
