/* SPDX-License-Identifier: MIT */
/*
 * Whether the short way can be taken at all, and where it leads.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/http_client/client.h"

enum { START_MAX = 64 * 1024 };

static bool may_have_proxy(const struct hx_http_client_options *options)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};

    if (options->proxy != NULL)
        return options->proxy[0] != '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL)
            return true;
    return false;
}

/* Of a name nothing is known here. */
static void set_address(struct hx_http_direct *direct, const char *text, uint16_t port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        direct->address_len = sizeof four;
        memcpy(&direct->address, &four, sizeof four);
    } else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
        direct->address_len = sizeof six;
        memcpy(&direct->address, &six, sizeof six);
    }
}

static char *part(CURLU *url, CURLUPart what, unsigned flags)
{
    char *text = NULL;

    return curl_url_get(url, what, &text, flags) == CURLUE_OK ? text : NULL;
}

static bool read_url(struct hx_http_direct *direct, CURLU *url)
{
    char *scheme = part(url, CURLUPART_SCHEME, 0);
    char *user = part(url, CURLUPART_USER, 0);
    char *host = part(url, CURLUPART_HOST, 0);
    char *port = part(url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    char *path = part(url, CURLUPART_PATH, 0);
    char *query = part(url, CURLUPART_QUERY, 0);
    bool is_good = scheme != NULL && strcmp(scheme, "http") == 0 && user == NULL && host != NULL &&
                   path != NULL;

    if (is_good) {
        (void)hx_buf_printf(&direct->start, "POST %s%s%s HTTP/1.1\r\nHost: %s%s%s\r\n", path,
                            query != NULL ? "?" : "", query != NULL ? query : "", host,
                            port != NULL ? ":" : "", port != NULL ? port : "");
        is_good = hx_buf_ok(&direct->start);
        set_address(direct, host, port != NULL ? (uint16_t)strtoul(port, NULL, 10) : 80);
    }
    curl_free(scheme);
    curl_free(user);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_free(query);
    return is_good;
}

void hx_http_direct_init(struct hx_http_direct *direct,
                         const struct hx_http_client_options *options)
{
    CURLU *url = curl_url();

    hx_list_init(&direct->idle);
    hx_buf_init(&direct->start, START_MAX);
    direct->is_possible = options->has_short_way &&
                          curl_url_set(url, CURLUPART_URL, options->url, 0) == CURLUE_OK &&
                          read_url(direct, url) && !may_have_proxy(options);
    curl_url_cleanup(url);
}

void hx_http_direct_learn(struct hx_http_direct *direct, CURL *easy)
{
    const char *address = NULL;
    long port = 0;

    if (direct->is_possible && curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK &&
        curl_easy_getinfo(easy, CURLINFO_PRIMARY_PORT, &port) == CURLE_OK && address != NULL)
        set_address(direct, address, (uint16_t)port);
}
