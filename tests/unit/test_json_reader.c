/* SPDX-License-Identifier: MIT */
/* The reader accepts exactly RFC 8259, and its tape says where everything is. */
#include "tests/kit/text_kit.h"
#include "json/pointer.h"
#include "json/reader.h"
#include "json/text.h"
#include "json/writer.h"

static struct hx_json_tape tape;
static const struct hx_json_limits defaults = {
    .depth_max = 128, .tokens_max = 100000, .text_max = 1 << 20};

static int read_span(struct hx_span text, const struct hx_json_limits *limits)
{
    /* The tape borrows the text, so the copy may only go at the next read. */
    static struct hx_span held;
    kit_free(held);
    held = kit_exact(text);
    return hx_json_read(&tape, held, limits);
}

static int read_text(const char *text)
{
    return read_span(hx_span_cstr(text), &defaults);
}

static void accepts_json(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "1",
        "-0",
        "0",
        "-0.0e-0",
        "1E400",
        "123456789012345678901234567890",
        "null",
        "true",
        "false",
        "\"\"",
        " \t\r\n[ ] ",
        "[1,{\"a\":[]},\"x\"]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"",
        "\"\\ud83d\\ude02\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800x\"",
        "\"\\ud800\\ud800\\udc00\"",
        "\"\x7f\"",
        "\"\xc2\x80\"",
        "\"\xdf\xbf\"",
        "\"\xe0\xa0\x80\"",
        "\"\xed\x9f\xbf\"",
        "\"\xee\x80\x80\"",
        "\"\xef\xbf\xbf\"",
        "\"\xf0\x90\x80\x80\"",
        "\"\xf4\x8f\xbf\xbf\"",
        "{\"\":{\"\":{}}}",
        "\"abcdefghijklmnopqrstuvwxyz\xc3\xa9yz0123456789\"",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int rc = read_text(texts[i]);
        if (rc != 0)
            print_error("refused: %s: %s\n", texts[i], tape.error_reason);
        assert_int_equal(rc, 0);
    }
}

