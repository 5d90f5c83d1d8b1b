/* SPDX-License-Identifier: MIT */
/*
 * The methods hapax/operations/…: what became of an operation, which ones there are, that its
 * outcome was received, that it shall not run, and keys for new ones. All of it for whoever may
 * have it: the principal who made the calls, at the same server. For anybody else, and for what
 * does not exist, the answer is the same.
 */
#include "engine/internal.h"

#include <stdio.h>

static const char not_found[] =
    "This server has no such operation. Name one of yours by its \"id\", "
    "or by \"key\" and \"tool\".";

bool hx_operations_is_method(enum hx_mcp_method method)
{
    return method == HX_MCP_HAPAX_GET || method == HX_MCP_HAPAX_LIST ||
           method == HX_MCP_HAPAX_CANCEL || method == HX_MCP_HAPAX_ACKNOWLEDGE ||
           method == HX_MCP_HAPAX_BEGIN;
}

struct hx_span hx_operations_text(struct hx_gateway *gateway, const char *name)
{
    struct hx_mcp_text text;
    uint32_t at = hx_json_member(&gateway->scratch, 0, hx_span_cstr(name));
    if (hx_mcp_text_at(&gateway->scratch, at, &gateway->arena, &text) < 0 ||
        text.state != HX_MCP_TEXT_GIVEN)
        return HX_SPAN_NONE;
    return text.text;
}

/* ---- answers ---- */

/* For a model: the JSON as text. */
/* `code`: NULL = it is no refusal. A word of the table of answers is named as every answer of ours
 * names it; the others are no answers to a call. */
