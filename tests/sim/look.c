/* SPDX-License-Identifier: MIT */
/*
 * A look into the engine, for checks that no peer could make. Reads, never writes.
 */
#include "engine/internal.h"
#include "sim/sim.h"

#include <stdlib.h>

bool sim_look_route(const struct hx_upstream *upstream, uint64_t tag, struct hx_id *ret_operation,
                    uint32_t *ret_attempt)
{
    struct hx_route *route = hx_route_find(upstream->owner, tag);
    if (route == NULL || route->work == NULL || route->kind != HX_ROUTE_WORK)
        return false;
    *ret_operation = route->work->op.durable.id;
    *ret_attempt = route->work->op.durable.attempt.number;
    return true;
}

/* Which of the clients' calls it is; 0 = none that the simulator made. */
static uint32_t number_of(struct sim *sim, const struct hx_call *call)
{
    struct hx_span message = hx_buf_span(&call->request->message);
    const struct hx_span name = HX_SPAN_LIT("\"sim\":");
    const struct sim_exchange *exchange = sim_exchange_find(sim, call->request->exchange);
    if (call->is_resumed)
        return exchange != NULL ? exchange->call : 0;
    for (size_t at = 0; at + name.len < message.len; at++) {
        if (memcmp(message.ptr + at, name.ptr, name.len) == 0)
            return (uint32_t)strtoul(message.ptr + at + name.len, NULL, 10);
    }
    return 0;
}

static struct hx_work *work_of(struct sim *sim, const struct hx_id *owner, const struct hx_id *op)
{
    const struct sim_life *life = sim_life_of_owner(sim, owner);
    return life != NULL && life->gateway != NULL ? hx_work_find(life->gateway, op) : NULL;
}

uint32_t sim_look_caller(struct sim *sim, const struct hx_record *row)
{
    const struct hx_work *work = work_of(sim, &row->owner, &row->id);
    uint32_t number = 0;
    for (struct hx_list *at = work != NULL ? hx_list_first(&work->calls) : NULL;
         at != NULL && at != &work->calls && number == 0; at = at->next)
        number = number_of(sim, hx_container_of(at, struct hx_call, node));
    return number;
}

bool sim_look_is_asked(struct sim *sim, const struct sim_call *call)
{
    const struct sim_life *life = sim_life_find(sim, call->life);
    if (life == NULL)
        return false;
    hx_list_for_each (node, &life->gateway->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, node);
        hx_list_for_each (at, &work->calls) {
            if (work->ask != NULL &&
                number_of(sim, hx_container_of(at, struct hx_call, node)) == call->number)
                return hx_timer_is_armed(&hx_container_of(at, struct hx_call, node)->wait);
        }
    }
    return false;
}

static bool is_in(const struct hx_list *list, const struct hx_list *node)
{
    hx_list_for_each (at, list) {
        if (at == node)
            return true;
    }
    return false;
}

/* A session that is gone or over has nothing open; one that lives has a link that knows it. */
static void check_session(struct hx_session *session)
{
    uint32_t requests = 0, asks = 0;
    uint64_t bytes = 0;
    const struct hx_gateway *gateway = session->gateway;
    hx_assert(session->magic == HX_SESSION_MAGIC);
    hx_assert(session->link != NULL);
    hx_assert(is_in(&gateway->links, &session->link->node));
    hx_assert(is_in(&session->link->sessions, &session->link_node));
    hx_assert(session->options.downstream->owner == session);
    hx_assert(!session->is_gone || hx_list_is_empty(&session->requests));
    hx_assert(!session->is_gone || hx_list_is_empty(&session->asks));
    hx_assert(session->taken == NULL);
    hx_assert(session->taking == 0);
    hx_list_for_each (node, &session->asks) {
        const struct hx_ask *ask = hx_container_of(node, struct hx_ask, node);
        hx_assert(ask->session == session);
        hx_assert(ask->work == NULL || ask->work->ask == ask);
        asks++;
    }
    hx_assert(asks == session->asks_by_id.count);
    hx_list_for_each (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        hx_assert(request->session == session);
        hx_assert(request->call == NULL || request->call->request == request);
        hx_assert(request->call == NULL || request->call->session == session);
        hx_assert(request->route == NULL || request->route->request == request);
        bytes += request->message.len;
        requests++;
    }
    hx_assert(requests == session->request_count);
    hx_assert(bytes == session->request_bytes);
    hx_assert(requests == session->requests_by_id.count);
}

