/* SPDX-License-Identifier: MIT */
/* What holds for plain connections holds over TLS; old versions and plain HTTP do not pass. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/fault.h"
#include "web_kit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

struct bed {
    struct web_kit kit;
    SSL_CTX *context;
    char cert_path[64];
    char key_path[64];
};

struct client {
    struct bed *bed;
    int fd;
    SSL *ssl;
    struct hx_buf got;
};

static void write_identity(struct bed *bed)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    FILE *file;

    assert_non_null(key);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"h", -1, -1,
                                     0);
    (void)X509_set_issuer_name(cert, name);
    (void)X509_set_pubkey(cert, key);
    assert_int_not_equal(X509_sign(cert, key, EVP_sha256()), 0);
    (void)snprintf(bed->cert_path, sizeof bed->cert_path, "%s/cert", bed->kit.process.dir);
    (void)snprintf(bed->key_path, sizeof bed->key_path, "%s/key", bed->kit.process.dir);
    file = fopen(bed->cert_path, "we");
    assert_int_equal(PEM_write_X509(file, cert), 1);
    assert_int_equal(fclose(file), 0);
    file = fopen(bed->key_path, "we");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void bed_init(struct bed *bed, void (*change)(struct hx_http_server_options *options))
{
    web_kit_init(&bed->kit, change);
    write_identity(bed);
    if (hx_http_server_use_tls(bed->kit.web, bed->cert_path, bed->key_path) != 0)
        fail_msg("%s", hx_fault_last()->text);
    bed->context = SSL_CTX_new(TLS_client_method());
    assert_non_null(bed->context);
    (void)SSL_CTX_set_mode(bed->context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

static void bed_fini(struct bed *bed)
{
    web_kit_connections(&bed->kit, 0);
    SSL_CTX_free(bed->context);
    web_kit_fini(&bed->kit);
}

/* Runs the server until the call gets on. */
static bool again(struct client *client, int rc)
{
    int error = SSL_get_error(client->ssl, rc);

    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        return false;
    web_kit_turn(&client->bed->kit);
    return true;
}

/* False when the handshake fails. */
static bool client_init(struct client *client, struct bed *bed)
{
    int rc;

    *client = (struct client){.bed = bed, .fd = web_client(&bed->kit)};
    hx_buf_init(&client->got, 64 << 20);
    assert_int_equal(fcntl(client->fd, F_SETFL, O_NONBLOCK), 0);
    client->ssl = SSL_new(bed->context);
    assert_int_equal(SSL_set_fd(client->ssl, client->fd), 1);
    while ((rc = SSL_connect(client->ssl)) != 1) {
        if (!again(client, rc))
            return false;
    }
    return true;
}

static void client_fini(struct client *client)
{
    SSL_free(client->ssl);
    hx_buf_fini(&client->got);
    assert_int_equal(close(client->fd), 0);
}

static void client_send(struct client *client, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t sent = 0;
        int rc = SSL_write_ex(client->ssl, bytes, len, &sent);
        if (rc != 1)
            assert_true(again(client, rc));
        bytes += sent;
        len -= sent;
    }
}

/* Until `needle` is at the end of what came; NULL: until the farewell. */
static void client_read(struct client *client, const char *needle)
{
    static char bytes[1 << 16];
    struct hx_buf *got = &client->got;
    size_t len = 0;

    for (;;) {
        int rc;
        if (needle != NULL && got->len >= strlen(needle) &&
            memcmp(got->data + got->len - strlen(needle), needle, strlen(needle)) == 0)
            return;
        rc = SSL_read_ex(client->ssl, bytes, sizeof bytes, &len);
        if (rc == 1) {
            assert_int_equal(hx_buf_append(got, bytes, len), 0);
        } else if (!again(client, rc)) {
            assert_null(needle);
            assert_int_equal(SSL_get_error(client->ssl, rc), SSL_ERROR_ZERO_RETURN);
            return;
        }
    }
}

static void both_versions_carry_requests(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bed bed;
        struct client client;

        bed_init(&bed, NULL);
        (void)SSL_CTX_set_max_proto_version(bed.context, versions[i]);
        (void)SSL_CTX_set_alpn_protos(bed.context, (const unsigned char *)"\x02h2\x08http/1.1", 12);
        assert_true(client_init(&client, &bed));
        const unsigned char *protocol;
        unsigned protocol_len;
        SSL_get0_alpn_selected(client.ssl, &protocol, &protocol_len);
        assert_true(hx_span_eq_cstr(hx_span((const char *)protocol, protocol_len), "http/1.1"));
        client_send(&client, GET("/a") GET("/b"), strlen(GET("/a") GET("/b")));
        struct hx_web_event *event = web_kit_take(&bed.kit, HX_WEB_REQUEST);
        assert_true(event->request->is_secure);
        web_kit_answer(&bed.kit, event->exchange, 200, "first", 1);
        hx_web_event_free(event);
        client_read(&client, "first");
        web_kit_answer(&bed.kit, web_kit_request(&bed.kit, "/b"), 200, "second", 2);
        client_read(&client, "second");
        bed.kit.web->ops->drain(bed.kit.web);
        client_read(&client, NULL);
        client_fini(&client);
        hx_web_event_free(web_kit_take(&bed.kit, HX_WEB_DRAINED));
        bed_fini(&bed);
    }
}

