/* SPDX-License-Identifier: MIT */
/*
 * Which leg a request is for. What cannot be told without the servers' lists waits until they are
 * there.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"
#include "json/text.h"

static bool can_log(const struct leg *leg)
{
    return leg->has_logging;
}

static bool can_subscribe(const struct leg *leg)
{
    return leg->has_subscribe;
}

static void refuse(struct request *request, int64_t code, const char *text)
{
    reply_error(request, code, hx_span_cstr(text), refused_data);
}

static void refuse_unreachable(struct request *request, const struct leg *leg)
{
    bool is_starting = leg->state == LEG_GREETED;
    struct hx_buf text;

    hx_buf_init(&text, 512);
    (void)hx_buf_printf(
        &text, "The server \"%.*s\" %s; nothing was sent.%s", HX_SPAN_FMT(leg->name),
        is_starting ? "has not answered initialize yet" : "cannot be reached in this session",
        is_starting ? " Try again soon." : "");
    reply_error(request, MERGE_UPSTREAM_UNAVAILABLE, hx_buf_span(&text),
                HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
    hx_buf_fini(&text);
}

static void route_to(struct request *request, struct leg *leg)
{
    if (leg->state == LEG_MISSING)
        leg_probe(leg); /* the engine tries to start it for this request, and then it is back */
    if (leg_may_be_sent_to(leg))
        request_send(request, leg);
    else
        refuse_unreachable(request, leg);
}

/* --- waiting for lists --- */

static bool is_learned(const struct merge *merge, enum list_kind kind)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        const struct leg *leg = &merge->legs[i];
        if (leg_takes_part(leg) && leg->has_list[kind] && !leg->is_learned[kind])
            return false;
    }
    return true;
}

/* Asks for those lists. The request may be routed, and gone, when this returns. */
static void wait_for(struct request *request, enum list_kind first, enum list_kind last)
{
    struct merge *merge = request->merge;
    bool begins[LIST_KINDS] = {false};

    request->is_learned = true;
    hx_list_append(&merge->waiting, &request->wait_node);
    for (int kind = first; kind <= (int)last; kind++) {
        begins[kind] = !merge->is_learning[kind];
        merge->is_learning[kind] = true;
        merge->learning += begins[kind];
    }
    for (int kind = first; kind <= (int)last; kind++) {
        if (begins[kind])
            list_begin(request_new_own(merge, REQUEST_LIST), (enum list_kind)kind, NULL);
    }
}

void route_waiting(struct merge *merge)
{
    struct hx_list ready;
    struct hx_list *node;
    struct hx_rpc_msg msg;

    hx_list_init(&ready);
    hx_list_splice(&ready, &merge->waiting);
    while ((node = hx_list_take_first(&ready)) != NULL) {
        struct request *request = hx_container_of(node, struct request, wait_node);
        if (merge_read(merge, hx_buf_span(&request->message), &msg) == 0 &&
            msg.kind == HX_RPC_REQUEST)
            route_request(request, &msg);
        else
            reply_no_memory(request);
    }
}

/* --- by name --- */

/* Puts `json` in the place of a token of the request's message. */
static bool put(struct request *request, struct hx_span token, struct hx_span json)
{
    size_t before = (size_t)(token.ptr - request->message.data);
    struct hx_buf line;

    hx_buf_init(&line, request->message.len_max + json.len);
    (void)hx_buf_append(&line, request->message.data, before);
    (void)hx_buf_append_span(&line, json);
    (void)hx_buf_append(&line, token.ptr + token.len, request->message.len - before - token.len);
    if (!hx_buf_ok(&line)) {
        hx_buf_fini(&line);
        return false;
    }
    request_replace(request, &line);
    return true;
}

/* The name that the server knows, as JSON. What the client wrote stays as it is spelled. */
static void write_name(struct merge *merge, uint32_t token, const struct leg *leg,
                       struct hx_span text, const struct known *known, struct hx_buf *out)
{
    struct hx_span content = hx_json_content(&merge->tape, token);