static void answer_as_tool(struct hx_request *request, struct hx_span text, const char *code)
{
    enum hx_answer answer;
    bool is_word = code != NULL && hx_answer_parse(hx_span_cstr(code), &answer);
    struct hx_buf line, result;
    struct hx_json_writer writer;
    size_t size_max = 6 * text.len + 1024;
    hx_buf_init(&line, size_max + HX_RPC_ID_MAX);
    hx_buf_init(&result, size_max);
    (void)hx_buf_append_cstr(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_writer_init(&writer, &result);
    hx_json_put_string(&writer, text);
    (void)hx_buf_printf(&result, "}],\"isError\":%s", code != NULL ? "true" : "false");
    if (is_word)
        (void)hx_buf_printf(&result, ",\"_meta\":{\"" HX_MCP_META_OPERATION "\":{\"code\":\"%s\"}}",
                            code);
    (void)hx_buf_append_char(&result, '}');
    if (!hx_buf_ok(&result) ||
        hx_rewrite_build_result(&line, request->raw_id, hx_buf_span(&result)) < 0)
        hx_buf_reset(&line); /* an empty line is not sent */
    hx_buf_fini(&result);
    hx_reply_line(request, &line, NULL);
}

void hx_operations_answer(struct hx_request *request, struct hx_buf *json)
{
    struct hx_buf line;
    if (!hx_buf_ok(json)) {
        hx_operations_refuse(
            request, "TOO_LARGE",
            "This answer would be longer than a message may be here (message_max), or there is no "
            "memory for it. What is asked about is as it was; repeat the call with its key to "
            "get its result.");
        return;
    }
    if (request->is_own_tool) {
        answer_as_tool(request, hx_buf_span(json), NULL);
        return;
    }
    hx_buf_init(&line, json->len + HX_RPC_ID_MAX + 64);
    if (hx_rewrite_build_result(&line, request->raw_id, hx_buf_span(json)) < 0)
        hx_buf_reset(&line);
    hx_reply_line(request, &line, NULL);
}

void hx_operations_refuse(struct hx_request *request, const char *code, const char *reason)
{
    char data[96];
    bool is_ledger = strcmp(code, "LEDGER_UNAVAILABLE") == 0;
    if (request->is_own_tool) {
        answer_as_tool(request, hx_span_cstr(reason), code);
        return;
    }
    snprintf(data, sizeof(data), "{\"code\":\"%s\"%s}", code,
             is_ledger ? ",\"retry_safe\":true" : "");
    hx_reply_error(request,
                   is_ledger ? hx_answer_code(HX_ANSWER_LEDGER_UNAVAILABLE) : HX_RPC_INVALID_PARAMS,
                   hx_span_cstr(reason), hx_span_cstr(data));
}

static void put_operation(struct hx_json_writer *writer, const struct hx_record *record)
{
    hx_json_add_id(writer, "id", &record->id);
    hx_json_put_name(writer, "tool");
    hx_json_put_string(writer, record->tool);
    if (record->key_source != HX_KEY_NONE) {
        hx_json_put_name(writer, "key");
        hx_json_put_string(writer, record->key);
    }
    hx_json_add_cstr(writer, "execution", hx_op_state_name(record->state));
    hx_json_add_cstr(writer, "effect", hx_effect_state_name(hx_record_effect(record)));
    hx_json_add_cstr(writer, "delivery", hx_delivery_name(hx_record_delivery(record)));
    hx_json_add_cstr(writer, "reason", hx_reason_name(record->reason));
    hx_json_put_name(writer, "attempts");
    hx_json_put_uint(writer, record->attempt.number);
    hx_json_add_wall(writer, "created", record->created.wall);
    if (!hx_id_is_nil(&record->successor))
        hx_json_add_id(writer, "successor", &record->successor);
}

static void write_one(struct hx_gateway *gateway, struct hx_buf *out,
                      const struct hx_record *record, struct hx_span payload, const char *verdict,
                      const char *sentence)
{
    struct hx_json_writer writer;
    const struct hx_outcome *outcome = &record->outcome;
    struct hx_span bytes = hx_span_is_absent(payload) ? outcome->bytes : payload;
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    if (verdict != NULL) {
        hx_json_add_cstr(&writer, "answer", verdict);
        hx_json_add_cstr(&writer, "sentence", sentence);
    }
    hx_json_put_name(&writer, "operation");
    hx_json_open_object(&writer);
    put_operation(&writer, record);
    if (record->state == HX_OP_SUCCEEDED && !hx_span_is_absent(bytes)) {
        hx_json_put_name(&writer, outcome->kind == HX_OUTCOME_ERROR ? "error" : "result");
        if (hx_outcome_is_message_text(gateway, bytes))
            hx_json_put_raw(&writer, bytes);
        else
            hx_json_put_string(&writer, bytes);
    } else if (record->state == HX_OP_SUCCEEDED && outcome->place == HX_OUTCOME_GONE) {
        hx_json_add_cstr(&writer, "payload", "gone");
    }
    hx_json_close_object(&writer);
    hx_json_close_object(&writer);
}

static void answer_one(struct hx_request *request, const struct hx_record *record,
                       struct hx_span payload)
{
    struct hx_buf json;
    hx_buf_init(&json, request->session->gateway->options.message_max + (size_t)64 * 1024);
    write_one(request->session->gateway, &json, record, payload, NULL, NULL);
    hx_operations_answer(request, &json);
    hx_buf_fini(&json);
}

/* ---- naming one ---- */

static struct hx_record named(const struct hx_session *session, struct hx_span tool,
                              struct hx_span key)
{
    const struct hx_server_options *server = &session->options.server->options;
    struct hx_hasher *hasher = session->gateway->hasher;
    struct hx_record record = {.tenant = session->options.tenant,
                               .principal = session->options.principal,
                               .server = server->name,
                               .tool = tool,
                               .key = key,
                               .key_source = HX_KEY_META};
    hx_decision_name_call(&record, hasher, server->is_key_principal_scoped);
    return record;
}

/* Which operation the parameters name: by its id, else by key and tool. */
struct naming {
    bool is_unread; /* there was no memory for the parameters */
    bool has_id;
    bool has_key;
    struct hx_id id;
    struct hx_span key;
    struct hx_span tool;
};

int hx_operations_read(struct hx_gateway *gateway, struct hx_span params)
{
    return hx_span_is_absent(params)
               ? HX_JSON_BAD_SYNTAX
               : hx_json_read(&gateway->scratch, params, &gateway->part_limits);
}

void hx_operations_refuse_unread(struct hx_request *request)
{
    hx_operations_refuse(request, "LEDGER_UNAVAILABLE",
                         "There is no memory for this request; nothing was done.");
}

static struct naming read_naming(struct hx_gateway *gateway, struct hx_span params)
{
    struct naming naming = {0};
    int rc = hx_operations_read(gateway, params);
    naming.is_unread = rc < 0;
    if (rc != 0)
        return naming;
    struct hx_span id_text = hx_operations_text(gateway, "id");
    naming.key = hx_operations_text(gateway, "key");
    naming.tool = hx_operations_text(gateway, "tool");
    naming.has_id = !hx_span_is_absent(id_text) && hx_id_parse(id_text, &naming.id);
    naming.has_key = !hx_span_is_absent(naming.key) && !hx_span_is_absent(naming.tool);
    return naming;
}

static bool is_refused(struct hx_request *request, const struct naming *naming)
{
    if (naming->is_unread)
        hx_operations_refuse_unread(request);
    else if (!naming->has_id && !naming->has_key)
        hx_operations_refuse(request, "NOT_FOUND", not_found);
    else
        return false;
    return true;
}

/* Of our own tool's arguments nobody between has taken it off: to him it was an argument. */
static void take_prefix_off(const struct hx_session *session, struct hx_span *tool)
{
    struct hx_span prefix = session->options.names_prefix;
    if (!hx_span_is_absent(prefix) && !hx_span_is_absent(*tool) &&
        hx_span_starts_with(*tool, prefix))
        *tool = hx_span(tool->ptr + prefix.len, tool->len - prefix.len);
}

static void find_one(struct hx_request *request, struct hx_span params, enum hx_asked asked)
{
    struct hx_session *session = request->session;
    struct naming naming = read_naming(session->gateway, params);
    if (is_refused(request, &naming))
        return;
    if (request->is_own_tool)
        take_prefix_off(session, &naming.tool);
    struct hx_store_request *find = hx_store_make(session->gateway, HX_STORE_FIND);
    find->find_id = naming.has_id;
    find->find_identity = !naming.has_id;
    if (naming.has_id)
        find->record.id = naming.id;
    else
        find->record.identity = named(session, naming.tool, naming.key).identity;
    request->asked = asked;
    hx_store_submit_for_request(request, find);
}

/* ---- cancel ---- */

static void cancelled(void *context, const struct hx_verdict *verdict)
{
    struct hx_request *request = context;
    struct hx_buf words, json;
    request->verb = NULL;
    hx_buf_init(&words, 4096);
    (void)hx_verdict_say(HX_EV_CANCEL, verdict, &words);
    (void)hx_buf_append_cstr(&words, ".");
    (void)hx_buf_append_char(&words, '\0');
    if (verdict->is_absent) {
        hx_operations_refuse(request, "NOT_FOUND", not_found);
    } else if (verdict->answer == HX_ANSWER_KEY_CONFLICT) {
        hx_operations_refuse(request, "KEY_CONFLICT", words.data);
    } else if (verdict->answer == HX_ANSWER_LEDGER_UNAVAILABLE) {
        hx_operations_refuse(request, "LEDGER_UNAVAILABLE", words.data);
    } else {
        const struct hx_record nothing = {.id = verdict->id};
        const struct hx_record *record =
            verdict->found != NULL ? &verdict->found->record : &nothing;
        struct hx_record plain = *record;
        plain.outcome.bytes = HX_SPAN_NONE; /* it asked for no result */
        hx_buf_init(&json, (size_t)64 * 1024);
        write_one(request->session->gateway, &json, &plain, HX_SPAN_NONE,
                  verdict->answer == HX_ANSWER_DONE ? hx_answer_name(HX_ANSWER_CANCELLED)
                                                    : hx_answer_name(verdict->answer),
                  words.data);
        hx_operations_answer(request, &json);
        hx_buf_fini(&json);
    }
    hx_buf_fini(&words);
}

static void cancel(struct hx_request *request, struct hx_span params)
{
    struct hx_session *session = request->session;
    struct naming naming = read_naming(session->gateway, params);
    struct hx_record owner = named(session, HX_SPAN_LIT(""), HX_SPAN_LIT(""));
    struct hx_decision_target target = {.id = naming.id, .owner = &owner};
    struct hx_record wanted;
    char who[300];
    if (is_refused(request, &naming))
        return;
    if (!naming.has_id) {
        const char *flaw = hx_key_flaw(naming.key);
        if (flaw != NULL) {
            hx_operations_refuse(request, "KEY_INVALID", flaw);
            return;
        }
        /* It may be written down for long, so it is bounded as the name in a call is. */
        if (hx_tool_called(session->options.server, naming.tool) == NULL) {
            hx_operations_refuse(request, "INVALID",
                                 "This tool is not one that the server lists, and its name is too "
                                 "long or holds a zero byte, or too many others have been named. A "
                                 "call of it would be refused, so there is nothing to cancel.");
            return;
        }
        wanted = named(session, naming.tool, naming.key);
        target.wanted = &wanted;
    }
    const struct hx_decision decision = {.type = HX_EV_CANCEL, .is_by_caller = true};
    snprintf(who, sizeof(who), "caller %.*s", HX_SPAN_FMT(session->options.principal));
    request->verb = hx_gateway_decide(session->gateway, &target, &decision, hx_span_cstr(who),
                                      cancelled, request);
}

/* ---- begin ---- */

static void begin(struct hx_request *request)
{
    struct hx_session *session = request->session;
    const struct hx_server_options *server = &session->options.server->options;
    struct hx_buf key, json;
    struct hx_json_writer writer;
    char until[HX_TIME_TEXT_SIZE];
    hx_buf_init(&key, HX_KEY_LEN_MAX);
    if (!hx_issue_key(session, &key)) {
        hx_buf_fini(&key);
        hx_operations_refuse(request, "LEDGER_UNAVAILABLE",
                             "No keys can be handed out: the file with their secret cannot be used "
                             "(hapax check tells why).");
        return;
    }
    struct hx_wall now = session->gateway->now.wall;
    hx_wall_format((struct hx_wall){now.ms + server->issued_key_lifetime_ms}, until);
    hx_buf_init(&json, 4096);
    hx_json_writer_init(&writer, &json);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "key");
    hx_json_put_string(&writer, hx_buf_span(&key));
    hx_json_add_cstr(&writer, "use_before", until);
    hx_json_add_cstr(
        &writer, "use",
        "Send this key with one intended action, and with every repeat of that same action. "
        "Ask for another key for another action.");
    hx_json_close_object(&writer);
    hx_operations_answer(request, &json);
    hx_buf_fini(&key);
    hx_buf_fini(&json);
}

