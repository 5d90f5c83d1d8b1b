/* SPDX-License-Identifier: MIT */
/*
 * What the files of the engine share. Internal to engine/.
 *
 *   request  one JSON-RPC request of the client that we have not answered yet
 *   call     a request that is a guarded tools/call: it waits for an operation
 *   work     one operation in this process's hands: the core's state and what waits for it
 *   route    one request that we sent upstream under an id of our own
 *   ask      one request that we sent to the client under an id of our own
 *   gate     calls of one twin digest, decided one after the other
 *
 * style-ok: long on purpose, so that the objects and who points at whom are read in one place.
 */
#ifndef HX_ENGINE_INTERNAL_H
#define HX_ENGINE_INTERNAL_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/map.h"
#include "core/key.h"
#include "core/policy.h"
#include "core/recover.h"
#include "core/repeat.h"
#include "core/words.h"
#include "engine/gateway.h"
#include "engine/timers.h"
#include "wire/jsonrpc.h"
#include "wire/mcp.h"
#include "wire/rewrite.h"
#include "json/fingerprint.h"
#include "json/writer.h"

/* A batch of 2025-03-26: answered as one array when its last request is. */
struct hx_batch {
    uint32_t open_count;
    bool is_complete;       /* all elements have been taken in */
    struct hx_list answers; /* struct hx_batch_answer */
};

struct hx_delivery_note;

struct hx_batch_answer {
    struct hx_list node;
    struct hx_map_node by_id; /* gateway->batch_answers */
    struct hx_buf id_key;
    struct hx_buf line;
    struct hx_delivery_note *note; /* NULL when its fate does not matter */
};

/* A tool as we know it. */
struct hx_tool {
    struct hx_map_node node;
    char *name; /* owned */
    struct hx_tool_rules rules;
    enum hx_mcp_hint read_only;
    enum hx_mcp_hint idempotent;
};

struct hx_call;
struct hx_work;
struct hx_route;

enum hx_request_kind {
    HX_REQUEST_PASS, /* forwarded and answered as it is */
    HX_REQUEST_INITIALIZE,
    HX_REQUEST_TOOLS_LIST,
    HX_REQUEST_CALL /* guarded */
};

struct hx_request {
    struct hx_map_node by_id;
    struct hx_list node; /* gateway->requests, oldest first */
    enum hx_request_kind kind;
    struct hx_buf id_key;  /* the id under which equal ids meet */
    struct hx_span raw_id; /* slice of `message` */
    struct hx_buf message; /* the client's own bytes */
    struct hx_batch *batch;
    struct hx_route *route; /* not for CALL */
    struct hx_call *call;   /* CALL only */
    struct hx_gateway *gateway;
    struct hx_timer limit; /* timeout of a read-only tool */
    int64_t limit_ms;      /* 0 = none */
    bool may_resend;       /* reading it twice harms nobody */
    bool was_sent;         /* to some process, once at least */
    bool was_resent;
    struct hx_list wait_node; /* link->waiting_requests, while the upstream is not ready */
};

enum hx_call_stage {
    HX_CALL_GATED,    /* behind another call of the same twin digest */
    HX_CALL_FINDING,  /* the ledger is being asked */
    HX_CALL_ASKING,   /* neighbours are being asked about live waiters */
    HX_CALL_ADOPTING, /* the adoption is being written */
    HX_CALL_STARTING, /* new, and the upstream is not ready yet */
    HX_CALL_WAITING   /* with its work */
};

/* An equal operation that the ledger named, while the call is being decided. */
struct hx_candidate {
    struct hx_record *record; /* in the find request's arena */
    enum hx_owner_fact owner_fact;
    bool is_sender_gone;
    bool is_epoch_current;
    bool has_live_waiter;
    bool is_same_line;
    int64_t waited_ms;
};

struct hx_call {
    struct hx_request *request;
    struct hx_tool *tool;
    enum hx_call_stage stage;
    struct hx_list node; /* work->calls, gate->waiting or link->waiting_calls */
    struct hx_work *work;
    struct hx_gate *gate;
    struct hx_now arrived;
    struct hx_arena arena; /* decoded texts below, and the record template's */

