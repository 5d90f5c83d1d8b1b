/* SPDX-License-Identifier: MIT */
/*
 * An upstream that is a remote MCP server, reached over Streamable HTTP (2025-03-26, 2025-06-18,
 * 2025-11-25), or over the transport of 2024-11-05 that it replaced.
 *
 *     struct hx_http_client_options options = hx_http_client_defaults();
 *     options.url = "https://tools.example/mcp";
 *     int rc = hx_http_client_new(loop, &inbox, &options, &up);
 *     up->ops->start(up, 1);        // STARTED
 *     up->ops->send(up, &line, 7);  // FIRST_BYTE 7, WRITTEN 7 ... MESSAGE (tag 7, is_answer)
 *     up->ops->drop(up, 8);         // nobody waits for 8 any more
 *     up->ops->stop(up);            // CLOSED; then start(up, 2), or:
 *     hx_http_client_free(up);
 *
 * Every message is a POST of its own, and **none is ever sent twice**: a message of which one byte
 * was handed out is never begun again, by us or by the library below us. One that found its reused
 * connection dead before its first byte is begun once more on a fresh connection, and counted.
 *
 * What is worth knowing beyond port/peer.h:
 *
 * - start connects nothing and cannot fail; a server that is down shows in NOT_SENT for each
 *   message. NOT_SENT carries why in `line`, and in `status` when an HTTP status was the reason.
 *   CLOSED comes only after stop and kill.
 * - The session id and the revision are learned from the answer to `initialize` as it passes. While
 *   a greeting (`initialize`, `notifications/initialized`) is under way, later requests and
 *   notifications wait for it: on HTTP they could overtake it.
 * - A session is lost by a 404, and by a 400 that names no request, where nothing else is in flight
 *   in it and it had worked before or says so again (session.c). The refused request is not sent
 *   again for it.
 * - After `notifications/initialized` was accepted, the stream for what the server says unasked is
 *   opened, unless the server will have none. Its messages have tag 0.
 * - A request's stream that ends without the answer is taken up again by GET when it had event ids,
 *   whether the server ended it politely or the network did; without ids the answer is lost.
 * - A message that came over several lines is delivered as one.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_HTTP_CLIENT_H
#define HX_ADAPTER_HTTP_CLIENT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "loop/loop.h"
#include "port/peer.h"
#include "wire/mcp.h"

/* All pointers are borrowed as long as the client lives. */
struct hx_http_client_options {
    const char *url;               /* http or https */
    const char *proxy;             /* NULL: as the environment says; "": none */
    const char *ca_file;           /* PEM; NULL: the system's */
    const char *cert_file;         /* PEM, of our own; NULL: none */
    const char *key_file;          /* PEM; NULL: in cert_file */
    const char *const *headers;    /* "Name: value" for every request; NULL, or ended by NULL */
    const char *headers_file;      /* more of them, read again when it changes; NULL: none */
    enum hx_mcp_revision revision; /* UNKNOWN: what `initialize` agrees on */
    size_t message_max_bytes;
    unsigned exchanges_max;       /* requests at once; more wait, but nothing else does */
    int64_t queue_timeout_ms;     /* for so long; then they are not sent */
    unsigned resume_failures_max; /* in a row, until an answer is given up */
    int64_t connect_timeout_ms;
    int64_t stall_timeout_ms;
    int64_t idle_connection_ms; /* older idle connections are not used again */
    int64_t retry_ms;           /* before a stream is taken up again, if the server names no time */
    int64_t retry_max_ms;       /* after repeated failures */
    int64_t linger_ms;          /* how long a stream may stay open behind its answer */
    int64_t stop_grace_ms;      /* how long stop lets answers come */
    int64_t answer_grace_ms;    /* apart: for the answer to a POST that ended without a word */
    bool has_short_way;         /* where it can be taken (direct.h) */
    bool is_apart;              /* the transport of 2024-11-05 (apart.c) */
    bool has_unasked_stream;
    bool says_goodbye; /* DELETE of the session at stop */
};

/* For metrics and tests. */
struct hx_http_client_counters {
    uint64_t reconnects; /* messages begun again, not one byte of them having been handed out */
    uint64_t resumes;    /* GETs that take up a request's stream */
    uint64_t unasked_gets;
    uint64_t sessions_lost;
    uint64_t begun_twice_refused; /* times the library was kept from sending a message again */
};

struct hx_http_client_options hx_http_client_defaults(void);
/* 0; or a fault for a URL, a header or a file that cannot be used. */
int hx_http_client_new(struct hx_loop *loop, struct hx_list *inbox,
                       const struct hx_http_client_options *options,
                       struct hx_upstream **ret_upstream) HX_MUST_CHECK;
/* Closes what is open and tells no fates. Accepts NULL; returns NULL. */
struct hx_upstream *hx_http_client_free(struct hx_upstream *upstream);
struct hx_http_client_counters hx_http_client_counters(struct hx_upstream *upstream);

#endif
