/* SPDX-License-Identifier: MIT */
#include "wire/jsonrpc.h"

#include "base/fault.h"
#include "wire/skim.h"
#include "json/scan.h"
#include "json/text.h"

/* Everything that a message may have in its envelope, as token indexes. */
struct envelope {
    uint32_t version;
    uint32_t id;
    uint32_t method;
    uint32_t params;
    uint32_t result;
    uint32_t error;
};

static struct envelope envelope_find(const struct hx_json_tape *tape, uint32_t object)
{
    struct envelope found = {HX_JSON_NONE, HX_JSON_NONE, HX_JSON_NONE,
                             HX_JSON_NONE, HX_JSON_NONE, HX_JSON_NONE};
    struct {
        struct hx_span name;
        uint32_t *index;
    } wanted[] = {
        {HX_SPAN_LIT("jsonrpc"), &found.version}, {HX_SPAN_LIT("id"), &found.id},
        {HX_SPAN_LIT("method"), &found.method},   {HX_SPAN_LIT("params"), &found.params},
        {HX_SPAN_LIT("result"), &found.result},   {HX_SPAN_LIT("error"), &found.error},
    };
    hx_json_for_each(name, tape, object)
    {
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
            if (*wanted[i].index == HX_JSON_NONE && hx_json_is_text(tape, name, wanted[i].name))
                *wanted[i].index = name + 1;
        }
    }
    return found;
}

struct hx_rpc_id hx_rpc_id_at(const struct hx_json_tape *tape, uint32_t index)
{
    struct hx_rpc_id id = {.type = HX_RPC_ID_NONE, .raw = HX_SPAN_NONE};
    if (index == HX_JSON_NONE)
        return id;
    const struct hx_json_token *token = hx_json_at(tape, index);
    struct hx_span raw = hx_json_raw(tape, index);
    if (token->type == HX_JSON_NULL) {
        id.type = HX_RPC_ID_NULL;
    } else if (raw.len > HX_RPC_ID_MAX) {
        return id;
    } else if (token->type == HX_JSON_STRING) {
        if ((token->flags & HX_JSON_HAS_LONE_SURROGATE) != 0)
            return id;
        id.type = HX_RPC_ID_STRING;
    } else if (token->type == HX_JSON_NUMBER) {
        for (size_t i = 0; i < raw.len; i++) {
            if (raw.ptr[i] != '-' && !hx_json_is_digit((unsigned char)raw.ptr[i]))
                return id;
        }
        id.type = HX_RPC_ID_INTEGER;
    } else {
        return id;
    }
    id.raw = raw;
    return id;
}

static void invalid(struct hx_rpc_msg *msg, enum hx_rpc_fault fault)
{
    msg->kind = HX_RPC_INVALID;
    msg->fault = fault;
    if (msg->fault_detail == NULL)
        msg->fault_detail = hx_rpc_fault_text(fault);
}

static enum hx_rpc_fault check_request(const struct hx_json_tape *tape,
                                       const struct envelope *found, struct hx_rpc_msg *msg)
{
    if (!hx_json_is(tape, found->method, HX_JSON_STRING))
        return HX_RPC_BAD_METHOD;
    if ((hx_json_at(tape, found->method)->flags & HX_JSON_HAS_LONE_SURROGATE) != 0)
        return HX_RPC_BAD_METHOD;
    if (found->result != HX_JSON_NONE || found->error != HX_JSON_NONE)
        return HX_RPC_BOTH;
    bool has_params = found->params != HX_JSON_NONE;
    if (has_params && !hx_json_is(tape, found->params, HX_JSON_OBJECT) &&
        !hx_json_is(tape, found->params, HX_JSON_ARRAY))
        return HX_RPC_BAD_PARAMS;
    if (found->id == HX_JSON_NONE) {
        msg->kind = HX_RPC_NOTIFICATION;
        return HX_RPC_FAULT_NONE;
    }
    if (msg->id.type == HX_RPC_ID_NULL)
        return HX_RPC_NULL_ID;
    if (msg->id.type == HX_RPC_ID_NONE)
        return HX_RPC_BAD_ID;
    msg->kind = HX_RPC_REQUEST;
    return HX_RPC_FAULT_NONE;
}

