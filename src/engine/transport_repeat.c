/* SPDX-License-Identifier: MIT */
/*
 * The transport's repeat of a call. A client never uses an id twice in a session, so an equal call
 * under an id that is open, or was just answered, is that one again, and follows it to its
 * operation. With a key each says itself which one it is, so none of this holds for it.
 *
 * A repeat that can be answered in the place of the open one never comes here (client.c).
 */
#include "engine/internal.h"

void hx_transport_repeat_of_answered(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_session *session = call->session;
    const struct hx_delivery_note *note = NULL;
    if (!session->era->has_handshake || call->wanted.key_source != HX_KEY_NONE)
        return;
    /* The last equal one, of a client that numbers everything alike. */
    for (struct hx_map_node *node =
             hx_map_find(&session->answered, hx_buf_span(&call->request->id_key));
         node != NULL; node = hx_map_find_next(node)) {
        const struct hx_delivery_note *answered =
            hx_container_of(node, struct hx_delivery_note, by_id);
        if (answered->cold_record.key_source == HX_KEY_NONE &&
            hx_digest_eq(&answered->cold_record.twin, &call->wanted.twin))
            note = answered;
    }
    if (note == NULL)
        return;
    hx_tell(gateway, HX_TELL_INFO, "transport_repeat", "tool=%s", call->tool->name);
    call->is_following = true;
    call->is_transport_repeat = true;
    call->follow = note->cold_record.identity;
}

void hx_transport_repeat_of_open(struct hx_call *call, const struct hx_call *open)
{
    hx_tell(call->gateway, HX_TELL_INFO, "transport_repeat", "tool=%s", call->tool->name);
    call->is_transport_repeat = true;
    if (open->gate == NULL && open->work != NULL) {
        call->is_following = true;
        call->follow_id = open->work->op.durable.id;
    } else if (open->is_following) {
        call->is_following = true;
        call->follow = open->follow;
        call->follow_id = open->follow_id;
    }
}

void hx_transport_repeat_tell(const struct hx_call *call, const struct hx_id *operation)
{
    if (call->gate == NULL || call->gate->inside != call)
        return;
    hx_list_for_each (node, &call->gate->waiting) {
        struct hx_call *later = hx_container_of(node, struct hx_call, node);
        bool is_repeat =
            later->is_transport_repeat && !later->is_following && later->session == call->session &&
            hx_span_eq(hx_buf_span(&later->request->id_key), hx_buf_span(&call->request->id_key));
        if (!is_repeat)
            continue;
        later->is_following = true;
        later->follow_id = *operation;
    }
}
