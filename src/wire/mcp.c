/* SPDX-License-Identifier: MIT */
/* Revisions and method names: tables, and lookups in them. */
#include "wire/mcp.h"

#include "base/fault.h"

#define REVISION(id, text, ...)                                                                    \
    [HX_MCP_##id] = {.revision = HX_MCP_##id, .name = {text, sizeof(text) - 1}, __VA_ARGS__}

static const struct hx_mcp_facts facts[] = {
    [HX_MCP_UNKNOWN] = {.revision = HX_MCP_UNKNOWN,
                        .has_handshake = true,
                        .may_omit_error_id = true,
                        .has_elicitation = true,
                        .has_progress_message = true,
                        .has_server_requests = true,
                        .has_core_tasks = true},
    REVISION(2024_11_05, "2024-11-05", .has_handshake = true, .has_server_requests = true),
    REVISION(2025_03_26, "2025-03-26", .has_handshake = true, .may_batch = true,
             .has_progress_message = true, .has_server_requests = true),
    REVISION(2025_06_18, "2025-06-18", .has_handshake = true, .has_elicitation = true,
             .has_progress_message = true, .has_server_requests = true),
    REVISION(2025_11_25, "2025-11-25", .has_handshake = true, .may_omit_error_id = true,
             .has_elicitation = true, .has_progress_message = true, .has_server_requests = true,
             .has_core_tasks = true),
    REVISION(2026_07_28, "2026-07-28", .may_omit_error_id = true, .has_elicitation = true,
             .has_progress_message = true, .has_result_type = true),
};

const struct hx_mcp_facts *hx_mcp_facts(enum hx_mcp_revision revision)
{
    hx_assert((size_t)revision < sizeof(facts) / sizeof(facts[0]));
    return &facts[revision];
}

enum hx_mcp_revision hx_mcp_revision_parse(struct hx_span name)
{
    for (size_t i = HX_MCP_UNKNOWN + 1; i < sizeof(facts) / sizeof(facts[0]); i++) {
        if (hx_span_eq(facts[i].name, name))
            return facts[i].revision;
    }
    return HX_MCP_UNKNOWN;
}

static const char *const method_names[] = {
    [HX_MCP_METHOD_OTHER] = NULL,
    [HX_MCP_INITIALIZE] = "initialize",
    [HX_MCP_INITIALIZED] = "notifications/initialized",
    [HX_MCP_PING] = "ping",
    [HX_MCP_TOOLS_LIST] = "tools/list",
    [HX_MCP_TOOLS_CALL] = "tools/call",
    [HX_MCP_TOOLS_LIST_CHANGED] = "notifications/tools/list_changed",
    [HX_MCP_CANCELLED] = "notifications/cancelled",
    [HX_MCP_PROGRESS] = "notifications/progress",
    [HX_MCP_LOG_MESSAGE] = "notifications/message",
    [HX_MCP_SET_LEVEL] = "logging/setLevel",
    [HX_MCP_ELICITATION_CREATE] = "elicitation/create",
    [HX_MCP_SAMPLING_CREATE] = "sampling/createMessage",
    [HX_MCP_ROOTS_LIST] = "roots/list",
    [HX_MCP_ROOTS_LIST_CHANGED] = "notifications/roots/list_changed",
    [HX_MCP_RESOURCES_SUBSCRIBE] = "resources/subscribe",
    [HX_MCP_TASKS_GET] = "tasks/get",
    [HX_MCP_TASKS_RESULT] = "tasks/result",
    [HX_MCP_TASKS_LIST] = "tasks/list",
    [HX_MCP_TASKS_CANCEL] = "tasks/cancel",
    [HX_MCP_TASKS_STATUS] = "notifications/tasks/status",
    [HX_MCP_HAPAX_GET] = "hapax/operations/get",
    [HX_MCP_HAPAX_LIST] = "hapax/operations/list",
    [HX_MCP_HAPAX_CANCEL] = "hapax/operations/cancel",
    [HX_MCP_HAPAX_ACKNOWLEDGE] = "hapax/operations/acknowledge",
    [HX_MCP_HAPAX_BEGIN] = "hapax/operations/begin",
};
_Static_assert(sizeof(method_names) / sizeof(method_names[0]) == HX_MCP_METHOD_COUNT,
               "each method has a name");

enum hx_mcp_method hx_mcp_method_parse(struct hx_span method)
{
    for (int i = HX_MCP_METHOD_OTHER + 1; i < HX_MCP_METHOD_COUNT; i++) {
        if (hx_span_eq_cstr(method, method_names[i]))
            return (enum hx_mcp_method)i;
    }
    return HX_MCP_METHOD_OTHER;
}

bool hx_mcp_is_harmless(enum hx_mcp_method method, struct hx_span name)
{
    static const enum hx_mcp_method known[] = {
        HX_MCP_INITIALIZE, HX_MCP_PING,         HX_MCP_TOOLS_LIST, HX_MCP_SET_LEVEL,
        HX_MCP_TASKS_GET,  HX_MCP_TASKS_RESULT, HX_MCP_TASKS_LIST, HX_MCP_RESOURCES_SUBSCRIBE,
        HX_MCP_HAPAX_GET,  HX_MCP_HAPAX_LIST};
    static const char *const others[] = {
        "prompts/list",   "prompts/get",         "resources/list",       "resources/templates/list",
        "resources/read", "completion/complete", "resources/unsubscribe"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (method == known[i])
            return true;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (hx_span_eq_cstr(name, others[i]))
            return true;
    }
    return false;
}

struct hx_span hx_mcp_method_name(enum hx_mcp_method method)
{
    hx_assert(method < HX_MCP_METHOD_COUNT);
    return hx_span_cstr(method_names[method]);
}

int hx_mcp_text_at(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                   struct hx_mcp_text *ret_text)
{
    *ret_text = (struct hx_mcp_text){.state = HX_MCP_TEXT_ABSENT, .text = HX_SPAN_NONE};
    if (index == HX_JSON_NONE)
        return 0;
    ret_text->state = HX_MCP_TEXT_BAD;
    if (!hx_json_is(tape, index, HX_JSON_STRING) ||
        (hx_json_at(tape, index)->flags & HX_JSON_HAS_LONE_SURROGATE) != 0)
        return 0;
    int rc = hx_json_string(tape, index, arena, &ret_text->text);
    if (rc == 0)
        ret_text->state = HX_MCP_TEXT_GIVEN;
    return HX_TRACE(rc);
}
