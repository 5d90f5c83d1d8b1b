/* SPDX-License-Identifier: MIT */
/*
 * The headers that an operator adds to every request: fixed ones, and those of a file that is read
 * again whenever it has changed, so that a token can be renewed beside a running gateway.
 *
 * A file has one "Name: value" a line; empty lines and those that start with "#" are skipped. One
 * bad line spoils the whole file: half of a set of credentials is worse than yesterday's.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_HEADERS_H
#define HX_ADAPTER_HTTP_CLIENT_HEADERS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "adapter/http_client/curl_library.h"
#include "base/buf.h"
#include "base/span.h"

enum { HX_HTTP_HEADERS_FILE_MAX = 64 * 1024 };

struct hx_http_headers {
    const char *const *fixed; /* borrowed; NULL, or ended by NULL */
    const char *path;         /* borrowed; NULL = no file */
    struct hx_buf text;       /* of the file as it was last good: lines, each ended by a NUL */
    struct stat seen;         /* the file when it was last looked at */
    bool is_loaded;           /* `text` is good */
};

/* "Name: value" with a proper name, a value, no control bytes, and none of the headers that are
 * ours to set. */
bool hx_http_header_is_good(struct hx_span header);

void hx_http_headers_init(struct hx_http_headers *headers, const char *const *fixed,
                          const char *path);
void hx_http_headers_fini(struct hx_http_headers *headers);
/* 0; or a fault when the file cannot be used and never could. One that has become bad is raised
 * nowhere: the last good one counts on. */
int hx_http_headers_refresh(struct hx_http_headers *headers) HX_MUST_CHECK;
/* Appends all of them to the list. */
void hx_http_headers_append(const struct hx_http_headers *headers, struct curl_slist **list);
/* Appends one that is NUL-terminated. */
void hx_http_header_append(struct curl_slist **list, const char *header);

#endif