    /* What it says. Raw slices are of request->message. */
    struct hx_span arguments; /* absent when there were none */
    struct hx_span progress_token;
    struct hx_id retry_of;   /* nil = none */
    struct hx_record wanted; /* identity, twin, fingerprint and the rest of a new row */
    struct hx_digest follow; /* identity to look under when `is_following` */
    bool is_following;
    struct hx_digest overlapped; /* identity of the equal operation whose waiter had, when this call
                                    came, waited silently for long enough, or whose answer was lost
                                    without the ledger knowing */
    bool has_overlapped;
    struct hx_digest gone_to; /* identity of the operation that it was taken to */
    bool has_gone;
    bool is_param_key; /* the key came as params.idempotencyKey */

    /* While it is decided. */
    struct hx_store_request *ticket; /* under way for it, or NULL */
    struct hx_store_request *found;  /* kept until decided */
    struct hx_candidate *candidates; /* in found->arena */
    uint32_t candidate_count;
    uint32_t questions_open;
    const struct hx_candidate *adopted;
    int64_t twin_seen;
    bool was_unseen;      /* its claim was tried without looking first */
    bool has_looked;      /* the ledger has been asked since */
    bool is_from_gap;     /* its key may have been used before the ledger was restored */
    bool is_peeking;      /* only a final row of its key is looked for, before the gate */
    bool was_started;     /* it has waited for the server once */
    bool must_find_again; /* a row exists; when the server is there, look again */

    /* How it got its work. */
    bool is_joined;           /* the operation was open and somebody else's */
    bool is_replayed;         /* the operation was finished when it came */
    bool is_transport_repeat; /* its request id was used before, for the same call */
    bool is_adopted;          /* keyless: taken for a repeat */
    struct hx_wall work_began;
    struct hx_timer wait; /* join_wait */
    struct hx_gateway *gateway;
};

/* A question to a neighbour, about one candidate of one call. */
struct hx_question {
    struct hx_map_node node;
    uint64_t ticket;
    struct hx_call *call; /* NULL when it has left */
    uint32_t candidate;
};

/* Something to hand to the core later. */
struct hx_deferred {
    struct hx_list node;
    struct hx_event event;
    struct hx_call *call; /* NULL when it has none */
};

/* An answer of the tool, kept whole while the work lives. */
struct hx_reply {
    struct hx_list node;
    struct hx_buf line;
};

#define HX_WORK_MAGIC 0x776f726bu

struct hx_work {
    uint32_t magic;
    struct hx_gateway *gateway;
    struct hx_map_node by_id;
    struct hx_list node; /* gateway->works */
    struct hx_op op;
    struct hx_arena arena; /* what the record's spans point at */
    struct hx_tool *tool;
    struct hx_list calls;      /* struct hx_call that wait */
    struct hx_list deferred;   /* struct hx_deferred */
    struct hx_list ready_node; /* gateway->ready: has deferred events to take */
    struct hx_facts facts;     /* as last looked up */
    struct hx_event verb;      /* the one whose write is in flight: op.has_verb */
    uint32_t writes_open;      /* store requests under way */
    bool is_reading;           /* a FIND for it is under way */

    /* The attempt in hand. */
    struct hx_buf message;  /* the request to send, as the first caller wrote it */
    struct hx_route *route; /* set while an answer may come */
    uint32_t generation;    /* of the upstream process the claim was made for */
    bool is_send_waiting;   /* marked, and the upstream is not ready */
    bool is_cancel_forwarded;
    struct hx_list replies; /* struct hx_reply: lines that outcomes point into */
    struct hx_timer limit;  /* timeout, orphan_timeout */
    struct hx_timer idle;   /* idle_timeout */
    struct hx_timer cancel; /* cancel_timeout */
    struct hx_timer look;   /* LOOK_LATER */
    struct hx_timer poll;   /* WATCH */

