/* SPDX-License-Identifier: MIT */
/*
 * What an answer to the one call says. Internal to the call front.
 */
#ifndef HX_ADAPTER_CALL_ANSWER_H
#define HX_ADAPTER_CALL_ANSWER_H

#include "adapter/call_front/call_front.h"
#include "base/arena.h"
#include "wire/jsonrpc.h"

struct hx_call_reader {
    struct hx_json_tape tape;
    struct hx_arena *arena;
};

/* Of a response to tools/call; `msg` was read onto the tape. */
void hx_call_answer_read(struct hx_call_reader *reader, const struct hx_rpc_msg *msg,
                         struct hx_call_answer *ret_answer);
/* Adds what a response to hapax/operations/get says. */
void hx_call_answer_add_row(struct hx_call_reader *reader, const struct hx_rpc_msg *msg,
                            struct hx_call_answer *answer);
/* How long "busy" asks to be left alone. */
int64_t hx_call_answer_retry_after_ms(struct hx_call_reader *reader, const struct hx_rpc_msg *msg);

#endif
