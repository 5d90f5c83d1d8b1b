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

/* One upstream of the configuration. */
struct served {
    struct serve *serve;
    const struct hx_config_upstream *upstream;
    struct hx_upstream_place place;
    struct hx_server *server;
    struct hx_arena arena; /* texts of the rules */
};

/* One session of a client: with one server, or with many over the merged endpoint. */
struct serve_session {
    struct hx_map_node node; /* serve->sessions, by the address of its downstream */
    struct hx_downstream *downstream;
    struct hx_merge *merge;   /* NULL: it is one server's */
    struct hx_session **legs; /* owned; NULL where there is none any more */
    size_t leg_count;
};

struct serve {
    const struct hx_config *config;
    struct hx_clock_os clock;
    struct hx_loop *loop;
    struct hx_ledger_home home;
    struct hx_gateway *gateway;
    struct hx_courier *courier; /* NULL = no outbox */
    struct hx_admin *admin;     /* NULL = no admin API */
    struct served *served;      /* as many as the configuration has upstreams */
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
    struct hx_loop_timer *idle_timer; /* looks for sessions that nobody uses */
    struct hx_loop_timer *drain_timer;
    const char **origins; /* owned, as are hosts */
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
void serve_end_idle_sessions(struct serve *serve);

/* The endpoint of all servers together: its number is behind those of the servers. */
bool serve_is_merged(const struct serve *serve, uint32_t endpoint);
bool serve_may_use(const struct hx_http_caller *caller, const struct hx_config_upstream *upstream);

/* serve_web.c: who may come, where things are, and what is no MCP. */
bool serve_authenticate(void *context, struct hx_span authorization, bool is_local,
                        struct hx_http_caller *ret_caller);
int serve_find_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller);
void serve_other(struct serve *serve, const struct hx_http_front_event *event);

#endif
