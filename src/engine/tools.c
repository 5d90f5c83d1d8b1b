/* SPDX-License-Identifier: MIT */
/*
 * What we know of the server's tools: the operator's rules, and the hints that the server lists.
 *
 * Names come from clients too, who may make up any number of them: what they named is bounded, with
 * room left for what a server lists. The hints are kept per link and only for what its server has
 * listed, and they go with it.
 */
#include "engine/internal.h"

enum { CALLED_MAX = 4096, LISTED_MAX = 64 * 1024, NAME_MAX_BYTES = 1024 };

struct hx_tool *hx_tool_get(struct hx_server *server, struct hx_span name)
{
    struct hx_map_node *node = hx_map_find(&server->tools, name);
    if (node != NULL)
        return hx_container_of(node, struct hx_tool, node);
    struct hx_tool *tool = hx_new(struct hx_tool);
    tool->server = server;
    tool->name = hx_span_strdup(name);
    server->options.rules_for(server->options.context, hx_span(tool->name, name.len), &tool->rules);
    hx_map_insert(&server->tools, &tool->node, hx_span(tool->name, name.len));
    return tool;
}

/* The ledger and the hints know a tool by its C string, so behind a NUL one name would be two. */
static bool has_nul(struct hx_span name)
{
    return hx_span_contains(name, hx_span("", 1));
}

struct hx_tool *hx_tool_called(struct hx_server *server, struct hx_span name)
{
    bool is_known = hx_map_find(&server->tools, name) != NULL;
    bool is_refused =
        server->tools.count >= CALLED_MAX || name.len > NAME_MAX_BYTES || has_nul(name);
    return is_known || !is_refused ? hx_tool_get(server, name) : NULL;
}

static struct hx_hint *find_hint(const struct hx_link *link, const struct hx_tool *tool)
{
    struct hx_map_node *node = hx_map_find(&link->hints, hx_span_cstr(tool->name));
    return node ? hx_container_of(node, struct hx_hint, node) : NULL;
}

enum hx_mcp_task_support hx_tool_task_support(const struct hx_link *link,
                                              const struct hx_tool *tool)
{
    const struct hx_hint *hint = find_hint(link, tool);
    return hint != NULL ? hint->task_support : HX_MCP_TASK_FORBIDDEN;
}

enum hx_tool_class hx_rules_class(const struct hx_tool_rules *rules, enum hx_hints believed,
                                  enum hx_mcp_hint read_only, enum hx_mcp_hint idempotent)
{
    if (rules->is_class_declared || believed == HX_HINTS_IGNORE)
        return rules->contract.tool_class;
    if (read_only == HX_MCP_HINT_TRUE)
        return HX_CLASS_READ_ONLY;
    if (believed == HX_HINTS_TRUST && idempotent == HX_MCP_HINT_TRUE)
        return HX_CLASS_IDEMPOTENT;
    return rules->contract.tool_class;
}

enum hx_tool_class hx_tool_class_of(const struct hx_link *link, const struct hx_tool *tool)
{
    const struct hx_hint *hint = find_hint(link, tool);
    enum hx_mcp_hint read_only = hint != NULL ? hint->read_only : HX_MCP_HINT_ABSENT;
    /* What passes through is not followed, and a task must be. */
    if (hx_task_is_wanted(link, tool))
        read_only = HX_MCP_HINT_ABSENT;
    return hx_rules_class(&tool->rules, link->server->options.hints, read_only,
                          hint != NULL ? hint->idempotent : HX_MCP_HINT_ABSENT);
}

void hx_tools_forget_hints(struct hx_link *link)
{
    struct hx_map_node *at = NULL;
    while ((at = hx_map_next(&link->hints, NULL)) != NULL) {
        hx_map_remove(&link->hints, at);
        hx_free(hx_container_of(at, struct hx_hint, node));
    }
}

void hx_tools_learn(struct hx_link *link, struct hx_span result)
{
    struct hx_gateway *gateway = link->gateway;
    struct hx_mcp_tools tools;
    if (hx_mcp_tools_read(&gateway->scratch, result, &gateway->part_limits, &gateway->arena,
                          &tools) < 0)
        return;
    struct hx_mcp_tool listed;
    while (hx_mcp_tools_next(&tools, &gateway->arena, &listed) == 1) {
        bool is_known = hx_map_find(&link->server->tools, listed.name) != NULL;
        bool is_full = link->server->tools.count >= LISTED_MAX;
        bool is_long = listed.name.len > NAME_MAX_BYTES;
        if (!is_known && (is_full || is_long || has_nul(listed.name)))
            continue;
        struct hx_tool *tool = hx_tool_get(link->server, listed.name);
        struct hx_hint *hint = find_hint(link, tool);
        if (hint == NULL) {
            hint = hx_new(struct hx_hint);
            hint->tool = tool;
            hx_map_insert(&link->hints, &hint->node, hx_span_cstr(tool->name));
        }
        hint->read_only = listed.read_only;
        hint->idempotent = listed.idempotent;
        hint->task_support = listed.task_support;
    }
}

bool hx_tools_want_key(void *context, struct hx_span name, struct hx_span *ret_property)
{
    struct hx_link *link = context;
    struct hx_server *server = link->server;
    struct hx_map_node *node = hx_map_find(&server->tools, name);
    struct hx_tool_rules rules;
    enum hx_tool_class class;
    if (node != NULL) {
        const struct hx_tool *tool = hx_container_of(node, struct hx_tool, node);
        rules = tool->rules;
        class = hx_tool_class_of(link, tool);
    } else {
        /* There was no room for it, and this makes none: a server may list names without end. */
        server->options.rules_for(server->options.context, name, &rules);
        class =
            hx_rules_class(&rules, server->options.hints, HX_MCP_HINT_ABSENT, HX_MCP_HINT_ABSENT);
    }
    bool is_wanted = !hx_span_is_absent(rules.inject_key) && class != HX_CLASS_READ_ONLY;
    /* The pointer has one step, so behind its slash stands the name. */
    if (is_wanted)
        *ret_property = hx_span(rules.inject_key.ptr + 1, rules.inject_key.len - 1);
    return is_wanted;
}
