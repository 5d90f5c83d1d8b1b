/* SPDX-License-Identifier: MIT */
/* What decides about one call: tools/call, its result or error, its cancel and its progress. */
#include "base/fault.h"
#include "wire/mcp.h"
#include "json/pointer.h"

/* One string member into one field. */
struct field {
    struct hx_span name;
    struct hx_mcp_text *text;
};

static int fields_read(const struct hx_json_tape *tape, uint32_t object, struct hx_arena *arena,
                       const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int rc = hx_mcp_text_at(tape, hx_json_member(tape, object, fields[i].name), arena,
                                fields[i].text);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

static bool has_duplicates(const struct hx_json_tape *tape, uint32_t index)
{
    return index != HX_JSON_NONE && (hx_json_at(tape, index)->flags & HX_JSON_HAS_DUPLICATES) != 0;
}

int hx_mcp_call_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                     struct hx_arena *arena, struct hx_mcp_call *ret_call)
{
    uint32_t params = msg->params_token;
    uint32_t arguments = hx_json_member(tape, params, HX_SPAN_LIT("arguments"));
    uint32_t meta = hx_json_member_of(tape, params, HX_SPAN_LIT("_meta"), HX_JSON_OBJECT);
    uint32_t token = hx_json_member(tape, meta, HX_SPAN_LIT("progressToken"));

    *ret_call = (struct hx_mcp_call){
        .arguments = hx_json_raw(tape, arguments),
        .arguments_is_object = hx_json_is(tape, arguments, HX_JSON_OBJECT),
        .meta = hx_json_raw(tape, meta),
        .has_task = hx_json_member(tape, params, HX_SPAN_LIT("task")) != HX_JSON_NONE,
        .has_duplicates = has_duplicates(tape, params) || has_duplicates(tape, meta),
    };
    struct hx_rpc_id token_id = hx_rpc_id_at(tape, token);
    if (token_id.type == HX_RPC_ID_STRING || token_id.type == HX_RPC_ID_INTEGER)
        ret_call->progress_token = token_id.raw;

    const struct field in_params[] = {
        {HX_SPAN_LIT("name"), &ret_call->name},
        {HX_SPAN_LIT("idempotencyKey"), &ret_call->param_key},
    };
    const struct field in_meta[] = {
        {HX_SPAN_LIT(HX_MCP_META_KEY), &ret_call->meta_key},
        {HX_SPAN_LIT(HX_MCP_META_FIRST_SENT), &ret_call->first_sent},
        {HX_SPAN_LIT(HX_MCP_META_RETRY), &ret_call->retry},
    };
    int rc = fields_read(tape, params, arena, in_params, sizeof(in_params) / sizeof(in_params[0]));
    if (rc < 0)
        return HX_TRACE(rc);
    return fields_read(tape, meta, arena, in_meta, sizeof(in_meta) / sizeof(in_meta[0]));
}

int hx_mcp_argument_read(struct hx_json_tape *tape, struct hx_span arguments,
                         struct hx_span pointer, const struct hx_json_limits *limits,
                         struct hx_arena *arena, struct hx_mcp_text *ret_text)
{
    struct hx_json_limits all = *limits;
    all.record_depth_max = 0;
    all.elements_max = 0;
    *ret_text = (struct hx_mcp_text){.state = HX_MCP_TEXT_ABSENT, .text = HX_SPAN_NONE};
    if (hx_span_is_absent(arguments))
        return 0;
    int rc = hx_json_read(tape, arguments, &all);
    if (rc != 0)
        return rc < 0 ? HX_TRACE(rc) : 0;
    return hx_mcp_text_at(tape, hx_json_pointer_find(tape, 0, pointer), arena, ret_text);
}

int hx_mcp_cancelled_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                          struct hx_arena *arena, struct hx_mcp_cancelled *ret_cancelled)
{
    uint32_t params = msg->params_token;
    uint32_t id = hx_json_member(tape, params, HX_SPAN_LIT("requestId"));
    *ret_cancelled = (struct hx_mcp_cancelled){.request_id = hx_rpc_id_at(tape, id)};
    if (ret_cancelled->request_id.type == HX_RPC_ID_NULL)
        ret_cancelled->request_id = (struct hx_rpc_id){.type = HX_RPC_ID_NONE};
    return hx_mcp_text_at(tape, hx_json_member(tape, params, HX_SPAN_LIT("reason")), arena,
                          &ret_cancelled->reason);
}

