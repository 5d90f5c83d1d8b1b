/* SPDX-License-Identifier: MIT */
/*
 * One client: its requests, what it was asked, and what became of its answers. Internal to engine/.
 *
 *   request  one JSON-RPC request that we have not answered yet
 *   batch    several of them that came, and are answered, as one array
 *   ask      one request that we sent to the client under an id of our own
 *   note     an answer that may still turn out never to have been read
 */
#ifndef HX_ENGINE_SESSION_H
#define HX_ENGINE_SESSION_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "core/record.h"
#include "engine/gateway.h"
#include "engine/timers.h"
#include "wire/jsonrpc.h"
#include "wire/mcp.h"
#include "wire/rewrite.h"
#include "json/writer.h"

struct hx_call;
struct hx_candidate;
struct hx_delivery_note;
struct hx_listing;
struct hx_verb;
struct hx_link;
struct hx_route;
struct hx_work;

/* A batch of 2025-03-26: answered as one array when its last request is. */
struct hx_batch {
    uint64_t exchange;
    uint32_t open_count;
    bool is_complete;       /* all elements have been taken in */
    struct hx_list answers; /* struct hx_batch_answer */
};

struct hx_batch_answer {
    struct hx_list node;
    struct hx_map_node by_id; /* session->batch_answers */
    struct hx_buf id_key;
    struct hx_buf raw_id; /* empty: it answers what is no request */
    bool is_harmless;     /* the request that it answers */
    struct hx_buf line;
    struct hx_delivery_note *note; /* NULL when its fate does not matter */
};

enum hx_request_kind {
    HX_REQUEST_PASS, /* forwarded and answered as it is */
    HX_REQUEST_INITIALIZE,
    HX_REQUEST_TOOLS_LIST,
    HX_REQUEST_CALL /* guarded */
};

/* What the ledger is being asked for a request about operations: see operations.c. */
enum hx_asked { HX_ASKED_NOTHING, HX_ASKED_GET, HX_ASKED_ACKNOWLEDGE, HX_ASKED_LIST };

struct hx_request {
    struct hx_map_node by_id;
    struct hx_list node; /* session->requests, oldest first */
    enum hx_request_kind kind;
    struct hx_buf id_key;  /* the id under which equal ids meet */
    struct hx_span raw_id; /* slice of `message` */
    struct hx_buf message; /* the client's own bytes */
    struct hx_batch *batch;
    struct hx_route *route; /* not for CALL */
    struct hx_call *call;   /* CALL only */
    struct hx_session *session;
    uint64_t exchange;     /* where its answer goes; 0 = there is one way only */
    struct hx_timer limit; /* timeout of a read-only tool */
    int64_t limit_ms;      /* 0 = none */
    bool is_harmless;      /* asked again it harms nobody */
    bool may_resend;       /* and it is, by ourselves, when its server ends */
    bool was_sent;         /* to some process, once at least */
    bool was_resent;
    struct hx_store_request *ticket; /* under way for it, or NULL */
    struct hx_store_request *found;  /* owned; the row that its answer is about */
    enum hx_asked asked;
    bool is_own_tool;           /* it called one of our own tools, and is answered as a tool does */
    struct hx_listing *listing; /* owned; LIST */
    struct hx_verb *verb;       /* a decision of its client that is under way, or NULL */
    struct hx_buf kept_line;    /* INITIALIZE: its answer, until the session stands in the ledger */
    struct hx_list wait_node;   /* link->waiting_requests, while the upstream is not ready */
};

enum hx_ask_kind {
    HX_ASK_SERVER,   /* what the server wants to know */
    HX_ASK_OUTCOME,  /* what became of an operation that is unknown? */
    HX_ASK_APPROVAL, /* may an operation run? */
    HX_ASK_REPEAT,   /* is an equal call meant? */
    HX_ASK_FRESH_KEY /* is an equal call under another key meant? */
};

/* A request of ours to the client. */
struct hx_ask {
    struct hx_session *session;
    struct hx_map_node by_id; /* session->asks_by_id */
    struct hx_list node;      /* session->asks */
    enum hx_ask_kind kind;
    uint64_t tag;     /* of its message */
    char id_text[48]; /* raw id as we sent it */
    struct hx_buf id_key;
    struct hx_link *link;  /* SERVER: who asked; of a joined call it need not be the session's */
    uint32_t generation;   /* SERVER: of the process that asked */
    struct hx_buf raw_id;  /* SERVER: its own id */
    struct hx_work *work;  /* OUTCOME, APPROVAL */
    struct hx_call *call;  /* REPEAT, FRESH_KEY: which waits to be decided */
    uint32_t seen_attempt; /* OUTCOME: the newest attempt that the question was about */
};