    struct hx_ask *ask;     /* a person is being asked */
    bool was_asked;         /* a person has been asked in this state and left it open */
    char ledger_error[256]; /* why the last write failed; empty = it did not */
    bool is_told;           /* is_told_pending was written */
    int64_t twin_seen;
    struct hx_store_request *payload; /* a stored result that was read back for an answer */
    bool is_payload_reading;
    bool is_lost_waiting; /* its transport is lost; when the server is back it may be sent again */
    bool is_look_waiting; /* ready to run; waits for the server */
    enum hx_reason lost_reason;
};

enum hx_route_kind { HX_ROUTE_REQUEST, HX_ROUTE_WORK, HX_ROUTE_HANDSHAKE, HX_ROUTE_QUIET };

struct hx_route {
    struct hx_map_node by_id;
    struct hx_list node; /* link->routes */
    enum hx_route_kind kind;
    uint64_t id;
    struct hx_request *request;
    struct hx_work *work;
};

enum hx_link_state {
    HX_LINK_DOWN,
    HX_LINK_STARTING, /* the process is being started */
    HX_LINK_GREETING, /* our own handshake with a restarted process is under way */
    HX_LINK_READY,
    HX_LINK_STOPPING
};

/* A notification that came before the first process was there. */
struct hx_notice {
    struct hx_list node;
    struct hx_buf line;
};

struct hx_link {
    enum hx_link_state state;
    uint32_t generation;
    struct hx_map routes; /* by id */
    struct hx_list route_list;
    struct hx_list waiting_requests; /* struct hx_request.wait_node: pass-through to be sent */
    struct hx_list waiting_notices;  /* struct hx_notice: sent behind those requests */
    struct hx_list waiting_calls;    /* struct hx_call.node: new calls */
    uint32_t notice_count;
    uint64_t next_id;
    struct hx_mono started;
    uint32_t failures; /* starts in a row that came to nothing */
    struct hx_mono not_before;
    struct hx_timer restart;
    struct hx_timer stuck;
    struct hx_timer start_limit; /* the handshake is under way */
    bool was_mute;               /* the last process did not answer it in time */
    bool has_spoken;             /* some process of it has sent a message */
    bool is_stalled;
    bool is_input_closed; /* it runs but takes nothing any more */
    bool is_held;
    bool is_remote;  /* a transport with exchanges: no process of ours */
    int http_status; /* of the last failed exchange; 0 = it was none */
    int last_status;
    struct hx_buf last_stderr;
    uint64_t noise_count;
};

enum hx_ask_kind { HX_ASK_SERVER, HX_ASK_OUTCOME };

/* A request of ours to the client. */
struct hx_ask {
    struct hx_map_node by_id;
    struct hx_list node;
    enum hx_ask_kind kind;
    char id_text[48]; /* raw id as we sent it */
    struct hx_buf id_key;
    uint32_t generation;   /* SERVER: of the process that asked */
    struct hx_buf raw_id;  /* SERVER: its own id */
    struct hx_work *work;  /* OUTCOME */
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
    struct hx_list node; /* gateway->deliveries, oldest first */
    struct hx_map_node by_tag;
    struct hx_map_node by_id; /* gateway->answered: by the request's id */
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
};

/* Calls of one twin digest are decided one after the other. */
struct hx_gate {
    struct hx_map_node node;
    struct hx_digest twin;
    struct hx_call *inside;
    struct hx_list waiting;
};

enum { HX_KEYS_MET = 1024 };

#define HX_GATEWAY_MAGIC 0x67617465u

struct hx_gateway {
    uint32_t magic;
    struct hx_gateway_options options;
    struct hx_gateway_ports ports;
    struct hx_now now;
    struct hx_timers timers;

    /* Scratch of one message. */
    struct hx_hasher *hasher;
    struct hx_fingerprinter fingerprinter;
    struct hx_json_tape tape;    /* the message in hand */
    struct hx_json_tape scratch; /* a part of it, read to another depth */
    struct hx_json_limits limits;
    struct hx_json_limits part_limits;
    struct hx_rewrite rewrite;
    struct hx_arena arena;

