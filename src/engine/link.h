/* SPDX-License-Identifier: MIT */
/*
 * Servers, the links to them, and what travels on a link. Internal to engine/.
 *
 *   server  one tool server by name, with the operator's rules for its tools
 *   link    one connection to it: the state of its process or session
 *   route   one request that we sent over a link under an id of our own
 */
#ifndef HX_ENGINE_LINK_H
#define HX_ENGINE_LINK_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "engine/gateway.h"
#include "engine/timers.h"
#include "wire/jsonrpc.h"
#include "wire/mcp.h"

struct hx_call;
struct hx_request;
struct hx_work;

/* A tool as we know it. */
struct hx_tool {
    struct hx_map_node node;
    struct hx_server *server;
    char *name; /* owned */
    struct hx_tool_rules rules;
};

/* What a server says of a tool of its own, over one link. */
struct hx_hint {
    struct hx_map_node node; /* link->hints */
    struct hx_tool *tool;
    enum hx_mcp_hint read_only;
    enum hx_mcp_hint idempotent;
    enum hx_mcp_task_support task_support;
};

struct hx_server {
    struct hx_list node; /* gateway->servers */
    struct hx_gateway *gateway;
    struct hx_server_options options;
    bool is_retired;
    struct hx_map tools;   /* struct hx_tool, by name */
    struct hx_link *house; /* of `hapax run`: carries what nobody here asks for; else NULL */
    bool is_missed;        /* the last try to start or reach it came to nothing, at `missed` */
    struct hx_mono missed;
    uint64_t noise;
    struct hx_link *listener; /* takes up streams of an earlier process; nothing is sent over it */
};

/* A resource that the client watches, to be asked for again after a restart. */
struct hx_subscription {
    struct hx_list node;
    struct hx_buf message;
};

/* The client's side of the handshake, to greet a restarted server with. */
struct hx_hello {
    struct hx_buf initialize;
    struct hx_buf initialized;
    struct hx_buf level;          /* last logging/setLevel */
    struct hx_list subscriptions; /* struct hx_subscription */
};

enum hx_route_kind {
    HX_ROUTE_REQUEST,
    HX_ROUTE_WORK,
    HX_ROUTE_LATE,  /* of an attempt behind which another one was sent: `operation`, no work */
    HX_ROUTE_QUERY, /* about an operation, to a gateway of our kind */
    HX_ROUTE_PROBE, /* of a tool that looks whether it happened */
    HX_ROUTE_TASK,  /* about a task that the server made of a call */
    HX_ROUTE_HANDSHAKE,
    HX_ROUTE_QUIET
};

struct hx_route {
    struct hx_map_node by_id;
    struct hx_list node; /* link->routes */
    struct hx_link *link;
    enum hx_route_kind kind;
    uint64_t id;
    struct hx_request *request;
    struct hx_work *work;
    struct hx_id operation;
    struct hx_timer end; /* QUIET: nothing is heard on it from then on */
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
    struct hx_list node;      /* gateway->links */
    struct hx_list stir_node; /* gateway->stirred: to be looked at, at the end of the turn */
    struct hx_gateway *gateway;
    struct hx_server *server;
    struct hx_upstream *upstream; /* owned, by way of the server's free_upstream */
    struct hx_list sessions;      /* struct hx_session.link_node: who speaks over it */
    struct hx_buf share;          /* the text that they have in common; empty = it is one's own */
    struct hx_buf welcome;        /* of a shared one: the server's answer to our handshake */
    struct hx_timer linger;       /* of a shared one that nobody speaks over now */
    struct hx_list works;         /* struct hx_work.link_node */
    struct hx_hello hello;
    struct hx_map hints;  /* struct hx_hint, by the tool's name */
    bool is_leaving;      /* nobody calls over it any more: it ends with its last attempt */
    bool must_greet;      /* also the first process: no client will */
    uint64_t speaking;    /* the request on whose exchange the message in hand came; 0 = none */
    bool has_operations;  /* the server is a gateway of our kind */
    bool has_task_calls;  /* it runs calls as tasks, in the way of 2025-11-25 */
    bool has_answer;      /* and it is the answer to that request */
    uint32_t server_asks; /* of a person, on behalf of the server: clocks stand still */

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
    bool was_heard;    /* in this generation it has sent something */
    uint32_t failures; /* starts in a row that came to nothing */
    struct hx_mono not_before;
    struct hx_timer restart;
    struct hx_timer stuck;
    struct hx_timer start_limit; /* the handshake is under way */
    bool was_mute;               /* the last process did not answer it in time */
    bool has_spoken;             /* some process of it has sent a message */
    bool is_stalled;
    bool is_input_closed; /* it runs but takes nothing any more */
    bool is_ending;       /* it was told to end; until CLOSED says so it has not */
    bool is_held;
    bool is_remote;  /* a transport with exchanges: no process of ours */
    int http_status; /* of the last failed exchange; 0 = it was none */
    int last_status;
    struct hx_buf last_stderr;
    uint64_t noise_count;
};

