/* SPDX-License-Identifier: MIT */
/*
 * What named members lose on their way to somebody who looks, as a table: a text, and what is shown
 * of it.
 */
#include "tests/kit/text_kit.h"
#include "json/redact.h"

static const struct hx_span items[] = {HX_SPAN_INIT("password"), HX_SPAN_INIT("api_key")};
static const struct hx_redact_names names = {items, 2};

struct row {
    const char *text;
    const char *shown; /* NULL: untouched */
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hx_span text = kit_exact(hx_span_cstr(rows[i].text));
        struct hx_buf out;
        hx_buf_init(&out, 1 << 20);
        int rc = hx_redact(&names, text, &out);
        if (rc != (rows[i].shown != NULL ? 0 : HX_REDACT_UNTOUCHED))
            fail_msg("%s: %d, %.*s", rows[i].text, rc, HX_SPAN_FMT(hx_buf_span(&out)));
        assert_span_equal(hx_buf_span(&out), rows[i].shown != NULL ? rows[i].shown : "");
        hx_buf_fini(&out);
        kit_free(text);
    }
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof(rows[0]))

static void values_of_any_type_at_any_depth(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"password\":\"x\"}", "{\"password\":\"[redacted]\"}"},
        {"{\"password\":\"\"}", "{\"password\":\"[redacted]\"}"},
        {"{\"password\":null,\"b\":1}", "{\"password\":\"[redacted]\",\"b\":1}"},
        {"{\"password\":-1.5e3}", "{\"password\":\"[redacted]\"}"},
        {"{\"password\": true }", "{\"password\": \"[redacted]\" }"},
        {"{\"password\":{\"a\":[1,\"}]\",{}]},\"b\":[]}", "{\"password\":\"[redacted]\",\"b\":[]}"},
        {"{\"password\":[[\"x\"],{\"y\":\"\\\"]\"}]}", "{\"password\":\"[redacted]\"}"},
        {"{\"a\":{\"b\":{\"password\":1}},\"c\":2}",
         "{\"a\":{\"b\":{\"password\":\"[redacted]\"}},\"c\":2}"},
        {"[{\"password\":1},[{\"password\":2}]]",
         "[{\"password\":\"[redacted]\"},[{\"password\":\"[redacted]\"}]]"},
        {"{\"password\":\"[redacted]\"}", NULL},
        {"{}", NULL},
        {"[]", NULL},
        {"{\"a\":\"password\"}", NULL},
        {"[\"password\",\"x\"]", NULL},
    };
    CHECK(rows);
}

static void names_in_odd_spellings(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"PassWord\":1}", "{\"PassWord\":\"[redacted]\"}"},
        {"{\"p\\u0061ssword\":1}", "{\"p\\u0061ssword\":\"[redacted]\"}"},
        {"{\"\\u0050ASSWORD\":1}", "{\"\\u0050ASSWORD\":\"[redacted]\"}"},
        {"{\"apiKey\":1,\"API-KEY\":2,\"api_key\":3,\"_apikey_\":4}",
         "{\"apiKey\":\"[redacted]\",\"API-KEY\":\"[redacted]\",\"api_key\":\"[redacted]\","
         "\"_apikey_\":\"[redacted]\"}"},
        {"{\"api key\":1,\" Api  Key \":2,\"api\\u0020key\":3}",
         "{\"api key\":\"[redacted]\",\" Api  Key \":\"[redacted]\","
         "\"api\\u0020key\":\"[redacted]\"}"},
        {"{\"pass_word\":1}", "{\"pass_word\":\"[redacted]\"}"},
        /* Every one of several. */
        {"{\"password\":1,\"a\":2,\"password\":3}",
         "{\"password\":\"[redacted]\",\"a\":2,\"password\":\"[redacted]\"}"},
        /* Another name. */
        {"{\"passwords\":1,\"user_password\":2,\"xpassword\":3,\"\":5,\"_\":6}", NULL},
        {"{\"passw\\u00f6rd\":1,\"pass\\ud800word\":2,\"pass\\u0000word\":3}", NULL},
    };
    CHECK(rows);
}

