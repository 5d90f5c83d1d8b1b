/* SPDX-License-Identifier: MIT */
/* However bytes are cut into reads, the same lines come out; a line too long costs no memory. */
#include "tests/kit/text_kit.h"
#include "wire/lines.h"

/* Renders items as text so that two runs can be compared. */
static void render(struct hx_buf *log, const struct hx_line *line)
{
    static const char *const kinds[] = {"text", "oversize", "header"};
    (void)hx_buf_printf(log, "%s %llu%s ", kinds[line->kind], (unsigned long long)line->size,
                        line->is_terminated ? "" : " open");
    if (line->kind == HX_LINE_OVERSIZE) {
        char hex[HX_DIGEST_HEX_SIZE];
        hx_digest_hex(&line->digest, hex);
        (void)hx_buf_printf(log, "%.8s %d%d%d%d%d ", hex, line->skim.is_object, line->skim.has_id,
                            line->skim.has_method, line->skim.has_result, line->skim.has_error);
    }
    (void)hx_buf_append_span(log, line->text);
    (void)hx_buf_append_cstr(log, "\n");
}

/* Feeds `bytes` in pieces of `piece` bytes (0 = all at once). */
static void run(struct hx_span bytes, size_t piece, size_t line_max, struct hx_hasher *hasher,
                struct hx_buf *log)
{
    struct hx_lines lines;
    struct hx_line line;
    hx_lines_init(&lines, line_max, hasher);
    for (size_t at = 0; at < bytes.len;) {
        size_t len = piece && piece < bytes.len - at ? piece : bytes.len - at;
        struct hx_span copy = kit_exact(hx_span(bytes.ptr + at, len));
        struct hx_span input = copy;
        while (hx_lines_next(&lines, &input, &line))
            render(log, &line);
        assert_int_equal(input.len, 0);
        kit_free(copy);
        at += len;
    }
    if (hx_lines_end(&lines, &line))
        render(log, &line);
    assert_false(hx_lines_end(&lines, &line));
    hx_lines_fini(&lines);
}

static const char stream[] =
    "first\n"
    "\n"
    "crlf\r\n"
    "cr \r inside\r\r\n"
    "\r\n"
    "Content-Length: 5\r\n"
    "content-length:7\n"
    "Content-Length\n"
    "0123456789abcdef0123456789abcdef\n"   /* exactly the maximum */
    "0123456789abcdef0123456789abcdef\r\n" /* and its ending does not count */
    "0123456789abcdef0123456789abcdef!\n"
    "0123456789abcdef0123456789abcdef\r\r\n"
    "{\"jsonrpc\":\"2.0\",\"id\":\"x\\\"}\",\"method\":\"m\"}\r\n"
    "{\"result\":{\"id\":5,\"s\":\"}{\\\"\"}, \"jsonrpc\":\"2.0\" , \"id\" : 77 }\n"
    "{\"error\":[{\"id\":1}],\"x\":[[]],\"id\":null}            \n"
    "after\n"
    "no end, but \xc3\xa9 and {\"id\":1} in quite a long line";

static const char expected[] = "text 5 first\n"
                               "text 0 \n"
                               "text 4 crlf\n"
                               "text 12 cr \r inside\r\n"
                               "text 0 \n"
                               "header 17 Content-Length: 5\n"
                               "header 16 content-length:7\n"
                               "text 14 Content-Length\n"
                               "text 32 0123456789abcdef0123456789abcdef\n"
                               "text 32 0123456789abcdef0123456789abcdef\n";

static void any_split_gives_the_same_lines(void **state)
{
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_buf whole;
    hx_buf_init(&whole, 1 << 20);
    run(HX_SPAN_LIT(stream), 0, 32, hasher, &whole);
    assert_true(hx_span_starts_with(hx_buf_span(&whole), HX_SPAN_LIT(expected)));
    for (size_t piece = 1; piece < sizeof(stream); piece++) {
        struct hx_buf cut;
        hx_buf_init(&cut, 1 << 20);
        run(HX_SPAN_LIT(stream), piece, 32, hasher, &cut);
        (void)hx_buf_append(&whole, "", 1);
        assert_span_equal(hx_buf_span(&cut), whole.data);
        whole.len--;
        hx_buf_fini(&cut);
    }
    hx_buf_fini(&whole);
    hx_hasher_free(hasher);
}

