/* SPDX-License-Identifier: MIT */
/*
 * The settings of a handle that never change. The most important one is not here because it is
 * absent: there is no CURLOPT_SEEKFUNCTION and no CURLOPT_POSTFIELDS anywhere in this adapter. With
 * either of them the library sends a POST a second time when a reused connection dies under it, and
 * says "no error". See exchange.c.
 */
#include "adapter/http_client/client.h"

static void set_tls(CURL *easy, const struct hx_http_client_options *options)
{
    HX_HTTP_SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (options->ca_file != NULL) {
        HX_HTTP_SET(easy, CURLOPT_CAINFO, options->ca_file);
        HX_HTTP_SET(easy, CURLOPT_CAPATH, NULL); /* those and no others */
    }
    if (options->cert_file != NULL) {
        HX_HTTP_SET(easy, CURLOPT_SSLCERT, options->cert_file);
        HX_HTTP_SET(easy, CURLOPT_SSLKEY,
                    options->key_file != NULL ? options->key_file : options->cert_file);
    }
}

CURL *hx_http_easy_new(const struct hx_http_client_options *options)
{
    const long keepalive_idle_s = 30;
    const long keepalive_interval_s = 10;
    long idle_s = (long)((options->idle_connection_ms + 999) / 1000);
    CURL *easy = curl_easy_init();

    hx_assert(easy != NULL);
    HX_HTTP_SET(easy, CURLOPT_URL, options->url);
    HX_HTTP_SET(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    HX_HTTP_SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    HX_HTTP_SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
    HX_HTTP_SET(easy, CURLOPT_NOSIGNAL, 1L); /* else sigaction for every transfer */
    HX_HTTP_SET(easy, CURLOPT_TCP_NODELAY, 1L);
    /* A host that vanished without a word is noticed, however quiet the stream. */
    HX_HTTP_SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    HX_HTTP_SET(easy, CURLOPT_TCP_KEEPIDLE, keepalive_idle_s);
    HX_HTTP_SET(easy, CURLOPT_TCP_KEEPINTVL, keepalive_interval_s);
    HX_HTTP_SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_timeout_ms);
    HX_HTTP_SET(easy, CURLOPT_MAXAGE_CONN, idle_s > 0 ? idle_s : 1L);
    HX_HTTP_SET(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    /* A login in the URL is sent as it is; schemes that negotiate send the request twice. */
    HX_HTTP_SET(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    HX_HTTP_SET(easy, CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC);
    HX_HTTP_SET(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (options->proxy != NULL)
        HX_HTTP_SET(easy, CURLOPT_PROXY, options->proxy);
    set_tls(easy, options);
    return easy;
}
