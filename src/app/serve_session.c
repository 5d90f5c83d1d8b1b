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
    hx_free(session->legs);
    hx_free(session->servers);
    hx_free(session);
}

void serve_sessions_fini(struct serve *serve)
{
    struct hx_map_node *node;
    while ((node = hx_map_next(&serve->sessions, NULL)) != NULL) {
        struct serve_session *session = hx_container_of(node, struct serve_session, node);
        hx_merge_free(session->merge);
        session_free(serve, session);
    }
    hx_map_fini(&serve->sessions);
}

/* What the ledger calls it. No server can be called so. */
static struct hx_span endpoint_name(const struct serve *serve, uint32_t endpoint)
{
    return endpoint == SERVE_MERGED ? HX_SPAN_LIT("/")
                                    : hx_span_cstr(serve->endpoints[endpoint].name);
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

static struct hx_session *begin_leg(struct serve *serve, struct served *served,
                                    struct hx_downstream *downstream,
                                    const struct hx_http_front_event *event,
                                    const struct hx_store_session *kept)
{
    char share[1024];
    const struct hx_session_options options = {
        .server = served->server,
        .downstream = downstream,
        .tenant = event->caller.tenant,
        .principal = event->caller.principal,
        .key = event->session,
        .endpoint = endpoint_name(serve, event->endpoint),
        .names_prefix =
            event->endpoint == SERVE_MERGED ? hx_span_cstr(served->upstream->prefix) : HX_SPAN_NONE,
        .share = share_of(served, &event->caller, share, sizeof(share)),
        .initialize = kept != NULL ? kept->initialize : HX_SPAN_NONE,
        .revision = kept != NULL ? kept->revision : HX_SPAN_NONE,
    };
    struct hx_session *session = hx_session_new(serve->gateway, &options);
    if (session == NULL) /* only a file that has become unreadable can be the reason */
        hx_tell_log(serve, HX_TELL_ERROR, "no_upstream", hx_fault_last()->text);
    return session;
}

/* Takes `servers`. */
static struct serve_session *remember(struct serve *serve, struct hx_downstream *downstream,
                                      const struct serve_holder *holder, struct served **servers,
                                      size_t leg_count)
{
    struct serve_session *known = hx_new(struct serve_session);
    known->downstream = downstream;
    known->holder = holder;
    known->servers = servers;
    known->leg_count = leg_count;
    known->legs = hx_new_bytes(leg_count * sizeof(struct hx_session *));
    hx_map_insert(&serve->sessions, &known->node, key_of(&known->downstream));
    return known;
}

static void left_out(void *context, struct hx_span server, struct hx_span reason)
{
    char pairs[512];
    snprintf(pairs, sizeof(pairs), "server=\"%.*s\" reason=\"%.*s\"", HX_SPAN_FMT(server),
             HX_SPAN_FMT(reason));
    hx_tell_log(context, HX_TELL_WARN, "server_left_out", pairs);
}

static struct hx_merge_options merge_options(struct serve *serve)
{
    struct hx_merge_options options = hx_merge_defaults();
    options.leg_inbox = &serve->peer_inbox;
    options.outer_inbox = &serve->merge_inbox;
    options.rand = hx_rand_os();
    options.loop = serve->loop;
    options.version = HX_SPAN_LIT(HX_VERSION);
    options.message_max_bytes = (size_t)serve->config->limits.body_max;
    options.request_bytes_max = (size_t)serve->config->limits.bodies_max;
    options.left_out = left_out;
    options.context = serve;
    return options;
}

/* The servers that he may use; the caller frees the array. */
static struct served **servers_for(const struct serve *serve, const struct serve_holder *holder,
                                   size_t *ret_count)
{
    size_t all = serve->config->upstream_count;
    struct served **servers = hx_new_bytes(all * sizeof(struct served *));
    *ret_count = 0;
    for (size_t i = 0; i < all; i++) {
        if (serve_may_use(holder, serve->served[i]->upstream))
            servers[(*ret_count)++] = serve->served[i];
    }
    return servers;
}

static struct serve_session *find_session(struct serve *serve, struct hx_downstream *downstream)
{
    struct hx_map_node *node = hx_map_find(&serve->sessions, key_of(&downstream));
    return node ? hx_container_of(node, struct serve_session, node) : NULL;
}

/* The front forgets it only when nothing here speaks to it any more. */
static void forget(struct serve *serve, struct hx_downstream *downstream, bool is_ended)
{
    struct serve_session *session = find_session(serve, downstream);
    if (session != NULL)
        session_free(serve, session);
    if (serve->front != NULL)
        hx_http_front_forget(serve->front, downstream, is_ended);
}

/* All servers that the caller may use, under the prefixes of their names. */
static void begin_merged(struct serve *serve, struct hx_downstream *downstream,
                         const struct hx_http_front_event *event,
                         const struct hx_store_session *kept)
{
    const struct hx_merge_options options = merge_options(serve);
    size_t count;
    struct served **servers = servers_for(serve, event->caller.context, &count);
    struct hx_merge_leg_options *legs = hx_new_bytes((count + 1) * sizeof(*legs));
    for (size_t i = 0; i < count; i++)
        legs[i] =
            (struct hx_merge_leg_options){.name = hx_span_cstr(servers[i]->upstream->name),
                                          .prefix = hx_span_cstr(servers[i]->upstream->prefix)};
    struct hx_merge *merge = hx_merge_new(&options, downstream, legs, count);
    struct serve_session *known =
        remember(serve, downstream, event->caller.context, servers, count);
    known->merge = merge;
    for (size_t i = 0; i < count; i++) {
        struct hx_downstream *leg = hx_merge_leg(merge, i);
        known->legs[i] = begin_leg(serve, servers[i], leg, event, kept);
        if (known->legs[i] == NULL)
            hx_merge_leg_over(merge, leg);
    }
    hx_free(legs);
    if (hx_merge_is_over(merge)) { /* nobody is left who could say later that it is */
        hx_merge_free(merge);
        forget(serve, downstream, true);
    } else if (kept != NULL) {
        hx_merge_resume(merge, kept->revision);
    }
}

/* `kept` is what the ledger has of it; NULL for a new one. */
static void begin(struct serve *serve, struct hx_downstream *downstream,
                  const struct hx_http_front_event *event, const struct hx_store_session *kept)
{
    if (event->endpoint == SERVE_MERGED) {
        begin_merged(serve, downstream, event, kept);
        return;
    }
    struct served *served = serve->endpoints[event->endpoint].served;
    struct hx_session *session =
        served != NULL ? begin_leg(serve, served, downstream, event, kept) : NULL;
    if (session == NULL) {
        hx_http_front_forget(serve->front, downstream, true);
        return;
    }
    struct served **servers = hx_new_bytes(sizeof(struct served *));
    servers[0] = served;
    remember(serve, downstream, event->caller.context, servers, 1)->legs[0] = session;
}

/* A session that is looked for, until the ledger has answered. */
struct asked {
    struct serve *serve;
    struct hx_http_front_event *event;
};

/* Whether he who asked may have it now: the configuration can be another one since then. */
static bool may_begin(const struct serve *serve, const struct hx_http_front_event *event)
{
    const struct serve_holder *holder = event->caller.context;
    if (holder == NULL && serve->config->token_count > 0)
        return false;
    if (event->endpoint != SERVE_MERGED) {
        const struct served *served = serve->endpoints[event->endpoint].served;
        return served != NULL && serve_may_use(holder, served->upstream);
    }
    size_t count;
    hx_free(servers_for(serve, holder, &count));
    return count > 0;
}

static void on_found(void *context, uint64_t ticket, enum hx_store_result result,
                     const struct hx_store_session *found)
{
    struct asked *asked = context;
    struct serve *serve = asked->serve;
    const struct hx_http_front_event *event = asked->event;
    bool is_his = found != NULL && hx_span_eq(found->tenant, event->caller.tenant) &&
                  hx_span_eq(found->principal, event->caller.principal) &&
                  hx_span_eq(found->endpoint, endpoint_name(serve, event->endpoint));
    if (serve->is_draining) { /* what waited for it is as new as what comes now */
        hx_http_front_refuse(serve->front, ticket, "The server is shutting down; try again");
    } else if (result == HX_STORE_NOT_DONE) {
        hx_http_front_refuse(serve->front, ticket,
                             "The ledger cannot be read, so it is not known whether this session "
                             "exists. Try again later.");
    } else if (!is_his || !may_begin(serve, event)) {
        hx_http_front_refuse(serve->front, ticket, NULL);
    } else {
        struct hx_downstream *downstream =
            hx_http_front_adopt(serve->front, ticket, found->revision);
        if (downstream != NULL)
            begin(serve, downstream, event, found);
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
            begin(serve, event->downstream, event, NULL);
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

static size_t tags_of(void *merge, uint64_t tag, uint64_t *ret_tags, size_t max)
{
    return hx_merge_tags_of(merge, tag, ret_tags, max);
}

static void forget_leg(struct serve *serve, struct hx_merge *merge, struct hx_downstream *leg,
                       bool is_ended)
{
    struct hx_downstream *outer = hx_merge_outer(merge);
    struct serve_session *session = find_session(serve, outer);
    for (size_t i = 0; session != NULL && i < session->leg_count; i++) {
        if (hx_merge_leg(merge, i) == leg)
            session->legs[i] = NULL;
    }
    hx_merge_leg_over(merge, leg);
    if (!hx_merge_is_over(merge))
        return;
    if (serve->front != NULL)
        hx_http_front_retag(outer, tags_of, merge);
    hx_merge_free(merge);
    forget(serve, outer, is_ended);
}

void serve_session_over(void *context, struct hx_downstream *downstream, bool is_ended)
{
    struct serve *serve = context;
    struct hx_merge *merge = hx_merge_of_leg(downstream);
    if (merge != NULL)
        forget_leg(serve, merge, downstream, is_ended);
    else
        forget(serve, downstream, is_ended);
}

static void end_legs(const struct serve_session *session)
{
    for (size_t i = 0; i < session->leg_count; i++) {
        if (session->legs[i] != NULL)
            hx_session_end(session->legs[i]);
    }
}

int64_t serve_end_idle_sessions(struct serve *serve)
{
    /* All of them are looked at, so not for each alone; and a busy one may rest at any time. */
    const int64_t least_ms = 500, most_ms = 15 * 1000;
    int64_t limit_ms = serve->config->limits.session_idle;
    int64_t wait_ms = limit_ms < most_ms ? limit_ms : most_ms;
    struct hx_mono now = hx_loop_now(serve->loop);
    struct hx_map_node *node = NULL;
    while ((node = hx_map_next(&serve->sessions, node)) != NULL) {
        const struct serve_session *session = hx_container_of(node, struct serve_session, node);
        int64_t idle_ms = hx_mono_since_ms(now, hx_http_front_last_seen(session->downstream));
        bool is_busy = hx_http_front_is_busy(session->downstream);
        if (!is_busy && idle_ms >= limit_ms)
            end_legs(session);
        else if (!is_busy && limit_ms - idle_ms < wait_ms)
            wait_ms = limit_ms - idle_ms;
    }
    return wait_ms > least_ms ? wait_ms : least_ms;
}

static bool is_forbidden(const struct serve *serve, const struct serve_session *session)
{
    const struct serve_holder *holder = session->holder;
    if (holder == NULL)
        return serve->config->token_count > 0;
    if (holder->token == NULL)
        return true;
    return session->merge == NULL && !serve_may_use(holder, session->servers[0]->upstream);
}

static bool is_as_it_would_begin(const struct serve *serve, const struct serve_session *session)
{
    if (session->merge == NULL)
        return !session->servers[0]->is_retired;
    size_t count;
    struct served **servers = servers_for(serve, session->holder, &count);
    bool is_same = count == session->leg_count &&
                   memcmp(servers, session->servers, count * sizeof(struct served *)) == 0;
    hx_free(servers);
    return is_same;
}

/* Its client goes on with the other servers, but not for as long as somebody waits for them. */
static void end_forbidden_legs(const struct serve_session *session)
{
    for (size_t i = 0; i < session->leg_count; i++) {
        if (session->legs[i] != NULL &&
            !serve_may_use(session->holder, session->servers[i]->upstream))
            hx_session_end(session->legs[i]);
    }
}

bool serve_renew_sessions(struct serve *serve)
{
    struct hx_map_node *node = NULL;
    bool is_any_left = false;
    while ((node = hx_map_next(&serve->sessions, node)) != NULL) {
        const struct serve_session *session = hx_container_of(node, struct serve_session, node);
        bool must_end = is_forbidden(serve, session);
        if (!must_end && is_as_it_would_begin(serve, session))
            continue;
        is_any_left = true;
        if (must_end || !hx_http_front_is_awaited(session->downstream))
            end_legs(session);
        else
            end_forbidden_legs(session);
    }
    return is_any_left;
}
