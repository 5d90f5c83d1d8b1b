/* SPDX-License-Identifier: MIT */
/* What decides about a connection: the handshake and the list of tools. */
#include "wire/mcp.h"

#include "base/fault.h"

/* Reads a slice to any depth. False in *ret_is_read, without an error, when it is refused. */
static int read_all(struct hx_json_tape *tape, struct hx_span text,
                    const struct hx_json_limits *limits, bool *ret_is_read)
{
    struct hx_json_limits all = *limits;
    all.record_depth_max = 0;
    all.elements_max = 0;
    *ret_is_read = false;
    if (hx_span_is_absent(text))
        return 0;
    int rc = hx_json_read(tape, text, &all);
    if (rc < 0)
        return HX_TRACE(rc);
    *ret_is_read = rc == 0;
    return 0;
}

/* A capability is declared by an object, even an empty one. */
static uint32_t capability(const struct hx_json_tape *tape, uint32_t parent, struct hx_span name)
{
    return hx_json_member_of(tape, parent, name, HX_JSON_OBJECT);
}

static bool has_extension(const struct hx_json_tape *tape, uint32_t capabilities)
{
    uint32_t extensions = capability(tape, capabilities, HX_SPAN_LIT("extensions"));
    return capability(tape, extensions, HX_SPAN_LIT(HX_MCP_EXTENSION)) != HX_JSON_NONE;
}

/* protocolVersion, and name and version out of clientInfo or serverInfo. */
static int identity_read(const struct hx_json_tape *tape, struct hx_span info_name,
                         struct hx_arena *arena, struct hx_mcp_text *ret_version,
                         enum hx_mcp_revision *ret_revision, struct hx_mcp_text *ret_peer_name,
                         struct hx_mcp_text *ret_peer_version)
{
    uint32_t info = hx_json_member(tape, 0, info_name);
    int rc = hx_mcp_text_at(tape, hx_json_member(tape, 0, HX_SPAN_LIT("protocolVersion")), arena,
                            ret_version);
    if (rc < 0)
        return HX_TRACE(rc);
    if (ret_version->state == HX_MCP_TEXT_GIVEN)
        *ret_revision = hx_mcp_revision_parse(ret_version->text);
    rc =
        hx_mcp_text_at(tape, hx_json_member(tape, info, HX_SPAN_LIT("name")), arena, ret_peer_name);
    if (rc < 0)
        return HX_TRACE(rc);
    return hx_mcp_text_at(tape, hx_json_member(tape, info, HX_SPAN_LIT("version")), arena,
                          ret_peer_version);
}

int hx_mcp_initialize_read(struct hx_json_tape *tape, struct hx_span params,
                           const struct hx_json_limits *limits, struct hx_arena *arena,
                           struct hx_mcp_initialize *ret_initialize)
{
    bool is_read;
    *ret_initialize = (struct hx_mcp_initialize){0};
    int rc = read_all(tape, params, limits, &is_read);
    if (rc < 0 || !is_read)
        return HX_TRACE(rc);

    uint32_t capabilities = capability(tape, 0, HX_SPAN_LIT("capabilities"));
    uint32_t elicitation = capability(tape, capabilities, HX_SPAN_LIT("elicitation"));
    ret_initialize->can_elicit = elicitation != HX_JSON_NONE;
    ret_initialize->can_elicit_url =
        hx_json_member(tape, elicitation, HX_SPAN_LIT("url")) != HX_JSON_NONE;
    /* An empty object is the form of 2025-06-18, before there were modes. */
    ret_initialize->can_elicit_form =
        ret_initialize->can_elicit &&
        (hx_json_member(tape, elicitation, HX_SPAN_LIT("form")) != HX_JSON_NONE ||
         !ret_initialize->can_elicit_url);
    ret_initialize->can_sample =
        capability(tape, capabilities, HX_SPAN_LIT("sampling")) != HX_JSON_NONE;
    ret_initialize->has_roots =
        capability(tape, capabilities, HX_SPAN_LIT("roots")) != HX_JSON_NONE;
    ret_initialize->has_tasks =
        capability(tape, capabilities, HX_SPAN_LIT("tasks")) != HX_JSON_NONE;
    ret_initialize->has_operations_extension = has_extension(tape, capabilities);
    return identity_read(tape, HX_SPAN_LIT("clientInfo"), arena, &ret_initialize->protocol_version,
                         &ret_initialize->revision, &ret_initialize->client_name,
                         &ret_initialize->client_version);
}

