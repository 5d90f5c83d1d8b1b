/* SPDX-License-Identifier: MIT */
/*
 * Lines to the client: answers and errors in our own name.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "wire/rewrite.h"
#include "json/text.h"

enum { WORD_MAX = HX_ALLOC_SMALL_MAX / 2 }; /* so that there is memory for it always */

static const struct hx_span nothing_sent =
    HX_SPAN_INIT("There is no memory for this message; nothing was sent. Repeat it as it is.");
static const struct hx_span nothing_sent_data =
    HX_SPAN_INIT(HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false"));

const struct hx_span refused_data =
    HX_SPAN_INIT(HX_MCP_OWN_ERROR("REQUEST_INVALID", "true", "true"));

void reply_send(struct merge *merge, struct hx_buf *line, const struct hx_sending *sending)
{
    merge->outer->ops->send(merge->outer, line, sending);
    hx_buf_fini(line);
}

void exchange_settle(struct merge *merge, uint64_t exchange, enum hx_settling settling)
{
    if (exchange != 0 && !merge->is_gone && merge->has_exchanges)
        merge->outer->ops->settle(merge->outer, exchange, settling);
}

void reply_aside(struct merge *merge, struct hx_buf *line, uint64_t exchange, uint64_t tag)
{
    reply_send(merge, line,
               &(struct hx_sending){.tag = tag, .exchange = exchange, .kind = HX_SENDING_ASIDE});
}

void reply_notice(struct merge *merge, const char *method)
{
    struct hx_buf line;

    if (merge->is_gone)
        return;
    hx_buf_init(&line, 512);
    if (hx_rewrite_build_request(&line, HX_SPAN_NONE, hx_span_cstr(method), HX_SPAN_NONE) == 0)
        reply_aside(merge, &line, 0, 0);
    hx_buf_fini(&line);
}

/* Words of a call of which nobody here knows what came: as the engine says it. */
static void write_unknown(struct merge *merge, struct hx_span id, bool has_param_key,
                          struct hx_span text, struct hx_buf *line)
{
    static const struct hx_span envelope =
        HX_SPAN_INIT("{\"code\":\"OUTCOME_UNKNOWN\",\"replayed\":false,\"joined\":false,"
                     "\"new_key_allowed\":false}");
    struct hx_buf result;
    int rc;

    hx_buf_init(&result, WORD_MAX);
    if (has_param_key) {
        (void)hx_buf_printf(
            &result,
            "{\"code\":\"OUTCOME_UNKNOWN\",\"type\":\"idempotency_outcome_unknown\","
            "\"retry_safe\":true,\"dev.hapax/operation\":%.*s}",
            HX_SPAN_FMT(envelope));
        rc = hx_rewrite_build_error(line, id, merge->era->may_omit_error_id, MERGE_OUTCOME_UNKNOWN,
                                    text, hx_buf_span(&result));
    } else {
        (void)hx_buf_append_cstr(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
        hx_json_text_quote(&result, text);
        (void)hx_buf_printf(&result,
                            "}],\"isError\":true,\"_meta\":{\"dev.hapax/operation\":%.*s}}",
                            HX_SPAN_FMT(envelope));
        rc = hx_rewrite_build_result(line, id, hx_buf_span(&result));
    }
    if (rc < 0)
        hx_buf_reset(line);
    hx_buf_fini(&result);
}

static void write_error(struct merge *merge, struct hx_span id, int64_t code, struct hx_span text,
                        struct hx_span data, struct hx_buf *line)
{
    if (hx_rewrite_build_error(line, id, merge->era->may_omit_error_id, code, text, data) < 0)
        hx_buf_reset(line);
}

/* For this one there is room always. */
void reply_too_much(struct merge *merge, struct hx_span id, enum request_risk risk,
                    bool has_param_key, struct hx_buf *line)
{
    hx_buf_fini(line);
    hx_buf_init(line, WORD_MAX);
    switch (risk) {
    case RISK_CALL:
        write_unknown(merge, id, has_param_key,
                      HX_SPAN_LIT("There is no memory for this answer, or it is longer than a "
                                  "message may be. The call may have been sent: it may or may not "
                                  "have happened. Do not call again under a new key and do not "
                                  "report it as failed. Repeat exactly the same call, with the "
                                  "same key if you sent one, to learn what came of it."),
                      line);
        return;
    case RISK_UNKNOWN:
        write_error(merge, id, MERGE_OUTCOME_UNKNOWN,
                    HX_SPAN_LIT("There is no memory for this answer, or it is longer than a "
                                "message may be. What was asked for may have happened."),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("OUTCOME_UNKNOWN", "false", "false")), line);
        return;
    case RISK_NONE:
        write_error(merge, id, HX_RPC_INTERNAL_ERROR,
                    HX_SPAN_LIT("There is no memory for this answer, or it is longer than a "
                                "message may be. The request may be repeated."),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")), line);
        return;
    }
}

/* --- answers --- */

void reply_line(struct request *request, struct hx_buf *line, struct leg *leg, uint64_t tag)
{
    struct merge *merge = request->merge;
    bool is_whole = hx_buf_ok(line) && line->len > 0;

    request_remember(request, leg);
    if (!is_whole && !merge->is_gone) {
        /* The client must not read half of a line. */
        if (leg != NULL)
            leg_tell_fate(leg, tag, HX_PEER_NOT_SENT);
        leg = NULL;
        tag = 0;
        reply_too_much(merge, hx_buf_span(&request->raw_id), request->risk, request->has_param_key,
                       line);
    }
    if (merge->is_gone) {
        if (leg != NULL)
            leg_tell_fate(leg, tag, HX_PEER_NOT_SENT);
    } else if (request->batch != NULL) {
        batch_add(merge, request->batch, request, line, leg, tag);
    } else {
        reply_send(merge, line,
                   &(struct hx_sending){.tag = outer_tag(leg, tag), .exchange = request->exchange});
    }
    hx_buf_fini(line);
    request_free(request);
}

void reply_error(struct request *request, int64_t code, struct hx_span text, struct hx_span data)
{
    struct hx_buf line;

    hx_buf_init(&line, request->merge->options.message_max_bytes);
    /* What cannot be written reply_line says in fewer words. */
    write_error(request->merge, hx_buf_span(&request->raw_id), code, text, data, &line);
    reply_line(request, &line, NULL, 0);
}

void reply_result(struct request *request, struct hx_span result)
{
    struct hx_buf line;

    hx_buf_init(&line, request->merge->options.message_max_bytes + HX_RPC_ID_MAX);
    if (hx_rewrite_build_result(&line, hx_buf_span(&request->raw_id), result) < 0)
        hx_buf_reset(&line);
    reply_line(request, &line, NULL, 0);
}

void reply_unknown(struct request *request, struct hx_span text)
{
    struct hx_buf line;

    hx_buf_init(&line, WORD_MAX);
    write_unknown(request->merge, hx_buf_span(&request->raw_id), request->has_param_key, text,
                  &line);
    reply_line(request, &line, NULL, 0);
}

void reply_no_memory(struct request *request)
{
    reply_error(request, MERGE_LEDGER_UNAVAILABLE, nothing_sent, nothing_sent_data);
}

static void send_fault(struct merge *merge, struct hx_buf *line)
{
    if (line->len > 0)
        reply_send(merge, line,
                   &(struct hx_sending){.exchange = merge->taking, .kind = HX_SENDING_FAULT});
    hx_buf_fini(line);
    merge->taking = 0;
}

static void write_fault(struct merge *merge, struct hx_buf *line, struct hx_span id, int64_t code,
                        const char *text)
{
    hx_buf_init(line, merge->options.message_max_bytes);
    write_error(merge, id, code, hx_span_cstr(text), refused_data, line);
}

void reply_fault(struct merge *merge, struct hx_span id, int64_t code, const char *text)
{
    struct hx_buf line;

    write_fault(merge, &line, id, code, text);
    send_fault(merge, &line);
}

void reply_invalid(struct merge *merge, struct batch *batch, const struct hx_rpc_msg *msg)
{
    bool has_detail = msg->fault == HX_RPC_PARSE_ERROR && msg->fault_detail != NULL;
    bool has_id = msg->id.type == HX_RPC_ID_INTEGER || msg->id.type == HX_RPC_ID_STRING;
    struct hx_buf line;
    char text[512];

    snprintf(text, sizeof(text), "%s%s%s", hx_rpc_fault_text(msg->fault), has_detail ? ": " : "",
             has_detail ? msg->fault_detail : "");
    write_fault(merge, &line, has_id ? msg->id.raw : HX_SPAN_NONE, hx_rpc_fault_code(msg->fault),
                text);
    if (batch == NULL)
        send_fault(merge, &line);
    else if (line.len > 0)
        batch_add(merge, batch, NULL, &line, NULL, 0);
    hx_buf_fini(&line);
}

void reply_unread(struct merge *merge, struct batch *batch, struct hx_span id)
{
    struct hx_buf line;

    hx_buf_init(&line, WORD_MAX);
    write_error(merge, id, MERGE_LEDGER_UNAVAILABLE, nothing_sent, nothing_sent_data, &line);
    if (batch == NULL)
        send_fault(merge, &line);
    else
        batch_add(merge, batch, NULL, &line, NULL, 0);
    hx_buf_fini(&line);
}
