/* SPDX-License-Identifier: MIT */
/*
 * Comparing what a message says with what an operator wrote, as a table.
 */
#include "tests/kit/text_kit.h"
#include "json/compare.h"
#include "json/reader.h"

static const struct hx_json_limits limits = {
    .depth_max = 8, .record_depth_max = 0, .tokens_max = 64, .text_max = 4096};

static void each_relation_is_told_by_exact_value(void **state)
{
    (void)state;
    enum { NO = HX_HOLDS_NO, YES = HX_HOLDS_YES, CANNOT = HX_HOLDS_CANNOT_SAY };
    static const struct {
        const char *value; /* NULL: there is none */
        const char *wanted;
        int is[6]; /* == != < <= > >= */
    } cases[] = {
        {"100", "100", {YES, NO, NO, YES, NO, YES}},
        {"100", "100.0", {YES, NO, NO, YES, NO, YES}},
        {"1e2", "100", {YES, NO, NO, YES, NO, YES}},
        {"99.999999999999999999999", "100", {NO, YES, YES, YES, NO, NO}},
        {"100.00000000000000000000001", "100", {NO, YES, NO, NO, YES, YES}},
        {"9007199254740993", "9007199254740992", {NO, YES, NO, NO, YES, YES}},
        {"-5", "3", {NO, YES, YES, YES, NO, NO}},
        {"-5", "-3", {NO, YES, YES, YES, NO, NO}},
        {"-3", "-5", {NO, YES, NO, NO, YES, YES}},
        {"0", "-0", {YES, NO, NO, YES, NO, YES}},
        {"0", "0.1", {NO, YES, YES, YES, NO, NO}},
        {"1e400", "1e399", {NO, YES, NO, NO, YES, YES}},
        {"10", "9", {NO, YES, NO, NO, YES, YES}},
        {"\"prod\"", "prod", {YES, NO, NO, YES, NO, YES}},
        {"\"prod\"", "\"prod\"", {YES, NO, NO, YES, NO, YES}},
        {"\"pr\\u006fd\"", "prod", {YES, NO, NO, YES, NO, YES}},
        {"\"a\"", "b", {NO, YES, YES, YES, NO, NO}},
        {"true", "true", {YES, NO, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"false", "true", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"null", "null", {YES, NO, CANNOT, CANNOT, CANNOT, CANNOT}},
        {NULL, "true", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {NULL, "100", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"null", "100", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"null", "prod", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"1", "null", {NO, YES, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"100\"", "100", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"100", "\"100\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"true\"", "true", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"1", "true", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"true", "1", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"100", "prod", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"[1]", "1", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"a\"", "a\\b", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"1e9999999999999999", "1", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"01\"", "01", {YES, NO, NO, YES, NO, YES}},
        {"\"1-2\"", "1-2", {YES, NO, NO, YES, NO, YES}},
        {"\"1.\"", "1.", {YES, NO, NO, YES, NO, YES}},
        {"\"1e\"", "1e", {YES, NO, NO, YES, NO, YES}},
        {"\"\"", "\"\"", {YES, NO, NO, YES, NO, YES}},
        {"\"C:\\\\d\"", "\"C:\\\\d\"", {YES, NO, NO, YES, NO, YES}},
        /* What begins with a quote and is no whole string, and what is no UTF-8. */
        {"\"C:\\\\d\"", "\"C:\\d\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"C:d\"", "\"C:\\d\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"\\n\"", "\"\\\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"\\n\"", "\"\\u\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"\\n\"", "\"\\u12\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"a\"", "\"a\"b\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"a\"", "\"a", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"a\"", "\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"\\n\"", "\xC3", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
        {"\"\\n\"", "\"\xF0\"", {CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT}},
    };
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t index = HX_JSON_NONE;
        if (cases[i].value != NULL) {
            assert_int_equal(hx_json_read(&tape, hx_span_cstr(cases[i].value), &limits), 0);
            index = 0;
        }
        for (int relation = 0; relation < 6; relation++) {
            enum hx_holds got = hx_json_holds(&tape, index, (enum hx_comparison)relation,
                                              hx_span_cstr(cases[i].wanted));
            if ((int)got != cases[i].is[relation])
                fail_msg("%s, relation %d to %s: %d, not %d",
                         cases[i].value ? cases[i].value : "nothing", relation, cases[i].wanted,
                         got, cases[i].is[relation]);
        }
    }
    hx_json_tape_fini(&tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_relation_is_told_by_exact_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