/* Lists of settings, headers, variables. */
static void values_beside_their_names(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"name\":\"password\",\"value\":\"x\"}",
         "{\"name\":\"password\",\"value\":\"[redacted]\"}"},
        {"[{\"Key\":\"API "
         "Key\",\"id\":1,\"Value\":[1,{\"a\":{}}],\"b\":2},{\"name\":\"a\",\"value\":3}]",
         "[{\"Key\":\"API "
         "Key\",\"id\":1,\"Value\":\"[redacted]\",\"b\":2},{\"name\":\"a\",\"value\":3}"
         "]"},
        /* The value may come first, and hold what is one of itself. */
        {"{\"value\":{\"value\":1,\"name\":\"password\"},\"header\":\"p\\u0061ssword\"}",
         "{\"value\":\"[redacted]\",\"header\":\"p\\u0061ssword\"}"},
        {"{\"value\":{\"value\":1,\"name\":\"password\"},\"name\":\"a\"}",
         "{\"value\":{\"value\":\"[redacted]\",\"name\":\"password\"},\"name\":\"a\"}"},
        /* What is taken out is counted all the same. */
        {"[{\"password\":[{},{\"name\":\"password\"}]},{\"value\":1},{\"name\":\"password\","
         "\"value\":2}]",
         "[{\"password\":\"[redacted]\"},{\"value\":1},{\"name\":\"password\",\"value\":\"["
         "redacted]\"}]"},
        {"[\"{\\\"name\\\":\\\"password\\\",\\\"value\\\":1}\"]",
         "[\"{\\\"name\\\":\\\"password\\\",\\\"value\\\":\\\"[redacted]\\\"}\"]"},
        {"{\"name\":\"password\",\"value\":\"[redacted]\"}", NULL},
        {"{\"name\":\"password\",\"values\":[\"x\"]}",
         "{\"name\":\"password\",\"values\":\"[redacted]\"}"},
        /* Not of this object, or not this name. */
        {"{\"a\":{\"name\":\"password\"},\"value\":1}", NULL},
        {"[\"name\",\"password\",{\"value\":1}]", NULL},
        {"{\"name\":\"passwords\",\"value\":1}", NULL},
        {"{\"name\":[\"password\"],\"value\":1}", NULL},
        /* In text that is no JSON. */
        {"{\"name\":\"password\",\"value\":\"x", HX_REDACTED},
        {"- name: api key\n  value: x", HX_REDACTED},
        {"name: password", NULL},
        {"name: a\nvalue: b", NULL},
    };
    CHECK(rows);
}

static void options_of_programs(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"mysql --password hunter2", HX_REDACTED},
        {"--api-key x", HX_REDACTED},
        {"curl --api_key=x", HX_REDACTED},
        {"java -password\thunter2", HX_REDACTED},
        {"['--password', 'hunter2']", HX_REDACTED},
        {"[\"--password\", \"hunt", HX_REDACTED},
        {"it has an option --password", NULL},
        {"a list - password - and more, user--password x, --passwords x", NULL},
        {"[\"mysql\",\"--password\",\"hunter2\",\"db\"]",
         "[\"mysql\",\"--password\",\"[redacted]\",\"db\"]"},
        {"[\"--password\" , [1,{}],\"--API-Key\",{\"a\":1}]",
         "[\"--password\" , \"[redacted]\",\"--API-Key\",\"[redacted]\"]"},
        /* The value of one may look like another. */
        {"[\"--password\",\"--password\",\"x\",\"y\"]",
         "[\"--password\",\"[redacted]\",\"[redacted]\",\"y\"]"},
        {"[\"--password\",\"[redacted]\"]", NULL},
        {"[\"x\",\"--password\"]", NULL},
        {"[\"password\",\"x\"]", NULL},
        {"{\"a\":\"--password\",\"b\":\"x\"}", NULL},
        {"{\"command\":\"mysql --password x\"}", "{\"command\":\"[redacted]\"}"},
    };
    CHECK(rows);
}

static void other_bytes_stay(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {" { \"b\" : 1.50E+02 ,\n\"password\"\t:\r\n{ } , \"\\u0061\" : \"\\/\\u00e9\" } ",
         " { \"b\" : 1.50E+02 ,\n\"password\"\t:\r\n\"[redacted]\" , \"\\u0061\" : \"\\/\\u00e9\" "
         "} "},
        {"{\"z\":1,\"password\":2,\"a\":\"\xc3\xa4 \\\"\",\"z\":3}",
         "{\"z\":1,\"password\":\"[redacted]\",\"a\":\"\xc3\xa4 \\\"\",\"z\":3}"},
    };
    CHECK(rows);
}

/* As in the text of a result, which says again what its structuredContent says. */
static void json_within_strings(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"text\":\"{\\\"password\\\": \\\"x\\\", \\\"a\\\": \\\"\\\\u00e9\\\"}\"}",
         "{\"text\":\"{\\\"password\\\": \\\"[redacted]\\\", \\\"a\\\": \\\"\\\\u00e9\\\"}\"}"},
        {"\" [{\\\"p\\\\u0061ssword\\\":1}]\"",
         "\" [{\\\"p\\\\u0061ssword\\\":\\\"[redacted]\\\"}]\""},
        {"[\"\\\"{\\\\\\\"password\\\\\\\":1}\\\"\"]",
         "[\"\\\"{\\\\\\\"password\\\\\\\":\\\\\\\"[redacted]\\\\\\\"}\\\"\"]"},
        {"[\"{\\\"a\\\":\\\"\\\\/\\\"}\"]", NULL},
        {"[\"\\ud800{\"]", NULL},
    };
    CHECK(rows);
}

