/* SPDX-License-Identifier: MIT */
/*
 * See the header. Everything here is lenient where the official servers are, as nothing is decided
 * by it but the form of an answer; Host and Origin are exact.
 */
#include "adapter/http_front/headers.h"

static struct hx_span trim(struct hx_span text)
{
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t'))
        text = hx_span(text.ptr + 1, text.len - 1);
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Takes what stands before the next `mark` off the front, and the mark with it. */
static struct hx_span take_until(struct hx_span *text, char mark)
{
    const char *at = text->len > 0 ? memchr(text->ptr, mark, text->len) : NULL;
    struct hx_span part = hx_span(text->ptr, at != NULL ? (size_t)(at - text->ptr) : text->len);
    size_t used = at != NULL ? part.len + 1 : part.len;

    *text = hx_span(text->ptr + used, text->len - used);
    return trim(part);
}

/* --- Accept and Content-Type --- */

/* "q=0", "q=0.0" and the like. */
static bool is_refused(struct hx_span params)
{
    while (params.len > 0) {
        struct hx_span param = take_until(&params, ';');
        struct hx_span name = take_until(&param, '=');
        if (!hx_span_eq_nocase(name, HX_SPAN_LIT("q")) || param.len == 0)
            continue;
        for (size_t i = 0; i < param.len; i++) {
            if (param.ptr[i] != '0' && param.ptr[i] != '.')
                return false;
        }
        return true;
    }
    return false;
}

static void accept_range(struct hx_span range, struct hx_http_accepts *accepts)
{
    struct hx_span type = take_until(&range, ';');
    bool is_all = hx_span_eq_cstr(type, "*/*");

    if (is_refused(range))
        return;
    if (is_all || hx_span_eq_nocase(type, HX_SPAN_LIT("application/*")) ||
        hx_span_eq_nocase(type, HX_SPAN_LIT("application/json")))
        accepts->json = true;
    if (is_all || hx_span_eq_nocase(type, HX_SPAN_LIT("text/*")) ||
        hx_span_eq_nocase(type, HX_SPAN_LIT("text/event-stream")))
        accepts->events = true;
}

struct hx_http_accepts hx_http_accepts(const struct hx_web_request *request)
{
    struct hx_http_accepts accepts = {0};
    bool is_there = false;

    for (uint32_t i = 0; i < request->header_count; i++) {
        struct hx_span left = request->headers[i].value;
        if (!hx_span_eq_nocase(request->headers[i].name, HX_SPAN_LIT("Accept")))
            continue;
        is_there = true;
        while (left.len > 0)
            accept_range(take_until(&left, ','), &accepts);
    }
    if (!is_there)
        accepts.json = accepts.events = true;
    return accepts;
}

bool hx_http_is_uncoded(const struct hx_web_request *request)
{
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (hx_span_eq_nocase(request->headers[i].name, HX_SPAN_LIT("Content-Encoding")) &&
            !hx_span_eq_nocase(request->headers[i].value, HX_SPAN_LIT("identity")))
            return false;
    }
    return true;
}

bool hx_http_is_json(const struct hx_web_request *request)
{
    struct hx_span value = hx_web_request_find(request, "Content-Type");

    return hx_web_request_count(request, "Content-Type") == 1 &&
           hx_span_eq_nocase(take_until(&value, ';'), HX_SPAN_LIT("application/json"));
}

/* --- Host and Origin --- */

struct hx_span hx_http_host_name(struct hx_span host)
{
    if (host.len > 0 && *host.ptr == '[') {
        host = hx_span(host.ptr + 1, host.len - 1);
        return take_until(&host, ']');
    }
    return take_until(&host, ':');
}

/* 127.0.0.0/8, written as four numbers. */
static bool is_loopback_4(struct hx_span name)
{
    unsigned parts = 0;

    while (name.len > 0) {
        struct hx_span part = take_until(&name, '.');
        unsigned value = 0;
        if (part.len == 0 || part.len > 3)
            return false;
        for (size_t i = 0; i < part.len; i++) {
            if (part.ptr[i] < '0' || part.ptr[i] > '9')
                return false;
            value = value * 10 + (unsigned)(part.ptr[i] - '0');
        }
        if (value > 255 || (parts == 0 && value != 127))
            return false;
        parts++;
    }
    return parts == 4;
}

bool hx_http_is_loopback(struct hx_span name)
{
    return hx_span_eq_nocase(name, HX_SPAN_LIT("localhost")) || hx_span_eq_cstr(name, "::1") ||
           is_loopback_4(name);
}

bool hx_http_host_is_allowed(struct hx_span host, const char *const *allowed)
{
    struct hx_span name = hx_http_host_name(host);

    if (hx_http_is_loopback(name))
        return true;
    for (; allowed != NULL && *allowed != NULL; allowed++) {
        struct hx_span one = hx_span_cstr(*allowed);
        if (hx_span_eq_cstr(one, "*") || hx_span_eq_nocase(one, host) ||
            hx_span_eq_nocase(one, name))
            return true;
    }
    return false;
}

bool hx_http_origin_is_allowed(struct hx_span origin, struct hx_span host,
                               const char *const *allowed)
{
    const char *slashes = origin.len > 3 ? memmem(origin.ptr, origin.len, "://", 3) : NULL;

    if (slashes != NULL && !hx_span_is_absent(host)) {
        size_t used = (size_t)(slashes - origin.ptr) + 3;
        struct hx_span from = hx_http_host_name(hx_span(origin.ptr + used, origin.len - used));
        struct hx_span here = hx_http_host_name(host);
        if (from.len > 0 && hx_span_eq_nocase(from, here))
            return true;
        if (hx_http_is_loopback(from) && hx_http_is_loopback(here))
            return true;
    }
    for (; allowed != NULL && *allowed != NULL; allowed++) {
        if (hx_span_eq_cstr(hx_span_cstr(*allowed), "*") ||
            hx_span_eq_nocase(origin, hx_span_cstr(*allowed)))
            return true;
    }
    return false;
}

/* --- bodies --- */

void hx_http_join_lines(struct hx_buf *body)
{
    bool is_in_string = false;

    /* Nearly every body is one line already. */
    if (body->len == 0 || (memchr(body->data, '\n', body->len) == NULL &&
                           memchr(body->data, '\r', body->len) == NULL))
        return;
    for (size_t i = 0; i < body->len; i++) {
        char byte = body->data[i];
        if (byte == '"')
            is_in_string = !is_in_string;
        else if (is_in_string && byte == '\\')
            i++;
        else if (!is_in_string && (byte == '\n' || byte == '\r'))
            body->data[i] = ' ';
    }
}