/* Every route belongs to one request or one work, which know it. */
static void check_link(const struct hx_gateway *gateway, struct hx_link *link)
{
    uint32_t routes = 0, server_asks = 0;
    hx_assert(link->upstream->owner == link);
    hx_assert(is_in(&gateway->servers, &link->server->node));
    hx_list_for_each (node, &link->route_list) {
        const struct hx_route *route = hx_container_of(node, struct hx_route, node);
        hx_assert(route->link == link);
        hx_assert(hx_route_find(link, route->id) == route);
        hx_assert(route->request == NULL || route->work == NULL);
        hx_assert(route->request == NULL || route->request->route == route);
        hx_assert(route->request == NULL || route->request->session->link == link);
        hx_assert(route->work == NULL ||
                  route == (route->kind == HX_ROUTE_PROBE ? route->work->probe_route
                                                          : route->work->route));
        hx_assert(route->work == NULL || !hx_work_has_attempt(route->work) ||
                  route->work->link == link);
        routes++;
    }
    hx_assert(routes == link->routes.count);
    hx_list_for_each (node, &link->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, link_node);
        hx_assert(work->link == link);
        hx_assert(is_in(&gateway->works, &work->node));
    }
    hx_list_for_each (node, &link->sessions) {
        const struct hx_session *session = hx_container_of(node, struct hx_session, link_node);
        hx_assert(session->link == link);
    }
    hx_list_for_each (node, &gateway->sessions) {
        const struct hx_session *session = hx_container_of(node, struct hx_session, node);
        hx_list_for_each (at, &session->asks)
            server_asks += hx_container_of(at, struct hx_ask, node)->link == link;
    }
    hx_assert(server_asks == link->server_asks);
    hx_list_for_each (node, &link->waiting_calls) {
        const struct hx_call *call = hx_container_of(node, struct hx_call, node);
        hx_assert(call->stage == HX_CALL_STARTING);
        hx_assert(call->session->link == link);
    }
    hx_assert(!link->is_leaving || hx_list_is_empty(&link->sessions));
    hx_assert(link->share.len > 0 || hx_list_is_empty(&link->sessions) ||
              hx_list_first(&link->sessions) == hx_list_last(&link->sessions));
}

void sim_look_check(struct hx_gateway *gateway)
{
    uint32_t scheduled = 0;
    hx_list_for_each (node, &gateway->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, node);
        hx_op_check(&work->op);
        uint32_t waiting = 0;
        hx_list_for_each (at, &work->calls) {
            struct hx_call *call = hx_container_of(at, struct hx_call, node);
            hx_assert(call->work == work);
            hx_assert(call->request != NULL);
            hx_assert(!call->session->is_gone);
            waiting++;
        }
        hx_assert(waiting == work->op.waiters);
        hx_assert(work->route == NULL || work->route->work == work);
        hx_assert(work->probe_route == NULL || work->probe_route->work == work);
        hx_assert(work->probe_route == NULL || work->search == HX_SEARCH_PROBING);
        hx_assert(!work->is_scheduled || work->op.durable.state == HX_OP_UNKNOWN);
        hx_assert(!work->is_scheduled || hx_timer_is_armed(&work->rung));
        scheduled += work->is_scheduled;
        hx_assert(work->link == NULL || is_in(&gateway->links, &work->link->node));
        hx_assert(work->link == NULL || is_in(&work->link->works, &work->link_node));
        hx_assert(work->link != NULL || hx_list_is_empty(&work->link_node));
    }
    hx_assert(scheduled == gateway->scheduled_count);
    hx_list_for_each (node, &gateway->links)
        check_link(gateway, hx_container_of(node, struct hx_link, node));
    hx_list_for_each (node, &gateway->sessions)
        check_session(hx_container_of(node, struct hx_session, node));
}

