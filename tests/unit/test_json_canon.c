/* SPDX-License-Identifier: MIT */
/*
 * Values that mean the same have the same canonical bytes, and no others. The vectors are the
 * examples of RFC 8785 and the test data of cyberphone/json-canonicalization (Apache-2.0), retyped.
 */
#include "tests/kit/text_kit.h"
#include "json/canon.h"
#include "json/fingerprint.h"
#include "json/reader.h"

static const struct hx_json_limits limits = {
    .depth_max = 128, .tokens_max = 100000, .text_max = 1 << 20};

static void append_sink(void *context, struct hx_span bytes)
{
    assert_int_equal(hx_buf_append_span(context, bytes), 0);
}

static int canon(const char *text, const struct hx_canon_ignore *ignore, struct hx_buf *out,
                 size_t *ret_offset)
{
    struct hx_json_tape tape;
    struct hx_canon scratch;
    hx_json_tape_init(&tape);
    hx_canon_init(&scratch);
    hx_buf_reset(out);
    assert_int_equal(hx_json_read(&tape, hx_span_cstr(text), &limits), 0);
    int rc = hx_canon_write(&scratch, &tape, 0, ignore, append_sink, out, ret_offset);
    hx_canon_fini(&scratch);
    hx_json_tape_fini(&tape);
    return rc;
}

static void check(const char *text, const char *expected)
{
    struct hx_buf out;
    hx_buf_init(&out, 1 << 20);
    assert_int_equal(canon(text, NULL, &out, NULL), 0);
    if (!hx_span_eq_cstr(hx_buf_span(&out), expected))
        print_error("of: %s\n", text);
    assert_span_equal(hx_buf_span(&out), expected);
    hx_buf_fini(&out);
}

