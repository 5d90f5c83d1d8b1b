/* SPDX-License-Identifier: MIT */
/*
 * What the files of this adapter share.
 *
 *                 ┌────────────── next request ──────────────┐
 *                 ▼                                          │
 *     accept ─► HEAD ─► BODY ─► WAITING ── answer ───────► FLUSHING ─► LINGER ─► closed
 *                 │       │        └─ stream_begin ► STREAMING ─┘ stream_end   ▲
 *                 └───────┴──────────── refused ──────────► FLUSHING ──────────┘
 *
 *  - HEAD, BODY: input is read. With nothing received in HEAD the connection is idle, and in the
 *    list of those.
 *  - WAITING, STREAMING: the engine holds the exchange. Input is not read, so that one client
 *    cannot pile up requests; but the descriptor is watched for edges, and each one makes us ask
 *    whether the client is there, also when unread requests stand before its end of file.
 *  - FLUSHING: the answer is whole in `out`; when the kernel has taken it the exchange is over.
 *  - LINGER: we sent our end of file and throw away what still comes, so that no reset overtakes
 *    the answer.
 *
 * The descriptor is watched once, for edges of both kinds, from accept to close. `is_readable`
 * remembers an edge that was not used up.
 *
 * A closed connection is freed at the end of the callback or operation that closed it, by
 * server_reap(), so no function here holds a pointer to freed memory.
 */
#ifndef HX_ADAPTER_HTTP_SERVER_INTERNAL_H
#define HX_ADAPTER_HTTP_SERVER_INTERNAL_H

#include "adapter/http_server/http_server.h"
#include "adapter/http_server/receipts.h"
#include "base/list.h"
#include "loop/outgoing.h"
#include "loop/tls.h"
#include "wire/chunked.h"
#include "wire/http1.h"

enum {
    SCRATCH_BYTES = 64 * 1024, /* one read */
    READS_PER_TURN = 4,        /* one connection's share */
    ACCEPTS_PER_TURN = 64,
    SLOT_BITS = 20 /* of an exchange number; the rest counts */
};

enum conn_state {
    CONN_HANDSHAKE, /* TLS; then HEAD */
    CONN_HEAD,
    CONN_BODY,
    CONN_WAITING,
    CONN_STREAMING,
    CONN_FLUSHING,
    CONN_LINGER,
    CONN_CLOSED
};

struct server;

struct conn {
    struct hx_list node;  /* in server->conns, or ->dead */
    struct hx_list idle;  /* in server->idle, oldest first */
    struct hx_list again; /* in server->again: its share of a turn was used up */
    struct server *server;
    struct hx_loop_fd *watch;
    struct hx_loop_timer *timer;
    struct hx_mono timer_at; /* what `timer` is set to */
    struct hx_mono deadline; /* INT64_MAX = none; the timer may be earlier and is then set anew */
    struct hx_tls *tls;      /* NULL = plain */
    uint64_t number;
    uint64_t exchange; /* 0 = none */
    struct hx_buf in;  /* received, not used: from in_offset on */
    size_t in_offset;
    struct hx_http1_scan scan;
    struct hx_web_request *request; /* being assembled */
    struct hx_chunked chunked;
    uint64_t body_left; /* without chunks */
    struct hx_mono body_started;
    struct hx_mono flush_end; /* by then the answer must have been read */
    struct hx_outgoing out;
    struct hx_web_receipts receipts;
    int fd;
    uint32_t slot;
    enum conn_state state;
    bool is_local;
    bool is_readable;
    bool is_ahead;      /* what comes next was sent before the last answer could be read */
    bool is_keep_alive; /* what the request wants, and we have not refused */
    bool is_minor_0;    /* HTTP/1.0 */
    bool is_head_only;  /* HEAD: bodies are not sent */
    bool is_chunked_in;
    bool is_chunked_out;
    bool is_blocked; /* the kernel did not take all that is in `out` */
    bool is_shut;    /* our end of file is sent */
    char peer[64];
};

struct listener {
    struct hx_list node; /* in server->listeners */
    struct server *server;
    struct hx_loop_fd *watch;
    int fd;
    bool is_local;
    char *path; /* of a Unix socket that is ours to remove, owned; NULL = none */
    uint64_t device;
    uint64_t inode;
};

struct server {
    struct hx_web web;
    struct hx_loop *loop;
    struct hx_http_server_options options;
    struct hx_http1_limits limits;
    struct hx_tls_server *tls; /* owned; NULL = plain */
    struct hx_list listeners;
    struct hx_list conns;
    struct hx_list idle;
    struct hx_list again;
    struct hx_list dead;
    struct hx_loop_timer *again_timer;
    struct hx_loop_timer
        *accept_timer;    /* when to try again after the process ran out of something */
    struct conn **slots;  /* owned, connections_max of them */
    uint32_t *free_slots; /* owned, a stack */
    uint32_t free_slot_count;
    uint32_t conn_count;
    uint64_t last_number;            /* of connections and exchanges */
    uint64_t body_bytes;             /* of bodies being assembled */
    struct hx_http1_header *headers; /* owned; for the head being read */
    char *scratch;                   /* owned */
    bool is_held;
    bool is_draining;
    bool is_drained_told;
};

/* http_server.c */
void server_reap(struct server *server);
struct hx_web_event *server_event(struct server *server, enum hx_web_event_type type);

/* listener.c */
int listener_add(struct server *server, int fd, bool is_local, const char *path);
void listeners_close(struct server *server);
/* Accepts or rests, as the state of the server wants it. */
void listeners_update(struct server *server);

/* conn.c: the life of a connection */
void conn_open(struct server *server, int fd, bool is_local, struct hx_tls *tls, const char *peer);
/* Does what can be done now. */
void conn_drive(struct conn *conn);
void conn_deadline(struct conn *conn, int64_t after_ms); /* < 0: none */
/* The exchange is over, its answer is with the kernel. */
void conn_next_request(struct conn *conn);
void conn_linger(struct conn *conn);
/* Settles fates and closes. */
void conn_gone(struct conn *conn, enum hx_web_gone reason);
/* True, with the reason, when nobody reads what we would write; asks the kernel. */
bool conn_is_gone(struct conn *conn, enum hx_web_gone *ret_reason);
/* Something of the client's is in the kernel, not read yet. */
bool conn_has_input(const struct conn *conn);
void conn_free(struct conn *conn);

/* intake.c: bytes to requests */
void intake_bytes(struct conn *conn, struct hx_span bytes);
/* Goes on with what is here already. */
void intake_resume(struct conn *conn);
void intake_drop(struct conn *conn);

/* answer.c: answers to bytes */
void answer_refuse(struct conn *conn, uint32_t status, const char *sentence);
void answer_continue(struct conn *conn);
void answer_write(struct conn *conn);
void answer_ping(struct conn *conn);
void answer_fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate);
extern const struct hx_web_ops answer_ops;

#endif
