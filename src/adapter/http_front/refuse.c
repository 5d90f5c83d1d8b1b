/* SPDX-License-Identifier: MIT */
/*
 * Answers of our own: refusals as JSON-RPC errors, so that clients can tell what was refused, and
 * what browsers ask for.
 */
#include <stdio.h>

#include "adapter/http_front/internal.h"
#include "base/alloc.h"

const struct refusal refusal_no_session = {
    .status = 404, .code = -32001, .sentence = "Session not found"};

const struct refusal refusal_drain = {.status = 503,
                                      .code = -32000,
                                      .sentence = "The server is shutting down; try again",
                                      .header = "Retry-After",
                                      .value = "1"};

static const struct hx_span ALLOW = HX_SPAN_INIT("GET, POST, DELETE, OPTIONS");

uint32_t cors_headers(const char *origin, struct hx_web_header *ret_headers)
{
    if (origin == NULL)
        return 0;
    ret_headers[0] =
        (struct hx_web_header){HX_SPAN_LIT("Access-Control-Allow-Origin"), hx_span_cstr(origin)};
    ret_headers[1] = (struct hx_web_header){HX_SPAN_LIT("Access-Control-Expose-Headers"),
                                            HX_SPAN_LIT("Mcp-Session-Id, WWW-Authenticate, "
                                                        "Retry-After")};
    ret_headers[2] = (struct hx_web_header){HX_SPAN_LIT("Vary"), HX_SPAN_LIT("Origin")};
    return CORS_HEADERS;
}

/* What was refused here was not begun, and one of our kind that passes it on must know it from what
 * a tool has said. */
static const char *data_of(const struct refusal *refusal)
{
    return refusal->status == 503
               ? ",\"data\":" HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false")
               : ",\"data\":" HX_MCP_OWN_ERROR("REQUEST_INVALID", "true", "true");
}

void refuse(struct front *front, uint64_t exchange, const struct refusal *refusal,
            struct hx_span id, const char *origin)
{
    struct hx_web_header headers[3 + CORS_HEADERS];
    struct hx_web_answer answer = {.status = refusal->status, .headers = headers};
    struct hx_buf body;

    front->counts.refused++;
    headers[answer.header_count++] =
        (struct hx_web_header){HX_SPAN_LIT("Content-Type"), HX_SPAN_LIT("application/json")};
    if (refusal->header != NULL)
        headers[answer.header_count++] =
            (struct hx_web_header){hx_span_cstr(refusal->header), hx_span_cstr(refusal->value)};
    if (refusal->status == 405)
        headers[answer.header_count++] = (struct hx_web_header){HX_SPAN_LIT("Allow"), ALLOW};
    answer.header_count += cors_headers(origin, headers + answer.header_count);
    bool is_request = !hx_span_is_absent(id);
    if (!is_request)
        id = HX_SPAN_LIT("null");
    hx_buf_init(&body, BODY_MAX);
    /* The sentences are ours, and need no escapes. */
    (void)hx_buf_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,", HX_SPAN_FMT(id));
    (void)hx_buf_printf(&body, "\"error\":{\"code\":%d,\"message\":\"%s\"%s}}", refusal->code,
                        refusal->sentence, is_request ? data_of(refusal) : "");
    front->web->ops->answer(front->web, exchange, &answer, &body, 0);
    hx_buf_fini(&body);
}

void refuse_stream(struct front *front, struct stream *stream, const struct refusal *refusal)
{
    struct hx_rpc_msg msg = {0};

    if (stream->kind == STREAM_POST && stream->request != NULL)
        (void)front_read(front, hx_buf_span(&stream->request->body), &msg);
    refuse(front, stream->web, refusal, msg.kind == HX_RPC_REQUEST ? msg.id.raw : HX_SPAN_NONE,
           stream->origin);
    stream_free(front, stream);
}

void answer_empty(struct front *front, uint64_t exchange, uint32_t status, const char *origin)
{
    struct hx_web_header headers[CORS_HEADERS];
    struct hx_web_answer answer = {.status = status, .headers = headers};

    answer.header_count = cors_headers(origin, headers);
    front->web->ops->answer(front->web, exchange, &answer, NULL, 0);
}

void answer_preflight(struct front *front, uint64_t exchange, struct hx_span origin)
{
    struct hx_web_header headers[] = {
        {HX_SPAN_LIT("Allow"), ALLOW},
        {HX_SPAN_LIT("Vary"), HX_SPAN_LIT("Origin")},
        {HX_SPAN_LIT("Access-Control-Allow-Origin"), origin},
        {HX_SPAN_LIT("Access-Control-Allow-Methods"), ALLOW},
        {HX_SPAN_LIT("Access-Control-Allow-Headers"),
         HX_SPAN_LIT("Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, "
                     "MCP-Protocol-Version, Mcp-Method, Mcp-Name, Idempotency-Key, traceparent, "
                     "tracestate")},
        {HX_SPAN_LIT("Access-Control-Max-Age"), HX_SPAN_LIT("600")}};
    struct hx_web_answer answer = {.status = 204, .headers = headers};

    answer.header_count = hx_span_is_absent(origin) ? 2 : sizeof headers / sizeof headers[0];
    front->web->ops->answer(front->web, exchange, &answer, NULL, 0);
}
