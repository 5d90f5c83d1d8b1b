/* SPDX-License-Identifier: MIT */
/*
 * What the files of this adapter share.
 *
 * A stream is one exchange of the engine's: a POST, a GET that listens, or a GET that asks for the
 * answer of a stream which only the ledger knows. Its number is that of the HTTP exchange that it
 * came on, and stays the same when the client comes back for it on another.
 *
 *     POST, RESUME                                            ┌────── client back ─────┐
 *     ─► PARKED ─► HELD ─► WAITING ── first event, or late ─► STREAMING ── client left ─► AWAY
 *      ledger is   session   │  │                               │ answer                 │
 *      asked       is held   │  └─ answer as JSON ─► freed      ▼                        │
 *                            └─ client left ─► freed          ENDED ◄──── answer ────────┘
 *     GET ─► STREAMING                                          └─ kept for stream_keep_ms ─► freed
 *
 *  - PARKED, HELD: the request is ours still, and the engine knows nothing of it.
 *  - WAITING: the engine has the message, and nothing was sent.
 *  - STREAMING: the head of an event stream is sent, and somebody reads, as far as we know.
 *  - AWAY: nobody is there, but the client was told an id and may come back.
 *  - ENDED: all was said. Kept only where a client may come back for the end of it.
 *
 * A sending is a message whose fate the engine wants to know. It outlives its stream: what the
 * kernel took can be taken back for a while.
 */
#ifndef HX_ADAPTER_HTTP_FRONT_INTERNAL_H
#define HX_ADAPTER_HTTP_FRONT_INTERNAL_H

#include "adapter/http_front/headers.h"
#include "adapter/http_front/http_front.h"
#include "base/arena.h"
#include "base/map.h"
#include "wire/mcp.h"
#include "json/tape.h"

enum {
    SESSION_MAGIC = 0x48584653,
    RANDOM_BYTES = 32,        /* of a session's id */
    SESSION_ID_SIZE = 65,     /* in hex, with NUL */
    PROCESS_BYTES = 8,        /* in the names of streams */
    STREAM_NAME_SIZE = 40,    /* with NUL */
    OVER_COUNT = 256,         /* ids that are remembered as worthless */
    TOLD_MAX = 8192,          /* messages that may be taken back; the oldest are forgotten */
    TICKETS_MAX = 1024,       /* questions to the ledger at one time */
    EVENT_OVERHEAD = 256,     /* around the data of an event */
    BODY_MAX = 1 << 30,       /* of an answer: its real maximum is the engine's */
    RPC_TOKENS_MAX = 1 << 16, /* of a message that is looked at here */
    TAPE_KEPT = 1024,
    ARENA_MAX = 1 << 20
};

enum stream_kind { STREAM_POST, STREAM_GET, STREAM_RESUME, STREAM_DELETE };

enum stream_state {
    STREAM_PARKED,
    STREAM_HELD,
    STREAM_WAITING,
    STREAM_STREAMING,
    STREAM_AWAY,
    STREAM_ENDED
};

struct front;
struct session;
struct ticket;

struct sending {
    struct hx_map_node by_web_tag; /* while the web may say something of it */
    struct hx_list node;           /* in session->sendings, or ->written, or nowhere */
    struct hx_list told;           /* in front->told, oldest first: WRITTEN at told_at */
    struct hx_mono told_at;
    struct front *front;
    struct session *session; /* NULL: it is over, and this may still be taken back */
    struct event *event;     /* that it stands in, kept; NULL = none */
    uint64_t tag;            /* the engine's */
    uint64_t web_tag;
    uint64_t exchange; /* the engine's */
    uint64_t web;      /* the HTTP exchange that it was written to last */
    bool is_told;      /* WRITTEN was told, and not taken back */
    bool has_fate;     /* something was told */
    bool is_cut;       /* something of it left */
};