static bool is_error_object(const struct hx_json_tape *tape, uint32_t error)
{
    uint32_t code = hx_json_member_of(tape, error, HX_SPAN_LIT("code"), HX_JSON_NUMBER);
    if (code == HX_JSON_NONE)
        return false;
    struct hx_span raw = hx_json_raw(tape, code);
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.ptr[i] != '-' && !hx_json_is_digit((unsigned char)raw.ptr[i]))
            return false;
    }
    return true;
}

static enum hx_rpc_fault check_response(const struct hx_json_tape *tape,
                                        const struct envelope *found, struct hx_rpc_msg *msg)
{
    bool has_result = found->result != HX_JSON_NONE;
    bool has_error = found->error != HX_JSON_NONE;
    if (has_result && has_error)
        return HX_RPC_BOTH;
    if (!has_result && !has_error)
        return HX_RPC_NEITHER;
    if (found->id != HX_JSON_NONE && msg->id.type == HX_RPC_ID_NONE)
        return HX_RPC_BAD_ID;
    if (has_error) {
        /* An error may lack its id, or have null, when the request's could not be read. */
        if (!is_error_object(tape, found->error))
            return HX_RPC_BAD_ERROR;
        msg->kind = HX_RPC_ERROR;
        return HX_RPC_FAULT_NONE;
    }
    if (found->id == HX_JSON_NONE)
        return HX_RPC_NEITHER;
    if (msg->id.type == HX_RPC_ID_NULL)
        return HX_RPC_NULL_ID;
    msg->kind = HX_RPC_RESULT;
    return HX_RPC_FAULT_NONE;
}

static int classify_object(const struct hx_json_tape *tape, struct hx_arena *arena,
                           struct hx_rpc_msg *msg)
{
    struct envelope found = envelope_find(tape, msg->root);
    bool has_duplicates = (hx_json_at(tape, msg->root)->flags & HX_JSON_HAS_DUPLICATES) != 0;
    enum hx_rpc_fault fault;

    if (!has_duplicates)
        msg->id = hx_rpc_id_at(tape, found.id);
    msg->id_token = found.id;
    if (has_duplicates)
        fault = HX_RPC_DUPLICATE_NAME;
    else if (!hx_json_is_text(tape, found.version, HX_SPAN_LIT("2.0")) ||
             !hx_json_is(tape, found.version, HX_JSON_STRING))
        fault = HX_RPC_BAD_VERSION;
    else if (found.method != HX_JSON_NONE)
        fault = check_request(tape, &found, msg);
    else
        fault = check_response(tape, &found, msg);
    if (fault != HX_RPC_FAULT_NONE) {
        invalid(msg, fault);
        return 0;
    }
    msg->params_token = found.params;
    msg->result_token = found.result;
    msg->error_token = found.error;
    msg->params = hx_json_raw(tape, found.params);
    msg->result = hx_json_raw(tape, found.result);
    msg->error = hx_json_raw(tape, found.error);
    if (found.method == HX_JSON_NONE)
        return 0;
    int rc = hx_json_string(tape, found.method, arena, &msg->method);
    hx_assert(rc != HX_JSON_TEXT_LONE_SURROGATE);
    return HX_TRACE(rc);
}

static void msg_clear(struct hx_rpc_msg *msg)
{
    *msg = (struct hx_rpc_msg){
        .kind = HX_RPC_INVALID,
        .root = HX_JSON_NONE,
        .params_token = HX_JSON_NONE,
        .result_token = HX_JSON_NONE,
        .error_token = HX_JSON_NONE,
        .id_token = HX_JSON_NONE,
    };
}