    if (known != NULL) {
        hx_json_text_quote(out, known->name);
    } else if (hx_span_starts_with(content, leg->prefix)) {
        (void)hx_buf_append_char(out, '"');
        (void)hx_buf_append(out, content.ptr + leg->prefix.len, content.len - leg->prefix.len);
        (void)hx_buf_append_char(out, '"');
    } else {
        hx_json_text_quote(out, hx_span(text.ptr + leg->prefix.len, text.len - leg->prefix.len));
    }
}

static void unknown_name(struct request *request, enum list_kind kind, struct hx_span name)
{
    struct merge *merge = request->merge;
    struct hx_buf text;

    hx_buf_init(&text, 4096);
    (void)hx_buf_printf(&text, "Unknown %s: \"%.*s\". Nothing was sent. Names here begin with",
                        kind == LIST_TOOLS ? "tool" : "prompt",
                        (int)(name.len < 256 ? name.len : 256), name.ptr);
    for (size_t i = 0; i < merge->leg_count; i++)
        (void)hx_buf_printf(&text, "%s %.*s", i > 0 ? "," : "", HX_SPAN_FMT(merge->legs[i].prefix));
    reply_error(request, HX_RPC_INVALID_PARAMS, hx_buf_span(&text), refused_data);
    hx_buf_fini(&text);
}

static void by_name(struct request *request, enum list_kind kind, uint32_t token)
{
    struct merge *merge = request->merge;
    struct hx_mcp_text name;
    struct hx_buf json;

    if (hx_mcp_text_at(&merge->tape, token, &merge->arena, &name) < 0) {
        reply_no_memory(request);
        return;
    }
    if (name.state != HX_MCP_TEXT_GIVEN) {
        refuse(request, HX_RPC_INVALID_PARAMS,
               kind == LIST_TOOLS
                   ? "Refused, nothing was sent: tools/call needs params with the name of a tool."
                   : "Refused, nothing was sent: params need the name of a prompt.");
        return;
    }
    const struct known *known = known_find(merge, kind, name.text);
    struct leg *leg = known != NULL ? known->leg : name_leg(merge, name.text);
    if (leg == NULL) {
        unknown_name(request, kind, name.text);
        return;
    }
    if (known == NULL && !request->is_learned && leg_takes_part(leg) && leg->has_list[kind] &&
        !leg->is_learned[kind] && name_may_be_short(leg, name.text)) {
        wait_for(request, kind, kind);
        return;
    }
    hx_buf_init(&json, 6 * name.text.len + 256);
    write_name(merge, token, leg, name.text, known, &json);
    if (hx_buf_ok(&json) && put(request, hx_json_raw(&merge->tape, token), hx_buf_span(&json)))
        route_to(request, leg);
    else
        reply_no_memory(request);
    hx_buf_fini(&json);
}

/* --- by URI --- */

enum uri_use { URI_READ, URI_SUBSCRIBE, URI_COMPLETE };

static void by_uri(struct request *request, uint32_t token, enum uri_use use)
{
    struct merge *merge = request->merge;
    struct hx_mcp_text uri;

    if (hx_mcp_text_at(&merge->tape, token, &merge->arena, &uri) < 0) {
        reply_no_memory(request);
        return;
    }
    if (uri.state != HX_MCP_TEXT_GIVEN) {
        refuse(request, HX_RPC_INVALID_PARAMS, "Refused, nothing was sent: params need a URI.");
        return;
    }
    enum list_kind kind = use == URI_COMPLETE ? LIST_TEMPLATES : LIST_RESOURCES;
    const struct known *known = known_find(merge, kind, uri.text);
    bool is_sure = is_learned(merge, LIST_RESOURCES) && is_learned(merge, LIST_TEMPLATES);
    if (known == NULL && !is_sure && !request->is_learned) {
        wait_for(request, LIST_RESOURCES, LIST_TEMPLATES);
        return;
    }
    struct leg *leg = known != NULL ? known->leg : template_leg(merge, uri.text);
    if (leg != NULL) {
        route_to(request, leg);
    } else if (use == URI_SUBSCRIBE) {
        request->kind = REQUEST_ALL;
        request_send_all(request, can_subscribe);
    } else {
        request->kind = REQUEST_TRY;
        request->wants = use == URI_COMPLETE ? WANTS_COMPLETION : WANTS_RESOURCE;
        request_try_next(request);
    }
}