/* server.c */
struct hx_server *hx_server_free(struct hx_server *server);
/* Frees retired ones that nothing speaks of any more. */
void hx_servers_finish(struct hx_gateway *gateway);
/* A try to start or reach it came to nothing. */
void hx_server_missed(struct hx_server *server);
/* The server of that name that is not retired; the first one when there is none. */
struct hx_server *hx_server_find(struct hx_gateway *gateway, struct hx_span name);
/* The server of that very name; NULL = it is not here, and nothing may be sent in its place. */
struct hx_server *hx_server_named(struct hx_gateway *gateway, struct hx_span name);

/* link_life.c: made, shared, given up. */
struct hx_link *hx_link_new(struct hx_server *server);
void hx_link_free(struct hx_link *link);
/* The one that shares this text, made when there is none; NULL when it cannot be had. */
struct hx_link *hx_link_shared(struct hx_server *server, struct hx_span share);
/* For streams that an earlier process listened on; NULL when it cannot be had. */
struct hx_link *hx_link_listener(struct hx_server *server);
/* Whose link it is; NULL when it is nobody's, or shared. */
struct hx_session *hx_link_session(const struct hx_link *link);
void hx_link_join(struct hx_link *link, struct hx_session *session);
void hx_link_part(struct hx_session *session);
/* Looks at it at the end of the turn: may it end, must its server be held? */
void hx_link_stir(struct hx_link *link);
/* A shared one that nobody speaks over is kept for a while from now on. */
void hx_link_linger(struct hx_link *link);
/* No outcome can come over it as it is. */
bool hx_link_is_silent(const struct hx_link *link);
/* No attempt begins over it any more. */
bool hx_link_is_closing(const struct hx_link *link);
/* Stops it if it is leaving and nothing needs it any more. */
void hx_link_finish_when_idle(struct hx_link *link);

/* link.c: the server's process or session. */
void hx_link_set_timers(struct hx_link *link);
/* What the ledger calls the process that has this link's requests; "" for none. Until the next one
 * is asked for. */
const char *hx_link_transport(struct hx_gateway *gateway, const struct hx_link *link);
/* True when a message can be sent now; else starts what is needed. */
bool hx_link_want(struct hx_link *link);
/* The same, if anybody waits for it. */
void hx_link_want_for_waiting(struct hx_link *link);
void hx_link_event(struct hx_link *link, struct hx_peer_event *event);
/* Takes the line. `tag` comes back with its fate; 0 = nobody asks. */
void hx_link_send(struct hx_link *link, struct hx_buf *line, uint64_t tag);
/* Nobody can answer this request of the server's: it is told so at once, so that it can finish its
 * work. */
void hx_link_refuse_server(struct hx_link *link, struct hx_span raw_id, const char *reason);
/* Tells the server that the request of `route` is not wanted any more. */
void hx_link_send_cancel(const struct hx_route *route, const char *reason);
void hx_link_become_ready(struct hx_link *link);
/* The handshake is under way: it is given start_timeout. */
void hx_link_limit_handshake(struct hx_link *link);
/* The handshake was answered. */
void hx_link_handshake_answered(struct hx_link *link);
/* The server cannot be used now; whoever waits for it is told. */
void hx_link_unreachable(struct hx_link *link);
/* The client's request that the message belongs to which the server is sending: the one on whose
 * exchange it speaks, else the newest one of the only client; NULL = none. */
struct hx_request *hx_link_about(struct hx_link *link);
/* How the last process ended, in sentences: its status and its last words. */
void hx_link_write_end(const struct hx_link *link, struct hx_buf *out);
void hx_link_stop(struct hx_link *link);
/* Ends this process or session; what its state is until CLOSED comes is the caller's to say. */
void hx_link_end(struct hx_link *link, bool is_killed);

/* route.c: requests under ids of our own. */
struct hx_route *hx_route_new(struct hx_link *link, enum hx_route_kind kind);
void hx_route_free(struct hx_route *route);
/* Nobody wants its answer: after a while it is over, since a server need not answer what was
 * cancelled. */
void hx_route_quiet(struct hx_route *route);
/* Its answer is evidence still, but nobody waits for it: it is in nobody's way. */
void hx_route_give_way(const struct hx_route *route);
struct hx_route *hx_route_find(struct hx_link *link, uint64_t id);
/* Our own ids are positive integers written plainly; NULL for anything else. */
struct hx_route *hx_route_find_rpc(struct hx_link *link, const struct hx_rpc_id *id);
void hx_route_id_text(const struct hx_route *route, char ret_text[24]);