enum hx_receipt {
    HX_RECEIPT_OPEN,
    HX_RECEIPT_SENT,
    HX_RECEIPT_LOST,
    HX_RECEIPT_NONE /* a promise: what becomes of it matters to nobody, but its id is remembered */
};

/* An answer whose delivery may still be taken back. What the row is told follows what is known, and
 * a write that fails is made up for. */
struct hx_delivery_note {
    struct hx_session *session;    /* NULL: it is over */
    const struct hx_session *over; /* and not freed yet; only to be compared */
    uint64_t exchange;
    struct hx_list node; /* gateway->deliveries, oldest first */
    struct hx_map_node by_tag;
    struct hx_map_node by_id; /* session->answered: by the request's id */
    uint64_t tag;
    char tag_key[8];
    struct hx_buf id_key;
    struct hx_id operation;
    struct hx_record cold_record; /* enough of the record to judge whether it may leave the index */
    struct hx_batch_answer *batch_answer; /* while it waits for the rest of its batch */
    struct hx_mono arrived;               /* its request */
    struct hx_mono sent;
    enum hx_receipt wanted;    /* what is known here */
    enum hx_receipt submitted; /* what the row is being told */
    enum hx_receipt stored;    /* what it was told */
    uint32_t open_count;       /* writes under way */
    bool has_failed;           /* one of them was not done */
    bool may_be_read;          /* lost, but its client may still come back for it */
};

#define HX_SESSION_MAGIC 0x73657373u

struct hx_session {
    uint32_t magic;
    struct hx_list node; /* gateway->sessions */
    struct hx_gateway *gateway;
    struct hx_session_options options;
    struct hx_link *link;
    struct hx_list link_node; /* link->sessions */
    struct hx_map requests_by_id;
    struct hx_list requests;
    uint32_t request_count;
    uint64_t request_bytes;
    uint64_t taking; /* the exchange of the message in hand; 0 once something answers for it */
    const struct hx_peer_event *taken; /* the event that it came with; NULL outside of it */
    struct hx_map asks_by_id;
    struct hx_list asks;
    uint64_t next_ask;
    char ask_secret[17];
    struct hx_map batch_answers; /* by the request's id: answered, and not sent yet */
    struct hx_map answered;      /* struct hx_delivery_note, by the request's id */
    bool is_input_over;
    bool is_gone;             /* it cannot be answered any more */
    bool is_ending;           /* by its client; the ledger has not said yet that it knows */
    bool is_ended;            /* the same, and its id will never open anything again */
    bool is_kept;             /* it stands in the ledger */
    uint32_t resumes_open;    /* streams that the ledger is being asked for */
    bool has_stream_given_up; /* by a cancel, and the ledger refused to take it */
    struct hx_buf early;      /* cancels that came meanwhile: keys of request ids, each behind its
                               length */
    struct hx_wall touched;   /* what the ledger knows of its last use */
    const struct hx_mcp_facts *era;
    struct hx_mcp_initialize client; /* texts in client_arena */
    struct hx_arena client_arena;
    bool has_client;
    struct hx_timer input_limit; /* the client asks no more; its last answers are waited for */
};

/* Reads what the client said of itself in its `initialize`. */
void hx_session_learn_client(struct hx_session *session, struct hx_span params);

/* operations.c: questions about operations. */
#define HX_OPERATIONS_EXTENSION                                                                    \
    "{\"get\":{},\"list\":{},\"cancel\":{},\"acknowledge\":{},\"begin\":{}}"
/* False: it is not one of these methods. */
bool hx_operations_is_method(enum hx_mcp_method method);
/* `params`: the object that says which operation; absent when there is none. */
void hx_operations_take(struct hx_request *request, enum hx_mcp_method method,
                        struct hx_span params);
/* Takes `done`. */
void hx_operations_found(struct hx_request *request, struct hx_store_request *done);
/* Answers with this JSON object, or refuses with one sentence and a code, in the way that fits the
 * request. */
void hx_operations_answer(struct hx_request *request, struct hx_buf *json);
void hx_operations_refuse(struct hx_request *request, const char *code, const char *reason);
/* Onto gateway->scratch. 0; below 0: there is no memory for it; above: it is none. */
int hx_operations_read(struct hx_gateway *gateway, struct hx_span params);
void hx_operations_refuse_unread(struct hx_request *request);
/* The string member of the object that gateway->scratch holds; absent when there is none. */
struct hx_span hx_operations_text(struct hx_gateway *gateway, const char *name);
/* One operation as a JSON object. */
void hx_operations_put(struct hx_json_writer *writer, const struct hx_record *record);