bool sim_look_is_shared(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->links) {
        const struct hx_link *link = hx_container_of(node, struct hx_link, node);
        if (hx_list_first(&link->sessions) != hx_list_last(&link->sessions))
            return true;
    }
    return false;
}

bool sim_look_has_unsaved(struct hx_gateway *gateway)
{
    return hx_delivery_has_unsaved(gateway);
}

const char *sim_look_idle(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->links) {
        if (!hx_list_is_empty(&hx_container_of(node, struct hx_link, node)->waiting_calls))
            return "a call waits for the server";
    }
    hx_list_for_each (node, &gateway->works) {
        /* What only listens for a late answer may stay as long as the server lives. */
        const struct hx_work *work = hx_container_of(node, struct hx_work, node);
        bool is_listening = work->route != NULL && work->writes_open == 0 &&
                            (work->op.phase == HX_PHASE_IDLE || hx_work_has_attempt(work));
        bool is_probing = work->search == HX_SEARCH_PROBING;
        /* Between two looks of the ladder's schedule. */
        bool is_resting = work->is_scheduled && work->op.phase == HX_PHASE_IDLE;
        if (!is_listening && !is_probing && !is_resting && work->ask == NULL)
            return "an operation is in hand";
    }
    hx_list_for_each (node, &gateway->deliveries) {
        const struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (note->session == NULL && note->wanted == HX_RECEIPT_OPEN)
            return "an answer has no fate, and its session is over";
    }
    if (!hx_list_is_empty(&gateway->over))
        return "a session that is over is not freed";
    if (gateway->store_open > 0)
        return "the ledger owes an answer";
    if (gateway->gates.count > 0)
        return "a gate is closed";
    if (gateway->questions.count > 0)
        return "a neighbour owes an answer";
    return NULL;
}

void sim_look_dump(struct hx_gateway *gateway, FILE *out)
{
    static const char *const stages[] = {"gated",    "finding",  "asking",
                                         "adopting", "starting", "waiting"};
    fprintf(out, "  %u store requests open\n", gateway->store_open);
    hx_list_for_each (node, &gateway->links) {
        const struct hx_link *link = hx_container_of(node, struct hx_link, node);
        fprintf(out, "  link state %d generation %u\n", link->state, link->generation);
    }
    hx_list_for_each (at, &gateway->sessions) {
        hx_list_for_each (node, &hx_container_of(at, struct hx_session, node)->requests) {
            const struct hx_request *request = hx_container_of(node, struct hx_request, node);
            fprintf(out, "  request %.*s%s%s\n", HX_SPAN_FMT(request->raw_id),
                    request->call != NULL ? " guarded, " : "",
                    request->call != NULL ? stages[request->call->stage] : "");
        }
    }
    hx_list_for_each (node, &gateway->works) {
        const struct hx_work *work = hx_container_of(node, struct hx_work, node);
        fprintf(out,
                "  work %s %s/%s waiters %u writes %u reading %d route %d hands %d send_waiting %d "
                "lost_waiting %d look_waiting %d deferred %d look %d poll %d search %d\n",
                sim_short_id(&work->op.durable.id), hx_op_state_name(work->op.durable.state),
                hx_op_phase_name(work->op.phase), work->op.waiters, work->writes_open,
                work->is_reading, work->route != NULL, work->facts.hands, work->is_send_waiting,
                work->is_lost_waiting, work->is_look_waiting, !hx_list_is_empty(&work->deferred),
                hx_timer_is_armed(&work->look), hx_timer_is_armed(&work->poll), (int)work->search);
    }
}