static void refuses_the_rest(void **state)
{
    static const struct {
        const char *text;
        int outcome;
        size_t offset;
    } cases[] = {
        {"", HX_JSON_BAD_SYNTAX, 0},
        {"  ", HX_JSON_BAD_SYNTAX, 2},
        {"{", HX_JSON_BAD_SYNTAX, 1},
        {"[", HX_JSON_BAD_SYNTAX, 1},
        {"]", HX_JSON_BAD_SYNTAX, 0},
        {"[1,]", HX_JSON_BAD_SYNTAX, 3},
        {"[,1]", HX_JSON_BAD_SYNTAX, 1},
        {"[1 2]", HX_JSON_BAD_SYNTAX, 3},
        {"[1}", HX_JSON_BAD_SYNTAX, 2},
        {"{\"a\":1]", HX_JSON_BAD_SYNTAX, 6},
        {"{\"a\":1,}", HX_JSON_BAD_SYNTAX, 7},
        {"{\"a\"}", HX_JSON_BAD_SYNTAX, 4},
        {"{\"a\":}", HX_JSON_BAD_SYNTAX, 5},
        {"{a:1}", HX_JSON_BAD_SYNTAX, 1},
        {"{1:1}", HX_JSON_BAD_SYNTAX, 1},
        {"[1]x", HX_JSON_BAD_SYNTAX, 3},
        {"1 2", HX_JSON_BAD_SYNTAX, 2},
        {"01", HX_JSON_BAD_SYNTAX, 0},
        {"-01", HX_JSON_BAD_SYNTAX, 1},
        {"-", HX_JSON_BAD_SYNTAX, 1},
        {"+1", HX_JSON_BAD_SYNTAX, 0},
        {".5", HX_JSON_BAD_SYNTAX, 0},
        {"1.", HX_JSON_BAD_SYNTAX, 2},
        {"1e", HX_JSON_BAD_SYNTAX, 2},
        {"1e+", HX_JSON_BAD_SYNTAX, 3},
        {"0x10", HX_JSON_BAD_SYNTAX, 1},
        {"nul", HX_JSON_BAD_SYNTAX, 0},
        {"nulL", HX_JSON_BAD_SYNTAX, 0},
        {"True", HX_JSON_BAD_SYNTAX, 0},
        {"NaN", HX_JSON_BAD_SYNTAX, 0},
        {"Infinity", HX_JSON_BAD_SYNTAX, 0},
        {"-Infinity", HX_JSON_BAD_SYNTAX, 1},
        {"'a'", HX_JSON_BAD_SYNTAX, 0},
        {"\"", HX_JSON_BAD_SYNTAX, 1},
        {"\"a", HX_JSON_BAD_SYNTAX, 2},
        {"\"\\", HX_JSON_BAD_SYNTAX, 2},
        {"\"\\\"", HX_JSON_BAD_SYNTAX, 3},
        {"\"\\x41\"", HX_JSON_BAD_SYNTAX, 2},
        {"\"\\U0041\"", HX_JSON_BAD_SYNTAX, 2},
        {"\"\\u004\"", HX_JSON_BAD_SYNTAX, 6},
        {"\"\\u00g0\"", HX_JSON_BAD_SYNTAX, 5},
        {"\"\x01\"", HX_JSON_BAD_SYNTAX, 1},
        {"\"\x1f\"", HX_JSON_BAD_SYNTAX, 1},
        {"\"12345678\n\"", HX_JSON_BAD_SYNTAX, 9},
        {"\"\x80\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xc0\x80\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xc1\xbf\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xc7\xd1\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xe0\x9f\xbf\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xed\xa0\x80\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xed\xbf\xbf\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xf0\x8f\xbf\xbf\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xf4\x90\x80\x80\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xf5\x80\x80\x80\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xff\"", HX_JSON_BAD_UTF8, 1},
        {"\"\xe2\x82\"", HX_JSON_BAD_UTF8, 1},
        {"\xef\xbb\xbf{}", HX_JSON_BAD_SYNTAX, 0},
        {"[\v1]", HX_JSON_BAD_SYNTAX, 1},
        {"[1] // no", HX_JSON_BAD_SYNTAX, 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rc = read_text(cases[i].text);
        if (rc != cases[i].outcome || tape.error_offset != cases[i].offset)
            print_error("case %zu: %s\n", i, cases[i].text);
        assert_int_equal(rc, cases[i].outcome);
        assert_int_equal(tape.error_offset, cases[i].offset);
        assert_non_null(tape.error_reason);
        assert_int_equal(tape.count, 0);
    }
}

/* Strings are scanned by the word: each byte at each place in and around some words. */
static void every_byte_at_every_place(void **state)
{
    for (size_t at = 1; at < 20; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[] = "\"abcdefghijklmnopqrs\"";
            text[at] = (char)byte;
            int expected = byte < 0x20 || byte == '"' ? HX_JSON_BAD_SYNTAX
                           : byte >= 0x80             ? HX_JSON_BAD_UTF8
                                                      : 0;
            if (byte == '\\') /* whether an escape comes of it is up to the next letter */
                expected =
                    strchr("bfnr\"", text[at + 1]) != NULL && at < 19 ? 0 : HX_JSON_BAD_SYNTAX;
            int rc = read_span(hx_span(text, sizeof(text) - 1), &defaults);
            if (rc != expected)
                print_error("byte %02x at %zu\n", (unsigned)byte, at);
            assert_int_equal(rc, expected);
        }
    }
}

static void every_cut_is_refused(void **state)
{
    const char *text = "{\"a\":[1,-2.5e3,true,null,\"\\u00e9\xc3\xa9\"],\"b\":{}}";
    for (size_t len = 0; len < strlen(text); len++)
        assert_true(read_span(hx_span(text, len), &defaults) > 0);
    assert_int_equal(read_text(text), 0);
}

