/* SPDX-License-Identifier: MIT */
/*
 * Heads under arbitrary bytes.
 *
 *  - However they are cut, the scan finds the same end or the same fault.
 *  - What is accepted has the promised shape, and written again from its parts it is read as the
 *    same head: nothing in it can become something else for the next reader.
 */
#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "wire/http1.h"
#include "wire/http1_bytes.h"

enum { HEADERS_MAX = 16 };

static const struct hx_http1_limits limits = {
    .head_max_bytes = 2048, .target_max_bytes = 128, .headers_max = HEADERS_MAX};

static enum hx_http1_fault scan_pieces(struct hx_span bytes, struct fuzz_dice *dice,
                                       uint32_t piece_max, size_t *ret_len)
{
    struct hx_http1_scan scan = {0};
    enum hx_http1_fault fault = HX_HTTP1_MORE;
    size_t len = 0;

    while (fault == HX_HTTP1_MORE && len < bytes.len) {
        size_t piece = 1 + fuzz_roll(dice, piece_max);
        len = piece < bytes.len - len ? len + piece : bytes.len;
        fault = hx_http1_scan(&scan, hx_span(bytes.ptr, len), &limits, ret_len);
    }
    return fault;
}

static void check_shape(const struct hx_http1_head *head, struct hx_span bytes)
{
    hx_assert(head->header_count <= HEADERS_MAX);
    hx_assert(!(head->is_chunked && head->has_length));
    for (uint32_t i = 0; i < head->header_count; i++) {
        struct hx_span name = head->headers[i].name;
        struct hx_span value = head->headers[i].value;
        hx_assert(name.ptr >= bytes.ptr);
        hx_assert(value.ptr + value.len <= bytes.ptr + bytes.len);
        hx_assert(hx_http1_is_token(name));
        hx_assert(hx_http1_is_value(value));
    }
}

static void check_written_again(const struct hx_http1_head *head, bool is_request)
{
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_limits wider = limits;
    struct hx_http1_head again;
    struct hx_buf out;

    wider.head_max_bytes *= 2;
    hx_buf_init(&out, wider.head_max_bytes);
    if (is_request)
        (void)hx_buf_printf(&out, "%.*s %.*s HTTP/1.%u\r\n", HX_SPAN_FMT(head->method),
                            HX_SPAN_FMT(head->target), head->version_minor);
    else
        (void)hx_buf_printf(&out, "HTTP/1.%u %u\r\n", head->version_minor, head->status);
    for (uint32_t i = 0; i < head->header_count; i++)
        hx_http1_write_header(&out, head->headers[i].name, head->headers[i].value);
    (void)hx_buf_append_cstr(&out, "\r\n");
    hx_assert(hx_buf_ok(&out));
    enum hx_http1_fault fault =
        is_request ? hx_http1_read_request(hx_buf_span(&out), headers, &wider, &again)
                   : hx_http1_read_response(hx_buf_span(&out), headers, &wider, &again);
    hx_assert(fault == HX_HTTP1_OK);
    hx_assert(again.header_count == head->header_count);
    hx_assert(again.is_chunked == head->is_chunked);
    hx_assert(again.has_length == head->has_length);
    hx_assert(again.length == head->length);
    hx_assert(again.is_keep_alive == head->is_keep_alive);
    hx_assert(again.expects_continue == head->expects_continue);
    hx_assert(again.status == head->status);
    hx_assert(hx_span_eq(again.path, head->path));
    hx_assert(hx_span_eq(again.query, head->query));
    hx_assert(hx_span_eq(again.host, head->host));
    hx_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span bytes = hx_span((const char *)data, size);
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_scan scan = {0};
    struct hx_http1_head head;
    size_t len = 0;

    enum hx_http1_fault fault = hx_http1_scan(&scan, bytes, &limits, &len);
    static const uint32_t pieces_max[] = {1, 3, 100};
    for (size_t i = 0; i < 3; i++) {
        size_t cut_len = 0;
        hx_assert(scan_pieces(bytes, &dice, pieces_max[i], &cut_len) == fault);
        hx_assert(cut_len == len);
    }
    /* The readers stand on their own, whether or not a scan came before. */
    struct hx_span text = fault == HX_HTTP1_OK ? hx_span(bytes.ptr, len) : bytes;
    enum hx_http1_fault as_request = hx_http1_read_request(text, headers, &limits, &head);
    hx_assert(as_request != HX_HTTP1_MORE);
    if (as_request == HX_HTTP1_OK) {
        hx_assert(fault == HX_HTTP1_OK || text.len > limits.head_max_bytes);
        check_shape(&head, text);
        hx_assert(head.version_minor == 0 || head.host.len > 0);
        if (fault == HX_HTTP1_OK)
            check_written_again(&head, true);
    }
    enum hx_http1_fault as_response = hx_http1_read_response(text, headers, &limits, &head);
    hx_assert(as_response != HX_HTTP1_MORE);
    if (as_response == HX_HTTP1_OK) {
        check_shape(&head, text);
        if (fault == HX_HTTP1_OK)
            check_written_again(&head, false);
    }
    return 0;
}
