/* SPDX-License-Identifier: MIT */
/*
 * What is refused at the door.
 *
 * The order of the checks is that of what they cost, and of what may be said to whom: where we are
 * (Host, Origin), who asks, what is there for him, and only then what he wants.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"

#define REFUSAL(name, http_status, words)                                                          \
    static const struct refusal name = {                                                           \
        .status = (http_status), .code = -32000, .sentence = (words)}

REFUSAL(refusal_host, 403, "Forbidden: this host name is not served here");
REFUSAL(refusal_origin, 403, "Forbidden: this origin is not allowed");
REFUSAL(refusal_path, 404, "Not found: there is no MCP endpoint at this path");
REFUSAL(refusal_method, 405, "Method not allowed");
REFUSAL(refusal_accept, 406,
        "Not acceptable: accept application/json, text/event-stream, or better both");
REFUSAL(refusal_accept_events, 406, "Not acceptable: GET is answered with text/event-stream");
REFUSAL(refusal_type, 415, "Unsupported media type: Content-Type must be application/json");
static const struct refusal refusal_coding = {
    .status = 415,
    .code = -32000,
    .sentence = "Unsupported content coding: send the body as it is, without Content-Encoding",
    .header = "Accept-Encoding",
    .value = "identity"};
REFUSAL(refusal_large, 413, "The message is larger than this server takes");
REFUSAL(refusal_repeated, 400, "Bad request: a header that may stand once is repeated");

/* --- at the door --- */

static bool is_mcp(const struct front *front, struct hx_span path)
{
    struct hx_span top = hx_span_cstr(front->options.mcp_path);

    return hx_span_starts_with(path, top) && (path.len == top.len || path.ptr[top.len] == '/');
}

static const struct refusal *check_place(const struct front *front,
                                         const struct hx_web_request *request,
                                         struct hx_span *ret_origin)
{
    const struct hx_http_front_options *options = &front->options;
    struct hx_span origin = hx_web_request_find(request, "Origin");

    /* No browser speaks to a Unix socket, and none leaves Host out. */
    if (!request->is_local && !hx_span_is_absent(request->host) &&
        !hx_http_host_is_allowed(request->host, options->hosts))
        return &refusal_host;
    if (hx_web_request_count(request, "Origin") > 1)
        return &refusal_origin;
    if (!hx_span_is_absent(origin) &&
        !hx_http_origin_is_allowed(origin, request->host, options->origins))
        return &refusal_origin;
    *ret_origin = origin;
    return NULL;
}

static bool authenticate(const struct front *front, const struct hx_web_request *request,
                         struct hx_http_caller *ret_caller)
{
    const struct hx_http_front_options *options = &front->options;

    return hx_web_request_count(request, "Authorization") <= 1 &&
           options->authenticate(options->context, hx_web_request_find(request, "Authorization"),
                                 request->is_local, ret_caller);
}

static void hand_to_application(struct front *front, uint64_t exchange,
                                struct hx_web_request *request)
{
    struct hx_http_front_event *event = hx_new(struct hx_http_front_event);

    hx_list_init(&event->node);
    event->type = HX_HTTP_FRONT_OTHER;
    event->exchange = exchange;
    event->request = request;
    if (!authenticate(front, request, &event->caller))
        event->caller = (struct hx_http_caller){0};
    hx_list_append(front->options.front_inbox, &event->node);
}

static const struct refusal *check_once(const struct hx_web_request *request)
{
    static const char *const names[] = {"Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (hx_web_request_count(request, names[i]) > 1)
            return &refusal_repeated;
    }
    return NULL;
}

static const struct refusal *check_form(const struct front *front,
                                        const struct hx_web_request *request, struct stream *stream)
{
    struct hx_http_accepts accepts = hx_http_accepts(request);

    stream->takes_json = accepts.json;
    stream->takes_events = accepts.events;
    if (stream->kind == STREAM_GET && !accepts.events)
        return &refusal_accept_events;
    if (stream->kind == STREAM_POST) {
        if (!accepts.json && !accepts.events)
            return &refusal_accept;
        if (!hx_http_is_uncoded(request))
            return &refusal_coding;
        if (!hx_http_is_json(request))
            return &refusal_type;
        if (request->body.len > front->options.message_max_bytes)
            return &refusal_large;
    }
    return check_once(request);
}

static int kind_of(struct hx_span method)
{
    if (hx_span_eq_cstr(method, "POST"))
        return STREAM_POST;
    if (hx_span_eq_cstr(method, "GET"))
        return STREAM_GET;
    return hx_span_eq_cstr(method, "DELETE") ? STREAM_DELETE : -1;
}

/* Of one who may ask for this path. Takes the request. */
static void admit(struct front *front, uint64_t exchange, struct hx_web_request *request,
                  const struct hx_http_caller *caller, uint32_t endpoint, struct hx_span origin)
{
    int kind = kind_of(request->method);
    const struct refusal *refusal;
    struct stream *stream;

    hx_assert(kind >= 0);
    stream = stream_new(front, exchange, (enum stream_kind)kind);
    stream->request = request;
    stream->caller = *caller;
    stream->endpoint = endpoint;
    if (!hx_span_is_absent(origin))
        stream->origin = hx_span_strdup(origin);
    refusal = check_form(front, request, stream);
    if (front->is_draining)
        refusal = &refusal_drain;
    if (refusal != NULL)
        refuse_stream(front, stream, refusal);
    else
        request_go_on(front, stream);
}

static void refuse_request(struct front *front, uint64_t exchange, const struct refusal *refusal,
                           struct hx_web_request *request, struct hx_span origin)
{
    char *text = hx_span_is_absent(origin) ? NULL : hx_span_strdup(origin);

    refuse(front, exchange, refusal, HX_SPAN_NONE, text);
    hx_free(text);
    hx_web_request_free(request);
}

void door_take(struct front *front, uint64_t exchange, struct hx_web_request *request)
{
    struct refusal unknown_caller = {.status = 401,
                                     .code = -32000,
                                     .sentence = "Unauthorized: credentials are needed",
                                     .header = "WWW-Authenticate",
                                     .value = front->options.challenge};
    struct hx_span origin = HX_SPAN_NONE;
    const struct refusal *refusal = check_place(front, request, &origin);
    struct hx_http_caller caller = {0};
    int endpoint = -1;

    if (refusal == NULL && !is_mcp(front, request->path)) {
        hand_to_application(front, exchange, request);
        return;
    }
    if (refusal == NULL && hx_span_eq_cstr(request->method, "OPTIONS")) {
        answer_preflight(front, exchange, origin);
        hx_web_request_free(request);
        return;
    }
    if (refusal == NULL && !authenticate(front, request, &caller))
        refusal = &unknown_caller;
    if (refusal == NULL) {
        endpoint = front->options.find_endpoint(front->options.context, request->path, &caller);
        if (endpoint < 0)
            refusal = &refusal_path;
        else if (kind_of(request->method) < 0)
            refusal = &refusal_method;
    }
    if (refusal != NULL)
        refuse_request(front, exchange, refusal, request, origin);
    else
        admit(front, exchange, request, &caller, (uint32_t)endpoint, origin);
}
