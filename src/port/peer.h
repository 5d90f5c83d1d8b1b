/* SPDX-License-Identifier: MIT */
/*
 * The two sides of a gateway as it sees them: an upstream (the tool server) and a downstream (the
 * client). Adapters implement these tables and append events to the inbox they were given; they
 * never call back. The simulator is another pair of adapters.
 *
 * Messages are whole lines without their newline. `tag` names one message written by us; every tag
 * handed to `send` ends in exactly one of WRITTEN, NOT_SENT or CUT.
 *
 * Several upstreams, or several downstreams, may share one inbox: each event names its peer.
 *
 * Some transports (HTTP) make an exchange of its own of every message. There "the kernel accepted"
 * reads "was handed out by us", and a *request* of which anything was sent ends, after or before
 * its fate, in exactly one of: a MESSAGE or OVERSIZE with `is_answer`, ANSWER_LOST, REJECTED;
 * unless it was dropped, which is followed by nothing but its fate.
 *
 * Threads: everything here belongs to the loop thread.
 */
#ifndef HX_PORT_PEER_H
#define HX_PORT_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/span.h"

enum hx_peer_event_type {
    /* Both sides. */
    HX_PEER_MESSAGE,  /* `line` holds one line, maybe empty, UTF-8 not checked, no newline. The last
                         one may have lacked its newline. */
    HX_PEER_OVERSIZE, /* a line over message_max was skipped: `line` = the raw top-level "id" member
                         if one was found (else empty), `size` its length, `digest_hex` over its
                         bytes, `has_...` the other members of that level */
    HX_PEER_WRITTEN,  /* the kernel accepted the last byte of message `tag` */
    HX_PEER_NOT_SENT, /* not one byte of message `tag` left, and none ever will */
    HX_PEER_CUT,      /* message `tag` left in part, or wholly without its newline */

    /* Upstream only. */
    HX_PEER_FIRST_BYTE, /* the kernel accepted at least one byte of message `tag` */
    HX_PEER_STARTED,    /* the process runs; its pipes are open */
    HX_PEER_STALLED,    /* no byte accepted for stall_timeout with message `tag` half written */
    HX_PEER_CLOSED,     /* transport gone for good and the process group with it: `status`,
                           `stderr_tail`. Comes after the last MESSAGE and the fate of every tag. */
    HX_PEER_STDERR,     /* `line` holds one line of the child's standard error */

    /* Upstream only, and only of transports with exchanges. */
    HX_PEER_ANSWER_LOST,  /* request `tag` may have acted, and its answer will not come: `loss`,
                            `status` the HTTP status or 0, `line` what a person may want to read */
    HX_PEER_REJECTED,     /* message `tag` was refused before it was dispatched: `status`,
                            `retry_after_ms`, `challenge`, `line` the start of the body */
    HX_PEER_SESSION_LOST, /* the server has forgotten the session (and REJECTED what told us):
                             nothing more is sent in this generation. What is in flight goes on.
                             Start the next generation, or stop or kill this one. The next one
                             may also be started when the greeting of this one came to nothing. */
    HX_PEER_RESUME_POINT, /* `line` is what `resume` would need to wait on for the answer to `tag`
                             if this process ended now; it replaces an earlier one */

    /* Downstream only. */
    HX_PEER_END_OF_INPUT, /* orderly end of the client's requests */
    HX_PEER_TAKEN_BACK,   /* message `tag` was WRITTEN; its reader closed with it (partly) unread.
                             Comes also when its downstream is over by then, and has none then */
    HX_PEER_READER_GONE,  /* nothing written from now on can be read */
    HX_PEER_FRONT_GONE,   /* the process that the client started is dead */
    HX_PEER_ENDED,        /* the client has ended its session; nothing can be read any more */

    /* Downstream only, and only of transports with exchanges. */
    /* Nobody reads the answer on `exchange`, and nobody can come back for it. It is no cancel.
     * Comes after the fates of what was sent on it. */
    HX_PEER_EXCHANGE_GONE,
    /* On `exchange` somebody waits for the answer that was to come on the stream named `line`,
     * which this process does not know: answer or settle it. */
    HX_PEER_RESUME
};

/* Why an answer is lost. None of them says whether the request has acted. */
enum hx_peer_loss {
    HX_PEER_LOSS_NONE,
    HX_PEER_LOSS_CONNECTION, /* cut or ended before the answer was whole */
    HX_PEER_LOSS_STATUS,     /* an HTTP status that proves nothing: 5xx, a redirect, ... */
    HX_PEER_LOSS_UNREADABLE, /* what came is no JSON-RPC message */
    HX_PEER_LOSS_NO_ANSWER,  /* the reply ended in order, and the answer was not in it */
    HX_PEER_LOSS_RESUME,     /* its stream could not be taken up again */
    HX_PEER_LOSS_STALLED,    /* no byte accepted for stall_timeout with the request half written */
    HX_PEER_LOSS_STOPPED     /* we stopped waiting: stop or kill, or it gave way */
};

struct hx_upstream;
struct hx_downstream;

