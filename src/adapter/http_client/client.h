/* SPDX-License-Identifier: MIT */
/*
 * What the files of this adapter share: the client, its sessions and its exchanges.
 *
 * An exchange is one message on its way, or one stream. It keeps its easy handle for life and is
 * used again for later messages. Where it stands:
 *
 *     QUEUED -> RUNNING -> (WAITING -> RUNNING)* -> spare
 *
 * RUNNING: its handle is in the multi. WAITING: its stream ended without the answer and will be
 * taken up again when the timer fires. "Settled" is another axis: an exchange is settled when the
 * engine was told the end of its request; it may run on behind that.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_CLIENT_H
#define HX_ADAPTER_HTTP_CLIENT_CLIENT_H

#include "adapter/http_client/curl_library.h"
#include "adapter/http_client/direct.h"
#include "adapter/http_client/headers.h"
#include "adapter/http_client/http_client.h"
#include "adapter/http_client/outcome.h"
#include "adapter/http_client/transfers.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/list.h"
#include "wire/jsonrpc.h"
#include "wire/sse.h"

enum { HX_HTTP_SESSION_ID_MAX = 1024, HX_HTTP_EXCERPT_MAX = 1024, HX_HTTP_URL_MAX = 4096 };

/* What a server calls a session. Shared by its exchanges, which may outlive it. */
struct hx_http_session {
    unsigned holders;
    bool is_agreed;     /* `initialize` was answered */
    bool has_worked;    /* and something else */
    bool is_second_try; /* the one before it was given up in doubt */
    unsigned doubts;    /* refusals in a row that name no request */
    const struct hx_mcp_facts *facts;
    char protocol[16];                   /* as the server spells it; "" until agreed */
    char id[HX_HTTP_SESSION_ID_MAX + 1]; /* "" = none */
};

enum hx_http_purpose {
    HX_HTTP_REQUEST, /* an answer is due */
    HX_HTTP_NOTICE,  /* a notification, or an answer of ours */
    HX_HTTP_UNASKED, /* the stream for what the server says by itself */
    HX_HTTP_GOODBYE  /* DELETE */
};

enum hx_http_place { HX_HTTP_SPARE, HX_HTTP_QUEUED, HX_HTTP_RUNNING, HX_HTTP_WAITING };
enum hx_http_format { HX_HTTP_BODY, HX_HTTP_STREAM };

struct hx_http_exchange {
    struct hx_list node; /* in the list of its place */
    struct hx_http_client *client;
    CURL *easy;
    struct hx_http_connection *direct; /* it goes the short way at present */
    struct curl_slist *headers;        /* of the present transfer */
    struct curl_slist *extra;          /* of this message alone, already checked */
    struct hx_loop_timer *timer;       /* QUEUED: until it is given back. RUNNING: stall, then
                                     linger. WAITING: when to go on. */
    struct hx_http_session *session;
    enum hx_http_purpose purpose;
    enum hx_http_place place;
    uint32_t generation;
    uint64_t tag;

    /* What we say. */
    struct hx_buf body;
    size_t handed_out;
    struct hx_buf id; /* raw JSON-RPC id of the request */
    bool is_initialize;
    bool is_initialized; /* the notification of that name */
    bool may_jump;       /* an answer of ours: waits for no greeting */
    bool is_get;
    bool is_begun;    /* the library was allowed to begin it, once */
    bool was_refused; /* a second beginning, in the present transfer */
    bool was_retried;
    bool is_by_library; /* the short way was tried, in vain */
    bool is_in_multi;
    bool is_fate_told;
    bool is_settled;
    bool gives_way; /* nobody waits for its answer now */
    bool is_paused;

    /* What comes back, in the present transfer. */
    bool has_head;
    bool hides_body; /* it comes in a coding, or as events where a body was due */
    bool has_end;    /* its head says where it ends: not just where the connection does */
    int status;
    enum hx_http_format format;
    struct hx_buf reply;      /* BODY: as far as message_max; else what of it is worth showing */
    struct hx_buf refusal;    /* the head of a reply that refused and came the short way */
    struct hx_skim *skim;     /* BODY: owned; made when one is oversize */
    struct hx_hasher *hasher; /* owned; made when first needed */
    uint64_t reply_size;
    bool is_oversize;
    bool has_stream; /* `stream` is initialised */
    struct hx_sse_reader stream;
    char error[CURL_ERROR_SIZE];

    /* Across the transfers of one exchange. */
    bool has_event;         /* one came in the present transfer */
    struct hx_buf event_id; /* the last one of a whole event; "" = none */
    bool is_point_due;      /* it changed, and the engine was not told */
    int64_t retry_ms;       /* -1 = the server named none */
    unsigned failures;      /* in a row */
    unsigned idle_rounds;   /* streams in a row that brought nothing */
};