static void complete(struct request *request, const struct hx_rpc_msg *msg)
{
    const struct hx_json_tape *tape = &request->merge->tape;
    uint32_t ref = hx_json_member(tape, msg->params_token, HX_SPAN_LIT("ref"));
    uint32_t type = hx_json_member_of(tape, ref, HX_SPAN_LIT("type"), HX_JSON_STRING);

    if (type != HX_JSON_NONE && hx_json_is_text(tape, type, HX_SPAN_LIT("ref/resource")))
        by_uri(request, hx_json_member(tape, ref, HX_SPAN_LIT("uri")), URI_COMPLETE);
    else
        by_name(request, LIST_PROMPTS, hx_json_member(tape, ref, HX_SPAN_LIT("name")));
}

/* --- by method --- */

static struct leg *leg_named(struct merge *merge, uint32_t server)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        if (hx_json_is_text(&merge->tape, server, merge->legs[i].name))
            return &merge->legs[i];
    }
    return NULL;
}

static struct leg *first_leg(struct merge *merge)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        if (leg_takes_part(&merge->legs[i]))
            return &merge->legs[i];
    }
    return &merge->legs[0];
}

/* An operation is named by a key and a tool. The tool is called as the list calls it, and only if
 * no server's names begin so, as `named` calls it itself. A cancel that another server, or the same
 * one of another tool, would take for that of a call still to come must not be called done. */
static void by_tool(struct request *request, uint32_t token, struct leg *named)
{
    struct merge *merge = request->merge;
    struct hx_mcp_text name;

    if (hx_mcp_text_at(&merge->tape, token, &merge->arena, &name) < 0) {
        reply_no_memory(request);
        return;
    }
    struct leg *leg = name_leg(merge, name.text);
    if (leg == NULL && named != NULL)
        route_to(request, named);
    else if (named != NULL && leg != named)
        refuse(request, HX_RPC_INVALID_PARAMS,
               "Refused, nothing was looked at: a tool of this name is of another server than the "
               "one that is named. Call it as this endpoint lists it.");
    else
        by_name(request, LIST_TOOLS, token);
}

/* Questions about operations. Each server's session knows those of its server; whose an id is, its
 * sessions say. */
static void by_operation(struct request *request, const struct hx_rpc_msg *msg)
{
    struct merge *merge = request->merge;
    const struct hx_json_tape *tape = &merge->tape;
    uint32_t params = msg->params_token;
    uint32_t server = hx_json_member_of(tape, params, HX_SPAN_LIT("server"), HX_JSON_STRING);
    uint32_t tool = hx_json_member_of(tape, params, HX_SPAN_LIT("tool"), HX_JSON_STRING);
    struct leg *named = server != HX_JSON_NONE ? leg_named(merge, server) : NULL;

    if (server != HX_JSON_NONE && named == NULL) {
        refuse(request, HX_RPC_INVALID_PARAMS,
               "Refused, nothing was looked at: there is no server of this name here.");
    } else if (tool != HX_JSON_NONE) {
        by_tool(request, tool, named);
    } else if (named == NULL && hx_json_member(tape, params, HX_SPAN_LIT("id")) != HX_JSON_NONE) {
        request->kind = REQUEST_TRY;
        request->wants = WANTS_OPERATION;
        request_try_next(request);
    } else {
        route_to(request, named != NULL ? named : first_leg(merge));
    }
}

static void list(struct request *request, const struct hx_rpc_msg *msg, enum list_kind kind)
{
    struct merge *merge = request->merge;

    if (hx_json_member_of(&merge->tape, msg->params_token, HX_SPAN_LIT("cursor"), HX_JSON_STRING) !=
        HX_JSON_NONE) {
        refuse(request, HX_RPC_INVALID_PARAMS,
               "This cursor is not known: lists come as one page here.");
        return;
    }
    request->kind = REQUEST_LIST;
    list_begin(request, kind, NULL);
}