int hx_mcp_initialize_result_read(struct hx_json_tape *tape, struct hx_span result,
                                  const struct hx_json_limits *limits, struct hx_arena *arena,
                                  struct hx_mcp_initialize_result *ret_result)
{
    bool is_read;
    *ret_result = (struct hx_mcp_initialize_result){0};
    int rc = read_all(tape, result, limits, &is_read);
    if (rc < 0 || !is_read)
        return HX_TRACE(rc);

    uint32_t capabilities = capability(tape, 0, HX_SPAN_LIT("capabilities"));
    uint32_t tools = capability(tape, capabilities, HX_SPAN_LIT("tools"));
    uint32_t tasks = capability(tape, capabilities, HX_SPAN_LIT("tasks"));
    uint32_t task_requests = capability(tape, tasks, HX_SPAN_LIT("requests"));
    uint32_t idempotency = hx_json_member(tape, tools, HX_SPAN_LIT("idempotency"));
    ret_result->has_tools = tools != HX_JSON_NONE;
    ret_result->tools_list_changed =
        hx_json_member_of(tape, tools, HX_SPAN_LIT("listChanged"), HX_JSON_TRUE) != HX_JSON_NONE;
    ret_result->has_idempotency = hx_json_is(tape, idempotency, HX_JSON_OBJECT) ||
                                  hx_json_is(tape, idempotency, HX_JSON_TRUE);
    ret_result->has_tasks = tasks != HX_JSON_NONE;
    ret_result->has_task_calls =
        hx_json_member(tape, task_requests, HX_SPAN_LIT("tools")) != HX_JSON_NONE;
    ret_result->has_operations_extension = has_extension(tape, capabilities);
    return identity_read(tape, HX_SPAN_LIT("serverInfo"), arena, &ret_result->protocol_version,
                         &ret_result->revision, &ret_result->server_name,
                         &ret_result->server_version);
}

int hx_mcp_tools_read(struct hx_json_tape *tape, struct hx_span result,
                      const struct hx_json_limits *limits, struct hx_arena *arena,
                      struct hx_mcp_tools *ret_tools)
{
    bool is_read;
    *ret_tools = (struct hx_mcp_tools){.tape = tape, .array = HX_JSON_NONE, .at = HX_JSON_NONE};
    int rc = read_all(tape, result, limits, &is_read);
    if (rc < 0 || !is_read)
        return HX_TRACE(rc);
    uint32_t cursor = hx_json_member(tape, 0, HX_SPAN_LIT("nextCursor"));
    ret_tools->array = hx_json_member_of(tape, 0, HX_SPAN_LIT("tools"), HX_JSON_ARRAY);
    ret_tools->at = hx_json_first(tape, ret_tools->array);
    /* Some servers say null for "no more". */
    ret_tools->has_more = hx_json_is(tape, cursor, HX_JSON_STRING);
    return hx_mcp_text_at(tape, cursor, arena, &ret_tools->next_cursor);
}

static enum hx_mcp_hint hint(const struct hx_json_tape *tape, uint32_t annotations,
                             struct hx_span name)
{
    bool value;
    if (!hx_json_bool(tape, hx_json_member(tape, annotations, name), &value))
        return HX_MCP_HINT_ABSENT;
    return value ? HX_MCP_HINT_TRUE : HX_MCP_HINT_FALSE;
}