static void the_tape_points_at_bytes(void **state)
{
    assert_int_equal(read_text(" {\"a\" : [1, 2.0], \"b\":\"x\\ny\", \"c\":{ } } "), 0);
    assert_int_equal(tape.count, 9);
    assert_int_equal(hx_json_at(&tape, 0)->count, 3);
    assert_int_equal(hx_json_at(&tape, 0)->next, 9);
    assert_span_equal(hx_json_raw(&tape, 0), "{\"a\" : [1, 2.0], \"b\":\"x\\ny\", \"c\":{ } }");
    uint32_t a = hx_json_member(&tape, 0, HX_SPAN_LIT("a"));
    assert_span_equal(hx_json_raw(&tape, a), "[1, 2.0]");
    assert_int_equal(hx_json_at(&tape, a)->count, 2);
    assert_int_equal(hx_json_at(&tape, a)->next, a + 3);
    assert_span_equal(hx_json_raw(&tape, hx_json_member(&tape, 0, HX_SPAN_LIT("c"))), "{ }");
    assert_int_equal(hx_json_member(&tape, 0, HX_SPAN_LIT("d")), HX_JSON_NONE);
    assert_int_equal(hx_json_member(&tape, HX_JSON_NONE, HX_SPAN_LIT("d")), HX_JSON_NONE);
    assert_int_equal(hx_json_member_of(&tape, 0, HX_SPAN_LIT("a"), HX_JSON_OBJECT), HX_JSON_NONE);

    char seen[16] = "";
    hx_json_for_each(name, &tape, 0) strncat(seen, hx_json_content(&tape, name).ptr, 1);
    assert_string_equal(seen, "abc");
    size_t elements = 0;
    hx_json_for_each(element, &tape, a) elements += hx_json_is(&tape, element, HX_JSON_NUMBER);
    assert_int_equal(elements, 2);
}

static void names_are_compared_after_unescaping(void **state)
{
    assert_int_equal(read_text("{\"\\u0061\\ud83d\\ude02\":1,\"b\":2}"), 0);
    assert_int_equal(hx_json_member(&tape, 0, HX_SPAN_LIT("a\xf0\x9f\x98\x82")), 2);
    assert_int_equal(hx_json_member(&tape, 0, HX_SPAN_LIT("a")), HX_JSON_NONE);
    assert_false(tape.has_duplicates);
}

static void duplicates_are_noted_where_they_are(void **state)
{
    assert_int_equal(read_text("{\"x\":{\"a\":1,\"\\u0061\":2},\"y\":{\"a\":1}}"), 0);
    assert_true(tape.has_duplicates);
    assert_false(hx_json_at(&tape, 0)->flags & HX_JSON_HAS_DUPLICATES);
    uint32_t x = hx_json_member(&tape, 0, HX_SPAN_LIT("x"));
    assert_true(hx_json_at(&tape, x)->flags & HX_JSON_HAS_DUPLICATES);
    uint32_t y = hx_json_member(&tape, 0, HX_SPAN_LIT("y"));
    assert_false(hx_json_at(&tape, y)->flags & HX_JSON_HAS_DUPLICATES);
}

/* Objects of every size around the switch from comparing to sorting, with and without one pair. */
static void duplicates_are_found_at_every_size(void **state)
{
    for (unsigned count = 1; count <= 70; count++) {
        for (unsigned twin = 0; twin <= count; twin++) {
            struct hx_buf buf;
            hx_buf_init(&buf, 1 << 16);
            (void)hx_buf_append_cstr(&buf, "{");
            for (unsigned i = 0; i < count; i++) {
                (void)hx_buf_printf(&buf, "%s\"name%03u\":{\"k\":[%u]}", i ? "," : "",
                                    (i * 37) % 71, i);
            }
            if (twin < count)
                (void)hx_buf_printf(&buf, ",\"\\u006eame%03u\":0", (twin * 37) % 71);
            (void)hx_buf_append_cstr(&buf, "}");
            assert_int_equal(read_span(hx_buf_span(&buf), &defaults), 0);
            assert_int_equal(tape.has_duplicates, twin < count);
            hx_buf_fini(&buf);
        }
    }
}

