/* SPDX-License-Identifier: MIT */
/*
 * A look into the engine, for checks that no peer could make. Reads, never writes.
 */
#include "engine/internal.h"
#include "sim/sim.h"

bool sim_look_route(const struct hx_upstream *upstream, uint64_t tag, struct hx_id *ret_operation,
                    uint32_t *ret_attempt)
{
    struct hx_route *route = hx_route_find(upstream->owner, tag);
    if (route == NULL || route->work == NULL)
        return false;
    *ret_operation = route->work->op.durable.id;
    *ret_attempt = route->work->op.durable.attempt.number;
    return true;
}

static void check_session(struct hx_session *session)
{
    uint32_t requests = 0;
    hx_list_for_each (node, &session->requests) {
        struct hx_request *request = hx_container_of(node, struct hx_request, node);
        hx_assert(request->call == NULL || request->call->request == request);
        requests++;
    }
    hx_assert(requests == session->request_count);
}

void sim_look_check(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->works) {
        struct hx_work *work = hx_container_of(node, struct hx_work, node);
        hx_op_check(&work->op);
        uint32_t waiting = 0;
        hx_list_for_each (at, &work->calls) {
            struct hx_call *call = hx_container_of(at, struct hx_call, node);
            hx_assert(call->work == work);
            hx_assert(call->request != NULL);
            waiting++;
        }
        hx_assert(waiting == work->op.waiters);
        hx_assert(work->route == NULL || work->route->work == work);
    }
    hx_list_for_each (node, &gateway->sessions)
        check_session(hx_container_of(node, struct hx_session, node));
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
        if (!is_listening && work->ask == NULL)
            return "an operation is in hand";
    }
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
                "lost_waiting %d look_waiting %d deferred %d look %d poll %d\n",
                sim_short_id(&work->op.durable.id), hx_op_state_name(work->op.durable.state),
                hx_op_phase_name(work->op.phase), work->op.waiters, work->writes_open,
                work->is_reading, work->route != NULL, work->facts.hands, work->is_send_waiting,
                work->is_lost_waiting, work->is_look_waiting, !hx_list_is_empty(&work->deferred),
                hx_timer_is_armed(&work->look), hx_timer_is_armed(&work->poll));
    }
}
