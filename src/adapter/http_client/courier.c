/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/courier.h"

#include <inttypes.h>
#include <stdio.h>

#include "adapter/http_client/client.h"
#include "adapter/http_client/secrets.h"
#include "base/alloc.h"

enum { IDLE_CONNECTIONS_MAX = 8, REPLY_MAX = 64 * 1024, HEADER_MAX = 1024 };

struct courier {
    struct hx_courier courier;
    struct hx_http_courier_options options;
    struct hx_http_transfers transfers;
    struct hx_http_headers headers;
    struct hx_http_secrets secrets;
    struct hx_list parcels; /* under way */
    struct hx_list told;    /* done; their reports were not taken */
};

/* One event on its way. */
struct parcel {
    struct hx_list node;
    struct courier *courier;
    CURL *easy;
    struct curl_slist *headers;
    struct hx_buf body;
    size_t handed_out;
    size_t reply_size;
    bool is_begun;
    bool was_retried;
    struct hx_courier_report report;
    char error[CURL_ERROR_SIZE];
};

/* ---- for the library, while it runs ---- */

/* It would begin again by itself on another connection when a reused one turns out to be dead. */
static int may_begin(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct parcel *parcel = arg;
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (parcel->is_begun)
        return CURL_PREREQFUNC_ABORT;
    parcel->is_begun = true;
    return CURL_PREREQFUNC_OK;
}

static size_t hand_out(char *into, size_t size, size_t count, void *arg)
{
    struct parcel *parcel = arg;
    size_t left = parcel->body.len - parcel->handed_out;
    size_t len = size * count < left ? size * count : left;
    if (len > 0)
        memcpy(into, parcel->body.data + parcel->handed_out, len);
    parcel->handed_out += len;
    return len;
}

/* Nobody reads it; what is too long is cut off. */
static size_t take_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct parcel *parcel = arg;
    (void)bytes;
    parcel->reply_size += size * count;
    return parcel->reply_size <= REPLY_MAX ? size * count : 0;
}

/* ---- what came of it ---- */

static void parcel_free(struct parcel *parcel)
{
    hx_list_unlink(&parcel->node);
    curl_easy_cleanup(parcel->easy);
    curl_slist_free_all(parcel->headers);
    hx_buf_fini(&parcel->body);
    hx_free(parcel);
}

/* Not one byte was handed out on a kept connection, which was dead: once more on a fresh one. What
 * failed on a fresh one is for the next try, and not before its time. */
static bool begin_again(struct parcel *parcel)
{
    if (parcel->handed_out > 0 || parcel->was_retried || !parcel->is_begun)
        return false;
    parcel->was_retried = true;
    parcel->is_begun = false;
    parcel->reply_size = 0;
    HX_HTTP_SET(parcel->easy, CURLOPT_FRESH_CONNECT, 1L);
    hx_http_transfers_add(&parcel->courier->transfers, parcel->easy);
    return true;
}

static void tell(struct parcel *parcel)
{
    hx_list_unlink(&parcel->node);
    hx_list_append(&parcel->courier->told, &parcel->node);
}

static void fail(struct parcel *parcel, const char *words)
{
    (void)snprintf(parcel->report.words, sizeof(parcel->report.words), "%s", words);
}

