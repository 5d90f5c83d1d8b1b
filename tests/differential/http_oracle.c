/* SPDX-License-Identifier: MIT */
/*
 * Lets a script in another language judge the reader of requests. Standard input holds byte
 * strings, each behind its length (4 bytes, big endian); standard output gets one line for each:
 *
 *   bad FAULT                            refused; FAULT is the number and a word
 *   more                                 not complete
 *   ok USED MINOR METHOD TARGET BODY [NAME VALUE]...    all but the numbers in hex, "-" when empty
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "wire/chunked.h"
#include "wire/http1.h"

enum { TEXT_MAX = 1 << 20, HEADERS_MAX = 64 };

static void print_hex(struct hx_span bytes)
{
    printf(bytes.len == 0 ? " -" : " ");
    for (size_t i = 0; i < bytes.len; i++)
        printf("%02x", (unsigned char)bytes.ptr[i]);
}

/* 1: whole, 0: more is needed, -1: bad. */
static int read_body(const struct hx_http1_head *head, struct hx_span *rest, struct hx_buf *body)
{
    struct hx_chunked chunked = {0};
    struct hx_span data;
    int rc;

    if (!head->is_chunked) {
        uint64_t len = head->has_length ? head->length : 0;
        if (rest->len < len)
            return 0;
        hx_assert(hx_buf_append(body, rest->ptr, len) == 0);
        *rest = hx_span(rest->ptr + len, rest->len - len);
        return 1;
    }
    while ((rc = hx_chunked_next(&chunked, rest, &data)) == 0)
        hx_assert(hx_buf_append_span(body, data) == 0);
    return rc == HX_CHUNKED_END ? 1 : rc == HX_CHUNKED_MORE ? 0 : -1;
}

static void judge(struct hx_span text)
{
    struct hx_http1_limits limits = hx_http1_limits_defaults();
    struct hx_http1_header headers[HEADERS_MAX];
    struct hx_http1_scan scan = {0};
    struct hx_http1_head head;
    struct hx_span rest;
    struct hx_buf body;
    size_t len;
    enum hx_http1_fault fault = hx_http1_scan(&scan, text, &limits, &len);

    if (fault == HX_HTTP1_MORE) {
        printf("more\n");
        return;
    }
    if (fault == HX_HTTP1_OK)
        fault = hx_http1_read_request(hx_span(text.ptr, len), headers, &limits, &head);
    if (fault != HX_HTTP1_OK) {
        printf("bad %d %s\n", (int)fault, hx_http1_fault_text(fault));
        return;
    }
    hx_buf_init(&body, TEXT_MAX);
    rest = hx_span(text.ptr + len, text.len - len);
    int rc = read_body(&head, &rest, &body);
    if (rc <= 0) {
        printf(rc == 0 ? "more\n" : "bad 99 the chunks of the body are malformed\n");
    } else {
        printf("ok %zu %u", text.len - rest.len, head.version_minor);
        print_hex(head.method);
        print_hex(head.target);
        print_hex(hx_buf_span(&body));
        for (uint32_t i = 0; i < head.header_count; i++) {
            print_hex(head.headers[i].name);
            print_hex(head.headers[i].value);
        }
        printf("\n");
    }
    hx_buf_fini(&body);
}

int main(void)
{
    unsigned char size[4];

    while (fread(size, 1, sizeof size, stdin) == sizeof size) {
        size_t len = (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
        if (len > TEXT_MAX)
            return 2;
        char *text = malloc(len + 1); /* of its own, so that a sanitizer sees its end */
        if (text == NULL || fread(text, 1, len, stdin) != len)
            return 2;
        judge(hx_span(text, len));
        free(text);
    }
    return 0;
}