static void lone_surrogates_are_noted(void **state)
{
    static const struct {
        const char *text;
        bool is_lone;
    } cases[] = {
        {"\"\\ud83d\\ude02\"", false},
        {"\"\\ud800\"", true},
        {"\"\\udfff\"", true},
        {"\"\\ud800x\"", true},
        {"\"\\ud800\\n\"", true},
        {"\"\\ud800\\u0041\"", true},
        {"\"\\ude02\\ud83d\"", true},
        {"{\"\\ud800\":1}", true},
        {"\"\\\\ud800\"", false},
        {"\"\\uD7FF\\uE000\"", false},
        {"\"\\ud800\\ud800\\udc00\"", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_text(cases[i].text), 0);
        if (tape.has_lone_surrogates != cases[i].is_lone)
            print_error("%s\n", cases[i].text);
        assert_int_equal(tape.has_lone_surrogates, cases[i].is_lone);
    }
}

static void limits_hold_exactly(void **state)
{
    struct hx_json_limits limits = {.depth_max = 3, .tokens_max = 5, .text_max = 20};
    assert_int_equal(read_span(HX_SPAN_LIT("[[[1]]]"), &limits), 0);
    assert_int_equal(read_span(HX_SPAN_LIT("[[[[]]]]"), &limits), HX_JSON_TOO_DEEP);
    assert_int_equal(tape.error_offset, 3);
    assert_int_equal(read_span(HX_SPAN_LIT("[1,2,3,4]"), &limits), 0);
    assert_int_equal(read_span(HX_SPAN_LIT("[1,2,3,4,5]"), &limits), HX_JSON_TOO_MANY);
    assert_int_equal(read_span(HX_SPAN_LIT("\"345678901234567890\""), &limits), 0);
    assert_int_equal(read_span(HX_SPAN_LIT("\"3456789012345678901\""), &limits), HX_JSON_TOO_LONG);

    struct hx_json_limits deep = {
        .depth_max = HX_JSON_DEPTH_LIMIT, .tokens_max = 4096, .text_max = 4096};
    char text[2 * HX_JSON_DEPTH_LIMIT + 2];
    memset(text, '[', HX_JSON_DEPTH_LIMIT + 1);
    memset(text + HX_JSON_DEPTH_LIMIT, ']', HX_JSON_DEPTH_LIMIT);
    assert_int_equal(read_span(hx_span(text, 2 * HX_JSON_DEPTH_LIMIT), &deep), 0);
    memset(text, '[', HX_JSON_DEPTH_LIMIT + 1);
    assert_int_equal(read_span(hx_span(text, HX_JSON_DEPTH_LIMIT + 1), &deep), HX_JSON_TOO_DEEP);
}

static void deep_values_cost_no_tokens(void **state)
{
    struct hx_json_limits limits = {
        .depth_max = 64, .record_depth_max = 2, .tokens_max = 16, .text_max = 1 << 20};
    const char *text = "{\"a\":[1,2,{\"b\":{\"c\":[[],\"\\ud800\"]}}],\"d\":{},\"e\":3}";
    assert_int_equal(read_span(hx_span_cstr(text), &limits), 0);
    assert_int_equal(tape.count, 7);
    uint32_t a = hx_json_member(&tape, 0, HX_SPAN_LIT("a"));
    assert_true(hx_json_at(&tape, a)->flags & HX_JSON_IS_OPAQUE);
    assert_int_equal(hx_json_at(&tape, a)->count, 3);
    assert_int_equal(hx_json_first(&tape, a), HX_JSON_NONE);
    assert_span_equal(hx_json_raw(&tape, a), "[1,2,{\"b\":{\"c\":[[],\"\\ud800\"]}}]");
    uint32_t d = hx_json_member(&tape, 0, HX_SPAN_LIT("d"));
    assert_false(hx_json_at(&tape, d)->flags & HX_JSON_IS_OPAQUE);
    assert_true(tape.has_lone_surrogates);
    /* Not recorded does not mean not checked. */
    assert_int_equal(read_span(HX_SPAN_LIT("{\"a\":[[[01]]]}"), &limits), HX_JSON_BAD_SYNTAX);
    assert_int_equal(read_span(HX_SPAN_LIT("{\"a\":[[[\"\xff\"]]]}"), &limits), HX_JSON_BAD_UTF8);

    limits.record_depth_max = 1;
    assert_int_equal(read_span(hx_span_cstr(text), &limits), 0);
    assert_int_equal(tape.count, 1);
    assert_int_equal(hx_json_at(&tape, 0)->count, 3);
}

