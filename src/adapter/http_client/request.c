/* SPDX-License-Identifier: MIT */
/*
 * How an exchange begins: its headers, its body, and what the library asks while it runs.
 *
 *   INV: once a byte of a message was handed out, the message is never begun again.
 *
 * The library would break it: when a reused connection dies before the first byte of the reply, it
 * sends the request again on a fresh one and says nothing. A server that executes and then closes
 * gets the call twice. Two locks keep it from that. The body comes from a callback that cannot be
 * rewound, so that the library has to give up (CURLE_SEND_FAIL_REWIND); and may_begin() refuses
 * every second beginning, also the harmless one before the first byte, so that those are counted
 * and bounded by us.
 */
#include "adapter/http_client/client.h"

#include <stdio.h>

enum { GOODBYE_MS = 2000 };

static const long READ_BYTES = 16 * 1024;
static const long UNASKED_READ_BYTES = 2048;

/* --- for the library, while it runs --- */

static int may_begin(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct hx_http_exchange *exchange = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (exchange->is_begun && !exchange->is_get && exchange->purpose != HX_HTTP_GOODBYE) {
        exchange->client->counters.begun_twice_refused++;
        exchange->was_refused = true;
        return CURL_PREREQFUNC_ABORT;
    }
    exchange->is_begun = true;
    return CURL_PREREQFUNC_OK;
}

void hx_http_request_handed_out(struct hx_http_exchange *exchange, size_t count)
{
    if (exchange->handed_out == 0)
        hx_http_exchange_tell(exchange, HX_PEER_FIRST_BYTE);
    exchange->handed_out += count;
    if (exchange->handed_out == exchange->body.len) {
        hx_http_exchange_fate(exchange, HX_PEER_WRITTEN);
        hx_loop_timer_clear(exchange->timer);
    } else {
        hx_loop_timer_set(exchange->timer, exchange->client->options.stall_timeout_ms);
    }
}

static size_t hand_out(char *into, size_t size, size_t count, void *arg)
{
    struct hx_http_exchange *exchange = arg;
    size_t left = exchange->body.len - exchange->handed_out;
    size_t len = size * count < left ? size * count : left;

    if (len == 0)
        return 0;
    memcpy(into, exchange->body.data + exchange->handed_out, len);
    hx_http_request_handed_out(exchange, len);
    return len;
}

static bool is_event_stream(struct hx_span given)
{
    static const struct hx_span wanted = HX_SPAN_INIT("text/event-stream");

    return given.len >= wanted.len && hx_span_eq_nocase(hx_span(given.ptr, wanted.len), wanted) &&
           (given.len == wanted.len || given.ptr[wanted.len] == ';' ||
            given.ptr[wanted.len] == ' ' || given.ptr[wanted.len] == '\t');
}

static bool is_coded(struct hx_span coding)
{
    return coding.len > 0 && !hx_span_eq_nocase(coding, HX_SPAN_LIT("identity"));
}

void hx_http_request_take_head(struct hx_http_exchange *exchange, int status, struct hx_span type,
                               struct hx_span coding)
{
    bool is_ok = status >= 200 && status < 300;

    exchange->has_head = true;
    exchange->status = status;
    exchange->format = is_ok && is_event_stream(type) ? HX_HTTP_STREAM : HX_HTTP_BODY;
    exchange->hides_body = is_coded(coding) || (!is_ok && is_event_stream(type));
}

static struct hx_span content_coding(CURL *easy)
{
    struct curl_header *header = NULL;
    CURLHcode rc = curl_easy_header(easy, "Content-Encoding", 0, CURLH_HEADER, -1, &header);

    return rc == CURLHE_OK ? hx_span_cstr(header->value) : HX_SPAN_NONE;
}

/* Else it lasts until the connection ends, and one that ends too soon looks no different. */
static bool has_end(CURL *easy)
{
    struct curl_header *header;
    long version = 0;

    hx_assert(curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version) == CURLE_OK);
    return version >= CURL_HTTP_VERSION_2_0 ||
           curl_easy_header(easy, "Content-Length", 0, CURLH_HEADER, -1, &header) == CURLHE_OK ||
           curl_easy_header(easy, "Transfer-Encoding", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
}

