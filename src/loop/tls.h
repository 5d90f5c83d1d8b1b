/* SPDX-License-Identifier: MIT */
/*
 * TLS of a server, on a socket that does not block. TLS 1.2 and 1.3, no renegotiation, HTTP/1.1 by
 * ALPN where the client asks.
 *
 * The calls read and write the descriptor at once and answer EAGAIN like it does, so a connection
 * treats both kinds alike. An end of file without TLS's own farewell is an end all the same: HTTP
 * knows by its framing whether something is missing.
 */
#ifndef HX_LOOP_TLS_H
#define HX_LOOP_TLS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/assert.h"

struct hx_tls_server;
struct hx_tls;

/* PEM files: the certificate with its chain, and the key. NULL with a fault when they cannot be
 * used. */
struct hx_tls_server *hx_tls_server_new(const char *cert_path, const char *key_path) HX_MUST_CHECK;
struct hx_tls_server *hx_tls_server_free(struct hx_tls_server *server);

/* For one accepted connection; `fd` stays the caller's. NULL when there is no memory. */
struct hx_tls *hx_tls_new(struct hx_tls_server *server, int fd) HX_MUST_CHECK;
struct hx_tls *hx_tls_free(struct hx_tls *tls);

enum {
    HX_TLS_AGAIN = 1, /* wait for an edge */
    HX_TLS_FAILED = 2 /* no TLS, or none that we speak */
};

/* 0 or one of the above. */
int hx_tls_handshake(struct hx_tls *tls) HX_MUST_CHECK;
/* Like recv(): 0 at the end, -1 with EAGAIN or ECONNRESET. */
ssize_t hx_tls_read(struct hx_tls *tls, char *bytes, size_t size);
/* Like writev(), for hx_outgoing.write; `tls` is a struct hx_tls. */
ssize_t hx_tls_write(void *tls, const struct iovec *parts, size_t count);
/* Says farewell; does not wait for the other's. */
void hx_tls_end(struct hx_tls *tls);

#endif
