/* SPDX-License-Identifier: MIT */
/*
 * What a call is told (semantics section 8): the tool's own result with our member in its `_meta`,
 * or one of our answers with a sentence that a model can act on. The envelope is built here, at
 * reply time, and never stored.
 */
#include "engine/internal.h"

#include <stdio.h>

enum shape { SHAPE_RESULT, SHAPE_JSONRPC };
enum same_key {
    SAME_KEY_NO,
    SAME_KEY_YES,
    SAME_KEY_LATER,
    SAME_KEY_POLL,
    SAME_KEY_SAME,
    SAME_KEY_DECISION,
    SAME_KEY_FIX
};

struct row {
    const char *code;
    enum shape shape;
    int jsonrpc_code;
    enum same_key same_key;
    bool new_key;
    const char *sentence;
};

static const struct row rows[HX_ANSWER_COUNT] = {
#define HX_ANSWER(NAME, shape, jsonrpc_code, same_key, new_key, http_status, sentence)             \
    [HX_ANSWER_##                                                                                  \
        NAME] = {#NAME, SHAPE_##shape, jsonrpc_code, SAME_KEY_##same_key, new_key, sentence},
#include "tables/errors.def"
};

static const char *const types[HX_ANSWER_COUNT] = {
#define HX_ANSWER_TYPE(NAME, type) [HX_ANSWER_##NAME] = type,
#include "tables/errors.def"
};

int64_t hx_answer_code(enum hx_answer answer)
{
    return rows[answer].jsonrpc_code;
}

enum { RETRY_AFTER_MS = 2000, POLL_AFTER_MS = 10000 };

static bool is_new_key_allowed(enum hx_answer answer)
{
    return answer != HX_ANSWER_OUTCOME && rows[answer].new_key;
}

/* {id, code?, execution, effect, replayed, joined, retry_after_ms?, new_key_allowed} */
static void write_operation(struct hx_buf *out, const struct hx_call *call, enum hx_answer answer,
                            const struct hx_record *record)
{
    struct hx_json_writer writer;
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    if (record != NULL && !hx_id_is_nil(&record->id)) {
        char id[HX_ID_TEXT_SIZE];
        hx_id_format(&record->id, id);
        hx_json_put_name(&writer, "id");
        hx_json_put_cstr(&writer, id);
    }
    if (answer != HX_ANSWER_OUTCOME) {
        hx_json_put_name(&writer, "code");
        hx_json_put_cstr(&writer, hx_answer_name(answer));
    }
    if (record != NULL) {
        hx_json_put_name(&writer, "execution");
        hx_json_put_cstr(&writer, hx_op_state_name(record->state));
        hx_json_put_name(&writer, "effect");
        hx_json_put_cstr(&writer, hx_effect_state_name(hx_record_effect(record)));
    }
    hx_json_put_name(&writer, "replayed");
    hx_json_put_bool(&writer, call->is_replayed);
    hx_json_put_name(&writer, "joined");
    hx_json_put_bool(&writer, call->is_joined);
    if (answer == HX_ANSWER_BUSY) {
        hx_json_put_name(&writer, "retry_after_ms");
        hx_json_put_int(&writer, RETRY_AFTER_MS);
    }
    if (answer == HX_ANSWER_OUTCOME_UNKNOWN) {
        hx_json_put_name(&writer, "poll_after_ms");
        hx_json_put_int(&writer, POLL_AFTER_MS);
    }
    hx_json_put_name(&writer, "new_key_allowed");
    hx_json_put_bool(&writer, is_new_key_allowed(answer));
    hx_json_close_object(&writer);
}

static void add_command(struct hx_buf *out, const struct hx_call *call,
                        const struct hx_record *record)
{
    char id[HX_ID_TEXT_SIZE];
    struct hx_span options = call->gateway->options.ops_options;
    hx_id_format(&record->id, id);
    (void)hx_buf_printf(out, " To settle it: hapax ops resolve %s happened|absent|again%s%.*s", id,
                        options.len > 0 ? " " : "", HX_SPAN_FMT(options));
}

static void write_sentence(struct hx_buf *out, const struct hx_call *call, enum hx_answer answer,
                           const struct hx_record *record, const char *detail)
{
    if (answer == HX_ANSWER_FAILED && record != NULL && hx_record_is_persons_word(record))
        /* Nobody proved it: the person may have overridden the waiting time. */
        (void)hx_buf_append_cstr(out, "A person decided that this call did not happen, and it will "
                                      "not run any more. If the action is still wanted, make it a "
                                      "new call, with a new key if you send keys.");
    else if (answer == HX_ANSWER_KEY_EXPIRED && record != NULL &&
             record->reason == HX_REASON_ROUND_EXPIRED)
        (void)hx_buf_append_cstr(out, "The tool asked something in this call, nobody answered "
                                      "within 24 hours, and the call has ended; nothing ran now. "
                                      "The tool may have begun: check by other means whether the "
                                      "action happened before you call with a new key.");
    else
        (void)hx_buf_append_cstr(out, rows[answer].sentence);
    if (detail != NULL)
        (void)hx_buf_printf(out, " %s", detail);
    /* A model that is only told "cancelled" asks again, and the person is asked again. */
    if (answer == HX_ANSWER_CANCELLED && record != NULL && record->reason == HX_REASON_DENIED)
        (void)hx_buf_append_cstr(out, " A person refused it: do not make it again unless a person "
                                      "asks you to.");
    if (answer == HX_ANSWER_CANCELLED && record != NULL &&
        record->reason == HX_REASON_APPROVAL_EXPIRED)
        (void)hx_buf_append_cstr(out, " It needed a person's approval, and nobody gave or refused "
                                      "it within 24 hours; a new call is put to a person again.");
    if (answer == HX_ANSWER_OUTCOME_UNKNOWN && record != NULL)
        add_command(out, call, record);
    if (answer == HX_ANSWER_UPSTREAM_UNAVAILABLE)
        hx_link_write_end(call->session->link, out);
}

static int write_tool_result(struct hx_buf *line, const struct hx_call *call, enum hx_answer answer,
                             const struct hx_record *record, const char *detail)
{
    struct hx_buf sentence;
    hx_buf_init(&sentence, 64 * 1024);
    write_sentence(&sentence, call, answer, record, detail);
    struct hx_json_writer writer;
    (void)hx_buf_append_cstr(line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_span(line, call->request->raw_id);
    (void)hx_buf_append_cstr(line, ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_writer_init(&writer, line);
    hx_json_put_string(&writer, hx_buf_span(&sentence));
    (void)hx_buf_append_cstr(line, "}],\"isError\":true,\"_meta\":{\"" HX_MCP_META_OPERATION "\":");
    write_operation(line, call, answer, record);
    (void)hx_buf_append_cstr(line, "}}}");
    bool is_whole = hx_buf_ok(&sentence) && hx_buf_ok(line);
    hx_buf_fini(&sentence);
    return is_whole ? 0 : HX_E_NOMEM;
}

static int write_error(struct hx_buf *line, const struct hx_call *call, enum hx_answer answer,
                       const struct hx_record *record, const char *detail)
{
    struct hx_buf sentence, data, operation;
    hx_buf_init(&sentence, 64 * 1024);
    hx_buf_init(&data, 64 * 1024);
    hx_buf_init(&operation, 4096);
    write_sentence(&sentence, call, answer, record, detail);
    write_operation(&operation, call, answer, record);
    struct hx_json_writer writer;
    hx_json_writer_init(&writer, &data);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "code");
    hx_json_put_cstr(&writer, hx_answer_name(answer));
    if (types[answer] != NULL) {
        hx_json_put_name(&writer, "type");
        hx_json_put_cstr(&writer, types[answer]);
    }
    bool is_same_key_safe = rows[answer].same_key != SAME_KEY_NO;
    hx_json_put_name(&writer, "retry_safe");
    hx_json_put_bool(&writer, is_same_key_safe);
    hx_json_put_name(&writer, HX_MCP_META_OPERATION);
    hx_json_put_raw(&writer, hx_buf_span(&operation));
    hx_json_close_object(&writer);
    bool is_whole = hx_buf_ok(&sentence) && hx_buf_ok(&operation) && hx_buf_ok(&data);
    int rc = is_whole ? hx_rewrite_build_error(line, call->request->raw_id, true,
                                               rows[answer].jsonrpc_code, hx_buf_span(&sentence),
                                               hx_buf_span(&data))
                      : HX_E_NOMEM;
    hx_buf_fini(&sentence);
    hx_buf_fini(&data);
    hx_buf_fini(&operation);
    return rc;
}

static int write_own_answer(struct hx_buf *line, const struct hx_call *call, enum hx_answer answer,
                            const struct hx_record *record, const char *detail)
{
    hx_assert(rows[answer].code != NULL);
    bool is_error = rows[answer].shape == SHAPE_JSONRPC ||
                    (call->is_param_key && rows[answer].jsonrpc_code != 0);
    if (is_error)
        return write_error(line, call, answer, record, detail);
    return write_tool_result(line, call, answer, record, detail);
}

/* "10:03 UTC" */
static void clock_text(struct hx_wall wall, char *ret_text, size_t size)
{
    char full[HX_TIME_TEXT_SIZE];
    hx_wall_format(wall, full);
    snprintf(ret_text, size, "%.5s UTC", full[0] == '-' ? "--:--" : full + 11);
}

static void write_note(struct hx_buf *note, const struct hx_call *call)
{
    char when[16];
    bool is_keyless = call->wanted.key_source == HX_KEY_NONE;
    if (!is_keyless || !call->tool->rules.has_replay_note)
        return;
    clock_text(call->work_began, when, sizeof(when));
    /* Even a repeat of the transport may run something: what a person wanted done again. */
    if (call->is_transport_repeat && (call->is_replayed || call->is_joined))
        (void)hx_buf_printf(note,
                            "This request id was already used for the same call at %s; nothing ran "
                            "now.",
                            when);
    else if (call->is_replayed)
        (void)hx_buf_printf(note,
                            "Stored answer of the same call at %s, whose answer was lost; nothing "
                            "ran now.",
                            when);
    else if (call->is_joined)
        (void)hx_buf_printf(note, "Joined the same call of %s.", when);
}

/* A raw error of the tool's under the caller's id. */
static int write_tool_error(struct hx_buf *line, const struct hx_call *call, struct hx_span error)
{
    int rc =
        hx_rewrite_tool_error_build(&call->gateway->rewrite, error, call->request->raw_id, line);
    if (rc <= 0)
        return rc;
    /* What is no object says nothing in our name. The buffer remembers a failure, and the last
     * append returns it. */
    (void)hx_buf_append_cstr(line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_span(line, call->request->raw_id);
    (void)hx_buf_append_cstr(line, ",\"error\":");
    (void)hx_buf_append_span(line, error);
    return hx_buf_append_char(line, '}');
}

/* 0, HX_E_SYNTAX or HX_E_NOMEM. */
static int check_text(struct hx_gateway *gateway, struct hx_span bytes)
{
    int rc = memchr(bytes.ptr, '\n', bytes.len) != NULL
                 ? HX_E_SYNTAX
                 : hx_json_read(&gateway->rewrite.tape, bytes, &gateway->part_limits);
    return rc > 0 ? HX_E_SYNTAX : rc;
}

bool hx_outcome_is_message_text(struct hx_gateway *gateway, struct hx_span bytes)
{
    return check_text(gateway, bytes) == 0;
}

/* The tool's own outcome, byte for byte but for what the contract adds. */
static int write_outcome(struct hx_buf *line, struct hx_call *call, const struct hx_record *record)
{
    struct hx_gateway *gateway = call->gateway;
    const struct hx_outcome *outcome = &record->outcome;
    struct hx_buf operation, note;
    int rc;
    if (outcome->kind == HX_OUTCOME_ERROR) {
        rc = check_text(gateway, outcome->bytes);
        return rc < 0 ? rc : write_tool_error(line, call, outcome->bytes);
    }
    hx_buf_init(&operation, 4096);
    hx_buf_init(&note, 256);
    write_operation(&operation, call, HX_ANSWER_OUTCOME, record);
    write_note(&note, call);
    struct hx_rewrite_result change = {
        .id = call->request->raw_id,
        .operation = hx_buf_span(&operation),
        .note = note.len > 0 && hx_buf_ok(&note) ? hx_buf_span(&note) : HX_SPAN_NONE,
    };
    if (!hx_buf_ok(&operation))
        rc = HX_E_NOMEM;
    else if (memchr(outcome->bytes.ptr, '\n', outcome->bytes.len) != NULL)
        rc = HX_E_SYNTAX; /* no message has a line end */
    else
        rc = hx_rewrite_result_build(&gateway->rewrite, outcome->bytes, &change, line);
    if (rc == HX_REWRITE_NO_PLACE || rc == HX_REWRITE_BAD_TEXT) {
        /* A result that is no object has no place for us; the caller gets it as it is. */
        rc = check_text(gateway, outcome->bytes);
        if (rc == 0)
            rc = hx_rewrite_build_result(line, call->request->raw_id, outcome->bytes);
    }
    hx_buf_fini(&operation);
    hx_buf_fini(&note);
    return rc;
}

static void end_call(struct hx_call *call, struct hx_buf *line, struct hx_delivery_note *note)
{
    struct hx_request *request = call->request;
    request->call = NULL;
    call->request = NULL;
    hx_call_forget(call);
    hx_reply_line(request, line, note);
}

/* Codes that the caller is owed more for later: he may come back for as long as the payload is
 * kept. */
static bool is_promise(enum hx_answer answer)
{
    return answer == HX_ANSWER_BUSY || answer == HX_ANSWER_OUTCOME_UNKNOWN ||
           answer == HX_ANSWER_APPROVAL_REQUIRED;
}

static void note_promise(struct hx_call *call, const struct hx_record *record)
{
    struct hx_gateway *gateway = call->gateway;
    if (record->is_told_pending || (call->work != NULL && call->work->is_told))
        return;
    if (call->work != NULL)
        call->work->is_told = true;
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_TOUCH);
    request->record.id = record->id;
    request->touch.set_told_pending = true;
    hx_store_submit_quiet(gateway, request);
}

/* Why the ledger could not be written, when that is the answer. */
static const char *ledger_reason(const struct hx_call *call, enum hx_answer answer)
{
    bool has_reason = answer == HX_ANSWER_LEDGER_UNAVAILABLE && call->work != NULL &&
                      call->work->ledger_error[0] != '\0';
    return has_reason ? call->work->ledger_error : NULL;
}

void hx_call_answer(struct hx_call *call, enum hx_answer answer, const struct hx_record *record)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max + (size_t)64 * 1024);
    int rc = answer == HX_ANSWER_OUTCOME
                 ? write_outcome(&line, call, record)
                 : write_own_answer(&line, call, answer, record, ledger_reason(call, answer));
    if (rc < 0) {
        /* The outcome is durable and can be asked for again; say that much at least. Of anything
         * else nothing better can be said, and above all not that it happened. That it may be had
         * later is not said: a call without a key that comes for it may be taken for a new one. */
        call->is_result_unread |= answer == HX_ANSWER_OUTCOME && rc == HX_E_NOMEM;
        answer = answer == HX_ANSWER_OUTCOME ? HX_ANSWER_RESULT_UNAVAILABLE : answer;
        hx_buf_reset(&line);
        rc = write_own_answer(&line, call, answer, record, NULL);
    }
    if (rc < 0)
        hx_buf_reset(&line); /* no part of a message: see hx_reply_line */
    struct hx_delivery_note *note = NULL;
    if (is_promise(answer)) {
        note_promise(call, record);
        hx_delivery_remember(call, record);
    } else if (hx_op_state_is_final(record->state)) {
        note = hx_delivery_new(call, record);
    }
    if (note != NULL && call->is_result_unread) {
        hx_delivery_take_back(gateway, note); /* whoever asks again all the same is given it */
        note = NULL;
    }
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&record->id, id);
    hx_tell(gateway, HX_TELL_INFO, "answered",
            "operation=%s answer=%s execution=%s replayed=%d joined=%d", id, hx_answer_name(answer),
            hx_op_state_name(record->state), call->is_replayed, call->is_joined);
    end_call(call, &line, note);
}

void hx_call_refuse(struct hx_call *call, enum hx_answer answer, const char *detail)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_buf line;
    hx_buf_init(&line, gateway->options.message_max + (size_t)64 * 1024);
    if (write_own_answer(&line, call, answer, NULL, detail) < 0)
        hx_buf_reset(&line);
    hx_tell(gateway, HX_TELL_INFO, "refused", "answer=%s tool=%s", hx_answer_name(answer),
            call->tool->name);
    end_call(call, &line, NULL);
}

void hx_call_no_memory(struct hx_call *call)
{
    hx_call_refuse(call, HX_ANSWER_LEDGER_UNAVAILABLE, "There is no memory for this call.");
}

void hx_call_answer_error(struct hx_call *call, struct hx_span error)
{
    struct hx_buf line;
    /* The caller's id may be longer than the one that the server gave back. */
    hx_buf_init(&line, call->gateway->options.message_max + HX_RPC_ID_MAX + 64);
    if (write_tool_error(&line, call, error) < 0)
        hx_buf_reset(&line);
    end_call(call, &line, NULL);
}
