/* SPDX-License-Identifier: MIT */
/*
 * MCP's Streamable HTTP in front: sessions, streams and answers on top of port/web.h. A session is
 * a downstream, as a pair of pipes is one in stdio_front; all of them share one inbox.
 *
 *     struct hx_http_front *front = hx_http_front_new(loop, web, &options);
 *     each turn: hx_http_front_turn(front);      takes the web's events and appends to two inboxes:
 *         of peer events, for the engine: MESSAGE, WRITTEN, EXCHANGE_GONE, RESUME, ENDED ...
 *         of front events, for the application, which takes these first:
 *             SESSION_NEW     a client wants to begin: make an engine session of `downstream`
 *             SESSION_ASKED   a session that this process does not know: look in the ledger, then
 *                             hx_http_front_adopt or hx_http_front_refuse
 *             OTHER           a path outside `mcp_path`: answer `exchange` through the web port,
 *                             with tag 0
 *     when the engine is done with a session: hx_http_front_forget(front, downstream)
 *     before the loop waits, turn until nothing comes: an answer may have its fate at once.
 *
 * Refused here, without asking the engine: path, method, Origin, Host, credentials, Accept,
 * Content-Type, MCP-Protocol-Version, the session of another principal.
 *
 * The answer to `initialize` carries the session's id; the engine sends it only when the session
 * stands in the ledger. A message leaves as JSON or as an event stream, by need.
 *
 * What is worth knowing beyond port/peer.h:
 *
 *  - A body is handed on with line ends between its tokens made spaces: the engine may cut it up
 *    and pass the pieces on as lines.
 *  - A client that was told an event id can come back for a stream (GET with Last-Event-ID); then a
 *    message that it may not have is written again. Its fate waits for that, or for stream_keep_ms.
 *    A message that was TAKEN_BACK and is written to a client that came back is WRITTEN once more.
 *  - Ids are told at once, unless the engine asks for `stream_name` when it gets the message: then
 *    only after `stream_kept`, so that nobody comes back for what a crash has forgotten.
 *  - An ASIDE without an open exchange goes to the session's GET stream, else to a POST stream that
 *    is open, else it waits in a queue. A request that waits longer than `queue_wait_ms` is told
 *    NOT_SENT: a client that takes JSON only may never open a stream.
 *  - ENDED comes for DELETE, and for a session whose `initialize` was answered with an error, or
 *    whose client left before that answer. No message of it comes after; forget it.
 *
 * Threads: everything here belongs to the loop thread.
 */
#ifndef HX_ADAPTER_HTTP_FRONT_H
#define HX_ADAPTER_HTTP_FRONT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "loop/loop.h"
#include "port/clock.h"
#include "port/peer.h"
#include "port/rand.h"
#include "port/web.h"

/* Who speaks. The spans live as long as the front. */
struct hx_http_caller {
    struct hx_span tenant;
    struct hx_span principal;
    const void *context; /* the application's own */
};

enum hx_http_front_event_type {
    HX_HTTP_FRONT_SESSION_NEW,
    HX_HTTP_FRONT_SESSION_ASKED,
    HX_HTTP_FRONT_OTHER
};

struct hx_http_front_event {
    struct hx_list node;
    enum hx_http_front_event_type type;
    struct hx_downstream *downstream; /* SESSION_NEW */
    uint64_t ticket;                  /* SESSION_ASKED */
    struct hx_digest session;         /* of the session's id: what the ledger knows it by */
    uint32_t endpoint;                /* as find_endpoint said */
    struct hx_http_caller caller;
    uint64_t exchange;              /* OTHER */
    struct hx_web_request *request; /* OTHER: owned by the event */
};

