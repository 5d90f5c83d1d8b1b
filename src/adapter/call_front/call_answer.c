/* SPDX-License-Identifier: MIT */
#include "adapter/call_front/call_answer.h"

#include "wire/mcp.h"

static struct hx_span text_at(struct hx_call_reader *reader, uint32_t object, const char *name)
{
    struct hx_span text;
    uint32_t at = hx_json_member_of(&reader->tape, object, hx_span_cstr(name), HX_JSON_STRING);
    if (at == HX_JSON_NONE || hx_json_string(&reader->tape, at, reader->arena, &text) != 0)
        return HX_SPAN_NONE;
    return text;
}

/* The same, when the line goes before the answer does. */
static struct hx_span kept_text_at(struct hx_call_reader *reader, uint32_t object, const char *name)
{
    struct hx_span text = text_at(reader, object, name);
    return hx_span_is_absent(text) ? text : hx_arena_dup(reader->arena, text);
}

/* The envelope that the gateway puts around every answer which has an operation. */
static uint32_t envelope_of(const struct hx_call_reader *reader, const struct hx_rpc_msg *msg)
{
    const struct hx_json_tape *tape = &reader->tape;
    if (msg->kind == HX_RPC_RESULT)
        return hx_json_member(tape, hx_json_member(tape, msg->result_token, HX_SPAN_LIT("_meta")),
                              HX_SPAN_LIT(HX_MCP_META_OPERATION));
    return hx_json_member(tape, hx_json_member(tape, msg->error_token, HX_SPAN_LIT("data")),
                          HX_SPAN_LIT(HX_MCP_META_OPERATION));
}

/* What our errors without an envelope say of themselves: of calls that are passed through, or were
 * refused before there was an operation. */
static struct hx_span named_code_of(struct hx_call_reader *reader, const struct hx_rpc_msg *msg)
{
    if (msg->kind != HX_RPC_ERROR)
        return HX_SPAN_NONE;
    return text_at(reader, hx_json_member(&reader->tape, msg->error_token, HX_SPAN_LIT("data")),
                   "code");
}

static bool is_code_of_ours(struct hx_span code)
{
#define HX_ANSWER(name, shape, number, same_key, new_key, http_status, sentence)                   \
    if (hx_span_eq_cstr(code, #name))                                                              \
        return true;
#define HX_ANSWER_TYPE(name, type)
#include "tables/errors.def"
    return false;
}

static bool flag_at(const struct hx_call_reader *reader, uint32_t object, const char *name)
{
    bool value = false;
    uint32_t at = hx_json_member(&reader->tape, object, hx_span_cstr(name));
    return at != HX_JSON_NONE && hx_json_bool(&reader->tape, at, &value) && value;
}

void hx_call_answer_read(struct hx_call_reader *reader, const struct hx_rpc_msg *msg,
                         struct hx_call_answer *ret_answer)
{
    uint32_t envelope = envelope_of(reader, msg);
    bool is_error = msg->kind == HX_RPC_ERROR;
    *ret_answer = (struct hx_call_answer){
        .kind = is_error ? HX_CALL_ERROR : HX_CALL_RESULT,
        .is_error = is_error || flag_at(reader, msg->result_token, "isError"),
        .is_replayed = flag_at(reader, envelope, "replayed"),
        .result = msg->result,
        .error = msg->error,
        .message = is_error ? text_at(reader, msg->error_token, "message") : HX_SPAN_NONE,
        .code = text_at(reader, envelope, "code"),
        .named_code = named_code_of(reader, msg),
        .operation = text_at(reader, envelope, "id"),
        .execution = text_at(reader, envelope, "execution"),
        .effect = text_at(reader, envelope, "effect"),
    };
    ret_answer->is_ours = !hx_span_is_absent(ret_answer->code);
    ret_answer->has_row = !hx_span_is_absent(ret_answer->operation);
}

/* Any other error says that the ledger was not read, or not understood. */
static bool says_not_found(struct hx_call_reader *reader, const struct hx_rpc_msg *msg)
{
    return hx_span_eq_cstr(named_code_of(reader, msg), "NOT_FOUND");
}

void hx_call_answer_add_row(struct hx_call_reader *reader, const struct hx_rpc_msg *msg,
                            struct hx_call_answer *answer)
{
    uint32_t row = msg->kind == HX_RPC_RESULT
                       ? hx_json_member(&reader->tape, msg->result_token, HX_SPAN_LIT("operation"))
                       : HX_JSON_NONE;
    answer->has_row = row != HX_JSON_NONE;
    answer->is_row_untold = !answer->has_row && !says_not_found(reader, msg);
    if (!answer->has_row) {
        answer->is_ours = !answer->is_row_untold && is_code_of_ours(answer->named_code);
        if (answer->is_ours)
            answer->code = answer->named_code;
        return;
    }
    answer->operation = kept_text_at(reader, row, "id");
    answer->execution = kept_text_at(reader, row, "execution");
    answer->effect = kept_text_at(reader, row, "effect");
}

int64_t hx_call_answer_retry_after_ms(struct hx_call_reader *reader, const struct hx_rpc_msg *msg)
{
    const int64_t least_ms = 50, default_ms = 1000, most_ms = 30 * 1000;
    int64_t value = default_ms;
    uint32_t at =
        hx_json_member(&reader->tape, envelope_of(reader, msg), HX_SPAN_LIT("retry_after_ms"));
    if (at == HX_JSON_NONE || !hx_json_int64(&reader->tape, at, &value))
        return default_ms;
    return value < least_ms ? least_ms : value > most_ms ? most_ms : value;
}