struct hx_rpc_id hx_mcp_progress_token(const struct hx_json_tape *tape,
                                       const struct hx_rpc_msg *msg)
{
    struct hx_rpc_id token =
        hx_rpc_id_at(tape, hx_json_member(tape, msg->params_token, HX_SPAN_LIT("progressToken")));
    if (token.type == HX_RPC_ID_NULL)
        token = (struct hx_rpc_id){.type = HX_RPC_ID_NONE};
    return token;
}

struct hx_mcp_call_result hx_mcp_call_result_read(const struct hx_json_tape *tape,
                                                  const struct hx_rpc_msg *msg)
{
    uint32_t result = msg->result_token;
    uint32_t type = hx_json_member(tape, result, HX_SPAN_LIT("resultType"));
    uint32_t task = hx_json_member_of(tape, result, HX_SPAN_LIT("task"), HX_JSON_OBJECT);
    uint32_t content = hx_json_member(tape, result, HX_SPAN_LIT("content"));
    uint32_t meta = hx_json_member_of(tape, result, HX_SPAN_LIT("_meta"), HX_JSON_OBJECT);
    uint32_t operation = hx_json_member(tape, meta, HX_SPAN_LIT(HX_MCP_META_OPERATION));
    uint32_t code = hx_json_member_of(tape, operation, HX_SPAN_LIT("code"), HX_JSON_STRING);
    struct hx_mcp_call_result read = {
        .is_error =
            hx_json_member_of(tape, result, HX_SPAN_LIT("isError"), HX_JSON_TRUE) != HX_JSON_NONE,
        .is_input_required = hx_json_is_text(tape, type, HX_SPAN_LIT("input_required")),
        .task = hx_json_raw(tape, task),
        .code = hx_json_raw(tape, code),
    };
    /* Results are open objects, and a tool may well call a member of its own "task"; a result that
     * has content is no promise of one. */
    read.is_task =
        hx_json_is_text(tape, type, HX_SPAN_LIT("task")) ||
        (task != HX_JSON_NONE && content == HX_JSON_NONE &&
         hx_json_member_of(tape, task, HX_SPAN_LIT("taskId"), HX_JSON_STRING) != HX_JSON_NONE);
    return read;
}

int hx_mcp_error_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                      struct hx_arena *arena, struct hx_mcp_error *ret_error)
{
    uint32_t error = msg->error_token;
    uint32_t data = hx_json_member(tape, error, HX_SPAN_LIT("data"));
    *ret_error = (struct hx_mcp_error){0};
    ret_error->is_said_unsafe =
        hx_json_is(tape, hx_json_member(tape, data, HX_SPAN_LIT("retry_safe")), HX_JSON_FALSE);
    ret_error->has_code =
        hx_json_int64(tape, hx_json_member(tape, error, HX_SPAN_LIT("code")), &ret_error->code);
    int rc = hx_mcp_text_at(tape, hx_json_member(tape, error, HX_SPAN_LIT("message")), arena,
                            &ret_error->message);
    if (rc < 0)
        return HX_TRACE(rc);
    rc = hx_mcp_text_at(tape, hx_json_member(tape, data, HX_SPAN_LIT("type")), arena,
                        &ret_error->data_type);
    if (rc < 0)
        return HX_TRACE(rc);
    uint32_t operation = hx_json_member(tape, data, HX_SPAN_LIT(HX_MCP_META_OPERATION));
    rc = hx_mcp_text_at(tape, hx_json_member(tape, data, HX_SPAN_LIT("code")), arena,
                        &ret_error->data_code);
    ret_error->is_own_word =
        rc == 0 && ret_error->data_code.state == HX_MCP_TEXT_GIVEN &&
        hx_json_is_text(tape, hx_json_member(tape, operation, HX_SPAN_LIT("code")),
                        ret_error->data_code.text);
    return HX_TRACE(rc);
}