int hx_mcp_task_read(struct hx_json_tape *tape, struct hx_span object,
                     const struct hx_json_limits *limits, struct hx_mcp_task *ret_task)
{
    static const struct hx_span names[] = {
        [HX_MCP_TASK_WORKING] = HX_SPAN_INIT("working"),
        [HX_MCP_TASK_COMPLETED] = HX_SPAN_INIT("completed"),
        [HX_MCP_TASK_FAILED] = HX_SPAN_INIT("failed"),
        [HX_MCP_TASK_CANCELLED] = HX_SPAN_INIT("cancelled"),
        [HX_MCP_TASK_OTHER] = HX_SPAN_INIT("input_required"),
    };
    bool is_read;
    *ret_task = (struct hx_mcp_task){.status = HX_MCP_TASK_OTHER};
    int rc = read_all(tape, object, limits, &is_read);
    if (rc < 0)
        return HX_TRACE(rc);
    uint32_t id =
        is_read ? hx_json_member_of(tape, 0, HX_SPAN_LIT("taskId"), HX_JSON_STRING) : HX_JSON_NONE;
    if (id == HX_JSON_NONE)
        return 1;
    uint32_t status = hx_json_member(tape, 0, HX_SPAN_LIT("status"));
    ret_task->id = hx_json_raw(tape, id);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (hx_json_is_text(tape, status, names[i]))
            ret_task->status =
                i == HX_MCP_TASK_OTHER ? HX_MCP_TASK_WORKING : (enum hx_mcp_task_status)i;
    }
    if (!hx_json_int64(tape, hx_json_member(tape, 0, HX_SPAN_LIT("pollInterval")),
                       &ret_task->poll_ms))
        ret_task->poll_ms = 0;
    return 0;
}

static enum hx_mcp_task_support task_support(const struct hx_json_tape *tape, uint32_t tool)
{
    uint32_t execution = hx_json_member_of(tape, tool, HX_SPAN_LIT("execution"), HX_JSON_OBJECT);
    uint32_t support = hx_json_member(tape, execution, HX_SPAN_LIT("taskSupport"));
    if (hx_json_is_text(tape, support, HX_SPAN_LIT("required")))
        return HX_MCP_TASK_REQUIRED;
    return hx_json_is_text(tape, support, HX_SPAN_LIT("optional")) ? HX_MCP_TASK_OPTIONAL
                                                                   : HX_MCP_TASK_FORBIDDEN;
}

int hx_mcp_tools_next(struct hx_mcp_tools *tools, struct hx_arena *arena,
                      struct hx_mcp_tool *ret_tool)
{
    const struct hx_json_tape *tape = tools->tape;
    while (tools->at != HX_JSON_NONE) {
        uint32_t tool = tools->at;
        tools->at = hx_json_next(tape, tools->array, tool);
        struct hx_mcp_text name;
        int rc =
            hx_mcp_text_at(tape, hx_json_member(tape, tool, HX_SPAN_LIT("name")), arena, &name);
        if (rc < 0)
            return HX_TRACE(rc);
        if (name.state != HX_MCP_TEXT_GIVEN)
            continue;
        uint32_t annotations = hx_json_member(tape, tool, HX_SPAN_LIT("annotations"));
        *ret_tool = (struct hx_mcp_tool){
            .name = name.text,
            .read_only = hint(tape, annotations, HX_SPAN_LIT("readOnlyHint")),
            .idempotent = hint(tape, annotations, HX_SPAN_LIT("idempotentHint")),
            .destructive = hint(tape, annotations, HX_SPAN_LIT("destructiveHint")),
            .task_support = task_support(tape, tool),
            .input_schema = hx_json_raw(
                tape, hx_json_member_of(tape, tool, HX_SPAN_LIT("inputSchema"), HX_JSON_OBJECT)),
            .raw = hx_json_raw(tape, tool),
        };
        return 1;
    }
    return 0;
}