    /* The client. */
    struct hx_map requests_by_id;
    struct hx_list requests;
    uint32_t request_count;
    uint64_t request_bytes;
    struct hx_map asks_by_id;
    struct hx_list asks;
    uint32_t server_asks; /* of a person, on behalf of the server: clocks stand still */
    struct hx_list deliveries;
    struct hx_map deliveries_by_tag;
    uint32_t losses_open;        /* notes of a loss that the ledger has not taken yet */
    struct hx_map batch_answers; /* by the request's id: answered, and not sent yet */
    struct hx_map answered;
    uint64_t next_tag;
    uint64_t next_ask;
    char ask_secret[17];
    bool is_input_over;
    bool is_client_gone;
    bool is_draining;
    bool is_stopping;
    const struct hx_mcp_facts *era;
    struct hx_mcp_initialize client; /* texts in client_arena */
    struct hx_arena client_arena;
    bool has_client;
    struct hx_buf initialize_message; /* to greet a restarted server with */
    struct hx_buf initialized_message;
    struct hx_buf level_message;  /* last logging/setLevel */
    struct hx_list subscriptions; /* struct hx_subscription */
    struct hx_timer drain_limit;
    struct hx_timer input_limit; /* the client asks no more; its last answers are waited for */
    struct hx_timer leave_limit;
    bool must_leave;
    struct hx_timer sweep;

    /* The server. */
    struct hx_link link;
    struct hx_map tools;
    char token_secret[17];

    /* Operations. */
    struct hx_map works_by_id;
    struct hx_list works;
    struct hx_list ready;
    struct hx_map gates;
    uint64_t keys_met[HX_KEYS_MET]; /* heads of identities; a guess, see replay.c */
    uint32_t store_open;            /* requests under way */
    struct hx_list lazy;            /* struct hx_store_request that may wait for the next commit */
    uint64_t lazy_count;
    struct hx_timer lazy_limit;
    struct hx_list tickets;      /* store.c: whom they are for */
    struct hx_list quiet_failed; /* struct hx_store_request: to be tried again */
    uint32_t quiet_failed_count;
    struct hx_timer quiet_again;
    struct hx_map questions; /* to neighbours, by ticket */
    uint64_t next_ticket;
    int64_t scan_after[2];
    uint64_t counters[HX_COUNTER_COUNT];
};

/* A resource that the client watches, to be asked for again after a restart. */
struct hx_subscription {
    struct hx_list node;
    struct hx_buf message;
};

/* client.c: what the client says. */
void hx_client_event(struct hx_gateway *gateway, struct hx_peer_event *event);
void hx_client_gone(struct hx_gateway *gateway);
struct hx_request *hx_request_find(struct hx_gateway *gateway, const struct hx_rpc_id *id);
void hx_request_free(struct hx_gateway *gateway, struct hx_request *request);

/* reply.c: what we say to the client. */
void hx_reply_line(struct hx_gateway *gateway, struct hx_request *request, struct hx_buf *line,
                   struct hx_delivery_note *note);
void hx_reply_error(struct hx_gateway *gateway, struct hx_request *request, int64_t code,
                    struct hx_span message, struct hx_span data);
void hx_reply_invalid(struct hx_gateway *gateway, struct hx_batch *batch,
                      const struct hx_rpc_msg *msg);
/* Takes the line. One that could not be written whole is not sent. */
void hx_send_client(struct hx_gateway *gateway, struct hx_buf *line, uint64_t tag);
void hx_batch_release(struct hx_gateway *gateway, struct hx_batch *batch);
/* Takes an answer out of a batch that has not left yet; false when there is none to this id. */
bool hx_batch_withdraw(struct hx_gateway *gateway, const struct hx_rpc_id *id);

/* answer.c: what a call is told. Each ends the call and its request. */
void hx_call_answer(struct hx_call *call, enum hx_answer answer, const struct hx_record *record);
/* A refusal before any operation: `detail` is one more sentence, or NULL. */
void hx_call_refuse(struct hx_call *call, enum hx_answer answer, const char *detail);
/* Passes a raw JSON-RPC error on as the answer. */
void hx_call_answer_error(struct hx_call *call, struct hx_span error);

/* replay.c: the short way to a replay. Peeks when the key was met before; true when it does. */
bool hx_replay_peek(struct hx_call *call);
/* False: what was peeked for is not there. */
bool hx_replay_is_found(struct hx_call *call, const struct hx_store_request *found);

