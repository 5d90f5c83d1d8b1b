/* SPDX-License-Identifier: MIT */
/*
 * The short way to a replay.
 *
 * A key that this process has met before is nearly always the repeat of a call that has ended. What
 * is final stays so (I4), and a replay decides nothing that an equal call could be in the way of:
 * so this look waits neither for the gate nor for what was put off, which are only counters of
 * other deliveries. Any other finding is forgotten, and the call goes through the gate and looks
 * again.
 */
#include "engine/internal.h"

/* Whether this process has met the key before, as far as it remembers; from now on it has. A wrong
 * guess costs one look. */
static bool was_key_met(struct hx_call *call)
{
    uint64_t head;
    if (call->wanted.key_source == HX_KEY_NONE || !hx_id_is_nil(&call->retry_of) ||
        call->is_following)
        return false;
    memcpy(&head, call->wanted.identity.bytes, sizeof(head));
    uint64_t *met = &call->gateway->keys_met[head % HX_KEYS_MET];
    bool was_met = *met == head;
    *met = head;
    return was_met;
}

bool hx_replay_peek(struct hx_call *call)
{
    if (!was_key_met(call))
        return false;
    struct hx_store_request *request = hx_store_make(call->gateway, HX_STORE_FIND);
    request->find_identity = true;
    request->record.identity = call->wanted.identity;
    call->is_peeking = true;
    call->stage = HX_CALL_FINDING;
    hx_store_submit_peek(call, request);
    return true;
}

bool hx_replay_is_found(struct hx_call *call, const struct hx_store_request *found)
{
    bool was_peeking = call->is_peeking;
    call->is_peeking = false;
    return !was_peeking || (found->result == HX_STORE_DONE && found->record_count > 0 &&
                            hx_op_state_is_final(found->records[0].record.state));
}
