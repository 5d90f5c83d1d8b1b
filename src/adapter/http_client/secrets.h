/* SPDX-License-Identifier: MIT */
/*
 * The secrets by which events are signed: a file with one a line, read again whenever it has
 * changed, so that one can be exchanged beside a running gateway: each signs, and a receiver that
 * knows any of them is content.
 *
 * A line that starts with "whsec_" is base64 behind that, as other senders of webhooks hand theirs
 * out; any other is taken as it stands. Empty lines and those that start with "#" are skipped.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_SECRETS_H
#define HX_ADAPTER_HTTP_CLIENT_SECRETS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/span.h"

enum { HX_HTTP_SECRETS_MAX = 4, HX_HTTP_SECRET_MAX = 512, HX_HTTP_SECRET_MIN = 16 };

struct hx_http_secrets {
    const char *path; /* borrowed; NULL = nothing is signed */
    struct hx_buf keys[HX_HTTP_SECRETS_MAX];
    size_t count;
    struct stat seen;
};

void hx_http_secrets_init(struct hx_http_secrets *secrets, const char *path);
void hx_http_secrets_fini(struct hx_http_secrets *secrets);
/* 0; or a fault when the file cannot be used and never could. */
int hx_http_secrets_refresh(struct hx_http_secrets *secrets) HX_MUST_CHECK;
/* Appends "v1,BASE64", one for each secret, a space between: over "ID.SECONDS.BODY". */
int hx_http_secrets_sign(const struct hx_http_secrets *secrets, struct hx_span id,
                         struct hx_span seconds, struct hx_span body,
                         struct hx_buf *out) HX_MUST_CHECK;

#endif