/* intake.c: how a call finds its operation. */
void hx_intake(struct hx_gateway *gateway, struct hx_request *request,
               const struct hx_mcp_call *parsed, struct hx_tool *tool);
void hx_intake_again(struct hx_call *call);
void hx_intake_find(struct hx_call *call);
void hx_intake_begin_new(struct hx_call *call);
void hx_intake_go_to_row(struct hx_call *call, const struct hx_candidate *candidate);
/* Takes the request. */
void hx_intake_found(struct hx_call *call, struct hx_store_request *found);
void hx_intake_upstream_ready(struct hx_call *call);
void hx_intake_upstream_failed(struct hx_call *call);
void hx_intake_leave_gate(struct hx_call *call);
/* Takes the call out of wherever it waits and frees it with its request. */
void hx_call_forget(struct hx_call *call);

/* intake_read.c: what it says of itself. The first two return NULL, or what is wrong. */
const char *hx_intake_read_key(struct hx_call *call, const struct hx_mcp_call *parsed);
const char *hx_intake_read_times(struct hx_call *call, const struct hx_mcp_call *parsed);
/* What hx_fingerprint returns. */
int hx_intake_read_fingerprint(struct hx_call *call);
void hx_intake_fill_wanted(struct hx_call *call);

/* twins.c: equal operations. */
void hx_intake_ask_neighbours(struct hx_call *call);
void hx_intake_neighbour(struct hx_gateway *gateway, uint64_t ticket, bool is_live);
/* Takes the request. */
void hx_intake_adopted(struct hx_call *call, struct hx_store_request *done);
/* Notes the equal operation whose waiter this call may be the silent repeat of. */
void hx_intake_note_overlap(struct hx_call *call);
/* The same for calls that came while this one was still being decided. */
void hx_intake_tell_overlap(const struct hx_call *call, struct hx_gate *gate);

/* work.c: operations in hand. */
struct hx_span hx_work_keep_span(struct hx_work *work, struct hx_span span);
/* Makes the work own everything that a record points at. */
struct hx_record hx_work_keep_record(struct hx_work *work, const struct hx_record *record);
void hx_work_look_again_later(struct hx_work *work);
struct hx_work *hx_work_new_absent(struct hx_call *call);
struct hx_work *hx_work_load(struct hx_gateway *gateway, const struct hx_record *record);
struct hx_work *hx_work_find(struct hx_gateway *gateway, const struct hx_id *id);
void hx_work_step(struct hx_work *work, const struct hx_event *event, struct hx_call *call);
void hx_work_event(struct hx_work *work, enum hx_event_type type);
void hx_work_lost(struct hx_work *work, enum hx_reason reason, bool is_sender_gone);
/* The operation is known under the caller's key from now on. `work` may be NULL. */
void hx_work_rekey(struct hx_work *work, struct hx_record *record, const struct hx_record *wanted);
void hx_work_upstream_ready(struct hx_work *work);
void hx_work_upstream_failed(struct hx_work *work);
void hx_work_call_left(struct hx_work *work, struct hx_call *call);
void hx_work_take_ready(struct hx_gateway *gateway);
bool hx_work_has_attempt(const struct hx_work *work);
void hx_work_retire(struct hx_work *work);
struct hx_event hx_work_make_event(struct hx_work *work, enum hx_event_type type);
struct hx_facts hx_facts_of(enum hx_owner_fact owner, bool is_sender_gone, bool is_epoch_current);

/* work_ledger.c: what the ledger answers about them. */
void hx_work_read_again(struct hx_work *work);
void hx_work_found(struct hx_work *work, struct hx_store_request *done);
void hx_work_stored(struct hx_work *work, struct hx_store_request *done);
bool hx_is_row_sound(struct hx_gateway *gateway, const struct hx_record *record);

/* limits.c: their clocks. */
void hx_work_set_timers(struct hx_work *work);
/* A sign of life of the tool. */
void hx_work_heard(struct hx_work *work);

