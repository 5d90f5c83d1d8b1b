/* SPDX-License-Identifier: MIT */
/* What two readers of a head could understand differently is refused, however the bytes come. */
#include "tests/kit/text_kit.h"
#include "wire/http1.h"
#include "wire/http1_bytes.h"

enum { HEADERS_MAX = 64 };

static const struct hx_http1_limits limits = {
    .head_max_bytes = 4096, .target_max_bytes = 256, .headers_max = HEADERS_MAX};

/* Scans `bytes` in pieces that end at `cut` and at the end (or byte by byte with `cut` 0). */
static enum hx_http1_fault scan_cut(struct hx_span bytes, size_t cut, size_t *ret_len)
{
    struct hx_http1_scan scan = {0};
    enum hx_http1_fault fault = HX_HTTP1_MORE;

    if (cut > 0) {
        fault = hx_http1_scan(&scan, hx_span(bytes.ptr, cut), &limits, ret_len);
        if (fault == HX_HTTP1_MORE)
            fault = hx_http1_scan(&scan, bytes, &limits, ret_len);
        return fault;
    }
    for (size_t len = 1; len <= bytes.len && fault == HX_HTTP1_MORE; len++) {
        struct hx_span piece = kit_exact(hx_span(bytes.ptr, len));
        fault = hx_http1_scan(&scan, piece, &limits, ret_len);
        kit_free(piece);
    }
    return fault;
}

static void check_splits(struct hx_span bytes, enum hx_http1_fault expected, size_t expected_len)
{
    for (size_t cut = 0; cut < bytes.len; cut++) {
        size_t len = 0;
        assert_int_equal(scan_cut(bytes, cut, &len), expected);
        if (expected == HX_HTTP1_OK)
            assert_int_equal(len, expected_len);
    }
}

/* Scan and read. With `headers` the caller may look at the head; it then frees *ret_copy. */
static enum hx_http1_fault judge(struct hx_span bytes, bool is_response,
                                 struct hx_http1_header *headers, struct hx_http1_head *ret_head,
                                 struct hx_span *ret_copy)
{
    struct hx_http1_scan scan = {0};
    size_t len = 0;
    struct hx_span copy = kit_exact(bytes);
    enum hx_http1_fault fault = hx_http1_scan(&scan, copy, &limits, &len);

    *ret_copy = copy;
    check_splits(copy, fault, len);
    if (fault != HX_HTTP1_OK)
        return fault;
    copy.len = len;
    return is_response ? hx_http1_read_response(copy, headers, &limits, ret_head)
                       : hx_http1_read_request(copy, headers, &limits, ret_head);
}

static enum hx_http1_fault judge_request(struct hx_span bytes)
{
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_head head;
    struct hx_span copy;
    enum hx_http1_fault fault = judge(bytes, false, headers, &head, &copy);

    kit_free(copy);
    return fault;
}

struct bad_case {
    const char *what;
    struct hx_span bytes;
    enum hx_http1_fault fault;
};

#define BAD(what, text, fault)                                                                     \
    {                                                                                              \
        (what), HX_SPAN_INIT(text), (fault)                                                        \
    }
#define POST "POST /mcp HTTP/1.1\r\nHost: h\r\n"