struct hx_peer_event {
    struct hx_list node;
    enum hx_peer_event_type type;
    struct hx_upstream *upstream;     /* whose event this is: one of these two, */
    struct hx_downstream *downstream; /* set by the adapter */
    uint64_t
        exchange; /* downstream MESSAGE, OVERSIZE, EXCHANGE_GONE, RESUME: what answers refer to;
                          0 = a transport without exchanges */
    uint32_t generation; /* of the upstream process that it came from; 0 for a downstream */
    uint64_t tag; /* of a MESSAGE or OVERSIZE: the request on whose exchange it came, 0 = none */
    uint64_t size;
    char digest_hex[65];
    bool is_answer;  /* MESSAGE, OVERSIZE: this is the answer to request `tag` */
    bool has_method; /* OVERSIZE */
    bool has_result;
    bool has_error;
    enum hx_peer_loss loss;
    int status;                /* CLOSED: wait status; -errno when it could not be started */
    int64_t retry_after_ms;    /* REJECTED: what the server asked for; 0 = nothing */
    bool is_refused;           /* OVERSIZE: it may be short, and there was no memory for it */
    struct hx_buf line;        /* owned by the event */
    struct hx_buf stderr_tail; /* CLOSED: the last lines of standard error, owned by the event */
    struct hx_buf challenge;   /* REJECTED: WWW-Authenticate, owned by the event */
    struct hx_buf key;         /* downstream MESSAGE: the header Idempotency-Key as it came */
    uint32_t key_count;        /* how often it stood there; 0 without headers */
};

struct hx_peer_event *hx_peer_event_new(enum hx_peer_event_type type, uint32_t generation);
struct hx_peer_event *hx_peer_event_free(struct hx_peer_event *event);

struct hx_upstream_ops {
    /* Starts generation `generation`. STARTED, or CLOSED when it cannot be started. */
    void (*start)(struct hx_upstream *upstream, uint32_t generation);
    /* Takes the content of `line` (a newline is added) and writes it in order. Before STARTED or
     * after CLOSED the answer is NOT_SENT. */
    void (*send)(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag);
    /* Closes its input, and after the grace periods ends it with TERM and KILL. CLOSED follows. */
    void (*stop)(struct hx_upstream *upstream);
    /* Ends it now, group and descendants. CLOSED follows. */
    void (*kill)(struct hx_upstream *upstream);
    /* Back-pressure: while held, nothing is read from its output. */
    void (*hold)(struct hx_upstream *upstream, bool is_held);
    /* Names the transport for others on this host (who may ask whether it is gone): a short text
     * that goes into the ledger, empty when there is none. Valid until the next start. Not asked
     * for where there are exchanges: these are gone with their process, which has a name. */
    const char *(*transport_name)(struct hx_upstream *upstream);

    /* What only transports with exchanges have; NULL elsewhere. */

    /* As send, with more headers: lines of "Name: value", each ended by a newline. Borrowed. */
    void (*send_with)(struct hx_upstream *upstream, struct hx_buf *line, struct hx_span headers,
                      uint64_t tag);
    /* Nobody waits for request `tag` any more: its exchange is closed, the others go on. */
    void (*drop)(struct hx_upstream *upstream, uint64_t tag);
    /* Nobody waits for request `tag` now, and its answer is welcome all the same: when others need
     * its place it is given up, the oldest first. Then the answer is lost (STOPPED); of one that
     * has not begun, NOT_SENT is told at once. */
    void (*give_way)(struct hx_upstream *upstream, uint64_t tag);
    /* Waits on for an answer that a RESUME_POINT, perhaps of an earlier process, tells of, under
     * this tag. Ends as a request does; there is no fate. The answer carries the id it had then. */
    void (*resume)(struct hx_upstream *upstream, struct hx_span text, uint64_t tag);
};

struct hx_upstream {
    const struct hx_upstream_ops *ops;
    struct hx_list *inbox; /* of struct hx_peer_event */
    void *owner;           /* the engine's own */
};

enum hx_sending_kind {
    HX_SENDING_ANSWER, /* the answer to what came on `exchange`, which ends with it */
    HX_SENDING_FAULT,  /* the same, and what came was no message of JSON-RPC */
    HX_SENDING_ASIDE   /* a request or notification that belongs to `exchange`, or to none: 0 */
};

struct hx_sending {
    uint64_t tag; /* comes back with its fate; 0 = nobody asks */
    uint64_t exchange;
    enum hx_sending_kind kind;
};

/* What becomes of an exchange that gets no answer. */
enum hx_settling {
    HX_SETTLING_TAKEN,     /* it held no request: notifications, answers */
    HX_SETTLING_NO_STREAM, /* RESUME: no such stream is known */
    HX_SETTLING_UNREAD     /* its session had ended before it was read: nothing came of it */
};

struct hx_downstream_ops {
    /* Takes the content of `line` (a newline is added). */
    void (*send)(struct hx_downstream *downstream, struct hx_buf *line,
                 const struct hx_sending *sending);
    /* Bytes accepted from us but not yet by the kernel. */
    uint64_t (*queued_bytes)(struct hx_downstream *downstream);
    /* True when an answer written now (on `exchange`, where there are such) could still be read:
     * asks the descriptors at this moment. */
    bool (*is_reader_alive)(struct hx_downstream *downstream, uint64_t exchange);
    /* Back-pressure: while held, no request is read. */
    void (*hold)(struct hx_downstream *downstream, bool is_held);
    /* Closes both directions at once, so that the client sees the end. Unsent tags get
     * NOT_SENT/CUT. */
    void (*close)(struct hx_downstream *downstream);

    /* What only transports with exchanges have; NULL elsewhere. */

    void (*settle)(struct hx_downstream *downstream, uint64_t exchange, enum hx_settling settling);
    /* The name under which a client that lost its connection can ask for the answer on `exchange`
     * again; absent when it cannot. Valid until the next call. */
    struct hx_span (*stream_name)(struct hx_downstream *downstream, uint64_t exchange);
    /* That name is kept in the ledger now: the client may be told. */
    void (*stream_kept)(struct hx_downstream *downstream, uint64_t exchange);
};

struct hx_downstream {
    const struct hx_downstream_ops *ops;
    struct hx_list *inbox; /* of struct hx_peer_event */
    void *owner;           /* the engine's own */
};

#endif
