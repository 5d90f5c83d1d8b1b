/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fault.h"

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_ours(struct hx_span name)
{
    static const char *const ours[] = {"accept",         "accept-encoding",
                                       "connection",     "content-length",
                                       "content-type",   "expect",
                                       "last-event-id",  "mcp-protocol-version",
                                       "mcp-session-id", "te",
                                       "trailer",        "transfer-encoding",
                                       "upgrade"};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (hx_span_eq_nocase(name, hx_span_cstr(ours[i])))
            return true;
    }
    return false;
}

bool hx_http_header_is_good(struct hx_span header)
{
    size_t name_len = 0;
    size_t at;
    bool has_value = false;

    while (name_len < header.len && is_name_byte(header.ptr[name_len]))
        name_len++;
    if (name_len == 0 || name_len == header.len || header.ptr[name_len] != ':')
        return false;
    for (at = name_len + 1; at < header.len; at++) {
        unsigned char byte = (unsigned char)header.ptr[at];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f)
            return false;
        has_value |= byte != ' ' && byte != '\t';
    }
    return has_value && !is_ours(hx_span(header.ptr, name_len));
}

void hx_http_headers_init(struct hx_http_headers *headers, const char *const *fixed,
                          const char *path)
{
    *headers = (struct hx_http_headers){.fixed = fixed, .path = path};
    hx_buf_init(&headers->text, HX_HTTP_HEADERS_FILE_MAX + 1);
}

void hx_http_headers_fini(struct hx_http_headers *headers)
{
    hx_buf_fini(&headers->text);
}

/* Turns the line ends into NULs and drops what is no header. */
static int digest_lines(struct hx_span text, struct hx_buf *ret_lines)
{
    while (text.len > 0) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline != NULL ? (size_t)(newline - text.ptr) : text.len;
        size_t used = len + (newline != NULL);
        struct hx_span line = hx_span(text.ptr, len);
        int rc;

        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        text = hx_span(text.ptr + used, text.len - used);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (!hx_http_header_is_good(line))
            return HX_RAISE(HX_E_SYNTAX, "a line of the headers file is no usable header");
        rc = hx_buf_append_span(ret_lines, line);
        if (rc == 0)
            rc = hx_buf_append_char(ret_lines, '\0');
        if (rc != 0)
            return HX_TRACE(rc);
    }
    return 0;
}

static int read_all(int fd, struct hx_buf *ret_text)
{
    for (;;) {
        ssize_t len;
        int rc = hx_buf_reserve(ret_text, 4096);

        if (rc != 0)
            return HX_TRACE(rc);
        len = read(fd, ret_text->data + ret_text->len, 4096);
        if (len < 0)
            return HX_RAISE_ERRNO("cannot read the headers file");
        if (len == 0)
            return 0;
        ret_text->len += (size_t)len;
    }
}

static int load(struct hx_http_headers *headers)
{
    struct hx_buf text;
    struct hx_buf lines;
    int fd = open(headers->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int rc;

    if (fd < 0)
        return HX_RAISE_ERRNO("cannot open the headers file %s", headers->path);
    hx_buf_init(&text, HX_HTTP_HEADERS_FILE_MAX + 4096);
    hx_buf_init(&lines, HX_HTTP_HEADERS_FILE_MAX + 4096);
    rc = read_all(fd, &text);
    (void)close(fd);
    if (rc == 0)
        rc = digest_lines(hx_buf_span(&text), &lines);
    hx_buf_fini(&text);
    if (rc == 0) {
        hx_buf_fini(&headers->text);
        headers->text = lines;
        headers->is_loaded = true;
    } else {
        hx_buf_fini(&lines);
    }
    return rc;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int hx_http_headers_refresh(struct hx_http_headers *headers)
{
    struct stat now;
    int rc;

    if (headers->path == NULL)
        return 0;
    if (stat(headers->path, &now) != 0) {
        rc = HX_RAISE_ERRNO("no headers file %s", headers->path);
    } else if (headers->is_loaded && is_same_file(&now, &headers->seen)) {
        return 0;
    } else {
        rc = load(headers);
        if (rc == 0)
            headers->seen = now;
    }
    return headers->is_loaded ? 0 : HX_TRACE(rc);
}

void hx_http_header_append(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*list, header);

    hx_assert(longer != NULL);
    *list = longer;
}

void hx_http_headers_append(const struct hx_http_headers *headers, struct curl_slist **list)
{
    for (const char *const *at = headers->fixed; at != NULL && *at != NULL; at++)
        hx_http_header_append(list, *at);
    for (size_t at = 0; at < headers->text.len; at += strlen(headers->text.data + at) + 1)
        hx_http_header_append(list, headers->text.data + at);
}