static const struct bad_case bad_requests[] = {
    /* The table of what other parsers let through. */
    BAD("both framings", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        HX_HTTP1_BAD_FRAMING),
    BAD("both framings, the other order",
        POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", HX_HTTP1_BAD_FRAMING),
    BAD("two lengths", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", HX_HTTP1_BAD_FRAMING),
    BAD("two equal lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        HX_HTTP1_BAD_FRAMING),
    BAD("a list of lengths", POST "Content-Length: 5, 5\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("a sign", POST "Content-Length: +14\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("a minus", POST "Content-Length: -1\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("a space in the length", POST "Content-Length: 1 4\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("a hexadecimal length", POST "Content-Length: 0xe\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("an empty length", POST "Content-Length:\r\n\r\n", HX_HTTP1_BAD_LENGTH),
    BAD("a length that overflows", POST "Content-Length: 18446744073709551616\r\n\r\n",
        HX_HTTP1_BAD_LENGTH),
    BAD("gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n", HX_HTTP1_BAD_CODING),
    BAD("identity", POST "Transfer-Encoding: identity\r\n\r\n", HX_HTTP1_BAD_CODING),
    BAD("xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n", HX_HTTP1_BAD_CODING),
    BAD("Chunked in another case", POST "Transfer-Encoding: Chunked\r\n\r\n", HX_HTTP1_BAD_CODING),
    BAD("chunked with a vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n",
        HX_HTTP1_BAD_BYTE),
    BAD("chunked with a parameter", POST "Transfer-Encoding: chunked;a=b\r\n\r\n",
        HX_HTTP1_BAD_CODING),
    BAD("chunked twice", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        HX_HTTP1_BAD_FRAMING),
    BAD("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        HX_HTTP1_BAD_FRAMING),
    BAD("space before the colon", POST "Content-Length : 5\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("tab before the colon", POST "Transfer-Encoding\t: chunked\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("folding", POST "X: a\r\n b\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("folding with a tab", POST "X: a\r\n\tb\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("folding of the first header", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("bare CR that hides a header", POST "X: a\rTransfer-Encoding: chunked\r\n\r\n",
        HX_HTTP1_BAD_BYTE),
    BAD("bare CR at a line end", POST "X: a\r\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("bare LF ends", "GET / HTTP/1.1\nHost: h\n\n", HX_HTTP1_BAD_BYTE),
    BAD("one bare LF", POST "X: a\nY: b\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("LF CR LF at the end", POST "X: a\r\n\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("bare LF request line without version", "GET /\nHost: h\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("NUL in a value", POST "X: a\0b\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("DEL in a value", POST "X: a\x7f\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("escape in a value", POST "X: \x1b[31m\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("NUL in a name", POST "X\0: a\r\n\r\n", HX_HTTP1_BAD_BYTE),
    BAD("no host", "GET / HTTP/1.1\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("two hosts in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nhOST: a\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("a list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HX_HTTP1_BAD_HOST),
    BAD("a host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", HX_HTTP1_BAD_HOST),

    /* The first line. */
    BAD("nothing", "\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("an empty line before", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("a space before", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("a handshake of TLS", "\x16\x03\x01\x02\x00\x01", HX_HTTP1_BAD_START),
    BAD("HTTP/0.9", "GET /\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("a space behind", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("a tab between", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("two spaces between", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("two spaces behind", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("a space in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("a method that is none", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("no target", "GET HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("an empty target", "GET  HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("lower-case version", "GET / http/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("version 1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_VERSION),
    BAD("version 2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HX_HTTP1_BAD_VERSION),
    BAD("version 1.10", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("version 01.1", "GET / HTTP/01.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_START),
    BAD("absolute-form", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("authority-form", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("* for GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("a fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("a fragment in the query", "GET /?a#b HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("a backslash", "GET /a\\b HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),
    BAD("UTF-8 in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", HX_HTTP1_BAD_TARGET),

    /* Header lines. */
    BAD("no colon", POST "X\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("an empty name", POST ": a\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("a name in quotes", POST "\"X\": a\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("a name in UTF-8", POST "X\xc3\xa9: a\r\n\r\n", HX_HTTP1_BAD_HEADER),
    BAD("another Expect", POST "Expect: 200-ok\r\n\r\n", HX_HTTP1_BAD_EXPECT),
    BAD("two Expects", POST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n",
        HX_HTTP1_BAD_EXPECT),
};

static void what_is_ambiguous_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_requests / sizeof bad_requests[0]; i++) {
        const struct bad_case *bad = &bad_requests[i];
        enum hx_http1_fault fault = judge_request(bad->bytes);
        if (fault != bad->fault)
            fail_msg("%s: expected %d (%s), was %d (%s)", bad->what, bad->fault,
                     hx_http1_fault_text(bad->fault), fault, hx_http1_fault_text(fault));
        assert_true(hx_http1_fault_status(fault) >= 400);
    }
}

static void a_request_is_read_whole(void **state)
{
    static const char text[] = "POST /mcp/a%2fb%zz//..?q=%20|{}&x=? HTTP/1.1\r\n"
                               "hOsT: [::1]:8080\r\n"
                               "Content-Length: 0012\r\n"
                               "X-Empty:\r\n"
                               "X-Blanks: \t a\t b \t\r\n"
                               "X-High: \xe9\r\n"
                               "mcp-session-ID: one\r\n"
                               "Mcp-Session-Id: two\r\n"
                               "EXPECT: 100-Continue\r\n"
                               "\r\nbody and more";
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_head head;
    struct hx_span copy;

    (void)state;
    assert_int_equal(judge(HX_SPAN_LIT(text), false, headers, &head, &copy), HX_HTTP1_OK);
    assert_span_equal(head.method, "POST");
    assert_span_equal(head.target, "/mcp/a%2fb%zz//..?q=%20|{}&x=?");
    assert_span_equal(head.path, "/mcp/a%2fb%zz//..");
    assert_span_equal(head.query, "q=%20|{}&x=?");
    assert_span_equal(head.host, "[::1]:8080");
    assert_int_equal(head.version_minor, 1);
    assert_true(head.has_length);
    assert_int_equal(head.length, 12);
    assert_false(head.is_chunked);
    assert_true(head.expects_continue);
    assert_true(head.is_keep_alive);
    assert_int_equal(head.header_count, 8);
    assert_span_equal(head.headers[0].name, "hOsT");
    assert_span_equal(hx_http1_find(&head, "x-empty"), "");
    assert_span_equal(hx_http1_find(&head, "X-BLANKS"), "a\t b");
    assert_span_equal(hx_http1_find(&head, "X-High"), "\xe9");
    assert_span_equal(hx_http1_find(&head, "Mcp-Session-Id"), "one");
    assert_int_equal(hx_http1_count(&head, "Mcp-Session-Id"), 2);
    assert_int_equal(hx_http1_count(&head, "Origin"), 0);
    assert_span_equal(hx_http1_find(&head, "Origin"), NULL);
    kit_free(copy);
}

static void the_rest_of_the_good_ones(void **state)
{
    static const struct {
        const char *text;
        bool is_keep_alive;
        bool is_chunked;
        bool expects;
    } good[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true, false, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false, false, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x ,\tCLOSE,\r\n\r\n", false, false, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: close\r\n\r\n", false, false,
         false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n", true, false, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: ,,\r\n\r\n", true, false, false},
        {"GET / HTTP/1.0\r\n\r\n", false, false, false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n\r\n", true, false,
         false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\nHost: h\r\n\r\n", false, false, false},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", true, false, false},
        {"X!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: h\r\n\r\n", true, false, false},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:chunked\r\n\r\n", true, true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct hx_http1_header headers[HEADERS_MAX];
        struct hx_http1_head head;
        struct hx_span copy;
        enum hx_http1_fault fault = judge(hx_span_cstr(good[i].text), false, headers, &head, &copy);
        if (fault != HX_HTTP1_OK)
            fail_msg("%s: %s", good[i].text, hx_http1_fault_text(fault));
        assert_int_equal(head.is_keep_alive, good[i].is_keep_alive);
        assert_int_equal(head.is_chunked, good[i].is_chunked);
        assert_int_equal(head.expects_continue, good[i].expects);
        kit_free(copy);
    }
}

static void a_head_has_a_maximum(void **state)
{
    struct hx_buf text;

    (void)state;
    hx_buf_init(&text, 1 << 20);
    /* Exactly the maximum, and one byte more. */
    for (size_t extra = 0; extra < 2; extra++) {
        hx_buf_reset(&text);
        (void)hx_buf_append_cstr(&text, POST "X: ");
        while (text.len < limits.head_max_bytes + extra - 4)
            (void)hx_buf_append_char(&text, 'a');
        (void)hx_buf_append_cstr(&text, "\r\n\r\n");
        assert_int_equal(judge_request(hx_buf_span(&text)),
                         extra == 0 ? HX_HTTP1_OK : HX_HTTP1_HEAD_TOO_LARGE);
    }
    /* 64 headers, and one more. */
    for (size_t extra = 0; extra < 2; extra++) {
        hx_buf_reset(&text);
        (void)hx_buf_append_cstr(&text, POST);
        for (size_t i = 1; i < HEADERS_MAX + extra; i++)
            (void)hx_buf_append_cstr(&text, "X: a\r\n");
        (void)hx_buf_append_cstr(&text, "\r\n");
        assert_int_equal(judge_request(hx_buf_span(&text)),
                         extra == 0 ? HX_HTTP1_OK : HX_HTTP1_HEAD_TOO_LARGE);
    }
    /* The longest target, and one byte more. */
    for (size_t extra = 0; extra < 2; extra++) {
        hx_buf_reset(&text);
        (void)hx_buf_append_cstr(&text, "GET /");
        for (size_t i = 1; i < limits.target_max_bytes + extra; i++)
            (void)hx_buf_append_char(&text, 'a');
        (void)hx_buf_append_cstr(&text, " HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_int_equal(judge_request(hx_buf_span(&text)),
                         extra == 0 ? HX_HTTP1_OK : HX_HTTP1_TARGET_TOO_LONG);
    }
    hx_buf_fini(&text);
}

static void responses_are_read_too(void **state)
{
    static const struct {
        const char *text;
        enum hx_http1_fault fault;
        uint32_t status;
        bool is_keep_alive;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", HX_HTTP1_OK, 200, true},
        {"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n", HX_HTTP1_OK, 200, true},
        {"HTTP/1.1 404\r\n\r\n", HX_HTTP1_OK, 404, true},
        {"HTTP/1.0 503 G\xc3\xbcte\r\n\r\n", HX_HTTP1_OK, 503, false},
        {"HTTP/1.1 20 OK\r\n\r\n", HX_HTTP1_BAD_START, 0, false},
        {"HTTP/1.1 2000 OK\r\n\r\n", HX_HTTP1_BAD_START, 0, false},
        {"HTTP/1.1 600 OK\r\n\r\n", HX_HTTP1_BAD_START, 0, false},
        {"HTTP/1.1 099 OK\r\n\r\n", HX_HTTP1_BAD_START, 0, false},
        {"HTTP/1.1  200 OK\r\n\r\n", HX_HTTP1_BAD_START, 0, false},
        {"HTTP/2.0 200 OK\r\n\r\n", HX_HTTP1_BAD_VERSION, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         HX_HTTP1_BAD_FRAMING, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", HX_HTTP1_BAD_FRAMING,
         0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_http1_header headers[HEADERS_MAX];
        struct hx_http1_head head = {0};
        struct hx_span copy;
        enum hx_http1_fault fault = judge(hx_span_cstr(cases[i].text), true, headers, &head, &copy);
        if (fault != cases[i].fault)
            fail_msg("%s: expected %d, was %d", cases[i].text, cases[i].fault, fault);
        assert_int_equal(head.status, cases[i].status);
        assert_int_equal(head.is_keep_alive, cases[i].is_keep_alive);
        kit_free(copy);
    }
    assert_true(hx_http1_has_no_body(204));
    assert_true(hx_http1_has_no_body(101));
    assert_false(hx_http1_has_no_body(200));
}

static void the_byte_table_is_the_grammar(void **state)
{
    static const char alnum[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool is_alnum = byte != 0 && strchr(alnum, byte) != NULL;
        bool is_visible = byte > 0x20 && byte < 0x7f;
        char text[2] = {(char)byte, '\0'};
        bool is_token = is_alnum || (is_visible && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
        bool is_target = is_visible && strchr("\"#<>\\", byte) == NULL;

        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_TOKEN), is_token);
        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_VALUE),
                         is_visible || byte == ' ' || byte == '\t' || byte >= 0x80);
        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_TARGET), is_target && byte != '?');
        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_QUERY), is_target);
        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_HOST),
                         is_alnum || (is_visible && strchr("-._~:[]%!$&'()*+;=", byte) != NULL));
        assert_int_equal(hx_http1_is((char)byte, HX_HTTP1_DIGIT), byte >= '0' && byte <= '9');
        assert_int_equal(hx_http1_is_token(hx_span(text, 1)), is_token);
        assert_int_equal(hx_http1_is_value(hx_span(text, 1)), is_visible || byte >= 0x80);
    }
}

static void what_is_written_is_read_back(void **state)
{
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_head head;
    struct hx_buf out;

    (void)state;
    hx_buf_init(&out, 4096);
    hx_http1_write_status(&out, 202);
    hx_http1_write_header(&out, HX_SPAN_LIT("Content-Length"), HX_SPAN_LIT("0"));
    hx_http1_write_header(&out, HX_SPAN_LIT("X"), HX_SPAN_LIT(""));
    (void)hx_buf_append_cstr(&out, "\r\n");
    assert_true(hx_buf_ok(&out));
    assert_int_equal(hx_http1_read_response(hx_buf_span(&out), headers, &limits, &head),
                     HX_HTTP1_OK);
    assert_int_equal(head.status, 202);
    assert_span_equal(hx_http1_find(&head, "x"), "");
    assert_string_equal(hx_http1_reason(202), "Accepted");
    assert_string_equal(hx_http1_reason(299), "Unknown");
    hx_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ambiguous_is_refused),
        cmocka_unit_test(a_request_is_read_whole),
        cmocka_unit_test(the_rest_of_the_good_ones),
        cmocka_unit_test(a_head_has_a_maximum),
        cmocka_unit_test(responses_are_read_too),
        cmocka_unit_test(the_byte_table_is_the_grammar),
        cmocka_unit_test(what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