static void by_other_method(struct request *request, const struct hx_rpc_msg *msg)
{
    struct merge *merge = request->merge;
    const struct hx_json_tape *tape = &merge->tape;
    int kind = list_kind_of(msg->method);

    if (kind != LIST_KINDS)
        list(request, msg, (enum list_kind)kind);
    else if (hx_span_eq_cstr(msg->method, "prompts/get"))
        by_name(request, LIST_PROMPTS,
                hx_json_member(tape, msg->params_token, HX_SPAN_LIT("name")));
    else if (hx_span_eq_cstr(msg->method, "resources/read"))
        by_uri(request, hx_json_member(tape, msg->params_token, HX_SPAN_LIT("uri")), URI_READ);
    else if (hx_span_eq_cstr(msg->method, "resources/unsubscribe"))
        by_uri(request, hx_json_member(tape, msg->params_token, HX_SPAN_LIT("uri")), URI_SUBSCRIBE);
    else if (hx_span_eq_cstr(msg->method, "completion/complete"))
        complete(request, msg);
    else if (merge->leg_count == 1) {
        bool is_harmless = hx_mcp_is_harmless(hx_mcp_method_parse(msg->method), msg->method);
        request->risk = is_harmless ? RISK_NONE : RISK_UNKNOWN;
        route_to(request, &merge->legs[0]);
    } else
        refuse(request, MERGE_NO_METHOD,
               "This method is none of those that can be told to one of several servers; use the "
               "server's own endpoint.");
}

static void begin(struct request *request, const struct hx_rpc_msg *msg)
{
    if (request->batch != NULL)
        refuse(request, HX_RPC_INVALID_REQUEST, "initialize must not stand in a batch.");
    else if (request->merge->greeting != NULL)
        refuse(request, HX_RPC_INVALID_REQUEST, "initialize is being answered already.");
    else
        greet(request, msg);
}

static void set_level(struct request *request)
{
    struct merge *merge = request->merge;

    hx_buf_reset(&merge->level);
    (void)hx_buf_append_span(&merge->level, hx_buf_span(&request->message));
    request->kind = REQUEST_ALL;
    request_send_all(request, can_log);
}

void route_request(struct request *request, const struct hx_rpc_msg *msg)
{
    const struct hx_json_tape *tape = &request->merge->tape;

    switch (hx_mcp_method_parse(msg->method)) {
    case HX_MCP_INITIALIZE:
        begin(request, msg);
        return;
    case HX_MCP_PING:
        reply_result(request, HX_SPAN_LIT("{}"));
        return;
    case HX_MCP_TOOLS_LIST:
        list(request, msg, LIST_TOOLS);
        return;
    case HX_MCP_TOOLS_CALL:
        request->risk = RISK_CALL;
        request->has_param_key =
            hx_json_member(tape, msg->params_token, HX_SPAN_LIT("idempotencyKey")) != HX_JSON_NONE;
        by_name(request, LIST_TOOLS, hx_json_member(tape, msg->params_token, HX_SPAN_LIT("name")));
        return;
    case HX_MCP_SET_LEVEL:
        set_level(request);
        return;
    case HX_MCP_RESOURCES_SUBSCRIBE:
        by_uri(request, hx_json_member(tape, msg->params_token, HX_SPAN_LIT("uri")), URI_SUBSCRIBE);
        return;
    case HX_MCP_TASKS_GET:
    case HX_MCP_TASKS_RESULT:
    case HX_MCP_TASKS_LIST:
    case HX_MCP_TASKS_CANCEL:
        refuse(request, MERGE_NO_METHOD, "Tasks of servers are not offered at this endpoint.");
        return;
    case HX_MCP_HAPAX_GET:
    case HX_MCP_HAPAX_LIST:
    case HX_MCP_HAPAX_CANCEL:
    case HX_MCP_HAPAX_ACKNOWLEDGE:
    case HX_MCP_HAPAX_BEGIN:
        by_operation(request, msg);
        return;
    default:
        by_other_method(request, msg);
    }
}
