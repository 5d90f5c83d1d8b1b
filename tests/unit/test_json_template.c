/* SPDX-License-Identifier: MIT */
/*
 * Places in an operator's text, as a table.
 */
#include "tests/kit/text_kit.h"
#include "json/template.h"

static struct hx_span value_of(void *context, struct hx_span name)
{
    (void)context;
    if (hx_span_eq_cstr(name, "key"))
        return HX_SPAN_LIT("\"a \\\"b\\\"\"");
    if (hx_span_eq_cstr(name, "/n"))
        return HX_SPAN_LIT("12.50");
    if (hx_span_eq_cstr(name, "/o"))
        return HX_SPAN_LIT("{\"x\":[1]}");
    return HX_SPAN_NONE;
}

static struct hx_span plain_of(void *context, struct hx_span name)
{
    if (hx_span_eq_cstr(name, "key"))
        return HX_SPAN_LIT("\"b\" a");
    return value_of(context, name);
}

static const struct hx_json_places places = {value_of, NULL};
static const struct hx_json_places plain_places = {plain_of, NULL};

static void places_are_filled(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *json; /* NULL: a place has no value */
        const char *plain;
    } cases[] = {
        {"{}", "{}", "{}"},
        {"{\"k\":\"${key}\"}", "{\"k\":\"a \\\"b\\\"\"}", "{\"k\":\"\"b\" a\"}"},
        {"{\"n\":\"${/n}\"}", "{\"n\":12.50}", "{\"n\":\"12.50\"}"},
        {"{\"n\":\"no. ${/n}!\"}", "{\"n\":\"no. 12.50!\"}", "{\"n\":\"no. 12.50!\"}"},
        {"[\"${/o}\",\"${/n}\"]", "[{\"x\":[1]},12.50]", "[\"{\"x\":[1]}\",\"12.50\"]"},
        {"ref ${key}", "ref a \\\"b\\\"", "ref \"b\" a"},
        {"${key}", "a \\\"b\\\"", "\"b\" a"},
        {"no. ${/o}", NULL, "no. {\"x\":[1]}"},
        {"${none}", NULL, NULL},
        {"\"${none}\"", NULL, NULL},
        {"$ {key} ${key", "$ {key} ${key", "$ {key} ${key"},
        {"\"${key\"", "\"${key\"", "\"${key\""},
        {"", "", ""},
        {"$", "$", "$"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf json, plain;
        hx_buf_init(&json, 256);
        hx_buf_init(&plain, 256);
        bool is_json = hx_json_template_fill(&json, hx_span_cstr(cases[i].text), &places);
        bool is_plain =
            hx_json_template_fill_text(&plain, hx_span_cstr(cases[i].text), &plain_places);
        assert_int_equal(is_json, cases[i].json != NULL);
        assert_int_equal(is_plain, cases[i].plain != NULL);
        if (is_json && !hx_span_eq_cstr(hx_buf_span(&json), cases[i].json))
            fail_msg("%s became %.*s", cases[i].text, HX_SPAN_FMT(hx_buf_span(&json)));
        if (is_plain && !hx_span_eq_cstr(hx_buf_span(&plain), cases[i].plain))
            fail_msg("%s became, as text, %.*s", cases[i].text, HX_SPAN_FMT(hx_buf_span(&plain)));
        hx_buf_fini(&json);
        hx_buf_fini(&plain);
    }
}

/* So that "100" of the arguments is never the number of that name. */
static void one_value_keeps_its_type(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *value;
    } cases[] = {
        {"${key}", "\"a \\\"b\\\"\""},
        {"\"${key}\"", "\"a \\\"b\\\"\""},
        {"${/n}", "12.50"},
        {"\"${/n}\"", "12.50"},
        {"\"no. ${/n}\"", "\"no. 12.50\""},
        {"${/n}${/n}", "12.5012.50"},
        {"paid", "paid"},
        {"", ""},
        {"${none}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf value;
        hx_buf_init(&value, 256);
        bool is_filled = hx_json_template_fill_value(&value, hx_span_cstr(cases[i].text), &places);
        assert_int_equal(is_filled, cases[i].value != NULL);
        if (is_filled && !hx_span_eq_cstr(hx_buf_span(&value), cases[i].value))
            fail_msg("%s became %.*s", cases[i].text, HX_SPAN_FMT(hx_buf_span(&value)));
        hx_buf_fini(&value);
    }
}

static void a_buffer_that_is_too_small_is_no_success(void **state)
{
    (void)state;
    struct hx_buf out;
    hx_buf_init(&out, 3);
    assert_false(hx_json_template_fill(&out, HX_SPAN_LIT("ref ${key}"), &places));
    hx_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_filled),
        cmocka_unit_test(one_value_keeps_its_type),
        cmocka_unit_test(a_buffer_that_is_too_small_is_no_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
