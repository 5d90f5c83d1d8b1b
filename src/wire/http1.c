/* SPDX-License-Identifier: MIT */
#include "wire/http1.h"

#include "wire/http1_bytes.h"

enum { LENGTH_DIGITS_MAX = 18, VERSION_LEN = 8 };

/* What remains of a head. */
struct cursor {
    struct hx_span rest;
};

/* What the framing headers said, until all are read. */
struct framing {
    uint32_t hosts;
    uint32_t lengths;
    uint32_t codings;
    uint32_t expects;
    bool says_close;
    bool says_keep_alive;
};

struct hx_http1_limits hx_http1_limits_defaults(void)
{
    return (struct hx_http1_limits){
        .head_max_bytes = 32 * 1024, .target_max_bytes = 8 * 1024, .headers_max = 64};
}

/* --- where the head ends --- */

enum hx_http1_fault hx_http1_scan(struct hx_http1_scan *scan, struct hx_span bytes,
                                  const struct hx_http1_limits *limits, size_t *ret_len)
{
    size_t at = scan->offset;

    /* A handshake of TLS, or a line end that an earlier message left, need not be read on. */
    if (at == 0 && bytes.len > 0 && !hx_http1_is(bytes.ptr[0], HX_HTTP1_TOKEN))
        return HX_HTTP1_BAD_START;
    for (; at < bytes.len && at < limits->head_max_bytes; scan->offset = at) {
        if (hx_http1_is(bytes.ptr[at], HX_HTTP1_VALUE)) {
            scan->newlines = 0;
            at++;
            continue;
        }
        if (bytes.ptr[at] != '\r')
            return HX_HTTP1_BAD_BYTE;
        if (at + 1 >= limits->head_max_bytes)
            break;
        if (at + 1 == bytes.len)
            return HX_HTTP1_MORE;
        if (bytes.ptr[at + 1] != '\n')
            return HX_HTTP1_BAD_BYTE;
        at += 2;
        if (++scan->newlines == 2) {
            *ret_len = at;
            return HX_HTTP1_OK;
        }
    }
    return bytes.len >= limits->head_max_bytes ? HX_HTTP1_HEAD_TOO_LARGE : HX_HTTP1_MORE;
}

/* --- lines --- */

/* Takes the next line without its end; false when CR LF is not where it must be. */
static bool take_line(struct cursor *cursor, struct hx_span *ret_line)
{
    struct hx_span rest = cursor->rest;
    const char *end = rest.len > 0 ? memchr(rest.ptr, '\r', rest.len) : NULL;
    size_t len;

    if (end == NULL)
        return false;
    len = (size_t)(end - rest.ptr);
    if (len + 1 >= rest.len || end[1] != '\n')
        return false;
    *ret_line = hx_span(rest.ptr, len);
    cursor->rest = hx_span(end + 2, rest.len - len - 2);
    return true;
}

static size_t run_of(struct hx_span text, unsigned kind)
{
    size_t len = 0;

    while (len < text.len && hx_http1_is(text.ptr[len], kind))
        len++;
    return len;
}