static void long_arrays_give_up_their_elements(void **state)
{
    struct hx_json_limits limits = {
        .depth_max = 64, .elements_max = 3, .tokens_max = 16, .text_max = 1 << 20};
    const char *text =
        "{\"a\":[[1],[2,{\"b\":[4]}],3,[1,2,3,4,5,{\"c\":[]}],5],\"d\":[1,2,3],\"e\":"
        "[[1,2,3,4]]}";
    assert_int_equal(read_span(hx_span_cstr(text), &limits), 0);
    uint32_t a = hx_json_member(&tape, 0, HX_SPAN_LIT("a"));
    uint32_t d = hx_json_member(&tape, 0, HX_SPAN_LIT("d"));
    uint32_t e = hx_json_member(&tape, 0, HX_SPAN_LIT("e"));
    assert_true(hx_json_at(&tape, a)->flags & HX_JSON_IS_OPAQUE);
    assert_int_equal(hx_json_at(&tape, a)->count, 5);
    assert_int_equal(hx_json_first(&tape, a), HX_JSON_NONE);
    assert_span_equal(hx_json_raw(&tape, a), "[[1],[2,{\"b\":[4]}],3,[1,2,3,4,5,{\"c\":[]}],5]");
    assert_false(hx_json_at(&tape, d)->flags & HX_JSON_IS_OPAQUE);
    assert_int_equal(hx_json_at(&tape, d)->next, d + 4);
    assert_false(hx_json_at(&tape, e)->flags & HX_JSON_IS_OPAQUE);
    assert_true(hx_json_at(&tape, e + 1)->flags & HX_JSON_IS_OPAQUE);
    assert_int_equal(hx_json_at(&tape, e + 1)->count, 4);
    assert_int_equal(tape.count, 11);

    /* Together with a record depth, on its last level and above. */
    for (uint32_t depth = 1; depth <= 6; depth++) {
        limits.record_depth_max = depth;
        limits.tokens_max = 64;
        assert_int_equal(read_span(hx_span_cstr(text), &limits), 0);
        assert_int_equal(hx_json_at(&tape, 0)->count, 3);
        assert_int_equal(hx_json_at(&tape, 0)->next, tape.count);
    }
    assert_int_equal(read_span(HX_SPAN_LIT("[1,2,3,4,[01]]"), &limits), HX_JSON_BAD_SYNTAX);
}

static void integers_are_exact_or_none(void **state)
{
    static const struct {
        const char *text;
        bool is_int;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"-1", true, -1},
        {"9007199254740993", true, 9007199254740993},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"18446744073709551615", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"\"1\"", false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = 0;
        assert_int_equal(read_text(cases[i].text), 0);
        assert_int_equal(hx_json_int64(&tape, 0, &value), cases[i].is_int);
        assert_int_equal(value, cases[i].value);
    }
}

static void strings_decode(void **state)
{
    struct hx_arena arena;
    struct hx_span text;
    hx_arena_init(&arena, 1 << 16);
    assert_int_equal(read_text("[\"plain\",\"\\ud83d\\ude02\\n\\u00e9\\/\\\"\",\"\\ud800\",true]"),
                     0);
    assert_int_equal(hx_json_string(&tape, 1, &arena, &text), 0);
    assert_span_equal(text, "plain");
    assert_int_equal(arena.used, 0); /* borrowed */
    assert_int_equal(hx_json_string(&tape, 2, &arena, &text), 0);
    assert_span_equal(text, "\xf0\x9f\x98\x82\n\xc3\xa9/\"");
    assert_int_equal(hx_json_string(&tape, 3, &arena, &text), HX_JSON_TEXT_LONE_SURROGATE);
    bool value = false;
    assert_true(hx_json_bool(&tape, 4, &value));
    assert_true(value);
    assert_false(hx_json_bool(&tape, 1, &value));
    hx_arena_fini(&arena);
}

