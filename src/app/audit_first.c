/* SPDX-License-Identifier: MIT */
#include "app/audit_first.h"

#include <stdio.h>
#include <string.h>

#include "app/audit_stage.h"
#include "wire/mcp.h"

enum { PAGES_MAX = 20, CALL_ID = 40, LIST_MS = 30000, ARENA_MAX = 32 << 20, MESSAGE_MAX = 1 << 20 };

_Static_assert(CALL_ID > PAGES_MAX && CALL_ID < HX_MCP_ANSWERS_MAX, "each request has its id");

static void read_welcome(struct hx_audit_stage *stage, struct hx_arena *arena)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_audit_facts *facts = &stage->seen->facts;
    struct hx_mcp_initialize_result result;
    if (hx_mcp_initialize_result_read(&stage->client.tape, hx_buf_span(&stage->client.kept),
                                      &limits, arena, &result) != 0)
        return;
    facts->has_operations = result.has_operations_extension;
    facts->has_idempotency = result.has_idempotency;
    if (result.server_name.state == HX_MCP_TEXT_GIVEN)
        snprintf(facts->server, sizeof(facts->server), "%.*s",
                 HX_SPAN_FMT(result.server_name.text));
}

static void take_tool(struct hx_audit_stage *stage, const struct hx_mcp_tool *tool)
{
    struct hx_audit_facts *facts = &stage->seen->facts;
    size_t used = strlen(facts->tools);
    snprintf(facts->tools + used, sizeof(facts->tools) - used, "%s%.*s", used ? ", " : "",
             HX_SPAN_FMT(tool->name));
    if (!hx_span_eq_cstr(tool->name, stage->plan->tool))
        return;
    facts->has_tool = true;
    facts->is_read_only = tool->read_only == HX_MCP_HINT_TRUE;
    facts->is_idempotent = tool->idempotent == HX_MCP_HINT_TRUE;
}

/* One page; its cursor, as raw JSON, into `cursor`, which is empty when there is no other page. */
static bool read_page(struct hx_audit_stage *stage, struct hx_arena *arena, struct hx_buf *cursor)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_mcp_tools tools;
    struct hx_mcp_tool tool;
    hx_buf_reset(cursor);
    if (hx_mcp_tools_read(&stage->client.tape, hx_buf_span(&stage->client.kept), &limits, arena,
                          &tools) != 0)
        return false;
    while (hx_mcp_tools_next(&tools, arena, &tool) > 0)
        take_tool(stage, &tool);
    uint32_t next = hx_json_member(&stage->client.tape, 0, HX_SPAN_LIT("nextCursor"));
    if (hx_json_is(&stage->client.tape, next, HX_JSON_STRING))
        hx_buf_append_span(cursor, hx_json_raw(&stage->client.tape, next));
    return hx_buf_ok(cursor);
}

static bool read_tools(struct hx_audit_stage *stage, struct hx_arena *arena)
{
    struct hx_buf message;
    struct hx_buf cursor;
    bool is_good = true;
    hx_buf_init(&message, MESSAGE_MAX);
    hx_buf_init(&cursor, MESSAGE_MAX / 2);
    for (unsigned id = 1; is_good && id <= PAGES_MAX && (id == 1 || cursor.len > 0); id++) {
        hx_buf_reset(&message);
        hx_buf_printf(&message,
                      "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/list\","
                      "\"params\":{%s%.*s}}",
                      id, cursor.len ? "\"cursor\":" : "", HX_SPAN_FMT(hx_buf_span(&cursor)));
        stage->client.kept_id = id;
        is_good = hx_buf_ok(&message) &&
                  hx_mcp_client_say(&stage->client, hx_buf_span(&message), id, HX_SPAN_LIT("")) &&
                  hx_mcp_client_wait(&stage->client, id, hx_mono_after(hx_mcp_now(), LIST_MS)) &&
                  read_page(stage, arena, &cursor);
    }
    hx_buf_fini(&message);
    hx_buf_fini(&cursor);
    return is_good || hx_audit_fail(stage, "the server did not list its tools");
}

static bool look_at_server(struct hx_audit_stage *stage)
{
    struct hx_arena arena;
    hx_arena_init(&arena, ARENA_MAX);
    read_welcome(stage, &arena);
    bool is_good = read_tools(stage, &arena);
    hx_arena_fini(&arena);
    if (!is_good)
        return false;
    return stage->seen->facts.has_tool ||
           hx_audit_fail(stage, "the server has no tool '%.60s'; it has %.100s", stage->plan->tool,
                         stage->seen->facts.tools);
}

bool hx_audit_play_first(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    struct hx_audit_seen *seen = stage->seen;
    (void)trial;
    if (!hx_audit_connect(stage) || !look_at_server(stage) || !hx_audit_call(stage, CALL_ID, 1))
        return false;
    hx_audit_listen(stage, CALL_ID);
    seen->facts.answer_ms = hx_mono_since_ms(hx_mcp_now(), stage->sent);
    if (seen->told == HX_AUDIT_TOLD_NOTHING)
        return hx_audit_fail(stage, "the call got no answer: %.100s", seen->words);
    if (seen->told != HX_AUDIT_TOLD_DONE)
        return hx_audit_fail(stage, "the call got no result: %.150s", seen->words);
    if (!hx_audit_look_for(stage, 1))
        return false;
    return seen->effects == 1 ||
           hx_audit_fail(stage,
                         "one call raised the number that --count prints by %lld, not by 1%s",
                         (long long)seen->effects,
                         seen->facts.is_read_only ? " (the tool says that it only reads)" : "");
}