static void large_bodies_pass_both_ways(void **state)
{
    enum { SIZE = 8 << 20 };
    static const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n";
    struct bed bed;
    struct client client;
    char *body = malloc(SIZE);

    (void)state;
    bed_init(&bed, NULL);
    bed.kit.is_echoing = true;
    memset(body, 'x', SIZE);
    assert_true(client_init(&client, &bed));
    for (int i = 0; i < 2; i++) {
        client_send(&client, head, sizeof head - 1);
        client_send(&client, body, SIZE);
        hx_buf_reset(&client.got);
        client_read(&client, "xx\n");
        assert_in_range(client.got.len, SIZE, SIZE + 200);
    }
    client_fini(&client);
    free(body);
    bed_fini(&bed);
}

static void a_client_that_leaves_is_noticed(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 2; how++) {
        struct bed bed;
        struct client client;

        bed_init(&bed, NULL);
        assert_true(client_init(&client, &bed));
        client_send(&client, GET("/"), strlen(GET("/")));
        uint64_t exchange = web_kit_request(&bed.kit, "/");
        web_kit_stream(&bed.kit, exchange);
        web_kit_event(&bed.kit, exchange, "data: a\n\n", 1);
        client_read(&client, "data: a\n\n\r\n");
        if (how == 0)
            (void)SSL_shutdown(client.ssl);
        client_fini(&client); /* without a farewell the end of file counts */
        hx_web_event_free(web_kit_take(&bed.kit, HX_WEB_CLIENT_GONE));
        while (web_kit_has(&bed.kit, HX_WEB_TAKEN_BACK))
            hx_web_event_free(web_kit_take(&bed.kit, HX_WEB_TAKEN_BACK));
        bed_fini(&bed);
    }
}

static void what_is_not_read_is_taken_back(void **state)
{
    struct bed bed;
    struct client client;

    (void)state;
    bed_init(&bed, NULL);
    assert_true(client_init(&client, &bed));
    client_send(&client, GET("/"), strlen(GET("/")));
    web_kit_answer(&bed.kit, web_kit_request(&bed.kit, "/"), 200, "unread", 1);
    web_kit_expect_tag(&bed.kit, HX_WEB_WRITTEN, 1);
    client_fini(&client);
    web_kit_expect_tag(&bed.kit, HX_WEB_TAKEN_BACK, 1);
    bed_fini(&bed);
}

static void fast(struct hx_http_server_options *options)
{
    options->head_timeout_ms = 60;
}

static void what_is_no_tls_gets_nothing(void **state)
{
    struct bed bed;
    struct client client;
    struct hx_buf got;
    int fd;

    (void)state;
    bed_init(&bed, fast);
    hx_buf_init(&got, 1 << 20);
    /* Plain HTTP, and silence. */
    fd = web_client(&bed.kit);
    web_send_text(&bed.kit, fd, GET("/"));
    web_read(&bed.kit, fd, &got, NULL);
    assert_null(got.len > 0 ? memmem(got.data, got.len, "HTTP", 4) : NULL);
    assert_int_equal(close(fd), 0);
    fd = web_client(&bed.kit);
    web_read(&bed.kit, fd, &got, NULL);
    assert_int_equal(close(fd), 0);
    /* TLS 1.1, and a protocol that we do not speak. */
    SSL_CTX_set_security_level(bed.context, 0);
    (void)SSL_CTX_set_min_proto_version(bed.context, TLS1_VERSION);
    (void)SSL_CTX_set_max_proto_version(bed.context, TLS1_1_VERSION);
    assert_false(client_init(&client, &bed));
    client_fini(&client);
    (void)SSL_CTX_set_max_proto_version(bed.context, 0);
    (void)SSL_CTX_set_alpn_protos(bed.context, (const unsigned char *)"\x02h2", 3);
    assert_false(client_init(&client, &bed));
    client_fini(&client);
    assert_false(web_kit_has(&bed.kit, HX_WEB_REQUEST));
    hx_buf_fini(&got);
    bed_fini(&bed);
}

static void a_certificate_that_cannot_be_used_is_told(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, NULL);
    assert_int_not_equal(hx_http_server_use_tls(bed.kit.web, "/nonexistent", bed.key_path), 0);
    assert_non_null(strstr(hx_fault_last()->text, "cannot use the certificate /nonexistent"));
    assert_int_not_equal(hx_http_server_use_tls(bed.kit.web, bed.cert_path, bed.cert_path), 0);
    assert_non_null(strstr(hx_fault_last()->text, "cannot use the key"));
    bed_fini(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_carry_requests),
        cmocka_unit_test(large_bodies_pass_both_ways),
        cmocka_unit_test(a_client_that_leaves_is_noticed),
        cmocka_unit_test(what_is_not_read_is_taken_back),
        cmocka_unit_test(what_is_no_tls_gets_nothing),
        cmocka_unit_test(a_certificate_that_cannot_be_used_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