/* What a route was for, when it has ended. */
struct hx_route_end {
    enum hx_route_kind kind;
    struct hx_request *request; /* at most one of these two */
    struct hx_work *work;
};

/* Frees the route. */
struct hx_route_end hx_route_take(struct hx_route *route);
/* Another attempt takes the place of the one that this route is of; its answer may still come. */
void hx_route_leave(struct hx_work *work);
/* No answer of its own comes for the work of this one. */
void hx_route_lost(const struct hx_route_end *end, enum hx_reason reason, bool is_sender_gone);

/* hello.c: the handshake that a link keeps. */
void hx_hello_init(struct hx_hello *hello, size_t message_max);
void hx_hello_fini(struct hx_hello *hello);
void hx_hello_subscribe(struct hx_hello *hello, struct hx_span message);
/* A handshake of our own, without any capability: what the server would ask for, nobody gets. */
void hx_hello_make(struct hx_hello *hello);
/* The client's, of whom only the first message was kept. */
void hx_hello_restore(struct hx_hello *hello, struct hx_span initialize);

/* waiting.c: what waits for the server to be there. */
void hx_link_forward(struct hx_link *link, struct hx_request *request);
/* Passes a notification on; copies `line`. */
void hx_link_notify(struct hx_link *link, struct hx_span line);
void hx_notice_free(struct hx_notice *notice);
void hx_link_release_waiting(struct hx_link *link);
void hx_link_fail_waiting(struct hx_link *link);

/* greeting.c: our own handshake. */
void hx_link_greet(struct hx_link *link);
void hx_link_greeted(struct hx_link *link, const struct hx_rpc_msg *answer);
/* Reads what the server says of itself in answer to any handshake. */
int hx_link_learn_server(struct hx_link *link, const struct hx_rpc_msg *msg,
                         struct hx_mcp_initialize_result *ret_result);
/* Answers the client's `initialize` with what the server said to ours. */
void hx_link_answer_initialize(struct hx_link *link, struct hx_request *request);

/* exchange.c: ends that only transports with exchanges know. */
bool hx_link_has_exchanges(const struct hx_link *link);
void hx_exchange_not_sent(struct hx_link *link, const struct hx_peer_event *event);
void hx_exchange_answer_lost(struct hx_link *link, const struct hx_peer_event *event);
void hx_exchange_rejected(struct hx_link *link, const struct hx_peer_event *event);

/* upstream.c: what the server says. */
void hx_upstream_message(struct hx_link *link, struct hx_peer_event *event);
void hx_upstream_failed_request(struct hx_link *link, struct hx_request *request);
/* It was answered, and nobody here can read the answer or pass it on: `why`. */
void hx_upstream_unread(struct hx_link *link, struct hx_request *request, const char *why);

/* outcome.c: what its tools answer. The route ends; takes the content of `line` when it is kept. */
void hx_outcome_take(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line);
void hx_outcome_late(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line);
/* The same of an answer that came for the attempt in hand on another route. */
void hx_outcome_answer(struct hx_work *work, const struct hx_rpc_msg *msg, struct hx_buf *line);
/* Its answer by another way than that of its attempt. Takes the content of `line`. */
void hx_outcome_evidence(struct hx_work *work, struct hx_span bytes, bool is_error,
                         struct hx_buf *line);
/* It happened, and its result is not kept any more where that is known. */
void hx_outcome_gone(struct hx_work *work);
/* An outcome that was found out, not answered. Takes the content of `result`. */
void hx_outcome_reconstructed(struct hx_work *work, struct hx_buf *result);
/* The outcome of a call that somebody confirms, and whose own result is lost. */
struct hx_outcome hx_outcome_confirmed(struct hx_gateway *gateway);
void hx_outcome_oversize(struct hx_link *link, struct hx_peer_event *event);

/* tools.c: what we know of the server's tools. */
/* By a name that a client made up, perhaps; NULL when too many have been named. */
struct hx_tool *hx_tool_called(struct hx_server *server, struct hx_span name);
/* By a name that the server or the ledger knows. */
struct hx_tool *hx_tool_get(struct hx_server *server, struct hx_span name);
enum hx_tool_class hx_tool_class_of(const struct hx_link *link, const struct hx_tool *tool);
enum hx_mcp_task_support hx_tool_task_support(const struct hx_link *link,
                                              const struct hx_tool *tool);
/* What the server said of its tools may not hold any more. */
void hx_tools_forget_hints(struct hx_link *link);
void hx_tools_learn(struct hx_link *link, struct hx_span result);
/* For hx_rewrite_tools; the context is the link. */
bool hx_tools_want_key(void *context, struct hx_span name, struct hx_span *ret_property);

#endif