static void ended(void *arg, CURLcode code)
{
    struct parcel *parcel = arg;
    struct hx_courier_report *report = &parcel->report;
    long status = 0;
    curl_off_t retry_after_s = 0;
    hx_assert(curl_easy_getinfo(parcel->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK);
    hx_assert(curl_easy_getinfo(parcel->easy, CURLINFO_RETRY_AFTER, &retry_after_s) == CURLE_OK);
    if (code != CURLE_OK && status == 0 && begin_again(parcel))
        return;
    /* He has said that he has it, whatever else he had to say. */
    bool is_cut_off = code == CURLE_WRITE_ERROR && parcel->reply_size > REPLY_MAX;
    report->is_delivered = (code == CURLE_OK || is_cut_off) && status >= 200 && status < 300;
    if (retry_after_s > 0 && !report->is_delivered)
        report->retry_after_ms = retry_after_s < HX_COURIER_WAIT_MAX_S
                                     ? (int64_t)retry_after_s * 1000
                                     : (int64_t)HX_COURIER_WAIT_MAX_S * 1000;
    if (code != CURLE_OK)
        fail(parcel, parcel->error[0] != '\0' ? parcel->error : curl_easy_strerror(code));
    else if (!report->is_delivered)
        (void)snprintf(report->words, sizeof(report->words), "the receiver answered %ld%s", status,
                       status >= 300 && status < 400 ? ", and redirects are not followed" : "");
    tell(parcel);
}

static bool take_report(struct hx_courier *base, struct hx_courier_report *ret_report)
{
    struct courier *courier = hx_container_of(base, struct courier, courier);
    struct hx_list *node = hx_list_first(&courier->told);
    if (node == NULL)
        return false;
    struct parcel *parcel = hx_container_of(node, struct parcel, node);
    *ret_report = parcel->report;
    parcel_free(parcel);
    return true;
}

/* ---- sending ---- */

static void add_header(struct parcel *parcel, const char *name, struct hx_span value)
{
    struct hx_buf header;
    hx_buf_init(&header, HEADER_MAX);
    int rc = hx_buf_printf(&header, "%s: %.*s", name, HX_SPAN_FMT(value));
    if (rc == 0)
        rc = hx_buf_append_char(&header, '\0');
    hx_assert(rc == 0); /* ids, numbers and digests, all of them short */
    hx_http_header_append(&parcel->headers, header.data);
    hx_buf_fini(&header);
}

static int add_headers(struct parcel *parcel, const struct hx_id *event, struct hx_wall now)
{
    struct courier *courier = parcel->courier;
    char id[HX_ID_TEXT_SIZE], seconds[32];
    struct hx_buf signature;
    hx_id_format(event, id);
    snprintf(seconds, sizeof(seconds), "%" PRId64, now.ms / 1000);
    hx_http_header_append(&parcel->headers, "User-Agent: hapax");
    hx_http_header_append(&parcel->headers,
                          "Content-Type: application/cloudevents+json; charset=utf-8");
    hx_http_header_append(&parcel->headers, "Accept: */*");
    hx_http_header_append(&parcel->headers, "Expect:");
    add_header(parcel, "Idempotency-Key", hx_span_cstr(id));
    add_header(parcel, "webhook-id", hx_span_cstr(id));
    add_header(parcel, "webhook-timestamp", hx_span_cstr(seconds));
    int rc = hx_http_headers_refresh(&courier->headers);
    if (rc == 0)
        rc = hx_http_secrets_refresh(&courier->secrets);
    if (rc < 0)
        return HX_TRACE(rc);
    hx_http_headers_append(&courier->headers, &parcel->headers);
    hx_buf_init(&signature, HEADER_MAX - 64);
    rc = hx_http_secrets_sign(&courier->secrets, hx_span_cstr(id), hx_span_cstr(seconds),
                              hx_buf_span(&parcel->body), &signature);
    if (rc == 0 && signature.len > 0)
        add_header(parcel, "webhook-signature", hx_buf_span(&signature));
    hx_buf_fini(&signature);
    return HX_TRACE(rc);
}

static CURL *make_easy(struct parcel *parcel)
{
    const struct hx_http_courier_options *options = &parcel->courier->options;
    struct hx_http_client_options common = hx_http_client_defaults();
    common.url = options->url;
    common.ca_file = options->ca_file;
    common.proxy = options->proxy;
    if (common.connect_timeout_ms > options->timeout_ms)
        common.connect_timeout_ms = options->timeout_ms;
    CURL *easy = hx_http_easy_new(&common);
    hx_http_transfers_prepare(&parcel->courier->transfers, easy);
    HX_HTTP_SET(easy, CURLOPT_PRIVATE, parcel);
    HX_HTTP_SET(easy, CURLOPT_POST, 1L);
    HX_HTTP_SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)parcel->body.len);
    HX_HTTP_SET(easy, CURLOPT_READFUNCTION, hand_out); /* never with a seek function */
    HX_HTTP_SET(easy, CURLOPT_READDATA, parcel);
    HX_HTTP_SET(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    HX_HTTP_SET(easy, CURLOPT_WRITEDATA, parcel);
    HX_HTTP_SET(easy, CURLOPT_PREREQFUNCTION, may_begin);
    HX_HTTP_SET(easy, CURLOPT_PREREQDATA, parcel);
    HX_HTTP_SET(easy, CURLOPT_ERRORBUFFER, parcel->error);
    HX_HTTP_SET(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    HX_HTTP_SET(easy, CURLOPT_HTTPHEADER, parcel->headers);
    return easy;
}

static void send_event(struct hx_courier *base, uint64_t ticket, const struct hx_id *event,
                       struct hx_span body, struct hx_wall now)
{
    struct courier *courier = hx_container_of(base, struct courier, courier);
    struct parcel *parcel = hx_new(struct parcel);
    parcel->courier = courier;
    parcel->report = (struct hx_courier_report){.ticket = ticket, .retry_after_ms = -1};
    hx_list_append(&courier->parcels, &parcel->node);
    hx_buf_init(&parcel->body, body.len);
    int rc = hx_buf_append_span(&parcel->body, body);
    if (rc == 0)
        rc = add_headers(parcel, event, now);
    parcel->easy = make_easy(parcel);
    if (rc < 0) {
        fail(parcel, hx_fault_last()->text);
        tell(parcel);
        return;
    }
    hx_http_transfers_add(&courier->transfers, parcel->easy);
}

/* ---- its life ---- */

static const struct hx_courier_ops ops = {.send = send_event, .take_report = take_report};

int hx_http_courier_new(struct hx_loop *loop, const struct hx_http_courier_options *options,
                        struct hx_courier **ret_courier)
{
    int rc = hx_curl_load();
    if (rc != 0)
        return HX_TRACE(rc);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counted by the library */
        return HX_RAISE(HX_E_INTERNAL, "the HTTP library cannot start");
    struct courier *courier = hx_new(struct courier);
    courier->courier.ops = &ops;
    courier->options = *options;
    hx_list_init(&courier->parcels);
    hx_list_init(&courier->told);
    hx_http_headers_init(&courier->headers, NULL, options->headers_file);
    hx_http_secrets_init(&courier->secrets, options->secret_file);
    hx_http_transfers_init(&courier->transfers, loop, IDLE_CONNECTIONS_MAX, ended);
    rc = hx_http_headers_refresh(&courier->headers);
    if (rc == 0)
        rc = hx_http_secrets_refresh(&courier->secrets);
    if (rc < 0) {
        struct hx_fault fault = *hx_fault_last();
        hx_http_courier_free(&courier->courier);
        return HX_RAISE(fault.code, "%s", fault.text);
    }
    *ret_courier = &courier->courier;
    return 0;
}

struct hx_courier *hx_http_courier_free(struct hx_courier *base)
{
    if (base == NULL)
        return NULL;
    struct courier *courier = hx_container_of(base, struct courier, courier);
    struct hx_list *node;
    while ((node = hx_list_first(&courier->parcels)) != NULL) {
        struct parcel *parcel = hx_container_of(node, struct parcel, node);
        hx_http_transfers_remove(&courier->transfers, parcel->easy);
        parcel_free(parcel);
    }
    while ((node = hx_list_first(&courier->told)) != NULL)
        parcel_free(hx_container_of(node, struct parcel, node));
    hx_http_transfers_fini(&courier->transfers);
    hx_http_headers_fini(&courier->headers);
    hx_http_secrets_fini(&courier->secrets);
    hx_free(courier);
    return NULL;
}
