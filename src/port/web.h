/* SPDX-License-Identifier: MIT */
/*
 * HTTP in front, as the engine sees it: whole requests come in as events, answers go out by
 * operations, and what became of each answer comes back as an event. The adapter never calls up.
 *
 * An exchange is one request and its answer. Its number is never used again; an operation on an
 * exchange that is over does nothing, except that its tag gets NOT_SENT. So nobody has to race a
 * client that leaves.
 *
 *     REQUEST 7 ──► answer(7, …, tag)                        ──► WRITTEN tag
 *             ──► stream_begin(7), stream_event(7, …, tag)…, stream_end(7)
 *             ──► CLIENT_GONE 7: nobody reads the answer any more. Until answer or stream_end was
 *                 called, a client that leaves is told once by this event, at once, in every state.
 *
 * The fates of a tag are those of port/peer.h: first one of WRITTEN (the kernel took the last
 * byte), NOT_SENT (not one byte left, none will) or CUT (something in between); after WRITTEN
 * perhaps TAKEN_BACK (the client left with it unread, as far as the kernel can tell). Tag 0 asks
 * for none. The order at the end of a client: fates of what was not written, TAKEN_BACK,
 * CLIENT_GONE.
 *
 * A client that only half-closes has left: nobody who waits for an answer does that, and a dead one
 * looks the same. Requests of one connection are handed over one at a time, so answers cannot get
 * out of order; the next one waits until its predecessor's answer is written.
 *
 * Threads: everything here belongs to the loop thread.
 */
#ifndef HX_PORT_WEB_H
#define HX_PORT_WEB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/span.h"

enum hx_web_event_type {
    HX_WEB_REQUEST,     /* `request` of exchange `exchange` is whole */
    HX_WEB_CLIENT_GONE, /* of exchange `exchange`, with `gone` */
    HX_WEB_WRITTEN,     /* `tag` */
    HX_WEB_NOT_SENT,
    HX_WEB_CUT,
    HX_WEB_TAKEN_BACK,
    HX_WEB_DRAINED /* after drain: no connection is left */
};

/* Why a client is gone. For the log and the counters; the consequence is the same. */
enum hx_web_gone {
    HX_WEB_GONE_CLOSED, /* it closed, or half-closed */
    HX_WEB_GONE_RESET,  /* it died, or the network says so */
    HX_WEB_GONE_SLOW,   /* it read nothing for write_timeout, or let more than queue_max pile up */
    HX_WEB_GONE_OURS    /* we closed: close(), or a refused operation */
};

struct hx_web_header {
    struct hx_span name;
    struct hx_span value;
};

/* A request whose framing is beyond doubt. Of anything else nothing is said: repeated headers are
 * all there, paths are as they came, a body may come with any method. */
struct hx_web_request {
    struct hx_span method;
    struct hx_span target;
    struct hx_span path;
    struct hx_span query; /* absent without "?" */
    struct hx_span host;  /* absent only in HTTP/1.0 */
    uint32_t version_minor;
    struct hx_web_header *headers; /* in order, owned */
    uint32_t header_count;
    struct hx_buf head; /* what the spans point into */
    struct hx_buf body; /* without its framing; may be taken */
    bool is_local;      /* it came by a Unix socket */
    bool is_secure;     /* by TLS */
    char peer[64];      /* "127.0.0.1:40404", "[::1]:40404", "unix"; for the log */
};

struct hx_web_event {
    struct hx_list node;
    enum hx_web_event_type type;
    uint64_t connection; /* REQUEST: equal for the requests of one connection, never used again */
    uint64_t exchange;
    uint64_t tag;
    enum hx_web_gone gone;
    struct hx_web_request *request; /* REQUEST: owned by the event, unless taken and set to NULL */
};

struct hx_web_event *hx_web_event_new(enum hx_web_event_type type);
struct hx_web_event *hx_web_event_free(struct hx_web_event *event);
struct hx_web_request *hx_web_request_new(size_t head_max, size_t body_max);
struct hx_web_request *hx_web_request_free(struct hx_web_request *request);
/* The first header of that name in any letter case; absent when there is none. */
struct hx_span hx_web_request_find(const struct hx_web_request *request, const char *name);
uint32_t hx_web_request_count(const struct hx_web_request *request, const char *name);

/* The head of an answer. Framing and connection headers (Content-Length, Transfer-Encoding,
 * Connection) are the adapter's. Names and values must be fit for HTTP: made by us, or come
 * through a request; asserted. */
struct hx_web_answer {
    uint32_t status;
    const struct hx_web_header *headers; /* borrowed until the operation returns */
    uint32_t header_count;
    bool close; /* end the connection after this answer */
};

struct hx_web;

struct hx_web_ops {
    /* The whole answer; takes the content of `body`, NULL = none. Once per exchange, and not after
     * stream_begin. For HEAD the body is measured and not sent. */
    void (*answer)(struct hx_web *web, uint64_t exchange, const struct hx_web_answer *answer,
                   struct hx_buf *body, uint64_t tag);
    /* An answer in pieces, as they come; its head leaves at once. */
    void (*stream_begin)(struct hx_web *web, uint64_t exchange, const struct hx_web_answer *answer);
    /* Takes the content of `bytes`, not empty: whole events of an event stream. When more than
     * queue_max waits already, the client is too slow and is cut off: NOT_SENT, CLIENT_GONE. */
    void (*stream_event)(struct hx_web *web, uint64_t exchange, struct hx_buf *bytes, uint64_t tag);
    /* Nothing more comes. The connection goes on with its next request. */
    void (*stream_end)(struct hx_web *web, uint64_t exchange);
    /* Bytes accepted from us but not yet by the kernel; 0 for an exchange that is over. */
    uint64_t (*queued_bytes)(struct hx_web *web, uint64_t exchange);
    /* True when an answer written now could still be read: asks the descriptor at this moment. */
    bool (*is_alive)(struct hx_web *web, uint64_t exchange);
    /* Cuts this client off. CLIENT_GONE follows, with GONE_OURS. */
    void (*cut)(struct hx_web *web, uint64_t exchange);
    /* Back-pressure: while held, no connection is accepted and no request is read. Clients that
     * leave are still noticed. */
    void (*hold)(struct hx_web *web, bool is_held);
    /* Takes no new connection and no new request, lets answers go out, closes what is idle.
     * DRAINED follows when all is gone; streams must be ended for that. */
    void (*drain)(struct hx_web *web);
    /* Closes everything now. Fates and CLIENT_GONE are told. */
    void (*close)(struct hx_web *web);
};

struct hx_web {
    const struct hx_web_ops *ops;
    struct hx_list *inbox; /* of struct hx_web_event */
};

#endif