/* So deep that nobody writes it by chance: it goes as a whole, since it is not looked into. */
static void json_within_strings_has_an_end(void **state)
{
    (void)state;
    struct hx_buf text, quoted, out;
    hx_buf_init(&text, 1 << 20);
    hx_buf_init(&quoted, 1 << 20);
    hx_buf_init(&out, 1 << 20);
    assert_int_equal(hx_buf_append_cstr(&text, "{\"password\":\"hunter2\"}"), 0);
    for (int level = 0; level < 8; level++) {
        hx_buf_reset(&out);
        assert_int_equal(hx_redact(&names, hx_buf_span(&text), &out), 0);
        assert_false(hx_span_contains(hx_buf_span(&out), HX_SPAN_LIT("hunter2")));
        assert_true(hx_span_contains(hx_buf_span(&out), HX_SPAN_LIT(HX_REDACTED)));
        assert_int_equal(hx_span_contains(hx_buf_span(&out), HX_SPAN_LIT("password")), level <= 4);
        hx_buf_reset(&quoted);
        assert_int_equal(hx_buf_append_char(&quoted, '"'), 0);
        for (size_t i = 0; i < text.len; i++)
            assert_int_equal(hx_buf_printf(&quoted, "%s%c",
                                           strchr("\"\\", text.data[i]) != NULL ? "\\" : "",
                                           text.data[i]),
                             0);
        assert_int_equal(hx_buf_append_char(&quoted, '"'), 0);
        hx_buf_reset(&text);
        assert_int_equal(hx_buf_append_span(&text, hx_buf_span(&quoted)), 0);
    }
    hx_buf_fini(&out);
    hx_buf_fini(&quoted);
    hx_buf_fini(&text);
}

/* It has no members. What a name introduces in it must not be shown, and its end is not known. */
static void text_that_is_no_json(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", NULL},
        {"ok", NULL},
        {"the password was changed", NULL},
        {"note: the passwords = none, mypassword=1, user_password: 2", NULL},
        {"created. Password: hunter2", HX_REDACTED},
        {"mysql --password=hunter2", HX_REDACTED},
        {"api-key\t= 1", HX_REDACTED},
        {"https://a.example/?apikey=1", HX_REDACTED},
        {"{'password': 'x'}", HX_REDACTED},
        {"{\"password\": NaN}", HX_REDACTED},
        {"{\"password\":\"x", HX_REDACTED},
        {"{\"password\":1}{\"password\":2}", HX_REDACTED},
        {"{\"a\":1}{\"b\":2}", NULL},
        {"\xff\xfe password=\x01", HX_REDACTED},
        {"[\"a\",\"password = x\"]", "[\"a\",\"[redacted]\"]"},
        {"[\"to be sent\\npassword: x\"]", "[\"[redacted]\"]"},
        {"{\"message\":\"bad \\\"password\\\": x\",\"code\":1}",
         "{\"message\":\"[redacted]\",\"code\":1}"},
        {"\"password=1\"", "\"[redacted]\""},
        {"{\"a\":\"=\",\"b\":\":\"}", NULL},
    };
    CHECK(rows);
}