bool hx_http1_is_token(struct hx_span text)
{
    return text.len > 0 && run_of(text, HX_HTTP1_TOKEN) == text.len;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct hx_span trim(struct hx_span text)
{
    while (text.len > 0 && is_blank(text.ptr[0]))
        text = hx_span(text.ptr + 1, text.len - 1);
    while (text.len > 0 && is_blank(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

bool hx_http1_is_value(struct hx_span text)
{
    return run_of(text, HX_HTTP1_VALUE) == text.len && trim(text).len == text.len;
}

static enum hx_http1_fault read_version(struct hx_span text, struct hx_http1_head *head)
{
    if (text.len != VERSION_LEN || !hx_span_starts_with(text, HX_SPAN_LIT("HTTP/")) ||
        !hx_http1_is(text.ptr[5], HX_HTTP1_DIGIT) || text.ptr[6] != '.' ||
        !hx_http1_is(text.ptr[7], HX_HTTP1_DIGIT))
        return HX_HTTP1_BAD_START;
    if (text.ptr[5] != '1' || text.ptr[7] > '1')
        return HX_HTTP1_BAD_VERSION;
    head->version_minor = (uint32_t)(text.ptr[7] - '0');
    return HX_HTTP1_OK;
}

static enum hx_http1_fault read_target(struct hx_span target, struct hx_http1_head *head)
{
    size_t path_len;

    head->target = target;
    head->path = target;
    if (hx_span_eq_cstr(target, "*"))
        return hx_span_eq_cstr(head->method, "OPTIONS") ? HX_HTTP1_OK : HX_HTTP1_BAD_TARGET;
    if (target.len == 0 || target.ptr[0] != '/')
        return HX_HTTP1_BAD_TARGET;
    path_len = run_of(target, HX_HTTP1_TARGET);
    head->path.len = path_len;
    if (path_len == target.len)
        return HX_HTTP1_OK;
    if (target.ptr[path_len] != '?')
        return HX_HTTP1_BAD_TARGET;
    head->query = hx_span(target.ptr + path_len + 1, target.len - path_len - 1);
    return run_of(head->query, HX_HTTP1_QUERY) == head->query.len ? HX_HTTP1_OK
                                                                  : HX_HTTP1_BAD_TARGET;
}

/* METHOD SP TARGET SP VERSION, one space each. */
static enum hx_http1_fault read_request_line(struct hx_span line,
                                             const struct hx_http1_limits *limits,
                                             struct hx_http1_head *head)
{
    size_t method_len = run_of(line, HX_HTTP1_TOKEN);
    struct hx_span target;
    struct hx_span version;
    enum hx_http1_fault fault;

    if (method_len == 0 || line.len < method_len + 2 + VERSION_LEN || line.ptr[method_len] != ' ' ||
        line.ptr[line.len - VERSION_LEN - 1] != ' ')
        return HX_HTTP1_BAD_START;
    head->method = hx_span(line.ptr, method_len);
    version = hx_span(line.ptr + line.len - VERSION_LEN, VERSION_LEN);
    fault = read_version(version, head);
    if (fault != HX_HTTP1_OK)
        return fault;
    target = hx_span(line.ptr + method_len + 1, line.len - method_len - 2 - VERSION_LEN);
    if (target.len > limits->target_max_bytes)
        return HX_HTTP1_TARGET_TOO_LONG;
    return read_target(target, head);
}

/* VERSION SP 3DIGIT [SP reason] */
static enum hx_http1_fault read_status_line(struct hx_span line, struct hx_http1_head *head)
{
    const char *digits = line.ptr + VERSION_LEN + 1;
    enum hx_http1_fault fault;

    if (line.len < VERSION_LEN + 4 || line.ptr[VERSION_LEN] != ' ' ||
        run_of(hx_span(digits, 3), HX_HTTP1_DIGIT) != 3 || digits[0] < '1' || digits[0] > '5' ||
        (line.len > VERSION_LEN + 4 && digits[3] != ' ') ||
        run_of(line, HX_HTTP1_VALUE) != line.len)
        return HX_HTTP1_BAD_START;
    fault = read_version(hx_span(line.ptr, VERSION_LEN), head);
    head->status = (uint32_t)((digits[0] - '0') * 100 + (digits[1] - '0') * 10 + digits[2] - '0');
    return fault;
}

/* --- headers that frame the message --- */

static enum hx_http1_fault read_length(struct hx_span value, struct hx_http1_head *head)
{
    if (value.len == 0 || value.len > LENGTH_DIGITS_MAX)
        return HX_HTTP1_BAD_LENGTH;
    head->length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!hx_http1_is(value.ptr[i], HX_HTTP1_DIGIT))
            return HX_HTTP1_BAD_LENGTH;
        head->length = head->length * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    head->has_length = true;
    return HX_HTTP1_OK;
}

/* "a, b": only the two words that matter are looked for. */
static void read_connection(struct hx_span value, struct framing *framing)
{
    while (value.len > 0) {
        const char *comma = memchr(value.ptr, ',', value.len);
        size_t len = comma != NULL ? (size_t)(comma - value.ptr) : value.len;
        struct hx_span word = trim(hx_span(value.ptr, len));

        if (hx_span_eq_nocase(word, HX_SPAN_LIT("close")))
            framing->says_close = true;
        else if (hx_span_eq_nocase(word, HX_SPAN_LIT("keep-alive")))
            framing->says_keep_alive = true;
        len += comma != NULL;
        value = hx_span(value.ptr + len, value.len - len);
    }
}

static enum hx_http1_fault read_special(const struct hx_http1_header *header,
                                        struct framing *framing, struct hx_http1_head *head)
{
    struct hx_span name = header->name;

    if (hx_span_eq_nocase(name, HX_SPAN_LIT("host"))) {
        framing->hosts++;
        head->host = header->value;
        if (head->host.len == 0 || run_of(head->host, HX_HTTP1_HOST) != head->host.len)
            return HX_HTTP1_BAD_HOST;
    } else if (hx_span_eq_nocase(name, HX_SPAN_LIT("content-length"))) {
        framing->lengths++;
        return read_length(header->value, head);
    } else if (hx_span_eq_nocase(name, HX_SPAN_LIT("transfer-encoding"))) {
        framing->codings++;
        head->is_chunked = true;
        if (!hx_span_eq_cstr(header->value, "chunked"))
            return HX_HTTP1_BAD_CODING;
    } else if (hx_span_eq_nocase(name, HX_SPAN_LIT("connection"))) {
        read_connection(header->value, framing);
    } else if (hx_span_eq_nocase(name, HX_SPAN_LIT("expect"))) {
        framing->expects++;
        head->expects_continue = true;
        if (!hx_span_eq_nocase(header->value, HX_SPAN_LIT("100-continue")))
            return HX_HTTP1_BAD_EXPECT;
    }
    return HX_HTTP1_OK;
}

static enum hx_http1_fault read_header(struct hx_span line, struct hx_http1_header *ret_header)
{
    size_t name_len = run_of(line, HX_HTTP1_TOKEN);

    /* Folding and a space before the colon both end here. */
    if (name_len == 0 || name_len == line.len || line.ptr[name_len] != ':')
        return HX_HTTP1_BAD_HEADER;
    ret_header->name = hx_span(line.ptr, name_len);
    ret_header->value = trim(hx_span(line.ptr + name_len + 1, line.len - name_len - 1));
    if (run_of(ret_header->value, HX_HTTP1_VALUE) != ret_header->value.len)
        return HX_HTTP1_BAD_BYTE;
    return HX_HTTP1_OK;
}

static enum hx_http1_fault judge_framing(const struct framing *framing, struct hx_http1_head *head)
{
    if (framing->lengths > 1 || framing->codings > 1 ||
        (framing->lengths > 0 && framing->codings > 0))
        return HX_HTTP1_BAD_FRAMING;
    if (framing->codings > 0 && head->version_minor == 0)
        return HX_HTTP1_BAD_FRAMING;
    if (framing->expects > 1)
        return HX_HTTP1_BAD_EXPECT;
    /* HTTP/1.0 has no interim answers. */
    head->expects_continue = head->expects_continue && head->version_minor == 1;
    head->is_keep_alive =
        !framing->says_close && (head->version_minor == 1 || framing->says_keep_alive);
    return HX_HTTP1_OK;
}

static enum hx_http1_fault read_headers(struct cursor *cursor, struct hx_http1_header *headers,
                                        uint32_t headers_max, struct framing *framing,
                                        struct hx_http1_head *head)
{
    enum hx_http1_fault fault;
    struct hx_span line;

    head->headers = headers;
    for (;;) {
        if (!take_line(cursor, &line))
            return HX_HTTP1_BAD_BYTE;
        if (line.len == 0)
            break;
        if (head->header_count == headers_max)
            return HX_HTTP1_HEAD_TOO_LARGE;
        fault = read_header(line, &headers[head->header_count]);
        if (fault != HX_HTTP1_OK)
            return fault;
        fault = read_special(&headers[head->header_count], framing, head);
        if (fault != HX_HTTP1_OK)
            return fault;
        head->header_count++;
    }
    return cursor->rest.len == 0 ? judge_framing(framing, head) : HX_HTTP1_BAD_BYTE;
}

enum hx_http1_fault hx_http1_read_request(struct hx_span bytes, struct hx_http1_header *headers,
                                          const struct hx_http1_limits *limits,
                                          struct hx_http1_head *ret_head)
{
    struct cursor cursor = {bytes};
    struct framing framing = {0};
    struct hx_http1_head head = {0};
    enum hx_http1_fault fault;
    struct hx_span line;

    if (!take_line(&cursor, &line))
        return HX_HTTP1_BAD_BYTE;
    fault = read_request_line(line, limits, &head);
    if (fault == HX_HTTP1_OK)
        fault = read_headers(&cursor, headers, limits->headers_max, &framing, &head);
    if (fault == HX_HTTP1_OK &&
        (framing.hosts > 1 || (framing.hosts == 0 && head.version_minor == 1)))
        fault = HX_HTTP1_BAD_HOST;
    if (fault == HX_HTTP1_OK)
        *ret_head = head;
    return fault;
}

enum hx_http1_fault hx_http1_read_response(struct hx_span bytes, struct hx_http1_header *headers,
                                           const struct hx_http1_limits *limits,
                                           struct hx_http1_head *ret_head)
{
    struct cursor cursor = {bytes};
    struct framing framing = {0};
    struct hx_http1_head head = {0};
    enum hx_http1_fault fault;
    struct hx_span line;

    if (!take_line(&cursor, &line))
        return HX_HTTP1_BAD_BYTE;
    fault = read_status_line(line, &head);
    if (fault == HX_HTTP1_OK)
        fault = read_headers(&cursor, headers, limits->headers_max, &framing, &head);
    if (fault == HX_HTTP1_OK)
        *ret_head = head;
    return fault;
}