struct event {
    struct hx_list node; /* in stream->events */
    uint64_t number;     /* in its stream */
    struct hx_buf bytes; /* as it leaves, whole */
    struct hx_mono kept_at;
    struct sending *sending;
};

/* A message that waits for a stream. */
struct queued {
    struct hx_list node; /* in session->queue */
    struct hx_list due;  /* a request: in front->asking, oldest first */
    struct hx_mono due_at;
    struct session *session;
    struct hx_buf line;
    uint64_t tag;
    bool is_request;
};

struct stream {
    struct hx_map_node by_number; /* in front->streams */
    struct hx_map_node by_web;    /* in front->webs, while somebody is there */
    struct hx_list node;          /* in session->streams, ticket->parked, or nowhere */
    struct hx_list due;           /* in front->waiting or front->kept */
    struct hx_mono due_at;
    struct session *session;        /* NULL while parked */
    struct hx_web_request *request; /* PARKED, HELD: owned */
    struct hx_http_caller caller;   /* PARKED */
    char *origin;                   /* owned; NULL = no browser */
    struct hx_list events;          /* kept, oldest first */
    uint64_t number;
    uint64_t web; /* the HTTP exchange; 0 = nobody is there */
    uint64_t event_count;
    uint32_t endpoint;
    enum stream_kind kind;
    enum stream_state state;
    enum hx_mcp_revision revision;
    bool takes_json;
    bool takes_events;
    bool is_initialize;
    bool is_named;   /* the engine asked for its name: ids only when it is kept */
    bool is_kept;    /* the ledger has its name */
    bool is_told_id; /* the client has been told an id */
    bool is_told_retry;
    bool is_answered;
};

struct session {
    uint32_t magic;
    struct hx_downstream downstream;
    struct front *front;
    struct hx_map_node by_digest;
    struct hx_list node; /* in front->all */
    struct hx_digest digest;
    struct hx_http_caller caller;
    struct hx_list streams;  /* oldest first */
    struct hx_list over;     /* those that are ENDED */
    struct hx_list sendings; /* without a fate */
    struct hx_list written;  /* with one that may change */
    struct hx_list queue;
    struct stream *get; /* STREAMING or AWAY; NULL = none */
    char *id;           /* owned; until `initialize` is answered */
    size_t kept_bytes;  /* of events and the queue */
    struct hx_mono last_seen;
    enum hx_mcp_revision revision; /* UNKNOWN until the handshake is done */
    uint32_t endpoint;
    uint32_t queue_count;
    bool is_held;
    bool is_over;   /* ended by its client: nothing more is taken or sent */
    bool is_closed; /* by the engine: the same, but its id may be good elsewhere */
};

/* A session that the ledger is asked for, with the requests that wait for it. */
struct ticket {
    struct hx_list node; /* in front->tickets */
    struct hx_list parked;
    struct hx_digest digest;
    struct hx_http_caller caller;
    uint64_t number;
    uint32_t endpoint;
};

struct front {
    struct hx_loop *loop;
    struct hx_web *web;
    struct hx_http_front_options options;
    struct hx_http_front_counts counts;
    struct hx_hasher *hasher;
    struct hx_map sessions; /* by digest */
    struct hx_list all;     /* sessions */
    struct hx_map streams;  /* by number */
    struct hx_map webs;     /* streams by HTTP exchange */
    struct hx_map sendings; /* by web tag */
    struct hx_list tickets;
    struct hx_list waiting; /* streams that begin when they wait too long, by due_at */
    struct hx_list kept;    /* AWAY and ENDED streams, by due_at */
    struct hx_list asking;  /* requests that wait for a stream, by due_at */
    struct hx_list told;    /* sendings that may be taken back, by told_at */
    struct hx_loop_timer *timer;
    struct hx_mono timer_at;
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_json_limits limits;
    struct hx_digest over[OVER_COUNT];
    uint32_t over_at;
    uint32_t ticket_count;
    uint32_t told_count;
    uint64_t last_ticket;
    uint64_t last_web_tag;
    char process[2 * PROCESS_BYTES + 1];
    char name[STREAM_NAME_SIZE]; /* what stream_name returned last */
    bool is_draining;
    bool is_drained;
};