static void oversize_lines_name_their_id(void **state)
{
    static const struct {
        const char *line;
        const char *id;    /* NULL: none */
        const char *flags; /* is_object has_id has_method has_result has_error */
    } cases[] = {
        {"{\"id\":1,\"method\":\"tools/call\",\"params\":{}}", "1", "11100"},
        {"{\"method\":\"tools/call\",\"params\":{\"id\":2},\"id\":\"a\\\"b\"}", "\"a\\\"b\"",
         "11100"},
        {"{\"result\":[1,{\"id\":2}],\"id\":-9007199254740993}", "-9007199254740993", "11010"},
        {"{\"error\":{\"code\":1,\"message\":\"}]\\\\\"}, \"id\" :\t5 }  ", "5", "11001"},
        {"{\"id\":5,\"id\":5,\"result\":0}", NULL, "10010"},
        {"{\"id\":{},\"result\":0}", NULL, "10010"},
        {"{\"id\":[1],\"result\":0}", NULL, "10010"},
        {"{\"i\\u0064\":5,\"result\":0}", NULL, "10010"},
        {"{\"id\":5,\"result\":\"unfinished", NULL, "00010"},
        {"{\"id\":5,\"result\":0}}", NULL, "00010"},
        {"[{\"id\":5,\"result\":0}]", NULL, "00000"},
        {"not json {\"id\":5}", NULL, "00000"},
        {"{\"a very long name that is longer than any of ours\":1,\"id\":6}", "6", "11000"},
        {"{}                                ", NULL, "10000"},
        {"{\"s\":\"\\\\\",\"id\":7}                  ", "7", "11000"},
        {"{\"t\":true,\"n\":null,\"f\":1.5e3,\"id\":8}", "8", "11000"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t piece = 1; piece < 9; piece++) {
            struct hx_skim skim;
            struct hx_span text = hx_span_cstr(cases[i].line);
            memset(&skim, 0xA5, sizeof(skim)); /* begin must set all that counts */
            hx_skim_begin(&skim);
            for (size_t at = 0; at < text.len; at += piece) {
                size_t len = text.len - at < piece ? text.len - at : piece;
                hx_skim_add(&skim, hx_span(text.ptr + at, len));
            }
            struct hx_skim_result seen = hx_skim_end(&skim);
            char flags[6] = {(char)('0' + seen.is_object),  (char)('0' + seen.has_id),
                             (char)('0' + seen.has_method), (char)('0' + seen.has_result),
                             (char)('0' + seen.has_error),  '\0'};
            assert_string_equal(flags, cases[i].flags);
            assert_span_equal(hx_skim_id(&skim), cases[i].id);
        }
    }
}

static void an_id_may_be_long_but_not_endless(void **state)
{
    for (int over = 0; over <= 1; over++) {
        struct hx_skim skim;
        hx_skim_begin(&skim);
        hx_skim_add(&skim, HX_SPAN_LIT("{\"id\":\""));
        for (int i = 0; i < HX_SKIM_ID_MAX - 2 + over; i++)
            hx_skim_add(&skim, HX_SPAN_LIT("x"));
        hx_skim_add(&skim, HX_SPAN_LIT("\"}"));
        assert_int_equal(hx_skim_end(&skim).has_id, !over);
        assert_int_equal(hx_skim_id(&skim).len, over ? 0 : HX_SKIM_ID_MAX);
    }
}