/* listing.c: the caller's operations, in pages. */
void hx_listing_begin(struct hx_request *request, struct hx_span params);
/* Takes `done`. */
void hx_listing_found(struct hx_request *request, struct hx_store_request *done);
void hx_listing_free(struct hx_listing *listing);

/* own_tools.c: the tools that we offer beside the server's, where the operator wants it. */
/* Takes the call when it is for one of them. */
bool hx_own_tool_take(struct hx_session *session, const struct hx_rpc_msg *msg,
                      const struct hx_mcp_call *call, struct hx_buf *line, struct hx_batch *batch);
enum { HX_OWN_TOOLS_MAX = 3 };
/* For hx_rewrite_tools: those that are offered. */
size_t hx_own_tools(const struct hx_server *server, struct hx_rewrite_own_tool *ret_tools);

/* kept.c: what the ledger keeps of it, and of its streams. */
/* Takes the answer to its `initialize`, and sends it when the session is kept. */
void hx_session_keep(struct hx_request *request, struct hx_buf *line);
/* Somebody uses it. */
void hx_session_touch(struct hx_session *session);
/* Its client has ended it. It stays in memory until the ledger has said what became of that. */
void hx_session_forget_kept(struct hx_session *session);
/* Takes `done`. */
void hx_session_forgotten(struct hx_session *session, struct hx_store_request *done);
/* The answer to this call, which has an operation, can be asked for again from now on. */
void hx_stream_keep(struct hx_call *call);
/* Everybody is judged anew: that he could ask once does not say that he may now. */
bool hx_session_may_have(const struct hx_session *session, const struct hx_record *record);
/* Somebody asks for the answer that was to come on the stream of this name. */
void hx_stream_resume(struct hx_session *session, uint64_t exchange, struct hx_span name);
/* A cancel of a request that is not there: it may be that of a stream which is being asked for. */
void hx_stream_cancelled(struct hx_session *session, const struct hx_rpc_id *id);
/* The request of this id was cancelled: it is answered on no stream any more, here and in later
 * processes. */
void hx_stream_give_up(struct hx_session *session, struct hx_span raw_id);
/* `found` of hx_gateway_find_session comes here too. Takes the request. */
void hx_kept_done(struct hx_session *session, uint64_t exchange, struct hx_store_request *done);

/* session.c: its life. */
void hx_session_free(struct hx_session *session);
/* The client cannot be answered any more: every waiter leaves, work in hand goes on. */
void hx_session_gone(struct hx_session *session);

/* An answer written now (on `exchange`) could still be read. `session` may be NULL. */
bool hx_session_hears(const struct hx_session *session, uint64_t exchange);

/* client.c: what the client says. */
void hx_client_event(struct hx_session *session, struct hx_peer_event *event);
/* client_cancel.c: it takes a request back. */
void hx_client_cancel(struct hx_session *session, const struct hx_rpc_msg *msg);

/* request.c: what it waits for. */
struct hx_request *hx_request_new(struct hx_session *session, enum hx_request_kind kind,
                                  const struct hx_rpc_msg *msg, struct hx_buf *line,
                                  struct hx_batch *batch);
void hx_request_free(struct hx_request *request);
/* Oldest first: over HTTP some clients number everything alike, and their answers cannot be mixed
 * up there (decision 0066). */
struct hx_request *hx_request_find(struct hx_session *session, const struct hx_rpc_id *id);
struct hx_request *hx_request_find_next(const struct hx_request *request);
/* Nobody waits for it any more; what it began goes on. Frees it. */
void hx_request_leave(struct hx_request *request);

/* reply.c: what we say to the client. */
void hx_reply_line(struct hx_request *request, struct hx_buf *line, struct hx_delivery_note *note);
void hx_reply_error(struct hx_request *request, int64_t code, struct hx_span message,
                    struct hx_span data);
void hx_reply_invalid(struct hx_session *session, struct hx_batch *batch,
                      const struct hx_rpc_msg *msg);
/* An error about a message that has no request here and was not sent, with its raw id or none. */
void hx_reply_fault(struct hx_session *session, struct hx_span id, int64_t code, const char *text);
/* A message that there was no memory to read. `id`: its raw id, or none. */
void hx_reply_unread(struct hx_session *session, struct hx_batch *batch, struct hx_span id);
/* Refuses what was not begun, by a word that a gateway before us knows for ours. */
void hx_reply_unsent(struct hx_request *request, struct hx_span message);
/* Refuses a request that would be refused again as it is; nothing was sent. */
void hx_reply_refused(struct hx_request *request, int64_t code, const char *text);
/* A request that was passed on and gets no answer that could be passed back: it may be asked again
 * if that harms nobody, and may have done what it asked for if not. */