struct hx_http_front_options {
    struct hx_clock *clock;
    struct hx_rand *rand;
    struct hx_list *peer_inbox;  /* of struct hx_peer_event */
    struct hx_list *front_inbox; /* of struct hx_http_front_event */
    const char *mcp_path;        /* endpoints are at this path and below it; the rest is OTHER */
    const char *challenge;       /* WWW-Authenticate of a 401 */
    const char *const *origins;  /* allowed besides those of this host; NULL-terminated, or NULL */
    const char *const *hosts; /* allowed besides localhost and addresses of loopback; "*" = all */
    size_t message_max_bytes;
    uint32_t sessions_max;
    uint32_t sessions_per_principal_max;
    uint32_t queue_messages_max;  /* kept for a session's next stream */
    int64_t queue_wait_ms;        /* a request waits for that stream as long */
    int64_t stream_after_ms;      /* an answer that takes longer comes as an event stream */
    int64_t stream_keep_ms;       /* events kept for a client that lost its stream */
    size_t stream_keep_bytes_max; /* of all streams of a session together */
    int64_t retry_ms;             /* told to clients: when to come back to a stream */
    int64_t taken_back_within_ms; /* the web's own, or more */
    /* Who has this Authorization header (absent = none)? False: 401 with `WWW-Authenticate`. */
    bool (*authenticate)(void *context, struct hx_span authorization, bool is_local,
                         struct hx_http_caller *ret_caller);
    /* Which endpoint is at this path, and may this caller use it? <0: 404. */
    int (*find_endpoint)(void *context, struct hx_span path, const struct hx_http_caller *caller);
    void *context;
};

struct hx_http_front;

struct hx_http_front_options hx_http_front_defaults(void);
struct hx_http_front *hx_http_front_new(struct hx_loop *loop, struct hx_web *web,
                                        const struct hx_http_front_options *options);
/* Accepts NULL. Sessions that were not forgotten are freed; the web must be there still. */
struct hx_http_front *hx_http_front_free(struct hx_http_front *front);

/* Takes everything that the web port has said. True when there was anything. */
bool hx_http_front_turn(struct hx_http_front *front);

/* The session that was asked for stands in the ledger: requests that waited for it go on, as
 * messages of the downstream that is returned. `revision` is what its handshake agreed on. NULL
 * when it is here by now, by another ticket. */
struct hx_downstream *hx_http_front_adopt(struct hx_http_front *front, uint64_t ticket,
                                          struct hx_span revision);
/* There is none: 404. `reason` NULL, or a sentence for 503: the ledger could not be asked, or
 * nothing new is begun any more. */
void hx_http_front_refuse(struct hx_http_front *front, uint64_t ticket, const char *reason);
/* Whoever gave tags to the messages of a session, before it is forgotten, goes away: what may still
 * be taken back is from now on told by the tags that `tags_of` names in place of each. */
typedef size_t hx_http_front_tags_of(void *context, uint64_t tag, uint64_t *ret_tags, size_t max);
void hx_http_front_retag(struct hx_downstream *downstream, hx_http_front_tags_of *tags_of,
                         void *context);
/* The engine is done with it. What may be taken back of its messages is told after it, too, in
 * `peer_inbox` and of no downstream. Its streams end; `is_over`: its id is worth nothing any more
 * (else a later request asks for it again). */
void hx_http_front_forget(struct hx_http_front *front, struct hx_downstream *downstream,
                          bool is_over);
/* Ends every stream in order, so that the web can drain. */
void hx_http_front_drain(struct hx_http_front *front);
/* The web has said that no connection is left. */
bool hx_http_front_is_drained(const struct hx_http_front *front);

/* What was refused or dropped, for metrics. */
struct hx_http_front_counts {
    uint64_t refused;               /* requests answered here with 4xx or 5xx */
    uint64_t dropped_notifications; /* from a full queue */
    uint64_t dropped_requests;      /* the same; each was told NOT_SENT */
    uint64_t dropped_events;        /* kept ones, over stream_keep_bytes_max */
    uint64_t resumed;               /* streams that a client came back for, known here */
    uint64_t resumes_asked;         /* the same, put to the engine */
    uint64_t sessions;              /* now */
    uint64_t streams;               /* now, of all kinds */
};
struct hx_http_front_counts hx_http_front_counts(const struct hx_http_front *front);

struct hx_http_front_event *hx_http_front_event_free(struct hx_http_front_event *event);

/* When a message of it last came, for ending what is idle. */
struct hx_mono hx_http_front_last_seen(const struct hx_downstream *downstream);
/* True while a stream or an exchange of it is open. */
bool hx_http_front_is_busy(const struct hx_downstream *downstream);
/* True while somebody waits for an answer, or may come back for one. */
bool hx_http_front_is_awaited(const struct hx_downstream *downstream);

#endif
