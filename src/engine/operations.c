/* SPDX-License-Identifier: MIT */
/*
 * The method hapax/operations/get: what became of an operation, by its id or its key, for whoever
 * may have it: the principal who made the call, at the same server. For anybody else, and for what
 * does not exist, the answer is the same.
 */
#include "engine/internal.h"

static void refuse(struct hx_request *request, const char *reason)
{
    hx_reply_error(request, HX_RPC_INVALID_PARAMS, hx_span_cstr(reason),
                   HX_SPAN_LIT("{\"code\":\"NOT_FOUND\"}"));
}

/* The string member of `params`; absent when there is none. */
static struct hx_span text_of(struct hx_gateway *gateway, const char *name)
{
    struct hx_mcp_text text;
    uint32_t at = hx_json_member(&gateway->scratch, 0, hx_span_cstr(name));
    if (hx_mcp_text_at(&gateway->scratch, at, &gateway->arena, &text) < 0 ||
        text.state != HX_MCP_TEXT_GIVEN)
        return HX_SPAN_NONE;
    return text.text;
}

static struct hx_digest identity_of(const struct hx_session *session, struct hx_span tool,
                                    struct hx_span key)
{
    const struct hx_server_options *server = &session->options.server->options;
    const struct hx_record named = {.tenant = session->options.tenant,
                                    .principal = session->options.principal,
                                    .server = server->name,
                                    .tool = tool,
                                    .key = key,
                                    .key_source = HX_KEY_META};
    return hx_record_identity(session->gateway->hasher, &named, server->is_key_principal_scoped);
}

void hx_operations_get(struct hx_request *request, struct hx_span params)
{
    struct hx_session *session = request->session;
    struct hx_gateway *gateway = session->gateway;
    struct hx_span id_text = HX_SPAN_NONE, key = HX_SPAN_NONE, tool = HX_SPAN_NONE;
    struct hx_id id;
    if (!hx_span_is_absent(params) &&
        hx_json_read(&gateway->scratch, params, &gateway->part_limits) == 0) {
        id_text = text_of(gateway, "id");
        key = text_of(gateway, "key");
        tool = text_of(gateway, "tool");
    }
    bool has_id = !hx_span_is_absent(id_text) && hx_id_parse(id_text, &id);
    bool has_key = !hx_span_is_absent(key) && !hx_span_is_absent(tool);
    if (!has_id && !has_key) {
        refuse(request, "There is no such operation here. Name one of yours by its \"id\", or by "
                        "\"key\" and \"tool\".");
        return;
    }
    struct hx_store_request *find = hx_store_make(gateway, HX_STORE_FIND);
    find->find_id = has_id;
    find->find_identity = !has_id;
    if (has_id)
        find->record.id = id;
    else
        find->record.identity = identity_of(session, tool, key);
    hx_store_submit_for_request(request, find);
}

static void write_operation(struct hx_buf *out, const struct hx_record *record,
                            struct hx_span payload)
{
    struct hx_json_writer writer;
    const struct hx_outcome *outcome = &record->outcome;
    char id[HX_ID_TEXT_SIZE], when[HX_TIME_TEXT_SIZE];
    struct hx_span bytes = hx_span_is_absent(payload) ? outcome->bytes : payload;
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "operation");
    hx_json_open_object(&writer);
    hx_id_format(&record->id, id);
    hx_json_put_name(&writer, "id");
    hx_json_put_cstr(&writer, id);
    hx_json_put_name(&writer, "tool");
    hx_json_put_string(&writer, record->tool);
    hx_json_put_name(&writer, "execution");
    hx_json_put_cstr(&writer, hx_op_state_name(record->state));
    hx_json_put_name(&writer, "effect");
    hx_json_put_cstr(&writer, hx_effect_state_name(hx_record_effect(record)));
    hx_json_put_name(&writer, "reason");
    hx_json_put_cstr(&writer, hx_reason_name(record->reason));
    hx_json_put_name(&writer, "attempts");
    hx_json_put_uint(&writer, record->attempt.number);
    hx_wall_format(record->created.wall, when);
    hx_json_put_name(&writer, "created");
    hx_json_put_cstr(&writer, when);
    if (record->state == HX_OP_SUCCEEDED && !hx_span_is_absent(bytes)) {
        hx_json_put_name(&writer, outcome->kind == HX_OUTCOME_ERROR ? "error" : "result");
        hx_json_put_raw(&writer, bytes);
    }
    hx_json_close_object(&writer);
    hx_json_close_object(&writer);
}

static void answer(struct hx_request *request, const struct hx_record *record,
                   struct hx_span payload)
{
    size_t message_max = request->session->gateway->options.message_max;
    struct hx_buf line, result;
    hx_buf_init(&line, message_max + (size_t)64 * 1024);
    hx_buf_init(&result, message_max + (size_t)64 * 1024);
    write_operation(&result, record, payload);
    if (!hx_buf_ok(&result) ||
        hx_rewrite_build_result(&line, request->raw_id, hx_buf_span(&result)) < 0)
        hx_buf_reset(&line); /* an empty line is not sent */
    hx_buf_fini(&result);
    hx_reply_line(request, &line, NULL);
}

void hx_operations_found(struct hx_request *request, struct hx_store_request *done)
{
    struct hx_session *session = request->session;
    struct hx_gateway *gateway = session->gateway;
    if (done->kind == HX_STORE_PAYLOAD) {
        answer(request, &request->found->records[0].record, done->payload);
        hx_store_request_free(done);
        return;
    }
    const struct hx_record *record = done->record_count > 0 ? &done->records[0].record : NULL;
    if (done->result == HX_STORE_NOT_DONE) {
        hx_reply_error(request, hx_answer_code(HX_ANSWER_LEDGER_UNAVAILABLE),
                       HX_SPAN_LIT("The ledger could not be read. Ask again later."),
                       HX_SPAN_LIT("{\"code\":\"LEDGER_UNAVAILABLE\",\"retry_safe\":true}"));
    } else if (record == NULL || !hx_is_row_sound(gateway, record) ||
               !hx_session_may_have(session, record)) {
        refuse(request, "There is no such operation here. Name one of yours by its \"id\", or by "
                        "\"key\" and \"tool\".");
    } else if (record->outcome.place == HX_OUTCOME_BLOB) {
        struct hx_store_request *payload = hx_store_make(gateway, HX_STORE_PAYLOAD);
        payload->record.id = record->id;
        request->found = done;
        hx_store_submit_for_request(request, payload);
        return;
    } else {
        answer(request, record, HX_SPAN_NONE);
    }
    hx_store_request_free(done);
}