static void rfc_8785_vectors(void **state)
{
    /* RFC 8785, 3.2.2 and 3.2.4. There 333333333.33333329 is rounded; here it stays exact. */
    check("{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"
          "\"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\","
          "\"literals\":[null,true,false]}",
          "{\"literals\":[null,true,false],\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],"
          "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
    /* 3.2.3: the order of names. */
    check("{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\u000a\":\"Newline\","
          "\"1\":\"One\",\"\\u0080\":\"Control\\u007f\",\"\\ud83d\\ude02\":\"Smiley\","
          "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\","
          "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"</script>\":\"Browser Challenge\"}",
          "{\"\\n\":\"Newline\",\"\\r\":\"Carriage Return\",\"1\":\"One\","
          "\"</script>\":\"Browser Challenge\",\"\xc2\x80\":\"Control\x7f\","
          "\"\xc3\xb6\":\"Latin Small Letter O With Diaeresis\",\"\xe2\x82\xac\":\"Euro Sign\","
          "\"\xf0\x9f\x98\x82\":\"Smiley\",\"\xef\xac\xb3\":\"Hebrew Letter Dalet With Dagesh\"}");
    check("[\n 56,\n {\"d\": true,\"10\": null,\"1\": [ ]}\n]",
          "[56,{\"1\":[],\"10\":null,\"d\":true}]");
    check("{\"peach\":\"This sorting order\",\"p\xc3\xa9"
          "ch\xc3\xa9\":\"is wrong according to French\",\"p\xc3\xaa"
          "che\":\"but canonicalization MUST\",\"sin\":\"ignore locale\"}",
          "{\"peach\":\"This sorting order\",\"p\xc3\xa9"
          "ch\xc3\xa9\":\"is wrong according to French\",\"p\xc3\xaa"
          "che\":\"but canonicalization MUST\",\"sin\":\"ignore locale\"}");
    check("{\"1\":{\"f\":{\"f\":\"hi\",\"F\":5} ,\"\\n\":56.0},\"10\":{ },\"\":\"empty\",\"a\":{ },"
          "\"111\":[ {\"e\":\"yes\",\"E\":\"no\" } ],\"A\":{ }}",
          "{\"\":\"empty\",\"1\":{\"\\n\":56,\"f\":{\"F\":5,\"f\":\"hi\"}},\"10\":{},"
          "\"111\":[{\"E\":\"no\",\"e\":\"yes\"}],\"A\":{},\"a\":{}}");
    /* No Unicode folding. */
    check("{\"Unnormalized Unicode\":\"A\\u030a\"}", "{\"Unnormalized Unicode\":\"A\xcc\x8a\"}");
}

/* What ECMAScript prints for a double is already the normal form of that decimal: RFC 8785, B. */
static void printed_doubles_are_fixed_points(void **state)
{
    static const char *const printed[] = {"0",
                                          "5e-324",
                                          "-5e-324",
                                          "1.7976931348623157e+308",
                                          "-1.7976931348623157e+308",
                                          "9007199254740992",
                                          "-9007199254740992",
                                          "295147905179352830000",
                                          "9.999999999999997e+22",
                                          "1e+23",
                                          "1.0000000000000001e+23",
                                          "999999999999999700000",
                                          "999999999999999900000",
                                          "1e+21",
                                          "9.999999999999997e-7",
                                          "0.000001",
                                          "333333333.3333332",
                                          "333333333.33333325",
                                          "333333333.3333333",
                                          "333333333.3333334",
                                          "333333333.33333343",
                                          "-0.0000033333333333333333",
                                          "1424953923781206.2"};
    for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
        check(printed[i], printed[i]);
}

static void numbers_by_exact_value(void **state)
{
    static const char *const cases[][2] = {
        {"1", "1"},
        {"1.0", "1"},
        {"1e0", "1"},
        {"1E+0", "1"},
        {"10e-1", "1"},
        {"0.1e1", "1"},
        {"0.000001e6", "1"},
        {"1000000e-6", "1"},
        {"-0", "0"},
        {"-0.0", "0"},
        {"0e5", "0"},
        {"0.000e-99999999999999999999999", "0"},
        {"-1.50", "-1.5"},
        {"9007199254740993", "9007199254740993"},
        {"9007199254740993.0", "9007199254740993"},
        {"18446744073709551615", "18446744073709551615"},
        {"18446744073709551616", "18446744073709551616"},
        {"123456789012345678901", "123456789012345678901"},
        {"1234567890123456789012", "1.234567890123456789012e+21"},
        {"100000000000000000000", "100000000000000000000"},
        {"1000000000000000000000", "1e+21"},
        {"123456789012345678901.25", "123456789012345678901.25"},
        {"0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"},
        {"0.000001", "0.000001"},
        {"0.0000001", "1e-7"},
        {"0.00000123", "0.00000123"},
        {"0.000000123", "1.23e-7"},
        {"1e400", "1e+400"},
        {"12.5e400", "1.25e+401"},
        {"1e-400", "1e-400"},
        {"1e1000000000", "1e+1000000000"},
        {"-100.00e999999999", "-1e+1000000001"},
        {"1e0000000000000000000000000005", "100000"},
        {"1e999999999999999", "1e+999999999999999"},
        {"0.01e1000000000000001", "1e+999999999999999"},
        {"1e-999999999999999", "1e-999999999999999"},
        {"100e-1000000000000001", "1e-999999999999999"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(cases[i][0], cases[i][1]);
}

/* The digits in two runs, with zeros at every border. */
static void digits_around_the_point(void **state)
{
    check("[100.001,100.100,0.0100,1200e-2]", "[100.001,100.1,0.01,12]");
    check("[1200.0034e2,1200.0034e-3,1200.0034e-10]", "[120000.34,1.2000034,1.2000034e-7]");
}

static void refusals_have_names(void **state)
{
    static const struct {
        const char *text;
        int outcome;
        size_t offset;
    } cases[] = {
        {"[{\"a\":1,\"\\u0061\":2}]", HX_CANON_DUPLICATE_NAME, 1},
        {"{\"a\":\"\\ud800\"}", HX_CANON_LONE_SURROGATE, 5},
        {"{\"\\udc00\":1}", HX_CANON_LONE_SURROGATE, 1},
        {"[1e1000000000000000]", HX_CANON_NUMBER_RANGE, 1},
        {"[1e-99999999999999999999]", HX_CANON_NUMBER_RANGE, 1},
        {"[10e999999999999999]", HX_CANON_NUMBER_RANGE, 1},
        {"[0.1e-999999999999999]", HX_CANON_NUMBER_RANGE, 1},
    };
    struct hx_buf out;
    hx_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t offset = 999;
        assert_int_equal(canon(cases[i].text, NULL, &out, &offset), cases[i].outcome);
        assert_int_equal(offset, cases[i].offset);
    }
    hx_buf_fini(&out);

    struct hx_json_tape tape;
    struct hx_canon scratch;
    struct hx_json_limits shallow = limits;
    shallow.record_depth_max = 1;
    hx_json_tape_init(&tape);
    hx_canon_init(&scratch);
    hx_buf_init(&out, 1 << 20);
    assert_int_equal(hx_json_read(&tape, HX_SPAN_LIT("[1]"), &shallow), 0);
    assert_int_equal(hx_canon_write(&scratch, &tape, 0, NULL, append_sink, &out, NULL),
                     HX_CANON_OPAQUE);
    hx_buf_fini(&out);
    hx_canon_fini(&scratch);
    hx_json_tape_fini(&tape);
}

static void ignored_members_are_left_out(void **state)
{
    static const struct {
        const char *pointer;
        const char *expected;
    } cases[] = {
        {"/a", "{\"b\":{\"c\":1,\"d/e\":[1,2,3]}}"},
        {"/b/c", "{\"a\":0,\"b\":{\"d/e\":[1,2,3]}}"},
        {"/b/d~1e", "{\"a\":0,\"b\":{\"c\":1}}"},
        {"/b/d~1e/1", "{\"a\":0,\"b\":{\"c\":1,\"d/e\":[1,3]}}"},
        {"/b/d~1e/0", "{\"a\":0,\"b\":{\"c\":1,\"d/e\":[2,3]}}"},
        {"/b", "{\"a\":0}"},
        {"/nowhere", "{\"a\":0,\"b\":{\"c\":1,\"d/e\":[1,2,3]}}"},
    };
    struct hx_buf out;
    hx_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_span pointer = hx_span_cstr(cases[i].pointer);
        struct hx_canon_ignore ignore = {.pointers = &pointer, .count = 1};
        assert_int_equal(canon("{\"b\":{\"d/e\":[1,2,3],\"c\":1},\"a\":0}", &ignore, &out, NULL),
                         0);
        assert_span_equal(hx_buf_span(&out), cases[i].expected);
    }
    struct hx_span both[] = {HX_SPAN_LIT("/a"), HX_SPAN_LIT("/b")};
    struct hx_canon_ignore ignore = {.pointers = both, .count = 2};
    assert_int_equal(canon("{\"b\":1,\"a\":0}", &ignore, &out, NULL), 0);
    assert_span_equal(hx_buf_span(&out), "{}");
    hx_buf_fini(&out);
}

static void long_strings_and_deep_values_pass(void **state)
{
    struct hx_buf text;
    hx_buf_init(&text, 1 << 20);
    for (int i = 0; i < 100; i++)
        (void)hx_buf_append_cstr(&text, "[{\"k\":");
    (void)hx_buf_append_cstr(&text, "\"");
    for (int i = 0; i < 3000; i++)
        (void)hx_buf_append_cstr(&text, "long\xc3\xa9\\n");
    (void)hx_buf_append_cstr(&text, "\"");
    for (int i = 0; i < 100; i++)
        (void)hx_buf_append_cstr(&text, "}]");
    (void)hx_buf_append(&text, "", 1);
    struct hx_json_limits deep = limits;
    deep.depth_max = 256;
    struct hx_json_tape tape;
    struct hx_canon scratch;
    struct hx_buf out;
    hx_json_tape_init(&tape);
    hx_canon_init(&scratch);
    hx_buf_init(&out, 1 << 20);
    assert_int_equal(hx_json_read(&tape, hx_span(text.data, text.len - 1), &deep), 0);
    assert_int_equal(hx_canon_write(&scratch, &tape, 0, NULL, append_sink, &out, NULL), 0);
    assert_span_equal(hx_buf_span(&out), text.data);
    hx_buf_fini(&out);
    hx_buf_fini(&text);
    hx_canon_fini(&scratch);
    hx_json_tape_fini(&tape);
}

static struct hx_fingerprinter fingerprinter;

static int fingerprint(const char *arguments, char *ret_text)
{
    struct hx_digest digest;
    size_t offset;
    int rc =
        hx_fingerprint(&fingerprinter, hx_span_cstr(arguments), &limits, NULL, &digest, &offset);
    if (rc == 0)
        hx_fingerprint_format(&digest, ret_text);
    return rc;
}

static void fingerprints_are_sha256_of_the_canonical_bytes(void **state)
{
    char a[HX_FINGERPRINT_TEXT_SIZE];
    char b[HX_FINGERPRINT_TEXT_SIZE];
    hx_fingerprinter_init(&fingerprinter);
    /* printf '{}' | sha256sum */
    assert_int_equal(fingerprint(NULL, a), 0);
    assert_string_equal(a,
                        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    assert_int_equal(fingerprint(" { } ", b), 0);
    assert_string_equal(a, b);

    assert_int_equal(fingerprint("{\"n\":9007199254740993,\"s\":\"\\u0041\"}", a), 0);
    assert_int_equal(fingerprint("{ \"s\":\"A\", \"n\":9007199254740993.0 }", b), 0);
    assert_string_equal(a, b);
    assert_int_equal(fingerprint("{\"n\":9007199254740992,\"s\":\"A\"}", b), 0);
    assert_string_not_equal(a, b);

    assert_int_equal(fingerprint("{", a), HX_FINGERPRINT_BAD_JSON);
    assert_int_equal(fingerprint("\"\xff\"", a), HX_FINGERPRINT_BAD_JSON);
    assert_int_equal(fingerprint("{\"a\":1,\"a\":1}", a), HX_FINGERPRINT_DUPLICATE_NAME);
    assert_int_equal(fingerprint("[\"\\udead\"]", a), HX_FINGERPRINT_LONE_SURROGATE);
    assert_int_equal(fingerprint("[1e9999999999999999]", a), HX_FINGERPRINT_NUMBER_RANGE);
    for (int outcome = 1; outcome <= HX_FINGERPRINT_NUMBER_RANGE; outcome++)
        assert_non_null(hx_fingerprint_outcome_text(outcome));
    hx_fingerprinter_fini(&fingerprinter);
}

static bool fingerprint_large(void *context)
{
    struct hx_fingerprinter fresh;
    struct hx_digest digest;
    hx_fingerprinter_init(&fresh);
    int rc = hx_fingerprint(&fresh, hx_buf_span(context), &limits, NULL, &digest, NULL);
    hx_fingerprinter_fini(&fresh);
    assert_true(rc <= 0);
    return rc == 0;
}

static void refused_memory_is_survived(void **state)
{
    struct hx_buf text;
    hx_buf_init(&text, 1 << 20);
    (void)hx_buf_append_cstr(&text, "{\"a\":[[[[[[0]]]]]]");
    for (int i = 0; i < 100; i++)
        (void)hx_buf_printf(&text, ",\"m%d\":{\"x\":[%d]}", i, i);
    (void)hx_buf_append_cstr(&text, "}");
    kit_fail_each_allocation(fingerprint_large, &text);
    hx_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_8785_vectors),
        cmocka_unit_test(printed_doubles_are_fixed_points),
        cmocka_unit_test(numbers_by_exact_value),
        cmocka_unit_test(digits_around_the_point),
        cmocka_unit_test(refusals_have_names),
        cmocka_unit_test(ignored_members_are_left_out),
        cmocka_unit_test(long_strings_and_deep_values_pass),
        cmocka_unit_test(fingerprints_are_sha256_of_the_canonical_bytes),
        cmocka_unit_test(refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