enum hx_http_state {
    HX_HTTP_IDLE,
    HX_HTTP_UP,
    HX_HTTP_STALE,    /* the session is lost */
    HX_HTTP_STOPPING, /* nothing new; what is in flight may still be answered */
    HX_HTTP_LEAVING   /* DELETE is on its way */
};

struct hx_http_client {
    struct hx_upstream upstream;
    struct hx_loop *loop;
    struct hx_http_client_options options;
    struct hx_http_client_counters counters;
    enum hx_http_state state;
    uint32_t generation;
    struct hx_http_transfers transfers;
    struct hx_http_direct direct;
    struct hx_http_headers headers;
    struct hx_http_session *session;   /* of this generation; NULL in IDLE */
    struct hx_http_exchange *greeting; /* under way, or NULL */
    struct hx_list queued;
    struct hx_list running;
    struct hx_list waiting;
    struct hx_list spare;
    unsigned busy_count; /* requests that are running */
    unsigned spare_count;
    struct hx_loop_timer *unasked_timer;
    struct hx_http_exchange *unasked;
    struct hx_buf unasked_event_id;
    struct hx_mono unasked_begun;
    unsigned unasked_failures;
    unsigned unasked_short_lives;
    char *post_url;      /* apart.c: owned; NULL = the stream has not named it yet */
    bool is_address_bad; /* apart.c: what it named cannot be used */
    struct hx_loop_timer *stop_timer;
    struct hx_loop_timer *rest_timer;
    struct hx_mono idle_since;
    struct hx_json_tape tape; /* scratch of one message */
    struct hx_arena arena;
    struct hx_json_limits limits;
    bool is_held;
    bool is_stale;    /* the session of this generation is lost */
    bool has_doubted; /* at `doubted` one was given up that may have been good */
    struct hx_mono doubted;
    bool is_turning;
};

/* --- easy.c: the settings of a handle that never change --- */

CURL *hx_http_easy_new(const struct hx_http_client_options *options);
#define HX_HTTP_SET(easy, option, value)                                                           \
    hx_assert(curl_easy_setopt((easy), (option), (value)) == CURLE_OK)

/* --- session.c --- */

struct hx_http_session *hx_http_session_new(enum hx_mcp_revision revision);
struct hx_http_session *hx_http_session_hold(struct hx_http_session *session);
struct hx_http_session *hx_http_session_drop(struct hx_http_session *session);
/* Visible ASCII and not too long. */
bool hx_http_session_id_is_good(struct hx_span id);
/* From the head of a reply to `initialize`. */
void hx_http_session_take_id(struct hx_http_session *session, CURL *easy);
/* From its result. */
void hx_http_session_agree(struct hx_http_session *session, struct hx_http_client *client,
                           struct hx_span result);
/* A request in it was answered. */
void hx_http_session_works(struct hx_http_session *session);
/* What its server says is what one says that has forgotten it, and nothing is to be lost by a new
 * one. */
bool hx_http_session_is_doubtful(const struct hx_http_client *client);
/* An event id that can be sent as a header and kept as a line. */
bool hx_http_event_id_is_good(struct hx_span id);
/* What `resume` needs, as text of five lines: format, session, protocol, event id, JSON-RPC id. */
void hx_http_resume_write(const struct hx_http_exchange *exchange, struct hx_buf *out);
/* False when the text is none of ours. */
bool hx_http_resume_read(struct hx_http_exchange *exchange, struct hx_span text);

/* --- exchange.c: the life of one --- */

/* Not in any list yet. */
struct hx_http_exchange *hx_http_exchange_new(struct hx_http_client *client,
                                              enum hx_http_purpose purpose);
void hx_http_exchange_queue(struct hx_http_exchange *exchange);
void hx_http_exchange_place(struct hx_http_exchange *exchange, enum hx_http_place where);
/* For transfers: the library is done with it. */
void hx_http_exchange_ended(void *arg, CURLcode code);
/* Ends it at once, telling what is due: its fate, and ANSWER_LOST unless `loss` is NONE. */
void hx_http_exchange_abort(struct hx_http_exchange *exchange, enum hx_peer_loss loss);
/* Of one that never began: it is told why. */
void hx_http_exchange_refuse(struct hx_http_exchange *exchange, int status, struct hx_span words);
/* Nothing is told. Its memory is kept for another. */
void hx_http_exchange_release(struct hx_http_exchange *exchange);
void hx_http_exchange_free(struct hx_http_exchange *exchange);
struct hx_peer_event *hx_http_exchange_tell(struct hx_http_exchange *exchange,
                                            enum hx_peer_event_type type);
/* WRITTEN, NOT_SENT or CUT; once. */
void hx_http_exchange_fate(struct hx_http_exchange *exchange, enum hx_peer_event_type type);
/* The engine knows the end of its request. */
void hx_http_exchange_settle(struct hx_http_exchange *exchange);
void hx_http_exchange_lose(struct hx_http_exchange *exchange, enum hx_peer_loss loss,
                           struct hx_span words);
