/* SPDX-License-Identifier: MIT */
/* An event stream gives the same events whatever its line ends are and however it is cut. */
#include "tests/kit/text_kit.h"
#include "wire/sse.h"

enum { DATA_MAX = 40 };

static void render(struct hx_buf *log, const struct hx_sse_event *event)
{
    (void)hx_buf_printf(log, "[%.*s|%.*s|%.*s", HX_SPAN_FMT(event->type), HX_SPAN_FMT(event->id),
                        event->data.ptr ? (int)event->data.len : 1,
                        event->data.ptr ? event->data.ptr : "-");
    if (event->is_oversize) {
        char hex[HX_DIGEST_HEX_SIZE];
        hx_digest_hex(&event->digest, hex);
        (void)hx_buf_printf(log, "|%llu %.8s %d%d", (unsigned long long)event->size, hex,
                            event->skim.has_id, event->skim.has_result);
    }
    (void)hx_buf_append_char(log, ']');
}

/* Feeds the text up to `cut`, then the rest; with `cut` 0 byte by byte. */
static void run(struct hx_span text, size_t cut, struct hx_buf *log)
{
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_sse_reader reader;
    struct hx_sse_event event;

    hx_buf_reset(log);
    hx_sse_reader_init(&reader, DATA_MAX, hasher);
    for (size_t at = 0; at < text.len;) {
        size_t len = cut == 0 ? 1 : at == 0 ? cut : text.len - at;
        struct hx_span copy = kit_exact(hx_span(text.ptr + at, len));
        struct hx_span input = copy;
        while (hx_sse_next(&reader, &input, &event))
            render(log, &event);
        assert_int_equal(input.len, 0);
        kit_free(copy);
        at += len;
    }
    (void)hx_buf_printf(log, " last=%.*s retry=%lld", HX_SPAN_FMT(hx_sse_last_id(&reader)),
                        (long long)reader.retry_ms);
    hx_sse_reader_fini(&reader);
    hx_hasher_free(hasher);
}

static void check(struct hx_span text, const char *expected)
{
    struct hx_buf log;

    hx_buf_init(&log, 1 << 16);
    for (size_t cut = 0; cut <= text.len; cut++) {
        run(text, cut, &log);
        assert_span_equal(hx_buf_span(&log), expected);
    }
    hx_buf_fini(&log);
}

#define CHECK(text, expected) check(HX_SPAN_LIT(text), (expected))

static void fields_are_those_of_the_standard(void **state)
{
    (void)state;
    CHECK("data: a\n\n", "[||a] last= retry=-1");
    CHECK("data:a\n\ndata:  b\n\ndata\n\ndata:\n\n", "[||a][|| b][||][||] last= retry=-1");
    CHECK("data: a\ndata: b\ndata:\ndata:c\n\n", "[||a\nb\n\nc] last= retry=-1");
    CHECK("data\ndata\n\n", "[||\n] last= retry=-1");
    CHECK("event: e\ndata: a\n\ndata: b\n\n", "[e||a][||b] last= retry=-1");
    CHECK("event: e\n\ndata: b\n\n", "[||b] last= retry=-1");
    CHECK("event: e\nevent: f\ndata: a\nevent: g\n\n", "[g||a] last= retry=-1");
    CHECK("data: a:b: c\n\n", "[||a:b: c] last= retry=-1");
    CHECK("Data: a\n data: b\ndatas: c\ndata : d\nda: e\nx\n:\n\n", " last= retry=-1");
    CHECK("datadatadata: a\nretryretry: 5\n\n", " last= retry=-1");
}

static void nul_bytes_are_data(void **state)
{
    struct hx_span text = HX_SPAN_INIT("data: a\0b\n\n");
    struct hx_sse_reader reader;
    struct hx_sse_event event;

    (void)state;
    hx_sse_reader_init(&reader, DATA_MAX, NULL);
    assert_true(hx_sse_next(&reader, &text, &event));
    assert_int_equal(event.data.len, 3);
    assert_memory_equal(event.data.ptr, "a\0b", 3);
    hx_sse_reader_fini(&reader);
}

