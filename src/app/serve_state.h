/* SPDX-License-Identifier: MIT */
/*
 * What the files of `hapax serve` share. Internal to serve*.c.
 */
#ifndef HX_APP_SERVE_STATE_H
#define HX_APP_SERVE_STATE_H

#include "adapter/http_front/http_front.h"
#include "adapter/merge/merge.h"
#include "app/admin.h"
#include "app/config.h"
#include "app/ledger_home.h"
#include "app/upstream.h"
#include "base/map.h"
#include "engine/gateway.h"

/* A configuration, for as long as something stands in it. */
struct serve_config {
    const struct hx_config *config;
    struct hx_config own; /* what `config` points at, if it was read while we run */
    unsigned users;       /* of struct served, and one while it is the one that holds */
};

/* One upstream of a configuration. */
struct served {
    struct hx_list node; /* serve->all_served */
    struct serve *serve;
    struct serve_config *source;
    const struct hx_config_upstream *upstream;
    struct hx_upstream_place place;
    struct hx_server *server;
    uint32_t endpoint;
    bool is_retired; /* the configuration has another one, or none */
};

/* A name under which an upstream is or was reached; its place in the array is the number of the
 * endpoint, for ever. */
struct serve_endpoint {
    char *name;            /* owned */
    struct served *served; /* NULL = the configuration has it no more */
};

/* Whom a token speaks for. It outlives the token, because sessions name it. */
struct serve_holder {
    struct hx_list node; /* serve->holders */
    struct hx_digest hash;
    char *tenant; /* owned, as is principal */
    char *principal;
    const struct hx_config_token *token; /* NULL = it was withdrawn */
};

/* One session of a client: with one server, or with many over the merged endpoint. */
struct serve_session {
    struct hx_map_node node; /* serve->sessions, by the address of its downstream */
    struct hx_downstream *downstream;
    const struct serve_holder *holder; /* NULL: there were no tokens when it began */
    struct hx_merge *merge;            /* NULL: it is one server's */
    struct hx_session **legs;          /* owned; NULL where there is none any more */
    struct served **servers;           /* owned: of the legs */
    size_t leg_count;
};

struct serve {
    const struct hx_config *config; /* that holds now; what it fixes is that of the first one */
    struct serve_config *source;    /* of it */
    int argc;                       /* the words that it is made of */
    char **argv;
    struct hx_clock_os clock;
    struct hx_loop *loop;
    struct hx_ledger_home home;
    struct hx_gateway *gateway;
    struct hx_courier *courier; /* NULL = no outbox */
    struct hx_admin *admin;     /* NULL = no admin API */
    struct served **served;     /* owned; as many as the configuration has upstreams */
    struct hx_list all_served;  /* those too that are retired and not over */
    struct serve_endpoint *endpoints;
    size_t endpoint_count;
    struct serve_holder **holder_of; /* owned; of each token of the configuration */
    struct hx_list holders;
    struct hx_web *web;
    struct hx_http_front *front;
    struct hx_map sessions;
    struct hx_list upstream_inbox; /* struct hx_peer_event */
    struct hx_list peer_inbox;     /* struct hx_peer_event, of clients */
    struct hx_list front_inbox;    /* struct hx_http_front_event */
    struct hx_list web_inbox;      /* struct hx_web_event */
    struct hx_list merge_inbox;    /* struct hx_peer_event, of clients at the merged endpoint */
    struct hx_loop_signal *term_watch;
    struct hx_loop_signal *int_watch;
    struct hx_loop_signal *hup_watch;
    struct hx_loop_timer *idle_timer; /* looks for sessions that nobody uses */
    struct hx_loop_timer *trim_timer; /* gives memory back */
    struct hx_loop_timer *drain_timer;
    struct hx_loop_timer *renew_timer; /* looks for sessions that are in the way of a reload */
    const char **origins;              /* owned, as are hosts */
    const char **hosts;
    char principal[32]; /* of everybody, when there are no tokens */
    unsigned term_count;
    bool is_draining; /* no new requests; answers go out */
};

/* serve_session.c: from a client that comes to a session of the gateway, and back. */
void serve_sessions_init(struct serve *serve);
void serve_sessions_fini(struct serve *serve);
/* Takes what the front has said. True when there was anything. */
bool serve_take_front(struct serve *serve);
/* Of the gateway's options. */
void serve_session_over(void *context, struct hx_downstream *downstream, bool is_ended);
/* Returns after how long to look again. */
int64_t serve_end_idle_sessions(struct serve *serve);

/* Ends sessions that may not be, and those that a newer configuration would begin otherwise, once
 * nobody waits for an answer on them: the ledger has them, and they begin anew with their next
 * request. True when there is one left. */
bool serve_renew_sessions(struct serve *serve);

/* serve_upstreams.c: what the configuration names. */
void serve_take_config(struct serve *serve, struct serve_config *source);
struct serve_config *serve_config_release(struct serve_config *source);
void serve_free_upstreams(struct serve *serve);

/* serve_reload.c: reads the configuration again. */
void serve_reload(struct serve *serve);

/* The endpoint of all servers together. */
#define SERVE_MERGED ((uint32_t)INT32_MAX)
bool serve_may_use(const struct serve_holder *holder, const struct hx_config_upstream *upstream);

/* serve_web.c: who may come, where things are, and what is no MCP. */
bool serve_authenticate(void *context, struct hx_span authorization, bool is_local,
                        struct hx_http_caller *ret_caller);
int serve_find_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller);
void serve_other(struct serve *serve, const struct hx_http_front_event *event);

#endif