void hx_operations_take(struct hx_request *request, enum hx_mcp_method method,
                        struct hx_span params)
{
    switch (method) {
    case HX_MCP_HAPAX_GET:
        find_one(request, params, HX_ASKED_GET);
        return;
    case HX_MCP_HAPAX_ACKNOWLEDGE:
        find_one(request, params, HX_ASKED_ACKNOWLEDGE);
        return;
    case HX_MCP_HAPAX_CANCEL:
        cancel(request, params);
        return;
    case HX_MCP_HAPAX_LIST:
        hx_listing_begin(request, params);
        return;
    default:
        begin(request);
        return;
    }
}

/* ---- what the ledger says ---- */

static void read_payload(struct hx_request *request, struct hx_store_request *row)
{
    struct hx_store_request *payload = hx_store_make(request->session->gateway, HX_STORE_PAYLOAD);
    payload->record.id = row->records[0].record.id;
    request->found = row;
    hx_store_submit_for_request(request, payload);
}

/* That its outcome was received can be said of what has one. */
static void acknowledge(struct hx_request *request, struct hx_store_request *row)
{
    struct hx_record *record = &row->records[0].record;
    if (!hx_op_state_is_final(record->state)) {
        hx_store_request_free(row);
        hx_operations_refuse(request, "NOT_APPLIED",
                             "This operation has not ended, so there is no outcome yet whose "
                             "receipt could be acknowledged.");
        return;
    }
    struct hx_store_request *touch = hx_store_make(request->session->gateway, HX_STORE_TOUCH);
    touch->record.id = record->id;
    touch->touch.set_acknowledged = true;
    record->is_acknowledged = true;
    record->outcome.bytes = HX_SPAN_NONE; /* he has it */
    request->found = row;
    hx_store_submit_for_request(request, touch);
}