/* Its stream ended, or could not be taken up: once more later, or given up. */
void hx_http_exchange_wait(struct hx_http_exchange *exchange, int64_t delay_ms);

/* --- request.c: how one begins --- */

void hx_http_request_prepare(struct hx_http_exchange *exchange);
/* Begins a transfer: POST of its body, or GET of its stream, or DELETE. */
void hx_http_exchange_begin(struct hx_http_exchange *exchange);
/* The kernel, or the library, took so many more bytes of the body. */
void hx_http_request_handed_out(struct hx_http_exchange *exchange, size_t count);
/* What the head of the reply says. */
void hx_http_request_take_head(struct hx_http_exchange *exchange, int status, struct hx_span type,
                               struct hx_span coding);
/* The same by the library: at the first byte of the reply's body, or at its end when there was
 * none. */
void hx_http_request_head(struct hx_http_exchange *exchange);
void hx_http_exchange_hold(struct hx_http_exchange *exchange, bool is_held);

/* --- reply.c: bytes into messages --- */

void hx_http_reply_begin(struct hx_http_exchange *exchange);
/* Gives its memory back. */
void hx_http_reply_end(struct hx_http_exchange *exchange);
void hx_http_reply_add(struct hx_http_exchange *exchange, struct hx_span bytes);
/* BODY, at its end: what is in it. */
enum hx_http_content hx_http_reply_content(struct hx_http_exchange *exchange);
/* BODY: hands the messages in it to the engine. */
void hx_http_reply_deliver(struct hx_http_exchange *exchange);
struct hx_span hx_http_reply_excerpt(const struct hx_http_exchange *exchange);
/* The event is the answer to the request of this exchange, be it good or not. */
bool hx_http_reply_answers(const struct hx_http_exchange *exchange,
                           const struct hx_sse_event *event);
/* Delivers it as one that came on this exchange. */
void hx_http_reply_event(struct hx_http_exchange *exchange, const struct hx_sse_event *event);

/* --- resume.c: streams that end before their answer --- */

void hx_http_resume_ended(struct hx_http_exchange *exchange, CURLcode code);
void hx_http_stream_broke(struct hx_http_exchange *exchange, CURLcode code);

/* --- unasked.c: the stream of what the server says by itself --- */

/* Its timer. */
void hx_http_unasked_due(void *arg);
void hx_http_unasked_open(struct hx_http_client *client);
void hx_http_unasked_ended(struct hx_http_exchange *exchange, CURLcode code);
void hx_http_unasked_close(struct hx_http_client *client);

/* --- apart.c: the transport of 2024-11-05 --- */

/* True when messages may leave. Opens the stream when one wants to. */
bool hx_http_apart_is_open(struct hx_http_client *client);
/* An event of the stream; false: it is to be delivered like any other. */
bool hx_http_apart_take(struct hx_http_exchange *stream, const struct hx_sse_event *event);
/* The stream is over, with why it never began if it did not. */
void hx_http_apart_ended(struct hx_http_exchange *stream, struct hx_span words);
/* The stream is closed by us, and nothing that waits will be answered. */
void hx_http_apart_lose_waiting(struct hx_http_client *client);
/* Forgets the address; the stream is closed elsewhere. */
void hx_http_apart_close(struct hx_http_client *client);
/* What the library's callbacks left to do. */
void hx_http_apart_due(struct hx_http_client *client);
/* A POST was accepted, or ended without proof. */
void hx_http_apart_posted(struct hx_http_exchange *exchange);
/* Its grace is over, and no answer came. */
void hx_http_apart_waited(struct hx_http_exchange *exchange);

/* --- send.c: the port, as far as it is about single messages --- */

void hx_http_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag);
void hx_http_send_with(struct hx_upstream *upstream, struct hx_buf *line, struct hx_span headers,
                       uint64_t tag);
void hx_http_drop(struct hx_upstream *upstream, uint64_t tag);
void hx_http_give_way(struct hx_upstream *upstream, uint64_t tag);
void hx_http_resume(struct hx_upstream *upstream, struct hx_span text, uint64_t tag);

/* --- http_client.c --- */

static inline struct hx_http_client *hx_http_client_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct hx_http_client, upstream);
}

static inline struct hx_http_exchange *hx_http_exchange_of(struct hx_list *node)
{
    return hx_container_of(node, struct hx_http_exchange, node);
}

/* An event that is not about an exchange. */
struct hx_peer_event *hx_http_client_tell(struct hx_http_client *client,
                                          enum hx_peer_event_type type, uint64_t tag);

/* After anything ended: begins what may begin now, and completes a stop. */
void hx_http_client_turn(struct hx_http_client *client);
void hx_http_client_session_lost(struct hx_http_client *client,
                                 const struct hx_http_session *session);

#endif