static void ids_last(void **state)
{
    (void)state;
    CHECK("id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\n",
          "[|1|a][|1|b][|2|c] last=2 retry=-1");
    CHECK("id: 1\ndata:\n\n", "[|1|] last=1 retry=-1"); /* priming: an id and empty data */
    CHECK("id: 1\n\n", " last=1 retry=-1");
    CHECK("id: 1\nid\ndata: a\n\n", "[||a] last= retry=-1");
    CHECK("id: 1\nid: a\0b\ndata: a\n\n", "[|1|a] last=1 retry=-1");
    CHECK("retry: 10\nretry: 1x\nretry:\nretry: -1\nretry\nid: 1\n", " last=1 retry=10");
    CHECK("retry: 99999999999999999999\n", " last= retry=1073741824");
}

static void line_ends_of_all_kinds(void **state)
{
    (void)state;
    CHECK("data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", "[||a\nb][||c] last= retry=-1");
    CHECK("data: a\rdata: b\r\rdata: c\r\r", "[||a\nb][||c] last= retry=-1");
    CHECK("data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r",
          "[||a][||b][||c][||d] last= retry=-1");
    CHECK("\n\n\r\r\n\r\n:x\rdata: a\n\n", "[||a] last= retry=-1");
    CHECK("data: a\r\r\n\ndata: b\n\n", "[||a][||b] last= retry=-1");
}

static void comments_are_nothing(void **state)
{
    (void)state;
    CHECK(": ping\n\n: ping\n\ndata: a\n: ping\ndata: b\n:\n\n: ping\n\n",
          "[||a\nb] last= retry=-1");
    CHECK(":data: a\n:\n\n", " last= retry=-1");
}

static void a_mark_is_skipped_at_the_start_only(void **state)
{
    (void)state;
    CHECK("\xef\xbb\xbf"
          "data: a\n\n",
          "[||a] last= retry=-1");
    CHECK("\xef\xbb\xbf\xef\xbb\xbf"
          "data: a\n\n",
          " last= retry=-1");
    CHECK("\xef\xbb"
          "data: a\n\ndata: b\n\n",
          "[||b] last= retry=-1");
    CHECK("data: a\n\n\xef\xbb\xbf"
          "data: b\n\n",
          "[||a] last= retry=-1");
}

static void what_has_no_end_is_no_event(void **state)
{
    (void)state;
    CHECK("data: a\n\ndata: b\n", "[||a] last= retry=-1");
    CHECK("data: a\n\ndata: b", "[||a] last= retry=-1");
    CHECK("id: 1\ndata: a\n\nid: 2", "[|1|a] last=1 retry=-1");
    CHECK("", " last= retry=-1");
}

static void an_oversize_event_is_named_and_passed(void **state)
{
    (void)state;
    /* 40 bytes are the maximum here; the joining LF counts. */
    CHECK("data: 0123456789012345678\ndata: 01234567890123456789\n\n",
          "[||0123456789012345678\n01234567890123456789] last= retry=-1");
    CHECK(
        "id: 7\nevent: e\ndata: {\"id\" :\ndata:  41 ,\"result\":{\"text\":\"0123456789abc\"}}\n\n"
        "data: b\n\n",
        "[e|7|41|47 c6d4e904 11][|7|b] last=7 retry=-1");
    CHECK("data: 0123456789012345678901234567890123456789x\n\n",
          "[||-|41 14e06e26 00] last= retry=-1");
}

