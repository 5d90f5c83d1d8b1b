/* SPDX-License-Identifier: MIT */
/*
 * The heads of HTTP/1.1 messages, strictly.
 *
 * Whatever two readers of one head could understand differently is refused: the one before us and
 * the one behind us must see the same message as we do. So there is no repair and no leniency, and
 * after a refusal the connection is of no more use: answer, then close.
 *
 *     struct hx_http1_scan scan = {0};
 *     size_t len;
 *     enum hx_http1_fault fault = hx_http1_scan(&scan, bytes, &limits, &len);
 *     if (fault == HX_HTTP1_MORE) ... call again with more bytes at the end ...
 *     fault = hx_http1_read_request(hx_span(bytes.ptr, len), headers, &limits, &head);
 *
 * Decided beyond the RFCs:
 *  - The head ends in CRLF CRLF, and CR and LF stand nowhere else. The first one that does is
 *    refused at once, as is any other control byte: no waiting for an end that cannot come.
 *  - No empty line before the request line. A spare CRLF means that somebody counted otherwise.
 *  - Targets are origin-form ("/path?query"), or "*" for OPTIONS. Absolute-form names a second host
 *    and is for proxies, authority-form for tunnels; we are neither. Percent-encoding stays as it
 *    is, so paths compare as bytes. '"', '#', '<', '>' and '\' are never sent by a correct client.
 *  - Host is the characters of a name or an address with a port, once; HTTP/1.0 may lack it.
 *  - "Transfer-Encoding" is exactly `chunked`, in these letters, alone, once, not in HTTP/1.0.
 *  - "Content-Length" is 1 to 18 digits, once, and never beside Transfer-Encoding.
 *  - "Expect" is 100-continue or refused.
 */
#ifndef HX_WIRE_HTTP1_H
#define HX_WIRE_HTTP1_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

enum hx_http1_fault {
    HX_HTTP1_OK,
    HX_HTTP1_MORE,            /* no fault: the head is not complete */
    HX_HTTP1_BAD_BYTE,        /* a control byte, or CR or LF alone */
    HX_HTTP1_BAD_START,       /* request or status line */
    HX_HTTP1_BAD_TARGET,      /* not origin-form, or bytes that must be encoded */
    HX_HTTP1_BAD_HEADER,      /* a header line: name, space before the colon, folding */
    HX_HTTP1_BAD_HOST,        /* none, several, or no host */
    HX_HTTP1_BAD_LENGTH,      /* Content-Length */
    HX_HTTP1_BAD_FRAMING,     /* both framings, or one of them twice */
    HX_HTTP1_BAD_CODING,      /* Transfer-Encoding other than chunked */
    HX_HTTP1_BAD_EXPECT,      /* Expect other than 100-continue */
    HX_HTTP1_BAD_VERSION,     /* a version that is not 1.0 or 1.1 */
    HX_HTTP1_TARGET_TOO_LONG, /* request line */
    HX_HTTP1_HEAD_TOO_LARGE,  /* bytes or number of headers */
    HX_HTTP1_FAULT_COUNT
};

struct hx_http1_limits {
    size_t head_max_bytes; /* with the empty line */
    size_t target_max_bytes;
    uint32_t headers_max;
};

struct hx_http1_header {
    struct hx_span name;  /* as written */
    struct hx_span value; /* without white space around it; may be empty */
};

/* All spans point into the head that was read. */
struct hx_http1_head {
    struct hx_span method; /* requests */
    struct hx_span target; /* whole */
    struct hx_span path;   /* up to "?" */
    struct hx_span query;  /* behind "?"; absent when there is none */
    struct hx_span host;   /* absent in an HTTP/1.0 request without one */
    uint32_t status;       /* responses */
    uint32_t version_minor;
    const struct hx_http1_header *headers; /* in order; the storage given to read */
    uint32_t header_count;
    bool is_keep_alive;
    bool is_chunked;
    bool has_length;
    bool expects_continue;
    uint64_t length; /* with has_length */
};

struct hx_http1_limits hx_http1_limits_defaults(void); /* 32 KiB, 8 KiB, 64 */

/* How far a head was looked through; starts zeroed. */
struct hx_http1_scan {
    size_t offset;
    uint32_t newlines; /* in a row, at the end of what was looked at */
};

/* Looks for the end of the head at the front of `bytes`, which grow between calls. OK: *ret_len is
 * the length of the head. MORE, BAD_BYTE or HEAD_TOO_LARGE otherwise; how the bytes were cut makes
 * no difference. */
enum hx_http1_fault hx_http1_scan(struct hx_http1_scan *scan, struct hx_span bytes,
                                  const struct hx_http1_limits *limits,
                                  size_t *ret_len) HX_MUST_CHECK;

/* Reads a head that the scan has found. `headers` has room for limits->headers_max. Never MORE. */
enum hx_http1_fault hx_http1_read_request(struct hx_span bytes, struct hx_http1_header *headers,
                                          const struct hx_http1_limits *limits,
                                          struct hx_http1_head *ret_head) HX_MUST_CHECK;
/* A response's body may also depend on its request (HEAD) and on its status (1xx, 204, 304): see
 * hx_http1_has_no_body. */
enum hx_http1_fault hx_http1_read_response(struct hx_span bytes, struct hx_http1_header *headers,
                                           const struct hx_http1_limits *limits,
                                           struct hx_http1_head *ret_head) HX_MUST_CHECK;
bool hx_http1_has_no_body(uint32_t status);

/* The first header of that name in any letter case; absent when there is none. */
struct hx_span hx_http1_find(const struct hx_http1_head *head, const char *name);
/* How often it stands there. */
uint32_t hx_http1_count(const struct hx_http1_head *head, const char *name);

/* What to answer a refused request with, and why, as a sentence for people. */
uint32_t hx_http1_fault_status(enum hx_http1_fault fault);
const char *hx_http1_fault_text(enum hx_http1_fault fault);

/* For writers: what the reader would accept. */
bool hx_http1_is_token(struct hx_span text);
bool hx_http1_is_value(struct hx_span text);
/* The usual words for a status; "Unknown" for those that we never send. */
const char *hx_http1_reason(uint32_t status);
/* "HTTP/1.1 200 OK\r\n", and one header line. Both assert that the text is fit to be sent. */
void hx_http1_write_status(struct hx_buf *out, uint32_t status);
void hx_http1_write_header(struct hx_buf *out, struct hx_span name, struct hx_span value);

#endif