static void deep_nesting(void **state)
{
    (void)state;
    static const struct {
        int depth;
        bool is_read;
    } cases[] = {{1000, true}, {1022, true}, {1023, false}, {50000, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf text, out;
        hx_buf_init(&text, 1 << 20);
        hx_buf_init(&out, 1 << 20);
        for (int at = 0; at < cases[i].depth; at++)
            assert_int_equal(hx_buf_append_char(&text, '['), 0);
        assert_int_equal(hx_buf_append_cstr(&text, "[{\"password\":\"hunter2\"}]"), 0);
        for (int at = 0; at < cases[i].depth; at++)
            assert_int_equal(hx_buf_append_char(&text, ']'), 0);
        assert_int_equal(hx_redact(&names, hx_buf_span(&text), &out), 0);
        assert_false(hx_span_contains(hx_buf_span(&out), HX_SPAN_LIT("hunter2")));
        if (cases[i].is_read)
            assert_true(hx_span_contains(hx_buf_span(&out), HX_SPAN_LIT("\"password\":")));
        else
            assert_span_equal(hx_buf_span(&out), HX_REDACTED);
        hx_buf_fini(&out);
        hx_buf_fini(&text);
    }
}

static void names_that_can_be_meant(void **state)
{
    (void)state;
    static const char *const good[] = {"password",      "api_key",     "X-Api-Key",        "a.b",
                                       "Stra\303\237e", "card number", "application/json", "1"};
    static const char *const bad[] = {"",    "_",   "-_",   " ",        "/password", "*key*",
                                      "k?y", "a,b", "a\"b", "a\\u0062", "a\nb",      "a\x7f"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!hx_redact_name_is_good(hx_span_cstr(good[i])))
            fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (hx_redact_name_is_good(hx_span_cstr(bad[i])))
            fail_msg("'%s' is taken", bad[i]);
    assert_true(hx_redact_name_eq(HX_SPAN_LIT("API-Key"), HX_SPAN_LIT("apikey")));
    assert_false(hx_redact_name_eq(HX_SPAN_LIT("apikey2"), HX_SPAN_LIT("apikey")));
    assert_false(hx_redact_name_eq(HX_SPAN_LIT("apikey"), HX_SPAN_LIT("apikey2")));
    assert_false(hx_redact_name_eq(HX_SPAN_LIT("2apikey"), HX_SPAN_LIT("apikey")));
}

static void without_names_nothing_is_taken(void **state)
{
    (void)state;
    struct hx_redact_names none = {NULL, 0};
    struct hx_buf out;
    hx_buf_init(&out, 100);
    struct hx_span text = HX_SPAN_LIT("{\"password\":1}");
    assert_int_equal(hx_redact(&none, text, &out), HX_REDACT_UNTOUCHED);
    assert_int_equal(hx_redact(NULL, text, &out), HX_REDACT_UNTOUCHED);
    assert_int_equal(hx_redact(&names, HX_SPAN_NONE, &out), HX_REDACT_UNTOUCHED);
    assert_int_equal(out.len, 0);
    hx_buf_fini(&out);
}

static void what_is_shown(void **state)
{
    (void)state;
    struct hx_buf buf;
    struct hx_span secret = HX_SPAN_LIT("{\"password\":\"hunter2\"}");
    struct hx_span plain = HX_SPAN_LIT("{\"a\":1}");
    hx_buf_init(&buf, 100);
    assert_ptr_equal(hx_redact_shown(&names, plain, &buf).ptr, plain.ptr);
    assert_true(hx_span_is_absent(hx_redact_shown(&names, HX_SPAN_NONE, &buf)));
    assert_span_equal(hx_redact_shown(&names, secret, &buf), "{\"password\":\"[redacted]\"}");
    hx_buf_fini(&buf);
    hx_buf_init(&buf, 8); /* not even half of it fits */
    assert_span_equal(hx_redact_shown(&names, secret, &buf), "\"[redacted]\"");
    hx_buf_fini(&buf);
}

static bool redact_once(void *context)
{
    (void)context;
    struct hx_buf out;
    hx_buf_init(&out, 1000);
    int rc = hx_redact(
        &names, HX_SPAN_LIT("{\"a\":\"{\\\"password\\\":1}\",\"password\":[\"hunter2\"]}"), &out);
    bool is_done = rc == 0;
    if (is_done)
        assert_span_equal(hx_buf_span(&out), "{\"a\":\"{\\\"password\\\":\\\"[redacted]\\\"}\","
                                             "\"password\":\"[redacted]\"}");
    else
        assert_true(rc < 0);
    hx_buf_fini(&out);
    return is_done;
}

static void a_failure_is_no_text_to_show(void **state)
{
    (void)state;
    kit_fail_each_allocation(redact_once, NULL);
    struct hx_buf out;
    hx_buf_init(&out, 8);
    assert_true(hx_redact(&names, HX_SPAN_LIT("{\"password\":1}"), &out) < 0);
    hx_buf_fini(&out);
    hx_buf_init(&out, 4);
    assert_true(hx_redact(&names, HX_SPAN_LIT("password=1"), &out) < 0);
    hx_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_any_type_at_any_depth),
        cmocka_unit_test(names_in_odd_spellings),
        cmocka_unit_test(values_beside_their_names),
        cmocka_unit_test(options_of_programs),
        cmocka_unit_test(other_bytes_stay),
        cmocka_unit_test(json_within_strings),
        cmocka_unit_test(json_within_strings_has_an_end),
        cmocka_unit_test(text_that_is_no_json),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(names_that_can_be_meant),
        cmocka_unit_test(without_names_nothing_is_taken),
        cmocka_unit_test(what_is_shown),
        cmocka_unit_test(a_failure_is_no_text_to_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