int hx_rpc_classify(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                    struct hx_rpc_msg *ret_msg)
{
    msg_clear(ret_msg);
    ret_msg->root = index;
    ret_msg->raw = hx_json_raw(tape, index);
    if (hx_json_is(tape, index, HX_JSON_OBJECT))
        return classify_object(tape, arena, ret_msg);
    if (!hx_json_is(tape, index, HX_JSON_ARRAY)) {
        invalid(ret_msg, HX_RPC_NOT_MESSAGE);
    } else if (index != 0) {
        invalid(ret_msg, HX_RPC_BATCH_NESTED);
    } else if (hx_json_at(tape, index)->count == 0) {
        invalid(ret_msg, HX_RPC_BATCH_EMPTY);
    } else if ((hx_json_at(tape, index)->flags & HX_JSON_IS_OPAQUE) != 0) {
        invalid(ret_msg, HX_RPC_OVER_LIMIT);
    } else {
        ret_msg->kind = HX_RPC_BATCH;
    }
    return 0;
}

static bool is_blank(struct hx_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!hx_json_is_space((unsigned char)text.ptr[i]))
            return false;
    }
    return true;
}

/* Encodings other than UTF-8 have letters whose second byte is a backslash; with one of those,
 * where strings end is another question than ours. A quote is in no such letter. */
static bool may_hide_quotes(struct hx_span text)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] == '\\' && (unsigned char)text.ptr[i - 1] >= 0x80)
            return true;
    }
    return false;
}

/* Whose call it was that cannot be read: what asks for something says so at its own top, once and
 * in plain letters, and is nested properly around that. An answer gets no answer. */
static int read_id_only(struct hx_span text, struct hx_arena *arena, struct hx_rpc_msg *msg)
{
    struct hx_skim skim;
    if (msg->fault == HX_RPC_BAD_UTF8 && may_hide_quotes(text))
        return 0;
    hx_skim_begin(&skim);
    hx_skim_add(&skim, text);
    struct hx_skim_result seen = hx_skim_end(&skim);
    if (!seen.is_object || !seen.has_id || !seen.has_method || seen.has_result || seen.has_error)
        return 0;
    struct hx_span raw = hx_arena_dup(arena, hx_skim_id(&skim));
    if (hx_span_is_absent(raw))
        return HX_RAISE(HX_E_NOMEM, "no memory for an id");
    msg->id = hx_rpc_id_parse(raw);
    return 0;
}

int hx_rpc_read(struct hx_json_tape *tape, struct hx_span text, const struct hx_json_limits *limits,
                struct hx_arena *arena, struct hx_rpc_msg *ret_msg)
{
    struct hx_json_limits shallow = *limits;
    shallow.record_depth_max = HX_RPC_RECORD_DEPTH;
    shallow.elements_max = HX_RPC_ELEMENTS_MAX;
    int rc = hx_json_read(tape, text, &shallow);
    if (rc == HX_JSON_TOO_MANY) {
        shallow.record_depth_max = HX_RPC_RECORD_DEPTH_LEAST;
        rc = hx_json_read(tape, text, &shallow);
    }
    if (rc < 0)
        return HX_TRACE(rc);
    if (rc == 0) {
        rc = hx_rpc_classify(tape, 0, arena, ret_msg);
        ret_msg->raw = text; /* white space around it included */
        return HX_TRACE(rc);
    }
    msg_clear(ret_msg);
    ret_msg->raw = text;
    ret_msg->fault_detail = tape->error_reason;
    ret_msg->fault_offset = tape->error_offset;
    if (is_blank(text))
        invalid(ret_msg, HX_RPC_EMPTY);
    else if (rc == HX_JSON_BAD_UTF8)
        invalid(ret_msg, HX_RPC_BAD_UTF8);
    else if (rc == HX_JSON_BAD_SYNTAX)
        invalid(ret_msg, HX_RPC_PARSE_ERROR);
    else
        invalid(ret_msg, HX_RPC_OVER_LIMIT);
    bool is_json_but_for_that =
        ret_msg->fault == HX_RPC_BAD_UTF8 || ret_msg->fault == HX_RPC_OVER_LIMIT;
    return is_json_but_for_that ? HX_TRACE(read_id_only(text, arena, ret_msg)) : 0;
}

int hx_rpc_fault_code(enum hx_rpc_fault fault)
{
    return fault <= HX_RPC_OVER_LIMIT ? HX_RPC_PARSE_FAILED : HX_RPC_INVALID_REQUEST;
}

