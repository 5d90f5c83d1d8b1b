/* SPDX-License-Identifier: MIT */
/*
 * Calls that could be each other's repeats (one twin digest) pass one at a time. The next one may
 * look when the decision of the one before is durable.
 */
#include "engine/internal.h"

/* May the claim be tried at once, without looking first? The insert holds only if the ledger knows
 * neither the key nor any equal operation that could still be meant; else it changes nothing and
 * the look comes then. Nearly every call is new, and this saves it one way to the ledger and
 * back. */
static bool may_claim_unseen(const struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_store *store = gateway->ports.store;
    const struct hx_record *wanted = &call->wanted;
    bool is_keyless = wanted->key_source == HX_KEY_NONE;
    struct hx_gap gap = store->ops->gap(store);
    if (call->was_unseen || call->is_following || call->has_overlapped || gap.until.ms != 0 ||
        !hx_id_is_nil(&call->retry_of) || gateway->is_draining ||
        call->session->link->state != HX_LINK_READY || call->session->link->is_input_closed ||
        call->needs_approval)
        return false;
    if (is_keyless)
        return wanted->contract.repeat != HX_REPEAT_REQUIRE_KEY;
    struct hx_key_time time = hx_key_time(wanted->key, wanted->first_sent);
    if (hx_issue_is_over(call->session, wanted->key))
        return false;
    return hx_key_age(time, gateway->now.wall, store->ops->low_water(store)) == HX_KEY_AGE_GOOD;
}

static void find_or_claim(struct hx_call *call)
{
    if (!may_claim_unseen(call)) {
        hx_intake_find(call);
        return;
    }
    call->was_unseen = true;
    call->twin_seen = 0;
    hx_intake_begin_new(call);
}

void hx_gate_enter(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_span key = hx_span((const char *)call->wanted.twin.bytes, HX_DIGEST_SIZE);
    if (call->gate != NULL) {
        hx_intake_find(call);
        return;
    }
    struct hx_map_node *node = hx_map_find(&gateway->gates, key);
    if (node == NULL) {
        struct hx_gate *gate = hx_new(struct hx_gate);
        gate->twin = call->wanted.twin;
        hx_list_init(&gate->waiting);
        hx_map_insert(&gateway->gates, &gate->node,
                      hx_span((const char *)gate->twin.bytes, HX_DIGEST_SIZE));
        node = &gate->node;
    }
    call->gate = hx_container_of(node, struct hx_gate, node);
    if (call->gate->inside == NULL) {
        call->gate->inside = call;
        find_or_claim(call);
    } else {
        call->stage = HX_CALL_GATED;
        hx_list_append(&call->gate->waiting, &call->node);
    }
}

void hx_gate_leave(struct hx_call *call)
{
    struct hx_gate *gate = call->gate;
    struct hx_gateway *gateway = call->gateway;
    call->gate = NULL;
    if (gate == NULL || gate->inside != call)
        return;
    if (call->has_gone)
        hx_intake_tell_overlap(call, gate);
    struct hx_list *node = hx_list_take_first(&gate->waiting);
    gate->inside = node ? hx_container_of(node, struct hx_call, node) : NULL;
    if (gate->inside != NULL) {
        find_or_claim(gate->inside);
        return;
    }
    hx_map_remove(&gateway->gates, &gate->node);
    hx_free(gate);
}
