/* SPDX-License-Identifier: MIT */
/*
 * What we know of the server's tools: the operator's rules, and the hints that the server lists.
 */
#include "engine/internal.h"

struct hx_tool *hx_tool_get(struct hx_gateway *gateway, struct hx_span name)
{
    struct hx_map_node *node = hx_map_find(&gateway->tools, name);
    if (node != NULL)
        return hx_container_of(node, struct hx_tool, node);
    struct hx_tool *tool = hx_new(struct hx_tool);
    tool->name = hx_span_strdup(name);
    gateway->options.rules_for(gateway->options.context, hx_span(tool->name, name.len),
                               &tool->rules);
    hx_map_insert(&gateway->tools, &tool->node, hx_span(tool->name, name.len));
    return tool;
}

enum hx_tool_class hx_tool_class_of(const struct hx_gateway *gateway, const struct hx_tool *tool)
{
    enum hx_hints hints = gateway->options.hints;
    if (tool->rules.is_class_declared || hints == HX_HINTS_IGNORE)
        return tool->rules.contract.tool_class;
    if (tool->read_only == HX_MCP_HINT_TRUE)
        return HX_CLASS_READ_ONLY;
    if (hints == HX_HINTS_TRUST && tool->idempotent == HX_MCP_HINT_TRUE)
        return HX_CLASS_IDEMPOTENT;
    return tool->rules.contract.tool_class;
}

void hx_tools_forget_hints(struct hx_gateway *gateway)
{
    struct hx_map_node *at = NULL;
    while ((at = hx_map_next(&gateway->tools, at)) != NULL) {
        struct hx_tool *tool = hx_container_of(at, struct hx_tool, node);
        tool->read_only = HX_MCP_HINT_ABSENT;
        tool->idempotent = HX_MCP_HINT_ABSENT;
    }
}

void hx_tools_learn(struct hx_gateway *gateway, struct hx_span result)
{
    struct hx_mcp_tools tools;
    if (hx_mcp_tools_read(&gateway->scratch, result, &gateway->part_limits, &gateway->arena,
                          &tools) < 0)
        return;
    struct hx_mcp_tool listed;
    while (hx_mcp_tools_next(&tools, &gateway->arena, &listed) == 1) {
        struct hx_tool *tool = hx_tool_get(gateway, listed.name);
        tool->read_only = listed.read_only;
        tool->idempotent = listed.idempotent;
    }
}

bool hx_tools_want_key(void *context, struct hx_span name, struct hx_span *ret_property)
{
    struct hx_gateway *gateway = context;
    struct hx_tool *tool = hx_tool_get(gateway, name);
    bool is_wanted = !hx_span_is_absent(tool->rules.inject_key) &&
                     hx_tool_class_of(gateway, tool) != HX_CLASS_READ_ONLY;
    /* The pointer has one step, so behind its slash stands the name. */
    if (is_wanted)
        *ret_property = hx_span(tool->rules.inject_key.ptr + 1, tool->rules.inject_key.len - 1);
    return is_wanted;
}
