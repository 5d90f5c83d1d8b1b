/* SPDX-License-Identifier: MIT */
/*
 * The short way of a POST to a server that is reached in clear and without a proxy: our own reader
 * and writer of HTTP/1.1 on kept connections. Through the library all of Hapax takes twice the
 * processor time for a call. Everything else goes by the library: the greeting, from which the
 * address is learned, streams by GET, TLS, proxies; and what the short way could not even begin.
 *
 * There is no hidden second sending here because there is none at all: once a byte of the body was
 * taken by the kernel, whatever happens to the connection is the end of the exchange.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_DIRECT_H
#define HX_ADAPTER_HTTP_CLIENT_DIRECT_H

#include <stdbool.h>
#include <sys/socket.h>

#include "adapter/http_client/curl_library.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/span.h"

struct hx_http_client;
struct hx_http_exchange;
struct hx_http_client_options;

struct hx_http_direct {
    bool is_possible; /* for this URL, as proxies stand */
    struct sockaddr_storage address;
    socklen_t address_len; /* 0: not known yet */
    struct hx_buf start;   /* of every head */
    struct hx_list idle;   /* the connection that was used last first */
};

void hx_http_direct_init(struct hx_http_direct *direct,
                         const struct hx_http_client_options *options);
/* No exchange may be under way. */
void hx_http_direct_fini(struct hx_http_direct *direct);
/* Closes what is idle. */
void hx_http_direct_rest(struct hx_http_direct *direct);
/* Takes over the address that the library found, at each of its transfers. */
void hx_http_direct_learn(struct hx_http_direct *direct, CURL *easy);
/* False when it must go by the library; then not one byte has left. */
bool hx_http_direct_begin(struct hx_http_exchange *exchange);
/* Ends it at once, with its connection; nothing is told. */
void hx_http_direct_drop(struct hx_http_exchange *exchange);
/* Reads again after a pause. */
void hx_http_direct_go_on(struct hx_http_exchange *exchange);
/* The value of the index-th header of that name in a reply that refused; absent when none. */
struct hx_span hx_http_direct_header(const struct hx_http_exchange *exchange, const char *name,
                                     unsigned index);

#endif