/* effects.c: carrying out what the core decided. */
void hx_work_send_now(struct hx_work *work);
/* Forwards a cancel to the tool, once, if its contract allows that. */
void hx_work_cancel_upstream(struct hx_work *work);
void hx_effect_run(struct hx_work *work, const struct hx_effect *effect,
                   const struct hx_event *event, struct hx_call *call);

/* link.c: the upstream's process. */
void hx_link_init(struct hx_gateway *gateway);
void hx_link_fini(struct hx_gateway *gateway);
/* True when a message can be sent now; else starts what is needed. */
bool hx_link_want(struct hx_gateway *gateway);
void hx_link_event(struct hx_gateway *gateway, struct hx_peer_event *event);
struct hx_route *hx_route_new(struct hx_gateway *gateway, enum hx_route_kind kind);
void hx_route_free(struct hx_gateway *gateway, struct hx_route *route);
struct hx_route *hx_route_find(struct hx_gateway *gateway, uint64_t id);
void hx_route_id_text(const struct hx_route *route, char ret_text[24]);
/* Takes the line. `tag` comes back with its fate; 0 = nobody asks. */
void hx_link_send(struct hx_gateway *gateway, struct hx_buf *line, uint64_t tag);
void hx_link_become_ready(struct hx_gateway *gateway);
/* The handshake is under way: it is given start_timeout. */
void hx_link_limit_handshake(struct hx_gateway *gateway);
/* The handshake was answered. */
void hx_link_handshake_answered(struct hx_gateway *gateway);
/* The server cannot be used now; whoever waits for it is told. */
void hx_link_unreachable(struct hx_gateway *gateway);
/* How the last process ended, in sentences: its status and its last words. */
void hx_link_write_end(const struct hx_link *link, struct hx_buf *out);
void hx_link_stop(struct hx_gateway *gateway);

/* waiting.c: what waits for the server to be there. */
void hx_link_forward(struct hx_gateway *gateway, struct hx_request *request);
/* Passes a notification on; copies `line`. */
void hx_link_notify(struct hx_gateway *gateway, struct hx_span line);
void hx_notice_free(struct hx_notice *notice);
void hx_link_release_waiting(struct hx_gateway *gateway);
void hx_link_fail_waiting(struct hx_gateway *gateway);

/* greeting.c: our own handshake. */
void hx_link_greet(struct hx_gateway *gateway);
void hx_link_greeted(struct hx_gateway *gateway, bool is_welcome);

/* exchange.c: ends that only transports with exchanges know. */
bool hx_link_has_exchanges(const struct hx_gateway *gateway);
void hx_exchange_not_sent(struct hx_gateway *gateway, const struct hx_peer_event *event);
void hx_exchange_answer_lost(struct hx_gateway *gateway, const struct hx_peer_event *event);
void hx_exchange_rejected(struct hx_gateway *gateway, const struct hx_peer_event *event);

/* upstream.c: what the server says. */
void hx_upstream_message(struct hx_gateway *gateway, struct hx_peer_event *event);
void hx_upstream_oversize(struct hx_gateway *gateway, struct hx_peer_event *event);
void hx_upstream_failed_request(struct hx_gateway *gateway, struct hx_request *request);

/* tools.c: what we know of the server's tools. */
struct hx_tool *hx_tool_get(struct hx_gateway *gateway, struct hx_span name);
enum hx_tool_class hx_tool_class_of(const struct hx_gateway *gateway, const struct hx_tool *tool);
/* What the server said of its tools may not hold any more. */
void hx_tools_forget_hints(struct hx_gateway *gateway);
void hx_tools_learn(struct hx_gateway *gateway, struct hx_span result);
bool hx_tools_want_key(void *context, struct hx_span name, struct hx_span *ret_property);