static void one_found(struct hx_request *request, struct hx_store_request *done)
{
    struct hx_session *session = request->session;
    const struct hx_record *record = done->record_count > 0 ? &done->records[0].record : NULL;
    if (record == NULL || !hx_is_row_sound(session->gateway, record) ||
        !hx_session_may_have(session, record)) {
        hx_store_request_free(done);
        hx_operations_refuse(request, "NOT_FOUND", not_found);
    } else if (request->asked == HX_ASKED_ACKNOWLEDGE) {
        acknowledge(request, done);
    } else if (record->outcome.place == HX_OUTCOME_BLOB) {
        read_payload(request, done);
    } else {
        answer_one(request, record, HX_SPAN_NONE);
        hx_store_request_free(done);
    }
}

void hx_operations_found(struct hx_request *request, struct hx_store_request *done)
{
    if (done->result == HX_STORE_NOT_DONE) {
        hx_store_request_free(done);
        hx_operations_refuse(request, "LEDGER_UNAVAILABLE",
                             "The ledger could not be read or written. Ask again later.");
    } else if (done->kind == HX_STORE_PAYLOAD) {
        answer_one(request, &request->found->records[0].record, done->payload);
        hx_store_request_free(done);
    } else if (done->kind == HX_STORE_TOUCH) {
        answer_one(request, &request->found->records[0].record, HX_SPAN_NONE);
        hx_store_request_free(done);
    } else if (request->asked == HX_ASKED_LIST) {
        hx_listing_found(request, done);
    } else {
        one_found(request, done);
    }
}

void hx_operations_put(struct hx_json_writer *writer, const struct hx_record *record)
{
    hx_json_open_object(writer);
    put_operation(writer, record);
    hx_json_close_object(writer);
}
