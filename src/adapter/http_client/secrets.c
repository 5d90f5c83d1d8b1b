/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mac.h"

enum { FILE_MAX = 8 * 1024 };

static void forget(struct hx_http_secrets *secrets)
{
    for (size_t i = 0; i < secrets->count; i++)
        hx_buf_fini(&secrets->keys[i]);
    secrets->count = 0;
}

void hx_http_secrets_init(struct hx_http_secrets *secrets, const char *path)
{
    *secrets = (struct hx_http_secrets){.path = path};
}

void hx_http_secrets_fini(struct hx_http_secrets *secrets)
{
    forget(secrets);
}

static int add_key(struct hx_http_secrets *secrets, struct hx_span line)
{
    static const struct hx_span coded = HX_SPAN_INIT("whsec_");
    if (secrets->count == HX_HTTP_SECRETS_MAX)
        return HX_RAISE(HX_E_LIMIT, "%s holds more than %d secrets", secrets->path,
                        HX_HTTP_SECRETS_MAX);
    struct hx_buf *key = &secrets->keys[secrets->count++];
    hx_buf_init(key, HX_HTTP_SECRET_MAX);
    int rc = hx_span_starts_with(line, coded)
                 ? hx_base64_decode(hx_span(line.ptr + coded.len, line.len - coded.len), key)
                 : hx_buf_append_span(key, line);
    if (rc != 0 || key->len < HX_HTTP_SECRET_MIN)
        return HX_RAISE(HX_E_SYNTAX,
                        "a line of %s is no secret: %d to %d bytes, or whsec_ and their base64",
                        secrets->path, HX_HTTP_SECRET_MIN, HX_HTTP_SECRET_MAX);
    return 0;
}

static int digest(struct hx_http_secrets *secrets, struct hx_span text)
{
    int rc = 0;
    while (rc == 0 && text.len > 0) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline != NULL ? (size_t)(newline - text.ptr) : text.len;
        size_t used = len + (newline != NULL);
        struct hx_span line = hx_span(text.ptr, len);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        text = hx_span(text.ptr + used, text.len - used);
        if (line.len > 0 && line.ptr[0] != '#')
            rc = add_key(secrets, line);
    }
    if (rc == 0 && secrets->count == 0)
        rc = HX_RAISE(HX_E_SYNTAX, "%s holds no secret", secrets->path);
    return HX_TRACE(rc);
}

static int read_file(const char *path, char *ret_bytes, size_t size, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return HX_RAISE_ERRNO("the secret file %s cannot be opened", path);
    size_t len = 0;
    ssize_t got = 0;
    while (len < size && (got = read(fd, ret_bytes + len, size - len)) > 0)
        len += (size_t)got;
    int rc = got < 0 ? HX_RAISE_ERRNO("the secret file %s cannot be read", path) : 0;
    close(fd);
    if (rc == 0 && len == size)
        rc = HX_RAISE(HX_E_LIMIT, "the secret file %s is longer than %d bytes", path, FILE_MAX);
    *ret_len = len;
    return HX_TRACE(rc);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int hx_http_secrets_refresh(struct hx_http_secrets *secrets)
{
    struct hx_http_secrets fresh = {.path = secrets->path};
    char bytes[FILE_MAX + 1];
    size_t len = 0;
    struct stat now;
    if (secrets->path == NULL)
        return 0;
    int rc = stat(secrets->path, &now) != 0
                 ? HX_RAISE_ERRNO("there is no secret file %s", secrets->path)
                 : 0;
    if (rc == 0 && secrets->count > 0 && is_same_file(&now, &secrets->seen))
        return 0;
    if (rc == 0)
        rc = read_file(secrets->path, bytes, sizeof(bytes), &len);
    if (rc == 0)
        rc = digest(&fresh, hx_span(bytes, len));
    if (rc == 0) {
        forget(secrets);
        *secrets = fresh;
        secrets->seen = now;
        return 0;
    }
    forget(&fresh);
    return secrets->count > 0 ? 0 : HX_TRACE(rc); /* half an exchange: the last good ones count */
}

int hx_http_secrets_sign(const struct hx_http_secrets *secrets, struct hx_span id,
                         struct hx_span seconds, struct hx_span body, struct hx_buf *out)
{
    const struct hx_span parts[] = {id, HX_SPAN_LIT("."), seconds, HX_SPAN_LIT("."), body};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < secrets->count; i++) {
        struct hx_digest mac =
            hx_mac(hx_buf_span(&secrets->keys[i]), parts, sizeof(parts) / sizeof(parts[0]));
        rc = hx_buf_append_cstr(out, i == 0 ? "v1," : " v1,");
        if (rc == 0)
            rc = hx_base64_encode(hx_span((const char *)mac.bytes, sizeof(mac.bytes)), out);
    }
    return HX_TRACE(rc);
}