/* ask.c: requests of ours to the client. */
void hx_ask_for_server(struct hx_gateway *gateway, const struct hx_rpc_msg *msg);
bool hx_ask_outcome(struct hx_work *work);
void hx_ask_answered(struct hx_gateway *gateway, struct hx_ask *ask, const struct hx_rpc_msg *msg);
/* Answers the server's question with an error of ours. */
void hx_ask_refuse(struct hx_gateway *gateway, struct hx_ask *ask, const char *reason);
void hx_ask_withdraw(struct hx_gateway *gateway, struct hx_ask *ask);
void hx_asks_of_server_gone(struct hx_gateway *gateway, bool is_client_gone);
struct hx_ask *hx_ask_find(struct hx_gateway *gateway, const struct hx_rpc_id *id);
struct hx_ask *hx_ask_find_server(struct hx_gateway *gateway, const struct hx_rpc_id *server_id);

/* delivery.c: what became of an answer. */
struct hx_delivery_note *hx_delivery_new(struct hx_gateway *gateway, struct hx_call *call,
                                         const struct hx_record *record);
/* A promise was given under this id: the transport's repeat of the request means that operation. */
void hx_delivery_remember(struct hx_gateway *gateway, struct hx_call *call,
                          const struct hx_record *record);
void hx_delivery_fate(struct hx_gateway *gateway, uint64_t tag, enum hx_peer_event_type fate);
struct hx_delivery_note *hx_delivery_find(struct hx_gateway *gateway, const struct hx_rpc_id *id);
void hx_delivery_take_back(struct hx_gateway *gateway, struct hx_delivery_note *note);
void hx_delivery_front_gone(struct hx_gateway *gateway);
void hx_delivery_forget_old(struct hx_gateway *gateway);
void hx_delivery_stored(struct hx_gateway *gateway, struct hx_delivery_note *note,
                        enum hx_receipt receipt, enum hx_store_result result);
/* Tells the ledger again what it did not take. */
void hx_delivery_again(struct hx_gateway *gateway);
/* The operation that this call repeats, if its answer was lost and the ledger has not taken that
 * yet, or waits for the rest of its batch while its caller has long been silent. */
bool hx_delivery_find_repeated(struct hx_gateway *gateway, const struct hx_call *call,
                               struct hx_digest *ret_identity);
/* Somebody has got the outcome of this operation from here, or can still get it. */
bool hx_delivery_is_live(struct hx_gateway *gateway, const struct hx_id *operation);
void hx_delivery_free(struct hx_gateway *gateway, struct hx_delivery_note *note);

/* store.c: submitting, and where completions go. */
void hx_store_end(struct hx_gateway *gateway);
struct hx_store_request *hx_store_make(struct hx_gateway *gateway, enum hx_store_kind kind);
void hx_store_submit_for_work(struct hx_work *work, struct hx_store_request *request);
void hx_store_submit_for_call(struct hx_call *call, struct hx_store_request *request);
/* Not behind what was put off. */
void hx_store_submit_peek(struct hx_call *call, struct hx_store_request *request);
void hx_store_init(struct hx_gateway *gateway);
/* Hands over what was put off. */
void hx_store_submit_lazy(struct hx_gateway *gateway);
/* Nobody waits for it, and it may wait for the next commit. */
void hx_store_submit_quiet(struct hx_gateway *gateway, struct hx_store_request *request);
void hx_store_submit_for_note(struct hx_gateway *gateway, struct hx_delivery_note *note,
                              struct hx_store_request *request);
/* Tries again, in a while, what the ledger did not take. */
void hx_store_try_again(struct hx_gateway *gateway);
void hx_store_forget_call(struct hx_call *call);
void hx_store_submit_sweep(struct hx_gateway *gateway, struct hx_store_request *request);
/* Takes a finished request and hands its result on. */
void hx_store_take_one(struct hx_gateway *gateway, struct hx_store_request *done);
void hx_store_note(struct hx_gateway *gateway, const struct hx_id *operation, struct hx_span note);

/* sweep.c: what nobody asks for. */
void hx_sweep_begin(struct hx_gateway *gateway);
void hx_sweep_found(struct hx_gateway *gateway, struct hx_store_request *found);

/* gateway.c: one event for the operator, as "name=value" pairs; a fresh id. */
void hx_tell(struct hx_gateway *gateway, enum hx_tell tell, const char *event, const char *format,
             ...) HX_PRINTF(4, 5);
void hx_mint_id(struct hx_gateway *gateway, struct hx_id *ret_id);

#endif
