/* SPDX-License-Identifier: MIT */
#include "loop/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"

/* One record; parts are joined up to it, so that a small head and a small body share one. */
enum { RECORD_BYTES = 16 * 1024 };

struct hx_tls_server {
    SSL_CTX *context;
};

struct hx_tls {
    SSL *ssl;
};

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int raise_tls(const char *what, const char *path)
{
    char text[160];

    ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
    ERR_clear_error();
    return HX_RAISE(HX_E_SYSTEM, "%s %s: %s", what, path, text);
}

struct hx_tls_server *hx_tls_server_new(const char *cert_path, const char *key_path)
{
    struct hx_tls_server *server = hx_new(struct hx_tls_server);

    server->context = SSL_CTX_new(TLS_server_method());
    if (server->context == NULL) {
        (void)raise_tls("TLS", "cannot be set up");
        return hx_tls_server_free(server);
    }
    (void)SSL_CTX_set_min_proto_version(server->context, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(server->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                                   SSL_OP_CIPHER_SERVER_PREFERENCE |
                                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* An idle stream gives its buffers back. */
    (void)SSL_CTX_set_mode(server->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                                SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(server->context, choose_protocol, NULL);
    if (SSL_CTX_use_certificate_chain_file(server->context, cert_path) != 1) {
        (void)raise_tls("cannot use the certificate", cert_path);
        return hx_tls_server_free(server);
    }
    if (SSL_CTX_use_PrivateKey_file(server->context, key_path, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(server->context) != 1) {
        (void)raise_tls("cannot use the key", key_path);
        return hx_tls_server_free(server);
    }
    return server;
}

struct hx_tls_server *hx_tls_server_free(struct hx_tls_server *server)
{
    if (server != NULL)
        SSL_CTX_free(server->context);
    return hx_free(server);
}

struct hx_tls *hx_tls_new(struct hx_tls_server *server, int fd)
{
    struct hx_tls *tls = hx_new(struct hx_tls);

    tls->ssl = SSL_new(server->context);
    if (tls->ssl == NULL || SSL_set_fd(tls->ssl, fd) != 1) {
        ERR_clear_error();
        return hx_tls_free(tls);
    }
    SSL_set_accept_state(tls->ssl);
    return tls;
}

struct hx_tls *hx_tls_free(struct hx_tls *tls)
{
    if (tls != NULL)
        SSL_free(tls->ssl);
    return hx_free(tls);
}

static bool wants_again(const struct hx_tls *tls, int rc)
{
    int error = SSL_get_error(tls->ssl, rc);

    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

int hx_tls_handshake(struct hx_tls *tls)
{
    int rc;

    /* The queue of errors belongs to the thread: those of other connections are not ours. */
    ERR_clear_error();
    rc = SSL_do_handshake(tls->ssl);
    if (rc == 1)
        return 0;
    return wants_again(tls, rc) ? HX_TLS_AGAIN : HX_TLS_FAILED;
}

ssize_t hx_tls_read(struct hx_tls *tls, char *bytes, size_t size)
{
    size_t len = 0;
    int rc;

    ERR_clear_error();
    rc = SSL_read_ex(tls->ssl, bytes, size, &len);
    if (rc == 1)
        return (ssize_t)len;
    if (SSL_get_error(tls->ssl, rc) == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = wants_again(tls, rc) ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t hx_tls_write(void *arg, const struct iovec *parts, size_t count)
{
    struct hx_tls *tls = arg;
    char record[RECORD_BYTES];
    const char *bytes = record;
    size_t len = 0;
    size_t written = 0;
    int rc;

    hx_assert(count > 0);
    if (parts[0].iov_len >= sizeof record) {
        bytes = parts[0].iov_base;
        len = sizeof record;
    }
    for (size_t i = 0; bytes == record && i < count && len < sizeof record; i++) {
        size_t room = sizeof record - len;
        size_t part = parts[i].iov_len < room ? parts[i].iov_len : room;
        memcpy(record + len, parts[i].iov_base, part);
        len += part;
    }
    ERR_clear_error();
    rc = SSL_write_ex(tls->ssl, bytes, len, &written);
    if (rc == 1)
        return (ssize_t)written;
    errno = wants_again(tls, rc) ? EAGAIN : EPIPE;
    return -1;
}

void hx_tls_end(struct hx_tls *tls)
{
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl); /* a client that does not take it will see the end of file */
    ERR_clear_error();
}