void hx_reply_no_answer(struct hx_request *request, const char *why);
/* A request that there was no memory to pass on. */
void hx_reply_no_memory(struct hx_request *request);
/* Whatever came on `exchange` gets no answer. Harmless for 0. */
void hx_exchange_settle(struct hx_session *session, uint64_t exchange);
/* Takes the line: a request or notification of ours that belongs to `exchange`, or to none. False:
 * it was not written whole, or nobody is there, and it is not sent. */
bool hx_send_aside(struct hx_session *session, struct hx_buf *line, uint64_t exchange);
/* The same for a question, which ends when its message cannot reach the client. */
bool hx_send_ask(struct hx_ask *ask, struct hx_buf *line, uint64_t exchange);
void hx_batch_release(struct hx_session *session, struct hx_batch *batch);
/* Takes an answer out of a batch that has not left yet; false when there is none to this id. */
bool hx_batch_withdraw(struct hx_session *session, const struct hx_rpc_id *id);

/* ask.c: requests of ours to the client. */
void hx_ask_for_server(struct hx_link *link, const struct hx_rpc_msg *msg);
struct hx_ask *hx_ask_new(struct hx_session *session, enum hx_ask_kind kind);
void hx_ask_answered(struct hx_ask *ask, const struct hx_rpc_msg *msg);
/* Answers the server's question with an error of ours. */
void hx_ask_refuse(struct hx_ask *ask, const char *reason);
void hx_ask_withdraw(struct hx_ask *ask);
/* The client has never seen that message. False: it was no question. */
bool hx_ask_unsent(struct hx_session *session, uint64_t tag);
void hx_asks_of_client_gone(struct hx_session *session);
void hx_asks_of_server_gone(struct hx_link *link);
struct hx_ask *hx_ask_find(struct hx_session *session, const struct hx_rpc_id *id);
struct hx_ask *hx_ask_find_server(struct hx_link *link, const struct hx_rpc_id *server_id);

/* ask_person.c: our own questions, to whoever sits at a client that waits. False when nobody
 * can be asked. */
bool hx_ask_outcome(struct hx_work *work);
bool hx_ask_approval(struct hx_work *work);
/* About the equal operation that was found; the call waits for the answer. */
bool hx_ask_about_repeat(struct hx_call *call, enum hx_ask_kind kind,
                         const struct hx_candidate *twin);
/* The ask ends. */
void hx_person_answered(struct hx_ask *ask, const struct hx_rpc_msg *msg);
/* The core has answered a verb for which no call waits; `event` is what it answered on. */
void hx_person_decided(struct hx_work *work, const struct hx_event *event, enum hx_answer answer);
/* Its question is no longer one: the client is told, and the ask ends. */
void hx_person_unasked(struct hx_ask *ask);

/* delivery.c: what became of an answer. */
struct hx_delivery_note *hx_delivery_new(struct hx_call *call, const struct hx_record *record);
/* A promise was given under this id: the transport's repeat of the request means that operation. */
void hx_delivery_remember(struct hx_call *call, const struct hx_record *record);
void hx_delivery_fate(struct hx_gateway *gateway, uint64_t tag, enum hx_peer_event_type fate);
struct hx_delivery_note *hx_delivery_find(struct hx_session *session, const struct hx_rpc_id *id);
void hx_delivery_take_back(struct hx_gateway *gateway, struct hx_delivery_note *note);
void hx_delivery_front_gone(struct hx_session *session);
/* Its notes live on without it: their rows are still to be told. */
void hx_delivery_session_over(struct hx_session *session);
/* Nobody is left who could say what became of its last answers: they count as lost. */
void hx_delivery_session_freed(const struct hx_session *session);
void hx_delivery_forget_old(struct hx_gateway *gateway);
void hx_delivery_stored(struct hx_gateway *gateway, struct hx_delivery_note *note,
                        enum hx_receipt receipt, enum hx_store_result result);
/* Tells the ledger again what it did not take. */
void hx_delivery_again(struct hx_gateway *gateway);
/* The operation that this call repeats, if its answer was lost and the ledger has not taken that
 * yet, or waits for the rest of its batch while its caller has long been silent. */
bool hx_delivery_find_repeated(const struct hx_call *call, struct hx_id *ret_operation);
/* Somebody has got the outcome of this operation from here, or can still get it. */
bool hx_delivery_is_live(struct hx_gateway *gateway, const struct hx_id *operation);
void hx_delivery_free(struct hx_gateway *gateway, struct hx_delivery_note *note);
/* True while a row has not been told what is known here. */
bool hx_delivery_has_unsaved(const struct hx_gateway *gateway);

#endif