static void pointers_find_what_rfc_6901_says(void **state)
{
    static const struct {
        const char *pointer;
        const char *raw;
    } cases[] = {
        {"/foo", "[\"bar\",\"baz\"]"},
        {"/foo/0", "\"bar\""},
        {"/", "0"},
        {"/a~1b", "1"},
        {"/c%d", "2"},
        {"/e^f", "3"},
        {"/g|h", "4"},
        {"/i\\j", "5"},
        {"/k\"l", "6"},
        {"/ ", "7"},
        {"/m~0n", "8"},
        {"/foo/2", NULL},
        {"/foo/00", NULL},
        {"/foo/-", NULL},
        {"/foo/+1", NULL},
        {"/none", NULL},
        {"/foo/0/x", NULL},
        {"foo", NULL},
        {"/a~2b", NULL},
        {"/m~", NULL},
        {"/deep/x/1/y", "[9]"},
        {"/m~01n", NULL},
        {"/foo/99999999999", NULL},
    };
    assert_int_equal(read_text("{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,"
                               "\"g|h\":4,\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,"
                               "\"de\\u0065p\":{\"x\":[1,{\"y\":[9]}]}}"),
                     0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t at = hx_json_pointer_find(&tape, 0, hx_span_cstr(cases[i].pointer));
        if ((at == HX_JSON_NONE) != (cases[i].raw == NULL))
            print_error("%s\n", cases[i].pointer);
        assert_span_equal(hx_json_raw(&tape, at), cases[i].raw);
    }
    assert_int_equal(hx_json_pointer_find(&tape, 0, HX_SPAN_LIT("")), 0);
}

static void the_writer_writes_json(void **state)
{
    struct hx_buf buf;
    struct hx_json_writer writer;
    hx_buf_init(&buf, 4096);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "s");
    hx_json_put_string(&writer, HX_SPAN_LIT("q\"b\\c\n\x01\x1f\x7f\xc3\xa9\xff\xe2\x82"));
    hx_json_put_name(&writer, "list");
    hx_json_open_array(&writer);
    hx_json_put_int(&writer, INT64_MIN);
    hx_json_put_uint(&writer, UINT64_MAX);
    hx_json_put_bool(&writer, false);
    hx_json_put_null(&writer);
    hx_json_open_object(&writer);
    hx_json_close_object(&writer);
    hx_json_put_raw(&writer, HX_SPAN_LIT("1.0"));
    hx_json_close_array(&writer);
    hx_json_put_name(&writer, "t");
    hx_json_put_bool(&writer, true);
    hx_json_close_object(&writer);
    assert_true(hx_buf_ok(&buf));
    assert_span_equal(hx_buf_span(&buf),
                      "{\"s\":\"q\\\"b\\\\c\\n\\u0001\\u001f\x7f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd"
                      "\xef\xbf\xbd\",\"list\":[-9223372036854775808,18446744073709551615,false,"
                      "null,{},1.0],\"t\":true}");
    assert_int_equal(read_span(hx_buf_span(&buf), &defaults), 0);
    hx_buf_fini(&buf);
}

static void a_member_that_is_not_there_is_null(void **state)
{
    struct hx_buf buf;
    struct hx_json_writer writer;
    const struct hx_id nil = {{0}}, id = {{1}};
    hx_buf_init(&buf, 4096);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_add_string(&writer, "a", HX_SPAN_LIT("\""));
    hx_json_add_string(&writer, "b", HX_SPAN_LIT(""));
    hx_json_add_string(&writer, "c", HX_SPAN_NONE);
    hx_json_add_cstr(&writer, "d", NULL);
    hx_json_add_id(&writer, "e", &id);
    hx_json_add_id(&writer, "f", &nil);
    hx_json_add_wall(&writer, "g", (struct hx_wall){1});
    hx_json_add_wall(&writer, "h", (struct hx_wall){0});
    hx_json_close_object(&writer);
    assert_true(hx_buf_ok(&buf));
    assert_span_equal(hx_buf_span(&buf),
                      "{\"a\":\"\\\"\",\"b\":\"\",\"c\":null,\"d\":null,"
                      "\"e\":\"01000000-0000-0000-0000-000000000000\",\"f\":null,"
                      "\"g\":\"1970-01-01T00:00:00.001Z\",\"h\":null}");
    hx_buf_fini(&buf);
}