/* http_front.c */
struct front *front_of(struct hx_http_front *front);
struct hx_mono front_now(const struct front *front);
/* Wakes by then, if nothing wakes earlier. */
void front_wake_at(struct front *front, struct hx_mono at);
struct hx_peer_event *front_tell(struct session *session, enum hx_peer_event_type type);
/* One message, read onto the front's tape; of kind INVALID when it is none. False, and INVALID
 * too: memory is short. */
bool front_read(struct front *front, struct hx_span text, struct hx_rpc_msg *ret_msg);

/* door.c: what comes in */
void door_take(struct front *front, uint64_t exchange, struct hx_web_request *request);

/* request.c */
/* A request that was let in, or was parked, goes to its session. Takes the stream. */
void request_go_on(struct front *front, struct stream *stream);
/* Its session is known. Takes the stream. */
void request_enter(struct session *session, struct stream *stream);
/* Hands the message of a POST to the engine. */
void request_deliver(struct stream *stream);

/* refuse.c: answers of our own */
struct refusal {
    uint32_t status;
    int code; /* of the JSON-RPC error */
    const char *sentence;
    const char *header; /* NULL, or one header besides */
    const char *value;
};
/* `id`: the request's, raw; absent = null. `origin`: NULL = no browser. */
void refuse(struct front *front, uint64_t exchange, const struct refusal *refusal,
            struct hx_span id, const char *origin);
/* The same, with the id of the message in the body, and frees the stream. */
void refuse_stream(struct front *front, struct stream *stream, const struct refusal *refusal);
/* An answer with no body. */
void answer_empty(struct front *front, uint64_t exchange, uint32_t status, const char *origin);
void answer_preflight(struct front *front, uint64_t exchange, struct hx_span origin);
extern const struct refusal refusal_no_session;
extern const struct refusal refusal_drain;
/* Appends what a browser needs to see the answer; returns how many, at most CORS_HEADERS. */
enum { CORS_HEADERS = 3 };
uint32_t cors_headers(const char *origin, struct hx_web_header *ret_headers);

/* session.c */
struct session *session_find(struct front *front, const struct hx_digest *digest);
struct session *session_new(struct front *front, const struct hx_digest *digest,
                            const struct hx_http_caller *caller, uint32_t endpoint);
/* A new one with an id of its own. NULL with a refusal when there are too many. */
struct session *session_begin(struct front *front, const struct hx_http_caller *caller,
                              uint32_t endpoint, const struct refusal **ret_refusal);
bool session_is_of(const struct session *session, const struct hx_http_caller *caller,
                   uint32_t endpoint);
/* Its client has ended it, or it never began. */
void session_end(struct session *session);
void session_close(struct session *session);
/* In clear. */
void session_forget_id(struct session *session);
void session_free(struct session *session);
/* Asks the ledger. Takes the stream, which waits for the answer. */
void session_ask(struct front *front, const struct hx_digest *digest, struct stream *stream);
void tickets_free(struct front *front);
struct session *session_of(struct hx_downstream *downstream);
extern const struct hx_downstream_ops send_ops; /* send.c */