const char *hx_rpc_fault_text(enum hx_rpc_fault fault)
{
    switch (fault) {
    case HX_RPC_FAULT_NONE:
        return "the message is valid";
    case HX_RPC_EMPTY:
        return "the line is empty";
    case HX_RPC_PARSE_ERROR:
        return "the message is not JSON";
    case HX_RPC_BAD_UTF8:
        return "the message is not UTF-8";
    case HX_RPC_OVER_LIMIT:
        return "the message is nested too deeply or holds too many values";
    case HX_RPC_NOT_MESSAGE:
        return "a message must be a JSON object";
    case HX_RPC_BATCH_EMPTY:
        return "a batch must hold at least one message";
    case HX_RPC_BATCH_NESTED:
        return "a batch must not hold another batch";
    case HX_RPC_DUPLICATE_NAME:
        return "the message holds two members of the same name";
    case HX_RPC_BAD_VERSION:
        return "the member \"jsonrpc\" must be \"2.0\"";
    case HX_RPC_NULL_ID:
        return "the id must not be null";
    case HX_RPC_BAD_ID:
        return "the id must be a string or an integer of at most 4096 bytes";
    case HX_RPC_BAD_METHOD:
        return "the method must be a string";
    case HX_RPC_BAD_PARAMS:
        return "params must be an object or an array";
    case HX_RPC_BAD_ERROR:
        return "an error must be an object with an integer code";
    case HX_RPC_BOTH:
        return "a message must be one of request, result and error";
    case HX_RPC_NEITHER:
        return "the message has neither a method nor a result or error with an id";
    }
    return "the message is not valid";
}

struct hx_rpc_id hx_rpc_id_parse(struct hx_span raw)
{
    /* An id is one token, so a tape of one on the stack will do: it is never let grow. */
    struct hx_json_token token;
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    tape.tokens = &token;
    tape.capacity = 1;
    const struct hx_json_limits limits = {
        .depth_max = 1, .tokens_max = 1, .text_max = HX_RPC_ID_MAX};
    struct hx_rpc_id id = {.type = HX_RPC_ID_NONE, .raw = HX_SPAN_NONE};
    if (!hx_span_is_absent(raw) && hx_json_read(&tape, raw, &limits) == 0)
        id = hx_rpc_id_at(&tape, 0);
    return id;
}

static struct hx_span integer_meaning(struct hx_span raw)
{
    return hx_span_eq(raw, HX_SPAN_LIT("-0")) ? HX_SPAN_LIT("0") : raw;
}

bool hx_rpc_id_eq(const struct hx_rpc_id *a, const struct hx_rpc_id *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == HX_RPC_ID_INTEGER)
        return hx_span_eq(integer_meaning(a->raw), integer_meaning(b->raw));
    if (a->type != HX_RPC_ID_STRING)
        return true;
    return hx_json_text_compare(hx_span(a->raw.ptr + 1, a->raw.len - 2),
                                hx_span(b->raw.ptr + 1, b->raw.len - 2)) == 0;
}

void hx_rpc_id_key(const struct hx_rpc_id *id, struct hx_buf *out)
{
    /* Appends' results are dropped: the buffer remembers a failure. */
    if (id->type == HX_RPC_ID_INTEGER) {
        (void)hx_buf_append_char(out, 'i');
        (void)hx_buf_append_span(out, integer_meaning(id->raw));
    } else if (id->type == HX_RPC_ID_STRING) {
        (void)hx_buf_append_char(out, 's');
        struct hx_json_chars chars = hx_json_chars(hx_span(id->raw.ptr + 1, id->raw.len - 2));
        for (int32_t code = hx_json_chars_next(&chars); code >= 0;
             code = hx_json_chars_next(&chars)) {
            char bytes[4];
            (void)hx_buf_append(out, bytes, hx_json_utf8_encode(code, bytes));
        }
    } else {
        (void)hx_buf_append_char(out, id->type == HX_RPC_ID_NULL ? 'n' : '-');
    }
}
