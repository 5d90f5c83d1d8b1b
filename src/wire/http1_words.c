/* SPDX-License-Identifier: MIT */
/*
 * The rest of http1.h: looking into a head that was read, the words of statuses and faults, and
 * the two lines that a writer needs.
 */
#include "wire/http1.h"
#include "wire/http1_bytes.h"

bool hx_http1_has_no_body(uint32_t status)
{
    return status < 200 || status == 204 || status == 304;
}

struct hx_span hx_http1_find(const struct hx_http1_head *head, const char *name)
{
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (hx_span_eq_nocase(head->headers[i].name, hx_span_cstr(name)))
            return head->headers[i].value;
    }
    return HX_SPAN_NONE;
}

uint32_t hx_http1_count(const struct hx_http1_head *head, const char *name)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < head->header_count; i++)
        count += hx_span_eq_nocase(head->headers[i].name, hx_span_cstr(name));
    return count;
}

static const struct {
    uint32_t status;
    const char *text;
} faults[HX_HTTP1_FAULT_COUNT] = {
    [HX_HTTP1_OK] = {200, "no fault"},
    [HX_HTTP1_MORE] = {408, "the request did not come to its end in time"},
    [HX_HTTP1_BAD_BYTE] = {400, "a line end or a control byte where none may be"},
    [HX_HTTP1_BAD_START] = {400, "the first line is not one of HTTP/1.1"},
    [HX_HTTP1_BAD_TARGET] = {400, "the target must be a path, with unusual bytes encoded"},
    [HX_HTTP1_BAD_HEADER] = {400, "a header line is malformed"},
    [HX_HTTP1_BAD_HOST] = {400, "one Host header with a valid host is needed"},
    [HX_HTTP1_BAD_LENGTH] = {400, "Content-Length is not a number"},
    [HX_HTTP1_BAD_FRAMING] = {400, "the length of the body is told twice"},
    [HX_HTTP1_BAD_CODING] = {501, "the only Transfer-Encoding known here is chunked"},
    [HX_HTTP1_BAD_EXPECT] = {417, "the only Expect known here is 100-continue"},
    [HX_HTTP1_BAD_VERSION] = {505, "the versions known here are HTTP/1.1 and HTTP/1.0"},
    [HX_HTTP1_TARGET_TOO_LONG] = {414, "the target is too long"},
    [HX_HTTP1_HEAD_TOO_LARGE] = {431, "the headers are too large or too many"},
};

uint32_t hx_http1_fault_status(enum hx_http1_fault fault)
{
    hx_assert(fault < HX_HTTP1_FAULT_COUNT);
    return faults[fault].status;
}

const char *hx_http1_fault_text(enum hx_http1_fault fault)
{
    hx_assert(fault < HX_HTTP1_FAULT_COUNT);
    return faults[fault].text;
}

const char *hx_http1_reason(uint32_t status)
{
    static const struct {
        uint32_t status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Unknown";
}

void hx_http1_write_status(struct hx_buf *out, uint32_t status)
{
    hx_assert(status >= 100);
    hx_assert(status <= 599);
    (void)hx_buf_printf(out, "HTTP/1.1 %u %s\r\n", (unsigned)status, hx_http1_reason(status));
}

void hx_http1_write_header(struct hx_buf *out, struct hx_span name, struct hx_span value)
{
    hx_assert(hx_http1_is_token(name));
    hx_assert(hx_http1_is_value(value));
    (void)hx_buf_append_span(out, name);
    (void)hx_buf_append(out, ": ", 2);
    (void)hx_buf_append_span(out, value);
    (void)hx_buf_append(out, "\r\n", 2);
}