static void long_ids_and_types_are_ignored(void **state)
{
    struct hx_buf text;
    struct hx_buf log;

    (void)state;
    hx_buf_init(&text, 1 << 16);
    hx_buf_init(&log, 1 << 16);
    (void)hx_buf_append_cstr(&text, "id: old\nid: ");
    for (int i = 0; i <= HX_SSE_ID_MAX; i++)
        (void)hx_buf_append_char(&text, 'i');
    (void)hx_buf_append_cstr(&text, "\nevent: ");
    for (int i = 0; i <= HX_SSE_TYPE_MAX; i++)
        (void)hx_buf_append_char(&text, 't');
    (void)hx_buf_append_cstr(&text, "\ndata: a\n\nevent: e\ndata: b\n\n");
    run(hx_buf_span(&text), text.len, &log);
    assert_span_equal(hx_buf_span(&log), "[|old|a][e|old|b] last=old retry=-1");
    run(hx_buf_span(&text), 0, &log);
    assert_span_equal(hx_buf_span(&log), "[|old|a][e|old|b] last=old retry=-1");
    hx_buf_fini(&text);
    hx_buf_fini(&log);
}

static void what_is_written_is_read_back(void **state)
{
    static const struct {
        struct hx_sse_fields fields;
        const char *wire;
    } cases[] = {
        {{.data = HX_SPAN_INIT("{\"a\":1}"), .retry_ms = -1}, "data: {\"a\":1}\n\n"},
        {{.id = HX_SPAN_INIT("s-1"), .data = HX_SPAN_INIT(""), .retry_ms = 500},
         "id: s-1\nretry: 500\ndata: \n\n"},
        {{.type = HX_SPAN_INIT("message"), .data = HX_SPAN_INIT("a\nb\r\nc\rd\n"), .retry_ms = -1},
         "event: message\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
        {{.data = HX_SPAN_INIT("\r\n"), .retry_ms = 0}, "retry: 0\ndata: \ndata: \n\n"},
        {{.id = HX_SPAN_INIT("x"), .retry_ms = -1}, "id: x\n\n"},
    };
    struct hx_buf out;
    struct hx_buf log;

    (void)state;
    hx_buf_init(&out, 1 << 16);
    hx_buf_init(&log, 1 << 16);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t start = out.len;
        hx_sse_write_event(&out, &cases[i].fields);
        assert_span_equal(hx_span(out.data + start, out.len - start), cases[i].wire);
        (void)hx_buf_append_span(&out, HX_SSE_COMMENT);
    }
    run(hx_buf_span(&out), out.len, &log);
    assert_span_equal(hx_buf_span(&log), "[||{\"a\":1}][|s-1|][message|s-1|a\nb\nc\nd\n][|s-1|\n]"
                                         " last=x retry=0");
    hx_buf_fini(&out);
    hx_buf_fini(&log);
}

static bool read_with_failures(void *context)
{
    struct hx_span text = *(struct hx_span *)context;
    struct hx_sse_reader reader;
    struct hx_sse_event event;
    unsigned events = 0;
    bool is_whole = true;

    hx_sse_reader_init(&reader, 4096, NULL);
    while (hx_sse_next(&reader, &text, &event)) {
        events++;
        is_whole = is_whole && !event.is_oversize && event.id.len == 1 && event.type.len == 1;
    }
    hx_sse_reader_fini(&reader);
    assert_int_equal(events, 2); /* a refused allocation loses no event */
    return is_whole;
}

static void without_memory_events_are_oversize(void **state)
{
    struct hx_span text = HX_SPAN_INIT("id: 1\nevent: e\ndata: a\n\nid: 2\nevent: f\ndata: b\n\n");

    (void)state;
    kit_fail_each_allocation(read_with_failures, &text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_those_of_the_standard),
        cmocka_unit_test(nul_bytes_are_data),
        cmocka_unit_test(ids_last),
        cmocka_unit_test(line_ends_of_all_kinds),
        cmocka_unit_test(comments_are_nothing),
        cmocka_unit_test(a_mark_is_skipped_at_the_start_only),
        cmocka_unit_test(what_has_no_end_is_no_event),
        cmocka_unit_test(an_oversize_event_is_named_and_passed),
        cmocka_unit_test(long_ids_and_types_are_ignored),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(without_memory_events_are_oversize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