static void text_sorts_by_utf16_units(void **state)
{
    /* In this order, with every pair compared, spelled plainly and with escapes. */
    static const char *const sorted[] = {"",
                                         "\\u0000",
                                         "1",
                                         "10",
                                         "A",
                                         "a",
                                         "a\\u0000",
                                         "aa",
                                         "\\u007f",
                                         "\xc3\xb6",
                                         "\xe2\x82\xac",
                                         "\xed\x9f\xbf",
                                         "\\ud83d\\ude02",
                                         "\xf0\x9f\x98\x83",
                                         "\xee\x80\x80",
                                         "\xef\xac\xb3",
                                         "\\uffff"};
    for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
        for (size_t k = 0; k < sizeof(sorted) / sizeof(sorted[0]); k++) {
            int order = hx_json_text_compare(hx_span_cstr(sorted[i]), hx_span_cstr(sorted[k]));
            int expected = i < k ? -1 : i > k;
            if (order != expected)
                print_error("%s against %s\n", sorted[i], sorted[k]);
            assert_int_equal(order, expected);
        }
    }
    assert_int_equal(hx_json_text_compare(HX_SPAN_LIT("\\u00e9x"), HX_SPAN_LIT("\xc3\xa9x")), 0);
    assert_int_equal(hx_json_text_compare(HX_SPAN_LIT("\xc3\xa9\\u0078"), HX_SPAN_LIT("\xc3\xa9x")),
                     0);
}

static bool read_large(void *context)
{
    struct hx_json_tape fresh;
    const struct hx_buf *text = context;
    hx_json_tape_init(&fresh);
    int rc = hx_json_read(&fresh, hx_buf_span(text), &defaults);
    hx_json_tape_fini(&fresh);
    return rc == 0;
}

static void refused_memory_is_survived(void **state)
{
    struct hx_buf text;
    hx_buf_init(&text, 1 << 20);
    (void)hx_buf_append_cstr(&text, "{\"a\":0");
    for (int i = 0; i < 1000; i++)
        (void)hx_buf_printf(&text, ",\"m%d\":[%d]", i, i);
    (void)hx_buf_append_cstr(&text, "}");
    kit_fail_each_allocation(read_large, &text);
    hx_buf_fini(&text);
}

static void trimming_gives_memory_back(void **state)
{
    struct hx_json_limits limits = defaults;
    assert_int_equal(read_span(HX_SPAN_LIT("[1,2,3]"), &limits), 0);
    hx_json_tape_trim(&tape, 1 << 20);
    assert_true(tape.capacity > 0);
    hx_json_tape_trim(&tape, 1);
    assert_int_equal(tape.capacity, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_json),
        cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(every_byte_at_every_place),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(the_tape_points_at_bytes),
        cmocka_unit_test(names_are_compared_after_unescaping),
        cmocka_unit_test(duplicates_are_noted_where_they_are),
        cmocka_unit_test(duplicates_are_found_at_every_size),
        cmocka_unit_test(lone_surrogates_are_noted),
        cmocka_unit_test(limits_hold_exactly),
        cmocka_unit_test(deep_values_cost_no_tokens),
        cmocka_unit_test(long_arrays_give_up_their_elements),
        cmocka_unit_test(integers_are_exact_or_none),
        cmocka_unit_test(strings_decode),
        cmocka_unit_test(pointers_find_what_rfc_6901_says),
        cmocka_unit_test(the_writer_writes_json),
        cmocka_unit_test(a_member_that_is_not_there_is_null),
        cmocka_unit_test(text_sorts_by_utf16_units),
        cmocka_unit_test(refused_memory_is_survived),
        cmocka_unit_test(trimming_gives_memory_back),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)read_span(HX_SPAN_LIT(""), &defaults);
    hx_json_tape_fini(&tape);
    return failed;
}
