/* SPDX-License-Identifier: MIT */
/*
 * Requests that we sent under ids of our own, and what each was for.
 */
#include "engine/internal.h"

#include <stdio.h>

/* It is a while, as the answer may be on its way, and a server may take a closed connection ill. */
enum { QUIET_MS = 30 * 1000 };

static void on_end(struct hx_timer *timer)
{
    struct hx_route *route = hx_container_of(timer, struct hx_route, end);
    struct hx_link *link = route->link;
    uint64_t tag = route->id;
    hx_route_free(route);
    if (hx_link_has_exchanges(link))
        link->upstream->ops->drop(link->upstream, tag);
    hx_link_stir(link);
}

struct hx_route *hx_route_new(struct hx_link *link, enum hx_route_kind kind)
{
    struct hx_route *route = hx_new(struct hx_route);
    route->link = link;
    route->kind = kind;
    route->id = link->next_id++;
    route->end.fire = on_end;
    hx_list_append(&link->route_list, &route->node);
    hx_map_insert(&link->routes, &route->by_id,
                  hx_span((const char *)&route->id, sizeof(route->id)));
    return route;
}

void hx_route_free(struct hx_route *route)
{
    hx_timer_disarm(&route->link->gateway->timers, &route->end);
    if (route->request != NULL)
        route->request->route = NULL;
    if (route->work != NULL && route->kind == HX_ROUTE_PROBE)
        route->work->probe_route = NULL;
    else if (route->work != NULL)
        route->work->route = NULL;
    hx_list_unlink(&route->node);
    hx_map_remove(&route->link->routes, &route->by_id);
    hx_free(route);
}

void hx_route_give_way(const struct hx_route *route)
{
    struct hx_upstream *upstream = route->link->upstream;
    if (upstream->ops->give_way != NULL)
        upstream->ops->give_way(upstream, route->id);
}

void hx_route_quiet(struct hx_route *route)
{
    struct hx_gateway *gateway = route->link->gateway;
    route->kind = HX_ROUTE_QUIET;
    hx_timer_arm(&gateway->timers, &route->end, hx_mono_after(gateway->now.mono, QUIET_MS));
    hx_route_give_way(route);
}

void hx_route_leave(struct hx_work *work)
{
    struct hx_route *route = work->route;
    route->operation = work->op.durable.id;
    route->work = NULL;
    work->route = NULL;
    if (route->kind != HX_ROUTE_WORK) {
        hx_route_quiet(route);
        return;
    }
    route->kind = HX_ROUTE_LATE;
    hx_route_give_way(route);
}

struct hx_route_end hx_route_take(struct hx_route *route)
{
    struct hx_route_end end = {route->kind, route->request, route->work};
    hx_route_free(route);
    return end;
}

void hx_route_lost(const struct hx_route_end *end, enum hx_reason reason, bool is_sender_gone)
{
    /* Of a probe it says nothing about the call that it looks for. */
    if (end->kind == HX_ROUTE_PROBE)
        hx_probe_failed(end->work);
    else
        hx_work_lost(end->work, reason, is_sender_gone);
}

struct hx_route *hx_route_find(struct hx_link *link, uint64_t id)
{
    struct hx_map_node *node = hx_map_find(&link->routes, hx_span((const char *)&id, sizeof(id)));
    return node ? hx_container_of(node, struct hx_route, by_id) : NULL;
}

struct hx_route *hx_route_find_rpc(struct hx_link *link, const struct hx_rpc_id *id)
{
    uint64_t value = 0;
    if (id->type != HX_RPC_ID_INTEGER || id->raw.len == 0 || id->raw.len > 19)
        return NULL;
    for (size_t i = 0; i < id->raw.len; i++) {
        if (id->raw.ptr[i] < '0' || id->raw.ptr[i] > '9')
            return NULL;
        value = value * 10 + (uint64_t)(id->raw.ptr[i] - '0');
    }
    return hx_route_find(link, value);
}

void hx_route_id_text(const struct hx_route *route, char ret_text[24])
{
    snprintf(ret_text, 24, "%llu", (unsigned long long)route->id);
}