void hx_http_request_head(struct hx_http_exchange *exchange)
{
    const char *type = NULL;
    long status = 0;

    hx_assert(curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK);
    hx_assert(curl_easy_getinfo(exchange->easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK);
    hx_http_request_take_head(exchange, (int)status, hx_span_cstr(type),
                              content_coding(exchange->easy));
    exchange->has_end = has_end(exchange->easy);
    hx_http_direct_learn(&exchange->client->direct, exchange->easy);
    if (exchange->is_initialize && status >= 200 && status < 300 && !exchange->is_get)
        hx_http_session_take_id(exchange->session, exchange->easy);
}

static size_t take_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct hx_http_exchange *exchange = arg;

    if (exchange->client->is_held) {
        exchange->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (!exchange->has_head)
        hx_http_request_head(exchange);
    hx_http_reply_add(exchange, hx_span(bytes, size * count));
    return size * count;
}

void hx_http_exchange_hold(struct hx_http_exchange *exchange, bool is_held)
{
    if (is_held || !exchange->is_paused)
        return;
    exchange->is_paused = false;
    if (exchange->direct != NULL)
        hx_http_direct_go_on(exchange);
    else
        (void)curl_easy_pause(exchange->easy,
                              CURLPAUSE_CONT); /* an error ends the transfer anyway */
}

/* --- begin --- */

static bool has_version_header(const struct hx_http_exchange *exchange)
{
    const struct hx_http_session *session = exchange->session;

    if (exchange->is_initialize || session->protocol[0] == '\0')
        return false;
    switch (session->facts->revision) {
    case HX_MCP_2024_11_05:
    case HX_MCP_2025_03_26:
        return false;
    case HX_MCP_UNKNOWN:
    case HX_MCP_2025_06_18:
    case HX_MCP_2025_11_25:
    case HX_MCP_2026_07_28:
        return true;
    }
    return true;
}

static void add_named(struct curl_slist **list, const char *name, struct hx_span value)
{
    struct hx_buf header;

    hx_buf_init(&header, 2 * HX_HTTP_SESSION_ID_MAX + 64);
    if (hx_buf_printf(&header, "%s: %.*s", name, HX_SPAN_FMT(value)) == 0 &&
        hx_buf_append_char(&header, '\0') == 0)
        hx_http_header_append(list, header.data);
    hx_buf_fini(&header);
}

static void build_headers(struct hx_http_exchange *exchange)
{
    const struct hx_http_session *session = exchange->session;
    struct curl_slist **list = &exchange->headers;

    hx_assert(*list == NULL);
    hx_http_header_append(list, "User-Agent: hapax");
    hx_http_header_append(list, "Accept-Encoding: identity"); /* without it any may come */
    if (exchange->purpose != HX_HTTP_GOODBYE && !exchange->is_get) {
        hx_http_header_append(list, "Content-Type: application/json");
        hx_http_header_append(list, "Accept: application/json, text/event-stream");
        hx_http_header_append(list, "Expect:");
    } else {
        hx_http_header_append(list, exchange->is_get ? "Accept: text/event-stream" : "Accept: */*");
    }
    if (session->id[0] != '\0' && !exchange->is_initialize)
        add_named(list, "Mcp-Session-Id", hx_span_cstr(session->id));
    if (has_version_header(exchange))
        add_named(list, "MCP-Protocol-Version", hx_span_cstr(session->protocol));
    if (exchange->is_get && exchange->event_id.len > 0)
        add_named(list, "Last-Event-ID", hx_buf_span(&exchange->event_id));
    hx_http_headers_append(&exchange->client->headers, list);
    for (const struct curl_slist *at = exchange->extra; at != NULL; at = at->next)
        hx_http_header_append(list, at->data);
}

static void set_request(struct hx_http_exchange *exchange)
{
    CURL *easy = exchange->easy;
    bool is_goodbye = exchange->purpose == HX_HTTP_GOODBYE;

    if (exchange->client->options.is_apart)
        HX_HTTP_SET(easy, CURLOPT_URL,
                    exchange->is_get ? exchange->client->options.url : exchange->client->post_url);
    if (exchange->is_get || is_goodbye) {
        HX_HTTP_SET(easy, CURLOPT_HTTPGET, 1L);
    } else {
        HX_HTTP_SET(easy, CURLOPT_POST, 1L);
        HX_HTTP_SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exchange->body.len);
    }
    /* A stream that mostly says nothing is long, and there may be one for every session. */
    HX_HTTP_SET(easy, CURLOPT_BUFFERSIZE,
                exchange->purpose == HX_HTTP_UNASKED ? UNASKED_READ_BYTES : READ_BYTES);
    HX_HTTP_SET(easy, CURLOPT_CUSTOMREQUEST, is_goodbye ? "DELETE" : NULL);
    HX_HTTP_SET(easy, CURLOPT_TIMEOUT_MS, is_goodbye ? (long)GOODBYE_MS : 0L);
    HX_HTTP_SET(easy, CURLOPT_FRESH_CONNECT, exchange->was_retried ? 1L : 0L);
    HX_HTTP_SET(easy, CURLOPT_HTTPHEADER, exchange->headers);
}

void hx_http_exchange_begin(struct hx_http_exchange *exchange)
{
    struct hx_http_client *client = exchange->client;

    hx_assert(exchange->handed_out == 0 || exchange->is_get);
    hx_assert(!exchange->is_in_multi);
    hx_http_reply_begin(exchange);
    exchange->is_begun = false;
    exchange->was_refused = false;
    exchange->is_paused = false;
    exchange->error[0] = '\0';
    if (hx_http_headers_refresh(&client->headers) != 0) {
        (void)snprintf(exchange->error, sizeof exchange->error, "%s", hx_fault_last()->text);
        hx_http_exchange_place(exchange, HX_HTTP_RUNNING);
        hx_http_exchange_ended(exchange, CURLE_READ_ERROR);
        return;
    }
    build_headers(exchange);
    hx_http_exchange_place(exchange, HX_HTTP_RUNNING);
    if (hx_http_direct_begin(exchange))
        return;
    set_request(exchange);
    exchange->is_in_multi = true;
    hx_http_transfers_add(&client->transfers, exchange->easy);
}

/* Those settings of a new handle that call back here. */
void hx_http_request_prepare(struct hx_http_exchange *exchange)
{
    CURL *easy = exchange->easy;

    hx_http_transfers_prepare(&exchange->client->transfers, easy);
    HX_HTTP_SET(easy, CURLOPT_PRIVATE, exchange);
    HX_HTTP_SET(easy, CURLOPT_READFUNCTION, hand_out); /* never with a seek function */
    HX_HTTP_SET(easy, CURLOPT_READDATA, exchange);
    HX_HTTP_SET(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    HX_HTTP_SET(easy, CURLOPT_WRITEDATA, exchange);
    HX_HTTP_SET(easy, CURLOPT_PREREQFUNCTION, may_begin);
    HX_HTTP_SET(easy, CURLOPT_PREREQDATA, exchange);
    HX_HTTP_SET(easy, CURLOPT_ERRORBUFFER, exchange->error);
}
