/* SPDX-License-Identifier: MIT */
/*
 * Sessions of `hapax serve`: a client that comes for the first time, one that an earlier process
 * knew, and one that is over.
 */
#include <stdio.h>
#include <string.h>

#include "app/serve_state.h"
#include "base/alloc.h"
#include "base/fault.h"

static struct hx_span key_of(struct hx_downstream *const *downstream)
{
    return hx_span((const char *)downstream, sizeof(*downstream));
}

void serve_sessions_init(struct serve *serve)
{
    uint64_t secret[2];
    struct hx_rand *rand = hx_rand_os();
    hx_rand_fill(rand, (uint8_t *)secret, sizeof(secret));
    hx_map_init(&serve->sessions, secret);
}

static void session_free(struct serve *serve, struct serve_session *session)
{
    hx_map_remove(&serve->sessions, &session->node);
    hx_free(session);
}

void serve_sessions_fini(struct serve *serve)
{
    struct hx_map_node *node;
    while ((node = hx_map_next(&serve->sessions, NULL)) != NULL)
        session_free(serve, hx_container_of(node, struct serve_session, node));
    hx_map_fini(&serve->sessions);
}

/* Whose calls go over one connection. */
static struct hx_span share_of(const struct served *served, const struct hx_http_caller *caller,
                               char *buffer, size_t size)
{
    int len;
    switch (served->upstream->affinity) {
    case HX_AFFINITY_SESSION:
        return HX_SPAN_NONE;
    case HX_AFFINITY_SHARED:
        return HX_SPAN_LIT("*");
    case HX_AFFINITY_PRINCIPAL:
        break;
    }
    len = snprintf(buffer, size, "%zu:%.*s %.*s", caller->tenant.len, HX_SPAN_FMT(caller->tenant),
                   HX_SPAN_FMT(caller->principal));
    /* One that is too long to be told from others has its own. */
    return len > 0 && (size_t)len < size ? hx_span(buffer, (size_t)len) : HX_SPAN_NONE;
}

/* `kept` is what the ledger has of it; NULL for a new one. */
static void begin(struct serve *serve, struct served *served, struct hx_downstream *downstream,
                  const struct hx_http_front_event *event, const struct hx_store_session *kept)
{
    char share[1024];
    struct hx_session_options options = {
        .server = served->server,
        .downstream = downstream,
        .tenant = event->caller.tenant,
        .principal = event->caller.principal,
        .key = event->session,
        .endpoint = hx_span_cstr(served->upstream->name),
        .share = share_of(served, &event->caller, share, sizeof(share)),
        .initialize = kept != NULL ? kept->initialize : HX_SPAN_NONE,
        .revision = kept != NULL ? kept->revision : HX_SPAN_NONE,
    };
    struct hx_session *session = hx_session_new(serve->gateway, &options);
    if (session == NULL) {
        /* Only a file that has become unreadable can be the reason. */
        hx_tell_log(serve, HX_TELL_ERROR, "no_upstream", hx_fault_last()->text);
        hx_http_front_forget(serve->front, downstream, true);
        return;
    }
    struct serve_session *known = hx_new(struct serve_session);
    known->downstream = downstream;
    known->session = session;
    hx_map_insert(&serve->sessions, &known->node, key_of(&known->downstream));
}

/* A session that is looked for, until the ledger has answered. */
struct asked {
    struct serve *serve;
    struct hx_http_front_event *event;
};

static void on_found(void *context, uint64_t ticket, enum hx_store_result result,
                     const struct hx_store_session *found)
{
    struct asked *asked = context;
    struct serve *serve = asked->serve;
    const struct hx_http_front_event *event = asked->event;
    struct served *served = &serve->served[event->endpoint];
    bool is_his = found != NULL && hx_span_eq(found->tenant, event->caller.tenant) &&
                  hx_span_eq(found->principal, event->caller.principal) &&
                  hx_span_eq_cstr(found->endpoint, served->upstream->name);
    if (result == HX_STORE_NOT_DONE) {
        hx_http_front_refuse(serve->front, ticket,
                             "The ledger cannot be read, so it is not known whether this session "
                             "exists. Try again later.");
    } else if (!is_his) {
        hx_http_front_refuse(serve->front, ticket, NULL);
    } else {
        struct hx_downstream *downstream =
            hx_http_front_adopt(serve->front, ticket, found->revision);
        if (downstream != NULL)
            begin(serve, served, downstream, event, found);
    }
    hx_http_front_event_free(asked->event);
    hx_free(asked);
}

/* Takes the event. */
static void ask(struct serve *serve, struct hx_http_front_event *event)
{
    struct asked *asked = hx_new(struct asked);
    asked->serve = serve;
    asked->event = event;
    hx_gateway_find_session(serve->gateway, &event->session, on_found, asked, event->ticket);
}

bool serve_take_front(struct serve *serve)
{
    struct hx_list *node;
    bool had_any = false;
    while ((node = hx_list_take_first(&serve->front_inbox)) != NULL) {
        struct hx_http_front_event *event = hx_container_of(node, struct hx_http_front_event, node);
        had_any = true;
        switch (event->type) {
        case HX_HTTP_FRONT_SESSION_NEW:
            begin(serve, &serve->served[event->endpoint], event->downstream, event, NULL);
            break;
        case HX_HTTP_FRONT_SESSION_ASKED:
            ask(serve, event);
            continue;
        case HX_HTTP_FRONT_OTHER:
            serve_other(serve, event);
            break;
        }
        hx_http_front_event_free(event);
    }
    return had_any;
}

void serve_session_over(void *context, struct hx_downstream *downstream, bool is_ended)
{
    struct serve *serve = context;
    struct hx_map_node *node = hx_map_find(&serve->sessions, key_of(&downstream));
    if (node != NULL)
        session_free(serve, hx_container_of(node, struct serve_session, node));
    if (serve->front != NULL)
        hx_http_front_forget(serve->front, downstream, is_ended);
}

void serve_end_idle_sessions(struct serve *serve)
{
    struct hx_mono now = hx_loop_now(serve->loop);
    struct hx_map_node *node = NULL;
    while ((node = hx_map_next(&serve->sessions, node)) != NULL) {
        const struct serve_session *session = hx_container_of(node, struct serve_session, node);
        int64_t idle_ms = hx_mono_since_ms(now, hx_http_front_last_seen(session->downstream));
        if (idle_ms >= serve->config->limits.session_idle &&
            !hx_http_front_is_busy(session->downstream))
            hx_session_end(session->session);
    }
}