static void pipe_sizes_do_not_matter(void **state)
{
    static const size_t sizes[] = {65535, 65536, 65537, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *text = malloc(sizes[i] + 1);
        struct hx_lines lines;
        struct hx_line line;
        assert_non_null(text);
        memset(text, 'x', sizes[i]);
        text[sizes[i]] = '\n';
        hx_lines_init(&lines, 1 << 20, NULL);
        size_t seen = 0;
        for (size_t at = 0; at <= sizes[i]; at += 65536) {
            size_t len = sizes[i] + 1 - at < 65536 ? sizes[i] + 1 - at : 65536;
            struct hx_span input = hx_span(text + at, len);
            while (hx_lines_next(&lines, &input, &line)) {
                assert_int_equal(line.kind, HX_LINE_TEXT);
                assert_int_equal(line.text.len, sizes[i]);
                seen++;
            }
        }
        assert_int_equal(seen, 1);
        /* The next call gives the memory of the long line back. */
        struct hx_span input = HX_SPAN_LIT("x");
        assert_false(hx_lines_next(&lines, &input, &line));
        assert_true(lines.partial.capacity <= 64 * 1024);
        hx_lines_fini(&lines);
        free(text);
    }
}

static void a_giant_line_is_not_held(void **state)
{
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_lines lines;
    struct hx_line line;
    char block[4096];
    memset(block, 'y', sizeof(block));
    hx_lines_init(&lines, 100000, hasher);
    struct hx_span input = HX_SPAN_LIT("{\"result\":\"");
    assert_false(hx_lines_next(&lines, &input, &line));
    for (int i = 0; i < 25600; i++) { /* 100 MiB */
        input = hx_span(block, sizeof(block));
        assert_false(hx_lines_next(&lines, &input, &line));
        assert_true(lines.partial.capacity <= 300000);
    }
    assert_int_equal(lines.partial.capacity, 0);
    input = HX_SPAN_LIT("\",\"id\":42}\nnext\n");
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_int_equal(line.kind, HX_LINE_OVERSIZE);
    assert_span_equal(line.text, "42");
    assert_int_equal(line.size, 11 + 25600ull * sizeof(block) + 10);
    assert_true(line.skim.has_result);
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_span_equal(line.text, "next");
    hx_lines_fini(&lines);
    hx_hasher_free(hasher);
}

static void the_digest_is_of_the_line(void **state)
{
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_lines lines;
    struct hx_line line;
    char hex[HX_DIGEST_HEX_SIZE];
    hx_lines_init(&lines, 2, hasher);
    struct hx_span input = HX_SPAN_LIT("a\rb\nabc\r\n");
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_int_equal(line.size, 3);
    hx_digest_hex(&line.digest, hex);
    /* printf abc | sha256sum */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hx_lines_fini(&lines);
    hx_hasher_free(hasher);
}

static void refused_memory_makes_a_line_oversize(void **state)
{
    struct hx_lines lines;
    struct hx_line line;
    hx_lines_init(&lines, 1000, NULL);
    struct hx_span input = HX_SPAN_LIT("{\"id\":3,");
    hx_alloc_fail_at(1);
    assert_false(hx_lines_next(&lines, &input, &line));
    hx_alloc_fail_at(0);
    input = HX_SPAN_LIT("\"result\":{}}\n{}\n{");
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_int_equal(line.kind, HX_LINE_OVERSIZE);
    assert_span_equal(line.text, "3");
    assert_int_equal(line.size, 20);
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_int_equal(line.kind, HX_LINE_TEXT);
    assert_span_equal(line.text, "{}");
    assert_false(hx_lines_next(&lines, &input, &line));
    input = HX_SPAN_LIT("}\n");
    assert_true(hx_lines_next(&lines, &input, &line));
    assert_span_equal(line.text, "{}");
    hx_lines_fini(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_lines),
        cmocka_unit_test(oversize_lines_name_their_id),
        cmocka_unit_test(an_id_may_be_long_but_not_endless),
        cmocka_unit_test(pipe_sizes_do_not_matter),
        cmocka_unit_test(a_giant_line_is_not_held),
        cmocka_unit_test(the_digest_is_of_the_line),
        cmocka_unit_test(refused_memory_makes_a_line_oversize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