/* stream.c */
struct stream *stream_new(struct front *front, uint64_t exchange, enum stream_kind kind);
struct stream *stream_find(struct front *front, uint64_t number);
/* Settles what stands in it; tells the engine nothing of the exchange. */
void stream_free(struct front *front, struct stream *stream);
/* The engine has the message. */
void stream_wait(struct stream *stream);
/* Sends the head, what primes it, and what was queued. */
void stream_begin(struct stream *stream);
/* Takes the content of `line`. The last event of a POST ends it. May free the stream. */
void stream_send(struct stream *stream, struct hx_buf *line, uint64_t tag, bool is_answer);
/* The same as one JSON text. Frees the stream. */
void stream_answer_json(struct stream *stream, uint32_t status, struct hx_buf *line, uint64_t tag);
void stream_kept(struct stream *stream);
/* Our side ends the connection in order; the client comes back or not. May free the stream. */
void stream_part(struct stream *stream);
/* The head of an event stream, and the event from which a client has an id. */
void stream_open(struct stream *stream);
void stream_prime(struct stream *stream);
void stream_attach(struct front *front, struct stream *stream, uint64_t exchange);
/* Its answer is written, or kept for one who is away. May free the stream. */
void stream_finish(struct stream *stream);
/* Its client left. May free the stream. */
void stream_left(struct front *front, struct stream *stream);
/* Nobody comes back any more: fates, EXCHANGE_GONE, and it is freed. */
void stream_expire(struct front *front, struct stream *stream);
void stream_begin_due(struct front *front, struct hx_mono now);
void stream_name(const struct front *front, const struct stream *stream, char *ret_name);
/* True when an id may be told on it: nobody comes back for what the ledger does not know. */
bool stream_may_name(const struct stream *stream);
/* What an event id says. False: it is none that we could have made. */
struct stream_at {
    struct hx_span name; /* without the number of the event */
    uint64_t number;     /* of the stream; 0 = of another process */
    uint64_t event;
    bool is_get;
};
bool stream_parse_id(const struct front *front, struct hx_span id, struct stream_at *ret_at);

/* replay.c: what is kept for clients that come back */
/* Its client is back, on `exchange`, and has what came before event `number` and that itself. */
void stream_resume(struct stream *stream, uint64_t exchange, uint64_t number);
void stream_expire_due(struct front *front, struct hx_mono now);
/* The next event of the stream, of these bytes; NULL when there is no room to keep it. */
struct event *replay_add(struct stream *stream, const struct hx_buf *bytes);
void replay_drop_first(struct stream *stream);
void replay_keep_until(struct stream *stream);

/* queue.c */
void queue_add(struct session *session, struct hx_buf *line, uint64_t tag);
/* Writes all that waits to this stream. */
void queue_flush(struct session *session, struct stream *stream);
void queue_clear(struct session *session);
void queue_expire_due(struct front *front, struct hx_mono now);

/* fate.c */
/* Returns NULL when nobody asks (tag 0). */
struct sending *sending_new(const struct stream *stream, uint64_t tag, struct event *event);
/* What to hand to the web for it now, to be written to `web`; 0 for NULL. */
uint64_t sending_web_tag(struct sending *sending, uint64_t web);
/* The HTTP exchange on which a message of this exchange is being written; 0 = none. */
uint64_t sending_web(const struct session *session, uint64_t exchange);
/* Not one byte of it left, or only some: as was seen. Frees it. */
void sending_give_up(struct sending *sending);
/* It was written, and is known now not to have been read. */
void sending_recall(struct sending *sending);
/* The client says that it has it. */
void sending_confirm(struct sending *sending);
/* Its event is forgotten. */
void sending_detach(struct sending *sending);
/* Its session is over, and it was known by these tags. What was told of it may still be taken back.
 * Frees it. */
void sending_outlive(struct sending *sending, const uint64_t *tags, size_t count);
void sending_free(struct sending *sending);
void sending_web_fate(struct front *front, enum hx_web_event_type type, uint64_t web_tag);
void sending_expire_due(struct front *front, struct hx_mono now);
void tell_not_sent(struct session *session, uint64_t tag);
/* Of a message whose session is over. */
void tell_of_nobody(struct front *front, enum hx_peer_event_type type, uint64_t tag);

static inline struct hx_span number_key(const uint64_t *number)
{
    return hx_span((const char *)number, sizeof *number);
}

static inline void buf_take(struct hx_buf *to, struct hx_buf *from)
{
    *to = *from;
    hx_buf_init(from, from->len_max);
}

#endif
