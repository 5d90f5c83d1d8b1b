/* SPDX-License-Identifier: MIT */
/*
 * What the headers of a request say, without state: Accept, Content-Type, Host, Origin, and the
 * bytes of a body.
 */
#ifndef HX_ADAPTER_HTTP_FRONT_HEADERS_H
#define HX_ADAPTER_HTTP_FRONT_HEADERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/span.h"
#include "port/web.h"

struct hx_http_accepts {
    bool json;
    bool events;
};

/* Of all Accept headers together; without one, everything is accepted. */
struct hx_http_accepts hx_http_accepts(const struct hx_web_request *request);
/* No Content-Encoding but `identity`, which says nothing. */
bool hx_http_is_uncoded(const struct hx_web_request *request);
/* Once, and application/json, with any parameters. */
bool hx_http_is_json(const struct hx_web_request *request);

/* "example.com:80" is "example.com", "[::1]:80" is "::1". */
struct hx_span hx_http_host_name(struct hx_span host);
/* localhost, or an address of loopback: such a name cannot be made to point elsewhere, or here. */
bool hx_http_is_loopback(struct hx_span name);
/* `allowed`: NULL, or names, with or without a port, ended by NULL; "*" = all. */
bool hx_http_host_is_allowed(struct hx_span host, const char *const *allowed);
/* Origins of the host that was asked for, in any scheme and on any port, are always allowed; so are
 * those of loopback when that is where we were reached. */
bool hx_http_origin_is_allowed(struct hx_span origin, struct hx_span host,
                               const char *const *allowed);

/* Makes spaces of the line ends between the tokens of a JSON text. Those inside a string, which
 * JSON does not have, stay as they are, for the reader to refuse. */
void hx_http_join_lines(struct hx_buf *body);

#endif
