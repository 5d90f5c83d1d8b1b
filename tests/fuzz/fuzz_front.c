/* SPDX-License-Identifier: MIT */
/*
 * What MCP's front reads of a request, under arbitrary bytes.
 *
 *  - A body is JSON after its line ends were made spaces exactly if it was before, with the same
 *    tokens in the same places; and then it is one line.
 *  - Without a list, no host but loopback is served, and no origin is let in that is neither of the
 *    host that was asked for nor of loopback.
 *  - An event id that is taken for one of ours has the parts of one.
 */
#include "adapter/http_front/internal.h"
#include "tests/fuzz/fuzz.h"

static void check_body(struct hx_span text)
{
    struct hx_json_tape before;
    struct hx_json_tape after;
    struct hx_buf body;
    int rc;

    hx_json_tape_init(&before);
    hx_json_tape_init(&after);
    hx_buf_init(&body, 1 << 20);
    if (hx_buf_append_span(&body, text) == 0) {
        rc = hx_json_read(&before, text, &fuzz_limits);
        hx_http_join_lines(&body);
        hx_assert(body.len == text.len);
        hx_assert(hx_json_read(&after, hx_buf_span(&body), &fuzz_limits) == rc);
        hx_assert(after.count == before.count);
        if (rc == 0) {
            hx_assert(memchr(body.data, '\n', body.len) == NULL);
            hx_assert(memchr(body.data, '\r', body.len) == NULL);
            for (uint32_t i = 0; i < after.count; i++) {
                hx_assert(hx_json_at(&after, i)->offset == hx_json_at(&before, i)->offset);
                hx_assert(hx_json_at(&after, i)->type == hx_json_at(&before, i)->type);
            }
        }
    }
    hx_buf_fini(&body);
    hx_json_tape_fini(&before);
    hx_json_tape_fini(&after);
}

static void check_place(struct hx_span text)
{
    static const char *const gate[] = {"gate.example", NULL};
    const char *space = text.len > 0 ? memchr(text.ptr, ' ', text.len) : NULL;
    struct hx_span host = hx_span(text.ptr, space != NULL ? (size_t)(space - text.ptr) : text.len);
    struct hx_span origin = hx_span(text.ptr + host.len, text.len - host.len);
    struct hx_span name = hx_http_host_name(host);

    hx_assert(hx_http_host_is_allowed(host, NULL) == hx_http_is_loopback(name));
    if (hx_http_host_is_allowed(host, gate))
        hx_assert(hx_http_is_loopback(name) || hx_span_eq_nocase(name, hx_span_cstr(gate[0])));
    if (hx_http_origin_is_allowed(origin, host, NULL))
        hx_assert(name.len > 0 &&
                  (hx_span_contains_nocase(origin, name) || hx_http_is_loopback(name)));
}

static void check_headers(struct hx_span text)
{
    static struct front front = {.process = "0123456789abcdef"};
    struct hx_web_header headers[] = {{HX_SPAN_LIT("Accept"), text},
                                      {HX_SPAN_LIT("Content-Type"), text}};
    struct hx_web_request request = {.headers = headers, .header_count = 2};
    struct stream_at at;

    (void)hx_http_accepts(&request);
    if (hx_http_is_json(&request))
        hx_assert(hx_span_contains_nocase(text, HX_SPAN_LIT("application/json")));
    if (text.len > 0 && stream_parse_id(&front, text, &at)) {
        hx_assert(at.name.len < text.len);
        hx_assert(at.name.len < STREAM_NAME_SIZE);
        hx_assert(at.number == 0 || hx_span_eq_cstr(hx_span(text.ptr + 1, 16), front.process));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span text = hx_span((const char *)data, size);

    check_body(text);
    check_place(text);
    check_headers(text);
    return 0;
}
